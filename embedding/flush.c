/* flush.c: pacing, copying, writing and trimming.
 *
 *  1. A tablet is copied only when no admitted push waits to be applied: marks move at admission, rows at apply, an
 * image needs both.
 *  2. Images reach the disk after the journal has: the journal is synced before the store is flushed. So a stored
 * tablet is never ahead of it.
 *  3. `durable` moves only when a flush of the store has returned; the journal is trimmed by `durable` alone.
 *  4. The round goes over all tablets in order and skips the clean ones, so the oldest image is always among the next
 * to be written.
 *
 * Pacing: each appended byte pays for (rows / cap) image bytes times a factor: 1.25 from a sixteenth of the cap on, so that a round takes four
 * fifths of a cap, the journal settles there and each row is written 1.25 times a cap; a first round, when nothing can be trimmed before
 * its end, is over at 0.87. Above 0.85 the factor grows to 7. At the cap pushes wait and appending stops, so then batches follow each other
 * without credit.
 */
#include "embedding/flush.h"

#include "embedding/cut.h"
#include "embedding/load.h"
#include "embedding/scrub.h"
#include "embedding/stored.h"
#include "embedding/unload.h"
#include "embedding/whole.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"

#include <stdlib.h>

#define JOURNAL_MAX_LEAST (1ull << 30)
#define FLUSH_STORE_MAX (64u << 20)
#define UNSYNCED_MAX (16u << 20) /* more dirty pages than that and the kernel begins to stop the writer: the shard */

struct flush_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    size_t items;
    bool flush;
    struct journal_sync sync; /* when flush */
    int status;
    struct err err;
};

static uint64_t image_bytes_all(const struct engine *g)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            bytes +=
                table_rows(g->table[i].table) * table_row_bytes(g->table[i].table) + g->table[i].scope.tablets * 256ull;
    return bytes;
}

uint64_t flush_journal_max(const struct engine *g)
{
    if (g->options.journal_max > 0)
        return g->options.journal_max;
    uint64_t rows = image_bytes_all(g);
    return rows > JOURNAL_MAX_LEAST ? rows : JOURNAL_MAX_LEAST;
}

uint64_t flush_floor(const struct engine *g)
{
    uint64_t floor = g->committed;
    if (g->journal == NULL)
        return floor;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; t->table != NULL && k < t->scope.tablets; k++)
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
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        const struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; t->table != NULL && k < t->scope.tablets; k++)
            dirty += t->changed[k] > t->durable[k];
    }
    return dirty;
}

void flush_trim(struct engine *g)
{
    if (g->journal == NULL || g->holding || g->cut_busy)
        return;
    uint64_t floor = flush_floor(g);
    uint32_t spare = g->scrub != NULL ? 0 : (uint32_t)(flush_journal_max(g) / g->segment_bytes) + 1;
    journal_trim(g->journal, floor, spare);
    cut_refs_trim(g, floor);
}

/* ---- gathering a batch ---- */

static bool next_dirty(struct engine *g, uint32_t *table, uint32_t *tablet)
{
    struct flush_state *f = &g->flush;
    for (uint32_t turn = 0; turn <= LIMIT_TABLES; turn++) {
        const struct engine_table *t = &g->table[f->table];
        for (; t->table != NULL && f->tablet < t->scope.tablets; f->tablet++)
            if (t->changed[f->tablet] > t->written[f->tablet]) {
                *table = f->table;
                *tablet = f->tablet;
                return true;
            }
        f->table = (f->table + 1) % LIMIT_TABLES;
        f->tablet = 0;
    }
    return false;
}

static int reserve(struct flush_state *f, size_t bytes)
{
    if (f->item == NULL && (f->item = calloc(FLUSH_ITEMS, sizeof *f->item)) == NULL)
        return SHOAL_E_NOMEM;
    if (bytes <= f->capacity)
        return 0;
    free(f->buffer);
    f->capacity = 0;
    f->buffer = malloc(bytes);
    if (f->buffer == NULL)
        return SHOAL_E_NOMEM;
    f->capacity = bytes;
    return 0;
}

/* Copies dirty tablets, about `limit` bytes of them (one at least), and the control state. *items: 0 when memory is
 * short. */
