/* load.c: fills tables from a checkpoint. load_build.c has the I/O thread's part.
 *
 *     engine_load -> BUILDING   an I/O thread: verify, read, translate     load_build_run
 *                 -> READY      waits for quiet                            load_step
 *                 -> WRITING    an I/O thread, a batch at a time           load_write_run
 *                 -> SEALING    an I/O thread                              load_write_run
 *                 -> taken in, done                                        take_in
 *
 *     not all rows fit into memory: BUILDING -> READY -> WRITING -> BUILDING -> WRITING -> ..
 *     without a store:              READY -> taken in, done
 *
 * 1. Until the tables are taken in, none of their contents is visible: they are built beside the
 *    engine's own, in an arena of their own, and exchanged in one step on the loop.
 *    [assert: take_in]
 * 2. Only tables that no record ever changed are filled, and from WRITING on nothing else may
 *    change them. Every stored tablet of theirs is therefore the load's. [assert: take_in]
 *    [test: while_a_load_writes_others_go_on_and_its_tables_are_closed]
 * 3. Before the first image a marker goes to the store: "a load into these tables is under way".
 *    Batches of the store become durable in order (store_rocks.c, 1), so if an image of the load is
 *    on disk, its marker is there too. Recovery that finds the marker removes the images, then the
 *    marker: the load did not happen. [assert: write_image] [test: a_load_has_happened_or_has_not]
 * 4. The last batch writes two values: the control state with the new run open, and the marker
 *    "done". Once it is durable the load has happened: recovery finds images, marks and run. The
 *    journal is synced before each flush of the store, as always. The load needs no record: the
 *    run's records have sequences above the control state's, and no record at or below the images'
 *    sequence concerns these tables. unload.c takes back a load whose run never trained.
 *    [assert: prepare_seal] [test: a_load_has_happened_or_has_not]
 * 5. The reply follows that. The marker has the run's number, so a repeated load, also after a
 *    restart, is answered from the existing tables; a load for a run that was opened in another way
 *    is refused. [test: a_load_goes_into_empty_tables_only_and_answers_again] The marker's key has
 *    the lowest table, so that a load or a clear of another job's tables leaves it.
 *    [test: a_load_is_known_after_a_clear_of_others] */
#include "embedding/checkpoint/load.h"

#include "embedding/engine/cut.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/share.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/follow.h"
#include "embedding/rows/arena_inner.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t load_bytes(const struct engine *g)
{
    return load_of(g)->held;
}

static void load_step(struct engine *g);
static void load_close(struct engine *g);
static const struct engine_job_ops load_job = {load_step, NULL, load_bytes, load_close};

static void release(struct load *l)
{
    checkpoint_close(l->checkpoint);
    spill_free(&l->spill);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        table_free(l->made[i]);
        free(l->led[i]);
    }
    arena_free(l->arena);
    runs_free(&l->runs);
    free(l->schema);
    free(l->notes);
    free(l->control);
    free(l);
}

/* The engine no longer refers to it. */
static void let_go(struct engine *g)
{
    SHOAL_ASSERT(load_of(g) != NULL);
    engine_job_end(g, JOB_LOAD);
    g->opening = 0;
}

static void load_close(struct engine *g)
{
    struct load *l = load_of(g);
    let_go(g);
    release(l);
}

static uint64_t rows_of(const struct engine *g, struct table_set tables)
{
    uint64_t rows = 0;
    TABLE_SET_EACH (t, &tables)
        if (g->table[t].table != NULL)
            rows += table_rows(g->table[t].table);
    return rows;
}

static void finish(struct engine *g, int status, const char *text)
{
    struct load *l = load_of(g);
    const struct run *run = runs_find(&g->runs, l->run);
    let_go(g);
    /* a load that succeeds was taken in */
    SHOAL_ASSERT(status != 0 || (load_done_for(g, l->run) != NULL && l->arena == NULL));
    g->loading = TABLE_SET_NONE;
    if (status != 0)
        log_warn("checkpoint %s was not loaded as run %" PRIu64 ": %s", l->path, l->run, text);
    l->done(l->context, status, text, status == 0 && run != NULL ? rows_of(g, run->tables) : 0);
    release(l);
}

