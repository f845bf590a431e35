/* ops_head.cu: a layer with one output, a product of rows with one vector of weights; and the
 * model's bias. */
#include "dense/cuda/stream.h"

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

void cuda_head_fill(struct backend_ops *o)
{
    o->bias_forward = bias_forward;
    o->bias_backward = bias_backward;
    o->head_forward = head_forward;
    o->head_backward = head_backward;
}
