/* map.c: the worker's copy of the map. */
#include "worker/train/map.h"
#include "proto/base/assert.h"

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
    map_init(m);
}

/* One LF-ended line a shard. */
static int endpoints_take(struct map *m, const char *text, size_t bytes, struct err *e)
{
    const char *end = text + bytes;

    for (uint32_t s = 0; s < m->shard_count; s++) {
        const char *line_end = text == end ? NULL : memchr(text, '\n', (size_t)(end - text));
        if (line_end == NULL)
            return err_set(e, SHOAL_E_MALFORMED, "the map names %u shards but has endpoints of %u",
                           m->shard_count, s);
        size_t length = (size_t)(line_end - text);
        if (length >= MAP_ENDPOINT_BYTES || memchr(text, 0, length) != NULL)
            return err_set(e, SHOAL_E_MALFORMED,
                           "the endpoint of shard %u in the map is no text of at most %u bytes", s,
                           MAP_ENDPOINT_BYTES - 1);
        memcpy(m->endpoint[s], text, length);
        m->endpoint[s][length] = '\0';
        text = line_end + 1;
    }
    return 0;
}

int map_take(struct map *m, const struct wire_MAP_GET_reply *reply, const struct frame *shards,
             const struct frame *endpoints, struct err *e)
{
    struct map taken;
    int status;

    if (reply->shards > LIMIT_SHARDS || reply->tablet_count > LIMIT_TABLES * LIMIT_TABLETS ||
        shards->bytes != (size_t)reply->tablet_count * 2)
        return err_set(e, SHOAL_E_MALFORMED, "the map has %u shards and %u tablets in %zu bytes",
                       reply->shards, reply->tablet_count, shards->bytes);
    map_init(&taken);
    taken.epoch = reply->map_epoch;
    taken.tablet_count = reply->tablet_count;
    taken.shard_count = reply->shards;
    taken.shard = malloc(shards->bytes + 2);
    taken.endpoint = calloc((size_t)reply->shards + 1, MAP_ENDPOINT_BYTES);
    if (taken.shard == NULL || taken.endpoint == NULL) {
        status =
            err_set(e, SHOAL_E_NOMEM, "no memory for a map of %u tablets", reply->tablet_count);
        goto refuse;
    }
    if (shards->bytes > 0)
        memcpy(taken.shard, shards->data, shards->bytes);
    for (uint32_t t = 0; t < taken.tablet_count; t++)
        if (taken.shard[t] >= taken.shard_count) {
            status = err_set(e, SHOAL_E_MALFORMED, "the map gives tablet %u to shard %u of %u", t,
                             taken.shard[t], taken.shard_count);
            goto refuse;
        }
    status = endpoints_take(&taken, endpoints->data, endpoints->bytes, e);
    if (status != 0)
        goto refuse;
    map_close(m);
    *m = taken;
    return 0;
refuse:
    map_close(&taken);
    return status;
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
    return a->tablet_count == b->tablet_count &&
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
