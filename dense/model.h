/* model.h: a model as the worker sees it: pooled rows in, loss and gradients out. Pure compute: no
 * thread, clock or socket.
 *
 * A job has sparse tables, numbers 0 .. n - 1 in the order of the job file, then "dense" and
 * "dense_stats" where the model has such parameters. A field's rows lie in one sparse table
 * (model_shape.table). Where all tables have one dim their rows are one array for the model, and it
 * is all the same to it how many there are.
 *
 * A sparse table's row is w (1 float, when the model has a first-order part) followed by v (dim
 * floats, when it has vectors): lr: w; fm, deepfm, wide_deep: w and v; probe: one float.
 * `model_schema` says so to the coordinator and to everyone.
 *
 * Dense parameters are tensors, cut into blocks of BLOCK_FLOATS; a block is a row of a dense table,
 * key = key_make(tensor number, block number). Two dense tables: "dense" (dense_optimizer) and
 * "dense_stats" (running statistics of batch norm: SGD, lr 1, fixed: the gradient pushed is running
 * - new running). Flat arrays hold all blocks of a table in order of (tensor, block), the last
 * block of a tensor zero-padded.
 *
 * Determinism: a step is a function of (model, input, parameters, seed, lane, batch): one thread,
 * fixed reduction order. */
#ifndef DENSE_MODEL_H
#define DENSE_MODEL_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BLOCK_FLOATS 512u
#define MODEL_TABLES_MAX (LIMIT_JOB_TABLES + 2u)

/* dense/backend.h: the vtable of matrix products and element-wise kernels, loaded with dlopen */
struct backend;

/* Loads libshoal_cpu.so (BLAS) or, where a driver is there, the CUDA module; looks beside the
 * program, then in ../lib/shoal, then in SHOAL_MODULE_DIR. backend_name "cpu"; backend_kernel: BLAS
 * kernel type, "SkylakeX". Where kind is auto, a driver is there and yet the CPU is taken, it gives
 * 0 and *e has a sentence that says why (with code 0; else *e is left alone). */
int backend_load(enum backend_kind kind, struct backend **out, struct err *e);
void backend_unload(struct backend *b);
const char *backend_name(const struct backend *b);
const char *backend_kernel(const struct backend *b);
/* One line for people of device and libraries, "OpenBLAS SkylakeX kernels"; "" when the module says
 * nothing. */
const char *backend_about(const struct backend *b);
/* Steps are computed on a device, and not by the thread that waits for them. */
bool backend_is_device(const struct backend *b);
/* Host memory that the device reads and writes at full speed (pinned); plain memory on the CPU.
 * 64-byte aligned; NULL when there is none. Freed on any thread, before the backend is unloaded. b
 * may be NULL: plain memory. */
void *backend_host_alloc(const struct backend *b, size_t bytes);
void backend_host_free(const struct backend *b, void *p);

/* What a model needs to know of the input, the same on every worker of a job. */
struct model_shape {
    uint32_t fields;               /* sparse fields of an example */
    uint32_t numerics;             /* numeric inputs of an example */
    uint32_t tasks;                /* labels of an example; 0 counts as 1 */
    uint8_t pooling[LIMIT_FIELDS]; /* enum pooling, of each field */
    uint16_t attend[LIMIT_FIELDS]; /* of a field with pooling attention: the target's field */
    uint8_t table[LIMIT_FIELDS];   /* of each field: the table that its rows lie in */
    /* of each rule by field (job_table.rule), table by table: the field that it is for */
    uint16_t rule_field[LIMIT_FIELDS];
    /* values that a field may have; 0: any number (attention: at most 65,536) */
    uint32_t most[LIMIT_FIELDS];
    uint32_t gate_fields;   /* finalmlp: fields that gates look at: 0, or 2, one for each network */
    uint16_t gate_field[2]; /* (gate_fields): their numbers */
};

#define MODEL_CACHED 0x80000000u

/* How many of a batch's rows are of one table. */
struct model_part {
    uint32_t rows;  /* unique keys */
    uint32_t fresh; /* of these, in model_input.rows; all without a cache */
    uint32_t keep;  /* pairs of model_input.keep */
};

/* One batch. All arrays are the caller's, in host memory; the big ones better in memory of
 * backend_host_alloc. */
