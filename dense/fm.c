/* fm.c: pairwise products of the field vectors. */
#include "dense/fm.h"

static void fm_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_forward(count, p->shape->fields, p->dim, pass_at(p, l->x, first, l->in), l->in,
                     pass_at(p, l->state, first, p->dim), pass_at(p, TENSOR_LOGIT, first, 1));
}

static void fm_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->fm_backward(count, p->shape->fields, p->dim, pass_at(p, l->x, first, l->in), l->in,
                      pass_at(p, l->state, first, p->dim), pass_at(p, TENSOR_LOGIT_GRADIENT, first, 1), l->add,
                      pass_at(p, l->dx, first, l->dx_width));
}

const struct layer_ops fm_layer = {.name = "fm", .forward = fm_forward, .backward = fm_backward};
