/* body_norm.h: batch norm and layer norm. */
#ifndef DENSE_CPU_BODY_NORM_H
#define DENSE_CPU_BODY_NORM_H

#include "dense/backend_ops.h"
#include "dense/cpu/body_act.h"
#include "dense/cpu/vector.h"
#include "proto/base/minmax.h"

#include <math.h>

/* ---- batch norm ------------------------------------------------------------------------------ */

/* The number of rows that are summed in float before their sum is added in double: the rounding
 * error stays below 1e-6 of the sum. */
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
        uint32_t rows = MIN(a->count - begin, NORM_BLOCK);
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
        uint32_t rows = MIN(a->count - begin, NORM_BLOCK);
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

/* Computes mean, inverse deviation, scale, and the moves of the running statistics. */
static void norm_settle_forward(const struct norm_args *a, struct norm_state t)
{
    double n = a->examples;
    for (uint32_t j = 0; j < a->width; j++) {
        double running = (double)a->running_variance[j], mean = (double)a->running_mean[j];
        double variance = running > 0 ? running : 0.0; /* concurrent moves may overshoot below 0 */
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

/* With h = (x - mean) inverse: dx = gamma inverse (dy - mean of dy - h mean of (dy h)). Running
 * statistics are constants: then dx = gamma inverse dy. */
static void norm_settle_backward(const struct norm_args *a, struct norm_state t)
{
    double n = INFINITY;
    if (a->of_batch)
        n = a->examples;
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
    struct norm_state t = norm_state_of(a->state, a->width);
    if (back)
        norm_back_sums(a, t);
    else
        norm_sums(a, t);
}

static void body_norm_settle(struct stream *s, const struct norm_args *a, bool back)
{
    (void)s;
    struct norm_state t = norm_state_of(a->state, a->width);
    if (back)
        norm_settle_backward(a, t);
    else
        norm_settle_forward(a, t);
}

static void body_norm_apply(struct stream *s, const struct norm_args *a, bool back)
{
    (void)s;
    struct norm_state t = norm_state_of(a->state, a->width);
    if (back)
        norm_apply_backward(a, t);
    else
        norm_apply_forward(a, t);
}

/* ---- layer norm ------------------------------------------------------------------------------ */

/* rows whose sums are kept at once: the gradients of gamma and beta are updated once for all of
 * them */
#define LAYER_NORM_ROWS 16u

/* Zeroes the lanes after the row's last element. */
KERNEL_INLINE vf layer_norm_part(vf v, uint32_t n)
{
    return n == VECTOR ? v : (vf)((vi)v & ((vi)lane_numbers < (int32_t)n));
}

/* Mean and inverse deviation of a row. */
KERNEL_INLINE void layer_norm_row(const float *x, uint32_t width, float *moments)
{
    vf sum = {0}, square = {0};
    for (uint32_t j = 0; j < width; j += VECTOR)
        sum += vector_load_n(x + j, vector_left(width, j));
    float mean = vector_sum(sum) / (float)width;
    for (uint32_t j = 0; j < width; j += VECTOR) {
        uint32_t n = vector_left(width, j);
        vf v = layer_norm_part(vector_load_n(x + j, n) - mean, n);
        square += v * v;
    }
    moments[0] = mean;
    moments[1] = 1.0f / sqrtf(vector_sum(square) / (float)width + LAYER_NORM_EPS);
}

KERNEL_INLINE void layer_norm_forward(enum activation act, const struct layer_norm_args *a)
{
    const float *x = a->x;
    float *y = a->y, *moments = a->moments;
    for (uint32_t i = 0; i < a->count; i++, x += a->ldx, y += a->ldy, moments += 2) {
        layer_norm_row(x, a->width, moments);
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vf h = (vector_load_n(x + j, n) - moments[0]) * moments[1];
            vf v = h * vector_load_n(a->gamma + j, n) + vector_load_n(a->beta + j, n);
            vector_store_n(y + j, act_value(act, v), n);
        }
    }
}

/* The sums over a row of g = gamma dy and of g h, h = (x - mean) inverse; dy becomes the gradient
 * before the activation. */
KERNEL_INLINE void layer_norm_row_sums(enum activation act, const struct layer_norm_args *a,
                                       uint32_t row, float *sum, float *product)
{
    const float *x = a->x + (size_t)row * a->ldx, *y = a->y + (size_t)row * a->ldy;
    const float mean = a->moments[2 * (size_t)row], inverse = a->moments[2 * (size_t)row + 1];
    float *dy = a->dy + (size_t)row * a->lddy;
    vf sums = {0}, products = {0};
    for (uint32_t j = 0; j < a->width; j += VECTOR) {
        uint32_t n = vector_left(a->width, j);
        vf d = vector_load_n(dy + j, n);
        if (act != ACT_NONE) {
            d *= act_slope(act, vector_load_n(y + j, n));
            vector_store_n(dy + j, d, n);
        }
        vf g = d * vector_load_n(a->gamma + j, n);
        sums += g;
        products += g * ((vector_load_n(x + j, n) - mean) * inverse);
    }
    *sum = vector_sum(sums) / (float)a->width;
    *product = vector_sum(products) / (float)a->width;
}

/* dx = inverse (g - mean of g - h mean of (g h)), for rows [first, first + rows). */
KERNEL_INLINE void layer_norm_rows_backward(enum activation act, const struct layer_norm_args *a,
                                            uint32_t first, uint32_t rows)
{
    float sum[LAYER_NORM_ROWS], product[LAYER_NORM_ROWS];
    for (uint32_t i = 0; i < rows; i++)
        layer_norm_row_sums(act, a, first + i, &sum[i], &product[i]);
    for (uint32_t j = 0; j < a->width; j += VECTOR) {
        uint32_t n = vector_left(a->width, j);
        const float *x = a->x + (size_t)first * a->ldx + j,
                    *moments = a->moments + 2 * (size_t)first;
        float *dy = a->dy + (size_t)first * a->lddy + j;
        vf gamma = vector_load_n(a->gamma + j, n), to_gamma = {0}, to_beta = {0};
        for (uint32_t i = 0; i < rows; i++, x += a->ldx, dy += a->lddy, moments += 2) {
            vf h = (vector_load_n(x, n) - moments[0]) * moments[1], d = vector_load_n(dy, n);
            to_gamma += d * h;
            to_beta += d;
            vector_store_n(dy, (d * gamma - sum[i] - h * product[i]) * moments[1], n);
        }
        vector_store_n(a->gamma_gradient + j, vector_load_n(a->gamma_gradient + j, n) + to_gamma,
                       n);
        vector_store_n(a->beta_gradient + j, vector_load_n(a->beta_gradient + j, n) + to_beta, n);
    }
}

KERNEL_INLINE void layer_norm_backward(enum activation act, const struct layer_norm_args *a)
{
    for (uint32_t i = 0; i < a->count; i += LAYER_NORM_ROWS)
        layer_norm_rows_backward(act, a, i, MIN(a->count - i, LAYER_NORM_ROWS));
}

static void body_layer_norm_forward(struct stream *s, const struct layer_norm_args *a)
{
    (void)s;
    if (a->act == ACT_RELU)
        layer_norm_forward(ACT_RELU, a);
    else if (a->act == ACT_NONE)
        layer_norm_forward(ACT_NONE, a);
    else
        layer_norm_forward(a->act, a);
}

static void body_layer_norm_backward(struct stream *s, const struct layer_norm_args *a)
{
    (void)s;
    if (a->act == ACT_RELU)
        layer_norm_backward(ACT_RELU, a);
    else if (a->act == ACT_NONE)
        layer_norm_backward(ACT_NONE, a);
    else
        layer_norm_backward(a->act, a);
}

#endif
