/* fresh.h: what the servers hold goes before a job begins: all of it (`fresh: [all]`; also of one
 * that goes back to a checkpoint, back.h), or, where it begins with that, rows of some fields
 * (`fresh: [names]`).
 *
 *     submit: wanted -> the job is about to set up: begun -> ROWS_GO, the first step of each shard
 *                    -> a shard comes to it: begun -> ROWS_GO, the step before RUN_OPEN
 *                    -> all are set up: done
 *
 * Invariants:
 *  1. ROWS_GO of all, under the run's number, is sent only until all shards are set up for the
 *     run's first time: after that its own rows are there. [test: coord_clears_once]
 *  2. Begun and not done, what is left is nobody's: no job goes on with it, whatever became of the
 *     one that began it. [test: coord_half_cleared_is_nobodys] Fields that are half gone go
 *     wholly in the next job that begins with the tables, whether it says so or not.
 *     [test: coord_half_fresh_fields_are_carried] */
#ifndef SERVER_COORD_FRESH_H
#define SERVER_COORD_FRESH_H

#include "proto/base/err.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_job;

struct coord_fresh {        /* value of "clear" */
    uint64_t number, begun; /* of the job that wants it, 0: none; a shard may have done it */
};

struct coord_fresh_fields { /* value of "fresh_fields" */
    uint64_t number, begun; /* likewise */
    char what[WIRE_WITHOUT];
};

int coord_fresh_open(struct coord_fleet *fleet, struct err *e);
/* A job is submitted that has it, or has not; fields: to go from what it begins with, "": none.
 * False: the store failed. */
bool coord_fresh_want(struct coord_fleet *f, uint64_t number, bool all, const char *fields);
/* The fields that the job at hand has still to drop; NULL: none. */
const char *coord_fresh_fields_due(const struct coord_job *j);
/* Those that a job began to drop and did not end; "": none. */
const char *coord_fresh_fields_half(const struct coord_fleet *f);
/* Whether the job at hand has still to clear the servers. */
bool coord_fresh_due(const struct coord_job *j);
/* The servers were not all cleared for a job that began to (2). */
bool coord_fresh_half(const struct coord_fleet *f);
/* The job goes back: all goes once more. False: the store failed. */
bool coord_fresh_again(struct coord_fleet *f, uint64_t number);
/* Before the first shard hears that all goes; and once all are set up. False: the store failed. */
bool coord_fresh_begin(struct coord_job *j);
/* Before the first shard is asked to drop some of them. False: the store failed. */
bool coord_fresh_fields_begin(struct coord_fleet *fleet);
bool coord_fresh_done(struct coord_job *j);

#endif
