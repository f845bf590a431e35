/* unload.c: removes the rows of a load again, unless its run may have trained.
 *
 *     engine_load_drop -> a load under way ends at its next step     load_call_off
 *                      -> quiet                                      unload_step
 *                      -> CLEARING, an I/O thread                    clear_run
 *                      -> tables are empty, the run is dropped       take_out
 *                      -> done
 *
 *     without a store CLEARING is left out.
 *
 *  1. The marker "a load is under way" (load.c, 3) is durable again before the first image
 *     is deleted, and is itself deleted after the last one. If the process is killed in between,
 *     recovery removes the other images, as after an unfinished load.
 *     [test: a_load_is_taken_back_as_a_whole]
 *  2. No record is needed: no record above the images is about these tables, because only tables
 *     without records were filled, and the run did not train. The run is dropped afterwards by its
 *     own record: after a kill in between it is open and empty, and a repeated call drops it.
 *     [test: a_load_is_taken_back_and_goes_again]
 *  3. A run of which a lane was ever fenced may have trained; its tables are not touched.
 *     [test: a_run_that_may_have_trained_keeps_its_rows]
 */
#include "embedding/checkpoint/load.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/follow.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

struct unload {
    struct engine_job job;
    /* a load that shares no table with `of` belongs to another job */
    uint64_t run;
    struct table_set of;
    struct table_set tables; /* tables whose images may be in the store */
    bool working;
    engine_load_drop_done done;
    void *context;
};

struct unload_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_sync sync;
    uint64_t run;
    struct table_set tables;
    int status;
    struct err err;
};

static struct unload *unload_of(const struct engine *g)
{
    return g->job[JOB_UNLOAD] == NULL ? NULL : container_of(g->job[JOB_UNLOAD], struct unload, job);
}

static void unload_close(struct engine *g)
{
    struct unload *u = unload_of(g);
    SHOAL_ASSERT(!g->flush.busy && g->job[JOB_LOAD] == NULL);
    engine_job_end(g, JOB_UNLOAD);
    free(u);
}

static void finish(struct engine *g, int status, const char *text)
{
    struct unload *u = unload_of(g);
    engine_job_end(g, JOB_UNLOAD);
    g->loading = TABLE_SET_NONE;
    u->done(u->context, status, text);
    free(u);
}

/* ---- the I/O thread's part ---- */

static int clear(struct unload_work *w)
{
    struct store *s = w->g->store;
    const struct stored_load marker = {.run = w->run, .tables = w->tables, .under_way = true};
    char value[STORED_LOAD_BYTES];
    struct store_item item;
    SHOAL_ASSERT(table_set_any(w->tables) && w->sync.count > 0);
    stored_load_write(&marker, value, &item);
    int rc = store_write(s, &item, 1, &w->err);
    if (rc == 0)
        rc = flush_sync(w->g, &w->sync, &w->err);
    if (rc == 0)
        rc = store_flush(s, &w->err);
    if (rc == 0)
        rc = recover_clear_load(s, w->tables, &w->err);
    return rc;
}

static void clear_run(struct offload *work)
{
    struct unload_work *w = container_of(work, struct unload_work, work);
    w->status = clear(w);
}

/* ---- taken out ---- */

static int empty_tables(struct engine *g, struct table_set tables, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = &g->table[i];
        struct table *fresh;
        if (!table_set_has(&tables, i) || t->table == NULL)
            continue;
        int rc = table_new(table_schema_of(t->table), g->arena, &fresh, e);
        if (rc != 0)
            return rc;
        table_past_set(fresh, table_past(t->table));
        table_free(t->table);
        t->table = fresh;
        for (uint32_t k = 0; k < t->scope.tablets; k++)
            t->changed[k] = t->written[k] = t->durable[k] = 0;
    }
    return 0;
}

/* Forgets loads whose tables are empty, from the last on: an entry that moves to the place of one
 * was checked already. */
static int loads_forget(struct engine *g, struct err *e)
{
    int rc = 0;
    for (uint32_t i = g->loads; i-- > 0 && rc == 0;) {
        const struct engine_loaded l = g->loaded[i];
        if (!l.leaving)
            continue;
        arena_free(l.arena);
        g->loaded[i] = g->loaded[--g->loads];
        rc = engine_run_drop(g, l.run, e);
    }
    return rc;
}

