/* run.c: one batch: gradients are initialized, the layers run, and the gradients are scaled,
 * measured and clipped. */
#include "dense/model/run.h"
#include "dense/layer/pass.h"

#include "proto/base/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RUN_ALIGN 64u
#define RUN_RANGE_BYTES ((size_t)16 << 20)
#define RUN_RANGE_LEAST 64u
#define NORM_EVERY 16u /* gradients are measured every 16th batch where no setting needs it */

/* Dynamic loss scaling as in Micikevicius et al. 2018: the scale is halved when a gradient
 * overflows, and doubled after SCALE_STEPS steps without an overflow. */
#define SCALE_BEGIN 65536.0
#define SCALE_MAX 16777216.0
#define SCALE_STEPS 1000u

/* a device's batches are filled up to at most so many sizes, beside the largest batch */
#define RUN_FILLED_SIZES 32u

/* ---- life ------------------------------------------------------------------------------------ */

static size_t tensor_floats(const struct model_run *r, const struct tensor *t)
{
    const size_t align = RUN_ALIGN / sizeof(float);
    size_t floats;
    if (t->state)
        floats = t->width;
    else if (t->whole)
        floats = (size_t)t->ld * r->max_examples;
    else
        floats = (size_t)t->ld * r->range;

    if (r->model->k->exact)
        return floats;
    return (floats + align - 1) / align * align;
}

/* Allocates and zeroes all tensors but the numerics, which lie in the caller's input. */
static bool tensors_allocate(struct model_run *r)
{
    const struct plan *plan = &r->model->plan;
    const struct backend_ops *k = r->model->k;
    bool made = true;
    for (uint32_t t = 0; t < plan->tensor_count; t++)
        if (t != TENSOR_NUMERIC)
            r->arena_bytes += tensor_floats(r, &plan->tensor[t]) * sizeof(float);

    float *at = NULL;
    if (!k->exact)
        at = k->alloc(r->stream, r->arena_bytes + RUN_ALIGN);
    r->arena = at;
    if (at != NULL)
        k->zero(r->stream, at, r->arena_bytes);

    for (uint32_t t = 0; t < plan->tensor_count && (at != NULL || k->exact); t++) {
        if (t == TENSOR_NUMERIC)
            continue;
        size_t floats = tensor_floats(r, &plan->tensor[t]);
        r->data[t] = at != NULL ? at : k->alloc(r->stream, floats * sizeof(float));
        made = made && r->data[t] != NULL;
        if (at != NULL)
            at += floats;
        else if (r->data[t] != NULL)
            k->zero(r->stream, r->data[t], floats * sizeof(float));
    }
    SHOAL_ASSERT(r->arena == NULL || at == (float *)r->arena + r->arena_bytes / sizeof *at);
    return made && (r->arena != NULL || k->exact);
}

/* Uploads the table and the column of each field, which the kernels read where tables have several
 * dims. */
static bool fields_upload(struct model_run *r)
{
    const struct plan *plan = &r->model->plan;
    const struct backend_ops *k = r->model->k;
    r->field_table = k->alloc(r->stream, sizeof plan->shape.table);
    r->column = k->alloc(r->stream, sizeof plan->column);
    if (r->field_table == NULL || r->column == NULL)
        return false;
    k->upload(r->stream, r->field_table, plan->shape.table, sizeof plan->shape.table);
    k->upload(r->stream, r->column, plan->column, sizeof plan->column);
    return true;
}

static bool run_allocate(struct model_run *r)
{
    const struct backend_ops *k = r->model->k;
    const struct plan *plan = &r->model->plan;
    bool made = tensors_allocate(r);
    r->step = k->alloc(r->stream, sizeof *r->step);
    r->result = k->alloc(r->stream, sizeof *r->result);
    r->pooling = k->alloc(r->stream, LIMIT_FIELDS);
    bool fields = !plan->mixed || fields_upload(r);
    r->step_host = k->host_alloc(sizeof *r->step_host);
    r->result_host = k->host_alloc(sizeof *r->result_host);
    if (!made || !fields || r->step == NULL || r->result == NULL || r->pooling == NULL ||
        r->step_host == NULL || r->result_host == NULL)
        return false;
    k->upload(r->stream, r->pooling, plan->shape.pooling, sizeof plan->shape.pooling);
    memset(r->step_host, 0, sizeof *r->step_host);
    return true;
}

/* The number of examples that go through the layers together: the backend's range, halved until the
 * activations that the way back reads again fit the cache. */
