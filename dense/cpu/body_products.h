/* body_products.h: inner products of all pairs of vectors, and the way back.
 *
 * Both ways work on blocks of four vectors i against one vector j after the other. Forward, the
 * example's vectors are turned first, so that 16 of the vectors j lie in the lanes: no sum goes
 * across lanes, and what comes out lies as it is wanted. Back, the lanes are the vectors' own
 * numbers. The last block has four rows too: those that are too many repeat the last vector and are
 * not stored. */
#ifndef DENSE_CPU_BODY_PRODUCTS_H
#define DENSE_CPU_BODY_PRODUCTS_H

#include "dense/cpu/vector.h"
#include "dense/ops_interact.h"

#define PRODUCTS_ROWS 4u

/* Four sums that stay in registers. */
struct products_sums {
    vf a, b, c, d;
};

KERNEL_INLINE uint32_t products_row(uint32_t vectors, uint32_t i)
{
    return i < vectors ? i : vectors - 1;
}

/* work (dim, padded): number d of every vector in a row, zeros behind the last vector. */
KERNEL_INLINE void products_turn(const float *x, uint32_t vectors, uint32_t dim, uint32_t padded,
                                 float *work)
{
    for (uint32_t j = 0; j < padded; j += VECTOR)
        for (uint32_t d = 0; d < dim; d += VECTOR) {
            uint32_t rows = vector_left(vectors, j), n = vector_left(dim, d), k = 0;
            const float *from = x + (size_t)j * dim + d;
            vf tile[VECTOR];
            for (; k < rows; k++, from += dim)
                tile[k] = vector_load_n(from, n);
            for (; k < VECTOR; k++)
                tile[k] = (vf){0};
            vector_turn(tile);
            for (k = 0; k < n; k++)
                vector_store(work + (size_t)(d + k) * padded + j, tile[k]);
        }
}

/* Products of vectors i .. i + 3 with the 16 vectors from j on, as far as these come before
 * them. */
KERNEL_INLINE void products_block(const struct products_args *a, const float *x, uint32_t padded,
                                  uint32_t i, uint32_t j, float *pairs)
{
    struct products_sums sum = {{0}, {0}, {0}, {0}};
    uint32_t dim = a->dim, vectors = a->vectors;
    const float *x0 = x + (size_t)i * dim, *x1 = x + (size_t)products_row(vectors, i + 1) * dim,
                *x2 = x + (size_t)products_row(vectors, i + 2) * dim,
                *x3 = x + (size_t)products_row(vectors, i + 3) * dim;
    const float *work = a->work + j;
    for (uint32_t d = 0; d < dim; d++, work += padded) {
        vf column = vector_load(work);
        sum.a += column * x0[d];
        sum.b += column * x1[d];
        sum.c += column * x2[d];
        sum.d += column * x3[d];
    }
    if (i > j)
        vector_store_n(pairs + products_at(i, j), sum.a, vector_left(i, j));
    if (i + 1 > j && i + 1 < vectors)
        vector_store_n(pairs + products_at(i + 1, j), sum.b, vector_left(i + 1, j));
    if (i + 2 > j && i + 2 < vectors)
        vector_store_n(pairs + products_at(i + 2, j), sum.c, vector_left(i + 2, j));
    if (i + 3 > j && i + 3 < vectors)
        vector_store_n(pairs + products_at(i + 3, j), sum.d, vector_left(i + 3, j));
}

static void body_products_forward(struct stream *s, const struct products_args *a)
{
    uint32_t vectors = a->vectors, padded = (vectors + VECTOR - 1) / VECTOR * VECTOR,
             kept = a->keep ? a->dim : 0;
    (void)s;
    for (uint32_t e = 0; e < a->count; e++) {
        const float *x = a->x + (size_t)e * a->ldx;
        float *y = a->y + (size_t)e * a->ldy;
        if (kept > 0)
            memcpy(y, x + (size_t)(vectors - 1) * kept, kept * sizeof *y);
        products_turn(x, vectors, a->dim, padded, a->work);
        for (uint32_t i = 0; i < vectors; i += PRODUCTS_ROWS)
            for (uint32_t j = 0; j < products_row(vectors, i + PRODUCTS_ROWS - 1); j += VECTOR)
                products_block(a, x, padded, i, j, y + kept);
    }
}

