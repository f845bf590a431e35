/* part.c: the manifest of a part, and the files it names.
 *
 *  1. Nothing of a manifest is believed before its last line has been found right, and then every
 *     number is still checked against its limits. [test: every_damage_is_refused_by_name]
 *  2. A file is as the manifest says when size and XXH3 of all its bytes agree; a file in rows/ or
 *     journal/ that is not named does not belong there (a foreign segment would be replayed).
 *     [test: verify_names_every_file_and_a_tablet]
 */
#include "embedding/checkpoint/part.h"

#include "embedding/engine/cut.h"
#include "embedding/journal/record_schema.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
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
#define PART_VERSION 2u

void part_free(struct part *p)
{
    free(p->schema);
    free(p->range);
    free(p->file);
    *p = (struct part){0};
}

int part_path_check(const char *root, const char *path, struct err *e)
{
    if (root == NULL || PLANTED("path_escape"))
        root = "";
    if (file_below(root, path) == 0)
        return 0;
    if (errno == ENOENT)
        return err_set(e, SHOAL_E_DENIED,
                       "%.300s is not there: make the folder that checkpoint_root in this server's "
                       "server.yaml names, for servers and coordinator to write in, or take the "
                       "line out",
                       root);
    return errno == EINVAL
               ? err_set(e, SHOAL_E_MALFORMED,
                         "\"%.200s\" does not begin with '/', or has '.' or "
                         "'..' in it",
                         path)
               : err_set(e, SHOAL_E_DENIED,
                         "%.400s is not below %.300s, or by a link (%s): this server writes and "
                         "loads checkpoints there alone (checkpoint_root in its server.yaml)",
                         path, root, strerror(errno));
}

void part_path(const char *path, uint32_t part, const char *tail, char *out)
{
    snprintf(out, LIMIT_PATH, "%.*s/part-%04u%s", (int)LIMIT_PATH - 32, path, part, tail);
}

