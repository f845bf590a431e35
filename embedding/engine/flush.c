/* flush.c: pacing, copying, writing and trimming.
 *
 * 1. A tablet is copied only when no admitted push waits to be applied: marks move at admission,
 *    rows at apply, and an image needs both. [assert: flush_put_image]
 * 2. Images reach the disk after the journal: the journal is synced before the store is flushed, so
 *    a stored tablet is never ahead of it. [assert: write_batch]
 *    [test: what_is_stored_was_journalled_before, what_a_scrub_stores_was_journalled_before,
 *    what_a_replay_stores_was_journalled_before,
 *    what_leaves_in_a_replay_was_journalled_before]
 * 3. `durable` moves only when a flush of the store has returned; only `durable` trims the journal.
 *    [test: test_recover]
 * 4. The round visits all tablets in order and skips clean ones, so the oldest image is always
 *    among the next to be written. [assert: gather]
 * 5. Only the load writes a table that it fills: an image of the table here, which is empty, would
 *    replace the load's. [assert: gather] [test: a_load_outlasts_what_is_written_again]
 *
 * Pacing: each appended byte pays for (rows / cap) image bytes times a factor. The factor is 1.25
 * from a sixteenth of the cap on, so that a round takes four fifths of a cap, the journal settles
 * there and each row is written 1.25 times a cap; a first round, before whose end nothing can be
 * trimmed, ends at 0.87. Above 0.85 the factor grows to 7. At the cap pushes wait and appending
 * stops, so batches then follow each other without credit. */
#include "embedding/engine/flush.h"

#include "embedding/engine/cut.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <stdlib.h>

#define JOURNAL_MAX_LEAST (1ull << 30)
#define FLUSH_STORE_MAX (64u << 20)
/* with more dirty pages the kernel begins to stop the writer, which is the shard */
#define UNSYNCED_MAX (16u << 20)

struct flush_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    bool flush;
    struct journal_sync sync; /* when flush */
    int status;
    struct err err;
};

uint64_t flush_image_bytes(const struct engine *g)
{
    uint64_t bytes = 0;
    TABLE_SET_EACH (i, &g->here) {
        SHOAL_ASSERT(table_cold_rows(g->table[i].table) <= table_rows(g->table[i].table));
        bytes += (table_rows(g->table[i].table) - table_cold_rows(g->table[i].table)) *
                     table_row_bytes(g->table[i].table) +
                 g->table[i].scope.tablets * 256ull;
    }
    return bytes;
}

uint64_t flush_whole_bytes(const struct engine *g, uint32_t table)
{
    const struct engine_table *t = &g->table[table];
    struct table_counts counts;
    uint64_t heads = 0;
    table_counts_get(t->table, &counts);
    for (uint32_t k = 0; k < t->scope.tablets; k++)
        if (t->scope.led[k])
            heads += 256;
    return table_rows(t->table) * table_row_bytes(t->table) + heads + counts.beside_bytes;
}

/* Bytes of the pairs of rows in the store. */
static uint64_t cold_bytes_all(const struct engine *g)
{
    uint64_t bytes = 0;
    TABLE_SET_EACH (i, &g->here)
        bytes += table_cold_rows(g->table[i].table) * (table_cold_bytes(g->table[i].table) + 16);
    return bytes;
}

uint64_t flush_journal_max(const struct engine *g)
{
    if (g->options.journal_max > 0)
        return g->options.journal_max;
    uint64_t rows = flush_image_bytes(g), most = space_journal_max(&g->options);
    rows = MAX(rows, JOURNAL_MAX_LEAST);
    return MIN(rows, most);
}

uint64_t flush_floor(const struct engine *g)
{
    uint64_t floor = g->committed;
    if (g->journal == NULL)
        return floor;
    TABLE_SET_EACH (i, &g->here) {
        const struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; k < t->scope.tablets; k++)
            if (t->changed[k] > t->durable[k] && t->durable[k] < floor)
                floor = t->durable[k];
    }
    if (g->control_changed > g->control_durable && g->control_durable < floor)
        floor = g->control_durable;
    return floor;
}

uint32_t flush_dirty(const struct engine *g)
{
    uint32_t dirty = 0;
    if (g->journal == NULL)
        return 0;
    TABLE_SET_EACH (i, &g->here) {
        const struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; k < t->scope.tablets; k++)
            dirty += t->changed[k] > t->durable[k];
    }
    return dirty;
}

