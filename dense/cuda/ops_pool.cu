/* ops_pool.cu: gathers rows of the sparse tables into the input; copies rows from the cache. The
 * way back is in ops_rows.cu. */
#include "dense/cuda/stream.h"

struct pool_kernel_args {
    struct pool_args p;
    uint32_t ldx;
    float *x, *logit;
    float *weight;    /* (count * fields), scratch: pooled first-order weights */
    uint32_t vectors; /* columns of x that hold vectors */
    bool aligned_rows;
};

#define pool_vectors_args pool_kernel_args
#define pool_fours_args pool_kernel_args
#define pool_numerics_args pool_kernel_args
#define pool_weights_args pool_kernel_args
#define pool_logit_args pool_kernel_args

/* The row of a value of field f. */
BODY const float *pool_row(const struct pool_args *p, uint32_t f, uint32_t value)
{
    if (!p->table)
        return p->rows + (size_t)p->index[value] * (p->first_order + p->dim);
    struct pool_table t = p->table[p->field_table[f]];
    return p->rows + (size_t)(t.base + (uint64_t)p->index[value] * (p->first_order + t.dim));
}

/* The field whose vector contains this column: the last one that begins at or before it. */
BODY uint32_t pool_field_of(const struct pool_args *p, uint32_t column)
{
    uint32_t low = 0, high = p->fields - 1;
    if (!p->table)
        return column / p->dim;
    while (low < high) {
        uint32_t middle = (low + high + 1) / 2;
        if (p->column[middle] <= column)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

/* One column of a slot's rows, pooled. */
BODY float pool_column(const struct pool_args *p, uint32_t slot, uint32_t f, uint32_t d)
{
    if (p->offset == NULL && p->factor == NULL)
        return pool_row(p, f, slot)[d];
    uint32_t begin = slot_begin(p->offset, slot), end = slot_begin(p->offset, slot + 1);
    float sum = 0.0f, share = mean_share(p->pooling[f] != POOL_SUM, end - begin);
    for (uint32_t value = begin; value < end; value++)
        sum += pool_row(p, f, value)[d] * (p->factor ? p->factor[value] : share);
    return sum;
}

/* One column of a field's vector. */
BODY float pool_vector(const struct pool_args *p, uint32_t row, uint32_t f, uint32_t d)
{
    return pool_column(p, (p->first + row) * p->fields + f, f, d);
}

BODY void pool_vectors_at(const struct pool_kernel_args *a, size_t i)
{
    const struct pool_args *p = &a->p;
    struct place at = place_of(i, a->vectors);
    uint32_t f = pool_field_of(p, at.column),
             d = at.column - (p->table ? p->column[f] : f * p->dim) + p->first_order;
    if (p->pooling[f] != POOL_ATTENTION)
        a->x[(size_t)at.row * a->ldx + at.column] = pool_vector(p, at.row, f, d);
}
KERNEL(pool_vectors)

/* Four columns of a field's vector, where each field has one value and vectors are multiples of
 * four floats. */
BODY void pool_fours_at(const struct pool_kernel_args *a, size_t i)
{
    const struct pool_args *p = &a->p;
    struct place_four at = place_four_of(i, a->vectors);
    uint32_t f = at.column / p->dim, d = at.column - f * p->dim + p->first_order;
    const float *from = pool_row(p, f, (p->first + at.row) * p->fields + f) + d;
    struct four v = four_load(from, FOUR, a->aligned_rows);
    if (p->pooling[f] != POOL_ATTENTION)
        four_store(a->x + (size_t)at.row * a->ldx + at.column, FOUR, true, &v);
}
KERNEL(pool_fours)

BODY void pool_numerics_at(const struct pool_kernel_args *a, size_t i)
{
    struct place at = place_of(i, a->p.numerics);
    a->x[(size_t)at.row * a->ldx + a->vectors + at.column] =
        a->p.numeric[(size_t)(a->p.first + at.row) * a->p.numerics + at.column];
}
KERNEL(pool_numerics)

/* The pooled first-order weight of one field. */
BODY void pool_weights_at(const struct pool_kernel_args *a, size_t i)
{
    const struct pool_args *p = &a->p;
    size_t slot = (size_t)p->first * p->fields + i;
    uint32_t f = (uint32_t)(i % p->fields);
    a->weight[i] = pool_column(p, (uint32_t)slot, f, 0);
}
KERNEL(pool_weights)

BODY void pool_logit_at(const struct pool_kernel_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t f = 0; f < a->p.fields; f++)
        sum += a->weight[i * a->p.fields + f];
    a->logit[i * a->p.tasks] += sum;
}
KERNEL(pool_logit)

static void pool_forward(struct stream *s, const struct pool_args *p, float *x, uint32_t ldx,
                         float *logit)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct pool_kernel_args a = {
        *p, ldx, x, logit, NULL, pool_columns(p), fours_lie(p->rows, p->first_order + p->dim)};
    bool fours = !p->offset && !p->factor && !p->table && p->dim % FOUR == 0 && fours_lie(x, ldx);
    if (p->dim > 0) {
        if (fours)
            pool_fours_run(s, (size_t)p->count * fours_of(a.vectors), &a);
        else
            pool_vectors_run(s, (size_t)p->count * a.vectors, &a);
        pool_numerics_run(s, (size_t)p->count * p->numerics, &a);
    }
    if (p->first_order > 0) {
        a.weight = (float *)cuda_scratch(s, (size_t)p->count * p->fields * sizeof *a.weight);
        if (a.weight == NULL)
            return;
        pool_weights_run(s, (size_t)p->count * p->fields, &a);
        pool_logit_run(s, p->count, &a);
    }
    cuda_scratch_return(s, mark);
}

/* ---- what fills a batch up ------------------------------------------------------------------- */

struct rows_repeat_args {
    uint32_t first, width;
    float *x;
};

BODY void rows_repeat_at(const struct rows_repeat_args *a, size_t i)
{
    a->x[(size_t)a->first * a->width + i] = a->x[i % a->width];
}
KERNEL(rows_repeat)

static void rows_repeat(struct stream *s, uint32_t first, uint32_t count, uint32_t width, float *x)
{
    struct rows_repeat_args a = {first, width, x};
    rows_repeat_run(s, (size_t)count * width, &a);
}

void cuda_pool_fill(struct backend_ops *o)
{
    o->pool_forward = pool_forward;
    o->rows_repeat = rows_repeat;
}
