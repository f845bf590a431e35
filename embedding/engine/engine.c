/* engine.c: tables, reading, opening and closing. Invariants: engine.h. */
#include "embedding/engine.h"

#include "embedding/engine/copy_inner.h"
#include "embedding/engine/cut.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/follow_inner.h"
#include "embedding/engine/identity.h"
#include "embedding/engine/reload.h"
#include "embedding/engine/seed.h"
#include "embedding/engine/space.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/cold.h"
#include "embedding/store/rocks_crc32c.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define SEGMENT_BYTES (64u << 20)

/* ---- reading ---- */

struct table *engine_table(struct engine *g, uint32_t table)
{
    struct engine_table *t = engine_slot(g, table);
    return t == NULL ? NULL : t->table;
}

int engine_clock(const struct engine *g, uint64_t run, uint32_t lane, uint64_t batch,
                 uint64_t *clock_of, uint64_t *low)
{
    const struct run *r = runs_find(&g->runs, run);
    if (r == NULL || lane >= r->lanes)
        return SHOAL_E_NOT_FOUND;
    *clock_of = run_clock(r, lane, batch);
    *low = r->low;
    return 0;
}

uint64_t engine_low_beside(const struct engine *g, uint64_t run, uint32_t lane)
{
    const struct run *r = runs_find(&g->runs, run);
    if (r == NULL || lane >= r->lanes)
        return UINT64_MAX;
    return run_low_beside(r, lane);
}

int engine_run_mode(const struct engine *g, uint64_t run, uint32_t *mode, uint32_t *lanes)
{
    const struct run *r = runs_find(&g->runs, run);
    if (r == NULL)
        return SHOAL_E_NOT_FOUND;
    *mode = r->mode & ~(uint32_t)RUN_APART;
    *lanes = r->lanes;
    return 0;
}

struct table_set engine_run_tables(const struct engine *g, uint64_t run)
{
    const struct run *r = runs_find(&g->runs, run);
    return r == NULL ? TABLE_SET_NONE : r->tables;
}

struct table_set engine_run_counts(const struct engine *g, uint64_t run)
{
    const struct run *r = runs_find(&g->runs, run);
    return r == NULL ? TABLE_SET_NONE : table_set_less(r->tables, r->apart);
}

uint64_t engine_newest_run_of(const struct engine *g, struct table_set tables)
{
    return runs_newest(&g->runs, tables);
}

bool engine_lane_live(const struct engine *g, uint64_t run, uint32_t lane)
{
    const struct run *r = runs_find(&g->runs, run);
    return r != NULL && lane < r->lanes && r->lane[lane].live;
}

uint64_t engine_mark(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table)
{
    const struct run *r = runs_find(&g->runs, run);
    if (r == NULL || lane >= r->lanes || table >= LIMIT_TABLES)
        return 0;
    uint64_t lowest = marks_lowest(r->marks, lane, table);
    return lowest == UINT64_MAX ? 0 : lowest;
}

uint64_t engine_steps(const struct engine *g, uint64_t run, uint32_t table)
{
    const struct run *r = runs_find(&g->runs, run);
    if (r == NULL || table >= LIMIT_TABLES)
        return 0;

    return marks_steps(r->marks, table);
}

uint64_t engine_mark_range(const struct engine *g, uint64_t run, uint32_t lane, uint32_t table,
                           uint32_t first, uint32_t count)
{
    const struct run *r = runs_find(&g->runs, run);
    const struct table *t = NULL;
    if (table < LIMIT_TABLES)
        t = g->table[table].table;
    if (r == NULL || lane >= r->lanes || t == NULL)
        return 0;
    const struct mark_scope *s = &g->table[table].scope;
    uint64_t lowest = UINT64_MAX;
    for (uint32_t i = first; i < first + count && i < s->tablets; i++) {
        if (s->led_before[i + 1] == s->led_before[i])
            continue;
        uint64_t mark = marks_get(r->marks, lane, table, i);
        lowest = MIN(mark, lowest);
    }
    return lowest;
}

uint64_t engine_newest_run(const struct engine *g)
{
    return g->runs.newest;
}

uint64_t engine_sequence(const struct engine *g)
{
    return g->sequence;
}

uint64_t engine_synced(const struct engine *g)
{
    if (g->journal == NULL)
        return 0;

    return journal_synced(g->journal);
}

uint64_t engine_lane_generation(const struct engine *g, uint64_t run, uint32_t lane)
{
    const struct run *r = runs_find(&g->runs, run);

    if (r != NULL && lane < r->lanes)
        return r->lane[lane].generation;

    return 0;
}

