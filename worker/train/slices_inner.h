/* slices_inner.h: the structs behind slices, for slices.c (steps, life), slices_cut.c and
 * slices_add.c. */
#ifndef WORKER_TRAIN_SLICES_INNER_H
#define WORKER_TRAIN_SLICES_INNER_H

#include "proto/base/limits.h"
#include "worker/train/slices.h"

#define SLICE_UNSEEN UINT32_MAX

/* An array that a device reads or writes. */
struct room {
    void *at; /* owned; of backend_host_alloc */
    size_t bytes;
};

struct slice {
    struct slices *of;
    struct turn turn;      /* cuts and computes it */
    struct model_run *run; /* owned */
    uint32_t number;       /* in the batch, from 0 */
    uint32_t first, examples;
    struct room index, offset, rows, gradients, dense, stats;
    uint32_t
        *place; /* owned; (rows of the batch): the row's position in the list, or SLICE_UNSEEN */
    size_t place_capacity;
    uint32_t *list; /* owned; (row_count + 1): its rows of the batch; behind them SLICE_UNSEEN */
    size_t list_capacity;
    uint32_t table_rows[LIMIT_JOB_TABLES];
    uint32_t first_of[LIMIT_JOB_TABLES + 1]; /* where a table's rows begin in the list */
    size_t floats_of[LIMIT_JOB_TABLES + 1];  /* and in the arrays of floats */
    struct model_input in;
    struct model_output out;
    int status;
};

/* A range of the batch's rows and of the dense floats. */
struct range {
    struct slices *of;
    struct turn turn; /* adds it up */
    uint32_t number;
};

struct slices {
    struct slices_options options;
    struct slices_batch batch;
    struct slice *slice; /* owned; (options.window) */
    struct range *range; /* owned; (options.window) */
    uint32_t count;      /* slices of this batch, and as many ranges */
    struct turn beside;
    uint32_t pending; /* threads of this step that are at work */
    uint64_t slowest_ns;
    struct slices_time time;
    uint32_t tables;
    size_t dense_floats, stats_floats;
};

/* Part `part` of `count` parts of `all`, as equal as possible: where it begins. */
static inline uint32_t slices_begin(uint32_t all, uint32_t part, uint32_t count)
{
    return (uint32_t)((uint64_t)all * part / count);
}

/* slices_cut.c */
/* Makes room for an array; its contents are lost. NOMEM. */
int slice_room_take(const struct slice *c, struct room *r, size_t bytes);
/* Sets slice->in: its examples and rows of the batch, copied. On a thread of the pool. NOMEM. */
int slice_cut(struct slice *c);
void slice_cut_free(struct slice *c);

/* slices_add.c: adds a range of the slices' gradients up, on a thread of the pool. */
void slices_add(const struct range *r);

#endif
