/* clear.c: drops everything in the engine, for a job that begins with nothing. engine.h has the
 * promise.
 *
 *     engine_clear -> cuts are dropped
 *       -> an I/O thread: the journal is synced; control state and marker written     clear_run
 *          -> images and rows are deleted, then the marker
 *       -> tables, runs and the journal's records are dropped                         take_out
 *       -> done
 *
 *     without a store: cuts, take_out, done.
 *
 *  1. One batch of the store decides. It has the control state without tables and runs, which says
 *     that no record up to now counts (runs.barrier), and the marker of a load into all tables
 *     (load.c, 3). Before the batch is durable nothing but the cuts has changed. From then on
 *     recovery deletes the images, as after an unfinished load, and skips the records (apply.h, 3).
 *     The clear therefore needs no record. [test: a_clear_has_happened_or_has_not]
 *  2. A clear happens once for a job, because the job's rows come after it: the control state keeps
 *     the job's number. [test: a_clear_comes_once]
 *  3. Between the batch and take_out nothing is journalled, read or written: the engine is not
 *     back. [assert: take_out]
 *  4. Cuts are dropped first, or marked if a restore among the records needs them (cut_keep.c): a
 *     start after a kill finds none of them. [test: a_clear_has_happened_or_has_not] */
#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/recover.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/follow.h"
#include "embedding/journal/archive.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdlib.h>

#define CUTS_MOST 256u

struct clear {
    struct engine_job job;
    uint64_t number; /* the job's number */
    uint64_t sequence;
    struct arena *arena; /* owned: for the job's rows */
    engine_clear_done done;
    void *context;
};

struct clear_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_sync sync;
    struct stored_load marker;
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
    free(c);
}

static const struct engine_job_ops clear_job = {NULL, NULL, NULL, clear_free};

/* ---- taken out, on the loop ---- */

static void tables_free(struct engine *g)
{
    g->tier.written = false;
    tier_stay(g); /* their tables have marks of rows that were to leave */
    engine_whole_free(g);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            table_free(engine_table_take(g, i));
    arena_free(g->arena);
    g->arena = clear_of(g)->arena;
    clear_of(g)->arena = NULL;
    while (g->loads > 0)
        arena_free(g->loaded[--g->loads].arena);
    tier_empty(g);
    fetch_forget(g);
}

static void runs_clear(struct runs *r, uint64_t job, uint64_t barrier)
{
    struct runs after = {.newest = r->newest, .cleared = job, .barrier = barrier};
    memcpy(after.newest_of, r->newest_of, sizeof after.newest_of);
    runs_free(r);
    *r = after;
}

static void flush_clear(struct engine *g)
{
    struct flush_state *f = &g->flush;
    f->items = f->bytes = f->stale_count = 0;
    f->credit = f->since_flush = 0;
    f->table = f->tablet = 0;
    f->rewriting = false;
    if (g->store != NULL)
        g->control_changed = g->control_written = g->control_durable = f->control_seq = g->sequence;
}

/* Drops all cuts. A cut that a record still names is deleted later. */
static void cuts_drop(struct engine *g)
{
    uint64_t cut[CUTS_MOST];
    uint32_t count = engine_cuts(g, cut, CUTS_MOST);
    for (uint32_t i = 0; i < count; i++)
        if (engine_cut_drop(g, cut[i]) != 0)
            log_warn("cut %" PRIu64 " cannot be removed; drop it again", cut[i]);
}

/* Drops the journal's records: blame would take them for records of later tables. */
static int journal_clear(struct engine *g, struct err *e)
{
    if (g->journal == NULL)
        return 0;
    int rc = journal_roll(g->journal, e);
    if (rc != 0)
        return rc;
    flush_trim(g);
    if (g->archive != NULL)
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
    uint64_t job = c->number;
    engine_clear_done done = c->done;
    void *context = c->context;
    SHOAL_ASSERT(g->sequence == c->sequence && g->committed == g->sequence); /* 3 */
    SHOAL_ASSERT(g->pending == 0 && !g->flush.busy && fetch_none(g));
    tables_free(g);
    runs_clear(&g->runs, job, g->sequence);
    flush_clear(g);
    clear_free(g);
    SHOAL_ASSERT(engine_back(g));
    g->ref_count = 0; /* no record counts */
    cuts_drop(g);
    if (journal_clear(g, &e) != 0)
        (void)engine_fail(g, &e);
    space_back(g);
    space_look(g);
    log_info("%s: all that was here before job %" PRIu64 " is gone",
             g->dir == NULL ? "memory" : g->dir, job);
    done(context, e.code, e.text);
    if (g->options.on_fetched != NULL)
        g->options.on_fetched(g->options.context);
}