static int gather(struct engine *g, uint64_t limit, size_t *items, size_t *bytes)
{
    struct flush_state *f = &g->flush;
    uint32_t table, tablet;
    *items = *bytes = 0;
    int rc = reserve(f, FLUSH_BATCH_BYTES);
    while (rc == 0 && *items < FLUSH_ITEMS - 1 && next_dirty(g, &table, &tablet)) {
        struct engine_table *t = &g->table[table];
        size_t need = stored_tablet_bytes(t->table, &g->runs, tablet);
        if (*items > 0 && (*bytes + need > limit || *bytes + need > f->capacity))
            break;
        rc = reserve(f, need); /* a longer image than the buffer goes alone */
        if (rc != 0)
            break;
        struct store_item *item = &f->item[*items];
        stored_tablet_key(table, tablet, item);
        item->value = f->buffer + *bytes;
        item->value_bytes = need;
        stored_tablet_write(t->table, &g->runs, tablet, g->sequence, f->buffer + *bytes);
        t->written[tablet] = g->sequence;
        *bytes += need;
        ++*items;
        f->tablet++;
    }
    struct table *list[LIMIT_TABLES];
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        list[i] = g->table[i].table;
    struct store_item *control = f->item == NULL ? NULL : &f->item[*items];
    if (rc == 0)
        rc = stored_control_write(list, &g->runs, g->sequence, &f->control, &control->value_bytes);
    if (rc != 0)
        return rc;
    stored_control_key(control);
    control->value = f->control;
    f->control_seq = g->sequence;
    g->control_written = g->sequence;
    *bytes += control->value_bytes;
    ++*items;
    return 0;
}

static int write_batch(struct engine *g, size_t items, bool flush, struct journal_sync *sync, struct err *e)
{
    int rc = store_write(g->store, g->flush.item, items, e);
    if (rc != 0 || !flush)
        return rc;
    journal_sync_run(sync);
    if (sync->status != 0)
        return err_set(e, sync->status, "cannot sync the journal in %s: its disk is failing; restart to recover",
                       g->dir);
    return store_flush(g->store, e);
}

/* Images are overwritten in rounds and dead ones leave the disk file by file. Tablets that never change would keep files alive in which all
 * else is dead: when the store takes thrice the rows and some more, every tablet is written again. */
static void rewrite_when_wasteful(struct engine *g)
{
    uint64_t most = 3 * image_bytes_all(g) + 4ull * FLUSH_STORE_MAX;
    if (g->flush.rewriting || g->committed == 0 || store_disk_bytes(g->store) <= most)
        return;
    g->flush.rewriting = true;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            engine_touch(&g->table[i], 0, g->table[i].scope.tablets, NULL, g->committed);
}

static void batch_done(struct engine *g, bool flushed)
{
    struct flush_state *f = &g->flush;
    free(f->control);
    f->control = NULL;
    if (!flushed)
        return;
    f->since_flush = 0;
    g->control_durable = f->control_seq;
    for (uint32_t i = 0; i < LIMIT_TABLES; i++) {
        struct engine_table *t = &g->table[i];
        for (uint32_t k = 0; t->table != NULL && k < t->scope.tablets; k++)
            if (t->written[k] > t->durable[k])
                t->durable[k] = t->written[k];
    }
    uint32_t table, tablet;
    if (g->flush.rewriting)
        g->flush.rewriting = next_dirty(g, &table, &tablet);
    rewrite_when_wasteful(g);
}

/* ---- the I/O thread's part ---- */

static void flush_run(struct work *w)
{
    struct flush_work *f = (struct flush_work *)w;
    f->status = write_batch(f->g, f->items, f->flush, &f->sync, &f->err);
}

static void flush_done(struct work *w)
{
    struct flush_work *f = (struct flush_work *)w;
    struct engine *g = f->g;
    struct err ignored;
    g->flush.busy = false;
    if (f->flush)
        journal_sync_end(g->journal, &f->sync, &ignored); /* closes its files; a failure is in f->status */
    if (w->cancelled || f->status != 0) {
        free(g->flush.control);
        g->flush.control = NULL;
        for (uint32_t i = 0; i < LIMIT_TABLES; i++) /* called off: what was handed over is dirty again */
            for (uint32_t k = 0; g->table[i].table != NULL && k < g->table[i].scope.tablets; k++)
                g->table[i].written[k] = g->table[i].durable[k];
        if (!w->cancelled)
            engine_fail(g, &f->err);
        return;
    }
    batch_done(g, f->flush);
    if (f->flush)
        flush_trim(g);
    cut_continue(g);
    engine_flush_step(g);
    scrub_tick(g);
}

