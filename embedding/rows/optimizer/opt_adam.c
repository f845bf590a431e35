/* opt_adam.c: Adam (Kingma, Ba 2015). State: m (width), v (width), then the powers of beta1 and
 * beta2 as running products, one multiplication a step, so that no libm is needed and a row that is
 * seldom touched is corrected by its own number of steps. */
#include "embedding/rows/optimizer/optimizer.h"

#include <math.h>

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
    OPT_BLOCKS(width, BLOCK);
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
