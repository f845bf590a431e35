/* arena.h: the memory of one shard's tables, in chunks of 2 MiB. */
#ifndef EMBEDDING_ARENA_H
#define EMBEDDING_ARENA_H

#include <stdint.h>

struct arena; /* shared by all tables of a shard */

int arena_new(struct arena **out);
void arena_free(struct arena *a);
uint64_t arena_bytes(const struct arena *a); /* obtained from the system */

#endif