void flush_trim(struct engine *g)
{
    if (g->journal == NULL || g->holding || g->cut_busy)
        return;
    uint64_t floor = flush_floor(g);
    SHOAL_ASSERT(floor <= g->committed && g->segment_bytes > 0);
    uint32_t spare;
    if (g->job[JOB_SCRUB] != NULL || g->space.refusing == SPACE_BOUND)
        spare = 0;
    else
        spare = (uint32_t)(flush_journal_max(g) / g->segment_bytes) + 1;
    journal_trim(g->journal, follow_floor(g, floor), spare);
    runs_forget(&g->runs, floor);
    cut_refs_trim(g, floor);
}

/* ---- gathering a batch ---- */

static bool next_dirty(struct engine *g, uint32_t *table, uint32_t *tablet)
{
    struct flush_state *f = &g->flush;
    for (uint32_t left = table_set_count(g->here) + 1; left > 0; left--) {
        const struct engine_table *t = &g->table[f->table];
        for (; t->table != NULL && f->tablet < t->scope.tablets; f->tablet++)
            if (t->changed[f->tablet] > t->written[f->tablet]) {
                *table = f->table;
                *tablet = f->tablet;
                return true;
            }
        f->table = table_set_round(&g->here, f->table);
        f->tablet = 0;
    }
    return false;
}

/* Copies tablets that rows leave, if memory is short, then dirty tablets, about `limit` bytes of
 * them (at least one), and the control state. An empty batch is no failure. */
static int gather(struct engine *g, uint64_t limit, bool room)
{
    struct flush_state *f = &g->flush;
    uint32_t table, tablet;
    const uint64_t *gone;
    SHOAL_ASSERT(!f->busy && g->pending == 0);
    SHOAL_ASSERT(g->committed == g->sequence); /* 2: no image has what the journal lacks */
    f->items = f->bytes = f->stale_count = 0;
    if (!flush_room(g, 1, 0))
        return SHOAL_E_NOMEM;
    if (room)
        tier_gather(g, g->sequence, limit > 0 ? flush_batch_bytes(g) / 2 : flush_batch_bytes(g));
    while ((limit > 0 || !room) && next_dirty(g, &table, &tablet)) {
        size_t need = stored_tablet_bytes(g->table[table].table, &g->runs, tablet);
        size_t items = table_cold_gone(g->table[table].table, tablet, &gone) + 2;
        if (f->items > 0 && f->bytes + need > limit)
            break;
        if (!flush_room(g, items, need)) {
            if (f->items == 0)
                return SHOAL_E_NOMEM;
            break;
        }
        flush_put_gone(g, table, tablet);
        SHOAL_ASSERT(!table_set_has(&g->loading, table)); /* 5 */
        flush_put_image(g, table, tablet, g->sequence);
        SHOAL_ASSERT(g->table[table].changed[tablet] <= g->table[table].written[tablet]); /* 4 */
        f->tablet++;
    }
    if (f->items == 0 && g->control_changed <= g->control_durable && f->since_flush == 0)
        return 0;

    if (!flush_room(g, 1, 0))
        return SHOAL_E_NOMEM;

    return flush_put_control(g, g->sequence);
}

int flush_sync(const struct engine *g, struct journal_sync *sync, struct err *e)
{
    journal_sync_run(sync);

    if (sync->status == 0)
        return 0;

    return err_set(e, sync->status,
                   "cannot sync the journal in %s: its disk is failing; restart to recover",
                   g->dir);
}

static int write_batch(struct engine *g, bool flush, struct journal_sync *sync, struct err *e)
{
    /* 2; a replay has synced the journal before */
    SHOAL_ASSERT(!flush || sync != NULL || g->committed == 0);
    int rc = store_write(g->store, g->flush.item, g->flush.items, e);
    if (rc == 0)
        rc = flush_drop_stale(g, e);
    if (rc != 0 || !flush)
        return rc;
    if (sync != NULL)
        rc = flush_sync(g, sync, e);
    if (rc != 0)
        return rc;
    return store_flush(g->store, e);
}

void flush_touch_images(struct engine *g)
{
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = &g->table[i];
        for (uint32_t k = 0;
             t->table != NULL && !table_set_has(&g->loading, i) && k < t->scope.tablets; k++)
            if (t->changed[k] > 0)
                engine_touch(t, k, 1, NULL, g->committed);
    }
}

/* Images are overwritten in rounds, and dead ones leave the disk file by file. Tablets that never
 * change would keep files alive whose other images are all dead: when large values (small ones are
 * cold rows) take three times the rows in memory and some more, or the disk budget is nearly used
 * up, every tablet is written again. Not during a load: its images are no waste, but are not among
 * the rows in memory yet. */
