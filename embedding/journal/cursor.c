/* cursor.c: reads one record after another. Invariants 1 to 3: cursor.h.
 *
 * There is a gap where the records of a segment end before the sequence that the next segment's
 * head names as previous, or where the last segment has records behind a place that does not check.
 * `judge` decides once, at the gap, whether it is damage; no record behind it is ever returned. */
#include "embedding/journal/cursor.h"

#include "embedding/journal/journal_inner.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_BYTES_MAX (1u << 30)
#define WINDOW_BYTES (1u << 20)

/* ---- files ---- */

int cursor_gather(const struct archive *a, const struct journal *j, struct journal_files *out,
                  struct err *e)
{
    uint32_t archived = 0, own = 0;
    if (a != NULL)
        archived = archive_count(a);
    if (j != NULL)
        own = j->count;
    *out = (struct journal_files){.file = calloc(archived + own + 1, sizeof *out->file)};
    if (out->file == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to list the journal");
    for (; out->count < archived; out->count++) {
        struct journal_file *f = &out->file[out->count];
        f->fd = -1;
        archive_path(a, out->count, f->path, &f->generation);
    }
    for (uint32_t i = 0; i < own; i++) {
        struct journal_file *f = &out->file[out->count];
        f->generation = j->segment[i].generation;
        f->bytes = j->segment[i].bytes;
        segment_path(j, f->generation, f->path);
        if (j->next == 0)
            f->fd = -1;
        else
            f->fd = open(f->path, O_RDONLY | O_CLOEXEC);
        if (f->fd < 0 && j->next != 0) {
            err_set(e, SHOAL_E_IO, "cannot open journal segment %s: %s", f->path, strerror(errno));
            cursor_files_free(out);
            return SHOAL_E_IO;
        }
        out->count++;
    }
    SHOAL_ASSERT(out->count == archived + own);
    return 0;
}

void cursor_files_free(struct journal_files *f)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (f->file[i].fd >= 0)
            close(f->file[i].fd);
    free(f->file);
    *f = (struct journal_files){0};
}

