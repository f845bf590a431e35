/* example.h: one line on its way to the batch: cells as they stand in the text, and where the
 * example's numbers go. */
#ifndef WORKER_DATA_EXAMPLE_H
#define WORKER_DATA_EXAMPLE_H

#include <stdbool.h>
#include <stdint.h>

#define CELLS_MAX 4096u   /* columns of a line */
#define REASON_BYTES 192u /* why a line is malformed, as a sentence without file and line */

/* The text of one column; not NUL-ended. */
struct cell {
    const char *text;
    uint32_t bytes;
};

/* Places in the arrays of a batch, borrowed. */
struct example {
    float *label;  /* (tasks) */
    float *weight; /* (1); needed when the features have a weight */
    /* (1): event time in seconds since 1970; needed when the features have a time */
    uint32_t *time;
    float *numeric;      /* (numerics) */
    uint64_t *key;       /* room for all values that the line can have */
    uint32_t *count;     /* (fields): values of each field; NULL when every field has exactly one */
    uint64_t *group;     /* (1): hash of the value that evaluation groups by; NULL: not asked for */
    uint64_t *by;        /* (by_count): likewise, of the values that calibration is told by */
    bool positives_only; /* an example without a positive label is to be dropped */
    bool dropped;        /* result: it was, and nothing but the labels is filled */
    uint32_t keys;       /* result: values in all */
};

#endif