static void rewrite_when_wasteful(struct engine *g)
{
    uint64_t most = 3 * (flush_image_bytes(g) + cold_bytes_all(g)) + 4ull * FLUSH_STORE_MAX;
    struct store_space store = store_space(g->store);
    bool wasteful =
        store.large > most || (space_pressed(g) && store.large > 2 * flush_image_bytes(g));
    if (g->flush.rewriting || g->opening != 0 || g->committed == 0 || !wasteful)
        return;
    g->flush.rewriting = true;
    flush_touch_images(g);
}

static void batch_done(struct engine *g, bool flushed)
{
    struct flush_state *f = &g->flush;
    SHOAL_ASSERT(!f->busy);
    free(f->control);
    f->control = NULL;
    for (uint32_t i = 0; i < f->stale_count; i++) {
        const struct stale *s = &f->stale[i];
        SHOAL_ASSERT(s->tablet < g->table[s->table].scope.tablets);
        /* a moved tablet has begun another epoch since */
        if (table_cold_epoch(g->table[s->table].table, s->tablet) == s->epoch)
            table_cold_fresh(g->table[s->table].table, s->tablet);
    }
    f->stale_count = 0;
    if (!flushed)
        return;
    f->since_flush = 0;
    if (f->control_seq > g->control_durable) /* otherwise a load's is newer */
        g->control_durable = f->control_seq;
    TABLE_SET_EACH (i, &g->here) {
        struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; k < t->scope.tablets; k++)
            if (t->written[k] > t->durable[k])
                t->durable[k] = t->written[k];
    }
    uint32_t table, tablet;
    if (g->flush.rewriting)
        g->flush.rewriting = next_dirty(g, &table, &tablet);
    rewrite_when_wasteful(g);
}

/* ---- the I/O thread's part ---- */

static void flush_run(struct offload *w)
{
    struct flush_work *f = container_of(w, struct flush_work, work);
    f->status = write_batch(f->g, f->flush, &f->sync, &f->err);
}

static void flush_done(struct offload *w)
{
    struct flush_work *f = container_of(w, struct flush_work, work);
    struct engine *g = f->g;
    struct err ignored;
    SHOAL_ASSERT(g->flush.busy && g->flush.under_way == w);
    g->flush.busy = false;
    g->flush.under_way = NULL;
    if (f->flush)
        /* closes its files; f->status has a failure */
        journal_sync_end(g->journal, &f->sync, &ignored);
    if (!w->cancelled)
        meter_time(&g->write_times, w->env.ran_ns);
    if (w->cancelled || f->status != 0) {
        free(g->flush.control);
        g->flush.control = NULL;
        tier_stay(g);
        /* the batch was cancelled: its tablets are dirty again */
        TABLE_SET_EACH (i, &g->here)
            for (uint32_t k = 0; k < g->table[i].scope.tablets; k++)
                g->table[i].written[k] = g->table[i].durable[k];
        if (!w->cancelled)
            engine_fail(g, &f->err);
        return;
    }
    batch_done(g, f->flush);
    if (g->flush.settling)
        return;
    bool left = g->tier.leaving_count > 0;
    if (f->flush)
        space_look(g);
    if (g->pending == 0)
        tier_leave(g);
    else
        g->tier.written = true; /* the rows leave once these are applied (tier.c, 1) */
    if (f->flush)
        flush_trim(g);
    engine_flush_step(g);
    if (left)
        fetch_continue(g);
}

/* A round takes several flushes of the store, so that the journal is trimmed in steps. */
static uint64_t flush_store_every(const struct engine *g)
{
    uint64_t every = flush_journal_max(g) / 16, part = flush_image_bytes(g) / 8,
             memory = tier_store_memory(g) / 2;
    if (every > FLUSH_STORE_MAX)
        every = FLUSH_STORE_MAX;
    every = MIN(every, part);

    if (memory > 0 && every > memory)
        return memory;

    return every;
}

/* The batch failed: its tablets count as written and its rows as chosen, which this undoes. */
static void gather_failed(struct engine *g)
{
    struct err e;
    tier_stay(g);
    err_set(&e, SHOAL_E_NOMEM, "%s: no memory to write rows; the shard restarts and recovers",
            g->dir);
    engine_fail(g, &e);
}

