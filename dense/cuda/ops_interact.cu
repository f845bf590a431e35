/* ops_interact.cu: the kernels of dense/ops_interact.h, and sums over pairs of vectors. */
#include "dense/cuda/stream.h"
#include "proto/base/minmax.h"

/* ---- pairs, summed --------------------------------------------------------------------------- */

struct fm_args {
    uint32_t fields, dim, ldx, stride, lddx;
    const float *x;
    float *sums;  /* (count, dim) */
    float *pairs; /* (count, dim), scratch */
    float *logit;
    const float *dlogit;
    bool add;
    bool aligned; /* x, and dx on the way back, are aligned; dim is a multiple of four */
    float *dx;
};

#define fm_sums_args fm_args
#define fm_logit_args fm_args
#define fm_gradient_args fm_args

/* Element i sums four columns of the vectors over the fields. */
BODY void fm_sums_at(const struct fm_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->dim);
    const float *v = a->x + (size_t)p.row * a->ldx + p.column;
    size_t to = (size_t)p.row * a->dim + p.column;
    struct four sum = {{0.0f, 0.0f, 0.0f, 0.0f}}, squares = sum;
    for (uint32_t f = 0; f < a->fields; f++, v += a->dim) {
        struct four x = four_load(v, p.count, a->aligned);
        for (uint32_t j = 0; j < FOUR; j++) {
            sum.v[j] += x.v[j];
            squares.v[j] += x.v[j] * x.v[j];
        }
    }
    for (uint32_t j = 0; j < FOUR; j++)
        squares.v[j] = sum.v[j] * sum.v[j] - squares.v[j];
    four_store(a->sums + to, p.count, a->aligned, &sum);
    four_store(a->pairs + to, p.count, a->aligned, &squares);
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

/* Element i takes four columns; `aligned`: all of one field. */
BODY void fm_gradient_at(const struct fm_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->fields * a->dim);
    struct four v = four_load(a->x + (size_t)p.row * a->ldx + p.column, p.count, a->aligned), sum,
                x = {{0.0f, 0.0f, 0.0f, 0.0f}};
    const float *sums = a->sums + (size_t)p.row * a->dim;
    float *to = a->dx + (size_t)p.row * a->lddx + p.column,
          d = a->dlogit[(size_t)p.row * a->stride];
    if (a->aligned)
        sum = four_load(sums + p.column % a->dim, FOUR, true);
    else
        for (uint32_t j = 0; j < FOUR; j++)
            sum.v[j] = sums[(p.column + j) % a->dim];
    if (a->add)
        x = four_load(to, p.count, a->aligned);
    for (uint32_t j = 0; j < FOUR; j++) {
        float g = (sum.v[j] - v.v[j]) * d;
        sum_put(&x.v[j], g, a->add);
    }
    four_store(to, p.count, a->aligned, &x);
}
KERNEL(fm_gradient)

static void fm_forward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                       const float *x, uint32_t ldx, float *sums, float *logit, uint32_t stride)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    float *pairs = (float *)cuda_scratch(s, (size_t)count * dim * sizeof *pairs);
    struct fm_args a = {fields, dim,  ldx,   stride,
                        0,      x,    sums,  pairs,
                        logit,  NULL, false, fours_lie(x, ldx) && fours_lie(sums, dim),
                        NULL};
    if (pairs == NULL)
        return;
    fm_sums_run(s, (size_t)count * fours_of(dim), &a);
    fm_logit_run(s, count, &a);
    cuda_scratch_return(s, mark);
}

static void fm_backward(struct stream *s, uint32_t count, uint32_t fields, uint32_t dim,
                        const float *x, uint32_t ldx, const float *sums, const float *dlogit,
                        uint32_t stride, bool add, float *dx, uint32_t lddx)
{
    bool aligned = fours_lie(x, ldx) && fours_lie(sums, dim) && fours_lie(dx, lddx);
    struct fm_args a = {fields, dim,  ldx,    stride, lddx,    x, (float *)sums,
                        NULL,   NULL, dlogit, add,    aligned, dx};
    fm_gradient_run(s, (size_t)count * fours_of(fields * dim), &a);
}

