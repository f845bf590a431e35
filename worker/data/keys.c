/* keys.c: keys of an example's short values, eight at a time.
 *
 * XXH3 as the library has it for these lengths (xxHash 0.8: XXH3_len_4to8_64b with the field as the
 * seed, and the empty input), in the lanes of a vector. [test: keys_are_those_of_one_at_a_time] */
#include "worker/data/keys.h"

#include "proto/base/assert.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))

struct group {
    uint64_t text[KEYS_GROUP]; /* the first four bytes above the last four */
    uint64_t bytes[KEYS_GROUP], field[KEYS_GROUP];
    uint32_t shorts, empty; /* bits */
};

static inline void gather(struct group *g, const struct cell *cells, const struct feature_use *use,
                          uint32_t count)
{
    static const char none[4];
    g->shorts = g->empty = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct cell *cell = &cells[use[i].column];
        uint32_t bytes = cell->bytes, first, last;
        bool value = (use[i].type == COLUMN_CATEGORY) & !use[i].id, is = bytes - 4 <= 4;
        const char *text = is ? cell->text : none;
        memcpy(&first, text, sizeof first);
        memcpy(&last, text + (is ? bytes - 4 : 0), sizeof last);
        g->text[i] = (uint64_t)first << 32 | last;
        g->bytes[i] = bytes;
        g->field[i] = use[i].key_field;
        g->shorts |= (uint32_t)(value & is) << i;
        g->empty |= (uint32_t)(value & (bytes == 0)) << i;
    }
}

TARGET static inline __m512i fold(__m512i h, unsigned by)
{
    return _mm512_xor_si512(h, _mm512_srli_epi64(h, by));
}

TARGET static inline __m512i times(__m512i h, uint64_t by)
{
    return _mm512_mullo_epi64(h, _mm512_set1_epi64((int64_t)by));
}

TARGET static inline __m512i hash_short(__m512i text, __m512i bytes, __m512i seed)
{
    const uint64_t secret = 0xc73ab174c5ecd5a2u, prime = 0x9fb21c651e98df25u;
    /* a field has 16 bits: turned round in 32 they are the upper two bytes, and those go on top */
    __m512i turned = _mm512_or_si512(_mm512_slli_epi64(seed, 56),
                                     _mm512_slli_epi64(_mm512_srli_epi64(seed, 8), 48));
    seed = _mm512_xor_si512(seed, turned);
    __m512i h = _mm512_xor_si512(text, _mm512_sub_epi64(_mm512_set1_epi64((int64_t)secret), seed));
    h = _mm512_ternarylogic_epi64(h, _mm512_rol_epi64(h, 49), _mm512_rol_epi64(h, 24), 0x96);
    h = times(h, prime);
    h = _mm512_xor_si512(h, _mm512_add_epi64(_mm512_srli_epi64(h, 35), bytes));
    return fold(times(h, prime), 28);
}

TARGET static inline __m512i hash_empty(__m512i seed)
{
    __m512i h = _mm512_xor_si512(seed, _mm512_set1_epi64((int64_t)0x8726f9105dc21ddcu));
    h = times(fold(h, 33), 0xc2b2ae3d27d4eb4fu);
    return fold(times(fold(h, 29), 0x165667b19e3779f9u), 32);
}

TARGET uint32_t keys_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                          uint64_t *key)
{
    struct group g;
    SHOAL_ASSERT(count > 0 && count <= KEYS_GROUP);
    gather(&g, cells, use, count);
    __mmask8 all = (__mmask8)(0xffu >> (KEYS_GROUP - count));
    __m512i field = _mm512_maskz_loadu_epi64(all, g.field);
    __m512i h = hash_short(_mm512_maskz_loadu_epi64(all, g.text),
                           _mm512_maskz_loadu_epi64(all, g.bytes), field);
    h = _mm512_mask_mov_epi64(h, (__mmask8)g.empty, hash_empty(field));
    h = _mm512_and_si512(h, _mm512_set1_epi64(0xffffffffffffLL));
    _mm512_mask_storeu_epi64(key, all, _mm512_or_si512(h, _mm512_slli_epi64(field, 48)));
    return all & ~(g.shorts | g.empty);
}

#else

uint32_t keys_read(const struct cell *cells, const struct feature_use *use, uint32_t count,
                   uint64_t *key)
{
    (void)cells;
    (void)use;
    (void)key;
    return (1u << count) - 1;
}

#endif
