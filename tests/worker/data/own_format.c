/* read_words.c: a label, then words with a blank between them; a word's position is its field. */
#include "worker/data/feature.h"

#include <stdio.h>

static int words_head(const struct features *f, char *line, size_t bytes, struct cell *cell,
                      uint32_t *count, char *reason)
{
    (void)f;
    *count = format_split(' ', line, bytes, cell);
    if (*count >= 2 && *count <= CELLS_MAX)
        return 0;
    snprintf(reason, REASON_BYTES, "%u words, not 2 to %u", *count, CELLS_MAX);
    return SHOAL_E_DATA;
}

static int words_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                      char *reason)
{
    uint32_t count = format_split(' ', line, bytes, cell);
    if (count == f->columns)
        return 0;
    snprintf(reason, REASON_BYTES, "%u words, not %u as on the first line", count, f->columns);
    return SHOAL_E_DATA;
}

const struct format format_words = {.line = words_line, .head = words_head};
