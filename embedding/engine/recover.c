/* recover.c: combines rows and marks of the store with the records above them; restore.c does that
 * for a restored cut.
 *
 * 1. A record acts on a tablet only if its sequence is above the tablet's own (`base`): a stored
 *    effect is not repeated. [test: test_recover]
 * 2. Marks decide as they did live: a tablet's marks after record s are a function of its stored
 *    marks and its records up to s. [test: test_recover, test_tier_random]
 * 3. The control state is never older than a stored tablet, but may be newer: runs that were
 *    dropped before it, yet are named by old records, are ghosts until their drop is replayed. It
 *    lists them (run_past), because the records that opened them may be gone.
 *    [assert: flush_written_floor]
 * 4. Tablets that a load was writing when the process died are removed from the store before they
 *    are used (load.c, 3). [test: test_checkpoint_kill] */
#include "embedding/engine/recover.h"

#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/tier.h"
#include "embedding/journal/cursor.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is stored ---- */

static int take_load(struct recover *r, const void *value, size_t value_bytes, struct err *e)
{
    struct stored_load l;
    int rc = stored_load_read(value, value_bytes, &l, e);
    if (rc != 0 || r->to.of_cut) /* a cut is never made during a load */
        return rc;
    if (l.under_way)
        r->load = l; /* one at a time: the next one begins after its end */
    else if (r->to.g->loads < LIMIT_TABLES)
        r->to.g->loaded[r->to.g->loads++] =
            (struct engine_loaded){.run = l.run, .tables = l.tables};
    return 0;
}

int recover_base(struct recover *r, uint32_t table)
{
    struct engine_table *t = engine_slot(r->to.g, table);
    if (!r->to.of_cut) {
        r->to.base[table] = t->durable;
        return 0;
    }
    if (r->to.base[table] != NULL)
        return 0;
    size_t bytes = t->scope.tablets * sizeof *r->to.base[table];
    if ((r->to.base[table] = malloc(bytes)) == NULL)
        return SHOAL_E_NOMEM;
    memset(r->to.base[table], r->named_only ? 0xff : 0, bytes);
    r->own[table] = true;
    return 0;
}

static int take_schema(void *context, const struct table_schema *s, const struct table_past *past,
                       struct err *e)
{
    struct recover *r = context;
    if (table_set_has(&r->to.but, s->table))
        return 0;
    return apply_table(&r->to, s, past, e);
}

static int take_control(struct recover *r, const void *value, size_t value_bytes, struct err *e)
{
    struct stored_as_of as_of = {0};
    int rc = stored_control_read(value, value_bytes, r->to.runs, &as_of, take_schema, r, e);
    r->to.control = as_of.sequence;
    r->found_control = true;
    r->to.floor = 0; /* a cut's tablets have their own `base` */
    if (!r->to.of_cut) {
        r->to.floor = as_of.floor;
        r->to.g->terms = as_of.terms;
    }
    return rc;
}

static int take_stored(void *context, const void *key, size_t key_bytes, const void *value,
                       size_t value_bytes, struct err *e)
{
    struct recover *r = context;
    uint32_t table, tablet;
    if (stored_is_control(key, key_bytes))
        return take_control(r, value, value_bytes, e);
    if (stored_is_load(key, key_bytes))
        return take_load(r, value, value_bytes, e);
    if (!stored_is_tablet(key, key_bytes, &table, &tablet))
        return err_set(e, SHOAL_E_CORRUPT,
                       "the row store holds a key that is not Shoal's (%zu bytes)", key_bytes);
    struct engine_table *t = engine_slot(r->to.g, table);
    if (t == NULL || tablet >= t->scope.tablets || r->to.base[table] == NULL)
        return err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %u is stored, but no such table is",
                       tablet, table);
    if (r->to.base[table][tablet] == UINT64_MAX)
        return 0;
    engine_pulse(r->to.g, 0, 0);
    uint64_t flushed;
    int rc = stored_tablet_head(value, value_bytes, table_schema_of(t->table), tablet, &flushed, e);
    if (rc == 0 && (flushed > r->until || flushed > r->to.control))
        rc =
            err_set(e, SHOAL_E_CORRUPT,
                    "tablet %u of table %s is stored as of record %" PRIu64 ", beyond %" PRIu64,
                    tablet, table_schema_of(t->table)->name, flushed, MIN(r->until, r->to.control));
    if (rc == 0)
        rc = stored_tablet_read(value, value_bytes, t->table, r->to.runs, tablet, e);
    if (rc == 0 && r->images != NULL)
        rc = recover_settle(r, t->table, tablet, e);
    else if (rc == 0 && r->spill != NULL)
        rc = recover_make_room(r, e);
    r->to.base[table][tablet] = flushed;
    return rc;
}

