/* measure.h: all measures of one evaluation: metric.h for each label, overall, by group and by
 * value.
 *
 * A measure is opened, given examples in batches, finished and read. Its result is a function of
 * the examples in the order given, bit for bit, so a caller that gathers them from several sources
 * must keep one order. The options bound its memory, whatever the input:
 *     predictions  4 bytes an example and label up to `exact` (as much again while finishing),
 *                  beyond that 16 MiB a label
 *     groups       4 + 4 * tasks bytes an example up to `exact`, 12 to 24 a group (metric_group.h)
 *     values       MEASURE_VALUES over all fields, 40 + 24 * tasks bytes each, and 385 KiB a field
 *                  and label for their AUC (metric_by.h)
 * One thread. */
#ifndef PROTO_METRIC_MEASURE_H
#define PROTO_METRIC_MEASURE_H

#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/metric.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_group.h"
#include "proto/metric/unseen.h"

#include <stdbool.h>
#include <stdint.h>

/* defaults of a job: parts of the calibration curve, and the most examples with an exact AUC */
#define MEASURE_BUCKETS 20u
#define MEASURE_BUCKETS_MAX 1000u
#define MEASURE_EXACT UINT64_C(20000000)
#define MEASURE_VALUES (1u << 18) /* values of all fields of evaluate.by together */
#define MEASURE_TOP 50u           /* values of a field that are reported */

struct measure_options {
    uint32_t tasks;    /* labels of an example, 1 to LIMIT_TASKS */
    uint32_t real;     /* bit t: label t is a number */
    bool group;        /* each example has a group */
    uint32_t by_count; /* fields of which each example has a value, 0 to LIMIT_BY */
    uint32_t buckets;
    uint64_t exact;    /* examples up to which AUC and group AUC are exact */
    uint64_t expected; /* upper bound of the number of examples */
};

struct measure {
    struct measure_options options;
    struct metric_scores scores[LIMIT_TASKS];
    struct metric_group group;
    struct metric_by *by; /* (by_count), owned */
    struct unseen unseen; /* filled by unseen_add */
    /* when finished: */
    struct metric metric[LIMIT_TASKS];
    struct metric_bucket *bucket; /* (tasks, buckets), owned */
    uint32_t bucket_count[LIMIT_TASKS];
};

/* The options that a job asks for; expected is the caller's. */
struct measure_options measure_options_of(const struct job *job, uint64_t expected);
/* NOMEM, TOO_BIG (more than METRIC_EXAMPLES_MAX are expected). */
int measure_open(struct measure *m, const struct measure_options *options, struct err *e);
void measure_close(struct measure *m); /* fine on zeros, and twice */
/* Adds `count` examples. score: probabilities, label: 0 or 1, NaN where it is missing, both (count,
 * tasks), and both numbers where the label is one; group (count)
 * and by (count, by_count) where the options say so, else NULL. The caller has checked the numbers.
 * NOMEM, TOO_BIG. */
int measure_add(struct measure *m, const float *score, const float *label, const uint64_t *group,
                const uint64_t *by, uint32_t count, struct err *e);
/* Fills metric, bucket, bucket_count and the tables of `by`. NOMEM. */
int measure_finish(struct measure *m, struct err *e);

/* The JSON form of measures, in report.json and in the output of `shoal-worker eval`.
 *
 * An evaluation is reported in two parts. The figures of metric.h are small and reported for every
 * epoch. The details (curves and tables) are reported for the evaluation of the job's final tables.
 * Both together:
 *     {"auc", "auc_error", "logloss", "ne", "calibration", "ece", "examples", "positives", and with
 *     groups "gauc",
 *      "gauc_share", "groups",
 *      "buckets": [{"examples", "predicted", "label"}...],                 means of p and y
 *      "by": {FIELD: [{"key": "0x...", "examples", "missed"?, "logloss", "predicted", "label",
 *      "calibration", "auc", "auc_error", "auc_examples"?}...,
 *                     {"key": "other", "values", "examples", ...}]}}
 * A label that is a number has "rmse", "mae", "r2" and "calibration" in place of auc to ece, and no
 * "positives" and "buckets"; its values in "by" have "rmse" in place of logloss, and no auc.
 * With several labels, the means over them (metric_mean) come first, without the counts of
 * positives and groups, and then all of the above for each label in
 *     "tasks": [{"label", ...}...].
 * Before that, once for all labels, where it is known,
 *     "unseen": in the form of unseen.h.
 * A figure without a meaning is null. */

/* The details of a finished measure: an array with {"buckets", "by"} for each label, in the first
 * one "unseen" too. The caller owns it. */
struct json *measure_json_details(const struct measure *m, const struct job *job);
/* The details of finished tables alone, for the fields of evaluate.by. */
struct json *measure_json_by(const struct metric_by *by, const struct job *job);
/* A report of the figures (one for each label of the job), with details where not NULL. It shares
 * `details`, which the caller still owns. whole false: only auc, logloss and the other figures that
 * a line of a table needs. */
struct json *measure_json_report(const struct metric *metric, const struct job *job,
                                 const struct json *details, bool whole);

#endif
