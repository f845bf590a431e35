/* metric_tally.h: predictions of one label counted in few cells. They are small enough to send with
 * every task of training, and their sum in any order gives the same figures, bit for bit.
 *
 * A cell is the 2^METRIC_TALLY_BITS-th part of a power of two of p, counted from both ends of
 * [0, 1] (metric.h). It is at most 2^-METRIC_TALLY_BITS of p, and of 1 - p, wide, so AUC is within
 * auc_error. Each example adds whole multiples of 2^-28 to the sums of the loss and of p. Sizes:
 * 32 KiB here, 24 bytes for each non-empty cell when sent. Pure functions.
 *
 * The cells of a label that is a number hold sums instead: cell 0 has the examples, and each sum of
 * struct metric_real has METRIC_TALLY_LIMBS cells, the digits of a number in base 2^24 with the
 * last one in units of 2^-96. Digits are summed without a carry, so these sums are whole numbers,
 * too, and exact for up to 2^40 examples. A larger number than 2^96 counts as that. */
#ifndef PROTO_METRIC_METRIC_TALLY_H
#define PROTO_METRIC_METRIC_TALLY_H

#include "proto/metric/metric.h"

#include <stdbool.h>
#include <stdint.h>

#define METRIC_TALLY_BITS 6u
#define METRIC_TALLY_OCTAVES 16u
#define METRIC_TALLY_CELLS (2 * (METRIC_TALLY_OCTAVES << METRIC_TALLY_BITS) + 1)
#define METRIC_TALLY_ONE (UINT64_C(1) << 28)

#define METRIC_TALLY_LIMBS 8u
#define METRIC_TALLY_LIMB_BITS 24u
#define METRIC_TALLY_REAL_SUMS 5u
#define METRIC_TALLY_REAL_CELLS (1 + METRIC_TALLY_REAL_SUMS * METRIC_TALLY_LIMBS)

struct metric_tally {
    bool is_real;             /* the label is a number */
    uint64_t loss, predicted; /* in units of 1 / METRIC_TALLY_ONE */
    uint64_t positives[METRIC_TALLY_CELLS], negatives[METRIC_TALLY_CELLS];
};

/* Empties tally (labels); real: bit i: label i is a number. */
void metric_tally_clear(struct metric_tally *tally, uint32_t labels, uint32_t real);
/* Adds one prediction: p in [0, 1], and its metric_loss; or two numbers, and any loss. */
void metric_tally_add(struct metric_tally *t, float p, float y, double loss);
void metric_tally_sum(struct metric_tally *to, const struct metric_tally *from);
uint64_t metric_tally_examples(const struct metric_tally *t);
/* The most examples that one of tally (labels) has. */
uint64_t metric_tally_most(const struct metric_tally *tally, uint32_t labels);
/* The sums of a label that is a number. */
struct metric_real metric_tally_real(const struct metric_tally *t);
/* All figures of metric.h except ece and gauc, which are NaN. */
void metric_tally_figures(const struct metric_tally *t, struct metric *out);

/* The total of many tallies, whose sums could exceed 64 bits at 1.5e11 examples. Zeros are an empty
 * total. Tallies added in the same order give the same total, bit for bit. */
struct metric_tally_total {
    bool is_real;
    double loss, predicted;
    uint64_t positives[METRIC_TALLY_CELLS], negatives[METRIC_TALLY_CELLS];
};
void metric_tally_total(struct metric_tally_total *to, const struct metric_tally *from);
void metric_tally_total_figures(const struct metric_tally_total *t, struct metric *out);

/* The form in messages and stores: the sums of each label, and its non-empty cells, in order of
 * label and cell. */
struct metric_tally_sums {
    uint64_t loss, predicted;
};
struct metric_tally_entry {
    uint32_t label, cell;
    uint64_t positives, negatives;
};
_Static_assert(sizeof(struct metric_tally_entry) == 24, "metric_tally_entry is stored");

/* tally (labels), sums (labels), entry (labels * METRIC_TALLY_CELLS). Returns the number of
 * entries. */
uint32_t metric_tally_put(const struct metric_tally *tally, uint32_t labels,
                          struct metric_tally_sums *sums, struct metric_tally_entry *entry);
/* Adds sums and entries to tally (labels). False, and nothing is added: they cannot be those of
 * `examples` examples, each with at least one of the labels, or of none at all. Neither need be
 * aligned. */
bool metric_tally_take(struct metric_tally *tally, uint32_t labels, uint64_t examples,
                       const void *sums, const void *entry, uint32_t count);

#endif
