/* ops_interact.cu: kernels of dense/ops_interact.h on the device, and of pairs that are summed. */
#include "dense/cuda/stream.h"

/* ---- pairs, summed --------------------------------------------------------------------------- */

struct fm_args {
    uint32_t fields, dim, ldx, stride, lddx;
    const float *x;
    float *sums;  /* (count, dim) */
    float *pairs; /* (count, dim), scratch */
    float *logit;
    const float *dlogit;
    bool add;
    float *dx;
};

#define fm_sums_args fm_args
#define fm_logit_args fm_args
#define fm_gradient_args fm_args

/* One place of the vectors, over the fields. */
BODY void fm_sums_at(const struct fm_args *a, size_t i)
{
    struct place p = place_of(i, a->dim);
    const float *v = a->x + (size_t)p.row * a->ldx + p.column;
    float sum = 0.0f, squares = 0.0f;
    for (uint32_t f = 0; f < a->fields; f++, v += a->dim) {
        sum += *v;
        squares += *v * *v;
    }
    a->sums[i] = sum;
    a->pairs[i] = sum * sum - squares;
}
KERNEL(fm_sums)

BODY void fm_logit_at(const struct fm_args *a, size_t i)
{
    float sum = 0.0f;
    for (uint32_t d = 0; d < a->dim; d++)
        sum += a->pairs[i * a->dim + d];
    a->logit[i * a->stride] += 0.5f * sum;
}
KERNEL(fm_logit)

BODY void fm_gradient_at(const struct fm_args *a, size_t i)
{
    struct place p = place_of(i, a->fields * a->dim);
    float v = a->x[(size_t)p.row * a->ldx + p.column];
    float d = (a->sums[(size_t)p.row * a->dim + p.column % a->dim] - v) *
              a->dlogit[(size_t)p.row * a->stride];
    float *to = a->dx + (size_t)p.row * a->lddx + p.column;
    *to = a->add ? *to + d : d;
}
KERNEL(fm_gradient)

static void fm_forward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                       const float *x, uint32_t ldx, float *sums, float *logit, uint32_t stride)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    float *pairs = (float *)cuda_scratch(s, (size_t)count * dim * sizeof *pairs);
    struct fm_args a = {fields, dim, ldx, stride, 0, x, sums, pairs, logit, NULL, false, NULL};
    if (pairs == NULL)
        return;
    fm_sums_run(s, (size_t)count * dim, &a);
    fm_logit_run(s, count, &a);
    cuda_scratch_return(s, mark);
}

static void fm_backward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                        const float *x, uint32_t ldx, const float *sums, const float *dlogit,
                        uint32_t stride, bool add, float *dx, uint32_t lddx)
{
    struct fm_args a = {fields,        dim,  ldx,  stride, lddx, x,
                        (float *)sums, NULL, NULL, dlogit, add,  dx};
    fm_gradient_run(s, (size_t)count * fields * dim, &a);
}

void cuda_fm_fill(struct backend_ops *o)
{
    o->fm_forward = fm_forward;
    o->fm_backward = fm_backward;
}

/* ---- products of pairs ----------------------------------------------------------------------- */

/* Four numbers that are loaded as one, where every vector begins at a multiple of them. */
struct four {
    float a, b, c, d;
} __attribute__((aligned(16)));

BODY float dot_by_four(const float *v, const float *w, uint32_t dim)
{
    float sum = 0.0f;
    for (uint32_t d = 0; d < dim; d += 4) {
        struct four p = *(const struct four *)(const void *)(v + d),
                    q = *(const struct four *)(const void *)(w + d);
        sum += p.a * q.a;
        sum += p.b * q.b;
        sum += p.c * q.c;
        sum += p.d * q.d;
    }
    return sum;
}

BODY float dot(const float *v, const float *w, uint32_t dim)
{
    float sum = 0.0f;
    for (uint32_t d = 0; d < dim; d++)
        sum += v[d] * w[d];
    return sum;
}

