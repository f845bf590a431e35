/* recover.c: rows and marks from the store, then the records above them; for a cut that is restored: restore.c.
 *
 *  1. A record acts on a tablet only if its sequence is above the tablet's own (`base`): what is stored is not
 * repeated.
 *  2. Marks decide as they did live: a tablet's marks after record s are a function of its stored marks and its records
 * up to s.
 *  3. The control state is never older than a stored tablet, but may be younger: runs that were dropped before it, yet old
 * records name, are ghosts until their drop is replayed. It lists them (run_past), for the records that opened them may be gone.
 *  4. Tablets that a load was writing when the process died are taken out of the store before anything else is done with
 *     them (load.c, 3).
 */
#include "embedding/cut.h"
#include "embedding/fetch.h"
#include "embedding/flush.h"
#include "embedding/replay.h"
#include "embedding/tier.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is stored ---- */

static int take_load(struct replay *r, const void *value, size_t value_bytes, struct err *e)
{
    struct stored_load l;
    int rc = stored_load_read(value, value_bytes, &l, e);
    if (rc != 0 || r->of_cut) /* a cut is never made while a load is under way */
        return rc;
    if (l.under_way) {
        r->load = l;
    } else {
        r->g->loaded_run = l.run;
        r->g->loaded_tables = l.tables;
    }
    return 0;
}

int replay_base(struct replay *r, uint32_t table)
{
    struct engine_table *t = engine_slot(r->g, table);
    if (!r->of_cut) {
        r->base[table] = t->durable;
        return 0;
    }
    if (r->base[table] != NULL)
        return 0;
    r->base[table] = calloc(t->scope.tablets, sizeof *r->base[table]);
    r->own[table] = true;
    return r->base[table] == NULL ? SHOAL_E_NOMEM : 0;
}

static int take_schema(void *context, const struct table_schema *s, struct err *e)
{
    struct replay *r = context;
    struct engine_table *t = engine_slot(r->g, s->table);
    int rc = 0;
    if (t == NULL)
        rc = engine_table_add(r->g, s, e);
    else if (!schema_equal(table_schema_of(t->table), s)) {
        char difference[SCHEMA_DIFFERENCE_MAX];
        rc = err_set(e, SHOAL_E_SCHEMA, "table %s is stored with another schema than it has here: %s", s->name,
                     schema_difference(s, table_schema_of(t->table), difference));
    }
    return rc == 0 ? replay_base(r, s->table) : rc;
}

static int take_stored(void *context, const void *key, size_t key_bytes, const void *value, size_t value_bytes,
                       struct err *e)
{
    struct replay *r = context;
    uint32_t table, tablet;
    if (stored_is_control(key, key_bytes))
        return stored_control_read(value, value_bytes, r->runs, &r->control, take_schema, r, e);
    if (stored_is_load(key, key_bytes))
        return take_load(r, value, value_bytes, e);
    if (!stored_is_tablet(key, key_bytes, &table, &tablet))
        return err_set(e, SHOAL_E_CORRUPT, "the row store holds a key that is not Shoal's (%zu bytes)", key_bytes);
    if (r->load.run != 0 && table < LIMIT_TABLES && (r->load.tables >> table & 1)) {
        r->loaded_end[table] = tablet + 1; /* they come in order */
        return 0;
    }
    struct engine_table *t = engine_slot(r->g, table);
    if (t == NULL || tablet >= t->scope.tablets || r->base[table] == NULL)
        return err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %u is stored, but no such table is", tablet, table);
    if (r->base[table][tablet] == UINT64_MAX)
        return 0;
    uint64_t flushed;
    int rc = stored_tablet_head(value, value_bytes, table_schema_of(t->table), tablet, &flushed, e);
    if (rc == 0 && (flushed > r->until || flushed > r->control))
        rc = err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %s is stored as of record %" PRIu64 ", beyond %" PRIu64,
                     tablet, table_schema_of(t->table)->name, flushed, r->until < r->control ? r->until : r->control);
    if (rc == 0)
        rc = stored_tablet_read(value, value_bytes, t->table, r->runs, tablet, e);
    if (rc == 0 && r->images != NULL)
        rc = restore_settle(r, t->table, tablet, e);
    else if (rc == 0 && r->spill != NULL)
        rc = replay_make_room(r, e);
    r->base[table][tablet] = flushed;
    return rc;
}

