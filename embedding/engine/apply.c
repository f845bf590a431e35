/* apply.c: applies records, one by one. Invariants 1 and 2: apply.h; those of stored tablets:
 * recover.c. */
#include "embedding/engine/apply.h"

#include "embedding/engine/assign.h"
#include "embedding/engine/moved.h"
#include "embedding/journal/record_schema.h"
#include "proto/base/assert.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/job/packed.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int no_memory(const struct record_header *h, struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM, "no memory to apply record %" PRIu64, h->sequence);
}

/* The control state includes the record already. */
static bool is_past(const struct apply *a, const struct record_header *h)
{
    return !a->live && h->sequence <= a->control;
}

/* ---- pushes ---- */

static bool is_stored(const uint64_t *base, uint32_t tablet, uint64_t sequence) /* 2 */
{
    return base != NULL && base[tablet] >= sequence;
}

/* Rows by key: every tablet that lacks the record takes them. */
static void plan_rows(const struct push_record *r, uint32_t stored, uint64_t sequence,
                      struct push_plan *plan)
{
    *plan = (struct push_plan){
        .applied = r->tablet_count - stored, .sequence = sequence, .all = stored == 0};
}

int apply_plan(const struct run *run, const struct push_record *r, const uint64_t *base,
               uint64_t sequence, struct push_plan *plan, uint32_t *gap)
{
    struct mark_plan m;
    uint32_t end = r->tablet_first + r->tablet_count, stored = 0;
    for (uint32_t i = r->tablet_first; base != NULL && i < end; i++)
        stored += is_stored(base, i, sequence);
    if (r->rows != NULL) {
        plan_rows(r, stored, sequence, plan);
        return 0;
    }
    marks_plan(run->marks, r->lane, r->table, r->tablet_first, r->tablet_count, r->from, r->to, &m);
    *plan = (struct push_plan){.applied = m.applied,
                               .skipped = m.skipped,
                               .mark = m.lowest,
                               .sequence = sequence,
                               .uneven = m.lowest != m.highest,
                               .step = r->to - m.lowest};
    if (stored > 0) /* the lowest of all marks does not hold for the tablets that are left */
        plan->applied = plan->skipped = 0;
    for (uint32_t i = r->tablet_first; (stored > 0 || m.verdict == PUSH_GAP) && i < end; i++) {
        if (is_stored(base, i, sequence))
            continue;
        enum push_verdict v =
            mark_push_rule(marks_get(run->marks, r->lane, r->table, i), r->from, r->to);
        if (v == PUSH_GAP) {
            *gap = i;
            return SHOAL_E_GAP;
        }
        plan->applied += v == PUSH_TAKE;
        plan->skipped += v != PUSH_TAKE;
    }
    SHOAL_ASSERT(plan->applied + plan->skipped + stored == r->tablet_count);
    plan->all = plan->applied == r->tablet_count;
    return 0;
}

/* Number of batches that a push adds in each tablet it covers, (tablets), before its marks move. */
static uint32_t *steps_of(const struct marks *m, const struct push_record *r, uint32_t tablets)
{
    uint32_t *steps = calloc(tablets, sizeof *steps);
    for (uint32_t i = r->tablet_first; steps != NULL && i < r->tablet_first + r->tablet_count;
         i++) {
        uint64_t mark = marks_get(m, r->lane, r->table, i), step = SAT_SUB(r->to, mark);
        steps[i] = (uint32_t)MIN(step, UINT32_MAX);
    }
    return steps;
}

