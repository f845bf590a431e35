/* batch.h: inside of struct batch (dataset.h): how lines become examples, and values unique keys.
 *
 * batch_begin, batch_add for each line, batch_end. Buffers grow to the largest batch seen and are kept: then nothing is
 * allocated. */
#ifndef WORKER_BATCH_H
#define WORKER_BATCH_H

#include "worker/dataset.h"
#include "worker/feature.h"
#include "worker/lines.h"
#include "worker/reader.h"

#define BATCH_BUCKET_BITS 16u
#define BATCH_VALUES_MAX (1u << 25) /* values of one batch: 65,536 examples of 512 */

struct unique_key {
    uint64_t mixed; /* key_mix of the key */
    uint32_t place; /* in order of first sight */
};

struct batch_space {
    struct lines lines;
    struct cell cell[CELLS_MAX];
    char reason[REASON_BYTES];
    size_t label_capacity, numeric_capacity, offset_capacity, value_capacity; /* elements that the buffers hold */
    uint32_t rows;                                                            /* that this batch may have */
    uint64_t *mixed;                                                          /* owned: (values) */
    uint32_t *offset;                  /* owned; batch.offset points here when it is not NULL */
    uint32_t counts[LIMIT_FIELDS];     /* values of each field, of the line at hand */
    bool single;                       /* every example so far has one value a field */
    uint64_t *slot;                    /* owned: (slots): high half of the mixed key, place + 1 below; 0: empty */
    uint32_t slots;                    /* a power of two; batch.keys, found, sorted and rank hold as many */
    struct unique_key *found, *sorted; /* owned: (unique keys) */
    uint32_t *rank;                    /* owned: (unique keys): place -> position in the sorted order */
    uint32_t *bucket;                  /* owned: (2^BATCH_BUCKET_BITS + 1) */
};

/* Empties b for up to `rows` lines of these features. NOMEM. */
int batch_begin(struct batch *b, const struct features *f, uint32_t rows, struct err *e);
/* A malformed line is counted; name is its file's. NOMEM, TOO_BIG (BATCH_VALUES_MAX). */
int batch_add(struct batch *b, const struct features *f, const struct line *line, const char *name, struct err *e);
/* Fills keys, index, offset and key_count. NOMEM. */
int batch_end(struct batch *b, struct err *e);

#endif
