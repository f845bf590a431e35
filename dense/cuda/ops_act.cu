/* ops_act.cu: the kernels around matrix products: bias, activation and dropout in one pass, and
 * their gradients with the bias's sums; layers with one output. */
#include "dense/cuda/act.h"
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

/* ---- bias, activation, dropout --------------------------------------------------------------- */

struct act_forward_args {
    enum activation act;
    struct dropout_mask mask;
    uint32_t first, width, ldy;
    bool aligned; /* rows of y begin at multiples of 16 bytes */
    const float *bias;
    float *y;
    struct narrow_to also;
};

/* The value of y for a product's result x. */
BODY float act_of(const struct act_forward_args *a, uint32_t example, uint32_t column, float x)
{
    if (a->bias)
        x += a->bias[column];
    float v = act_value(a->act, x);
    if (a->mask.threshold > 0)
        v = dropout_keeps(&a->mask, example * a->width + column) ? v * a->mask.scale : 0.0f;
    return v;
}

/* Element i takes four columns. */
BODY void act_forward_at(const struct act_forward_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->width);
    float *y = a->y + (size_t)p.row * a->ldy + p.column;
    uint32_t example = dropout_example(&a->mask, a->first, p.row);
    struct four x = four_load(y, p.count, a->aligned);
    for (uint32_t j = 0; j < FOUR; j++)
        x.v[j] = j < p.count ? act_of(a, example, p.column + j, x.v[j]) : 0.0f;
    four_store(y, p.count, a->aligned, &x);
    if (a->also.to)
        narrow_store(&a->also, p.row, p.column, a->width, &x);
}
KERNEL(act_forward)

/* rows that an element loads at once: row by row, it would wait for the memory each time */
#define ACT_AHEAD 4u

struct act_backward_args {
    enum activation act;
    struct dropout_mask mask;
    uint32_t first, count, width, ldy, lddy, chunk;
    bool plain, relu; /* plain: sums only; relu: without dropout */
    bool aligned;     /* y and dy, as in act_forward_args */
    const float *y;   /* plain: points to dy and is ignored */
    float *dy;
    double *partial;          /* (chunks, width) or NULL */
    struct narrow_to instead; /* takes dy in 16 bits, when `to` is set */
};

BODY float act_gradient(const struct act_backward_args *a, uint32_t row, uint32_t column, float y,
                        float dy)
{
    if (a->mask.threshold == 0)
        return rounded_product(dy, act_slope(a->act, y));
    if (a->act == ACT_RELU) /* a dropped value is 0, and so is its slope */
        return y > 0.0f ? rounded_product(dy, a->mask.scale) : 0.0f;
    if (!dropout_keeps(&a->mask, dropout_example(&a->mask, a->first, row) * a->width + column))
        return 0.0f;
    return rounded_product(dy * a->mask.scale, act_slope(a->act, y / a->mask.scale));
}

/* Turns d, four values of dy in a row, into their gradients and stores them. */
BODY void act_backward_four(const struct act_backward_args *a, uint32_t row,
                            const struct place_four *p, bool whole, const struct four *y,
                            struct four *d)
{
    for (uint32_t j = 0; j < FOUR && a->relu; j++)
        d->v[j] = y->v[j] > 0.0f ? d->v[j] : 0.0f;
    for (uint32_t j = 0; j < FOUR && !a->relu && !a->plain; j++)
        d->v[j] = j < p->count ? act_gradient(a, row, p->column + j, y->v[j], d->v[j]) : 0.0f;
    if (a->instead.to)
        narrow_store(&a->instead, row, p->column, a->width, d);
    else if (!a->plain)
        four_store(a->dy + (size_t)row * a->lddy + p->column, p->count, whole, d);
}

/* As four_load, for at least one column, with `whole` known at compile time: with a branch between
 * two loads the second would wait for the first. */
BODY struct four act_load(const float *p, uint32_t count, bool whole)
{
    struct four x;
    if (whole)
        return *(const struct four *)(const void *)p;
    EACH (j, FOUR)
        x.v[j] = p[j < count ? j : 0];
    EACH (j, FOUR)
        x.v[j] = j < count ? x.v[j] : 0.0f;
    return x;
}

/* Rows [row, end) of four columns; adds their gradients to *sum. whole: all four columns exist and
 * are aligned. */
BODY void act_backward_rows(const struct act_backward_args *a, const struct place_four *p,
                            bool whole, uint32_t row, uint32_t end, struct four *sum)
{
    for (; row < end; row += ACT_AHEAD) {
        struct four d[ACT_AHEAD], y[ACT_AHEAD];
        EACH (k, ACT_AHEAD) {
            size_t at = MIN(row + k, end - 1);
            d[k] = act_load(a->dy + at * a->lddy + p->column, p->count, whole);
            y[k] = act_load(a->y + at * a->ldy + p->column, p->count, whole);
        }
        EACH (k, ACT_AHEAD) {
            if (row + k >= end)
                continue;
            act_backward_four(a, row + k, p, whole, &y[k], &d[k]);
            for (uint32_t j = 0; j < FOUR; j++)
                sum->v[j] += d[k].v[j];
        }
    }
}

