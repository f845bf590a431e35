/* digest.h: DIGEST: the content of a table's tablets as numbers, worked out a few tablets at a time
 * so that a large table does not keep the shard from its pushes and beats. One table after another;
 * a request that comes again is answered once. Thread: the shard's. */
#ifndef SERVER_SHARD_DIGEST_H
#define SERVER_SHARD_DIGEST_H

#include "proto/base/env.h"

#include <stdbool.h>

struct shard;

#define DIGEST_ASKERS 8u /* digests at hand; more are BUSY */

struct digest_ask {
    peer_t peer;
    uint64_t id;
    uint32_t table;
};

struct digests {
    struct digest_ask ask[DIGEST_ASKERS]; /* the first is being worked on */
    uint32_t count;
    struct env_timer timer;
    uint64_t *value; /* owned, (span) of the table at hand */
    uint32_t first, span, next;
    uint64_t rows; /* of the tablets counted so far */
};

void digest_init(struct shard *s);
void digest_on_message(struct shard *s, peer_t from, struct msg *m);
void digest_close(struct shard *s);

#endif
