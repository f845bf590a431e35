/* model.h: a model as the worker sees it: a batch and its rows in, loss and gradients out. The room
 * only computes: it has no thread, clock or socket.
 *
 * A job has sparse tables, numbers 0 .. n - 1 in the order of the job file, then "dense" and
 * "dense_stats" where the model has such parameters. A field's rows lie in one sparse table
 * (model_shape.table). Where all tables have one dim, the model reads their rows as one array, and
 * the number of tables does not matter to it.
 *
 * A sparse table's row is w (1 float, when the model has a first-order part) followed by v (dim
 * floats, when it has vectors): lr: w; fm, deepfm, wide_deep: w and v; probe: one float.
 * model_schemas describes the rows to the coordinator and the servers.
 *
 * Dense parameters are tensors, cut into blocks of BLOCK_FLOATS; a block is a row of a dense table,
 * key = key_make(tensor number, block number). There are two dense tables. "dense" has the job's
 * dense_optimizer. "dense_stats" has the running statistics of batch norm, with SGD at a fixed lr
 * of 1: a push carries the old value less the new one. Flat arrays hold all blocks of a table in
 * order of (tensor, block); the last block of a tensor is zero-padded.
 *
 * Determinism: a step is a function of (model, input, parameters, seed, lane, batch): one thread,
 * fixed reduction order. */
#ifndef DENSE_MODEL_H
#define DENSE_MODEL_H

#include "dense/backend.h"
#include "dense/feed.h"
#include "dense/model_input.h"
#include "proto/base/err.h"
#include "proto/base/graph.h"
#include "proto/base/key.h"
#include "proto/job/job.h"
#include "proto/job/schema.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MODEL_TABLES_MAX (LIMIT_JOB_TABLES + 2u)

struct model;     /* shape and settings: read-only, shared by lanes */
struct model_run; /* scratch of one batch: one lane at a time owns it */

/* Schemas of a job's tables (numbers, widths, initial values, optimizers; tablet_first filled in
 * order). *count is the number of sparse tables, plus one with dense parameters, plus two with
 * batch norm. shape.numerics and .fields decide the dense tensors. A function of its arguments
 * alone. */
int model_schemas(const struct job *job, const struct model_shape *shape,
                  struct table_schema out[MODEL_TABLES_MAX], uint32_t *count, struct err *e);

/* Adds the job's tensors to *out by name and shape, without numbers. */
int model_legend(const struct job *job, const struct model_shape *shape, struct legend *out,
                 struct err *e);

/* Appends the network to a graph of operators (proto/base/graph.h): the inputs that names gives it
 * (dense/feed.h), and a score for each task as model_predict gives it. The graph has the tensors of
 * the dense tables as weights: "dense.NAME", "dense_stats.NAME". CONFIG: the model has no scores,
 * nothing to read, or other tensors. */
int model_graph(const struct job *job, const struct model_shape *shape,
                const struct feed_names *names, struct graph *g, struct err *e);

int model_new(const struct job *job, const struct model_shape *shape, struct backend *backend,
              struct model **out, struct err *e);
void model_free(struct model *m);
const struct model_shape *model_shape_of(const struct model *m); /* lives as long as the model */
uint32_t model_tables(const struct model *m);                    /* sparse ones */
/* floats of a sparse row; where dims differ, of the widest */
uint32_t model_row_width(const struct model *m);
size_t model_dense_floats(const struct model *m); /* multiple of BLOCK_FLOATS; 0 without */
size_t model_stats_floats(const struct model *m);
/* Experts of which model_output.load counts the examples, level by level: the shared ones, then
 * each task's own. 0: every expert has every example (model.top_k). */
uint32_t model_loads(const struct model *m);

/* The keys of a dense table's blocks, sorted by key_mix as a pull and a push need them, and the
 * flat block number of each (count = floats / BLOCK_FLOATS). stats: the table is dense_stats, else
 * dense. The arrays live as long as the model. */
void model_blocks(const struct model *m, bool stats, const uint64_t **keys, const uint32_t **block,
                  size_t *count);

/* A run has scratch for up to max_examples. It lives on one device. */
int model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                  struct err *e);
void model_run_free(struct model_run *r);
/* Forward and backward. seed, lane and batch choose the dropout mask. NOT_FINITE: the loss is not
 * finite, or with fp16 a gradient overflows even at a loss scale of 1. UNAVAILABLE, INTERNAL: the
 * device failed, model_run_error says how, and the run cannot be used again. */
int model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);
const char *model_run_error(const struct model_run *r);
/* Forward with running statistics and without dropout; computes scores and losses only. Where
 * training keeps a share of the negatives (data.negatives), the scores are corrected for that. */
int model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                  struct model_output *out);

#endif
