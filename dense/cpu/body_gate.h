/* body_gate.h: one stream multiplied with another: gates, and the products of two streams that make
 * a logit. */
#ifndef DENSE_CPU_BODY_GATE_H
#define DENSE_CPU_BODY_GATE_H

#include "dense/cpu/vector.h"

struct stream;

static void body_gate_forward(struct stream *s, uint32_t count, uint32_t width, float factor,
                              const float *x, uint32_t ldx, const float *g, uint32_t ldg, float *y,
                              uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, g += ldg, y += ldy)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(y + j, vector_load_n(x + j, n) * vector_load_n(g + j, n) * factor, n);
        }
}

static void body_gate_backward(struct stream *s, uint32_t count, uint32_t width, float factor,
                               const float *x, uint32_t ldx, const float *g, uint32_t ldg,
                               const float *dy, uint32_t lddy, float *dg, uint32_t lddg, float *dx,
                               uint32_t lddx, uint32_t dx_width, bool add)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, g += ldg, dy += lddy, dg += lddg) {
        float *to = dx + (size_t)i * lddx;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vector_store_n(dg + j, vector_load_n(x + j, n) * vector_load_n(dy + j, n) * factor, n);
        }
        for (uint32_t j = 0; j < dx_width; j += VECTOR) {
            uint32_t n = vector_left(dx_width, j);
            vf v = vector_load_n(g + j, n) * vector_load_n(dy + j, n) * factor;
            vector_store_n(to + j, add ? vector_load_n(to + j, n) + v : v, n);
        }
    }
}

static void body_dots_forward(struct stream *s, uint32_t count, uint32_t width, const float *t,
                              uint32_t ldt, const float *z, uint32_t ldz, float *logit,
                              uint32_t stride)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, t += ldt, z += ldz) {
        vf sum = {0};
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            sum += vector_load_n(t + j, n) * vector_load_n(z + j, n);
        }
        logit[(size_t)i * stride] += vector_sum(sum);
    }
}

static void body_dots_backward(struct stream *s, uint32_t count, uint32_t width, float *t,
                               uint32_t ldt, const float *z, uint32_t ldz, const float *dlogit,
                               uint32_t stride, float *dz, uint32_t lddz, bool add)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, t += ldt, z += ldz, dz += lddz) {
        float d = dlogit[(size_t)i * stride];
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(t + j, n) * d;
            vector_store_n(t + j, vector_load_n(z + j, n) * d, n);
            vector_store_n(dz + j, add ? vector_load_n(dz + j, n) + v : v, n);
        }
    }
}

#endif
