/* eval.c: leases of an evaluation's tasks; results are measured in the order of tasks. */
#include "server/coord/work/eval.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS_BITS = 18, WINDOW_LEAST = 16 };
_Static_assert((uint64_t)COORD_EVAL_TASK_BYTES / (8 * (LIMIT_TASKS + LIMIT_BY + 1)) << TASKS_BITS >=
                   COORD_EVAL_ROWS_MAX / 2,
               "2^18 tasks of the widest rows reach far enough");

static size_t row_bytes(const struct measure_options *o)
{
    SHOAL_ASSERT(o->tasks >= 1 && o->tasks <= LIMIT_TASKS && o->by_count <= LIMIT_BY);
    return 8ull * (o->tasks + o->group + o->by_count);
}

/* Rows of a task: four batches, within the bounds of a result; more if there would otherwise be
 * more than 2^18 tasks. */
static int task_rows(uint64_t rows, uint32_t batch, size_t bytes, uint64_t *each, struct err *e)
{
    uint64_t most = COORD_EVAL_TASK_BYTES / bytes, least = (rows >> TASKS_BITS) + 1;
    most = MIN(most, COORD_EVAL_TASK_ROWS);
    *each = MIN(4ull * batch, most);
    *each = MAX(*each, least);
    if (*each > most || rows > COORD_EVAL_ROWS_MAX)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "an evaluation of %" PRIu64 " rows, at most %" PRIu64
                       ": take a sample of the split",
                       rows, MIN(most << TASKS_BITS, COORD_EVAL_ROWS_MAX));
    SHOAL_ASSERT(*each > 0 && (rows + *each - 1) / *each <= 1u << TASKS_BITS);
    return 0;
}

static uint32_t window_of(uint64_t task_bytes)
{
    SHOAL_ASSERT(task_bytes > 0 && task_bytes <= COORD_EVAL_TASK_BYTES);
    uint64_t window = COORD_EVAL_WAITING_BYTES / task_bytes;
    return (uint32_t)MAX(window, WINDOW_LEAST);
}

/* Cuts the pieces into tasks. The pieces form columns, and the columns take turns with a task of
 * their current piece; a single piece is cut in order. */
static void pieces_cut(struct coord_eval *v, const struct coord_piece *piece, uint32_t pieces,
                       uint64_t each)
{
    uint32_t at[COORD_EVAL_COLUMNS];
    uint64_t done[COORD_EVAL_COLUMNS] = {0};
    for (uint32_t c = 0; c < COORD_EVAL_COLUMNS; c++)
        at[c] = c;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t c = 0; c < COORD_EVAL_COLUMNS; c++) {
            if (at[c] >= pieces)
                continue;
            const struct coord_piece *p = &piece[at[c]];
            uint64_t left = p->rows - done[c];
            SHOAL_ASSERT(left > 0);
            v->task[v->tasks++] = (struct coord_eval_task){
                .position = done[c], .rows = MIN(left, each), .object = p->object};
            done[c] += each;
            if (done[c] >= p->rows) {
                at[c] += COORD_EVAL_COLUMNS;
                done[c] = 0;
            }
            any = true;
        }
    }
}

