/* half.h: weights of 16 bits (schema.values fp16 or bf16): widening, which is exact, and the
 * nearest value, ties to even, always finite: a number beyond the largest one becomes the largest.
 * Tables store rows so (embedding/rows/half_row.h), and rows and gradients travel so.
 *
 * Functions are pure, and every vector level gives the same bits. Thread: any. */
#ifndef PROTO_JOB_HALF_H
#define PROTO_JOB_HALF_H

#include "proto/base/hash.h"
#include "proto/base/isa.h"
#include "proto/base/rng.h"
#include "proto/base/x86.h"
#include "proto/job/schema.h"

#include <stdint.h>
#include <string.h>

#ifdef SHOAL_X86
#include <immintrin.h>
#endif

/* (count) each; `from`: values of this kind. */
void half_widen(enum value_kind kind, const void *from, float *to, uint32_t count);
/* (count) each; `to`: the nearest values of this kind. */
void half_narrow(enum value_kind kind, const float *from, void *to, uint32_t count);
/* In place: each weight becomes the nearest that can be stored; nothing happens for VALUES_FP32. */
void half_nearest(enum value_kind kind, float *weights, uint32_t count);
/* The largest storable value that is not above x, x >= 0: a bound that rounding keeps. */
float half_bound(enum value_kind kind, float x);
/* Bytes of a value. */
static inline uint32_t half_bytes(enum value_kind kind)
{
    return kind == VALUES_FP32 ? sizeof(float) : sizeof(uint16_t);
}

/* ---- chances, for rounding up or down so that the mean is the exact value ---- */

/* The draws of one push, and that of a row. */
static inline uint64_t half_draws(uint64_t seed, uint32_t lane, uint64_t batch)
{
    return rng_of(seed, batch, lane).state;
}
static inline uint64_t half_draw(uint64_t draws, uint64_t mixed)
{
    return draws ^ mixed;
}

#define HALF_RANDOMS 16u
#define HALF_RANDOM_STEP 0x9e3779b97f4a7c15ULL /* splitmix64's increment (rng.h) */

/* 16 random bits for each of n elements from `at` on: four from each number of splitmix64, the
 * lowest first. Sixteen are one vector from beginning to end: a vector that is loaded whole after
 * its halves were stored waits for both stores. */
ISA_INLINE void half_random_block(uint32_t *restrict random, uint64_t draw, const uint32_t at,
                                  const uint32_t n)
{
    typedef uint64_t four __attribute__((vector_size(32)));
    typedef uint16_t narrow __attribute__((vector_size(32)));
    typedef uint32_t wide __attribute__((vector_size(64)));
    if (n == 16) {
        const four step = {HALF_RANDOM_STEP, 2 * HALF_RANDOM_STEP, 3 * HALF_RANDOM_STEP,
                           4 * HALF_RANDOM_STEP};
        /* clang adds no other type to a vector */
        four z = step + (uint64_t)(draw + at / 4 * HALF_RANDOM_STEP);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL; /* rng_mix */
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
        z = z ^ (z >> 31);
        const wide all = __builtin_convertvector((narrow)z, wide);
        memcpy(random, &all, sizeof all);
        return;
    }
    for (uint32_t i = 0; i < n; i++)
        random[i] =
            (uint16_t)(rng_mix(draw + ((at + i) / 4 + 1) * HALF_RANDOM_STEP) >> (at + i) % 4 * 16);
}

/* ---- one value, for the loops ---- */

ISA_INLINE uint32_t half_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

ISA_INLINE float half_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Without a branch. Exponent 0 is an integer of 2^-24 steps; exponent 31 is not finite and becomes
 * the value that F16C gives. */
ISA_INLINE float half_from_fp16(uint32_t h)
{
    const uint32_t sign = (h & 0x8000u) << 16, rest = h & 0x7fffu;
    const uint32_t tiny = half_bits((float)(int32_t)rest * 0x1p-24f),
                   usual = (rest << 13) + (112u << 23);
    const uint32_t none =
        (rest << 13) + (224u << 23) + (rest > 0x7c00u ? 0x400000u & ~(rest << 13) : 0);
    return half_float(sign | ((int32_t)rest < 0x400    ? tiny
                              : (int32_t)rest < 0x7c00 ? usual
                                                       : none));
}

ISA_INLINE float half_from_bf16(uint32_t h)
{
    return half_float(h << 16);
}

/* both are below 2^31, so signed comparisons work */
ISA_INLINE uint32_t half_least(uint32_t a, uint32_t b)
{
    return (int32_t)a < (int32_t)b ? a : b;
}

#define HALF_FP16_MOST 0x7bffu
#define HALF_BF16_MOST 0x7f7fu
#define HALF_FP16_USUAL (113u << 23) /* bits of 2^-14, from which on fp16 has steps of its own */

/* random: 16 bits. */
ISA_INLINE uint32_t half_to_bf16(float x, uint32_t random)
{
    const uint32_t bits = half_bits(x), rest = bits & 0x7fffffffu;
    return (bits >> 16 & 0x8000u) | half_least((rest + random) >> 16, HALF_BF16_MOST);
}

