/* progressive.h: how good predictions were before their examples were learnt. Every training
 * example is counted as the forward pass scored it. Workers count into a few cells
 * (proto/metric/metric_tally.h) and report them with each task; the sums over windows of tasks,
 * over epochs and over the job are made here. So the figures are of the model while it trains: with
 * dropout, with a batch's own statistics in a normed layer, and with data.sample or data.negatives
 * of the examples that are kept.
 *
 * A window is `stride` tasks in the order of the epochs, one at first. When COORD_WINDOWS_MAX are
 * not enough, neighbours are joined two by two: a long job's curve is coarser, not longer. Sums are
 * whole numbers, so they do not depend on the order of reports: under bsp, as long as no worker or
 * coordinator dies, all of this is a function of the job.
 *
 * A task's first report counts, and a repeated report does not. Batches that a worker did before it
 * died, or before a restarted coordinator took the lane from it, count nowhere unless they were
 * reported, since the lane's next holder skips them; `examples` says how many were counted. Windows
 * are noted with each task, after the task itself. So a coordinator that is killed in between loses
 * the counts of one task, and a coordinator that goes back to a checkpoint, or goes on from one,
 * has the counts of the checkpoint. A damaged window makes the report shorter and has no other
 * effect.
 *
 * The same is counted by values of the fields of evaluate.by (proto/metric/metric_by.h), over the
 * whole job. These tables are in memory alone: a restarted coordinator, and a job that goes on from
 * a checkpoint, begin them anew. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FIGURES_PROGRESSIVE_H
#define SERVER_COORD_FIGURES_PROGRESSIVE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_WINDOWS_MAX 128u
#define COORD_WINDOW_EPOCH COORD_WINDOWS_MAX /* in place of a window's number: the epoch at hand */

struct coord_job;

/* As stored under "window/N": this, then sums (labels) and entries (cells) of metric_tally.h. */
struct coord_progressive_record {
    uint64_t job; /* its number; 0: none */
    uint64_t stride, examples;
    uint32_t epoch, labels, cells, zero;
};
_Static_assert(sizeof(struct coord_progressive_record) == 40, "coord_window_record is stored");
#define COORD_WINDOW_BYTES_MAX                                                                     \
    (sizeof(struct coord_progressive_record) + LIMIT_TASKS * sizeof(struct metric_tally_sums) +    \
     WIRE_TALLY_CELLS * sizeof(struct metric_tally_entry))

struct coord_trained { /* as stored under "trained/N", for an epoch that is over */
    uint64_t job;
    struct metric of[LIMIT_TASKS]; /* for each label; examples 0: not counted */
};

struct coord_progressive {
    uint32_t labels, real;                          /* real: bit l: label l is a number */
    uint64_t stride;                                /* tasks in a window */
    uint64_t serial;                                /* serial number of the task that is counted
                                                     * next */
    struct metric_tally *window[COORD_WINDOWS_MAX]; /* owned (labels); NULL: nothing yet */
    struct metric_tally *epoch, *recent, *told;     /* owned (labels): the epoch at hand; since the
                                                     * last scalars; one task */
    struct metric_by *by;                           /* owned (by_count): the whole job */
    uint32_t by_count;
    uint64_t examples;             /* examples of the task in `told`; 0: its model has no loss */
    struct metric_by_part part;    /* borrowed from the message of the task in `told` */
    const void *load;              /* borrowed from it: the examples of each expert */
    struct coord_trained *trained; /* owned (epochs) */
};

/* epochs: for how many of them figures are kept. */
int coord_progressive_open(struct coord_progressive *w, const struct job *job, uint32_t epochs,
                           struct err *e);
void coord_progressive_close(struct coord_progressive *w);
/* Loads the windows after a restart, or from a checkpoint. */
int coord_progressive_load(struct coord_job *j, struct err *e);
/* Reads a task's report into windows.told and part; false: the report is invalid. frame: the
 * report's frame 2, which coord_progressive_count needs too. */
bool coord_progressive_told(struct coord_job *j, const struct wire_TASK_DONE *q, const void *frame);
/* Counts a task's first report, which coord_progressive_told has read. False: the store failed. */
bool coord_progressive_count(struct coord_job *j, uint32_t task);
/* The epoch at hand is over; false: the store failed. */
bool coord_progressive_epoch(struct coord_job *j);

/* Adds the values in the report of the task in `told` to by (by_count). */
void coord_progressive_by(struct coord_progressive *w, struct metric_by *by);
/* The job is over: brings the tables by value into the form of the report. */
void coord_progressive_finish(struct coord_progressive *w);

/* Writes the figures (labels) of window n; false: nothing is counted there. */
bool coord_progressive_figures(const struct coord_progressive *w, uint32_t n, struct metric *out);
/* Figures of all windows; of the newest two, which are current; of the tasks since the last
 * scalars. */
bool coord_progressive_all(const struct coord_progressive *w, struct metric *out);
bool coord_progressive_newest(const struct coord_progressive *w, struct metric *out);
bool coord_progressive_recent(struct coord_progressive *w,
                              struct metric *out); /* afterwards it begins
                                                                        * anew */
/* Returns where a window ends: batches with rows of all lanes, at most `trained`
 * (coord_judge_batches); *epoch: the epoch of the last of them. The epoch's tasks are planned. */
uint64_t coord_progressive_end(const struct coord_job *j, uint32_t n, uint64_t trained,
                               uint32_t *epoch);

#endif