void cuda_fm_fill(struct backend_ops *o)
{
    o->fm_forward = fm_forward;
    o->fm_backward = fm_backward;
}

/* ---- products of pairs ----------------------------------------------------------------------- */

BODY float dot_by_four(const float *v, const float *w, uint32_t dim)
{
    float sum = 0.0f;
    for (uint32_t d = 0; d < dim; d += FOUR) {
        struct four p = four_load(v + d, FOUR, true), q = four_load(w + d, FOUR, true);
        for (uint32_t j = 0; j < FOUR; j++)
            sum += p.v[j] * q.v[j];
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

/* The row i of the product at place `at`: products_at(i, 0) <= at < products_at(i + 1, 0). The
 * search begins at the square root, which is close to i. */
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

/* One product, or one float of the copied vector. */
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
    if (a->by_four)
        *y = dot_by_four(v, w, a->p.dim);
    else
        *y = dot(v, w, a->p.dim);
}
KERNEL(products_forward)

static uint32_t products_kept(const struct products_args *p)
{
    if (p->keep)
        return p->dim;
    return 0;
}

static void cuda_products_forward(struct stream *s, const struct products_args *p)
{
    struct products_forward_args a;
    a.p = *p;
    a.kept = products_kept(p);
    a.width = a.kept + products_pairs(p->vectors);
    a.by_four = p->dim % FOUR == 0 && fours_lie(p->x, p->ldx);
    products_forward_run(s, (size_t)p->count * a.width, &a);
}

struct products_backward_args {
    struct products_args p;
    uint32_t kept;
    bool aligned; /* x, dx, and each vector in them */
};

/* Four columns of vector i's gradient, summed over the other vectors. */
BODY struct four products_back_sum(const struct products_backward_args *a, const float *x,
                                   const float *pairs, uint32_t i, uint32_t count)
{
    struct four sum = {{0.0f, 0.0f, 0.0f, 0.0f}};
    const float *row = pairs + products_at(i, 0);
    for (uint32_t j = 0; j < i; j++) {
        struct four v = four_load(x + (size_t)j * a->p.dim, count, a->aligned);
        for (uint32_t d = 0; d < FOUR; d++)
            sum.v[d] += row[j] * v.v[d];
    }
    for (uint32_t j = i + 1; j < a->p.vectors; j++) {
        struct four v = four_load(x + (size_t)j * a->p.dim, count, a->aligned);
        float pair = pairs[products_at(j, i)];
        for (uint32_t d = 0; d < FOUR; d++)
            sum.v[d] += pair * v.v[d];
    }
    return sum;
}

/* Element i computes four columns of a vector's gradient. */
BODY void products_backward_at(const struct products_backward_args *a, size_t i)
{
    uint32_t dim = a->p.dim, vectors = a->p.vectors, each = fours_of(dim);
    struct place at = place_of(i, vectors * each), in = place_of(at.column, each);
    uint32_t column = in.column * FOUR, count = MIN(dim - column, FOUR);
    const float *x = a->p.x + (size_t)at.row * a->p.ldx + column,
                *dy = a->p.dy + (size_t)at.row * a->p.lddy;
    float *dx = a->p.dx + (size_t)at.row * a->p.lddx + (size_t)in.row * dim + column;
    struct four sum = products_back_sum(a, x, dy + a->kept, in.row, count);
    if (a->p.add) {
        struct four was = four_load(dx, count, a->aligned);
        for (uint32_t d = 0; d < FOUR; d++)
            sum.v[d] += was.v[d];
    }
    for (uint32_t d = 0; d < FOUR && a->kept > 0 && in.row == vectors - 1; d++)
        sum.v[d] += d < count ? dy[column + d] : 0.0f;
    four_store(dx, count, a->aligned, &sum);
}
KERNEL(products_backward)

static void cuda_products_backward(struct stream *s, const struct products_args *p)
{
    struct products_backward_args a;
    a.p = *p;
    a.kept = products_kept(p);
    a.aligned = p->dim % FOUR == 0 && fours_lie(p->x, p->ldx) && fours_lie(p->dx, p->lddx);
    products_backward_run(s, (size_t)p->count * p->vectors * fours_of(p->dim), &a);
}

/* ---- cross layers ---------------------------------------------------------------------------- */

struct cross_forward_args {
    struct cross_args c;
    bool aligned; /* x0, x, u, y */
    bool aligned_bias;
    struct narrow_to also;
};

/* Element i takes four columns. */
BODY void cross_forward_at(const struct cross_forward_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->c.width);
    size_t row = p.row;
    struct four x0 = four_load(a->c.x0 + row * a->c.ldx0 + p.column, p.count, a->aligned),
                x = four_load(a->c.x + row * a->c.ldx + p.column, p.count, a->aligned),
                u = four_load(a->c.u + row * a->c.ldu + p.column, p.count, a->aligned),
                bias = four_load(a->c.bias + p.column, p.count, a->aligned_bias);
    for (uint32_t j = 0; j < FOUR; j++)
        x.v[j] = x0.v[j] * (u.v[j] + bias.v[j]) + x.v[j];
    four_store(a->c.y + row * a->c.ldy + p.column, p.count, a->aligned, &x);
    if (a->also.to)
        narrow_store(&a->also, p.row, p.column, a->c.width, &x);
}
KERNEL(cross_forward)

