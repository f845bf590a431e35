/* export.c: a complete cut becomes one part of a checkpoint (part.h).
 *
 *  1. A part is PATH/part-PPPP: complete or not there. It is made as part-PPPP.tmp, every file and
 *     folder synced, and named by one rename; the next export removes the remains of one that was
 *     killed. [test: an_export_is_whole_or_not_there]
 *  2. The part shares no file that is still written: row files and full journal segments never
 *     change and are linked; the segment that the shard was writing is copied up to the end of the
 *     cut. A linked segment is never used again (segment.h, 2).
 *     [test: a_linked_segment_is_never_written_again,
 *     the_loaded_run_goes_on_where_the_saved_one_would_have]
 *  3. The cut stays while it is exported: dropping it waits (cut_keep.c), making another one under
 *     its number is refused. [assert: export_done]
 *     [test: a_cut_dropped_while_it_is_exported_goes_afterwards]
 *  4. The engine's present schemas are those of the cut: a cut from before a change of schema is
 *     refused. The tablets that it leads are those of the cut, too: none moves between a
 *     checkpoint's cut and the end of its export (server/coord/fleet/moves.h, 2).
 *     [test: saved_by_n_and_loaded_by_m_is_the_same]
 */
#include "embedding/engine/cut.h"
#include "embedding/engine/part.h"
#include "embedding/engine/space.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/log.h"
#include "proto/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct export_work {
    struct offload work; /* first */
    struct engine *g;    /* borrowed */
    /* schemas, tablets and, for a cut in memory, facts; export_run fills in the rest */
    struct part part;
    struct table_set tables;        /* as in engine_export */
    uint64_t changed[LIMIT_TABLES]; /* sequence of each table's last change of schema; 0: none */
    struct store *store;            /* borrowed; the store of a cut in memory, else NULL */
    char cut[LIMIT_PATH], path[LIMIT_PATH], dir[LIMIT_PATH], tmp[LIMIT_PATH];
    engine_export_done done;
    void *context;
    int status;
    struct err err;
};

/* ---- the I/O thread's part ---- */

static int cannot(struct err *e, const char *what, const char *path)
{
    int code = SHOAL_E_CANTCREATE;
    if (errno == ENOSPC || errno == EDQUOT)
        code = SHOAL_E_NO_SPACE;
    return err_set(e, code, "cannot %s %s: %s", what, path, strerror(errno));
}

/* Copies the first `most` bytes of a file (UINT64_MAX: all) to a new file, synced. */
static int copy_file(const char *from, const char *to, uint64_t most, struct err *e)
{
    int in = open(from, O_RDONLY | O_CLOEXEC),
        out = file_open(to, O_WRONLY | O_CREAT | O_EXCL, 0640), rc = 0;
    if (in < 0)
        rc = cannot(e, "read", from);
    else if (out < 0 || file_copy(in, out, most) != 0 || file_sync_data(out) != 0)
        rc = cannot(e, "write", to);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return rc;
}

/* Links a file that never changes; copies it if the file system has no links, or is another one. */
static int link_file(const char *from, const char *to, struct err *e)
{
    if (file_link(from, to) == 0) {
        if (file_sync_path(to) != 0)
            return cannot(e, "sync", to);
        return 0;
    }
    if (errno == ENOENT)
        return cannot(e, "link", from);
    return copy_file(from, to, UINT64_MAX, e);
}

static int add_file(struct export_work *x, const char *name, struct err *e)
{
    char path[LIMIT_PATH + PART_NAME_BYTES];
    uint64_t bytes, sum;
    snprintf(path, sizeof path, "%s/%s", x->tmp, name);
    int rc = part_checksum(path, UINT64_MAX, false, &bytes, &sum);
    if (rc == 0)
        rc = part_add_file(&x->part, name, bytes, &sum);
    if (rc != 0)
        return err_set(e, rc, "cannot take %s into the checkpoint: %s", path, err_text(rc));
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct part_file *)a)->name, ((const struct part_file *)b)->name);
}

/* Links the row files from the cut (from), unless they are already in place (NULL), and names all
 * of them. */
