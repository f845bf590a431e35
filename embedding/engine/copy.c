/* copy.c: the leader's side of a copy (copy.h): a private cut, read in parts.
 *
 * 1. A private cut is used by its copy alone: engine_cuts does not name it, no record or request
 *    refers to it, and no start keeps it. [assert: copy_find] [test: a_private_cut_is_not_told]
 * 2. A part depends only on the cut, its position and its size, so it may be read again: the cut
 *    does not change, and positions of another copy are refused by their salt.
 *    [test: a_part_may_be_read_and_taken_again, a_position_of_another_copy_is_refused]
 * 3. Images, control state and records of one cut belong together (recover.c): the parts have every
 *    pair, and each record that some image may lack, without a gap. [assert: records_read]
 *    [test: a_copy_equals_its_leader, a_leader_goes_on_while_it_is_copied]
 * 4. One I/O thread at a time reads a copy, and the copy is freed after that.
 *    [assert: copy_remove] [test: a_copy_that_is_ended_while_it_is_read]
 *
 *     engine_copy_begin -> hold, go -> made --> read ... read --> engine_copy_end -> removed */
#include "embedding/copy.h"

#include "embedding/engine/copy_inner.h"
#include "embedding/engine/copy_part.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/space.h"
#include "embedding/journal/cursor.h"
#include "embedding/store/stored.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/msg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PART_LEAST 4096u

struct copy {
    struct copy *next;
    struct engine *g; /* borrowed */
    uint64_t number, salt, sequence;
    bool making, reading, ended; /* ended: it goes once nothing is under way */
    struct copy_load load[LIMIT_TABLES];
    uint32_t loads;
    engine_copy_begun begun;
    void *context;
    /* used by the I/O thread alone while `reading`: */
    bool opened;
    struct cut_source source;
    struct stored_as_of control; /* position of the stored control state */
    struct journal_files files;
    struct journal_cursor cursor;
    struct journal_record record; /* the cursor's current one; head NULL: none */
    uint64_t record_next;         /* sequence that the cursor reads next; 0: it is not open */
    /* The pair that the last part ended before, or within: the next one needs no look into the
     * store for it. */
    struct store_item kept;
    struct copy_at kept_at; /* the position of the part that begins with it */
    char *value;            /* owned; NULL: none */
    size_t value_room;
};

struct read_work {
    struct offload work; /* first */
    struct copy *c;      /* borrowed */
    struct copy_at from, at;
    size_t most, bytes;
    uint32_t items;
    struct msg *m; /* owned */
    char *part;    /* its frame, (most) */
    engine_copy_part done;
    void *context;
    int status;
    struct err err;
};

/* ---- a part, on an I/O thread ---- */

static int no_op(void *context, const struct table_schema *s, const struct table_past *past,
                 struct err *e)
{
    (void)context, (void)s, (void)past, (void)e;
    return 0;
}

static int control_read(void *context, const void *key, size_t key_bytes, const void *value,
                        size_t value_bytes, struct err *e)
{
    struct copy *c = context;
    if (!stored_is_control(key, key_bytes))
        return 0;
    return stored_control_read(value, value_bytes, NULL, &c->control, no_op, NULL, e);
}

static int source_open(struct copy *c, struct err *e)
{
    static const struct store_item below = {.key = {'i'}, .key_bytes = 1};
    int rc = 0;
    if (c->g->dir != NULL)
        rc = cut_open(c->g, c->number, CUT_SIZES, &c->source, e);
    if (rc != 0)
        return rc;

    rc = store_range(c->source.store, NULL, &below, control_read, c, e);
    if (rc == 0 && c->source.journal != NULL)
        rc = cursor_gather(NULL, c->source.journal, &c->files, e);
    c->opened = rc == 0;
    if (rc != 0)
        cut_source_close(&c->source);
    return rc;
}

static void source_close(struct copy *c)
{
    cursor_close(&c->cursor);
    cursor_files_free(&c->files);
    cut_source_close(&c->source);
    free(c->value);
    c->value = NULL;
    c->value_room = 0;
    c->kept.key_bytes = 0;
    c->opened = false;
}

