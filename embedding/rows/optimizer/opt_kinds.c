/* opt_kinds.c: the optimizers, each a plain C body compiled once for each vector level
 * (optimizer.h). */
#include "embedding/rows/optimizer/optimizer.h"
#include "proto/base/minmax.h"

#include <math.h>

/* ---- sgd ---- */

/* Plain gradient steps; no state. */

ISA_INLINE void sgd_block(float *restrict w, const float *restrict g, float lr, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w[i] = opt_finite(w[i] - lr * g[i], w[i]);
}

ISA_INLINE void sgd_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                         const uint32_t width)
{
    const float lr = p->lr;
#define BLOCK(at, n) sgd_block(row + (at), g + (at), lr, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(sgd, sgd_body)

void optimizer_sgd_start(float *row, const struct table_schema *s)
{
    (void)row;
    (void)s;
}

opt_update_fn optimizer_sgd_update(enum isa isa, uint32_t width)
{
    return sgd_pick(isa, width);
}

/* ---- adagrad ---- */

/* AdaGrad, element-wise (state: G of each weight) and row-wise (state: one G, of the
 * mean square); in both G may decay before each addition, so that old gradients are forgotten. */

ISA_INLINE void adagrad_block(float *restrict w, float *restrict state, const float *restrict g,
                              float lr, float eps, float decay, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = state[i] * decay + g[i] * g[i];
        state[i] = sum;
        w[i] = opt_finite(w[i] - lr * g[i] / (sqrtf(sum) + eps), w[i]);
    }
}

