/* linear.c: a linear layer: matrix products with what is done to each output around them.
 *
 * A bias alone is added by the product itself (cuBLASLt's epilogue). An activation is a kernel of
 * ours, with bias and dropout in the same pass: cuBLASLt does not say what its relu makes of what
 * is not a number, and a model that diverges must show it. On the way back the derivative and the
 * bias's sums are one pass too (ops_act.cu), in an order of our own. */
#include "dense/cuda/stream.h"

static struct operand operand_of(const float *x, uint32_t rows, uint32_t columns, uint32_t ld)
{
    return (struct operand){.x = x, .rows = rows, .columns = columns, .ld = ld};
}

static struct backend_ops *ops;

static void linear_forward(struct stream *s, const struct linear_args *a)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct operand x = operand_of(a->x, a->count, a->in, a->ldx),
                   w = operand_of(a->w, a->out, a->in, a->in);
    bool plain = a->act == ACT_NONE && a->mask.threshold == 0;
    cuda_operand_product(s, false, true, a->count, a->out, a->in, &x, &w, 0.0f, a->y, a->ldy,
                         plain ? a->bias : NULL);
    if (!plain)
        ops->act_forward(s, a->act, &a->mask, a->first, a->count, a->out, a->bias, a->y, a->ldy);
    cuda_scratch_return(s, mark);
}

static void linear_backward(struct stream *s, const struct linear_args *a)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    if (a->dbias != NULL || a->act != ACT_NONE || a->mask.threshold > 0)
        ops->act_backward(s, a->act, &a->mask, a->first, a->count, a->out, a->y, a->ldy, a->dy,
                          a->lddy, a->dbias);
    struct operand dy = operand_of(a->dy, a->count, a->out, a->lddy),
                   x = operand_of(a->x, a->count, a->in, a->ldx);
    cuda_operand_product(s, true, false, a->out, a->in, a->count, &dy, &x, 1.0f, a->dw, a->in,
                         NULL);
    if (a->dx != NULL) {
        struct operand w = operand_of(a->w, a->out, a->in, a->in);
        cuda_operand_product(s, false, false, a->count, a->dx_width, a->out, &dy, &w,
                             a->add ? 1.0f : 0.0f, a->dx, a->lddx, NULL);
    }
    cuda_scratch_return(s, mark);
}

void cuda_linear_fill(struct backend_ops *o)
{
    ops = o;
    o->gemm = cuda_gemm;
    o->linear_forward = linear_forward;
    o->linear_backward = linear_backward;
}