static void put(struct read_work *r, const void *bytes, size_t count)
{
    SHOAL_ASSERT(count <= r->most - r->bytes);
    if (count > 0)
        memcpy(r->part + r->bytes, bytes, count);
    r->bytes += count;
}

/* Adds an item from r->at.offset on. END: the part is full, perhaps with a piece of the item. */
static int put_item(struct read_work *r, const void *key, size_t key_bytes,
                    const struct record_payload *item, struct err *e)
{
    static const char zeros[COPY_ALIGN];
    size_t total = item->bytes[0] + item->bytes[1], room = r->most - r->bytes;
    if (r->at.offset > 0 && r->at.offset >= total)
        return err_set(e, SHOAL_E_NOT_FOUND, "no part of copy %" PRIu64 " begins there",
                       r->c->number);

    size_t count = total - r->at.offset;
    bool whole = sizeof(struct copy_item) + copy_padded(count) <= room;
    if (!whole && r->items > 0)
        return SHOAL_E_END;
    if (!whole)
        count = room - sizeof(struct copy_item) - COPY_ALIGN;

    struct copy_item head = {.total = total,
                             .offset = r->at.offset,
                             .bytes = (uint32_t)count,
                             .key_bytes = (uint32_t)key_bytes};
    if (key_bytes > 0)
        memcpy(head.key, key, key_bytes);
    put(r, &head, sizeof head);
    size_t from = r->at.offset, end = from + count, first = item->bytes[0];
    if (from < first)
        put(r, (const char *)item->piece[0] + from, MIN(end, first) - from);
    if (end > first)
        put(r, (const char *)item->piece[1] + (MAX(from, first) - first), end - MAX(from, first));
    put(r, zeros, copy_padded(count) - count);
    r->items++;
    r->at.offset = whole ? 0 : end;
    if (whole)
        return 0;

    return SHOAL_E_END;
}

/* ---- pairs ---- */

static bool same_key(const struct copy_at *at, const void *key, size_t key_bytes)
{
    return at->key_bytes == key_bytes && memcmp(at->key, key, key_bytes) == 0;
}

/* Keeps the pair that the part at `r->at` begins with. */
static int keep(struct read_work *r, const void *key, size_t key_bytes, const void *value,
                size_t value_bytes, struct err *e)
{
    struct copy *c = r->c;
    c->kept_at = r->at;
    if (value == c->value)
        return 0;
    c->kept.key_bytes = 0;
    if (array_reserve(&c->value, value_bytes, &c->value_room) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu bytes of copy %" PRIu64, value_bytes,
                       c->number);
    memcpy(c->value, value, value_bytes);
    memcpy(c->kept.key, key, key_bytes);
    c->kept.key_bytes = key_bytes;
    c->kept.value_bytes = value_bytes;
    return 0;
}

/* True when the part begins with the pair that is kept. */
static bool begins_with_kept(const struct read_work *r)
{
    const struct copy_at *at = &r->c->kept_at;
    return r->c->kept.key_bytes > 0 && r->at.offset == at->offset &&
           same_key(&r->at, at->key, at->key_bytes);
}

static int put_pair(void *context, const void *key, size_t key_bytes, const void *value,
                    size_t value_bytes, struct err *e)
{
    struct read_work *r = context;
    const struct record_payload item = {{value, NULL}, {value_bytes, 0}};
    if (key_bytes >= sizeof r->at.key || (r->at.offset > 0 && !same_key(&r->at, key, key_bytes)))
        return err_set(e, SHOAL_E_NOT_FOUND, "no part of copy %" PRIu64 " begins there",
                       r->c->number);

    int rc = put_item(r, key, key_bytes, &item, e);
    if (rc != 0 && rc != SHOAL_E_END)
        return rc;
    if (rc == 0 || r->at.offset > 0) { /* else the pair is the next part's */
        memcpy(r->at.key, key, key_bytes);
        r->at.key_bytes = (uint32_t)key_bytes;
    }
    if (rc == SHOAL_E_END && keep(r, key, key_bytes, value, value_bytes, e) != 0)
        return SHOAL_E_NOMEM;
    if (rc == 0)
        r->at.key[r->at.key_bytes++] = 0; /* the smallest key above this one */
    return rc;
}

