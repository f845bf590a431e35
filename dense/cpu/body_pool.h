/* body_pool.h: gathers rows of the sparse table into the input; scatters gradients and merges them
 * into rows. */
#ifndef DENSE_CPU_BODY_POOL_H
#define DENSE_CPU_BODY_POOL_H

#include "dense/backend_ops.h"
#include "dense/cpu/vector.h"

#include <math.h>

/* Rows are in the order of their keys' hash, so each value misses the first caches: rows are
 * prefetched this many values ahead. */
#define POOL_AHEAD 24u

/* The layout of a row. With `mixed`, tables have several dims and the layout depends on the table.
 * Otherwise all rows have one layout, and where the caller passes first_order and dim as constants,
 * the compiler unrolls the loops. */
struct pool_kind {
    uint32_t first_order, dim;
    bool mixed;
    bool factored; /* values have factors of their own */
};

/* The layout of the rows of a field. */
KERNEL_INLINE struct pool_table pool_of_field(const struct pool_args *a, struct pool_kind k,
                                              uint32_t field)
{
    if (k.mixed)
        return a->table[a->field_table[field]];
    return (struct pool_table){0, 0, k.dim};
}

/* The layout of a row whose field is not known. */
KERNEL_INLINE struct pool_table pool_of_row(const struct pool_args *a, struct pool_kind k,
                                            uint32_t row)
{
    uint32_t t = 0;
    if (!k.mixed)
        return (struct pool_table){0, 0, k.dim};
    while (t + 1 < a->tables && row >= a->table[t + 1].first)
        t++;
    return a->table[t];
}

/* The float where row i of the batch begins. */
KERNEL_INLINE size_t pool_at(struct pool_kind k, struct pool_table t, uint32_t i)
{
    return (size_t)(t.base + (uint64_t)i * (k.first_order + t.dim));
}

KERNEL_INLINE void pool_prefetch(const struct pool_args *a, struct pool_kind k, uint32_t value,
                                 uint32_t value_end, const float *rows, bool write)
{
    if (value + POOL_AHEAD >= value_end)
        return;
    uint32_t i = a->index[value + POOL_AHEAD];
    struct pool_table t = pool_of_row(a, k, i);
    const float *row = rows + pool_at(k, t, i), *last = row + k.first_order + t.dim - 1;
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
    return slot_begin(a->offset, slot);
}

KERNEL_INLINE float pool_share(const struct pool_args *a, uint32_t field, uint32_t values)
{
    if (a->pooling[field] != POOL_SUM && values > 1)
        return 1.0f / (float)values;
    return 1.0f;
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
        vector_put_n(to + d, v, n, add);
    }
}

/* A field with several values, with none, or whose values have factors. */
KERNEL_INLINE float pool_many(const struct pool_args *a, struct pool_kind k, struct pool_table t,
                              uint32_t field, uint32_t begin, uint32_t end, float *to)
{
    bool vectors = t.dim > 0 && a->pooling[field] != POOL_ATTENTION;
    float weight = 0.0f, share = pool_share(a, field, end - begin);
    for (uint32_t value = begin; value < end; value++) {
        const float *row = a->rows + pool_at(k, t, a->index[value]);
        if (k.factored)
            share = a->factor[value];
        weight += k.first_order > 0 ? row[0] * share : 0.0f;
        if (vectors)
            pool_add(row + k.first_order, share, value > begin, to, t.dim);
    }
    if (begin == end && vectors)
        memset(to, 0, t.dim * sizeof *to);
    return weight;
}

KERNEL_INLINE void pool_forward_rows(const struct pool_args *a, float *x, uint32_t ldx,
                                     float *logit, struct pool_kind k)
{
    uint32_t slot = a->first * a->fields;
    uint32_t value_end = pool_begin(a, slot + a->count * a->fields);
    for (uint32_t i = 0; i < a->count; i++) {
        float weight = 0.0f, *to = k.dim > 0 ? x + (size_t)i * ldx : NULL;
        for (uint32_t f = 0; f < a->fields; f++, slot++) {
            struct pool_table t = pool_of_field(a, k, f);
            uint32_t begin = pool_begin(a, slot), end = pool_begin(a, slot + 1);
            pool_prefetch(a, k, begin, value_end, a->rows, false);
            if (end - begin == 1 && a->pooling[f] != POOL_ATTENTION && !k.factored) {
                const float *row = a->rows + pool_at(k, t, a->index[begin]);
                weight += k.first_order > 0 ? row[0] : 0.0f;
                pool_copy(row + k.first_order, to, t.dim);
            } else {
                weight += pool_many(a, k, t, f, begin, end, to);
            }
            to += t.dim;
        }
        if (k.first_order > 0)
            logit[(size_t)i * a->tasks] += weight;
        if (k.dim > 0 && a->numerics > 0)
            memcpy(to, a->numeric + (size_t)(a->first + i) * a->numerics, a->numerics * sizeof *to);
    }
}