ISA_INLINE uint32_t half_to_fp16(float x, uint32_t random)
{
    const uint32_t bits = half_bits(x), rest = bits & 0x7fffffffu;
    const uint32_t below = (int32_t)rest < (int32_t)HALF_FP16_USUAL ? rest : 0;
    const uint32_t tiny = ((uint32_t)(int32_t)(half_float(below) * 0x1p40f) + random) >> 16;
    const uint32_t usual = (rest - (112u << 23) + (random >> 3)) >> 13;
    return (bits >> 16 & 0x8000u) |
           half_least((int32_t)rest < (int32_t)HALF_FP16_USUAL ? tiny : usual, HALF_FP16_MOST);
}

/* The nearest value; ties to even. Without a branch. */
ISA_INLINE uint32_t half_nearest_bf16(float x)
{
    return half_to_bf16(x, 0x7fffu + (half_bits(x) >> 16 & 1));
}
/* When added to 1/2, floats have steps of 2^-24, as fp16 has below 2^-14. */
ISA_INLINE uint32_t half_nearest_fp16(float x)
{
    const uint32_t bits = half_bits(x), rest = bits & 0x7fffffffu;
    const uint32_t tiny =
        (bits >> 16 & 0x8000u) | (half_bits(half_float(rest) + 0.5f) - half_bits(0.5f));
    const uint32_t usual = half_to_fp16(x, (0xfffu + (rest >> 13 & 1)) << 3);
    return rest < HALF_FP16_USUAL ? tiny : usual;
}

/* ---- many values: one function for each vector level ---- */

ISA_INLINE void half_widen_block(const uint32_t kind, const uint16_t *restrict from,
                                 float *restrict to, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = kind == VALUES_BF16 ? half_from_bf16(from[i]) : half_from_fp16(from[i]);
}

ISA_INLINE void half_narrow_block(const uint32_t kind, const float *restrict from,
                                  uint16_t *restrict to, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = (uint16_t)(kind == VALUES_BF16 ? half_nearest_bf16(from[i])
                                               : half_nearest_fp16(from[i]));
}

ISA_INLINE void half_widen_base(const uint32_t kind, const uint16_t *restrict from,
                                float *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_widen_block(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

ISA_INLINE void half_narrow_base(const uint32_t kind, const float *restrict from,
                                 uint16_t *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_narrow_block(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}

#ifdef SHOAL_X86
ISA_TARGET_AVX2 ISA_INLINE void half_widen_eight(const uint32_t kind, const uint16_t *restrict from,
                                                 float *restrict to, const uint32_t n)
{
    if (kind == VALUES_FP16 && n % 8 == 0)
        for (uint32_t i = 0; i < n; i += 8)
            _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                         (const __m128i *)(const void *)(from + i))));
    else
        half_widen_block(kind, from, to, n);
}
ISA_TARGET_AVX512 ISA_INLINE void half_widen_sixteen(const uint32_t kind,
                                                     const uint16_t *restrict from,
                                                     float *restrict to, const uint32_t n)
{
    if (n != 16) {
        half_widen_eight(kind, from, to, n);
        return;
    }
    const __m256i in = _mm256_loadu_si256((const __m256i *)(const void *)from);
    /* stored whole, because an optimizer loads it whole */
    if (kind == VALUES_FP16)
        _mm512_storeu_ps(to, _mm512_cvtph_ps(in));
    else
        _mm512_storeu_si512(to, _mm512_slli_epi32(_mm512_cvtepu16_epi32(in), 16));
}
ISA_TARGET_AVX2 ISA_INLINE void half_widen_avx2(const uint32_t kind, const uint16_t *restrict from,
                                                float *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_widen_eight(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}
ISA_TARGET_AVX512 ISA_INLINE void half_widen_avx512(const uint32_t kind,
                                                    const uint16_t *restrict from,
                                                    float *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_widen_sixteen(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}
/* The processor rounds to the nearest, too, but makes what is too large infinite. */
ISA_TARGET_AVX2 ISA_INLINE void half_narrow_eight(const uint32_t kind, const float *restrict from,
                                                  uint16_t *restrict to, const uint32_t n)
{
    const __m256 most = _mm256_set1_ps(65504.0f), least = _mm256_set1_ps(-65504.0f);
    if (kind == VALUES_FP16 && n % 8 == 0)
        for (uint32_t i = 0; i < n; i += 8) {
            const __m256 x = _mm256_max_ps(_mm256_min_ps(_mm256_loadu_ps(from + i), most), least);
            _mm_storeu_si128((__m128i *)(void *)(to + i),
                             _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
        }
    else
        half_narrow_block(kind, from, to, n);
}
ISA_TARGET_AVX2 ISA_INLINE void half_narrow_avx2(const uint32_t kind, const float *restrict from,
                                                 uint16_t *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_narrow_eight(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}
ISA_TARGET_AVX512 ISA_INLINE void half_narrow_avx512(const uint32_t kind,
                                                     const float *restrict from,
                                                     uint16_t *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_narrow_eight(kind, from + (at), to + (at), n)
    ISA_BLOCKS(width, BLOCK);
#undef BLOCK
}
#else
#define half_widen_avx2 half_widen_base
#define half_widen_avx512 half_widen_base
#define half_narrow_avx2 half_narrow_base
#define half_narrow_avx512 half_narrow_base
#endif

#endif
