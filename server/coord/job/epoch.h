/* epoch.h: the steps from one epoch to the next, and the pauses of training within one: planning,
 * the barrier, evaluation, the kept tables (judge.h). coord_flow_step (flow.h) calls these
 * functions, and they change the phase through coord_phase_enter. */
#ifndef SERVER_COORD_JOB_EPOCH_H
#define SERVER_COORD_JOB_EPOCH_H

#include "proto/base/err.h"
#include "server/coord/core/core.h"

#include <stdbool.h>

/* Cuts the current epoch into its tasks, the same way each time it is called. */
int coord_epoch_cut(struct coord_job *j, struct err *e);
/* Plans the current epoch and takes over its stored tasks. False: the job failed. */
bool coord_epoch_plan(struct coord_job *j);
/* TRAIN, EVAL, TEST, GROW, CUT: changes the phase when the work of this one is done. */
bool coord_epoch_step(struct coord_job *j);
/* Enters EVAL, RESTORE, TEST, DIGEST or GROW; also anew after a restart. */
bool coord_epoch_resume(struct coord_job *j, enum coord_phase phase);
int coord_epoch_load(struct coord_job *j, struct err *e);
/* True when too many of these lines of training, and of a growing log's earlier rounds, are
 * malformed, even if none of `left` further lines is; the job then fails. Below BAD_LINES_OF lines
 * it waits, because a single bad line could exceed the limit. */
bool coord_epoch_bad_train(struct coord_job *j, const struct coord_losses *so_far, uint64_t left);

#endif
