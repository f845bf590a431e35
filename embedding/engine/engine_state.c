/* engine_state.c: tables of an engine and their led tablets; jobs are begun, stepped, counted and
 * closed; syncs of the journal; failing. Within the room it calls only offload.c, and the other
 * files use it. */
#include "embedding/engine/engine_state.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

/* ---- tables ---- */

struct engine_table *engine_slot(struct engine *g, uint32_t table)
{
    if (table < LIMIT_TABLES && g->table[table].table != NULL)
        return &g->table[table];

    return NULL;
}

static void table_release(struct engine_table *t)
{
    table_free(t->table);
    free(t->scope.led);
    free(t->scope.led_before);
    free(t->changed);
    free(t->written);
    free(t->durable);
    *t = (struct engine_table){0};
}

/* A shard has one arena for all tables. An eighth of what a table can address in it is left for
 * holes, and for rows that arrive after the last check. */
static void rows_bound(struct engine *g)
{
    struct tier *tier = &g->tier;
    uint64_t before = tier->rows_max;
    tier->rows_max = tier->budget;
    tier->narrow = LIMIT_TABLES;
    for (uint32_t i = 0; i < LIMIT_TABLES && tier->budget > 0; i++) {
        const struct table *t = g->table[i].table;
        uint64_t most = UINT64_MAX;
        if (t != NULL)
            most = table_reach(t) / 8 * 7;
        if (most < tier->rows_max) {
            tier->rows_max = most;
            tier->narrow = i;
        }
    }
    if (tier->rows_max < before && tier->narrow != LIMIT_TABLES)
        log_warn("%s: rows of table %s are so short that not more than %" PRIu64
                 " bytes of memory take them, and those of the tables beside it; add servers",
                 g->dir == NULL ? "memory" : g->dir,
                 table_schema_of(g->table[tier->narrow].table)->name, tier->rows_max);
}

struct table *engine_table_take(struct engine *g, uint32_t table)
{
    SHOAL_ASSERT(table < LIMIT_TABLES && !g->flush.busy);
    struct table *t = g->table[table].table;
    g->table[table].table = NULL;
    table_set_remove(&g->here, table);
    g->tier.beside_of[table] = 0;
    table_release(&g->table[table]);
    runs_dense_set(&g->runs, table, false);
    rows_bound(g);
    return t;
}

/* Takes the led tablets of a table from the whole map. */
static void scope_fill(const struct engine *g, struct engine_table *t)
{
    uint32_t first = table_schema_of(t->table)->tablet_first, before = 0;
    SHOAL_ASSERT(t->scope.tablets == 1u << table_schema_of(t->table)->tablet_bits);
    for (uint32_t i = 0; i < t->scope.tablets; i++) {
        t->scope.led[i] = first + i < g->led_count && g->led[first + i];
        t->scope.led_before[i] = before;
        before += t->scope.led[i];
    }
    t->scope.led_before[t->scope.tablets] = before;
    t->scope.led_count = before;
}

int engine_overlap(struct engine *g, const struct table_schema *s, struct err *e)
{
    uint64_t first = s->tablet_first, end = first + (1u << s->tablet_bits);
    TABLE_SET_EACH (i, &g->here) {
        const struct table_schema *other = table_schema_of(g->table[i].table);
        uint64_t other_first = other->tablet_first,
                 other_end = other_first + (1u << other->tablet_bits);
        if (first < other_end && other_first < end)
            return err_set(e, SHOAL_E_SCHEMA, "tables %s and %s claim the same tablet numbers",
                           s->name, other->name);
    }
    return 0;
}

void engine_refresh_marks(struct engine *g)
{
    for (uint32_t i = 0; i < g->runs.count; i++)
        TABLE_SET_EACH (table, &g->here)
            run_refresh(g->runs.run[i], table, &g->table[table].scope);
}

int engine_table_add(struct engine *g, const struct table_schema *s, struct err *e)
{
    uint32_t tablets = 1u << s->tablet_bits;
    struct engine_table t = {.scope.tablets = tablets};
    SHOAL_ASSERT(s->table < LIMIT_TABLES && g->table[s->table].table == NULL);
    int rc = table_new(s, g->arena, &t.table, e);
    if (rc != 0)
        return rc;
    t.scope.led = calloc(tablets, sizeof *t.scope.led);
    t.scope.led_before = calloc(tablets + 1, sizeof *t.scope.led_before);
    t.changed = calloc(tablets, sizeof *t.changed);
    t.written = calloc(tablets, sizeof *t.written);
    t.durable = calloc(tablets, sizeof *t.durable);
    if (t.scope.led == NULL || t.scope.led_before == NULL || t.changed == NULL ||
        t.written == NULL || t.durable == NULL) {
        table_release(&t);
        return err_set(e, SHOAL_E_NOMEM, "no memory for the %u tablets of table %s", tablets,
                       s->name);
    }
    scope_fill(g, &t);
    g->table[s->table] = t;
    table_set_add(&g->here, s->table);
    runs_dense_set(&g->runs, s->table, s->dense != 0);
    rows_bound(g);
    engine_refresh_marks(g);
    return 0;
}

int engine_lead(struct engine *g, const uint16_t *shard_of, uint32_t count, uint16_t self)
{
    if (count > LIMIT_FLEET_TABLETS)
        return SHOAL_E_TOO_BIG;
    uint8_t *led = calloc(count + 1, 1);
    if (led == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < count; i++)
        led[i] = shard_of[i] == self;
    free(g->led);
    g->led = led;
    g->led_count = count;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            scope_fill(g, &g->table[i]);
    engine_refresh_marks(g);
    return 0;
}