static uint32_t run_range(const struct model *m, uint32_t max_examples)
{
    uint32_t range = m->k->range;
    if (range == 0 || range > max_examples)
        range = max_examples;

    size_t bytes = 0;
    for (uint32_t t = 0; t < m->plan.tensor_count; t++)
        if (!m->plan.tensor[t].whole)
            bytes += m->plan.tensor[t].ld * sizeof(float);
    while (m->k->range > 0 && range > RUN_RANGE_LEAST && range * bytes > RUN_RANGE_BYTES)
        range /= 2;
    SHOAL_ASSERT(range > 0 || max_examples == 0); /* pass.c advances by it */
    return range;
}

/* The error of a run for which there is no memory. */
static int run_shortage(const struct model_run *r, struct err *e)
{
    return err_set(e, SHOAL_E_NOMEM,
                   "a lane's run of %u examples a batch: no memory for %zu bytes of tensors; "
                   "make train.batch or train.lanes smaller",
                   r->max_examples, r->arena_bytes);
}

int model_run_new(const struct model *m, uint32_t max_examples, struct model_run **out,
                  struct err *e)
{
    struct model_run *r = calloc(1, sizeof *r);
    *out = NULL;
    if (r == NULL)
        return err_set(e, SHOAL_E_NOMEM, "a run of the model: out of memory");
    r->model = m;
    r->max_examples = max_examples;
    r->range = run_range(m, max_examples);
    r->scale = m->scaled ? SCALE_BEGIN : 1.0;
    int rc = m->k->stream_new(&m->stream, &r->stream, e);
    bool room = rc == 0 && run_allocate(r);
    if (rc == 0)
        /* a lost device gives no memory either; its error is the one to report */
        rc = m->k->stream_finish(r->stream, e);
    if (rc == 0 && !room)
        rc = run_shortage(r, e);
    if (rc != 0) {
        model_run_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void model_run_free(struct model_run *r)
{
    if (r == NULL)
        return;
    const struct backend_ops *k = r->model->k;
    if (r->stream != NULL) {
        void *owned[] = {r->arena, r->step, r->result, r->pooling, r->field_table, r->column};
        for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++)
            if (owned[i] != NULL)
                k->release(r->stream, owned[i]);
        for (uint32_t t = 0; t < r->model->plan.tensor_count && k->exact; t++)
            if (t != TENSOR_NUMERIC && r->data[t] != NULL)
                k->release(r->stream, r->data[t]);
        for (uint32_t i = 0; i < RUN_ARRAYS; i++)
            if (r->array[i].at != NULL)
                k->release(r->stream, r->array[i].at);
        k->stream_free(r->stream);
    }
    k->host_free(r->step_host);
    k->host_free(r->result_host);
    free(r);
}

const char *model_run_error(const struct model_run *r)
{
    return r->error.text;
}

/* ---- a batch --------------------------------------------------------------------------------- */

static double weights_sum(const struct model_input *in)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < in->examples && in->weight != NULL; i++)
        sum += (double)in->weight[i];
    if (in->weight == NULL)
        return (double)in->examples;
    return sum;
}

static uint32_t table_width(const struct plan *plan, uint32_t table)
{
    return plan->first_order + plan->table_dim[table];
}

size_t run_row_floats(const struct model *m, const struct model_input *in)
{
    size_t floats = 0;
    if (!m->plan.mixed)
        return (size_t)in->row_count * model_row_width(m);
    for (uint32_t t = 0; t < m->plan.tables; t++)
        floats += (size_t)in->table_rows[t] * table_width(&m->plan, t);
    return floats;
}

/* Sets where each table's rows lie in the batch's array of rows. */
static void step_tables(const struct plan *plan, const struct model_input *in, struct step *s)
{
    uint32_t first = 0;
    uint64_t at = 0;
    for (uint32_t t = 0; t < plan->tables; t++) {
        uint64_t width = table_width(plan, t);
        s->table[t] = (struct pool_table){at - first * width, first, plan->table_dim[t]};
        first += in->table_rows[t];
        at += in->table_rows[t] * width;
    }
    SHOAL_ASSERT(first == in->row_count);
}

/* Fills and uploads the step: loss factors, dropout keys, and where rows of several dims lie. */
static void step_upload(struct model_run *r, const struct model_input *in, double weight_sum,
                        uint64_t seed, uint32_t lane, uint64_t batch)
{
    const struct model *m = r->model;
    struct step *s = r->step_host;
    for (uint32_t t = 0; t < m->plan.tasks; t++)
        s->factor[t] = weight_sum > 0 ? (float)(r->scale * m->task_weight[t] / weight_sum) : 0.0f;
    s->examples = in->examples;
    s->unscale = (float)(1.0 / r->scale);
    s->balance = (float)(r->scale * m->balance);
    for (uint32_t i = 0; i < m->plan.layer_count; i++)
        if (m->plan.layer[i].dropout > 0)
            layer_dropout_key(seed, lane, batch, i, s->key[i]);
    if (m->plan.mixed)
        step_tables(&m->plan, in, s);
    m->k->upload(r->stream, r->step, s, sizeof *s);
}