/* All but cold rows, which sort behind. */
int replay_images(struct replay *r, struct store *store, struct err *e)
{
    static const struct store_item below = {.key = {'r'}, .key_bytes = 1};
    return store_range(store, NULL, &below, take_stored, r, e);
}

/* ---- records ---- */

static int replay_push(struct replay *r, const struct record_header *h, const void *payload, struct err *e)
{
    struct engine *g = r->g;
    struct engine_table *t = engine_slot(g, h->table);
    struct push_record p;
    if (t == NULL || record_to_push(h, payload, schema_push_floats(table_schema_of(t->table)), &p) != 0 ||
        p.key_count > LIMIT_KEYS || p.tablet_first >= t->scope.tablets ||
        p.tablet_count > t->scope.tablets - p.tablet_first)
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " is a push that fits no table", h->sequence);
    const uint64_t *base = r->base[h->table];
    uint32_t news = 0, taken = 0;
    int rc = 0;
    for (uint32_t i = p.tablet_first; i < p.tablet_first + p.tablet_count; i++)
        news += h->sequence > base[i];
    if (news == 0)
        return 0;
    struct run *run = runs_find(r->runs, p.run);
    if (run == NULL || p.lane >= run->lanes || marks_reserve(run->marks, p.lane, p.table, t->scope.tablets) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " is a push of run %" PRIu64 " lane %u, which was not open", h->sequence,
                       p.run, p.lane);
    uint8_t *take = calloc(t->scope.tablets, 1);
    if (take == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to replay record %" PRIu64, h->sequence);
    for (uint32_t i = p.tablet_first; i < p.tablet_first + p.tablet_count; i++) {
        enum push_verdict v = push_rule(marks_get(run->marks, p.lane, p.table, i), p.from, p.to);
        if (h->sequence > base[i] && v == PUSH_GAP) {
            free(take);
            return err_set(e, SHOAL_E_CORRUPT,
                           "record %" PRIu64 ": tablet %u of table %s lacks batches before it; records are missing",
                           h->sequence, i, table_schema_of(t->table)->name);
        }
        take[i] = h->sequence > base[i] && v == PUSH_TAKE;
        taken += take[i];
    }
    uint32_t *steps = push_steps(run->marks, &p, t->scope.tablets);
    if (steps == NULL) {
        free(take);
        return err_set(e, SHOAL_E_NOMEM, "no memory to replay record %" PRIu64, h->sequence);
    }
    if (taken > 0 && (rc = fetch_bring(t->table, r->store, p.keys, p.key_count, e)) != 0) {
        free(take);
        free(steps);
        return rc;
    }
    bool all = taken == t->scope.tablets;
    struct push_args args = {
        .lr_scale = p.lr_scale,
        .batch = p.to,
        .steps = steps,
        .event_time = p.event_time,
        .lane = p.lane,
        .tablet_first = p.tablet_first,
        .tablet_count = p.tablet_count,
        .undo_clock = h->flags & RECORD_FLAG_BSP ? table_undo_clock(p.run, p.to) : 0,
        .take = all ? NULL : take};
    marks_move(run->marks, p.lane, p.table, p.tablet_first, p.tablet_count, p.to, take, &t->scope);
    if (!r->of_cut)
        engine_touch(t, p.tablet_first, p.tablet_count, take, h->sequence);
    rc = taken == 0 ? 0 : table_push(t->table, p.keys, p.gradients, p.key_count, &args);
    free(take);
    free(steps);
    if (rc != 0)
        return err_set(e, rc, "no memory to replay record %" PRIu64, h->sequence);
    if (r->spill != NULL)
        return replay_make_room(r, e);
    return r->of_cut ? 0 : flush_make_room(g, h->sequence, h->sequence > r->control, e);
}

