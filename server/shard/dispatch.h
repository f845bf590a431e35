/* dispatch.h: one list from message type to handler; names and counts come from the same list of
 * types (WIRE_MAP). */
#ifndef SERVER_SHARD_DISPATCH_H
#define SERVER_SHARD_DISPATCH_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct shard;

struct dispatch_counts {
#define X(name, number, request_frames, reply_frames) uint64_t name;
    WIRE_MAP(X)
#undef X
};

/* Takes m: decodes it into s->in and calls its handler. What cannot be decoded costs its sender a
 * refusal, if it can be told apart at all, and nobody else anything. */
void dispatch_message(struct shard *s, peer_t from, struct msg *m);

#endif
