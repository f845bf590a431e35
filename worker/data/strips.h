/* strips.h: the values of a slice column by column, as files have them: the form between rows
 * (slice.h) and bytes (pack.h). One thread at a time. Buffers grow and are reused. Zero-initialized
 * it is empty; strips_free releases it. */
#ifndef WORKER_DATA_STRIPS_H
#define WORKER_DATA_STRIPS_H

#include "worker/data/slice.h"

#define STRIPS_MISSING 2u /* a label of 0 and 1 that a row lacks */

struct strip {
    /* bytes of a value: 1 (label: 0, 1 or STRIPS_MISSING), 4 (label that is a number, weight, time,
     * number) or 8 (field, hash) */
    uint8_t width;
    bool multi, weighted;
    void *value;     /* owned: (values) */
    uint32_t *count; /* owned; multi only: (rows) */
    float *weight;   /* owned; weighted only: (values) */
    uint32_t values;
    size_t capacity, count_capacity, weight_capacity; /* in bytes; in counts; in weights */
};

struct strips {
    struct strip *of; /* owned: (capacity) */
    uint32_t columns, capacity;
    uint64_t *place; /* owned; scratch for a slice's places */
    uint8_t *zero;   /* owned; the values of a malformed row */
    size_t place_capacity, zero_capacity;
};

void strips_free(struct strips *s);
/* Empties s for these columns. NOMEM. */
int strips_begin(struct strips *s, const struct columns *c);
/* Room for `values` and their weights, and, of a multi, for `rows` counts. NOMEM. */
int strips_room(struct strip *one, uint32_t values, uint32_t rows);
/* Bytes of all values and counts. */
uint64_t strips_bytes(const struct strips *s, uint32_t rows);

/* Fills s with the values of a slice that has these columns. NOMEM. */
int strips_take(struct strips *s, const struct columns *c, const struct slice *b);
/* Columns of a slice among those of strips. */
struct strips_wanted {
    const struct columns *columns;
    const struct slice_layout *layout; /* layout of these columns */
    const uint32_t *place;             /* (columns): position of each in s; NULL: the same order */
};
/* Converts the columns to a slice of `rows` rows with room for text_bytes of texts. NOMEM. */
int strips_lay(struct strips *s, const struct strips_wanted *w, uint32_t rows, uint64_t text_bytes,
               struct slice *b);

#endif
