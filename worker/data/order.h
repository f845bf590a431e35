/* order.h: the order in which an epoch visits the chunks of the input.
 *
 * There are three orders: that of the input; one drawn from (seed, epoch) over all chunks; or one
 * drawn within windows of event time, one window after the other, so that rows age as in production
 * and the last hour of a log is learnt last. A chunk belongs to the window of its first row. The
 * rows of a last, smaller chunk come last, whatever their time. Read-only once open. */
#ifndef WORKER_DATA_ORDER_H
#define WORKER_DATA_ORDER_H

#include "proto/base/err.h"
#include "proto/base/zone.h"
#include "worker/data/index.h"

#include <stdbool.h>
#include <stdint.h>

struct order {
    bool drawn;       /* false: in the order of the input, or of times */
    uint32_t whole;   /* chunks that have all their rows */
    uint32_t windows; /* 0: all chunks are one window */
    uint32_t *chunk;  /* owned; (whole): chunks of the first window, then of the second, .. */
    uint32_t *first;  /* owned; (windows + 1): start of each window in `chunk` */
    uint32_t *window; /* owned; (windows): window numbers (proto/base/zone.h) */
    /* chunks that begin more than a window earlier than the chunk before them */
    uint32_t going_back;
};

/* within: seconds of a window by the zone's clocks; 0: no windows. Windows need an index with
 * times. Windows that are not drawn visit chunks by time, chunks of one time in the order of the
 * input. NOMEM. */
int order_open(struct order *o, const struct index *x, bool drawn, uint32_t within,
               const struct zone *zone, struct err *e);
/* Rows of a window; the last window also has those of the smaller chunk. */
uint64_t order_rows(const struct order *o, const struct index *x, uint32_t window);
void order_close(struct order *o);
/* The chunk at `place` < o->whole of an epoch. */
uint64_t order_chunk(const struct order *o, uint64_t seed, uint32_t epoch, uint64_t place);

#endif
