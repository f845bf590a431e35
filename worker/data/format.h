/* format.h: the interface of an input format: it cuts a line into cells. Each format has a file
 * read_*.c that defines its struct format; its row in proto/job/format.h gives its name.
 *
 * `head` and `line` are pure: no state, any thread. They may change the line in place (csv quotes),
 * and the room behind it that its framing gives it (framing.h).
 * A line that does not fit is SHOAL_E_DATA with the cause in `reason` (REASON_BYTES); there is no
 * other error, whatever the bytes are. `cell` has room for CELLS_MAX. */
#ifndef WORKER_DATA_FORMAT_H
#define WORKER_DATA_FORMAT_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "worker/data/framing.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct features;

#define CELLS_MAX 4096u   /* columns of a line */
#define REASON_BYTES 192u /* the message about a malformed line, without file and line */

/* The text of one column; not NUL-ended. */
struct cell {
    const char *text;
    uint32_t bytes;
};

/* The entries of a libsvm or libffm line are values of the fields of their places, weighted values
 * of one field, or weighted values of the fields that their indexes, or their fields, number. */
enum entries { ENTRIES_PLACES, ENTRIES_ONE, ENTRIES_INDEXES, ENTRIES_FIELDS };

/* The entries that the first lines of an input have. */
struct format_look {
    bool words;             /* given: labels may be words of the job */
    uint32_t lines;         /* lines that fit the format */
    uint32_t places;        /* entries of the first of them */
    bool alike;             /* all have as many, at least one, and all values are 1 */
    uint32_t beyond;        /* the largest number of an index or a field above those below */
    bool number[CELLS_MAX]; /* such a number is there */
};

/* Cuts one line into `columns` cells. */
typedef int (*format_line)(const struct features *f, char *line, size_t bytes, struct cell *cell,
                           char *reason);

/* Adjacent columns: one with this name, or several named name1, name2.. */
struct format_columns {
    const char *name;
    uint32_t count;
    enum column_type type;
};

struct format {
    format_line line;
    /* The columns that every file has, ended by a count of 0; the label is the first. NULL: the
     * first line defines them: */
    const struct format_columns *columns;
    /* Cuts the first line into *count cells, at most CELLS_MAX. */
    int (*head)(const struct features *f, char *line, size_t bytes, struct cell *cell,
                uint32_t *count, char *reason);
    /* Columns have names and types, from a header or the job, and any may be the label. False: the
     * first is the label. */
    bool named;
    bool whole_numbers; /* numbers are integers */
    /* Not NULL: the columns are known once many lines have been seen, and there is no `head`. Looks
     * at a line, which it may change. */
    int (*look)(char *line, size_t bytes, struct format_look *out, char *reason);
    /* Each row names its cells: `head` gives names, to which those of the job are added, and `line`
     * finds the columns by name. With `named`. */
    bool keyed;
    enum framing framing; /* how rows lie in the text */
};

const struct format *format_of(enum data_format format);
const char *format_name(enum data_format format);

#define FORMAT_DECLARED(KIND, name, number) extern const struct format format_##name;
DATA_FORMATS(FORMAT_DECLARED)
#undef FORMAT_DECLARED

/* A hash of data.delimiter; for one character, its value. */
uint64_t format_delimiter_hash(const char delimiter[DELIMITER_BYTES]);

/* Cuts a line at every `delimiter`. Returns the number of cells, of which the first CELLS_MAX are
 * stored. */
uint32_t format_split(char delimiter, const char *line, size_t bytes, struct cell *cell);
/* format_split for any processor. */
uint32_t format_split_narrow(char delimiter, const char *line, size_t bytes, struct cell *cell);

#endif
