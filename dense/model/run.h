/* run.h: the members of struct model and struct model_run (model.h). A run owns the memory of one
 * batch's pass, on the host or on a device. */
#ifndef DENSE_MODEL_RUN_H
#define DENSE_MODEL_RUN_H

#include "dense/layer/plan.h"
#include "dense/model.h"

struct model {
    struct plan plan;
    const struct backend_ops *k; /* borrowed */
    struct stream_spec stream;
    double l2, l2_dense, clip_dense, clip_row, balance;
    double negatives; /* share of the negatives that training keeps */
    double task_weight[LIMIT_TASKS];
    bool scaled;      /* fp16: gradients are computed from a loss that is scaled up */
    uint64_t *key[2]; /* owned: the block keys of dense and of dense_stats */
    uint32_t *block[2];
};

/* The results of a pass, in the backend's memory. */
struct run_result {
    double loss[LIMIT_TASKS];
    double dense_square, row_square;
    uint64_t load[LIMIT_EXPERTS]; /* as in struct model_output */
};

/* One array of the input or output on a device, grown to the largest batch seen. */
struct run_buffer {
    void *at; /* the backend's memory, owned */
    size_t bytes;
};

enum run_array {
    RUN_LABEL,
    RUN_WEIGHT,
    RUN_NUMERIC,
    RUN_INDEX,
    RUN_OFFSET,
    RUN_ROWS,
    RUN_DENSE,
    RUN_STATS,
    RUN_ROW_GRADIENTS,
    RUN_DENSE_GRADIENTS,
    RUN_STATS_GRADIENTS,
    RUN_SCORES,
    RUN_ARRAYS
};

struct model_run {
    const struct model *model; /* borrowed */
    struct stream *stream;     /* owned */
    uint32_t max_examples, range;
    /* owned, the backend's memory: all tensors; NULL with an exact backend, where each tensor is an
     * allocation of its own */
    void *arena;
    size_t arena_bytes;
    float *data[PLAN_TENSORS_MAX];
    struct run_buffer array[RUN_ARRAYS]; /* of a device; the host uses none */
    struct step *step, *step_host;       /* the backend's memory; the host's, pinned */
    struct run_result *result, *result_host;
    uint8_t *pooling;     /* the backend's memory: (fields) */
    uint8_t *field_table; /* the backend's memory: (fields); NULL: all tables have one dim */
    uint32_t *column;     /* the backend's memory: (fields + 1); NULL as field_table */
    double scale;         /* the loss scale */
    uint32_t scale_steps; /* good steps since the scale last changed */
    struct err error;
};

/* run_input.c: copies the batch to the backend's memory; on the host *to has the pointers of `in`.
 * NOMEM. */
int run_upload(struct model_run *r, const struct model_input *in, bool train,
               struct model_input *to, struct model_output *out, struct model_output *out_to);
void run_download(struct model_run *r, const struct model_input *in, bool train,
                  const struct model_output *from, struct model_output *out);
/* Returns the floats of all rows of the batch. */
size_t run_row_floats(const struct model *m, const struct model_input *in);
/* Entries of in->index. */
uint32_t run_values(const struct model *m, const struct model_input *in);

#endif
