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
    uint32_t micro_batches; /* at least 1 */
    double negatives;       /* share of the negatives that training keeps */
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
    RUN_FACTOR,
    RUN_ROWS,
    RUN_DENSE,
    RUN_STATS,
    RUN_ROW_GRADIENTS,
    RUN_DENSE_GRADIENTS,
    RUN_STATS_GRADIENTS,
    RUN_SCORES,
    RUN_ARRAYS
};

/* A site's part of a run, all of it in the memory of the site's device. */
struct run_site {
    struct stream *stream; /* owned */
    /* owned: the tensors; NULL with an exact backend, where each tensor is an allocation of its
     * own */
    void *arena;
    size_t arena_bytes;
    struct step *step;
    struct run_result *result; /* the losses are those of site 0 */
    /* a plan with several sites has these four arrays; owned */
    float *dense, *dense_gradients; /* the site's pieces (plan_sites.h) */
    float *stats, *stats_gradients; /* as the flat arrays */
    /* such a plan has the batch here as the site sees it */
    struct model_input in;
    struct model_output out;
};

struct model_run {
    const struct model *model; /* borrowed */
    uint32_t max_examples, range;
    struct run_site site[LIMIT_SITES];
    struct pass_site pass[LIMIT_SITES];
    float *data[PLAN_TENSORS_MAX];
    struct run_buffer array[RUN_ARRAYS]; /* arrays of a device; the host uses none */
    struct step *step_host;              /* pinned */
    struct run_result *result_host;
    uint8_t *pooling;     /* the backend's memory: (fields) */
    uint8_t *field_table; /* the backend's memory: (fields); NULL: all tables have one dim */
    uint32_t *column;     /* the backend's memory: (fields + 1); NULL as field_table */
    /* (tasks): sum of the weights of the batch's examples that have the label */
    double weight_task[LIMIT_TASKS];
    double scale;         /* the loss scale */
    uint32_t scale_steps; /* good steps since the scale last changed */
    struct err error;
};

/* The stream of site 0, which has the batch. */
static inline struct stream *run_stream(const struct model_run *r)
{
    return r->site[0].stream;
}

/* Waits for all sites. Returns the first failure, with its text in *e. */
int run_finish(struct model_run *r, struct err *e);

/* run_sites.c: the pieces that a plan with several sites has in place of the whole arrays. */
/* NOMEM as false. */
bool run_sites_allocate(struct model_run *r);
void run_sites_free(struct model_run *r);
/* Copies each piece to its site, and sets p->site. in, out: the batch at site 0. */
void run_sites_begin(struct model_run *r, const struct model_input *host,
                     const struct model_input *in, const struct model_output *out, struct pass *p);
/* Gradients of dense parameters: zero, or those of L2; measured, scaled and clipped; copied to the
 * host's arrays. */
void run_sites_gradients_begin(struct model_run *r, bool empty);
void run_sites_gradients_end(struct model_run *r, bool measured);
void run_sites_download(struct model_run *r, struct model_output *out);

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
