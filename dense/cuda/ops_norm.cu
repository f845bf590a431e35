/* ops_norm.cu: batch norm (dense/layer/norm.c): column sums in stages, the rest element by
 * element. */
#include "dense/cuda/stream.h"

#ifdef __cplusplus
extern "C" {
#endif
#ifdef __cplusplus
}
#endif

struct norm_sums_args {
    uint32_t count, width, ldx, lddy;
    const float *x, *middle;
    const float *dy;      /* on the way back, else NULL */
    const uint32_t *live; /* or NULL */
    double *partial;      /* (chunks, 2 * width) */
};

/* Forward: sums of x - middle and of its square; back: of dy, and of dy (x - middle). */
BODY void norm_sums_at(const struct norm_sums_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->count);
    end = a->live && *a->live < end ? *a->live : end;
    float middle = a->middle[p.column], sum = 0.0f, square = 0.0f;
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row++) {
        float v = a->x[(size_t)row * a->ldx + p.column] - middle;
        float d = a->dy ? a->dy[(size_t)row * a->lddy + p.column] : v;
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

/* Examples that the statistics are of. */
BODY uint32_t norm_examples(const struct norm_args *n)
{
    return n->live ? *n->live : n->examples;
}

/* Whether they are the batch's own: one example has no variance. */
BODY bool norm_of_batch(const struct norm_args *n)
{
    return n->of_batch && norm_examples(n) > 1;
}

/* Mean, inverse deviation and scale; and where the running statistics move. */
BODY void norm_settle_forward_at(const struct norm_kernel_args *a, size_t j)
{
    double n = norm_examples(&a->n);
    double running = (double)a->n.running_variance[j], mean = (double)a->n.running_mean[j];
    double variance = running > 0 ? running : 0.0; /* concurrent moves may overshoot */
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

/* As in dense/cpu/body_norm.h. Statistics that are not of the batch are constants, and leave gamma
 * inverse dy. */
BODY void norm_settle_backward_at(const struct norm_kernel_args *a, size_t j)
{
    double share = norm_of_batch(&a->n) ? 1.0 / (double)norm_examples(&a->n) : 0.0;
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
    /* slope and shift are not for what fills the batch up */
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
    struct norm_sums_args a = {
        n->count, n->width, n->ldx, n->lddy, n->x, back ? t.mean : t.pivot, back ? n->dy : NULL,
        n->live,  partial};
    if (partial == NULL)
        return;
    norm_sums_run(s, (size_t)chunks * n->width, &a);
    /* t.square stands behind it */
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
