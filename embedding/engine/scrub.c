/* scrub.c: removes erased keys from journal, archive and store, and searches for blame. engine.h
 * has the promise.
 *
 *     engine_scrub: a new journal segment begins
 *        -> every tablet that changed is written (flush.c, urgent)    scrub_urgent
 *        -> the older segments are trimmed, none is used again        scrub_step
 *        -> on an I/O thread: archive blanked, journal synced,
 *           store rewritten                                           scrub_run
 *        -> done                                                      scrub_done
 *
 * A scrub waits for a cut that is held or being made; flushing pauses while the store is rewritten.
 * Thread: the shard's. */
#include "embedding/engine/copy_inner.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/flush.h"
#include "embedding/journal/archive.h"
#include "embedding/journal/cursor.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- scrub ---- */

struct scrub {
    struct engine_job job;
    uint64_t sequence; /* when the scrub is done nothing of the keys is left up to this sequence */
    uint64_t *keys;    /* owned; sorted */
    uint32_t count;
    struct table_schema *schema; /* owned */
    bool working;
    atomic_bool stop;
    engine_scrub_done done;
    void *context;
};

struct scrub_work {
    struct offload work;        /* first */
    struct engine *g;           /* borrowed */
    struct journal_files files; /* the archive's files */
    /* owned; (items): pairs that the keys' rows may have left in the store */
    struct store_item *item;
    uint32_t items;
    uint64_t records;
    struct journal_sync sync;
    int status;
    bool broken; /* journal or store failed: they must not be written again */
    struct err err;
};

static struct scrub *scrub_of(const struct engine *g)
{
    return g->job[JOB_SCRUB] == NULL ? NULL : container_of(g->job[JOB_SCRUB], struct scrub, job);
}

static void scrub_free(struct engine *g)
{
    struct scrub *s = scrub_of(g);
    engine_job_end(g, JOB_SCRUB);
    free(s->keys);
    free(s->schema);
    free(s);
}

static bool scrub_urgent(const struct engine *g)
{
    const struct scrub *s = scrub_of(g);
    return !s->working && flush_floor(g) < s->sequence;
}

static void scrub_step(struct engine *g);
static const struct engine_job_ops scrub_job = {scrub_step, scrub_urgent, NULL, scrub_free};

static int scrub_new(struct engine *g, const struct table *t, const uint64_t *keys, uint32_t count)
{
    struct scrub *s = calloc(1, sizeof *s);
    if (s == NULL)
        return SHOAL_E_NOMEM;
    engine_job_begin(g, JOB_SCRUB, &s->job, &scrub_job);
    s->keys = malloc((count + 1) * sizeof *s->keys);
    s->schema = malloc(sizeof *s->schema);
    if (s->keys == NULL || s->schema == NULL) {
        scrub_free(g);
        return SHOAL_E_NOMEM;
    }
    *s->schema = *table_schema_of(t);
    memcpy(s->keys, keys, count * sizeof *keys);
    qsort(s->keys, count, sizeof *keys, key_by_value);
    s->count = count;
    atomic_init(&s->stop, false);
    return 0;
}

int engine_scrub(struct engine *g, uint32_t table, const uint64_t *keys, uint32_t count,
                 engine_scrub_done done, void *context, struct err *e)
{
    const struct engine_table *t = engine_slot(g, table);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u", table);
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "the disk has failed");
    if (scrub_of(g) != NULL || g->blame != NULL)
        return err_set(
            e, SHOAL_E_BUSY,
            "another erasing, or a search of the journal, is under way; ask again later");
    if (g->pending > 0)
        return err_set(e, SHOAL_E_AGAIN, "pushes are being applied; ask again");
    if (g->journal == NULL) {
        done(context, 0, "", g->sequence);
        return 0;
    }
    if (scrub_new(g, t->table, keys, count) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u keys", count);
    int rc = journal_roll(g->journal, e);
    if (rc != 0) {
        scrub_free(g);
        return engine_fail(g, e);
    }
    struct scrub *s = scrub_of(g);
    SHOAL_ASSERT(g->committed == g->sequence); /* all records are before the new segment */
    s->sequence = g->sequence;
    s->done = done;
    s->context = context;
    engine_flush_step(g);
    return 0;
}