void engine_touch(struct engine_table *t, uint32_t first, uint32_t count, const uint8_t *take,
                  uint64_t sequence)
{
    uint64_t *changed = t->changed, *durable = t->durable, *written = t->written;
    SHOAL_ASSERT(sequence > 0 && first + count <= t->scope.tablets);
    for (uint32_t i = first; i < first + count; i++) {
        if (take != NULL && !take[i])
            continue;
        SHOAL_ASSERT(changed[i] <= sequence);
        if (changed[i] <= durable[i])
            /* it was clean: no record in between changed it */
            durable[i] = written[i] = sequence - 1;
        changed[i] = sequence;
    }
}

void engine_pulse(const struct engine *g, uint64_t done, uint64_t of)
{
    if (g->options.on_pulse != NULL)
        g->options.on_pulse(g->options.context, done, of);
}

bool engine_back(const struct engine *g)
{
    return g->job[JOB_RELOAD] == NULL && !engine_restoring(g);
}

bool engine_restoring(const struct engine *g)
{
    return g->job[JOB_RESTORE] != NULL || g->job[JOB_CLEAR] != NULL;
}

void engine_whole_free(struct engine *g)
{
    if (g->whole_arena == NULL)
        return;
    table_free(g->whole);
    arena_free(g->whole_arena);
    g->whole = NULL;
    g->whole_arena = NULL;
}

/* ---- work, and failing ---- */

void engine_work(struct engine *g, struct offload *w, void (*run)(struct offload *w),
                 void (*done)(struct offload *w))
{
    w->run = run;
    w->done = done;
    offload_start(&g->works, g->env, w);
}

int engine_fail(struct engine *g, const struct err *e)
{
    SHOAL_ASSERT(e->code != 0); /* the caller would go on otherwise */
    if (!g->broken) {
        g->broken = true;
        if (g->options.on_fatal != NULL)
            g->options.on_fatal(g->options.context, e);
    }
    return e->code;
}

int engine_fail_with(struct engine *g, const struct err *failure, struct err *e)
{
    err_set(e, failure->code, "%s", failure->text);
    return engine_fail(g, failure);
}

void engine_job_begin(struct engine *g, enum engine_job_kind kind, struct engine_job *job,
                      const struct engine_job_ops *ops)
{
    SHOAL_ASSERT(kind < JOB_KINDS && g->job[kind] == NULL);
    job->ops = ops;
    g->job[kind] = job;
}

void engine_job_end(struct engine *g, enum engine_job_kind kind)
{
    g->job[kind] = NULL;
}

void engine_jobs_step(struct engine *g, enum engine_job_kind from, enum engine_job_kind below)
{
    SHOAL_ASSERT(from < below && below <= JOB_KINDS);
    for (unsigned kind = from; kind < (unsigned)below; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->step != NULL)
            g->job[kind]->ops->step(g);
}

bool engine_jobs_urgent(const struct engine *g)
{
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->urgent != NULL &&
            g->job[kind]->ops->urgent(g))
            return true;
    return false;
}

uint64_t engine_jobs_bytes(const struct engine *g)
{
    uint64_t bytes = 0;
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL && g->job[kind]->ops->bytes != NULL)
            bytes += g->job[kind]->ops->bytes(g);
    return bytes;
}

void engine_jobs_close(struct engine *g)
{
    for (unsigned kind = 0; kind < JOB_KINDS; kind++) {
        if (g->job[kind] != NULL)
            g->job[kind]->ops->close(g);
        SHOAL_ASSERT(g->job[kind] == NULL);
    }
}

struct sync_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_sync sync;
};

static void sync_run(struct offload *w)
{
    journal_sync_run(&container_of(w, struct sync_work, work)->sync);
}

static void sync_done(struct offload *w)
{
    struct sync_work *s = container_of(w, struct sync_work, work);
    struct engine *g = s->g;
    struct err e = {0};
    SHOAL_ASSERT(g->syncing); /* one at a time */
    g->syncing = false;
    if (w->cancelled)
        s->sync.status = SHOAL_E_STOPPED;
    int rc = journal_sync_end(g->journal, &s->sync, &e);
    if (w->cancelled)
        return;
    g->syncs++;
    meter_time(&g->sync_times, w->env.ran_ns);
    if (rc != 0) {
        engine_fail(g, &e);
        return;
    }
    if (g->options.durability == DURABLE_FSYNC)
        engine_sync_start(g);
    if (g->options.on_synced != NULL)
        g->options.on_synced(g->options.context);
}

void engine_sync_start(struct engine *g)
{
    if (g->journal == NULL || g->syncing || g->broken ||
        journal_synced(g->journal) == journal_committed(g->journal))
        return;
    struct sync_work *s = calloc(1, sizeof *s);
    if (s == NULL)
        return; /* the next commit retries */
    s->g = g;
    if (!journal_sync_begin(g->journal, &s->sync)) {
        free(s);
        return;
    }
    SHOAL_ASSERT(s->sync.sequence <= journal_committed(g->journal));
    g->syncing = true;
    engine_work(g, &s->work, sync_run, sync_done);
}

bool engine_unsynced(const struct engine *g)
{
    return g->journal != NULL && !g->broken &&
           journal_synced(g->journal) != journal_committed(g->journal);
}

bool engine_sync_due(struct engine *g)
{
    bool was = engine_unsynced(g);
    engine_sync_start(g);
    return was;
}
