/* short_keys.c: keys of an example's short values, eight at a time.
 *
 * These are the steps of XXH3 for such lengths (xxHash 0.8: XXH3_len_4to8_64b with the field as the
 * seed, and the empty input), done in the lanes of a vector. [test:
 * keys_are_those_of_one_at_a_time] */
#include "worker/data/short_keys.h"

#include "proto/base/assert.h"
#include "proto/base/x86.h"

#include <stddef.h>

#ifdef SHOAL_X86
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi2")))

/* Eight cells and their fields. */
struct group {
    __m512i text, bytes, field; /* text: the first eight bytes, padded with 0 */
    __mmask8 shorts, empty;     /* lanes of 4 to 8 bytes; lanes of none */
};

TARGET static inline __m128i load(const struct cell *cells, const struct feature_use *use,
                                  uint32_t i, uint32_t count)
{
    const struct cell *cell = &cells[use[i < count ? i : 0].column];
    return _mm_maskz_loadu_epi8((__mmask16)_bzhi_u32(0xff, cell->bytes), cell->text);
}

TARGET static inline __m256i load_four(const struct cell *cells, const struct feature_use *use,
                                       uint32_t i, uint32_t count)
{
    return _mm256_set_m128i(
        _mm_unpacklo_epi64(load(cells, use, i + 2, count), load(cells, use, i + 3, count)),
        _mm_unpacklo_epi64(load(cells, use, i, count), load(cells, use, i + 1, count)));
}

TARGET static inline struct group gather(const struct cell *cells, const struct feature_use *use,
                                         uint32_t count, __mmask8 all)
{
    _Static_assert(sizeof *use == 12 && offsetof(struct feature_use, column) == 4 &&
                       offsetof(struct feature_use, key_field) == 6 &&
                       offsetof(struct feature_use, type) == 8 &&
                       offsetof(struct feature_use, id) == 9 && sizeof *cells == 16 &&
                       offsetof(struct cell, bytes) == 8,
                   "these are words of 32 bits that lie so far apart");
    const __m256i zero = _mm256_setzero_si256(), low = _mm256_set1_epi32(0xffff);
    const __m256i at = _mm256_set_epi32(21, 18, 15, 12, 9, 6, 3, 0);
    __m256i place = _mm256_mmask_i32gather_epi32(zero, all, at, (const int *)use + 1, 4);
    __m256i kind = _mm256_mmask_i32gather_epi32(zero, all, at, (const int *)use + 2, 4);
    __m256i column = _mm256_slli_epi32(_mm256_and_si256(place, low), 2);
    __m256i bytes = _mm256_mmask_i32gather_epi32(zero, all, column, (const int *)cells + 2, 4);
    __mmask8 value = _mm256_mask_cmpeq_epi32_mask(all, _mm256_and_si256(kind, low),
                                                  _mm256_set1_epi32(COLUMN_CATEGORY));
    return (struct group){
        .text = _mm512_inserti64x4(_mm512_castsi256_si512(load_four(cells, use, 0, count)),
                                   load_four(cells, use, 4, count), 1),
        .bytes = _mm512_cvtepu32_epi64(bytes),
        .field = _mm512_cvtepu32_epi64(_mm256_srli_epi32(place, 16)),
        .shorts = _mm256_mask_cmple_epu32_mask(value, _mm256_sub_epi32(bytes, _mm256_set1_epi32(4)),
                                               _mm256_set1_epi32(4)),
        .empty = _mm256_mask_cmpeq_epi32_mask(value, bytes, zero)};
}

TARGET static inline __m512i fold(__m512i h, unsigned by)
{
    return _mm512_xor_si512(h, _mm512_srli_epi64(h, by));
}

TARGET static inline __m512i times(__m512i h, uint64_t by)
{
    return _mm512_mullo_epi64(h, _mm512_set1_epi64((int64_t)by));
}

TARGET static inline __m512i hash_short(const struct group *g)
{
    const uint64_t secret = 0xc73ab174c5ecd5a2u, prime = 0x9fb21c651e98df25u;
    /* a field has 16 bits: byte-swapped in 32 bits they are the upper two bytes, which are xored
     * onto the top */
    __m512i seed = g->field, turned = _mm512_slli_epi64(_mm512_srli_epi64(seed, 8), 48);
    turned = _mm512_or_si512(turned, _mm512_slli_epi64(seed, 56));
    seed = _mm512_xor_si512(seed, turned);
    /* the first four bytes above the last four */
    __m512i skip = _mm512_slli_epi64(_mm512_sub_epi64(g->bytes, _mm512_set1_epi64(4)), 3);
    __m512i last =
        _mm512_and_si512(_mm512_srlv_epi64(g->text, skip), _mm512_set1_epi64(0xffffffffLL));
    __m512i h = _mm512_or_si512(_mm512_slli_epi64(g->text, 32), last);
    h = _mm512_xor_si512(h, _mm512_sub_epi64(_mm512_set1_epi64((int64_t)secret), seed));
    h = _mm512_ternarylogic_epi64(h, _mm512_rol_epi64(h, 49), _mm512_rol_epi64(h, 24), 0x96);
    h = times(h, prime);
    h = _mm512_xor_si512(h, _mm512_add_epi64(_mm512_srli_epi64(h, 35), g->bytes));
    return fold(times(h, prime), 28);
}

TARGET static inline __m512i hash_empty(__m512i seed)
{
    __m512i h = _mm512_xor_si512(seed, _mm512_set1_epi64((int64_t)0x8726f9105dc21ddcu));
    h = times(fold(h, 33), 0xc2b2ae3d27d4eb4fu);
    return fold(times(fold(h, 29), 0x165667b19e3779f9u), 32);
}

TARGET uint32_t short_keys_read(const struct cell *cells, const struct feature_use *use,
                                uint32_t count, uint64_t *key)
{
    SHOAL_ASSERT(count > 0 && count <= KEYS_GROUP);
    __mmask8 all = (__mmask8)(0xffu >> (KEYS_GROUP - count));
    struct group g = gather(cells, use, count, all);
    __m512i h = _mm512_mask_mov_epi64(hash_short(&g), g.empty, hash_empty(g.field));
    h = _mm512_and_si512(h, _mm512_set1_epi64(0xffffffffffffLL));
    _mm512_mask_storeu_epi64(key, all, _mm512_or_si512(h, _mm512_slli_epi64(g.field, 48)));
    return all & ~((uint32_t)g.shorts | g.empty);
}

#else

uint32_t short_keys_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                         uint64_t *key)
{
    (void)cells;
    (void)use;
    (void)key;
    return (1u << count) - 1;
}

#endif
