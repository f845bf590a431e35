/* metric_cell.h: cells of predictions, finer or coarser; and the AUC of cells (or of equal
 * predictions) taken in rising order, while the order within a cell is not known. Internal to
 * proto/metric. */
#ifndef PROTO_METRIC_METRIC_CELL_H
#define PROTO_METRIC_METRIC_CELL_H

#include "proto/metric/metric.h"

#include <math.h>
#include <string.h>

/* 2^bits cells for each power of two, of p below 1/2 and of 1 - p above; `octaves` powers of two:
 * smaller numbers share a cell. */
struct metric_grid {
    uint32_t bits, octaves;
};

static inline uint32_t metric_float_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits & 0x7fffffff; /* -0 is 0 */
}

/* 1 - p is exact for p in [1/2, 1]. */
static inline uint32_t metric_cell_of(float p, const struct metric_grid *g)
{
    const uint32_t half = 0x3f000000u; /* 0.5f */
    uint32_t least = half - (g->octaves << 23), side = g->octaves << g->bits,
             bits = metric_float_bits(p > 0.5f ? 1.0f - p : p),
             at = bits <= least ? 0 : (bits - least) >> (23 - g->bits);
    return p > 0.5f ? 2 * side - at : at;
}

struct metric_pairs {
    uint64_t positives, below; /* sums so far; below: negatives */
    double area, unsure; /* pairs in the right order; half the pairs whose order is not known */
};

static inline void metric_pairs_add(struct metric_pairs *w, uint64_t positives, uint64_t negatives)
{
    double pairs = (double)positives * (double)negatives / 2;
    w->area += (double)positives * (double)w->below + pairs;
    w->unsure += pairs;
    w->below += negatives;
    w->positives += positives;
}

/* The entropy in nats of a coin that shows 1 with this probability; 0 at 0 and 1. */
static inline double metric_entropy(double share)
{
    if (share > 0 && share < 1)
        return -share * log(share) - (1 - share) * log1p(-share);
    return 0;
}

/* The figures after all runs were added, without ece and gauc. loss and predicted: the sums over
 * all examples. */
static inline void metric_pairs_figures(const struct metric_pairs *w, double loss, double predicted,
                                        struct metric *out)
{
    double positives = (double)w->positives, n = positives + (double)w->below,
           pairs = positives * (double)w->below,
           entropy = n > 0 ? metric_entropy(positives / n) : 0, logloss = metric_ratio(loss, n);
    *out = (struct metric){.auc = metric_ratio(w->area, pairs),
                           .auc_error = metric_ratio(w->unsure, pairs),
                           .logloss = logloss,
                           .ne = metric_ratio(logloss, entropy),
                           .calibration = metric_ratio(predicted, positives),
                           .ece = (double)NAN,
                           .gauc = (double)NAN,
                           .gauc_share = 1,
                           .examples = w->positives + w->below,
                           .positives = w->positives};
}

#endif