int recover_head(struct recover *r, struct store *s, struct err *e)
{
    static const struct store_item below = {.key = {'i'}, .key_bytes = 1};
    return store_range(s, NULL, &below, take_stored, r, e);
}

int recover_tablets(struct recover *r, struct store *s, uint32_t table, uint32_t first,
                    uint32_t below, struct err *e)
{
    struct store_item from, to;
    stored_tablet_key(table, first, &from);
    stored_tablet_key(table, below, &to);
    return store_range(s, &from, &to, take_stored, r, e);
}

/* ---- records, and their additional steps (apply.h) ---- */

static int base_of(struct apply *a, uint32_t table, struct err *e)
{
    if (recover_base(container_of(a, struct recover, to), table) == 0)
        return 0;

    return err_set(e, SHOAL_E_NOMEM, "no memory for the tablets of table %u", table);
}

static int tablets_back(struct apply *a, uint32_t table, uint32_t first, uint32_t count,
                        struct err *e)
{
    return reload_bring(a->g, table, first, count, e);
}

static int rows_in(struct apply *a, uint32_t table, const uint64_t *keys, uint32_t count,
                   struct err *e)
{
    return fetch_now(a->g->table[table].table, container_of(a, struct recover, to)->store, keys,
                     count, e);
}

static int room_beside(struct apply *a, uint64_t sequence, struct err *e)
{
    return flush_make_room(a->g, sequence, sequence > a->control, e);
}

static int room_of_cut(struct apply *a, uint64_t sequence, struct err *e)
{
    struct recover *r = container_of(a, struct recover, to);
    (void)sequence;

    if (r->spill == NULL)
        return 0;

    return recover_make_room(r, e);
}

static int run_alone(struct apply *a, const struct record_restore *record, uint64_t sequence,
                     bool past, struct err *e)
{
    struct run *run;
    int rc = apply_restored_run(a->runs, record, sequence, past, &run);
    if (rc == 0)
        return 0;

    return err_set(e, rc, "record %" PRIu64 " cannot be replayed: %s", sequence, err_text(rc));
}

/* Finds a tablet that is older than the restore in record `sequence`. False: there is none. */
static bool find_older(const struct apply *a, const struct record_restore *record,
                       uint64_t sequence, uint32_t *table, uint32_t *tablet)
{
    for (*table = 0; *table < LIMIT_TABLES; ++*table)
        for (*tablet = 0; a->base[*table] != NULL && table_set_has(&record->existing, *table) &&
                          *tablet < a->g->table[*table].scope.tablets;
             ++*tablet)
            if (a->base[*table][*tablet] < sequence)
                return true;
    return false;
}

/* A cut does not depend on another one (cut.c, 3): its tablets are all later than any restore among
 * its records. */
static int restored_in_cut(struct apply *a, const struct record_restore *record, uint64_t sequence,
                           bool past, struct err *e)
{
    uint32_t table, tablet;
    if (find_older(a, record, sequence, &table, &tablet))
        return err_set(e, SHOAL_E_CORRUPT,
                       "tablet %u of table %u is older than the restore in record %" PRIu64, tablet,
                       table, sequence);
    return run_alone(a, record, sequence, past, e);
}

/* The older tablets are known once they are back. If none is, the record only opens its run, and
 * its cut may be gone. A segment may have any number of such restores; of others there are no more
 * than engine_restore allows to wait. */
static int restored(struct apply *a, const struct record_restore *record, uint64_t sequence,
                    bool past, struct err *e)
{
    uint32_t table, tablet;
    if (sequence <= a->floor)
        return run_alone(a, record, sequence, past, e);
    int rc = reload_bring_all(a->g, e);
    if (rc != 0)
        return rc;
    if (find_older(a, record, sequence, &table, &tablet) &&
        cut_ref_add(a->g, record->cut, sequence) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "more than %u restores in the journal wait for rows to be written",
                       ENGINE_CUT_REFS);
    return engine_restore_apply(a->g, record, sequence, past, e);
}

static const struct apply_ops beside = {base_of, tablets_back, rows_in, room_beside, restored};
static const struct apply_ops in_cut = {base_of, NULL, rows_in, room_of_cut, restored_in_cut};