/* limit: bytes of dirty tablets, 0: none; room: rows shall leave. */
static void start_batch(struct engine *g, uint64_t limit, bool urgent, bool room)
{
    struct flush_state *f = &g->flush;
    uint64_t images = flush_image_bytes(g), batch = flush_batch_bytes(g);
    SHOAL_ASSERT(!g->holding && !g->cut_busy); /* cut.c, 2 */
    if (!space_batch(g, MIN(images, batch)))
        return;
    struct flush_work *w = calloc(1, sizeof *w);
    if (w == NULL || gather(g, limit, room) != 0) {
        if (w != NULL && f->items > 0)
            gather_failed(g);
        else
            /* the journal keeps the records until then */
            log_warn("no memory to write rows; trying again");
        free(w);
        return;
    }
    if (f->items == 0) { /* rows left that the store had already, or none could leave */
        free(w);
        if (room && tier_wants_room(g))
            env_timer_start(g->env, &g->tier.timer, 0);
        if (room)
            fetch_continue(g);
        return;
    }
    f->since_flush += f->bytes;
    f->image_bytes += f->bytes;
    f->credit -= MIN(f->bytes, f->credit);
    uint32_t table, tablet;
    w->g = g;
    w->flush =
        f->since_flush >= flush_store_every(g) || (urgent && !next_dirty(g, &table, &tablet));
    if (w->flush)
        journal_sync_peek(g->journal, &w->sync);
    f->busy = true;
    f->under_way = &w->work;
    engine_work(g, &w->work, flush_run, flush_done);
}

int flush_settle(struct engine *g, struct err *e)
{
    struct flush_state *f = &g->flush;
    if (f->busy && f->under_way == NULL)
        return err_set(e, SHOAL_E_BUSY, "the row store is being rewritten; ask again");
    if (!f->busy)
        return 0;
    SHOAL_ASSERT(!f->settling);
    f->settling = true;
    offload_settle(f->under_way);
    f->settling = false;
    SHOAL_ASSERT(!f->busy);
    g->tier.tell = true; /* the batch has made room */
    env_timer_start(g->env, &g->tier.timer, 0);

    if (!g->broken)
        return 0;

    return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
}

/* ---- upkeep of the journal ---- */

struct spare_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_spare spare;
};

static void spare_run(struct offload *w)
{
    journal_spare_run(&container_of(w, struct spare_work, work)->spare);
}

static void spare_done(struct offload *w)
{
    struct spare_work *s = container_of(w, struct spare_work, work);
    if (w->cancelled)
        s->spare.status = SHOAL_E_STOPPED;
    journal_spare_end(s->g->journal, &s->spare);
}

static void upkeep(struct engine *g)
{
    bool late =
        journal_unsynced_bytes(g->journal) >= UNSYNCED_MAX || journal_sealed_unsynced(g->journal);
    if (g->options.durability == DURABLE_JOURNAL && late)
        engine_sync_start(g);
    /* The pool grows by single segments until recycling feeds it; a shard that writes little makes
     * none. */
    uint64_t cap = flush_journal_max(g);
    if (g->space.refusing != SPACE_ENOUGH || journal_written(g->journal) < g->segment_bytes / 4 ||
        journal_segment_count(g->journal) * (uint64_t)g->segment_bytes > cap)
        return;
    struct spare_work *s = calloc(1, sizeof *s);
    if (s == NULL || !journal_spare_begin(g->journal, &s->spare)) {
        free(s);
        return;
    }
    s->g = g;
    engine_work(g, &s->work, spare_run, spare_done);
}

static void flush_step(struct engine *g)
{
    if (g->journal == NULL || g->broken)
        return;
    if (g->tier.written && g->pending == 0) {
        g->tier.written = false;
        tier_leave(g);
        fetch_continue(g);
    }
    upkeep(g);
    struct flush_state *f = &g->flush;
    uint64_t written = journal_written(g->journal), appended = written - f->seen_written;
    uint64_t cap = flush_journal_max(g), used = journal_bytes(g->journal);
    SHOAL_ASSERT(f->seen_written <= written);
    f->seen_written = written;
    bool scrubbing = engine_jobs_urgent(g) || space_reclaiming(g);
    bool room = tier_wants_room(g), idle = used <= cap / 16 && g->ref_count == 0 && !scrubbing;
    if (idle)
        f->credit = 0;
    if (idle && !room)
        return;
    uint64_t all = flush_image_bytes(g);
    double fill = (double)used / (double)cap, factor = 1.25;
    if (fill > 0.85)
        factor += 38.0 * (fill - 0.85);
    f->credit += (uint64_t)((double)appended * (double)all / (double)cap * factor);
    f->credit = MIN(f->credit, all);
    /* a restore needs its cut until all rows are written */
    bool urgent = used > cap - cap / 16 || g->ref_count > 0 || scrubbing;
    uint64_t batch = flush_batch_bytes(g), least = MIN(cap / 64, batch / 2);
    bool due = !idle && (urgent || f->credit >= least);
    if (f->busy || g->cut_busy || g->holding || g->pending > 0 || g->tier.written ||
        (!due && !room))
        return;
    uint32_t table, tablet;
    if (!room && !next_dirty(g, &table, &tablet) && f->since_flush == 0 &&
        g->control_changed <= g->control_durable) {
        /* after a kill between a flush and its trim, a shard has a full journal whose records are
         * all stored */
        flush_trim(g);
        space_reclaim(g);
        return;
    }
    uint64_t limit = 0;
    if (due)
        limit = f->credit;
    if (due && urgent)
        limit = batch;
    start_batch(g, limit, urgent && due, room);
}

