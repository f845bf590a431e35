/* model.c: a batch through the layers, forward and back.
 *
 * Without batch norm a range of examples goes through all layers and back before the next one begins, so that its
 * activations never leave the core's cache. With batch norm all ranges go up to the next norm layer, whose sums are
 * then settled, and so on:
 *
 *     ranges: layers .. up to norm, norm gathers    -> norm settles -> ranges: norm, layers .. up to the next norm, it
 * gathers -> ...
 *
 * and the same on the way back. Prediction needs no sums: ranges go straight through. */
#include "dense/fc.h"
#include "dense/loss.h"
#include "dense/plan.h"
#include "proto/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Enough rows that a matrix product runs at its full rate (measured: README.md), few enough for the cache. */
#define MODEL_RANGE 512u
#define MODEL_ALIGN 64u
#define MODEL_HUGE ((size_t)2 << 20)

struct model {
    struct plan plan;
    const struct backend_ops *k; /* borrowed */
    double l2, l2_dense;
    uint64_t *key[MODEL_TABLES_MAX]; /* owned; of the two dense tables */
    uint32_t *block[MODEL_TABLES_MAX];
};

struct model_run {
    uint32_t max_examples;
    void *arena; /* owned; all tensors */
    float *data[PLAN_TENSORS_MAX];
};

int model_new(const struct job *job, const struct model_shape *shape, struct backend *backend, struct model **out,
              struct err *e)
{
    struct model *m = calloc(1, sizeof *m);
    *out = NULL;
    if (!m)
        return err_set(e, SHOAL_E_NOMEM, "model of job %s: out of memory", job->name);
    int code = plan_build(job, shape, &m->plan, e);
    if (code == 0) {
        code = block_keys(&m->plan.dense, &m->key[MODEL_DENSE_TABLE], &m->block[MODEL_DENSE_TABLE]);
        if (code == 0)
            code = block_keys(&m->plan.stats, &m->key[MODEL_STATS_TABLE], &m->block[MODEL_STATS_TABLE]);
        if (code != 0)
            err_set(e, code, "model of job %s: out of memory", job->name);
    }
    if (code != 0) {
        model_free(m);
        return code;
    }
    m->k = backend_ops_of(backend);
    m->l2 = m->plan.has_loss ? job->model.l2 : 0.0;
    m->l2_dense = job->model.l2_dense;
    *out = m;
    return 0;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    for (uint32_t t = 0; t < MODEL_TABLES_MAX; t++) {
        free(m->key[t]);
        free(m->block[t]);
    }
    free(m);
}

uint32_t model_row_width(const struct model *m)
{
    return m->plan.dim + 1;
}

size_t model_dense_floats(const struct model *m)
{
    return m->plan.dense.floats;
}

size_t model_stats_floats(const struct model *m)
{
    return m->plan.stats.floats;
}

void model_blocks(const struct model *m, uint32_t table, const uint64_t **keys, const uint32_t **block, size_t *count)
{
    SHOAL_ASSERT(table == MODEL_DENSE_TABLE || table == MODEL_STATS_TABLE);
    *keys = m->key[table];
    *block = m->block[table];
    *count = (table == MODEL_DENSE_TABLE ? m->plan.dense.floats : m->plan.stats.floats) / BLOCK_FLOATS;
}

static size_t tensor_floats(const struct tensor *t, uint32_t max_examples)
{
    uint32_t range = max_examples < MODEL_RANGE ? max_examples : MODEL_RANGE;
    size_t floats = t->state ? t->width : (size_t)t->width * (t->whole ? max_examples : range);
    return (floats + MODEL_ALIGN / sizeof(float) - 1) / (MODEL_ALIGN / sizeof(float)) * (MODEL_ALIGN / sizeof(float));
}