struct model_input {
    uint32_t examples;
    const float *label;   /* (examples, tasks): 0 or 1 */
    const float *weight;  /* (examples) or NULL: all weigh 1 */
    const float *numeric; /* (examples, numerics) */
    /* (values): row number of each value, example by example, field by field */
    const uint32_t *index;
    /* (examples * fields + 1) into index; NULL: exactly one value for each field */
    const uint32_t *offset;
    uint32_t row_count; /* unique keys, table by table */
    /* (tables), on the host: their counts. NULL will do where all tables have one dim */
    const struct model_part *part;
    const float *rows;    /* (fresh_count, row width of its table), one behind another: pulled */
    uint32_t fresh_count; /* row_count without a cache */
    /* (row_count) or NULL: row i is rows[i]. Else row i is rows[source[i]], or, with MODEL_CACHED
     * set, the slot source[i] & ~MODEL_CACHED of the run's cache */
    const uint32_t *source;
    /* (keep_count, 2): a position in rows, and the slot that takes a copy once the batch has its
     * rows */
    const uint32_t *keep;
    uint32_t keep_count;
    const float *dense; /* flat, model_dense_floats: pulled */
    const float *stats; /* flat, model_stats_floats: pulled */
};

struct model_output {
    double loss_sum; /* weighted logloss summed over examples and (weighted) tasks (L2 not in it) */
    double weight_sum;             /* of the examples */
    double loss_task[LIMIT_TASKS]; /* weighted by example only */
    /* 2-norms of the gradients, before clipping; 0 where there are none */
    double dense_norm, row_norm;
    /* precision fp16: a gradient overflowed, nothing is to be pushed; the scale is lowered */
    bool skipped;
    /* (row_count, row width of its table): merged; gradient of the mean loss of the batch, plus l2
     * * weight */
    float *row_gradients;
    float *dense_gradients; /* flat, model_dense_floats */
    float *stats_gradients; /* flat, model_stats_floats */
    float *scores;          /* (examples, tasks): probabilities */
};

struct model;     /* shape and settings: read-only, shared by lanes */
struct model_run; /* scratch of one thread of compute: owned by one lane at a time */

/* Schemas of a job's tables (numbers, widths, initial values, optimizers; tablet_first filled in
 * order); *count of them (the sparse ones, one more with dense parameters, two more with batch
 * norm). shape.numerics and .fields decide the dense tensors. A function of its arguments alone. */
int model_schemas(const struct job *job, const struct model_shape *shape,
                  struct table_schema out[MODEL_TABLES_MAX], uint32_t *count, struct err *e);

int model_new(const struct job *job, const struct model_shape *shape, struct backend *backend,
              struct model **out, struct err *e);
void model_free(struct model *m);
uint32_t model_tables(const struct model *m); /* sparse ones */
/* floats of a sparse row; where dims differ, of the widest */
uint32_t model_row_width(const struct model *m);
size_t model_dense_floats(const struct model *m); /* multiple of BLOCK_FLOATS; 0 without */
size_t model_stats_floats(const struct model *m);

/* Keys of a dense table's blocks, sorted by key_mix (as they are pulled and pushed), and where each
 * lies: flat block number. (count = floats / BLOCK_FLOATS.) The arrays live as long as the model.
 * stats: of dense_stats, else of dense. */
void model_blocks(const struct model *m, bool stats, const uint64_t **keys, const uint32_t **block,
                  size_t *count);

/* A run's scratch for up to max_examples, and a cache of cache_rows sparse rows (0: none), each as
 * wide as the widest. It lives on one device. */
int model_run_new(const struct model *m, uint32_t max_examples, uint32_t cache_rows,
                  struct model_run **out, struct err *e);
void model_run_free(struct model_run *r);
/* Forward and backward. seed, lane, batch choose the dropout mask. NOT_FINITE when the loss is not
 * finite, or with fp16 a gradient overflows although the loss is not scaled any more; UNAVAILABLE
 * or INTERNAL when the device failed: model_run_error says how, and the run is of no more use. */
int model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);
const char *model_run_error(const struct model_run *r);
/* Forward with running statistics and without dropout: scores and losses only. Where training keeps
 * only a share of the negatives (data.negatives) the scores are corrected for it. */
int model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                  struct model_output *out);

#endif
