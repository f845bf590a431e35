/* sketch.c: counts in cells. */
#include "embedding/rows/rules/sketch.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"

#include <stdlib.h>
#include <string.h>

void sketch_clear(struct sketch *s)
{
    free(s->cell);
    *s = (struct sketch){0};
}

int sketch_take(struct sketch *s, uint32_t cells)
{
    SHOAL_ASSERT(cells >= SKETCH_ROWS && (cells & (cells - 1)) == 0);
    s->columns = cells / SKETCH_ROWS;
    s->cell = calloc(2 * (size_t)SKETCH_ROWS * s->columns, sizeof *s->cell);
    if (s->cell == NULL)
        return SHOAL_E_NOMEM;
    return 0;
}

/* A key's cells in one generation; returns their smallest count. Two halves of one hash make all
 * four (Kirsch, Mitzenmacher 2006). */
static uint32_t look(const struct sketch *s, uint32_t generation, uint64_t hash,
                     uint16_t *cell[SKETCH_ROWS])
{
    uint32_t first = (uint32_t)hash, step = (uint32_t)(hash >> 32) | 1, least = SKETCH_MAX;
    for (uint32_t i = 0; i < SKETCH_ROWS; i++) {
        uint32_t column = (first + i * step) & (s->columns - 1);
        cell[i] = &s->cell[((size_t)generation * SKETCH_ROWS + i) * s->columns + column];
        if (*cell[i] < least)
            least = *cell[i];
    }
    return least;
}

int sketch_add(struct sketch *s, uint32_t cells, uint32_t limit, uint64_t key, uint32_t times,
               uint32_t *count)
{
    uint16_t *young[SKETCH_ROWS], *old[SKETCH_ROWS];
    /* independent of key_mix, which assigned keys to tablets */
    uint64_t hash = rng_mix(key + 0x9e3779b97f4a7c15ULL);
    if (s->cell == NULL && sketch_take(s, cells) != 0)
        return SHOAL_E_NOMEM;
    SHOAL_VERIFY_ASSERT(s->columns * SKETCH_ROWS == cells);
    uint32_t before = look(s, 0, hash, young), past = look(s, 1, hash, old);
    uint32_t known = MAX(before, past),
             now = times < SKETCH_MAX - known ? known + times : SKETCH_MAX;
    SHOAL_ASSERT(now >= known && now <= SKETCH_MAX); /* a count is never too low */
    for (uint32_t i = 0; i < SKETCH_ROWS; i++)
        if (*young[i] < now)
            *young[i] = (uint16_t)now;
    *count = now;
    s->keys[0] += before == 0 && times > 0;
    if (s->keys[0] >= MAX(limit / 2, 1))
        sketch_turn(s);
    return 0;
}

void sketch_turn(struct sketch *s)
{
    if (s->cell == NULL)
        return;
    size_t half = (size_t)SKETCH_ROWS * s->columns;
    SHOAL_ASSERT(s->columns > 0 && (s->columns & (s->columns - 1)) == 0);
    memcpy(s->cell + half, s->cell, half * sizeof *s->cell);
    memset(s->cell, 0, half * sizeof *s->cell);
    s->keys[1] = s->keys[0];
    s->keys[0] = 0;
}
