/* batch_inner.h: how a batch is filled: lines become examples, and values become unique keys.
 *
 * The calls are batch_begin, batch_add for each line, batch_end. Buffers grow to the largest batch
 * and are reused, so that a later batch allocates nothing. */
#ifndef WORKER_DATA_BATCH_INNER_H
#define WORKER_DATA_BATCH_INNER_H

#include "worker/data/dataset.h"
#include "worker/data/draw.h"
#include "worker/data/feature.h"
#include "worker/data/lines.h"
#include "worker/data/slice.h"
#include "worker/data/unique.h"

#define BATCH_VALUES_MAX (1u << 25) /* values of one batch: 65,536 examples of 512 */

struct batch_space {
    struct lines lines;
    struct cell cell[CELLS_MAX];
    char reason[REASON_BYTES];
    /* capacities in elements */
    size_t label_capacity, weight_capacity, numeric_capacity, index_capacity, offset_capacity;
    size_t time_capacity, value_capacity, group_capacity, by_capacity, row_capacity;
    uint32_t rows;       /* most rows of this batch */
    uint64_t *mixed;     /* owned; (values): keys, value by value; unique_make overwrites them */
    float *value_weight; /* owned; (values), where the features are weighted */
    float *factor;       /* owned; batch.factor, or unused */
    size_t value_weight_capacity, factor_capacity;
    const uint8_t *pooling; /* borrowed: that of the features' fields */
    bool weighted;          /* the features are */
    bool plain;             /* all values so far weigh 1 */
    /* owned, as the five arrays below; batch.weight and the others point here or are NULL */
    float *weight;
    uint32_t *offset;
    uint32_t *time; /* (examples): event times */
    uint64_t *group, *by;
    uint32_t *row;                 /* owned, as are both above; batch.row points here or is NULL */
    uint32_t counts[LIMIT_FIELDS]; /* values of each field of the current line */
    bool timed;                    /* the examples have times */
    bool single;                   /* every example so far has one value a field */
    struct unique unique;          /* batch.keys points into it */
};

/* Empties b and prepares it for up to `rows` lines. `evaluating` adds group and by where the job
 * names them. NOMEM. */
int batch_begin(struct batch *b, const struct features *f, uint32_t rows, bool evaluating,
                struct err *e);
/* Adds line `row` of its split; `name` is its file's name. A malformed line is counted. A line that
 * the draw leaves out is counted as dropped instead: of those that are taken for a positive label
 * alone, malformed ones, too, so that the share of malformed lines stays that of the input. NOMEM,
 * TOO_BIG (BATCH_VALUES_MAX). */
int batch_add(struct batch *b, const struct features *f, const struct line *line, const char *name,
              const struct draw *draw, uint64_t row, struct err *e);
/* Adds a row that was parsed before (slice.h); `number` is its row in the split. */
int batch_add_stored(struct batch *b, const struct features *f, const struct slice_row *row,
                     const struct draw *draw, uint64_t number, struct err *e);
/* Writes "file:line: reason". */
void batch_line_where(char out[256], const char *name, uint64_t number, const char *reason);
/* Fills keys, index, offset and key_count. NOMEM. */
int batch_end(struct batch *b, struct err *e);

#endif
