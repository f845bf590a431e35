/* named.h: NAMED of a shard: the keys that KEYS has named (naming.h), a page at a time. It reads
 * only, and the shard keeps nothing between two pages: the next request says where to go on.
 * Thread: the shard's. */
#ifndef SERVER_SHARD_NAMED_H
#define SERVER_SHARD_NAMED_H

#include "proto/base/env.h"

struct shard;

/* s->in holds the request. */
void named_on_message(struct shard *s, peer_t from);

#endif
