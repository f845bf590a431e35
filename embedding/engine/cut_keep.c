/* cut_keep.c: cuts that are there: the manifest that names a cut's files, opening one for a
 * restore, dropping, and what the journal's records still need. What a cut is: cut.c.
 *
 *  1. The last line holds the XXH3 of all lines before it; a manifest without it, or with another,
 *     is no manifest. [test: a_damaged_cut_is_refused_and_nothing_is_changed]
 *  2. Segments are named with the bytes that count and their XXH3. Row files are named with their
 *     sizes; what is in them carries checksums of its own (RocksDB's blocks and blobs, our images).
 *     [test: a_damaged_cut_is_refused_and_nothing_is_changed]
 */
#include "embedding/engine/cut.h"

#include "embedding/engine/space.h"
#include "embedding/store/stored.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (1u << 20)
#define MANIFEST_BYTES_MAX (16u << 20)

int cut_file_checksum(const char *path, uint64_t bytes, uint64_t *checksum)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *chunk = malloc(CHUNK);
    int rc = fd < 0 ? SHOAL_E_NOT_FOUND : chunk == NULL ? SHOAL_E_NOMEM : 0;
    *checksum = 0;
    while (rc == 0 && bytes > 0) {
        size_t want = bytes < CHUNK ? (size_t)bytes : CHUNK, have = 0;
        while (have < want) {
            ssize_t n = read(fd, chunk + have, want - have);
            if (n <= 0)
                break;
            have += (size_t)n;
        }
        if (have < want)
            rc = SHOAL_E_CORRUPT;
        *checksum = hash_bytes(chunk, have, *checksum);
        bytes -= have;
    }
    free(chunk);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* Lines "rows NAME BYTES" of every file in dir/rows. */
static int list_rows(FILE *out, const char *dir, uint64_t *bytes)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/rows", dir);
    struct file_walk w;
    const char *name;
    if (!file_walk_open(&w, path))
        return SHOAL_E_IO;
    int rc = 0;
    while ((name = file_walk_next(&w)) != NULL) {
        char inner[LIMIT_PATH];
        struct stat st;
        int n = snprintf(inner, sizeof inner, "%s/%s", path, name);
        if (n < 0 || (size_t)n >= sizeof inner || stat(inner, &st) != 0)
            rc = SHOAL_E_IO;
        else if (S_ISREG(st.st_mode) && strcmp(name, "LOCK") != 0 && strncmp(name, "LOG", 3) != 0) {
            fprintf(out, "rows %s %" PRIu64 "\n", name, (uint64_t)st.st_size);
            *bytes += (uint64_t)st.st_size;
        }
    }
    file_walk_close(&w);
    return rc;
}

