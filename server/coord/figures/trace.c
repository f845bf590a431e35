/* trace.c: finished tasks as points of a curve and as scalars. */
#include "server/coord/figures/trace.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/output.h"
#include "server/coord/figures/progressive.h"
#include "server/coord/work/amount.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SCALARS_NS UINT64_C(2000000000)

uint32_t coord_trace_quantile(const uint64_t *histogram, uint32_t cells, double share)
{
    uint64_t sum = 0, seen = 0;
    SHOAL_ASSERT(share > 0 && share <= 1);
    for (uint32_t i = 0; i < cells; i++)
        sum += histogram[i];
    for (uint32_t i = 0; i < cells; i++) {
        seen += histogram[i];
        if (sum > 0 && (double)seen >= share * (double)sum && seen > 0)
            return i;
    }
    return 0;
}

/* The staleness, in clocks, below which this share of the pulls lies. */
static uint32_t quantile(const uint64_t *histogram, double share)
{
    return coord_trace_quantile(histogram, COORD_HISTOGRAM, share);
}

struct json *coord_trace_staleness_json(const struct coord_job *j)
{
    struct json *s = json_new_object();
    json_set_int(s, "p50", quantile(j->at.staleness, 0.5));
    json_set_int(s, "p99", quantile(j->at.staleness, 0.99));
    json_set_int(s, "max", quantile(j->at.staleness, 1.0));
    return s;
}

struct json *coord_trace_time_json(const struct wire_WORKER_BEAT *sum)
{
    struct json *t = json_new_object();
    json_set_number(t, "read", sum->read_s);
    json_set_number(t, "pull", sum->pull_s);
    json_set_number(t, "compute", sum->compute_s);
    json_set_number(t, "push", sum->push_s);
    json_set_number(t, "wait", sum->wait_s);
    if (sum->ring_wait_s > 0)
        json_set_number(t, "ring", sum->ring_wait_s);
    return t;
}

/* ---- scalars --------------------------------------------------------------------------------- */

enum { SCALARS_MAX = 6 * (1 + LIMIT_TASKS) };

struct scalars {
    struct coord_scalar of[SCALARS_MAX];
    uint32_t count;
};

