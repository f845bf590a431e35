/* measure_json.h: measures as they stand in report.json and in what `shoal-worker eval` prints.
 *
 * An evaluation is told in two parts. The figures of metric.h are small and told for every epoch;
 * the curves and tables (details) for the evaluation whose tables the job ends with. Both together:
 *     {"auc", "auc_error", "logloss", "ne", "calibration", "ece", "examples", "positives", and with
 *     groups "gauc",
 *      "gauc_share", "groups",
 *      "buckets": [{"examples", "predicted", "label"}...],                 means of p and y
 *      "by": {FIELD: [{"key": "0x...", "examples", "missed"?, "logloss", "predicted", "label",
 *      "calibration"}...,
 *                     {"key": "other", "values", "examples", ...}]}}
 * and with several labels: the means over them (metric_mean) in front, without the counts of
 * positives and groups, and all of the above for each in
 *     "tasks": [{"label", ...}...].
 * A figure without a meaning is null. */
#ifndef PROTO_METRIC_MEASURE_JSON_H
#define PROTO_METRIC_MEASURE_JSON_H

#include "proto/base/json.h"
#include "proto/job/job.h"
#include "proto/metric/measure.h"

/* Details of a finished measure: an array with {"buckets", "by"} for each label. The caller owns
 * it. */
struct json *measure_json_details(const struct measure *m, const struct job *job);
/* Figures (one for each label of the job), with details where not NULL: they are shared with
 * `details`, which stays the caller's. whole: without it only auc, logloss, and what else a line of
 * a table needs. */
struct json *measure_json_report(const struct metric *metric, const struct job *job,
                                 const struct json *details, bool whole);

#endif
