/* flow.h: the life of a job, phase by phase. An arrow is labelled with the function that takes it,
 * and when; phase.c has the same as a table.
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
 *     | step_train: tasks are pushed, up to their stop            |
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
 *     +--eval_begin-----------> TEST   if there is data.test
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
 * coord_flow_step alone changes the phase; callbacks and messages only note what has arrived. Every
 * change of phase is stored before it takes effect. After a restart the job is in WAITING if SETUP
 * had not begun; else in SETUP, then (step_setup) in LANES and TRAIN with the epoch's stored tasks,
 * or in its former phase: EVAL, RESTORE, TEST, DIGEST, GROW (CUT: EVAL again). A job from a
 * checkpoint does the same as after a restart, with the checkpoint's content in place of the
 * store's; in SETUP shards load their tablets instead of opening an empty run. Thread: the
 * coordinator's loop. */
#ifndef SERVER_COORD_JOB_FLOW_H
#define SERVER_COORD_JOB_FLOW_H

#include "proto/base/err.h"

struct coord_job;

/* Reads the stored state; the job goes on where it was. */
int coord_flow_open(struct coord_job *j, struct err *e);
/* The job whose progress is in `at` goes on with its other stored values: after a restart, and when
 * it goes back (back.h). */
int coord_flow_resume(struct coord_job *j, struct err *e);
void coord_flow_step(struct coord_job *j);

#endif
