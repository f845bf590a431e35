/* cut.c: makes a cut: hold, go, release. cut_keep.c manages existing cuts.
 *
 * 1. A cut is cuts/CUT: complete or absent. It is made as cuts/CUT.tmp, synced, and gets its name
 *    by one rename. [test: an_unfinished_cut_does_not_exist]
 * 2. From HOLD to the end of GO the journal is not trimmed; from GO on no image is copied, so no
 *    stored tablet is beyond the noted sequence. [assert: cut_done, start_batch]
 *    [test: pushes_during_the_cut_are_not_in_it, a_cut_waits_for_the_batch_under_way]
 * 3. A cut stands alone. While a RESTORE record is still needed (its cut's rows are not all written
 *    here), or without a journal, a cut copies all tablets instead of linking the journal
 *    (cut_copy.h), and with them the pairs of rows in the store. The pair of a row that is cold at
 *    GO does not change until the cut is made, because flushing pauses.
 *    [test: a_cut_right_after_a_restore_stands_alone, test_cold_cut]
 * 4. A cut that an untrimmed RESTORE record names is deleted only when the journal has trimmed the
 *    record: until then a file `dropped` in it notes the request.
 *    [test: a_cut_is_kept_while_a_restore_needs_it]
 * 5. A cut never includes a record that the journal may still lose, because another record would
 *    get its sequence. [test: test_power]
 * 6. A cut keeps the files that it links on disk. The store therefore first drops overwritten
 *    images; otherwise each cut would keep those of several rounds of flushing.
 *    [test: a_cut_has_few_dead_images]
 *
 *     hold ----> holding --go--> cut_busy: waits for the batch in flight, copies if it must,
 *                   |               |      then on an I/O thread
 *                release            +--> done
 *                   v
 *               (nothing) */
#include "embedding/engine/cut.h"

#include "embedding/engine/cut_copy.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BATCH_BYTES (32u << 20)

typedef void (*go_done)(void *context, int status, uint64_t rows, uint64_t bytes);

struct cut_work {
    struct offload work;   /* first; the list of works owns it once it is started */
    struct engine_job job; /* used while it waits for a batch in flight, and while it copies */
    struct engine *g;      /* borrowed */
    struct cut_facts facts;
    struct journal_link *link; /* owned; NULL for a copy */
    size_t links;
    struct cut_copy *copy; /* owned; NULL when the journal is linked */
    struct part part;      /* on the I/O thread: the manifest's contents */
    uint64_t images;       /* bytes of the current images */
    bool synced;           /* synced by the I/O thread: */
    struct journal_sync sync;
    char dir[LIMIT_PATH], tmp[LIMIT_PATH], parent[LIMIT_PATH];
    go_done done;
    void *context;
    int status;
    struct err err;
};

/* ---- hold ---- */

/* Checks room: current images are kept beside later ones; in memory without a folder. */
int engine_cut_room(struct engine *g, uint64_t cut, struct err *e)
{
    char what[32];
    uint64_t need = flush_image_bytes(g), used = tier_used(g), most = g->tier.rows_max;
    if (g->dir == NULL && most > 0 && used + need > most)
        return err_set(e, SHOAL_E_NO_SPACE,
                       "cut %" PRIu64 " needs %" PRIu64 " bytes of memory beside %" PRIu64
                       " in use, and rows and cuts may take %" PRIu64
                       "; raise `memory`, or give the server a data_dir",
                       cut, need, used, most);
    snprintf(what, sizeof what, "cut %" PRIu64, cut);
    return space_check_for(g, need, what, e);
}

int engine_hold(struct engine *g, uint64_t cut, uint64_t run, uint64_t *sequence)
{
    const struct run *of = run == 0 ? NULL : runs_find(&g->runs, run);
    if (g->broken)
        return SHOAL_E_IO;
    if (run != 0 && of == NULL)
        return SHOAL_E_OLD_RUN;
    if (g->cut_busy || table_set_any(g->loading) || (g->holding && g->held.cut != cut))
        return SHOAL_E_BUSY;
    if (g->pending > 0)
        return SHOAL_E_AGAIN;
    struct err e;
    int rc = engine_cut_room(g, cut, &e);
    if (rc != 0)
        return rc;
    SHOAL_ASSERT(g->committed == g->sequence); /* the journal that it pins has all records */
    cut_ahead_end(g);
    g->holding = true;
    g->held = (struct cut_facts){.cut = cut, .sequence = g->sequence};
    g->held.existing = g->here;
    TABLE_SET_EACH (i, &g->here) {
        g->held.table_rows[i] = table_rows(g->table[i].table);
        g->held.table_bytes[i] = flush_whole_bytes(g, i);
        g->held.rows += g->held.table_rows[i];
    }
    g->held.sized = true;
    if (of != NULL) {
        SHOAL_ASSERT(of->lanes <= LIMIT_LANES);
        g->held.run = of->id;
        g->held.tables = of->tables;
        g->held.lanes = of->lanes;
        g->held.mode = of->mode;
        for (uint32_t lane = 0; lane < of->lanes; lane++)
            g->held.lowest[lane] = of->lane[lane].lowest;
    }
    *sequence = g->sequence;
    return 0;
}