/* ---- checking that tables are untouched ---- */

static bool untouched(const struct engine *g, uint32_t table)
{
    const struct engine_table *t = &g->table[table];
    if (table_rows(t->table) > 0)
        return false;
    for (uint32_t k = 0; k < t->scope.tablets; k++)
        if (t->changed[k] != 0)
            return false;
    for (uint32_t i = 0; i < g->runs.count; i++)
        for (uint32_t lane = 0; lane < g->runs.run[i]->lanes; lane++)
            for (uint32_t k = 0; k < t->scope.tablets; k++)
                if (marks_get(g->runs.run[i]->marks, lane, table, k) != 0)
                    return false;
    return true;
}

/* Repeats the checks that held when the load began. */
static int check_again(const struct engine *g, const struct load *l, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        if (l->made[i] == NULL)
            continue;
        const struct engine_table *t = &g->table[i];
        if (!untouched(g, i))
            return err_set(
                e, SHOAL_E_EXISTS,
                "table %s was changed while its rows were read: nobody may train into tables that "
                "a "
                "checkpoint is loaded into; stop that job, then restore again into fresh data_dirs",
                table_schema_of(t->table)->name);
        if (memcmp(l->led[i], t->scope.led, t->scope.tablets) != 0)
            return err_set(e, SHOAL_E_AGAIN,
                           "the map changed while the checkpoint was read; load it again");
    }
    if (runs_find(&g->runs, l->run) != NULL)
        return err_set(e, SHOAL_E_EXISTS,
                       "run %" PRIu64 " was opened while the checkpoint was read", l->run);
    if (runs_open(&g->runs) >= LIMIT_RUNS)
        return err_set(e, SHOAL_E_BUSY, "%u runs are open; drop one first", LIMIT_RUNS);
    int rc = 0;
    if (l->runs.count != 0)
        rc = tier_check_marks(g, l->run, l->runs.run[0]->lanes, l->runs.run[0]->tables, e);
    if (rc != 0)
        return rc;
    uint64_t bytes = l->need;
    if (load_all_built(l))
        bytes = l->bytes;

    if (g->store == NULL)
        return 0;

    return space_check_for(g, bytes, "what is loaded", e);
}

/* ---- taking in ---- */

static int take_run(struct engine *g, struct load *l)
{
    SHOAL_ASSERT(l->runs.count == 1 && l->runs.run[0]->id == l->run);
    const struct run *from = l->runs.run[0];
    struct run *run;
    if (runs_add(&g->runs, from->id, from->tables, from->lanes, from->mode, &run) != 0)
        return SHOAL_E_NOMEM;
    struct marks *empty = run->marks;
    run->marks = from->marks;
    l->runs.run[0]->marks = empty;
    return 0;
}

static void take_in(struct engine *g)
{
    struct load *l = load_of(g);
    SHOAL_ASSERT(l->arena != g->arena && load_all_built(l)); /* 1 */
    if (take_run(g, l) != 0) {
        struct err e;
        err_set(&e, SHOAL_E_NOMEM, "no memory to open run %" PRIu64 "; the shard restarts", l->run);
        finish(g, SHOAL_E_NOMEM, e.text);
        if (g->store != NULL) /* it is on disk but not here: only a restart makes both agree */
            engine_fail(g, &e);
        return;
    }
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = &g->table[i];
        if (l->made[i] == NULL)
            continue;
        SHOAL_ASSERT(table_rows(t->table) == 0 && t->table != l->made[i]); /* 1, 2 */
        table_free(t->table);
        t->table = l->made[i];
        l->made[i] = NULL;
        for (uint32_t k = 0; g->store != NULL && k < t->scope.tablets; k++)
            if (l->led[i][k])
                t->changed[k] = t->written[k] = t->durable[k] = l->sequence;
    }
    SHOAL_ASSERT(l->sequence <= g->sequence);
    SHOAL_ASSERT(g->loads < LIMIT_TABLES); /* engine_load */
    g->loaded[g->loads++] = (struct engine_loaded){
        .run = l->run, .tables = table_set_or(l->filled, l->added), .arena = l->arena};
    l->arena = NULL;
    if (g->store == NULL)
        g->committed = g->control_changed = ++g->sequence;
    engine_refresh_marks(g);
    log_info("checkpoint %s is loaded as run %" PRIu64 ": %" PRIu64 " rows in %.2f s", l->path,
             l->run, l->rows, (double)(env_now_ns(g->env) - l->began_ns) * 1e-9);
    finish(g, 0, l->notes);
}

