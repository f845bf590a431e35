/* opt_adagrad.c: AdaGrad, element-wise (state: G of each weight) and row-wise (state: one G, of the mean square). */
#include "embedding/optimizer.h"

#include <math.h>

ISA_INLINE void adagrad_block(float *restrict w, float *restrict state, const float *restrict g, float lr, float eps,
                              const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        float sum = state[i] + g[i] * g[i];
        state[i] = sum;
        w[i] -= lr * g[i] / (sqrtf(sum) + eps);
    }
}

ISA_INLINE void adagrad_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                             const uint32_t width)
{
    const float lr = p->lr, eps = p->eps;
#define BLOCK(at, n) adagrad_block(row + (at), row + width + (at), g + (at), lr, eps, n)
    OPT_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(adagrad, adagrad_body)

/* Sixteen partial sums, float i into sum i % 16, then halves added: an order that any vector width can keep. */
ISA_INLINE float square_sum(const float *restrict g, const uint32_t width)
{
    float sum[16] = {0};
    uint32_t at = 0;
    for (; at + 16 <= width; at += 16)
        for (uint32_t i = 0; i < 16; i++)
            sum[i] += g[at + i] * g[at + i];
    for (uint32_t i = 0; at + i < width; i++)
        sum[i] += g[at + i] * g[at + i];
    for (uint32_t half = 8; half > 0; half /= 2)
        for (uint32_t i = 0; i < half; i++)
            sum[i] += sum[i + half];
    return sum[0];
}

ISA_INLINE void step_block(float *restrict w, const float *restrict g, float step, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        w[i] -= step * g[i];
}

ISA_INLINE void adagrad_row_body(float *restrict row, const float *restrict g, const struct opt_step *p,
                                 const uint32_t width)
{
    float sum = row[width] + square_sum(g, width) / (float)width;
    row[width] = sum;
    const float step = p->lr / (sqrtf(sum) + p->eps);
#define BLOCK(at, n) step_block(row + (at), g + (at), step, n)
    OPT_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(adagrad_row, adagrad_row_body)

void opt_adagrad_start(float *row, const struct table_schema *s)
{
    for (uint32_t i = 0; i < s->width; i++)
        row[s->width + i] = s->optimizer.initial;
}

opt_update_fn opt_adagrad_update(enum isa isa, uint32_t width)
{
    return adagrad_pick(isa, width);
}

void opt_adagrad_row_start(float *row, const struct table_schema *s)
{
    row[s->width] = s->optimizer.initial;
}

opt_update_fn opt_adagrad_row_update(enum isa isa, uint32_t width)
{
    return adagrad_row_pick(isa, width);
}
