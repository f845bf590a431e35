/* cut_keep.c: existing cuts: opens one for a restore, drops them, and keeps those that records of
 * the journal still need. What a cut is: cut.c; its manifest: part.h.
 *
 * 1. Segments are named with their valid bytes and the XXH3 of these. Row files are named with
 *    their sizes; their contents have checksums of their own (RocksDB's blocks and blobs, our
 *    images). [test: a_damaged_cut_is_refused_and_nothing_is_changed] */
#include "embedding/engine/cut.h"

#include "embedding/engine/copy_inner.h"
#include "embedding/engine/space.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int cut_read(const char *dir, enum cut_depth depth, struct part *out, struct err *e)
{
    int rc = part_read_cut(dir, out, e);

    for (uint32_t i = 0; i < out->files && rc == 0; i++)
        rc = part_check_file(out, i, depth == CUT_READ, e);
    return rc;
}

void cut_path(const struct engine *g, uint64_t cut, const char *tail, char *out)
{
    int n = snprintf(out, LIMIT_PATH, "%s/cuts/%" PRIu64 "%s", g->dir, cut, tail);
    SHOAL_ASSERT(n > 0 && (size_t)n < LIMIT_PATH); /* engine_open has checked it */
}

struct mem_cut *cut_mem_find(struct engine *g, uint64_t cut)
{
    for (uint32_t i = 0; i < g->mem_cut_count; i++)
        if (g->mem_cut[i].facts.cut == cut)
            return &g->mem_cut[i];
    return NULL;
}

void cut_mem_drop(struct engine *g, uint64_t cut)
{
    struct mem_cut *m = cut_mem_find(g, cut);
    if (m == NULL)
        return;
    store_close(m->store);
    *m = g->mem_cut[--g->mem_cut_count];
}

bool cut_referenced(const struct engine *g, uint64_t cut)
{
    for (uint32_t i = 0; i < g->ref_count; i++)
        if (g->ref[i].cut == cut)
            return true;
    return false;
}

bool cut_checked(const struct engine *g, uint64_t cut)
{
    return g->dir == NULL || (g->check.good && g->check.cut == cut);
}

void cut_uncheck(struct engine *g, uint64_t cut)
{
    if (g->check.cut == cut) {
        g->check.cut = 0;
        g->check.good = false;
    }
}

/* ---- opening a cut ---- */

int cut_open(struct engine *g, uint64_t cut, enum cut_depth depth, struct cut_source *out,
             struct err *e)
{
    *out = (struct cut_source){0};
    if (g->dir == NULL) {
        struct mem_cut *m = cut_mem_find(g, cut);
        if (m == NULL)
            return err_set(e, SHOAL_E_NOT_FOUND, "there is no cut %" PRIu64 " here", cut);
        out->store = m->store;
        out->facts = m->facts;
        return 0;
    }
    char dir[LIMIT_PATH], path[LIMIT_PATH];
    struct stat st;
    struct part part;
    cut_path(g, cut, "", dir);
    if (stat(dir, &st) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no cut %s", dir);
    int rc = cut_read(dir, depth, &part, e);
    out->facts = part.facts;
    part_free(&part);
    if (rc == 0 && out->facts.cut != cut)
        rc = err_set(e, SHOAL_E_CORRUPT, "%s holds cut %" PRIu64, dir, out->facts.cut);
    cut_path(g, cut, "/rows", path);
    if (rc == 0)
        rc = store_rocks_open_copy(path, &out->store, e);
    out->opened = rc == 0;
    cut_path(g, cut, "/journal", path);
    if (rc == 0)
        rc = journal_open_copy(path, &out->journal, e);
    if (rc != 0)
        cut_source_close(out);
    return rc;
}

void cut_source_close(struct cut_source *s)
{
    if (s->opened)
        store_close(s->store);
    journal_close(s->journal);
    *s = (struct cut_source){0};
}

static struct table_set facts_tables(const struct cut_facts *f)
{
    return table_set_any(f->tables) ? f->tables : f->existing;
}

struct table_set engine_cut_tables(struct engine *g, uint64_t cut)
{
    const struct mem_cut *m = cut_mem_find(g, cut);
    if (g->holding && g->held.cut == cut)
        return facts_tables(&g->held);
    if (m != NULL)
        return facts_tables(&m->facts);
    if (g->dir == NULL)
        return TABLE_SET_ALL;

    char dir[LIMIT_PATH];
    struct part part;
    struct err e = {0};
    cut_path(g, cut, "", dir);
    struct table_set tables = TABLE_SET_ALL;
    if (part_read_cut(dir, &part, &e) == 0)
        tables = facts_tables(&part.facts);
    part_free(&part);
    return tables;
}

/* ---- dropping ---- */

struct drop_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    char path[LIMIT_PATH];
};

static void drop_run(struct offload *w)
{
    if (file_remove_tree(container_of(w, struct drop_work, work)->path) != 0)
        log_warn("cannot remove %s; it is removed at the next start",
                 container_of(w, struct drop_work, work)->path);
}

