/* layer.h: what a layer of a model is, and the pass of one batch through the layers.
 *
 * A layer works on a range of the batch's examples at a time, so that what one layer writes is still in the cache when
 * the next reads it. A layer that needs a sum over the whole batch (batch norm) has four more functions: `gather` adds
 * a range to the sum, `settle` is called once when every range has been gathered, and only then do `forward` and
 * `backward` of that layer run. model.c drives them.
 *
 * Tensors hold a row for each example, of the whole batch or of the range at hand; layers find rows by pass_at.
 * Parameters lie in the flat arrays of the dense tables: a layer knows the place of its own. Layers add their
 * parameters' gradients; the arrays begin as zeros or as what L2 gives. A layer is read-only after building and shared
 * by all lanes; a pass belongs to one thread. */
#ifndef DENSE_LAYER_H
#define DENSE_LAYER_H

#include "dense/backend.h"

#define TENSOR_NONE UINT32_MAX
#define PARAMETER_NONE SIZE_MAX

enum {
    TENSOR_LOGIT,          /* (example): layers add to it */
    TENSOR_LOGIT_GRADIENT, /* (example): written by the loss */
    TENSOR_NUMERIC,        /* (example, numerics): the caller's input */
    TENSOR_FIRST_FREE,
};

struct tensor {
    uint32_t width; /* floats an example; of a state: floats in all */
    bool whole;     /* holds the whole batch, whatever the range */
    bool state;     /* not by example: a layer's sums and the like */
};

struct pass {
    const struct backend_ops *k;
    const struct model_shape *shape;
    const struct model_input *in;
    struct model_output *out;
    const struct tensor *tensor;
    float *const *data; /* (tensors) */
    uint32_t base;      /* example at which the tensors that are not whole begin */
    bool train;         /* dropout, statistics of the batch, gradients */
    uint64_t seed, batch;
    uint32_t lane;
    uint32_t dim; /* of the row's vector */
};

struct layer;
typedef void (*layer_range_function)(const struct layer *l, struct pass *p, uint32_t first, uint32_t count);
typedef void (*layer_batch_function)(const struct layer *l, struct pass *p);

struct layer_ops {
    const char *name;
    layer_range_function forward, backward;
    layer_range_function forward_gather, backward_gather; /* NULL but for layers that look at the whole batch */
    layer_batch_function forward_settle, backward_settle;
};

struct layer {
    const struct layer_ops *ops;
    uint32_t number;       /* position in the model */
    uint32_t in, out;      /* floats an example, read and written */
    uint32_t x, y;         /* tensors read and written; a layer may work in place: x == y */
    uint32_t dx, dy;       /* their gradients; TENSOR_NONE: not wanted */
    uint32_t dx_width;     /* leading columns of dx that are wanted, which is also the width of dx */
    uint32_t state;        /* tensor of the layer's own */
    size_t weight, bias;   /* in the dense parameters; PARAMETER_NONE: without. norm: gamma, beta */
    size_t mean, variance; /* norm: in the statistics */
    enum activation act;
    double dropout;
    bool add; /* adds to dx, which another layer has written */
};

/* The row of `example` in a tensor whose rows are `width` floats. */
static inline float *pass_at(const struct pass *p, uint32_t tensor, uint32_t example, uint32_t width)
{
    uint32_t base = p->tensor[tensor].whole ? 0 : p->base;
    return p->data[tensor] + (size_t)(example - base) * width;
}

#endif
