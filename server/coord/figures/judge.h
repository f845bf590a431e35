/* judge.h: the evaluations of data.valid during the whole job: when the next is due, which is the
 * best, whose tables are kept, and when no further gain is expected.
 *
 * There is one at each epoch's end and, with evaluate.every_batches or evaluate.every_minutes,
 * within epochs: tasks from a point on are not appended (coord_tasks.stop); when all tasks before
 * it are acknowledged and every lane is back, the tables are evaluated, and training goes on. By
 * batches the point is the end of a task (in bsp of a round) after every_batches more batches,
 * a function of the job alone; within half of every_batches before an epoch's end there is none. By
 * minutes, and at train.max_minutes, the point is after the tasks that are appended at that moment.
 *
 * Early stopping (train.early_stop): an evaluation that improves the metric (auc, logloss, gauc,
 * rmse or mae; with several labels the mean over those that have it) by more than min_delta is a
 * gain, and is kept as a cut (the previous one is dropped). Any other one is a miss: at each
 * lr_patience-th miss in a row the learning rates are multiplied by lr_decay, and after `patience`
 * misses in a row training ends. An evaluation whose labels give the metric no value is neither. If
 * the best one is then not the last, its cut is restored under a new run before the test split is
 * evaluated. A job that resumed from a checkpoint judges against the best evaluation of all, and
 * keeps the best of those since, whose tables exist.
 *
 * Evaluations are numbered from 1; progress refers to best, kept and cut by these numbers. An older
 * store, in which evaluations have no records of their own, has one in the record of each epoch:
 * its number is the epoch's. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_FIGURES_JUDGE_H
#define SERVER_COORD_FIGURES_JUDGE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/measure.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EVALUATIONS_MAX 100000u

struct coord_job;

struct coord_evaluation { /* as stored under "valid/N" */
    uint64_t number;      /* the job's number; examples 0 in `of`: there was none */
    uint64_t batches;     /* batches with rows, of all lanes, since the job's first */
    uint64_t examples;    /* trained so far: coord_trace_trained */
    uint64_t bad_lines;
    double seconds;                /* training time so far */
    uint32_t epoch, end;           /* end: at the epoch's end */
    struct metric of[LIMIT_TASKS]; /* each label */
};

struct coord_evaluations {
    struct coord_evaluation *item; /* (count), owned; [0] is number 1 */
    uint32_t count, capacity;
};

int coord_judge_load(struct coord_job *j, struct err *e);
/* Sets where the tasks of the current epoch stop next; and stops them now if the time is up. */
void coord_judge_stop(struct coord_job *j);
void coord_judge_time(struct coord_job *j);
/* Returns the batches with rows, of all lanes and since the job's first, that the tables have
 * learnt once all appended tasks are pushed. */
uint64_t coord_judge_batches(const struct coord_job *j);
/* True when the tables in their present state have been evaluated; the epoch's tasks must be
 * planned. */
bool coord_judge_made(const struct coord_job *j);
/* Stores a finished evaluation; it replaces one of the same tables (the coordinator died with it).
 * False: the store failed. */
bool coord_judge_note(struct coord_job *j, const struct measure *m, uint64_t bad_lines);
/* Judges the newest evaluation. True: its tables are to be kept. */
bool coord_judge_keeps(struct coord_job *j);
/* The newest tables cannot be kept: those kept before remain the best available. */
void coord_judge_missed(struct coord_job *j, const char *why);
/* True when no patience, no time or no epoch is left. */
bool coord_judge_over(const struct coord_job *j);
/* Returns why training ended: "epochs", "early_stop", "max_minutes" or "stop". */
const char *coord_judge_ended(const struct coord_job *j);

/* Computes the means over the labels of evaluation n, 1 to count; false: there was none. */
bool coord_judge_mean(const struct coord_job *j, uint32_t n, struct metric *mean);
/* True when evaluation n has no value of train.early_stop.metric although its loss is finite: its
 * labels (for gauc: those of each group) are of one class. */
bool coord_judge_undefined(const struct coord_job *j, uint32_t n);
/* Returns the value for early stopping: over several labels the mean, weighted for logloss by the
 * tasks' weights. */
double coord_judge_value(const struct coord_job *j, const struct metric *mean);
/* Returns the evaluation whose rows the tables hold at the job's end: with early stopping the best
 * kept one, else the last; 0: none. */
uint32_t coord_judge_final(const struct coord_job *j);
/* Returns the evaluation at an epoch's end; NULL: none. */
const struct coord_evaluation *coord_judge_of_epoch(const struct coord_job *j, uint32_t epoch);
/* "epoch 3", or within an epoch "batch 1200 (epoch 1)" */
#define COORD_JUDGE_NAME 64u
const char *coord_judge_name(const struct coord_job *j, uint32_t n, char out[COORD_JUDGE_NAME]);

#endif
