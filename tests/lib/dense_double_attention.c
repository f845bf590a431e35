/* dense_double_attention.c: layers of dense/ops_attention.h in double. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_double.h"

#include <math.h>
#include <stdlib.h>

static const double *parameter(const struct double_pass *p, const struct layer *l, uint32_t n)
{
    return p->dense + l->parameter[n];
}

/* Allocates `count` doubles of zeros; the caller frees them. */
static double *doubles(size_t count)
{
    double *d = calloc(count + 1, sizeof *d);
    if (d == NULL)
        abort();
    return d;
}

static double product(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

/* y (out) = act(w x + bias) */
static void linear(const double *w, const double *bias, enum activation act, const double *x,
                   uint32_t in, double *y, uint32_t out)
{
    for (uint32_t j = 0; j < out; j++)
        y[j] = double_act(act, product(w + (size_t)j * in, x, in) + (bias != NULL ? bias[j] : 0));
}

static void norm_row(const struct layer *l, const struct double_pass *p, const double *x, double *y,
                     uint32_t width)
{
    double mean = 0, variance = 0;
    for (uint32_t j = 0; j < width; j++)
        mean += x[j] / width;
    for (uint32_t j = 0; j < width; j++)
        variance += (x[j] - mean) * (x[j] - mean) / width;
    for (uint32_t j = 0; j < width; j++)
        y[j] = double_act(l->act, (x[j] - mean) / sqrt(variance + 1e-5) * parameter(p, l, 0)[j] +
                                      parameter(p, l, 1)[j]);
}

static void double_layer_norm(const struct layer *l, struct double_pass *p)
{
    uint32_t rows = l->number_of[LAYER_NORM_ROWS_AN_EXAMPLE], width = l->x.width / rows;
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t r = 0; r < rows; r++)
            norm_row(l, p, double_at(p, l->x, i) + r * width, double_at(p, l->y, i) + r * width,
                     width);
}

static void double_project(const struct layer *l, struct double_pass *p)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], in = l->x.width / fields,
             out = l->y.width / fields;
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t f = 0; f < fields; f++)
            linear(parameter(p, l, 0), NULL, ACT_NONE, double_at(p, l->x, i) + f * in, in,
                   double_at(p, l->y, i) + f * out, out);
}

/* Adds the output of head h for field f to y. */
static void double_head(const struct layer *l, const struct double_pass *p, uint32_t example,
                        uint32_t h, uint32_t f, double *y)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], heads = l->number_of[ATTENTION_HEADS];
    uint32_t width = l->y.width / fields, part = width / heads, row = l->x.width / fields;
    const double *x = double_at(p, l->x, example) + h * part;
    double *share = doubles(fields), sum = 0;
    for (uint32_t g = 0; g < fields; g++)
        sum += share[g] = exp(product(x + f * row, x + g * row + width, part) / sqrt((double)part));
    for (uint32_t g = 0; g < fields; g++) {
        double kept = double_dropout(p, l, ((example * heads + h) * fields + g) * fields + f);
        for (uint32_t d = 0; d < part; d++)
            y[h * part + d] += share[g] / sum * kept * x[g * row + 2 * width + d];
    }
    free(share);
}

static void double_attend(const struct layer *l, struct double_pass *p)
{
    uint32_t fields = l->number_of[ATTENTION_FIELDS], width = l->y.width / fields,
             row = l->x.width / fields;
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t f = 0; f < fields; f++) {
            double *y = double_at(p, l->y, i) + f * width;
            const double *residual = l->z.tensor == TENSOR_NONE
                                         ? double_at(p, l->x, i) + f * row + 3 * width
                                         : double_at(p, l->z, i) + f * width;
            for (uint32_t d = 0; d < width; d++)
                y[d] = residual[d];
            for (uint32_t h = 0; h < l->number_of[ATTENTION_HEADS]; h++)
                double_head(l, p, i, h, f, y);
        }
}

static void double_context(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < l->y.width; j++)
            double_at(p, l->y, i)[j] = parameter(p, l, 1)[j];
}

static void double_gate(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < l->y.width; j++)
            double_at(p, l->y, i)[j] = 2 * double_at(p, l->x, i)[j] * double_at(p, l->z, i)[j];
}

static void double_bilinear(const struct layer *l, struct double_pass *p)
{
    uint32_t heads = l->number_of[BILINEAR_HEADS], m = l->x.width / heads, n = l->z.width / heads;
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t h = 0; h < heads; h++)
            for (uint32_t a = 0; a < m; a++)
                for (uint32_t b = 0; b < n; b++)
                    *double_at(p, l->y, i) += double_at(p, l->x, i)[h * m + a] *
                                              parameter(p, l, 0)[(h * m + a) * n + b] *
                                              double_at(p, l->z, i)[h * n + b];
}

/* a(h, t) */
static double value_weight(const struct layer *l, const struct double_pass *p, const double *h,
                           const double *t)
{
    uint32_t dim = p->plan->dim, layers = l->number_of[SEQUENCE_LAYERS], in = 4 * dim;
    double *x = doubles(in), weight;
    for (uint32_t d = 0; d < dim; d++) {
        x[d] = h[d];
        x[dim + d] = t[d];
        x[2 * dim + d] = h[d] - t[d];
        x[3 * dim + d] = h[d] * t[d];
    }
    for (uint32_t i = 0; i < layers; i++) {
        uint32_t out = l->number_of[SEQUENCE_WIDTHS + i];
        double *y = doubles(out);
        linear(parameter(p, l, 2 * i), parameter(p, l, 2 * i + 1), l->act, x, in, y, out);
        free(x);
        x = y;
        in = out;
    }
    linear(parameter(p, l, 2 * layers), parameter(p, l, 2 * layers + 1), ACT_NONE, x, in, &weight,
           1);
    free(x);
    return weight;
}

static void double_sequence(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, begin, end;
    for (uint32_t i = 0; i < p->c->in.examples; i++) {
        double *y = double_at(p, l->y, i);
        for (uint32_t d = 0; d < dim; d++)
            y[d] = 0;
        double_values(p, i, l->number_of[SEQUENCE_FIELD], &begin, &end);
        for (uint32_t v = begin; v < end; v++) {
            const double *h = p->rows + (size_t)p->c->in.index[v] * (p->plan->first_order + dim) +
                              p->plan->first_order;
            double weight = value_weight(l, p, h, double_at(p, l->x, i));
            for (uint32_t d = 0; d < dim; d++)
                y[d] += weight * h[d];
        }
    }
}

const struct double_layer double_layers_attention[] = {{&layer_layer_norm, double_layer_norm},
                                                       {&layer_project, double_project},
                                                       {&layer_attend, double_attend},
                                                       {&layer_context, double_context},
                                                       {&layer_gate, double_gate},
                                                       {&layer_bilinear, double_bilinear},
                                                       {&layer_sequence, double_sequence},
                                                       {NULL, NULL}};
