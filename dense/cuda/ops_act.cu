/* ops_act.cu: what stands around matrix products: bias, activation and dropout in one pass, and the
 * way back with the bias's sums; layers with one output. */
#include "dense/cuda/act.h"
#include "dense/cuda/stream.h"

/* ---- bias, activation, dropout --------------------------------------------------------------- */

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

/* ---- one output ------------------------------------------------------------------------------ */

/* A layer with one output, a product of rows with one vector of weights; and the
 * model's bias. */

/* parts that a wide row is summed in: neighbours read neighbouring columns */
#define HEAD_LANES 32u

struct bias_args {
    uint32_t count, stride;
    const float *bias, *dlogit;
    float *logit;
    double *partial; /* (chunks, stride) */
};

#define bias_forward_args bias_args
#define bias_backward_args bias_args

BODY void bias_forward_at(const struct bias_args *a, size_t i)
{
    a->logit[i] = a->bias ? a->bias[i % a->stride] : 0.0f;
}
KERNEL(bias_forward)

BODY void bias_backward_at(const struct bias_args *a, size_t i)
{
    struct place p = place_of(i, a->stride);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->count);
    double sum = 0.0;
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row++)
        sum += (double)a->dlogit[(size_t)row * a->stride + p.column];
    a->partial[i] = sum;
}
KERNEL(bias_backward)

static void bias_forward(struct stream *s, uint32_t count, uint32_t stride, const float *bias,
                         float *logit)
{
    struct bias_args a = {count, stride, bias, NULL, logit, NULL};
    bias_forward_run(s, (size_t)count * stride, &a);
}

static void bias_backward(struct stream *s, uint32_t count, uint32_t stride, const float *dlogit,
                          float *bias_gradient)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t chunks = sum_chunks(count);
    double *partial = (double *)cuda_scratch(s, (size_t)chunks * stride * sizeof *partial);
    struct bias_args a = {count, stride, NULL, dlogit, NULL, partial};
    if (partial == NULL)
        return;
    bias_backward_run(s, (size_t)chunks * stride, &a);
    cuda_columns_add(s, partial, chunks, stride, bias_gradient);
    cuda_scratch_return(s, mark);
}

struct head_args {
    uint32_t count, width, ldx, stride, lanes;
    const float *x, *w;
    float *logit;
    float *sums; /* (count, lanes) */
};

#define head_lane_args head_args
#define head_logit_args head_args

/* Columns lane, lane + lanes, .. of a row. */
BODY void head_lane_at(const struct head_args *a, size_t i)
{
    struct place p = place_of(i, a->lanes);
    const float *x = a->x + (size_t)p.row * a->ldx;
    float sum = 0.0f;
    for (uint32_t j = p.column; j < a->width; j += a->lanes)
        sum += x[j] * a->w[j];
    a->sums[i] = sum;
}
KERNEL(head_lane)

BODY void head_logit_at(const struct head_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t j = 0; j < a->lanes; j++)
        sum += a->sums[i * a->lanes + j];
    a->logit[i * a->stride] += sum;
}
KERNEL(head_logit)

static void head_forward(struct stream *s, uint32_t count, uint32_t width, const float *x,
                         uint32_t ldx, const float *w, float *logit, uint32_t stride)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t lanes = width < HEAD_LANES ? width : HEAD_LANES;
    float *sums = (float *)cuda_scratch(s, (size_t)count * lanes * sizeof *sums);
    struct head_args a = {count, width, ldx, stride, lanes, x, w, logit, sums};
    if (sums == NULL)
        return;
    head_lane_run(s, (size_t)count * lanes, &a);
    head_logit_run(s, count, &a);
    cuda_scratch_return(s, mark);
}

struct head_back_args {
    uint32_t count, width, ldx, stride, lddx, dx_width;
    const float *x, *w, *dlogit;
    double *partial; /* (chunks, width) */
    float *dx;
    bool add;
};

#define head_weight_args head_back_args
#define head_input_args head_back_args

BODY void head_weight_at(const struct head_back_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->count);
    float sum = 0.0f;
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row++)
        sum += a->dlogit[(size_t)row * a->stride] * a->x[(size_t)row * a->ldx + p.column];
    a->partial[i] = (double)sum;
}
KERNEL(head_weight)

BODY void head_input_at(const struct head_back_args *a, size_t i)
{
    struct place p = place_of(i, a->dx_width);
    float *to = a->dx + (size_t)p.row * a->lddx + p.column;
    float d = a->dlogit[(size_t)p.row * a->stride] * a->w[p.column];
    *to = a->add ? *to + d : d;
}
KERNEL(head_input)

static void head_backward(struct stream *s, uint32_t count, uint32_t width, const float *x,
                          uint32_t ldx, const float *w, const float *dlogit, uint32_t stride,
                          float *dw, float *dx, uint32_t lddx, uint32_t dx_width, bool add)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t chunks = sum_chunks(count);
    double *partial = (double *)cuda_scratch(s, (size_t)chunks * width * sizeof *partial);
    struct head_back_args a = {count, width, ldx,    stride,  lddx, dx_width,
                               x,     w,     dlogit, partial, dx,   add};
    if (partial == NULL)
        return;
    head_weight_run(s, (size_t)chunks * width, &a);
    cuda_columns_add(s, partial, chunks, width, dw);
    if (dx)
        head_input_run(s, (size_t)count * dx_width, &a);
    cuda_scratch_return(s, mark);
}

void cuda_act_fill(struct backend_ops *o)
{
    o->act_forward = act_forward;
    o->act_backward = act_backward;
    o->bias_forward = bias_forward;
    o->bias_backward = bias_backward;
    o->head_forward = head_forward;
    o->head_backward = head_backward;
}
