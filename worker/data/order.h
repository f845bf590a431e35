/* order.h: which chunk of the input an epoch visits when.
 *
 * As they lie; in an order drawn from (seed, epoch) over all of them; or drawn within windows of
 * event time, one window after the other: rows then age as they would have, and the last hour of a
 * log is learnt last. A chunk is of the window of its first row. The rows of a last, smaller chunk
 * come last, whatever their time. Read-only once open. */
#ifndef WORKER_DATA_ORDER_H
#define WORKER_DATA_ORDER_H

#include "proto/base/err.h"
#include "proto/base/zone.h"
#include "worker/data/index.h"

#include <stdbool.h>
#include <stdint.h>

struct order {
    bool drawn;          /* else as they lie, or as they happened */
    uint32_t whole;      /* chunks that have all their rows */
    uint32_t windows;    /* 0: all chunks are one */
    uint32_t *chunk;     /* owned (whole): those of the first window, of the second, .. */
    uint32_t *first;     /* owned (windows + 1): where in `chunk` each begins */
    uint32_t *window;    /* owned (windows): their numbers (proto/base/zone.h) */
    uint32_t going_back; /* chunks that begin more than a window before the one in front of them */
};

/* within: seconds of a window by the zone's clocks; 0: none. The index then has times. In windows
 * and not drawn: as it happened, by the times of chunks, of one time as they lie. NOMEM. */
int order_open(struct order *o, const struct index *x, bool drawn, uint32_t within,
               const struct zone *zone, struct err *e);
/* Rows of a window, the last one's with those of a smaller chunk. */
uint64_t order_rows(const struct order *o, const struct index *x, uint32_t window);
void order_close(struct order *o);
/* The chunk at `place` < o->whole of an epoch. */
uint64_t order_chunk(const struct order *o, uint64_t seed, uint32_t epoch, uint64_t place);

#endif
