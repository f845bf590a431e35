/* part.c: a part, taken together name by name, and the files that it names held against it. Its
 * manifest is written and read in part_json.c.
 *
 *  1. Nothing of a manifest is believed before its checksum has been found right, and then every
 *     number is still checked against its limits. [test: every_damage_is_refused_by_name]
 *  2. A file is as the manifest says when size and XXH3 of all its bytes agree; a file in rows/ or
 *     journal/ that is not named does not belong there (a foreign segment would be replayed).
 *     [test: verify_names_every_file_and_a_tablet]
 */
#include "embedding/engine/part.h"

#include "embedding/journal/record_schema.h"
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/base/sign.h"
#include "proto/base/text.h"
#include "proto/job/manifest.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CHUNK (1u << 20)

void part_free(struct part *p)
{
    free(p->schema);
    free(p->range);
    free(p->file);
    *p = (struct part){0};
}

int part_path_check(const char *root, const char *path, struct err *e)
{
    if (root == NULL)
        root = "";
    if (file_below(root, path) == 0)
        return 0;
    if (errno == ENOENT)
        return err_set(e, SHOAL_E_DENIED,
                       "%.300s is not there: make the folder that checkpoint_root in this server's "
                       "server.yaml names, for servers and coordinator to write in, or take the "
                       "line out",
                       root);
    if (errno == EINVAL)
        return err_set(e, SHOAL_E_MALFORMED,
                       "\"%.200s\" does not begin with '/', or has '.' or "
                       "'..' in it",
                       path);
    return err_set(e, SHOAL_E_DENIED,
                   "%.400s is not below %.300s, or by a link (%s): this server writes and "
                   "loads checkpoints there alone (checkpoint_root in its server.yaml)",
                   path, root, strerror(errno));
}

void part_path(const char *path, uint32_t part, const char *tail, char *out)
{
    snprintf(out, LIMIT_PATH, "%.*s/part-%04u%s", (int)LIMIT_PATH - 32, path, part, tail);
}

/* ---- taking what it names ---- */

const struct table_schema *part_table(const struct part *p, uint32_t table)
{
    for (uint32_t i = 0; i < p->tables; i++)
        if (p->schema[i].table == table)
            return &p->schema[i];
    return NULL;
}

