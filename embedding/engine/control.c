/* control.c: control records: one call checks, journals, commits (with a sync in fsync mode) and
 * applies each (apply.h). */
#include "embedding/engine/apply.h"
#include "embedding/engine/change.h"
#include "embedding/engine/cut_copy.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/engine/restore_check.h"
#include "embedding/engine/tier.h"
#include "embedding/journal/record_schema.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Syncs all records up to now, on this thread. */
static int sync_now(struct engine *g, struct err *e)
{
    struct journal_sync sync;
    SHOAL_ASSERT(journal_next(g->journal) == journal_committed(g->journal) + 1);
    journal_sync_peek(g->journal, &sync);
    journal_sync_run(&sync);
    return journal_sync_end(g->journal, &sync, e);
}

/* Runs and fences are on disk before the reply, in `journal` mode too: no client tells a shard
 * again which lanes are over. Of moved tablets the caller waits until their records are on disk
 * (move.h): they are too large to be synced here. */
static bool must_last(const struct engine *g, enum record_kind kind)
{
    if (kind == RECORD_TABLET_IN || kind == RECORD_TABLET_OUT)
        return false;
    if (g->options.durability == DURABLE_FSYNC || kind == RECORD_TERM)
        return true;
    return (kind == RECORD_FENCE || record_opens(kind) || kind == RECORD_RUN_DROP);
}

/* Journals a control record, with its head in *h; queued pushes before it are written, too. */
static int control_journal(struct engine *g, enum record_kind kind, const void *bytes, size_t count,
                           struct record_header *h, struct err *e)
{
    SHOAL_ASSERT(engine_back(g));
    *h = (struct record_header){.kind = (uint16_t)kind, .payload_bytes = (uint32_t)count};
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    struct record_payload payload = {{bytes, NULL}, {count, 0}};
    if (g->journal == NULL) {
        h->sequence = g->committed = g->control_changed = ++g->sequence;
        if (g->tail != NULL)
            follow_keep(g, h, &payload);
        return 0;
    }
    SHOAL_ASSERT(count <= journal_payload_max(g->journal)); /* otherwise it fits no segment */
    struct err failure = {0};
    int rc = journal_append(g->journal, h, &payload, &failure);
    if (rc == 0)
        rc = journal_commit(g->journal, &failure);
    if (rc == 0 && must_last(g, kind))
        rc = sync_now(g, &failure);
    if (rc != 0)
        return engine_fail_with(g, &failure, e);
    SHOAL_ASSERT(h->sequence == g->sequence + 1); /* engine.h, 2 */
    g->sequence = g->control_changed = h->sequence;
    if (g->tail != NULL)
        follow_keep(g, h, &payload);
    g->committed = journal_committed(g->journal);
    SHOAL_ASSERT(g->committed == g->sequence);
    if (g->options.durability == DURABLE_FSYNC)
        engine_sync_start(g);
    return 0;
}

static int restore_live(struct apply *a, const struct record_restore *r, uint64_t sequence,
                        bool past, struct err *e)
{
    int rc = 0;
    if (a->g->journal != NULL)
        rc = cut_ref_add(a->g, r->cut, sequence);
    if (rc != 0)
        return err_set(e, rc, "no room to note the restore of cut %" PRIu64, r->cut);
    bool steps = a->g->options.on_recovered != NULL;

    if (steps)
        return engine_restore_start(a->g, r, sequence, e);

    return engine_restore_apply(a->g, r, sequence, past, e);
}

/* Applies a journalled record; if that fails, only a restart makes journal and memory agree. */
static int control_apply(struct engine *g, const struct record_header *h, const void *payload,
                         uint64_t *changed, struct err *e)
{
    static const struct apply_ops live = {.restore = restore_live};
    struct apply a = {.g = g, .runs = &g->runs, .ops = &live, .live = true};
    struct err failure = {0};
    SHOAL_ASSERT(h->sequence <= g->committed); /* engine.h, 1 */
    int rc = apply_record(&a, &(struct journal_record){h, payload}, &failure);
    if (changed != NULL)
        *changed = a.changed;

    if (rc == 0)
        return 0;

    return engine_fail_with(g, &failure, e);
}