static int pairs_read(struct read_work *r, struct err *e)
{
    struct copy *c = r->c;
    int rc = 0;
    if (begins_with_kept(r))
        rc = put_pair(r, c->kept.key, c->kept.key_bytes, c->value, c->kept.value_bytes, e);

    struct store_item from = {.key_bytes = r->at.key_bytes};
    memcpy(from.key, r->at.key, sizeof from.key);
    if (rc == 0)
        rc = store_range(c->source.store, from.key_bytes == 0 ? NULL : &from, NULL, put_pair, r, e);
    if (rc != 0)
        return rc;

    c->kept.key_bytes = 0; /* its memory goes with the copy */
    r->at.stage = COPY_RECORDS;
    r->at.record = c->control.floor + 1;
    return 0;
}

/* ---- records ---- */

/* Makes c->record the one with this sequence. END: the journal ends before it. */
static int record_seek(struct copy *c, uint64_t sequence, struct err *e)
{
    if (c->record_next == 0 || sequence + (c->record.head != NULL) < c->record_next) {
        cursor_close(&c->cursor);
        cursor_open(&c->cursor, &c->files, sequence, c->sequence, CURSOR_WHOLE);
        c->cursor.floor = c->control.floor;
        c->record.head = NULL;
        c->record_next = sequence;
    }
    while (c->record.head == NULL || c->record.head->sequence < sequence) {
        int rc = cursor_next(&c->cursor, &c->record, e);
        if (rc != 0) {
            c->record = (struct journal_record){0};
            c->record_next = 0;
            return rc;
        }
        c->record_next = c->record.head->sequence + 1;
    }
    if (c->record.head->sequence != sequence)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the cut of copy %" PRIu64 " has record %" PRIu64 " where record %" PRIu64
                       " was expected",
                       c->number, c->record.head->sequence, sequence);
    return 0;
}

static int records_read(struct read_work *r, struct err *e)
{
    struct copy *c = r->c;
    int rc = 0;
    while (rc == 0 && r->at.record <= c->sequence) {
        rc = record_seek(c, r->at.record, e);
        if (rc == SHOAL_E_END)
            break;
        if (rc != 0)
            return rc;
        struct record_header head = *c->record.head;
        head.magic = RECORD_MAGIC; /* a head of 0.2.0 was completed by the cursor */
        const struct record_payload item = {{&head, c->record.payload},
                                            {sizeof head, head.payload_bytes}};
        rc = put_item(r, NULL, 0, &item, e);
        if (rc == SHOAL_E_END)
            return rc;
        SHOAL_ASSERT(rc != 0 || head.sequence == r->at.record); /* 3 */
        r->at.record += rc == 0;
    }
    if (rc != 0 && rc != SHOAL_E_END)
        return rc;
    if (r->at.record <= c->sequence && c->control.sequence < c->sequence)
        return err_set(e, SHOAL_E_CORRUPT,
                       "the journal of copy %" PRIu64 " ends before record %" PRIu64
                       ", it needs %" PRIu64,
                       c->number, r->at.record, c->sequence);
    r->at.stage = COPY_END;
    return 0;
}

/* ---- the whole part ---- */

static int part_make(struct read_work *r, struct err *e)
{
    struct copy *c = r->c;
    int rc = 0;
    r->bytes = sizeof(struct copy_head);
    if (r->from.index == 0)
        put(r, c->load, c->loads * sizeof c->load[0]);
    if (!c->opened)
        rc = source_open(c, e);
    if (rc == 0 && r->at.stage == COPY_PAIRS)
        rc = pairs_read(r, e);
    if (rc == 0 && r->at.stage == COPY_RECORDS)
        rc = records_read(r, e);
    if (rc != 0 && rc != SHOAL_E_END)
        return err_wrap(e, rc, "copy %" PRIu64, c->number);

    r->at.index++;
    struct copy_head *head = (void *)r->part;
    *head = (struct copy_head){.magic = COPY_MAGIC,
                               .number = c->number,
                               .sequence = c->sequence,
                               .bytes = r->bytes,
                               .items = r->items,
                               .loads = r->from.index == 0 ? c->loads : 0,
                               .from = r->from,
                               .next = r->at};
    head->checksum = copy_checksum(r->part, r->bytes);
    return 0;
}

