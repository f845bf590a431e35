/* add.c: sums of floats, by the best vectors of the processor. */
#include "worker/ring/add.h"

#include "proto/base/isa.h"

ISA_INLINE void add_block(float *restrict to, const float *restrict from, float factor,
                          const bool begins, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (begins)
            to[i] = factor * from[i];
        else
            to[i] = to[i] + factor * from[i];
}

ISA_INLINE void add_body(float *restrict to, const float *restrict from, float factor,
                         const bool begins, const uint32_t count)
{
#define BLOCK(at, n) add_block(to + (at), from + (at), factor, begins, n)
    ISA_BLOCKS(count, BLOCK);
#undef BLOCK
}

#define ADD_ONE(suffix, target)                                                                    \
    target static void begin##suffix(float *restrict to, const float *restrict from, float factor, \
                                     uint32_t count)                                               \
    {                                                                                              \
        add_body(to, from, factor, true, count);                                                   \
    }                                                                                              \
    target static void go_on##suffix(float *restrict to, const float *restrict from, float factor, \
                                     uint32_t count)                                               \
    {                                                                                              \
        add_body(to, from, factor, false, count);                                                  \
    }
ADD_ONE(_base, )
ADD_ONE(_avx2, ISA_TARGET_AVX2)
ADD_ONE(_avx512, ISA_TARGET_AVX512)

void add_scaled(float *restrict to, const float *restrict from, float factor, bool begins,
                uint32_t count)
{
    static void (*const all[2][ISA_COUNT])(float *restrict, const float *restrict, float,
                                           uint32_t) = {{go_on_base, go_on_avx2, go_on_avx512},
                                                        {begin_base, begin_avx2, begin_avx512}};
    all[begins][isa_best()](to, from, factor, count);
}
