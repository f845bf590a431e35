/* plan.h: a model taken apart: its layers in order, the tensors between them, its parameters in the dense tables.
 *
 * plan_build is a function of job and shape alone, the same on every worker and on whoever makes the schemas. Each
 * model_<kind>.c says in a few lines which parts it is made of. Read-only once built. */
#ifndef DENSE_PLAN_H
#define DENSE_PLAN_H

#include "dense/block.h"
#include "dense/layer.h"

#define PLAN_LAYERS_MAX 64u
#define PLAN_TENSORS_MAX 128u

struct plan {
    const struct job *job; /* borrowed, while building only */
    struct model_shape shape;
    uint32_t dim;  /* of the row's vector; 0: first-order only */
    bool has_loss; /* false: the layers give the gradients by themselves (probe) */
    bool by_batch; /* some layer looks at the whole batch */
    struct layer layer[PLAN_LAYERS_MAX];
    uint32_t layer_count;
    struct tensor tensor[PLAN_TENSORS_MAX];
    uint32_t tensor_count;
    uint32_t input, input_gradient; /* tensors of the pooled input, TENSOR_NONE when dim is 0 */
    struct block_layout dense, stats;
};

/* CONFIG: more than one sparse table, no hidden layer where the model has a network, or more parameters than a dense
 * table holds. */
int plan_build(const struct job *job, const struct model_shape *shape, struct plan *out, struct err *e);

/* The parts, called by the models in this order. */
void plan_first_order(struct plan *p,
                      bool vectors); /* logit = bias + pooled w + numerics . weights; vectors: rows have v too */
void plan_pairs(struct plan *p);     /* logit += pairwise products of the field vectors */
void plan_network(struct plan *p);   /* logit += network over vectors and numerics */
void plan_layer(struct plan *p, struct layer layer); /* any other layer */

/* The models. */
void model_lr_plan(struct plan *p);
void model_fm_plan(struct plan *p);
void model_wide_deep_plan(struct plan *p);
void model_deepfm_plan(struct plan *p);
void model_probe_plan(struct plan *p);

#endif
