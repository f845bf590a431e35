/* half.c: arrays of 16-bit values, by the best vectors of the processor. */
#include "proto/job/half.h"

#include "proto/base/assert.h"

/* for each level and kind, with the level's vectors */
#define HALF_ONE(suffix, target, kind, name)                                                       \
    target static void widen_##name##suffix(const uint16_t *from, float *to, uint32_t count)       \
    {                                                                                              \
        half_widen##suffix(kind, from, to, count);                                                 \
    }                                                                                              \
    target static void narrow_##name##suffix(const float *from, uint16_t *to, uint32_t count)      \
    {                                                                                              \
        half_narrow##suffix(kind, from, to, count);                                                \
    }
#define HALF_KIND(kind, name)                                                                      \
    HALF_ONE(_base, , kind, name)                                                                  \
    HALF_ONE(_avx2, ISA_TARGET_AVX2, kind, name)                                                   \
    HALF_ONE(_avx512, ISA_TARGET_AVX512, kind, name)
HALF_KIND(VALUES_FP16, fp16)
HALF_KIND(VALUES_BF16, bf16)

void half_widen(enum value_kind kind, const void *from, float *to, uint32_t count)
{
    static void (*const all[2][ISA_COUNT])(const uint16_t *, float *, uint32_t) = {
        {widen_fp16_base, widen_fp16_avx2, widen_fp16_avx512},
        {widen_bf16_base, widen_bf16_avx2, widen_bf16_avx512}};
    if (kind == VALUES_FP32)
        memcpy(to, from, count * sizeof *to);
    else
        all[kind == VALUES_BF16][isa_best()](from, to, count);
}

void half_narrow(enum value_kind kind, const float *from, void *to, uint32_t count)
{
    static void (*const all[2][ISA_COUNT])(const float *, uint16_t *, uint32_t) = {
        {narrow_fp16_base, narrow_fp16_avx2, narrow_fp16_avx512},
        {narrow_bf16_base, narrow_bf16_avx2, narrow_bf16_avx512}};
    if (kind == VALUES_FP32)
        memcpy(to, from, count * sizeof *from);
    else
        all[kind == VALUES_BF16][isa_best()](from, to, count);
}

void half_nearest(enum value_kind kind, float *weights, uint32_t count)
{
    for (uint32_t i = 0; kind != VALUES_FP32 && i < count; i++)
        if (kind == VALUES_BF16)
            weights[i] = half_from_bf16(half_nearest_bf16(weights[i]));
        else
            weights[i] = half_from_fp16(half_nearest_fp16(weights[i]));
}

float half_bound(enum value_kind kind, float x)
{
    SHOAL_ASSERT(x >= 0);
    if (kind == VALUES_FP32)
        return x;
    if (kind == VALUES_BF16)
        return half_from_bf16(half_to_bf16(x, 0));
    return half_from_fp16(half_to_fp16(x, 0));
}
