/* act.c: bias, activation and dropout. */
#include "dense/act.h"

#include "dense/dropout.h"

static struct dropout_mask act_mask(const struct layer *l, const struct pass *p)
{
    return dropout_of(p->train ? l->dropout : 0.0, p->seed, p->lane, p->batch, l->number);
}

static void act_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = act_mask(l, p);
    const float *bias = l->bias == PARAMETER_NONE ? NULL : p->in->dense + l->bias;
    p->k->act_forward(l->act, &mask, first, count, l->out, bias, pass_at(p, l->y, first, l->out));
}

static void act_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = act_mask(l, p);
    float *bias_gradient = l->bias == PARAMETER_NONE ? NULL : p->out->dense_gradients + l->bias;
    p->k->act_backward(l->act, &mask, first, count, l->out, pass_at(p, l->y, first, l->out),
                       pass_at(p, l->dy, first, l->out), bias_gradient);
}

const struct layer_ops act_layer = {.name = "act", .forward = act_forward, .backward = act_backward};
