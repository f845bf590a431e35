/* format.c: the table of formats, and functions that their readers share. */
#include "worker/data/format.h"

#include "proto/base/assert.h"
#include "proto/base/x86.h"

#ifdef SHOAL_X86
#include <immintrin.h>
#endif

#define FORMAT(KIND, name, number) [DATA_##KIND] = &format_##name,
static const struct format *const formats[] = {DATA_FORMATS(FORMAT)};
#define NAME(KIND, name, number) [DATA_##KIND] = #name,
static const char *const names[] = {DATA_FORMATS(NAME)};

const struct format *format_of(enum data_format format)
{
    SHOAL_ASSERT((size_t)format < sizeof formats / sizeof formats[0]);
    return formats[format];
}

const char *format_name(enum data_format format)
{
    SHOAL_ASSERT((size_t)format < sizeof names / sizeof names[0]);
    return names[format];
}

uint64_t format_delimiter_hash(const char delimiter[DELIMITER_BYTES])
{
    uint64_t hash = 0;
    for (unsigned i = 0; i < DELIMITER_BYTES && delimiter[i] != '\0'; i++)
        hash |= (uint64_t)(unsigned char)delimiter[i] << 8 * i;
    return hash;
}

struct split {
    struct cell *cell;
    const char *start; /* start of the next cell */
    uint32_t count;
};

/* Ends a cell at `end`. */
static inline void split_add(struct split *s, const char *end)
{
    if (s->count < CELLS_MAX)
        s->cell[s->count] = (struct cell){s->start, (uint32_t)(end - s->start)};
    s->count++;
    s->start = end + 1;
}

#ifdef SHOAL_X86
/* `hits`: a bit for each delimiter from `block` on. */
static inline void split_hits(struct split *s, const char *block, uint64_t hits)
{
    for (; hits != 0; hits &= hits - 1)
        split_add(s, block + __builtin_ctzll(hits));
}
#endif

/* Compares 16 bytes at a time, which every x86-64 processor can. */
uint32_t format_split_narrow(char delimiter, const char *line, size_t bytes, struct cell *cell)
{
    struct split s = {cell, line, 0};
    size_t i = 0;
#ifdef SHOAL_X86
    const __m128i wanted = _mm_set1_epi8(delimiter);
    for (; i + 16 <= bytes; i += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(const void *)(line + i));
        split_hits(&s, line + i, (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, wanted)));
    }
#endif
    for (; i < bytes; i++)
        if (line[i] == delimiter)
            split_add(&s, line + i);
    split_add(&s, line + bytes);
    return s.count;
}

#ifdef SHOAL_X86
/* Compares 64 bytes at a time; a mask keeps bytes behind the line from being read. */
__attribute__((target("avx512f,avx512bw,bmi,bmi2"))) static uint32_t
split_wide(char delimiter, const char *line, size_t bytes, struct cell *cell)
{
    struct split s = {cell, line, 0};
    const __m512i wanted = _mm512_set1_epi8(delimiter);
    for (size_t i = 0; i < bytes; i += 64) {
        uint64_t is = UINT64_MAX;
        if (bytes - i < 64)
            is = _bzhi_u64(UINT64_MAX, (uint32_t)(bytes - i));
        __m512i block = _mm512_maskz_loadu_epi8(is, line + i);
        split_hits(&s, line + i, _mm512_mask_cmpeq_epi8_mask(is, block, wanted));
    }
    split_add(&s, line + bytes);
    return s.count;
}
#endif

uint32_t format_split(char delimiter, const char *line, size_t bytes, struct cell *cell)
{
#ifdef SHOAL_X86
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("bmi2"))
        return split_wide(delimiter, line, bytes, cell);
#endif
    return format_split_narrow(delimiter, line, bytes, cell);
}