static struct archive_wish wish_of(const struct table_schema *s, const uint64_t *keys,
                                   uint32_t count, const atomic_bool *stop)
{
    return (struct archive_wish){.schema = s, .keys = keys, .count = count, .stop = stop};
}

static void scrub_run(struct offload *w)
{
    struct scrub_work *s = container_of(w, struct scrub_work, work);
    const struct scrub *of = scrub_of(s->g);
    struct archive_wish wish = wish_of(of->schema, of->keys, of->count, &of->stop);
    s->status = archive_blank(&s->files, &wish, &s->records, &s->err);
    s->broken = s->status == 0;
    if (s->status == 0)
        s->status = flush_sync(s->g, &s->sync, &s->err); /* the store may have unflushed batches */
    if (s->status == 0)
        s->status = store_write(s->g->store, s->item, s->items, &s->err);
    if (s->status == 0)
        s->status = flush_rewrite(s->g->store, &s->err);
}

static void scrub_done(struct offload *w)
{
    struct scrub_work *s = container_of(w, struct scrub_work, work);
    struct engine *g = s->g;
    SHOAL_ASSERT(g->flush.busy && scrub_of(g)->working);
    engine_scrub_done done = scrub_of(g)->done;
    void *context = scrub_of(g)->context;
    uint64_t sequence = scrub_of(g)->sequence;
    struct err ignored;
    g->flush.busy = false;
    journal_sync_end(g->journal, &s->sync, &ignored); /* s->status has a failure */
    cursor_files_free(&s->files);
    free(s->item);
    scrub_free(g);
    if (w->cancelled)
        return;
    done(context, s->status, s->status == 0 ? "" : s->err.text, sequence);
    if (s->status != 0 && s->broken)
        engine_fail(g, &s->err);
    engine_flush_step(g);
}

/* Lists pairs by name for all keys without a row: a row that came back to memory leaves its pair in
 * the store, and after a restart that is not known. Pairs of older epochs were deleted with the
 * images before. */
static int list_pairs(const struct engine *g, struct scrub_work *w)
{
    const struct scrub *s = scrub_of(g);
    const struct table *t = g->table[s->schema->table].table;
    if (t == NULL)
        return 0;
    SHOAL_ASSERT(s->schema->tablet_bits == table_schema_of(t)->tablet_bits);
    w->item = calloc(s->count + 1, sizeof *w->item);
    if (w->item == NULL)
        return SHOAL_E_NOMEM;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t tablet = key_tablet(key_mix(s->keys[i]), s->schema->tablet_bits);
        if (!table_cold_has(t, s->keys[i]) && table_row(t, s->keys[i]) == NULL)
            stored_row_key(s->schema->table, tablet, table_cold_epoch(t, tablet), s->keys[i],
                           &w->item[w->items++]);
    }
    return 0;
}

static void scrub_step(struct engine *g)
{
    struct scrub *s = scrub_of(g);
    struct err e = {0};
    if (s->working || g->flush.busy || g->cut_busy || g->holding || g->broken)
        return;
    flush_trim(g);
    if (journal_first(g->journal) <= s->sequence)
        return;
    journal_forget(g->journal);
    struct scrub_work *w = calloc(1, sizeof *w);
    if (w == NULL || list_pairs(g, w) != 0 || cursor_gather(g->archive, NULL, &w->files, &e) != 0) {
        if (w != NULL)
            free(w->item);
        free(w);
        return; /* no memory: the next step tries again */
    }
    s->working = true;
    g->flush.busy = true; /* the store has one user at a time */
    w->g = g;
    journal_sync_peek(g->journal, &w->sync);
    engine_work(g, &w->work, scrub_run, scrub_done);
}

uint32_t engine_cuts(const struct engine *g, uint64_t *out, uint32_t most)
{
    char path[LIMIT_PATH];
    uint32_t count = 0;
    for (uint32_t i = 0; i < g->mem_cut_count && count < most; i++)
        if (!copy_private(g->mem_cut[i].facts.cut))
            out[count++] = g->mem_cut[i].facts.cut;
    if (g->dir == NULL)
        return count;
    snprintf(path, sizeof path, "%s/cuts", g->dir);
    struct file_walk walk;
    const char *entry;
    (void)file_walk_open(&walk, path); /* none: no cut was made yet */
    while (count < most && (entry = file_walk_next(&walk)) != NULL) {
        char *end;
        uint64_t cut = strtoull(entry, &end, 10);
        if (end != entry && *end == '\0' && !copy_private(cut))
            out[count++] = cut;
    }
    file_walk_close(&walk);
    return count;
}

