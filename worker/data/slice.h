/* slice.h: rows that have been parsed, column by column (columns.h), in the order of the log: what
 * stands between text, event files and the kept form of a split.
 *
 * A malformed row has zeros, or no values, and a text that says where it is and what is wrong.
 * Plain values; one thread at a time. Buffers grow to the largest slice and are kept: zeroed they
 * are empty, slice_free releases. */
#ifndef WORKER_DATA_SLICE_H
#define WORKER_DATA_SLICE_H

#include "worker/data/columns.h"
#include "worker/data/lines.h"

#define SLICE_ROWS 8192u             /* of a slice that is written */
#define SLICE_ROWS_MAX 65536u        /* of one that is read */
#define SLICE_VALUES_MAX (1u << 22)  /* of one column */
#define SLICE_BYTES_MAX (256u << 20) /* of all, as arrays */
#define SLICE_WHERE 256u             /* bytes of a malformed row's text, NUL counted */

struct slice_column {
    uint8_t width; /* bytes of a value: 1 (label), 4 (weight, time, number) or 8 (field, hash) */
    bool multi;
    void *value;     /* owned: (values) */
    uint32_t *count; /* owned: of a multi (rows) */
    uint32_t values;
    size_t capacity, count_capacity; /* bytes of both */
};

struct slice_bad {
    uint32_t row;
    char where[SLICE_WHERE]; /* "file:line: reason" */
};

struct slice {
    uint32_t rows, columns;
    struct slice_column *column; /* owned: (columns) */
    struct slice_bad *bad;       /* owned: (bad_rows), rising rows */
    uint32_t bad_rows, bad_capacity;
    struct slice_scratch *scratch; /* owned; of slice_add */
};

/* Empties b for rows of these columns. NOMEM. */
int slice_begin(struct slice *b, const struct columns *c, struct err *e);
void slice_free(struct slice *b);
/* Room for `values` of a column, and, of a multi, for `rows` counts. NOMEM. */
int slice_room(struct slice_column *c, uint32_t values, uint32_t rows);
/* Parses a line, of the file `name`, as the features' columns. NOMEM. */
int slice_add(struct slice *b, const struct features *f, const struct line *line, const char *name,
              struct err *e);
/* NOMEM. where is cut to SLICE_WHERE. */
int slice_bad_add(struct slice *b, uint32_t row, const char *where, size_t bytes);
/* Whether it is time to hand it on. */
bool slice_is_full(const struct slice *b);
/* Bytes of all values and counts. */
uint64_t slice_bytes(const struct slice *b);
/* First and last event time, if there is a time column and a row that is whole; else 0 and 0. */
void slice_times(const struct slice *b, const struct columns *c, uint32_t *first, uint32_t *last);

#endif
