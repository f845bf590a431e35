/* undo.h: the weights of a tablet's rows before one clock, which bsp needs to compute a dead
 * worker's batch again.
 *
 * A clock here is a name made of run and clock (table_undo_clock). There is at most one entry for
 * each key: the first save in a clock counts. A save for another clock drops all entries. The
 * buffers stay, so a steady clock allocates nothing (but see `went`). Owned by its tablet, part of
 * its image. Thread: the shard's. */
#ifndef EMBEDDING_ROWS_UNDO_H
#define EMBEDDING_ROWS_UNDO_H

#include <stdbool.h>
#include <stdint.h>

struct undo {
    uint64_t clock;
    /* the tablet's event time before the clock: rows in the store that expired in it are aged by
     * this time (cold.c) */
    uint32_t from;
    uint32_t width;
    /* some entries are of rows that went: there are more than a clock usually has, so the buffers
     * are freed with the clock */
    bool went;
    uint32_t count, room;
    uint32_t slot_mask; /* slots - 1; at least twice room */
    uint64_t *keys;     /* owned; (room) */
    float *weights;     /* owned; (room, width) */
    /* owned; open addressing by mixed key and salt: entry number + 1; 0: free */
    uint32_t *slots;
    uint64_t salt;
};

/* NULL: no memory. */
struct undo *undo_new(uint32_t width);
void undo_free(struct undo *u);
/* Begins `clock`, which starts at event time `from` of the tablet, unless it is the current one. */
void undo_begin(struct undo *u, uint64_t clock, uint32_t from);
/* Saves weights (width) for key, unless the key has an entry. 0 or SHOAL_E_NOMEM. */
int undo_save(struct undo *u, uint64_t key, const float *weights);
/* The saved weights, or NULL; valid until the next save. */
const float *undo_find(const struct undo *u, uint64_t key);
uint64_t undo_bytes(const struct undo *u); /* memory in use; NULL: 0 */

#endif
