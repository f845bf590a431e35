/* outside.h: the network of a job with model.kind: external. Another program has it; a lane hands
 * each batch over whose rows are there, and takes it back with gradients and scores.
 *
 *     lane_compute -> a thread of the pool: outside.run -> the program, for as long as it takes
 *                  <- gradients, scores                 <-
 *
 * The thread waits in `run`, as it waits for a device: the lane knows no other state. libshoal's
 * implementation passes batches to the caller's threads (worker/lib/hand.h); the simulator's and
 * the tests' computes at once.
 *
 * A lane calls `run` for one batch at a time, in their order; several lanes call it side by side.
 */
#ifndef WORKER_TRAIN_OUTSIDE_H
#define WORKER_TRAIN_OUTSIDE_H

#include "dense/model.h"
#include "proto/job/job.h"
#include "worker/data/batch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed for the call. `in` and `out` are as for model_train: rows, dense parameters and labels
 * in; row_gradients, dense_gradients and scores are to be filled, those of the batch's mean loss
 * (scores alone where the batch is not trained). The caller of `run` computes the losses from
 * the scores. */
struct outside_batch {
    bool train;
    uint32_t lane, epoch;
    uint64_t number; /* batch of the lane */
    /* of the job: what the arrays' parts mean */
    const struct job *job;
    const struct model_shape *shape;
    const struct table_schema *schema; /* of all tables, the sparse ones first */
    const struct batch *batch;
    const struct model_input *in;
    struct model_output
        *out; /* its gradients are zeros; `skipped`: the batch is pushed as a tick */
};

struct outside {
    /* 0. STOPPED, AGAIN: the program has not computed the batch: the worker gives its lanes back
     * and joins again, unless it leaves. Any other status ends the job, as that of a model. Thread:
     * of the pool. */
    int (*run)(void *context, struct outside_batch *b);
    /* Wakes all calls of `run` that wait now; they return STOPPED, and the program's work on their
     * batches is dropped. Later calls are not concerned. Thread: the loop's. */
    void (*stop)(void *context);
    /* The text of a job that the worker begins with, borrowed for the call; NULL: not wanted.
     * Thread: the loop's. */
    void (*job)(void *context, const char *text, size_t bytes);
    void *context;
};

#endif
