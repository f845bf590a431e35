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
 * A table of a few examples can be told and joined to another (training does so task by task): its
 * values with the most examples one by one, the others as a whole, with the most that one of them
 * may have had. Sums are told in whole parts of METRIC_BY_ONE, so that joined ones are the same in
 * any order, up to 2^25; which values are kept is a function of the order where they do not fit.
 *
 * A function of the examples in the order given. One thread. */
#ifndef PROTO_METRIC_METRIC_BY_H
#define PROTO_METRIC_METRIC_BY_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"

#include <stdbool.h>
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

#define METRIC_BY_TOLD 32u       /* values of a field that are told */
#define METRIC_BY_ENTRIES 65536u /* cells of all of them */
#define METRIC_BY_ONE 0x1p28

struct metric_by_head {          /* of a field: the values that are not told */
    uint64_t floor, rest_values; /* the most that one of them may have had; how many */
};
struct metric_by_told {
    uint64_t key, examples, missed;
    uint32_t field, cells; /* cells: its entries, which follow those of the values before */
};
struct metric_by_entry {
    uint32_t label, cell, positives, negatives;
};
struct metric_by_part {
    uint32_t fields, values, entries;
    const struct metric_by_head *head;   /* (fields) */
    const struct metric_by_told *told;   /* (values), field by field */
    const struct metric_by_task *task;   /* (values, tasks) */
    const struct metric_by_entry *entry; /* (entries) */
};
_Static_assert(sizeof(struct metric_by_head) == 16 && sizeof(struct metric_by_told) == 32 &&
                   sizeof(struct metric_by_task) == 24 && sizeof(struct metric_by_entry) == 16,
               "metric_by_part is told");

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
void metric_by_clear(struct metric_by *b); /* as when it was opened */
/* One example: p, y and metric_loss (tasks). */
void metric_by_add(struct metric_by *b, uint64_t key, const float *p, const float *y,
                   const double *loss);
/* Values in order of examples, most first, then of key; all but the first `top` go into the rest.
 * Nothing may be added afterwards. */
void metric_by_finish(struct metric_by *b, uint32_t top);
/* A finished table (top: METRIC_BY_TOLD at most) behind what is in `part` already, as its next
 * field; the arrays, which the caller may write, have room for METRIC_BY_TOLD values more, and for
 * METRIC_BY_ENTRIES entries in all. */
void metric_by_put(const struct metric_by *b, struct metric_by_part *part);
/* Whether it can be what `examples` examples of so many labels came to. */
bool metric_by_part_ok(const struct metric_by_part *part, uint32_t tasks, uint64_t examples);
/* Joins field `field` of a part that is ok. all (tasks), examples: of all examples of the part. */
void metric_by_join(struct metric_by *b, const struct metric_by_part *part, uint32_t field,
                    const struct metric_by_task *all, uint64_t examples);
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
