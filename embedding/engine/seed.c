/* seed.c: the follower's side of a copy (copy.h): parts become a store and a journal of their own,
 * and these the engine's.
 *
 * 1. No byte of a part is believed before its checksum was compared, and none is written before the
 *    whole part was checked against limits and against the parts before it.
 *    [test: a_flipped_bit_is_refused, a_part_too_early_is_refused]
 * 2. Parts have all that a seed holds, in order and once: each begins where the last one ended.
 *    [assert: engine_seed_take] [test: a_part_may_be_read_and_taken_again]
 * 3. The seed's journal is on disk as a whole before it takes its place (seed_place.c): a start
 *    that finds fewer records takes them for all. [assert: journal_end] */
#include "embedding/engine/seed.h"

#include "embedding/copy.h"
#include "embedding/engine/copy_part.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/recover.h"
#include "embedding/journal/cursor.h"
#include "embedding/store/stored.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT_BYTES (64u << 20)
#define FLUSH_MOST (32u << 20)
#define FLUSH_LEAST (256u << 10)

/* The items and records that may come next, by the parts so far. */
struct order {
    struct store_item last; /* key of the last pair; key_bytes 0: none */
    uint64_t record;        /* sequence of the next record; 0: any */
    bool records;           /* a record has come: no pair may follow */
    struct copy_item open;  /* an item whose pieces are coming; total 0: none */
    uint64_t have;          /* its bytes so far */
};

struct engine_seed {
    char *dir; /* owned; NULL: in memory */
    uint64_t memory;
    uint32_t segment_bytes;
    uint64_t number, sequence; /* number and sequence of the copy */
    struct copy_at next;       /* first item of the next part; index 0: no part has come */
    struct copy_load load[LIMIT_TABLES];
    uint32_t loads;
    struct store *store;     /* owned; NULL: not opened yet */
    struct journal *journal; /* owned; NULL: no record has come */
    struct order order;
    char *value; /* owned; (room): pieces of order.open */
    size_t room;
    struct store_item *item; /* owned; (item_room): pairs of a part */
    size_t items, item_room;
    uint64_t unflushed;
    int status; /* not 0: it could not be written */
};

/* ---- beginning and ending ---- */

