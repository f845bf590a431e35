/* body_interact.h: the kernels of dense/ops_interact.h, and sums over pairs of vectors. */
#ifndef DENSE_CPU_BODY_INTERACT_H
#define DENSE_CPU_BODY_INTERACT_H

#include "dense/cpu/vector.h"
#include "dense/ops_interact.h"
#include "proto/base/minmax.h"

/* ---- pairs, summed --------------------------------------------------------------------------- */

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

/* ---- products of pairs ----------------------------------------------------------------------- */

/* Inner products of all pairs of vectors, and their gradients.
 *
 * Both ways pair a block of four vectors i with one vector j after another. Forward, the example's
 * vectors are transposed first, so that 16 of the vectors j are in the lanes: no sum crosses lanes,
 * and the results come in the order of the output. Back, the lanes are the columns of the vectors.
 * The last block has four rows too: the surplus rows repeat the last vector and are not stored. */

#define PRODUCTS_ROWS 4u

/* Four sums that stay in registers. */
struct products_sums {
    vf a, b, c, d;
};

KERNEL_INLINE uint32_t products_row(uint32_t vectors, uint32_t i)
{
    return MIN(i, vectors - 1);
}

/* work (dim, padded): column d of every vector in one row; zeros follow the last vector. */
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

/* Products of vectors i .. i + 3 with those of the 16 vectors from j on that come before them. */
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
    uint32_t vectors = a->vectors, padded = (vectors + VECTOR - 1) / VECTOR * VECTOR, kept = 0;
    if (a->keep)
        kept = a->dim;
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

/* The gradient of the product of two vectors; 0 for a vector with itself. */
KERNEL_INLINE float products_gradient(const float *pairs, uint32_t i, uint32_t j)
{
    return i == j ? 0.0f : pairs[i > j ? products_at(i, j) : products_at(j, i)];
}

/* Sixteen (n) columns of the gradients of vectors i .. i + 3: the sums over all vectors j, in
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
    p0 = pairs + products_at(j, i); /* while more vectors follow, the block is a full one */
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
        vector_put_n(to, sum, n, a->add);
}

/* Columns d .. d + n - 1 of all vectors. */
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
    uint32_t kept = a->dim;
    if (!a->keep)
        kept = 0;
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

/* ---- cross layers ---------------------------------------------------------------------------- */

static void body_cross_forward(struct stream *s, const struct cross_args *a)
{
    (void)s;
    for (uint32_t i = 0; i < a->count; i++) {
        const float *x0 = a->x0 + (size_t)i * a->ldx0, *x = a->x + (size_t)i * a->ldx,
                    *u = a->u + (size_t)i * a->ldu;
        float *y = a->y + (size_t)i * a->ldy;
        for (uint32_t j = 0; j < a->width; j += VECTOR) {
            uint32_t n = vector_left(a->width, j);
            vf factor = vector_load_n(u + j, n) + vector_load_n(a->bias + j, n);
            vector_store_n(y + j, vector_load_n(x0 + j, n) * factor + vector_load_n(x + j, n), n);
        }
    }
}

/* One row. Callers pass constant switches. */
KERNEL_INLINE void cross_back_row(const struct cross_args *a, uint32_t i, bool add, bool first)
{
    const float *x0 = a->x0 + (size_t)i * a->ldx0, *dy = a->dy + (size_t)i * a->lddy;
    float *u = a->u + (size_t)i * a->ldu, *dx0 = NULL;
    if (a->dx0 != NULL)
        dx0 = a->dx0 + (size_t)i * a->lddx0;
    for (uint32_t j = 0; j < a->width; j += VECTOR) {
        uint32_t n = vector_left(a->width, j);
        vf d = vector_load_n(dy + j, n);
        if (j < a->dx0_width) {
            uint32_t wanted = vector_left(a->dx0_width, j);
            vf to = d * (vector_load_n(u + j, n) + vector_load_n(a->bias + j, n));
            if (first)
                to += d;
            if (add)
                to += vector_load_n(dx0 + j, wanted);
            vector_store_n(dx0 + j, to, wanted);
        }
        d = d * vector_load_n(x0 + j, n);
        vector_store_n(u + j, d, n);
        vector_store_n(a->dbias + j, vector_load_n(a->dbias + j, n) + d, n);
    }
}

static void body_cross_backward(struct stream *s, const struct cross_args *a)
{
    (void)s;
    for (uint32_t i = 0; i < a->count && a->first; i++)
        cross_back_row(a, i, a->add, true);
    for (uint32_t i = 0; i < a->count && !a->first && a->add; i++)
        cross_back_row(a, i, true, false);
    for (uint32_t i = 0; i < a->count && !a->first && !a->add; i++)
        cross_back_row(a, i, false, false);
}

/* ---- the compressed interaction network ------------------------------------------------------ */

/* The work around the matrix products of the compressed interaction network: transposes of the
 * vectors, outer products, sums over the vectors' columns. */

static void body_turn(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                      const float *x, uint32_t ldx, bool add, float *y, uint32_t ldy)
{
    (void)s;
    for (uint32_t i = 0; i < count; i++, x += ldx, y += ldy)
        for (uint32_t d = 0; d < dim; d++)
            for (uint32_t f = 0; f < fields; f++) {
                float *to = y + (size_t)d * fields + f;
                *to = sum_begin(to, add) + x[(size_t)f * dim + d];
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
            dx0[f] = sum_begin(&dx0[f], a->add0) + vector_sum(sum);
        }
        for (uint32_t m = 0; m < a->maps; m += VECTOR) {
            uint32_t n = vector_left(a->maps, m);
            vf sum = {0};
            for (uint32_t f = 0; f < a->fields; f++)
                sum += vector_load_n(dz + (size_t)f * a->maps + m, n) * x0[f];
            vector_put_n(dx + m, sum, n, a->add);
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
                vector_put_n(to, gradient, n, add);
            }
        }
}

static void body_interact_fill(struct interact_ops *o)
{
    o->products_forward = body_products_forward;
    o->products_backward = body_products_backward;
    o->cross_forward = body_cross_forward;
    o->cross_backward = body_cross_backward;
    o->turn = body_turn;
    o->cin_outer = body_cin_outer;
    o->cin_outer_backward = body_cin_outer_backward;
    o->cin_pool = body_cin_pool;
    o->cin_pool_backward = body_cin_pool_backward;
}

#endif