int apply_ready(struct run *run, const struct engine_table *t, const struct push_record *r,
                const uint64_t *base, uint64_t sequence, struct push_plan *plan)
{
    SHOAL_ASSERT(r->tablet_first + r->tablet_count <= t->scope.tablets);
    int rc = 0;
    if (r->rows == NULL)
        rc = marks_reserve(run->marks, r->lane, r->table, t->scope.tablets);
    if (rc == 0 && !plan->all) {
        plan->take = calloc(t->scope.tablets, 1);
        if (plan->take == NULL)
            rc = SHOAL_E_NOMEM;
    }
    if (rc == 0 && plan->take != NULL) {
        if (r->rows != NULL)
            memset(plan->take + r->tablet_first, 1, r->tablet_count);
        else
            marks_take(run->marks, r->lane, r->table, r->tablet_first, r->tablet_count, r->from,
                       r->to, plan->take);
        uint32_t taken = 0;
        for (uint32_t i = r->tablet_first; i < r->tablet_first + r->tablet_count; i++)
            taken += plan->take[i] &= !is_stored(base, i, sequence);
        SHOAL_ASSERT(taken == plan->applied); /* the plan and its execution agree */
    }
    if (rc == 0 && plan->uneven) {
        plan->steps = steps_of(run->marks, r, t->scope.tablets);
        if (plan->steps == NULL)
            rc = SHOAL_E_NOMEM;
    }
    if (rc != 0)
        apply_plan_free(plan);
    return rc;
}

void apply_marks(struct run *run, const struct engine_table *t, const struct push_record *r,
                 const struct push_plan *plan)
{
    SHOAL_ASSERT(plan->applied > 0 && plan->all == (plan->take == NULL));
    if (r->rows != NULL)
        return;
    marks_move(run->marks, r->lane, r->table, r->tablet_first, r->tablet_count, r->to, plan->take,
               &t->scope);
    run_lane_moved(run, r->lane);
}

int apply_rows(struct engine_table *t, const struct push_record *r, struct push_plan *plan,
               bool dirty, struct err *e)
{
    struct push_args args = {.lr_scale = r->lr_scale,
                             .batch = r->to,
                             .step = plan->step,
                             .steps = plan->steps,
                             .width = r->width,
                             .event_time = r->event_time,
                             .age = r->age,
                             .lane = r->lane,
                             .tablet_first = r->tablet_first,
                             .tablet_count = r->tablet_count,
                             .undo_clock = plan->bsp ? table_undo_clock(r->run, r->to) : 0,
                             .take = plan->take};
    SHOAL_ASSERT(plan->applied > 0 && plan->all == (plan->take == NULL));
    SHOAL_ASSERT(plan->uneven == (plan->steps != NULL));
    if (dirty)
        engine_touch(t, r->tablet_first, r->tablet_count, plan->take, plan->sequence);
    int rc;
    if (r->image != NULL)
        rc = assign_rows(t, r, e);
    else if (r->rows != NULL)
        rc = assign_keys(t, r, plan, e);
    else if ((rc = table_push(t->table, r->keys, r->gradients, r->key_count, &args)) != 0)
        (void)err_set(e, rc, "no memory for rows of table %s; the shard restarts and recovers",
                      table_schema_of(t->table)->name);
    apply_plan_free(plan);
    return rc;
}

void apply_plan_free(struct push_plan *plan)
{
    free(plan->take);
    free(plan->steps);
    plan->take = NULL;
    plan->steps = NULL;
}

/* Finds the open run of a push; rows by key are of none (NULL). */
static int run_of(const struct apply *a, const struct record_header *h, const struct push_record *p,
                  struct run **out, struct err *e)
{
    *out = NULL;
    if (p->rows != NULL)
        return 0;
    *out = runs_find(a->runs, p->run);
    if (*out != NULL && p->lane < (*out)->lanes)
        return 0;
    return err_set(e, SHOAL_E_CORRUPT,
                   "record %" PRIu64 " is a push of run %" PRIu64 " lane %u, which was not open",
                   h->sequence, p->run, p->lane);
}

