/* epoch.h: what happens from one epoch to the next, and where training pauses within one: planning,
 * the barrier, evaluation, what is kept (judge.h). Part of coord_flow: these functions move the
 * phase on through coord_phase_enter. */
#ifndef SERVER_COORD_EPOCH_H
#define SERVER_COORD_EPOCH_H

#include "proto/base/err.h"
#include "server/coord/core.h"

#include <stdbool.h>

/* Cuts the epoch at hand into its tasks: how it was dealt, or is to be. */
int coord_epoch_cut(struct coord_job *j, struct err *e);
/* Plans the epoch at hand and takes back what is stored of it. False: failed. */
bool coord_epoch_plan(struct coord_job *j);
/* TRAIN, EVAL, TEST, GROW: moves on when their work is done. */
bool coord_epoch_step(struct coord_job *j);
/* After a restart: enters EVAL, RESTORE, TEST, DIGEST or GROW anew. */
bool coord_epoch_resume(struct coord_job *j, enum coord_phase phase);
int coord_epoch_load(struct coord_job *j, struct err *e);
/* Whether too many of these lines of training, and of a growing log's rounds before, are malformed,
 * even if of `left` more none is; the job then fails. Of so few that one could be too many nothing
 * is said. */
bool coord_epoch_bad_train(struct coord_job *j, const struct coord_losses *so_far, uint64_t left);

#endif
