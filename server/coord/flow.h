/* flow.h: the life of a job, phase by phase. An arrow has the function that takes it, and when; the
 * same as a table: phase.c.
 *
 *   NONE --coord_submit--> WAITING
 *     | step_waiting: shards and workers are there
 *     v
 *   INDEX
 *     | step_index: the rows of all splits are known
 *     v
 *   TABLES
 *     | step_tables: all are declared, the map is made
 *     v
 *   SETUP
 *     | step_setup: every shard has map, tables, run
 *     v
 *   LANES
 *     | step_lanes: every lane is fenced
 *     v              epoch_next, epoch_goes_on: there is more to train
 *   TRAIN <---------------+----------------------+----------------+
 *     |                   |                      |                |
 *     | step_train: tasks are pushed, up to where they stop       |
 *     +---(no data.valid)-+                      |                |
 *     +--eval_begin--> EVAL ---------------------+                |
 *     |                 | eval_valid_ended: the best so far       |
 *     |                 +--> CUT ----------------cut_made---------+
 *     |
 *     | training_ended, from TRAIN, EVAL or CUT: no epoch, time or patience is left
 *     +--restore_begin--> RESTORE   from EVAL alone: the best is not the last
 *     |                     |
 *     |                  restored
 *     |                     v
 *     +--eval_begin-----------> TEST   where there is data.test
 *     |                     |    |
 *     |                     v    v step_eval
 *     +--coord_epoch_resume----> DIGEST
 *                                  | step_digest: all tables are digested
 *                                  v
 *                                FINISH
 *                                  | step_finish: the workers have left
 *                                  v
 *                                DONE
 *
 *   TRAIN, EVAL --a round is over--> GROW --round_next: objects have come--> TRAIN
 *                                      +--coord_judge_over--> as from TRAIN    (grow.h)
 *   WAITING .. FINISH --coord_end_fail--> FAILED
 *   SETUP .. DIGEST --coord_back_lost, _step: rows are lost, there is a checkpoint--> SETUP
 *
 * coord_flow_step is the one place that moves on; callbacks and messages only note what has come.
 * Every change of phase is stored before it takes effect. After a restart: WAITING where SETUP had
 * not come yet; else SETUP, then (step_setup) LANES and TRAIN with the epoch's stored tasks, or the
 * phase that was: EVAL, RESTORE, TEST, DIGEST (CUT: EVAL again). A job from a checkpoint: the same
 * as after a restart, with what the checkpoint says in the store's place; in SETUP shards load
 * their tablets instead of opening an empty run. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FLOW_H
#define SERVER_COORD_FLOW_H

#include "proto/base/err.h"

struct coord_job;

/* Reads the state back; the job goes on from where it was. */
int coord_flow_open(struct coord_job *j, struct err *e);
/* The job whose progress is in job.at goes on with what else the store says of it: after a restart,
 * and when it goes back (back.h). */
int coord_flow_resume(struct coord_job *j, struct err *e);
void coord_flow_step(struct coord_job *j);

#endif
