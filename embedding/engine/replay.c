/* replay.c: records above what is stored, one by one. Invariants: recover.c. */
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/reload.h"
#include "proto/base/hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int replay_push(struct replay *r, const struct record_header *h, const void *payload,
                       struct err *e)
{
    struct engine *g = r->g;
    struct engine_table *t = engine_slot(g, h->table);
    struct push_record p;
    if (t == NULL ||
        record_to_push(h, payload, schema_push_floats(table_schema_of(t->table)), &p) != 0 ||
        p.key_count > LIMIT_KEYS || p.tablet_first >= t->scope.tablets ||
        p.tablet_count > t->scope.tablets - p.tablet_first)
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " is a push that fits no table",
                       h->sequence);
    if (h->sequence <= r->floor)
        return 0;
    int rc = r->of_cut ? 0 : reload_bring(r->g, h->table, p.tablet_first, p.tablet_count, e);
    if (rc != 0)
        return rc;
    const uint64_t *base = r->base[h->table];
    uint32_t news = 0, taken = 0;
    for (uint32_t i = p.tablet_first; i < p.tablet_first + p.tablet_count; i++)
        news += h->sequence > base[i];
    if (news == 0)
        return 0;
    struct run *run = runs_find(r->runs, p.run);
    if (run == NULL || p.lane >= run->lanes ||
        marks_reserve(run->marks, p.lane, p.table, t->scope.tablets) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " is a push of run %" PRIu64
                       " lane %u, which was not open",
                       h->sequence, p.run, p.lane);
    uint8_t *take = calloc(t->scope.tablets, 1);
    if (take == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to replay record %" PRIu64, h->sequence);
    for (uint32_t i = p.tablet_first; i < p.tablet_first + p.tablet_count; i++) {
        enum push_verdict v = push_rule(marks_get(run->marks, p.lane, p.table, i), p.from, p.to);
        if (h->sequence > base[i] && v == PUSH_GAP) {
            free(take);
            return err_set(e, SHOAL_E_CORRUPT,
                           "record %" PRIu64
                           ": tablet %u of table %s lacks batches before it; records are missing",
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
    struct push_args args = {.lr_scale = p.lr_scale,
                             .batch = p.to,
                             .steps = steps,
                             .event_time = p.event_time,
                             .lane = p.lane,
                             .tablet_first = p.tablet_first,
                             .tablet_count = p.tablet_count,
                             .undo_clock =
                                 h->flags & RECORD_FLAG_BSP ? table_undo_clock(p.run, p.to) : 0,
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

static int replay_run_open(struct replay *r, const struct record_header *h,
                           const struct record_run_open *o, struct err *e)
{
    struct run *run = runs_find(r->runs, o->run);
    if (run == NULL) {
        if (o->lanes == 0 || o->lanes > LIMIT_LANES || o->mode > RUN_BSP)
            return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " opens a run with %u lanes",
                           h->sequence, o->lanes);
        int rc = runs_add(r->runs, o->run, o->tables, o->lanes, o->mode, &run);
        if (rc != 0)
            return err_set(e, rc, "no memory to open run %" PRIu64, o->run);
        run->ghost = h->sequence <= r->control;
    }
    if (run->ghost && run->seen < h->sequence)
        run->seen = h->sequence;
    return 0;
}

int replay_open_restored(struct runs *runs, const struct record_restore *record, uint64_t sequence,
                         bool past, struct run **out)
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

/* A cut never leans on another one (cut.c, 3): its tablets are all of later than a restore among
 * its records. */
static int replay_restore_in_cut(struct replay *r, const struct record_restore *record,
                                 uint64_t sequence, bool past, struct err *e)
{
    struct run *run;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        for (uint32_t k = 0;
             r->base[i] != NULL && (record->existing >> i & 1) && k < r->g->table[i].scope.tablets;
             k++)
            if (r->base[i][k] < sequence)
                return err_set(e, SHOAL_E_CORRUPT,
                               "tablet %u of table %u is older than the restore in record %" PRIu64,
                               k, i, sequence);
    int rc = replay_open_restored(r->runs, record, sequence, past, &run);
    return rc == 0 ? 0
                   : err_set(e, rc, "record %" PRIu64 " cannot be replayed: %s", sequence,
                             err_text(rc));
}

/* Which tablets are older is known once they are back; where none is, its run is all that it leaves
 * behind. */
static int replay_restore(struct replay *r, const struct record_restore *record, uint64_t sequence,
                          bool past, struct err *e)
{
    struct run *run;
    if (cut_ref_add(r->g, record->cut, sequence) != 0)
        return err_set(e, SHOAL_E_CORRUPT, "more than %u restores stand in the journal",
                       ENGINE_CUT_REFS);
    if (sequence > r->floor) {
        int rc = reload_bring_all(r->g, e);
        return rc == 0 ? engine_restore_apply(r->g, record, sequence, past, e) : rc;
    }
    int rc = replay_open_restored(r->runs, record, sequence, past, &run);
    return rc == 0 ? 0
                   : err_set(e, rc, "record %" PRIu64 " cannot be replayed: %s", sequence,
                             err_text(rc));
}

static int replay_control(struct replay *r, const struct record_header *h, const void *payload,
                          struct err *e)
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
        return rc == 0 ? replay_schema(r, &u.schema, e) : rc;
    }
    if (h->payload_bytes != bytes[h->kind])
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " of kind %u has %u bytes",
                       h->sequence, h->kind, h->payload_bytes);
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
        return r->of_cut ? replay_restore_in_cut(r, &u.restore, h->sequence, past, e)
                         : replay_restore(r, &u.restore, h->sequence, past, e);
    }
}

