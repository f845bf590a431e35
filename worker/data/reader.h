/* reader.h: line -> cells. A reader cuts one line of its format into the cells that
 * features.columns asks for.
 *
 * Pure: no state, any thread. The line may be changed in place (csv quotes). A line that does not
 * fit is SHOAL_E_DATA with the cause in `reason` (REASON_BYTES); nothing else can go wrong,
 * whatever the bytes are. cell has room for CELLS_MAX. */
#ifndef WORKER_DATA_READER_H
#define WORKER_DATA_READER_H

#include "proto/base/err.h"
#include "worker/data/example.h"
#include "worker/data/feature.h"

#include <stddef.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

typedef int (*reader)(const struct features *f, char *line, size_t bytes, struct cell *cell,
                      char *reason);

/* Label, 13 integers, 26 categories, separated by tabs. */
int read_criteo_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                     char *reason);
/* "label idx:1 idx:1 ...": cell 0 is the label, cell i the idx of entry i. */
int read_libsvm_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                     char *reason);
/* Cells between delimiters; a cell that starts with a double quote ends with one, and "" in it is a
 * quote. */
int read_csv_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                  char *reason);

/* Without knowing how many there have to be; *count of them. */
int read_libsvm_split(char *line, size_t bytes, struct cell *cell, uint32_t *count, char *reason);
int read_csv_split(char delimiter, char *line, size_t bytes, struct cell *cell, uint32_t *count,
                   char *reason);

/* Cuts at every `delimiter`, 16 bytes at a time: the number of cells, of which the first CELLS_MAX
 * are stored. */
static inline uint32_t reader_split(char delimiter, const char *line, size_t bytes,
                                    struct cell *cell)
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

#endif