void engine_stats_get(const struct engine *g, struct engine_stats *out)
{
    *out = (struct engine_stats){.memory_bytes = arena_bytes(g->arena) + g->flush.capacity +
                                                 fetch_whole_bytes(g),
                                 .image_bytes_written = g->flush.image_bytes,
                                 .sequence = g->sequence,
                                 .flushed_sequence = flush_floor(g),
                                 .replayed = g->replayed,
                                 .recovered_ns = g->recovered_ns,
                                 .tablets_dirty = flush_dirty(g),
                                 .tablets_away = reload_left(g),
                                 .tablets_awaited = reload_awaited(g),
                                 .fetched = g->tier.fetched,
                                 .evicted = g->tier.evicted,
                                 .evicted_clean = g->tier.evicted_clean,
                                 .store_memory = g->store == NULL ? 0 : tier_store_memory(g)};
    SHOAL_ASSERT(out->flushed_sequence <= out->sequence);
    out->memory_bytes += out->store_memory + follow_bytes(g);
    out->disk_bytes = space_taken(g);
    out->disk_short = g->space.refusing != SPACE_ENOUGH ||
                      (g->space.stopped && g->job[JOB_CHANGE] != NULL); /* no push would ask */
    for (uint32_t i = 0; i < g->tier.groups; i++)
        out->memory_short |= g->tier.group[i].full;
    for (uint32_t i = 0; i < g->loads; i++)
        if (g->loaded[i].arena != NULL)
            out->memory_bytes += arena_bytes(g->loaded[i].arena);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL) {
            uint64_t rows = table_rows(g->table[i].table);
            out->rows += rows;
            SHOAL_ASSERT(table_cold_rows(g->table[i].table) <= rows);
            out->cold_rows += table_cold_rows(g->table[i].table);
            out->row_bytes += rows * table_row_bytes(g->table[i].table);
            struct table_counts counts;
            table_counts_get(g->table[i].table, &counts);
            out->memory_bytes += counts.beside_bytes;
            out->tables++;
        }
    if (g->journal != NULL) {
        out->journal_bytes = journal_bytes(g->journal);
        out->journal_written = journal_written(g->journal);
    }
}

void engine_disk_stats_get(const struct engine *g, struct engine_disk_stats *out)
{
    *out = (struct engine_disk_stats){.sync_times = &g->sync_times,
                                      .write_times = &g->write_times,
                                      .syncs = g->syncs,
                                      .syncing = g->syncing};
    if (g->journal != NULL)
        out->segments = journal_segment_count(g->journal);
    if (g->store == NULL)
        return;
    const struct store_space space = store_space(g->store);
    const struct store_load load = store_load(g->store);
    out->large = space.large;
    out->small = space.small;
    out->memory = space.memory;
    out->readers = space.readers;
    out->flushes = load.flushes;
    out->compactions = load.compactions;
    out->pending = load.pending;
    out->slowed = load.slowed;
    out->stopped = load.stopped;
}

bool engine_disk_free(const struct engine *g, uint64_t *left, uint64_t *least)
{
    return g->journal != NULL && space_left(g, left, least);
}

/* ---- opening and closing ---- */

static int lock_dir(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH];
    if (file_mkdir(g->dir, 0700) != 0 && errno != EEXIST)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create the shard's folder %s: %s", g->dir,
                       strerror(errno));
    snprintf(path, sizeof path, "%s/LOCK", g->dir);
    g->lock_fd = file_open(path, O_RDWR | O_CREAT, 0600);
    if (g->lock_fd < 0)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot create %s: %s", path, strerror(errno));
    if (flock(g->lock_fd, LOCK_EX | LOCK_NB) != 0)
        return err_set(
            e, SHOAL_E_UNAVAILABLE,
            "the folder %s is in use by another process; stop it, or choose another data_dir",
            g->dir);
    return 0;
}

static int open_memory(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH];
    struct stat st;
    snprintf(path, sizeof path, "%s/rows", g->dir);
    if (stat(path, &st) == 0)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s holds rows of a durable shard; open it with durability journal or "
                       "fsync, or choose another data_dir",
                       g->dir);
    return 0;
}

/* If no archive is wanted, removes an old one: otherwise erasing would miss it, and it would use
 * the disk for ever. */
static int open_archive(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH];
    struct stat st;
    uint64_t keep = g->options.journal_keep;
    snprintf(path, sizeof path, "%s/archive", g->dir);
    if (keep == 0 && stat(path, &st) != 0)
        return 0;
    int rc = archive_open(path, keep, &g->archive, e);
    if (rc == 0 && keep > 0)
        journal_archive(g->journal, g->archive);
    return rc;
}

static int open_durable(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/rows", g->dir);
    int rc = store_rocks_open(path, tier_store_memory(g), &g->store, e);
    if (rc != 0)
        return rc;
    snprintf(path, sizeof path, "%s/journal", g->dir);
    uint64_t segment = g->options.segment_bytes;
    if (g->options.segment_bytes == 0)
        segment = SEGMENT_BYTES;
    /* The current segment cannot be trimmed, so it must be small compared with the limit. */
    uint64_t most;
    if (g->options.journal_max > 0)
        most = g->options.journal_max;
    else
        most = space_journal_max(&g->options);
    if (segment > most / 4)
        segment = most / 4;
    if (segment < JOURNAL_SEGMENT_MIN)
        segment = JOURNAL_SEGMENT_MIN;
    else if (segment > (1u << 30))
        segment = 1u << 30;
    else
        segment = segment / 4096 * 4096;
    SHOAL_ASSERT(segment >= JOURNAL_SEGMENT_MIN && segment % 4096 == 0);
    g->segment_bytes = (uint32_t)segment;
    rc = journal_open(path, g->segment_bytes, &g->journal, e);
    if (rc == 0 && g->options.until != 0)
        cut_give_up(g, g->options.until);
    if (rc == 0)
        rc = engine_recover(g, e);
    if (rc != 0)
        return rc;

    return open_archive(g, e);
}

