/* pool.c: rows -> input and back. */
#include "dense/pool.h"

static struct pool_args pool_args_of(const struct pass *p, uint32_t first, uint32_t count)
{
    return (struct pool_args){
        .first = first,
        .count = count,
        .fields = p->shape->fields,
        .dim = p->dim,
        .numerics = p->shape->numerics,
        .pooling = p->shape->pooling,
        .index = p->in->index,
        .offset = p->in->offset,
        .rows = p->in->rows,
        .numeric = p->in->numeric,
    };
}

static void pool_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = pool_args_of(p, first, count);
    float bias = p->in->dense[l->bias], *logit = pass_at(p, TENSOR_LOGIT, first, 1);

    for (uint32_t i = 0; i < count; i++)
        logit[i] = bias;
    p->k->pool_forward(&a, l->y == TENSOR_NONE ? NULL : pass_at(p, l->y, first, l->out), logit);
}

static void pool_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct pool_args a = pool_args_of(p, first, count);
    const float *dlogit = pass_at(p, TENSOR_LOGIT_GRADIENT, first, 1);
    const float *dy = l->dy == TENSOR_NONE ? NULL : pass_at(p, l->dy, first, a.fields * a.dim);
    float sum = 0.0f;

    p->k->pool_backward(&a, dy, dlogit, p->out->row_gradients);
    for (uint32_t i = 0; i < count; i++)
        sum += dlogit[i];
    p->out->dense_gradients[l->bias] += sum;
}

const struct layer_ops pool_layer = {.name = "pool", .forward = pool_forward, .backward = pool_backward};
