/* ops_norm.cu: batch norm (dense/layer/norm.c): column sums in stages, then element by element;
 * layer norm with its activation. */
#include "dense/cuda/act.h"
#include "dense/cuda/stream.h"

/* ---- batch norm ------------------------------------------------------------------------------ */

struct norm_sums_args {
    uint32_t count, width, ldx, lddy;
    const float *x, *middle;
    const float *dy;      /* on the way back; forward NULL */
    const uint32_t *live; /* or NULL */
    double *partial;      /* (chunks, 2 * width) */
};

/* Forward: sums of x - middle and of its square. Back: sums of dy and of dy (x - middle). */
BODY void norm_sums_at(const struct norm_sums_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->count);
    if (a->live && *a->live < end)
        end = *a->live;
    float middle = a->middle[p.column], sum = 0.0f, square = 0.0f;
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row++) {
        float v = a->x[(size_t)row * a->ldx + p.column] - middle;
        float d = v;
        if (a->dy)
            d = a->dy[(size_t)row * a->lddy + p.column];
        sum += d;
        square += d * v;
    }
    double *to = a->partial + (size_t)p.row * 2 * a->width + p.column;
    to[0] = (double)sum;
    to[a->width] = (double)square;
}
KERNEL(norm_sums)

struct norm_kernel_args {
    struct norm_args n;
    struct norm_state t;
};

#define norm_settle_forward_args norm_kernel_args
#define norm_settle_backward_args norm_kernel_args
#define norm_apply_forward_args norm_kernel_args
#define norm_apply_backward_args norm_kernel_args

/* The number of examples that the statistics cover. */
BODY uint32_t norm_examples(const struct norm_args *n)
{
    if (n->live)
        return *n->live;
    return n->examples;
}

/* True when the batch's own statistics are used: a single example has no variance. */
BODY bool norm_of_batch(const struct norm_args *n)
{
    return n->of_batch && norm_examples(n) > 1;
}

/* Computes mean, inverse deviation, scale, and the moves of the running statistics. */
BODY void norm_settle_forward_at(const struct norm_kernel_args *a, size_t j)
{
    double n = norm_examples(&a->n);
    double running = (double)a->n.running_variance[j], mean = (double)a->n.running_mean[j];
    double variance = running > 0 ? running : 0.0; /* concurrent moves may overshoot below 0 */
    if (norm_of_batch(&a->n)) {
        double off = a->t.sum[j] / n, spread = a->t.square[j] / n - off * off;
        mean = (double)a->t.pivot[j] + off;
        variance = spread > 0 ? spread : 0.0;
        a->n.mean_gradient[j] = (float)(a->n.momentum * ((double)a->n.running_mean[j] - mean));
        a->n.variance_gradient[j] = (float)(a->n.momentum * (running - variance * n / (n - 1)));
    }
    a->t.mean[j] = (float)mean;
    a->t.inverse[j] = (float)(1.0 / sqrt(variance + NORM_EPS));
    a->t.scale[j] = a->t.inverse[j] * a->n.gamma[j];
}
KERNEL(norm_settle_forward)

/* As in dense/cpu/body_norm.h. Running statistics are constants: then dx is gamma inverse dy. */
BODY void norm_settle_backward_at(const struct norm_kernel_args *a, size_t j)
{
    double share = 0.0;
    if (norm_of_batch(&a->n))
        share = 1.0 / (double)norm_examples(&a->n);
    double inverse = (double)a->t.inverse[j], product = a->t.square[j] * inverse;
    a->n.gamma_gradient[j] += (float)product;
    a->n.beta_gradient[j] += (float)a->t.sum[j];
    a->t.slope[j] = (float)((double)a->t.scale[j] * inverse * product * share);
    a->t.shift[j] = (float)((double)a->t.scale[j] * a->t.sum[j] * share);
}
KERNEL(norm_settle_backward)

BODY void norm_apply_forward_at(const struct norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->n.width);
    float v = a->n.x[(size_t)p.row * a->n.ldx + p.column] - a->t.mean[p.column];
    a->n.y[(size_t)p.row * a->n.ldy + p.column] = v * a->t.scale[p.column] + a->n.beta[p.column];
}
KERNEL(norm_apply_forward)

BODY void norm_apply_backward_at(const struct norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->n.width);
    float v = a->n.x[(size_t)p.row * a->n.ldx + p.column] - a->t.mean[p.column];
    float *dy = a->n.dy + (size_t)p.row * a->n.lddy + p.column;
    /* slope and shift do not apply to the rows that fill the batch up */
    bool counts = !a->n.live || p.row < *a->n.live;
    *dy = counts ? *dy * a->t.scale[p.column] - v * a->t.slope[p.column] - a->t.shift[p.column]
                 : 0.0f;
}
KERNEL(norm_apply_backward)

