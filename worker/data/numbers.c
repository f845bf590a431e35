/* numbers.c: whole numbers of an example, eight at a time.
 *
 * A cell is loaded so that its last byte is the last of 16, whatever its length; a mask keeps what
 * stands before it from being read. So neither the length of a number nor its sign is a branch,
 * which could not be foreseen. */
#include "worker/data/numbers.h"

#include "proto/base/assert.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

bool numbers_wide(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

/* The upper eight digits in the low half of *pair, the lower eight in the high half. Whether it is a
 * number, or empty. */
TARGET static inline bool digits(const struct cell *cell, uint64_t *pair, bool *negative)
{
    uint32_t n = cell->bytes < 16 ? cell->bytes : 16;
    __mmask16 text = (__mmask16)(0xffffu << (16 - n));
    __m128i v = _mm_maskz_loadu_epi8(
        text, (const void *)((uintptr_t)cell->text + n - 16)); /* no pointer to before the line */
    __mmask16 sign =
        (__mmask16)(_mm_mask_cmpeq_epi8_mask(text, v, _mm_set1_epi8('-')) & (1u << (16 - n)));
    __mmask16 digit = (__mmask16)(text & ~sign);
    v = _mm_maskz_sub_epi8(digit, v, _mm_set1_epi8('0'));
    __mmask16 bad = _mm_cmpgt_epu8_mask(v, _mm_set1_epi8(9));
    v = _mm_maddubs_epi16(v, _mm_set1_epi16(0x010a));  /* 10, 1 */
    v = _mm_madd_epi16(v, _mm_set1_epi32(0x00010064)); /* 100, 1 */
    v = _mm_packus_epi32(v, v);
    v = _mm_madd_epi16(v, _mm_set1_epi32(0x00012710)); /* 10000, 1 */
    *pair = (uint64_t)_mm_cvtsi128_si64(v);
    *negative = sign != 0;
    return (bad == 0) & (cell->bytes <= 15u + (sign != 0)) & ((digit != 0) | (cell->bytes == 0));
}

/* feature_log1p of whole numbers: the same operations in the same order. */
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
    uint64_t pair[NUMBERS_GROUP];
    uint32_t other = 0, negative = 0, log = 0;
    SHOAL_ASSERT(count > 0 && count <= NUMBERS_GROUP);
    for (uint32_t i = 0; i < count; i++) {
        bool minus, is = digits(&cells[use[i].column], &pair[i], &minus);
        other |= (uint32_t)!is << i;
        negative |= (uint32_t)minus << i;
        log |= (uint32_t)(use[i].transform == NUMBER_LOG1P) << i;
    }
    __mmask8 all = (__mmask8)(0xffu >> (NUMBERS_GROUP - count));
    __m512i v = _mm512_maskz_loadu_epi64(all, pair);
    __m512d upper = _mm512_cvtepu64_pd(_mm512_and_si512(v, _mm512_set1_epi64(0xffffffffLL)));
    __m512d x = _mm512_add_pd(_mm512_mul_pd(upper, _mm512_set1_pd(1e8)),
                              _mm512_cvtepu64_pd(_mm512_srli_epi64(v, 32)));
    x = _mm512_mask_sub_pd(x, (__mmask8)negative, _mm512_setzero_pd(), x); /* never -0 */
    x = _mm512_mask_mov_pd(x, (__mmask8)log, log1p_8(x));
    _mm256_mask_storeu_ps(out, all, _mm512_cvtpd_ps(x));
    return other;
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
