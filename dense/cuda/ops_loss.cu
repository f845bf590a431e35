/* ops_loss.cu: the losses, and operations on whole arrays: scale, add, measure, clip. */
#include "dense/cuda/stream.h"

/* ---- loss ------------------------------------------------------------------------------------ */

struct loss_args {
    uint32_t tasks;
    struct loss_spec spec;
    float offset;
    const uint32_t *live; /* or NULL */
    const float *logit, *label, *weight, *factor;
    double *term; /* (count, tasks) */
    float *scores, *dlogit;
};

/* One example's loss, score and derivative. */
struct loss_one {
    double loss, score, slope;
};

BODY struct loss_one loss_make(double loss, double score, double slope)
{
    struct loss_one one;
    one.loss = loss;
    one.score = score;
    one.slope = slope;
    return one;
}

/* In double, which costs little: there is one value for each example and task. */
BODY struct loss_one loss_of(enum loss_kind kind, double delta, double z, double y)
{
    double error = z - y;
    if (kind == LOSS_MSE)
        return loss_make(error * error, z, 2.0 * error);
    if (kind == LOSS_HUBER && fabs(error) > delta)
        return loss_make(delta * (fabs(error) - 0.5 * delta), z, copysign(delta, error));
    if (kind == LOSS_HUBER)
        return loss_make(0.5 * error * error, z, error);
    double e = exp(-fabs(z)), score = (z >= 0 ? 1.0 : e) / (1.0 + e);
    return loss_make((z > 0 ? z : 0.0) - z * y + log1p(e), score, score - y);
}

BODY void loss_at(const struct loss_args *a, size_t i)
{
    struct place p = place_of(i, a->tasks);
    if (a->live != NULL && p.row >= *a->live) {
        a->term[i] = 0.0;
        if (a->dlogit)
            a->dlogit[i] = 0.0f;
        return;
    }
    double of_example = 1.0;
    if (a->weight)
        of_example = (double)a->weight[p.row];
    double z = (double)a->logit[i] + (double)a->offset, y = (double)a->label[i];
    bool there = !isnan(y);
    struct loss_one one = loss_of(a->spec.kind[p.column], a->spec.delta, z, y);
    double loss = there ? of_example * one.loss : 0.0;
    if (isnan(z))
        loss = z; /* the comparisons above would hide it */
    a->term[i] = loss;
    if (a->scores)
        a->scores[i] = (float)one.score;
    if (a->dlogit)
        a->dlogit[i] = there ? (float)((double)a->factor[p.column] * of_example * one.slope) : 0.0f;
}
KERNEL(loss)

static void loss_all(struct stream *s, uint32_t count, const uint32_t *live, uint32_t tasks,
                     const struct loss_spec *spec, const float *logit, float offset,
                     const float *label, const float *weight, const float *factor, double *loss,
                     float *scores, float *dlogit)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    double *term = (double *)cuda_scratch(s, (size_t)count * tasks * sizeof *term);
    struct loss_args a = {tasks,  *spec,  offset, live,   logit, label,
                          weight, factor, term,   scores, dlogit};
    if (term == NULL)
        return;
    loss_run(s, (size_t)count * tasks, &a);
    cuda_columns_add_double(s, term, count, tasks, loss);
    cuda_scratch_return(s, mark);
}

/* ---- whole arrays ---------------------------------------------------------------------------- */

struct scale_args {
    float factor;
    const float *by; /* device memory that holds the factor, or NULL: `factor` */
    const float *x;
    float *y;
};

BODY void scale_at(const struct scale_args *a, size_t i)
{
    float factor = a->factor;
    if (a->by)
        factor = *a->by;
    a->y[i] = a->x[i] * factor;
}
KERNEL(scale)

static void scale(struct stream *s, size_t count, float factor, const float *x, float *y)
{
    struct scale_args a = {factor, NULL, x, y};
    if (factor == 0.0f)
        cuda_zero(s, y, count * sizeof *y);
    else
        scale_run(s, count, &a);
}

static void scale_by(struct stream *s, size_t count, const float *factor, float *y)
{
    struct scale_args a = {0.0f, factor, y, y};
    scale_run(s, count, &a);
}

struct add_args {
    uint32_t width, ldx, ldy;
    const float *x;
    float *y;
};