int engine_record(struct engine *g, enum record_kind kind, const void *bytes, size_t count,
                  struct err *e)
{
    struct record_header h;
    int rc = control_journal(g, kind, bytes, count, &h, e);
    if (rc != 0)
        return rc;

    return control_apply(g, &h, bytes, NULL, e);
}

static int record_table(struct engine *g, const struct table_schema *s, struct err *e)
{
    size_t bytes = record_schema_bytes(s);
    void *stored = malloc(bytes);
    if (stored == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the schema of table %s", s->name);
    record_schema_write(s, stored);
    int rc = engine_record(g, RECORD_TABLE, stored, bytes, e);
    free(stored);
    return rc;
}

int engine_table_create(struct engine *g, const struct table_schema *schema, struct err *e)
{
    int rc = schema_check(schema, e);
    if (rc != 0)
        return rc;
    struct engine_table *t = engine_slot(g, schema->table);
    if (t != NULL && schema_equal(table_schema_of(t->table), schema))
        return 0;
    if (t != NULL)
        rc = change_ready(g, schema, e);
    else
        rc = engine_overlap(g, schema, e);

    char what[SCHEMA_DIFFERENCE_MAX];
    if (rc == 0 && t != NULL)
        log_info("table %s changes: %s", schema->name,
                 schema_difference(schema, table_schema_of(t->table), what));
    if (rc != 0)
        return rc;

    return record_table(g, schema, e);
}

/* Checks that a run that is not open was not finished before. */
static int check_over(const struct engine *g, uint64_t run, struct table_set tables, struct err *e)
{
    uint64_t newest = runs_newest(&g->runs, tables);
    if (run > newest)
        return 0;
    return err_set(e, SHOAL_E_CONFIG,
                   "run %" PRIu64 " is over, the newest one here was run %" PRIu64
                   ": the coordinator's data_dir is older than it was; submit the job again",
                   run, newest);
}

int engine_run_open_tables(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode,
                           struct table_set tables, struct err *e)
{
    if (run == 0 || lanes == 0 || lanes > LIMIT_LANES || !run_mode_known(mode))
        return err_set(e, SHOAL_E_MALFORMED, "run %" PRIu64 " with %u lanes, mode %u", run, lanes,
                       mode);
    struct run *known = runs_find(&g->runs, run);
    if (known != NULL) {
        if (known->lanes == lanes && known->mode == mode)
            return 0;
        return err_set(e, SHOAL_E_EXISTS, "run %" PRIu64 " is open with %u lanes, mode %u", run,
                       known->lanes, known->mode);
    }
    if (g->opening == run)
        return err_set(e, SHOAL_E_BUSY,
                       "run %" PRIu64 " is being opened by the load of a checkpoint; ask again",
                       run);
    int rc = check_over(g, run, tables, e);
    if (rc == 0 && runs_open(&g->runs) >= LIMIT_RUNS)
        rc = err_set(e, SHOAL_E_BUSY, "%u runs are open; drop one first", LIMIT_RUNS);
    if (rc == 0)
        rc = tier_check_marks(g, run, lanes, tables, e);
    if (rc != 0)
        return rc;
    struct record_run_open r = {.run = run, .tables = tables, .lanes = lanes, .mode = mode},
                           payload;
    size_t bytes;
    enum record_kind kind = record_of_run_open(&r, &payload, &bytes);
    return engine_record(g, kind, &payload, bytes, e);
}

int engine_run_open(struct engine *g, uint64_t run, uint32_t lanes, uint32_t mode, struct err *e)
{
    return engine_run_open_tables(g, run, lanes, mode, TABLE_SET_ALL, e);
}

int engine_run_still(const struct engine *g, uint64_t run, struct err *e)
{
    if (runs_find(&g->runs, run) != NULL || g->opening == run)
        return 0;
    int rc = check_over(g, run, TABLE_SET_ALL, e);
    if (rc != 0)
        return rc;
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "run %" PRIu64 " was open here and is not any more: this folder is older than "
                   "it was; bring the newest one back, or go on from a checkpoint",
                   run);
}