static int replay_run_open(struct replay *r, const struct record_header *h, const struct record_run_open *o,
                           struct err *e)
{
    struct run *run = runs_find(r->runs, o->run);
    if (run == NULL) {
        if (o->lanes == 0 || o->lanes > LIMIT_LANES || o->mode > RUN_BSP)
            return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " opens a run with %u lanes", h->sequence, o->lanes);
        int rc = runs_add(r->runs, o->run, o->tables, o->lanes, o->mode, &run);
        if (rc != 0)
            return err_set(e, rc, "no memory to open run %" PRIu64, o->run);
        run->ghost = h->sequence <= r->control;
    }
    if (run->ghost && run->seen < h->sequence)
        run->seen = h->sequence;
    return 0;
}

int replay_open_restored(struct runs *runs, const struct record_restore *record, uint64_t sequence, bool past,
                         struct run **out)
{
    struct run *run = runs_find(runs, record->run);
    if (record->lanes == 0 || record->lanes > LIMIT_LANES || record->mode > RUN_BSP ||
        (run != NULL && run->lanes != record->lanes))
        return SHOAL_E_CORRUPT;
    if (run == NULL) {
        if (runs_add(runs, record->run, record->tables, record->lanes, record->mode, &run) != 0)
            return SHOAL_E_NOMEM;
        run->ghost = past;
    }
    if (run->ghost && run->seen < sequence)
        run->seen = sequence;
    for (uint32_t i = runs->count; i-- > 0;) {
        struct run *other = runs->run[i];
        if (other != run && (!past || (other->ghost && other->seen < sequence)) &&
            runs_end(runs, other, sequence - 1, sequence) != 0)
            return SHOAL_E_NOMEM;
    }
    *out = run;
    return 0;
}

/* A cut never leans on another one (cut.c, 3): its tablets are all of later than a restore among its records. */
static int replay_restore_in_cut(struct replay *r, const struct record_restore *record, uint64_t sequence, bool past,
                                 struct err *e)
{
    struct run *run;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0; r->base[i] != NULL && (record->existing >> i & 1) && k < r->g->table[i].scope.tablets; k++)
            if (r->base[i][k] < sequence)
                return err_set(e, SHOAL_E_CORRUPT, "tablet %u of table %u is older than the restore in record %" PRIu64,
                               k, i, sequence);
    int rc = replay_open_restored(r->runs, record, sequence, past, &run);
    return rc == 0 ? 0 : err_set(e, rc, "record %" PRIu64 " cannot be replayed: %s", sequence, err_text(rc));
}

static int replay_control(struct replay *r, const struct record_header *h, const void *payload, struct err *e)
{
    bool past = h->sequence <= r->control;
    union {
        struct record_run_open open;
        struct record_run_drop drop;
        struct record_fence fence;
        struct record_restore restore;
        struct table_schema schema;
    } u;
    static const size_t bytes[] = {[RECORD_RUN_OPEN] = sizeof u.open,
                                   [RECORD_RUN_DROP] = sizeof u.drop,
                                   [RECORD_FENCE] = sizeof u.fence,
                                   [RECORD_RESTORE] = sizeof u.restore};
    if (!r->of_cut && !past)
        r->g->control_changed = h->sequence;
    if (h->kind == RECORD_TABLE) {
        int rc = record_schema_read(payload, h->payload_bytes, &u.schema, e);
        return rc == 0 ? take_schema(r, &u.schema, e) : rc;
    }
    if (h->payload_bytes != bytes[h->kind])
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " of kind %u has %u bytes", h->sequence, h->kind,
                       h->payload_bytes);
    memcpy(&u, payload, h->payload_bytes);
    struct run *run;
    switch (h->kind) {
    case RECORD_RUN_OPEN:
        return replay_run_open(r, h, &u.open, e);
    case RECORD_RUN_DROP:
        run = runs_find(r->runs, u.drop.run);
        if (run != NULL && runs_end(r->runs, run, h->sequence - 1, h->sequence) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory to replay record %" PRIu64, h->sequence);
        return 0;
    case RECORD_FENCE:
        run = runs_find(r->runs, u.fence.run);
        if (run != NULL && !past && u.fence.lane < run->lanes)
            run_fence(run, u.fence.lane, u.fence.generation, u.fence.live != 0, u.fence.offset);
        return 0;
    default:
        if (!r->of_cut && cut_ref_add(r->g, u.restore.cut, h->sequence) != 0)
            return err_set(e, SHOAL_E_CORRUPT, "more than %u restores stand in the journal", ENGINE_CUT_REFS);
        if (!r->of_cut)
            return engine_restore_apply(r->g, &u.restore, h->sequence, past, e);
        return replay_restore_in_cut(r, &u.restore, h->sequence, past, e);
    }
}

