/* body_head.h: a layer with one output: a product of rows with one vector of weights. */
#ifndef DENSE_CPU_BODY_HEAD_H
#define DENSE_CPU_BODY_HEAD_H

#include "dense/cpu/vector.h"

static void body_head_forward(uint32_t count, uint32_t width, const float *x, uint32_t ldx, const float *w,
                              float *logit)
{
    for (uint32_t i = 0; i < count; i++, x += ldx) {
        vf sum = {0};
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            sum += vector_load_n(x + j, n) * vector_load_n(w + j, n);
        }
        logit[i] += vector_sum(sum);
    }
}

static void body_head_backward(uint32_t count, uint32_t width, const float *x, uint32_t ldx, const float *w,
                               const float *dlogit, float *dw, float *dx)
{
    for (uint32_t i = 0; i < count; i++, x += ldx) {
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(dw + j, vector_load_n(dw + j, n) + vector_load_n(x + j, n) * dlogit[i], n);
            if (dx)
                vector_store_n(dx + (size_t)i * width + j, vector_load_n(w + j, n) * dlogit[i], n);
        }
    }
}

#endif
