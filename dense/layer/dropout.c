/* dropout.c: the key of a dropout mask. */
#include "dense/layer/dropout.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

void dropout_key(uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer, uint32_t out[2])
{
    struct rng r = rng_of(seed, ((uint64_t)layer << 32) | lane, batch);
    uint64_t key = rng_next(&r);
    out[0] = (uint32_t)key;
    out[1] = (uint32_t)(key >> 32);
}

struct dropout_mask dropout_mask(double rate, const uint32_t *key)
{
    SHOAL_ASSERT(rate >= 0.0 && rate < 1.0);
    return (struct dropout_mask){
        .key = key, .threshold = (uint32_t)(rate * 0x1p24), .scale = (float)(1.0 / (1.0 - rate))};
}

struct dropout_mask dropout_of(const struct layer *l, const struct pass *p)
{
    struct dropout_mask mask = dropout_mask(p->train ? l->dropout : 0.0, p->step->key[l->number]);
    mask.live = p->live;
    return mask;
}
