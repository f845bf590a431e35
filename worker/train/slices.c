/* slices.c: the steps of a batch: its slices are computed side by side, then their gradients are
 * added side by side. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "worker/train/slices_inner.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------------ */

static void slice_free(struct slice *c)
{
    model_run_free(c->run);
    slice_cut_free(c);
}

void slices_free(struct slices *s)
{
    if (s == NULL)
        return;
    SHOAL_ASSERT(s->pending == 0);
    for (uint32_t i = 0; i < s->options.window && s->slice != NULL; i++)
        if (s->slice[i].of != NULL)
            slice_free(&s->slice[i]);
    free(s->slice);
    free(s->range);
    free(s);
}

static void slice_run(struct turn *t);
static void slice_done(struct turn *t);
static void range_run(struct turn *t);
static void range_done(struct turn *t);
static void beside_run(struct turn *t);
static void beside_done(struct turn *t);

static int slice_make(struct slices *s, uint32_t number, struct err *e)
{
    struct slice *c = &s->slice[number];
    c->of = s;
    c->number = number;
    c->turn = (struct turn){.run = slice_run, .done = slice_done};
    s->range[number].of = s;
    s->range[number].number = number;
    s->range[number].turn = (struct turn){.run = range_run, .done = range_done};
    int rc = model_run_new(s->options.model, s->options.examples, &c->run, e);
    if (rc != 0)
        return rc;
    if (slice_room_take(c, &c->dense, s->dense_floats * sizeof(float)) != 0 ||
        slice_room_take(c, &c->stats, s->stats_floats * sizeof(float)) != 0)
        return err_set(e, SHOAL_E_NOMEM,
                       "no memory for slice %u of %u: make train.window or train.lanes smaller",
                       number + 1, s->options.window);
    return 0;
}

