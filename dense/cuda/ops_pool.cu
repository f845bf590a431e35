/* ops_pool.cu: rows of the sparse table gathered into the input; rows from the cache. The way back: ops_rows.cu. */
#include "dense/cuda/stream.h"

struct pool_kernel_args {
    struct pool_args p;
    uint32_t ldx;
    float *x, *logit;
    float *weight; /* (count * fields), scratch: pooled first-order weights */
};

#define pool_vectors_args pool_kernel_args
#define pool_numerics_args pool_kernel_args
#define pool_weights_args pool_kernel_args
#define pool_logit_args pool_kernel_args

BODY const float *pool_row(const struct pool_args *p, uint32_t value)
{
    return p->rows + (size_t)p->index[value] * (p->first_order + p->dim);
}

/* One number of a field's vector. */
BODY void pool_vectors_at(const struct pool_kernel_args *a, size_t i)
{
    const struct pool_args *p = &a->p;
    struct place at = place_of(i, p->fields * p->dim);
    uint32_t f = at.column / p->dim, d = at.column - f * p->dim + p->first_order;
    uint32_t slot = (p->first + at.row) * p->fields + f;
    float *to = a->x + (size_t)at.row * a->ldx + at.column;
    if (p->pooling[f] == POOL_ATTENTION)
        return;
    if (!p->offset) {
        *to = pool_row(p, slot)[d];
        return;
    }
    uint32_t begin = p->offset[slot], end = p->offset[slot + 1];
    float sum = 0.0f, share = p->pooling[f] != POOL_SUM && end - begin > 1 ? 1.0f / (float)(end - begin) : 1.0f;
    for (uint32_t value = begin; value < end; value++)
        sum += pool_row(p, value)[d] * share;
    *to = sum;
}
KERNEL(pool_vectors)

BODY void pool_numerics_at(const struct pool_kernel_args *a, size_t i)
{
    struct place at = place_of(i, a->p.numerics);
    a->x[(size_t)at.row * a->ldx + a->p.fields * a->p.dim + at.column] =
        a->p.numeric[(size_t)(a->p.first + at.row) * a->p.numerics + at.column];
}
KERNEL(pool_numerics)

/* The first-order weight of one field. */
BODY void pool_weights_at(const struct pool_kernel_args *a, size_t i)
{
    const struct pool_args *p = &a->p;
    size_t slot = (size_t)p->first * p->fields + i;
    if (!p->offset) {
        a->weight[i] = pool_row(p, (uint32_t)slot)[0];
        return;
    }
    uint32_t begin = p->offset[slot], end = p->offset[slot + 1];
    bool mean = p->pooling[i % p->fields] != POOL_SUM && end - begin > 1;
    float sum = 0.0f, share = mean ? 1.0f / (float)(end - begin) : 1.0f;
    for (uint32_t value = begin; value < end; value++)
        sum += pool_row(p, value)[0] * share;
    a->weight[i] = sum;
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

static void pool_forward(struct stream *s, const struct pool_args *p, float *x, uint32_t ldx, float *logit)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct pool_kernel_args a = {*p, ldx, x, logit, NULL};
    if (p->dim > 0) {
        pool_vectors_run(s, (size_t)p->count * p->fields * p->dim, &a);
        pool_numerics_run(s, (size_t)p->count * p->numerics, &a);
    }
    if (p->first_order > 0) {
        a.weight = (float *)cuda_scratch(s, (size_t)p->count * p->fields * sizeof *a.weight);
        if (!a.weight)
            return;
        pool_weights_run(s, (size_t)p->count * p->fields, &a);
        pool_logit_run(s, p->count, &a);
    }
    cuda_scratch_return(s, mark);
}

/* ---- rows with a cache ------------------------------------------------------------------------------------ */

struct cache_args {
    uint32_t width;
    const uint32_t *place;
    const float *rows, *cached;
    float *to;
};

#define rows_gather_args cache_args
#define rows_keep_args cache_args

BODY void rows_gather_at(const struct cache_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    uint32_t source = a->place[p.row];
    const float *from = source & MODEL_CACHED ? a->cached : a->rows;
    a->to[i] = from[(size_t)(source & ~MODEL_CACHED) * a->width + p.column];
}
KERNEL(rows_gather)

BODY void rows_keep_at(const struct cache_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    a->to[(size_t)a->place[2 * (size_t)p.row + 1] * a->width + p.column] =
        a->rows[(size_t)a->place[2 * (size_t)p.row] * a->width + p.column];
}
KERNEL(rows_keep)

static void rows_gather(struct stream *s, uint32_t count, uint32_t width, const uint32_t *source, const float *rows,
                        const float *cache, float *out)
{
    struct cache_args a = {width, source, rows, cache, out};
    rows_gather_run(s, (size_t)count * width, &a);
}

static void rows_keep(struct stream *s, uint32_t count, uint32_t width, const uint32_t *keep, const float *rows,
                      float *cache)
{
    struct cache_args a = {width, keep, rows, NULL, cache};
    rows_keep_run(s, (size_t)count * width, &a);
}

void cuda_pool_fill(struct backend_ops *o)
{
    o->pool_forward = pool_forward;
    o->rows_gather = rows_gather;
    o->rows_keep = rows_keep;
}