static void cuda_cross_forward(struct stream *s, const struct cross_args *c)
{
    struct cross_forward_args a;
    memset(&a, 0, sizeof a);
    a.c = *c;
    a.aligned = fours_lie(c->x0, c->ldx0) && fours_lie(c->x, c->ldx) && fours_lie(c->u, c->ldu) &&
                fours_lie(c->y, c->ldy);
    a.aligned_bias = fours_lie(c->bias, 0);
    a.also = cuda_narrow_keep(s, c->y, c->count, c->width, c->ldy);
    cross_forward_run(s, (size_t)c->count * fours_of(c->width), &a);
}

/* rows that an element loads at once */
#define CROSS_AHEAD 2u

struct cross_backward_args {
    struct cross_args c;
    bool aligned; /* x0, u, dy, dx0 */
    bool aligned_bias;
    double *partial;          /* (chunks, width): partial sums of the bias's gradient */
    struct narrow_to instead; /* takes u's gradient in 16 bits, when `to` is set */
};

/* The inputs of an element in one row. */
struct cross_row {
    struct four dy, u, x0, dx0;
};

BODY struct cross_row cross_row_of(const struct cross_backward_args *a, size_t row, uint32_t column,
                                   uint32_t count, uint32_t wanted)
{
    struct cross_row r;
    r.dy = four_load(a->c.dy + row * a->c.lddy + column, count, a->aligned);
    r.u = four_load(a->c.u + row * a->c.ldu + column, count, a->aligned);
    r.x0 = four_load(a->c.x0 + row * a->c.ldx0 + column, count, a->aligned);
    if (a->c.add && wanted > 0)
        r.dx0 = four_load(a->c.dx0 + row * a->c.lddx0 + column, wanted, a->aligned);
    else
        memset(&r.dx0, 0, sizeof r.dx0);
    return r;
}

/* Computes dx0 and u's gradient for a row; r->u becomes that gradient. */
BODY void cross_row_back(const struct cross_backward_args *a, struct cross_row *r, size_t row,
                         const struct place_four *p, uint32_t wanted, const struct four *bias)
{
    for (uint32_t j = 0; j < FOUR; j++) {
        float d = r->dy.v[j], to = d * (r->u.v[j] + bias->v[j]);
        if (a->c.first)
            to += d;
        r->dx0.v[j] = a->c.add ? r->dx0.v[j] + to : to;
        r->u.v[j] = d * r->x0.v[j];
    }
    if (wanted > 0)
        four_store(a->c.dx0 + row * a->c.lddx0 + p->column, wanted, a->aligned, &r->dx0);
    if (a->instead.to)
        narrow_store(&a->instead, (uint32_t)row, p->column, a->c.width, &r->u);
    else
        four_store(a->c.u + row * a->c.ldu + p->column, p->count, a->aligned, &r->u);
}

