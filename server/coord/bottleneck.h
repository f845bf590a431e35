/* bottleneck.h: which stage limits the workers, from the sums of their figures. Pure.
 *
 * What the figures are, and how stage, share, next and speed-up follow from them:
 * worker/train/stats.h. */
#ifndef SERVER_COORD_BOTTLENECK_H
#define SERVER_COORD_BOTTLENECK_H

#include "proto/wire/wire.h"

struct coord_bottleneck {
    /* "read", "parse", "pull", "compute", "push" or "bound"; NULL: nothing was done */
    const char *stage, *next;
    double share; /* of the lanes' time with a task that `stage` limits */
    /* how many times as fast without it, as far as can be told; INFINITY: no other was seen */
    double speedup_if_free;
};

void coord_bottleneck_find(const struct wire_WORKER_BEAT *sum, struct coord_bottleneck *out);

#endif
