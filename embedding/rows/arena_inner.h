/* arena_inner.h: the arena of one shard: memory in chunks of 2 MiB, aligned and MADV_HUGEPAGE,
 * divided into units of 4 KiB.
 *
 * Rows lie in pages of one or a few units; the tablets' indexes take runs of units, too. Any tablet
 * can take the units that another one returns (after an index grew or a tablet was cleared), so
 * growing wastes no memory. A unit's number is chunk number x 512 + unit in chunk: a 4-byte row
 * reference reaches a row through one small array of chunk addresses. Memory goes back to the
 * system by arena_trim and arena_free alone. Thread: the shard's. */
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
    char **chunk;                        /* owned; (chunk_count): addresses */
    uint64_t (*used)[ARENA_CHUNK_WORDS]; /* owned; (chunk_count): a bit for each unit */
    uint16_t *free_units;                /* owned; (chunk_count) */
    uint32_t chunk_count;                /* taken from the system and used by the arena */
    uint8_t *bare;                       /* owned; (chunk_count): 1: the system has its memory */
    uint32_t chunk_room;                 /* capacity of the four arrays */
    uint32_t first_free;                 /* no chunk below it has a free unit */
    char *region;                        /* address space from which chunks are taken */
    uint32_t region_left;                /* chunks left in it */
    void **regions;                      /* owned; arena_free unmaps them */
    uint32_t region_count, region_room;
    uint64_t large_bytes; /* bytes of blocks larger than a chunk */
    uint64_t free_total;  /* free units in all chunks */
    uint64_t bare_bytes;  /* bytes of the chunks that are bare */
};

/* Takes a run of `units` (1..512) adjacent units of one chunk. Returns the number of the first, or
 * ARENA_NONE without memory. Not zeroed. */
uint32_t arena_take(struct arena *a, uint32_t units);
void arena_give(struct arena *a, uint32_t unit, uint32_t units);
/* Gives the memory of chunks without a used unit back to the system; their addresses stay. */
void arena_trim(struct arena *a);

static inline void *arena_address(const struct arena *a, uint32_t unit)
{
    return a->chunk[unit / ARENA_CHUNK_UNITS] +
           ((size_t)(unit % ARENA_CHUNK_UNITS) << ARENA_UNIT_BITS);
}

/* Takes a block of `bytes`, zeroed and aligned to 64: from malloc below a unit, else units of a
 * chunk, or chunks of its own. *unit: its first unit, or ARENA_NONE. NULL: no memory. */
void *arena_block_take(struct arena *a, size_t bytes, uint32_t *unit);
void arena_block_give(struct arena *a, void *block, size_t bytes, uint32_t unit);
/* Bytes of the arena that such a block takes; 0: it is from malloc. */
uint64_t arena_block_bytes(size_t bytes);
/* Bytes of units in use: arena_bytes without the free ones. */
uint64_t arena_used(const struct arena *a);

#endif