static void drop_done(struct offload *w)
{
    if (!w->cancelled)
        space_look(container_of(w, struct drop_work, work)->g);
}

/* The name goes at once; an I/O thread deletes the files. */
static int drop_now(struct engine *g, uint64_t cut)
{
    char path[LIMIT_PATH];
    SHOAL_ASSERT(!cut_referenced(g, cut));
    struct drop_work *w = calloc(1, sizeof *w);
    if (w == NULL)
        return SHOAL_E_NOMEM;
    cut_path(g, cut, "", path);
    cut_path(g, cut, ".tmp", w->path);
    if (file_rename(path, w->path) != 0) {
        free(w);
        if (errno == ENOENT)
            return 0;
        return SHOAL_E_IO;
    }
    w->g = g;
    engine_work(g, &w->work, drop_run, drop_done);
    return 0;
}

int engine_cut_drop(struct engine *g, uint64_t cut)
{
    if (g->exporting == cut && cut != 0) {
        g->export_drop = true;
        return 0;
    }
    if (engine_restoring(g)) /* it may be this cut */
        return SHOAL_E_BUSY;
    cut_uncheck(g, cut);
    cut_mem_drop(g, cut);
    if (g->dir == NULL)
        return 0;
    for (uint32_t i = 0; i < g->ref_count; i++)
        if (g->ref[i].cut == cut) {
            char path[LIMIT_PATH];
            cut_path(g, cut, "/dropped", path);
            int fd = file_open(path, O_WRONLY | O_CREAT, 0600);
            if (fd >= 0)
                close(fd);
            g->ref[i].drop = true;
            if (fd < 0 && errno != ENOENT)
                return SHOAL_E_IO;
            return 0;
        }
    return drop_now(g, cut);
}

int cut_ref_add(struct engine *g, uint64_t cut, uint64_t sequence)
{
    if (g->ref_count == ENGINE_CUT_REFS)
        return SHOAL_E_BUSY;
    char path[LIMIT_PATH];
    struct stat st;
    cut_path(g, cut, "/dropped", path);
    g->ref[g->ref_count++] =
        (struct cut_ref){.cut = cut, .sequence = sequence, .drop = stat(path, &st) == 0};
    return 0;
}

void cut_refs_trim(struct engine *g, uint64_t trimmed)
{
    for (uint32_t i = 0; i < g->ref_count;) {
        struct cut_ref gone = g->ref[i];
        if (gone.sequence > trimmed) {
            i++;
            continue;
        }
        g->ref[i] = g->ref[--g->ref_count];
        bool other = false;
        for (uint32_t k = 0; k < g->ref_count; k++)
            if (g->ref[k].cut == gone.cut) {
                g->ref[k].drop |= gone.drop;
                other = true;
            }
        if (gone.drop && !other && engine_cut_drop(g, gone.cut) != 0)
            log_warn("cut %" PRIu64 " cannot be removed; drop it again", gone.cut);
    }
}

void cut_give_up(struct engine *g, uint64_t until)
{
    char path[LIMIT_PATH], dir[LIMIT_PATH], gone[LIMIT_PATH];
    struct file_walk walk;
    const char *entry;
    snprintf(path, sizeof path, "%s/cuts", g->dir);
    if (!file_walk_open(&walk, path))
        return;
    while ((entry = file_walk_next(&walk)) != NULL) {
        uint64_t cut;
        char tail[8] = "";
        struct part part;
        struct err e;
        if (sscanf(entry, "%" SCNu64 "%7s", &cut, tail) < 1 || tail[0] != '\0')
            continue;
        cut_path(g, cut, "", dir);
        cut_path(g, cut, ".tmp", gone); /* cut_clean removes it */
        bool behind = part_read_cut(dir, &part, &e) == 0 && part.facts.sequence > until;
        part_free(&part);
        if (behind && (file_remove_tree(gone) != 0 || file_rename(dir, gone) != 0))
            log_warn("cut %" PRIu64 " is of a record that the leader does not have, and cannot be "
                     "removed; drop it",
                     cut);
    }
    file_walk_close(&walk);
    (void)file_sync_folder(path);
}

void cut_clean(struct engine *g)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/cuts", g->dir);
    struct file_walk walk;
    const char *entry;
    if (!file_walk_open(&walk, path))
        return;
    while ((entry = file_walk_next(&walk)) != NULL) {
        uint64_t cut;
        char tail[8] = "", inner[LIMIT_PATH];
        struct stat st;
        if (sscanf(entry, "%" SCNu64 "%7s", &cut, tail) < 1)
            continue;
        bool unfinished = strcmp(tail, ".tmp") == 0;
        cut_path(g, cut, "/dropped", inner);
        bool dropped = tail[0] == '\0' && stat(inner, &st) == 0 && !cut_referenced(g, cut);
        cut_path(g, cut, unfinished ? ".tmp" : "", inner);
        dropped |= tail[0] == '\0' && copy_private(cut);
        if ((unfinished || dropped) && file_remove_tree(inner) != 0)
            log_warn("cannot remove %s", inner);
    }
    file_walk_close(&walk);
}
