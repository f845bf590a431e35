/* keys.h: KEYS of a shard: keys erased, blocked, allowed, reset. Settled first, journalled before
 * the reply; repeated it changes nothing more. SCRUB is audit.h's. Takes m; s->in holds the
 * request. */
#ifndef SERVER_SHARD_KEYS_H
#define SERVER_SHARD_KEYS_H

#include "server/shard/shard.h"

void keys_on_message(struct shard *s, peer_t from, struct msg *m);

#endif
