/* checkpoint.h: the shard's part in a checkpoint: CUT_EXPORT, LOAD and LOAD_DROP.
 *
 * Both are long and done by the engine on I/O threads; the shard answers when they are done and
 * goes on with all else meanwhile. One export and one load at a time: the same request again takes
 * the first one's place as the one to be answered, another one is BUSY. Once it is done the same
 * request is answered again by what is there: the part in its folder, the run that the load opened.
 * Thread: the shard's. */
#ifndef SERVER_SHARD_CHECKPOINT_H
#define SERVER_SHARD_CHECKPOINT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct shard;

struct checkpoint_asker {
    bool busy;
    peer_t peer;
    uint64_t id;
};

struct checkpoints {
    struct checkpoint_asker exporter, loader, dropper;
    struct wire_CUT_EXPORT export; /* what is under way */
    struct wire_LOAD load;
    uint64_t drop; /* the run whose load is being taken back */
};

/* Handlers: s->in holds the request. */
void checkpoint_on_export(struct shard *s, peer_t from, struct msg *m);
void checkpoint_on_load(struct shard *s, peer_t from, struct msg *m);
void checkpoint_on_load_drop(struct shard *s, peer_t from, struct msg *m);

#endif