static int take_rows(struct export_work *x, const char *from, struct err *e)
{
    char path[LIMIT_PATH], source[LIMIT_PATH + 320], target[LIMIT_PATH + 320],
        name[PART_NAME_BYTES];
    snprintf(path, sizeof path, "%.*s/rows", (int)LIMIT_PATH - 6, from != NULL ? from : x->tmp);
    struct file_walk walk;
    const char *entry;
    if (!file_walk_open(&walk, path))
        return cannot(e, "read", path);
    int rc = 0;
    while (rc == 0 && (entry = file_walk_next(&walk)) != NULL) {
        snprintf(source, sizeof source, "%s/%s", path, entry);
        snprintf(target, sizeof target, "%s/rows/%s", x->tmp, entry);
        if (part_passes_over(entry)) {
            if (from == NULL && entry[0] != '.')
                file_unlink(source);
            continue;
        }
        int n = snprintf(name, sizeof name, "rows/%.64s", entry);
        if (n < 0 || (size_t)n >= sizeof name)
            rc = err_set(e, SHOAL_E_TOO_BIG, "the name of %s is too long", source);
        if (rc == 0 && from != NULL)
            rc = link_file(source, target, e);
        if (rc == 0)
            rc = add_file(x, name, e);
    }
    file_walk_close(&walk);
    return rc;
}

/* Takes the cut's segments, in order; the shard may still be writing the last one (2). */
static int take_journal(struct export_work *x, const struct part *cut, struct err *e)
{
    char from[LIMIT_PATH + PART_NAME_BYTES], to[LIMIT_PATH + PART_NAME_BYTES];
    uint32_t last = UINT32_MAX;
    int rc = 0;

    for (uint32_t i = 0; i < cut->files; i++)
        if (cut->file[i].summed)
            last = i;
    for (uint32_t i = 0; i < cut->files && rc == 0; i++) {
        const struct part_file *f = &cut->file[i];
        if (!f->summed)
            continue;
        snprintf(from, sizeof from, "%s/%s", x->cut, f->name);
        snprintf(to, sizeof to, "%s/%s", x->tmp, f->name);
        if (i == last)
            rc = copy_file(from, to, f->bytes, e);
        else
            rc = link_file(from, to, e);
        if (rc == 0)
            rc = add_file(x, f->name, e);
    }
    return rc;
}

/* Makes a folder that the group may write, as far as umask allows: the coordinator removes
 * checkpoints. */
static int make_folder(const char *base, const char *tail, struct err *e)
{
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s%s", base, tail);
    if (file_mkdir(path, 0770) != 0 && (tail[0] != '\0' || errno != EEXIST))
        return cannot(e, "create", path);
    return 0;
}

static int sync_folder(const char *base, const char *tail, struct err *e)
{
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s%s", base, tail);
    if (file_sync_folder(path) != 0)
        return cannot(e, "sync", path);
    return 0;
}

/* Leaves out tables that were made after the cut. */
static void leave_out_younger(struct part *p)
{
    uint32_t tables = 0, ranges = 0;
    for (uint32_t i = 0; i < p->tables; i++)
        if (table_set_has(&p->facts.existing, p->schema[i].table))
            p->schema[tables++] = p->schema[i];
    for (uint32_t i = 0; i < p->ranges; i++)
        if (table_set_has(&p->facts.existing, p->range[i].table))
            p->range[ranges++] = p->range[i];
    SHOAL_ASSERT(tables <= p->tables && ranges <= p->ranges);
    p->tables = tables;
    p->ranges = ranges;
}

/* Takes the cut's files, with the names and checksums that they have in a checkpoint. */
static int fill_part(struct export_work *x, const struct part *cut, struct err *e)
{
    char rows[LIMIT_PATH];
    struct stat there;
    int rc;

    if (stat(x->path, &there) != 0) /* the coordinator makes it */
        return err_set(e, SHOAL_E_NOINPUT,
                       "%s is not there: the folder of checkpoints must be one that coordinator "
                       "and all servers share",
                       x->path);
    if ((rc = make_folder(x->tmp, "", e)) != 0 || (rc = make_folder(x->tmp, "/journal", e)) != 0 ||
        (rc = make_folder(x->tmp, "/rows", e)) != 0)
        return rc;
    snprintf(rows, sizeof rows, "%.*s/rows", (int)LIMIT_PATH - 6, x->tmp);
    if (x->store != NULL)
        rc = cut_copy_rows(x->store, rows, e);
    if (rc == 0)
        rc = take_rows(x, x->store != NULL ? NULL : x->cut, e);
    if (rc == 0)
        rc = take_journal(x, cut, e);
    if (rc != 0)
        return rc;
    qsort(x->part.file, x->part.files, sizeof *x->part.file, by_name);
    if ((rc = sync_folder(x->tmp, "/rows", e)) == 0 &&
        (rc = sync_folder(x->tmp, "/journal", e)) == 0 &&
        (rc = part_write(x->tmp, &x->part, e)) == 0)
        rc = sync_folder(x->tmp, "", e);
    return rc;
}

