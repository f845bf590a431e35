/* coord_eval.c: leases and the merge of an evaluation. */
#include "server/coord_eval.h"
#include "proto/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int coord_eval_open(struct coord_eval *v, uint64_t number, uint32_t split, uint64_t rows, uint32_t batch, struct err *e)
{
    uint64_t each = 4ull * batch < COORD_EVAL_TASK_ROWS ? 4ull * batch : COORD_EVAL_TASK_ROWS;

    memset(v, 0, sizeof *v);
    if (rows > COORD_EVAL_ROWS_MAX)
        return err_set(
            e, SHOAL_E_TOO_BIG,
            "an evaluation of %llu rows: the exact AUC is kept in memory for at most %llu, take a sample of the split",
            (unsigned long long)rows, COORD_EVAL_ROWS_MAX);
    if (rows == 0)
        return err_set(e, SHOAL_E_DATA, "the split to evaluate has no rows");
    uint64_t least = rows / (1u << 18) + 1; /* tiny batches on a large split: at most 2^18 tasks */
    if (each < least)
        each = least;
    v->tasks = (uint32_t)((rows + each - 1) / each);
    v->task = calloc(v->tasks, sizeof *v->task);
    if (v->task == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u evaluation tasks", v->tasks);
    for (uint32_t i = 0; i < v->tasks; i++) {
        v->task[i].position = i * each;
        v->task[i].rows = rows - i * each < each ? rows - i * each : each;
    }
    v->split = split;
    v->rows = rows;
    v->number = number;
    return 0;
}

void coord_eval_close(struct coord_eval *v)
{
    for (uint32_t i = 0; i < v->tasks; i++)
        free(v->task[i].score);
    free(v->task);
    memset(v, 0, sizeof *v);
}

static void task_lease(struct coord_eval_task *task, uint64_t worker, uint64_t now_ns)
{
    task->worker = worker;
    task->leased_ns = now_ns;
}

uint32_t coord_eval_lease(struct coord_eval *v, uint64_t worker, uint64_t now_ns)
{
    uint32_t oldest = COORD_NO_EVAL;

    for (uint32_t i = 0; i < v->tasks; i++) {
        if (v->task[i].done)
            continue;
        if (v->task[i].worker == 0) {
            task_lease(&v->task[i], worker, now_ns);
            return i;
        }
        if (oldest == COORD_NO_EVAL || v->task[i].leased_ns < v->task[oldest].leased_ns)
            oldest = i;
    }
    if (oldest == COORD_NO_EVAL || now_ns - v->task[oldest].leased_ns < COORD_EVAL_AGAIN_NS)
        return COORD_NO_EVAL;
    task_lease(&v->task[oldest], worker, now_ns);
    return oldest;
}

void coord_eval_worker_gone(struct coord_eval *v, uint64_t worker)
{
    for (uint32_t i = 0; i < v->tasks; i++)
        if (!v->task[i].done && v->task[i].worker == worker)
            v->task[i].worker = 0;
}

uint64_t coord_eval_task_number(const struct coord_eval *v, uint32_t index)
{
    return v->number << 32 | index;
}

int coord_eval_done(struct coord_eval *v, uint64_t number, uint32_t examples, uint64_t bad_lines, const float *score,
                    const float *label, struct err *e)
{
    uint32_t index = (uint32_t)number;

    if (number >> 32 != v->number || index >= v->tasks || v->task[index].done)
        return 0;
    struct coord_eval_task *task = &v->task[index];
    if (examples + bad_lines > task->rows || bad_lines > task->rows)
        return err_set(e, SHOAL_E_MALFORMED,
                       "evaluation task of %llu rows came back with %u examples and %llu bad lines",
                       (unsigned long long)task->rows, examples, (unsigned long long)bad_lines);
    for (uint32_t i = 0; i < examples; i++)
        if (!(score[i] >= 0.0f && score[i] <= 1.0f) || !(label[i] == 0.0f || label[i] == 1.0f))
            return err_set(
                e, SHOAL_E_DATA,
                "evaluation: example %u of the rows from %llu has score %g and label %g: the model has diverged", i,
                (unsigned long long)task->position, (double)score[i], (double)label[i]);
    if (examples > 0) {
        task->score = malloc(2ull * examples * sizeof *task->score);
        if (task->score == NULL)
            return err_set(e, SHOAL_E_NOMEM, "no memory for %u scores", examples);
        memcpy(task->score, score, examples * sizeof *score);
        memcpy(task->score + examples, label, examples * sizeof *label);
    }
    task->examples = examples;
    task->done = true;
    v->bad_lines += bad_lines;
    v->done++;
    return 0;
}

bool coord_eval_complete(const struct coord_eval *v)
{
    return v->tasks > 0 && v->done == v->tasks;
}

int coord_eval_metric(const struct coord_eval *v, struct metric *out, struct err *e)
{
    size_t count = 0, at = 0;

    SHOAL_ASSERT(coord_eval_complete(v));
    for (uint32_t i = 0; i < v->tasks; i++)
        count += v->task[i].examples;
    float *score = malloc((count + 1) * sizeof *score), *label = malloc((count + 1) * sizeof *label);
    int status = score == NULL || label == NULL ? SHOAL_E_NOMEM : 0;
    for (uint32_t i = 0; status == 0 && i < v->tasks; i++) {
        const struct coord_eval_task *task = &v->task[i];
        if (task->examples == 0)
            continue;
        memcpy(score + at, task->score, task->examples * sizeof *score);
        memcpy(label + at, task->score + task->examples, task->examples * sizeof *label);
        at += task->examples;
    }
    if (status == 0)
        status = metric_compute(score, label, count, out);
    free(score);
    free(label);
    return status == 0 ? 0 : err_set(e, status, "no memory to merge %zu scores", count);
}