int part_add_range(struct part *p, uint32_t table, uint32_t first, uint32_t count)
{
    const struct table_schema *s = part_table(p, table);

    if (s == NULL || count == 0 || first >= 1u << s->tablet_bits ||
        count > (1u << s->tablet_bits) - first)
        return SHOAL_E_CORRUPT;
    if (array_room(&p->range, p->ranges, &p->range_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    p->range[p->ranges++] = (struct part_range){table, first, count};
    return 0;
}

static bool of_journal(const char *name)
{
    return strncmp(name, "journal/", 8) == 0;
}

static bool name_ok(const char *name)
{
    if (strncmp(name, "rows/", 5) != 0 && !of_journal(name))
        return false;
    const char *file = strchr(name, '/') + 1;
    return file[0] != '\0' && file[0] != '.' && strchr(file, '/') == NULL;
}

int part_add_file(struct part *p, const char *name, uint64_t bytes, const uint64_t *checksum)
{
    if (!name_ok(name))
        return SHOAL_E_CORRUPT;
    if (strlen(name) >= PART_NAME_BYTES)
        return SHOAL_E_TOO_BIG;
    if (array_room(&p->file, p->files, &p->file_capacity, 64) != 0)
        return SHOAL_E_NOMEM;
    struct part_file *f = &p->file[p->files++];
    *f = (struct part_file){.bytes = bytes, .summed = checksum != NULL};
    if (checksum != NULL)
        f->checksum = *checksum;
    text_copy(f->name, sizeof f->name, name);
    p->facts.bytes += bytes;
    return 0;
}

int part_add_table(struct part *p, uint32_t number, const char *digits, size_t count, struct err *e)
{
    unsigned char bytes[RECORD_SCHEMA_BYTES];

    if (p->tables == LIMIT_TABLES || count % 2 != 0 || count / 2 > sizeof bytes ||
        !sign_unhex(digits, bytes, count / 2))
        return SHOAL_E_CORRUPT;
    if (array_room(&p->schema, p->tables, &p->schema_capacity, 4) != 0)
        return SHOAL_E_NOMEM;
    struct table_schema *s = &p->schema[p->tables];
    int rc = record_schema_read(bytes, count / 2, s, e);
    if (rc == SHOAL_E_VERSION)
        return rc;
    if (rc != 0 || s->table != number || (p->tables > 0 && s[-1].table >= number))
        return SHOAL_E_CORRUPT;
    p->tables++;
    table_set_add(&p->facts.existing, number);
    return 0;
}

/* ---- reading ---- */

/* The name of a part's file, as it stands below the checkpoint's folder. */
static void name_below(const char *dir, const char *name, char out[SIGNATURE_NAME])
{
    const char *slash = strrchr(dir, '/');
    snprintf(out, SIGNATURE_NAME, "%.32s/%s", slash != NULL ? slash + 1 : dir, name);
}

static int read_any(const char *dir, const struct signature *signature, struct part *out,
                    struct err *e)
{
    char path[LIMIT_PATH + 16], name[SIGNATURE_NAME], *text;
    size_t bytes;
    int rc = 0;

    *out = (struct part){.signature = signature};
    text_copy(out->dir, sizeof out->dir, dir);
    snprintf(path, sizeof path, "%s/" PART_MANIFEST, dir);
    if (file_read_whole(path, MANIFEST_BYTES_MAX, &text, &bytes) != 0) {
        rc = SHOAL_E_NOT_FOUND;
        if (errno == EFBIG || errno == ENOMEM || errno == EIO)
            rc = SHOAL_E_CORRUPT;
        return err_set(e, rc, "%s: %s", path, err_text(rc));
    }
    name_below(dir, PART_MANIFEST, name);
    if (signature != NULL)
        rc = signature_check_bytes(signature, name, text, bytes, e);
    if (rc == 0 && bytes > 0 && text[0] == '{')
        rc = part_json_read(text, bytes, out, e);
    else if (rc == 0)
        rc = part_020_read(text, bytes, out, e);
    free(text);
    return rc;
}

int part_read(const char *dir, const struct signature *signature, struct part *out, struct err *e)
{
    int rc = read_any(dir, signature, out, e);

    if (rc != 0 || out->parts > 0)
        return rc;
    return err_set(e, SHOAL_E_CORRUPT, "%s/" PART_MANIFEST " is not the manifest of a part", dir);
}

int part_read_cut(const char *dir, struct part *out, struct err *e)
{
    int rc = read_any(dir, NULL, out, e);

    if (rc != 0 || out->parts == 0)
        return rc;
    return err_set(e, SHOAL_E_CORRUPT, "%s/" PART_MANIFEST " is not the manifest of a cut", dir);
}

/* ---- files ---- */

bool part_passes_over(const char *name)
{
    return strcmp(name, "LOCK") == 0 || strncmp(name, "LOG", 3) == 0 || name[0] == '.';
}

/* As many bytes as are left of `want`, all of them if the file has them; -1: errno. */
static ssize_t chunk_read(int fd, char *chunk, size_t want)
{
    size_t have = 0;

    while (have < want) {
        ssize_t n = read(fd, chunk + have, want - have);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        have += (size_t)n;
    }
    return (ssize_t)have;
}

int part_checksum(const char *path, uint64_t most, bool chained, uint64_t *bytes,
                  uint64_t *checksum)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    char *chunk = malloc(CHUNK);
    struct hash_stream *h = hash_stream_new();
    ssize_t n = 0;

    *bytes = *checksum = 0;
    if (fd < 0)
        rc = SHOAL_E_NOT_FOUND;
    else if (chunk == NULL || h == NULL)
        rc = SHOAL_E_NOMEM;
    if (rc != 0)
        goto out;
    hash_stream_reset(h, 0);
    do {
        n = chunk_read(fd, chunk, (size_t)MIN(most - *bytes, CHUNK));
        if (n <= 0)
            break;
        if (chained)
            *checksum = hash_bytes(chunk, (size_t)n, *checksum);
        else
            hash_stream_add(h, chunk, (size_t)n);
        *bytes += (uint64_t)n;
    } while (n == CHUNK);
    if (n < 0)
        rc = SHOAL_E_IO;
    if (rc == 0 && !chained)
        *checksum = hash_stream_value(h);
out:
    hash_stream_free(h);
    free(chunk);
    if (fd >= 0)
        close(fd);
    return rc;
}

/* A cut that is damaged in any way is CORRUPT: the shard takes another cut then. */
static int damaged(const struct part *p, int rc, const char *path, const char *why, struct err *e)
{
    if (p->parts == 0)
        return err_set(e, SHOAL_E_CORRUPT, "%s %s; use another cut", path, why);
    return err_set(e, rc, "%s %s; use another checkpoint", path, why);
}

int part_check_file(const struct part *p, uint32_t index, bool content, struct err *e)
{
    SHOAL_ASSERT(index < p->files);
    const struct part_file *f = &p->file[index];
    char path[LIMIT_PATH + PART_NAME_BYTES], why[128];
    uint64_t bytes, sum;
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", p->dir, f->name);
    if (stat(path, &st) != 0) {
        snprintf(why, sizeof why, "is missing (%s), though the manifest names it", strerror(errno));
        return damaged(p, SHOAL_E_CORRUPT, path, why, e);
    }
    bool front = p->parts == 0 && of_journal(f->name);
    if ((uint64_t)st.st_size < f->bytes || ((uint64_t)st.st_size > f->bytes && !front)) {
        snprintf(why, sizeof why, "has %" PRIu64 " bytes, the manifest says %" PRIu64,
                 (uint64_t)st.st_size, f->bytes);
        return damaged(p, SHOAL_E_CORRUPT, path, why, e);
    }
    if (!content || !f->summed)
        return 0;
    if (p->signature != NULL) { /* it says more than a checksum */
        char name[SIGNATURE_NAME];
        name_below(p->dir, f->name, name);
        return signature_check_file(p->signature, name, e);
    }
    int rc = part_checksum(path, f->bytes, p->chained, &bytes, &sum);
    if (rc != 0)
        return err_set(e, rc, "cannot read %s: %s", path, strerror(errno));
    if (bytes == f->bytes && sum == f->checksum)
        return 0;
    return damaged(p, SHOAL_E_CHECKSUM, path, "is damaged: its checksum is not the manifest's", e);
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
