/* load.c: tables filled from a checkpoint. What becomes of the rows on the way is in load_build.c.
 *
 *     engine_load -> BUILDING (an I/O thread: verify, read, translate) -> READY (waits for quiet) -> WRITING (an I/O thread,
 *     a batch at a time) -> SEALING (an I/O thread) -> taken in, done
 *                          without a store: READY -> taken in, done
 *
 *  1. Until the tables are taken in nothing of them can be seen: they are built beside the engine's own, in an arena of
 *     their own, and change places in one step on the loop.
 *  2. Only tables that no record ever touched are filled, and from WRITING on nobody else may touch them. So every stored
 *     tablet of theirs is the load's.
 *  3. Before the first image a marker goes to the store: "a load into these tables is under way". Batches of the store are
 *     durable in order (store_rocks.c, 1), so an image of the load on disk means that its marker is there too. Recovery that
 *     finds the marker takes the images out, then the marker: the load has never been.
 *  4. The last batch is one write of two values: the control state with the new run open, and the marker saying "done".
 *     Once it is durable the load has happened: recovery finds images, marks and run. The journal is synced before each
 *     flush of the store, as ever. No record is needed: records of the run come behind the control state's sequence, and
 *     none at or below the images' sequence is about these tables.
 *     What a load brought for a run that never trained can be taken back: unload.c.
 *  5. The answer comes after that. The marker keeps the run's number, so a load that comes again, also after a restart, is
 *     answered by what is there; one for a run that something else opened is refused.
 */
#include "embedding/load.h"

#include "embedding/cut.h"
#include "embedding/flush.h"
#include "embedding/load_inner.h"
#include "embedding/space.h"
#include "embedding/stored.h"
#include "embedding/unload.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool load_opens(const struct engine *g, uint64_t run)
{
    return g->load != NULL && g->load->run == run;
}

static void release(struct load *l)
{
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

void load_free(struct engine *g)
{
    if (g->load != NULL)
        release(g->load);
    g->load = NULL;
}

static uint64_t rows_of(const struct engine *g, uint64_t tables)
{
    uint64_t rows = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL && (tables >> i & 1))
            rows += table_rows(g->table[i].table);
    return rows;
}

static void finish(struct engine *g, int status, const char *text)
{
    struct load *l = g->load;
    const struct run *run = runs_find(&g->runs, l->run);
    g->load = NULL;
    g->loading = 0;
    if (status != 0)
        log_warn("checkpoint %s was not loaded as run %" PRIu64 ": %s", l->path, l->run, text);
    l->done(l->context, status, text, status == 0 && run != NULL ? rows_of(g, run->tables) : 0);
    release(l);
}

/* ---- is the table as it was made? ---- */

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

/* Whether what was true when the load began still is. */
static int check_again(const struct engine *g, const struct load *l, struct err *e)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        if (l->made[i] == NULL)
            continue;
        const struct engine_table *t = &g->table[i];
        if (!untouched(g, i))
            return err_set(e, SHOAL_E_EXISTS,
                           "table %s was changed while its rows were read: nobody may train into tables that a "
                           "checkpoint is loaded into; stop that job, then restore again into fresh data_dirs",
                           table_schema_of(t->table)->name);
        if (memcmp(l->led[i], t->scope.led, t->scope.tablets) != 0)
            return err_set(e, SHOAL_E_AGAIN, "the map changed while the checkpoint was read; load it again");
    }
    if (runs_find(&g->runs, l->run) != NULL)
        return err_set(e, SHOAL_E_EXISTS, "run %" PRIu64 " was opened while the checkpoint was read", l->run);
    if (runs_open(&g->runs) >= LIMIT_RUNS)
        return err_set(e, SHOAL_E_BUSY, "%u runs are open; drop one first", LIMIT_RUNS);
    return g->store == NULL ? 0 : space_check_for(g, l->bytes, "what is loaded", e);
}

/* ---- taken in ---- */

static int take_run(struct engine *g, struct load *l)
{
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
    struct load *l = g->load;
    if (take_run(g, l) != 0) {
        struct err e;
        err_set(&e, SHOAL_E_NOMEM, "no memory to open run %" PRIu64 "; the shard restarts", l->run);
        finish(g, SHOAL_E_NOMEM, e.text);
        if (g->store != NULL) /* it is on disk and not here: only a restart makes them agree */
            engine_fail(g, &e);
        return;
    }
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = &g->table[i];
        if (l->made[i] == NULL)
            continue;
        table_free(t->table);
        t->table = l->made[i];
        l->made[i] = NULL;
        for (uint32_t k = 0; g->store != NULL && k < t->scope.tablets; k++)
            if (l->led[i][k])
                t->changed[k] = t->written[k] = t->durable[k] = l->sequence;
    }
    g->loaded_arena[g->loaded_arenas++] = l->arena;
    l->arena = NULL;
    g->loaded_run = l->run;
    g->loaded_tables = l->filled | l->added;
    if (g->store == NULL)
        g->committed = g->control_changed = ++g->sequence;
    engine_refresh_marks(g);
    log_info("checkpoint %s is loaded as run %" PRIu64 ": %" PRIu64 " rows", l->path, l->run, l->rows);
    finish(g, 0, l->notes);
}