/* The row i of products whose place is `at`: products_at(i, 0) <= at. The root is near it. */
BODY uint32_t products_row_of(uint32_t at)
{
    uint32_t i = (uint32_t)(0.5f + sqrtf(2.0f * (float)at + 0.25f));
    while (i > 1 && products_at(i, 0) > at)
        i--;
    while (products_at(i + 1, 0) <= at)
        i++;
    return i;
}

struct products_forward_args {
    struct products_args p;
    uint32_t kept, width;
    bool by_four;
};

/* One product, or one number of the copy. */
BODY void products_forward_at(const struct products_forward_args *a, size_t i)
{
    struct place at = place_of(i, a->width);
    const float *x = a->p.x + (size_t)at.row * a->p.ldx;
    float *y = a->p.y + (size_t)at.row * a->p.ldy + at.column;
    if (at.column < a->kept) {
        *y = x[(size_t)(a->p.vectors - 1) * a->p.dim + at.column];
        return;
    }
    uint32_t pair = at.column - a->kept, row = products_row_of(pair);
    const float *v = x + (size_t)row * a->p.dim,
                *w = x + (size_t)(pair - products_at(row, 0)) * a->p.dim;
    *y = a->by_four ? dot_by_four(v, w, a->p.dim) : dot(v, w, a->p.dim);
}
KERNEL(products_forward)

static void cuda_products_forward(struct stream *s, const struct products_args *p)
{
    struct products_forward_args a;
    a.p = *p;
    a.kept = p->keep ? p->dim : 0;
    a.width = a.kept + products_pairs(p->vectors);
    a.by_four = p->dim % 4 == 0 && p->ldx % 4 == 0 && (uintptr_t)p->x % 16 == 0;
    products_forward_run(s, (size_t)p->count * a.width, &a);
}

struct products_backward_args {
    struct products_args p;
    uint32_t kept;
};

/* One number of a vector's gradient. */
BODY void products_backward_at(const struct products_backward_args *a, size_t i)
{
    uint32_t dim = a->p.dim, vectors = a->p.vectors;
    struct place at = place_of(i, vectors * dim), in = place_of(at.column, dim);
    const float *x = a->p.x + (size_t)at.row * a->p.ldx + in.column,
                *dy = a->p.dy + (size_t)at.row * a->p.lddy;
    const float *pairs = dy + a->kept, *row = pairs + products_at(in.row, 0);
    float *dx = a->p.dx + (size_t)at.row * a->p.lddx + at.column, sum = 0.0f;
    for (uint32_t j = 0; j < in.row; j++)
        sum += row[j] * x[(size_t)j * dim];
    for (uint32_t j = in.row + 1; j < vectors; j++)
        sum += pairs[products_at(j, in.row)] * x[(size_t)j * dim];
    if (a->p.add)
        sum += *dx;
    if (a->kept > 0 && in.row == vectors - 1)
        sum += dy[in.column];
    *dx = sum;
}
KERNEL(products_backward)

static void cuda_products_backward(struct stream *s, const struct products_args *p)
{
    struct products_backward_args a;
    a.p = *p;
    a.kept = p->keep ? p->dim : 0;
    products_backward_run(s, (size_t)p->count * p->vectors * p->dim, &a);
}

/* ---- cross layers ---------------------------------------------------------------------------- */

struct cross_forward_args {
    struct cross_args c;
};

BODY void cross_forward_at(const struct cross_forward_args *a, size_t i)
{
    struct place at = place_of(i, a->c.width);
    float x0 = a->c.x0[(size_t)at.row * a->c.ldx0 + at.column],
          x = a->c.x[(size_t)at.row * a->c.ldx + at.column];
    a->c.y[(size_t)at.row * a->c.ldy + at.column] = x0 * (a->c.u[i] + a->c.bias[at.column]) + x;
}
KERNEL(cross_forward)

