/* follow_read.c: the leader's records for its followers: from the tail, or by an I/O thread from
 * the journal, whose readers go on where they ended.
 *
 * 1. Only committed records are returned. [assert: engine_records]
 * 2. A reader's file may be trimmed and reused meanwhile. Its old records do not check any more
 *    (record.h, 1), so the reader ends early, and the next one finds the oldest record that is
 *    there. [test: a_reader_outlasts_trims]
 * 3. Records for followers are kept only while the journal has room for them: flushing and pushes
 *    go on as without followers. [test: the_journal_waits_for_a_follower_while_it_has_room] */
#include "embedding/engine/flush.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/follow.h"
#include "embedding/journal/cursor.h"
#include "embedding/journal/tail.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct records_read {
    struct engine *g; /* borrowed */
    bool busy, open;
    uint64_t next, until; /* the next record; the last one that there was at the gathering */
    struct journal_files files;
    struct journal_cursor cursor;
    char *buffer; /* owned */
    size_t room, bytes, most;
    int status;
    struct err err;
    engine_records_done done;
    void *context;
};

struct read_work {
    struct offload work; /* first */
    struct records_read *read;
};

/* ---- the tail ---- */

int engine_tail(struct engine *g, uint64_t bytes, struct err *e)
{
    if (bytes == 0) {
        tail_free(g->tail);
        g->tail = NULL;
        return 0;
    }
    if (g->tail == NULL)
        g->tail = tail_new(bytes, g->sequence + 1);
    if (g->tail == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the records of a shard's followers");
    tail_limit(g->tail, bytes);
    return 0;
}

void follow_keep(struct engine *g, struct record_header *h, const struct record_payload *payload)
{
    if (g->journal == NULL)
        record_seal(h, payload);
    tail_add(g->tail, h, payload);
}

uint64_t follow_bytes(const struct engine *g)
{
    if (g->tail == NULL)
        return 0;
    return tail_bytes(g->tail);
}

/* ---- the journal ---- */

static void read_close(struct records_read *r)
{
    SHOAL_ASSERT(!r->busy);
    if (r->open) {
        cursor_close(&r->cursor);
        cursor_files_free(&r->files);
    }
    r->open = false;
}

static void read_free(struct records_read *r)
{
    if (r == NULL)
        return;
    read_close(r);
    free(r->buffer);
    free(r);
}

/* Appends the cursor's record, as it is in the file. */
static int append(struct records_read *r, const struct journal_record *record)
{
    size_t head = record_head_bytes(record->head), bytes = record_length(record->head);
    if (bytes > r->room - r->bytes) {
        size_t room = MAX(r->most, r->bytes) + bytes;
        char *grown = realloc(r->buffer, room);
        if (grown == NULL)
            return SHOAL_E_NOMEM;
        r->buffer = grown;
        r->room = room;
    }
    memcpy(r->buffer + r->bytes, (const char *)record->payload - head, bytes);
    r->bytes += bytes;
    return 0;
}

static void read_run(struct offload *w)
{
    struct records_read *r = container_of(w, struct read_work, work)->read;
    struct journal_record record;
    r->bytes = 0;
    r->status = 0;
    while (r->status == 0 && r->next <= r->until && (r->bytes == 0 || r->bytes < r->most)) {
        r->status = cursor_next(&r->cursor, &record, &r->err);
        if (r->status == 0 && record.head->sequence != r->next)
            r->status = SHOAL_E_NOT_FOUND;
        if (r->status == 0)
            r->status = append(r, &record);
        r->next += r->status == 0;
    }
}

/* No record could be read: the status for the caller. */
static int read_failed(const struct engine *g, const struct records_read *r)
{
    if (r->next < journal_first(g->journal))
        return SHOAL_E_NOT_FOUND;
    if (r->status == SHOAL_E_END || r->status == SHOAL_E_NOMEM)
        return SHOAL_E_AGAIN;
    log_warn("record %" PRIu64 " cannot be read for a follower: %s", r->next,
             r->status == SHOAL_E_NOT_FOUND ? "the journal lacks it" : r->err.text);
    return r->status;
}

static void read_done(struct offload *w)
{
    struct records_read *r = container_of(w, struct read_work, work)->read;
    struct engine *g = r->g;
    r->busy = false;
    if (w->cancelled)
        return;
    int status = 0;
    if (r->bytes == 0)
        status = read_failed(g, r);
    if (r->status != 0) /* 2 */
        read_close(r);

    const void *records = r->bytes > 0 ? r->buffer : NULL;
    r->done(r->context, status, records, r->bytes, r->next - 1);
}

/* The reader that ended at `after`, or an idle one. NULL: all are busy, or there is no memory. */
static struct records_read *read_find(struct engine *g, uint64_t after)
{
    struct records_read **read = g->readers.read, **idle = NULL;
    for (uint32_t i = 0; i < ENGINE_READERS; i++) {
        if (read[i] != NULL && !read[i]->busy && read[i]->next == after + 1)
            return read[i];
        if (read[i] == NULL && idle == NULL)
            idle = &read[i];
    }
    for (uint32_t i = 0; i < ENGINE_READERS && idle == NULL; i++)
        if (!read[i]->busy)
            idle = &read[i];
    if (idle == NULL)
        return NULL;
    if (*idle == NULL)
        *idle = calloc(1, sizeof **idle);
    return *idle;
}

static int read_open(struct records_read *r, uint64_t after, struct err *e)
{
    const struct engine *g = r->g;
    read_close(r);
    int rc = cursor_gather(NULL, g->journal, &r->files, e);
    if (rc != 0)
        return rc;
    r->next = after + 1;
    r->until = g->committed;
    cursor_open(&r->cursor, &r->files, after + 1, g->committed, CURSOR_WHOLE);
    r->open = true;
    return 0;
}

static int read_begin(struct engine *g, uint64_t after, size_t most, engine_records_done done,
                      void *context, struct err *e)
{
    struct records_read *r = read_find(g, after);
    if (r == NULL)
        return err_set(e, SHOAL_E_BUSY, "%u reads of the journal are under way", ENGINE_READERS);
    r->g = g;
    int rc = 0;
    if (!r->open || r->next != after + 1 || r->next > r->until)
        rc = read_open(r, after, e);
    if (rc != 0)
        return rc;
    struct read_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to read the journal");
    w->read = r;
    r->most = most;
    r->done = done;
    r->context = context;
    r->busy = true;
    engine_work(g, &w->work, read_run, read_done);
    return 0;
}

/* Closes the idle readers whose records are behind `after`: no follower goes on with them. */
static void readers_close(struct engine *g, uint64_t after)
{
    for (uint32_t i = 0; i < ENGINE_READERS; i++) {
        struct records_read *r = g->readers.read[i];
        if (r != NULL && !r->busy && r->next <= after) {
            read_free(r);
            g->readers.read[i] = NULL;
        }
    }
}

int engine_records(struct engine *g, uint64_t after, size_t most, engine_records_done done,
                   void *context, struct err *e)
{
    const void *records;
    size_t bytes;
    uint64_t last;
    SHOAL_ASSERT(g->committed <= g->sequence);
    if (after >= g->committed) {
        done(context, after > g->committed ? SHOAL_E_NOT_FOUND : 0, NULL, 0, after);
        return 0;
    }
    if (g->tail != NULL && tail_read(g->tail, after, g->committed, most, &records, &bytes, &last)) {
        SHOAL_ASSERT(last <= g->committed); /* 1 */
        done(context, 0, records, bytes, last);
        return 0;
    }
    if (g->journal == NULL || after + 1 < journal_first(g->journal)) {
        done(context, SHOAL_E_NOT_FOUND, NULL, 0, after);
        return 0;
    }
    return read_begin(g, after, most, done, context, e);
}

/* ---- what the journal keeps ---- */

void *engine_records_hold(struct engine *g, const void *records)
{
    if (g->tail == NULL)
        return NULL;
    return tail_hold(g->tail, records);
}

void engine_records_release(void *hold)
{
    tail_release(hold);
}

void engine_records_keep(struct engine *g, uint64_t after)
{
    g->readers.keep = after;
    if (g->tail != NULL && after <= g->committed)
        tail_trim(g->tail, after);
    readers_close(g, after);
}

/* Bounds of the journal's bytes: from the first on it presses, from the second on it is trimmed. */
static bool is_beyond(const struct engine *g, uint64_t eighths)
{
    return journal_bytes(g->journal) + g->segment_bytes > flush_journal_max(g) / 8 * eighths;
}

uint64_t follow_floor(const struct engine *g, uint64_t floor)
{
    if (g->readers.keep >= floor || is_beyond(g, 7)) /* 3 */
        return floor;
    return g->readers.keep;
}

bool engine_records_press(const struct engine *g)
{
    return g->journal != NULL && is_beyond(g, 6) && g->readers.keep < flush_floor(g);
}

void follow_free(struct engine *g)
{
    for (uint32_t i = 0; i < ENGINE_READERS; i++)
        read_free(g->readers.read[i]);
    tail_free(g->tail);
}
