/* strips.h: the values of a slice column by column, as files have them: what is between rows
 * (slice.h) and bytes (pack.h). One thread at a time. Buffers grow and are kept: zeroed they are
 * empty, strips_free releases. */
#ifndef WORKER_DATA_STRIPS_H
#define WORKER_DATA_STRIPS_H

#include "worker/data/slice.h"

struct strip {
    uint8_t width; /* bytes of a value: 1 (label), 4 (weight, time, number) or 8 (field, hash) */
    bool multi;
    void *value;     /* owned: (values) */
    uint32_t *count; /* owned: of a multi (rows) */
    uint32_t values;
    size_t capacity, count_capacity; /* bytes; counts */
};

struct strips {
    struct strip *of; /* owned: (capacity) */
    uint32_t columns, capacity;
    uint64_t *place; /* owned: scratch of a slice's places */
    uint8_t *zero;   /* owned: what a malformed row has */
    size_t place_capacity, zero_capacity;
};

void strips_free(struct strips *s);
/* Empties s for these columns. NOMEM. */
int strips_begin(struct strips *s, const struct columns *c);
/* Room for `values`, and, of a multi, for `rows` counts. NOMEM. */
int strips_room(struct strip *one, uint32_t values, uint32_t rows);
/* Bytes of all values and counts. */
uint64_t strips_bytes(const struct strips *s, uint32_t rows);

/* Fills s with the values of a slice whose columns are these. NOMEM. */
int strips_take(struct strips *s, const struct columns *c, const struct slice *b);
/* The columns of a slice among others. */
struct strips_wanted {
    const struct columns *columns;
    const struct slice_layout *layout; /* of these */
    const uint32_t *place;             /* (columns): where each is in s; NULL: all as they are */
};
/* Lays the columns out as a slice of `rows` rows, with room for so many bytes of texts. NOMEM. */
int strips_lay(struct strips *s, const struct strips_wanted *w, uint32_t rows, uint64_t text_bytes,
               struct slice *b);

#endif
