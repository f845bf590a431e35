/* numbers.c: integers of an example, eight at a time.
 *
 * A cell is loaded so that its last byte is the last of 16, whatever its length; a mask keeps bytes
 * before the cell from being read. Neither the length nor the sign of a number is then a branch,
 * which would be mispredicted. */
#include "worker/data/numbers.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/x86.h"

#ifdef SHOAL_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

bool numbers_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("bmi2");
}

/* Four cells, each in 128 bits. */
struct four {
    __m512i text;
    uint64_t is, first; /* bits of the cells' bytes; of the first byte of each */
    uint32_t longer;    /* bits of cells with more than 15 bytes */
};

TARGET static inline __m128i load(struct four *f, const struct cell *cells,
                                  const struct feature_use *use, uint32_t count, uint32_t i)
{
    const struct cell *cell = &cells[use[i < count ? i : 0].column];
    uint32_t n = MIN(cell->bytes, 15), is = 0xffff & 0xffffu << (16 - n);
    f->is |= (uint64_t)is << 16 * (i % 4);
    f->first |= (uint64_t)(is & (0u - is)) << 16 * (i % 4);
    f->longer |= (uint32_t)(cell->bytes > 15) << i;
    /* integer arithmetic, because a pointer to before the line would be undefined */
    return _mm_maskz_loadu_epi8((__mmask16)is, (const void *)((uintptr_t)cell->text + n - 16));
}

TARGET static inline struct four load_four(const struct cell *cells, const struct feature_use *use,
                                           uint32_t count, uint32_t from)
{
    struct four f = {.is = 0};
    __m512i v = _mm512_castsi128_si512(load(&f, cells, use, count, from));
    v = _mm512_inserti32x4(v, load(&f, cells, use, count, from + 1), 1);
    v = _mm512_inserti32x4(v, load(&f, cells, use, count, from + 2), 2);
    f.text = _mm512_inserti32x4(v, load(&f, cells, use, count, from + 3), 3);
    return f;
}

/* A bit for each of four cells that has any of its bytes' bits set. */
static inline uint32_t any(uint64_t bits)
{
    return (uint32_t)((bits & 0xffff) != 0) | (uint32_t)((bits & 0xffff0000u) != 0) << 1 |
           (uint32_t)((bits & 0xffff00000000u) != 0) << 2 | (uint32_t)(bits >> 48 != 0) << 3;
}

/* In the low 64 bits of each cell: its upper eight digits, then the lower eight. */
TARGET static inline __m512i digits(const struct four *f, uint32_t *negative, uint32_t *other)
{
    uint64_t sign = _mm512_mask_cmpeq_epi8_mask(f->first, f->text, _mm512_set1_epi8('-'));
    __m512i v = _mm512_maskz_sub_epi8(f->is & ~sign, f->text, _mm512_set1_epi8('0'));
    uint64_t bad = _mm512_cmpgt_epu8_mask(v, _mm512_set1_epi8(9)) |
                   (sign & 0x8000800080008000u); /* a sign alone */
    *negative = any(sign);
    *other = any(bad);
    v = _mm512_maddubs_epi16(v, _mm512_set1_epi16(0x010a));  /* 10, 1 */
    v = _mm512_madd_epi16(v, _mm512_set1_epi32(0x00010064)); /* 100, 1 */
    v = _mm512_packus_epi32(v, v);
    return _mm512_madd_epi16(v, _mm512_set1_epi32(0x00012710)); /* 10000, 1 */
}

/* feature_log1p of integers: the same operations in the same order, so that the bits are equal. */
TARGET static inline __m512d log1p_8(__m512d x)
{
    const __m512d one = _mm512_set1_pd(1.0);
    __m512d y = _mm512_add_pd(one, _mm512_abs_pd(x));
    __m512i bits = _mm512_castpd_si512(y);
    __m512i exponent = _mm512_sub_epi64(_mm512_srli_epi64(bits, 52), _mm512_set1_epi64(1023));
    __m512d m = _mm512_castsi512_pd(
        _mm512_or_si512(_mm512_and_si512(bits, _mm512_set1_epi64(0xfffffffffffffLL)),
                        _mm512_set1_epi64(0x3ff0000000000000LL)));
    __mmask8 above = _mm512_cmp_pd_mask(m, _mm512_set1_pd(1.4142135623730951), _CMP_GT_OQ);
    m = _mm512_mask_mul_pd(m, above, m, _mm512_set1_pd(0.5));
    exponent = _mm512_mask_add_epi64(exponent, above, exponent, _mm512_set1_epi64(1));
    __m512d s = _mm512_div_pd(_mm512_sub_pd(m, one), _mm512_add_pd(m, one));
    static const double term[] = {1.0 / 13, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0};
    __m512d q = _mm512_mul_pd(s, s), series = _mm512_set1_pd(1.0 / 15);
#pragma GCC unroll 7
    for (size_t i = 0; i < sizeof term / sizeof term[0]; i++)
        series = _mm512_add_pd(_mm512_mul_pd(series, q), _mm512_set1_pd(term[i]));
    __m512d log = _mm512_add_pd(
        _mm512_mul_pd(_mm512_cvtepi64_pd(exponent), _mm512_set1_pd(0.6931471805599453)),
        _mm512_mul_pd(_mm512_mul_pd(_mm512_set1_pd(2.0), s), series));
    __mmask8 below = _mm512_cmp_pd_mask(x, _mm512_setzero_pd(), _CMP_LT_OQ);
    return _mm512_mask_sub_pd(log, below, _mm512_set1_pd(-0.0), log);
}

TARGET uint32_t numbers_read(const struct cell *cells, const struct feature_use *use,
                             uint32_t count, float *out)
{
    uint32_t negative[2], other[2], log = 0;
    SHOAL_ASSERT(count > 0 && count <= NUMBERS_GROUP);
    for (uint32_t i = 0; i < count; i++)
        log |= (uint32_t)(use[i].transform == NUMBER_LOG1P) << i;
    struct four low = load_four(cells, use, count, 0), high = load_four(cells, use, count, 4);
    __m512i v = _mm512_permutex2var_epi64(digits(&low, &negative[0], &other[0]),
                                          _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0),
                                          digits(&high, &negative[1], &other[1]));
    __mmask8 all = (__mmask8)(0xffu >> (NUMBERS_GROUP - count));
    __m512d upper = _mm512_cvtepu64_pd(_mm512_and_si512(v, _mm512_set1_epi64(0xffffffffLL)));
    __m512d x = _mm512_add_pd(_mm512_mul_pd(upper, _mm512_set1_pd(1e8)),
                              _mm512_cvtepu64_pd(_mm512_srli_epi64(v, 32)));
    x = _mm512_mask_sub_pd(x, (__mmask8)(negative[0] | negative[1] << 4), _mm512_setzero_pd(),
                           x); /* never -0 */
    x = _mm512_mask_mov_pd(x, (__mmask8)log, log1p_8(x));
    _mm256_mask_storeu_ps(out, all, _mm512_cvtpd_ps(x));
    return all & (low.longer | high.longer | other[0] | other[1] << 4);
}

#else

bool numbers_wide(void)
{
    return false;
}

uint32_t numbers_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                      float *out)
{
    (void)cells;
    (void)use;
    (void)out;
    return (1u << count) - 1;
}

#endif
