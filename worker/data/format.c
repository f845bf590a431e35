/* format.c: the formats by number, and what their readers share. */
#include "worker/data/format.h"

#include "proto/base/assert.h"

#ifdef __SSE2__
#include <emmintrin.h>
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

/* 16 bytes at a time. */
uint32_t format_split(char delimiter, const char *line, size_t bytes, struct cell *cell)
{
    uint32_t count = 0;
    size_t start = 0, i = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8(delimiter);
    for (; i + 16 <= bytes; i += 16) {
        __m128i block = _mm_loadu_si128((const __m128i *)(const void *)(line + i));
        for (unsigned hits = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(block, wanted)); hits != 0;
             hits &= hits - 1) {
            size_t end = i + (unsigned)__builtin_ctz(hits);
            if (count < CELLS_MAX)
                cell[count] = (struct cell){line + start, (uint32_t)(end - start)};
            count++;
            start = end + 1;
        }
    }
#endif
    for (; i < bytes; i++) {
        if (line[i] != delimiter)
            continue;
        if (count < CELLS_MAX)
            cell[count] = (struct cell){line + start, (uint32_t)(i - start)};
        count++;
        start = i + 1;
    }
    if (count < CELLS_MAX)
        cell[count] = (struct cell){line + start, (uint32_t)(bytes - start)};
    return count + 1;
}
