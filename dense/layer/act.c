/* act.c: activation and dropout. */
#include "dense/layer/act.h"

#include "dense/layer/dropout.h"

static void act_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = dropout_of(l, p);
    p->k->act_forward(p->s, l->act, &mask, first, count, l->y.width, NULL, pass_at(p, l->y, first),
                      pass_ld(p, l->y));
}

static void act_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct dropout_mask mask = dropout_of(l, p);
    p->k->act_backward(p->s, l->act, &mask, first, count, l->y.width, pass_at(p, l->y, first),
                       pass_ld(p, l->y), pass_gradient_at(p, l->y, first),
                       pass_gradient_ld(p, l->y), NULL);
}

const struct layer_ops act_layer = {
    .name = "act", .forward = act_forward, .backward = act_backward};