int engine_run_drop(struct engine *g, uint64_t run, struct err *e)
{
    struct run *known = runs_find(&g->runs, run);
    if (g->opening == run)
        return err_set(e, SHOAL_E_AGAIN,
                       "run %" PRIu64 " is being opened by the load of a checkpoint", run);
    if (known == NULL)
        return 0;
    if (g->pending > 0)
        return err_set(e, SHOAL_E_AGAIN, "pushes of run %" PRIu64 " are being applied", run);
    if (cut_copy_under_way(g)) /* cut_copy.c, 1: tablets that are not copied yet have its marks */
        return err_set(e, SHOAL_E_AGAIN, "a cut is being copied; ask again");
    struct record_run_drop r = {.run = run};
    int rc = engine_record(g, RECORD_RUN_DROP, &r, sizeof r, e);
    if (rc == 0 && g->journal == NULL)
        runs_forget(&g->runs, UINT64_MAX);
    return rc;
}

int engine_fence(struct engine *g, uint64_t run, uint32_t lane, uint64_t generation, bool live,
                 const int64_t *offset, uint64_t *mark, struct err *e)
{
    struct run *r = runs_find(&g->runs, run);
    if (r == NULL)
        return err_set(e, SHOAL_E_OLD_RUN, "run %" PRIu64 " is not open here", run);
    if (lane >= r->lanes)
        return err_set(e, SHOAL_E_MALFORMED, "lane %u of a run with %u lanes", lane, r->lanes);
    const struct run_lane *l = &r->lane[lane];
    if (generation < l->generation)
        return err_set(e, SHOAL_E_FENCED, "lane %u has generation %" PRIu64 ", the fence %" PRIu64,
                       lane, l->generation, generation);
    bool copy = live == l->live || l->live;
    if (generation != l->generation || !copy) {
        struct record_fence f = {
            .run = run, .generation = generation, .offset = l->offset, .lane = lane, .live = live};
        bool counts = live && !run_is_bsp(r);
        if (counts && offset != NULL)
            f.offset = *offset;
        else if (counts)
            f.offset = run_offset(r, lane);
        int rc = engine_record(g, RECORD_FENCE, &f, sizeof f, e);
        if (rc != 0)
            return rc;
    }
    SHOAL_ASSERT(l->generation == generation && (l->live || !live));
    *mark = l->lowest;
    return 0;
}

/* Collects the led keys of a table behind the head of their record, in one block. */
static struct record_keys *keys_record(const struct engine_table *t, enum key_action action,
                                       const uint64_t *keys, uint32_t count)
{
    struct record_keys *r = malloc(sizeof *r + count * sizeof *keys);
    const struct table_schema *s = table_schema_of(t->table);
    if (r == NULL)
        return NULL;
    *r = (struct record_keys){.table = s->table, .action = (uint32_t)action};
    uint64_t *led = (uint64_t *)(void *)(r + 1);
    for (uint32_t i = 0; i < count; i++)
        if (t->scope.led[key_tablet(key_mix(keys[i]), s->tablet_bits)])
            led[r->count++] = keys[i];
    return r;
}