/* A push with gradients, one with an image, or one with rows. */
static int apply_push(struct apply *a, const struct record_header *h, const void *payload,
                      struct err *e)
{
    struct engine_table *t = engine_slot(a->g, h->table);
    struct push_record p;
    struct push_plan plan;
    uint32_t gap;
    SHOAL_ASSERT(!a->live);
    if (t == NULL || a->base[h->table] == NULL ||
        record_to_push(h, payload, packed_bytes(table_schema_of(t->table), h->width), &p) != 0 ||
        p.key_count > LIMIT_KEYS || p.tablet_first >= t->scope.tablets ||
        p.tablet_count > t->scope.tablets - p.tablet_first ||
        (p.rows != NULL && assign_keys_fit(&p, t, NULL) != 0))
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " is a push that fits no table",
                       h->sequence);
    if (h->sequence <= a->floor)
        return 0;
    const uint64_t *base = a->base[p.table];
    int rc = 0;
    if (a->ops->tablets != NULL)
        rc = a->ops->tablets(a, p.table, p.tablet_first, p.tablet_count, e);

    uint32_t news = 0;
    for (uint32_t i = 0; rc == 0 && i < p.tablet_count; i++)
        news += !is_stored(base, p.tablet_first + i, h->sequence);
    if (rc != 0 || news == 0)
        return rc;
    struct run *run;
    rc = run_of(a, h, &p, &run, e);
    if (rc != 0)
        return rc;
    if (apply_plan(run, &p, base, h->sequence, &plan, &gap) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64
                       ": tablet %u of table %s lacks batches before it; records are missing",
                       h->sequence, gap, table_schema_of(t->table)->name);
    SHOAL_ASSERT(plan.applied + plan.skipped == news);
    if (apply_ready(run, t, &p, base, h->sequence, &plan) != 0)
        return no_memory(h, e);
    plan.bsp = (h->flags & RECORD_FLAG_BSP) != 0;
    if (plan.applied > 0 && a->ops->rows != NULL)
        rc = a->ops->rows(a, p.table, p.keys, p.key_count, e);
    if (rc != 0 || plan.applied == 0) {
        apply_plan_free(&plan);
        return rc;
    }
    apply_marks(run, t, &p, &plan);
    rc = apply_rows(t, &p, &plan, !a->of_cut, e);
    if (rc != 0)
        return err_wrap(e, rc, "record %" PRIu64, h->sequence);

    if (a->ops->room == NULL)
        return 0;

    return a->ops->room(a, h->sequence, e);
}

/* ---- tables ---- */

/* Checks that the table may change to the other schema. */
static int check_change(const struct table *t, const struct table_schema *s, struct err *e)
{
    char difference[SCHEMA_DIFFERENCE_MAX];
    if (schema_change(table_schema_of(t), s, difference) != SCHEMA_STAYS)
        return 0;
    return err_set(e, SHOAL_E_SCHEMA, "table %s is stored with another schema than it has here: %s",
                   s->name, schema_difference(s, table_schema_of(t), difference));
}

int apply_table(struct apply *a, const struct table_schema *s, const struct table_past *past,
                struct err *e)
{
    struct engine_table *t = engine_slot(a->g, s->table);
    int rc;
    if (t == NULL)
        rc = engine_table_add(a->g, s, e);
    else
        rc = check_change(t->table, s, e);
    if (rc != 0)
        return rc;
    struct table *table = a->g->table[s->table].table;
    if (!a->kept) {
        if (!schema_equal(table_schema_of(table), s))
            table_change(table, s, past->sequence);
        table_past_set(table, past);
    }
    if (a->ops->table == NULL)
        return 0;

    return a->ops->table(a, s->table, e);
}

/* Marks tablets that lack the record as changed, so that they are written again (change.c, 2). */
static void touch_older(struct apply *a, struct engine_table *t, uint32_t table, uint64_t sequence)
{
    SHOAL_ASSERT(!a->of_cut);
    for (uint32_t i = 0; i < t->scope.tablets; i++)
        if (!is_stored(a->base[table], i, sequence))
            engine_touch(t, i, 1, NULL, sequence);
}

static int change_table(struct apply *a, const struct record_header *h, struct engine_table *t,
                        const struct table_schema *s, struct err *e)
{
    int rc = check_change(t->table, s, e);
    if (rc == 0 && a->ops->tablets != NULL && h->sequence > a->floor)
        rc = a->ops->tablets(a, s->table, 0, t->scope.tablets, e);
    if (rc != 0)
        return rc;
    if (!a->kept && !is_past(a, h) && !schema_equal(table_schema_of(t->table), s))
        table_change(t->table, s, h->sequence);
    if (!a->of_cut && (!a->live || a->g->journal != NULL) && h->sequence > a->floor &&
        table_past(t->table)->sequence == h->sequence)
        touch_older(a, t, s->table, h->sequence);
    return 0;
}

