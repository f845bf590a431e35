/* trace.h: what is told of a job while it runs: the training curve of its report
 * (struct coord_curve), and scalars for TensorBoard through options.write_scalars, the latter at
 * most every two seconds and at the end of each epoch. Steps are examples of training, all epochs
 * together. Nothing is promised about any of it: a curve is stored without a sync, and a writer
 * that fails is said once a job and costs nothing else. Thread: the coordinator's loop.
 *
 *     train/logloss train/auc train/calibration (with several labels the mean, and each one's
 *     auc and calibration under train/LABEL/; window.h)
 *     rate/examples_per_second staleness/p50 staleness/p99 norm/dense norm/rows
 *                    lr/scale
 *     train/skipped_steps (precision fp16)
 *     valid/auc  valid/logloss valid/ne valid/calibration valid/ece [valid/gauc], likewise test/;
 *                with several
 * labels the means over them, and each one's under valid/LABEL/ */
#ifndef SERVER_COORD_TRACE_H
#define SERVER_COORD_TRACE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;
struct coord_job;

/* A task's first report; loss_task (labels) and staleness, a histogram (COORD_HISTOGRAM): its
 * frames. */
void coord_trace_task(struct coord_job *j, const struct wire_TASK_DONE *q, const double *loss_task,
                      const uint64_t *staleness);
/* Training pauses, or the epoch's is over: what is not written yet is. */
void coord_trace_flush(struct coord_job *j);
void coord_trace_epoch(struct coord_job *j);
/* Examples of training up to here. */
uint64_t coord_trace_seen(const struct coord_job *j);
/* Those that the tables have learnt, told of by a worker or not; with data.negatives, which leaves
 * rows out on purpose, those told of. */
uint64_t coord_trace_trained(const struct coord_job *j);
/* An evaluation is over: split WIRE_VALID or WIRE_TEST; metric (labels of the job). */
void coord_trace_eval(struct coord_job *j, uint32_t split, const struct metric *metric);
/* After a restart: the stored curve. */
int coord_trace_load(struct coord_job *j, struct err *e);
/* Smallest staleness that at least `share` of the pulls did not exceed; histogram
 * (COORD_HISTOGRAM). 0 without pulls.
 */
uint32_t coord_trace_quantile(const uint64_t *histogram, double share);

/* The training curve: what finished tasks said, in the order in which they were
 * reported, as at most COORD_CURVE_MAX points. A point sums `stride` reports; when all points are
 * taken, neighbours are joined two by two and the stride doubles: so a long job's curve is coarser,
 * not longer, and covers all of it. Pure. */

#define COORD_CURVE_MAX 1000u

/* One report, or the sum of several; as stored under "curve/INDEX". */
struct coord_point {
    uint64_t job;            /* number of it */
    uint32_t reports, epoch; /* summed; the last one's */
    uint64_t seen;           /* examples of training up to here, from the job's first on */
    double seconds;          /* of training up to here */
    double lr_scale;         /* the last one's */
    uint64_t examples, batches, skipped, measured, pulls;
    double loss, weight;           /* sums over examples; weight: of the examples' weights */
    double loss_task[LIMIT_TASKS]; /* of each label */
    /* sums over batches that were measured; over pulls, in clocks */
    double dense_norm, row_norm, staleness;
};
_Static_assert(sizeof(struct coord_point) == 184, "coord_point is stored");

struct coord_curve {
    struct coord_point *point; /* (COORD_CURVE_MAX), owned */
    uint32_t count, stride;
    struct coord_point open; /* reports for the next point */
};

enum coord_curve_change {
    COORD_CURVE_SAME,
    COORD_CURVE_POINT,
    COORD_CURVE_JOINED
}; /* the last point is new; all are */

int coord_curve_open(struct coord_curve *c, struct err *e);
void coord_curve_close(struct coord_curve *c);
enum coord_curve_change coord_curve_add(struct coord_curve *c, const struct coord_point *report);
/* After a restart: takes a stored point back, in order from the first; false: it is none of these
 * (of another job, or left over from before neighbours were joined), and neither are those behind
 * it. */
bool coord_curve_restore(struct coord_curve *c, uint64_t job, const struct coord_point *point);
/* Adds a later report (or sum of them) to a sum. */
void coord_point_add(struct coord_point *to, const struct coord_point *from);

#endif
