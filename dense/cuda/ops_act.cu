/* ops_act.cu: bias, activation and dropout in one pass; the way back with the bias's sums. */
#include "dense/cuda/act.h"
#include "dense/cuda/stream.h"

struct act_forward_args {
    enum activation act;
    struct dropout_mask mask;
    uint32_t first, width, ldy;
    const float *bias;
    float *y;
};

BODY void act_forward_at(const struct act_forward_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    float *y = a->y + (size_t)p.row * a->ldy + p.column;
    float v = act_value(a->act, a->bias ? *y + a->bias[p.column] : *y);
    if (a->mask.threshold > 0)
        v = dropout_keeps(&a->mask,
                          dropout_example(&a->mask, a->first + p.row) * a->width + p.column)
                ? v * a->mask.scale
                : 0.0f;
    *y = v;
}
KERNEL(act_forward)

struct act_backward_args {
    enum activation act;
    struct dropout_mask mask;
    uint32_t first, count, width, ldy, lddy, chunk;
    const float *y;
    float *dy;
    double *partial; /* (chunks, width) or NULL */
};

BODY float act_gradient(const struct act_backward_args *a, uint32_t row, uint32_t column, float y,
                        float dy)
{
    if (a->mask.threshold == 0)
        return a->act == ACT_RELU ? (y > 0.0f ? dy : 0.0f) : dy * act_slope(a->act, y);
    if (a->act == ACT_RELU) /* a dropped value is 0, and so is its slope */
        return y > 0.0f ? dy * a->mask.scale : 0.0f;
    if (!dropout_keeps(&a->mask, dropout_example(&a->mask, a->first + row) * a->width + column))
        return 0.0f;
    return dy * a->mask.scale * act_slope(a->act, y / a->mask.scale);
}

/* `chunk` rows of one column. */
BODY void act_backward_at(const struct act_backward_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t end = part_end(p.row, a->chunk, a->count);
    const float *RESTRICT y = a->y + p.column;
    float *RESTRICT dy = a->dy + p.column;
    float sum = 0.0f;
    for (uint32_t row = p.row * a->chunk; row < end; row++) {
        float d = dy[(size_t)row * a->lddy];
        if (a->act != ACT_NONE || a->mask.threshold > 0) {
            d = act_gradient(a, row, p.column, y[(size_t)row * a->ldy], d);
            dy[(size_t)row * a->lddy] = d;
        }
        sum += d;
    }
    if (a->partial)
        a->partial[i] = (double)sum;
}
KERNEL(act_backward)

static void act_forward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                        uint32_t first, uint32_t count, uint32_t width, const float *bias, float *y,
                        uint32_t ldy)
{
    struct act_forward_args a = {act, *mask, first, width, ldy, bias, y};
    act_forward_run(s, (size_t)count * width, &a);
}

static void act_backward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                         uint32_t first, uint32_t count, uint32_t width, const float *y,
                         uint32_t ldy, float *dy, uint32_t lddy, float *bias_gradient)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t chunk = bias_gradient ? SUM_CHUNK : 1, chunks = (count + chunk - 1) / chunk;
    double *partial = NULL;
    if (bias_gradient) {
        partial = (double *)cuda_scratch(s, (size_t)chunks * width * sizeof *partial);
        if (partial == NULL)
            return;
    }
    struct act_backward_args a = {act,  *mask, first, count, width,  ldy,
                                  lddy, chunk, y,     dy,    partial};
    act_backward_run(s, (size_t)chunks * width, &a);
    if (bias_gradient)
        cuda_columns_add(s, partial, chunks, width, bias_gradient);
    cuda_scratch_return(s, mark);
}

void cuda_bias_add(struct stream *s, uint32_t m, uint32_t n, const float *bias, float *c,
                   uint32_t ldc)
{
    struct dropout_mask keep_all = {NULL, 0, 1.0f, NULL};
    act_forward(s, ACT_NONE, &keep_all, 0, m, n, bias, c, ldc);
}

void cuda_act_fill(struct backend_ops *o)
{
    o->act_forward = act_forward;
    o->act_backward = act_backward;
}
