/* slices.h: a lane's batch, computed as several batches side by side (train.window).
 *
 *                  +-> slice 0: cut, train --+     +-> add rows and blocks, first range --+
 *   slices_start --+-> slice 1: cut, train --+-----+-> add rows and blocks, next range ---+-> done
 *                  +-> ...                   |     +-> beside                             |
 *
 * A lane's batch has the rows of `window` batches of train.batch rows. Its unique keys are pulled
 * once, and their gradients pushed once, under one batch number. Between the two, its examples are
 * cut into slices: consecutive ranges of equal length, give or take one example, as many as there
 * are train.batch rows, begun ones counted. Each slice is a batch of its own to the model, with a
 * run of its own: its unique rows in the batch's order, its own mean loss, L2, dropout, batch
 * norm, clipping and loss scale. Slice s of batch b has the number (b - 1) * window + s + 1, the
 * one it would have as a batch of a lane without a window. So it gives the bits of that batch,
 * computed alone from the same rows.
 *
 * The slices' gradients are then added in the order of the slices. All of them were computed from
 * the same rows, so one push of the sum is a step of the larger batch: its mean gradient times the
 * number of slices. If one slice overflows (precision fp16), nothing is added and the whole batch
 * is skipped.
 *
 * A slice has arrays for its own rows alone, since it uses only a part of the batch's. They are
 * copied there before the step. The lists of rows are sorted, so adding merges them, and a range
 * of the batch's rows is a range of each list: ranges are added side by side, and the result does
 * not depend on their number.
 *
 * Slices of all lanes share threads, and wait for them in turn (turns.h).
 *
 * Thread: the worker's loop; slices and ranges run on threads of the pool. */
#ifndef WORKER_TRAIN_SLICES_H
#define WORKER_TRAIN_SLICES_H

#include "dense/model.h"
#include "worker/train/turns.h"

#include <stdbool.h>
#include <stdint.h>

struct slices;

struct slices_options {
    struct turns *turns; /* borrowed, as the others */
    const struct model *model;
    const struct backend *backend;     /* backend of the model; may be NULL */
    const struct table_schema *schema; /* schemas of the sparse tables */
    uint32_t window;                   /* 1 to LIMIT_WINDOW */
    uint32_t examples;                 /* most of a slice: train.batch */
    void (*beside)(void *owner);       /* on a thread, while gradients are added */
    void (*done)(void *owner);         /* on the loop */
    void *owner;
};

/* One batch. `in` has all its rows in in->rows, counted by table in in->table_rows. */
struct slices_batch {
    const struct model_input *in;
    struct model_output *out; /* filled: sums over the slices; norms are the slices' mean */
    uint32_t rows;            /* that were read for it, at least in->examples */
    bool train;               /* false: scores and losses alone */
    uint64_t seed, batch;     /* as for model_train */
    uint32_t lane;
};

/* The time that the slices' threads took, without waiting for a thread. */
struct slices_time {
    uint64_t busy_ns; /* time of all threads */
    uint64_t path_ns; /* time of the slowest thread of each step */
};

/* May run on any thread, as model_run_new. */
int slices_new(const struct slices_options *options, struct slices **out, struct err *e);
void slices_free(struct slices *s); /* no batch is under way */

/* Computes a batch with examples. `beside` and `done` follow, `beside` only where no slice failed.
 * What *batch points to is borrowed until `done`. */
void slices_start(struct slices *s, const struct slices_batch *batch);
/* From `done` on: the error of the first slice that failed, or 0; errors as model_train's. */
int slices_status(const struct slices *s);
const char *slices_error(const struct slices *s); /* model_run_error of that slice */
struct slices_time slices_time(const struct slices *s);
uint32_t slices_made(const struct slices *s); /* number of slices of this batch */

#endif