/* ---- writing ---- */

struct load_write {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    struct journal_sync sync;
    bool marked; /* the marker goes before the images */
    bool seal;
    int status;
    struct err err;
};

static void make_marker(const struct engine *g, bool under_way, struct store_item *item, struct stored_load *marker)
{
    *marker = (struct stored_load){.run = g->load->run, .tables = g->load->filled | g->load->added, .under_way = under_way};
    stored_load_seal(marker);
    stored_load_key(item);
    item->value = marker;
    item->value_bytes = sizeof *marker;
}

/* Images from where the cursor stands, about as many bytes as a journal segment has (64 MiB as a rule). */
static int write_images(struct engine *g, struct err *e)
{
    struct load *l = g->load;
    uint64_t bytes = 0;
    int rc = 0;
    for (; l->table < LIMIT_TABLES && rc == 0; l->table++, l->tablet = 0) {
        struct table *t = l->made[l->table];
        uint32_t tablets = t == NULL ? 0 : 1u << table_schema_of(t)->tablet_bits;
        for (; l->tablet < tablets && rc == 0; l->tablet++) {
            if (!l->led[l->table][l->tablet])
                continue;
            if (bytes >= g->segment_bytes)
                return 0;
            struct store_item item;
            size_t count = stored_tablet_bytes(t, &l->runs, l->tablet);
            void *value = malloc(count);
            if (value == NULL)
                return err_set(e, SHOAL_E_NOMEM, "no memory to write tablet %u of table %s", l->tablet,
                               table_schema_of(t)->name);
            stored_tablet_key(l->table, l->tablet, &item);
            stored_tablet_write(t, &l->runs, l->tablet, l->sequence, value);
            item.value = value;
            item.value_bytes = count;
            rc = store_write(g->store, &item, 1, e);
            free(value);
            bytes += count;
        }
    }
    return rc;
}

static int write_seal(struct engine *g, struct err *e)
{
    struct store_item item[2];
    struct stored_load marker;
    make_marker(g, false, &item[0], &marker);
    stored_control_key(&item[1]);
    item[1].value = g->load->control;
    item[1].value_bytes = g->load->control_bytes;
    return store_write(g->store, item, 2, e);
}

static void write_run(struct work *work)
{
    struct load_write *w = (struct load_write *)work;
    struct store_item item;
    struct stored_load marker;
    int rc = 0;
    if (w->marked) {
        make_marker(w->g, true, &item, &marker);
        rc = store_write(w->g->store, &item, 1, &w->err);
    }
    if (rc == 0)
        rc = w->seal ? write_seal(w->g, &w->err) : write_images(w->g, &w->err);
    if (rc == 0) {
        journal_sync_run(&w->sync);
        rc = w->sync.status != 0 ? err_set(&w->err, w->sync.status,
                                           "cannot sync the journal in %s: its disk is failing", w->g->dir)
             : w->seal           ? store_flush(w->g->store, &w->err)
                                 : store_flush_begin(w->g->store, &w->err); /* the next batch is made meanwhile */
    }
    w->status = rc;
}

static void write_done(struct work *work)
{
    struct load_write *w = (struct load_write *)work;
    struct engine *g = w->g;
    struct err ignored;
    g->flush.busy = false;
    journal_sync_end(g->journal, &w->sync, &ignored);
    if (work->cancelled)
        return;
    if (w->status != 0) { /* what is on disk is taken out at the next start */
        finish(g, w->status, w->err.text);
        engine_fail(g, &w->err);
        return;
    }
    if (w->seal) {
        g->control_durable = g->load->control_sequence;
        take_in(g);
        flush_trim(g);
    }
    cut_continue(g);
    engine_flush_step(g); /* others' images have their turn, then the load goes on */
}

static void write_start(struct engine *g, bool seal)
{
    struct load *l = g->load;
    struct load_write *w = calloc(1, sizeof *w);
    if (w == NULL)
        return; /* the next step tries again */
    w->g = g;
    w->seal = seal;
    w->marked = l->stage == LOAD_READY;
    l->stage = seal ? LOAD_SEALING : LOAD_WRITING;
    journal_sync_peek(g->journal, &w->sync);
    w->work.run = write_run;
    w->work.done = write_done;
    g->flush.busy = true;
    work_start(&g->works, g->env, &w->work);
}

