/* audit.h: BLAME, and the KEYS action SCRUB: what a shard's journal says of keys, and taking erased
 * ones out of it. The engine works on I/O threads; one of either at a time, another one is BUSY.
 * Thread: the shard's. */
#ifndef SERVER_SHARD_AUDIT_H
#define SERVER_SHARD_AUDIT_H

#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

struct audit {
    peer_t peer; /* who waits for the answer; 0: nobody */
    uint64_t id;
    bool scrub; /* else blame */
};

void audit_on_blame(struct shard *s, peer_t from, struct msg *m);
/* KEYS with action WIRE_KEY_SCRUB; s->in holds the request. Takes m. */
void audit_on_scrub(struct shard *s, peer_t from, struct msg *m);
/* A search for a peer that is gone is called off. */
void audit_peer_gone(struct shard *s, peer_t peer);

#endif
