/* gate.c: feature gates. */
#include "dense/layer/gate.h"

#include "dense/layer/plan.h"

static const struct dropout_mask keep_all = {.threshold = 0, .scale = 1.0f};

static void context_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    float *y = pass_at(p, l->y, first);
    p->k->zero(p->s, y, (size_t)count * l->y.width * sizeof *y);
    p->k->act_forward(p->s, ACT_NONE, &keep_all, first, count, l->y.width, pass_parameter(p, l, 1),
                      y, l->y.width);
}

static void context_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->act_backward(p->s, ACT_NONE, &keep_all, first, count, l->y.width, pass_at(p, l->y, first),
                       l->y.width, pass_gradient_at(p, l->y, first), pass_gradient_ld(p, l->y),
                       pass_parameter_gradient(p, l, 1));
}

const struct layer_ops gate_context_layer = {
    .name = "context", .forward = context_forward, .backward = context_backward};

#define GATE_FACTOR 2.0f

static void gate_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->attention.gate_forward(p->s, count, l->y.width, GATE_FACTOR, pass_at(p, l->x, first),
                                 pass_ld(p, l->x), pass_at(p, l->z, first), pass_ld(p, l->z),
                                 pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void gate_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->attention.gate_backward(
        p->s, count, l->y.width, GATE_FACTOR, pass_at(p, l->x, first), pass_ld(p, l->x),
        pass_at(p, l->z, first), pass_ld(p, l->z), pass_gradient_at(p, l->y, first),
        pass_gradient_ld(p, l->y), pass_gradient_at(p, l->z, first), pass_gradient_ld(p, l->z),
        pass_gradient_at(p, l->x, first), pass_gradient_ld(p, l->x), pass_wanted(p, l->x), l->add);
}

const struct layer_ops gate_layer = {
    .name = "gate", .forward = gate_forward, .backward = gate_backward};

struct view gate_context_plan(struct plan *p, uint32_t width)
{
    struct view context = plan_tensor(p, width);
    /* Not zeros: behind relu and biases of zero they would learn nothing. */
    plan_layer(p, &gate_context_layer, VIEW_NONE, context)->parameter[1] =
        block_add(&p->dense, width, plan_xavier(width, width), false);
    return context;
}

struct view gate_plan(struct plan *p, struct view x, struct view context,
                      const struct widths *hidden)
{
    struct view gate = context, y;
    for (uint32_t i = 0; i < hidden->count; i++)
        gate = plan_linear(p, gate, hidden->at[i], ACT_RELU, 0.0, NORM_NONE, VIEW_NONE);
    gate = plan_linear(p, gate, x.width, ACT_SIGMOID, 0.0, NORM_NONE, VIEW_NONE);
    y = plan_tensor(p, x.width);
    plan_layer(p, &gate_layer, x, y)->z = gate;
    return y;
}
