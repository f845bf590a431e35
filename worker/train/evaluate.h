/* evaluate.h: the result of an evaluation task: predictions, labels and group hashes in file order;
 * for a prediction also the row of each example and the cells that it passes on; and the message
 * that reports them.
 *
 * A task has at most LIMIT_BATCH rows, few enough for one EVAL_DONE. Thread: the worker's loop. */
#ifndef WORKER_TRAIN_EVALUATE_H
#define WORKER_TRAIN_EVALUATE_H

#include "proto/job/job.h"
#include "proto/metric/unseen.h"
#include "proto/wire/wire.h"
#include "worker/data/dataset.h"

#include <stdbool.h>
#include <stdint.h>

struct scores {
    float *score, *label; /* owned (capacity, tasks) */
    uint64_t *group;      /* owned; (capacity); NULL without evaluate.group */
    uint64_t *by;         /* owned; (capacity, by_count); NULL without evaluate.by */
    uint32_t tasks, by_count;
    uint32_t count, capacity;
    /* owned; (capacity): index among the `rows`; NULL unless job->predict.on */
    uint32_t *row;
    struct passed passed; /* prediction only: cells of all rows, malformed ones too */
    uint32_t rows;        /* prediction only: rows that were read */
    struct unseen unseen; /* values without a row, where the task asks for them */
};

void evaluate_scores_init(struct scores *s);
void evaluate_scores_close(struct scores *s);
/* Empties it and makes room for `rows` as this job evaluates them. NOMEM, or TOO_BIG above
 * LIMIT_BATCH. */
int evaluate_scores_reset(struct scores *s, const struct job *job, uint64_t rows, struct err *e);
/* Appends a batch's predictions, score (examples, tasks); there is room, and the batch was read for
 * evaluation. NOMEM: of a prediction, no room for what it passes on. */
int evaluate_scores_add(struct scores *s, const float *score, const struct batch *batch);
/* Makes *to a copy of what `from` holds; its memory is used again. NOMEM. */
int evaluate_scores_copy(struct scores *to, const struct scores *from, const struct job *job,
                         struct err *e);
/* The EVAL_DONE of a task; NULL: no memory. */
struct msg *evaluate_scores_message(const struct scores *s, uint64_t id, uint64_t pass,
                                    uint64_t task, uint64_t bad_lines);

#endif