/* Syncs the names of all files that a start makes. */
static int sync_names(const struct engine *g, struct err *e)
{
    if (file_sync_folder(g->dir) != 0 || file_sync_name(g->dir) != 0)
        return err_set(e, SHOAL_E_IO, "cannot sync the folder %s, or the one it is in: %s", g->dir,
                       strerror(errno));
    return 0;
}

int engine_open(const struct engine_options *options, struct env *env, struct engine **out,
                struct err *e)
{
    struct engine *g = calloc(1, sizeof *g);
    if (g == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a shard");
    g->options = *options;
    g->options.dir = NULL;
    g->env = env;
    g->lock_fd = -1;
    g->reload_rows = RELOAD_STEP_ROWS;
    g->readers.keep = UINT64_MAX;
    tier_init(g);
    fetch_init(g);
    int rc = arena_new(&g->arena);
    if (rc != 0)
        err_set(e, rc, "no memory for a shard's rows");
    if (rc == 0 && options->dir != NULL) {
        if (strlen(options->dir) + 64 > LIMIT_PATH)
            rc = err_set(e, SHOAL_E_CONFIG, "the folder name %s is too long", options->dir);
        else if ((g->dir = strdup(options->dir)) == NULL)
            rc = err_set(e, SHOAL_E_NOMEM, "no memory for a shard");
        else
            rc = lock_dir(g, e);
        if (rc == 0)
            rc = seed_settle(g->dir, e);
        if (rc == 0)
            rc = identity_open(g, e);
        if (rc == 0 && options->durability == DURABLE_MEMORY)
            rc = open_memory(g, e);
        else if (rc == 0)
            rc = open_durable(g, e);
        if (rc == 0)
            rc = sync_names(g, e);
        if (rc == 0) {
            cut_clean(g);
            space_open(g);
        }
    }
    if (rc == 0 && (g->guard = guard_new(g->dir, space_quarantine(options), options->wall_ns, env,
                                         &g->works)) == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a shard");
    if (rc != 0) {
        g->broken = true;
        engine_close(g, false);
        return rc;
    }
    SHOAL_ASSERT(g->pending == 0 && g->committed == g->sequence);
    *out = g;
    return 0;
}

/* After all rows are durable in the store: frees the other files. */
static void give_back(struct engine *g)
{
    struct err e = {0};
    int rc = 0;
    cut_clean(g); /* the thread that deletes a dropped cut may not have begun */
    if (flush_overgrown(g->store, flush_image_bytes(g)))
        rc = flush_tidy(g->store, &e);
    if (rc == 0 && g->control_durable == g->committed)
        rc = journal_shed(g->journal, &e);
    if (rc != 0)
        log_warn("%s keeps more of the disk than its rows take: %s", g->dir, e.text);
}

int engine_close(struct engine *g, bool flush)
{
    struct err e = {0};
    int rc = 0;
    engine_audit_stop(g);
    offload_drain(&g->works);
    SHOAL_ASSERT(!g->flush.busy && !g->syncing && !g->space.looking && fetch_none(g));
    guard_free(g->guard);
    bool back = engine_back(g);
    engine_jobs_close(g);
    g->holding = false; /* the hold ends with the process */
    if (g->journal != NULL && !g->broken)
        rc = engine_commit(g);
    if (flush && rc == 0 && g->store != NULL && !g->broken && back) {
        /* otherwise nothing was written, and the next start replays again */
        SHOAL_ASSERT(g->pending == 0 && !g->cut_busy);
        rc = flush_all(g, &e);
        if (rc != 0)
            log_error("closing %s: %s", g->dir, e.text);
        else
            give_back(g);
    }
    offload_drain(&g->works); /* work that closing began */
    copy_free(g);
    cut_free(g);
    flush_free(g);
    space_free(g);
    follow_free(g);
    fetch_free(g);
    engine_whole_free(g);
    store_close(g->store);
    journal_close(g->journal);
    archive_close(g->archive);
    runs_free(&g->runs);
    for (uint32_t i = 0; i < LIMIT_TABLES; i++)
        if (g->table[i].table != NULL)
            table_free(engine_table_take(g, i));
    arena_free(g->arena);
    for (uint32_t i = 0; i < g->loads; i++)
        arena_free(g->loaded[i].arena);
    free(g->led);
    identity_free(g);
    if (g->lock_fd >= 0)
        close(g->lock_fd);
    free(g->dir);
    free(g);
    return rc;
}

const char *engine_checksums(void)
{
    return rocks_crc32c_words();
}

const char *engine_library(void)
{
    return rocks_crc32c_library();
}
