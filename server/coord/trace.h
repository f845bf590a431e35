/* trace.h: what is told of a job while it runs: the training curve of its report
 * (curve.h), and scalars for TensorBoard through options.write_scalars, the latter at most
 * every two seconds and at the end of each epoch. Steps are examples of training, all epochs
 * together. Nothing is promised about any of it: a curve is stored without a sync, and a writer
 * that fails is said once a job and costs nothing else. Thread: the coordinator's loop.
 *
 *     train/logloss  rate/examples_per_second staleness/p50 staleness/p99 norm/dense norm/rows
 *                    lr/scale
 *     train/skipped_steps (precision fp16)
 *     valid/auc  valid/logloss valid/ne valid/calibration valid/ece [valid/gauc], likewise test/;
 *                with several
 * labels the means over them, and each one's under valid/LABEL/ */
#ifndef SERVER_COORD_TRACE_H
#define SERVER_COORD_TRACE_H

#include "proto/base/err.h"
#include "proto/metric/metric.h"
#include "proto/wire/wire.h"

struct coord;

/* A task's first report; loss_task (labels) and staleness, a histogram (COORD_HISTOGRAM): its
 * frames. */
void coord_trace_task(struct coord *c, const struct wire_TASK_DONE *q, const double *loss_task,
                      const uint64_t *staleness);
/* The epoch's training is over: what is not written yet is. */
void coord_trace_epoch(struct coord *c);
/* An evaluation is over: split WIRE_VALID or WIRE_TEST; metric (labels of the job). */
void coord_trace_eval(struct coord *c, uint32_t split, const struct metric *metric);
/* After a restart: the stored curve. */
int coord_trace_load(struct coord *c, struct err *e);
/* Smallest staleness that at least `share` of the pulls did not exceed; histogram
 * (COORD_HISTOGRAM). 0 without pulls.
 */
uint32_t coord_trace_quantile(const uint64_t *histogram, double share);

#endif