/* ---- writing ---- */

static void write_done(struct offload *work)
{
    struct load_write *w = container_of(work, struct load_write, work);
    struct engine *g = w->g;
    struct err ignored;
    g->flush.busy = false;
    journal_sync_end(g->journal, &w->sync, &ignored);
    if (work->cancelled)
        return;
    if (w->status != 0) { /* the next start removes what is on disk */
        engine_fail(g, &w->err);
        finish(g, w->status, w->err.text);
        return;
    }
    SHOAL_ASSERT(load_of(g)->stage == (w->seal ? LOAD_SEALING : LOAD_WRITING));
    if (w->seal) {
        g->control_durable = load_of(g)->control_sequence;
        take_in(g);
        flush_trim(g);
    } else {
        load_of(g)->held = arena_used(load_of(g)->arena);
    }
    engine_flush_step(g); /* images of other tables have their turn before the load continues */
}

static void write_start(struct engine *g, bool seal)
{
    struct load *l = load_of(g);
    SHOAL_ASSERT(g->store != NULL && !g->flush.busy && l->stage != LOAD_BUILDING);
    struct load_write *w = calloc(1, sizeof *w);
    if (w == NULL)
        return; /* the next step tries again */
    w->g = g;
    w->seal = seal;
    w->marked = !l->marked;
    l->marked = true;
    g->loading = table_set_or(l->filled, l->added);
    l->stage = seal ? LOAD_SEALING : LOAD_WRITING;
    journal_sync_peek(g->journal, &w->sync);
    g->flush.busy = true;
    engine_work(g, &w->work, load_write_run, write_done);
}

/* Prepares the control state with the load's run. */
static int prepare_seal(struct engine *g)
{
    struct load *l = load_of(g);
    struct table *list[LIMIT_TABLES];
    struct run *run[LIMIT_RUNS * 2 + 1];
    SHOAL_ASSERT(load_all_built(l) && l->table == LIMIT_TABLES); /* 4 */
    struct runs all = {.run = run, .past = g->runs.past, .past_count = g->runs.past_count};
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = g->table[i].table;
    for (uint32_t i = 0; i < g->runs.count; i++)
        if (!g->runs.run[i]->ghost && all.count < LIMIT_RUNS * 2)
            run[all.count++] = g->runs.run[i];
    run[all.count++] = l->runs.run[0];
    all.newest = g->runs.newest;
    if (l->run > g->runs.newest)
        all.newest = l->run;
    memcpy(all.of, g->runs.of, sizeof all.of);
    TABLE_SET_EACH (t, &l->runs.run[0]->tables)
        all.of[t].newest = l->run;
    all.barrier = g->runs.barrier;
    l->control_sequence = g->sequence;
    return stored_control_write(list, &all, (struct stored_as_of){g->sequence, 0, g->terms},
                                &l->control, &l->control_bytes);
}

static void build_done(struct offload *w);

/* Starts to build the next group, or all. False: no memory, the next step retries. */
static bool build_start(struct engine *g)
{
    struct load *l = load_of(g);
    SHOAL_ASSERT(l->done_to <= l->group_to);
    struct load_build *b = calloc(1, sizeof *b);
    if (b == NULL)
        return false;
    if (l->arena != NULL)
        l->held = arena_used(l->arena) + l->room / 4;
    l->stage = LOAD_BUILDING;
    b->g = g;
    b->load = l;
    engine_work(g, &b->work, load_build_run, build_done);
    return true;
}

