/* trace.h: the training curve of a job's report (struct coord_curve), and scalars for TensorBoard
 * through options.write_scalars, at most every two seconds and at the end of each epoch. Steps are
 * examples of training, all epochs together. None of it is durable: a curve is stored without a
 * sync, and a writer that fails is reported once a job and has no other effect. Thread: the
 * coordinator's loop.
 *
 *     train/logloss train/auc train/calibration   with several labels the mean, and each label's
 *                                                 auc and calibration under train/LABEL/
 *                                                 of numbers train/loss train/rmse
 *     train/skipped_steps                         precision fp16
 *     rate/examples_per_second staleness/p50 staleness/p99 norm/dense norm/rows lr/scale
 *     valid/auc valid/logloss valid/ne valid/calibration valid/ece [valid/gauc]
 *                                                 (of a number rmse, mae, r2, calibration)
 *                                                 with several labels the means, and each label's
 *                                                 under valid/LABEL/; the same under test/ */
#ifndef SERVER_COORD_FIGURES_TRACE_H
#define SERVER_COORD_FIGURES_TRACE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/metric.h"
#include "proto/wire/wire.h"
#include "server/coord/core/core.h"
#include "server/coord/figures/experts.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_job;

/* Takes a task's first report. Its frames are loss_task (labels) and staleness, a histogram
 * (COORD_HISTOGRAM). */
void coord_trace_task(struct coord_job *j, const struct wire_TASK_DONE *q, const double *loss_task,
                      const uint64_t *staleness);
/* Training pauses, or the epoch's training is over: writes what is not written yet. */
void coord_trace_flush(struct coord_job *j);
void coord_trace_epoch(struct coord_job *j);
/* Returns the examples of training so far. */
uint64_t coord_trace_seen(const struct coord_job *j);
/* Returns the examples that the tables have learnt, reported by a worker or not; with
 * data.sample or data.negatives, which leave rows out on purpose, those reported. */
uint64_t coord_trace_trained(const struct coord_job *j);
/* An evaluation is over. split: WIRE_VALID or WIRE_TEST; metric (labels of the job). */
void coord_trace_eval(struct coord_job *j, uint32_t split, const struct metric *metric);
/* Loads the stored curve after a restart. */
int coord_trace_load(struct coord_job *j, struct err *e);
/* The smallest value that at least `share` of a histogram (cells) did not exceed; 0 where it is
 * empty. */
uint32_t coord_trace_quantile(const uint64_t *histogram, uint32_t cells, double share);
/* {"p50", "p99", "max"}: the staleness of all the job's pulls, in clocks. */
struct json *coord_trace_staleness_json(const struct coord_job *j);
/* {"read", "pull", "compute", "push", "wait"}: seconds of workers in each stage. */
struct json *coord_trace_time_json(const struct wire_WORKER_BEAT *sum);

/* The training curve: the reports of finished tasks in the order in which they came, as at most
 * COORD_CURVE_MAX points. A point sums `stride` reports. When all points are used, neighbours are
 * joined two by two and the stride doubles, so a long job's curve is coarser, not longer, and
 * covers the whole job. Pure. */

#define COORD_CURVE_MAX 1000u

/* One report, or the sum of several; as stored under "curve/INDEX". */
struct coord_point {
    uint64_t job;            /* its number */
    uint32_t reports, epoch; /* how many are summed; epoch of the last one */
    uint64_t seen;           /* examples of training up to here, from the job's first on */
    double seconds;          /* seconds of training up to here */
    double lr_scale;         /* that of the last report */
    uint64_t examples, batches, skipped, measured, pulls;
    double loss, weight;           /* sums over examples; weight: of the examples' weights */
    double loss_task[LIMIT_TASKS]; /* for each label */
    /* sums over the batches that were measured; over the pulls, in clocks */
    double dense_norm, row_norm, staleness;
};
_Static_assert(sizeof(struct coord_point) == 184, "coord_point is stored");

struct coord_curve {
    struct coord_point *point; /* (COORD_CURVE_MAX), owned */
    uint32_t count, stride;
    struct coord_point open; /* reports for the next point */
};

/* The figures of a job while it runs. */
struct coord_trace {
    struct coord_curve curve;
    struct coord_point recent; /* reports since the last scalars */
    uint64_t staleness[COORD_HISTOGRAM];
    struct coord_experts experts;
    uint64_t since_ns; /* when the last scalars were written */
    uint64_t before;   /* examples of the finished epochs */
    bool failed;       /* the writer of scalars failed */
};

enum coord_curve_change {
    COORD_CURVE_SAME,
    COORD_CURVE_POINT,
    COORD_CURVE_JOINED
}; /* POINT: the last point is new. JOINED: all points are. */

int coord_curve_open(struct coord_curve *c, struct err *e);
void coord_curve_close(struct coord_curve *c);
enum coord_curve_change coord_curve_add(struct coord_curve *c, const struct coord_point *report);
/* After a restart: takes a stored point back, in order from the first. False: neither this point
 * nor those after it belong to the curve; they are of another job, or were left over when
 * neighbours were joined. */
bool coord_curve_restore(struct coord_curve *c, uint64_t job, const struct coord_point *point);
/* Adds a later report (or sum of them) to a sum. */
void coord_point_add(struct coord_point *to, const struct coord_point *from);

#endif
