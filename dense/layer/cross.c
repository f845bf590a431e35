/* cross.c: cross layers: a matrix product and one element-wise pass, each way.
 *
 * With u = w x + b: dx0 = dy * u, du = dy * x0, dx = dy + du w. The gradients of all x but x0 lie
 * in one place: dy is there already when du w is added. */
#include "dense/layer/cross.h"

#include "dense/layer/plan.h"
#include "proto/base/assert.h"

static struct cross_args cross_args_of(const struct layer *l, const struct pass *p, uint32_t first,
                                       uint32_t count)
{
    struct view u = {l->state[0], 0, l->x.width};
    return (struct cross_args){.count = count,
                               .width = l->x.width,
                               .x0 = pass_at(p, l->z, first),
                               .ldx0 = pass_ld(p, l->z),
                               .x = pass_at(p, l->x, first),
                               .ldx = pass_ld(p, l->x),
                               .bias = pass_parameter(p, l, 1),
                               .u = pass_at(p, u, first),
                               .y = pass_at(p, l->y, first),
                               .ldy = pass_ld(p, l->y)};
}

static void cross_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    struct cross_args a = cross_args_of(l, p, first, count);
    p->k->gemm(p->s, false, true, count, a.width, a.width, a.x, a.ldx, pass_parameter(p, l, 0),
               a.width, 0.0f, a.u, a.width);
    p->k->interact.cross_forward(p->s, &a);
}

static void cross_back(const struct layer *l, struct pass *p, uint32_t first, uint32_t count,
                       bool of_first)
{
    struct cross_args a = cross_args_of(l, p, first, count);
    a.dy = pass_gradient_at(p, l->y, first);
    a.lddy = pass_gradient_ld(p, l->y);
    a.dbias = pass_parameter_gradient(p, l, 1);
    a.dx0 = pass_gradient_at(p, l->z, first);
    a.lddx0 = pass_gradient_ld(p, l->z);
    a.dx0_width = pass_wanted(p, l->z);
    a.add = l->add_z;
    a.first = of_first;
    p->k->interact.cross_backward(p->s, &a); /* u is its gradient now */
    p->k->gemm(p->s, true, false, a.width, a.width, count, a.u, a.width, a.x, a.ldx, 1.0f,
               pass_parameter_gradient(p, l, 0), a.width);
    uint32_t wanted = pass_wanted(p, l->x);
    if (wanted > 0)
        p->k->gemm(p->s, false, false, count, wanted, a.width, a.u, a.width,
                   pass_parameter(p, l, 0), a.width, 1.0f, pass_gradient_at(p, l->x, first),
                   pass_gradient_ld(p, l->x));
}

static void cross_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    cross_back(l, p, first, count, false);
}

static void cross_first_backward(const struct layer *l, struct pass *p, uint32_t first,
                                 uint32_t count)
{
    cross_back(l, p, first, count, true);
}

const struct layer_ops cross_first_layer = {
    .name = "cross", .forward = cross_forward, .backward = cross_first_backward};
const struct layer_ops cross_layer = {.name = "cross",
                                      .forward = cross_forward,
                                      .backward = cross_backward,
                                      .gradient_in_place = true};

void cross_plan(struct plan *p, struct view x0, uint32_t layers, struct view y)
{
    struct view x = x0;
    SHOAL_ASSERT(layers > 0 && y.width == x0.width);
    for (uint32_t i = 0; i < layers; i++) {
        struct view to = i + 1 == layers ? y : plan_tensor(p, x0.width);
        struct layer *l = plan_layer(p, i == 0 ? &cross_first_layer : &cross_layer, x, to);
        l->z = x0;
        l->parameter[0] = plan_weights(p, x0.width, x0.width);
        l->parameter[1] = plan_zeros(p, x0.width);
        l->state[0] = plan_state(p, x0.width);
        x = to;
    }
}
