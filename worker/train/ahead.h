/* ahead.h: looking ahead: which rows of a batch are pulled while earlier batches of its lane are
 * not pushed, and which come with the answers to those pushes (echoes).
 *
 * A row that an unpushed batch b has too must contain b's push before it is used. Such a key is not
 * pulled: it is left to the latest earlier batch that has it, whose push names it in a bitmap; the
 * answer brings its row as it is after the push. All later batches before its own are without it,
 * so with one lane the row is what a pull in turn would give. All other keys are pulled at once:
 * they are in no push that is still to be sent. A dense table's blocks are in every push, so they
 * always come with the batch before.
 *
 * Keys of a table are sorted by key_mix in each batch, so a division is a merge for each earlier
 * batch, the latest first. A batch has this struct as the later one of a division (due, waits) and
 * as an earlier one (echo, batches, place).
 *
 * An echo that does not come (the push went out as a tick, the shard gives no rows, they are too
 * old) makes its keys due again; the batch then pulls them, after that push.
 *
 * Pure: no messages, no threads. One thread at a time uses a struct ahead; a division also writes
 * the earlier one. */
#ifndef WORKER_TRAIN_AHEAD_H
#define WORKER_TRAIN_AHEAD_H

#include "proto/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

#define AHEAD_TABLES (LIMIT_JOB_TABLES + 2u)
#define AHEAD_BATCHES 64u /* the largest train.prefetch */

/* Keys of one table in a batch, unique, sorted by key_mix; borrowed. */
struct ahead_keys {
    const uint64_t *key; /* (count) */
    uint32_t count;
};

struct ahead {
    uint32_t tables;
    /* where each table's keys begin in the arrays below, a multiple of 8; the last one: the end */
    uint32_t first[AHEAD_TABLES + 1];
    uint32_t capacity; /* capacity of the arrays, a multiple of 8 */
    uint8_t *due;      /* owned (capacity / 8): bits: keys of this batch that are to be pulled */
    uint8_t *echo;     /* owned (capacity / 8): bits: keys whose rows a later batch awaits */
    /* owned (capacity), for keys whose echo bit is set: by how many batches the waiting batch is
     * later, and the place of the row among that batch's keys of the table */
    uint8_t *batches;
    uint32_t *place;
    uint32_t waits;  /* rows of this batch that are still to come with earlier pushes */
    uint32_t missed; /* rows of it that did not come, and are due again */
};

/* For a new batch with so many keys in each table: all of them are due, or none; none is awaited.
 * NOMEM. */
int ahead_begin(struct ahead *a, const uint32_t *counts, uint32_t tables, bool due);
void ahead_close(struct ahead *a);

/* Leaves those due keys of table `table` that an earlier batch has to that batch's push. Called for
 * the latest earlier batch first. `batches`: by how many batches `a` is later. */
void ahead_divide(struct ahead *a, uint32_t table, struct ahead_keys own, struct ahead *earlier,
                  struct ahead_keys its, uint8_t batches);
/* Lists the due keys of a table and their places, in order, and makes them due no more. key, place:
 * room for own.count. Returns their number. */
uint32_t ahead_list(struct ahead *a, uint32_t table, struct ahead_keys own, uint64_t *key,
                    uint32_t *place);

/* Echoes among the keys [key, key + count) of a table. */
uint32_t ahead_echoes(const struct ahead *a, uint32_t table, uint32_t key, uint32_t count);
/* Writes their bitmap, (count + 7) / 8 bytes, as PUSH has it (wire.h). */
void ahead_bitmap(const struct ahead *a, uint32_t table, uint32_t key, uint32_t count,
                  uint8_t *bits);
/* The first echo's key of a table from `key` on, below `end`; else `end`. */
uint32_t ahead_next(const struct ahead *a, uint32_t table, uint32_t key, uint32_t end);
/* The echo of a key has come, or has not: it is asked for no more. later: the batch that waits for
 * it, in which it is due again if it has not come. */
void ahead_settle(struct ahead *a, uint32_t table, uint32_t key, struct ahead *later, bool came);

/* True when rows that a shard gave with the push of a batch are fresh enough for one that is
 * `batches` later, under this staleness. clock: the pushed batch's at the shard; low: the lowest
 * clock of the other live lanes there (wire.h). A pull of the later batch would have clock +
 * batches, and would wait until they are at least at that - staleness - 1. */
bool ahead_serves(uint64_t clock, uint64_t low, uint32_t batches, uint64_t staleness);

#endif
