/* opt_ctr_adagrad.c: the AdaGrad of Paddle's CTR tables (SparseAdaGradSGDRule in
 * table/sparse_sgd_rule.cc): one G for the first-order weights, one for the vector (state: two
 * floats), each the sum of mean squares; an update goes by the G before it. */
#include "embedding/rows/optimizer/optimizer.h"

#include <math.h>

/* One segment: its step from the old G, then its G. */
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
    const uint32_t first = p->zero_first < width ? p->zero_first : width;
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
