/* dense_double.c: plans in double: the layers that every model has, the loss, and the check of
 * gradients. */
#include "tests/lib/dense_double.h"
#include "dense/layer/plan.h"
#include "dense/model.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double *double_at(const struct double_pass *p, struct view v, uint32_t example)
{
    return p->data[v.tensor] + (size_t)example * p->plan->tensor[v.tensor].width + v.at;
}

uint32_t double_ld(const struct double_pass *p, struct view v)
{
    return p->plan->tensor[v.tensor].width;
}

void double_values(const struct double_pass *p, uint32_t example, uint32_t field, uint32_t *begin,
                   uint32_t *end)
{
    uint32_t slot = example * p->plan->shape.fields + field;
    *begin = p->c->in.offset != NULL ? p->c->in.offset[slot] : slot;
    *end = p->c->in.offset != NULL ? p->c->in.offset[slot + 1] : slot + 1;
}

bool double_kept(const uint32_t key[2], uint32_t threshold, uint32_t value)
{
    uint32_t x = value + key[0];
    x ^= x >> 16;
    x *= 0x21f0aaadu;
    x += key[1];
    x ^= x >> 15;
    x *= 0xd35a2d97u;
    x ^= x >> 15;
    return x >> 8 >= threshold;
}

double double_dropout(const struct double_pass *p, const struct layer *l, uint32_t value)
{
    uint32_t key[2];
    if (!p->train || l->dropout == 0)
        return 1.0;
    layer_dropout_key(p->seed, p->lane, p->batch, l->number, key);
    return double_kept(key, (uint32_t)(l->dropout * 0x1p24), value) ? 1.0 / (1.0 - l->dropout)
                                                                    : 0.0;
}

double double_act(enum activation act, double x)
{
    switch (act) {
    case ACT_RELU:
        return x > 0 ? x : 0;
    case ACT_TANH:
        return tanh(x);
    case ACT_SIGMOID:
        return 1.0 / (1.0 + exp(-x));
    case ACT_NONE:
        return x;
    }
    abort();
}

/* ---- the layers ------------------------------------------------------------------------------ */

/* Pools one field: returns its first-order weight and writes its vector to x (or NULL). */
static double pool_field(const struct double_pass *p, uint32_t example, uint32_t field, double *x)
{
    uint32_t begin, end, dim = p->plan->table_dim[p->plan->shape.table[field]],
                         first_order = p->plan->first_order;
    double weight = 0;
    double_values(p, example, field, &begin, &end);
    double share =
        p->plan->shape.pooling[field] != POOL_SUM && end > begin ? 1.0 / (end - begin) : 1.0;
    for (uint32_t v = begin; v < end; v++) {
        const double *row = p->rows + dense_case_row(p->c, p->c->in.index[v], NULL);
        if (p->c->in.factor != NULL)
            share = (double)p->c->in.factor[v];
        weight += first_order ? share * row[0] : 0;
        for (uint32_t d = 0; x != NULL && d < dim; d++)
            x[d] += share * row[first_order + d];
    }
    return weight;
}

/* Also begins the logits: a bias for each task, and the first-order weights for the first task. */
static void pool_forward(const struct layer *l, struct double_pass *p)
{
    const struct model_shape *s = &p->plan->shape;
    uint32_t tasks = p->plan->tasks, column[LIMIT_FIELDS + 1] = {0};
    for (uint32_t f = 0; f < s->fields; f++)
        column[f + 1] = column[f] + p->plan->table_dim[s->table[f]];
    for (uint32_t i = 0; i < p->c->in.examples; i++) {
        double *x = l->y.tensor == TENSOR_NONE ? NULL : double_at(p, l->y, i),
               *logit = p->data[TENSOR_LOGIT] + i * tasks;
        for (uint32_t t = 0; t < tasks; t++)
            logit[t] = p->dense[l->parameter[1] + t];
        for (uint32_t f = 0; f < s->fields; f++)
            logit[0] += pool_field(
                p, i, f, x != NULL && s->pooling[f] != POOL_ATTENTION ? x + column[f] : NULL);
        for (uint32_t n = 0; x != NULL && l->y.width > column[s->fields] && n < s->numerics; n++)
            x[column[s->fields] + n] = (double)p->c->numeric[i * s->numerics + n];
    }
}

static double product(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += a[k] * b[k];
    return sum;
}