static void cuda_cross_forward(struct stream *s, const struct cross_args *c)
{
    struct cross_forward_args a;
    a.c = *c;
    cross_forward_run(s, (size_t)c->count * c->width, &a);
}

struct cross_backward_args {
    struct cross_args c;
    double *partial; /* (chunks, width): sums for the bias */
};

/* A column of SUM_CHUNK rows. */
BODY void cross_backward_at(const struct cross_backward_args *a, size_t i)
{
    struct place at = place_of(i, a->c.width);
    uint32_t j = at.column, end = part_end(at.row, SUM_CHUNK, a->c.count);
    float bias = a->c.bias[j];
    double sum = 0.0;
    for (uint32_t row = at.row * SUM_CHUNK; row < end; row++) {
        float d = a->c.dy[(size_t)row * a->c.lddy + j], *u = a->c.u + (size_t)row * a->c.width + j;
        if (j < a->c.dx0_width) {
            float *dx0 = a->c.dx0 + (size_t)row * a->c.lddx0 + j, to = d * (*u + bias);
            if (a->c.first)
                to += d;
            *dx0 = a->c.add ? *dx0 + to : to;
        }
        d *= a->c.x0[(size_t)row * a->c.ldx0 + j];
        *u = d;
        sum += (double)d;
    }
    a->partial[i] = sum;
}
KERNEL(cross_backward)

static void cuda_cross_backward(struct stream *s, const struct cross_args *c)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct cross_backward_args a;
    uint32_t chunks = sum_chunks(c->count);
    a.c = *c;
    a.partial = (double *)cuda_scratch(s, (size_t)chunks * c->width * sizeof *a.partial);
    if (!a.partial)
        return;
    cross_backward_run(s, (size_t)chunks * c->width, &a);
    cuda_columns_add(s, a.partial, chunks, c->width, c->dbias);
    cuda_scratch_return(s, mark);
}

/* ---- the compressed interaction network ------------------------------------------------------ */

struct turn_args {
    uint32_t fields, dim;
    const float *x;
    uint32_t ldx;
    bool add;
    float *y;
    uint32_t ldy;
};

BODY void turn_at(const struct turn_args *a, size_t i)
{
    struct place at = place_of(i, a->fields * a->dim), to = place_of(at.column, a->fields);
    float *y = a->y + (size_t)at.row * a->ldy + at.column;
    float x = a->x[(size_t)at.row * a->ldx + (size_t)to.column * a->dim + to.row];
    *y = a->add ? *y + x : x;
}
KERNEL(turn)

static void cuda_turn(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                      const float *x, uint32_t ldx, bool add, float *y, uint32_t ldy)
{
    struct turn_args a;
    a.fields = fields;
    a.dim = dim;
    a.x = x;
    a.ldx = ldx;
    a.add = add;
    a.y = y;
    a.ldy = ldy;
    turn_run(s, (size_t)count * fields * dim, &a);
}

struct cin_outer_args {
    struct cin_args c;
};

BODY void cin_outer_at(const struct cin_outer_args *a, size_t i)
{
    struct place at = place_of(i, a->c.fields * a->c.maps), in = place_of(at.column, a->c.maps);
    a->c.z[i] = a->c.x0[(size_t)at.row * a->c.fields + in.row] *
                a->c.x[(size_t)at.row * a->c.maps + in.column];
}
KERNEL(cin_outer)

static void cuda_cin_outer(struct stream *s, const struct cin_args *c)
{
    struct cin_outer_args a;
    a.c = *c;
    cin_outer_run(s, (size_t)c->rows * c->fields * c->maps, &a);
}

struct cin_fields_back_args {
    struct cin_args c;
};

/* One number of dx0. */
BODY void cin_fields_back_at(const struct cin_fields_back_args *a, size_t i)
{
    uint32_t row = place_of(i, a->c.fields).row;
    const float *dz = a->c.dz + i * a->c.maps, *x = a->c.x + (size_t)row * a->c.maps;
    float sum = 0.0f;
    for (uint32_t m = 0; m < a->c.maps; m++)
        sum += dz[m] * x[m];
    a->c.dx0[i] = a->c.add0 ? a->c.dx0[i] + sum : sum;
}
KERNEL(cin_fields_back)