int model_run_new(const struct model *m, uint32_t max_examples, uint32_t cache_rows, struct model_run **out, struct err *e)
{
    (void)cache_rows;
    const struct plan *plan = &m->plan;
    struct model_run *r = calloc(1, sizeof *r);
    size_t bytes = 0;

    *out = NULL;
    if (max_examples == 0)
        max_examples = 1;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        bytes += tensor_floats(&plan->tensor[t], max_examples) * sizeof(float);
    bytes = (bytes + MODEL_HUGE - 1) / MODEL_HUGE * MODEL_HUGE;
    if (r)
        r->arena = aligned_alloc(MODEL_HUGE, bytes);
    if (!r || !r->arena) {
        free(r);
        return err_set(e, SHOAL_E_NOMEM,
                       "model of %u examples a batch: no memory for %zu bytes; make train.batch smaller", max_examples,
                       bytes);
    }
    madvise(r->arena, bytes, MADV_HUGEPAGE); /* a wish: without huge pages it is only slower */
    memset(r->arena, 0, bytes);
    r->max_examples = max_examples;
    float *at = r->arena;
    for (uint32_t t = 0; t < plan->tensor_count; t++) {
        r->data[t] = at;
        at += tensor_floats(&plan->tensor[t], max_examples);
    }
    *out = r;
    return 0;
}

void model_run_free(struct model_run *r)
{
    if (!r)
        return;
    free(r->arena);
    free(r);
}

static void pass_begin(struct pass *p, const struct model *m, struct model_run *r, const struct model_input *in,
                       struct model_output *out)
{
    SHOAL_ASSERT(in->examples <= r->max_examples);
    r->data[TENSOR_NUMERIC] = (float *)in->numeric;
    *p = (struct pass){.k = m->k,
                       .shape = &m->plan.shape,
                       .in = in,
                       .out = out,
                       .tensor = m->plan.tensor,
                       .data = r->data,
                       .dim = m->plan.dim};
    out->loss_sum = 0.0;
}

static uint32_t range_count(const struct pass *p, uint32_t first)
{
    uint32_t left = p->in->examples - first;
    return left < MODEL_RANGE ? left : MODEL_RANGE;
}

/* Layers [from, to) over a range. */
static void range_forward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to, uint32_t first,
                          uint32_t count)
{
    for (uint32_t i = from; i < to; i++)
        plan->layer[i].ops->forward(&plan->layer[i], p, first, count);
}

static void range_backward(const struct plan *plan, struct pass *p, uint32_t from, uint32_t to, uint32_t first,
                           uint32_t count)
{
    for (uint32_t i = to; i-- > from;)
        plan->layer[i].ops->backward(&plan->layer[i], p, first, count);
}

static void range_loss(const struct plan *plan, struct pass *p, uint32_t first, uint32_t count)
{
    double ignored = 0.0;
    loss_logistic(count, pass_at(p, TENSOR_LOGIT, first, 1), p->in->label + first, 1.0 / p->in->examples,
                  plan->has_loss ? &p->out->loss_sum : &ignored, p->out->scores ? p->out->scores + first : NULL,
                  p->train ? pass_at(p, TENSOR_LOGIT_GRADIENT, first, 1) : NULL);
}

static void train_by_range(const struct plan *plan, struct pass *p)
{
    for (uint32_t first = 0; first < p->in->examples; first += MODEL_RANGE) {
        uint32_t count = range_count(p, first);
        p->base = first;
        range_forward(plan, p, 0, plan->layer_count, first, count);
        range_loss(plan, p, first, count);
        range_backward(plan, p, 0, plan->layer_count, first, count);
    }
}

/* Up to the layer that must see the whole batch first; then on from it. */
static void batch_forward(const struct plan *plan, struct pass *p)
{
    for (uint32_t from = 0, stop; from < plan->layer_count; from = stop) {
        for (stop = from + 1; stop < plan->layer_count && !plan->layer[stop].ops->forward_gather; stop++)
            ;
        const struct layer *gatherer = stop < plan->layer_count ? &plan->layer[stop] : NULL;
        for (uint32_t first = 0; first < p->in->examples; first += MODEL_RANGE) {
            uint32_t count = range_count(p, first);
            range_forward(plan, p, from, stop, first, count);
            if (gatherer)
                gatherer->ops->forward_gather(gatherer, p, first, count);
            else
                range_loss(plan, p, first, count);
        }
        if (gatherer)
            gatherer->ops->forward_settle(gatherer, p);
    }
}