static void norm_begin(struct stream *s, const struct norm_args *n, bool back)
{
    struct norm_state t = norm_state_of(n->state, n->width);
    cuda_zero(s, t.sum, 2 * (size_t)n->width * sizeof *t.sum);
    if (!back)
        cuda_copy(s, t.pivot, n->x, n->width * sizeof *t.pivot);
}

static void norm_gather(struct stream *s, const struct norm_args *n, bool back)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct norm_state t = norm_state_of(n->state, n->width);
    uint32_t chunks = sum_chunks(n->count);
    double *partial = (double *)cuda_scratch(s, (size_t)chunks * 2 * n->width * sizeof *partial);
    struct norm_sums_args a = {n->count, n->width, n->ldx,  n->lddy, n->x,
                               t.pivot,  NULL,     n->live, partial};
    if (back) {
        a.middle = t.mean;
        a.dy = n->dy;
    }
    if (partial == NULL)
        return;
    norm_sums_run(s, (size_t)chunks * n->width, &a);
    /* t.square follows t.sum in memory */
    cuda_columns_add_double(s, partial, chunks, 2 * n->width, t.sum);
    cuda_scratch_return(s, mark);
}

static void norm_settle(struct stream *s, const struct norm_args *n, bool back)
{
    struct norm_kernel_args a = {*n, norm_state_of(n->state, n->width)};
    if (back)
        norm_settle_backward_run(s, n->width, &a);
    else
        norm_settle_forward_run(s, n->width, &a);
}

static void norm_apply(struct stream *s, const struct norm_args *n, bool back)
{
    struct norm_kernel_args a = {*n, norm_state_of(n->state, n->width)};
    if (back)
        norm_apply_backward_run(s, (size_t)n->count * n->width, &a);
    else
        norm_apply_forward_run(s, (size_t)n->count * n->width, &a);
}

void cuda_norm_fill(struct backend_ops *o)
{
    o->norm_begin = norm_begin;
    o->norm_gather = norm_gather;
    o->norm_settle = norm_settle;
    o->norm_apply = norm_apply;
}

/* ---- layer norm ------------------------------------------------------------------------------ */

/* The number of elements that share a row's sum, each taking every LAYER_NORM_LANES-th column:
 * together they read whole sectors. */
#define LAYER_NORM_LANES 8u

struct layer_norm_kernel_args {
    struct layer_norm_args n;
    double *lanes;              /* (count, LAYER_NORM_LANES, 2): parts of a row's two sums */
    float *means;               /* (count, 2), back: the means of g = gamma d and of g h */
    double *to_gamma, *to_beta; /* (chunks, width) */
};

#define layer_norm_lane_args layer_norm_kernel_args
#define layer_norm_moments_args layer_norm_kernel_args
#define layer_norm_apply_args layer_norm_kernel_args
#define layer_norm_back_lane_args layer_norm_kernel_args
#define layer_norm_means_args layer_norm_kernel_args
#define layer_norm_back_args layer_norm_kernel_args

/* A row's first or second sum, added over the lanes. */
BODY double layer_norm_sum(const struct layer_norm_kernel_args *a, size_t row, uint32_t which)
{
    double sum = 0.0;
    for (uint32_t lane = 0; lane < LAYER_NORM_LANES; lane++)
        sum += a->lanes[(row * LAYER_NORM_LANES + lane) * 2 + which];
    return sum;
}

/* Forward. */

BODY void layer_norm_lane_at(const struct layer_norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, LAYER_NORM_LANES);
    const float *x = a->n.x + (size_t)p.row * a->n.ldx;
    double sum = 0.0, square = 0.0;
    for (uint32_t j = p.column; j < a->n.width; j += LAYER_NORM_LANES) {
        sum += (double)x[j];
        square += (double)x[j] * (double)x[j];
    }
    a->lanes[2 * i] = sum;
    a->lanes[2 * i + 1] = square;
}
KERNEL(layer_norm_lane)

BODY void layer_norm_moments_at(const struct layer_norm_kernel_args *a, size_t i)
{
    double mean = layer_norm_sum(a, i, 0) / a->n.width,
           variance = layer_norm_sum(a, i, 1) / a->n.width - mean * mean;
    a->n.moments[2 * i] = (float)mean;
    a->n.moments[2 * i + 1] =
        (float)(1.0 / sqrt((variance < 0.0 ? 0.0 : variance) + (double)LAYER_NORM_EPS));
}
KERNEL(layer_norm_moments)

BODY void layer_norm_apply_at(const struct layer_norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->n.width);
    const float *moments = a->n.moments + 2 * (size_t)p.row;
    float h = (a->n.x[(size_t)p.row * a->n.ldx + p.column] - moments[0]) * moments[1];
    a->n.y[(size_t)p.row * a->n.ldy + p.column] =
        act_value(a->n.act, h * a->n.gamma[p.column] + a->n.beta[p.column]);
}
KERNEL(layer_norm_apply)

