/* identity.c: writes, reads and checks DIR/place, DIR/names and DIR/taken in one way. DIR/taken is
 * that of space 0, DIR/taken.N of space N. */
#include "embedding/engine/identity.h"

#include "embedding/engine/engine_state.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"
#include "proto/job/catalog.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLETS_MAX LIMIT_FLEET_TABLETS

struct head {
    uint64_t magic, checksum; /* XXH3 of all that follows */
};
#define CHECKED_FROM sizeof(struct head)

struct place_file {
    struct head head;
    uint64_t cluster[2], map_epoch;
    uint32_t number, shards, tablets, zero;
    uint16_t shard_of[];
};
_Static_assert(sizeof(struct place_file) == 56, "place_file is a disk format");

/* DIR/names and DIR/taken */
struct told_file {
    struct head head;
    uint64_t version;
    uint32_t bytes, zero;
    char text[];
};
_Static_assert(sizeof(struct told_file) == 32, "told_file is a disk format");

struct kind {
    const char *name;
    uint64_t magic;
    size_t bytes_max;
    bool (*fits)(const struct head *h, size_t bytes); /* magic and checksum are right */
    const char *damaged;                              /* the message, with the remedy */
};

/* ---- any of the files ---- */

static bool place_fits(const struct head *h, size_t bytes)
{
    const struct place_file *f = (const void *)h;

    return bytes >= sizeof *f && f->tablets <= TABLETS_MAX &&
           bytes == sizeof *f + f->tablets * sizeof *f->shard_of &&
           (f->cluster[0] | f->cluster[1]) != 0 && f->shards > 0 && f->shards <= LIMIT_SHARDS &&
           f->number < LIMIT_SHARDS;
}

static bool told_fits(const struct head *h, size_t bytes)
{
    const struct told_file *f = (const void *)h;

    return bytes >= sizeof *f && f->version > 0 && bytes == sizeof *f + f->bytes;
}

static bool names_fits(const struct head *h, size_t bytes)
{
    return told_fits(h, bytes) && bytes > sizeof(struct told_file);
}

static const struct kind place_kind = {
    "place", UINT64_C(0x3145434c504c4853), /* "SHLPLCE1" */
    sizeof(struct place_file) + TABLETS_MAX * sizeof(uint16_t), place_fits,
    "which rows of which cluster lie here; bring the file back from a copy of this folder"};
static const struct kind names_kind = {
    "names", UINT64_C(0x31454d4e4c504853), /* "SHPLNME1" */
    sizeof(struct told_file) + CATALOG_BYTES_MAX, names_fits,
    "what the fields in the keys are called; move it away, and the coordinator, which has it too, "
    "tells it again"};
static const struct kind taken_kind = {
    "taken", UINT64_C(0x314b41544c504853), /* "SHPLTAK1" */
    sizeof(struct told_file) + ENGINE_TAKEN_MAX, told_fits,
    "which files and objects the tables have learnt; move it away, and the coordinator, which has "
    "it too, tells it again"};

static void path_of(const struct engine *g, const struct kind *k, const char *tail,
                    char out[LIMIT_PATH])
{
    SHOAL_ASSERT(strlen(g->dir) + 64 <= LIMIT_PATH); /* engine_open has checked it */
    (void)snprintf(out, LIMIT_PATH, "%s/%s%s", g->dir, k->name, tail);
}

static uint64_t checksum_of(const struct head *h, size_t bytes)
{
    return hash_bytes((const char *)h + CHECKED_FROM, bytes - CHECKED_FROM, 0);
}

/* Completes the head and writes the file durably, if there is a folder. of: the end of its name. */
static int file_put(const struct engine *g, const struct kind *k, const char *of, struct head *h,
                    size_t bytes, struct err *e)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH], tail[24];

    h->magic = k->magic;
    h->checksum = checksum_of(h, bytes);
    if (g->dir == NULL)
        return 0;
    (void)snprintf(tail, sizeof tail, "%s.new", of);
    path_of(g, k, of, path);
    path_of(g, k, tail, temporary);
    if (file_write_whole(path, temporary, h, bytes, 0600, FILE_LASTS_ALL) == 0)
        return 0;
    return err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
}

/* Reads and checks the file; the caller frees *out. NULL: there is none. */
static int file_get(const struct engine *g, const struct kind *k, const char *of, void **out,
                    struct err *e)
{
    char path[LIMIT_PATH], *text = NULL;
    size_t bytes = 0;

