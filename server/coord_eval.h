/* coord_eval.h: one evaluation: a split cut into read-only tasks in file order, leased, gathered, merged in task order.
 * Pure.
 *
 * A task is leased to whoever asks; its first result counts, later ones are thrown away. Once all are leased, one that
 * has been out for longer than COORD_EVAL_AGAIN_NS is leased again to whoever asks: a lost answer or a slow worker
 * delays nobody, and reading twice harms nobody. Memory: 8 bytes an example, bounded by COORD_EVAL_ROWS_MAX. */
#ifndef SERVER_COORD_EVAL_H
#define SERVER_COORD_EVAL_H

#include "proto/base/err.h"
#include "proto/base/metric.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EVAL_ROWS_MAX 50000000ull
#define COORD_EVAL_TASK_ROWS 65536u
#define COORD_EVAL_AGAIN_NS 3000000000ull
#define COORD_NO_EVAL UINT32_MAX

struct coord_eval_task {
    uint64_t position, rows;
    uint64_t worker; /* who has it; 0: nobody */
    uint64_t leased_ns;
    bool done;
    uint32_t examples;
    float *score; /* (examples), owned; labels follow: (examples) */
};

struct coord_eval {
    struct coord_eval_task *task; /* (tasks), owned */
    uint32_t tasks, done;
    uint32_t split;
    uint64_t rows, bad_lines;
    uint64_t number; /* of this evaluation: tasks of another one are not ours */
};

/* batch: of the job: a task has four of them where that is less than COORD_EVAL_TASK_ROWS, so that small splits are
 * shared too. TOO_BIG over the bound, DATA for an empty split. */
int coord_eval_open(struct coord_eval *v, uint64_t number, uint32_t split, uint64_t rows, uint32_t batch,
                    struct err *e);
void coord_eval_close(struct coord_eval *v);
/* A task for `worker`, or COORD_NO_EVAL. */
uint32_t coord_eval_lease(struct coord_eval *v, uint64_t worker, uint64_t now_ns);
void coord_eval_worker_gone(struct coord_eval *v, uint64_t worker);
uint64_t coord_eval_task_number(const struct coord_eval *v, uint32_t index);
/* Takes a result (copies). 0 also for a second or foreign one; MALFORMED when it has more examples than rows, DATA for
 * scores that are no probabilities or labels that are not 0 or 1. */
int coord_eval_done(struct coord_eval *v, uint64_t task, uint32_t examples, uint64_t bad_lines, const float *score,
                    const float *label, struct err *e);
bool coord_eval_complete(const struct coord_eval *v);
int coord_eval_metric(const struct coord_eval *v, struct metric *out, struct err *e);

#endif
