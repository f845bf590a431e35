/* body_layer_norm.h: layer norm with its activation, and the way back. */
#ifndef DENSE_CPU_BODY_LAYER_NORM_H
#define DENSE_CPU_BODY_LAYER_NORM_H

#include "dense/backend_ops.h"
#include "dense/cpu/body_act.h"
#include "dense/cpu/vector.h"

#include <math.h>

/* whose sums are kept at once: the gradients of gamma and beta are touched once for them */
#define LAYER_NORM_ROWS 16u

/* Lanes behind the last number of the row: zeros. */
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

/* The sums over a row of g = gamma dy, and of g h, h = (x - mean) inverse; dy becomes the gradient
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
        layer_norm_rows_backward(act, a, i,
                                 a->count - i < LAYER_NORM_ROWS ? a->count - i : LAYER_NORM_ROWS);
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