int coord_eval_open(struct coord_eval *v, uint64_t number, uint32_t split, uint64_t rows,
                    const struct coord_eval_objects *objects, const struct job *job, struct err *e)
{
    struct measure_options o = measure_options_of(job, rows);
    const struct coord_piece text = {.rows = rows, .object = COORD_NO_OBJECT}, *piece = &text;
    uint32_t pieces = 1, tasks = 0;
    uint64_t each;
    if (objects->count > 0) {
        piece = objects->piece;
        pieces = objects->pieces;
    }
    memset(v, 0, sizeof *v);
    if (rows == 0)
        return err_set(e, SHOAL_E_DATA, "the split to evaluate has no rows");
    int rc = task_rows(rows, job_batch_rows(job), row_bytes(&o), &each, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < pieces; i++) /* at most 2^18, and one more for each object */
        tasks += (uint32_t)((piece[i].rows + each - 1) / each);
    v->task = calloc(tasks, sizeof *v->task);
    if (v->task == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u evaluation tasks", tasks);
    rc = measure_open(&v->measure, &o, e);
    if (rc != 0) {
        coord_eval_close(v);
        return rc;
    }
    v->objects = *objects;
    pieces_cut(v, piece, pieces, each);
    SHOAL_ASSERT(v->tasks == tasks);
    v->window = window_of(each * row_bytes(&o));
    v->split = split;
    v->rows = rows;
    v->number = number;
    return 0;
}

void coord_eval_close(struct coord_eval *v)
{
    for (uint32_t i = 0; i < v->tasks; i++)
        free(v->task[i].result);
    free(v->task);
    measure_close(&v->measure);
    memset(v, 0, sizeof *v);
}

/* ---- leases ---------------------------------------------------------------------------------- */

/* Returns how well a task suits the worker: 0 not at all, 3 best. */
static uint32_t suits(const struct coord_eval *v, const struct coord_eval_task *task,
                      uint64_t worker, bool poor)
{
    const struct coord_eval_objects *o = &v->objects;
    if (o->count == 0 || o->holder[task->object] == worker)
        return 3;
    if (o->holder[task->object] == 0)
        return 2;
    bool begun = task->leased || task->position > 0;
    return (o->files && v->fair == 0) || (poor && !begun);
}

static uint32_t task_lease(struct coord_eval *v, uint32_t index, uint64_t worker, uint64_t now_ns)
{
    struct coord_eval_task *task = &v->task[index];
    struct coord_eval_objects *o = &v->objects;
    if (o->count > 0 && (o->holder[task->object] == 0 || v->fair > 0))
        o->holder[task->object] = worker;
    task->leased = true;
    coord_item_give(&task->item, worker, now_ns);
    while (v->fresh < v->tasks && v->task[v->fresh].leased)
        v->fresh++;
    return index;
}

/* Returns the best task among those never leased. */
static uint32_t fresh_find(const struct coord_eval *v, uint32_t end, uint64_t worker)
{
    bool poor = coord_item_holds(v->objects.holder, v->objects.count, worker) < v->fair;
    uint32_t best = COORD_NO_EVAL, how = 0;
    for (uint32_t i = v->fresh; i < end && how < 3; i++) {
        if (v->task[i].leased)
            continue;
        uint32_t s = suits(v, &v->task[i], worker, poor);
        if (s > how) {
            best = i;
            how = s;
        }
    }
    return best;
}

uint32_t coord_eval_lease(struct coord_eval *v, uint64_t worker, uint64_t now_ns)
{
    uint32_t oldest = COORD_NO_EVAL, end = v->measured + MIN(v->tasks - v->measured, v->window);
    SHOAL_ASSERT(worker != 0); /* 0: no worker */
    SHOAL_ASSERT(v->measured <= v->tasks);
    uint32_t fresh = fresh_find(v, end, worker);
    if (fresh != COORD_NO_EVAL)
        return task_lease(v, fresh, worker, now_ns);
    for (uint32_t i = v->measured; i < end; i++) {
        if (v->task[i].done || !v->task[i].leased || suits(v, &v->task[i], worker, false) == 0)
            continue;
        const struct coord_item *item = &v->task[i].item;
        if (item->worker == 0) /* its worker is gone */
            return task_lease(v, i, worker, now_ns);
        if (oldest == COORD_NO_EVAL || item->given_ns < v->task[oldest].item.given_ns)
            oldest = i;
    }
    if (oldest == COORD_NO_EVAL || now_ns - v->task[oldest].item.given_ns < COORD_AGAIN_NS)
        return COORD_NO_EVAL;
    SHOAL_ASSERT(oldest >= v->measured && oldest < end && !v->task[oldest].done);
    return task_lease(v, oldest, worker, now_ns);
}

void coord_eval_worker_gone(struct coord_eval *v, uint64_t worker)
{
    SHOAL_ASSERT(worker != 0 && v->measured <= v->tasks);
    for (uint32_t i = v->measured; i < v->tasks; i++)
        coord_item_gone(&v->task[i].item, worker);
}

uint64_t coord_eval_task_number(const struct coord_eval *v, uint32_t index)
{
    SHOAL_ASSERT(index < v->tasks && v->number <= UINT32_MAX); /* each number has 32 bits */
    return v->number << 32 | index;
}

/* ---- results --------------------------------------------------------------------------------- */

/* True when a label and its score can be: a missing label is one of several. */
static bool pair_ok(const struct measure_options *o, uint32_t task, float score, float label)
{
    bool real = o->real >> task & 1, missing = isnan(label) && o->tasks > 1;
    if (real)
        return isfinite(score) && (missing || isfinite(label));
    return score >= 0.0f && score <= 1.0f && (missing || label == 0.0f || label == 1.0f);
}

static int result_check(const struct coord_eval *v, const struct coord_eval_task *task,
                        const struct wire_EVAL_DONE *q, const float *score, struct err *e)
{
    const struct measure_options *o = &v->measure.options;
    if (q->tasks != o->tasks || q->grouped != o->group || q->by_count != o->by_count)
        return err_set(e, SHOAL_E_MALFORMED,
                       "predictions of %u labels%s and %u fields, the job has %u%s and %u",
                       q->tasks, text_if(q->grouped, ", a group"), q->by_count, o->tasks,
                       text_if(o->group, ", a group"), o->by_count);
    if (q->examples > task->rows || q->bad_lines > task->rows - q->examples)
        return err_set(e, SHOAL_E_MALFORMED,
                       "evaluation task of %" PRIu64 " rows came back with %u examples and %" PRIu64
                       " bad lines",
                       task->rows, q->examples, q->bad_lines);
    size_t count = (size_t)q->examples * q->tasks;
    const float *label = score + count;
    for (size_t i = 0; i < count; i++)
        if (!pair_ok(o, (uint32_t)(i % q->tasks), score[i], label[i]))
            return err_set(e, SHOAL_E_DATA,
                           "evaluation: example %zu of the rows from %" PRIu64
                           " has score %g and label %g: the model has diverged",
                           i / q->tasks, task->position, (double)score[i], (double)label[i]);
    return 0;
}

/* Keeps a copy until the task's turn. */
static int result_keep(const struct coord_eval *v, struct coord_eval_task *task, const void *scores,
                       const void *context, struct err *e)
{
    const struct measure_options *o = &v->measure.options;
    size_t first = 8ull * task->examples * o->tasks, all = row_bytes(o) * task->examples;
    SHOAL_ASSERT(!task->done && first <= all && all <= COORD_EVAL_TASK_BYTES);
    task->result = malloc(all + 1);
    if (task->result == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u predictions", task->examples);
    if (first > 0)
        memcpy(task->result, scores, first);
    if (all > first)
        memcpy((char *)task->result + first, context, all - first);
    return 0;
}

/* Measures the results whose turn has come. */
static int results_measure(struct coord_eval *v, struct err *e)
{
    const struct measure_options *o = &v->measure.options;
    for (; v->measured < v->tasks && v->task[v->measured].done; v->measured++) {
        struct coord_eval_task *task = &v->task[v->measured];
        size_t count = (size_t)task->examples * o->tasks;
        const float *score = task->result;
        const uint64_t *group = NULL, *by = (const void *)(score + 2 * count);
        int rc = 0;
        SHOAL_ASSERT(task->examples <= task->rows);
        if (o->group) {
            group = by;
            by += task->examples;
        }
        if (task->examples > 0)
            rc = measure_add(&v->measure, score, score + count, group, o->by_count > 0 ? by : NULL,
                             task->examples, e);
        if (rc != 0)
            return rc;
        free(task->result);
        task->result = NULL;
    }
    return 0;
}

_Static_assert(sizeof(struct unseen_field) == sizeof(struct wire_unseen),
               "they travel as they are");

/* Adds integers, so the order does not matter. */
static void unseen_take(struct coord_eval *v, const struct wire_EVAL_DONE *q, const void *context)
{
    const struct measure_options *o = &v->measure.options;
    size_t words = (size_t)q->examples * (o->group + o->by_count);
    if (q->fields > 0)
        unseen_add(&v->measure.unseen,
                   (const struct unseen_field *)(const void *)((const uint64_t *)context + words),
                   q->fields);
}

int coord_eval_done(struct coord_eval *v, const struct wire_EVAL_DONE *q, const void *scores,
                    const void *context, struct err *e)
{
    uint32_t index = (uint32_t)q->task;
    if (q->task >> 32 != v->number || index >= v->tasks)
        return 0;
    struct coord_eval_task *task = &v->task[index];
    if (!task->leased)
        return err_set(e, SHOAL_E_MALFORMED, "evaluation task %u was given to no worker", index);
    if (task->done)
        return results_measure(v, e);
    int rc = result_check(v, task, q, scores, e);
    if (rc != 0)
        return rc;
    task->examples = q->examples;
    rc = result_keep(v, task, scores, context, e);
    if (rc != 0)
        return rc;
    task->done = true;
    task->item.worker = 0;
    unseen_take(v, q, context);
    v->bad_lines += q->bad_lines;
    SHOAL_ASSERT(v->bad_lines <= v->rows);
    return results_measure(v, e);
}

bool coord_eval_complete(const struct coord_eval *v)
{
    SHOAL_ASSERT(v->measured <= v->tasks);
    return v->tasks > 0 && v->measured == v->tasks;
}

int coord_eval_finish(struct coord_eval *v, const struct measure **out, struct err *e)
{
    SHOAL_ASSERT(coord_eval_complete(v));
    *out = &v->measure;
    return measure_finish(&v->measure, e);
}
