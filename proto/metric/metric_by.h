/* metric_by.h: how good the predictions are for each value of a field: examples, logloss,
 * calibration, AUC.
 *
 * Bounded: at most `capacity` values are kept. When one more comes, the rarer half goes into the
 * rest, and a value that comes (or comes back) afterwards may have had examples before: at most
 * `missed` of them, the most that a value had when it went (after Manku and Motwani, "Approximate
 * Frequency Counts over Data Streams", VLDB 2002). So what is said of a value is of `examples`,
 * counted exactly, out of at most examples + missed.
 *
 * AUC is of METRIC_BY_TALLIES values at a time, in cells of 1/16 of p and of 1 - p (metric_cell.h):
 * of the first ones, then of those that are found to have twice as many examples as one that has
 * cells, counted from there on. So of a field with few values it is of all examples, and of a value
 * with many it is of most.
 *
 * A function of the examples in the order given. One thread. */
#ifndef PROTO_METRIC_METRIC_BY_H
#define PROTO_METRIC_METRIC_BY_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"

#include <stdint.h>

#define METRIC_BY_TALLIES 128u
#define METRIC_BY_CELLS 385u

struct metric_by_cells {
    uint32_t positives[METRIC_BY_CELLS], negatives[METRIC_BY_CELLS];
};

struct metric_by_task {
    double loss, predicted; /* sums */
    uint64_t positives;
};

struct metric_value {
    uint64_t key;
    uint64_t examples, missed;
    /* where its sums lie in metric_by.task; every value has a place, the ones not in use too */
    uint32_t sums;
    uint32_t cells; /* place among metric_by.cells + 1; 0: none */
};

struct metric_by {
    uint32_t tasks, capacity, count;
    uint64_t floor;                      /* `missed` of a value that comes now */
    struct metric_value *value;          /* owned (capacity) */
    struct metric_by_task *task;         /* owned (capacity, tasks) */
    struct metric_by_cells *cells;       /* owned (METRIC_BY_TALLIES, tasks) */
    uint32_t owner[METRIC_BY_TALLIES];   /* position of the value whose they are + 1; 0: nobody's */
    uint32_t owned;                      /* so many have one */
    uint32_t *slot;                      /* owned (4 * capacity): position in value + 1; 0: empty */
    uint64_t salt;                       /* of slots */
    uint64_t rest_examples, rest_values; /* gone; a value that went twice counts twice */
    struct metric_by_task rest[LIMIT_TASKS];
};

/* capacity: a power of two, at least 4. NOMEM. */
int metric_by_open(struct metric_by *b, uint32_t tasks, uint32_t capacity, struct err *e);
void metric_by_close(struct metric_by *b);
/* One example: p, y and metric_loss (tasks). */
void metric_by_add(struct metric_by *b, uint64_t key, const float *p, const float *y,
                   const double *loss);
/* Values in order of examples, most first, then of key; all but the first `top` go into the rest.
 * Nothing may be added afterwards. */
void metric_by_finish(struct metric_by *b, uint32_t top);
/* AUC of a value in one label: auc, auc_error, and of how many examples; else NaN, of none. */
void metric_by_auc(const struct metric_by *b, const struct metric_value *v, uint32_t task,
                   struct metric *out);

/* (tasks) */
static inline struct metric_by_task *metric_by_sums(const struct metric_by *b,
                                                    const struct metric_value *v)
{
    return &b->task[(uint64_t)v->sums * b->tasks];
}

#endif