int part_add_range(struct part *p, uint32_t table, uint32_t first, uint32_t count)
{
    SHOAL_ASSERT(count > 0 && first + count > first); /* range_ok, list_tablets */
    if (array_room(&p->range, p->ranges, &p->range_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    p->range[p->ranges++] = (struct part_range){table, first, count};
    return 0;
}

int part_add_file(struct part *p, const char *name, uint64_t bytes, uint64_t checksum)
{
    if (strlen(name) >= PART_NAME_BYTES)
        return SHOAL_E_TOO_BIG;
    if (array_room(&p->file, p->files, &p->file_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    struct part_file *f = &p->file[p->files++];
    *f = (struct part_file){.bytes = bytes, .checksum = checksum};
    snprintf(f->name, sizeof f->name, "%s", name);
    p->facts.bytes += bytes;
    return 0;
}

/* ---- writing ---- */

static void write_schema(FILE *out, const struct table_schema *s)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[RECORD_SCHEMA_BYTES];
    size_t count = record_schema_bytes(s);
    SHOAL_ASSERT(count <= sizeof bytes);
    record_schema_write(s, bytes);
    fprintf(out, "table %u ", s->table);
    for (size_t i = 0; i < count; i++) {
        fputc(digits[bytes[i] >> 4], out);
        fputc(digits[bytes[i] & 15], out);
    }
    fputc(' ', out);
    for (const char *c = s->name; *c != '\0'; c++) /* for people; what counts is in the bytes */
        fputc((unsigned char)*c > ' ' && *c != 127 ? *c : '_', out);
    fputc('\n', out);
}

int part_write(const char *dir, const struct part *p, struct err *e)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (out == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the manifest of %s", dir);
    const struct cut_facts *f = &p->facts;
    uint64_t named = 0;
    SHOAL_ASSERT(p->part < p->parts && f->lanes <= LIMIT_LANES);
    fprintf(out, "shoal part %u\npart %u %u\ncut %" PRIu64 " %" PRIu64 " %" PRIu64, PART_VERSION,
            p->part, p->parts, f->cut, f->sequence, f->rows);
    cut_sizes_write(out, f);
    fputc('\n', out);
    fprintf(out, "run %" PRIu64 " %016" PRIx64 " %u %u\n", f->run, f->tables, f->lanes, f->mode);
    for (uint32_t lane = 0; lane < f->lanes; lane++)
        fprintf(out, "lane %u %" PRIu64 "\n", lane, f->lowest[lane]);
    SHOAL_ASSERT(p->tables <= LIMIT_TABLES);
    for (uint32_t i = 0; i < p->tables; i++)
        write_schema(out, &p->schema[i]);
    for (uint32_t i = 0; i < p->ranges; i++)
        fprintf(out, "tablets %u %u %u\n", p->range[i].table, p->range[i].first, p->range[i].count);
    for (uint32_t i = 0; i < p->files; i++) {
        fprintf(out, "file %s %" PRIu64 " %016" PRIx64 "\n", p->file[i].name, p->file[i].bytes,
                p->file[i].checksum);
        named += p->file[i].bytes;
    }
    SHOAL_ASSERT(named == f->bytes); /* else nobody can read it */
    fprintf(out, "bytes %" PRIu64 "\n", f->bytes);
    return cut_text_write(dir, out, &text, &bytes, e);
}

/* ---- reading ---- */

static int digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal digits up to the next blank into bytes. */
static bool read_hex(const char *text, unsigned char *out, size_t most, size_t *bytes)
{
    *bytes = 0;
    for (; *text != ' ' && *text != '\0'; text += 2) {
        int high = digit(text[0]), low = high < 0 ? -1 : digit(text[1]);
        if (low < 0 || *bytes == most)
            return false;
        out[(*bytes)++] = (unsigned char)(high << 4 | low);
    }
    return true;
}

static int read_table(struct part *p, const char *line, uint32_t number, int at, struct err *e)
{
    unsigned char bytes[RECORD_SCHEMA_BYTES];
    size_t count;
    if (p->tables == LIMIT_TABLES || !read_hex(line + at, bytes, sizeof bytes, &count))
        return SHOAL_E_CORRUPT;
    if (p->schema == NULL && (p->schema = calloc(LIMIT_TABLES, sizeof *p->schema)) == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the schemas of a checkpoint");
    struct table_schema *s = &p->schema[p->tables];
    int rc = record_schema_read(bytes, count, s, e);
    if (rc == SHOAL_E_VERSION)
        return rc;
    if (rc != 0 || s->table != number || (p->tables > 0 && s[-1].table >= number))
        return SHOAL_E_CORRUPT;
    p->tables++;
    p->facts.existing |= 1ull << number;
    return 0;
}

static bool name_ok(const char *name)
{
    size_t folder = strncmp(name, "rows/", 5) == 0 ? 5 : strncmp(name, "journal/", 8) == 0 ? 8 : 0;
    return folder > 0 && name[folder] != '\0' && name[folder] != '.' &&
           strchr(name + folder, '/') == NULL;
}

static bool range_ok(const struct part *p, const struct part_range *r)
{
    for (uint32_t i = 0; i < p->tables; i++) {
        uint32_t tablets = 1u << p->schema[i].tablet_bits;
        if (p->schema[i].table == r->table)
            return r->count > 0 && r->first < tablets && r->count <= tablets - r->first;
    }
    return false;
}

static int read_version(const char *line, struct err *e)
{
    uint32_t version;
    int at = 0;
    if (sscanf(line, "shoal part %u%n", &version, &at) != 1 || line[at] != '\0' || version == 0)
        return SHOAL_E_CORRUPT;
    if (version > PART_VERSION)
        return err_set(e, SHOAL_E_VERSION,
                       "it has version %u, this Shoal reads up to %u: it was written by a later "
                       "one; start that one",
                       version, PART_VERSION);
    return 0;
}

static int read_line(struct part *p, const char *line, struct err *e)
{
    struct cut_facts *f = &p->facts;
    struct part_range r;
    char name[PART_NAME_BYTES];
    uint64_t bytes, sum;
    uint32_t number;
    int at = 0;
    if (strncmp(line, "shoal", 5) == 0)
        return read_version(line, e);
    if (sscanf(line, "file %63s %" SCNu64 " %16" SCNx64, name, &bytes, &sum) == 3)
        return name_ok(name) ? part_add_file(p, name, bytes, sum) : SHOAL_E_CORRUPT;
    if (sscanf(line, "tablets %u %u %u", &r.table, &r.first, &r.count) == 3)
        return range_ok(p, &r) ? part_add_range(p, r.table, r.first, r.count) : SHOAL_E_CORRUPT;
    if (sscanf(line, "lane %u %" SCNu64, &number, &bytes) == 2) {
        if (number >= f->lanes)
            return SHOAL_E_CORRUPT;
        f->lowest[number] = bytes;
        return 0;
    }
    if (sscanf(line, "table %u %n", &number, &at) == 1 && at > 0)
        return read_table(p, line, number, at, e);
    if (sscanf(line, "part %u %u", &p->part, &p->parts) == 2)
        return p->part < p->parts && p->parts <= LIMIT_SHARDS ? 0 : SHOAL_E_CORRUPT;
    if (sscanf(line, "run %" SCNu64 " %16" SCNx64 " %u %u", &f->run, &f->tables, &f->lanes,
               &f->mode) == 4)
        return f->lanes <= LIMIT_LANES && f->mode <= RUN_BSP && (f->run == 0) == (f->lanes == 0)
                   ? 0
                   : SHOAL_E_CORRUPT;
    if (sscanf(line, "cut %" SCNu64 " %" SCNu64 " %" SCNu64 "%n", &f->cut, &f->sequence, &f->rows,
               &at) == 3)
        return cut_sizes_read(line + at, f) ? 0 : SHOAL_E_CORRUPT;
    if (sscanf(line, "bytes %" SCNu64, &bytes) == 1 && bytes == f->bytes)
        return 0;
    return SHOAL_E_CORRUPT;
}

/* What a file of the part is called below the checkpoint's folder. */
static void name_below(const char *dir, const char *name, char out[SIGNATURE_NAME])
{
    const char *slash = strrchr(dir, '/');
    snprintf(out, SIGNATURE_NAME, "%.32s/%s", slash != NULL ? slash + 1 : dir, name);
}

int part_read(const char *dir, const struct signature *signature, struct part *out, struct err *e)
{
    char *text, *rest = NULL, name[SIGNATURE_NAME];
    *out = (struct part){.signature = signature};
    snprintf(out->dir, sizeof out->dir, "%s", dir);
    name_below(dir, "manifest", name);
    int rc = cut_text_read(dir, signature, name, &text, e);
    if (rc != 0)
        return rc;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && rc == 0;
         line = strtok_r(NULL, "\n", &rest)) {
        rc = read_line(out, line, e);
        if (rc == SHOAL_E_CORRUPT)
            err_set(e, rc, "%s/manifest: line \"%.40s\" is not understood", dir, line);
        else if (rc == SHOAL_E_NOMEM)
            err_set(e, rc, "no memory for %s/manifest", dir);
        else if (rc != 0)
            err_wrap(e, rc, "%s/manifest", dir);
    }
    if (rc == 0 && (strncmp(text, "shoal part ", 11) != 0 || out->parts == 0))
        rc = err_set(e, SHOAL_E_CORRUPT, "%s/manifest is not the manifest of a part", dir);
    free(text);
    return rc;
}

/* ---- files ---- */

bool part_passes_over(const char *name)
{
    return strcmp(name, "LOCK") == 0 || strncmp(name, "LOG", 3) == 0 || name[0] == '.';
}

int part_checksum(const char *path, uint64_t *bytes, uint64_t *checksum)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *chunk = malloc(CHUNK);
    struct hash_stream *h = hash_stream_new();
    int rc = fd < 0 ? SHOAL_E_NOT_FOUND : chunk == NULL || h == NULL ? SHOAL_E_NOMEM : 0;
    *bytes = *checksum = 0;
    if (rc == 0)
        hash_stream_reset(h, 0);
    for (ssize_t n = 1; rc == 0 && n > 0;) {
        n = read(fd, chunk, CHUNK);
        if (n < 0)
            rc = SHOAL_E_IO;
        if (n > 0) {
            hash_stream_add(h, chunk, (size_t)n);
            *bytes += (uint64_t)n;
        }
    }
    if (rc == 0)
        *checksum = hash_stream_value(h);
    hash_stream_free(h);
    free(chunk);
    if (fd >= 0)
        close(fd);
    return rc;
}

int part_check_file(const struct part *p, uint32_t index, bool content, struct err *e)
{
    SHOAL_ASSERT(index < p->files);
    const struct part_file *f = &p->file[index];
    char path[LIMIT_PATH + PART_NAME_BYTES];
    struct stat st;
    uint64_t bytes, sum;
    snprintf(path, sizeof path, "%s/%s", p->dir, f->name);
    if (stat(path, &st) != 0)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s is missing (%s), though the manifest names it; use another checkpoint",
                       path, strerror(errno));
    if ((uint64_t)st.st_size != f->bytes)
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s has %" PRIu64 " bytes, the manifest says %" PRIu64
                       "; use another checkpoint",
                       path, (uint64_t)st.st_size, f->bytes);
    if (!content)
        return 0;
    if (p->signature != NULL && !PLANTED("unsigned_rows")) { /* it says more than a checksum */
        char name[SIGNATURE_NAME];
        name_below(p->dir, f->name, name);
        return signature_check_file(p->signature, name, e);
    }
    int rc = part_checksum(path, &bytes, &sum);
    if (rc != 0)
        return err_set(e, rc, "cannot read %s: %s", path, strerror(errno));
    if (bytes != f->bytes || sum != f->checksum)
        return err_set(e, SHOAL_E_CHECKSUM,
                       "%s is damaged: its checksum is not the manifest's; use another checkpoint",
                       path);
    return 0;
}

static bool names(const struct part *p, const char *name)
{
    for (uint32_t i = 0; i < p->files; i++)
        if (strcmp(p->file[i].name, name) == 0)
            return true;
    return false;
}

int part_foreign(const struct part *p, int (*visit)(void *context, const char *path, struct err *e),
                 void *context, struct err *e)
{
    static const char *const folder[] = {"rows", "journal"};
    int rc = 0;
    for (int i = 0; i < 2 && rc == 0; i++) {
        char path[LIMIT_PATH + 320], name[320];
        snprintf(path, sizeof path, "%s/%s", p->dir, folder[i]);
        struct file_walk walk;
        const char *entry;
        if (!file_walk_open(&walk, path))
            return err_set(e, SHOAL_E_CORRUPT, "cannot open %s: %s", path, strerror(errno));
        while (rc == 0 && (entry = file_walk_next(&walk)) != NULL) {
            snprintf(name, sizeof name, "%s/%s", folder[i], entry);
            snprintf(path, sizeof path, "%s/%s", p->dir, name);
            if (!part_passes_over(entry) && !names(p, name))
                rc = visit(context, path, e);
        }
        file_walk_close(&walk);
    }
    return rc;
}
