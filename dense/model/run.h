/* run.h: inside of struct model and struct model_run (model.h): the memory of one batch's pass, on
 * the host or on a device. */
#ifndef DENSE_MODEL_RUN_H
#define DENSE_MODEL_RUN_H

#include "dense/layer/plan.h"
#include "dense/model.h"

struct model {
    struct plan plan;
    const struct backend_ops *k; /* borrowed */
    struct stream_spec stream;
    double l2, l2_dense, clip_dense, clip_row;
    double negatives; /* share of the negatives that training keeps */
    double task_weight[LIMIT_TASKS];
    bool scaled;      /* fp16: gradients are computed from a loss that is scaled up */
    uint64_t *key[2]; /* owned; of dense, of dense_stats */
    uint32_t *block[2];
};

/* What a pass leaves behind, in the backend's memory. */
struct run_result {
    double loss[LIMIT_TASKS];
    double dense_square, row_square;
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
    RUN_FRESH,
    RUN_SOURCE,
    RUN_KEEP,
    RUN_DENSE,
    RUN_STATS,
    RUN_ROWS,
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
    /* owned, the backend's memory: all tensors; NULL with an exact backend, whose tensors are owned
     * each */
    void *arena;
    size_t arena_bytes;
    float *data[PLAN_TENSORS_MAX];
    /* on a device all; on the host only RUN_ROWS, with a cache */
    struct run_buffer array[RUN_ARRAYS];
    float *cache; /* owned, the backend's memory: (cache_rows, row width) */
    uint32_t cache_rows;
    struct step *step, *step_host; /* the backend's memory; the host's, pinned */
    struct run_result *result, *result_host;
    uint8_t *pooling;     /* the backend's memory: (fields) */
    uint8_t *field_table; /* likewise; NULL where all tables have one dim, as `column` */
    uint32_t *column;     /* likewise: (fields + 1) */
    double scale;         /* of the loss */
    uint32_t scale_steps; /* since it was last changed */
    struct err error;
};

/* run_input.c: the batch in the backend's memory: *to is `in` itself on the host. NOMEM. */
int run_upload(struct model_run *r, const struct model_input *in, bool train,
               struct model_input *to, struct model_output *out, struct model_output *out_to);
void run_download(struct model_run *r, const struct model_input *in, bool train,
                  const struct model_output *from, struct model_output *out);
/* Floats of the batch's rows, of those pulled. */
size_t run_row_floats(const struct model *m, const struct model_input *in);
size_t run_fresh_floats(const struct model *m, const struct model_input *in);
/* Entries of in->index. */
uint32_t run_values(const struct model *m, const struct model_input *in);

#endif