/* The size to which a batch is filled up: a multiple of a step, or the largest batch. The step is a
 * multiple of the granule, and large enough that there are at most RUN_FILLED_SIZES sizes. */
static uint32_t run_filled(const struct model_run *r, uint32_t examples)
{
    uint32_t granule = r->model->k->granule,
             step = (r->max_examples + RUN_FILLED_SIZES - 1) / RUN_FILLED_SIZES;
    if (granule == 0 || examples == 0)
        return examples;
    step = (step + granule - 1) / granule * granule;
    uint64_t filled = ((uint64_t)examples + step - 1) / step * step;
    SHOAL_ASSERT(filled >= examples && examples <= r->max_examples);
    if (filled > r->max_examples)
        return r->max_examples;
    return (uint32_t)filled;
}

static void pass_begin(struct pass *p, struct model_run *r, const struct model_input *in,
                       struct model_output *out, uint32_t values)
{
    const struct model *m = r->model;
    r->data[TENSOR_NUMERIC] = (float *)in->numeric;
    *p = (struct pass){.k = m->k,
                       .s = r->stream,
                       .shape = &m->plan.shape,
                       .in = in,
                       .out = out,
                       .step = r->step,
                       .loss = r->result->loss,
                       .load = r->result->load,
                       .pooling = r->pooling,
                       .field_table = r->field_table,
                       .column = r->column,
                       .tables = m->plan.tables,
                       .vectors = m->plan.column[m->plan.shape.fields],
                       .filled = run_filled(r, in->examples),
                       .live = m->k->granule > 0 ? &r->step->examples : NULL,
                       .tensor = m->plan.tensor,
                       .data = r->data,
                       .dim = m->plan.dim,
                       .first_order = m->plan.first_order,
                       .tasks = m->plan.tasks,
                       .values = values};
}

/* Initializes the gradients with those of L2: l2 * weight for each pulled row, l2_dense * weight
 * for the network's matrices. */
static void gradients_begin(struct model_run *r, const struct model_input *in,
                            struct model_output *out)
{
    const struct model *m = r->model;
    const struct plan *plan = &m->plan;
    bool empty = in->examples == 0;
    size_t rows = run_row_floats(m, in);
    float l2 = 0.0f;
    if (!empty)
        l2 = (float)(m->l2 * r->scale);

    m->k->scale(r->stream, rows, l2, in->rows, out->row_gradients);
    if (plan->dense.floats > 0)
        m->k->zero(r->stream, out->dense_gradients, plan->dense.floats * sizeof(float));
    if (plan->stats.floats > 0)
        m->k->zero(r->stream, out->stats_gradients, plan->stats.floats * sizeof(float));
    for (uint32_t t = 0; t < plan->dense.tensor_count && m->l2_dense > 0 && !empty; t++)
        if (plan->dense.tensor[t].decay)
            m->k->scale(r->stream, plan->dense.tensor[t].count, (float)(m->l2_dense * r->scale),
                        in->dense + plan->dense.tensor[t].first,
                        out->dense_gradients + plan->dense.tensor[t].first);
}

/* Clips the gradient of each row by its own norm. */
static void rows_clip(struct model_run *r, const struct model_input *in, float *gradients)
{
    const struct model *m = r->model;
    float limit = (float)m->clip_row;
    if (!m->plan.mixed)
        m->k->clip_rows(r->stream, in->row_count, model_row_width(m), limit, gradients);
    for (uint32_t t = 0; t < m->plan.tables && m->plan.mixed; t++) {
        uint32_t width = table_width(&m->plan, t);
        m->k->clip_rows(r->stream, in->table_rows[t], width, limit, gradients);
        gradients += (size_t)in->table_rows[t] * width;
    }
}

/* Divides the gradients by the loss scale, measures and clips them. */
static void gradients_end(struct model_run *r, const struct model_input *in,
                          struct model_output *out, uint64_t batch)
{
    const struct model *m = r->model;
    size_t rows = run_row_floats(m, in), dense = m->plan.dense.floats;
    const struct backend_ops *k = m->k;
    if (m->scaled) {
        k->scale_by(r->stream, rows, &r->step->unscale, out->row_gradients);
        k->scale_by(r->stream, dense, &r->step->unscale, out->dense_gradients);
    }
    if (m->scaled || m->clip_dense > 0 || batch % NORM_EVERY == 0) {
        k->square_sum(r->stream, rows, out->row_gradients, &r->result->row_square);
        k->square_sum(r->stream, dense, out->dense_gradients, &r->result->dense_square);
    }
    if (m->clip_dense > 0)
        k->clip(r->stream, dense, m->clip_dense, &r->result->dense_square, out->dense_gradients);
    if (m->clip_row > 0)
        rows_clip(r, in, out->row_gradients);
}

