/* metric.h: the figures about a model's predictions of one label, and their definitions.
 *
 * y is the label (0 or 1), p the prediction, N the number of examples. Weights of examples
 * (data.weight) have no effect: they say how much training should heed an example, while evaluation
 * asks how good the predictions are.
 *
 *   auc          the share of pairs of a positive and a negative in which the positive has the
 *                higher p; ties count half (Mann and Whitney 1947; Hanley and McNeil 1982)
 *   logloss      mean of -y ln p - (1 - y) ln (1 - p), with p kept within [1e-15, 1 - 1e-15]
 *   ne           normalised entropy: logloss divided by the entropy of the mean label, which is the
 *                logloss of a model that always predicts it. Below 1 is better than that (He et
 *                al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014)
 *   calibration  mean p / mean y (the same paper); 1 is right, above 1 predicts too many clicks
 *   ece          expected calibration error: examples in order of p are cut into buckets of equal
 *                count, and |mean p - mean y| of each is averaged, weighted by count (Naeini,
 *                Cooper and Hauskrecht, AAAI 2015; equal counts as in Nguyen and O'Connor, EMNLP
 *                2015). Equal predictions are never in two buckets, so there may be fewer than
 *                asked for
 *   gauc         group AUC: AUC within each group that has both labels, averaged with the group's
 *                number of examples (its impressions) as weight; other groups are left out (Zhu et
 *                al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017; weighted
 *                by impressions as in Zhou et al., "Deep Interest Network", KDD 2018)
 *
 * A label that is a number (model.loss: mse or huber) has these figures; y and p are numbers:
 *
 *   rmse         root of the mean of (p - y)^2; its square is the mean squared error
 *   mae          mean of |p - y|
 *   r2           1 - mean (p - y)^2 / variance of y: 0 is as good as always predicting the mean
 *                label, 1 is right, below 0 is worse than that
 *   calibration  mean p / mean y, where mean y is above 0
 *
 * The examples of a label are those that have it: with several labels some may be missing.
 *
 * A figure that has no meaning (AUC with one label only) is NaN. */
#ifndef PROTO_METRIC_METRIC_H
#define PROTO_METRIC_METRIC_H

#include "proto/base/err.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#define METRIC_EXAMPLES_MAX UINT32_MAX /* examples of one evaluation */

/* Stored by the coordinator: a member keeps its place. Where metric_is_real, auc, logloss and gauc
 * are NaN, and rmse, r2 and mae stand in place of figures that only labels of 0 and 1 have. */
struct metric {
    double auc;
    union {
        /* the true AUC is within auc +- auc_error; 0: auc is exact (metric_scores) */
        double auc_error;
        double rmse;
    };
    double logloss;
    union {
        double ne;
        double r2;
    };
    double calibration;
    union {
        double ece;
        double mae;
    };
    double gauc; /* NaN without groups */
    /* share of the groups, sampled by hash, that gauc covers; 1: all (metric_group.h); 0: the label
     * is a number */
    double gauc_share;
    uint64_t groups; /* groups that count in gauc, because they have both labels */
    uint64_t examples, positives;
};
_Static_assert(sizeof(struct metric) == 88, "metric is stored");

static inline bool metric_is_real(const struct metric *m)
{
    return m->gauc_share == 0 && isnan(m->auc) && isnan(m->logloss);
}

/* A part of the calibration curve: examples with neighbouring predictions. */
struct metric_bucket {
    uint64_t examples, positives;
    double predicted; /* sum of p */
};

/* NaN where there is nothing to divide by. */
static inline double metric_ratio(double sum, double by)
{
    if (by > 0)
        return sum / by;
    return (double)NAN;
}

/* The loss of one example; p in [0, 1]. */
double metric_loss(float p, float y);
/* The same; real: the square of the error of a number. */
static inline double metric_loss_of(bool real, float p, float y)
{
    double error = (double)p - (double)y;
    return real ? error * error : metric_loss(p, y);
}
/* The most examples that one of the labels has. */
uint64_t metric_most(const struct metric *of, uint32_t count);
/* Means over several labels, for early stopping and the head of a report: over the labels of 0 and
 * 1, and only where there is none over those that are numbers, for the two kinds have no figure in
 * common. Each figure is over the labels that have it; examples are metric_most; positives and
 * groups are those of the first label of the kind. auc_error is the mean too, which bounds the
 * mean's error. The logloss is weighted as in training: weight (count), not all 0. */
void metric_mean(const struct metric *of, const double *weight, uint32_t count, struct metric *out);

/* Predictions of one label as they come: AUC, logloss, normalised entropy, calibration.
 *
 * Up to `exact` examples every prediction is kept (4 bytes each) and AUC is exact. Beyond that,
 * predictions are counted in 2^20 + 1 fixed cells (16 MiB, whatever their number). Each power of
 * two has 8,192 cells, counted from both ends of [0, 1]. So a cell is at most 2^-13 of p, and of
 * 1 - p, wide: the same everywhere in the logit.
 *
 * Within a cell the order is not known: its pairs count half, and could all be right or all wrong.
 * So the true AUC is within auc +- sum over cells of positives * negatives / 2, divided by all
 * positives * all negatives. auc_error is that bound. Sums (logloss, calibration) are exact in both
 * modes. The result is a function of the predictions in the order given, so a caller that merges
 * keeps one order. One thread. */
struct metric_cell {
    uint32_t positives, negatives;
    double predicted; /* sum of p */
};

/* Sums over the examples of a label that is a number. */
struct metric_real {
    double square, absolute;               /* squares and absolute values of p - y */
    double predicted, label, label_square; /* values of p, y, y^2 */
    uint64_t examples;
};
static inline void metric_real_add(struct metric_real *r, float p, float y)
{
    double error = (double)p - (double)y;
    r->square += error * error;
    r->absolute += fabs(error);
    r->predicted += (double)p;
    r->label += (double)y;
    r->label_square += (double)y * (double)y;
    r->examples++;
}
void metric_real_figures(const struct metric_real *r, struct metric *out);

struct metric_scores {
    bool is_real; /* only `real` is counted */
    struct metric_real real;
    /* owned (capacity): the bits of p, shifted left, and the label in the lowest bit: they sort as
     * p does */
    uint32_t *packed;
    struct metric_cell *cell; /* owned; NULL while exact */
    uint64_t examples, positives;
    uint32_t capacity;
    double loss, predicted; /* sums */
};

/* expected: the number of examples if it is known, so that memory is allocated once. More than
 * `exact` may come. is_real: the label is a number. NOMEM. */
int metric_scores_open(struct metric_scores *s, bool is_real, uint64_t exact, uint64_t expected,
                       struct err *e);
void metric_scores_close(struct metric_scores *s);
/* Adds one prediction: p in [0, 1], and its metric_loss; or two numbers. NOMEM when there is no
 * memory for the cells; TOO_BIG at METRIC_EXAMPLES_MAX. */
int metric_scores_add(struct metric_scores *s, float p, float y, double loss);
/* Fills *out except gauc and groups, and at most `buckets` parts of the calibration curve, in
 * rising order of p, none where the label is a number. While exact it needs as much memory again as
 * it holds: NOMEM. No prediction may be added afterwards. */
int metric_scores_finish(struct metric_scores *s, uint32_t buckets, struct metric *out,
                         struct metric_bucket *bucket, uint32_t *bucket_count, struct err *e);

#endif
