/* half_row.c: opens and closes rows of 16-bit weights, compiled once for each vector level, for any
 * width and for 16; and functions that need no speed. */
#include "embedding/rows/half_row.h"

#include "proto/base/assert.h"

ISA_INLINE void copy_block(float *restrict to, const float *restrict from, const uint32_t n)
{
    memcpy(to, from, n * sizeof *to);
}

ISA_INLINE void copy_floats(float *restrict to, const float *restrict from, const uint32_t count)
{
#define BLOCK(at, n) copy_block(to + (at), from + (at), n)
    ISA_BLOCKS(count, BLOCK);
#undef BLOCK
}

/* ---- stochastic rounding ---- */

ISA_INLINE void round_block(const uint32_t kind, uint16_t *restrict to, const float *restrict from,
                            uint64_t draw, const uint32_t at, const uint32_t n)
{
    uint32_t random[HALF_RANDOMS];
    half_random_block(random, draw, at, n);
    for (uint32_t i = 0; i < n; i++)
        to[at + i] = (uint16_t)(kind == VALUES_BF16 ? half_to_bf16(from[at + i], random[i])
                                                    : half_to_fp16(from[at + i], random[i]));
}

ISA_INLINE void close_body(const uint32_t kind, float *restrict row, const float *restrict wide,
                           const uint32_t width, const uint32_t state, uint64_t draw)
{
    uint16_t *weights = (uint16_t *)(void *)row;
#define BLOCK(at, n) round_block(kind, weights, wide, draw, at, n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
    if (width % 2 != 0)
        weights[width] = 0;
    copy_floats(row + (width + 1) / 2, wide + width, state);
}

/* ---- versions ---- */

#define HALF_ONE(suffix, target, level, kind, n)                                                   \
    target static void open##suffix(const float *restrict row, float *restrict wide,               \
                                    uint32_t width, uint32_t state)                                \
    {                                                                                              \
        half_widen_##level(kind, (const uint16_t *)(const void *)row, wide, n);                    \
        copy_floats(wide + width, row + (width + 1) / 2, state);                                   \
    }                                                                                              \
    target static void close##suffix(float *restrict row, const float *restrict wide,              \
                                     uint32_t width, uint32_t state, uint64_t draw)                \
    {                                                                                              \
        (void)width;                                                                               \
        close_body(kind, row, wide, n, state, draw);                                               \
    }
#define HALF_LEVELS(suffix, kind, n)                                                               \
    HALF_ONE(suffix##_base, , base, kind, n)                                                       \
    HALF_ONE(suffix##_avx2, ISA_TARGET_AVX2, avx2, kind, n)                                        \
    HALF_ONE(suffix##_avx512, ISA_TARGET_AVX512, avx512, kind, n)
HALF_LEVELS(_fp16, VALUES_FP16, width)
HALF_LEVELS(_bf16, VALUES_BF16, width)
HALF_LEVELS(_fp16_16, VALUES_FP16, 16)
HALF_LEVELS(_bf16_16, VALUES_BF16, 16)

struct half half_row_of(enum value_kind kind, enum isa isa, uint32_t width)
{
#define HALF_ROW(suffix)                                                                           \
    {                                                                                              \
        {open##suffix##_base, close##suffix##_base}, {open##suffix##_avx2, close##suffix##_avx2},  \
        {                                                                                          \
            open##suffix##_avx512, close##suffix##_avx512                                          \
        }                                                                                          \
    }
    static const struct half all[2][2][ISA_COUNT] = {{HALF_ROW(_fp16), HALF_ROW(_bf16)},
                                                     {HALF_ROW(_fp16_16), HALF_ROW(_bf16_16)}};
    SHOAL_ASSERT((kind == VALUES_FP16 || kind == VALUES_BF16) && isa < ISA_COUNT);
    return all[width == 16][kind == VALUES_BF16][isa];
}

/* ---- to the nearest ---- */

void half_row_close_nearest(enum value_kind kind, float *row, const float *wide, uint32_t width,
                            uint32_t state)
{
    uint16_t *weights = (uint16_t *)(void *)row;
    half_narrow(kind, wide, weights, width);
    if (width % 2 != 0)
        weights[width] = 0;
    memcpy(row + (width + 1) / 2, wide + width, state * sizeof *row);
}
