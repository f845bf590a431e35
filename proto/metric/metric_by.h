/* metric_by.h: how good the predictions are for each value of a field: examples, logloss,
 * calibration.
 *
 * Bounded: at most `capacity` values are kept. When one more comes, the rarer half goes into the
 * rest, and a value that comes (or comes back) afterwards may have had examples before: at most
 * `missed` of them, the most that a value had when it went (after Manku and Motwani, "Approximate
 * Frequency Counts over Data Streams", VLDB 2002). So what is said of a value is of `examples`,
 * counted exactly, out of at most examples + missed.
 *
 * A function of the examples in the order given. One thread. */
#ifndef PROTO_METRIC_METRIC_BY_H
#define PROTO_METRIC_METRIC_BY_H

#include "proto/base/err.h"
#include "proto/base/limits.h"

#include <stdint.h>

struct metric_by_task {
    double loss, predicted; /* sums */
    uint64_t positives;
};

struct metric_value {
    uint64_t key;
    uint64_t examples, missed;
    /* where its sums lie in metric_by.task; every value has a place, the ones not in use too */
    uint32_t sums;
};

struct metric_by {
    uint32_t tasks, capacity, count;
    uint64_t floor;                      /* `missed` of a value that comes now */
    struct metric_value *value;          /* owned (capacity) */
    struct metric_by_task *task;         /* owned (capacity, tasks) */
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

/* (tasks) */
static inline struct metric_by_task *metric_by_sums(const struct metric_by *b,
                                                    const struct metric_value *v)
{
    return &b->task[(uint64_t)v->sums * b->tasks];
}

#endif