/* True when built images wait to be written. */
static bool images_wait(const struct load *l)
{
    return l->table < LIMIT_TABLES &&
           (load_all_built(l) || l->tablet < load_tablets_below(l, l->table, l->group_to));
}

/* Continues when nothing is in the way: unapplied pushes, a batch of images, a cut. */
static void load_step(struct engine *g)
{
    struct load *l = load_of(g);
    if (l->called_off || l->stage == LOAD_BUILDING || l->stage == LOAD_SEALING || g->broken ||
        g->pending > 0 || g->holding || g->cut_busy || g->flush.busy)
        return;
    struct err e = {0};
    if (l->stage == LOAD_READY) {
        SHOAL_ASSERT(!l->marked && l->done_to == 0 && l->group_to > 0);
        int rc = check_again(g, l, &e);
        if (rc == 0 && g->tail != NULL)
            rc = engine_base_mark(g, &e);
        if (rc != 0) {
            finish(g, rc, e.text);
            return;
        }
        l->sequence = g->sequence;
        if (g->store == NULL) {
            take_in(g);
            return;
        }
        write_start(g, false);
    } else if (images_wait(l)) {
        write_start(g, false);
    } else if (!load_all_built(l)) {
        build_start(g);
    } else if (prepare_seal(g) == 0) {
        write_start(g, true);
    }
}

bool load_call_off(struct engine *g, uint64_t run, struct table_set of, struct table_set *tables)
{
    struct load *l = load_of(g);
    if (l == NULL || l->run > run || (table_set_any(l->asked) && !table_set_meet(l->asked, of)))
        return true;
    l->called_off = true;
    if (l->stage == LOAD_BUILDING || g->flush.busy) /* a batch may be on its way to the store */
        return false;
    *tables = TABLE_SET_NONE;
    if (l->marked)
        *tables = table_set_or(l->filled, l->added);

    finish(g, SHOAL_E_STOPPED, "it was called off");
    return true;
}

/* ---- beginning ---- */

/* Chooses the load's memory: what is free, but at least a quarter of all, or of the share of its
 * space; rows of other tables leave for it. */
static void take_room(struct engine *g, struct load *l)
{
    uint64_t most = g->tier.rows_max, used = tier_used(g), least = most / 4;
    if (most == 0 || g->store == NULL)
        return;
    if (share_several(g) && table_set_any(l->asked)) {
        const struct tier_group *own = share_of(g, table_set_lowest(l->asked));
        const uint64_t share = share_limit(g, own, 16) / 4;
        least = MAX(share, most / 64);
    }
    if (most / 16 * 13 > used + least)
        l->room = most / 16 * 13 - used;
    else
        l->room = least;
    SHOAL_ASSERT(l->room <= most);
    l->held = l->room; /* until the need is known */
    spill_init(&l->spill, g->store, g->options.memory);
}

static void step(struct engine *g, unsigned kind)
{
    if (g->job[kind] != NULL)
        g->job[kind]->ops->step(g);
}

static void build_done(struct offload *w)
{
    struct load_build *b = container_of(w, struct load_build, work);
    struct engine *g = b->g;
    if (w->cancelled)
        return;
    struct load *l = b->load;
    SHOAL_ASSERT(l == load_of(g) && l->stage == LOAD_BUILDING);
    bool written = l->marked;
    if (l->arena != NULL)
        l->held = arena_used(l->arena);
    if (b->status == 0)
        l->stage = written ? LOAD_WRITING : LOAD_READY;
    else
        finish(g, b->status, b->err.text);
    if (b->status != 0 && written) /* the next start removes what is on disk */
        engine_fail(g, &b->err);
    step(g, JOB_UNLOAD); /* it may be of this load */
    step(g, JOB_LOAD);
    step(g, JOB_UNLOAD); /* one of another job has waited for it */
}

