/* epoch.h: what happens from one epoch to the next: planning, the barrier, evaluation, early
 * stopping, best epoch. Part of coord_flow: these functions move the phase on through
 * coord_phase_enter.
 *
 * Early stopping by train.early_stop: an epoch that improves the metric (auc, logloss or gauc; with
 * several labels the mean over those that have it) by more than min_delta is a gain and is kept as
 * a cut (the one before it is dropped); one that does not is a miss: at each lr_patience-th in a
 * row learning rates go down by lr_decay, and after `patience` misses in a row training ends. If
 * the best epoch is then not the last, its cut is restored under a new run before the test split is
 * evaluated. A job that went on from a checkpoint judges by the best epoch of all and keeps the
 * best of those since, whose tables there are. */
#ifndef SERVER_COORD_EPOCH_H
#define SERVER_COORD_EPOCH_H

#include "proto/base/err.h"
#include "server/coord/core.h"

#include <stdbool.h>

/* Plans the epoch at hand and takes back what is stored of it. False: failed. */
bool coord_epoch_plan(struct coord *c);
/* TRAIN, EVAL, TEST: moves on when their work is done. */
bool coord_epoch_step(struct coord *c);
/* After a restart: enters EVAL, RESTORE, TEST or DIGEST anew. */
bool coord_epoch_resume(struct coord *c, enum coord_phase phase);
int coord_epoch_load(struct coord *c, struct err *e);
/* What early stopping looks at: over several labels the mean, of logloss by the tasks' weights. */
double coord_epoch_value(const struct coord_job *j, const struct metric *mean);
/* Whether bad of lines is over the job's limit; the job then fails. */
bool coord_epoch_bad_lines(struct coord *c, uint64_t bad, uint64_t lines, const char *split);

#endif