int engine_keys_check(const struct engine *g, uint32_t table, enum key_action action,
                      uint32_t count, struct err *e)
{
    const struct engine_table *t = NULL;
    if (table < LIMIT_TABLES)
        t = &g->table[table];
    if (t == NULL || t->table == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", table);
    if ((unsigned)action > KEY_EVICT || count > LIMIT_KEYS)
        return err_set(e, SHOAL_E_MALFORMED, "action %d with %u keys, at most %u", (int)action,
                       count, LIMIT_KEYS);
    bool fields = action == KEY_FRESH || action == KEY_DROP;
    if (table_schema_of(t->table)->dense && !fields)
        return err_set(e, SHOAL_E_MALFORMED,
                       "table %s is dense: its rows are blocks of the network, not keys to name",
                       table_schema_of(t->table)->name);
    if (!engine_back(g))
        return err_set(e, SHOAL_E_AGAIN, "rows are being brought back; ask again");
    if (g->pending > 0)
        return err_set(e, SHOAL_E_AGAIN, "pushes are being applied");
    if (cut_copy_waits(g, table, 0, t->scope.tablets))
        return err_set(e, SHOAL_E_AGAIN, "a cut is being copied; ask again");
    if (table_set_has(&g->loading, table))
        return err_set(e, SHOAL_E_BUSY, "table %s is being filled from a checkpoint; ask again",
                       table_schema_of(t->table)->name);
    if (action <= KEY_ALLOW && !table_keys_fit(t->table, count))
        return err_set(e, SHOAL_E_TOO_BIG,
                       "table %s: a tablet has too many keys by name; reset some",
                       table_schema_of(t->table)->name);
    return 0;
}

int engine_keys(struct engine *g, uint32_t table, enum key_action action, const uint64_t *keys,
                uint32_t count, uint64_t *changed, struct err *e)
{
    *changed = 0;
    int rc = engine_keys_check(g, table, action, count, e);
    if (rc != 0)
        return rc;
    struct engine_table *t = &g->table[table];
    struct record_keys *r = keys_record(t, action, keys, count);
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u keys", count);
    size_t bytes = sizeof *r + r->count * sizeof *keys;
    if (g->journal != NULL && bytes > journal_payload_max(g->journal))
        rc = err_set(e, SHOAL_E_TOO_BIG, "%u keys do not fit a journal segment; send fewer", count);
    if (rc == 0 && r->count > 0) {
        struct record_header h;
        rc = control_journal(g, RECORD_KEYS, r, bytes, &h, e);
        if (rc == 0)
            rc = control_apply(g, &h, r, changed, e);
    }
    free(r);
    return rc;
}

int engine_fields_drop(struct engine *g, uint32_t table, uint32_t tablet, const uint64_t *fields,
                       bool names, uint64_t *rows, struct err *e)
{
    enum key_action action = KEY_FRESH;
    if (names)
        action = KEY_DROP;

    uint64_t keys[LIMIT_FIELDS];
    uint32_t count;
    *rows = 0;
    int rc = engine_keys_check(g, table, action, 0, e);
    if (rc != 0 || !g->table[table].scope.led[tablet])
        return rc;
    if (table_keys_of(g->table[table].table, tablet, fields, keys, &count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop fields of table %u", table);

    if (count > 0)
        return engine_keys(g, table, action, keys, count, rows, e);

    return 0;
}

static bool is_named(const struct engine *g, uint32_t table, const char *text, size_t bytes)
{
    const struct table *t = g->table[table].table;
    return t != NULL && strlen(table_schema_of(t)->name) == bytes &&
           memcmp(table_schema_of(t)->name, text, bytes) == 0;
}

/* The end of the number, or `*`, behind this ':' if the word ends there; NULL: the ':' is part of a
 * name. */
static const char *word_end(const char *colon)
{
    size_t bytes = 1;
    if (colon[1] != '*')
        bytes = strspn(colon + 1, "0123456789");
    const char *end = colon + 1 + bytes;

    if (bytes > 0 && (*end == 0 || *end == ' '))
        return end;

    return NULL;
}

int engine_fields_take(const struct engine *g, const char *text, struct table_set tables,
                       struct engine_fields *out, struct err *e)
{
    memset(out, 0, sizeof *out);
    for (const char *p = text; p != NULL && *p != 0; p += *p == ' ') {
        const char *colon = *p == ' ' ? NULL : strchr(p + 1, ':'), *end = NULL;
        while (colon != NULL && (end = word_end(colon)) == NULL)
            colon = strchr(colon + 1, ':'); /* a table's name may contain any character */
        bool all = colon != NULL && colon[1] == '*';
        unsigned long field;
        if (colon == NULL || all)
            field = 0;
        else
            field = strtoul(colon + 1, NULL, 10);
        if (colon == NULL || field >= LIMIT_FIELDS)
            return err_set(e, SHOAL_E_MALFORMED, "fields: \"%.100s\" is no list of them", text);
        TABLE_SET_EACH (t, &tables) {
            if (!is_named(g, t, p, (size_t)(colon - p)))
                continue;
            if (all)
                memset(out->of[t], 0xff, sizeof out->of[0]);
            else
                out->of[t][field / 64] |= UINT64_C(1) << (field % 64);
        }
        p = end;
    }
    return 0;
}

/* Checks that a run of a restore fits beside those that stay open. */
static int check_room_beside(const struct engine *g, const struct record_restore *r, struct err *e)
{
    uint32_t stay = 0;
    for (uint32_t i = 0; i < g->runs.count; i++)
        stay += !g->runs.run[i]->ghost && !table_set_meet(g->runs.run[i]->tables, r->existing);
    if (stay < LIMIT_RUNS)
        return 0;
    return err_set(e, SHOAL_E_BUSY, "%u runs are open; drop one first", LIMIT_RUNS);
}

int engine_restore(struct engine *g, uint64_t cut, uint64_t run, struct err *e)
{
    if (runs_find(&g->runs, run) != NULL)
        return 0; /* only one restore opens a run: this one was here before */
    if (table_set_any(g->loading))
        return err_set(e, SHOAL_E_BUSY, "a checkpoint is being loaded; ask again");
    if (run == 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "cut %" PRIu64 " cannot be restored as run 0 now: run 0 is no run", cut);
    if (g->pending > 0 || g->holding || g->cut_busy)
        return err_set(e, SHOAL_E_AGAIN,
                       "cut %" PRIu64 " cannot be restored as run %" PRIu64
                       " now: pushes or another cut are under way",
                       cut, run);
    if (g->journal != NULL && g->ref_count == ENGINE_CUT_REFS)
        return err_set(
            e, SHOAL_E_BUSY,
            "%u restores are still in the journal; ask again when rows have been written",
            ENGINE_CUT_REFS);
    struct cut_source source;
    bool checked = cut_checked(g, cut);
    int rc = cut_open(g, cut, checked ? CUT_SIZES : CUT_READ, &source, e);
    if (rc != 0)
        return rc;
    const struct cut_facts *f = &source.facts;
    struct record_restore r = {
        .cut = cut, .run = run, .tables = f->tables, .lanes = f->lanes, .mode = f->mode};
    if (checked)
        rc = 0;
    else
        rc = restore_check_read(&source, e);
    if (rc == 0)
        rc = restore_check_tables(g, &source, engine_table_create, e);
    cut_source_close(&source);
    if (rc != 0)
        return rc;
    /* Tables of other runs stay unchanged, and so do these runs. */
    r.existing = table_set_and(g->here, r.tables);
    rc = check_room_beside(g, &r, e);
    if (rc != 0)
        return rc;
    return engine_record_restore(g, &r, e);
}

int engine_record_restore(struct engine *g, const struct record_restore *r, struct err *e)
{
    int rc = 0;
    /* its rows may not all fit into memory: applying the record writes to the store */
    if (g->store != NULL)
        rc = flush_settle(g, e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(g->pending == 0 && !g->flush.busy && !g->cut_busy);
    struct record_header h;
    struct record_restore payload;
    size_t bytes;
    enum record_kind kind = record_of_restore(r, &payload, &bytes);
    rc = control_journal(g, kind, &payload, bytes, &h, e);
    if (rc != 0)
        return rc;
    struct err failure = {0};
    if (g->journal == NULL)
        rc = 0;
    else
        rc = sync_now(g, &failure);
    if (rc != 0)
        return engine_fail_with(g, &failure, e);
    return control_apply(g, &h, &payload, NULL, e);
}
