/* engine_push.c: the path of a push: admit, commit, apply. Invariants: engine.h. */
#include "embedding/engine/apply.h"
#include "embedding/engine/assign.h"
#include "embedding/engine/cut_copy.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/packed.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- admission ---- */

/* Rows by key are of no run. */
static int check_run(struct engine *g, const struct push_record *r, struct run **run, struct err *e)
{
    if (r->rows != NULL)
        return 0;
    if ((*run = runs_find(&g->runs, r->run)) == NULL)
        return err_set(e, SHOAL_E_OLD_RUN, "run %" PRIu64 " is not open here", r->run);
    if (r->lane >= (*run)->lanes)
        return err_set(e, SHOAL_E_MALFORMED, "lane %u of a run with %u lanes", r->lane,
                       (*run)->lanes);
    uint64_t generation = (*run)->lane[r->lane].generation;
    if (r->generation != generation)
        return err_set(e, SHOAL_E_FENCED, "lane %u has generation %" PRIu64 ", the push %" PRIu64,
                       r->lane, generation, r->generation);
    return 0;
}

/* Checks everything that does not depend on marks. */
static int check_push(struct engine *g, const struct push_record *r, struct run **run,
                      struct engine_table **table, struct err *e)
{
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    int rc = check_run(g, r, run, e);
    if (rc != 0)
        return rc;
    if ((*table = engine_slot(g, r->table)) == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", r->table);
    if (table_set_has(&g->loading, r->table)) {
        g->tier.short_tables = g->loading;
        return err_set(e, SHOAL_E_BUSY, "table %s is being filled from a checkpoint; ask again",
                       table_schema_of((*table)->table)->name);
    }
    const struct mark_scope *s = &(*table)->scope;
    if (r->tablet_count == 0 || r->tablet_first >= s->tablets ||
        r->tablet_count > s->tablets - r->tablet_first)
        return err_set(e, SHOAL_E_MALFORMED, "tablets %u + %u of a table with %u", r->tablet_first,
                       r->tablet_count, s->tablets);
    if (s->led_before[r->tablet_first + r->tablet_count] - s->led_before[r->tablet_first] !=
        r->tablet_count)
        return err_set(e, SHOAL_E_NOT_LEADER, "not all of tablets %u + %u of table %u are led here",
                       r->tablet_first, r->tablet_count, r->table);
    if ((r->rows == NULL && r->from >= r->to) || r->key_count > LIMIT_KEYS ||
        !isfinite(r->lr_scale) || r->lr_scale < 0)
        return err_set(e, SHOAL_E_MALFORMED,
                       "push of batches (%" PRIu64 ", %" PRIu64 "] with %u keys, lr_scale %g",
                       r->from, r->to, r->key_count, (double)r->lr_scale);
    return 0;
}

static uint64_t body_bytes(const struct table_schema *s, const struct push_record *r)
{
    if (r->image != NULL)
        return r->image_bytes;
    if (r->rows != NULL)
        return (uint64_t)r->key_count * (sizeof(uint64_t) + sizeof(float) * r->row_floats);
    return (uint64_t)r->key_count * (sizeof(uint64_t) + packed_bytes(s, r->width));
}

/* The setting of the server that limits its segments (engine.c). */
static const char *segment_bound(const struct engine *g)
{
    const struct engine_options *o = &g->options;
    bool asked = o->segment_bytes != 0 && g->segment_bytes + 4096 > o->segment_bytes;
    if (asked || (o->journal_max == 0 && o->disk == 0))
        return "journal.segment";

    if (o->journal_max > 0)
        return "journal.max, of which it is a quarter of the shard's part";

    return "disk, of which it is a sixteenth of the shard's part";
}

/* The push fits a segment, every gradient is valid, clicks do not exceed shows. */
static int check_body(const struct engine *g, const struct push_record *r,
                      const struct engine_table *t, struct err *e)
{
    const struct table_schema *s = table_schema_of(t->table);
    if (g->journal != NULL && body_bytes(s, r) > journal_payload_max(g->journal))
        return err_set(e, SHOAL_E_TOO_BIG,
                       "a push of %" PRIu64
                       " bytes does not fit a journal segment of %u: raise %s, and restart the "
                       "server",
                       body_bytes(s, r), g->segment_bytes, segment_bound(g));
    if (r->image != NULL || r->rows != NULL)
        return 0; /* assign.h */
    int rc = guard_check(g->guard, s, r, e);
    if (rc == 0 && !table_stats_ok(s, r->width, r->gradients, r->key_count))
        rc = err_set(e, SHOAL_E_MALFORMED,
                     "lane %u batch %" PRIu64
                     " for table %s: a key's clicks are not within 0 and its shows",
                     r->lane, r->to, s->name);
    return rc;
}

/* Checks what would change rows: every key is in a covered tablet, every gradient is valid. Of an
 * image only its size. */
static int check_content(const struct engine *g, const struct push_record *r,
                         const struct engine_table *t, struct err *e)
{
    const struct table_schema *s = table_schema_of(t->table);
    int rc = check_body(g, r, t, e);
    if (rc != 0)
        return rc;
    if (r->tablet_count < t->scope.tablets) { /* an image has no keys here */
        for (uint32_t i = 0; i < r->key_count; i++)
            if (key_tablet(key_mix(r->keys[i]), s->tablet_bits) - r->tablet_first >=
                r->tablet_count)
                return err_set(e, SHOAL_E_MALFORMED,
                               "key %016" PRIx64 " lies outside tablets %u + %u of table %s",
                               r->keys[i], r->tablet_first, r->tablet_count, s->name);
    }
    return 0;
}

/* shared: the share of its space counts; false: a leader has admitted it. */
static int check_room(struct engine *g, const struct push_record *r, const struct engine_table *t,
                      bool shared, struct err *e)
{
    g->tier.short_tables = TABLE_SET_ALL;
    if (cut_copy_waits(g, r->table, r->tablet_first, r->tablet_count))
        return err_set(e, SHOAL_E_BUSY,
                       "a cut is being copied, and not all of tablets %u + %u of table %s are; ask "
                       "again",
                       r->tablet_first, r->tablet_count, table_schema_of(t->table)->name);
    if (g->journal == NULL)
        return tier_check_room(g, r->table, shared, e);
    int room = space_check(g, e);
    if (room == 0)
        room = tier_check_room(g, r->table, shared, e);
    if (room != 0)
        return room;
    uint64_t bytes = record_bytes(body_bytes(table_schema_of(t->table), r));
    if (journal_bytes(g->journal) + bytes > flush_journal_max(g)) {
        engine_flush_step(g);
        return err_set(e, SHOAL_E_BUSY,
                       "the journal is full (%" PRIu64 " bytes); rows are being written, ask again",
                       journal_bytes(g->journal));
    }
    return 0;
}

static int queue_push(struct engine *g, const struct push_record *r, const struct run *run,
                      const struct engine_table *t, struct err *e)
{
    struct record_header h;
    struct record_payload payload;
    if (g->journal == NULL && g->tail == NULL) {
        g->sequence++;
        return 0;
    }
    record_of_push(r, packed_bytes(table_schema_of(t->table), r->width),
                   run != NULL && run_is_bsp(run) ? RECORD_FLAG_BSP : 0, &h, &payload);
    struct err failure;
    int rc = 0;
    h.sequence = g->sequence + 1;
    if (g->journal != NULL)
        rc = journal_append(g->journal, &h, &payload, &failure);
    if (rc != 0)
        return engine_fail_with(g, &failure, e);
    SHOAL_ASSERT(h.sequence == g->sequence + 1); /* engine.h, 2 */
    g->sequence = h.sequence;
    if (g->tail != NULL)
        follow_keep(g, &h, &payload);
    return 0;
}

int engine_check_body(struct engine *g, const struct push_record *r, struct err *e)
{
    const struct engine_table *t = engine_slot(g, r->table);

    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u here", r->table);

    return check_body(g, r, t, e);
}

static const char *table_name(void *context, uint32_t table)
{
    const struct engine_table *t = engine_slot(context, table);

    if (t == NULL)
        return "?";

    return table_schema_of(t->table)->name;
}

struct json *engine_refused_json(const struct engine *g)
{
    return guard_json(g->guard, table_name, (void *)(uintptr_t)g);
}

static uint64_t lowest_mark(const struct run *run, const struct push_record *r)
{
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = 0; i < r->tablet_count; i++) {
        uint64_t mark = marks_get(run->marks, r->lane, r->table, r->tablet_first + i);
        lowest = MIN(mark, lowest);
    }
    return lowest;
}