/* Copies what the I/O thread needs to know about the engine, which it must not read. */
static int snapshot(const struct engine *g, struct load *l)
{
    l->schema = calloc(LIMIT_TABLES, sizeof *l->schema);
    if (l->schema == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = &g->table[i];
        if (t->table == NULL)
            continue;
        l->schema[i] = *table_schema_of(t->table);
        table_set_add(&l->existing, i);
        if (untouched(g, i))
            table_set_add(&l->untouched, i);
        if ((l->led[i] = malloc(t->scope.tablets)) == NULL)
            return SHOAL_E_NOMEM;
        memcpy(l->led[i], t->scope.led, t->scope.tablets);
    }
    return 0;
}

static int check_begin(const struct engine *g, const struct engine_load_options *o, struct err *e)
{
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (o->lanes > LIMIT_LANES || !run_mode_known(o->mode))
        return err_set(e, SHOAL_E_MALFORMED, "a run of %u lanes in mode %u", o->lanes, o->mode);
    if (o->run == 0 || o->path[0] != '/' || strlen(o->path) + 64 > LIMIT_PATH)
        return err_set(e, SHOAL_E_MALFORMED,
                       "run %" PRIu64 " from \"%.200s\": a run and a path from the root are needed",
                       o->run, o->path);
    int rc = part_path_check(g->options.checkpoint_root, o->path, e);
    if (rc != 0)
        return rc;
    const struct load *other = load_of(g);
    if (other != NULL)
        return err_set(e, SHOAL_E_BUSY,
                       "checkpoint %s is being loaded as run %" PRIu64 "; ask again", other->path,
                       other->run);
    if (g->job[JOB_UNLOAD] != NULL)
        return err_set(e, SHOAL_E_BUSY, "a former load is being taken back; ask again");
    if (g->led_count == 0)
        return err_set(e, SHOAL_E_AGAIN, "this shard has no map yet; ask again");
    return 0;
}

int engine_load(struct engine *g, const struct engine_load_options *o, engine_load_done done,
                void *context, struct err *e)
{
    struct engine_fields without;
    const struct table_set tables = table_set_or_all(o->tables);
    int rc = check_begin(g, o, e);
    if (rc == 0)
        rc = engine_fields_take(g, o->without, tables, &without, e);
    if (rc != 0)
        return rc;
    const struct run *run = runs_find(&g->runs, o->run);
    if (run != NULL) {
        if (load_done_for(g, o->run) == NULL)
            return err_set(e, SHOAL_E_EXISTS,
                           "run %" PRIu64 " is open here and no checkpoint was loaded for it",
                           o->run);
        done(context, 0, "", rows_of(g, run->tables));
        return 0;
    }
    if (g->loads == LIMIT_TABLES) /* loads without rows do not change their tables */
        return err_set(e, SHOAL_E_EXISTS,
                       "%u checkpoints have been loaded here already; restart this server first",
                       LIMIT_TABLES);
    struct load *l = calloc(1, sizeof *l);
    if (l == NULL || snapshot(g, l) != 0) {
        if (l != NULL)
            release(l);
        return err_set(e, SHOAL_E_NOMEM, "no memory to load %s", o->path);
    }
    text_copy(l->path, sizeof l->path, o->path);
    if (g->options.checkpoint_signers != NULL)
        text_copy(l->signers, sizeof l->signers, g->options.checkpoint_signers);
    l->run = o->run;
    l->began_ns = env_now_ns(g->env);
    l->without = without;
    l->lanes = o->lanes;
    l->mode = o->mode;
    l->asked = l->job.tables = o->tables;
    l->done = done;
    l->context = context;
    take_room(g, l);
    engine_job_begin(g, JOB_LOAD, &l->job, &load_job);
    g->opening = l->run;
    if (build_start(g))
        return 0;
    load_close(g);
    return err_set(e, SHOAL_E_NOMEM, "no memory to load %s", o->path);
}