/* Element i takes four columns of SUM_CHUNK rows. */
BODY void cross_backward_at(const struct cross_backward_args *a, size_t i)
{
    struct place_four p = place_four_of(i, a->c.width);
    uint32_t end = part_end(p.row, SUM_CHUNK, a->c.count),
             left = a->c.dx0_width > p.column ? a->c.dx0_width - p.column : 0,
             wanted = MIN(left, FOUR);
    struct four bias = four_load(a->c.bias + p.column, p.count, a->aligned_bias);
    double sum[FOUR] = {0.0, 0.0, 0.0, 0.0};
    for (uint32_t row = p.row * SUM_CHUNK; row < end; row += CROSS_AHEAD) {
        struct cross_row r[CROSS_AHEAD];
        EACH (k, CROSS_AHEAD)
            r[k] = cross_row_of(a, MIN(row + k, end - 1), p.column, p.count, wanted);
        EACH (k, CROSS_AHEAD) {
            if (row + k >= end)
                continue;
            cross_row_back(a, &r[k], row + k, &p, wanted, &bias);
            for (uint32_t j = 0; j < FOUR; j++)
                sum[j] += (double)r[k].u.v[j];
        }
    }
    for (uint32_t j = 0; j < FOUR; j++)
        if (j < p.count)
            a->partial[(size_t)p.row * a->c.width + p.column + j] = sum[j];
}
KERNEL(cross_backward)

static void cuda_cross_backward(struct stream *s, const struct cross_args *c)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    struct cross_backward_args a;
    uint32_t chunks = sum_chunks(c->count);
    memset(&a, 0, sizeof a);
    a.c = *c;
    a.aligned = fours_lie(c->x0, c->ldx0) && fours_lie(c->u, c->ldu) && fours_lie(c->dy, c->lddy) &&
                fours_lie(c->dx0, c->lddx0);
    a.aligned_bias = fours_lie(c->bias, 0);
    a.partial = (double *)cuda_scratch(s, (size_t)chunks * c->width * sizeof *a.partial);
    if (!a.partial)
        return;
    a.instead = cuda_narrow_keep(s, c->u, c->count, c->width, c->ldu);
    cross_backward_run(s, (size_t)chunks * fours_of(c->width), &a);
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
    sum_put(y, x, a->add);
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

/* One column of dx0. */
BODY void cin_fields_back_at(const struct cin_fields_back_args *a, size_t i)
{
    uint32_t row = place_of(i, a->c.fields).row;
    const float *dz = a->c.dz + i * a->c.maps, *x = a->c.x + (size_t)row * a->c.maps;
    float sum = 0.0f;
    for (uint32_t m = 0; m < a->c.maps; m++)
        sum += dz[m] * x[m];
    sum_put(&a->c.dx0[i], sum, a->c.add0);
}
KERNEL(cin_fields_back)

struct cin_maps_back_args {
    struct cin_args c;
};

/* One column of dx. */
BODY void cin_maps_back_at(const struct cin_maps_back_args *a, size_t i)
{
    struct place at = place_of(i, a->c.maps);
    const float *dz = a->c.dz + (size_t)at.row * a->c.fields * a->c.maps + at.column,
                *x0 = a->c.x0 + (size_t)at.row * a->c.fields;
    float sum = 0.0f;
    for (uint32_t f = 0; f < a->c.fields; f++)
        sum += dz[(size_t)f * a->c.maps] * x0[f];
    sum_put(&a->c.dx[i], sum, a->c.add);
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
    sum_put(dx, d, a->add);
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
