/* dense_double_interact.c: layers of dense/ops_interact.h in double. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_double.h"

static const double *double_parameter(const struct double_pass *p, const struct layer *l,
                                      uint32_t n)
{
    return p->dense + l->parameter[n];
}

static void double_products(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, vectors = l->x.width / dim;
    bool keep = l->y.width > vectors * (vectors - 1) / 2;
    for (uint32_t e = 0; e < p->c->in.examples; e++) {
        const double *x = double_at(p, l->x, e);
        double *y = double_at(p, l->y, e);
        for (uint32_t d = 0; d < dim && keep; d++)
            *y++ = x[(vectors - 1) * dim + d];
        for (uint32_t i = 1; i < vectors; i++)
            for (uint32_t j = 0; j < i; j++) {
                *y = 0;
                for (uint32_t d = 0; d < dim; d++)
                    *y += x[i * dim + d] * x[j * dim + d];
                y++;
            }
    }
}

static void double_cross(const struct layer *l, struct double_pass *p)
{
    const double *w = double_parameter(p, l, 0), *bias = double_parameter(p, l, 1);
    for (uint32_t e = 0; e < p->c->in.examples; e++) {
        const double *x0 = double_at(p, l->z, e), *x = double_at(p, l->x, e);
        double *y = double_at(p, l->y, e);
        for (uint32_t j = 0; j < l->y.width; j++) {
            double u = bias[j];
            for (uint32_t k = 0; k < l->x.width; k++)
                u += w[j * l->x.width + k] * x[k];
            y[j] = x0[j] * u + x[j];
        }
    }
}

static void double_turn(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, fields = l->x.width / dim;
    for (uint32_t e = 0; e < p->c->in.examples; e++)
        for (uint32_t d = 0; d < dim; d++)
            for (uint32_t f = 0; f < fields; f++)
                double_at(p, l->y, e)[d * fields + f] = double_at(p, l->x, e)[f * dim + d];
}

static void double_cin(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, fields = l->z.width / dim, below = l->x.width / dim,
             maps = l->y.width / dim;
    for (uint32_t e = 0; e < p->c->in.examples; e++)
        for (uint32_t d = 0; d < dim; d++)
            for (uint32_t h = 0; h < maps; h++) {
                const double *w = double_parameter(p, l, 0) + h * fields * below;
                double sum = 0;
                for (uint32_t f = 0; f < fields; f++)
                    for (uint32_t m = 0; m < below; m++)
                        sum += *w++ * double_at(p, l->z, e)[d * fields + f] *
                               double_at(p, l->x, e)[d * below + m];
                double_at(p, l->y, e)[d * maps + h] = sum;
            }
}

static void double_cin_pool(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, maps = l->y.width;
    for (uint32_t e = 0; e < p->c->in.examples; e++)
        for (uint32_t h = 0; h < maps; h++) {
            double sum = 0;
            for (uint32_t d = 0; d < dim; d++)
                sum += double_at(p, l->x, e)[d * maps + h];
            double_at(p, l->y, e)[h] = sum;
        }
}

const struct double_layer double_layers_interact[] = {
    {&layer_products, double_products},
    {&layer_cross_first, double_cross},
    {&layer_cross, double_cross},
    {&layer_cin_turn, double_turn},
    {&layer_cin, double_cin},
    {&layer_cin_pool, double_cin_pool},
    {NULL, NULL},
};
