/* column_seen.h: what a sample of a split's lines shows of one column: how many values it has, how
 * many cells are empty, what its numbers span, and whether it tells the label by itself.
 *
 * Memory grows with the distinct values, which the caller bounds by the lines that it adds. */
#ifndef WORKER_DATA_COLUMN_SEEN_H
#define WORKER_DATA_COLUMN_SEEN_H

#include "worker/data/feature.h"

#include <stdbool.h>
#include <stdint.h>

#define COLUMN_SEEN_EXAMPLES 3u
#define COLUMN_SEEN_TEXT 24u /* bytes of an example, with NUL */

struct column_value {
    uint64_t hash;
    uint32_t rows, positives; /* rows 0: the slot is free */
};

struct column_seen {
    struct column_value *value; /* owned (slots), a power of two */
    uint32_t slots, filled;     /* filled: distinct values, the empty cell among them */
    uint32_t distinct;          /* without the empty cell */
    uint64_t cells, empty;
    /* of cells that are not empty, of a multi's values: those that are numbers, of these those with
     * a fraction, of these those whose fraction is 0, as in "34.0" */
    uint64_t values, numbers, fractions, zeros;
    /* of a multi: values such as "3:0.5", of these those whose number has a fraction; cells within
     * [ ] */
    uint64_t weighted, weights, lists;
    double least, most; /* of the numbers; values 0: undefined */
    /* of lines without a positive label, and of those with one: how many, and the span of their
     * numbers, an empty cell being 0 */
    uint64_t labels[2], ranged[2];
    double least_of[2], most_of[2];
    char example[COLUMN_SEEN_EXAMPLES][COLUMN_SEEN_TEXT]; /* the first that differ */
    uint32_t examples;
};

/* A cell of a column with one value; number: it is read as one, an empty cell as 0. NOMEM. */
int column_seen_add(struct column_seen *c, const struct cell *cell, bool positive);
/* A cell of several. padding: pieces that are none. NOMEM. */
int column_seen_add_multi(struct column_seen *c, const struct cell *cell, char separator,
                          const struct feature_padding *padding);
/* Parsed values, of which no text is left: a key, several keys of a multi, a number. NOMEM. */
int column_seen_add_key(struct column_seen *c, uint64_t key, bool empty, bool positive);
int column_seen_add_keys(struct column_seen *c, const uint64_t *key, uint32_t count);
int column_seen_add_number(struct column_seen *c, double x, bool positive);
void column_seen_free(struct column_seen *c);

/* Nearly each line has a value, and each has one of its own: an index, or an id of the line. */
bool column_seen_own(const struct column_seen *c);
/* The value alone says whether the label is positive, wherever the sample can tell. */
bool column_seen_tells(const struct column_seen *c);
/* A border between its numbers parts positive labels from others, wherever the sample can tell. */
bool column_seen_parts(const struct column_seen *c);

#endif