int slices_new(const struct slices_options *options, struct slices **out, struct err *e)
{
    SHOAL_ASSERT(options->window > 0 && options->window <= LIMIT_WINDOW);
    struct slices *s = calloc(1, sizeof *s);
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the slices of a batch");
    s->options = *options;
    s->tables = model_tables(options->model);
    s->dense_floats = model_dense_floats(options->model);
    s->stats_floats = model_stats_floats(options->model);
    s->beside = (struct turn){.run = beside_run, .done = beside_done};
    s->slice = calloc(options->window, sizeof *s->slice);
    s->range = calloc(options->window, sizeof *s->range);
    int rc = 0;
    if (s->slice == NULL || s->range == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the slices of a batch");
    for (uint32_t i = 0; i < options->window && rc == 0; i++)
        rc = slice_make(s, i, e);
    if (rc != 0) {
        slices_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- computing ------------------------------------------------------------------------------- */

static void slice_run(struct turn *t) /* on a thread of the pool */
{
    struct slice *c = container_of(t, struct slice, turn);
    const struct slices *s = c->of;
    const struct slices_batch *b = &s->batch;
    const struct model_output *out = b->out;
    c->status = slice_cut(c);
    if (c->status != 0)
        return;
    uint32_t tasks = MAX(model_shape_of(s->options.model)->tasks, 1);
    c->out = (struct model_output){.row_gradients = c->gradients.at,
                                   .scores = out->scores + (size_t)c->first * tasks};
    if (out->dense_gradients != NULL)
        c->out.dense_gradients = c->dense.at;
    if (out->stats_gradients != NULL)
        c->out.stats_gradients = c->stats.at;
    uint64_t number = (b->batch - 1) * s->options.window + c->number + 1;
    if (b->train)
        c->status =
            model_train(s->options.model, c->run, &c->in, b->seed, b->lane, number, &c->out);
    else
        c->status = model_predict(s->options.model, c->run, &c->in, &c->out);
}

int slices_status(const struct slices *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->slice[i].status != 0)
            return s->slice[i].status;
    return 0;
}

const char *slices_error(const struct slices *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->slice[i].status != 0)
            return model_run_error(s->slice[i].run);
    return "";
}

/* A thread of the current step is back. Returns true when it was the last one. */
static bool step_back(struct slices *s, const struct turn *t)
{
    SHOAL_ASSERT(s->pending > 0);
    s->time.busy_ns += t->ran_ns;
    s->slowest_ns = MAX(s->slowest_ns, t->ran_ns);
    if (--s->pending > 0)
        return false;
    s->time.path_ns += s->slowest_ns;
    s->slowest_ns = 0;
    return true;
}

/* Adds up what the slices measured. */
static void figures_add(struct slices *s)
{
    struct model_output *out = s->batch.out;
    uint32_t measured = 0;
    out->loss_sum = out->weight_sum = out->dense_norm = out->row_norm = 0.0;
    out->site_time = out->site_waited = 0.0;
    memset(out->loss_task, 0, sizeof out->loss_task);
    memset(out->weight_task, 0, sizeof out->weight_task);
    memset(out->load, 0, sizeof out->load);
    out->skipped = false;
    for (uint32_t i = 0; i < s->count; i++) {
        const struct model_output *from = &s->slice[i].out;
        out->loss_sum += from->loss_sum;
        out->weight_sum += from->weight_sum;
        for (uint32_t t = 0; t < LIMIT_TASKS; t++) {
            out->loss_task[t] += from->loss_task[t];
            out->weight_task[t] += from->weight_task[t];
        }
        for (uint32_t e = 0; e < model_loads(s->options.model); e++)
            out->load[e] += from->load[e];
        out->skipped = out->skipped || from->skipped;
        measured += from->dense_norm > 0 || from->row_norm > 0;
        out->dense_norm += from->dense_norm;
        out->row_norm += from->row_norm;
        out->site_time += from->site_time;
        out->site_waited += from->site_waited;
    }
    out->dense_norm /= MAX(measured, 1);
    out->row_norm /= MAX(measured, 1);
}

static void slice_done(struct turn *t)
{
    struct slices *s = container_of(t, struct slice, turn)->of;
    if (!step_back(s, t))
        return;
    if (slices_status(s) != 0) {
        s->options.done(s->options.owner);
        return;
    }
    figures_add(s);
    bool adds = s->batch.train && !s->batch.out->skipped;
    s->pending = 1;
    if (adds)
        s->pending += s->count;
    turns_start(s->options.turns, &s->beside);
    for (uint32_t i = 0; i < s->count && adds; i++)
        turns_start(s->options.turns, &s->range[i].turn);
}

void slices_start(struct slices *s, const struct slices_batch *batch)
{
    uint32_t examples = batch->in->examples, each = s->options.examples;
    SHOAL_ASSERT(s->pending == 0 && examples > 0 && examples <= batch->rows && batch->batch > 0);
    uint32_t count = MIN((batch->rows + each - 1) / each, examples);
    SHOAL_ASSERT(count <= s->options.window);
    s->batch = *batch;
    s->count = s->pending = count;
    s->time = (struct slices_time){0};
    for (uint32_t i = 0; i < count; i++) {
        struct slice *c = &s->slice[i];
        c->first = slices_begin(examples, i, count);
        c->examples = slices_begin(examples, i + 1, count) - c->first;
        turns_start(s->options.turns, &c->turn);
    }
}

struct slices_time slices_time(const struct slices *s)
{
    return s->time;
}

uint32_t slices_made(const struct slices *s)
{
    return s->count;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void range_run(struct turn *t) /* on a thread of the pool */
{
    slices_add(container_of(t, struct range, turn));
}

static void beside_run(struct turn *t) /* on a thread of the pool */
{
    struct slices *s = container_of(t, struct slices, beside);
    s->options.beside(s->options.owner);
}

static void step_done(struct slices *s, const struct turn *t)
{
    if (step_back(s, t))
        s->options.done(s->options.owner);
}

static void range_done(struct turn *t)
{
    step_done(container_of(t, struct range, turn)->of, t);
}

static void beside_done(struct turn *t)
{
    step_done(container_of(t, struct slices, beside), t);
}