static int apply_schema(struct apply *a, const struct record_header *h, const void *payload,
                        struct err *e)
{
    struct table_schema s;
    int rc = record_schema_read(payload, h->payload_bytes, &s, e);
    if (rc != 0)
        return rc;
    struct engine_table *t = engine_slot(a->g, s.table);
    if (t == NULL)
        rc = engine_table_add(a->g, &s, e);
    else
        rc = change_table(a, h, t, &s, e);
    if (rc == 0 && a->ops->table != NULL)
        return a->ops->table(a, s.table, e);

    return rc;
}

/* ---- runs ---- */

static void seen_at(struct run *run, uint64_t sequence)
{
    if (run->ghost && run->seen < sequence)
        run->seen = sequence;
}

static int apply_run_open(struct apply *a, const struct record_header *h, const void *payload,
                          struct err *e)
{
    struct record_run_open o;
    record_to_run_open(h->kind, payload, &o); /* apply_fits */
    struct run *run = runs_find(a->runs, o.run);
    if (run == NULL) {
        if (o.lanes == 0 || o.lanes > LIMIT_LANES || !run_mode_known(o.mode))
            return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " opens a run with %u lanes",
                           h->sequence, o.lanes);
        int rc = runs_add(a->runs, o.run, o.tables, o.lanes, o.mode, &run);
        if (rc != 0)
            return err_set(e, rc, "no memory to open run %" PRIu64, o.run);
        run->ghost = is_past(a, h);
    }
    seen_at(run, h->sequence);
    if (a->live)
        engine_refresh_marks(a->g);
    return 0;
}

static int apply_run_drop(struct apply *a, const struct record_header *h, const void *payload,
                          struct err *e)
{
    const struct record_run_drop *d = payload;
    struct run *run = runs_find(a->runs, d->run);
    SHOAL_ASSERT(!a->live || a->g->pending == 0);
    if (run != NULL && runs_end(a->runs, run, h->sequence - 1, h->sequence) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop run %" PRIu64, d->run);
    /* Undo of a finished run is never used: old images may bring some later. */
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (a->g->table[i].table != NULL)
            table_undo_drop(a->g->table[i].table, d->run);
    return 0;
}

static int apply_fence(struct apply *a, const struct record_header *h, const void *payload,
                       struct err *e)
{
    const struct record_fence *f = payload;
    struct run *run = runs_find(a->runs, f->run);
    (void)e;
    SHOAL_ASSERT(!a->live || f->lane < run->lanes); /* engine_fence found the run */
    if (run != NULL && !is_past(a, h) && f->lane < run->lanes)
        run_fence(run, f->lane, f->generation, f->live != 0, f->offset);
    return 0;
}

static int apply_restore(struct apply *a, const struct record_header *h, const void *payload,
                         struct err *e)
{
    struct record_restore r;
    record_to_restore(h->kind, payload, &r);                     /* apply_fits */
    r.existing = table_set_less(r.existing, apply_spared(a, h)); /* 3 */
    return a->ops->restore(a, &r, h->sequence, is_past(a, h), e);
}

int apply_restored_run(struct runs *runs, const struct record_restore *record, uint64_t sequence,
                       bool past, struct run **out)
{
    struct run *run = runs_find(runs, record->run);
    if (record->lanes == 0 || record->lanes > LIMIT_LANES || !run_mode_known(record->mode) ||
        (run != NULL && run->lanes != record->lanes))
        return SHOAL_E_CORRUPT;
    if (run == NULL) {
        if (runs_add(runs, record->run, record->tables, record->lanes, record->mode, &run) != 0)
            return SHOAL_E_NOMEM;
        run->ghost = past;
    }
    seen_at(run, sequence);
    for (uint32_t i = runs->count; i-- > 0;) {
        struct run *other = runs->run[i];
        bool shares = table_set_meet(other->tables, record->existing);
        if (other != run && shares && (!past || (other->ghost && other->seen < sequence)) &&
            runs_end(runs, other, sequence - 1, sequence) != 0)
            return SHOAL_E_NOMEM;
    }
    SHOAL_ASSERT(run->lanes == record->lanes);
    *out = run;
    return 0;
}

int apply_ghosts_end(struct runs *runs, uint64_t sequence)
{
    for (uint32_t i = runs->count; i-- > 0;)
        if (runs->run[i]->ghost && runs_end(runs, runs->run[i], runs->run[i]->seen, sequence) != 0)
            return SHOAL_E_NOMEM;
    SHOAL_ASSERT(runs_open(runs) == runs->count); /* no ghost is left */
    return 0;
}

/* ---- names of keys ---- */

/* Marks the tablets of the keys that lack the record as changed, and changes them. */
static int name_keys(struct apply *a, struct engine_table *t, const struct record_keys *keys,
                     const uint64_t *key, uint64_t sequence)
{
    uint32_t bits = table_schema_of(t->table)->tablet_bits;
    SHOAL_ASSERT(!a->live || a->g->pending == 0);
    uint8_t *take = calloc(t->scope.tablets, 1);
    if (take == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < keys->count; i++) {
        uint32_t tablet = key_tablet(key_mix(key[i]), bits);
        SHOAL_ASSERT(tablet < t->scope.tablets);
        take[tablet] = !is_stored(a->base[keys->table], tablet, sequence);
    }
    if (!a->of_cut && (!a->live || a->g->journal != NULL))
        engine_touch(t, 0, t->scope.tablets, take, sequence);
    int rc =
        table_keys(t->table, (enum key_action)keys->action, key, keys->count, take, &a->changed);
    free(take);
    return rc;
}

static int apply_keys(struct apply *a, const struct record_header *h, const void *payload,
                      struct err *e)
{
    const struct record_keys *keys = payload;
    const uint64_t *key = (const uint64_t *)(const void *)(keys + 1);
    struct engine_table *t = engine_slot(a->g, keys->table);
    if (t == NULL || (!a->live && a->base[keys->table] == NULL) || keys->action > KEY_EVICT ||
        keys->count > LIMIT_KEYS ||
        h->payload_bytes != sizeof *keys + keys->count * sizeof(uint64_t))
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " names keys of no table",
                       h->sequence);
    if (!a->live && h->sequence <= a->floor)
        return 0;
    uint32_t bits = table_schema_of(t->table)->tablet_bits;
    int rc = 0;
    for (uint32_t i = 0; a->ops->tablets != NULL && rc == 0 && i < keys->count; i++)
        rc = a->ops->tablets(a, keys->table, key_tablet(key_mix(key[i]), bits), 1, e);
    if (rc == 0 && name_keys(a, t, keys, key, h->sequence) != 0)
        rc = no_memory(h, e);
    return rc;
}

