/* sample.h: lines of a split from several places, for a log may be sorted: by its label, say. */
#ifndef WORKER_DATA_SAMPLE_H
#define WORKER_DATA_SAMPLE_H

#include "worker/data/feature.h"
#include "worker/data/index.h"

#include <stdbool.h>

#define SAMPLE_ROWS (1u << 15) /* at most; a split of not more rows is read whole */

/* Calls `see` with the cells of each good line, until it returns something else than 0. most: so
 * many rows, SAMPLE_ROWS at most. Returns what `see` returned; IO, CHECKSUM, NOMEM. */
int sample_walk(const struct source *s, const struct index *x, const struct features *f,
                uint64_t most, int (*see)(void *context, const struct cell *cell), void *context,
                struct err *e);
/* Whether sample_walk goes through all rows. */
static inline bool sample_whole(const struct index *x, uint64_t most)
{
    return x->rows <= most;
}

#endif
