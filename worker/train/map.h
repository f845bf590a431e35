/* map.h: the map: the shard that leads each tablet, and where the shards are.
 *
 * A plain value, taken from the coordinator's reply to MAP_GET. The client (client.h) keeps the
 * newest complete one; a batch is divided by it (rows.h). Thread: any, one at a time. */
#ifndef WORKER_TRAIN_MAP_H
#define WORKER_TRAIN_MAP_H

#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define MAP_ENDPOINT_BYTES 256u
#define MAP_KEY_BYTES 48u

struct map {
    uint64_t epoch;
    uint32_t tablet_count; /* over all tables of the job; 0: no map yet */
    uint32_t shard_count;
    struct table_set tables;              /* their numbers on the shards (table_set_nth) */
    uint16_t *shard;                      /* owned (tablet_count): shard of each tablet */
    char (*endpoint)[MAP_ENDPOINT_BYTES]; /* owned (shard_count); "" while unknown */
    /* owned; (shard_count): key that each must show; "": none */
    char (*key)[MAP_KEY_BYTES];
};

void map_init(struct map *m);
void map_close(struct map *m);
/* Takes the contents of a reply: frame 1, shards: u16 (tablet_count); frame 2, endpoints: a line
 * for each shard. MALFORMED (counts and bytes disagree, a shard number is out of range, a line is
 * too long) or NOMEM leave *m unchanged. */
int map_take(struct map *m, const struct wire_MAP_GET_reply *reply, const struct frame *shards,
             const struct frame *endpoints, struct err *e);
/* True when every tablet has a shard with a known endpoint. */
bool map_complete(const struct map *m);
/* True when both maps give every tablet of the same tables to the same shard. */
bool map_same(const struct map *a, const struct map *b);
/* Number of adjacent tablets from global tablet `first` on, below `end`, that first's shard
 * leads. */
uint32_t map_stretch(const struct map *m, uint32_t first, uint32_t end);

#endif