static void batch_backward(const struct plan *plan, struct pass *p)
{
    /* Layers [to, ...) are done. Layer to - 1, after the first round, has gathered and settled. */
    for (uint32_t to = plan->layer_count, settled = to; to > 0;) {
        uint32_t from = settled; /* one above the next layer that gathers, or 0 */
        while (from > 0 && !plan->layer[from - 1].ops->backward_gather)
            from--;
        const struct layer *gatherer = from > 0 ? &plan->layer[from - 1] : NULL;
        for (uint32_t first = 0; first < p->in->examples; first += MODEL_RANGE) {
            uint32_t count = range_count(p, first);
            range_backward(plan, p, from, to, first, count);
            if (gatherer)
                gatherer->ops->backward_gather(gatherer, p, first, count);
        }
        if (gatherer)
            gatherer->ops->backward_settle(gatherer, p);
        to = from;
        settled = from > 0 ? from - 1 : 0;
    }
}

/* Gradients begin with what L2 gives: l2 * weight for each pulled row, l2_dense * weight for the network's matrices. */
static void gradients_begin(const struct model *m, const struct model_input *in, struct model_output *out)
{
    const struct plan *plan = &m->plan;
    bool empty = in->examples == 0;

    m->k->scale((size_t)in->row_count * (plan->dim + 1), empty ? 0.0f : (float)m->l2, in->rows, out->row_gradients);
    if (plan->dense.floats > 0)
        memset(out->dense_gradients, 0, plan->dense.floats * sizeof(float));
    if (plan->stats.floats > 0)
        memset(out->stats_gradients, 0, plan->stats.floats * sizeof(float));
    for (uint32_t i = 0; i < plan->layer_count && m->l2_dense > 0 && !empty; i++) {
        const struct layer *l = &plan->layer[i];
        if (l->ops == &fc_layer || l->ops == &head_layer)
            m->k->scale((size_t)l->in * l->out, (float)m->l2_dense, in->dense + l->weight,
                        out->dense_gradients + l->weight);
    }
}

int model_train(const struct model *m, struct model_run *r, const struct model_input *in, uint64_t seed, uint32_t lane,
                uint64_t batch, struct model_output *out)
{
    struct pass p;
    pass_begin(&p, m, r, in, out);
    p.train = true;
    p.seed = seed;
    p.lane = lane;
    p.batch = batch;
    gradients_begin(m, in, out);
    if (in->examples == 0)
        return 0;
    if (m->plan.by_batch) {
        batch_forward(&m->plan, &p);
        batch_backward(&m->plan, &p);
    } else {
        train_by_range(&m->plan, &p);
    }
    return isfinite(out->loss_sum) ? 0 : SHOAL_E_NOT_FINITE;
}

int model_predict(const struct model *m, struct model_run *r, const struct model_input *in, struct model_output *out)
{
    const struct plan *plan = &m->plan;
    struct pass p;
    pass_begin(&p, m, r, in, out);
    for (uint32_t i = 0; i < plan->layer_count; i++)
        if (plan->layer[i].ops->forward_settle)
            plan->layer[i].ops->forward_settle(&plan->layer[i], &p);
    for (uint32_t first = 0; first < in->examples; first += MODEL_RANGE) {
        uint32_t count = range_count(&p, first);
        p.base = first;
        range_forward(plan, &p, 0, plan->layer_count, first, count);
        range_loss(plan, &p, first, count);
    }
    return isfinite(out->loss_sum) ? 0 : SHOAL_E_NOT_FINITE;
}

const char *model_run_error(const struct model_run *r)
{
    (void)r;
    return "";
}
