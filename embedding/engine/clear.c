/* clear.c: drops tables with all that is theirs, for a job that begins with nothing, or because
 * their space is dropped. engine.h has the promise.
 *
 *     engine_clear -> cuts are dropped
 *       -> an I/O thread: the journal is synced; control state and marker written     clear_run
 *          -> images and rows are deleted, then the marker
 *       -> tables, runs and their records are dropped                                 take_out
 *       -> done
 *
 *     without a store: cuts, take_out, done.
 *
 *  1. One batch of the store decides. It has the control state without these tables and their runs,
 *     which says that no record up to now concerns a table of these numbers (run_place.barrier),
 *     and the marker of a load into these tables (load.c, 3). Before the batch is durable nothing
 *     but the cuts has changed. From then on recovery deletes the images, as after an unfinished
 *     load, and skips the records (apply.h, 3). The clear therefore needs no record.
 *     [test: a_clear_has_happened_or_has_not]
 *  2. A clear happens once for a job and a table, because the job's rows come after it: the control
 *     state keeps the job's number.
 *     [test: a_clear_comes_once, a_clear_before_all_records_comes_once]
 *  3. Between the batch and take_out nothing is journalled, read or written: the engine is not
 *     back. [assert: take_out]
 *  4. Cuts are dropped first, or marked if a restore among the records needs them (cut_keep.c): a
 *     start after a kill finds none of them. [test: a_clear_has_happened_or_has_not]
 *  5. Other tables keep rows, marks, records, images and cuts.
 *     [test: a_clear_leaves_other_tables]
 *  6. A clear that meets fetches ends them (fetch_rest): its asker asks again, and finds none.
 *     [test: a_clear_comes_beside_fetches] */
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/follow.h"
#include "embedding/journal/archive.h"
#include "embedding/rows/arena_inner.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define CUTS_MOST 256u

struct clear {
    struct engine_job job;
    uint64_t number;         /* the job's number */
    struct table_set tables; /* tables that go */
    uint64_t sequence;
    struct arena *arena; /* owned: for the rows to come, if no table stays */
    struct runs after;   /* its lists are owned; the runs that stay are the engine's */
    engine_clear_done done;
    void *context;
};

struct clear_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_sync sync;
    struct stored_load marker;
    bool stays;    /* other tables stay */
    void *control; /* owned */
    size_t control_bytes;
    int status;
    struct err err;
};

static struct clear *clear_of(const struct engine *g)
{
    return container_of(g->job[JOB_CLEAR], struct clear, job);
}

static void clear_free(struct engine *g)
{
    struct clear *c = clear_of(g);
    engine_job_end(g, JOB_CLEAR);
    arena_free(c->arena);
    runs_lists_free(&c->after);
    free(c);
}

static const struct engine_job_ops clear_job = {NULL, NULL, NULL, clear_free};

/* ---- taken out, on the loop ---- */

/* Frees the rows of loads whose tables are gone. */
static void loads_free(struct engine *g, struct table_set here)
{
    for (uint32_t i = g->loads; i-- > 0;)
        if (!table_set_meet(g->loaded[i].tables, here)) {
            arena_free(g->loaded[i].arena);
            g->loaded[i] = g->loaded[--g->loads];
        }
}

static void tables_free(struct engine *g, struct clear *c)
{
    struct tier *tier = &g->tier;
    tier->written = false;
    tier_stay(g); /* tables that go have marks of rows that were to leave */
    engine_whole_free(g);
    TABLE_SET_EACH (t, &c->tables)
        if (g->table[t].table != NULL)
            table_free(engine_table_take(g, t));
    loads_free(g, g->here);
    if (!table_set_any(g->here)) {
        arena_free(g->arena);
        g->arena = c->arena;
        c->arena = NULL;
    } else {
        arena_trim(g->arena);
    }
    tier_empty(g);   /* memory beside the arenas is measured again */
    fetch_forget(g); /* requests for rows of other tables ask again */
}

static void flush_clear(struct engine *g, struct table_set tables)
{
    struct flush_state *f = &g->flush;
    f->items = f->bytes = 0;
    for (uint32_t i = f->stale_count; i-- > 0;)
        if (table_set_has(&tables, f->stale[i].table))
            f->stale[i] = f->stale[--f->stale_count];
    f->table = f->tablet = 0;
    if (g->store != NULL)
        g->control_changed = g->control_written = g->control_durable = f->control_seq = g->sequence;
}

