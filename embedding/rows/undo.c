/* undo.c: a list of entries in order of saving, with a small index. */
#include "embedding/rows/undo.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/salt.h"

#include <stdlib.h>
#include <string.h>

#define ROOM_FIRST 8u

struct undo *undo_new(uint32_t width)
{
    SHOAL_ASSERT(width > 0);
    struct undo *u = calloc(1, sizeof *u);
    if (u != NULL) {
        u->width = width;
        u->salt = salt_draw();
    }
    return u;
}

static void buffers_free(struct undo *u)
{
    free(u->keys);
    free(u->weights);
    free(u->slots);
    *u = (struct undo){.clock = u->clock, .width = u->width, .salt = u->salt};
}

void undo_free(struct undo *u)
{
    if (u == NULL)
        return;
    buffers_free(u);
    free(u);
}

void undo_begin(struct undo *u, uint64_t clock, uint32_t from)
{
    SHOAL_ASSERT(clock != 0); /* 0 is no clock's name */
    if (u->clock == clock)
        return;
    if (u->went)
        buffers_free(u);
    u->clock = clock;
    u->from = from;
    u->count = 0;
    if (u->slots != NULL)
        memset(u->slots, 0, (u->slot_mask + 1ULL) * sizeof *u->slots);
}

/* The slot of a key, or the free slot where it belongs. A free one always exists: at most half are
 * taken. */
static uint32_t slot_of(const struct undo *u, uint64_t key)
{
    uint32_t slot = (uint32_t)salt_mix(u->salt, key_mix(key)) & u->slot_mask;
    while (u->slots[slot] != 0 && u->keys[u->slots[slot] - 1] != key)
        slot = (slot + 1) & u->slot_mask;
    return slot;
}

static int grow(struct undo *u)
{
    uint32_t room = u->room + u->room / 4 + ROOM_FIRST, mask = 15;
    while (mask < 2 * room)
        mask = 2 * mask + 1;
    uint64_t *keys = realloc(u->keys, room * sizeof *keys);
    if (keys == NULL)
        return SHOAL_E_NOMEM;
    u->keys = keys;
    float *weights = realloc(u->weights, (size_t)room * u->width * sizeof *weights);
    if (weights == NULL)
        return SHOAL_E_NOMEM;
    u->weights = weights;
    uint32_t *slots = calloc(mask + 1ull, sizeof *slots);
    if (slots == NULL)
        return SHOAL_E_NOMEM;
    free(u->slots);
    u->slots = slots;
    u->slot_mask = mask;
    u->room = room;
    SHOAL_ASSERT((mask & (mask + 1)) == 0 && u->count < room);
    for (uint32_t i = 0; i < u->count; i++)
        u->slots[slot_of(u, u->keys[i])] = i + 1;
    return 0;
}

int undo_save(struct undo *u, uint64_t key, const float *weights)
{
    if (u->count == u->room && grow(u) != 0)
        return SHOAL_E_NOMEM;
    uint32_t slot = slot_of(u, key);
    if (u->slots[slot] != 0)
        return 0;
    u->keys[u->count] = key;
    memcpy(u->weights + (size_t)u->count * u->width, weights, u->width * sizeof *weights);
    u->slots[slot] = ++u->count;
    return 0;
}

const float *undo_find(const struct undo *u, uint64_t key)
{
    if (u->count == 0)
        return NULL;
    uint32_t entry = u->slots[slot_of(u, key)];

    if (entry == 0)
        return NULL;

    return u->weights + (size_t)(entry - 1) * u->width;
}

uint64_t undo_bytes(const struct undo *u)
{
    if (u == NULL)
        return 0;
    SHOAL_ASSERT(u->count <= u->room);
    uint64_t slots = 0;
    if (u->slots != NULL)
        slots = u->slot_mask + 1ULL;

    return sizeof *u + u->room * (sizeof *u->keys + u->width * sizeof *u->weights) +
           slots * sizeof *u->slots;
}
