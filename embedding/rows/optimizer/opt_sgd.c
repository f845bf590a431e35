/* opt_sgd.c: plain gradient steps; no state. */
#include "embedding/rows/optimizer/optimizer.h"

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
    OPT_BLOCKS(width, BLOCK);
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
