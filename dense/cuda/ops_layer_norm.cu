/* ops_layer_norm.cu: layer norm with its activation, and the way back. */
#include "dense/cuda/act.h"
#include "dense/cuda/attention.h"

/* So many elements sum a row, each every LAYER_NORM_LANES-th column: together they read whole
 * sectors. */
#define LAYER_NORM_LANES 8u

struct layer_norm_kernel_args {
    struct layer_norm_args n;
    double *lanes;              /* (count, LAYER_NORM_LANES, 2): two sums of a row, in parts */
    float *means;               /* (count, 2), back: mean of g = gamma d, and of g h */
    double *to_gamma, *to_beta; /* (chunks, width) */
};

#define layer_norm_lane_args layer_norm_kernel_args
#define layer_norm_moments_args layer_norm_kernel_args
#define layer_norm_apply_args layer_norm_kernel_args
#define layer_norm_back_lane_args layer_norm_kernel_args
#define layer_norm_means_args layer_norm_kernel_args
#define layer_norm_back_args layer_norm_kernel_args

/* Sum over the lanes of a row's first or second sum. */
BODY double layer_norm_sum(const struct layer_norm_kernel_args *a, size_t row, uint32_t which)
{
    double sum = 0.0;
    for (uint32_t lane = 0; lane < LAYER_NORM_LANES; lane++)
        sum += a->lanes[(row * LAYER_NORM_LANES + lane) * 2 + which];
    return sum;
}

/* ---- forward --------------------------------------------------------------------------------- */

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

/* ---- back ------------------------------------------------------------------------------------ */

/* Gradient before the activation. */
BODY float layer_norm_slope(const struct layer_norm_args *n, size_t row, uint32_t column)
{
    float d = n->dy[row * n->lddy + column];
    return n->act == ACT_NONE ? d : d * act_slope(n->act, n->y[row * n->ldy + column]);
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
        double g = (double)(layer_norm_slope(&a->n, p.row, j) * a->n.gamma[j]);
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

/* SUM_CHUNK rows of one column. */
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
            (d * a->n.gamma[p.column] - means[0] - h * means[1]) *
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
