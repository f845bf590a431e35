/* metric_scores.h: predictions of one label as they come: AUC, logloss, normalised entropy,
 * calibration.
 *
 * Up to `exact` examples every prediction is kept (4 bytes each) and AUC is exact. Beyond,
 * predictions are counted in 2^20 + 1 fixed cells (16 MiB, however many come): 8,192 to each power
 * of two, counted from both ends of [0, 1], so that a cell is at most 2^-13 of p, and of 1 - p,
 * wide: the same everywhere in the logit. Within a cell the order is not known: pairs there count
 * half, and could all be right or all wrong. So the true AUC is within auc +- sum over cells of
 * positives * negatives / 2, divided by all positives * all negatives, which is reported as
 * auc_error. Sums (logloss, calibration) are exact in both. A function of the predictions in the
 * order given, so whoever merges keeps one order. One thread. */
#ifndef PROTO_METRIC_METRIC_SCORES_H
#define PROTO_METRIC_METRIC_SCORES_H

#include "proto/base/err.h"
#include "proto/metric/metric.h"

#include <stddef.h>
#include <stdint.h>

struct metric_cell {
    uint32_t positives, negatives;
    double predicted; /* sum of p */
};

struct metric_scores {
    /* owned (capacity): bits of p above, the label in the lowest bit, so numbers sort as p does */
    uint32_t *packed;
    struct metric_cell *cell; /* owned; NULL while exact */
    uint64_t examples, positives;
    uint32_t capacity;
    double loss, predicted; /* sums */
};

/* expected: examples that will come, if that is known (memory is taken once); more than `exact` may
 * come. NOMEM. */
int metric_scores_open(struct metric_scores *s, uint64_t exact, uint64_t expected, struct err *e);
void metric_scores_close(struct metric_scores *s);
/* One prediction: p in [0, 1], and its metric_loss. NOMEM when the cells cannot be had; TOO_BIG at
 * METRIC_EXAMPLES_MAX.
 */
int metric_scores_add(struct metric_scores *s, float p, float y, double loss);
/* Fills *out but for gauc and groups, and at most `buckets` parts of the calibration curve, in
 * rising order of p. Needs as much memory again as is held while exact: NOMEM. Nothing may be added
 * afterwards. */
int metric_scores_finish(struct metric_scores *s, uint32_t buckets, struct metric *out,
                         struct metric_bucket *bucket, uint32_t *bucket_count, struct err *e);

#endif
