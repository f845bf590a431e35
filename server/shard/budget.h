/* budget.h: what a server's `memory` and `disk` are divided into. A shard gets an equal part of
 * both. Of a shard's part of the memory:
 *
 *     requests that wait   1/16, at most 1 GiB; but room for four frames of the longest kind
 *     replies on their way 1/16, at most 256 MiB; but room for two
 *     the engine           the rest: rows, their index, images on their way, caches of the store
 *                          (engine_options.memory)
 *
 * What is left of the two is the allocator's. Below 1 GiB a shard the least of the first two is
 * more than their share: it is needed only by messages of 16 MiB. */
#ifndef SERVER_SHARD_BUDGET_H
#define SERVER_SHARD_BUDGET_H

#include <stdint.h>

struct budget { /* bytes, of one shard */
    uint64_t engine, waiting, replies;
    uint64_t kept; /* of all shards together: frames that are kept to be used again */
    uint64_t disk; /* 0: no bound */
};

/* memory: above 0. disk 0: no bound. */
void budget_divide(uint64_t memory, uint64_t disk, uint32_t shards, struct budget *out);

#endif
