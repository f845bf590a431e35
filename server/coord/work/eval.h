/* eval.h: one evaluation: a split is cut into read-only tasks in file order; the tasks are leased,
 * and their results gathered and measured in that order. Pure.
 *
 * A task is leased to the next worker that asks. Its first result counts, later ones are discarded.
 * When no task is left that was never leased, a task whose worker has died, or that was leased
 * longer than COORD_AGAIN_NS ago, is leased again to the next worker: a lost answer or a slow
 * worker delays no other, and reading twice does no harm.
 *
 * A task of a split of objects belongs to one object. It goes to the worker that holds the object;
 * else to any worker if no worker holds it, which then does; or, if the object was not begun, to a
 * worker with less than its share. Files that are fewer than the workers go to any worker. The
 * objects form columns, and tasks are taken from the columns in turn, so that the objects' holders
 * work side by side within the window.
 *
 * proto/metric/measure.h gets the results in the order of tasks, so the figures do not depend on
 * which worker was faster. A result that comes early waits. Only tasks within a window behind the
 * first missing one are leased, so that the waiting results stay under COORD_EVAL_WAITING_BYTES (or
 * 16 tasks of at most COORD_EVAL_TASK_BYTES). Together with measure.h's own bounds (evaluate.exact)
 * this is all the memory of an evaluation, however long the split is; it has at most
 * COORD_EVAL_ROWS_MAX rows. */
#ifndef SERVER_COORD_WORK_EVAL_H
#define SERVER_COORD_WORK_EVAL_H

#include "proto/base/err.h"
#include "proto/job/job.h"
#include "proto/metric/measure.h"
#include "proto/wire/wire.h"
#include "server/coord/work/item.h"
#include "server/coord/work/task.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_EVAL_ROWS_MAX METRIC_EXAMPLES_MAX
#define COORD_EVAL_TASK_ROWS LIMIT_BATCH
#define COORD_EVAL_TASK_BYTES (4u << 20) /* the frames of one result */
#define COORD_EVAL_WAITING_BYTES (64u << 20)
#define COORD_NO_EVAL UINT32_MAX
#define COORD_EVAL_COLUMNS 8u /* columns of objects */

/* The objects of a split; all borrowed. */
struct coord_eval_objects {
    const struct coord_piece *piece; /* (pieces), in the order of scoring */
    uint32_t pieces, count;          /* count 0: the split has no objects */
    uint64_t *holder;                /* (count) */
    bool files;
};

struct coord_eval_task {
    uint64_t position, rows;
    struct coord_item item;
    uint32_t object;   /* or COORD_NO_OBJECT: then position counts from the split's first row */
    bool leased, done; /* leased: given to a worker at least once */
    uint32_t examples;
    uint32_t deaths; /* number of workers that died with it (death.h) */
    void *result;    /* owned, until its turn: the two frames of EVAL_DONE, one after the other */
};

struct coord_eval {
    struct coord_eval_task *task; /* (tasks), owned */
    /* measured: number of measured tasks, the first ones; later ones may be done */
    uint32_t tasks, measured;
    uint32_t window; /* tasks measured .. measured + window - 1 may be leased or wait */
    uint32_t fresh;  /* all tasks before it were leased */
    uint32_t fair;   /* every worker may hold this many objects */
    struct coord_eval_objects objects;
    uint32_t split;
    uint64_t rows, bad_lines;
    uint64_t number; /* this evaluation's; results with another one are ignored */
    struct measure measure;
};

/* A task has four batches of the job, or COORD_EVAL_TASK_ROWS if that is less, so that the workers
 * share small splits too. TOO_BIG: more rows than the bound; DATA: an empty split; NOMEM. */
int coord_eval_open(struct coord_eval *v, uint64_t number, uint32_t split, uint64_t rows,
                    const struct coord_eval_objects *objects, const struct job *job, struct err *e);
void coord_eval_close(struct coord_eval *v);
/* Returns a task for `worker`, or COORD_NO_EVAL. */
uint32_t coord_eval_lease(struct coord_eval *v, uint64_t worker, uint64_t now_ns);
void coord_eval_worker_gone(struct coord_eval *v, uint64_t worker);
uint64_t coord_eval_task_number(const struct coord_eval *v, uint32_t index);
/* Takes (copies) a result, q with its two frames as checked by wire_decode. Returns 0 also for a
 * repeated result or one of another evaluation; MALFORMED: the task was never leased, has more
 * examples than rows, or other labels and fields than the job; DATA: scores that are not
 * probabilities, or labels other than 0 and 1, except where the label is a number; NOMEM. */
int coord_eval_done(struct coord_eval *v, const struct wire_EVAL_DONE *q, const void *scores,
                    const void *context, struct err *e);
bool coord_eval_complete(const struct coord_eval *v);
/* Once complete: the finished measures, borrowed until coord_eval_close. NOMEM. */
int coord_eval_finish(struct coord_eval *v, const struct measure **out, struct err *e);

#endif
