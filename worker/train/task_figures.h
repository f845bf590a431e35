/* task_figures.h: frame 2 of TASK_DONE: each label's loss, figures of the examples as they were
 * scored before they were learnt, in all and by value, and the examples of each expert (wire.h has
 * the order). */
#ifndef WORKER_TRAIN_TASK_FIGURES_H
#define WORKER_TRAIN_TASK_FIGURES_H

#include "worker/train/lane.h"

/* Sets the counts of the frame's parts in w, but for `tasks` and `experts`, which the caller has
 * set, and makes the frame; the caller frees it. NULL: no memory. The loss of a label that some
 * rows lack is told as the mean over the task's rows that have it, times weight_sum, and loss_sum
 * is then the sum of these. */
void *task_figures(const struct lane_result *result, const struct job *job,
                   struct wire_TASK_DONE *w, size_t *bytes);

#endif
