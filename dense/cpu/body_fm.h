/* body_fm.h: pairwise products of field vectors, by the square of their sum. */
#ifndef DENSE_CPU_BODY_FM_H
#define DENSE_CPU_BODY_FM_H

#include "dense/cpu/vector.h"

static void body_fm_forward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                            const float *x, uint32_t ldx, float *sums, float *logit,
                            uint32_t stride)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, sums += dim) {
        vf pairs = {0};
        for (uint32_t d = 0; d < dim; d += VECTOR) {
            uint32_t n = vector_left(dim, d);
            vf sum = {0}, squares = {0};
            const float *v = x + d;
            for (uint32_t f = 0; f < fields; f++, v += dim) {
                vf part = vector_load_n(v, n);
                sum += part;
                squares += part * part;
            }
            vector_store_n(sums + d, sum, n);
            pairs += sum * sum - squares;
        }
        logit[(size_t)i * stride] += 0.5f * vector_sum(pairs);
    }
}

static void body_fm_backward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                             const float *x, uint32_t ldx, const float *sums, const float *dlogit,
                             uint32_t stride, bool add, float *dx, uint32_t lddx)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, sums += dim) {
        for (uint32_t d = 0; d < dim; d += VECTOR) {
            uint32_t n = vector_left(dim, d);
            vf sum = vector_load_n(sums + d, n);
            for (uint32_t f = 0; f < fields; f++) {
                float *to = dx + (size_t)i * lddx + f * dim + d;
                vf gradient =
                    (sum - vector_load_n(x + f * dim + d, n)) * dlogit[(size_t)i * stride];
                if (add)
                    gradient += vector_load_n(to, n);
                vector_store_n(to, gradient, n);
            }
        }
    }
}

#endif
