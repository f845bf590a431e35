/* server_memory.h: how much memory a server's process takes of its machine, and how malloc keeps
 * it.
 *
 *     server_memory_heaps -> the shards open -> server_memory_bound */
#ifndef SERVER_SERVER_MEMORY_H
#define SERVER_SERVER_MEMORY_H

#include <stdint.h>

/* The resident bytes of the process, now and at most (shard_options.process). */
void server_memory_figures(void *context, uint64_t *rss, uint64_t *rss_peak);
/* Returns `memory` of a file that does not set it: 70 % of what the process may have. The other
 * 30 % are for messages, RocksDB's own memory and the kernel. */
uint64_t server_memory_default(void);
/* Bounds the number of malloc's heaps. Otherwise each of some ten threads (libuv's, RocksDB's)
 * keeps a heap of its own, 40 MiB and more that no budget counts. */
void server_memory_heaps(uint32_t shards);
/* sock.c sets malloc's thresholds high, so that freed memory stays in the heaps. This function
 * lowers them where memory (bytes) is short: a freed large buffer then goes back to the kernel, and
 * its next use costs a page fault for each 4 KiB. */
void server_memory_bound(uint64_t memory, uint32_t shards);

#endif