/* A value that is not finite cannot be drawn and is left out. */
static void scalar_add(struct scalars *s, double value, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void scalar_add(struct scalars *s, double value, const char *format, ...)
{
    va_list arguments;
    if (!isfinite(value) || s->count == SCALARS_MAX)
        return;
    va_start(arguments, format);
    (void)vsnprintf(s->of[s->count].tag, sizeof s->of[0].tag, format, arguments);
    va_end(arguments);
    s->of[s->count++].value = value;
}

static void scalars_write(struct coord_job *j, const struct scalars *s, uint64_t step)
{
    char run[LIMIT_NAME + 24];
    SHOAL_ASSERT(s->count <= SCALARS_MAX);
    if (j->fleet->options.write_scalars == NULL || s->count == 0 || j->trace->failed)
        return;
    (void)snprintf(run, sizeof run, "%s-%" PRIu64, j->spec.name, j->at.number);
    coord_output_figures(j, run, step, s->of, s->count);
}

/* ---- training -------------------------------------------------------------------------------- */

/* The tail of an epoch says little of its rate: tasks end together, and a few of them within
 * milliseconds of the last scalars would look like a burst. A whole epoch that is shorter than the
 * interval is told. */
static bool rate_known(const struct coord_job *j, double elapsed)
{
    bool whole_epoch = j->trace->since_ns == j->epoch_ns && j->epoch_spent_ns == 0;
    return elapsed > 0 && (whole_epoch || elapsed >= SCALARS_NS * 1e-9 / 4);
}

static void trained_metric_add(struct scalars *s, const char *where, const struct metric *m)
{
    bool real = metric_is_real(m);
    scalar_add(s, real ? m->rmse : m->auc, "%s/%s", where, real ? "rmse" : "auc");
    scalar_add(s, m->calibration, "%s/calibration", where);
}

static void trained_add(struct coord_job *j, struct scalars *s)
{
    const struct job *job = &j->spec;
    struct metric of[LIMIT_TASKS], mean;
    if (!coord_progressive_recent(j->windows, of))
        return;
    metric_mean(of, job->model.task_weight, j->windows->labels, &mean);
    trained_metric_add(s, "train", &mean);
    for (uint32_t t = 0; job->data.label_count > 1 && t < job->data.label_count; t++) {
        char where[LIMIT_NAME + 8];
        (void)snprintf(where, sizeof where, "train/%s", job->data.label[t]);
        trained_metric_add(s, where, &of[t]);
    }
}

static void recent_write(struct coord_job *j)
{
    struct coord_trace *t = j->trace;
    const struct coord_point *p = &t->recent;
    SHOAL_ASSERT(p->reports > 0 && t->since_ns <= env_now_ns(j->fleet->env));
    double elapsed = (double)(env_now_ns(j->fleet->env) - t->since_ns) * 1e-9;
    struct scalars s = {.count = 0};
    scalar_add(&s, p->weight > 0 ? p->loss / p->weight : NAN, "train/%s", job_loss_name(&j->spec));
    trained_add(j, &s);
    scalar_add(&s, rate_known(j, elapsed) ? (double)p->examples / elapsed : NAN,
               "rate/examples_per_second");
    if (p->pulls > 0) {
        scalar_add(&s, quantile(t->staleness, 0.5), "staleness/p50");
        scalar_add(&s, quantile(t->staleness, 0.99), "staleness/p99");
    }
    if (p->measured > 0) {
        scalar_add(&s, p->dense_norm / (double)p->measured, "norm/dense");
        scalar_add(&s, p->row_norm / (double)p->measured, "norm/rows");
    }
    scalar_add(&s, p->lr_scale, "lr/scale");
    if (j->spec.train.precision == PRECISION_FP16)
        scalar_add(&s, (double)p->skipped, "train/skipped_steps");
    scalars_write(j, &s, p->seen);
    memset(&t->recent, 0, sizeof t->recent);
    memset(t->staleness, 0, sizeof t->staleness);
    t->since_ns = env_now_ns(j->fleet->env);
}

static bool point_note(struct coord_job *j, uint32_t index)
{
    SHOAL_ASSERT(index < j->trace->curve.count);
    return coord_job_note(j, coord_row_key("curve", index).text, &j->trace->curve.point[index],
                          sizeof(struct coord_point));
}

static void curve_put(struct coord_job *j, const struct coord_point *report)
{
    struct coord_curve *curve = &j->trace->curve;
    enum coord_curve_change change = coord_curve_add(curve, report);
    uint32_t from = curve->count;
    if (change == COORD_CURVE_JOINED)
        from = 0;
    else if (change == COORD_CURVE_POINT)
        from--;
    for (uint32_t i = from; i < curve->count && point_note(j, i); i++)
        continue;
}

/* An older worker adds up norms that overflowed: then the norms of the whole task are unknown. */
static void norms_take(const struct wire_TASK_DONE *q, struct coord_point *p)
{
    if (!isfinite(q->dense_norm_sum) || !isfinite(q->row_norm_sum))
        return;
    p->measured = q->measured;
    p->dense_norm = q->dense_norm_sum;
    p->row_norm = q->row_norm_sum;
}

void coord_trace_task(struct coord_job *j, const struct wire_TASK_DONE *q, const double *loss_task,
                      const uint64_t *staleness)
{
    struct coord_trace *t = j->trace;
    if (q->batches == 0) /* an empty task of bsp: there is no rate, and nothing was pulled */
        return;
    struct coord_point p = {.job = j->at.number,
                            .reports = 1,
                            .epoch = j->at.epoch,
                            .seen = j->trace->before + j->tasks->examples,
                            .seconds = coord_phase_trained_s(j),
                            .lr_scale = (double)q->lr_scale,
                            .examples = q->examples,
                            .batches = q->batches,
                            .skipped = q->skipped,
                            .loss = q->loss_sum / job_task_weights(&j->spec),
                            .weight = q->weight_sum > 0 ? q->weight_sum : (double)q->examples};
    norms_take(q, &p);
    memcpy(p.loss_task, loss_task, q->tasks * sizeof p.loss_task[0]);
    for (uint32_t i = 0; i < COORD_HISTOGRAM; i++) {
        p.pulls += staleness[i];
        p.staleness += (double)i * (double)staleness[i];
        t->staleness[i] += staleness[i];
    }
    curve_put(j, &p);
    if (t->recent.reports == 0 && t->since_ns < j->epoch_ns)
        t->since_ns = j->epoch_ns;
    coord_point_add(&t->recent, &p);
    if (env_now_ns(j->fleet->env) - t->since_ns >= SCALARS_NS)
        recent_write(j);
}

void coord_trace_flush(struct coord_job *j)
{
    if (j->trace->recent.reports > 0)
        recent_write(j);
    SHOAL_ASSERT(j->trace->recent.reports == 0);
}

void coord_trace_epoch(struct coord_job *j)
{
    coord_trace_flush(j);
    j->trace->before += j->tasks->examples;
}

uint64_t coord_trace_seen(const struct coord_job *j)
{
    if (!coord_epoch_open(j))
        return j->trace->before;
    return j->trace->before + j->tasks->examples;
}

uint64_t coord_trace_trained(const struct coord_job *j)
{
    if (job_draws(&j->spec))
        return coord_trace_seen(j);
    uint64_t examples = coord_examples(j), bad = coord_epoch_losses(j).bad_lines;
    if (coord_epoch_open(j))
        bad += j->tasks->bad_lines;
    return SAT_SUB(examples, bad);
}

/* Counts the epochs whose training is over: all before the one at hand, and that one too once it is
 * evaluated. */
static void before_load(struct coord_job *j)
{
    SHOAL_ASSERT(j->trace->before == 0 && j->at.epoch <= coord_epochs(j));
    j->trace->before = coord_epoch_losses(j).examples;
}

/* Returns how long the epoch at hand had been trained at its last stored point. */
static uint64_t point_spent_ns(const struct coord_job *j)
{
    const struct coord_curve *curve = &j->trace->curve;
    if (curve->count == 0)
        return 0;
    const struct coord_point *last = &curve->point[curve->count - 1];
    if (last->epoch != j->at.epoch || !(last->seconds >= 0 && last->seconds < 1e9))
        return 0;
    uint64_t until_ns = (uint64_t)(last->seconds * 1e9);
    return SAT_SUB(until_ns, j->at.train_ns); /* 0: that epoch was over */
}

/* The time of the epoch at hand goes on from its last stored point, or from its record. Later
 * training is not counted, nor is the time without a coordinator. The job's elapsed time is not
 * stored within an epoch, so the same time is added to it. */
static void spent_load(struct coord_job *j)
{
    uint64_t spent_ns = point_spent_ns(j);
    if (spent_ns < j->epoch_spent_ns)
        spent_ns = j->epoch_spent_ns;
    if (spent_ns == 0)
        return;
    j->epoch_spent_ns = spent_ns;
    if (spent_ns > j->at.counted_ns)
        j->at.elapsed_ns += spent_ns - j->at.counted_ns;
    j->at.counted_ns = spent_ns;
}

static int curve_load(struct coord_job *j, struct err *e)
{
    for (uint32_t i = 0; i < COORD_CURVE_MAX; i++) {
        struct coord_point point;
        int rc = coord_store_get_fixed(j->store, coord_row_key("curve", i).text, &point,
                                       sizeof point, e);
        if (rc == SHOAL_E_NOT_FOUND)
            return 0;
        if (rc != 0)
            return rc;
        if (!coord_curve_restore(&j->trace->curve, j->at.number, &point))
            return 0;
    }
    return 0;
}

int coord_trace_load(struct coord_job *j, struct err *e)
{
    before_load(j);
    int rc = curve_load(j, e);
    if (rc == 0)
        spent_load(j);
    return rc;
}

/* ---- evaluation ------------------------------------------------------------------------------ */

static void metric_add(struct scalars *s, const char *where, const struct metric *m)
{
    if (metric_is_real(m)) {
        scalar_add(s, m->rmse, "%s/rmse", where);
        scalar_add(s, m->mae, "%s/mae", where);
        scalar_add(s, m->r2, "%s/r2", where);
        scalar_add(s, m->calibration, "%s/calibration", where);
        return;
    }
    scalar_add(s, m->auc, "%s/auc", where);
    scalar_add(s, m->logloss, "%s/logloss", where);
    scalar_add(s, m->ne, "%s/ne", where);
    scalar_add(s, m->calibration, "%s/calibration", where);
    scalar_add(s, m->ece, "%s/ece", where);
    scalar_add(s, m->gauc, "%s/gauc", where); /* NaN without groups */
}

void coord_trace_eval(struct coord_job *j, uint32_t split, const struct metric *metric)
{
    const char *name = split == WIRE_TEST ? "test" : "valid";
    uint32_t labels = j->spec.data.label_count;
    SHOAL_ASSERT((split == WIRE_VALID || split == WIRE_TEST) && labels <= LIMIT_TASKS);
    char where[LIMIT_NAME + 8];
    struct scalars s = {.count = 0};
    struct metric mean;
    metric_mean(metric, j->spec.model.task_weight, MAX(labels, 1), &mean);
    metric_add(&s, name, &mean);
    for (uint32_t t = 0; labels > 1 && t < labels; t++) {
        (void)snprintf(where, sizeof where, "%s/%s", name, j->spec.data.label[t]);
        metric_add(&s, where, &metric[t]);
    }
    scalars_write(j, &s, coord_trace_seen(j));
}

/* ---- curve ---- */

_Static_assert(COORD_CURVE_MAX % 2 == 0, "neighbours are joined two by two");

int coord_curve_open(struct coord_curve *c, struct err *e)
{
    memset(c, 0, sizeof *c);
    c->stride = 1;
    c->point = calloc(COORD_CURVE_MAX, sizeof *c->point);
    if (c->point == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the training curve");
    return 0;
}

void coord_curve_close(struct coord_curve *c)
{
    free(c->point);
    memset(c, 0, sizeof *c);
}

void coord_point_add(struct coord_point *to, const struct coord_point *from)
{
    to->job = from->job;
    to->reports += from->reports;
    to->epoch = from->epoch;
    to->seen = from->seen;
    to->seconds = from->seconds;
    to->lr_scale = from->lr_scale;
    to->examples += from->examples;
    to->batches += from->batches;
    to->skipped += from->skipped;
    to->measured += from->measured;
    to->pulls += from->pulls;
    to->loss += from->loss;
    to->weight += from->weight;
    for (uint32_t t = 0; t < LIMIT_TASKS; t++)
        to->loss_task[t] += from->loss_task[t];
    to->dense_norm += from->dense_norm;
    to->row_norm += from->row_norm;
    to->staleness += from->staleness;
}

static void curve_join(struct coord_curve *c)
{
    SHOAL_ASSERT(c->count == COORD_CURVE_MAX);
    for (uint32_t i = 0; i < c->count / 2; i++) {
        struct coord_point joined = c->point[2 * i];
        coord_point_add(&joined, &c->point[2 * i + 1]);
        c->point[i] = joined;
    }
    c->count /= 2;
    c->stride *= 2;
}

enum coord_curve_change coord_curve_add(struct coord_curve *c, const struct coord_point *report)
{
    SHOAL_ASSERT(report->reports > 0 && c->count <= COORD_CURVE_MAX);
    coord_point_add(&c->open, report);
    if (c->open.reports < c->stride)
        return COORD_CURVE_SAME;
    bool full = c->count == COORD_CURVE_MAX;
    if (full)
        curve_join(c);
    if (c->open.reports < c->stride) /* joined: a point now needs twice as many reports */
        return COORD_CURVE_JOINED;
    SHOAL_ASSERT(c->count < COORD_CURVE_MAX);
    c->point[c->count++] = c->open;
    memset(&c->open, 0, sizeof c->open);
    return full ? COORD_CURVE_JOINED : COORD_CURVE_POINT;
}

bool coord_curve_restore(struct coord_curve *c, uint64_t job, const struct coord_point *point)
{
    SHOAL_ASSERT(c->open.reports == 0 && c->count <= COORD_CURVE_MAX);
    if (point->job != job || point->reports == 0 || c->count == COORD_CURVE_MAX)
        return false;
    if (c->count > 0 && (point->reports != c->stride || point->seen < c->point[c->count - 1].seen))
        return false;
    SHOAL_ASSERT(c->count == 0 || c->stride == c->point[0].reports);
    c->stride = point->reports;
    c->point[c->count++] = *point;
    return true;
}
