/* lines.c: cuts a range of a source into lines. */
#include "worker/data/lines.h"

#include "proto/base/assert.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_BYTES (256u << 10) /* bytes of one read: fits the second-level cache */
#define BUFFER_BYTES (LIMIT_LINE_BYTES + WINDOW_BYTES)

int lines_init(struct lines *l, struct err *e)
{
    /* pages that no line needs are never touched */
    *l = (struct lines){.buffer = malloc(BUFFER_BYTES)};

    if (l->buffer != NULL)
        return 0;

    return err_set(e, SHOAL_E_NOMEM, "no memory to read lines; free some");
}

void lines_free(struct lines *l)
{
    free(l->buffer);
    *l = (struct lines){0};
}

static void enter_file(struct lines *l, uint32_t file)
{
    const struct source_file *f = &l->source->file[file];
    SHOAL_ASSERT(l->at >= f->base && l->at - f->base < f->bytes);
    l->file = file;
    if (l->end < f->base + f->bytes)
        l->piece_end = l->end;
    else
        l->piece_end = f->base + f->bytes;

    l->head_due = l->header && l->at == f->base;
    l->rest_due = false;
}

void lines_start(struct lines *l, const struct source *s, bool header, uint64_t at, uint64_t end,
                 uint64_t number)
{
    SHOAL_ASSERT(at <= end && end <= s->bytes);
    l->source = s;
    l->header = header;
    l->head = l->tail = 0;
    l->at = at;
    l->end = end;
    l->number = number;
    if (at < end)
        enter_file(l, source_file_at(s, at));
}

static int fill(struct lines *l, struct err *e)
{
    const struct source_file *f = &l->source->file[l->file];
    if (l->head > 0) {
        memmove(l->buffer, l->buffer + l->head, l->tail - l->head);
        l->tail -= l->head;
        l->head = 0;
    }
    size_t room = BUFFER_BYTES - l->tail;
    uint64_t want = l->piece_end - l->at;
    if (want > WINDOW_BYTES)
        want = WINDOW_BYTES;
    if (want > room)
        want = room;
    SHOAL_ASSERT(want > 0);
    bool timed = l->clock_ns != NULL && l->fills++ % LINES_TIMED == 0;
    uint64_t begin = 0;
    if (timed)
        begin = l->clock_ns();

    ssize_t n;
    do
        n = pread(f->fd, l->buffer + l->tail, (size_t)want, (off_t)(l->at - f->base));
    while (n < 0 && errno == EINTR);
    if (timed)
        l->file_ns += LINES_TIMED * (l->clock_ns() - begin);
    if (n < 0)
        return err_set(e, SHOAL_E_IO, "%s: %s; check the disk", f->name, strerror(errno));
    if (n == 0)
        return err_set(e, SHOAL_E_CHECKSUM,
                       "%s: shorter than when it was indexed; leave the input alone while a job "
                       "runs, and start it again",
                       f->name);
    l->tail += (size_t)n;
    l->at += (uint64_t)n;
    taken_note((uint64_t)n);
    SHOAL_ASSERT(l->at <= l->piece_end && l->tail <= BUFFER_BYTES);
    return 0;
}

/* Finds the end of the next line: *bytes without and *taken with the newline. Both are 0 at the end
 * of the range. */
static int cut(struct lines *l, size_t *bytes, size_t *taken, struct err *e)
{
    size_t looked = 0;
    for (;;) {
        size_t have = l->tail - l->head;
        char *start = l->buffer + l->head;
        char *newline = NULL;
        if (have > looked)
            newline = memchr(start + looked, '\n', have - looked);
        if (newline != NULL) {
            *bytes = (size_t)(newline - start);
            *taken = *bytes + 1;
            return 0;
        }
        if (have > LIMIT_LINE_BYTES || l->at == l->piece_end) {
            *bytes = *taken = have;
            return 0;
        }
        looked = have;
        int rc = fill(l, e);
        if (rc != 0)
            return rc;
    }
}

int lines_next(struct lines *l, struct line *out, struct err *e)
{
    for (;;) {
        if (l->head == l->tail && l->at == l->piece_end) {
            if (l->at >= l->end)
                return SHOAL_E_END;
            enter_file(l, source_file_at(l->source, l->at));
            l->number = 0;
        }
        size_t bytes, taken;
        int rc = cut(l, &bytes, &taken, e);
        if (rc != 0)
            return rc;
        bool whole = taken > bytes, rest = l->rest_due;
        uint64_t at = l->at - (l->tail - l->head);
        char *text = l->buffer + l->head;
        l->head += taken;
        /* A piece without a newline before the end of the file is the start or the middle of a line
         * that is too long. */
        l->rest_due = !whole && (l->head < l->tail || l->at < l->piece_end);
        if (rest)
            continue;
        l->number++;
        bool too_long = bytes > LIMIT_LINE_BYTES;
        if (too_long)
            bytes = LIMIT_LINE_BYTES;
        else if (bytes > 0 && text[bytes - 1] == '\r')
            bytes--;
        if (bytes == 0)
            continue;
        if (l->head_due) {
            l->head_due = false;
            continue;
        }
        *out = (struct line){text, (uint32_t)bytes, too_long, l->file, l->number, at};
        return 0;
    }
}
