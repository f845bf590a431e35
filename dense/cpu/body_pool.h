/* body_pool.h: rows of the sparse table gathered into the input, and gradients scattered and merged into rows. */
#ifndef DENSE_CPU_BODY_POOL_H
#define DENSE_CPU_BODY_POOL_H

#include "dense/backend.h"
#include "dense/cpu/vector.h"

/* Rows lie in the order of their keys' hash, so each value is a miss of the first caches: they are asked for this many
 * values ahead. */
#define POOL_AHEAD 24u

KERNEL_INLINE void pool_prefetch(const struct pool_args *a, uint32_t value, uint32_t value_end, const float *rows,
                                 bool write)
{
    if (value + POOL_AHEAD >= value_end)
        return;
    const float *row = rows + (size_t)a->index[value + POOL_AHEAD] * (a->dim + 1);
    const float *last = row + a->dim;
    if (write) {
        __builtin_prefetch(row, 1);
        __builtin_prefetch(last, 1);
    } else {
        __builtin_prefetch(row, 0);
        __builtin_prefetch(last, 0);
    }
}

/* The values of an example's field: [begin, end) in index. */
KERNEL_INLINE uint32_t pool_begin(const struct pool_args *a, uint32_t slot)
{
    return a->offset ? a->offset[slot] : slot;
}

KERNEL_INLINE float pool_share(const struct pool_args *a, uint32_t field, uint32_t values)
{
    return a->pooling[field] == POOL_MEAN && values > 1 ? 1.0f / (float)values : 1.0f;
}

KERNEL_INLINE void pool_copy(const float *from, float *to, uint32_t width)
{
    for (uint32_t d = 0; d < width; d += VECTOR) {
        uint32_t n = vector_left(width, d);
        vector_store_n(to + d, vector_load_n(from + d, n), n);
    }
}

/* to = (or +=) factor * from */
KERNEL_INLINE void pool_add(const float *from, float factor, bool add, float *to, uint32_t width)
{
    for (uint32_t d = 0; d < width; d += VECTOR) {
        uint32_t n = vector_left(width, d);
        vf v = vector_load_n(from + d, n) * factor;
        vector_store_n(to + d, add ? vector_load_n(to + d, n) + v : v, n);
    }
}

/* Several values of a field, or none. */
KERNEL_INLINE float pool_many(const struct pool_args *a, uint32_t field, uint32_t begin, uint32_t end, float *to,
                              uint32_t dim)
{
    float first_order = 0.0f, share = pool_share(a, field, end - begin);
    for (uint32_t value = begin; value < end; value++) {
        const float *row = a->rows + (size_t)a->index[value] * (dim + 1);
        first_order += row[0] * share;
        pool_add(row + 1, share, value > begin, to, dim);
    }
    if (begin == end && dim > 0)
        memset(to, 0, dim * sizeof *to);
    return first_order;
}

KERNEL_INLINE void pool_forward_rows(const struct pool_args *a, float *x, float *logit, uint32_t dim)
{
    uint32_t slot = a->first * a->fields;
    uint32_t value_end = pool_begin(a, slot + a->count * a->fields);

    for (uint32_t i = 0; i < a->count; i++) {
        float first_order = 0.0f;
        for (uint32_t f = 0; f < a->fields; f++, slot++, x += dim) {
            uint32_t begin = pool_begin(a, slot), end = a->offset ? a->offset[slot + 1] : begin + 1;
            pool_prefetch(a, begin, value_end, a->rows, false);
            if (end - begin == 1) {
                const float *row = a->rows + (size_t)a->index[begin] * (dim + 1);
                first_order += row[0];
                pool_copy(row + 1, x, dim);
            } else {
                first_order += pool_many(a, f, begin, end, x, dim);
            }
        }
        logit[i] += first_order;
        if (dim > 0 && a->numerics > 0) {
            memcpy(x, a->numeric + (size_t)(a->first + i) * a->numerics, a->numerics * sizeof *x);
            x += a->numerics;
        }
    }
}

KERNEL_INLINE void pool_backward_rows(const struct pool_args *a, const float *dx, const float *dlogit,
                                      float *row_gradients, uint32_t dim)
{
    uint32_t slot = a->first * a->fields;
    uint32_t value_end = pool_begin(a, slot + a->count * a->fields);

    for (uint32_t i = 0; i < a->count; i++)
        for (uint32_t f = 0; f < a->fields; f++, slot++, dx += dim) {
            uint32_t begin = pool_begin(a, slot), end = a->offset ? a->offset[slot + 1] : begin + 1;
            float share = pool_share(a, f, end - begin);
            for (uint32_t value = begin; value < end; value++) {
                pool_prefetch(a, value, value_end, row_gradients, true);
                float *row = row_gradients + (size_t)a->index[value] * (dim + 1);
                row[0] += dlogit[i] * share;
                pool_add(dx, share, true, row + 1, dim);
            }
        }
}

/* The usual dims are loops of a length known to the compiler. */
static void body_pool_forward(const struct pool_args *a, float *x, float *logit)
{
    switch (a->dim) {
    case 0:
        pool_forward_rows(a, x, logit, 0);
        break;
    case 8:
        pool_forward_rows(a, x, logit, 8);
        break;
    case 16:
        pool_forward_rows(a, x, logit, 16);
        break;
    case 32:
        pool_forward_rows(a, x, logit, 32);
        break;
    default:
        pool_forward_rows(a, x, logit, a->dim);
    }
}

static void body_pool_backward(const struct pool_args *a, const float *dx, const float *dlogit, float *row_gradients)
{
    switch (a->dim) {
    case 0:
        pool_backward_rows(a, dx, dlogit, row_gradients, 0);
        break;
    case 8:
        pool_backward_rows(a, dx, dlogit, row_gradients, 8);
        break;
    case 16:
        pool_backward_rows(a, dx, dlogit, row_gradients, 16);
        break;
    case 32:
        pool_backward_rows(a, dx, dlogit, row_gradients, 32);
        break;
    default:
        pool_backward_rows(a, dx, dlogit, row_gradients, a->dim);
    }
}

#endif