static bool head_read(int fd, const struct journal_file *f, struct segment_header *h)
{
    return pread(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h &&
           record_segment_good(h, f->generation);
}

/* Reads the head of a file that is not the current one. */
static bool head_peek(const struct journal_file *f, struct segment_header *h)
{
    int fd;
    if (f->fd >= 0)
        fd = f->fd;
    else
        fd = open(f->path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && head_read(fd, f, h);
    if (fd >= 0 && fd != f->fd)
        close(fd);
    return good;
}

static void source_close(struct journal_cursor *c)
{
    if (c->open && c->own)
        close(c->fd);
    c->open = false;
    c->held = 0;
}

/* Makes c->file the current file, at its first record. */
static int source_open(struct journal_cursor *c, struct err *e)
{
    SHOAL_ASSERT(c->file < c->files->count);
    const struct journal_file *f = &c->files->file[c->file];
    struct segment_header h;
    struct stat st;
    source_close(c);
    c->own = f->fd < 0;
    c->fd = f->fd;
    if (c->own)
        c->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    c->open = c->fd >= 0;
    if (!c->open || fstat(c->fd, &st) != 0 || st.st_size > SEGMENT_BYTES_MAX)
        return err_set(e, SHOAL_E_IO, "cannot read journal segment %s: %s", f->path,
                       c->open ? "not a segment's size" : strerror(errno));
    if (f->bytes != 0 && f->bytes < (uint64_t)st.st_size)
        c->size = f->bytes;
    else
        c->size = (uint64_t)st.st_size;

    c->at = c->next = SEGMENT_HEADER_BYTES;
    c->good = head_read(c->fd, f, &h);
    if (c->good && (h.version < JOURNAL_VERSION_LEAST || h.version > JOURNAL_VERSION)) /* 3 */
        return err_set(e, SHOAL_E_VERSION,
                       "journal segment %s has version %u, this Shoal reads %u to %u: it was "
                       "written by %s; start that one",
                       f->path, h.version, JOURNAL_VERSION_LEAST, JOURNAL_VERSION,
                       h.version > JOURNAL_VERSION ? "a later one" : "a release before 0.2.0");
    if (c->good)
        c->last = h.first - 1;
    return 0;
}

/* ---- the window ---- */

/* *out: `bytes` bytes of the current file at `at`, which must exist. IO, NOMEM. */
static int window(struct journal_cursor *c, uint64_t at, size_t bytes, char **out, struct err *e)
{
    SHOAL_ASSERT(at <= c->size && bytes <= c->size - at);
    if (bytes == 0) { /* there may be no buffer yet */
        *out = c->buffer;
        return 0;
    }
    if (c->held == 0 || at < c->held_at || at + bytes > c->held_at + c->held) {
        size_t want = bytes, kept = 0;
        if (c->reads == CURSOR_WHOLE)
            want = MAX(bytes, WINDOW_BYTES);
        want = MIN(want, c->size - at);
        if (want > c->room) {
            char *grown = realloc(c->buffer, want);
            if (grown == NULL)
                return err_set(e, SHOAL_E_NOMEM, "no memory for a journal record of %zu bytes",
                               bytes);
            c->buffer = grown;
            c->room = want;
        }
        if (at >= c->held_at && at < c->held_at + c->held) {
            kept = (size_t)(c->held_at + c->held - at);
            memmove(c->buffer, c->buffer + (at - c->held_at), kept);
        }
        for (ssize_t n = 1; kept < want && n > 0; kept += (size_t)MAX(n, 0))
            n = pread(c->fd, c->buffer + kept, want - kept, (off_t)(at + kept));
        c->held_at = at;
        c->held = kept;
        if (kept < bytes)
            return err_set(e, SHOAL_E_IO, "cannot read journal segment %s to its end",
                           c->files->file[c->file].path);
    }
    SHOAL_ASSERT(at >= c->held_at && at + bytes <= c->held_at + c->held);
    *out = c->buffer + (at - c->held_at);
    return 0;
}

/* Reads the record at `at` of the current file; *h: its head. END: there is none; VERSION: it is a
 * later release's; IO, NOMEM. */
static int record_at(struct journal_cursor *c, uint64_t at, struct record_header *h,
                     const void **payload, struct err *e)
{
    char *record;
    SHOAL_ASSERT(at >= SEGMENT_HEADER_BYTES && at % RECORD_ALIGN == 0);
    if (at >= c->size)
        return SHOAL_E_END;

    size_t bytes = (size_t)MIN(sizeof *h, c->size - at);
    uint64_t generation = c->files->file[c->file].generation;
    int rc = window(c, at, bytes, &record, e);
    if (rc != 0)
        return rc;
    if (!record_head(record, bytes, h) || h->segment != generation ||
        record_length(h) > c->size - at)
        return SHOAL_E_END;

    bytes = record_length(h);
    rc = window(c, at, bytes, &record, e);
    if (rc != 0)
        return rc;

    return record_read(record, bytes, generation, h, payload);
}

static int unknown(const struct journal_cursor *c, const struct record_header *h, uint64_t at,
                   struct err *e)
{
    return err_set(e, SHOAL_E_VERSION,
                   "journal segment %s holds at offset %" PRIu64 " record %" PRIu64
                   " of kind %u (clock %" PRIu64 ", age %u, width %u), which this Shoal does not "
                   "know: it was written by a later one; start that one",
                   c->files->file[c->file].path, at, h->sequence, h->kind, h->clock, h->age,
                   h->width);
}

/* ---- where records end ---- */

/* Moves *at to the next place with a record's magic, or to the file's end: most of what lies behind
 * the last record is zeros. */
static int magic_behind(struct journal_cursor *c, uint64_t *at, struct err *e)
{
    char *bytes;
    while (*at + RECORD_ALIGN <= c->size) {
        uint64_t held = c->held_at + c->held, left = RECORD_ALIGN; /* at first one more window */
        if (c->held > 0 && *at >= c->held_at && *at + RECORD_ALIGN <= held)
            left = (held - *at) / RECORD_ALIGN * RECORD_ALIGN;
        int rc = window(c, *at, left, &bytes, e);
        if (rc != 0)
            return rc;
        for (size_t i = 0; i < left; i += RECORD_ALIGN, *at += RECORD_ALIGN)
            if (record_begins(bytes + i))
                return 0;
    }
    *at = c->size;
    return 0;
}

/* The highest `synced` in any record at or behind `at`. */
static int synced_behind(struct journal_cursor *c, uint64_t at, uint64_t *synced, struct err *e)
{
    struct record_header h;
    const void *payload;
    for (;;) {
        int rc = magic_behind(c, &at, e);
        if (rc != 0 || at >= c->size)
            return rc;
        rc = record_at(c, at, &h, &payload, e);
        if (rc != 0 && rc != SHOAL_E_END && rc != SHOAL_E_VERSION)
            return rc;
        if (rc != SHOAL_E_END && h.synced > *synced)
            *synced = h.synced;

        at += rc == SHOAL_E_END ? RECORD_ALIGN : record_length(&h);
    }
}

/* The records of the current file end although more may follow. CORRUPT if that is damage, END if
 * it is an unsynced tail lost with the power (2). */
static int judge(struct journal_cursor *c, bool known, struct err *e)
{
    const struct journal_file *ended = &c->files->file[c->file];
    uint64_t last = c->last, synced = 0;
    uint64_t safe = c->floor;
    if (last > c->floor)
        safe = last;

    uint32_t at = c->file;
    int rc = 0;
    if (!known)
        rc = synced_behind(c, c->next, &synced, e);
    while (rc == 0 && !known && synced <= safe && c->file + 1 < c->files->count) {
        c->file++;
        rc = source_open(c, e);
        if (rc == 0)
            rc = synced_behind(c, SEGMENT_HEADER_BYTES, &synced, e);
    }
    c->file = at;
    c->last = last;
    if (rc == 0 && (known || synced > safe))
        return err_set(
            e, SHOAL_E_CORRUPT,
            "journal segment %s is damaged at offset %" PRIu64 ": record %" PRIu64
            " was on disk and does not check; put the file back from a copy, or restore a cut",
            ended->path, ended->bytes, last + 1);
    if (rc == 0)
        return SHOAL_E_END;
    return rc;
}

/* Leaves the current file for the next one. END: there is none. A damaged head does not say which
 * record came before it. */
static int source_leave(struct journal_cursor *c, struct err *e)
{
    struct journal_file *f = &c->files->file[c->file];
    struct segment_header h;
    SHOAL_ASSERT(!c->good || c->next <= c->size);
    bool damaged = f->bytes != 0 && c->next < f->bytes;
    f->last = c->last;
    f->bytes = c->next;
    bool more = c->file + 1 < c->files->count && head_peek(f + 1, &h);
    bool follows = more && !damaged && h.previous == c->last; /* 1 */
    bool idle = more && h.first > c->last && h.first <= c->floor + 1 && c->floor > 0;
    if (follows || idle) {
        c->file++;
        return source_open(c, e);
    }
    return judge(c, damaged, e);
}

/* ---- reading ---- */

void cursor_open(struct journal_cursor *c, struct journal_files *files, uint64_t from,
                 uint64_t until, enum cursor_reads reads)
{
    *c = (struct journal_cursor){
        .files = files, .reads = reads, .from = from, .until = until, .fd = -1};
}

/* Seeks the last file that begins at or below `from`. */
static int seek(struct journal_cursor *c, struct err *e)
{
    struct segment_header h;
    for (uint32_t i = 1; c->from > 1 && i < c->files->count; i++)
        if (head_peek(&c->files->file[i], &h) && h.first <= c->from)
            c->file = i;
    c->sought = true;
    return source_open(c, e);
}

static int next_whole(struct journal_cursor *c, struct journal_record *out, struct err *e)
{
    struct journal_file *f;
    const void *payload;
    int rc = 0;
    while (rc == 0 && c->last < c->until) {
        f = &c->files->file[c->file];
        if (c->next == SEGMENT_HEADER_BYTES)
            f->first = c->last + 1;
        rc = SHOAL_E_END;
        if (c->good)
            rc = record_at(c, c->next, &c->head, &payload, e);
        if (rc != SHOAL_E_END && (rc == 0 || rc == SHOAL_E_VERSION) &&
            c->head.sequence != c->last + 1)
            rc = SHOAL_E_END;
        if (rc == SHOAL_E_VERSION) /* 3 */
            return unknown(c, &c->head, c->next, e);
        if (rc == SHOAL_E_END) {
            rc = source_leave(c, e);
            continue;
        }
        if (rc != 0)
            return rc;
        c->at = c->next;
        c->next += record_length(&c->head);
        c->last = c->head.sequence;
        if (c->head.synced > c->stamped)
            c->stamped = c->head.synced;

        if (c->last < c->from)
            continue;
        SHOAL_ASSERT(c->last <= c->until && c->next <= c->size);
        *out = (struct journal_record){&c->head, payload};
        return 0;
    }
    return rc == 0 ? SHOAL_E_END : rc;
}

/* Checks that a head is at c->next. Reads only the head, unless it is a later release's. */
static int next_head(struct journal_cursor *c, struct err *e)
{
    struct record_header *h = &c->head;
    const void *payload;
    char head[sizeof *h];
    ssize_t n = pread(c->fd, head, sizeof head, (off_t)c->next);
    if (n < 0 || !record_head(head, (size_t)n, h) ||
        h->segment != c->files->file[c->file].generation || c->next > c->size ||
        record_length(h) > c->size - c->next)
        return SHOAL_E_END;
    if (!record_known(h)) {
        int rc = record_at(c, c->next, h, &payload, e);
        if (rc == SHOAL_E_VERSION)
            return unknown(c, h, c->next, e);
        if (rc == SHOAL_E_NOMEM)
            return rc;
    }
    return 0;
}

static int next_of_heads(struct journal_cursor *c, struct journal_record *out, struct err *e)
{
    int rc = next_head(c, e);
    while (rc == SHOAL_E_END && c->file + 1 < c->files->count) {
        c->file++;
        rc = source_open(c, e);
        if (rc == 0)
            rc = next_head(c, e);
    }
    if (rc != 0)
        return rc;
    c->at = c->next;
    c->next += record_length(&c->head);
    *out = (struct journal_record){&c->head, NULL};
    return 0;
}

int cursor_next(struct journal_cursor *c, struct journal_record *out, struct err *e)
{
    c->ended |= c->files->count == 0;
    if (c->ended)
        return SHOAL_E_END;
    int rc = 0;
    if (!c->sought)
        rc = seek(c, e);
    if (rc == 0 && c->reads == CURSOR_WHOLE)
        rc = next_whole(c, out, e);
    else if (rc == 0)
        rc = next_of_heads(c, out, e);
    c->ended = rc != 0;
    return rc;
}

int cursor_keys(struct journal_cursor *c, const uint64_t **keys, struct err *e)
{
    char *at;
    size_t bytes = (size_t)c->head.key_count * sizeof **keys;
    SHOAL_ASSERT(!c->ended && c->at >= SEGMENT_HEADER_BYTES);
    if (!record_has_keys(c->head.kind) || bytes > c->head.payload_bytes)
        return SHOAL_E_END;
    int rc = window(c, c->at + record_head_bytes(&c->head), bytes, &at, e);
    *keys = NULL;
    if (rc == 0)
        *keys = (const uint64_t *)(const void *)at;

    return rc == SHOAL_E_IO ? SHOAL_E_END : rc;
}

int cursor_whole(struct journal_cursor *c, void **payload, struct err *e)
{
    struct record_header h;
    const void *found;
    SHOAL_ASSERT(!c->ended && c->open);
    int rc = record_at(c, c->at, &h, &found, e);
    *payload = NULL;
    if (rc == 0)
        *payload = (void *)(uintptr_t)found;

    return rc == SHOAL_E_IO ? SHOAL_E_END : rc;
}

int cursor_rewrite(struct journal_cursor *c, struct err *e)
{
    size_t bytes = record_length(&c->head);
    SHOAL_ASSERT(c->held_at <= c->at && c->at + bytes <= c->held_at + c->held);
    char *record = c->buffer + (c->at - c->held_at);
    record_reseal(record);
    if (pwrite(c->fd, record, bytes, (off_t)c->at) != (ssize_t)bytes)
        return err_set(e, SHOAL_E_IO, "cannot write %s: %s", c->files->file[c->file].path,
                       strerror(errno));
    return 0;
}

void cursor_close(struct journal_cursor *c)
{
    source_close(c);
    free(c->buffer);
    *c = (struct journal_cursor){.fd = -1};
}