void recover_init(struct recover *r, struct engine *g, struct store *store, struct runs *runs,
                  bool of_cut)
{
    *r = (struct recover){
        .to = {.g = g, .runs = runs, .of_cut = of_cut, .ops = of_cut ? &in_cut : &beside},
        .store = store,
        .until = UINT64_MAX};
}

void recover_free(struct recover *r)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        if (r->own[i])
            free(r->to.base[i]);
        free(r->epoch[i]);
    }
}

/* Replays all records of the journal up to r->until, in order; the engine's own journal ends where
 * they do. *first and *last: sequences seen, 0 and 0 for none. */
static int replay_records(struct recover *r, struct journal *j, uint64_t *first, uint64_t *last,
                          struct err *e)
{
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record record;
    *first = *last = 0;
    int rc = cursor_gather(NULL, j, &files, e);
    if (rc != 0)
        return rc;
    cursor_open(&c, &files, 0, r->until, CURSOR_WHOLE);
    c.floor = r->to.floor;
    if (!r->to.of_cut)
        r->to.g->flush.read = &c;
    while ((rc = cursor_next(&c, &record, e)) == 0 &&
           (rc = apply_record(&r->to, &record, e)) == 0) {
        if (*first == 0)
            *first = record.head->sequence;

        *last = record.head->sequence;
        r->to.g->replayed += !r->to.of_cut;
        engine_pulse(r->to.g, cursor_done(&c), cursor_of(&c));
    }
    if (rc == SHOAL_E_END) {
        rc = 0;
        if (!r->to.of_cut && c.sought && c.last == r->until)
            rc = journal_take_until(j, &c, e);
        else if (!r->to.of_cut)
            journal_take_end(j, &c);
    }
    r->to.g->flush.read = NULL;
    cursor_close(&c);
    cursor_files_free(&files);
    return rc;
}

int recover_cut_end(const struct recover *r, uint64_t last, struct err *e)
{
    if (last >= r->until || r->to.control >= r->until)
        return 0;
    return err_set(e, SHOAL_E_CORRUPT, "its journal ends at record %" PRIu64 ", it needs %" PRIu64,
                   last, r->until);
}

/* ---- recovery ---- */

int recover_clear_load(struct store *s, struct table_set tables, struct err *e)
{
    struct store_item item[LIMIT_TABLES + 1] = {0};
    size_t items = 0;
    int rc = 0;
    stored_load_key(TABLE_SET_NONE, &item[items++]);
    for (uint32_t i = table_set_next(&tables, 0); i < LIMIT_TABLES && rc == 0;
         i = table_set_next(&tables, i + 1)) {
        struct store_item image, no_image, row, no_row;
        stored_load_key(table_set_one(i), &item[items++]);
        stored_tablet_key(i, 0, &image);
        stored_tablet_key(i + 1, 0, &no_image);
        stored_table_rows(i, &row, &no_row);
        rc = store_drop(s, &image, &no_image, e);
        if (rc == 0)
            rc = store_drop(s, &row, &no_row, e);
    }
    if (rc == 0)
        rc = store_flush(s, e);
    if (rc == 0)
        rc = store_write(s, item, items, e);
    if (rc != 0)
        return rc;

    return store_flush(s, e);
}

static int clear_unfinished(struct recover *r, struct err *e)
{
    SHOAL_ASSERT(!r->to.of_cut && r->load.under_way);
    if (!table_set_any(runs_uncleared(r->to.runs, r->load.tables, r->load.run)))
        log_info("%s: the tables that were here before job %" PRIu64 " go, as was begun",
                 r->to.g->dir, r->load.run);
    else
        log_warn("%s: the load of a checkpoint as run %" PRIu64
                 " was not finished; its tables are empty, load it again",
                 r->to.g->dir, r->load.run);
    return recover_clear_load(r->store, r->load.tables, e);
}

static int refuse_image(void *context, const void *key, size_t key_bytes, const void *value,
                        size_t value_bytes, struct err *e)
{
    (void)context, (void)key, (void)key_bytes, (void)value;
    return err_set(e, SHOAL_E_CORRUPT,
                   "the row store holds tablets (one of %zu bytes) and no control state: it has "
                   "lost pairs; restore a checkpoint",
                   value_bytes);
}

/* Reads the store: the control state, and all tablets, or those that records or requests ask for
 * later. */
