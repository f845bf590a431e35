/* undo.h: the weights that a tablet's rows had before one clock: what bsp needs to compute a dead
 * worker's batch again.
 *
 * A clock here is a name made of run and clock (table_undo_clock). At most one entry a key: the
 * first save of a clock counts. A save for another clock drops all entries; the buffers stay, so a
 * steady clock allocates nothing (but see `went`). Owned by its tablet, part of its image. Thread:
 * the shard's. */
#ifndef EMBEDDING_ROWS_UNDO_H
#define EMBEDDING_ROWS_UNDO_H

#include <stdbool.h>
#include <stdint.h>

struct undo {
    uint64_t clock;
    /* the tablet's event time before it: what rows in the store are aged by that expired in it
     * (cold.c) */
    uint32_t from;
    uint32_t width;
    /* some are of rows that went: more than a clock usually has, so the buffers go with the
     * clock */
    bool went;
    uint32_t count, room;
    uint32_t slot_mask; /* slots less one, at least twice room */
    uint64_t *keys;     /* owned; (room) */
    float *weights;     /* owned; (room, width) */
    uint32_t *slots;    /* owned; open addressing by mixed key and salt: entry number + 1, or 0 */
    uint64_t salt;
};

/* NULL when memory is out. */
struct undo *undo_new(uint32_t width);
void undo_free(struct undo *u);
/* Begins `clock`, which found the tablet at event time `from`, unless it is the one kept. */
void undo_begin(struct undo *u, uint64_t clock, uint32_t from);
/* Keeps weights (width) for key, unless the key has an entry. 0 or SHOAL_E_NOMEM. */
int undo_save(struct undo *u, uint64_t key, const float *weights);
/* The kept weights, or NULL; valid until the next save. */
const float *undo_find(const struct undo *u, uint64_t key);
uint64_t undo_bytes(const struct undo *u); /* memory taken; NULL: 0 */

#endif