ISA_INLINE void adagrad_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                             const uint32_t width)
{
    const float lr = p->lr, eps = p->eps, decay = p->decay;
#define BLOCK(at, n) adagrad_block(row + (at), row + width + (at), g + (at), lr, eps, decay, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(adagrad, adagrad_body)

ISA_INLINE void step_block(float *restrict w, const float *restrict g, float step, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w[i] = opt_finite(w[i] - step * g[i], w[i]);
}

ISA_INLINE void adagrad_row_body(float *restrict row, const float *restrict g,
                                 const struct opt_step *p, const uint32_t width)
{
    float sum = row[width] * p->decay + optimizer_square_sum(g, width) / (float)width;
    row[width] = sum;
    const float step = p->lr / (sqrtf(sum) + p->eps);
#define BLOCK(at, n) step_block(row + (at), g + (at), step, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(adagrad_row, adagrad_row_body)

void optimizer_adagrad_start(float *row, const struct table_schema *s)
{
    for (uint32_t i = 0; i < s->width; i++)
        row[s->width + i] = s->optimizer.initial;
}

opt_update_fn optimizer_adagrad_update(enum isa isa, uint32_t width)
{
    return adagrad_pick(isa, width);
}

void optimizer_row_adagrad_start(float *row, const struct table_schema *s)
{
    row[s->width] = s->optimizer.initial;
}

opt_update_fn optimizer_row_adagrad_update(enum isa isa, uint32_t width)
{
    return adagrad_row_pick(isa, width);
}

/* ---- adam ---- */

/* Adam (Kingma, Ba 2015). State: m (width), v (width), then the powers of beta1 and beta2 as
 * running products, one multiplication a step, so that no libm is needed and a rarely touched row
 * is corrected by its own number of steps. */

struct adam_numbers {
    float beta1, beta2, rest1, rest2; /* rest = 1 - beta */
    float step;                       /* lr / (1 - beta1^t) */
    float root;                       /* sqrt(1 - beta2^t) */
    float eps;
};

ISA_INLINE void adam_block(float *restrict w, float *restrict m, float *restrict v,
                           const float *restrict g, const struct adam_numbers c, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float first = c.beta1 * m[i] + c.rest1 * g[i];
        float second = c.beta2 * v[i] + c.rest2 * (g[i] * g[i]);
        m[i] = first;
        v[i] = second;
        w[i] = opt_finite(w[i] - c.step * first / (sqrtf(second) / c.root + c.eps), w[i]);
    }
}

ISA_INLINE void adam_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                          const uint32_t width)
{
    float *power = row + 3 * (uint64_t)width;
    power[0] *= p->beta1;
    power[1] *= p->beta2;
    const struct adam_numbers c = {
        p->beta1,
        p->beta2,
        1.0f - p->beta1,
        1.0f - p->beta2,
        p->lr / (1.0f - power[0]),
        sqrtf(1.0f - power[1]),
        p->eps,
    };
#define BLOCK(at, n)                                                                               \
    adam_block(row + (at), row + width + (at), row + 2 * width + (at), g + (at), c, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(adam, adam_body)

void optimizer_adam_start(float *row, const struct table_schema *s)
{
    for (uint32_t i = 0; i < 2 * s->width; i++)
        row[s->width + i] = 0;
    row[3 * s->width] = 1;
    row[3 * s->width + 1] = 1;
}

opt_update_fn optimizer_adam_update(enum isa isa, uint32_t width)
{
    return adam_pick(isa, width);
}

/* ---- ctr_adagrad ---- */

/* The AdaGrad of Paddle's CTR tables (SparseAdaGradSGDRule in table/sparse_sgd_rule.cc): one G for
 * the first-order weights, one for the vector (state: two floats), each the sum of mean squares; an
 * update uses the G before it. */

/* Updates one segment: its step uses the old G, then G grows. */
ISA_INLINE void segment(float *restrict w, float *restrict sum, const float *restrict g,
                        const struct opt_step *p, const uint32_t n)
{
    if (n == 0)
        return;
    const float step = p->lr * sqrtf(p->initial / (p->initial + *sum));
    for (uint32_t i = 0; i < n; i++)
        w[i] = opt_finite(w[i] - step * g[i], w[i]);
    *sum += optimizer_square_sum(g, n) / (float)n;
}

ISA_INLINE void ctr_adagrad_body(float *restrict row, const float *restrict g,
                                 const struct opt_step *p, const uint32_t width)
{
    const uint32_t first = MIN(p->zero_first, width);
    segment(row, row + width, g, p, first);
    segment(row + first, row + width + 1, g + first, p, width - first);
}

OPT_VERSIONS(ctr_adagrad, ctr_adagrad_body)

void optimizer_ctr_adagrad_start(float *row, const struct table_schema *s)
{
    row[s->width] = row[s->width + 1] = 0;
}

opt_update_fn optimizer_ctr_adagrad_update(enum isa isa, uint32_t width)
{
    return ctr_adagrad_pick(isa, width);
}

/* ---- ftrl ---- */

/* FTRL-proximal (McMahan and others 2013, algorithm 1, per coordinate). State: z
 * (width), n (width). alpha is lr, whatever it is scaled by: another alpha would be another weight
 * of all that was learnt. The scale is a step size as adagrad's: it multiplies the gradient that z
 * takes, while n takes its whole square. Without l1, w moves by
 *     -scale g / ((beta + sqrt n) / alpha + l2)
 * and with or without it a scale of 0 leaves w as it is.
 *
 * The weight is a function of z and n, so a new row's z is the one that gives its initial weight;
 * for weights that start at 0, as in the paper, that is 0. */

struct ftrl_numbers {
    float alpha, scale, beta, l1, l2;
};

ISA_INLINE void ftrl_block(float *restrict w, float *restrict z, float *restrict sum,
                           const float *restrict g, const struct ftrl_numbers c, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float before = sum[i], after = before + g[i] * g[i];
        float root = sqrtf(after);
        float sigma = (root - sqrtf(before)) / c.alpha;
        float pull = opt_finite(z[i] + (c.scale * g[i] - sigma * w[i]), z[i]);
        float over = fabsf(pull) - c.l1;
        /* the excess, or 0 if it is negative, without a branch */
        float excess = 0.5f * (over + fabsf(over));
        z[i] = pull;
        sum[i] = after;
        /* FLT_MIN changes no usual denominator; it keeps 0 / 0 out where nothing has been learnt
         * and beta and l2 are 0.
         */
        w[i] = opt_finite(-copysignf(excess, pull) / ((c.beta + root) / c.alpha + c.l2 + FLT_MIN),
                          w[i]);
    }
}

ISA_INLINE void ftrl_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                          const uint32_t width)
{
    const struct ftrl_numbers c = {p->lr_whole, p->scale, p->beta, p->l1, p->l2};
#define BLOCK(at, n)                                                                               \
    ftrl_block(row + (at), row + width + (at), row + 2 * width + (at), g + (at), c, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(ftrl, ftrl_body)

void optimizer_ftrl_start(float *row, const struct table_schema *s)
{
    const struct optimizer_spec *o = &s->optimizer;
    float stiff = (o->beta + sqrtf(o->initial)) / o->lr + o->l2;
    for (uint32_t i = 0; i < s->width; i++) {
        float w = row[i];
        row[s->width + i] = w == 0 ? 0 : -(w * stiff + copysignf(o->l1, w));
        row[2 * s->width + i] = o->initial;
    }
}

opt_update_fn optimizer_ftrl_update(enum isa isa, uint32_t width)
{
    return ftrl_pick(isa, width);
}