/* A change of tablets, like a push: those that are stored with it, or are none of our business, are
 * left alone. */
static int replay_keys(struct replay *r, const struct record_header *h, const void *payload,
                       struct err *e)
{
    struct record_keys keys;
    if (h->payload_bytes < sizeof keys)
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " names keys in %u bytes", h->sequence,
                       h->payload_bytes);
    memcpy(&keys, payload, sizeof keys);
    struct engine_table *t = engine_slot(r->g, keys.table);
    if (t == NULL || r->base[keys.table] == NULL || keys.action > KEY_RESET ||
        keys.count > LIMIT_KEYS || h->payload_bytes != sizeof keys + keys.count * sizeof(uint64_t))
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " names keys of no table",
                       h->sequence);
    if (h->sequence <= r->floor)
        return 0;
    uint64_t changed;
    const uint64_t *key = (const uint64_t *)(const void *)((const char *)payload + sizeof keys);
    int rc = 0;
    for (uint32_t i = 0; !r->of_cut && rc == 0 && i < keys.count; i++)
        rc = reload_bring(r->g, keys.table,
                          mixed_tablet(key_mix(key[i]), table_schema_of(t->table)->tablet_bits), 1,
                          e);
    if (rc != 0)
        return rc;
    rc = engine_keys_apply(t, &keys, key, r->base[keys.table], !r->of_cut, h->sequence, &changed);
    return rc == 0 ? 0 : err_set(e, rc, "no memory to replay record %" PRIu64, h->sequence);
}

int replay_record(void *context, const struct record_header *h, const void *payload, struct err *e)
{
    struct replay *r = context;
    if (!r->of_cut)
        r->g->replayed++;
    if (h->kind == RECORD_KEYS)
        return replay_keys(r, h, payload, e);
    return h->kind == RECORD_PUSH ? replay_push(r, h, payload, e)
                                  : replay_control(r, h, payload, e);
}

int replay_end_ghosts(struct runs *runs, uint64_t sequence)
{
    for (uint32_t i = runs->count; i-- > 0;)
        if (runs->run[i]->ghost && runs_end(runs, runs->run[i], runs->run[i]->seen, sequence) != 0)
            return SHOAL_E_NOMEM;
    return 0;
}
