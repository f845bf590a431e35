/* lower.h: a plan as a graph of operators (proto/base/graph.h), for programs that score without us.
 *
 *     lower_plan: for each layer layer_ops.lower: read views -> nodes of the graph -> write views
 *
 * A layer appends what its `forward` computes in a prediction. As in a pass it reads views and
 * writes one: columns of a tensor are values of the graph, (batch, width), side by side. A read of
 * columns that several values hold joins them once. Rows of tensors have no gaps here, every layer
 * sees all examples, and dropout and the statistics of the batch are not there.
 *
 * The plan has one site. The caller has added the tensors of the dense tables to the graph as
 * weights by the names that an export gives them, "dense.hidden.0.weight". One thread. */
#ifndef DENSE_LAYER_LOWER_H
#define DENSE_LAYER_LOWER_H

#include "dense/layer/layer.h"
#include "proto/base/err.h"
#include "proto/base/graph.h"

struct plan;
struct feed_names;
struct lower;

/* Appends the inputs and the layers of the plan. logit: (tasks) the logits, (batch, 1). CONFIG: the
 * graph has no weight of a tensor's name, or one of another size. NOMEM. */
int lower_plan(const struct plan *plan, const struct feed_names *names, struct graph *g,
               uint32_t *logit, struct err *e);

/* ---- for layers ---- */

struct graph *lower_graph(struct lower *w);
const struct plan *lower_plan_of(const struct lower *w);
/* (batch, v.width) */
uint32_t lower_read(struct lower *w, struct view v);
/* Sets columns: all of some values that were written, or none of them. */
void lower_write(struct lower *w, struct view v, uint32_t value);
/* Adds to columns of the logit, which begin as zeros. */
void lower_add(struct lower *w, struct view v, uint32_t value);
/* The dense parameters from offset `at` on, in this shape: a tensor or rows of one. */
uint32_t lower_parameter(struct lower *w, size_t at, const int64_t *dim, uint32_t dims);
/* The same in dense_stats. */
uint32_t lower_statistic(struct lower *w, size_t at, uint32_t width);
/* act(value). */
uint32_t lower_act(struct lower *w, enum activation act, uint32_t value);
/* The input of a field: its pooled vector (batch, dim), its values' vectors (batch, length, dim),
 * or its pooled first-order weight (batch, 1). */
uint32_t lower_vector(struct lower *w, uint32_t field);
uint32_t lower_vectors(struct lower *w, uint32_t field);
uint32_t lower_first(struct lower *w, uint32_t field);

/* ---- layers (layer_ops.lower) ---- */

void lower_pool(const struct layer *l, struct lower *w);
void lower_fc(const struct layer *l, struct lower *w);
void lower_head(const struct layer *l, struct lower *w);
void lower_act_layer(const struct layer *l, struct lower *w);
void lower_batch_norm(const struct layer *l, struct lower *w);
void lower_layer_norm(const struct layer *l, struct lower *w);

void lower_fm(const struct layer *l, struct lower *w);
void lower_products(const struct layer *l, struct lower *w);
void lower_cross(const struct layer *l, struct lower *w);
void lower_cin_turn(const struct layer *l, struct lower *w);
void lower_cin(const struct layer *l, struct lower *w);
void lower_cin_pool(const struct layer *l, struct lower *w);
void lower_bilinear(const struct layer *l, struct lower *w);

void lower_project(const struct layer *l, struct lower *w);
void lower_attend(const struct layer *l, struct lower *w);
void lower_context(const struct layer *l, struct lower *w);
void lower_gate(const struct layer *l, struct lower *w);
void lower_sequence(const struct layer *l, struct lower *w);

void lower_mix(const struct layer *l, struct lower *w);
/* No operator: another layer's stand for this one's. */
void lower_nothing(const struct layer *l, struct lower *w);

#endif
