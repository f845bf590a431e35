/* dense_case.c: small models on one batch. */
#include "tests/lib/dense_case.h"
#include "dense/model/models.h"

#include "dense/model/run.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeroed(size_t count, size_t bytes)
{
    size_t all = (count * bytes + 64) / 64 * 64;
    void *p = aligned_alloc(64, all);
    if (p == NULL)
        abort();
    memset(p, 0, all);
    return p;
}

void dense_fill(struct rng *r, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 2.0f * rng_float(r) - 1.0f;
}

/* ---- a case ---------------------------------------------------------------------------------- */

static struct widths widths_of(uint32_t first, uint32_t second)
{
    return (struct widths){.at = {first, second}, .count = second > 0 ? 2 : 1};
}

void dense_case_job(struct dense_case *c, enum model_kind kind)
{
    memset(c, 0, sizeof *c);
    c->table = (struct job_table){.name = "emb",
                                  .dim = 3,
                                  .init = {INIT_UNIFORM, 0.01f},
                                  .seed = 7,
                                  .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.05f}};
    c->job.table = &c->table;
    c->job.table_count = 1;
    c->job.data.label_count = 1;
    c->job.data.negatives = 1.0;
    c->job.model.kind = kind;
    c->job.model.hidden = c->job.model.hidden2 = widths_of(5, 4);
    c->job.model.bottom = c->job.model.tower = widths_of(4, 0);
    c->job.model.cin = widths_of(3, 2);
    c->job.model.attention_hidden = widths_of(4, 3);
    c->job.model.cross_layers = 2;
    c->job.model.heads = 2;
    c->job.model.attention_layers = 2;
    c->job.model.attention_dim = 4;
    c->job.model.experts = 3;
    c->job.model.own_experts = 2;
    c->job.model.activation = ACT_TANH;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        c->job.model.task_weight[t] = 1.0;
    c->job.dense_optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.01f};
    c->job.train.seed = DENSE_SEED;
    c->job.train.deterministic = true;
    snprintf(c->job.name, sizeof c->job.name, "case");
    c->shape.fields = 3;
    c->shape.numerics = 2;
    c->shape.tasks = 1;
    c->shape.pooling[2] = POOL_MEAN;
    c->values_most = 3;
}

void dense_case_tables(struct dense_case *c, const uint32_t *dim, uint32_t tables)
{
    ck_assert_uint_le(tables, DENSE_TABLES_MAX);
    for (uint32_t t = 0; t < tables; t++) {
        c->several[t] = c->table;
        c->several[t].dim = dim[t];
        snprintf(c->several[t].name, sizeof c->several[t].name, "emb%u", t);
    }
    c->job.table = c->several;
    c->job.table_count = tables;
    for (uint32_t f = 0; f < LIMIT_FIELDS; f++)
        c->shape.table[f] = (uint8_t)(f % tables);
}

/* Divides the batch's rows among the tables as evenly as possible; the last table has the rest. */
static void draw_parts(struct dense_case *c)
{
    uint32_t tables = (uint32_t)c->job.table_count, left = c->in.row_count;
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t rows = t + 1 < tables ? c->in.row_count / tables : left;
        c->table_rows[t] = rows;
        left -= rows;
    }
    c->in.table_rows = c->table_rows;
}

/* Draws a row of the field's table. */
static uint32_t draw_row(const struct dense_case *c, struct rng *r, uint32_t field)
{
    uint32_t first = 0, table = c->shape.table[field];
    for (uint32_t t = 0; t < table; t++)
        first += c->table_rows[t];
    return first + (uint32_t)rng_below(r, c->table_rows[table]);
}

size_t dense_case_row(const struct dense_case *c, uint32_t row, uint32_t *width)
{
    size_t at = 0;
    uint32_t t = 0, of = 0;
    for (;; t++) {
        of = c->plan.first_order + c->plan.table_dim[t];
        if (row < c->table_rows[t] || t + 1 == c->plan.tables)
            break;
        at += (size_t)c->table_rows[t] * of;
        row -= c->table_rows[t];
    }
    if (width != NULL)
        *width = of;
    return at + (size_t)row * of;
}

static void draw_values(struct dense_case *c, struct rng *r, bool many)
{
    uint32_t slots = c->in.examples * c->shape.fields;
    c->index = zeroed((size_t)slots * (c->values_most + 1) + 1, sizeof *c->index);
    c->offset = zeroed(slots + 1, sizeof *c->offset);
    for (uint32_t s = 0; s < slots; s++) {
        uint32_t most = c->shape.most[s % c->shape.fields];
        most = most > 0 && most < c->values_most ? most : c->values_most;
        uint32_t values = many ? (uint32_t)rng_below(r, most + 1) : 1;
        c->offset[s] = c->values;
        for (uint32_t v = 0; v < values; v++)
            c->index[c->values++] = draw_row(c, r, s % c->shape.fields);
    }
    c->offset[slots] = c->values;
    c->in.index = c->index;
    c->in.offset = many ? c->offset : NULL;
    if (!c->factored)
        return;
    c->factor = zeroed(c->values + 1, sizeof *c->factor);
    dense_fill(r, c->factor, c->values);
    for (uint32_t v = 0; v < c->values; v += 5)
        c->factor[v] = 0;
    c->in.factor = c->factor;
}

