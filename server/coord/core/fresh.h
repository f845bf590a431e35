/* fresh.h: drops rows of the servers before a job begins: all rows of its space (`fresh: [all]`,
 * and for a job that goes back to a checkpoint, back.h), or, for a job that begins with the
 * servers' tables, the rows of some fields (`fresh: [names]`). Rows of other spaces stay.
 *
 *     submit: wanted -> the job is about to set up: begun -> ROWS_GO, the first step of each shard
 *                    -> a shard comes to it: begun -> ROWS_GO, the step before RUN_OPEN
 *                    -> all are set up: done
 *
 * Invariants:
 *  1. ROWS_GO of all rows, under the run's number, is sent only until all shards are set up for
 *     the run for the first time: after that the run has rows of its own. [test:
 *     coord_clears_once]
 *  2. Rows that are left while a drop is begun and not done belong to no job: no job goes on
 *     with them, whatever happens to the job that began the drop. [test:
 *     coord_half_cleared_is_nobodys] Fields that are half dropped are dropped completely in the
 *     next job that begins with the tables, even if it does not ask for it. [test:
 *     coord_half_fresh_fields_are_carried] */
#ifndef SERVER_COORD_CORE_FRESH_H
#define SERVER_COORD_CORE_FRESH_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;
struct coord_space;

struct coord_fresh_fields { /* value of "fresh_fields", in the space's part of the store */
    uint64_t number, begun; /* as in struct coord_fresh */
    char what[WIRE_WITHOUT];
};

int coord_fresh_open(struct coord_fleet *fleet, struct err *e);
/* Stores, at submit, what the job asks to be dropped before it trains: all rows of its space, or
 * the rows of `fields` in the tables that it begins with ("": of no field). False: the store
 * failed. */
bool coord_fresh_want(struct coord_fleet *f, struct coord_space *s, uint64_t number, bool all,
                      const char *fields);
/* Returns the fields that the job has still to drop; NULL: none. */
const char *coord_fresh_fields_due(const struct coord_job *j);
/* Returns the fields of the space that a job began to drop and did not finish; "": none. */
const char *coord_fresh_fields_half(const struct coord_space *s);
/* True while the job has still to drop all rows of its space. */
bool coord_fresh_due(const struct coord_job *j);
/* True when a job began to drop all rows of the space and not all servers have done it (2). */
bool coord_fresh_half(const struct coord_space *s);
/* The job goes back: all rows of the space are to be dropped once more. False: the store failed. */
bool coord_fresh_again(struct coord_fleet *f, struct coord_space *s, uint64_t number);
/* Forgets what is to be dropped of a space that is gone. False: the store failed. */
bool coord_fresh_gone(struct coord_fleet *f, struct coord_space *s);
/* Notes that dropping all rows begins, before the first shard is told. False: the store failed. */
bool coord_fresh_begin(struct coord_job *j);
/* Notes that dropping some fields begins, before the first shard is asked. False: the store
 * failed. */
bool coord_fresh_fields_begin(struct coord_job *j);
/* All shards are set up: notes the end of both. False: the store failed. */
bool coord_fresh_done(struct coord_job *j);

#endif