/* The products' gradient of two vectors; none of a vector with itself. */
KERNEL_INLINE float products_gradient(const float *pairs, uint32_t i, uint32_t j)
{
    return i == j ? 0.0f : pairs[i > j ? products_at(i, j) : products_at(j, i)];
}

/* Sixteen (n) numbers of the gradients of vectors i .. i + 3: the sum over all vectors j, in
 * order. */
KERNEL_INLINE struct products_sums products_back_sums(const float *x, const float *pairs,
                                                      uint32_t vectors, uint32_t dim, uint32_t i,
                                                      uint32_t n)
{
    struct products_sums sum = {{0}, {0}, {0}, {0}};
    uint32_t i1 = products_row(vectors, i + 1), i2 = products_row(vectors, i + 2),
             i3 = products_row(vectors, i + 3), j = 0;
    const float *p0 = pairs + products_at(i, 0), *p1 = pairs + products_at(i1, 0),
                *p2 = pairs + products_at(i2, 0), *p3 = pairs + products_at(i3, 0);
    for (; j < i; j++, x += dim) {
        vf v = vector_load_n(x, n);
        sum.a += v * p0[j];
        sum.b += v * p1[j];
        sum.c += v * p2[j];
        sum.d += v * p3[j];
    }
    for (; j <= i3; j++, x += dim) {
        vf v = vector_load_n(x, n);
        sum.a += v * products_gradient(pairs, i, j);
        sum.b += v * products_gradient(pairs, i1, j);
        sum.c += v * products_gradient(pairs, i2, j);
        sum.d += v * products_gradient(pairs, i3, j);
    }
    p0 = pairs + products_at(j, i); /* where there are more, the block is a full one */
    for (; j < vectors; j++, x += dim) {
        vf v = vector_load_n(x, n);
        sum.a += v * p0[0];
        sum.b += v * p0[1];
        sum.c += v * p0[2];
        sum.d += v * p0[3];
        p0 += j;
    }
    return sum;
}

KERNEL_INLINE void products_back_store(const struct products_args *a, float *dx, uint32_t i, vf sum,
                                       uint32_t n)
{
    float *to = dx + (size_t)i * a->dim;
    if (i < a->vectors)
        vector_store_n(to, a->add ? vector_load_n(to, n) + sum : sum, n);
}

/* Numbers d .. d + n - 1 of all vectors. */
KERNEL_INLINE void products_back_columns(const struct products_args *a, const float *x,
                                         const float *pairs, uint32_t n, float *dx)
{
    for (uint32_t i = 0; i < a->vectors; i += PRODUCTS_ROWS) {
        struct products_sums sum = products_back_sums(x, pairs, a->vectors, a->dim, i, n);
        products_back_store(a, dx, i, sum.a, n);
        products_back_store(a, dx, i + 1, sum.b, n);
        products_back_store(a, dx, i + 2, sum.c, n);
        products_back_store(a, dx, i + 3, sum.d, n);
    }
}

static void body_products_backward(struct stream *s, const struct products_args *a)
{
    uint32_t kept = a->keep ? a->dim : 0;
    (void)s;
    for (uint32_t e = 0; e < a->count; e++) {
        const float *x = a->x + (size_t)e * a->ldx, *dy = a->dy + (size_t)e * a->lddy;
        float *dx = a->dx + (size_t)e * a->lddx, *last = dx + (size_t)(a->vectors - 1) * a->dim;
        uint32_t d = 0;
        for (; d + VECTOR <= a->dim; d += VECTOR)
            products_back_columns(a, x + d, dy + kept, VECTOR, dx + d);
        if (d < a->dim)
            products_back_columns(a, x + d, dy + kept, a->dim - d, dx + d);
        for (d = 0; d < kept; d += VECTOR) {
            uint32_t n = vector_left(kept, d);
            vector_store_n(last + d, vector_load_n(last + d, n) + vector_load_n(dy + d, n), n);
        }
    }
}

#endif