static void case_model(struct dense_case *c, uint32_t examples)
{
    struct err e = {0};
    struct backend *b = c->backend != NULL ? c->backend : dense_backend();
    int rc = model_new_kind(&c->job, &c->shape, c->kind, b, &c->model, &e);
    c->ops = *backend_ops_of(b);
    if (rc == 0 && c->range > 0 && c->ops.range > 0) {
        c->ops.range = c->range;
        c->model->k = &c->ops;
    }
    if (rc == 0)
        rc = model_run_new(c->model, examples, &c->run, &e);
    if (rc != 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    c->plan = c->model->plan;
}

/* Draws weights: every third is 0, the others are up to 2. */
static void draw_weights(struct dense_case *c, struct rng *r)
{
    c->weight = zeroed(c->in.examples, sizeof(float));
    for (uint32_t i = 0; i < c->in.examples; i++)
        c->weight[i] = i % 3 == 1 ? 0.0f : 2.0f * rng_float(r);
    c->in.weight = c->weight;
}

/* Draws means in (-1, 1) and variances in (0.5, 1.5): a norm layer has a tensor of each, one after
 * the other. */
static void draw_statistics(struct dense_case *c, struct rng *r)
{
    for (uint32_t t = 0; t < c->plan.stats.tensor_count; t++)
        for (size_t i = 0; i < c->plan.stats.tensor[t].count; i++)
            c->stats[c->plan.stats.tensor[t].first + i] =
                rng_float(r) * (t % 2 ? 1.0f : 2.0f) + (t % 2 ? 0.5f : -1.0f);
}

void dense_case_batch(struct dense_case *c, uint32_t examples, uint32_t row_count, bool many)
{
    struct rng r = rng_of(11, examples, row_count);
    case_model(c, examples);
    size_t dense = model_dense_floats(c->model), stats = model_stats_floats(c->model);
    size_t labels = (size_t)examples * c->plan.tasks;

    c->in.examples = examples;
    c->in.row_count = row_count;
    draw_parts(c);
    size_t row_floats = dense_case_row(c, row_count, NULL);
    draw_values(c, &r, many);
    c->label = zeroed(labels, sizeof(float));
    c->numeric = zeroed((size_t)examples * c->shape.numerics, sizeof(float));
    c->rows = zeroed(row_floats, sizeof(float));
    c->dense = zeroed(dense, sizeof(float));
    c->stats = zeroed(stats, sizeof(float));
    for (size_t i = 0; i < labels; i++)
        c->label[i] = (float)rng_below(&r, 2);
    dense_fill(&r, c->numeric, (size_t)examples * c->shape.numerics);
    dense_fill(&r, c->rows, row_floats);
    dense_fill(&r, c->dense, dense);
    draw_statistics(c, &r);
    if (c->weighted)
        draw_weights(c, &r);
    c->in.label = c->label;
    c->in.numeric = c->numeric;
    c->in.rows = c->rows;
    c->in.dense = c->dense;
    c->in.stats = c->stats;
    c->out.row_gradients = zeroed(row_floats, sizeof(float));
    c->out.dense_gradients = zeroed(dense, sizeof(float));
    c->out.stats_gradients = zeroed(stats, sizeof(float));
    c->out.scores = zeroed(labels, sizeof(float));
}

void dense_case_free(struct dense_case *c)
{
    void *owned[] = {c->label,
                     c->numeric,
                     c->weight,
                     c->rows,
                     c->dense,
                     c->stats,
                     c->index,
                     c->offset,
                     c->factor,
                     c->out.row_gradients,
                     c->out.dense_gradients,
                     c->out.stats_gradients,
                     c->out.scores};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    model_run_free(c->run);
    model_free(c->model);
}

/* ---- training -------------------------------------------------------------------------------- */

void dense_case_train(struct dense_case *c, uint64_t batch)
{
    int rc = model_train(c->model, c->run, &c->in, DENSE_SEED, DENSE_LANE, batch, &c->out);
    ck_assert_msg(rc == 0, "model_train: %d: %s", rc, model_run_error(c->run));
}

static void descend(float *x, const float *gradient, size_t count, float rate)
{
    for (size_t i = 0; i < count; i++)
        x[i] -= rate * gradient[i];
}

void dense_case_curve(struct dense_case *c, uint32_t steps, float rate, double *loss)
{
    for (uint32_t step = 1; step <= steps; step++) {
        dense_case_train(c, step);
        loss[step - 1] = c->out.loss_sum / c->out.weight_sum;
        descend(c->rows, c->out.row_gradients, dense_case_row(c, c->in.row_count, NULL), rate);
        descend(c->dense, c->out.dense_gradients, model_dense_floats(c->model), rate);
        descend(c->stats, c->out.stats_gradients, model_stats_floats(c->model), 1.0f);
    }
}

double dense_case_apart(struct dense_case *a, struct dense_case *b, uint32_t steps, float rate)
{
    double *one = zeroed(steps, sizeof *one), *other = zeroed(steps, sizeof *other), worst = 0.0;
    dense_case_curve(a, steps, rate, one);
    dense_case_curve(b, steps, rate, other);
    for (uint32_t i = 0; i < steps; i++)
        worst = fmax(worst, fabs(one[i] - other[i]) / fabs(one[i]));
    free(one);
    free(other);
    return worst;
}

void dense_case_tensor(const struct dense_case *c, uint32_t tensor, float *out)
{
    const struct backend_ops *k = c->model->k;
    const struct tensor *t = &c->plan.tensor[tensor];
    size_t rows = t->state ? 1 : c->in.examples, ld = t->state ? t->width : t->ld;
    float *all = malloc(rows * ld * sizeof *all);
    ck_assert_ptr_nonnull(all);
    ck_assert(tensor != TENSOR_NUMERIC && (t->whole || c->in.examples <= c->run->range));
    k->download(c->run->site[0].stream, all, c->run->data[tensor], rows * ld * sizeof *all);
    ck_assert_int_eq(k->stream_finish(c->run->site[0].stream, NULL), 0);
    for (size_t i = 0; i < rows; i++)
        memcpy(out + i * t->width, all + i * ld, t->width * sizeof *all);
    free(all);
}