struct cin_maps_back_args {
    struct cin_args c;
};

/* One number of dx. */
BODY void cin_maps_back_at(const struct cin_maps_back_args *a, size_t i)
{
    struct place at = place_of(i, a->c.maps);
    const float *dz = a->c.dz + (size_t)at.row * a->c.fields * a->c.maps + at.column,
                *x0 = a->c.x0 + (size_t)at.row * a->c.fields;
    float sum = 0.0f;
    for (uint32_t f = 0; f < a->c.fields; f++)
        sum += dz[(size_t)f * a->c.maps] * x0[f];
    a->c.dx[i] = a->c.add ? a->c.dx[i] + sum : sum;
}
KERNEL(cin_maps_back)

static void cuda_cin_outer_backward(struct stream *s, const struct cin_args *c)
{
    struct cin_fields_back_args fields;
    struct cin_maps_back_args maps;
    fields.c = *c;
    maps.c = *c;
    cin_fields_back_run(s, (size_t)c->rows * c->fields, &fields);
    cin_maps_back_run(s, (size_t)c->rows * c->maps, &maps);
}

struct cin_pool_args {
    uint32_t dim, maps;
    const float *x;
    uint32_t ldx;
    float *y;
    uint32_t ldy;
};

BODY void cin_pool_at(const struct cin_pool_args *a, size_t i)
{
    struct place at = place_of(i, a->maps);
    const float *x = a->x + (size_t)at.row * a->ldx + at.column;
    float sum = 0.0f;
    for (uint32_t d = 0; d < a->dim; d++)
        sum += x[(size_t)d * a->maps];
    a->y[(size_t)at.row * a->ldy + at.column] = sum;
}
KERNEL(cin_pool)

static void cuda_cin_pool(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps,
                          const float *x, uint32_t ldx, float *y, uint32_t ldy)
{
    struct cin_pool_args a;
    a.dim = dim;
    a.maps = maps;
    a.x = x;
    a.ldx = ldx;
    a.y = y;
    a.ldy = ldy;
    cin_pool_run(s, (size_t)count * maps, &a);
}

struct cin_pool_back_args {
    uint32_t dim, maps;
    const float *dy;
    uint32_t lddy;
    bool add;
    float *dx;
    uint32_t lddx;
};

BODY void cin_pool_back_at(const struct cin_pool_back_args *a, size_t i)
{
    struct place at = place_of(i, a->dim * a->maps), in = place_of(at.column, a->maps);
    float *dx = a->dx + (size_t)at.row * a->lddx + at.column,
          d = a->dy[(size_t)at.row * a->lddy + in.column];
    *dx = a->add ? *dx + d : d;
}
KERNEL(cin_pool_back)

static void cuda_cin_pool_backward(struct stream *s, uint32_t count, uint32_t dim, uint32_t maps,
                                   const float *dy, uint32_t lddy, bool add, float *dx,
                                   uint32_t lddx)
{
    struct cin_pool_back_args a;
    a.dim = dim;
    a.maps = maps;
    a.dy = dy;
    a.lddy = lddy;
    a.add = add;
    a.dx = dx;
    a.lddx = lddx;
    cin_pool_back_run(s, (size_t)count * dim * maps, &a);
}

void cuda_interact_fill(struct interact_ops *o)
{
    o->products_forward = cuda_products_forward;
    o->products_backward = cuda_products_backward;
    o->cross_forward = cuda_cross_forward;
    o->cross_backward = cuda_cross_backward;
    o->turn = cuda_turn;
    o->cin_outer = cuda_cin_outer;
    o->cin_outer_backward = cuda_cin_outer_backward;
    o->cin_pool = cuda_cin_pool;
    o->cin_pool_backward = cuda_cin_pool_backward;
}