/* Waits for the pass and gives losses and norms to the caller. NOT_FINITE: the loss; else the
 * device's error. */
static int result_take(struct model_run *r, struct model_output *out)
{
    const struct model *m = r->model;
    int rc = m->k->stream_finish(r->stream, &r->error);
    if (rc != 0)
        return rc;
    for (uint32_t t = 0; t < m->plan.tasks && m->plan.has_loss; t++) {
        out->loss_task[t] = r->result_host->loss[t];
        out->loss_sum += m->task_weight[t] * out->loss_task[t];
    }
    memcpy(out->load, r->result_host->load, m->plan.loads * sizeof out->load[0]);
    out->dense_norm = sqrt(r->result_host->dense_square);
    out->row_norm = sqrt(r->result_host->row_square);
    if (!isfinite(out->loss_sum))
        return SHOAL_E_NOT_FINITE;
    return 0;
}

/* Adjusts the loss scale, and marks the step as skipped where a gradient overflowed. NOT_FINITE: it
 * overflowed at a scale of 1, which cannot be lowered. */
static int scale_settle(struct model_run *r, struct model_output *out)
{
    SHOAL_ASSERT(r->scale >= 1.0 && (r->model->scaled ? r->scale <= SCALE_MAX : r->scale == 1.0));
    if (!r->model->scaled)
        return 0;
    if (!isfinite(out->dense_norm) || !isfinite(out->row_norm)) {
        if (r->scale <= 1.0)
            return SHOAL_E_NOT_FINITE;
        out->skipped = true;
        r->scale /= 2.0;
        r->scale_steps = 0;
        return 0;
    }
    if (++r->scale_steps >= SCALE_STEPS && r->scale < SCALE_MAX) {
        r->scale *= 2.0;
        r->scale_steps = 0;
    }
    return 0;
}

/* The input goes to the device, and the output begins empty. */
static int step_begin(const struct model *m, struct model_run *r, const struct model_input *in,
                      bool train, struct model_input *device, struct model_output *out,
                      struct model_output *device_out)
{
    SHOAL_ASSERT(in->examples <= r->max_examples && r->model == m);
    out->loss_sum = 0.0;
    out->weight_sum = weights_sum(in);
    memset(out->loss_task, 0, sizeof out->loss_task);
    memset(out->load, 0, m->plan.loads * sizeof out->load[0]);
    out->dense_norm = out->row_norm = 0.0;
    out->skipped = false;
    return run_upload(r, in, train, device, out, device_out);
}

int model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out)
{
    struct model_input device;
    struct model_output device_out;
    struct pass p;
    int rc = step_begin(m, r, in, true, &device, out, &device_out);
    if (rc != 0)
        return rc;
    gradients_begin(r, &device, &device_out);
    m->k->zero(r->stream, r->result, sizeof *r->result);
    if (in->examples > 0) {
        step_upload(r, in, out->weight_sum, seed, lane, batch);
        pass_begin(&p, r, &device, &device_out, run_values(m, in));
        p.train = true;
        struct pool_args all = layer_pool_args(&p, 0, in->examples);
        m->k->pool_begin(r->stream, &all, true);
        pass_train(&m->plan, &p, r->range);
        gradients_end(r, &device, &device_out, batch);
    }
    run_download(r, in, true, &device_out, out);
    rc = result_take(r, out);
    if (rc != 0)
        return rc;
    return scale_settle(r, out);
}

int model_predict(const struct model *m, struct model_run *r, const struct model_input *in,
                  struct model_output *out)
{
    struct model_input device;
    struct model_output device_out;
    struct pass p;
    int rc = step_begin(m, r, in, false, &device, out, &device_out);
    if (rc != 0)
        return rc;
    m->k->zero(r->stream, r->result, sizeof *r->result);
    step_upload(r, in, out->weight_sum, 0, 0, 0);
    pass_begin(&p, r, &device, &device_out, run_values(m, in));
    struct pool_args all = layer_pool_args(&p, 0, in->examples);
    m->k->pool_begin(r->stream, &all, false);
    float offset = 0.0f;
    if (m->negatives < 1.0)
        offset = (float)log(m->negatives);
    pass_predict(&m->plan, &p, r->range, offset);
    run_download(r, in, false, &device_out, out);
    return result_take(r, out);
}
