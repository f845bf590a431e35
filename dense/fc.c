/* fc.c: fully connected layers. */
#include "dense/fc.h"

static void fc_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    const float *x = pass_at(p, l->x, first, l->in); // (count, in)
    float *y = pass_at(p, l->y, first, l->out);      // (count, out)
    p->k->gemm(false, true, count, l->out, l->in, x, l->in, p->in->dense + l->weight, l->in, 0.0f, y, l->out);
}

static void fc_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    const float *x = pass_at(p, l->x, first, l->in);
    const float *dy = pass_at(p, l->dy, first, l->out);
    float *dw = p->out->dense_gradients + l->weight; // (out, in)

    p->k->gemm(true, false, l->out, l->in, count, dy, l->out, x, l->in, 1.0f, dw, l->in);
    if (l->dx == TENSOR_NONE)
        return;
    float *dx = pass_at(p, l->dx, first, l->dx_width); // (count, dx_width)
    p->k->gemm(false, false, count, l->dx_width, l->out, dy, l->out, p->in->dense + l->weight, l->in, 0.0f, dx,
               l->dx_width);
}

const struct layer_ops fc_layer = {.name = "fc", .forward = fc_forward, .backward = fc_backward};

static void head_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    p->k->head_forward(count, l->in, pass_at(p, l->x, first, l->in), l->in, p->in->dense + l->weight,
                       pass_at(p, TENSOR_LOGIT, first, 1));
}

static void head_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    float *dx = l->dx == TENSOR_NONE ? NULL : pass_at(p, l->dx, first, l->in);
    p->k->head_backward(count, l->in, pass_at(p, l->x, first, l->in), l->in, p->in->dense + l->weight,
                        pass_at(p, TENSOR_LOGIT_GRADIENT, first, 1), p->out->dense_gradients + l->weight, dx);
}

const struct layer_ops head_layer = {.name = "head", .forward = head_forward, .backward = head_backward};
