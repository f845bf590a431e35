/* body_norm.h: the column sums and the element-wise steps of batch norm. */
#ifndef DENSE_CPU_BODY_NORM_H
#define DENSE_CPU_BODY_NORM_H

#include "dense/cpu/vector.h"

/* So many rows are summed in float before their sum goes to double: their rounding stays below 1e-6 of the sum. */
#define NORM_BLOCK 64u

KERNEL_INLINE void norm_add(double *sum, vf v, uint32_t n)
{
    float part[VECTOR];
    vector_store(part, v);
    for (uint32_t i = 0; i < n; i++)
        sum[i] += (double)part[i];
}

static void body_norm_sums(uint32_t count, uint32_t width, const float *x, const float *pivot, double *sum,
                           double *square)
{
    for (uint32_t begin = 0; begin < count; begin += NORM_BLOCK) {
        uint32_t rows = count - begin < NORM_BLOCK ? count - begin : NORM_BLOCK;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            const float *column = x + (size_t)begin * width + j;
            vf middle = vector_load_n(pivot + j, n), s = {0}, q = {0};
            for (uint32_t i = 0; i < rows; i++, column += width) {
                vf v = vector_load_n(column, n) - middle;
                s += v;
                q += v * v;
            }
            norm_add(sum + j, s, n);
            norm_add(square + j, q, n);
        }
    }
}

static void body_norm_apply(uint32_t count, uint32_t width, const float *x, const float *mean, const float *scale,
                            const float *shift, float *y)
{
    for (uint32_t i = 0; i < count; i++, x += width, y += width)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(x + j, n) - vector_load_n(mean + j, n);
            vector_store_n(y + j, v * vector_load_n(scale + j, n) + vector_load_n(shift + j, n), n);
        }
}

static void body_norm_back_sums(uint32_t count, uint32_t width, const float *x, const float *dy, const float *mean,
                                double *sum, double *product)
{
    for (uint32_t begin = 0; begin < count; begin += NORM_BLOCK) {
        uint32_t rows = count - begin < NORM_BLOCK ? count - begin : NORM_BLOCK;
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            size_t at = (size_t)begin * width + j;
            vf middle = vector_load_n(mean + j, n), s = {0}, q = {0};
            for (uint32_t i = 0; i < rows; i++, at += width) {
                vf d = vector_load_n(dy + at, n);
                s += d;
                q += d * (vector_load_n(x + at, n) - middle);
            }
            norm_add(sum + j, s, n);
            norm_add(product + j, q, n);
        }
    }
}

static void body_norm_back_apply(uint32_t count, uint32_t width, const float *x, const float *mean, const float *scale,
                                 const float *slope, const float *shift, float *dy)
{
    for (uint32_t i = 0; i < count; i++, x += width, dy += width)
        for (uint32_t j = 0; j < width; j += VECTOR) {
            uint32_t n = vector_left(width, j);
            vf v = vector_load_n(x + j, n) - vector_load_n(mean + j, n);
            vf d = vector_load_n(dy + j, n) * vector_load_n(scale + j, n);
            vector_store_n(dy + j, d - v * vector_load_n(slope + j, n) - vector_load_n(shift + j, n), n);
        }
}

#endif
