/* judge.h: the evaluations of data.valid, over the whole job: when the next is due, which is the
 * best, whose tables are kept, and when there is nothing more to gain.
 *
 * One at each epoch's end and, with evaluate.every_batches or evaluate.every_minutes, within
 * epochs: tasks from a point on are not appended (coord_tasks.stop); when all before it are
 * acknowledged and every lane is back, it is evaluated, and training goes on. By batches the point
 * is the end of a task (under bsp of a round) after so many more of them, a function of the job;
 * less than half of that before an epoch's end there is none. By minutes, and at
 * train.max_minutes, it is behind what is appended at the moment.
 *
 * Early stopping by train.early_stop: an evaluation that improves the metric (auc, logloss or gauc;
 * with several labels the mean over those that have it) by more than min_delta is a gain and is
 * kept as a cut (the one before it is dropped); one that does not is a miss: at each lr_patience-th
 * in a row learning rates go down by lr_decay, and after `patience` misses in a row training ends.
 * One whose labels give the metric no value is neither.
 * If the best is then not the last, its cut is restored under a new run before the test split is
 * evaluated. A job that went on from a checkpoint judges by the best of all and keeps the best of
 * those since, whose tables there are.
 *
 * Evaluations are numbered from 1; progress tells best, kept and cut by these numbers. A store of
 * before they had records of their own has one in the record of each epoch: its number is the
 * epoch's. Thread: the coordinator's loop. */
#ifndef SERVER_COORD_JUDGE_H
#define SERVER_COORD_JUDGE_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/metric/measure.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EVALUATIONS_MAX 100000u

struct coord_job;
struct coord_job;

struct coord_evaluation { /* as stored under "valid/N" */
    uint64_t number;      /* of the job; examples 0 in `of`: there was none */
    uint64_t batches;     /* with rows, of all lanes, from the job's first on */
    uint64_t examples;    /* of training up to there: coord_trace_trained */
    uint64_t bad_lines;
    double seconds;                /* of training up to there */
    uint32_t epoch, end;           /* end: at its end */
    struct metric of[LIMIT_TASKS]; /* each label */
};

struct coord_evaluations {
    struct coord_evaluation *item; /* (count), owned; [0] is number 1 */
    uint32_t count, capacity;
};

int coord_judge_load(struct coord_job *j, struct err *e);
/* Where the tasks of the epoch at hand stop next; and whether by the time they are to stop now. */
void coord_judge_stop(struct coord_job *j);
void coord_judge_time(struct coord_job *j);
/* Batches with rows, of all lanes and from the job's first on, that the tables have learnt once all
 * that is appended is pushed. */
uint64_t coord_judge_batches(const struct coord_job *j);
/* Whether the tables as they are now have been evaluated; the epoch's tasks are planned. */
bool coord_judge_made(const struct coord_job *j);
/* Stores a finished evaluation, in the place of one of the same tables (the coordinator died with
 * it); false: the store failed. */
bool coord_judge_note(struct coord_job *j, const struct measure *m, uint64_t bad_lines);
/* Judges the newest. True: it is the one to keep. */
bool coord_judge_keeps(struct coord_job *j);
/* Its tables cannot be kept: those kept before stay the best there are. */
void coord_judge_missed(struct coord_job *j, const char *why);
/* No patience, no time or no epoch is left. */
bool coord_judge_over(const struct coord_job *j);
/* Why it ended: "epochs", "early_stop", "max_minutes" or "stop". */
const char *coord_judge_ended(const struct coord_job *j);

/* Means over the labels of evaluation n, 1 to count; false: there was none. */
bool coord_judge_mean(const struct coord_job *j, uint32_t n, struct metric *mean);
/* Evaluation n has no value of train.early_stop.metric, and not for want of a finite loss: its
 * labels (of each group, for gauc) are of one class. */
bool coord_judge_undefined(const struct coord_job *j, uint32_t n);
/* What early stopping looks at: over several labels the mean, of logloss by the tasks' weights. */
double coord_judge_value(const struct coord_job *j, const struct metric *mean);
/* The evaluation whose rows the tables hold at the job's end: with early stopping the best that was
 * kept, else the last; 0: none. */
uint32_t coord_judge_final(const struct coord_job *j);
/* The one at an epoch's end; NULL: none. */
const struct coord_evaluation *coord_judge_of_epoch(const struct coord_job *j, uint32_t epoch);
/* "epoch 3", or within one "batch 1200 (epoch 1)". */
#define COORD_JUDGE_NAME 64u
const char *coord_judge_name(const struct coord_job *j, uint32_t n, char out[COORD_JUDGE_NAME]);

#endif