static void layer_norm_forward(struct stream *s, const struct layer_norm_args *n)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct layer_norm_kernel_args a;
    memset(&a, 0, sizeof a);
    a.n = *n;
    a.lanes = (double *)cuda_scratch(s, (size_t)n->count * LAYER_NORM_LANES * 2 * sizeof *a.lanes);
    if (!a.lanes)
        return;
    layer_norm_lane_run(s, (size_t)n->count * LAYER_NORM_LANES, &a);
    layer_norm_moments_run(s, n->count, &a);
    layer_norm_apply_run(s, (size_t)n->count * n->width, &a);
    cuda_scratch_return(s, mark);
}

/* Back. */

/* The gradient before the activation. */
BODY float layer_norm_slope(const struct layer_norm_args *n, size_t row, uint32_t column)
{
    float d = n->dy[row * n->lddy + column];
    return n->act == ACT_NONE ? d : d * act_slope(n->act, n->y[row * n->ldy + column]);
}

/* gamma d, rounded alike here and in its mean. A row of one column then gets a gradient of exactly
 * zero; otherwise it would get a rounding error, which the inverse of a zero deviation would
 * enlarge. */
BODY float layer_norm_g(const struct layer_norm_args *n, float d, uint32_t column)
{
    return rounded_product(d, n->gamma[column]);
}

BODY float layer_norm_h(const struct layer_norm_args *n, size_t row, uint32_t column)
{
    return (n->x[row * n->ldx + column] - n->moments[2 * row]) * n->moments[2 * row + 1];
}

BODY void layer_norm_back_lane_at(const struct layer_norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, LAYER_NORM_LANES);
    double sum = 0.0, product = 0.0;
    for (uint32_t j = p.column; j < a->n.width; j += LAYER_NORM_LANES) {
        double g = (double)layer_norm_g(&a->n, layer_norm_slope(&a->n, p.row, j), j);
        sum += g;
        product += g * (double)layer_norm_h(&a->n, p.row, j);
    }
    a->lanes[2 * i] = sum;
    a->lanes[2 * i + 1] = product;
}
KERNEL(layer_norm_back_lane)

BODY void layer_norm_means_at(const struct layer_norm_kernel_args *a, size_t i)
{
    a->means[2 * i] = (float)(layer_norm_sum(a, i, 0) / a->n.width);
    a->means[2 * i + 1] = (float)(layer_norm_sum(a, i, 1) / a->n.width);
}
KERNEL(layer_norm_means)

/* Sums SUM_CHUNK rows of one column. */
BODY void layer_norm_back_at(const struct layer_norm_kernel_args *a, size_t i)
{
    struct place p = place_of(i, a->n.width);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->n.count);
    double to_gamma = 0.0, to_beta = 0.0;
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row++) {
        float d = layer_norm_slope(&a->n, row, p.column), h = layer_norm_h(&a->n, row, p.column);
        const float *means = a->means + 2 * (size_t)row;
        to_gamma += (double)(d * h);
        to_beta += (double)d;
        a->n.dy[(size_t)row * a->n.lddy + p.column] =
            (layer_norm_g(&a->n, d, p.column) - means[0] - h * means[1]) *
            a->n.moments[2 * (size_t)row + 1];
    }
    a->to_gamma[i] = to_gamma;
    a->to_beta[i] = to_beta;
}
KERNEL(layer_norm_back)

static void layer_norm_backward(struct stream *s, const struct layer_norm_args *n)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    size_t chunks = sum_chunks(n->count);
    struct layer_norm_kernel_args a;
    memset(&a, 0, sizeof a);
    a.n = *n;
    a.lanes = (double *)cuda_scratch(s, (size_t)n->count * LAYER_NORM_LANES * 2 * sizeof *a.lanes);
    a.means = (float *)cuda_scratch(s, (size_t)n->count * 2 * sizeof *a.means);
    a.to_gamma = (double *)cuda_scratch(s, chunks * n->width * sizeof *a.to_gamma);
    a.to_beta = (double *)cuda_scratch(s, chunks * n->width * sizeof *a.to_beta);
    if (stream_failed(s))
        return;
    layer_norm_back_lane_run(s, (size_t)n->count * LAYER_NORM_LANES, &a);
    layer_norm_means_run(s, n->count, &a);
    layer_norm_back_run(s, chunks * n->width, &a);
    cuda_columns_add(s, a.to_gamma, (uint32_t)chunks, n->width, n->gamma_gradient);
    cuda_columns_add(s, a.to_beta, (uint32_t)chunks, n->width, n->beta_gradient);
    cuda_scratch_return(s, mark);
}

void cuda_layer_norm_fill(struct attention_ops *o)
{
    o->layer_norm_forward = layer_norm_forward;
    o->layer_norm_backward = layer_norm_backward;
}