/* True for a cut whose tables all go, of those that are here: no other job's. */
static bool cut_goes(struct engine *g, uint64_t cut, struct table_set tables)
{
    return table_set_equal(tables, TABLE_SET_ALL) ||
           run_goes(engine_cut_tables(g, cut), tables, g->here);
}

/* Drops the cuts that go. A cut that a record still names is deleted later. */
static void cuts_drop(struct engine *g, struct table_set tables)
{
    uint64_t cut[CUTS_MOST];
    uint32_t count = engine_cuts(g, cut, CUTS_MOST);
    for (uint32_t i = 0; i < count; i++)
        if (cut_goes(g, cut[i], tables) && engine_cut_drop(g, cut[i]) != 0)
            log_warn("cut %" PRIu64 " cannot be removed; drop it again", cut[i]);
}

/* Forgets restores of cuts that go: their records concern no table any more. */
static void refs_forget(struct engine *g, struct table_set tables)
{
    for (uint32_t i = g->ref_count; i-- > 0;)
        if (cut_goes(g, g->ref[i].cut, tables))
            g->ref[i] = g->ref[--g->ref_count];
}

/* Drops the journal's records that concern no table. Where none stays, blame would find those of
 * the archive for nothing. */
static int journal_clear(struct engine *g, struct err *e)
{
    if (g->journal == NULL)
        return 0;
    int rc = journal_roll(g->journal, e);
    if (rc != 0)
        return rc;
    flush_trim(g);
    if (g->archive != NULL && !table_set_any(g->here))
        archive_clear(g->archive);
    return 0;
}

static void finish(struct engine *g, int status, const char *text)
{
    struct clear *c = clear_of(g);
    engine_clear_done done = c->done;
    void *context = c->context;
    clear_free(g);
    done(context, status, text);
}

static void take_out(struct engine *g)
{
    struct clear *c = clear_of(g);
    struct err e = {0};
    const struct table_set tables = c->tables;
    uint64_t job = c->number;
    char text[TABLE_SET_TEXT];
    engine_clear_done done = c->done;
    void *context = c->context;
    SHOAL_ASSERT(g->sequence == c->sequence && g->committed == g->sequence); /* 3 */
    SHOAL_ASSERT(g->pending == 0 && !g->flush.busy && fetch_none(g));
    tables_free(g, c);
    runs_become(&g->runs, &c->after);
    flush_clear(g, tables);
    engine_refresh_marks(g);
    clear_free(g);
    SHOAL_ASSERT(engine_back(g));
    refs_forget(g, tables);
    cuts_drop(g, tables);
    if (journal_clear(g, &e) != 0)
        (void)engine_fail(g, &e);
    space_back(g);
    space_reclaim_begin(g);
    space_look(g);
    table_set_text(tables, text);
    log_info("%s: the tables %s that were here before job %" PRIu64 " are gone",
             g->dir == NULL ? "memory" : g->dir, text, job);
    done(context, e.code, e.text);
    if (g->options.on_fetched != NULL)
        g->options.on_fetched(g->options.context);
}

/* ---- the I/O thread's part ---- */

static int decide(struct clear_work *w)
{
    struct store_item item[2] = {{.value = w->control, .value_bytes = w->control_bytes}};
    char value[STORED_LOAD_BYTES];
    stored_control_key(&item[0]);
    stored_load_write(&w->marker, value, &item[1]);
    int rc = flush_sync(w->g, &w->sync, &w->err);
    if (rc == 0)
        rc = store_write(w->g->store, item, 2, &w->err);
    if (rc == 0)
        rc = store_flush(w->g->store, &w->err);
    return rc;
}

/* Gives back the disk. Where no table stays hardly anything is left to rewrite. */
static int tidy(struct clear_work *w)
{
    struct store *s = w->g->store;
    int rc = 0;
    if (!w->stays)
        return flush_rewrite(s, &w->err);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        if (table_set_has(&w->marker.tables, i))
            rc = flush_tidy_table(s, i, &w->err);
    return rc;
}

static void clear_run(struct offload *work)
{
    struct clear_work *w = container_of(work, struct clear_work, work);
    w->status = decide(w);
    if (w->status == 0)
        w->status = recover_clear_load(w->g->store, w->marker.tables, &w->err);
    if (w->status == 0)
        w->status = tidy(w);
}

