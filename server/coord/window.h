/* window.h: how good predictions were before they were learnt: every example of training as the
 * forward pass scored it, counted by workers in few cells (proto/metric/metric_tally.h), told with
 * each task, and added up here over windows of tasks, over epochs and over the job. So the figures
 * are of the model while it trains: with dropout, with a batch's own statistics of a normed layer,
 * and with data.negatives of the examples that are kept.
 *
 * A window is `stride` tasks of the epochs' order, one at first; when COORD_WINDOWS_MAX are not
 * enough, neighbours are joined two by two: a long job's curve is coarser, not longer. Sums are
 * whole numbers, so they do not depend on who reports when: under bsp, as long as no worker or
 * coordinator dies, all of this is a function of the job.
 *
 * Counted once: a task's first report counts, whoever sends it again. What was done of a task by a
 * worker that died, or that a coordinator which came back took the lane from, counts nowhere where
 * it was not reported, for whoever goes on with it skips those batches; `examples` says how many
 * were counted. Windows are noted with each task, after the task itself: a
 * coordinator that is killed between has lost one task's, one that goes back to a checkpoint or
 * goes on from one has those of the checkpoint. Damaged ones make the report shorter and stop
 * nobody.
 *
 * By value of the fields of evaluate.by likewise (proto/metric/metric_by.h), over the whole job;
 * but these tables are in memory alone: a coordinator that comes back, and a job that goes on from
 * a checkpoint, begin them anew. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_WINDOW_H
#define SERVER_COORD_WINDOW_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/job/job.h"
#include "proto/metric/metric_by.h"
#include "proto/metric/metric_tally.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_WINDOWS_MAX 128u
#define COORD_WINDOW_EPOCH COORD_WINDOWS_MAX /* in the place of a number: the epoch at hand */

struct coord_job;

/* As stored under "window/N": this, then sums (labels) and entries (cells) of metric_tally.h. */
struct coord_window_record {
    uint64_t job; /* number of it; 0: none */
    uint64_t stride, examples;
    uint32_t epoch, labels, cells, zero;
};
_Static_assert(sizeof(struct coord_window_record) == 40, "coord_window_record is stored");
#define COORD_WINDOW_BYTES_MAX                                                                     \
    (sizeof(struct coord_window_record) + LIMIT_TASKS * sizeof(struct metric_tally_sums) +         \
     WIRE_TALLY_CELLS * sizeof(struct metric_tally_entry))

struct coord_trained { /* as stored under "trained/N": of an epoch that is over */
    uint64_t job;
    struct metric of[LIMIT_TASKS]; /* each label; examples 0: not counted */
};

struct coord_windows {
    uint32_t labels;
    uint64_t stride;                                /* tasks of a window */
    uint64_t serial;                                /* of the task that is counted next */
    struct metric_tally *window[COORD_WINDOWS_MAX]; /* owned (labels); NULL: nothing yet */
    struct metric_tally *epoch, *recent, *told;     /* owned (labels): of the epoch at hand; since
                                                        * the last scalars; of one task */
    struct metric_by *by;                           /* owned (by_count): of the whole job */
    uint32_t by_count;
    struct metric_by_part part;    /* of the task in `told`, in its message */
    struct coord_trained *trained; /* owned (epochs) */
};

/* epochs: of so many figures are kept. */
int coord_window_open(struct coord_windows *w, const struct job *job, uint32_t epochs,
                      struct err *e);
void coord_window_close(struct coord_windows *w);
/* After a restart, or from a checkpoint. */
int coord_window_load(struct coord_job *j, struct err *e);
/* What a task's report says, into windows.told and part; false: it cannot be. frame: its frame 2,
 * which coord_window_count needs too. */
bool coord_window_told(struct coord_job *j, const struct wire_TASK_DONE *q, const void *frame);
/* It is the task's first: counts it. False: the store failed. */
bool coord_window_count(struct coord_job *j, uint32_t task);
/* The epoch at hand is over; false: likewise. */
bool coord_window_epoch(struct coord_job *j);

/* Adds what the task in `told` says of values to by (by_count). */
void coord_window_by(struct coord_windows *w, struct metric_by *by);
/* The job is over: the tables by value are as they are told. */
void coord_window_finish(struct coord_windows *w);

/* Figures (labels) of window n; false: nothing is counted there. */
bool coord_window_figures(const struct coord_windows *w, uint32_t n, struct metric *out);
/* Of all windows; of the newest two, which are those of the moment; of what no scalar has told. */
bool coord_window_all(const struct coord_windows *w, struct metric *out);
bool coord_window_newest(const struct coord_windows *w, struct metric *out);
bool coord_window_recent(struct coord_windows *w, struct metric *out); /* told: it begins anew */
/* Where a window ends: batches with rows of all lanes, at most `trained` (coord_judge_batches), and
 * the epoch of the last of them. The epoch's tasks are planned. */
uint64_t coord_window_end(const struct coord_job *j, uint32_t n, uint64_t trained, uint32_t *epoch);

#endif
