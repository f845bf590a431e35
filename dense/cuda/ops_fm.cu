/* ops_fm.cu: pairwise products of field vectors, by the square of their sum. */
#include "dense/cuda/stream.h"

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
