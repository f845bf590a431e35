/* sample.h: samples lines of a split at several places, because a log may be sorted, for example by
 * its label. */
#ifndef WORKER_DATA_SAMPLE_H
#define WORKER_DATA_SAMPLE_H

#include "worker/data/feature.h"
#include "worker/data/index.h"

#include <stdbool.h>

#define SAMPLE_ROWS (1u << 15) /* most lines; a split with no more rows is read whole */

/* Calls `see` with the cells of each good line until it returns other than 0. most: number of rows,
 * at most SAMPLE_ROWS. Returns the result of `see`; IO, CHECKSUM, NOMEM. */
int sample_walk(const struct source *s, const struct index *x, const struct features *f,
                uint64_t most, int (*see)(void *context, const struct cell *cell), void *context,
                struct err *e);
/* True when sample_walk visits all rows. */
static inline bool sample_whole(const struct index *x, uint64_t most)
{
    return x->rows <= most;
}

#endif
