/* body_act.h: the kernels around matrix products: bias, activation and dropout in one pass, and
 * their gradients; layers with one output. */
#ifndef DENSE_CPU_BODY_ACT_H
#define DENSE_CPU_BODY_ACT_H

#include "dense/backend_ops.h"
#include "dense/cpu/vector.h"

/* ---- bias, activation, dropout --------------------------------------------------------------- */

/* Bias, activation and dropout in one pass over the activations; on the way back also the bias's
 * gradient. */

static const vu lane_numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* All ones in the lanes of the values first_value .. first_value + 15 that are kept. The mixing is
 * lowbias32 (C. Wellons) with the second half of the key between its rounds, so that the masks of
 * two keys are unrelated and not shifted copies of each other. */
KERNEL_INLINE vi dropout_kept(const struct dropout_mask *mask, uint32_t first_value)
{
    vu x = (lane_numbers + first_value) + mask->key[0];
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x += mask->key[1];
    x ^= x >> 15;
    x *= 0xd35a2d97u;
    x ^= x >> 15;
    return (vi)(x >> 8) >= (vi)(vu){0} + (int32_t)mask->threshold;
}

/* The number in the mask of a row's first value. */
KERNEL_INLINE uint32_t dropout_row(const struct dropout_mask *mask, uint32_t first, uint32_t i,
                                   uint32_t width)
{
    if (mask->row != NULL)
        i = mask->row[i];
    return (first + i) * width;
}

KERNEL_INLINE vf act_value(enum activation act, vf x)
{
    const vf zero = {0};
    if (act == ACT_RELU)
        return vector_choose(x < zero, zero, x); /* NaN passes: the loss must show it */
    if (act == ACT_NONE)
        return x;
    if (act == ACT_TANH)
        return 1.0f - 2.0f / (vector_exp(x * 2.0f) + 1.0f);
    return 1.0f / (1.0f + vector_exp(-x));
}

/* The derivative, computed from the activation's value. */
KERNEL_INLINE vf act_slope(enum activation act, vf a)
{
    const vf zero = {0};
    if (act == ACT_RELU)
        return vector_choose(a > zero, vector_all(1.0f), zero);
    if (act == ACT_NONE)
        return vector_all(1.0f);
    if (act == ACT_TANH)
        return 1.0f - a * a;
    return a * (1.0f - a);
}

KERNEL_INLINE void act_forward_rows(enum activation act, bool drop, const struct dropout_mask *mask,
                                    uint32_t first, uint32_t count, uint32_t width,
                                    const float *bias, float *y, uint32_t ldy)
{
    for (uint32_t i = 0; i < count; i++, y += ldy) {
        const uint32_t row = drop ? dropout_row(mask, first, i, width) : 0;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(y + j, n);
            if (bias != NULL)
                v += vector_load_n(bias + j, n);
            v = act_value(act, v);
            if (drop)
                v = (vf)((vi)(v * mask->scale) & dropout_kept(mask, row + j));
            vector_store_n(y + j, v, n);
        }
    }
}

KERNEL_INLINE void act_backward_rows(enum activation act, bool drop,
                                     const struct dropout_mask *mask, uint32_t first,
                                     uint32_t count, uint32_t width, const float *y, uint32_t ldy,
                                     float *dy, uint32_t lddy, float *bias_gradient)
{
    float unscale = drop ? 1.0f / mask->scale : 1.0f;
    for (uint32_t i = 0; i < count; i++, y += ldy, dy += lddy) {
        const uint32_t row = drop ? dropout_row(mask, first, i, width) : 0;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf d = vector_load_n(dy + j, n), value = vector_load_n(y + j, n);
            if (act == ACT_RELU) {
                /* a dropped value is 0, and so is its slope: the mask is not needed */
                vf scaled = drop ? d * mask->scale : d;
                d = vector_choose(value > (vf){0}, scaled, (vf){0});
            } else if (drop) {
                d = d * mask->scale * act_slope(act, value * unscale);
                d = (vf)((vi)d & dropout_kept(mask, row + j));
            } else {
                d = d * act_slope(act, value);
            }
            vector_store_n(dy + j, d, n);
            if (bias_gradient != NULL)
                vector_store_n(bias_gradient + j, vector_load_n(bias_gradient + j, n) + d, n);
        }
    }
}

