/* ops_sum.cu: sums over many elements in stages: a tree whose nodes add SUM_CHUNK terms in their
 * order. At each stage neighbouring elements read neighbouring memory. */
#include "dense/cuda/kernel.h"

/* ---- columns --------------------------------------------------------------------------------- */

struct columns_args {
    const double *from; /* (rows, width) */
    uint32_t rows, width;
    double *to; /* (parts, width); in the last stage (width), and added to */
    float *out; /* (width), added to; or NULL */
};

/* terms that are loaded at once, before the first of them has arrived */
#define SUM_AHEAD 16u

BODY double column_sum(const struct columns_args *a, struct place at)
{
    uint32_t end = part_end(at.row, SUM_CHUNK, a->rows);
    double sum = 0.0;
    for (uint32_t i = at.row * SUM_CHUNK; i < end; i += SUM_AHEAD) {
        double term[SUM_AHEAD];
        EACH (j, SUM_AHEAD)
            term[j] = i + j < end ? a->from[(size_t)(i + j) * a->width + at.column] : 0.0;
        EACH (j, SUM_AHEAD)
            sum += i + j < end ? term[j] : 0.0;
    }
    return sum;
}

#define columns_stage_args columns_args
#define columns_end_args columns_args

BODY void columns_stage_at(const struct columns_args *a, size_t i)
{
    a->to[i] = column_sum(a, place_of(i, a->width));
}
KERNEL(columns_stage)

BODY void columns_end_at(const struct columns_args *a, size_t i)
{
    double sum = column_sum(a, place_of(i, a->width));
    if (a->out)
        a->out[i] += (float)sum;
    else
        a->to[i] += sum;
}
KERNEL(columns_end)

static void columns_add(struct stream *s, const double *partial, uint32_t rows, uint32_t width,
                        double *sum, float *out)
{
    while (rows > SUM_CHUNK) {
        uint32_t parts = sum_chunks(rows);
        double *to = (double *)cuda_scratch(s, (size_t)parts * width * sizeof *to);
        if (to == NULL)
            return;
        struct columns_args a = {partial, rows, width, to, NULL};
        columns_stage_run(s, (size_t)parts * width, &a);
        partial = to;
        rows = parts;
    }
    struct columns_args end = {partial, rows, width, sum, out};
    if (rows > 0)
        columns_end_run(s, width, &end);
}

void cuda_columns_add(struct stream *s, double *partial, uint32_t rows, uint32_t width, float *out)
{
    columns_add(s, partial, rows, width, NULL, out);
}

void cuda_columns_add_double(struct stream *s, double *partial, uint32_t rows, uint32_t width,
                             double *out)
{
    columns_add(s, partial, rows, width, out, NULL);
}

/* ---- one number ------------------------------------------------------------------------------ */

struct sum_args {
    const double *from;
    size_t n, parts;
    double *to; /* (parts); in the last stage *to is added to */
    bool end;
};

/* Part i sums values i, i + parts, i + 2 parts .. */
BODY void sum_at(const struct sum_args *a, size_t i)
{
    double sum = 0.0;
    for (size_t j = i; j < a->n; j += a->parts)
        sum += a->from[j];
    if (a->end)
        sum += a->to[i];
    a->to[i] = sum;
}
KERNEL(sum)

void cuda_sum_add(struct stream *s, double *value, size_t n, double *out)
{
    while (n > SUM_CHUNK) {
        size_t parts = (n + SUM_CHUNK - 1) / SUM_CHUNK;
        double *to = (double *)cuda_scratch(s, parts * sizeof *to);
        if (to == NULL)
            return;
        struct sum_args a = {value, n, parts, to, false};
        sum_run(s, parts, &a);
        value = to;
        n = parts;
    }
    struct sum_args end = {value, n, 1, out, true};
    if (n > 0)
        sum_run(s, 1, &end);
}
