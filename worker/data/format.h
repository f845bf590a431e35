/* format.h: how a format of the input is read: line -> cells. A file each, read_*.c, which defines
 * its struct format; its row in proto/job/format.h finds it by its name.
 *
 * `head` and `line` are pure: no state, any thread. They may change the line in place (csv quotes).
 * A line that does not fit is SHOAL_E_DATA with the cause in `reason` (REASON_BYTES); nothing else
 * can go wrong, whatever the bytes are. cell has room for CELLS_MAX. */
#ifndef WORKER_DATA_FORMAT_H
#define WORKER_DATA_FORMAT_H

#include "proto/base/err.h"
#include "proto/job/job.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct features;

#define CELLS_MAX 4096u   /* columns of a line */
#define REASON_BYTES 192u /* why a line is malformed, as a sentence without file and line */

/* The text of one column; not NUL-ended. */
struct cell {
    const char *text;
    uint32_t bytes;
};

/* Cuts one line into the cells that features.columns asks for. */
typedef int (*format_line)(const struct features *f, char *line, size_t bytes, struct cell *cell,
                           char *reason);

/* Columns that follow one another: one by this name, or several as name1, name2.. */
struct format_columns {
    const char *name;
    uint32_t count;
    enum column_type type;
};

struct format {
    format_line line;
    /* The columns, where every file has these; ended by a count of 0; the label is the first. Else
     * NULL, and the first line tells how many there are: */
    const struct format_columns *columns;
    /* the cells of the first line; *count of them, at most CELLS_MAX. */
    int (*head)(const struct features *f, char *line, size_t bytes, struct cell *cell,
                uint32_t *count, char *reason);
    /* Columns have names and types, by a header or the job, and labels may stand in any. Else the
     * first is the label. */
    bool named;
    bool whole_numbers; /* a number is an integer */
};

const struct format *format_of(enum data_format format);
const char *format_name(enum data_format format);

#define FORMAT_DECLARED(KIND, name, number) extern const struct format format_##name;
DATA_FORMATS(FORMAT_DECLARED)
#undef FORMAT_DECLARED

/* Cuts at every `delimiter`: the number of cells, of which the first CELLS_MAX are stored. What
 * readers share. */
uint32_t format_split(char delimiter, const char *line, size_t bytes, struct cell *cell);
/* The same on any processor. */
uint32_t format_split_narrow(char delimiter, const char *line, size_t bytes, struct cell *cell);

#endif