/* ---- the I/O thread's part ---- */

static int decide(struct clear_work *w)
{
    struct store_item item[2] = {{.value = w->control, .value_bytes = w->control_bytes},
                                 {.value = &w->marker, .value_bytes = sizeof w->marker}};
    stored_control_key(&item[0]);
    stored_load_key(&item[1]);
    int rc = flush_sync(w->g, &w->sync, &w->err);
    if (rc == 0)
        rc = store_write(w->g->store, item, 2, &w->err);
    if (rc == 0)
        rc = store_flush(w->g->store, &w->err);
    return rc;
}

static void clear_run(struct offload *work)
{
    struct clear_work *w = container_of(work, struct clear_work, work);
    w->status = decide(w);
    if (w->status == 0)
        w->status = recover_clear_load(w->g->store, UINT64_MAX, &w->err);
    if (w->status == 0) /* hardly anything is left to rewrite */
        w->status = flush_rewrite(w->g->store, &w->err);
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

static int work_begin(struct engine *g, struct err *e)
{
    static struct table *const none[LIMIT_TABLES];
    const struct clear *c = clear_of(g);
    const struct runs after = {
        .newest = g->runs.newest, .cleared = c->number, .barrier = c->sequence};
    struct clear_work *w = calloc(1, sizeof *w);
    if (w == NULL || stored_control_write(none, &after,
                                          (struct stored_as_of){c->sequence, c->sequence, g->terms},
                                          &w->control, &w->control_bytes) != 0) {
        free(w);
        clear_free(g);
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop what is here");
    }
    w->g = g;
    w->marker = (struct stored_load){.run = c->number, .tables = UINT64_MAX, .under_way = 1};
    stored_load_seal(&w->marker);
    journal_sync_peek(g->journal, &w->sync);
    g->flush.busy = true; /* the store has one user at a time */
    engine_work(g, &w->work, clear_run, clear_done);
    return 0;
}

/* ---- beginning ---- */

static int check_quiet(struct engine *g, uint64_t job, struct err *e)
{
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (job <= g->runs.newest)
        return err_set(e, SHOAL_E_CONFIG,
                       "run %" PRIu64 " was opened here before what there was had gone for job "
                       "%" PRIu64 ": the coordinator's data_dir is older than it was; submit the "
                       "job again",
                       g->runs.newest, job);
    for (unsigned kind = 0; kind < JOB_KINDS; kind++)
        if (g->job[kind] != NULL)
            return err_set(e, SHOAL_E_AGAIN, "a cut, a load or an erasing is under way; ask again");
    if (g->pending > 0 || g->holding || g->cut_busy || g->exporting != 0 || g->blame != NULL ||
        !fetch_none(g))
        return err_set(e, SHOAL_E_AGAIN, "pushes, a cut or a search are under way; ask again");
    if (g->store == NULL)
        return 0;
    return flush_settle(g, e);
}

int engine_clear(struct engine *g, uint64_t job, engine_clear_done done, void *context,
                 struct err *e)
{
    if (job == 0)
        return err_set(e, SHOAL_E_MALFORMED, "job 0 is none");
    if (job <= g->runs.cleared) { /* 2 */
        done(context, 0, "");
        return 0;
    }
    int rc = check_quiet(g, job, e);
    if (rc == 0 && g->tail != NULL)
        rc = engine_base_mark(g, e);
    if (rc != 0)
        return rc;
    struct clear *c = calloc(1, sizeof *c);
    if (c == NULL || arena_new(&c->arena) != 0) {
        free(c);
        return err_set(e, SHOAL_E_NOMEM, "no memory to drop what is here");
    }
    cuts_drop(g); /* 4 */
    c->number = job;
    c->sequence = g->sequence;
    c->done = done;
    c->context = context;
    engine_job_begin(g, JOB_CLEAR, &c->job, &clear_job);
    if (g->store != NULL)
        return work_begin(g, e);
    take_out(g);
    return 0;
}
