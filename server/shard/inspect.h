/* inspect.h: INSPECT (one row by key) and SHARD_STATUS (the shard's own figures), both as JSON text
 * in the reply's frame. */
#ifndef SERVER_SHARD_INSPECT_H
#define SERVER_SHARD_INSPECT_H

#include "server/shard/shard.h"

/* Takes m; s->in holds the request. */
void inspect_on_message(struct shard *s, peer_t from, struct msg *m);
void inspect_on_status(struct shard *s, peer_t from, struct msg *m);

#endif
