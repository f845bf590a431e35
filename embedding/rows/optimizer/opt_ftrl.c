/* opt_ftrl.c: FTRL-proximal (McMahan and others 2013, algorithm 1, per coordinate). State: z
 * (width), n (width). alpha is lr.
 *
 * The weight is a function of z and n, so a new row's z is the one that gives its initial weight;
 * for weights that start at 0, as in the paper, that is 0. */
#include "embedding/rows/optimizer/optimizer.h"

#include <math.h>

struct ftrl_numbers {
    float alpha, beta, l1, l2;
};

ISA_INLINE void ftrl_block(float *restrict w, float *restrict z, float *restrict sum,
                           const float *restrict g, const struct ftrl_numbers c, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float before = sum[i], after = before + g[i] * g[i];
        float root = sqrtf(after);
        float sigma = (root - sqrtf(before)) / c.alpha;
        float pull = opt_finite(z[i] + (g[i] - sigma * w[i]), z[i]);
        float over = fabsf(pull) - c.l1;
        /* exactly over, or 0 where it is negative, without a branch */
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
    const struct ftrl_numbers c = {p->lr, p->beta, p->l1, p->l2};
#define BLOCK(at, n)                                                                               \
    ftrl_block(row + (at), row + width + (at), row + 2 * width + (at), g + (at), c, n)
    OPT_BLOCKS(width, BLOCK);
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
