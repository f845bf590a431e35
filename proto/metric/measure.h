/* measure.h: everything that is measured of one evaluation: metric.h for each label, overall, by
 * group and by value.
 *
 * Opened, given examples in batches, finished, read. What it says is a function of the examples in
 * the order given, bit for bit: who gathers them from several sides keeps one order. Memory is
 * bounded by the options, whatever comes:
 *     predictions  4 bytes an example and label up to `exact` (as much again while it is finished),
 *                  beyond 16 MiB a label
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

/* of the calibration curve, and examples with an exact AUC, where the job says nothing */
#define MEASURE_BUCKETS 20u
#define MEASURE_BUCKETS_MAX 1000u
#define MEASURE_EXACT UINT64_C(20000000)
#define MEASURE_VALUES (1u << 18) /* of all fields of evaluate.by together */
#define MEASURE_TOP 50u           /* values of a field that are told */

struct measure_options {
    uint32_t tasks;    /* labels of an example, 1 to LIMIT_TASKS */
    bool group;        /* examples come with a group */
    uint32_t by_count; /* fields that examples come with a value of, 0 to LIMIT_BY */
    uint32_t buckets;
    uint64_t exact;    /* examples up to which AUC and group AUC are exact */
    uint64_t expected; /* examples that will come at most */
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

/* What a job asks for; expected is the caller's. */
struct measure_options measure_options_of(const struct job *job, uint64_t expected);
/* NOMEM, TOO_BIG (more than METRIC_EXAMPLES_MAX are expected). */
int measure_open(struct measure *m, const struct measure_options *options, struct err *e);
void measure_close(struct measure *m); /* fine on zeros, and twice */
/* score: probabilities, label: 0 or 1, (count, tasks); group (count) and by (count, by_count) where
 * the options say so, else NULL. The caller has checked the numbers. NOMEM, TOO_BIG. */
int measure_add(struct measure *m, const float *score, const float *label, const uint64_t *group,
                const uint64_t *by, uint32_t count, struct err *e);
/* Fills metric, bucket, bucket_count and the tables of `by`. NOMEM. */
int measure_finish(struct measure *m, struct err *e);

/* Measures as they stand in report.json and in what `shoal-worker eval` prints.
 *
 * An evaluation is told in two parts. The figures of metric.h are small and told for every epoch;
 * the curves and tables (details) for the evaluation whose tables the job ends with. Both together:
 *     {"auc", "auc_error", "logloss", "ne", "calibration", "ece", "examples", "positives", and with
 *     groups "gauc",
 *      "gauc_share", "groups",
 *      "buckets": [{"examples", "predicted", "label"}...],                 means of p and y
 *      "by": {FIELD: [{"key": "0x...", "examples", "missed"?, "logloss", "predicted", "label",
 *      "calibration", "auc", "auc_error", "auc_examples"?}...,
 *                     {"key": "other", "values", "examples", ...}]}}
 * and with several labels: the means over them (metric_mean) in front, without the counts of
 * positives and groups, and all of the above for each in
 *     "tasks": [{"label", ...}...].
 * and in front, of all labels,
 *     "unseen": as unseen.h has it, where it is known.
 * A figure without a meaning is null. */

/* Details of a finished measure: an array with {"buckets", "by"} for each label, in the first one
 * "unseen" too. The caller owns it. */
struct json *measure_json_details(const struct measure *m, const struct job *job);
/* The same of tables alone, finished, of the fields of evaluate.by. */
struct json *measure_json_by(const struct metric_by *by, const struct job *job);
/* Figures (one for each label of the job), with details where not NULL: they are shared with
 * `details`, which stays the caller's. whole: without it only auc, logloss, and what else a line of
 * a table needs. */
struct json *measure_json_report(const struct metric *metric, const struct job *job,
                                 const struct json *details, bool whole);

#endif