int cut_text_write(const char *dir, FILE *out, char **text, const size_t *bytes, struct err *e)
{
    char path[LIMIT_PATH];
    fflush(out);
    fprintf(out, "end %016" PRIx64 "\n", hash_bytes(*text, *bytes, 0));
    int rc = ferror(out) != 0 || fclose(out) != 0 ? SHOAL_E_NOMEM : 0;
    snprintf(path, sizeof path, "%s/manifest", dir);
    int fd = rc == 0 ? file_open(path, O_WRONLY | O_CREAT | O_EXCL, 0640) : -1;
    if (rc == 0)
        rc = fd >= 0 && file_write_all(fd, *text, *bytes) == 0 && file_sync(fd) == 0 ? 0
                                                                                     : SHOAL_E_IO;
    if (rc != 0)
        err_set(e, rc, "cannot write %s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    free(*text);
    return rc;
}

void cut_sizes_write(FILE *out, const struct cut_facts *facts)
{
    for (uint32_t i = 0; facts->sized && i < LIMIT_TABLES; i++)
        if (facts->existing >> i & 1)
            fprintf(out, " %u:%" PRIu64 ":%" PRIu64, i, facts->table_rows[i],
                    facts->table_bytes[i]);
}

bool cut_sizes_read(const char *text, struct cut_facts *facts)
{
    uint64_t rows, bytes;
    uint32_t table;
    int used = 0;
    facts->sized = *text != '\0';
    for (; *text != '\0'; text += used) {
        if (sscanf(text, " %u:%" SCNu64 ":%" SCNu64 "%n", &table, &rows, &bytes, &used) != 3 ||
            table >= LIMIT_TABLES)
            return false;
        facts->table_rows[table] = rows;
        facts->table_bytes[table] = bytes;
    }
    return true;
}

int cut_manifest_write(const char *dir, struct cut_facts *facts, const struct cut_file *segment,
                       size_t segments, struct err *e)
{
    char *text = NULL;
    size_t bytes = 0;
    SHOAL_ASSERT(facts->lanes <= LIMIT_LANES);
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the manifest of cut %" PRIu64, facts->cut);
    fprintf(out,
            "shoal cut 2\ncut %" PRIu64 "\nsequence %" PRIu64 "\nexisting %016" PRIx64
            "\ncount %" PRIu64,
            facts->cut, facts->sequence, facts->existing, facts->rows);
    cut_sizes_write(out, facts);
    fputc('\n', out);
    fprintf(out, "run %" PRIu64 " %016" PRIx64 " %u %u\n", facts->run, facts->tables, facts->lanes,
            facts->mode);
    for (uint32_t lane = 0; lane < facts->lanes; lane++)
        fprintf(out, "lane %u %" PRIu64 "\n", lane, facts->lowest[lane]);
    facts->bytes = 0;
    for (size_t i = 0; i < segments; i++) {
        fprintf(out, "segment %s %" PRIu64 " %016" PRIx64 "\n", segment[i].name, segment[i].bytes,
                segment[i].checksum);
        facts->bytes += segment[i].bytes;
    }
    int rc = list_rows(out, dir, &facts->bytes);
    fprintf(out, "bytes %" PRIu64 "\n", facts->bytes);
    if (rc == 0)
        return cut_text_write(dir, out, &text, &bytes, e);
    fclose(out);
    free(text);
    return err_set(e, rc, "cannot list %s/rows: %s", dir, strerror(errno));
}

static int read_text(const char *dir, char **text, size_t *bytes)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%s/manifest", dir);
    if (file_read_whole(path, MANIFEST_BYTES_MAX, text, bytes) != 0)
        return errno == EFBIG || errno == ENOMEM || errno == EIO ? SHOAL_E_CORRUPT
                                                                 : SHOAL_E_NOT_FOUND;
    if (*bytes > 0)
        return 0;
    free(*text);
    return SHOAL_E_CORRUPT;
}

/* Cuts the last line off and checks it, letter by letter: a flipped bit may leave the same number
 * behind. */
static bool text_whole(char *text, size_t bytes)
{
    char end[32];
    const size_t end_bytes = sizeof "end 0123456789abcdef\n" - 1;
    if (bytes < end_bytes)
        return false;
    snprintf(end, sizeof end, "end %016" PRIx64 "\n", hash_bytes(text, bytes - end_bytes, 0));
    if (memcmp(text + bytes - end_bytes, end, end_bytes) != 0)
        return false;
    text[bytes - end_bytes] = '\0';
    return true;
}

int cut_text_read(const char *dir, const struct signature *signature, const char *name, char **text,
                  struct err *e)
{
    size_t bytes;
    int rc = read_text(dir, text, &bytes);
    if (rc != 0) {
        *text = NULL;
        return err_set(e, rc, "%s/manifest: %s", dir, err_text(rc));
    }
    if (signature != NULL)
        rc = signature_check_bytes(signature, name, *text, bytes, e);
    if (rc == 0 && text_whole(*text, bytes))
        return 0;
    free(*text);
    *text = NULL;
    return rc != 0 ? rc
                   : err_set(e, SHOAL_E_CORRUPT,
                             "%s/manifest does not end in its own checksum; use another one", dir);
}

struct named { /* a line of the manifest */
    const char *folder, *name;
    uint64_t bytes, checksum;
    bool front; /* the file may be longer */
    bool read;  /* its checksum is looked at */
};

