/* read_criteo.c: the log of the Criteo challenge: tabs, no header, 40 columns. */
#include "worker/data/feature.h"

#include <stdio.h>

static int criteo_line(const struct features *f, char *line, size_t bytes, struct cell *cell,
                       char *reason)
{
    uint32_t count = format_split('\t', line, bytes, cell);
    if (count == f->columns)
        return 0;
    snprintf(reason, REASON_BYTES,
             "%u columns between tabs, not %u (label, 13 integers, 26 categories)", count,
             f->columns);
    return SHOAL_E_DATA;
}

static const struct format_columns columns[] = {
    {"label", 1, COLUMN_LABEL}, {"I", 13, COLUMN_NUMBER}, {"C", 26, COLUMN_CATEGORY}, {0}};
const struct format format_criteo = {
    .line = criteo_line, .columns = columns, .whole_numbers = true};