static int recover_stored(struct recover *r, struct err *e)
{
    struct engine *g = r->to.g;
    struct store_item from, below;
    stored_tablet_key(0, 0, &from);
    stored_tablet_key(LIMIT_TABLES, 0, &below);
    int rc = recover_head(r, r->store, e);
    if (rc == 0 && r->to.control > r->until)
        rc = err_set(e, SHOAL_E_NOT_FOUND,
                     "rows are stored up to record %" PRIu64
                     ", the leader shares those up to %" PRIu64 ": this copy begins anew",
                     r->to.control, r->until);
    if (rc == 0 && r->load.run != 0)
        rc = clear_unfinished(r, e);
    if (rc == 0 && !r->found_control)
        rc = store_range(r->store, &from, &below, refuse_image, NULL, e);
    if (rc == 0)
        rc = reload_begin(g, r, e);
    if (rc == 0 && g->options.on_recovered == NULL) {
        rc = reload_bring_all(g, e);
        reload_free(g);
    }
    g->control_changed = g->control_durable = g->control_written = r->to.control;
    return rc;
}

int engine_recover(struct engine *g, struct err *e)
{
    struct recover r;
    uint64_t first, last;
    uint64_t began = env_now_ns(g->env);
    SHOAL_ASSERT(g->sequence == 0 && g->pending == 0);
    recover_init(&r, g, g->store, &g->runs, false);
    if (g->options.until != 0)
        r.until = g->options.until;
    int rc = recover_stored(&r, e);
    if (rc == 0)
        rc = replay_records(&r, g->journal, &first, &last, e);
    if (rc != 0)
        return err_wrap(e, rc, "recovering %s", g->dir);
    if (first > r.to.control + 1)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s: the journal begins at record %" PRIu64
                       ", rows are stored up to %" PRIu64 "; segments are missing",
                       g->dir, first, r.to.control);
    /* floor 0: not known (load.c, cut_copy.c) */
    if (r.to.floor > 0 && MAX(last, r.to.floor) < r.to.control)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s: rows are stored up to record %" PRIu64
                       ", those of some tablets only up to %" PRIu64
                       ", and the journal ends at %" PRIu64
                       "; segments are missing, or the disk has lost what it reported as "
                       "written: restore a checkpoint",
                       g->dir, r.to.control, r.to.floor, last);
    if (last < r.to.control && last > 0)
        log_warn("%s: rows are stored up to record %" PRIu64 ", the journal ends at %" PRIu64,
                 g->dir, r.to.control, last);
    g->sequence = g->committed = MAX(last, r.to.control);
    if (apply_ghosts_end(&g->runs, g->sequence) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the runs in %s", g->dir);
    engine_refresh_marks(g);
    rc = journal_start(g->journal, g->sequence + 1, e);
    SHOAL_ASSERT(rc != 0 || journal_next(g->journal) == g->sequence + 1); /* engine.h, 2 */
    if (reload_left(g) == 0)
        reload_free(g);
    if (rc == 0 && !engine_back(g))
        reload_start(g, began);
    else
        g->recovered_ns = env_now_ns(g->env) - began;
    return rc;
}

/* ---- reading a part of a checkpoint ---- */

/* Reads the control state, then adjacent wanted tablets. */
static int scan_wanted(struct recover *r, struct err *e)
{
    int rc = recover_head(r, r->store, e);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        uint32_t tablets = 0;
        if (r->to.base[i] != NULL)
            tablets = r->to.g->table[i].scope.tablets;
        for (uint32_t k = 0, end; k < tablets && rc == 0; k = end) {
            end = k + 1;
            if (r->to.base[i][k] == UINT64_MAX)
                continue;
            while (end < tablets && r->to.base[i][end] != UINT64_MAX)
                end++;
            rc = recover_tablets(r, r->store, i, k, end, e);
        }
    }
    return rc;
}

int cut_recover(struct engine *g, const struct cut_source *source,
                uint64_t *const base[LIMIT_TABLES], struct runs *runs, struct err *e)
{
    struct recover r;
    uint64_t first, last;
    SHOAL_ASSERT(runs->count == 0);
    recover_init(&r, g, source->store, runs, true);
    r.until = source->facts.sequence;
    r.named_only = true;
    memcpy(r.to.base, base, sizeof r.to.base);
    int rc = scan_wanted(&r, e);
    if (rc == 0 && (rc = replay_records(&r, source->journal, &first, &last, e)) == 0)
        rc = recover_cut_end(&r, last, e);
    recover_free(&r); /* bases of tables that the manifest does not name */
    const struct run *run = runs_find(runs, source->facts.run);
    if (rc == 0 && source->facts.run != 0 && (run == NULL || run->lanes != source->facts.lanes))
        rc = err_set(e, SHOAL_E_CORRUPT, "its run %" PRIu64 " is not among its records",
                     source->facts.run);
    return rc;
}
