/* bilinear.c: the products of two streams. */
#include "dense/layer/bilinear.h"

#include "dense/layer/plan.h"
#include "proto/base/assert.h"

/* The state holds x' W, later its gradient. */
static float *bilinear_state(const struct layer *l, const struct pass *p, uint32_t first)
{
    return pass_at(p, (struct view){l->state[0], 0, l->z.width}, first);
}

static void bilinear_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    float *t = bilinear_state(l, p, first);
    for (uint32_t h = 0; h < heads; h++)
        p->k->gemm(p->s, false, false, count, n, m, pass_at(p, l->x, first) + (size_t)h * m,
                   pass_ld(p, l->x), pass_parameter(p, l, 0) + (size_t)h * m * n, n, 0.0f,
                   t + (size_t)h * n, l->z.width);
    p->k->attention.dots_forward(p->s, count, l->z.width, t, l->z.width, pass_at(p, l->z, first),
                                 pass_ld(p, l->z), pass_at(p, l->y, first), pass_ld(p, l->y));
}

static void bilinear_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    float *t = bilinear_state(l, p, first), *dx = pass_gradient_at(p, l->x, first);
    p->k->attention.dots_backward(p->s, count, l->z.width, t, l->z.width, pass_at(p, l->z, first),
                                  pass_ld(p, l->z), pass_gradient_at(p, l->y, first),
                                  pass_gradient_ld(p, l->y), pass_gradient_at(p, l->z, first),
                                  pass_gradient_ld(p, l->z), l->add_z);
    for (uint32_t h = 0; h < heads; h++) {
        size_t at = (size_t)h * m * n;
        p->k->gemm(p->s, true, false, m, n, count, pass_at(p, l->x, first) + (size_t)h * m,
                   pass_ld(p, l->x), t + (size_t)h * n, l->z.width, 1.0f,
                   pass_parameter_gradient(p, l, 0) + at, n);
        p->k->gemm(p->s, false, true, count, m, n, t + (size_t)h * n, l->z.width,
                   pass_parameter(p, l, 0) + at, n, l->add ? 1.0f : 0.0f, dx + (size_t)h * m,
                   pass_gradient_ld(p, l->x));
    }
}

const struct layer_ops bilinear_layer = {
    .name = "bilinear", .forward = bilinear_forward, .backward = bilinear_backward};

void bilinear_plan(struct plan *p, struct view x, struct view z, uint32_t heads, uint32_t task)
{
    SHOAL_ASSERT(heads > 0 && x.width % heads == 0 && z.width % heads == 0);
    struct layer *l = plan_layer(p, &bilinear_layer, x, plan_logit(p, task));
    uint32_t weights = x.width / heads * z.width;

    l->z = z;
    l->number_of[BILINEAR_HEADS] = heads;
    /* as small as a head's over all products would be */
    l->parameter[0] = plan_weights(p, 1, weights);
    l->state[0] = plan_state(p, z.width);
}