void engine_flush_step(struct engine *g)
{
    if (!engine_back(g))
        return;
    engine_whole_free(g);
    engine_jobs_step(g, JOB_CUT, JOB_LOAD);
    flush_step(g);
    engine_jobs_step(g, JOB_LOAD, JOB_KINDS);
}

/* Writes the gathered batch on this thread. journal NULL: its records are on disk. */
static int write_now(struct engine *g, bool flush, struct journal *journal, struct err *e)
{
    struct journal_sync sync;
    struct err ignored;
    SHOAL_ASSERT(!g->flush.busy);
    g->flush.since_flush += g->flush.bytes;
    g->flush.image_bytes += g->flush.bytes;
    if (flush && journal != NULL)
        journal_sync_peek(journal, &sync);
    int rc = write_batch(g, flush, journal == NULL ? NULL : &sync, e);
    if (flush && journal != NULL)
        journal_sync_end(journal, &sync, &ignored);
    if (rc == 0)
        batch_done(g, flush);
    return rc;
}

int flush_all(struct engine *g, struct err *e)
{
    uint32_t table, tablet;
    bool more = true;
    uint32_t dirty = flush_dirty(g);
    SHOAL_ASSERT(!g->flush.busy); /* a new batch would overwrite it */
    while (more) {
        uint64_t images = flush_image_bytes(g);
        if (!space_batch(g, MIN(images, FLUSH_BATCH_BYTES)))
            return err_set(e, SHOAL_E_NO_SPACE,
                           "no room on the disk to write rows; the journal keeps them");
        int rc = gather(g, FLUSH_BATCH_BYTES, false);
        if (rc != 0)
            return err_set(e, rc, "no memory to write rows");
        more = next_dirty(g, &table, &tablet);
        rc = write_now(g, !more || g->flush.since_flush + g->flush.bytes >= UNSYNCED_MAX,
                       g->journal, e);
        if (rc != 0)
            return rc;
        uint32_t left = flush_dirty(g);
        engine_pulse(g, dirty - MIN(left, dirty), dirty);
    }
    flush_trim(g);
    return 0;
}

int flush_save_read(void *engine, struct err *e)
{
    const struct engine *g = engine;
    if (g->flush.read == NULL || g->flush.since_flush == 0)
        return 0;
    return journal_save_read(g->journal, g->flush.read, e); /* 2 */
}

int flush_make_room(struct engine *g, uint64_t sequence, bool control, struct err *e)
{
    struct flush_state *f = &g->flush;
    int rc = 0;
    while (rc == 0 && tier_wants_room(g)) {
        f->items = f->bytes = f->stale_count = 0;
        tier_gather(g, sequence, flush_batch_bytes(g));
        if (f->items == 0)
            continue; /* rows left without a write; or it is stuck, which ends this */
        if (control && (!flush_room(g, 1, 0) || flush_put_control(g, sequence) != 0))
            rc = err_set(e, SHOAL_E_NOMEM, "no memory to write rows");
        bool flush = f->since_flush + f->bytes >= flush_store_every(g);
        if (rc == 0 && flush)
            rc = journal_save_read(g->journal, f->read, e); /* 2 */
        if (rc == 0)
            rc = write_now(g, flush, NULL, e);
        if (rc == 0)
            tier_leave(g);
    }
    return rc;
}

void flush_free(struct engine *g)
{
    free(g->flush.buffer);
    free(g->flush.stale);
    free(g->flush.item);
    free(g->flush.control);
}