/* ---- blame ---- */

struct blame_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    struct journal_files files;
    struct table_schema *schema; /* owned */
    uint64_t key, above;
    struct blame_entry *entry; /* owned; (limit) */
    uint32_t limit, count;
    bool complete;
    atomic_bool stop;
    engine_blame_done done;
    void *context;
    int status;
    struct err err;
};

static void blame_free(struct blame_work *b)
{
    cursor_files_free(&b->files);
    free(b->schema);
    free(b->entry);
}

static void blame_run(struct offload *w)
{
    struct blame_work *b = container_of(w, struct blame_work, work);
    struct archive_wish wish = wish_of(b->schema, &b->key, 1, &b->stop);
    wish.above = b->above;
    b->status =
        archive_blame(&b->files, &wish, b->entry, b->limit, &b->count, &b->complete, &b->err);
}

static void blame_done(struct offload *w)
{
    struct blame_work *b = container_of(w, struct blame_work, work);
    SHOAL_ASSERT(b->g->blame == b && b->count <= b->limit);
    b->g->blame = NULL;
    journal_pin(b->g->journal, false);
    if (!w->cancelled)
        b->done(b->context, b->status, b->status == 0 ? "" : b->err.text, b->entry, b->count,
                b->complete);
    blame_free(b);
}

struct json *engine_blame_json(const struct blame_entry *in)
{
    struct json *j = json_new_object();
    json_set_int(j, "sequence", (int64_t)in->sequence);
    json_set_int(j, "run", (int64_t)in->run);
    json_set_int(j, "lane", in->lane);
    json_set_int(j, "generation", (int64_t)in->generation);
    json_set_int(j, "batch", (int64_t)in->batch);
    if (in->event_time != 0)
        json_set_int(j, "event_time", in->event_time);
    else
        json_set_null(j, "event_time");
    if (in->assigned)
        json_set_bool(j, "assigned", true);
    json_set_number(j, "norm", in->norm);
    json_set_number(j, "lr_scale", (double)in->lr_scale);
    json_set_number(j, "show", (double)in->show);
    json_set_number(j, "click", (double)in->click);
    return j;
}

int engine_blame(struct engine *g, uint32_t table, uint64_t key, uint32_t limit,
                 engine_blame_done done, void *context, struct err *e)
{
    const struct engine_table *t = engine_slot(g, table);
    if (t == NULL)
        return err_set(e, SHOAL_E_NO_TABLE, "there is no table %u", table);
    if (g->journal == NULL)
        return err_set(e, SHOAL_E_NOT_FOUND, "durability memory keeps no journal to look back in");
    if (scrub_of(g) != NULL || g->blame != NULL)
        return err_set(
            e, SHOAL_E_BUSY,
            "another search of the journal, or an erasing, is under way; ask again later");
    struct blame_work *b = calloc(1, sizeof *b);
    limit = MIN(MAX(limit, 1), ENGINE_BLAME_MAX);
    if (b != NULL) {
        b->schema = malloc(sizeof *b->schema);
        b->entry = calloc(limit, sizeof *b->entry);
    }
    int rc;
    if (b == NULL || b->schema == NULL || b->entry == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory to search");
    else
        rc = cursor_gather(g->archive, g->journal, &b->files, e);
    if (rc != 0) {
        if (b != NULL)
            blame_free(b);
        free(b);
        return rc;
    }
    *b->schema = *table_schema_of(t->table);
    b->g = g;
    b->above = g->runs.of[table].barrier; /* it stays while the search lasts (clear.c) */
    b->key = key;
    b->limit = limit;
    b->done = done;
    b->context = context;
    atomic_init(&b->stop, false);
    g->blame = b;
    journal_pin(g->journal, true);
    engine_work(g, &b->work, blame_run, blame_done);
    return 0;
}

void engine_audit_stop(struct engine *g)
{
    if (g->blame != NULL)
        atomic_store(&g->blame->stop, true);
    if (scrub_of(g) != NULL)
        atomic_store(&scrub_of(g)->stop, true);
}
