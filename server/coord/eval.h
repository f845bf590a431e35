/* eval.h: one evaluation: a split cut into read-only tasks in file order, leased, gathered,
 * measured in that order. Pure.
 *
 * A task is leased to whoever asks; its first result counts, later ones are thrown away. Once all
 * that may be leased are, one whose worker has died, or that has been out for longer than
 * COORD_AGAIN_NS, is leased again to whoever asks: a lost answer or a slow worker delays
 * nobody, and reading twice harms nobody.
 *
 * A task of a split of objects is of one object, for the worker that holds it: else one that nobody
 * holds, whose holder it then is, or one not begun of a worker with more than its share. Files that
 * are fewer than the workers are anybody's. Tasks go by columns of objects, a task of each by
 * turns, so that their holders work side by side within the window.
 *
 * Results are handed to proto/metric/measure.h in the order of tasks, so the figures do not depend
 * on who was when. One that comes before its turn waits; only tasks within a window behind the
 * first that is missing are leased, so that what waits stays under COORD_EVAL_WAITING_BYTES (or 16
 * tasks of at most COORD_EVAL_TASK_BYTES). With measure.h's own bounds (evaluate.exact) that is all
 * the memory that an evaluation takes, however long the split is; at most COORD_EVAL_ROWS_MAX
 * rows. */
#ifndef SERVER_COORD_EVAL_H
#define SERVER_COORD_EVAL_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "proto/metric/measure.h"
#include "proto/wire/wire.h"
#include "server/coord/item.h"
#include "server/coord/task.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EVAL_ROWS_MAX METRIC_EXAMPLES_MAX
#define COORD_EVAL_TASK_ROWS LIMIT_BATCH
#define COORD_EVAL_TASK_BYTES (4u << 20) /* of a result's frames */
#define COORD_EVAL_WAITING_BYTES (64u << 20)
#define COORD_NO_EVAL UINT32_MAX
#define COORD_EVAL_COLUMNS 8u /* of objects */

/* A split of objects; all borrowed. */
struct coord_eval_objects {
    const struct coord_piece *piece; /* (pieces), as they are scored */
    uint32_t pieces, count;          /* count 0: it is none of objects */
    uint64_t *holder;                /* (count) */
    bool files;
};

struct coord_eval_task {
    uint64_t position, rows;
    struct coord_item item;
    uint32_t object;   /* or COORD_NO_OBJECT: then position is of the split */
    bool leased, done; /* leased: it was given, be it that its worker is gone */
    uint32_t examples;
    uint32_t deaths; /* of workers that had it (death.h) */
    void *result;    /* owned, until its turn: the two frames of EVAL_DONE, one after the other */
};

struct coord_eval {
    struct coord_eval_task *task; /* (tasks), owned */
    uint32_t tasks, measured; /* measured: the first so many tasks; some after them may be done */
    uint32_t window;          /* tasks measured .. measured + window - 1 may be out or wait */
    uint32_t fresh;           /* all before it were leased */
    uint32_t fair;            /* objects that each worker may hold at least */
    struct coord_eval_objects objects;
    uint32_t split;
    uint64_t rows, bad_lines;
    uint64_t number; /* of this evaluation: tasks of another one are not ours */
    struct measure measure;
};

/* A task has four batches of the job where that is less than COORD_EVAL_TASK_ROWS, so that small
 * splits are shared too. TOO_BIG over the bound, DATA for an empty split, NOMEM. */
int coord_eval_open(struct coord_eval *v, uint64_t number, uint32_t split, uint64_t rows,
                    const struct coord_eval_objects *objects, const struct job *job, struct err *e);
void coord_eval_close(struct coord_eval *v);
/* A task for `worker`, or COORD_NO_EVAL. */
uint32_t coord_eval_lease(struct coord_eval *v, uint64_t worker, uint64_t now_ns);
void coord_eval_worker_gone(struct coord_eval *v, uint64_t worker);
uint64_t coord_eval_task_number(const struct coord_eval *v, uint32_t index);
/* Takes a result (copies), q with its two frames as wire_decode let them through. 0 also for a
 * second or foreign one; MALFORMED when its task was never leased, when it has more examples than
 * rows or other labels and fields than the job's; DATA for scores that are no probabilities or
 * labels that are not 0 or 1; NOMEM. */
int coord_eval_done(struct coord_eval *v, const struct wire_EVAL_DONE *q, const void *scores,
                    const void *context, struct err *e);
bool coord_eval_complete(const struct coord_eval *v);
/* Once it is complete: the measures, finished, lent until coord_eval_close. NOMEM. */
int coord_eval_finish(struct coord_eval *v, const struct measure **out, struct err *e);

#endif
