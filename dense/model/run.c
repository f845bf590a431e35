/* run.c: one batch: gradients are initialized, the layers run, and the gradients are scaled,
 * measured and clipped. */
#include "dense/model/run.h"
#include "dense/layer/pass.h"

#include "proto/base/assert.h"

#include <math.h>
#include <string.h>

#define NORM_EVERY 16u /* gradients are measured every 16th batch where no setting needs it */

/* Dynamic loss scaling as in Micikevicius et al. 2018: the scale is halved when a gradient
 * overflows, and doubled after SCALE_STEPS steps without an overflow. */
#define SCALE_MAX 16777216.0
#define SCALE_STEPS 1000u

/* a device's batches are filled up to at most so many sizes, beside the largest batch */
#define RUN_FILLED_SIZES 32u

static double weights_sum(const struct model_input *in)
{
    double sum = 0.0;
    for (uint32_t i = 0; i < in->examples && in->weight != NULL; i++)
        sum += (double)in->weight[i];
    if (in->weight == NULL)
        return (double)in->examples;
    return sum;
}

/* Sums the weights of the examples that have each label. */
static void weights_by_task(const struct model_input *in, uint32_t tasks, double weight_sum,
                            double sum[LIMIT_TASKS])
{
    uint32_t missing[LIMIT_TASKS] = {0};
    double there[LIMIT_TASKS] = {0};
    for (uint32_t i = 0; i < in->examples && tasks > 1; i++)
        for (uint32_t t = 0; t < tasks; t++) {
            bool none = isnan(in->label[(size_t)i * tasks + t]);
            double weight = in->weight != NULL ? (double)in->weight[i] : 1.0;
            missing[t] += none;
            there[t] += none ? 0.0 : weight;
        }
    for (uint32_t t = 0; t < tasks; t++)
        sum[t] = missing[t] > 0 ? there[t] : weight_sum;
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
static void step_upload(struct model_run *r, const struct model_input *in, uint64_t seed,
                        uint32_t lane, uint64_t batch)
{
    const struct model *m = r->model;
    struct step *s = r->step_host;
    for (uint32_t t = 0; t < m->plan.tasks; t++)
        s->factor[t] = r->weight_task[t] > 0
                           ? (float)(r->scale * m->task_weight[t] / r->weight_task[t])
                           : 0.0f;
    s->examples = in->examples;
    s->unscale = (float)(1.0 / r->scale);
    s->balance = (float)(r->scale * m->balance);
    for (uint32_t i = 0; i < m->plan.layer_count; i++)
        if (m->plan.layer[i].dropout > 0)
            layer_dropout_key(seed, lane, batch, m->plan.layer[i].draw, s->key[i]);
    if (m->plan.mixed)
        step_tables(&m->plan, in, s);
    for (uint32_t i = 0; i < m->plan.sites; i++)
        m->k->upload(r->site[i].stream, r->site[i].step, s, sizeof *s);
}

/* Batches are filled up to a multiple of this, or to the largest batch: a multiple of the granule,
 * large enough that there are at most RUN_FILLED_SIZES sizes. 0: they are not. */
static uint32_t run_grain(const struct model_run *r)
{
    uint32_t granule = r->model->k->granule,
             step = (r->max_examples + RUN_FILLED_SIZES - 1) / RUN_FILLED_SIZES;
    if (granule == 0 || r->model->plan.sites > 1)
        return 0;
    return (step + granule - 1) / granule * granule;
}

static void pass_begin(struct pass *p, struct model_run *r, const struct model_input *in,
                       struct model_output *out, uint32_t values)
{
    const struct model *m = r->model;
    uint32_t grain = run_grain(r);
    r->data[TENSOR_NUMERIC] = (float *)in->numeric;
    *p = (struct pass){.k = m->k,
                       .s = run_stream(r),
                       .shape = &m->plan.shape,
                       .in = in,
                       .out = out,
                       .step = r->site[0].step,
                       .loss = r->site[0].result->loss,
                       .load = r->site[0].result->load,
                       .pooling = r->pooling,
                       .field_table = r->field_table,
                       .column = r->column,
                       .tables = m->plan.tables,
                       .vectors = m->plan.column[m->plan.shape.fields],
                       .grain = grain,
                       .filled = pass_filled(in->examples, grain, r->max_examples),
                       .live = m->k->granule > 0 ? &r->site[0].step->examples : NULL,
                       .tensor = m->plan.tensor,
                       .data = r->data,
                       .dim = m->plan.dim,
                       .first_order = m->plan.first_order,
                       .tasks = m->plan.tasks,
                       .values = values};
    if (m->plan.packs && !m->k->host)
        p->chosen = r->result_host->load;
}

/* Initializes the network's gradients with those of L2: l2_dense * weight for its matrices. */
static void dense_begin(struct model_run *r, const struct model_input *in, struct model_output *out)
{
    const struct model *m = r->model;
    const struct plan *plan = &m->plan;
    struct stream *s = run_stream(r);
    if (plan->dense.floats > 0)
        m->k->zero(s, out->dense_gradients, plan->dense.floats * sizeof(float));
    if (plan->stats.floats > 0)
        m->k->zero(s, out->stats_gradients, plan->stats.floats * sizeof(float));
    for (uint32_t t = 0; t < plan->dense.tensor_count && m->l2_dense > 0 && in->examples > 0; t++)
        if (plan->dense.tensor[t].decay)
            m->k->scale(s, plan->dense.tensor[t].count, (float)(m->l2_dense * r->scale),
                        in->dense + plan->dense.tensor[t].first,
                        out->dense_gradients + plan->dense.tensor[t].first);
}

/* Initializes the gradients with those of L2: l2 * weight for each pulled row. */
static void gradients_begin(struct model_run *r, const struct model_input *in,
                            struct model_output *out)
{
    const struct model *m = r->model;
    bool empty = in->examples == 0;
    float l2 = 0.0f;
    if (!empty)
        l2 = (float)(m->l2 * r->scale);
    m->k->scale(run_stream(r), run_row_floats(m, in), l2, in->rows, out->row_gradients);
    if (m->plan.sites > 1)
        run_sites_gradients_begin(r, empty);
    else
        dense_begin(r, in, out);
}

/* Clips the gradient of each row by its own norm. */
static void rows_clip(struct model_run *r, const struct model_input *in, float *gradients)
{
    const struct model *m = r->model;
    float limit = (float)m->clip_row;
    if (!m->plan.mixed)
        m->k->clip_rows(run_stream(r), in->row_count, model_row_width(m), limit, gradients);
    for (uint32_t t = 0; t < m->plan.tables && m->plan.mixed; t++) {
        uint32_t width = table_width(&m->plan, t);
        m->k->clip_rows(run_stream(r), in->table_rows[t], width, limit, gradients);
        gradients += (size_t)in->table_rows[t] * width;
    }
}

/* As gradients_end, for the network of one site. */
static void dense_end(struct model_run *r, struct model_output *out, bool measured)
{
    const struct model *m = r->model;
    size_t dense = m->plan.dense.floats;
    struct run_site *site = &r->site[0];
    if (m->scaled)
        m->k->scale_by(site->stream, dense, &site->step->unscale, out->dense_gradients);
    if (measured)
        m->k->square_sum(site->stream, dense, out->dense_gradients, &site->result->dense_square);
    if (m->clip_dense > 0)
        m->k->clip(site->stream, dense, m->clip_dense, &site->result->dense_square,
                   out->dense_gradients);
}

/* Divides the gradients by the loss scale, measures and clips them. */
static void gradients_end(struct model_run *r, const struct model_input *in,
                          struct model_output *out, uint64_t batch)
{
    const struct model *m = r->model;
    size_t rows = run_row_floats(m, in);
    struct run_site *site = &r->site[0];
    bool measured = m->scaled || m->clip_dense > 0 || batch % NORM_EVERY == 0;
    if (m->scaled)
        m->k->scale_by(site->stream, rows, &site->step->unscale, out->row_gradients);
    if (measured)
        m->k->square_sum(site->stream, rows, out->row_gradients, &site->result->row_square);
    if (m->plan.sites > 1)
        run_sites_gradients_end(r, measured);
    else
        dense_end(r, out, measured);
    if (m->clip_row > 0)
        rows_clip(r, in, out->row_gradients);
}

/* Waits for the pass and gives losses and norms to the caller. NOT_FINITE: the loss; else the
 * device's error. */
static int result_take(struct model_run *r, struct model_output *out)
{
    const struct model *m = r->model;
    int rc = run_finish(r, &r->error);
    if (rc != 0)
        return rc;
    for (uint32_t t = 0; t < m->plan.tasks && m->plan.has_loss; t++) {
        double loss = r->result_host->loss[t];
        out->loss_task[t] = loss;
        out->weight_task[t] = r->weight_task[t];
        if (r->weight_task[t] > 0 && r->weight_task[t] < out->weight_sum)
            loss *= out->weight_sum / r->weight_task[t];
        out->loss_sum += m->task_weight[t] * loss;
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

/* The examples that go through the layers together: a micro-batch of a plan with several sites. */
static uint32_t range_of(const struct model_run *r, uint32_t examples)
{
    uint32_t micro = r->model->micro_batches;
    if (r->model->plan.sites == 1)
        return r->range;
    return (examples + micro - 1) / micro;
}

/* Adds up how long the sites were at work and how long they waited. */
static void waited_take(struct model_run *r, struct model_output *out)
{
    for (uint32_t i = 0; i < r->model->plan.sites; i++) {
        double waited, of;
        r->model->k->waited(r->site[i].stream, &waited, &of);
        out->site_waited += waited;
        out->site_time += of;
    }
}

/* The input goes to the device, and the output begins empty. */
static int step_begin(const struct model *m, struct model_run *r, const struct model_input *in,
                      bool train, struct model_input *device, struct model_output *out,
                      struct model_output *device_out)
{
    SHOAL_ASSERT(in->examples <= r->max_examples && r->model == m);
    out->loss_sum = 0.0;
    out->weight_sum = weights_sum(in);
    weights_by_task(in, m->plan.tasks, out->weight_sum, r->weight_task);
    memset(out->loss_task, 0, sizeof out->loss_task);
    memset(out->weight_task, 0, sizeof out->weight_task);
    memset(out->load, 0, m->plan.loads * sizeof out->load[0]);
    out->dense_norm = out->row_norm = out->site_time = out->site_waited = 0.0;
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
    pass_begin(&p, r, &device, &device_out, run_values(m, in));
    if (m->plan.sites > 1)
        run_sites_begin(r, in, &device, &device_out, &p);
    gradients_begin(r, &device, &device_out);
    for (uint32_t i = 0; i < m->plan.sites; i++)
        m->k->zero(r->site[i].stream, r->site[i].result, sizeof *r->site[i].result);
    if (in->examples > 0) {
        step_upload(r, in, seed, lane, batch);
        p.train = true;
        p.watched = m->plan.sites > 1 && m->k->watch != NULL && batch % NORM_EVERY == 0;
        struct pool_args all = layer_pool_args(&p, 0, in->examples);
        m->k->pool_begin(run_stream(r), &all, true);
        pass_train(&m->plan, &p, range_of(r, in->examples));
        gradients_end(r, &device, &device_out, batch);
    }
    run_download(r, in, true, &device_out, out);
    rc = result_take(r, out);
    if (rc != 0)
        return rc;
    if (p.watched)
        waited_take(r, out);
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
    m->k->zero(run_stream(r), r->site[0].result, sizeof *r->site[0].result);
    step_upload(r, in, 0, 0, 0);
    pass_begin(&p, r, &device, &device_out, run_values(m, in));
    if (m->plan.sites > 1)
        run_sites_begin(r, in, &device, &device_out, &p);
    struct pool_args all = layer_pool_args(&p, 0, in->examples);
    m->k->pool_begin(run_stream(r), &all, false);
    float offset = 0.0f;
    if (m->negatives < 1.0)
        offset = (float)log(m->negatives);
    pass_predict(&m->plan, &p, range_of(r, in->examples), offset);
    run_download(r, in, false, &device_out, out);
    return result_take(r, out);
}
