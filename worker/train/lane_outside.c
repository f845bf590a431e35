/* lane_outside.c: a batch whose network another program has (outside.h): its arrays are handed
 * over, and the losses are computed from the scores that come back. */
#include "worker/train/lane_inner.h"

#include <math.h>
#include <string.h>

/* The loss of a score as the built-in networks count it (dense/backend_ops.h). */
static double loss_of(const struct job *job, uint32_t task, float score, float label)
{
    double d = (double)score - (double)label, delta = job->model.huber_delta;
    if (job->model.loss[task] == LOSS_LOGLOSS)
        return metric_loss(score, label);
    if (job->model.loss[task] == LOSS_MSE)
        return d * d;
    return fabs(d) > delta ? delta * (fabs(d) - delta / 2) : d * d / 2;
}

/* A program that leaves gradients out has none: what the batch before had must not be pushed. */
static void gradients_clear(const struct lane *l, const struct rows *r, struct model_output *out)
{
    size_t floats = 0, dense = model_dense_floats(l->base->model);
    for (uint32_t t = 0; t < r->sparse; t++)
        floats += (size_t)r->table[t].key_count * r->table[t].schema->width;
    if (floats > 0)
        memset(out->row_gradients, 0, floats * sizeof *out->row_gradients);
    if (dense > 0)
        memset(out->dense_gradients, 0, dense * sizeof *out->dense_gradients);
}

static bool scores_finite(const struct batch *b, const float *score)
{
    for (size_t i = 0; i < (size_t)b->examples * b->tasks; i++)
        if (!isfinite(score[i]))
            return false;
    return true;
}

static void losses_add(const struct job *job, const struct batch *b, struct model_output *out)
{
    double mean = 0;
    for (uint32_t i = 0; i < b->examples; i++) {
        double weight = b->weight != NULL ? (double)b->weight[i] : 1;
        out->weight_sum += weight;
        for (uint32_t t = 0; t < b->tasks; t++) {
            size_t at = (size_t)i * b->tasks + t;
            if (isnan(b->label[at]))
                continue;
            out->loss_task[t] += weight * loss_of(job, t, out->scores[at], b->label[at]);
            out->weight_task[t] += weight;
        }
    }
    for (uint32_t t = 0; t < b->tasks; t++)
        if (out->weight_task[t] > 0)
            mean += (b->tasks > 1 ? job->model.task_weight[t] : 1) * out->loss_task[t] /
                    out->weight_task[t];
    out->loss_sum = mean * out->weight_sum;
}

int lane_outside_run(struct lane *l, const struct lane_batch *b)
{
    struct outside_batch o = {.train = !lane_evaluates(l),
                              .lane = l->task.lane,
                              .epoch = l->task.epoch,
                              .number = b->number,
                              .job = l->base->job,
                              .shape = model_shape_of(l->base->model),
                              .schema = l->base->schema,
                              .batch = &b->rows->batch,
                              .in = &l->input,
                              .out = &l->output};
    if (o.train)
        gradients_clear(l, b->rows, &l->output);
    int rc = l->base->outside->run(l->base->outside->context, &o);
    if (rc == SHOAL_E_STOPPED)
        rc = SHOAL_E_AGAIN;
    if (rc != 0)
        return rc;
    if (scores_finite(o.batch, l->output.scores))
        losses_add(l->base->job, o.batch, &l->output);
    else if (o.train)
        l->output.skipped = true;
    else
        return SHOAL_E_NOT_FINITE;
    return 0;
}
