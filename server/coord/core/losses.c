/* losses.c: sums and means over the examples of training. */
#include "server/coord/core/losses.h"

#include "proto/base/assert.h"

#include <math.h>

void coord_losses_add(struct coord_losses *to, const struct coord_losses *from)
{
    to->examples += from->examples;
    to->bad_lines += from->bad_lines;
    to->drawn += from->drawn;
    to->refused += from->refused;
    to->loss_sum += from->loss_sum;
    to->weight_sum += from->weight_sum;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        to->loss_task[t] += from->loss_task[t];
}

static double mean_of(const struct coord_losses *l, double sum)
{
    double weight = l->weight_sum > 0 ? l->weight_sum : (double)l->examples;
    return weight > 0 ? sum / weight : (double)NAN;
}

double coord_losses_mean(const struct coord_losses *l)
{
    return mean_of(l, l->loss_sum);
}

double coord_losses_mean_of(const struct coord_losses *l, uint32_t label)
{
    SHOAL_ASSERT(label < LIMIT_TASKS);
    return mean_of(l, l->loss_task[label]);
}
