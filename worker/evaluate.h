/* evaluate.h: the scores and labels of an evaluation task, in file order, and the message that reports them.
 *
 * A task is at most LIMIT_BATCH rows, so that one EVAL_DONE carries it. Thread: the worker's loop. */
#ifndef WORKER_EVALUATE_H
#define WORKER_EVALUATE_H

#include "proto/wire/wire.h"

#include <stdint.h>

struct scores {
    float *score, *label; /* owned (capacity) */
    uint32_t count, capacity;
};

void scores_init(struct scores *s);
void scores_close(struct scores *s);
/* Empties it and makes room for `rows`. NOMEM, or TOO_BIG above LIMIT_BATCH. */
int scores_reset(struct scores *s, uint64_t rows, struct err *e);
/* Appends a batch's predictions; there is room. */
void scores_add(struct scores *s, const float *score, const float *label, uint32_t count);
/* The EVAL_DONE of a task, or NULL when out of memory. */
struct msg *scores_message(const struct scores *s, uint64_t id, uint64_t worker, uint64_t task, uint64_t bad_lines);

#endif
