/* step_model.c: artificial jobs and batches for gpu_step. */
#include "dense/model.h"
#include "tests/gpu/step.h"

#include "proto/base/rng.h"

#include <stdio.h>
#include <string.h>

enum { SEQUENCE_MOST = 50 };

/* ---- the job --------------------------------------------------------------------------------- */

void step_job_make(const char *kind, struct job *job)
{
    char text[1024];
    struct err e = {0};
    bool dlrm = strcmp(kind, "dlrm") == 0, din = strcmp(kind, "din") == 0;
    bool tasks = strcmp(kind, "mmoe") == 0 || strcmp(kind, "ple") == 0;
    snprintf(text, sizeof text,
             "job: step\ndata: {format: csv, train: [none], label: [%s]%s}\ntables: [{name: emb, "
             "dim: 16}]\n"
             "model: {kind: %s, hidden: [%s]%s}\ntrain: {precision: %s, deterministic: %s}\n",
             tasks ? "a, b" : "a",
             din ? ", columns: [{name: a, type: label}, {name: s, type: multi, pooling: attention, "
                   "attend: t}, {name: t}]"
                 : "",
             kind, dlrm ? "512, 256" : "400, 400, 400", dlrm ? ", bottom: [512, 256]" : "",
             step_options.precision, step_options.deterministic ? "true" : "false");
    if (job_parse(text, strlen(text), "step", NULL, job, &e) != 0)
        step_fail(e.text);
}

void step_shape_make(const struct job *job, struct model_shape *shape)
{
    *shape = (struct model_shape){
        .fields = STEP_FIELDS, .numerics = STEP_NUMERICS, .tasks = job->data.label_count};
    if (job->model.kind == MODEL_DIN) {
        shape->pooling[0] = POOL_ATTENTION;
        shape->attend[0] = 1;
        shape->most[0] = SEQUENCE_MOST;
    }
}

/* ---- the batch ------------------------------------------------------------------------------- */

static void *room(struct step_arrays *a, size_t count, size_t bytes)
{
    void *p = backend_host_alloc(a->backend, (count + 1) * bytes);
    if (p == NULL || a->count == sizeof a->owned / sizeof *a->owned)
        step_fail("out of memory");
    a->owned[a->count++] = p;
    memset(p, 0, (count + 1) * bytes);
    return p;
}

static float *uniform(struct step_arrays *a, struct rng *r, size_t count, float scale)
{
    float *x = room(a, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = scale * (2.0f * rng_float(r) - 1.0f);
    return x;
}

/* Each field has rows of its own; a third of the values are the first of them. */
static uint32_t value(struct rng *r, uint32_t field)
{
    uint32_t each = step_options.rows / STEP_FIELDS;
    return field * each + (rng_below(r, 3) == 0 ? 0 : (uint32_t)rng_below(r, each));
}

static const uint32_t *values(struct step_arrays *a, struct rng *r)
{
    uint32_t slots = step_options.batch * STEP_FIELDS, *index = room(a, slots, sizeof *index);
    for (uint32_t i = 0; i < slots; i++)
        index[i] = value(r, i % STEP_FIELDS);
    return index;
}

/* Makes field 0 a sequence. */
static const uint32_t *sequences(struct step_arrays *a, struct rng *r, const uint32_t **offset)
{
    uint32_t slots = step_options.batch * STEP_FIELDS, *at = room(a, slots + 1, sizeof *at);
    for (uint32_t i = 0; i < slots; i++)
        at[i + 1] = at[i] + (i % STEP_FIELDS == 0 ? 1 + (uint32_t)rng_below(r, SEQUENCE_MOST) : 1);
    uint32_t *index = room(a, at[slots], sizeof *index);
    for (uint32_t i = 0; i < slots; i++)
        for (uint32_t v = at[i]; v < at[i + 1]; v++)
            index[v] = value(r, i % STEP_FIELDS);
    *offset = at;
    return index;
}

void step_batch_make(const struct model *m, uint32_t lane, struct step_arrays *a,
                     struct model_input *in, struct model_output *out)
{
    struct rng r = rng_of(1, lane, 2);
    size_t width = model_row_width(m), labels = (size_t)step_options.batch * m->plan.tasks;
    float *label = room(a, labels, sizeof *label),
          *stats = room(a, model_stats_floats(m), sizeof *stats);
    uint32_t rows = step_options.rows;
    for (size_t i = 0; i < labels; i++)
        label[i] = (float)(rng_below(&r, 4) == 0);
    for (size_t i = 0; i < model_stats_floats(m); i++)
        stats[i] = 1.0f;
    *in = (struct model_input){.examples = step_options.batch,
                               .label = label,
                               .numeric =
                                   uniform(a, &r, (size_t)step_options.batch * STEP_NUMERICS, 1.0f),
                               .row_count = rows,
                               .rows = uniform(a, &r, rows * width, 0.1f),
                               .dense = uniform(a, &r, model_dense_floats(m), 0.05f),
                               .stats = stats};
    in->index =
        m->plan.shape.pooling[0] == POOL_ATTENTION ? sequences(a, &r, &in->offset) : values(a, &r);
    *out = (struct model_output){.row_gradients = room(a, rows * width, sizeof(float)),
                                 .dense_gradients = room(a, model_dense_floats(m), sizeof(float)),
                                 .stats_gradients = room(a, model_stats_floats(m), sizeof(float)),
                                 .scores = room(a, labels, sizeof(float))};
}

void step_batch_free(struct step_arrays *a)
{
    for (uint32_t i = 0; i < a->count; i++)
        backend_host_free(a->backend, a->owned[i]);
    a->count = 0;
}
