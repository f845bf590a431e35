/* keys.h: KEYS of a shard: keys erased, blocked, allowed, reset. Settled first, journalled before
 * the reply; repeated it changes nothing more. s->in holds the request, s->m its keys.
 *
 * An erasing rebuilds every tablet that it touches, so many keys go in steps of some tablets, each
 * a record of its own; what comes in between sees some of it. The first step is taken at once. One
 * request at a time: another one is AGAIN. Killed on the way, whoever asks again gets the rest. */
#ifndef SERVER_SHARD_KEYS_H
#define SERVER_SHARD_KEYS_H

#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

#define KEYS_STEP_ROWS 65536u /* in the tablets of a step, and keys: some 10 ms */

struct naming {
    peer_t peer; /* who waits for the answer; 0: nothing is under way */
    uint64_t id;
    uint32_t table, action;
    uint64_t *keys; /* owned; (count), in the order of their tablets */
    uint32_t count, next;
    uint64_t changed;
    uint32_t step_rows;
    struct env_timer timer;
};

void keys_init(struct shard *s);
void keys_close(struct shard *s);
void keys_on_message(struct shard *s, peer_t from);
/* Others may come in their place: what is not done yet is refused. */
void keys_tables_gone(struct shard *s);

/* BLAME, and the KEYS action SCRUB: what a shard's journal says of keys, and taking erased
 * ones out of it. The engine works on I/O threads; one of either at a time, another one is BUSY.
 * Thread: the shard's. */

struct audit {
    peer_t peer; /* who waits for the answer; 0: nobody */
    uint64_t id;
    bool scrub; /* else blame */
};

void keys_on_blame(struct shard *s, peer_t from);
/* A search for a peer that is gone is called off. */
void keys_peer_gone(struct shard *s, peer_t peer);

#endif
