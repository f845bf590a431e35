/* map.c: the map, as a plain value; map.h. */
#include "worker/train/map.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"

#include <stdlib.h>
#include <string.h>

void map_init(struct map *m)
{
    memset(m, 0, sizeof *m);
}

void map_close(struct map *m)
{
    free(m->shard);
    free(m->endpoint);
    free(m->key);
    map_init(m);
}

/* Parses "ENDPOINT" or "ENDPOINT KEY". False: it is too long, or empty. */
static bool line_take(struct map *m, uint32_t shard, const char *text, size_t length)
{
    const char *blank = memchr(text, ' ', length);
    size_t endpoint = length, key = 0;
    if (blank != NULL) {
        endpoint = (size_t)(blank - text);
        key = length - endpoint - 1;
    }
    if (endpoint >= MAP_ENDPOINT_BYTES || key >= MAP_KEY_BYTES || memchr(text, 0, length) != NULL)
        return false;
    memcpy(m->endpoint[shard], text, endpoint);
    if (key > 0)
        memcpy(m->key[shard], blank + 1, key);
    return true;
}

/* Parses one line for each shard, each ended by LF. */
static int endpoints_take(struct map *m, const char *text, size_t bytes, struct err *e)
{
    const char *end = text + bytes;
    for (uint32_t s = 0; s < m->shard_count; s++) {
        const char *line_end = NULL;
        if (text != end)
            line_end = memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL)
            return err_set(e, SHOAL_E_MALFORMED, "the map names %u shards but has endpoints of %u",
                           m->shard_count, s);
        size_t length = (size_t)(line_end - text);
        if (!line_take(m, s, text, length))
            return err_set(e, SHOAL_E_MALFORMED,
                           "the endpoint of shard %u in the map is no text of at most %u bytes", s,
                           MAP_ENDPOINT_BYTES - 1);
        text = line_end + 1;
    }
    return 0;
}

int map_take(struct map *m, const struct wire_MAP_GET_reply *reply, const struct frame *shards,
             const struct frame *endpoints, struct err *e)
{
    struct map taken;
    int rc;
    if (reply->shards > LIMIT_SHARDS || reply->tablet_count > LIMIT_FLEET_TABLETS ||
        shards->bytes != (size_t)reply->tablet_count * 2)
        return err_set(e, SHOAL_E_MALFORMED, "the map has %u shards and %u tablets in %zu bytes",
                       reply->shards, reply->tablet_count, shards->bytes);
    map_init(&taken);
    taken.epoch = reply->map_epoch;
    taken.tablet_count = reply->tablet_count;
    taken.shard_count = reply->shards;
    taken.tables = WIRE_TABLES_OF(*reply);
    taken.shard = malloc(shards->bytes + 2);
    taken.endpoint = calloc((size_t)reply->shards + 1, MAP_ENDPOINT_BYTES);
    taken.key = calloc((size_t)reply->shards + 1, MAP_KEY_BYTES);
    if (taken.shard == NULL || taken.endpoint == NULL || taken.key == NULL) {
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", reply->tablet_count);
        goto refuse;
    }
    if (shards->bytes > 0)
        memcpy(taken.shard, shards->data, shards->bytes);
    for (uint32_t t = 0; t < taken.tablet_count; t++)
        if (taken.shard[t] >= taken.shard_count) {
            rc = err_set(e, SHOAL_E_MALFORMED, "the map gives tablet %u to shard %u of %u", t,
                         taken.shard[t], taken.shard_count);
            goto refuse;
        }
    rc = endpoints_take(&taken, endpoints->data, endpoints->bytes, e);
    if (rc != 0)
        goto refuse;
    map_close(m);
    *m = taken;
    return 0;
refuse:
    map_close(&taken);
    return rc;
}

bool map_complete(const struct map *m)
{
    if (m->tablet_count == 0)
        return false;
    for (uint32_t t = 0; t < m->tablet_count; t += map_stretch(m, t, m->tablet_count))
        if (m->endpoint[m->shard[t]][0] == '\0')
            return false;
    return true;
}

bool map_same(const struct map *a, const struct map *b)
{
    return a->tablet_count == b->tablet_count && table_set_equal(a->tables, b->tables) &&
           (a->tablet_count == 0 || memcmp(a->shard, b->shard, (size_t)a->tablet_count * 2) == 0);
}

uint32_t map_stretch(const struct map *m, uint32_t first, uint32_t end)
{
    SHOAL_ASSERT(first < end && end <= m->tablet_count);
    uint32_t t = first + 1;
    while (t < end && m->shard[t] == m->shard[first])
        t++;
    return t - first;
}