/* A change of tablets, like a push: those that are stored with it, or are none of our business, are left alone. */
static int replay_keys(struct replay *r, const struct record_header *h, const void *payload, struct err *e)
{
    struct record_keys keys;
    if (h->payload_bytes < sizeof keys)
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " names keys in %u bytes", h->sequence, h->payload_bytes);
    memcpy(&keys, payload, sizeof keys);
    struct engine_table *t = engine_slot(r->g, keys.table);
    if (t == NULL || r->base[keys.table] == NULL || keys.action > KEY_RESET || keys.count > LIMIT_KEYS ||
        h->payload_bytes != sizeof keys + keys.count * sizeof(uint64_t))
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " names keys of no table", h->sequence);
    uint64_t changed;
    int rc = engine_keys_apply(t, &keys, (const uint64_t *)(const void *)((const char *)payload + sizeof keys),
                               r->base[keys.table], !r->of_cut, h->sequence, &changed);
    return rc == 0 ? 0 : err_set(e, rc, "no memory to replay record %" PRIu64, h->sequence);
}

int replay_record(void *context, const struct record_header *h, const void *payload, struct err *e)
{
    struct replay *r = context;
    if (!r->of_cut)
        r->g->replayed++;
    if (h->kind == RECORD_KEYS)
        return replay_keys(r, h, payload, e);
    return h->kind == RECORD_PUSH ? replay_push(r, h, payload, e) : replay_control(r, h, payload, e);
}

/* Killed again before all tablets of before their drop are written, recovery meets them again. */
static int end_ghosts(struct runs *runs, uint64_t sequence)
{
    for (uint32_t i = runs->count; i-- > 0;)
        if (runs->run[i]->ghost && runs_end(runs, runs->run[i], runs->run[i]->seen, sequence) != 0)
            return SHOAL_E_NOMEM;
    return 0;
}

/* ---- recovery ---- */

/* Takes out what an unfinished load had stored, its marker last: killed in between, the next start does it again. */
static int clear_load(struct replay *r, struct err *e)
{
    struct store_item item = {0};
    int rc = 0;
    log_warn("%s: the load of a checkpoint as run %" PRIu64 " was not finished; its tables are empty, load it again",
             r->g->dir, r->load.run);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0; k < r->loaded_end[i] && rc == 0; k++) {
            stored_tablet_key(i, k, &item);
            rc = store_write(r->g->store, &item, 1, e);
        }
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++) {
        struct store_item from, below;
        stored_row_key(i, 0, 0, 0, &from);
        stored_row_key(i + 1, 0, 0, 0, &below);
        if (r->load.tables >> i & 1)
            rc = store_drop(r->g->store, &from, &below, e);
    }
    if (rc == 0)
        rc = store_flush(r->g->store, e);
    stored_load_key(&item);
    if (rc == 0)
        rc = store_write(r->g->store, &item, 1, e);
    return rc == 0 ? store_flush(r->g->store, e) : rc;
}