static void fc_forward(const struct layer *l, struct double_pass *p)
{
    const double *w = p->dense + l->parameter[0];
    const double *bias = l->parameter[1] == PARAMETER_NONE ? NULL : p->dense + l->parameter[1];
    uint32_t in = l->x.width, out = l->y.width;
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < out; j++) {
            double sum = (bias != NULL ? bias[j] : 0) +
                         product(double_at(p, l->x, i), w + (size_t)j * in, in);
            double_at(p, l->y, i)[j] = double_act(l->act, sum) * double_dropout(p, l, i * out + j);
        }
}

static void head_forward(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        *double_at(p, l->y, i) +=
            product(double_at(p, l->x, i), p->dense + l->parameter[0], l->x.width);
}

static void act_forward(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < l->y.width; j++) {
            double *y = double_at(p, l->y, i) + j;
            *y = double_act(l->act, *y) * double_dropout(p, l, i * l->y.width + j);
        }
}

static void norm_column(const struct layer *l, struct double_pass *p, uint32_t j)
{
    uint32_t n = p->c->in.examples;
    double mean = (double)p->c->stats[l->mean + j],
           variance = fmax((double)p->c->stats[l->variance + j], 0.0);
    double gamma = p->dense[l->parameter[0] + j], beta = p->dense[l->parameter[1] + j];
    if (p->train && n > 1) {
        mean = variance = 0;
        for (uint32_t i = 0; i < n; i++)
            mean += double_at(p, l->x, i)[j] / n;
        for (uint32_t i = 0; i < n; i++)
            variance += pow(double_at(p, l->x, i)[j] - mean, 2) / n;
    }
    for (uint32_t i = 0; i < n; i++)
        double_at(p, l->y, i)[j] =
            (double_at(p, l->x, i)[j] - mean) / sqrt(variance + 1e-5) * gamma + beta;
}

static void norm_forward(const struct layer *l, struct double_pass *p)
{
    for (uint32_t j = 0; j < l->x.width; j++)
        norm_column(l, p, j);
}

static void fm_forward(const struct layer *l, struct double_pass *p)
{
    uint32_t dim = p->plan->dim, fields = l->x.width / dim;
    for (uint32_t i = 0; i < p->c->in.examples; i++) {
        const double *x = double_at(p, l->x, i);
        for (uint32_t f = 0; f < fields; f++)
            for (uint32_t g = f + 1; g < fields; g++)
                *double_at(p, l->y, i) += product(x + f * dim, x + g * dim, dim);
    }
}

const struct double_layer double_layers_core[] = {{&layer_pool, pool_forward},
                                                  {&layer_fc, fc_forward},
                                                  {&layer_head, head_forward},
                                                  {&layer_act, act_forward},
                                                  {&layer_batch_norm, norm_forward},
                                                  {&layer_fm, fm_forward},
                                                  {NULL, NULL}};

static const struct double_layer none[] = {{NULL, NULL}}, *of_the_test = none;

void dense_double_add(const struct double_layer *table)
{
    of_the_test = table;
}

static double_forward forward_of(const struct layer *l)
{
    const struct double_layer *const group[] = {double_layers_core, double_layers_interact,
                                                double_layers_attention, double_layers_mix,
                                                of_the_test};
    for (size_t g = 0; g < sizeof group / sizeof *group; g++)
        for (const struct double_layer *d = group[g]; d->ops != NULL; d++)
            if (d->ops == l->ops)
                return d->forward;
    fprintf(stderr, "dense_double: layer %s has no formula in tests/lib/dense_double_*.c\n",
            l->ops->name);
    abort();
}

/* ---- the loss -------------------------------------------------------------------------------- */

/* Allocates the memory of all tensors; the caller frees it. */
static double *pass_memory(struct double_pass *p)
{
    size_t n = p->c->in.examples, all = 1;
    for (uint32_t t = 0; t < p->plan->tensor_count; t++)
        all += p->plan->tensor[t].width * (p->plan->tensor[t].state ? 1 : n);
    double *memory = calloc(all, sizeof *memory), *at = memory;
    if (memory == NULL)
        abort();
    for (uint32_t t = 0; t < p->plan->tensor_count; t++) {
        p->data[t] = at;
        at += p->plan->tensor[t].width * (p->plan->tensor[t].state ? 1 : n);
    }
    for (size_t i = 0; i < n * p->plan->shape.numerics; i++)
        p->data[TENSOR_NUMERIC][i] = (double)p->c->numeric[i];
    return memory;
}

static double weight_sum(const struct dense_case *c)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->in.examples; i++)
        sum += c->in.weight != NULL ? (double)c->in.weight[i] : 1.0;
    return sum;
}