KERNEL_INLINE void pool_backward_rows(const struct pool_args *a, const float *dx, uint32_t lddx,
                                      const float *dlogit, float *row_gradients, struct pool_kind k)
{
    uint32_t slot = a->first * a->fields;
    uint32_t value_end = pool_begin(a, slot + a->count * a->fields);
    for (uint32_t i = 0; i < a->count; i++) {
        const float *from = k.dim > 0 ? dx + (size_t)i * lddx : NULL;
        for (uint32_t f = 0; f < a->fields; f++, slot++) {
            struct pool_table t = pool_of_field(a, k, f);
            uint32_t begin = pool_begin(a, slot), end = pool_begin(a, slot + 1);
            float share = pool_share(a, f, end - begin);
            bool vectors = t.dim > 0 && a->pooling[f] != POOL_ATTENTION;
            for (uint32_t value = begin; value < end; value++) {
                pool_prefetch(a, k, value, value_end, row_gradients, true);
                float *row = row_gradients + pool_at(k, t, a->index[value]);
                if (k.factored)
                    share = a->factor[value];
                if (k.first_order > 0)
                    row[0] += dlogit[(size_t)i * a->tasks] * share;
                if (vectors)
                    pool_add(from, share, true, row + k.first_order, t.dim);
            }
            from += t.dim;
        }
    }
}

/* The usual shapes get loops whose length the compiler knows. */
#define POOL_SHAPES(call)                                                                          \
    do {                                                                                           \
        if (a->factor)                                                                             \
            call(((struct pool_kind){a->first_order, a->dim, a->table != NULL, true}));            \
        else if (a->table)                                                                         \
            call(((struct pool_kind){a->first_order, a->dim, true, false}));                       \
        else if (a->first_order == 1 && a->dim == 0)                                               \
            call(((struct pool_kind){1, 0, false, false}));                                        \
        else if (a->first_order == 1 && a->dim == 16)                                              \
            call(((struct pool_kind){1, 16, false, false}));                                       \
        else if (a->first_order == 0 && a->dim == 16)                                              \
            call(((struct pool_kind){0, 16, false, false}));                                       \
        else if (a->first_order == 1 && a->dim == 32)                                              \
            call(((struct pool_kind){1, 32, false, false}));                                       \
        else if (a->first_order == 0 && a->dim == 32)                                              \
            call(((struct pool_kind){0, 32, false, false}));                                       \
        else                                                                                       \
            call(((struct pool_kind){a->first_order, a->dim, false, false}));                      \
    } while (0)

static void body_pool_begin(struct stream *s, const struct pool_args *a, bool train)
{
    (void)s;
    (void)a;
    (void)train;
}

static void body_pool_forward(struct stream *s, const struct pool_args *a, float *x, uint32_t ldx,
                              float *logit)
{
    (void)s;
#define POOL_CALL(kind) pool_forward_rows(a, x, ldx, logit, kind)
    POOL_SHAPES(POOL_CALL);
#undef POOL_CALL
}

static void body_pool_backward(struct stream *s, const struct pool_args *a, const float *dx,
                               uint32_t lddx, const float *dlogit, float *row_gradients)
{
    (void)s;
#define POOL_CALL(kind) pool_backward_rows(a, dx, lddx, dlogit, row_gradients, kind)
    POOL_SHAPES(POOL_CALL);
#undef POOL_CALL
}

/* Counts each row once for an example. A key belongs to one field, so only values of one field can
 * repeat. The first value of a row subtracts one half, which marks the row; a second walk over the
 * field subtracts the other half. Halves of numbers below 2^23 are exact. */
static void probe_field(const uint32_t *index, uint32_t begin, uint32_t end, float *count)
{
    for (uint32_t v = begin; v < end; v++)
        if (count[index[v]] == floorf(count[index[v]]))
            count[index[v]] -= 0.5f;
    for (uint32_t v = begin; v < end; v++)
        if (count[index[v]] != floorf(count[index[v]]))
            count[index[v]] -= 0.5f;
}

static void body_probe_backward(struct stream *s, const struct pool_args *a, float *row_gradients)
{
    (void)s;
    for (uint32_t slot = a->first * a->fields; slot < (a->first + a->count) * a->fields; slot++)
        probe_field(a->index, pool_begin(a, slot), pool_begin(a, slot + 1), row_gradients);
}

#endif
