/* losses.h: sums over the examples of training. Pure. */
#ifndef SERVER_COORD_CORE_LOSSES_H
#define SERVER_COORD_CORE_LOSSES_H

#include "proto/base/limits.h"

#include <stdint.h>

/* Sums over the examples of a task, or of an epoch, in training. */
struct coord_losses {
    uint64_t examples, bad_lines;
    /* lines among which bad_lines were counted: data.sample and data.negatives leave other lines
     * unread */
    uint64_t drawn;
    uint64_t refused; /* batches with a push that was refused for its values */
    /* loss_sum: over examples (with several labels the weighted mean); weight_sum: of the examples'
     * weights */
    double loss_sum, weight_sum;
    double loss_task[LIMIT_TASKS]; /* for each label */
};

void coord_losses_add(struct coord_losses *to, const struct coord_losses *from);
/* Means over the examples' weights (over examples when no weights were reported); NaN without
 * examples. */
double coord_losses_mean(const struct coord_losses *l);
double coord_losses_mean_of(const struct coord_losses *l, uint32_t label);

#endif
