/* body_cin.h: the compressed interaction network around its matrix products: turning the vectors,
 * outer products, sums over the vectors' numbers. */
#ifndef DENSE_CPU_BODY_CIN_H
#define DENSE_CPU_BODY_CIN_H

#include "dense/cpu/vector.h"
#include "dense/ops_interact.h"

static void body_turn(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                      const float *x, uint32_t ldx, bool add, float *y, uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, y += ldy)
        for (uint32_t d = 0; d < dim; d++)
            for (uint32_t f = 0; f < fields; f++) {
                float *to = y + (size_t)d * fields + f;
                *to = (add ? *to : 0.0f) + x[(size_t)f * dim + d];
            }
}

static void body_cin_outer(struct stream *s, const struct cin_args *a)
{
    float *z = a->z;
    (void)s;
    for (uint32_t r = 0; r < a->rows; r++) {
        const float *x = a->x + (size_t)r * a->maps, *x0 = a->x0 + (size_t)r * a->fields;
        for (uint32_t f = 0; f < a->fields; f++, z += a->maps)
            for (uint32_t m = 0; m < a->maps; m += VECTOR) {
                uint32_t n = vector_left(a->maps, m);
                vector_store_n(z + m, vector_load_n(x + m, n) * x0[f], n);
            }
    }
}

static void body_cin_outer_backward(struct stream *s, const struct cin_args *a)
{
    const float *dz = a->dz;
    (void)s;
    for (uint32_t r = 0; r < a->rows; r++, dz += (size_t)a->fields * a->maps) {
        const float *x = a->x + (size_t)r * a->maps, *x0 = a->x0 + (size_t)r * a->fields;
        float *dx = a->dx + (size_t)r * a->maps, *dx0 = a->dx0 + (size_t)r * a->fields;
        for (uint32_t f = 0; f < a->fields; f++) {
            vf sum = {0};
            for (uint32_t m = 0; m < a->maps; m += VECTOR) {
                uint32_t n = vector_left(a->maps, m);
                sum += vector_load_n(dz + (size_t)f * a->maps + m, n) * vector_load_n(x + m, n);
            }
            dx0[f] = (a->add0 ? dx0[f] : 0.0f) + vector_sum(sum);
        }
        for (uint32_t m = 0; m < a->maps; m += VECTOR) {
            uint32_t n = vector_left(a->maps, m);
            vf sum = {0};
            for (uint32_t f = 0; f < a->fields; f++)
                sum += vector_load_n(dz + (size_t)f * a->maps + m, n) * x0[f];
            vector_store_n(dx + m, a->add ? vector_load_n(dx + m, n) + sum : sum, n);
        }
    }
}

static void body_cin_pool(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps,
                          const float *x, uint32_t ldx, float *y, uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, y += ldy)
        for (uint32_t m = 0; m < maps; m += VECTOR) {
            uint32_t n = vector_left(maps, m);
            vf sum = {0};
            for (uint32_t d = 0; d < dim; d++)
                sum += vector_load_n(x + (size_t)d * maps + m, n);
            vector_store_n(y + m, sum, n);
        }
}

static void body_cin_pool_backward(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps,
                                   const float *dy, uint32_t lddy, bool add, float *dx,
                                   uint32_t lddx)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, dy += lddy, dx += lddx)
        for (uint32_t m = 0; m < maps; m += VECTOR) {
            uint32_t n = vector_left(maps, m);
            vf gradient = vector_load_n(dy + m, n);
            for (uint32_t d = 0; d < dim; d++) {
                float *to = dx + (size_t)d * maps + m;
                vector_store_n(to, add ? vector_load_n(to, n) + gradient : gradient, n);
            }
        }
}

#endif
