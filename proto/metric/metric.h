/* metric.h: what is said of a model's predictions of one label, and what the figures mean.
 *
 * y is the label (0 or 1), p the prediction, N the number of examples. Weights of examples
 * (data.weight) do not enter: they say what training should heed, and evaluation asks how good the
 * predictions are.
 *
 *   auc          the share of pairs of a positive and a negative in which the positive has the
 *                higher p; ties count half (Mann and Whitney 1947; Hanley and McNeil 1982)
 *   logloss      mean of -y ln p - (1 - y) ln (1 - p), with p kept within [1e-15, 1 - 1e-15]
 *   ne           normalised entropy: logloss divided by the entropy of the mean label, which is the
 *                logloss of a model that always predicts it. Below 1 is better than that (He et
 *                al., "Practical Lessons from Predicting Clicks on Ads at Facebook", ADKDD 2014)
 *   calibration  mean p / mean y (the same paper); 1 is right, above 1 promises too much
 *   ece          expected calibration error: examples in order of p are cut into buckets of equal
 *                count, and |mean p - mean y| of each is averaged, weighted by count (Naeini,
 *                Cooper and Hauskrecht, AAAI 2015; equal counts as in Nguyen and O'Connor, EMNLP
 *                2015). Equal predictions are never in two buckets, so there may be fewer than
 *                asked for
 *   gauc         group AUC: AUC within each group that has both labels, averaged with the group's
 *                number of examples as weight, that is its impressions; other groups count nowhere
 *                (Zhu et al., "Optimized Cost per Click in Taobao Display Advertising", KDD 2017;
 *                weighted by impressions as in Zhou et al., "Deep Interest Network", KDD 2018)
 *
 * A figure that has no meaning (AUC with one label only) is NaN. */
#ifndef PROTO_METRIC_METRIC_H
#define PROTO_METRIC_METRIC_H

#include <stdint.h>

#define METRIC_EXAMPLES_MAX UINT32_MAX /* of one evaluation */

struct metric {
    double auc;
    /* the true one is within auc +- auc_error; 0: auc is exact (metric_scores.h) */
    double auc_error;
    double logloss, ne, calibration, ece;
    double gauc; /* NaN without groups */
    /* of the groups, drawn by hash, that gauc is taken over; 1: all (metric_group.h) */
    double gauc_share;
    uint64_t groups; /* counted in gauc: those with both labels */
    uint64_t examples, positives;
};

/* A part of the calibration curve: examples with neighbouring predictions. */
struct metric_bucket {
    uint64_t examples, positives;
    double predicted; /* sum of p */
};

/* The loss of one example; p in [0, 1]. */
double metric_loss(float p, float y);
/* Entropy of a coin that shows 1 with this probability, in nats; 0 at 0 and 1. */
double metric_entropy(double share);
/* Means over several labels, for early stopping and the head of a report: each figure over the
 * labels that have it; examples, positives and groups of the first one. auc_error is the mean too,
 * which bounds the mean's error. The logloss is weighted, as training's is: weight, (count), not
 * all 0. */
void metric_mean(const struct metric *of, const double *weight, uint32_t count, struct metric *out);

#endif
