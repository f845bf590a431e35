/* batch_inner.h: inside of struct batch: how lines become examples, and values unique keys.
 *
 * batch_begin, batch_add for each line, batch_end. Buffers grow to the largest batch seen and are
 * kept: then nothing is allocated. */
#ifndef WORKER_DATA_BATCH_INNER_H
#define WORKER_DATA_BATCH_INNER_H

#include "worker/data/dataset.h"
#include "worker/data/feature.h"
#include "worker/data/lines.h"
#include "worker/data/slice.h"
#include "worker/data/unique.h"

#define BATCH_VALUES_MAX (1u << 25) /* values of one batch: 65,536 examples of 512 */

struct batch_space {
    struct lines lines;
    struct cell cell[CELLS_MAX];
    char reason[REASON_BYTES];
    /* Elements that the buffers hold: */
    size_t label_capacity, weight_capacity, numeric_capacity, index_capacity, offset_capacity;
    size_t time_capacity, value_capacity, group_capacity, by_capacity, row_capacity;
    uint32_t rows;   /* that this batch may have */
    uint64_t *mixed; /* owned: (values): keys, value by value; unique_make uses them up */
    float *weight;   /* owned, as all five; batch.weight.. point here when they are not NULL */
    uint32_t *offset;
    uint32_t *time; /* (examples): event times */
    uint64_t *group, *by;
    uint32_t *row; /* owned, as both above; batch.row points here when it is not NULL */
    uint32_t counts[LIMIT_FIELDS]; /* values of each field, of the line at hand */
    bool timed;                    /* the examples have times */
    bool single;                   /* every example so far has one value a field */
    struct unique unique;          /* batch.keys points into it */
};

/* Empties b for up to `rows` lines of these features. evaluating: with group and by, where the job
 * names any. NOMEM. */
int batch_begin(struct batch *b, const struct features *f, uint32_t rows, bool evaluating,
                struct err *e);
/* A malformed line is counted; name is its file's. positives_only: a line without a positive label,
 * or malformed, is counted as dropped instead: so the share of malformed lines among those looked
 * at stays what it is in the input. NOMEM, TOO_BIG (BATCH_VALUES_MAX). */
int batch_add(struct batch *b, const struct features *f, const struct line *line, const char *name,
              bool positives_only, struct err *e);
/* As batch_add, of a row that was parsed before (slice.h). */
int batch_add_stored(struct batch *b, const struct features *f, const struct slice_row *row,
                     bool positives_only, struct err *e);
/* A line's cells. DATA, with the reason. */
int batch_line_cut(const struct features *f, const struct line *line, struct cell *cell,
                   char *reason);
/* "file:line: reason" */
void batch_line_where(char out[256], const char *name, uint64_t number, const char *reason);
/* Fills keys, index, offset and key_count. NOMEM. */
int batch_end(struct batch *b, struct err *e);

#endif
