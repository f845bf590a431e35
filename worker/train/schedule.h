/* schedule.h: the factor on a lane's learning rates by batch: warm-up, then train.schedule.
 *
 * A pure function of (job, number of the batch in its lane): a lane that another worker resumes
 * keeps its rates, and bsp stays equal bit for bit. It uses no libm, whose last bit differs between
 * versions.
 *
 *   batch < warmup          batch / warmup. Stale gradients of an untrained model all point the
 *                           same way and would throw it far off, so the first batches count
 *                           little (Goyal et al. 2017). A trained network (legend.h, learnt) has
 *                           no warm-up
 *   then, with n = batches since (0 at the first full rate), N = train.schedule.batches and
 *   F = floor:
 *   constant                1
 *   linear                  F + (1 - F) (1 - n / N), F from n = N on
 *   cosine                  F + (1 - F) (1 + cos(pi n / N)) / 2, F from n = N on (Loshchilov,
 *                           Hutter 2017, one period)
 *   step                    factor ^ floor(n / N), never below F */
#ifndef WORKER_TRAIN_SCHEDULE_H
#define WORKER_TRAIN_SCHEDULE_H

#include "proto/job/job.h"

#include <stdint.h>

/* batch: from 1. The result is in (0, 1] if floor > 0, else in [0, 1]. */
float schedule_scale(const struct job *job, uint64_t batch);

#endif
