/* opt_adagrad.c: AdaGrad, element-wise (state: G of each weight) and row-wise (state: one G, of the
 * mean square); in both G may decay before each addition, so that old gradients are forgotten. */
#include "embedding/rows/optimizer/optimizer.h"

#include <math.h>

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
    OPT_BLOCKS(width, BLOCK);
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
    OPT_BLOCKS(width, BLOCK);
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