static void read_run(struct offload *w)
{
    struct read_work *r = container_of(w, struct read_work, work);
    r->status = part_make(r, &r->err);
}

/* ---- copies, on the loop ---- */

static struct copy *copy_find(struct engine *g, uint64_t number)
{
    for (struct copy *c = g->copies; c != NULL; c = c->next) {
        SHOAL_ASSERT(copy_private(c->number)); /* 1 */
        if (c->number == number && !c->ended)
            return c;
    }
    return NULL;
}

static void copy_unlink(struct copy *c)
{
    struct copy **at = &c->g->copies;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
}

struct drop_work {
    struct offload work; /* first */
    struct copy *c;      /* owned */
};

/* Removes the cut's files, complete or not. */
static void files_remove(struct copy *c)
{
    char path[LIMIT_PATH];
    source_close(c);
    cut_path(c->g, c->number, "", path);
    if (file_remove_tree(path) != 0)
        log_warn("cannot remove %s; it is removed at the next start", path);
}

static void drop_run(struct offload *w)
{
    files_remove(container_of(w, struct drop_work, work)->c);
}

static void drop_done(struct offload *w)
{
    struct copy *c = container_of(w, struct drop_work, work)->c;
    if (w->cancelled)
        files_remove(c);
    else
        space_look(c->g);
    free(c);
}

/* Nothing of the copy is under way: its cut goes. */
static void copy_remove(struct copy *c)
{
    struct engine *g = c->g;
    struct drop_work *w = NULL;
    SHOAL_ASSERT(!c->making && !c->reading); /* 4 */
    copy_unlink(c);
    if (g->dir != NULL)
        w = calloc(1, sizeof *w);
    if (w != NULL) {
        w->c = c;
        engine_work(g, &w->work, drop_run, drop_done);
        return;
    }
    if (g->dir != NULL) {
        files_remove(c);
    } else {
        source_close(c);
        cut_mem_drop(g, c->number);
    }
    free(c);
}

void copy_free(struct engine *g)
{
    for (struct copy *c = g->copies, *next; c != NULL; c = next) {
        next = c->next;
        SHOAL_ASSERT(!c->reading); /* offload_drain has ended it */
        if (g->dir != NULL)
            files_remove(c);
        else
            source_close(c); /* cut_free has the store */
        free(c);
    }
    g->copies = NULL;
}

static void made(void *context, int status, uint64_t rows, uint64_t bytes)
{
    struct copy *c = context;
    const struct mem_cut *m = cut_mem_find(c->g, c->number);
    engine_copy_begun begun = c->begun;
    void *its = c->context;
    struct err e = {0};
    (void)rows;
    c->making = false;
    if (m != NULL)
        c->source.store = m->store; /* the cut owns it */
    if (status != 0)
        err_set(&e, status, "the cut for a copy was not made: %s", err_text(status));
    else if (c->ended)
        err_set(&e, SHOAL_E_NOT_FOUND, "the copy was ended");
    uint64_t number = c->number, sequence = c->sequence;
    if (e.code != 0)
        copy_remove(c);
    begun(its, e.code, e.text, number, sequence, bytes);
}

static int begin_refused(struct err *e, int rc)
{
    return err_set(e, rc, "no cut can be made for a copy now: %s", err_text(rc));
}

/* No two copies have the same, those of earlier processes included: a follower must not mix parts
 * of two cuts of one sequence, whose records begin at different places. */
static uint64_t salt_of(const struct copy *c)
{
    const struct engine *g = c->g;
    uint64_t of[4] = {env_now_ns(g->env), c->number, c->sequence, 0};
    if (g->options.wall_ns != NULL)
        of[3] = g->options.wall_ns();
    return hash_bytes(of, sizeof of, COPY_MAGIC);
}