void engine_hold_tables(struct engine *g, struct table_set tables)
{
    SHOAL_ASSERT(g->holding && g->held.run == 0);
    g->held.tables = tables;
}

int engine_release(struct engine *g, uint64_t cut)
{
    if (!g->holding || g->held.cut != cut)
        return SHOAL_E_NOT_FOUND;
    g->holding = false;
    flush_trim(g);
    return 0;
}

/* ---- go: the I/O thread's part ---- */

static int link_segment(struct cut_work *c, const struct journal_link *l, struct err *e)
{
    char path[LIMIT_PATH], name[PART_NAME_BYTES];
    uint64_t bytes, sum;
    int n = snprintf(path, sizeof path, "%s/journal/%s", c->tmp, l->name);

    if (n < 0 || (size_t)n >= sizeof path || file_link(l->path, path) != 0)
        return err_set(e, SHOAL_E_IO, "cannot link %s into %s: %s", l->path, c->tmp,
                       strerror(errno));
    int rc = part_checksum(path, l->bytes, false, &bytes, &sum);
    if (rc == 0 && bytes < l->bytes)
        rc = SHOAL_E_CORRUPT;
    if (rc != 0)
        return err_set(e, rc, "cannot read %s: %s", path, strerror(errno));
    snprintf(name, sizeof name, "journal/%.48s", l->name);
    rc = part_add_file(&c->part, name, l->bytes, &sum);
    if (rc != 0)
        return err_set(e, rc, "cannot name %s: %s", path, err_text(rc));
    return 0;
}

/* Lists every file in rows/ with its size. */
static int list_rows(struct cut_work *c, struct err *e)
{
    char path[LIMIT_PATH], inner[LIMIT_PATH + 64], name[PART_NAME_BYTES];
    struct file_walk w;
    const char *entry;
    struct stat st;
    int rc = 0;

    snprintf(path, sizeof path, "%.*s/rows", (int)LIMIT_PATH - 6, c->tmp);
    if (!file_walk_open(&w, path))
        return err_set(e, SHOAL_E_IO, "cannot list %s: %s", path, strerror(errno));
    while (rc == 0 && (entry = file_walk_next(&w)) != NULL) {
        int n = snprintf(name, sizeof name, "rows/%s", entry);
        snprintf(inner, sizeof inner, "%s/%.63s", path, entry);
        if (n < 0 || (size_t)n >= sizeof name || stat(inner, &st) != 0)
            rc = SHOAL_E_IO;
        else if (S_ISREG(st.st_mode) && !part_passes_over(entry))
            rc = part_add_file(&c->part, name, (uint64_t)st.st_size, NULL);
    }
    file_walk_close(&w);
    if (rc != 0)
        return err_set(e, rc, "cannot list %s: %s", path, err_text(rc));
    return 0;
}

struct copying {
    struct store *to;
    size_t bytes, most; /* bytes in the store's buffers; limit at which they are flushed */
};

static int copy_pair(void *context, const void *key, size_t key_bytes, const void *value,
                     size_t value_bytes, struct err *e)
{
    struct copying *c = context;
    struct store_item item = {.key_bytes = key_bytes, .value = value, .value_bytes = value_bytes};
    memcpy(item.key, key, MIN(key_bytes, sizeof item.key));
    int rc = store_write(c->to, &item, 1, e);
    c->bytes += value_bytes;
    if (rc == 0 && c->bytes >= c->most) {
        c->bytes = 0;
        rc = store_flush(c->to, e);
    }
    return rc;
}

int cut_copy_cold(struct store *from, struct store *to, size_t batch, struct err *e)
{
    static const struct store_item first = {.key = {'r'}, .key_bytes = 1},
                                   below = {.key = {'s'}, .key_bytes = 1};
    return store_range(from, &first, &below, copy_pair, &(struct copying){to, 0, batch}, e);
}

int cut_copy_rows(struct store *from, const char *path, struct err *e)
{
    struct copying to = {.most = COPY_BATCH_BYTES};
    int rc = store_rocks_open(path, 0, &to.to, e);
    if (rc == 0)
        rc = store_scan(from, copy_pair, &to, e);
    if (rc == 0)
        rc = store_flush(to.to, e);
    store_close(to.to);
    return rc;
}

