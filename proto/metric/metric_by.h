/* metric_by.h: the quality of predictions for each value of a field: examples, logloss,
 * calibration, AUC.
 *
 * Memory is bounded: at most `capacity` values are kept. When one more comes, the rarer half is
 * added to the rest. A value that comes (or comes back) afterwards may have had examples before: at
 * most `missed` of them, the most that any dropped value had (after Manku and Motwani, "Approximate
 * Frequency Counts over Data Streams", VLDB 2002). So the figures of a value cover exactly
 * `examples` examples, out of at most examples + missed.
 *
 * METRIC_BY_TALLIES values at a time have an AUC, in cells of 1/16 of p and of 1 - p
 * (metric_cell.h). The first values get cells. Later a value takes over the cells of another one
 * when it has at least twice as many examples, and counts in them from then on. So in a field with
 * few values the AUC covers all examples, and for a frequent value it covers most.
 *
 * A finished table can be sent and joined to another one (training does so task by task). Its most
 * frequent values are sent one by one, the others as a total, with the most examples that one of
 * them may have had. Sums are sent as multiples of 1 / METRIC_BY_ONE, so that joined sums are the
 * same in any order, up to 2^25. When not all values fit, the order decides which ones are kept.
 *
 * The result is a function of the examples in the order given. One thread. */
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
    double loss, predicted; /* sums; loss of a label that is a number: of (p - y)^2 */
    uint64_t positives;
};
/* Beside them, in a job in which a label may be missing or be a number. */
struct metric_by_more {
    uint64_t examples; /* with this label */
    double label;      /* sum of y, of a label that is a number; else 0 */
};

struct metric_value {
    uint64_t key;
    uint64_t examples, missed;
    /* place of its sums in metric_by.task; unused values have a place too */
    uint32_t sums;
    uint32_t cells; /* index in metric_by.cells + 1; 0: none */
};

#define METRIC_BY_TOLD 32u       /* values of a field that are sent */
#define METRIC_BY_ENTRIES 65536u /* cells of all of them together */
#define METRIC_BY_ONE 0x1p28

struct metric_by_head {          /* a field's values that are not sent one by one */
    uint64_t floor, rest_values; /* the most examples that one of them may have had; their number */
};
struct metric_by_told {
    uint64_t key, examples, missed;
    /* cells: number of its entries, which follow those of the values before */
    uint32_t field, cells;
};
struct metric_by_entry {
    uint32_t label, cell, positives, negatives;
};
struct metric_by_part {
    uint32_t fields, values, entries;
    const struct metric_by_head *head; /* (fields) */
    const struct metric_by_told *told; /* (values), field by field */
    const struct metric_by_task *task; /* (values, tasks) */
    /* (values, tasks); NULL: each example has every label, of 0 or 1 */
    const struct metric_by_more *more;
    const struct metric_by_entry *entry; /* (entries) */
};
_Static_assert(sizeof(struct metric_by_head) == 16 && sizeof(struct metric_by_told) == 32 &&
                   sizeof(struct metric_by_task) == 24 && sizeof(struct metric_by_more) == 16 &&
                   sizeof(struct metric_by_entry) == 16,
               "metric_by_part is told");

struct metric_by {
    uint32_t tasks, capacity, count;
    uint32_t real;                     /* bit t: label t is a number */
    uint64_t floor;                    /* `missed` of a new value */
    struct metric_value *value;        /* owned (capacity) */
    struct metric_by_task *task;       /* owned (capacity, tasks) */
    struct metric_by_more *more;       /* owned (capacity, tasks) */
    struct metric_by_cells *cells;     /* owned (METRIC_BY_TALLIES, tasks) */
    uint32_t owner[METRIC_BY_TALLIES]; /* index of the value that has the cells + 1; 0: free */
    uint32_t owned;                    /* cells that are in use */
    uint32_t *slot;                    /* owned (4 * capacity): index in value + 1; 0: empty */
    uint64_t salt;                     /* salt of the slots */
    /* totals of dropped values; a value dropped twice counts twice */
    uint64_t rest_examples, rest_values;
    struct metric_by_task rest[LIMIT_TASKS];
    struct metric_by_more rest_more[LIMIT_TASKS];
};

/* capacity: a power of two, at least 4. real: bit t: label t is a number. NOMEM. */
int metric_by_open(struct metric_by *b, uint32_t tasks, uint32_t real, uint32_t capacity,
                   struct err *e);
void metric_by_close(struct metric_by *b);
void metric_by_clear(struct metric_by *b); /* back to the state after metric_by_open */
/* Adds one example: p, y (NaN: missing) and loss (tasks): metric_loss, or of a label that is a
 * number (p - y)^2. */
void metric_by_add(struct metric_by *b, uint64_t key, const float *p, const float *y,
                   const double *loss);
/* Sorts the values by examples, most first, then by key; all but the first `top` are added to the
 * rest. No example may be added afterwards. */
void metric_by_finish(struct metric_by *b, uint32_t top);
/* Appends a finished table (top: METRIC_BY_TOLD at most) to `part` as its next field. The arrays,
 * which the caller may write, have room for METRIC_BY_TOLD values more, and for METRIC_BY_ENTRIES
 * entries in all. Returns true when `more` says what the rest of the part does not. */
bool metric_by_put(const struct metric_by *b, struct metric_by_part *part);
/* True when `examples` examples of `tasks` labels can have made the part. real: as in open. */
bool metric_by_part_ok(const struct metric_by_part *part, uint32_t tasks, uint32_t real,
                       uint64_t examples);
/* Joins field `field` of a part that metric_by_part_ok accepts. all, more (tasks), examples: the
 * totals of all examples of the part. */
void metric_by_join(struct metric_by *b, const struct metric_by_part *part, uint32_t field,
                    const struct metric_by_task *all, const struct metric_by_more *more,
                    uint64_t examples);
/* Fills in auc, auc_error and examples for a value in one label; NaN and 0 where it has no
 * cells, as every value of a label that is a number. */
void metric_by_auc(const struct metric_by *b, const struct metric_value *v, uint32_t task,
                   struct metric *out);

/* (tasks) */
static inline struct metric_by_task *metric_by_sums(const struct metric_by *b,
                                                    const struct metric_value *v)
{
    return &b->task[(uint64_t)v->sums * b->tasks];
}
static inline struct metric_by_more *metric_by_more(const struct metric_by *b,
                                                    const struct metric_value *v)
{
    return &b->more[(uint64_t)v->sums * b->tasks];
}

#endif