/* Leaves out tables of other spaces. */
static void leave_out_others(struct cut_facts *f, struct table_set asked)
{
    struct table_set tables = f->tables;
    if (f->run == 0) {
        tables = table_set_or_all(asked);
        f->tables = TABLE_SET_NONE; /* no run counts in them */
    }
    const struct table_set others = table_set_less(f->existing, tables);
    TABLE_SET_EACH (t, &others)
        if (f->sized)
            f->rows -= f->table_rows[t];
    f->existing = table_set_and(f->existing, tables);
}

static int make_part(struct export_work *x, struct err *e)
{
    struct part cut = {.facts = x->part.facts}; /* without files if it is in memory */
    int rc = 0;

    SHOAL_ASSERT(x->part.files == 0 && x->part.part < x->part.parts);
    if (file_remove_tree(x->tmp) != 0)
        return cannot(e, "remove", x->tmp);
    if (x->store == NULL)
        rc = cut_read(x->cut, CUT_READ, &cut, e);
    if (rc == 0)
        leave_out_others(&cut.facts, x->tables);
    for (uint32_t i = 0; i < LIMIT_TABLES && rc == 0; i++)
        if (table_set_has(&cut.facts.existing, i) && x->changed[i] > cut.facts.sequence)
            rc = err_set(e, SHOAL_E_SCHEMA,
                         "cut %" PRIu64 " is of before table %u got the schema that it has: make "
                         "another checkpoint",
                         cut.facts.cut, i);
    if (rc == 0) {
        x->part.facts = cut.facts;
        x->part.facts.bytes = 0; /* the export counts it from the files it takes */
        leave_out_younger(&x->part);
        rc = fill_part(x, &cut, e);
    }
    part_free(&cut);
    return rc;
}

/* Answers for an existing part: it is either this one, from an earlier export, or another. */
static int answer_again(struct export_work *x, struct err *e)
{
    struct part there;
    int rc = part_read(x->dir, NULL, &there, e);
    if (rc == 0 && (there.facts.cut != x->part.facts.cut || there.part != x->part.part ||
                    there.parts != x->part.parts))
        rc = err_set(e, SHOAL_E_EXISTS,
                     "%s holds part %u of %u of cut %" PRIu64 "; choose another folder", x->dir,
                     there.part, there.parts, there.facts.cut);
    for (uint32_t i = 0; i < there.files && rc == 0; i++)
        rc = part_check_file(&there, i, false, e);
    x->part.facts = there.facts;
    part_free(&there);
    return rc;
}

static void export_run(struct offload *w)
{
    struct export_work *x = container_of(w, struct export_work, work);
    struct stat st;
    if (stat(x->dir, &st) == 0) {
        x->status = answer_again(x, &x->err);
        return;
    }
    struct cut_facts before = x->part.facts;
    x->status = make_part(x, &x->err);
    if (x->status == 0 && x->part.facts.cut != before.cut)
        x->status =
            err_set(&x->err, SHOAL_E_CORRUPT, "%s holds cut %" PRIu64, x->cut, x->part.facts.cut);
    if (x->status == 0 && (file_rename(x->tmp, x->dir) != 0 || file_sync_folder(x->path) != 0))
        x->status = cannot(&x->err, "name", x->dir);
    if (x->status != 0)
        file_remove_tree(x->tmp);
}

static void export_done(struct offload *w)
{
    struct export_work *x = container_of(w, struct export_work, work);
    struct engine *g = x->g;
    bool drop = g->export_drop;
    uint64_t cut = g->exporting;
    SHOAL_ASSERT(cut != 0); /* 3 */
    g->exporting = 0;
    g->export_drop = false;
    const struct cut_facts facts = x->part.facts;
    SHOAL_ASSERT(x->status != 0 || facts.cut == cut); /* 3 */
    part_free(&x->part);
    if (w->cancelled)
        return;
    if (x->status != 0)
        log_warn("cut %" PRIu64 " was not put into %s: %s", cut, x->dir, x->err.text);
    if (x->status == 0)
        space_note_part(g, x->dir);
    if (drop && engine_cut_drop(g, cut) != 0)
        log_warn("cut %" PRIu64 " cannot be removed; drop it again", cut);
    x->done(x->context, x->status, x->status == 0 ? "" : x->err.text, facts.rows, facts.bytes);
}

