/* arena_inner.h: the arena of one shard: memory in chunks of 2 MiB, aligned and MADV_HUGEPAGE, cut
 * into units of 4 KiB.
 *
 * Rows lie in pages of one or a few units; the tablets' indexes take runs of units too. What a
 * tablet gives back (a grown index, a cleared tablet) is taken again by anybody, so growing strands
 * nothing. A unit is named by its number, chunk number x 512 + unit in chunk: 4-byte row references
 * reach a row through one small array of chunk addresses. Chunks go back to the system in
 * arena_free only. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_ARENA_INNER_H
#define EMBEDDING_ROWS_ARENA_INNER_H

#include "embedding/arena.h"

#include "proto/base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_CHUNK_BYTES ((size_t)2 << 20)
#define ARENA_UNIT_BITS 12
#define ARENA_UNIT_BYTES ((size_t)1 << ARENA_UNIT_BITS)
#define ARENA_CHUNK_UNITS 512u
#define ARENA_CHUNK_WORDS (ARENA_CHUNK_UNITS / 64)
#define ARENA_NONE UINT32_MAX

_Static_assert(ARENA_CHUNK_UNITS *ARENA_UNIT_BYTES == ARENA_CHUNK_BYTES, "units fill a chunk");

struct arena {
    char **chunk;                        /* owned; (chunk_count), addresses */
    uint64_t (*used)[ARENA_CHUNK_WORDS]; /* owned; (chunk_count), a bit a unit */
    uint16_t *free_units;                /* owned; (chunk_count) */
    uint32_t chunk_count;                /* taken from the system and in use by the arena */
    uint32_t chunk_room;                 /* of the three arrays */
    uint32_t first_free;                 /* no chunk below it has a free unit */
    char *region;                        /* chunks are cut from regions of address space */
    uint32_t region_left;                /* chunks not yet cut from it */
    void **regions;                      /* owned; what arena_free unmaps */
    uint32_t region_count, region_room;
    uint64_t large_bytes; /* of blocks beyond a chunk */
    uint64_t free_total;  /* units that nobody has, of all chunks */
};

/* A run of `units` (1..512) neighbouring units of one chunk; the number of the first, or ARENA_NONE
 * when memory is out. Not zeroed. */
uint32_t arena_take(struct arena *a, uint32_t units);
void arena_give(struct arena *a, uint32_t unit, uint32_t units);

static inline void *arena_address(const struct arena *a, uint32_t unit)
{
    return a->chunk[unit / ARENA_CHUNK_UNITS] +
           ((size_t)(unit % ARENA_CHUNK_UNITS) << ARENA_UNIT_BITS);
}

/* A block of `bytes`, zeroed and aligned to 64: malloc's below a unit, whole units of a chunk, or
 * chunks by itself. *unit: where it lies, if in units, else ARENA_NONE. NULL when memory is out. */
void *arena_block_take(struct arena *a, size_t bytes, uint32_t *unit);
void arena_block_give(struct arena *a, void *block, size_t bytes, uint32_t unit);
/* Bytes of chunks that somebody has: arena_bytes less what has been given back. */
uint64_t arena_used(const struct arena *a);

#endif