static int check_file(const char *dir, const struct named *f, struct err *e)
{
    char path[LIMIT_PATH];
    struct stat st;
    uint64_t sum;
    snprintf(path, sizeof path, "%s/%s/%s", dir, f->folder, f->name);
    if (strchr(f->name, '/') != NULL || stat(path, &st) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s is missing, though the manifest names it; use another cut", path);
    uint64_t has = (uint64_t)st.st_size;
    bool good = f->front ? has >= f->bytes : has == f->bytes;
    if (good && f->read)
        good = cut_file_checksum(path, f->bytes, &sum) == 0 && sum == f->checksum;
    return good ? 0
                : err_set(e, SHOAL_E_CORRUPT, "%s is not what the manifest says; use another cut",
                          path);
}

static int check_line(const char *dir, enum cut_depth depth, const char *line, struct cut_facts *f,
                      struct err *e)
{
    char name[256];
    uint64_t bytes, sum, mark;
    uint32_t lane;
    int at = 0;
    if (sscanf(line, "count %" SCNu64 "%n", &f->rows, &at) == 1 && cut_sizes_read(line + at, f))
        return 0;
    if (sscanf(line, "segment %255s %" SCNu64 " %16" SCNx64, name, &bytes, &sum) == 3)
        return check_file(dir,
                          &(struct named){"journal", name, bytes, sum, true, depth == CUT_READ}, e);
    if (sscanf(line, "rows %255s %" SCNu64, name, &bytes) == 2)
        return check_file(dir, &(struct named){"rows", name, bytes, 0, false, false}, e);
    if (sscanf(line, "run %" SCNu64 " %16" SCNx64 " %u %u", &f->run, &f->tables, &f->lanes,
               &f->mode) == 4 ||
        sscanf(line, "cut %" SCNu64, &f->cut) == 1 ||
        sscanf(line, "sequence %" SCNu64, &f->sequence) == 1 ||
        sscanf(line, "bytes %" SCNu64, &f->bytes) == 1 ||
        sscanf(line, "existing %16" SCNx64, &f->existing) == 1 || strcmp(line, "shoal cut 2") == 0)
        return 0;
    if (sscanf(line, "lane %u %" SCNu64, &lane, &mark) == 2 && lane < LIMIT_LANES) {
        f->lowest[lane] = mark;
        return 0;
    }
    return err_set(e, SHOAL_E_CORRUPT, "%s/manifest: line \"%.40s\" is not understood", dir, line);
}

int cut_manifest_check(const char *dir, enum cut_depth depth, struct cut_facts *facts,
                       struct err *e)
{
    char *text, *rest = NULL;
    *facts = (struct cut_facts){0};
    int rc = cut_text_read(dir, NULL, NULL, &text, e);
    for (char *line = rc == 0 ? strtok_r(text, "\n", &rest) : NULL; line != NULL && rc == 0;
         line = strtok_r(NULL, "\n", &rest))
        rc = check_line(dir, depth, line, facts, e);
    free(text);
    return rc;
}

void cut_path(const struct engine *g, uint64_t cut, const char *tail, char *out)
{
    int n = snprintf(out, LIMIT_PATH, "%s/cuts/%" PRIu64 "%s", g->dir, cut, tail);
    SHOAL_ASSERT(n > 0 && (size_t)n < LIMIT_PATH); /* engine_open has seen to it */
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
    return g->dir == NULL || (g->check.good && g->check.cut == cut) || PLANTED("restore_unread");
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
    cut_path(g, cut, "", dir);
    if (stat(dir, &st) != 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "there is no cut %s", dir);
    int rc = cut_manifest_check(dir, depth, &out->facts, e);
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

/* ---- dropping ---- */

struct drop_work {
    struct work work; /* first */
    struct engine *g; /* borrowed */
    char path[LIMIT_PATH];
};

static void drop_run(struct work *w)
{
    if (file_remove_tree(container_of(w, struct drop_work, work)->path) != 0)
        log_warn("cannot remove %s; it is removed at the next start",
                 container_of(w, struct drop_work, work)->path);
}

static void drop_done(struct work *w)
{
    if (!w->cancelled)
        space_look(container_of(w, struct drop_work, work)->g);
}

/* The name goes at once, the files on an I/O thread. */
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
        return errno == ENOENT ? 0 : SHOAL_E_IO;
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
    if (engine_restoring(g)) /* it may be this one */
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
            return fd >= 0 || errno == ENOENT ? 0 : SHOAL_E_IO;
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
                g->ref[k].drop |= gone.drop && !PLANTED("dropped_by_the_first");
                other = true;
            }
        if (gone.drop && !other && engine_cut_drop(g, gone.cut) != 0)
            log_warn("cut %" PRIu64 " cannot be removed; drop it again", gone.cut);
    }
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
        if ((unfinished || dropped) && file_remove_tree(inner) != 0)
            log_warn("cannot remove %s", inner);
    }
    file_walk_close(&walk);
}