/* Returns the loss of one example. */
static double example_loss(const struct dense_case *c, uint32_t task, double z, double y)
{
    double delta = c->job.model.huber_delta, error = fabs(z - y);
    if (c->job.model.loss[task] == LOSS_MSE)
        return error * error;
    if (c->job.model.loss[task] == LOSS_HUBER)
        return error <= delta ? error * error / 2 : delta * (error - delta / 2);
    /* The log of the score would lose precision, and then all digits, for a large logit. */
    return fmax(z, 0.0) - z * y + log1p(exp(-fabs(z)));
}

/* The sum of the weights of the examples that have the label. */
static double task_weight_sum(const struct dense_case *c, uint32_t task)
{
    double sum = 0;
    for (uint32_t i = 0; i < c->in.examples; i++)
        if (!isnan(c->label[i * c->plan.tasks + task]))
            sum += c->in.weight != NULL ? (double)c->in.weight[i] : 1.0;
    return sum;
}

/* Returns the weighted loss of a task: the mean over the examples that have its label, times the
 * weights of all. */
static double task_loss(const struct double_pass *p, uint32_t task, double *scores)
{
    uint32_t tasks = p->plan->tasks;
    double loss = 0, offset = p->train ? 0 : log(p->c->job.data.negatives),
           there = task_weight_sum(p->c, task);
    for (uint32_t i = 0; i < p->c->in.examples; i++) {
        uint32_t at = i * tasks + task;
        double z = p->data[TENSOR_LOGIT][at] + offset, y = (double)p->c->label[at];
        if (!isnan(y))
            loss += (p->c->in.weight != NULL ? (double)p->c->in.weight[i] : 1.0) *
                    example_loss(p->c, task, z, y);
        if (scores != NULL)
            scores[at] = p->c->job.model.loss[task] == LOSS_LOGLOSS ? 1.0 / (1.0 + exp(-z)) : z;
    }
    return there > 0 ? loss * (weight_sum(p->c) / there) : 0;
}

/* Computes the losses by task. */
static void double_run(struct double_pass *p, double *loss, double *scores)
{
    double *memory = pass_memory(p);
    for (uint32_t i = 0; i < p->plan->layer_count; i++)
        forward_of (&p->plan->layer[i])(&p->plan->layer[i], p);
    for (uint32_t t = 0; t < p->plan->tasks; t++)
        loss[t] = task_loss(p, t, scores);
    free(memory);
}

static double square_sum(const double *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += x[i] * x[i];
    return sum;
}

static double penalty(const struct dense_case *c, const double *rows, const double *dense)
{
    double sum = c->job.model.l2 / 2 * square_sum(rows, dense_case_row(c, c->in.row_count, NULL));
    for (uint32_t t = 0; t < c->plan.dense.tensor_count; t++)
        if (c->plan.dense.tensor[t].decay)
            sum += c->job.model.l2_dense / 2 *
                   square_sum(dense + c->plan.dense.tensor[t].first, c->plan.dense.tensor[t].count);
    return sum;
}

static double task_weight(const struct dense_case *c, uint32_t task)
{
    return c->plan.tasks > 1 ? c->job.model.task_weight[task] : 1.0;
}

double dense_double_loss(const struct dense_case *c, const double *rows, const double *dense,
                         bool train, uint64_t seed, uint32_t lane, uint64_t batch, double *scores)
{
    struct double_pass p = {.c = c,
                            .plan = &c->plan,
                            .rows = rows,
                            .dense = dense,
                            .train = train,
                            .seed = seed,
                            .lane = lane,
                            .batch = batch};
    double loss[LIMIT_TASKS], sum = 0, weights = weight_sum(c);
    double_run(&p, loss, scores);
    for (uint32_t t = 0; t < c->plan.tasks && weights > 0; t++)
        sum += task_weight(c, t) * loss[t] / weights;
    return sum + penalty(c, rows, dense) + c->job.model.balance * p.balance;
}

/* ---- the check ------------------------------------------------------------------------------- */

/* Parameters in double, and the worst difference so far. */
struct check {
    struct dense_case *c;
    double *rows, *dense; /* owned */
    double worst;
    char *where; /* borrowed, 128 */
};