static int store_begin(struct engine_seed *s, struct err *e)
{
    char path[LIMIT_PATH];
    if (s->dir == NULL) {
        if (store_mem_open(&s->store) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for a copy");
        return 0;
    }
    int rc = seed_folders_make(s->dir, e);
    if (rc != 0)
        return rc;

    seed_path(s->dir, "seed-rows", path);
    return store_rocks_open(path, s->memory / 8, &s->store, e); /* as the engine's */
}

int engine_seed_begin(const struct engine_options *o, struct engine_seed **out, struct err *e)
{
    struct engine_seed *s = calloc(1, sizeof *s);
    bool stored = o->dir != NULL && o->durability != DURABLE_MEMORY;
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a copy");
    s->memory = o->memory;
    s->segment_bytes = MAX(o->segment_bytes, SEGMENT_BYTES);
    if (stored && (s->dir = strdup(o->dir)) == NULL) {
        engine_seed_free(s);
        return err_set(e, SHOAL_E_NOMEM, "no memory for a copy");
    }
    int rc = store_begin(s, e);
    if (rc != 0) {
        engine_seed_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static void seed_close(struct engine_seed *s)
{
    store_close(s->store);
    journal_close(s->journal);
    s->store = NULL;
    s->journal = NULL;
}

static void seed_free(struct engine_seed *s)
{
    seed_close(s);
    free(s->dir);
    free(s->value);
    free(s->item);
    free(s);
}

void engine_seed_free(struct engine_seed *s)
{
    struct err e = {0};
    if (s == NULL)
        return;
    seed_close(s);
    /* an engine may be open: what was decided waits for the next start */
    if (s->dir != NULL && !seed_decided(s->dir) && seed_settle(s->dir, &e) != 0)
        log_warn("%s; it is removed at the next start", e.text);
    seed_free(s);
}

/* ---- checking a part ---- */

static int refuse(const struct engine_seed *s, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT, "part %" PRIu64 " of copy %" PRIu64 " is refused: %s",
                   s->next.index, s->number, why);
}

static bool key_good(const struct copy_item *i)
{
    uint32_t table, tablet, epoch;
    uint64_t row;
    if (stored_is_load(i->key, i->key_bytes) || stored_is_control(i->key, i->key_bytes))
        return true;
    if (stored_is_tablet(i->key, i->key_bytes, &table, &tablet) ||
        stored_is_row(i->key, i->key_bytes, &table, &tablet, &epoch, &row))
        return table < LIMIT_TABLES && tablet < LIMIT_TABLETS;
    return false;
}

static int check_pair(const struct engine_seed *s, struct order *o, const struct copy_item *i,
                      struct err *e)
{
    struct store_item key = {.key_bytes = i->key_bytes};
    if (i->key_bytes >= sizeof i->key || !key_good(i) || i->total > UINT32_MAX)
        return refuse(s, "it has a pair that no store has", e);
    memcpy(key.key, i->key, i->key_bytes);
    if (o->records || (o->last.key_bytes > 0 && !store_item_below(&o->last, &key)))
        return refuse(s, "its pairs are not in order", e);
    if (s->dir == NULL && key.key[0] == 'r')
        return err_set(e, SHOAL_E_CONFIG,
                       "the copy has rows in a store, and this server keeps all rows in memory; "
                       "give both the same durability");
    o->last = key;
    return 0;
}

static int check_record(const struct engine_seed *s, struct order *o, const struct copy_item *i,
                        const char *bytes, struct err *e)
{
    struct record_header h;
    if (s->dir == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "the copy has a journal, and this server has none; give both the same "
                       "durability");
    if (i->bytes < sizeof h)
        return refuse(s, "it has a record without a head", e);
    memcpy(&h, bytes, sizeof h);
    if (h.magic != RECORD_MAGIC || h.payload_bytes != i->total - sizeof h || h.sequence == 0 ||
        h.sequence > s->sequence || (o->record != 0 && h.sequence != o->record) ||
        (h.kind == RECORD_PUSH && (uint64_t)h.key_count * sizeof(uint64_t) > h.payload_bytes))
        return refuse(s, "it has a record that does not belong there", e);
    if (!record_known(&h))
        return err_set(e, SHOAL_E_VERSION,
                       "record %" PRIu64 " of copy %" PRIu64
                       " is of a later release of Shoal; start that one here, too",
                       h.sequence, s->number);
    if (record_bytes(h.payload_bytes) + SEGMENT_HEADER_BYTES > s->segment_bytes)
        return refuse(s, "it has a record that no segment has room for", e);
    o->record = h.sequence + 1;
    o->records = true;
    return 0;
}

/* Checks an item, or a piece of one, and moves *o behind it. */
static int check_item(const struct engine_seed *s, struct order *o, const struct copy_item *i,
                      const char *bytes, struct err *e)
{
    if (i->offset != o->have || i->bytes > i->total - i->offset ||
        (i->bytes == 0 && i->total > 0) ||
        (o->have > 0 && (i->total != o->open.total || i->key_bytes != o->open.key_bytes ||
                         memcmp(i->key, o->open.key, sizeof i->key) != 0)))
        return refuse(s, "it has a piece that does not fit the one before", e);

    int rc = 0;
    if (i->offset == 0 && i->key_bytes > 0)
        rc = check_pair(s, o, i, e);
    else if (i->offset == 0)
        rc = check_record(s, o, i, bytes, e);
    if (rc != 0)
        return rc;

    o->open = *i;
    o->have += i->bytes;
    if (o->have == i->total)
        o->have = 0;
    return 0;
}

/* Reads the item at *at and moves *at behind its bytes. False: they are not all there. */
static bool item_next(const char **at, const char *end, struct copy_item *i, const char **bytes)
{
    if ((size_t)(end - *at) < sizeof *i)
        return false;
    memcpy(i, *at, sizeof *i);
    *bytes = *at + sizeof *i;
    if (i->bytes > (size_t)(end - *bytes) || copy_padded(i->bytes) > (size_t)(end - *bytes) ||
        i->offset > i->total)
        return false;
    *at = *bytes + copy_padded(i->bytes);
    return true;
}

static int check_items(const struct engine_seed *s, const struct copy_head *h, const char *at,
                       const char *end, struct order *o, struct err *e)
{
    struct copy_item item;
    const char *bytes;
    for (uint32_t i = 0; i < h->items; i++) {
        if (!item_next(&at, end, &item, &bytes))
            return refuse(s, "it ends within an item", e);
        int rc = check_item(s, o, &item, bytes, e);
        if (rc != 0)
            return rc;
    }
    if (at != end)
        return refuse(s, "it has bytes behind its last item", e);
    if (h->next.stage == COPY_END && o->have > 0)
        return refuse(s, "its last item is not complete", e);
    return 0;
}

/* Checks the head. *again: the part was taken before. */
static int check_head(struct engine_seed *s, const void *part, size_t bytes, struct copy_head *h,
                      bool *again, struct err *e)
{
    *again = false;
    if (bytes >= sizeof *h && bytes <= LIMIT_FRAME_BYTES)
        memcpy(h, part, sizeof *h);
    if (bytes < sizeof *h || bytes > LIMIT_FRAME_BYTES || h->magic != COPY_MAGIC ||
        h->bytes != bytes || h->checksum != copy_checksum(part, bytes))
        return err_set(e, SHOAL_E_CHECKSUM,
                       "part %" PRIu64 " of copy %" PRIu64 " (%zu bytes) is damaged; ask for it "
                       "again",
                       s->next.index, s->number, bytes);
    bool first = s->next.index == 0;
    if (!first &&
        (h->number != s->number || h->sequence != s->sequence || h->from.salt != s->next.salt))
        return refuse(s, "it is of another copy", e);
    if (h->from.index < s->next.index) {
        *again = true;
        return 0;
    }
    if (h->from.index > s->next.index)
        return err_set(e, SHOAL_E_CORRUPT,
                       "part %" PRIu64 " of copy %" PRIu64 " came, and part %" PRIu64
                       " is missing; ask for that one",
                       h->from.index, h->number, s->next.index);
    if ((!first && memcmp(&h->from, &s->next, sizeof s->next) != 0) ||
        h->next.index != s->next.index + 1 || s->next.stage == COPY_END ||
        h->loads > (first ? LIMIT_TABLES : 0) || h->loads * sizeof s->load[0] > bytes - sizeof *h)
        return refuse(s, "its head does not follow from the part before", e);
    return 0;
}

/* ---- taking a part ---- */

static int journal_begin(struct engine_seed *s, uint64_t first, struct err *e)
{
    char path[LIMIT_PATH];
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record record;
    seed_path(s->dir, "seed-journal", path);
    int rc = journal_open(path, s->segment_bytes, &s->journal, e);
    if (rc != 0)
        return rc;
    rc = cursor_gather(NULL, s->journal, &files, e);
    if (rc != 0)
        return rc;

    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_WHOLE);
    rc = cursor_next(&c, &record, e);
    SHOAL_ASSERT(rc != 0); /* the folder is new */
    if (rc == SHOAL_E_END) {
        journal_take_end(s->journal, &c);
        rc = journal_start(s->journal, first, e);
    }
    cursor_close(&c);
    cursor_files_free(&files);
    return rc;
}

static int take_record(struct engine_seed *s, const char *bytes, size_t count, struct err *e)
{
    struct record_header h;
    memcpy(&h, bytes, sizeof h);
    const char *body = bytes + sizeof h;
    size_t rest = count - sizeof h, keys = rest;
    if (h.kind == RECORD_PUSH)
        keys = (size_t)h.key_count * sizeof(uint64_t); /* the checksum has two pieces (record.c) */
    const struct record_payload payload = {{body, body + keys}, {keys, rest - keys}};
    int rc = 0;
    if (s->journal == NULL)
        rc = journal_begin(s, h.sequence, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(journal_next(s->journal) == h.sequence); /* 2 */
    return journal_append(s->journal, &h, &payload, e);
}

/* Writes the pairs that were gathered. */
static int pairs_write(struct engine_seed *s, struct err *e)
{
    uint64_t most = MIN(MAX(s->memory / 32, FLUSH_LEAST), FLUSH_MOST);
    if (s->memory == 0)
        most = FLUSH_MOST;
    int rc = store_write(s->store, s->item, s->items, e);
    for (size_t i = 0; i < s->items; i++)
        s->unflushed += s->item[i].value_bytes + s->item[i].key_bytes;
    s->items = 0;
    if (rc == 0 && s->unflushed >= most) {
        s->unflushed = 0;
        rc = store_flush_begin(s->store, e);
    }
    return rc;
}

static int take_whole(struct engine_seed *s, const struct copy_item *i, const char *bytes,
                      struct err *e)
{
    if (i->key_bytes == 0)
        return take_record(s, bytes, i->total, e);

    if (array_room(&s->item, s->items, &s->item_room, 1024) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %zu pairs of a copy", s->items);
    struct store_item *item = &s->item[s->items++];
    *item = (struct store_item){
        .key_bytes = i->key_bytes, .value = bytes, .value_bytes = (size_t)i->total};
    memcpy(item->key, i->key, i->key_bytes);
    return 0;
}

/* Adds a piece; a complete item is written at once, because the next one takes its memory. */
static int take_piece(struct engine_seed *s, const struct copy_item *i, const char *bytes,
                      struct err *e)
{
    if (array_reserve(&s->value, (size_t)(i->offset + i->bytes), &s->room) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %" PRIu64 " bytes of a copy", i->total);
    memcpy(s->value + i->offset, bytes, i->bytes);
    if (i->offset + i->bytes < i->total)
        return 0;

    int rc = take_whole(s, i, s->value, e);
    if (rc == 0)
        rc = pairs_write(s, e);
    if (rc == 0 && s->journal != NULL)
        rc = journal_commit(s->journal, e);
    return rc;
}

static int take_items(struct engine_seed *s, uint32_t items, const char *at, const char *end,
                      struct err *e)
{
    struct copy_item item;
    const char *bytes;
    int rc = 0;
    for (uint32_t i = 0; i < items && rc == 0; i++) {
        bool there = item_next(&at, end, &item, &bytes);
        SHOAL_ASSERT(there); /* check_items */
        if (item.bytes == item.total)
            rc = take_whole(s, &item, bytes, e);
        else
            rc = take_piece(s, &item, bytes, e);
    }
    if (rc == 0)
        rc = pairs_write(s, e);
    if (rc == 0 && s->journal != NULL)
        rc = journal_commit(s->journal, e);
    return rc;
}

int engine_seed_take(struct engine_seed *s, const void *part, size_t bytes, struct err *e)
{
    struct copy_head h;
    struct order after = s->order;
    bool again;
    if (s->status != 0)
        return err_set(e, s->status, "an earlier part could not be written; begin anew");
    int rc = check_head(s, part, bytes, &h, &again, e);
    if (rc != 0 || again)
        return rc;

    const uint64_t number = s->number, sequence = s->sequence;
    const char *at = (const char *)part + sizeof h, *end = (const char *)part + bytes;
    s->number = h.number;
    s->sequence = h.sequence;
    rc = check_items(s, &h, at + h.loads * sizeof s->load[0], end, &after, e);
    if (rc != 0) {
        s->number = number;
        s->sequence = sequence;
        return rc;
    }
    if (h.loads > 0)
        memcpy(s->load, at, h.loads * sizeof s->load[0]);
    s->loads += h.loads;
    at += h.loads * sizeof s->load[0];
    s->status = take_items(s, h.items, at, end, e);
    SHOAL_ASSERT(s->status != 0 || s->next.index + 1 == h.next.index); /* 2 */
    s->next = h.next;
    s->order = after;
    return s->status;
}

/* ---- opening ---- */

/* The leader's loads are known to a start by their markers, which not every cut has. */
static int loads_write(struct engine_seed *s, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < s->loads && rc == 0; i++) {
        const struct stored_load marker = {.run = s->load[i].run, .tables = s->load[i].tables};
        char value[STORED_LOAD_BYTES];
        struct store_item item;
        stored_load_write(&marker, value, &item);
        rc = store_write(s->store, &item, 1, e);
    }
    return rc;
}

/* All records are on disk. */
static int journal_end(struct engine_seed *s, struct err *e)
{
    struct journal *j = s->journal;
    struct journal_sync sync;
    int rc = 0;
    if (j == NULL)
        return 0;
    while (rc == 0 && journal_sync_begin(j, &sync)) {
        journal_sync_run(&sync);
        rc = journal_sync_end(j, &sync, e);
    }
    if (rc == 0 && journal_synced(j) != journal_committed(j))
        rc = err_set(e, SHOAL_E_IO, "cannot sync %s/seed-journal", s->dir);
    SHOAL_ASSERT(rc != 0 || journal_synced(j) == journal_next(j) - 1); /* 3 */
    return rc;
}

static int put_on_disk(struct engine_seed *s, struct err *e)
{
    int rc = loads_write(s, e);
    if (rc == 0)
        rc = store_flush(s->store, e);
    if (rc == 0)
        rc = journal_end(s, e);
    seed_close(s);
    if (rc == 0)
        rc = seed_decide(s->dir, e);
    return rc;
}

/* Reads the images of a table, which then leave the seed. */
static int fill_table(struct engine_seed *s, struct recover *r, uint32_t table, struct err *e)
{
    struct engine_table *t = &r->to.g->table[table];
    int rc = 0;
    for (uint32_t k = 0; k < t->scope.tablets && rc == 0; k++) {
        struct store_item from, below;
        rc = recover_tablets(r, s->store, table, k, k + 1, e);
        stored_tablet_key(table, k, &from);
        stored_tablet_key(table, k + 1, &below);
        if (rc == 0)
            rc = store_drop(s->store, &from, &below, e);
        t->durable[k] = 0; /* no tablet of an engine without a store has an image */
    }
    return rc;
}

/* Fills an empty engine without a store. */
static int fill(struct engine_seed *s, struct engine *g, struct err *e)
{
    struct recover r;
    SHOAL_ASSERT(g->store == NULL && g->sequence == 0);
    recover_init(&r, g, s->store, &g->runs, false);
    int rc = recover_head(&r, s->store, e);
    if (rc == 0 && !r.found_control)
        rc = err_set(e, SHOAL_E_CORRUPT, "copy %" PRIu64 " has no control state", s->number);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        if (g->table[i].table != NULL)
            rc = fill_table(s, &r, i, e);
    g->sequence = g->committed = g->control_changed = r.to.control;
    if (rc == 0 && apply_ghosts_end(&g->runs, g->sequence) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the runs of copy %" PRIu64, s->number);
    recover_free(&r);
    engine_refresh_marks(g);
    return rc;
}

/* The loads of the leader, which its store knows only in part. */
static int check_opened(struct engine_seed *s, struct engine *g, struct err *e)
{
    if (g->sequence != s->sequence)
        return err_set(e, SHOAL_E_CORRUPT,
                       "copy %" PRIu64 " is complete up to record %" PRIu64 " instead of %" PRIu64,
                       s->number, g->sequence, s->sequence);
    for (g->loads = 0; g->loads < s->loads; g->loads++)
        g->loaded[g->loads] = (struct engine_loaded){.run = s->load[g->loads].run,
                                                     .tables = s->load[g->loads].tables};
    return 0;
}

int engine_seed_open(struct engine_seed *s, const struct engine_options *o, struct env *env,
                     struct engine **out, struct err *e)
{
    struct engine *g = NULL;
    int rc = s->status;
    if (rc != 0)
        err_set(e, rc, "a part of copy %" PRIu64 " could not be written; begin anew", s->number);
    else if (s->next.stage != COPY_END)
        rc = err_set(e, SHOAL_E_MALFORMED, "part %" PRIu64 " of copy %" PRIu64 " is missing",
                     s->next.index, s->number);
    else if (s->dir != NULL)
        rc = put_on_disk(s, e);
    else if (o->dir != NULL)
        rc = engine_wipe(o->dir, e);
    if (rc != 0)
        goto out;

    rc = engine_open(o, env, &g, e);
    if (rc == 0 && s->dir == NULL)
        rc = fill(s, g, e);
    if (rc == 0)
        rc = check_opened(s, g, e);
    if (rc == 0)
        *out = g;
    else if (g != NULL)
        (void)engine_close(g, false);

out:
    if (rc == 0)
        seed_free(s);
    else
        engine_seed_free(s);
    return rc;
}