int engine_copy_begin(struct engine *g, engine_copy_begun done, void *context, struct err *e)
{
    const uint64_t number = UINT64_MAX - g->copies_made;
    uint64_t sequence;
    SHOAL_ASSERT(copy_private(number)); /* 1 */
    if (!engine_back(g))
        return begin_refused(e, SHOAL_E_AGAIN);
    if (g->holding)
        return begin_refused(e, SHOAL_E_BUSY);
    struct copy *c = calloc(1, sizeof *c);
    if (c == NULL)
        return begin_refused(e, SHOAL_E_NOMEM);

    int rc = engine_cut_room(g, number, e);
    if (rc != 0)
        goto out;
    rc = engine_hold(g, number, 0, &sequence);
    if (rc != 0) {
        begin_refused(e, rc);
        goto out;
    }
    *c = (struct copy){.next = g->copies,
                       .g = g,
                       .number = number,
                       .sequence = sequence,
                       .making = true,
                       .begun = done,
                       .context = context,
                       .cursor.fd = -1};
    c->salt = salt_of(c);
    for (uint32_t i = 0; i < g->loads; i++)
        if (!g->loaded[i].leaving)
            c->load[c->loads++] = (struct copy_load){g->loaded[i].run, g->loaded[i].tables};
    g->copies = c;
    g->copies_made++;
    rc = engine_go(g, number, made, c);
    if (rc == 0)
        return 0;

    begin_refused(e, rc);
    engine_release(g, number);
    copy_unlink(c);

out:
    free(c);
    return rc;
}

static void read_done(struct offload *w)
{
    struct read_work *r = container_of(w, struct read_work, work);
    struct copy *c = r->c;
    c->reading = false;
    if (!w->cancelled && c->ended)
        r->status = err_set(&r->err, SHOAL_E_NOT_FOUND, "copy %" PRIu64 " was ended", c->number);
    if (!w->cancelled && c->ended)
        copy_remove(c);
    size_t next_bytes = sizeof r->at;
    if (r->at.stage == COPY_END)
        next_bytes = 0;
    if (!w->cancelled && r->status != 0)
        r->done(r->context, r->status, r->err.text, NULL, NULL, 0, NULL, 0);
    else if (!w->cancelled)
        r->done(r->context, 0, "", r->m, r->part, r->bytes, &r->at, next_bytes);
    msg_free(r->m);
}

/* Reads a position, which came from another process. False: it is none of this copy. */
static bool position_take(const struct copy *c, const void *position, size_t bytes,
                          struct copy_at *at)
{
    *at = (struct copy_at){.salt = c->salt, .stage = COPY_PAIRS};
    if (bytes == 0)
        return true;
    if (bytes != sizeof *at)
        return false;
    memcpy(at, position, sizeof *at);
    return at->salt == c->salt && at->key_bytes <= sizeof at->key && at->index > 0 &&
           (at->stage == COPY_PAIRS || (at->stage == COPY_RECORDS && at->record > 0));
}

int engine_copy_read(struct engine *g, uint64_t number, const void *position, size_t position_bytes,
                     size_t most, engine_copy_part done, void *context, struct err *e)
{
    struct copy *c = copy_find(g, number);
    struct copy_at at;
    if (c == NULL || !position_take(c, position, position_bytes, &at))
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no copy %" PRIu64 " with this part", number);
    if (c->making)
        return err_set(e, SHOAL_E_AGAIN, "the cut of copy %" PRIu64 " is being made", number);
    if (c->reading)
        return err_set(e, SHOAL_E_BUSY, "a part of copy %" PRIu64 " is being read", number);

    struct read_work *r = calloc(1, sizeof *r);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a part of copy %" PRIu64, number);
    *r = (struct read_work){.c = c,
                            .from = at,
                            .at = at,
                            .most = MIN(MAX(most, PART_LEAST), LIMIT_FRAME_BYTES),
                            .done = done,
                            .context = context};
    r->m = msg_new();
    r->part = msg_add(r->m, r->most);
    if (r->part == NULL) {
        msg_free(r->m);
        free(r);
        return err_set(e, SHOAL_E_NOMEM, "no memory for a part of copy %" PRIu64, number);
    }
    c->reading = true;
    engine_work(g, &r->work, read_run, read_done);
    return 0;
}

void engine_copy_end(struct engine *g, uint64_t number)
{
    struct copy *c = copy_find(g, number);
    if (c == NULL)
        return;
    c->ended = true;
    if (!c->making && !c->reading)
        copy_remove(c);
}