/* ---- followers ---- */

static int apply_term(struct apply *a, const struct record_header *h, const void *payload,
                      struct err *e)
{
    const struct record_term *t = payload;
    if (a->of_cut || is_past(a, h))
        return 0;
    if (t->term <= term_last(&a->g->terms))
        return err_set(e, SHOAL_E_CORRUPT,
                       "record %" PRIu64 " begins term %" PRIu64 " behind term %" PRIu64,
                       h->sequence, t->term, term_last(&a->g->terms));
    term_add(&a->g->terms, t->term, h->sequence);
    return 0;
}

/* For followers alone (follow.c). */
static int apply_nothing(struct apply *a, const struct record_header *h, const void *payload,
                         struct err *e)
{
    (void)a, (void)h, (void)payload, (void)e;
    return 0;
}

/* ---- kinds ---- */

struct kind {
    const char *name;
    uint32_t bytes; /* bytes of its payload, */
    bool least;     /* at least these bytes */
    bool control;   /* it changes the control state */
    int (*apply)(struct apply *a, const struct record_header *h, const void *payload,
                 struct err *e);
};
static const struct kind kinds[] = {
    [RECORD_PUSH] = {"push", 0, true, false, apply_push},
    [RECORD_TABLE] = {"table", 0, true, true, apply_schema},
    [RECORD_RUN_OPEN] = {"run open", RECORD_RUN_OPEN_BYTES, false, true, apply_run_open},
    [RECORD_RUN_DROP] = {"run drop", sizeof(struct record_run_drop), false, true, apply_run_drop},
    [RECORD_FENCE] = {"fence", sizeof(struct record_fence), false, true, apply_fence},
    [RECORD_RESTORE] = {"restore", RECORD_RESTORE_BYTES, false, true, apply_restore},
    [RECORD_KEYS] = {"keys", sizeof(struct record_keys), true, false, apply_keys},
    [RECORD_TERM] = {"term", sizeof(struct record_term), false, true, apply_term},
    [RECORD_BASE] = {"base", 0, false, false, apply_nothing},
    [RECORD_CUT] = {"cut", sizeof(struct record_cut), false, false, apply_nothing},
    [RECORD_CUT_DROP] = {"cut drop", sizeof(struct record_cut), false, false, apply_nothing},
    [RECORD_TABLET_IN] = {"tablet in", sizeof(struct record_tablet_in), true, false, moved_in},
    [RECORD_TABLET_OUT] = {"tablet out", sizeof(struct record_tablet_out), true, false, moved_out},
    [RECORD_ASSIGN] = {"assign", 1, true, false, apply_push},
    [RECORD_ROWS] = {"rows", sizeof(uint64_t) + sizeof(float), true, false, apply_push},
    [RECORD_RUN_OPEN_FAR] = {"run open", sizeof(struct record_run_open), false, true,
                             apply_run_open},
    [RECORD_RESTORE_FAR] = {"restore", sizeof(struct record_restore), false, true, apply_restore},
};