/* The switches are outside the loops: each case is a loop of its own. */
static void body_act_forward(struct stream *s, enum activation act, const struct dropout_mask *mask,
                             uint32_t first, uint32_t count, uint32_t width, const float *bias,
                             float *y, uint32_t ldy)
{
    bool drop = mask->threshold > 0;
    (void)s;
    if (act == ACT_RELU && !drop)
        act_forward_rows(ACT_RELU, false, mask, first, count, width, bias, y, ldy);
    else if (act == ACT_RELU)
        act_forward_rows(ACT_RELU, true, mask, first, count, width, bias, y, ldy);
    else if (act == ACT_NONE && !drop)
        act_forward_rows(ACT_NONE, false, mask, first, count, width, bias, y, ldy);
    else if (act == ACT_NONE)
        act_forward_rows(ACT_NONE, true, mask, first, count, width, bias, y, ldy);
    else if (act == ACT_TANH)
        act_forward_rows(ACT_TANH, drop, mask, first, count, width, bias, y, ldy);
    else
        act_forward_rows(ACT_SIGMOID, drop, mask, first, count, width, bias, y, ldy);
}

static void body_act_backward(struct stream *s, enum activation act,
                              const struct dropout_mask *mask, uint32_t first, uint32_t count,
                              uint32_t width, const float *y, uint32_t ldy, float *dy,
                              uint32_t lddy, float *bias_gradient)
{
    bool drop = mask->threshold > 0;
    (void)s;
    if (act == ACT_RELU && !drop)
        act_backward_rows(ACT_RELU, false, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
    else if (act == ACT_RELU)
        act_backward_rows(ACT_RELU, true, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
    else if (act == ACT_NONE && !drop)
        act_backward_rows(ACT_NONE, false, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
    else if (act == ACT_NONE)
        act_backward_rows(ACT_NONE, true, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
    else if (act == ACT_TANH)
        act_backward_rows(ACT_TANH, drop, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
    else
        act_backward_rows(ACT_SIGMOID, drop, mask, first, count, width, y, ldy, dy, lddy,
                          bias_gradient);
}

/* ---- one output ------------------------------------------------------------------------------ */

/* A layer with one output, the product of rows with one vector of weights; and the model's bias. */

static void body_bias_forward(struct stream *s, uint32_t count, uint32_t stride, const float *bias,
                              float *logit)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t t = 0; t < stride; t++)
            logit[(size_t)i * stride + t] = bias != NULL ? bias[t] : 0.0f;
}

static void body_bias_backward(struct stream *s, uint32_t count, uint32_t stride,
                               const float *dlogit, float *bias_gradient)
{
    (void)s;
    for (uint32_t t = 0; t < stride; t++) {
        float sum = 0.0f;
        for (uint32_t i = 0; i < count; i++)
            sum += dlogit[(size_t)i * stride + t];
        bias_gradient[t] += sum;
    }
}

static void body_head_forward(struct stream *s, uint32_t count, uint32_t width, const float *x,
                              uint32_t ldx, const float *w, float *logit, uint32_t stride)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx) {
        vf sum = {0};
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            sum += vector_load_n(x + j, n) * vector_load_n(w + j, n);
        }
        logit[(size_t)i * stride] += vector_sum(sum);
    }
}

static void body_head_backward(struct stream *s, uint32_t count, uint32_t width, const float *x,
                               uint32_t ldx, const float *w, const float *dlogit, uint32_t stride,
                               float *dw, float *dx, uint32_t lddx, uint32_t dx_width, bool add)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx) {
        float d = dlogit[(size_t)i * stride];
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(dw + j, vector_load_n(dw + j, n) + vector_load_n(x + j, n) * d, n);
        }
        for (uint32_t j = 0; dx != NULL && j < dx_width; j += VECTOR) {
            uint32_t n = vector_left(dx_width, j);
            vf v = vector_load_n(w + j, n) * d;
            float *to = dx + (size_t)i * lddx + j;
            vector_put_n(to, v, n, add);
        }
    }
}

#endif
