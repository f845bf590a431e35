/* walk.h: shared by the two walks over keys, pull_walk.h and push_walk.h.
 *
 * A walk works on three keys at once: it processes key i, prefetches the row of key i + WALK_ROW,
 * and the index line of key i + WALK_ROW + WALK_INDEX. Tablet borders do not interrupt it. */
#ifndef EMBEDDING_ROWS_WALK_H
#define EMBEDDING_ROWS_WALK_H

#include "embedding/rows/tablet.h"
#include "proto/base/isa.h"
#include "proto/base/minmax.h"
#include "proto/base/x86.h"

#ifdef SHOAL_X86
#include <immintrin.h>
#endif

/* both are powers of two, chosen by measurement */
#define WALK_ROW 32u
#define WALK_INDEX 32u

/* Prefetches the lines of a row's first `bytes`, at most 1024: the processor predicts the rest.
 * `aligned`: rows begin at a cache line; otherwise the last byte may lie in one more line. */
ISA_INLINE void walk_prefetch(const void *row, const uint32_t bytes, const bool aligned)
{
    const char *p = row;
    const uint32_t most = MIN(bytes, 1024);
    for (uint32_t at = 0; at < most; at += 64)
        __builtin_prefetch(p + at);
    if (!aligned)
        __builtin_prefetch(p + most - 1);
}

/* bucket_match with whole vectors. The bits above the keys' compare bytes that are no keys; the
 * count masks them. */
#ifdef SHOAL_X86
ISA_TARGET_AVX2 ISA_INLINE uint32_t walk_match_avx2(const struct bucket *b, uint64_t key)
{
    __m256i wanted = _mm256_set1_epi64x((long long)key);
    __m256i low = _mm256_cmpeq_epi64(_mm256_load_si256((const __m256i *)(const void *)b), wanted);
    uint32_t match =
        (uint32_t)_mm256_movemask_pd(_mm256_castsi256_pd(low)) | (uint32_t)(b->key[4] == key) << 4;
    return match & ((1u << b->count) - 1);
}
ISA_TARGET_AVX512 ISA_INLINE uint32_t walk_match_avx512(const struct bucket *b, uint64_t key)
{
    __m512i wanted = _mm512_set1_epi64((long long)key);
    return _mm512_cmpeq_epi64_mask(_mm512_load_si512(b), wanted) & ((1u << b->count) - 1);
}
#else
#define walk_match_avx2 bucket_match
#define walk_match_avx512 bucket_match
#endif

#endif
