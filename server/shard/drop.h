/* drop.h: FIELD_DROP of a shard: all rows of fields go, a few tablets at a time, each step a record
 * of its own, and the answer comes once that is on disk. Killed on the way, whoever asks again gets
 * the rest. One request at a time: another one is AGAIN, and so is the opening of a run. Thread:
 * the shard's. */
#ifndef SERVER_SHARD_DROP_H
#define SERVER_SHARD_DROP_H

#include "embedding/engine.h"
#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

struct dropping {
    peer_t peer; /* who waits for the answer; 0: nothing is under way */
    uint64_t id;
    struct engine_fields fields;
    bool names;             /* of their keys go too */
    uint32_t table, tablet; /* the next one */
    uint64_t rows;          /* gone */
    uint64_t through;       /* the sequence that the answer waits for; 0: not yet */
    uint32_t step_rows;     /* in the tablets of a step */
    struct env_timer timer;
};

void drop_init(struct shard *s);
void drop_close(struct shard *s);
void drop_on_message(struct shard *s, peer_t from);
bool drop_busy(const struct shard *s);

#endif
