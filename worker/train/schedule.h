/* schedule.h: by what a lane's batch multiplies the learning rates: warm-up, then train.schedule.
 *
 * A pure function of (job, number of the batch in its lane): a lane that goes on elsewhere goes on
 * with the same rates, and bsp stays the same bit for bit. No libm: its last bit differs between
 * versions.
 *
 *   batch < warmup          batch / warmup. Stale gradients of a model that knows nothing all point
 *                           the same way and would throw it far over; so first batches count little
 *                           (Goyal et al. 2017). None where the network goes on (legend.h, learnt)
 *   then, with n = batches since (0 at the first whole rate) and N = train.schedule.batches, F =
 *   floor:
 *   constant                1
 *   linear                  F + (1 - F) (1 - n / N), F from n = N on
 *   cosine                  F + (1 - F) (1 + cos(pi n / N)) / 2, F from n = N on (Loshchilov,
 *                           Hutter 2017, one period)
 *   step                    factor ^ floor(n / N), never below F */
#ifndef WORKER_TRAIN_SCHEDULE_H
#define WORKER_TRAIN_SCHEDULE_H

#include "proto/job/job.h"

#include <stdint.h>

/* batch: from 1. In (0, 1] where floor > 0, else in [0, 1]. */
float schedule_scale(const struct job *job, uint64_t batch);

#endif