    *out = NULL;
    path_of(g, k, of, path);
    if (file_read_whole(path, k->bytes_max, &text, &bytes) != 0) {
        if (errno == ENOENT)
            return 0;
        if (errno != EFBIG)
            return err_set(e, SHOAL_E_IO, "cannot read %s: %s", path, strerror(errno));
        text = NULL;
        bytes = 0;
    }
    const struct head *h = (const void *)text;
    if (bytes >= sizeof *h && h->magic == k->magic && checksum_of(h, bytes) == h->checksum &&
        k->fits(h, bytes)) {
        *out = text;
        return 0;
    }
    free(text);
    return err_set(e, SHOAL_E_CORRUPT, "%s is damaged: it says %s", path, k->damaged);
}

/* ---- place ---- */

const struct engine_place *engine_place(const struct engine *g)
{
    return &g->place;
}

/* Takes ownership of the file. */
static void place_take(struct engine *g, struct place_file *f)
{
    free(g->place_file);
    g->place_file = f;
    g->place = (struct engine_place){.cluster = {f->cluster[0], f->cluster[1]},
                                     .number = f->number,
                                     .shards = f->shards,
                                     .map_epoch = f->map_epoch,
                                     .tablets = f->tablets,
                                     .shard_of = f->tablets > 0 ? f->shard_of : NULL};
}

int engine_place_set(struct engine *g, const struct engine_place *p, struct err *e)
{
    size_t bytes = sizeof(struct place_file) + p->tablets * sizeof *p->shard_of;

    SHOAL_ASSERT((p->cluster[0] | p->cluster[1]) != 0 && p->number < LIMIT_SHARDS);
    SHOAL_ASSERT(p->tablets <= TABLETS_MAX && (p->map_epoch > 0) == (p->tablets > 0));
    struct place_file *f = calloc(1, bytes);
    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", p->tablets);
    *f = (struct place_file){.cluster = {p->cluster[0], p->cluster[1]},
                             .map_epoch = p->map_epoch,
                             .number = p->number,
                             .shards = p->shards,
                             .tablets = p->tablets};
    if (p->tablets > 0)
        memcpy(f->shard_of, p->shard_of, p->tablets * sizeof *p->shard_of);
    int rc = file_put(g, &place_kind, "", &f->head, bytes, e);
    if (rc == 0)
        place_take(g, f);
    else
        free(f);
    return rc;
}

static bool is_among(const uint32_t *list, uint32_t count, uint32_t tablet)
{
    for (uint32_t i = 0; i < count; i++)
        if (list[i] == tablet)
            return true;
    return false;
}

int engine_place_leaves(const struct engine *g, const struct engine_place *next,
                        const uint32_t *may_leave, uint32_t count, struct err *e)
{
    const struct engine_place *p = &g->place;

    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *table = g->table[t].table;
        for (uint32_t i = 0; table != NULL && i < g->table[t].scope.tablets; i++) {
            uint32_t global = table_schema_of(table)->tablet_first + i;
            if (global < next->tablets && next->shard_of[global] == next->number)
                continue;
            bool ours = global < p->tablets && p->shard_of[global] == p->number;
            if (!ours && p->map_epoch > 0 && global < p->tablets)
                continue; /* a stray (move.h), which goes soon */
            if (is_among(may_leave, count, global))
                continue;
            if (ours && !engine_back(g))
                return err_set(e, SHOAL_E_AGAIN, "rows are read back after a start; ask again");
            if (table_tablet_rows(table, i) > 0 || runs_marked(&g->runs, t, i))
                return err_set(e, SHOAL_E_CONFIG,
                               "the map of epoch %" PRIu64 " takes tablet %u of table %s away, "
                               "whose %" PRIu64 " rows are here: they would read as new ones",
                               next->map_epoch, i, table_schema_of(table)->name,
                               table_tablet_rows(table, i));
        }
    }
    return 0;
}

/* ---- names and taken ---- */