int engine_recover(struct engine *g, struct err *e)
{
    struct replay r = {.g = g, .store = g->store, .runs = &g->runs, .until = UINT64_MAX};
    struct spill spill; /* for an image alone: it has the rows in any case (spill.h), and nothing has been replayed over them */
    uint64_t first, last;
    uint64_t began = env_now_ns(g->env);
    spill_init(&spill, g->store, g->options.memory);
    r.spill = &spill;
    int rc = replay_images(&r, g->store, e);
    r.spill = NULL;
    spill_free(&spill);
    if (rc == 0 && r.load.run != 0)
        rc = clear_load(&r, e);
    if (rc == 0)
        g->control_changed = g->control_durable = g->control_written = r.control;
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        for (uint32_t k = 0; g->table[i].table != NULL && k < g->table[i].scope.tablets; k++)
            g->table[i].changed[k] = g->table[i].written[k] = g->table[i].durable[k];
    if (rc == 0)
        rc = journal_replay(g->journal, UINT64_MAX, replay_record, &r, &first, &last, e);
    if (rc != 0)
        return err_wrap(e, rc, "recovering %s", g->dir);
    if (first > r.control + 1)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s: the journal begins at record %" PRIu64 ", rows are stored up to %" PRIu64
                       "; segments are missing",
                       g->dir, first, r.control);
    if (last < r.control && last > 0)
        log_warn("%s: rows are stored up to record %" PRIu64 ", the journal ends at %" PRIu64, g->dir, r.control, last);
    g->sequence = g->committed = last > r.control ? last : r.control;
    if (end_ghosts(&g->runs, g->sequence) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the runs in %s", g->dir);
    engine_refresh_marks(g);
    rc = journal_start(g->journal, g->sequence + 1, e);
    g->recovered_ns = env_now_ns(g->env) - began;
    return rc;
}

/* ---- reading a part of a checkpoint ---- */

static int scan_range(struct replay *r, struct store *store, const struct store_item *from, const struct store_item *to,
                      struct err *e)
{
    return store_range(store, from, to, take_stored, r, e);
}

/* The control state, then each run of wanted tablets. */
static int scan_wanted(struct replay *r, struct store *store, struct err *e)
{
    struct store_item from, to;
    stored_control_key(&from);
    to = (struct store_item){.key = {'d'}, .key_bytes = 1};
    int rc = scan_range(r, store, &from, &to, e);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        uint32_t tablets = r->base[i] != NULL ? r->g->table[i].scope.tablets : 0;
        for (uint32_t k = 0, end; k < tablets && rc == 0; k = end) {
            end = k + 1;
            if (r->base[i][k] == UINT64_MAX)
                continue;
            while (end < tablets && r->base[i][end] != UINT64_MAX)
                end++;
            stored_tablet_key(i, k, &from);
            stored_tablet_key(i, end, &to);
            rc = scan_range(r, store, &from, &to, e);
        }
    }
    return rc;
}

int recover_source(struct engine *g, const struct cut_source *source, uint64_t *const base[LIMIT_TABLES],
                   struct runs *runs, struct err *e)
{
    struct replay r = {.g = g, .store = source->store, .runs = runs, .of_cut = true, .until = source->facts.sequence};
    uint64_t first, last = 0;
    memcpy(r.base, base, sizeof r.base);
    int rc = scan_wanted(&r, source->store, e);
    if (rc == 0)
        rc = journal_replay(source->journal, r.until, replay_record, &r, &first, &last, e);
    if (rc == 0 && last < r.until && r.control < r.until)
        rc = err_set(e, SHOAL_E_CORRUPT, "its journal ends at record %" PRIu64 ", it needs %" PRIu64, last, r.until);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (r.own[i]) /* a table that the manifest does not name */
            free(r.base[i]);
    const struct run *run = runs_find(runs, source->facts.run);
    if (rc == 0 && source->facts.run != 0 && (run == NULL || run->lanes != source->facts.lanes))
        rc = err_set(e, SHOAL_E_CORRUPT, "its run %" PRIu64 " is not among its records", source->facts.run);
    return rc;
}
