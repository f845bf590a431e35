/* fm.c: pairwise products of the field vectors. */
#include "dense/layer/fm.h"

static float *fm_sums(const struct layer *l, const struct pass *p, uint32_t first)
{
    return pass_at(p, (struct view){l->state[0], 0, p->dim}, first);
}

static void fm_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_forward(p->s, count, l->x.width / p->dim, p->dim, pass_at(p, l->x, first),
                     pass_ld(p, l->x), fm_sums(l, p, first), pass_at(p, l->y, first),
                     pass_ld(p, l->y));
}

static void fm_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_backward(p->s, count, l->x.width / p->dim, p->dim, pass_at(p, l->x, first),
                      pass_ld(p, l->x), fm_sums(l, p, first), pass_gradient_at(p, l->y, first),
                      pass_gradient_ld(p, l->y), l->add, pass_gradient_at(p, l->x, first),
                      pass_gradient_ld(p, l->x));
}

const struct layer_ops fm_layer = {.name = "fm", .forward = fm_forward, .backward = fm_backward};