/* Makes and writes a file of these bytes; the caller frees *out. */
static int told_put(const struct engine *g, const struct kind *k, const char *of, uint64_t version,
                    const void *bytes, uint32_t count, struct told_file **out, struct err *e)
{
    struct told_file *f = malloc(sizeof *f + count);

    if (f == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the file %s", k->name);
    *f = (struct told_file){.version = version, .bytes = count};
    if (count > 0)
        memcpy(f->text, bytes, count);
    int rc = file_put(g, k, of, &f->head, sizeof *f + count, e);
    if (rc == 0)
        *out = f;
    else
        free(f);
    return rc;
}

const struct engine_names *engine_names(const struct engine *g)
{
    return &g->names;
}

/* Takes ownership of the file. */
static void key_names_take(struct engine *g, struct told_file *f)
{
    free(g->names_file);
    g->names_file = f;
    g->names =
        (struct engine_names){f->version, f->text, f->bytes, hash_bytes(f->text, f->bytes, 0)};
}

int engine_names_set(struct engine *g, uint64_t version, const char *line, uint32_t bytes,
                     struct err *e)
{
    struct told_file *f;

    SHOAL_ASSERT(version > 0 && bytes > 0 && bytes <= CATALOG_BYTES_MAX);
    int rc = told_put(g, &names_kind, "", version, line, bytes, &f, e);
    if (rc == 0)
        key_names_take(g, f);
    return rc;
}

/* The end of the file's name. */
struct taken_tail {
    char text[8];
};

static struct taken_tail taken_tail(uint32_t space)
{
    struct taken_tail tail = {""};
    if (space > 0)
        (void)snprintf(tail.text, sizeof tail.text, ".%u", space % LIMIT_SPACES);
    return tail;
}

uint64_t engine_taken_version(const struct engine *g, uint32_t space)
{
    SHOAL_ASSERT(space < LIMIT_SPACES);
    return g->taken_version[space];
}

uint64_t engine_taken_newest(const struct engine *g)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < LIMIT_SPACES; i++)
        newest = MAX(newest, g->taken_version[i]);
    return newest;
}

int engine_taken_set(struct engine *g, uint32_t space, uint64_t version, const void *bytes,
                     uint32_t count, struct err *e)
{
    struct told_file *f;

    SHOAL_ASSERT(version > 0 && count <= ENGINE_TAKEN_MAX && space < LIMIT_SPACES);
    int rc = told_put(g, &taken_kind, taken_tail(space).text, version, bytes, count, &f, e);
    if (rc != 0)
        return rc;
    g->taken_version[space] = version;
    free(g->taken_file[space]);
    g->taken_file[space] = NULL;
    if (g->dir == NULL)
        g->taken_file[space] = f;
    else
        free(f); /* it may be large: engine_taken_get reads it from the folder */
    return 0;
}

int engine_taken_get(const struct engine *g, uint32_t space, void **bytes, uint32_t *count,
                     struct err *e)
{
    void *read = NULL;
    int rc = 0;
    SHOAL_ASSERT(space < LIMIT_SPACES);
    if (g->dir != NULL)
        rc = file_get(g, &taken_kind, taken_tail(space).text, &read, e);

    const struct told_file *f = read;
    if (g->dir == NULL)
        f = g->taken_file[space];

    *count = 0;
    if (rc == 0 && f != NULL)
        *count = f->bytes;
    *bytes = NULL;
    if (rc == 0)
        *bytes = malloc(*count + 1);
    if (rc == 0 && *bytes == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the names of what is learnt");
    if (rc == 0 && *count > 0)
        memcpy(*bytes, f->text, *count);
    free(read);
    return rc;
}

static int taken_open(struct engine *g, uint32_t space, struct err *e)
{
    void *file;
    int rc = file_get(g, &taken_kind, taken_tail(space).text, &file, e);

    if (rc != 0)
        return rc;
    if (file != NULL)
        g->taken_version[space] = ((struct told_file *)file)->version;
    free(file);
    return 0;
}

/* ---- opening ---- */

int identity_open(struct engine *g, struct err *e)
{
    void *place, *names;
    int rc = file_get(g, &place_kind, "", &place, e);

    if (rc != 0)
        return rc;
    if (place != NULL)
        place_take(g, place);
    rc = file_get(g, &names_kind, "", &names, e);
    if (rc != 0)
        return rc;
    if (names != NULL)
        key_names_take(g, names);
    for (uint32_t i = 0; rc == 0 && i < LIMIT_SPACES; i++)
        rc = taken_open(g, i, e);
    return rc;
}

void identity_free(struct engine *g)
{
    free(g->place_file);
    free(g->names_file);
    g->place_file = g->names_file = NULL;
    g->place = (struct engine_place){0};
    g->names = (struct engine_names){0};
    for (uint32_t i = 0; i < LIMIT_SPACES; i++) {
        free(g->taken_file[i]);
        g->taken_file[i] = NULL;
        g->taken_version[i] = 0;
    }
}