static void take_out(struct engine *g)
{
    struct unload *u = unload_of(g);
    struct err e = {0};
    SHOAL_ASSERT(!g->flush.busy && g->job[JOB_LOAD] == NULL);
    int rc = empty_tables(g, u->tables, &e);
    g->loading = TABLE_SET_NONE;
    if (rc == 0)
        rc = loads_forget(g, &e);
    engine_refresh_marks(g);
    if (rc == 0)
        rc = engine_run_drop(g, u->run, &e);
    if (rc == 0 && table_set_any(u->tables))
        log_info("what a checkpoint brought for run %" PRIu64
                 " is gone again: the tables are empty",
                 u->run);
    finish(g, rc, e.text);
    if (rc == SHOAL_E_NOMEM) /* it is gone on disk, so only a restart makes memory agree */
        engine_fail(g, &e);
}

static void clear_done(struct offload *work)
{
    struct unload_work *w = container_of(work, struct unload_work, work);
    struct engine *g = w->g;
    struct err ignored;
    g->flush.busy = false;
    journal_sync_end(g->journal, &w->sync, &ignored);
    if (work->cancelled)
        return;
    SHOAL_ASSERT(unload_of(g)->working && table_set_equal(g->loading, w->tables));
    if (w->status != 0) {
        engine_fail(g, &w->err);
        finish(g, w->status, w->err.text);
        return;
    }
    take_out(g);
    engine_flush_step(g);
}

static void clear_start(struct engine *g)
{
    SHOAL_ASSERT(table_set_any(unload_of(g)->tables) && !unload_of(g)->working &&
                 !table_set_any(g->loading));
    struct unload_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return; /* the next step tries again */
    w->g = g;
    w->run = unload_of(g)->run;
    w->tables = unload_of(g)->tables;
    journal_sync_peek(g->journal, &w->sync);
    unload_of(g)->working = true;
    g->loading = w->tables;
    g->flush.busy = true;
    engine_work(g, &w->work, clear_run, clear_done);
}

/* ---- what there is to take back ---- */

/* True: the run of the load may have trained (3). */
static bool trained(const struct engine *g, const struct engine_loaded *l)
{
    const struct run *run = runs_find(&g->runs, l->run);
    if (run == NULL)
        return true; /* dropped in the regular way: its rows stay */
    for (uint32_t lane = 0; lane < run->lanes; lane++)
        if (run->lane[lane].generation != 0)
            return true;
    return false;
}

int engine_runs_drop_below(struct engine *g, uint64_t below, struct table_set tables, struct err *e)
{
    /* a run that moves to this place was checked already */
    for (uint32_t i = g->runs.count; i-- > 0;) {
        const struct run *run = g->runs.run[i];
        const struct engine_loaded *l = load_done_for(g, run->id);
        if (run->ghost || run->id >= below || !table_set_meet(run->tables, tables) ||
            (l != NULL && !trained(g, l)))
            continue;
        int rc = engine_run_drop(g, run->id, e);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static void choose(struct engine *g, struct unload *u)
{
    for (uint32_t i = 0; i < g->loads; i++) {
        struct engine_loaded *l = &g->loaded[i];
        l->leaving = l->run <= u->run && table_set_meet(l->tables, u->of) && !trained(g, l);
        if (l->leaving)
            u->tables = table_set_or(u->tables, l->tables);
    }
}

static void unload_step(struct engine *g)
{
    struct unload *u = unload_of(g);
    if (u->working || g->broken || !load_call_off(g, u->run, u->of, &u->tables) || g->flush.busy)
        return;
    if (g->job[JOB_LOAD] != NULL || g->pending > 0 || g->holding || g->cut_busy)
        return; /* a load of another job comes first: the store has one marker */
    choose(g, u);
    struct err e = {0};
    if (table_set_any(u->tables) && g->tail != NULL && engine_base_mark(g, &e) != 0) {
        finish(g, e.code, e.text);
        return;
    }
    if (table_set_any(u->tables) && g->store != NULL)
        clear_start(g);
    else
        take_out(g);
}

static const struct engine_job_ops unload_job = {unload_step, NULL, NULL, unload_close};

int engine_load_drop(struct engine *g, uint64_t run, struct table_set tables,
                     engine_load_drop_done done, void *context, struct err *e)
{
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (unload_of(g) != NULL)
        return err_set(e, SHOAL_E_BUSY,
                       "the load of run %" PRIu64 " is being taken back; ask again",
                       unload_of(g)->run);
    struct unload *u = calloc(1, sizeof *u);
    if (u == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to take back the load of run %" PRIu64, run);
    *u = (struct unload){.run = run, .of = tables, .done = done, .context = context};
    engine_job_begin(g, JOB_UNLOAD, &u->job, &unload_job);
    unload_step(g);
    return 0;
}
