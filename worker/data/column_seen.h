/* column_seen.h: statistics of one column over a sample of a split's lines: distinct values, empty
 * cells, the range of its numbers, and how far it predicts the label by itself.
 *
 * Memory grows with the distinct values, which the caller bounds: by the number of lines that it
 * adds, or by a limit. At the limit half of the values are forgotten, by their hashes, and values
 * whose hashes are like theirs are not taken any more: what stays is a sample of the values, each
 * with all its rows (adaptive sampling, Flajolet 1990). */
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
    struct column_value *value; /* owned; (slots); a power of two */
    uint32_t slots, filled;     /* filled: distinct values, the empty cell among them */
    uint32_t distinct;          /* kept ones, without the empty cell */
    uint32_t slots_most;        /* the limit; 0: none */
    uint8_t thinned;            /* only hashes with so many leading zero bits are kept */
    uint64_t cells, empty;
    /* Nested counts of the cells that are not empty (for a multi: of its values): all of them, the
     * numbers, the numbers with a fraction, and those whose fraction is 0, as in "34.0". */
    uint64_t values, numbers, fractions, zeros;
    /* Multi only: values such as "3:0.5", those whose number has a fraction, and cells in
     * brackets. */
    uint64_t weighted, weights, lists;
    double least, most; /* range of the numbers; undefined when values is 0 */
    /* [0]: lines without a positive label, [1]: with one: how many there are, how many have a
     * number, and the range of their numbers; an empty cell is 0. */
    uint64_t labels[2], ranged[2];
    double least_of[2], most_of[2];
    char example[COLUMN_SEEN_EXAMPLES][COLUMN_SEEN_TEXT]; /* the first distinct texts */
    uint32_t examples;
};

/* Keeps at most three quarters of `slots` values, a power of two. Before the first one is added. */
void column_seen_limit(struct column_seen *c, uint32_t slots);
/* The number of distinct values without the empty cell; an estimate where c->thinned is not 0. */
static inline uint64_t column_seen_distinct(const struct column_seen *c)
{
    return (uint64_t)c->distinct << c->thinned;
}
/* Adds the cell of a column with one value. NOMEM. */
int column_seen_add(struct column_seen *c, const struct cell *cell, bool positive);
/* Adds the cell of a multi. `padding`: pieces that are no values. NOMEM. */
int column_seen_add_multi(struct column_seen *c, const struct cell *cell, char separator,
                          const struct feature_padding *padding);
/* These add parsed values: a key, the keys of a multi, a number. `cell` has the text of the keys as
 * an example; NULL: there is none. NOMEM. */
int column_seen_add_key(struct column_seen *c, uint64_t key, bool empty, bool positive);
int column_seen_add_keys(struct column_seen *c, const struct cell *cell, const uint64_t *key,
                         uint32_t count);
int column_seen_add_number(struct column_seen *c, double x, bool positive);
void column_seen_free(struct column_seen *c);

/* True when nearly each line has a value and all values differ, as an index or an id of the line
 * does. */
bool column_seen_own(const struct column_seen *c);
/* True when the value alone predicts the label, as far as the sample can tell. */
bool column_seen_tells(const struct column_seen *c);
/* True when one threshold on its numbers separates positive labels from others, as far as the
 * sample can tell. */
bool column_seen_parts(const struct column_seen *c);

#endif
