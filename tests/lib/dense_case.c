/* dense_case.c: small models and hand-made passes. */
#include "tests/lib/dense_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct backend *dense_backend(void)
{
    static struct backend *backend;
    struct err e;
    if (!backend && backend_load(BACKEND_CPU, &backend, &e) != 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    return backend;
}

void dense_fill(struct rng *r, float *x, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] = 2.0f * rng_float(r) - 1.0f;
}

static void *zeroed(size_t count, size_t bytes)
{
    size_t all = (count * bytes + 64) / 64 * 64;
    void *p = aligned_alloc(64, all);
    if (!p)
        abort();
    memset(p, 0, all);
    return p;
}

void dense_pass_init(struct dense_pass *d, uint32_t examples)
{
    memset(d, 0, sizeof *d);
    d->in.examples = examples;
    d->pass = (struct pass){.k = backend_ops_of(dense_backend()),
                            .shape = &d->shape,
                            .in = &d->in,
                            .out = &d->out,
                            .tensor = d->tensor,
                            .data = d->data,
                            .train = true};
    for (uint32_t t = 0; t < TENSOR_FIRST_FREE; t++)
        dense_pass_tensor(d, 1, false);
}

uint32_t dense_pass_tensor(struct dense_pass *d, uint32_t width, bool state)
{
    uint32_t t = d->count++;
    d->tensor[t] = (struct tensor){.width = width, .whole = true, .state = state};
    d->data[t] = zeroed((size_t)width * (state ? 1 : d->in.examples), sizeof(float));
    return t;
}

void dense_pass_free(struct dense_pass *d)
{
    for (uint32_t t = 0; t < d->count; t++)
        free(d->data[t]);
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
    c->job.model.kind = kind;
    c->job.model.hidden.at[0] = 5;
    c->job.model.hidden.at[1] = 4;
    c->job.model.hidden.count = 2;
    c->job.model.activation = ACT_TANH;
    c->job.dense_optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.01f};
    c->job.train.seed = 2026;
    snprintf(c->job.name, sizeof c->job.name, "case");
    c->shape.fields = 3;
    c->shape.numerics = 2;
    c->shape.pooling[2] = POOL_MEAN;
}

static void draw_values(struct dense_case *c, struct rng *r, bool many)
{
    uint32_t slots = c->in.examples * c->shape.fields;
    c->index = zeroed(slots * 3 + 1, sizeof *c->index);
    c->offset = zeroed(slots + 1, sizeof *c->offset);
    for (uint32_t s = 0; s < slots; s++) {
        uint32_t values = many ? (uint32_t)rng_below(r, 4) : 1;
        c->offset[s] = c->values;
        for (uint32_t v = 0; v < values; v++)
            c->index[c->values++] = (uint32_t)rng_below(r, c->in.row_count);
    }
    c->offset[slots] = c->values;
    c->in.index = c->index;
    c->in.offset = many ? c->offset : NULL;
}

void dense_case_batch(struct dense_case *c, uint32_t examples, uint32_t row_count, bool many)
{
    struct err e;
    struct rng r = rng_of(11, examples, row_count);
    if (plan_build(&c->job, &c->shape, &c->plan, &e) != 0 ||
        model_new(&c->job, &c->shape, dense_backend(), &c->model, &e) != 0 ||
        model_run_new(c->model, examples, 0, &c->run, &e) != 0) {
        fprintf(stderr, "%s\n", e.text);
        exit(1);
    }
    size_t row_floats = (size_t)row_count * model_row_width(c->model);
    size_t dense = model_dense_floats(c->model), stats = model_stats_floats(c->model);

    c->in.examples = examples;
    c->in.row_count = row_count;
    draw_values(c, &r, many);
    c->label = zeroed(examples, sizeof(float));
    c->numeric = zeroed((size_t)examples * c->shape.numerics, sizeof(float));
    c->rows = zeroed(row_floats, sizeof(float));
    c->dense = zeroed(dense, sizeof(float));
    c->stats = zeroed(stats, sizeof(float));
    for (uint32_t i = 0; i < examples; i++)
        c->label[i] = (float)rng_below(&r, 2);
    dense_fill(&r, c->numeric, (size_t)examples * c->shape.numerics);
    dense_fill(&r, c->rows, row_floats);
    dense_fill(&r, c->dense, dense);
    for (uint32_t t = 0; t < c->plan.stats.tensor_count; t++) /* means in (-1, 1), variances in (0.5, 1.5) */
        for (size_t i = 0; i < c->plan.stats.tensor[t].count; i++)
            c->stats[c->plan.stats.tensor[t].first + i] =
                rng_float(&r) * (t % 2 ? 1.0f : 2.0f) + (t % 2 ? 0.5f : -1.0f);
    c->in.label = c->label;
    c->in.numeric = c->numeric;
    c->in.rows = c->rows;
    c->in.dense = c->dense;
    c->in.stats = c->stats;
    c->out.row_gradients = zeroed(row_floats, sizeof(float));
    c->out.dense_gradients = zeroed(dense, sizeof(float));
    c->out.stats_gradients = zeroed(stats, sizeof(float));
    c->out.scores = zeroed(examples, sizeof(float));
}

void dense_case_free(struct dense_case *c)
{
    void *owned[] = {c->label,
                     c->numeric,
                     c->rows,
                     c->dense,
                     c->stats,
                     c->index,
                     c->offset,
                     c->out.row_gradients,
                     c->out.dense_gradients,
                     c->out.stats_gradients,
                     c->out.scores};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free(owned[i]);
    model_run_free(c->run);
    model_free(c->model);
}
