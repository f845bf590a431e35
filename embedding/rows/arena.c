/* arena.c: takes chunks from the system, and runs of units from chunks. */
#include "embedding/rows/arena_inner.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REGION_CHUNKS 32u

int arena_new(struct arena **out)
{
    *out = calloc(1, sizeof **out);
    if (*out == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    SHOAL_ASSERT(a->large_bytes == 0);
    for (uint32_t i = 0; i < a->region_count; i++)
        munmap(a->regions[i], REGION_CHUNKS * ARENA_CHUNK_BYTES);
    free(a->regions);
    free(a->chunk);
    free(a->used);
    free(a->free_units);
    free(a->bare);
    free(a);
}

uint64_t arena_bytes(const struct arena *a)
{
    return (uint64_t)a->chunk_count * ARENA_CHUNK_BYTES + a->large_bytes - a->bare_bytes;
}

uint64_t arena_used(const struct arena *a)
{
    SHOAL_ASSERT(a->free_total <= (uint64_t)a->chunk_count * ARENA_CHUNK_UNITS);
    return arena_bytes(a) + a->bare_bytes - a->free_total * ARENA_UNIT_BYTES;
}

/* Reserves address space aligned to a chunk; memory is used only where it is touched. NULL: the
 * system refuses. */
static void *map_aligned(size_t bytes)
{
    SHOAL_ASSERT(bytes > 0 && bytes % ARENA_CHUNK_BYTES == 0);
    size_t slack = ARENA_CHUNK_BYTES;
    char *p = mmap(NULL, bytes + slack, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t head = (slack - (uintptr_t)p % slack) % slack;
    if (head > 0)
        munmap(p, head);
    if (slack - head > 0)
        munmap(p + head + bytes, slack - head);
    /* Huge pages only improve speed. */
    (void)madvise(p + head, bytes, MADV_HUGEPAGE);
    SHOAL_ASSERT((uintptr_t)(p + head) % ARENA_CHUNK_BYTES == 0);
    return p + head;
}

static int regions_add(struct arena *a)
{
    SHOAL_ASSERT(a->region_left == 0);
    if (array_room(&a->regions, a->region_count, &a->region_room, 16) != 0)
        return SHOAL_E_NOMEM;
    char *region = map_aligned(REGION_CHUNKS * ARENA_CHUNK_BYTES);
    if (region == NULL)
        return SHOAL_E_NOMEM;
    a->regions[a->region_count++] = region;
    a->region = region;
    a->region_left = REGION_CHUNKS;
    return 0;
}

static int chunk_arrays_grow(struct arena *a)
{
    uint32_t room = MAX(2 * a->chunk_room, 64);
    char **chunk = realloc(a->chunk, room * sizeof *chunk);
    if (chunk == NULL)
        return SHOAL_E_NOMEM;
    a->chunk = chunk;
    uint64_t(*used)[ARENA_CHUNK_WORDS] = realloc(a->used, room * sizeof *used);
    if (used == NULL)
        return SHOAL_E_NOMEM;
    a->used = used;
    uint16_t *free_units = realloc(a->free_units, room * sizeof *free_units);
    if (free_units == NULL)
        return SHOAL_E_NOMEM;
    a->free_units = free_units;
    uint8_t *bare = realloc(a->bare, room * sizeof *bare);
    if (bare == NULL)
        return SHOAL_E_NOMEM;
    a->bare = bare;
    a->chunk_room = room;
    return 0;
}

static int chunk_add(struct arena *a)
{
    if (a->chunk_count == ARENA_NONE / ARENA_CHUNK_UNITS)
        return SHOAL_E_NOMEM;
    if (a->chunk_count == a->chunk_room && chunk_arrays_grow(a) != 0)
        return SHOAL_E_NOMEM;
    if (a->region_left == 0 && regions_add(a) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_ASSERT(a->region_left > 0 && a->chunk_count < a->chunk_room);
    uint32_t c = a->chunk_count++;
    a->chunk[c] = a->region;
    a->region += ARENA_CHUNK_BYTES;
    a->region_left--;
    memset(a->used[c], 0, sizeof a->used[c]);
    a->free_units[c] = ARENA_CHUNK_UNITS;
    a->bare[c] = 0;
    a->free_total += ARENA_CHUNK_UNITS;
    return 0;
}

/* Keeps a bit only where the bit `step` above it is set, too. */
static void bits_and_above(uint64_t bits[ARENA_CHUNK_WORDS], uint32_t step)
{
    const uint32_t words = step / 64, rest = step % 64;
    for (uint32_t i = 0; i < ARENA_CHUNK_WORDS; i++) {
        uint64_t low = i + words < ARENA_CHUNK_WORDS ? bits[i + words] : 0;
        uint64_t high = i + words + 1 < ARENA_CHUNK_WORDS ? bits[i + words + 1] : 0;
        bits[i] &= rest == 0 ? low : low >> rest | high << (64 - rest);
    }
}

/* Position of a free run in a chunk, or its end. Single units, mostly pages of rows, come from the
 * low end and longer runs from the high end, so that single units leave no holes that are too short
 * for longer runs. */
static uint32_t run_find(const uint64_t used[ARENA_CHUNK_WORDS], uint32_t units)
{
    uint64_t starts[ARENA_CHUNK_WORDS];
    for (uint32_t i = 0; i < ARENA_CHUNK_WORDS; i++)
        starts[i] = ~used[i];
    /* After the loop a bit is set where `units` free ones begin: each step doubles the length for
     * which a bit stands. */
    for (uint32_t length = 1; length < units;) {
        uint32_t step = MIN(units - length, length);
        bits_and_above(starts, step);
        length += step;
    }
    for (uint32_t i = 0; units == 1 && i < ARENA_CHUNK_WORDS; i++)
        if (starts[i] != 0)
            return 64 * i + (uint32_t)__builtin_ctzll(starts[i]);
    for (uint32_t i = ARENA_CHUNK_WORDS; units > 1 && i-- > 0;)
        if (starts[i] != 0)
            return 64 * i + 63 - (uint32_t)__builtin_clzll(starts[i]);
    return ARENA_CHUNK_UNITS;
}

static void run_flip(struct arena *a, uint32_t unit, uint32_t units, bool take)
{
    uint64_t *used = a->used[unit / ARENA_CHUNK_UNITS];
    for (uint32_t i = unit % ARENA_CHUNK_UNITS, end = i + units; i < end; i++) {
        uint64_t bit = 1ULL << (i % 64);
        SHOAL_ASSERT(((used[i / 64] & bit) == 0) == take);
        used[i / 64] ^= bit;
    }
}

uint32_t arena_take(struct arena *a, uint32_t units)
{
    SHOAL_ASSERT(units >= 1 && units <= ARENA_CHUNK_UNITS);
    while (a->first_free < a->chunk_count && a->free_units[a->first_free] == 0)
        a->first_free++;
    for (uint32_t c = a->first_free;; c++) {
        if (c == a->chunk_count && chunk_add(a) != 0)
            return ARENA_NONE;
        if (a->free_units[c] < units)
            continue;
        uint32_t at = run_find(a->used[c], units);
        if (at == ARENA_CHUNK_UNITS)
            continue;
        SHOAL_ASSERT(at + units <= ARENA_CHUNK_UNITS && a->free_total >= units);
        uint32_t unit = c * ARENA_CHUNK_UNITS + at;
        run_flip(a, unit, units, true);
        if (a->bare[c] != 0)
            a->bare_bytes -= ARENA_CHUNK_BYTES;
        a->bare[c] = 0;
        a->free_units[c] = (uint16_t)(a->free_units[c] - units);
        a->free_total -= units;
        return unit;
    }
}

void arena_give(struct arena *a, uint32_t unit, uint32_t units)
{
    uint32_t c = unit / ARENA_CHUNK_UNITS;
    SHOAL_ASSERT(c < a->chunk_count && unit % ARENA_CHUNK_UNITS + units <= ARENA_CHUNK_UNITS);
    SHOAL_ASSERT(units >= 1 && a->free_units[c] + units <= ARENA_CHUNK_UNITS);
    run_flip(a, unit, units, false);
    a->free_units[c] = (uint16_t)(a->free_units[c] + units);
    a->free_total += units;
    if (c < a->first_free)
        a->first_free = c;
}

void arena_trim(struct arena *a)
{
    for (uint32_t c = 0; c < a->chunk_count; c++) {
        if (a->free_units[c] != ARENA_CHUNK_UNITS || a->bare[c] != 0)
            continue;
        if (madvise(a->chunk[c], ARENA_CHUNK_BYTES, MADV_DONTNEED) != 0)
            continue;
        a->bare[c] = 1;
        a->bare_bytes += ARENA_CHUNK_BYTES;
    }
}

static size_t whole_chunks(size_t bytes)
{
    return (bytes + ARENA_CHUNK_BYTES - 1) / ARENA_CHUNK_BYTES * ARENA_CHUNK_BYTES;
}

static void *large_take(struct arena *a, size_t bytes)
{
    SHOAL_ASSERT(bytes > ARENA_CHUNK_BYTES);
    void *p = map_aligned(whole_chunks(bytes));
    if (p != NULL)
        a->large_bytes += whole_chunks(bytes);
    return p;
}

static void large_give(struct arena *a, void *memory, size_t bytes)
{
    SHOAL_ASSERT(a->large_bytes >= whole_chunks(bytes));
    a->large_bytes -= whole_chunks(bytes);
    munmap(memory, whole_chunks(bytes));
}

static uint32_t whole_units(size_t bytes)
{
    return (uint32_t)((bytes + ARENA_UNIT_BYTES - 1) / ARENA_UNIT_BYTES);
}

void *arena_block_take(struct arena *a, size_t bytes, uint32_t *unit)
{
    void *block = NULL;
    SHOAL_ASSERT(bytes > 0);
    *unit = ARENA_NONE;
    if (bytes > ARENA_CHUNK_BYTES)
        return large_take(a, bytes); /* fresh from the system: zeros */
    if (bytes < ARENA_UNIT_BYTES) {
        bytes = (bytes + 63) / 64 * 64;
        block = aligned_alloc(64, bytes);
    } else {
        *unit = arena_take(a, whole_units(bytes));
        if (*unit != ARENA_NONE)
            block = arena_address(a, *unit);
    }
    if (block != NULL)
        memset(block, 0, bytes);
    return block;
}

uint64_t arena_block_bytes(size_t bytes)
{
    if (bytes > ARENA_CHUNK_BYTES)
        return whole_chunks(bytes);
    if (bytes < ARENA_UNIT_BYTES)
        return 0;
    return whole_units(bytes) * ARENA_UNIT_BYTES;
}

void arena_block_give(struct arena *a, void *block, size_t bytes, uint32_t unit)
{
    bool in_units = bytes >= ARENA_UNIT_BYTES && bytes <= ARENA_CHUNK_BYTES;
    SHOAL_ASSERT(in_units == (unit != ARENA_NONE));
    if (bytes > ARENA_CHUNK_BYTES)
        large_give(a, block, bytes);
    else if (bytes < ARENA_UNIT_BYTES)
        free(block);
    else
        arena_give(a, unit, whole_units(bytes));
}