BODY void add_at(const struct add_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    a->y[(size_t)p.row * a->ldy + p.column] += a->x[(size_t)p.row * a->ldx + p.column];
}
KERNEL(add)

static void add(struct stream *s, uint32_t count, uint32_t width, const float *x, uint32_t ldx,
                float *y, uint32_t ldy)
{
    struct add_args a = {width, ldx, ldy, x, y};
    add_run(s, (size_t)count * width, &a);
}

#define matrix_copy_args add_args

BODY void matrix_copy_at(const struct matrix_copy_args *a, size_t i)
{
    struct place p = place_of(i, a->width);
    a->y[(size_t)p.row * a->ldy + p.column] = a->x[(size_t)p.row * a->ldx + p.column];
}
KERNEL(matrix_copy)

void cuda_matrix_copy(struct stream *s, uint32_t rows, uint32_t columns, const float *from,
                      uint32_t ld, float *to, uint32_t ld_to)
{
    struct add_args a = {columns, ld, ld_to, from, to};
    matrix_copy_run(s, (size_t)rows * columns, &a);
}

struct squares_args {
    const float *x;
    size_t n, parts;
    double *to; /* (parts) */
};

/* Part i sums the squares of values i, i + parts, i + 2 parts .. */
BODY void squares_at(const struct squares_args *a, size_t i)
{
    double sum = 0.0;
    for (size_t j = i; j < a->n; j += a->parts)
        sum += (double)a->x[j] * (double)a->x[j];
    a->to[i] = sum;
}
KERNEL(squares)

static void square_sum(struct stream *s, size_t count, const float *x, double *sum)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    size_t parts = (count + SUM_CHUNK - 1) / SUM_CHUNK;
    double *to = (double *)cuda_scratch(s, parts * sizeof *to);
    struct squares_args a = {x, count, parts, to};
    if (to == NULL)
        return;
    squares_run(s, parts, &a);
    cuda_sum_add(s, to, parts, sum);
    cuda_scratch_return(s, mark);
}

struct clip_args {
    double limit;
    const double *square;
    float *x;
};

BODY void clip_at(const struct clip_args *a, size_t i)
{
    double norm = sqrt(*a->square);
    if (norm > a->limit && isfinite(norm))
        a->x[i] *= (float)(a->limit / norm);
}
KERNEL(clip)

static void clip(struct stream *s, size_t count, double limit, const double *square, float *x)
{
    struct clip_args a = {limit, square, x};
    clip_run(s, count, &a);
}

struct clip_rows_args {
    uint32_t width;
    float limit;
    float *factor; /* (rows), scratch */
    float *x;
};

#define clip_factor_args clip_rows_args

BODY void clip_factor_at(const struct clip_rows_args *a, size_t i)
{
    double square = 0.0;
    for (uint32_t d = 0; d < a->width; d++)
        square += (double)a->x[i * a->width + d] * (double)a->x[i * a->width + d];
    double norm = sqrt(square);
    bool clips = norm > (double)a->limit && isfinite(norm);
    a->factor[i] = 1.0f;
    if (clips)
        a->factor[i] = (float)((double)a->limit / norm);
}
KERNEL(clip_factor)

BODY void clip_rows_at(const struct clip_rows_args *a, size_t i)
{
    float factor = a->factor[place_of(i, a->width).row];
    if (factor != 1.0f)
        a->x[i] *= factor;
}
KERNEL(clip_rows)

static void clip_rows(struct stream *s, uint32_t count, uint32_t width, float limit, float *x)
{
    struct scratch_mark mark = cuda_scratch_mark(s);
    float *factor = (float *)cuda_scratch(s, count * sizeof *factor);
    struct clip_rows_args a = {width, limit, factor, x};
    if (factor == NULL)
        return;
    clip_factor_run(s, count, &a);
    clip_rows_run(s, (size_t)count * width, &a);
    cuda_scratch_return(s, mark);
}

void cuda_loss_fill(struct backend_ops *o)
{
    o->loss = loss_all;
    o->scale = scale;
    o->scale_by = scale_by;
    o->add = add;
    o->square_sum = square_sum;
    o->clip = clip;
    o->clip_rows = clip_rows;
}
