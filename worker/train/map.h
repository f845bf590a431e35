/* map.h: which shard leads each tablet, as the worker knows it, and where the shards listen. A
 * plain value, taken from a MAP_GET reply.
 *
 * Thread: the worker's loop. Owner: the client. */
#ifndef WORKER_TRAIN_MAP_H
#define WORKER_TRAIN_MAP_H

#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define MAP_ENDPOINT_BYTES 256u

struct map {
    uint64_t epoch;
    uint32_t tablet_count; /* over all tables; 0: no map yet */
    uint32_t shard_count;
    uint16_t *shard;                      /* owned (tablet_count): shard of each global tablet */
    char (*endpoint)[MAP_ENDPOINT_BYTES]; /* owned (shard_count); "" while unknown */
};

void map_init(struct map *m);
void map_close(struct map *m);
/* Takes the content of a reply. MALFORMED (counts and bytes disagree, a shard number beyond the
 * count, a line too long) or NOMEM leave *m as it was. */
int map_take(struct map *m, const struct wire_MAP_GET_reply *reply, const struct frame *shards,
             const struct frame *endpoints, struct err *e);
/* Every tablet has a shard whose endpoint is known. */
bool map_complete(const struct map *m);
/* Whether both give every tablet to the same shard. */
bool map_same(const struct map *a, const struct map *b);
/* How many tablets from global tablet `first` on, below `end`, are led by first's shard. */
uint32_t map_stretch(const struct map *m, uint32_t first, uint32_t end);

#endif
