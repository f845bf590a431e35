/* body_head.h: a layer with one output: a product of rows with one vector of weights; and the
 * model's bias. */
#ifndef DENSE_CPU_BODY_HEAD_H
#define DENSE_CPU_BODY_HEAD_H

#include "dense/cpu/vector.h"

struct stream;

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
            vector_store_n(to, add ? vector_load_n(to, n) + v : v, n);
        }
    }
}

#endif