static void take_marks(struct engine *g, const struct push_record *r, struct run *run,
                       const struct engine_table *t, struct push_plan *plan)
{
    apply_marks(run, t, r, plan);
    plan->sequence = g->sequence;
    g->pending++;
    if (r->rows != NULL)
        return;
    plan->bsp = run_is_bsp(run);
    if (plan->all)
        plan->mark = r->to;
    else
        plan->mark = lowest_mark(run, r);
    SHOAL_ASSERT(plan->mark >= r->to); /* every covered tablet has the push now */
}

/* Journals a push that may be taken, and moves its marks. */
static int take_push(struct engine *g, const struct push_record *r, struct run *run,
                     const struct engine_table *t, struct push_plan *plan, struct err *e)
{
    if (apply_ready(run, t, r, NULL, 0, plan) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a push of lane %u", r->lane);
    int rc = queue_push(g, r, run, t, e);
    if (rc != 0) {
        apply_plan_free(plan);
        return rc;
    }
    take_marks(g, r, run, t, plan);
    return 0;
}

int engine_admit_push(struct engine *g, const struct push_record *r, struct push_plan *plan,
                      struct err *e)
{
    struct run *run = NULL;
    struct engine_table *t = NULL;
    uint32_t gap;
    SHOAL_ASSERT(engine_back(g));
    *plan = (struct push_plan){0};
    int rc = check_push(g, r, &run, &t, e);
    if (rc != 0)
        return rc;
    if (apply_plan(run, r, NULL, 0, plan, &gap) != 0)
        return err_set(e, SHOAL_E_GAP,
                       "lane %u is at batch %" PRIu64
                       " in table %u here; the push goes on from %" PRIu64,
                       r->lane, plan->mark, r->table, r->from);
    if (plan->applied == 0)
        return 0;
    rc = check_content(g, r, t, e);
    if (rc == 0)
        rc = check_room(g, r, t, true, e);
    /* it takes long: not before there is room */
    if (rc == 0 && r->image != NULL)
        rc = assign_check(r, t, e);
    if (rc == 0 && r->rows != NULL)
        rc = assign_keys_check(g, r, t, e);
    if (rc == 0)
        rc = take_push(g, r, run, t, plan, e);
    if (rc != 0)
        return rc;
    if (r->rows == NULL)
        guard_count_clipped(g->guard, table_schema_of(t->table), r);
    return 0;
}

/* ---- admission of a leader's push ---- */

static int differs(const struct push_record *r, const char *how, struct err *e)
{
    return err_set(e, SHOAL_E_CORRUPT,
                   "a push of run %" PRIu64 " lane %u generation %" PRIu64 " batches (%" PRIu64
                   ", %" PRIu64 "] for table %u does not follow from what is here: %s",
                   r->run, r->lane, r->generation, r->from, r->to, r->table, how);
}

/* Checks what the leader has checked in the same state. Led tablets and values are its own. */
static int check_followed(struct engine *g, const struct push_record *r, bool bsp, struct run **run,
                          struct engine_table **table, struct err *e)
{
    *run = runs_find(&g->runs, r->run);
    *table = engine_slot(g, r->table);
    const bool rows = r->rows != NULL; /* assigned rows belong to no run */
    if (!rows && (*run == NULL || r->lane >= (*run)->lanes))
        return differs(r, "there is no such lane", e);
    if (!rows && (r->generation != (*run)->lane[r->lane].generation || bsp != run_is_bsp(*run)))
        return differs(r, "the lane has another generation or mode", e);
    if (*table == NULL)
        return differs(r, "there is no such table", e);
    uint32_t tablets = (*table)->scope.tablets;
    if (r->tablet_count == 0 || r->tablet_first >= tablets ||
        r->tablet_count > tablets - r->tablet_first)
        return differs(r, "there are no such tablets", e);
    if ((!rows && r->from >= r->to) || r->key_count > LIMIT_KEYS || !isfinite(r->lr_scale) ||
        r->lr_scale < 0)
        return differs(r, "it is malformed", e);
    return 0;
}

int engine_admit_followed(struct engine *g, const struct push_record *r, bool bsp,
                          struct push_plan *plan, struct err *e)
{
    struct run *run = NULL;
    struct engine_table *t = NULL;
    uint32_t gap;
    *plan = (struct push_plan){0};
    int rc = check_followed(g, r, bsp, &run, &t, e);
    if (rc != 0)
        return rc;
    const struct table_schema *s = table_schema_of(t->table);
    if (g->journal != NULL && body_bytes(s, r) > journal_payload_max(g->journal))
        return err_set(e, SHOAL_E_TOO_BIG,
                       "a record of the leader, of %" PRIu64
                       " bytes, does not fit a journal segment of %u here: raise %s, and restart "
                       "the server",
                       body_bytes(s, r), g->segment_bytes, segment_bound(g));
    if (apply_plan(run, r, NULL, 0, plan, &gap) != 0 || plan->applied == 0)
        return differs(r, "its marks are others", e);
    if (!engine_warm(g, r->table, r->keys, r->key_count))
        return err_set(e, SHOAL_E_AGAIN, "rows of a push come from the store; ask again");
    struct err why;
    if (check_room(g, r, t, false, &why) != 0)
        return err_set(e, SHOAL_E_BUSY, "%s", why.text);
    if (r->image != NULL && (rc = assign_check(r, t, &why)) != 0) {
        if (rc == SHOAL_E_NOMEM)
            return err_set(e, rc, "%s", why.text);
        return differs(r, why.text, e);
    }
    return take_push(g, r, run, t, plan, e);
}

/* ---- commit, apply ---- */

int engine_commit(struct engine *g)
{
    if (g->broken)
        return SHOAL_E_IO;
    if (g->journal == NULL) {
        g->committed = g->sequence;
        return 0;
    }
    struct err e;
    int rc = journal_commit(g->journal, &e);
    if (rc != 0)
        return engine_fail(g, &e);
    g->committed = journal_committed(g->journal);
    SHOAL_ASSERT(g->committed == g->sequence); /* every admitted push is committed */
    if (g->options.durability == DURABLE_FSYNC)
        engine_sync_start(g);
    return 0;
}

int engine_apply_push(struct engine *g, const struct push_record *r, struct push_plan *plan)
{
    if (plan->sequence == 0)
        return 0;
    SHOAL_ASSERT(plan->sequence <= g->committed && g->pending > 0); /* engine.h, 1 */
    struct engine_table *t = engine_slot(g, r->table);
    SHOAL_ASSERT(t != NULL);
    struct err e = {0};
    int rc = apply_rows(t, r, plan, g->journal != NULL, &e);
    g->pending--;
    if (rc != 0)
        return engine_fail(g, &e);
    return 0;
}

uint64_t engine_acknowledged(const struct engine *g)
{
    if (g->journal != NULL && g->options.durability == DURABLE_FSYNC)
        return journal_synced(g->journal);
    return g->committed;
}
