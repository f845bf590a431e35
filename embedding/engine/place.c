/* place.c: DIR/place, written whole before the coordinator hears that anything was taken, so that
 * what was said outlives a crash. */
#include "embedding/engine/place.h"

#include "embedding/engine/engine_state.h"
#include "proto/base/assert.h"
#include "proto/base/file.h"
#include "proto/base/hash.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x3145434c504c4853) /* "SHLPLCE1" */
#define TABLETS_MAX (LIMIT_TABLES * LIMIT_TABLETS)

struct head {
    uint64_t magic, checksum; /* XXH3 of all that follows it */
    uint64_t cluster[2], map_epoch;
    uint32_t number, shards, tablets, zero;
};
_Static_assert(sizeof(struct head) == 56, "head is a disk format");
#define CHECKED_FROM offsetof(struct head, cluster)

const struct engine_place *engine_place(const struct engine *g)
{
    return &g->place.at;
}

/* ---- the file ---- */

static void path_of(const struct engine *g, char out[LIMIT_PATH], const char *name)
{
    SHOAL_ASSERT(strlen(g->dir) + 64 <= LIMIT_PATH); /* engine_open has checked */
    (void)snprintf(out, LIMIT_PATH, "%s/%s", g->dir, name);
}

/* The whole file in one block, or NULL. */
static struct head *file_make(const struct engine_place *p, size_t *bytes)
{
    *bytes = sizeof(struct head) + p->tablets * sizeof *p->shard_of;
    struct head *h = calloc(1, *bytes);
    if (h == NULL)
        return NULL;
    *h = (struct head){.magic = MAGIC,
                       .cluster = {p->cluster[0], p->cluster[1]},
                       .map_epoch = p->map_epoch,
                       .number = p->number,
                       .shards = p->shards,
                       .tablets = p->tablets};
    if (p->tablets > 0)
        memcpy(h + 1, p->shard_of, p->tablets * sizeof *p->shard_of);
    h->checksum = hash_bytes((const char *)h + CHECKED_FROM, *bytes - CHECKED_FROM, 0);
    return h;
}

static bool head_fits(const struct head *h, size_t bytes)
{
    return bytes >= sizeof *h && h->magic == MAGIC && h->tablets <= TABLETS_MAX &&
           bytes == sizeof *h + h->tablets * sizeof(uint16_t) &&
           hash_bytes((const char *)h + CHECKED_FROM, bytes - CHECKED_FROM, 0) == h->checksum &&
           (h->cluster[0] | h->cluster[1]) != 0 && h->shards > 0 && h->shards <= LIMIT_SHARDS &&
           h->number < h->shards;
}

/* ---- in memory ---- */

/* Takes the map over; NULL: it has none. */
static void take(struct engine *g, const struct engine_place *p, uint16_t *shard_of)
{
    free(g->place.shard_of);
    g->place.at = *p;
    g->place.at.shard_of = g->place.shard_of = shard_of;
}

static int map_copy(const struct engine_place *p, uint16_t **out)
{
    *out = NULL;
    if (p->tablets == 0)
        return 0;
    *out = malloc(p->tablets * sizeof **out);
    if (*out == NULL)
        return SHOAL_E_NOMEM;
    memcpy(*out, p->shard_of, p->tablets * sizeof **out);
    return 0;
}

static int place_write(struct engine *g, const struct engine_place *p, struct err *e)
{
    char path[LIMIT_PATH], temporary[LIMIT_PATH];
    size_t bytes;
    struct head *h = file_make(p, &bytes);
    if (h == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", p->tablets);
    path_of(g, path, "place");
    path_of(g, temporary, "place.new");
    int rc = file_write_whole(path, temporary, h, bytes, 0600, FILE_LASTS_ALL);
    free(h);
    return rc == 0 ? 0 : err_set(e, SHOAL_E_IO, "cannot write %s: %s", path, strerror(errno));
}

int engine_place_set(struct engine *g, const struct engine_place *place, struct err *e)
{
    uint16_t *map;
    SHOAL_ASSERT((place->cluster[0] | place->cluster[1]) != 0 && place->number < place->shards);
    SHOAL_ASSERT(place->tablets <= TABLETS_MAX && (place->map_epoch > 0) == (place->tablets > 0));
    if (map_copy(place, &map) != 0)
        return err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", place->tablets);
    int rc = g->dir == NULL ? 0 : place_write(g, place, e);
    if (rc != 0)
        free(map);
    else
        take(g, place, map);
    return rc;
}

int place_open(struct engine *g, struct err *e)
{
    char path[LIMIT_PATH], *text;
    size_t bytes;
    uint16_t *map;
    path_of(g, path, "place");
    if (file_read_whole(path, sizeof(struct head) + TABLETS_MAX * sizeof *map, &text, &bytes) != 0)
        return errno == ENOENT ? 0
                               : err_set(e, errno == EFBIG ? SHOAL_E_CORRUPT : SHOAL_E_IO,
                                         "cannot read %s: %s", path, strerror(errno));
    const struct head *h = (const void *)text;
    if (!head_fits(h, bytes)) {
        free(text);
        return err_set(e, SHOAL_E_CORRUPT,
                       "%s is damaged: it says which rows of which cluster lie here; bring the "
                       "file back from a copy of this folder",
                       path);
    }
    struct engine_place p = {.cluster = {h->cluster[0], h->cluster[1]},
                             .number = h->number,
                             .shards = h->shards,
                             .map_epoch = h->map_epoch,
                             .tablets = h->tablets,
                             .shard_of = (const uint16_t *)(const void *)(h + 1)};
    int rc = map_copy(&p, &map);
    if (rc == 0)
        take(g, &p, map);
    free(text);
    return rc == 0 ? 0 : err_set(e, rc, "no memory for the map in %s", path);
}

void place_free(struct engine *g)
{
    free(g->place.shard_of);
    g->place.shard_of = NULL;
    g->place.at = (struct engine_place){0};
}

/* ---- what a map would leave behind ---- */

static bool marked(const struct engine *g, uint32_t table, uint32_t tablet)
{
    for (uint32_t i = 0; i < g->runs.count; i++)
        for (uint32_t lane = 0; lane < g->runs.run[i]->lanes; lane++)
            if (marks_get(g->runs.run[i]->marks, lane, table, tablet) != 0)
                return true;
    return false;
}

int engine_place_leaves(const struct engine *g, const struct engine_place *next, struct err *e)
{
    for (uint32_t t = 0; t < LIMIT_TABLES; t++) {
        const struct table *table = g->table[t].table;
        for (uint32_t i = 0; table != NULL && i < g->table[t].scope.tablets; i++) {
            uint32_t global = table_schema_of(table)->tablet_first + i;
            if (global < next->tablets && next->shard_of[global] == next->number)
                continue;
            bool ours =
                global < g->place.at.tablets && g->place.at.shard_of[global] == g->place.at.number;
            if (ours && !engine_back(g))
                return err_set(e, SHOAL_E_AGAIN, "rows are read back after a start; ask again");
            if (table_tablet_rows(table, i) > 0 || marked(g, t, i))
                return err_set(e, SHOAL_E_CONFIG,
                               "the map of epoch %" PRIu64 " takes tablet %u of table %s away, "
                               "whose %" PRIu64 " rows are here: they would read as new ones",
                               next->map_epoch, i, table_schema_of(table)->name,
                               table_tablet_rows(table, i));
        }
    }
    return 0;
}
