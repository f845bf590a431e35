/* back.h: a job whose rows are lost, or can be had of no one moment any more, goes back to its
 * newest checkpoint, or to the one that it went on from; without one it ends.
 *
 *   rows in the memory of a server that died (durability: memory): it is waited for, where there is
 *     a checkpoint (status.c), and is back, empty --coord_back_lost---+
 *   pushes that power took, more than can be undone or trained again, |
 *     and no other job's tables are there, which would go               |
 *     --coord_back_want, seen at a fence (grant.c)--> coord_back_step-+
 *                                                                     v
 *   an errand reads the newest checkpoint (newest.h); the job waits, however long its folder does
 *     not answer
 *                                                                     v
 *   the store says what the checkpoint says, under a new run --> SETUP (flow.h): every shard drops
 *     what it has (ROWS_GO, fresh.h), and loads (LOAD)
 *
 * From there on it is a job that goes on from a checkpoint. A server that dies while the others
 * load is one that has not loaded yet: nothing was trained. So each return costs one load, and one
 * that fails ends the job. So does the sixth in a row to one checkpoint after which no batch was
 * done that had not been done before: a server that dies at the same batch each time would send the
 * job back without end.
 *
 * Invariants:
 *  1. Nothing of before counts: the run is a new one, which all shards refuse to those who push for
 *     another; all workers are forgotten and join again, under new numbers; generations of lanes
 *     only rise. [test: checkpoint_in_memory_is_gone_back_to]
 *  2. All that the checkpoint says is in the store before the progress that says SETUP, and before
 *     all of it that the job goes back: a coordinator that dies between does it again. [test:
 *     checkpoint_gone_back_to_half_is_gone_back_to] [test: checkpoint_half_stored_is_gone_back_to]
 *  3. Tables that some shards have dropped and others not are nobody's, whatever becomes of the job
 *     (fresh.h, 2). [test: checkpoint_half_gone_back_to_is_nobodys] */
#ifndef SERVER_COORD_BACK_H
#define SERVER_COORD_BACK_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "server/coord/member.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

#define COORD_BACK_ADVICE                                                                          \
    "start the job again, with durability: journal, or with checkpoint: {dir: FOLDER, "            \
    "every_minutes: N} to go back to"

/* Whether the shard, just heard as `what`, has lost rows that the job at hand needs. */
bool coord_back_rows_lost(const struct coord_job *j, uint32_t shard, enum coord_beat what);
/* It has: the job goes back, or ends. */
void coord_back_lost(struct coord_job *j, uint32_t shard);
/* Servers have lost what the job needs, and the sentence says what: with the next step it goes
 * back, or ends with the sentence. */
void coord_back_want(struct coord_job *j, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void coord_back_step(struct coord_job *j);
/* After a restart: how often the job went back, and whether it has still to. */
int coord_back_load(struct coord_job *j, struct err *e);

#endif