bool apply_fits(const struct record_header *h)
{
    const struct kind *k = &kinds[h->kind];
    return k->least ? h->payload_bytes >= k->bytes : h->payload_bytes == k->bytes;
}

static struct table_set set_of(uint32_t table)
{
    return table < LIMIT_TABLES ? table_set_one(table) : TABLE_SET_NONE;
}

static struct table_set table_of_schema(const struct record_header *h, const void *payload)
{
    struct table_schema s;
    struct err e;
    if (record_schema_read(payload, h->payload_bytes, &s, &e) != 0)
        return TABLE_SET_NONE;
    return set_of(s.table);
}

/* The tables that a record is about; none: it is passed over by another rule, or is about none. */
static struct table_set tables_of(const struct record_header *h, const void *payload)
{
    struct record_run_open o;
    struct record_restore r;
    switch (h->kind) {
    case RECORD_PUSH:
    case RECORD_ASSIGN:
    case RECORD_ROWS:
        return set_of(h->table);
    case RECORD_TABLE:
        return table_of_schema(h, payload);
    case RECORD_KEYS:
        return set_of(((const struct record_keys *)payload)->table);
    case RECORD_RUN_OPEN:
    case RECORD_RUN_OPEN_FAR:
        record_to_run_open(h->kind, payload, &o);
        return o.tables;
    case RECORD_RESTORE:
    case RECORD_RESTORE_FAR:
        record_to_restore(h->kind, payload, &r);
        return r.tables;
    case RECORD_TABLET_IN:
        return set_of(((const struct record_tablet_in *)payload)->table);
    default: /* a record of a run that is over; or RECORD_TABLET_OUT, of several tables (moved.c) */
        return TABLE_SET_NONE;
    }
}

struct table_set apply_spared(const struct apply *a, const struct record_header *h)
{
    if (a->live)
        return TABLE_SET_NONE;
    return table_set_or(a->but, runs_gone(a->runs, h->sequence));
}

/* True when the record does nothing to any table that it is about. */
static bool is_spared(const struct apply *a, const struct record_header *h, const void *payload)
{
    const struct table_set spared = apply_spared(a, h);
    if (!table_set_any(spared))
        return false;
    const struct table_set tables = tables_of(h, payload);
    return table_set_any(tables) && table_set_within(tables, spared);
}

int apply_record(struct apply *a, const struct journal_record *r, struct err *e)
{
    const struct record_header *h = r->head;
    SHOAL_ASSERT(record_known(h));
    SHOAL_ASSERT(!(a->live && a->of_cut));
    SHOAL_ASSERT(!a->live || h->sequence == a->g->sequence); /* it has just been journalled */
    const struct kind *k = &kinds[h->kind];
    if (k->control && !a->live && !a->of_cut && !is_past(a, h))
        a->g->control_changed = h->sequence;
    if (!apply_fits(h))
        return err_set(e, SHOAL_E_CORRUPT, "record %" PRIu64 " of kind %u (%s) has %u bytes",
                       h->sequence, h->kind, k->name, h->payload_bytes);
    if (is_spared(a, h, r->payload)) /* 3 */
        return 0;
    return k->apply(a, h, r->payload, e);
}
