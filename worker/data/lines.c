/* lines.c: cuts a range of a source into rows. */
#include "worker/data/lines.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "worker/data/quotes.h"
#include "worker/data/taken.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WINDOW_BYTES (256u << 10) /* bytes of one read: fits the second-level cache */
#define BUFFER_BYTES (LIMIT_LINE_BYTES + WINDOW_BYTES)
#define RECORD_BYTES (LIMIT_LINE_BYTES * (1 + RECORD_ROOM) + 1) /* behind the buffer: a record */

_Static_assert(LIMIT_LINE_BYTES == 1048576, "the sentences below name it");
static const char fault_long[] = "the line is longer than 1048576 bytes",
                  fault_long_record[] = "the record is longer than 1048576 bytes",
                  fault_sum[] = "the checksum of the record is wrong: the file is damaged; fetch "
                                "it again";

int lines_init(struct lines *l, struct err *e)
{
    /* pages that no line needs are never touched */
    *l = (struct lines){.buffer = malloc(BUFFER_BYTES + RECORD_BYTES)};

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

    l->head_due = l->form.header && l->at == f->base;
    l->rest_due = false;
}

void lines_start(struct lines *l, const struct source *s, struct row_form form, uint64_t at,
                 uint64_t end, uint64_t number)
{
    SHOAL_ASSERT(at <= end && end <= s->bytes);
    l->source = s;
    l->form = form;
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

/* True when the csv line at the head has a quoted cell that is open at its end. */
static bool is_open(const struct lines *l, const char *text, size_t bytes)
{
    const char *delimiter = l->form.delimiter;
    if (bytes == 0 || memchr(text, '"', bytes) == NULL)
        return false;
    enum quotes_end end = QUOTES_IRREGULAR;
    if (delimiter[1] == '\0')
        end = quotes_look(delimiter[0], text, bytes);
    if (end != QUOTES_IRREGULAR)
        return end == QUOTES_OPEN;
    struct csv_walk w = {0};
    framing_walk(&w, delimiter, text, bytes);
    return framing_open(&w);
}

/* The length of a line without the "\r" of its end. */
static size_t without_return(const char *text, size_t bytes)
{
    return bytes - (bytes > 0 && text[bytes - 1] == '\r');
}

/* True when the csv line at the head that ends at `first`, and the one from `at` to `newline`, are
 * rows by themselves with their quotes as text. */
static bool are_rows(const struct lines *l, size_t first, size_t at, size_t newline)
{
    const char *text = l->buffer + l->head;
    return framing_is_row(&l->form, text, without_return(text, first), true) &&
           framing_is_row(&l->form, text + at, without_return(text + at, newline - at), true);
}

/* Tries to end the csv row whose first line is [0, *taken) behind the head: *lines, *bytes and
 * *taken become those of the whole row, or stay as they are where it is none (framing.h). */
static int row_join(struct lines *l, size_t *bytes, size_t *taken, uint64_t *lines, struct err *e)
{
    struct csv_walk w = {0};
    size_t at = 0, newline = *bytes; /* offsets from the head, which moves as the buffer fills */
    uint64_t count = 1;
    bool text_between = false;
    for (;;) {
        const char *text = l->buffer + l->head;
        size_t length = without_return(text + at, newline - at);
        framing_walk(&w, l->form.delimiter, text + at, length);
        if (!framing_open(&w))
            break;
        if (newline == l->tail - l->head) /* the file ends here, without a newline */
            return 0;
        if (count > 1 && framing_is_row(&l->form, text + at, length, false))
            return 0;
        text_between |= count > 1 && length > 0;
        at = newline + 1;
        size_t looked = at, have = l->tail - l->head;
        const char *next = NULL;
        while (next == NULL) {
            next = memchr(l->buffer + l->head + looked, '\n', have - looked);
            if (next != NULL || have > LIMIT_LINE_BYTES || l->at == l->piece_end)
                break;
            looked = have;
            int rc = fill(l, e);
            if (rc != 0)
                return rc;
            have = l->tail - l->head;
        }
        newline = have;
        if (next != NULL)
            newline = (size_t)(next - (l->buffer + l->head));
        if (newline > LIMIT_LINE_BYTES || at >= have)
            return 0;
        count++;
    }
    if (count == 1 || !framing_whole(&w, l->form.columns) ||
        (!text_between && are_rows(l, *bytes, at, newline)))
        return 0;
    *lines = count;
    *bytes = newline;
    *taken = MIN(newline + 1, l->tail - l->head);
    return 0;
}

static int line_next(struct lines *l, struct line *out, struct err *e)
{
    for (;;) {
        if (l->head == l->tail && l->at == l->piece_end) {
            if (l->at >= l->end)
                return SHOAL_E_END;
            enter_file(l, source_file_at(l->source, l->at));
            l->number = 0;
        }
        size_t bytes, taken;
        uint64_t lines = 1;
        int rc = cut(l, &bytes, &taken, e);
        if (rc == 0 && l->form.framing == FRAMING_CSV && l->form.columns > 0 && taken > bytes &&
            !l->source->file[l->file].messages && !l->rest_due && !l->head_due &&
            bytes <= LIMIT_LINE_BYTES && is_open(l, l->buffer + l->head, bytes))
            rc = row_join(l, &bytes, &taken, &lines, e);
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
        uint64_t number = l->number + 1;
        l->number += lines;
        const char *fault = NULL;
        if (bytes > LIMIT_LINE_BYTES) {
            fault = fault_long;
            bytes = LIMIT_LINE_BYTES;
        } else {
            bytes = without_return(text, bytes);
        }
        if (bytes == 0 || (l->form.comments && *text == '#'))
            continue;
        if (l->head_due) {
            l->head_due = false;
            continue;
        }
        *out = (struct line){text, (uint32_t)bytes, fault, l->file, number, at};
        return 0;
    }
}

/* ---- records --------------------------------------------------------------------------------- */

/* Reads on until `bytes` lie behind the head, or all that the file has. */
static int need(struct lines *l, size_t bytes, struct err *e)
{
    int rc = 0;
    while (rc == 0 && l->tail - l->head < bytes && l->at < l->piece_end)
        rc = fill(l, e);
    return rc;
}

static int record_fault(const struct lines *l, const char *what, struct err *e)
{
    const struct source_file *f = &l->source->file[l->file];
    return err_set(e, SHOAL_E_DATA,
                   "%s: record %" PRIu64 ", at byte %" PRIu64 ": %s; fetch the file again, or look "
                   "at data.format",
                   f->name, l->number + 1, lines_position(l) - f->base, what);
}

/* Moves the head over `bytes`, which need not have been read. */
static void skip(struct lines *l, uint64_t bytes)
{
    uint64_t held = l->tail - l->head;
    l->head += (size_t)MIN(bytes, held);
    if (bytes > held)
        l->at += bytes - held;
}

static int record_next(struct lines *l, struct line *out, struct err *e)
{
    uint64_t bytes, at = lines_position(l);
    if (at == l->piece_end) {
        if (at >= l->end)
            return SHOAL_E_END;
        enter_file(l, source_file_at(l->source, at));
        l->number = 0;
    }
    int rc = need(l, RECORD_HEAD_BYTES, e);
    if (rc != 0)
        return rc;
    if (l->tail - l->head < RECORD_HEAD_BYTES)
        return record_fault(l, "the file ends within the length of a TFRecord", e);
    if (!framing_record_head(l->buffer + l->head, &bytes))
        return record_fault(l, "no TFRecord begins here, its length has a wrong checksum", e);
    uint64_t left = l->piece_end - at - RECORD_HEAD_BYTES;
    if (left < RECORD_TAIL_BYTES || bytes > left - RECORD_TAIL_BYTES)
        return record_fault(l, "the file ends within a TFRecord", e);

    *out = (struct line){l->buffer + BUFFER_BYTES,
                         (uint32_t)MIN(bytes, LIMIT_LINE_BYTES),
                         NULL,
                         l->file,
                         ++l->number,
                         at};
    uint64_t all = RECORD_HEAD_BYTES + bytes + RECORD_TAIL_BYTES;
    rc = need(l, (size_t)MIN(all, LIMIT_LINE_BYTES + RECORD_HEAD_BYTES + RECORD_TAIL_BYTES), e);
    if (rc != 0)
        return rc;
    const char *data = l->buffer + l->head + RECORD_HEAD_BYTES;
    memcpy(out->text, data, out->bytes);
    if (bytes > LIMIT_LINE_BYTES)
        out->fault = fault_long_record;
    else if (!framing_record_sound(data, bytes, data + bytes))
        out->fault = fault_sum;
    skip(l, all);
    return 0;
}

int lines_next(struct lines *l, struct line *out, struct err *e)
{
    if (l->form.framing == FRAMING_TFRECORD)
        return record_next(l, out, e);

    return line_next(l, out, e);
}