/* ---- the shard's part ---- */

/* Lists schemas, and ranges of led tablets. */
static int list_tablets(const struct engine *g, struct export_work *x)
{
    struct part *p = &x->part;
    if (array_reserve(&p->schema, table_set_count(g->here), &p->schema_capacity) != 0)
        return SHOAL_E_NOMEM;
    TABLE_SET_EACH (i, &g->here) {
        const struct engine_table *t = &g->table[i];
        p->schema[p->tables++] = *table_schema_of(t->table);
        x->changed[i] = table_past(t->table)->sequence;
        for (uint32_t k = 0, end; k < t->scope.tablets; k = end) {
            end = k + 1;
            if (!t->scope.led[k])
                continue;
            while (end < t->scope.tablets && t->scope.led[end])
                end++;
            SHOAL_ASSERT(end <= t->scope.tablets && p->tables <= LIMIT_TABLES);
            if (part_add_range(p, i, k, end - k) != 0)
                return SHOAL_E_NOMEM;
        }
    }
    return 0;
}

static int find_cut(struct engine *g, uint64_t cut, struct export_work *x, struct err *e)
{
    SHOAL_ASSERT(cut != 0 && g->exporting == 0);
    struct mem_cut *m = NULL;
    struct stat st;
    x->part.facts.cut = cut;
    if (g->dir == NULL)
        m = cut_mem_find(g, cut);
    else
        cut_path(g, cut, "", x->cut);
    if (m != NULL) {
        x->store = m->store;
        x->part.facts = m->facts;
    } else if (g->dir == NULL || stat(x->cut, &st) != 0) {
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no complete cut %" PRIu64 " here", cut);
    }
    return 0;
}

int engine_cut_export_tables(struct engine *g, const struct engine_export *what,
                             engine_export_done done, void *context, struct err *e)
{
    const char *path = what->path;
    uint64_t cut = what->cut;
    uint32_t part = what->part, parts = what->parts;
    if (g->broken)
        return err_set(e, SHOAL_E_IO, "this shard's disk failed; it is restarting");
    if (cut == 0 || part >= parts || parts > LIMIT_SHARDS || path[0] != '/' ||
        strlen(path) + 64 > LIMIT_PATH)
        return err_set(e, SHOAL_E_MALFORMED,
                       "part %u of %u of cut %" PRIu64
                       " into \"%.200s\": a path from the root is needed",
                       part, parts, cut, path);
    int rc = part_path_check(g->options.checkpoint_root, path, e);
    if (rc != 0)
        return rc;
    if (g->exporting != 0)
        return err_set(e, SHOAL_E_BUSY, "cut %" PRIu64 " is being exported; ask again",
                       g->exporting);
    if (g->led_count == 0)
        return err_set(e, SHOAL_E_AGAIN, "this shard has no map yet; ask again");
    struct export_work *x = calloc(1, sizeof *x);
    if (x == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to export cut %" PRIu64, cut);
    rc = find_cut(g, cut, x, e);
    if (rc == 0 && (rc = list_tablets(g, x)) != 0)
        err_set(e, rc, "no memory to export cut %" PRIu64, cut);
    if (rc != 0) {
        part_free(&x->part);
        free(x);
        return rc;
    }
    x->g = g;
    x->tables = what->tables;
    x->part.part = part;
    x->part.parts = parts;
    text_copy(x->path, sizeof x->path, path);
    part_path(path, part, "", x->dir);
    part_path(path, part, ".tmp", x->tmp);
    x->done = done;
    x->context = context;
    g->exporting = cut;
    engine_work(g, &x->work, export_run, export_done);
    return 0;
}

int engine_cut_export(struct engine *g, uint64_t cut, const char *path, uint32_t part,
                      uint32_t parts, engine_export_done done, void *context, struct err *e)
{
    const struct engine_export what = {.cut = cut, .path = path, .part = part, .parts = parts};
    return engine_cut_export_tables(g, &what, done, context, e);
}