int cut_folder_make(const char *parent, const char *tmp, struct err *e)
{
    char path[LIMIT_PATH];
    int n = snprintf(path, sizeof path, "%s/journal", tmp);
    if ((file_mkdir(parent, 0700) != 0 && errno != EEXIST) || file_sync_name(parent) != 0 ||
        file_remove_tree(tmp) != 0 || file_mkdir(tmp, 0700) != 0 || n < 0 ||
        (size_t)n >= sizeof path || file_mkdir(path, 0700) != 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create %s: %s", tmp, strerror(errno));
    return 0;
}

static int make_parts(struct cut_work *c)
{
    char path[LIMIT_PATH];
    SHOAL_ASSERT(c->copy == NULL || c->links == 0); /* 3 */
    int rc = 0;
    if (c->copy == NULL)
        rc = cut_folder_make(c->parent, c->tmp, &c->err);
    for (size_t i = 0; i < c->links && rc == 0; i++)
        rc = link_segment(c, &c->link[i], &c->err);
    snprintf(path, sizeof path, "%.*s/journal", (int)LIMIT_PATH - 9, c->tmp);
    if (rc == 0 && file_sync_folder(path) != 0)
        rc = err_set(&c->err, SHOAL_E_IO, "cannot sync %s: %s", path, strerror(errno));
    snprintf(path, sizeof path, "%.*s/rows", (int)LIMIT_PATH - 6, c->tmp);
    if (rc == 0 && c->copy == NULL && flush_overgrown(c->g->store, c->images))
        rc = flush_tidy(c->g->store, &c->err); /* 6 */
    if (rc == 0 && c->copy != NULL)
        rc = cut_copy_end(c->copy, &c->err);
    else if (rc == 0)
        rc = store_checkpoint(c->g->store, path, &c->err);
    if (rc == 0 && file_sync_folder(path) != 0)
        rc = err_set(&c->err, SHOAL_E_IO, "cannot sync %s: %s", path, strerror(errno));
    if (rc == 0)
        rc = list_rows(c, &c->err);
    return rc;
}

static void cut_run(struct offload *w)
{
    struct cut_work *c = container_of(w, struct cut_work, work);
    if (c->g->dir == NULL)
        return; /* the copy is the cut */
    c->part.facts = c->facts;
    c->part.facts.bytes = 0; /* sum over the named files */
    if (c->synced)           /* 5 */
        c->status = flush_sync(c->g, &c->sync, &c->err);
    if (c->status == 0)
        c->status = make_parts(c);
    if (c->status == 0)
        c->status = part_write(c->tmp, &c->part, &c->err);
    c->facts.bytes = c->part.facts.bytes;
    if (c->status == 0 && (file_sync_folder(c->tmp) != 0 || file_remove_tree(c->dir) != 0 ||
                           file_rename(c->tmp, c->dir) != 0 || file_sync_folder(c->parent) != 0))
        c->status = err_set(&c->err, SHOAL_E_IO, "cannot name %s: %s", c->dir, strerror(errno));
    if (c->status != 0)
        file_remove_tree(c->tmp);
    part_free(&c->part);
}

static void cut_done(struct offload *w)
{
    struct cut_work *c = container_of(w, struct cut_work, work);
    struct engine *g = c->g;
    SHOAL_ASSERT(g->cut_busy && !g->flush.busy); /* 2 */
    g->cut_busy = false;
    if (!w->cancelled && c->status == 0 && g->dir == NULL) {
        cut_mem_drop(g, c->facts.cut);
        SHOAL_ASSERT(g->mem_cut_count < ENGINE_MEM_CUTS);
        struct store *store = cut_copy_take(c->copy, &c->facts.bytes);
        g->mem_cut[g->mem_cut_count++] = (struct mem_cut){.facts = c->facts, .store = store};
    }
    cut_copy_free(g, c->copy);
    free(c->link);
    struct err failure = {0};
    int synced = 0;
    if (c->synced)
        synced = journal_sync_end(g->journal, &c->sync, &failure);
    if (w->cancelled)
        return;
    if (synced != 0 && c->status == 0)
        c->status = err_set(&c->err, synced, "%s", failure.text);
    if (c->status != 0)
        log_warn("cut %" PRIu64 " failed: %s", c->facts.cut, c->err.text);
    if (synced != 0)
        engine_fail(g, &failure);
    c->done(c->context, c->status, c->facts.rows, c->facts.bytes);
    space_look(g);
    flush_trim(g);
    engine_flush_step(g);
}

/* ---- go: the shard's part ---- */

/* A repeated GO for a complete cut gets the same reply. A cut of another instant with the same
 * number was given up by the coordinator and is replaced. */
static bool exists(struct engine *g, uint64_t cut, struct cut_facts *facts)
{
    struct mem_cut *m = cut_mem_find(g, cut);
    if (m != NULL)
        *facts = m->facts;
    if (m != NULL || g->dir == NULL)
        return m != NULL;
    char dir[LIMIT_PATH];
    struct stat st;
    cut_path(g, cut, "", dir);
    if (stat(dir, &st) != 0)
        return false;
    struct part part;
    int rc = cut_read(dir, CUT_SIZES, &part, NULL);
    *facts = part.facts;
    part_free(&part);
    return rc == 0;
}

static void cut_step(struct engine *g);
static uint64_t cut_memory(const struct engine *g);
static void cut_close(struct engine *g);
static const struct engine_job_ops cut_job = {cut_step, NULL, cut_memory, cut_close};

int engine_go(struct engine *g, uint64_t cut,
              void (*done)(void *context, int status, uint64_t rows, uint64_t bytes), void *context)
{
    struct cut_facts facts;
    if (g->broken)
        return SHOAL_E_IO;
    bool held = g->holding && g->held.cut == cut;
    if (!g->cut_busy && exists(g, cut, &facts) && (!held || facts.sequence == g->held.sequence)) {
        if (held)
            engine_release(g, cut);
        done(context, 0, facts.rows, facts.bytes);
        return 0;
    }
    if (g->cut_busy || cut_referenced(g, cut) || g->exporting == cut ||
        (g->dir == NULL && g->mem_cut_count == ENGINE_MEM_CUTS))
        return SHOAL_E_BUSY;
    if (!held || g->held.sequence != g->sequence)
        return SHOAL_E_NOT_FOUND;
    struct cut_work *c = calloc(1, sizeof *c);
    if (c == NULL)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(g->pending == 0); /* nothing was admitted since HOLD */
    c->g = g;
    c->facts = g->held;
    c->images = flush_image_bytes(g);
    c->done = done;
    c->context = context;
    if (g->dir != NULL) {
        snprintf(c->parent, sizeof c->parent, "%s/cuts", g->dir);
        cut_path(g, cut, "", c->dir);
        cut_path(g, cut, ".tmp", c->tmp);
    }
    int rc;
    if (g->journal == NULL || g->ref_count > 0)
        rc = cut_copy_new(g, &c->facts, c->parent, g->dir == NULL ? NULL : c->tmp, &c->copy);
    else
        rc = journal_link(g->journal, &c->link, &c->links, &c->err);
    if (rc != 0) {
        free(c);
        return rc;
    }
    g->holding = false;
    g->cut_busy = true;
    cut_uncheck(g, cut);
    engine_job_begin(g, JOB_CUT, &c->job, &cut_job);
    cut_step(g);
    return 0;
}

static struct cut_work *cut_of(const struct engine *g)
{
    return container_of(g->job[JOB_CUT], struct cut_work, job);
}

static uint64_t cut_memory(const struct engine *g)
{
    const struct cut_work *c = cut_of(g);
    return c->copy == NULL ? 0 : cut_copy_memory(c->copy);
}

/* Flushing has paused: a waiting cut continues; once it has copied its tablets, or failed, an I/O
 * thread ends it. */
static void cut_step(struct engine *g)
{
    if (g->flush.busy)
        return;
    SHOAL_ASSERT(g->cut_busy && !g->holding);
    struct cut_work *c = cut_of(g);
    if (c->copy != NULL && !cut_copy_step(c->copy))
        return;
    c->status = 0;
    if (c->copy != NULL)
        c->status = cut_copy_status(c->copy, &c->err);
    engine_job_end(g, JOB_CUT);
    c->synced = g->journal != NULL;
    if (c->synced)
        journal_sync_peek(g->journal, &c->sync);
    engine_work(g, &c->work, cut_run, cut_done);
}

/* Ends a cut that was not copied completely, or never began: the journal is no longer kept. */
static void cut_close(struct engine *g)
{
    struct cut_work *c = cut_of(g);
    SHOAL_ASSERT(g->cut_busy);
    engine_job_end(g, JOB_CUT);
    g->cut_busy = false;
    cut_copy_free(g, c->copy);
    free(c->link);
    free(c);
}

void cut_free(struct engine *g)
{
    for (uint32_t i = 0; i < g->mem_cut_count; i++)
        store_close(g->mem_cut[i].store);
}
