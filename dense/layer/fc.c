/* fc.c: fully connected layers. */
#include "dense/layer/fc.h"

#include "dense/layer/dropout.h"

static struct linear_args fc_args(const struct layer *l, const struct pass *p, uint32_t first,
                                  uint32_t count)
{
    return (struct linear_args){.first = first,
                                .count = count,
                                .in = l->x.width,
                                .out = l->y.width,
                                .x = pass_at(p, l->x, first),
                                .ldx = pass_ld(p, l->x),
                                .w = pass_parameter(p, l, 0),
                                .bias = pass_parameter(p, l, 1),
                                .act = l->act,
                                .mask = dropout_of(l, p),
                                .y = pass_at(p, l->y, first),
                                .ldy = pass_ld(p, l->y)};
}

static void fc_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct linear_args a = fc_args(l, p, first, count);
    p->k->linear_forward(p->s, &a);
}

static void fc_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct linear_args a = fc_args(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dw = pass_parameter_gradient(p, l, 0);
    a.dbias = pass_parameter_gradient(p, l, 1);
    a.dx = pass_gradient_at(p, l->x, first);
    a.lddx = pass_gradient_ld(p, l->x);
    a.dx_width = pass_wanted(p, l->x);
    a.add = l->add;
    p->k->linear_backward(p->s, &a);
}

const struct layer_ops fc_layer = {.name = "fc", .forward = fc_forward, .backward = fc_backward};

static void head_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->head_forward(p->s, count, l->x.width, pass_at(p, l->x, first), pass_ld(p, l->x),
                       pass_parameter(p, l, 0), pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void head_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->head_backward(p->s, count, l->x.width, pass_at(p, l->x, first), pass_ld(p, l->x),
                        pass_parameter(p, l, 0), pass_gradient_at(p, l->y, first),
                        pass_gradient_ld(p, l->y), pass_parameter_gradient(p, l, 0),
                        pass_gradient_at(p, l->x, first), pass_gradient_ld(p, l->x),
                        pass_wanted(p, l->x), l->add);
}

const struct layer_ops fc_head_layer = {
    .name = "head", .forward = head_forward, .backward = head_backward};
