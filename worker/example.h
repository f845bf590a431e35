/* example.h: one line on its way to the batch: cells as they stand in the text, and where the example's numbers go. */
#ifndef WORKER_EXAMPLE_H
#define WORKER_EXAMPLE_H

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
    float *label;    /* (1) */
    float *numeric;  /* (numerics) */
    uint64_t *key;   /* room for all values that the line can have */
    uint32_t *count; /* (fields): values of each field; NULL when every field has exactly one */
    uint32_t keys;   /* result: values in all */
};

#endif
