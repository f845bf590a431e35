/* opt_momentum.c: momentum (Polyak 1964): v = beta1 v + g; w -= lr v. State: v of each weight. */
#include "embedding/rows/optimizer/optimizer.h"

#include <string.h>

ISA_INLINE void momentum_block(float *restrict w, float *restrict v, const float *restrict g,
                               float lr, float beta, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        v[i] = opt_finite(beta * v[i] + g[i], v[i]);
        w[i] = opt_finite(w[i] - lr * v[i], w[i]);
    }
}

ISA_INLINE void momentum_body(float *restrict row, const float *restrict g,
                              const struct opt_step *p, const uint32_t width)
{
    const float lr = p->lr, beta = p->beta1;
#define BLOCK(at, n) momentum_block(row + (at), row + width + (at), g + (at), lr, beta, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

OPT_VERSIONS(momentum, momentum_body)

void optimizer_momentum_start(float *row, const struct table_schema *s)
{
    memset(row + s->width, 0, s->width * sizeof *row);
}

opt_update_fn optimizer_momentum_update(enum isa isa, uint32_t width)
{
    return momentum_pick(isa, width);
}
