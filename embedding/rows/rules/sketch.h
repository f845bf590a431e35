/* sketch.h: how often keys of one tablet were seen, in a fixed number of cells: a count-min sketch
 * (Cormode, Muthukrishnan 2005) of four rows with conservative update (Estan, Varghese 2002): a
 * count is never too low, and too high only if other keys share all four cells.
 *
 * Two generations, as in waiting.h: the old one's count of a key continues in the young one when
 * the key is seen. They turn when the young one has half of the allowed keys, or when the tablet
 * ages: without turns a sketch would fill up and admit every key. Cells have 16 bits and saturate
 * at 65,535. Owned by its tablet, part of its image. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_RULES_SKETCH_H
#define EMBEDDING_ROWS_RULES_SKETCH_H

#include <stddef.h>
#include <stdint.h>

#define SKETCH_ROWS 4u
#define SKETCH_MAX 65535u

struct sketch {
    uint16_t *cell;   /* owned; (2, SKETCH_ROWS, columns), young first; NULL before the first key */
    uint32_t columns; /* a power of two */
    uint32_t keys[2]; /* keys that were new to each generation */
};

void sketch_clear(struct sketch *s);
/* Counts `times` more of a key and gives its count. cells: of one generation, a power of two, at
 * least 4. limit: keys of both generations. 0 or SHOAL_E_NOMEM. */
int sketch_add(struct sketch *s, uint32_t cells, uint32_t limit, uint64_t key, uint32_t times,
               uint32_t *count);
void sketch_turn(struct sketch *s);

/* For images: all cells, both generations. */
static inline size_t sketch_bytes(const struct sketch *s)
{
    if (s->cell == NULL)
        return 0;

    return 2 * (size_t)SKETCH_ROWS * s->columns * sizeof *s->cell;
}
int sketch_take(struct sketch *s, uint32_t cells); /* zeroed cells: 0 or SHOAL_E_NOMEM */

#endif
