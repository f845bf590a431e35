/* keys.h: KEYS of a shard: keys erased, blocked, allowed, reset. Settled first, journalled before
 * the reply; repeated it changes nothing more. s->in holds the request, s->m its keys. */
#ifndef SERVER_SHARD_KEYS_H
#define SERVER_SHARD_KEYS_H

#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

void keys_on_message(struct shard *s, peer_t from);

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
