/* dropout.c: the key of a dropout mask. */
#include "dense/dropout.h"

#include "proto/base/assert.h"
#include "proto/base/rng.h"

struct dropout_mask dropout_of(double rate, uint64_t seed, uint32_t lane, uint64_t batch, uint32_t layer)
{
    SHOAL_ASSERT(rate >= 0.0 && rate < 1.0);
    struct rng r = rng_of(seed, ((uint64_t)layer << 32) | lane, batch);
    uint64_t key = rng_next(&r);
    return (struct dropout_mask){
        .key = {(uint32_t)key, (uint32_t)(key >> 32)},
        .threshold = (uint32_t)(rate * 0x1p24),
        .scale = (float)(1.0 / (1.0 - rate)),
    };
}
