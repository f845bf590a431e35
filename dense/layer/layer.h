/* layer.h: what a layer of a model is, and the pass of one batch through the layers.
 *
 * Layers read and write views: columns of tensors, a row for each example. Where another layer has
 * written to the gradient of what a layer read, it adds, and `add` says so; the plan works that out
 * (plan_settle.c). A layer works on a range of the batch's examples at a time, so that what one
 * layer writes is still in the cache when the next reads it; on a device the range is the whole
 * batch. A layer that needs a sum over the whole batch (batch norm) has four more functions:
 * `gather` adds a range to the sum, `settle` is called once when every range has been gathered, and
 * only then do `forward` and `backward` of that layer run. pass.c drives them.
 *
 * Parameters lie in the flat arrays of the dense tables: a layer knows the places of its own.
 * Layers add their parameters' gradients; the arrays begin as zeros or as what L2 gives. A layer is
 * read-only after building and shared by all lanes; a pass belongs to one thread. */
#ifndef DENSE_LAYER_LAYER_H
#define DENSE_LAYER_LAYER_H

#include "dense/backend_ops.h"

#define TENSOR_NONE UINT32_MAX
#define PARAMETER_NONE SIZE_MAX
#define LAYER_STATES 3
#define LAYER_PARAMETERS 6
#define LAYER_NUMBERS 8
#define PASS_LAYERS_MAX 256u

enum {
    TENSOR_LOGIT,   /* (example, tasks): layers add to it */
    TENSOR_NUMERIC, /* (example, numerics): the caller's input */
    TENSOR_FIRST_FREE,
};

struct tensor {
    uint32_t width;    /* floats an example; of a state: floats in all */
    uint32_t wanted;   /* leading columns whose gradient is wanted; 0: none */
    uint32_t gradient; /* tensor that holds the gradient, `wanted` wide or wider, or TENSOR_NONE */
    uint32_t gradient_at; /* its first column there */
    bool whole;           /* holds the whole batch, whatever the range */
    bool state;           /* not by example: a layer's sums and the like */
    /* its gradient's writers do not cover it one after another: zeroed before the way back */
    bool zero;
};

/* Columns [at, at + width) of a tensor. */
struct view {
    uint32_t tensor, at, width;
};

#define VIEW_NONE ((struct view){TENSOR_NONE, 0, 0})

/* What changes from step to step but not in shape. In the backend's memory. */
struct step {
    uint32_t examples; /* of the batch, without what fills it up */
    /* of the tasks' losses: loss scale * task weight / sum of the examples' weights */
    float factor[LIMIT_TASKS];
    float unscale;                             /* 1 / loss scale */
    uint32_t key[PASS_LAYERS_MAX][2];          /* dropout, by layer */
    struct pool_table table[LIMIT_JOB_TABLES]; /* of tables of several dims: where their rows lie */
};

struct pass {
    const struct backend_ops *k;
    struct stream *s;
    const struct model_shape *shape;
    const struct model_input *in; /* pointers into the backend's memory */
    struct model_output *out;     /* gradients and scores: likewise */
    const struct step *step;      /* likewise */
    double *loss;                 /* (tasks), likewise */
    const uint8_t *pooling;       /* (fields), likewise */
    const uint8_t *field_table;   /* (fields), likewise; NULL: all tables have one dim */
    const uint32_t *column;       /* (fields + 1), likewise */
    uint32_t tables;              /* sparse ones */
    uint32_t vectors;             /* columns of all fields' vectors */
    uint32_t filled; /* examples of a batch that is filled up to one of few sizes (pass.c) */
    /* in the backend's memory: the examples that it has; NULL: all, nothing fills it up */
    const uint32_t *live;
    const struct tensor *tensor;
    float *const *data;   /* (tensors) */
    uint32_t base;        /* example at which the tensors that are not whole begin */
    bool train;           /* dropout, statistics of the batch, gradients */
    uint32_t dim;         /* of a row's vector; of the widest */
    uint32_t first_order; /* 1: rows begin with a first-order weight */
    uint32_t tasks;
    uint32_t values; /* of the batch: entries of index */
};

struct layer;
typedef void (*layer_range_function)(const struct layer *l, struct pass *p, uint32_t first,
                                     uint32_t count);
typedef void (*layer_batch_function)(const struct layer *l, struct pass *p);

struct layer_ops {
    const char *name;
    layer_range_function forward, backward;
    /* NULL but for layers that look at the whole batch */
    layer_range_function forward_gather, backward_gather;
    layer_batch_function forward_settle, backward_settle;
    /* backward turns the gradient of y into that of x where it lies; x has no other reader */
    bool gradient_in_place;
    /* its kernels depend on the number of values or rows: not part of a recorded graph. Such layers
     * come first */
    bool by_values;
};

struct layer {
    const struct layer_ops *ops;
    uint32_t number; /* position in the model */
    /* read, read too, written; VIEW_NONE where there is none. In place: x and y the same */
    struct view x, z, y;
    /* adds to the gradient of x, of z: another layer has written it. Of both, z's is written
     * first */
    bool add, add_z;
    uint32_t state[LAYER_STATES]; /* tensors of the layer's own */
    /* places in the dense parameters, PARAMETER_NONE: without. By convention 0 is the weight (or
     * gamma), 1 the bias (or beta) */
    size_t parameter[LAYER_PARAMETERS];
    size_t mean, variance; /* norm: in the statistics */
    double momentum;       /* norm: of a push of these (norm.h) */
    enum activation act;
    double dropout;
    uint32_t number_of[LAYER_NUMBERS]; /* shapes of the layer's own: heads, fields.. */
};

/* Row `example` of a view; floats from a row to the next. */
static inline float *pass_at(const struct pass *p, struct view v, uint32_t example)
{
    const struct tensor *t = &p->tensor[v.tensor];
    return p->data[v.tensor] + (size_t)(example - (t->whole ? 0 : p->base)) * t->width + v.at;
}

static inline uint32_t pass_ld(const struct pass *p, struct view v)
{
    return p->tensor[v.tensor].width;
}

/* Columns of the view whose gradient is wanted: the leading ones. */
static inline uint32_t pass_wanted(const struct pass *p, struct view v)
{
    const struct tensor *t = &p->tensor[v.tensor];
    if (t->gradient == TENSOR_NONE || t->wanted <= v.at)
        return 0;
    return t->wanted - v.at < v.width ? t->wanted - v.at : v.width;
}

/* The gradient of a view's row; NULL when none is wanted. */
static inline float *pass_gradient_at(const struct pass *p, struct view v, uint32_t example)
{
    if (pass_wanted(p, v) == 0)
        return NULL;
    const struct tensor *t = &p->tensor[v.tensor], *g = &p->tensor[t->gradient];
    return p->data[t->gradient] + (size_t)(example - (g->whole ? 0 : p->base)) * g->width +
           t->gradient_at + v.at;
}

static inline uint32_t pass_gradient_ld(const struct pass *p, struct view v)
{
    return pass_wanted(p, v) == 0 ? 0 : p->tensor[p->tensor[v.tensor].gradient].width;
}

/* The layer's n-th parameter and its gradient; NULL: without. */
static inline const float *pass_parameter(const struct pass *p, const struct layer *l, uint32_t n)
{
    return l->parameter[n] == PARAMETER_NONE ? NULL : p->in->dense + l->parameter[n];
}

static inline float *pass_parameter_gradient(const struct pass *p, const struct layer *l,
                                             uint32_t n)
{
    return l->parameter[n] == PARAMETER_NONE ? NULL : p->out->dense_gradients + l->parameter[n];
}

#endif
