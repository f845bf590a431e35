/* half.h: weights of 16 bits (schema.values fp16 or bf16) and the fp32 form used in computations.
 *
 * Widening is exact. There are two ways back, both always to a finite value: a number beyond the
 * largest one becomes the largest one.
 *  - To the nearest, ties to even: initial values, and rows that come from a table of other values.
 *  - Stochastically, after a push: up or down by chance, so that the mean is the exact value. To
 *    the nearest, an update below half a step would be lost at each push, and training would stop
 *    (Gupta and others 2015, Deep Learning with Limited Numerical Precision; for embedding tables
 *    Zhang and others 2022). The probability of the upper neighbour is the value's distance to the
 *    lower one in steps: random bits are added below the cut, then the cut is made. That is exact
 *    for bf16 and for fp16 from 2^-14 on; below, where fp16 has steps of 2^-24, probabilities have
 *    16 bits.
 *
 * Random bits are a function of a row's draw and the element's place alone, 16 of them for each
 * element. A row's draw is a function of (table seed, lane, batch, key): replay rounds in the same
 * way, and so does every vector level, because the bodies are integer arithmetic. Functions are
 * pure; thread: any. */
#ifndef EMBEDDING_ROWS_HALF_H
#define EMBEDDING_ROWS_HALF_H

#include "embedding/rows/optimizer/isa.h"
#include "embedding/rows/optimizer/optimizer.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/base/x86.h"
#include "proto/job/schema.h"

#include <stdint.h>
#include <string.h>

#ifdef SHOAL_X86
#include <immintrin.h>
#endif

/* ---- converts a stored row of 16-bit weights to an fp32 row, and back ---- */

/* `row`: weights of 16 bits (width), padded to 4 bytes, then `state` floats; `wide`: weights f32
 * (width), then the same state. */
struct half {
    void (*open)(const float *restrict row, float *restrict wide, uint32_t width, uint32_t state);
    /* Rounds stochastically; the padding becomes 0. */
    void (*close)(float *restrict row, const float *restrict wide, uint32_t width, uint32_t state,
                  uint64_t draw);
};
/* kind: not VALUES_FP32. */
struct half half_of(enum value_kind kind, enum isa isa, uint32_t width);
/* close, but to the nearest. */
void half_close_nearest(enum value_kind kind, float *row, const float *wide, uint32_t width,
                        uint32_t state);

/* The draws of one push, and that of a row. */
static inline uint64_t half_draws(uint64_t seed, uint32_t lane, uint64_t batch)
{
    return rng_of(seed, batch, lane).state;
}
static inline uint64_t half_draw(uint64_t draws, uint64_t mixed)
{
    return draws ^ mixed;
}

/* ---- weights alone ---- */

/* (count) each; `from`: stored weights of this kind. */
void half_widen(enum value_kind kind, const void *from, float *to, uint32_t count);
/* In place: each weight becomes the nearest that can be stored; nothing happens for VALUES_FP32. */
void half_nearest(enum value_kind kind, float *weights, uint32_t count);
/* The largest storable value that is not above x, x >= 0: a bound that rounding keeps. */
float half_bound(enum value_kind kind, float x);

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

/* ---- widening for the walk of pulls: one function for each vector level ---- */

ISA_INLINE void half_widen_block(const uint32_t kind, const uint16_t *restrict from,
                                 float *restrict to, const uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        to[i] = kind == VALUES_BF16 ? half_from_bf16(from[i]) : half_from_fp16(from[i]);
}

ISA_INLINE void half_widen_base(const uint32_t kind, const uint16_t *restrict from,
                                float *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_widen_block(kind, from + (at), to + (at), n)
    OPT_BLOCKS(width, BLOCK);
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
    OPT_BLOCKS(width, BLOCK);
#undef BLOCK
}
ISA_TARGET_AVX512 ISA_INLINE void half_widen_avx512(const uint32_t kind,
                                                    const uint16_t *restrict from,
                                                    float *restrict to, const uint32_t width)
{
#define BLOCK(at, n) half_widen_sixteen(kind, from + (at), to + (at), n)
    OPT_BLOCKS(width, BLOCK);
#undef BLOCK
}
#else
#define half_widen_avx2 half_widen_base
#define half_widen_avx512 half_widen_base
#endif

#endif