static void clear_done(struct offload *work)
{
    struct clear_work *w = container_of(work, struct clear_work, work);
    struct engine *g = w->g;
    struct err ignored;
    g->flush.busy = false;
    free(w->control);
    journal_sync_end(g->journal, &w->sync, &ignored);
    if (work->cancelled)
        return;
    if (w->status != 0) { /* the next start finds out whether the batch is durable */
        engine_fail(g, &w->err);
        finish(g, w->status, w->err.text);
        return;
    }
    take_out(g);
    engine_flush_step(g);
}

/* Prepares the control state as it is without the tables. */
static int control_prepare(const struct engine *g, struct clear_work *w)
{
    const struct clear *c = clear_of(g);
    struct table *stay[LIMIT_TABLES];
    const struct stored_as_of as_of = {c->sequence, flush_written_floor(g, c->tables, c->sequence),
                                       g->terms};
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        stay[i] = NULL;
        if (!table_set_has(&c->tables, i))
            stay[i] = g->table[i].table;
        w->stays |= stay[i] != NULL;
    }
    return stored_control_write(stay, &c->after, as_of, &w->control, &w->control_bytes);
}

static int work_begin(struct engine *g, struct err *e)
{
    const struct clear *c = clear_of(g);
    struct clear_work *w = calloc(1, sizeof *w);
    if (w == NULL || control_prepare(g, w) != 0) {
        free(w);
        clear_free(g);
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop what is here");
    }
    w->g = g;
    w->marker = (struct stored_load){.run = c->number, .tables = c->tables, .under_way = true};
    journal_sync_peek(g->journal, &w->sync);
    g->flush.busy = true; /* the store has one user at a time */
    engine_work(g, &w->work, clear_run, clear_done);
    return 0;
}

/* ---- beginning ---- */

/* Refuses tables of a run that pushes to others, too: one of a release that knew one space. */
static int check_runs(const struct engine *g, struct table_set tables, struct err *e)
{
    for (uint32_t i = 0; i < g->runs.count; i++) {
        const struct run *run = g->runs.run[i];
        if (table_set_meet(run->tables, tables) && !run_goes(run->tables, tables, g->here))
            return err_set(e, SHOAL_E_BUSY,
                           "run %" PRIu64 " is open, and pushes to other tables too; ask again",
                           run->id);
    }
    return 0;
}

static int check_quiet(struct engine *g, uint64_t job, struct table_set tables, struct err *e)
{
    uint64_t newest = runs_newest(&g->runs, tables);
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (job <= newest)
        return err_set(e, SHOAL_E_CONFIG,
                       "run %" PRIu64 " was opened here before what there was had gone for job "
                       "%" PRIu64 ": the coordinator's data_dir is older than it was; submit the "
                       "job again",
                       newest, job);
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL)
            return err_set(e, SHOAL_E_AGAIN, "a cut, a load or an erasing is under way; ask again");
    if (g->pending > 0 || g->holding || g->cut_busy || g->exporting != 0 || g->blame != NULL ||
        g->gives > 0)
        return err_set(e, SHOAL_E_AGAIN, "pushes, a cut or a search are under way; ask again");
    int rc = check_runs(g, tables, e);
    if (rc != 0 || g->store == NULL)
        return rc;
    if (!fetch_none(g)) {
        fetch_rest(g);
        return err_set(e, SHOAL_E_AGAIN, "rows are read from the store; ask again");
    }
    return flush_settle(g, e);
}

int engine_clear(struct engine *g, uint64_t job, struct table_set tables, engine_clear_done done,
                 void *context, struct err *e)
{
    if (job == 0 || !table_set_any(tables))
        return err_set(e, SHOAL_E_MALFORMED, "job 0 is none, or no table is to go");
    const struct table_set left = runs_uncleared(&g->runs, tables, job);
    if (!table_set_any(left)) { /* 2 */
        done(context, 0, "");
        return 0;
    }
    int rc = check_quiet(g, job, left, e);
    if (rc == 0 && g->tail != NULL)
        rc = engine_base_mark(g, e);
    if (rc != 0)
        return rc;
    struct clear *c = calloc(1, sizeof *c);
    if (c == NULL || arena_new(&c->arena) != 0 ||
        runs_without(&g->runs, left, g->here, job, g->sequence, &c->after) != 0) {
        if (c != NULL)
            arena_free(c->arena);
        free(c);
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop what is here");
    }
    cuts_drop(g, left); /* 4 */
    c->number = job;
    c->tables = left;
    c->sequence = g->sequence;
    c->done = done;
    c->context = context;
    engine_job_begin(g, JOB_CLEAR, &c->job, &clear_job);
    if (g->store != NULL)
        return work_begin(g, e);
    take_out(g);
    return 0;
}
