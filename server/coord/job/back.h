/* back.h: a job goes back to its newest checkpoint, or to the checkpoint that it resumed from, when
 * rows are lost or the shards have no consistent state left. Without a checkpoint the job ends.
 *
 *   A server died and its rows were in memory (durability: memory). The job waits for the server,
 *     if there is a checkpoint (status.c). The server comes back empty. --coord_back_lost-+
 *   Power loss took more pushes than can be undone or trained again.                      |
 *     --coord_back_want, seen at a fence (grant.c)--> coord_back_step---------------------+
 *   An operator has replaced a server whose disk is lost. --coord_back_replaced-----------+
 *                                                                                         v
 *   A checkpoint that is to get its name is waited for (checkpoint_coming.c). Then an errand reads
 *     the newest one (newest.h). The job waits as long as the folder does not answer.
 *                                                                                         v
 *   The store gets the checkpoint's content, under a new run --> SETUP (flow.h): every shard drops
 *     the rows of its space (ROWS_GO, fresh.h) and loads the checkpoint's (LOAD). Rows of other
 *     spaces stay.
 *
 * From then on it is a job that resumes from a checkpoint. A server that dies while the others load
 * has only not loaded yet, because nothing was trained. So each return costs one load, and a load
 * that fails ends the job. The sixth return in a row to one checkpoint, with no batch done that had
 * not been done before, ends the job too: a server that dies at the same batch each time would
 * otherwise send the job back without end. The count begins anew when the job is submitted again to
 * a coordinator that has restarted: a run may be broken off and continued any number of times.
 *
 * Invariants:
 *  1. Work from before the return does not count. The run is new, and the shards refuse pushes of
 *     another run. All workers are forgotten and join again under new numbers. Generations of lanes
 *     only rise. [test: checkpoint_in_memory_is_gone_back_to]
 *  2. The content of the checkpoint is in the store before the progress that says SETUP, and
 *     "back_to" is in the store before all of it: a coordinator that dies in between goes back
 *     again. [test: checkpoint_gone_back_to_half_is_gone_back_to]
 *     [test: checkpoint_half_stored_is_gone_back_to]
 *  3. A process that has lost rows is noted as the one that has the tables (coord_member_note_made)
 *     only when each job that needs them has stored its return, or its end, and each other space
 *     that had them is stored as lost: a coordinator that dies before notices the loss again.
 *     [test: rows_lost_in_setup_end_the_job] [assert: rows_note]
 *  4. Tables that only some shards have dropped belong to no job, whatever happens to this one
 *     (fresh.h, 2). [test: checkpoint_half_gone_back_to_is_nobodys] */
#ifndef SERVER_COORD_JOB_BACK_H
#define SERVER_COORD_JOB_BACK_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include <stdbool.h>
#include <stdint.h>

struct coord_job;

#define COORD_BACK_ADVICE                                                                          \
    "begin it anew (--set fresh=all), with checkpoint: {dir: FOLDER, every_minutes: N} to go "     \
    "back "                                                                                        \
    "to, or on servers with durability: journal"

/* True while the job needs rows that the shards have: those that it has trained, or the tables that
 * it begins with. A job that is being set up with none, or with those of a checkpoint in a new
 * space, needs none. */
bool coord_back_needs(const struct coord_job *j);
/* True when the shard has lost rows that the job needs, also when a coordinator before this one
 * noticed the loss. */
bool coord_back_rows_lost(const struct coord_job *j, uint32_t shard);
/* The shard has lost such rows: the next step sends the job back, or ends it. */
void coord_back_lost(struct coord_job *j, uint32_t shard);
/* Returns the batches of all lanes that are done on every shard, as far as the coordinator
 * knows. */
uint64_t coord_back_batches(const struct coord_job *j);
/* An operator's order sends the job back (replace.h). */
void coord_back_replaced(struct coord_job *j);
void coord_back_step(struct coord_job *j);
/* The job was submitted again: forgets how often it went back in vain. */
void coord_back_forgive(struct coord_job *j);
/* After a restart: reads how often the job went back, and whether a return was interrupted. */
int coord_back_load(struct coord_job *j, struct err *e);

#endif
