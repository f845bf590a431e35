/* body_norm.h: the column sums and the element-wise steps of batch norm. */
#ifndef DENSE_CPU_BODY_NORM_H
#define DENSE_CPU_BODY_NORM_H

#include "dense/backend_ops.h"
#include "dense/cpu/vector.h"

#include <math.h>

/* So many rows are summed in float before their sum goes to double: their rounding stays below 1e-6
 * of the sum. */
#define NORM_BLOCK 64u

KERNEL_INLINE void norm_add(double *sum, vf v, uint32_t n)
{
    float part[VECTOR];
    vector_store(part, v);
    for (uint32_t i = 0; i < n; i++)
        sum[i] += (double)part[i];
}

static void norm_sums(const struct norm_args *a, struct norm_state t)
{
    for (uint32_t begin = 0; begin < a->count; begin += NORM_BLOCK) {
        uint32_t rows = a->count - begin < NORM_BLOCK ? a->count - begin : NORM_BLOCK;
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            const float *column = a->x + (size_t)begin * a->ldx + j;
            vf middle = vector_load_n(t.pivot + j, n), sum = {0}, square = {0};
            for (uint32_t i = 0; i < rows; i++, column += a->ldx) {
                vf v = vector_load_n(column, n) - middle;
                sum += v;
                square += v * v;
            }
            norm_add(t.sum + j, sum, n);
            norm_add(t.square + j, square, n);
        }
    }
}

static void norm_back_sums(const struct norm_args *a, struct norm_state t)
{
    for (uint32_t begin = 0; begin < a->count; begin += NORM_BLOCK) {
        uint32_t rows = a->count - begin < NORM_BLOCK ? a->count - begin : NORM_BLOCK;
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            const float *x = a->x + (size_t)begin * a->ldx + j,
                        *dy = a->dy + (size_t)begin * a->lddy + j;
            vf middle = vector_load_n(t.mean + j, n), sum = {0}, product = {0};
            for (uint32_t i = 0; i < rows; i++, x += a->ldx, dy += a->lddy) {
                vf d = vector_load_n(dy, n);
                sum += d;
                product += d * (vector_load_n(x, n) - middle);
            }
            norm_add(t.sum + j, sum, n);
            norm_add(t.square + j, product, n);
        }
    }
}

/* Mean, inverse deviation and scale; and where the running statistics move. */
static void norm_settle_forward(const struct norm_args *a, struct norm_state t)
{
    double n = a->examples;
    for (uint32_t j = 0; j < a->width; j++) {
        double running = (double)a->running_variance[j], mean = (double)a->running_mean[j];
        double variance = running > 0 ? running : 0.0; /* concurrent moves may overshoot */
        if (a->of_batch) {
            double off = t.sum[j] / n, spread = t.square[j] / n - off * off;
            mean = (double)t.pivot[j] + off;
            variance = spread > 0 ? spread : 0.0;
            a->mean_gradient[j] = (float)(a->momentum * ((double)a->running_mean[j] - mean));
            a->variance_gradient[j] = (float)(a->momentum * (running - variance * n / (n - 1)));
        }
        t.mean[j] = (float)mean;
        t.inverse[j] = (float)(1.0 / sqrt(variance + NORM_EPS));
        t.scale[j] = t.inverse[j] * a->gamma[j];
    }
}

/* With h = (x - mean) inverse: dx = gamma inverse (dy - mean of dy - h mean of (dy h)). Statistics
 * that are not of the batch are constants, and leave gamma inverse dy. */
static void norm_settle_backward(const struct norm_args *a, struct norm_state t)
{
    double n = a->of_batch ? (double)a->examples : INFINITY;
    for (uint32_t j = 0; j < a->width; j++) {
        double inverse = (double)t.inverse[j], product = t.square[j] * inverse;
        a->gamma_gradient[j] += (float)product;
        a->beta_gradient[j] += (float)t.sum[j];
        t.slope[j] = (float)((double)t.scale[j] * inverse * product / n);
        t.shift[j] = (float)((double)t.scale[j] * t.sum[j] / n);
    }
}

/* y = (x - mean) scale + beta */
static void norm_apply_forward(const struct norm_args *a, struct norm_state t)
{
    const float *x = a->x;
    float *y = a->y;
    for (uint32_t i = 0; i < a->count; i++, x += a->ldx, y += a->ldy)
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vf v = vector_load_n(x + j, n) - vector_load_n(t.mean + j, n);
            vector_store_n(y + j, v * vector_load_n(t.scale + j, n) + vector_load_n(a->beta + j, n),
                           n);
        }
}

/* dy = scale dy - slope (x - mean) - shift */
static void norm_apply_backward(const struct norm_args *a, struct norm_state t)
{
    const float *x = a->x;
    float *dy = a->dy;
    for (uint32_t i = 0; i < a->count; i++, x += a->ldx, dy += a->lddy)
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vf v = vector_load_n(x + j, n) - vector_load_n(t.mean + j, n);
            vf d = vector_load_n(dy + j, n) * vector_load_n(t.scale + j, n);
            vector_store_n(
                dy + j, d - v * vector_load_n(t.slope + j, n) - vector_load_n(t.shift + j, n), n);
        }
}

static void body_norm_begin(struct stream *s, const struct norm_args *a, bool back)
{
    struct norm_state t = norm_state_of(a->state, a->width);
    (void)s;
    memset(t.sum, 0, 2 * (size_t)a->width * sizeof *t.sum);
    if (!back)
        memcpy(t.pivot, a->x, a->width * sizeof *t.pivot);
}

static void body_norm_gather(struct stream *s, const struct norm_args *a, bool back)
{
    (void)s;
    (back ? norm_back_sums : norm_sums)(a, norm_state_of(a->state, a->width));
}

static void body_norm_settle(struct stream *s, const struct norm_args *a, bool back)
{
    (void)s;
    (back ? norm_settle_backward : norm_settle_forward)(a, norm_state_of(a->state, a->width));
}

static void body_norm_apply(struct stream *s, const struct norm_args *a, bool back)
{
    (void)s;
    (back ? norm_apply_backward : norm_apply_forward)(a, norm_state_of(a->state, a->width));
}

#endif