static double *doubles(const float *x, size_t count)
{
    double *d = malloc((count + 1) * sizeof *d);
    if (d == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        d[i] = (double)x[i];
    return d;
}

static struct check check_of(struct dense_case *c, char *where)
{
    size_t rows = dense_case_row(c, c->in.row_count, NULL);
    where[0] = '\0';
    return (struct check){c, doubles(c->rows, rows), doubles(c->dense, c->plan.dense.floats), 0,
                          where};
}

static void check_free(struct check *k)
{
    free(k->rows);
    free(k->dense);
}

static void check_value(struct check *k, const char *what, size_t number, size_t at, double found,
                        double expected)
{
    double off = fabs(found - expected) / fmax(1.0, fabs(expected));
    if (off <= k->worst)
        return;
    k->worst = isfinite(off) ? off : INFINITY;
    snprintf(k->where, 128, "%s %zu [%zu]: %.9g, expected %.9g", what, number, at, found, expected);
}

/* Checks losses and scores of the last pass; losses are means, so that they compare like
 * gradients. */
static void check_losses(struct check *k, bool train)
{
    const struct dense_case *c = k->c;
    struct double_pass p = {.c = c,
                            .plan = &c->plan,
                            .rows = k->rows,
                            .dense = k->dense,
                            .train = train,
                            .seed = DENSE_SEED,
                            .lane = DENSE_LANE,
                            .batch = DENSE_BATCH};
    size_t n = c->in.examples, tasks = c->plan.tasks;
    double loss[LIMIT_TASKS], sum = 0, weights = weight_sum(c),
                              *scores = malloc((n * tasks + 1) * sizeof *scores);
    if (scores == NULL)
        abort();
    double_run(&p, loss, scores);
    check_value(k, "weight_sum", 0, 0, c->out.weight_sum, weights);
    for (size_t t = 0; t < tasks; t++) {
        double there = task_weight_sum(c, (uint32_t)t), part = weights > 0 ? there / weights : 1;
        check_value(k, "weight of task", t, 0, c->out.weight_task[t], there);
        check_value(k, "loss of task", t, 0, c->out.loss_task[t] / (double)n,
                    part * loss[t] / (double)n);
        sum += task_weight(c, (uint32_t)t) * loss[t];
    }
    check_value(k, "loss_sum", 0, 0, c->out.loss_sum / (double)n, sum / (double)n);
    for (size_t i = 0; i < n * tasks; i++)
        check_value(k, "score of example", i / tasks, i % tasks, (double)c->out.scores[i],
                    scores[i]);
    free(scores);
}

static double slope(const struct check *k, double *at)
{
    double was = *at, h = 1e-6;
    *at = was + h;
    double up =
        dense_double_loss(k->c, k->rows, k->dense, true, DENSE_SEED, DENSE_LANE, DENSE_BATCH, NULL);
    *at = was - h;
    double down =
        dense_double_loss(k->c, k->rows, k->dense, true, DENSE_SEED, DENSE_LANE, DENSE_BATCH, NULL);
    *at = was;
    return (up - down) / (2 * h);
}

static void check_rows(struct check *k)
{
    for (uint32_t row = 0; row < k->c->in.row_count; row++) {
        uint32_t width;
        size_t at = dense_case_row(k->c, row, &width);
        for (uint32_t i = 0; i < width; i++)
            check_value(k, "row", row, i, (double)k->c->out.row_gradients[at + i],
                        slope(k, &k->rows[at + i]));
    }
}

/* The floats behind a tensor's end are padding: their gradient is 0. */
static void check_dense(struct check *k)
{
    const struct block_layout *d = &k->c->plan.dense;
    for (uint32_t t = 0; t < d->tensor_count; t++) {
        size_t next = t + 1 < d->tensor_count ? d->tensor[t + 1].first : d->floats;
        for (size_t i = d->tensor[t].first; i < next; i++) {
            bool padding = i >= d->tensor[t].first + d->tensor[t].count;
            check_value(k, padding ? "padding of dense tensor" : "dense tensor", t,
                        i - d->tensor[t].first, (double)k->c->out.dense_gradients[i],
                        padding ? 0.0 : slope(k, &k->dense[i]));
        }
    }
}

double dense_double_worst(struct dense_case *c, char where[128])
{
    struct check k = check_of(c, where);
    dense_case_train(c, DENSE_BATCH);
    check_losses(&k, true);
    check_rows(&k);
    check_dense(&k);
    check_free(&k);
    return k.worst;
}

void dense_double_check(struct dense_case *c, double tolerance)
{
    char where[128];
    double worst = dense_double_worst(c, where);
    ck_assert_msg(worst <= tolerance, "%g off, more than %g: %s", worst, tolerance, where);
}

void dense_double_check_predict(struct dense_case *c, double tolerance)
{
    char where[128];
    struct check k = check_of(c, where);
    int rc = model_predict(c->model, c->run, &c->in, &c->out);
    ck_assert_msg(rc == 0, "model_predict: %d: %s", rc, model_run_error(c->run));
    check_losses(&k, false);
    check_free(&k);
    ck_assert_msg(k.worst <= tolerance, "%g off, more than %g: %s", k.worst, tolerance, where);
}
