/* fresh.h: what the servers hold goes before a job begins (`fresh: [all]`).
 *
 *     submit: wanted -> the job is about to set up: begun -> CLEAR, the first step of each shard
 *                                                         -> all are set up: done
 *
 * Invariants:
 *  1. CLEAR is sent only until all shards are set up for the job's first time: after that its own
 *     rows are there. [test: coord_clears_once]
 *  2. Begun and not done, what is left is nobody's: no job goes on with it, whatever became of the
 *     one that began it. [test: coord_half_cleared_is_nobodys] */
#ifndef SERVER_COORD_FRESH_H
#define SERVER_COORD_FRESH_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct coord;

struct coord_fresh {        /* value of "clear" */
    uint64_t number, begun; /* of the job that wants it, 0: none; a shard may have done it */
};

int coord_fresh_open(struct coord *c, struct err *e);
/* A job is submitted that has it, or has not. False: the store failed. */
bool coord_fresh_want(struct coord *c, uint64_t number, bool all);
/* Whether the job at hand has still to clear the servers. */
bool coord_fresh_due(const struct coord *c);
/* The servers were not all cleared for a job that began to (2). */
bool coord_fresh_half(const struct coord *c);
/* Before the first shard hears of it; and once all are set up. False: the store failed. */
bool coord_fresh_begin(struct coord *c);
bool coord_fresh_done(struct coord *c);

#endif