static void start_batch(struct engine *g, uint64_t limit, bool urgent)
{
    struct flush_state *f = &g->flush;
    /* A round takes several flushes of the store, so that the journal can be trimmed bit by bit. */
    uint64_t every = flush_journal_max(g) / 16, part = image_bytes_all(g) / 8;
    every = every > FLUSH_STORE_MAX ? FLUSH_STORE_MAX : every;
    every = every > part ? part : every;
    struct flush_work *w = calloc(1, sizeof *w);
    size_t bytes;
    if (w == NULL || gather(g, limit, &w->items, &bytes) != 0) {
        free(w);
        log_warn("no memory to write rows; trying again"); /* the journal holds them until then */
        return;
    }
    f->since_flush += bytes;
    f->image_bytes += bytes;
    f->credit -= bytes < f->credit ? bytes : f->credit;
    uint32_t table, tablet;
    w->g = g;
    w->flush = f->since_flush >= every || (urgent && !next_dirty(g, &table, &tablet));
    if (w->flush)
        journal_sync_peek(g->journal, &w->sync);
    w->work.run = flush_run;
    w->work.done = flush_done;
    f->busy = true;
    work_start(&g->works, g->env, &w->work);
}

/* ---- upkeep of the journal ---- */

struct spare_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    struct journal_spare spare;
};

static void spare_run(struct work *w)
{
    journal_spare_run(&((struct spare_work *)w)->spare);
}

static void spare_done(struct work *w)
{
    struct spare_work *s = (struct spare_work *)w;
    if (w->cancelled)
        s->spare.status = SHOAL_E_STOPPED;
    journal_spare_end(s->g->journal, &s->spare);
}

static void upkeep(struct engine *g)
{
    bool late = journal_unsynced_bytes(g->journal) >= UNSYNCED_MAX || journal_sealed_unsynced(g->journal);
    if (g->options.durability == DURABLE_JOURNAL && late)
        engine_sync_start(g);
    /* The pool grows one by one until recycling feeds it; an idle shard makes none. */
    uint64_t cap = flush_journal_max(g);
    if (g->no_space || journal_written(g->journal) == 0 ||
        journal_segment_count(g->journal) * (uint64_t)g->segment_bytes > cap)
        return;
    struct spare_work *s = calloc(1, sizeof *s);
    if (s == NULL || !journal_spare_begin(g->journal, &s->spare)) {
        free(s);
        return;
    }
    s->g = g;
    s->work.run = spare_run;
    s->work.done = spare_done;
    work_start(&g->works, g->env, &s->work);
}

static void flush_step(struct engine *g)
{
    if (g->journal == NULL || g->broken)
        return;
    scrub_tick(g);
    upkeep(g);
    struct flush_state *f = &g->flush;
    uint64_t written = journal_written(g->journal), appended = written - f->seen_written;
    uint64_t cap = flush_journal_max(g), used = journal_bytes(g->journal);
    f->seen_written = written;
    bool scrubbing = scrub_wanted(g);
    if (used <= cap / 16 && g->ref_count == 0 && !scrubbing) {
        f->credit = 0;
        return;
    }
    uint64_t all = image_bytes_all(g);
    double fill = (double)used / (double)cap, factor = fill > 0.85 ? 1.25 + 38.0 * (fill - 0.85) : 1.25;
    f->credit += (uint64_t)((double)appended * (double)all / (double)cap * factor);
    f->credit = f->credit > all ? all : f->credit;
    bool urgent = used > cap - cap / 16 || g->ref_count > 0 || scrubbing; /* a restore ties its cut down until all rows are written */
    uint64_t least = cap / 64 < FLUSH_BATCH_BYTES / 2 ? cap / 64 : FLUSH_BATCH_BYTES / 2;
    if (f->busy || g->cut_busy || g->holding || g->pending > 0 || (!urgent && f->credit < least))
        return;
    uint32_t table, tablet;
    if (!next_dirty(g, &table, &tablet) && f->since_flush == 0 && g->control_changed <= g->control_durable)
        return;
    start_batch(g, urgent ? FLUSH_BATCH_BYTES : f->credit, urgent);
}

void engine_flush_step(struct engine *g)
{
    whole_free(g);
    flush_step(g);
    load_continue(g);
    unload_continue(g);
}

int flush_all(struct engine *g, struct err *e)
{
    uint32_t table, tablet;
    bool more = true;
    while (more) {
        size_t items, bytes;
        int rc = gather(g, FLUSH_BATCH_BYTES, &items, &bytes);
        if (rc != 0)
            return err_set(e, rc, "no memory to write rows");
        g->flush.since_flush += bytes;
        g->flush.image_bytes += bytes;
        more = next_dirty(g, &table, &tablet);
        bool flush = !more || g->flush.since_flush >= UNSYNCED_MAX;
        struct journal_sync sync;
        if (flush)
            journal_sync_peek(g->journal, &sync);
        rc = write_batch(g, items, flush, &sync, e);
        struct err ignored;
        if (flush)
            journal_sync_end(g->journal, &sync, &ignored);
        if (rc != 0)
            return rc;
        batch_done(g, flush);
    }
    flush_trim(g);
    return 0;
}

void flush_free(struct engine *g)
{
    free(g->flush.buffer);
    free(g->flush.item);
    free(g->flush.control);
}