/* Element i takes four columns of `chunk` rows. */
BODY void act_backward_at(const struct act_backward_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->width);
    uint32_t begin = p.row * a->chunk, end = part_end(p.row, a->chunk, a->count);
    struct four sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
    if (a->aligned && p.count == FOUR) {
        p.count = FOUR; /* tells the compiler the constant */
        act_backward_rows(a, &p, true, begin, end, &sum);
    } else {
        act_backward_rows(a, &p, false, begin, end, &sum);
    }
    for (uint32_t j = 0; j < FOUR && a->partial; j++)
        if (j < p.count)
            a->partial[(size_t)p.row * a->width + p.column + j] = (double)sum.v[j];
}
KERNEL(act_backward)

void cuda_act_forward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                      uint32_t first, uint32_t count, uint32_t width, const float *bias, float *y,
                      uint32_t ldy, struct narrow_to also)
{
    struct act_forward_args a = {act, *mask, first, width, ldy, fours_lie(y, ldy), bias, y, also};
    act_forward_run(s, (size_t)count * fours_of(width), &a);
}

void cuda_act_backward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                       uint32_t first, uint32_t count, uint32_t width, const float *y, uint32_t ldy,
                       float *dy, uint32_t lddy, float *bias_gradient, struct narrow_to instead)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t chunk = ACT_AHEAD;
    if (bias_gradient)
        chunk = SUM_CHUNK;
    uint32_t chunks = (count + chunk - 1) / chunk;
    double *partial = NULL;
    if (bias_gradient) {
        partial = (double *)cuda_scratch(s, (size_t)chunks * width * sizeof *partial);
        if (partial == NULL)
            return;
    }
    bool plain = act == ACT_NONE && mask->threshold == 0,
         relu = act == ACT_RELU && mask->threshold == 0;
    if (plain) {
        y = dy;
        ldy = lddy;
    }
    struct act_backward_args a = {act,   *mask, first, count, width, ldy,     lddy,   chunk,
                                  plain, relu,  false, y,     dy,    partial, instead};
    a.aligned = fours_lie(dy, lddy) && fours_lie(y, ldy);
    if (!plain || bias_gradient || instead.to)
        act_backward_run(s, (size_t)chunks * fours_of(width), &a);
    if (bias_gradient)
        cuda_columns_add(s, partial, chunks, width, bias_gradient);
    cuda_scratch_return(s, mark);
}

static const struct narrow_to not_narrow = {NULL, 0, 0};

static void act_forward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                        uint32_t first, uint32_t count, uint32_t width, const float *bias, float *y,
                        uint32_t ldy)
{
    cuda_act_forward(s, act, mask, first, count, width, bias, y, ldy, not_narrow);
}

static void act_backward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                         uint32_t first, uint32_t count, uint32_t width, const float *y,
                         uint32_t ldy, float *dy, uint32_t lddy, float *bias_gradient)
{
    cuda_act_backward(s, act, mask, first, count, width, y, ldy, dy, lddy, bias_gradient,
                      not_narrow);
}

void cuda_bias_add(struct stream *s, uint32_t m, uint32_t n, const float *bias, float *c,
                   uint32_t ldc)
{
    struct dropout_mask keep_all = {NULL, 0, 1.0f, NULL, NULL};
    act_forward(s, ACT_NONE, &keep_all, 0, m, n, bias, c, ldc);
}

/* ---- one output ------------------------------------------------------------------------------ */

/* A layer with one output, the product of rows with one vector of weights; and the model's bias. */

/* parts that a wide row is summed in: neighbouring elements read neighbouring columns */
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

/* Sums columns lane, lane + lanes, .. of a row. */
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
    uint32_t lanes = MIN(width, HEAD_LANES);
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
    bool add, aligned_w, aligned_dx;
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

/* Element i takes four columns. */
BODY void head_input_at(const struct head_back_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->dx_width);
    float *to = a->dx + (size_t)p.row * a->lddx + p.column,
          d = a->dlogit[(size_t)p.row * a->stride];
    struct four w = four_load(a->w + p.column, p.count, a->aligned_w), x = {{0}};
    if (a->add)
        x = four_load(to, p.count, a->aligned_dx);
    for (uint32_t j = 0; j < FOUR; j++)
        x.v[j] = a->add ? x.v[j] + d * w.v[j] : d * w.v[j];
    four_store(to, p.count, a->aligned_dx, &x);
}
KERNEL(head_input)

static void head_backward(struct stream *s, uint32_t count, uint32_t width, const float *x,
                          uint32_t ldx, const float *w, const float *dlogit, uint32_t stride,
                          float *dw, float *dx, uint32_t lddx, uint32_t dx_width, bool add)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    uint32_t chunks = sum_chunks(count);
    double *partial = (double *)cuda_scratch(s, (size_t)chunks * width * sizeof *partial);
    struct head_back_args a = {
        count, width,  ldx,     stride, lddx, dx_width,        x,
        w,     dlogit, partial, dx,     add,  fours_lie(w, 0), fours_lie(dx, lddx)};
    if (partial == NULL)
        return;
    head_weight_run(s, (size_t)chunks * width, &a);
    cuda_columns_add(s, partial, chunks, width, dw);
    if (dx)
        head_input_run(s, (size_t)count * fours_of(dx_width), &a);
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