/* The control state as it is, and the load's run. */
static int prepare_seal(struct engine *g)
{
    struct load *l = g->load;
    struct table *list[LIMIT_TABLES];
    struct run *run[LIMIT_RUNS * 2 + 1];
    struct runs all = {.run = run};
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = g->table[i].table;
    for (uint32_t i = 0; i < g->runs.count; i++)
        if (!g->runs.run[i]->ghost && all.count < LIMIT_RUNS * 2)
            run[all.count++] = g->runs.run[i];
    run[all.count++] = l->runs.run[0];
    l->control_sequence = g->sequence;
    return stored_control_write(list, &all, g->sequence, &l->control, &l->control_bytes);
}

void load_continue(struct engine *g)
{
    struct load *l = g->load;
    if (l == NULL || g->unload != NULL || l->stage == LOAD_BUILDING || l->stage == LOAD_SEALING || g->broken || g->pending > 0 || g->holding ||
        g->cut_busy || g->flush.busy)
        return;
    struct err e = {0};
    if (l->stage == LOAD_READY) {
        int rc = check_again(g, l, &e);
        if (rc != 0) {
            finish(g, rc, e.text);
            return;
        }
        l->sequence = g->sequence;
        if (g->store == NULL) {
            take_in(g);
            return;
        }
        g->loading = l->filled | l->added;
        write_start(g, false);
    } else if (l->table < LIMIT_TABLES) {
        write_start(g, false);
    } else if (prepare_seal(g) == 0) {
        write_start(g, true);
    }
}

bool load_call_off(struct engine *g, uint64_t run, uint64_t *tables)
{
    const struct load *l = g->load;
    if (l == NULL || l->run > run)
        return true;
    if (l->stage == LOAD_BUILDING || l->stage == LOAD_SEALING)
        return false;
    *tables = l->stage == LOAD_WRITING ? l->filled | l->added : 0;
    finish(g, SHOAL_E_STOPPED, "it was called off");
    return true;
}

/* ---- beginning ---- */

static void build_done(struct work *w)
{
    struct load_build *b = (struct load_build *)w;
    struct engine *g = b->g;
    if (w->cancelled)
        return;
    if (b->status != 0)
        finish(g, b->status, b->err.text);
    else
        g->load->stage = LOAD_READY;
    unload_continue(g);
    load_continue(g);
}

/* What the I/O thread has to know of the engine: it must not look at it. */
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
        l->existing |= 1ull << i;
        l->untouched |= (uint64_t)untouched(g, i) << i;
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
    if (o->run == 0 || o->path[0] != '/' || strlen(o->path) + 64 > LIMIT_PATH)
        return err_set(e, SHOAL_E_MALFORMED, "run %" PRIu64 " from \"%.200s\": a run and a path from the root are needed",
                       o->run, o->path);
    if (g->load != NULL)
        return err_set(e, SHOAL_E_BUSY, "checkpoint %s is being loaded as run %" PRIu64 "; ask again", g->load->path,
                       g->load->run);
    if (g->unload != NULL)
        return err_set(e, SHOAL_E_BUSY, "a former load is being taken back; ask again");
    if (g->led_count == 0)
        return err_set(e, SHOAL_E_AGAIN, "this shard has no map yet; ask again");
    return 0;
}

int engine_load(struct engine *g, const struct engine_load_options *o, engine_load_done done, void *context, struct err *e)
{
    int rc = check_begin(g, o, e);
    if (rc != 0)
        return rc;
    const struct run *run = runs_find(&g->runs, o->run);
    if (run != NULL) {
        if (g->loaded_run != o->run)
            return err_set(e, SHOAL_E_EXISTS, "run %" PRIu64 " is open here and no checkpoint was loaded for it", o->run);
        done(context, 0, "", rows_of(g, run->tables));
        return 0;
    }
    struct load *l = calloc(1, sizeof *l);
    struct load_build *b = calloc(1, sizeof *b);
    if (l == NULL || b == NULL || snapshot(g, l) != 0) {
        if (l != NULL)
            release(l);
        free(b);
        return err_set(e, SHOAL_E_NOMEM, "no memory to load %s", o->path);
    }
    snprintf(l->path, sizeof l->path, "%s", o->path);
    l->run = o->run;
    l->asked = o->tables;
    l->done = done;
    l->context = context;
    g->load = l;
    b->g = g;
    b->load = l;
    b->work.run = load_build_run;
    b->work.done = build_done;
    work_start(&g->works, g->env, &b->work);
    return 0;
}
