/* measure.c: one evaluation: passes examples on to the measures that the options ask for. */
#include "proto/metric/measure.h"

#include "proto/base/assert.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_LEAST 1024u /* values of one field at least, whatever the number of fields */

_Static_assert(MEASURE_VALUES / LIMIT_BY >= VALUES_LEAST, "MEASURE_VALUES is kept");

static uint32_t tasks_of(const struct job *job)
{
    if (job->data.label_count == 0)
        return 1;
    return job->data.label_count;
}

struct measure_options measure_options_of(const struct job *job, uint64_t expected)
{
    return (struct measure_options){
        .tasks = tasks_of(job),
        .real = job_real_labels(job),
        .group = job->evaluate.group[0] != '\0',
        .by_count = (uint32_t)job->evaluate.by.count,
        .buckets = job->evaluate.buckets == 0 ? MEASURE_BUCKETS : job->evaluate.buckets,
        .exact = job->evaluate.exact == 0 ? MEASURE_EXACT : job->evaluate.exact,
        .expected = expected};
}

/* Values of one field: a power of two, all fields together at most MEASURE_VALUES. */
static uint32_t values_each(uint32_t by_count)
{
    uint32_t each = MEASURE_VALUES / 4;
    while (each > VALUES_LEAST && each * by_count > MEASURE_VALUES)
        each /= 2;
    return each;
}

int measure_open(struct measure *m, const struct measure_options *o, struct err *e)
{
    int rc = 0;
    SHOAL_ASSERT(o->tasks > 0 && o->tasks <= LIMIT_TASKS && o->by_count <= LIMIT_BY);
    SHOAL_ASSERT(o->buckets > 0 && o->buckets <= MEASURE_BUCKETS_MAX);
    memset(m, 0, sizeof *m);
    m->options = *o;
    if (o->expected > METRIC_EXAMPLES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "an evaluation of %" PRIu64 " rows, at most %u: take a sample of the split",
                       o->expected, METRIC_EXAMPLES_MAX);
    m->bucket = calloc((size_t)o->tasks * o->buckets, sizeof *m->bucket);
    m->by = calloc(o->by_count + 1ull, sizeof *m->by);
    if (m->bucket == NULL || m->by == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "no memory for the measures");
    for (uint32_t t = 0; t < o->tasks && rc == 0; t++)
        rc = metric_scores_open(&m->scores[t], o->real >> t & 1, o->exact, o->expected, e);
    if (rc == 0 && o->group)
        rc = metric_group_open(&m->group, o->tasks, o->exact, o->expected, e);
    for (uint32_t i = 0; i < o->by_count && rc == 0; i++)
        rc = metric_by_open(&m->by[i], o->tasks, o->real, values_each(o->by_count), e);
    if (rc != 0)
        measure_close(m);
    return rc;
}

void measure_close(struct measure *m)
{
    for (uint32_t t = 0; t < m->options.tasks; t++)
        metric_scores_close(&m->scores[t]);
    metric_group_close(&m->group);
    for (uint32_t i = 0; i < m->options.by_count && m->by != NULL; i++)
        metric_by_close(&m->by[i]);
    free(m->by);
    free(m->bucket);
    memset(m, 0, sizeof *m);
}

int measure_add(struct measure *m, const float *score, const float *label, const uint64_t *group,
                const uint64_t *by, uint32_t count, struct err *e)
{
    const uint32_t tasks = m->options.tasks, by_count = m->options.by_count;
    double loss[LIMIT_TASKS];
    int rc = 0;
    SHOAL_ASSERT((group != NULL || !m->options.group) && (by != NULL || by_count == 0));
    for (uint32_t i = 0; i < count && rc == 0; i++, score += tasks, label += tasks) {
        for (uint32_t t = 0; t < tasks && rc == 0; t++) {
            loss[t] = metric_loss_of(m->options.real >> t & 1, score[t], label[t]);
            if (isnan(label[t]))
                continue;
            rc = metric_scores_add(&m->scores[t], score[t], label[t], loss[t]);
        }
        if (m->options.group && rc == 0)
            rc = metric_group_add(&m->group, group[i], score, label);
        for (uint32_t f = 0; f < by_count && rc == 0; f++)
            metric_by_add(&m->by[f], by[(size_t)i * by_count + f], score, label, loss);
    }
    if (rc != 0)
        return err_set(e, rc,
                       "no memory for the measures of so many examples: set evaluate.exact lower");
    return 0;
}

int measure_finish(struct measure *m, struct err *e)
{
    uint32_t buckets = m->options.buckets;
    int rc = 0;
    for (uint32_t t = 0; t < m->options.tasks && rc == 0; t++)
        rc = metric_scores_finish(&m->scores[t], buckets, &m->metric[t],
                                  &m->bucket[(size_t)t * buckets], &m->bucket_count[t], e);
    if (rc == 0 && m->options.group)
        rc = metric_group_finish(&m->group, m->metric, e);
    for (uint32_t f = 0; f < m->options.by_count && rc == 0; f++)
        metric_by_finish(&m->by[f], MEASURE_TOP);
    return rc;
}

/* ---- as JSON values: figures, curves and tables ---------------------------------------------- */

static double ratio(double a, double b)
{
    return b > 0 ? a / b : (double)NAN;
}

/* ---- details --------------------------------------------------------------------------------- */

static struct json *curve_json(const struct metric_bucket *bucket, uint32_t count)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++) {
        double examples = (double)bucket[i].examples;
        struct json *item = json_new_object();
        json_set_int(item, "examples", (int64_t)bucket[i].examples);
        json_set_number(item, "predicted", ratio(bucket[i].predicted, examples));
        json_set_number(item, "label", ratio((double)bucket[i].positives, examples));
        json_append(list, item);
    }
    return list;
}

static void sums_set(struct json *item, const struct metric_by_task *sums,
                     const struct metric_by_more *more, bool real)
{
    double n = (double)more->examples, label = real ? more->label : (double)sums->positives;
    json_set_int(item, "examples", (int64_t)more->examples);
    if (real)
        json_set_number(item, "rmse", sqrt(ratio(sums->loss, n)));
    else
        json_set_number(item, "logloss", ratio(sums->loss, n));
    json_set_number(item, "predicted", ratio(sums->predicted, n));
    json_set_number(item, "label", ratio(label, n));
    json_set_number(item, "calibration", ratio(sums->predicted, label));
}

static void value_auc_set(struct json *item, const struct metric_by *b,
                          const struct metric_value *v, uint32_t task)
{
    struct metric auc;
    metric_by_auc(b, v, task, &auc);
    json_set_number(item, "auc", auc.auc);
    json_set_number(item, "auc_error", auc.auc_error);
    if (auc.examples < metric_by_more(b, v)[task].examples)
        json_set_int(item, "auc_examples", (int64_t)auc.examples);
}

static struct json *values_json(const struct metric_by *b, uint32_t task)
{
    struct json *list = json_new_array();
    bool real = b->real >> task & 1;
    for (uint32_t i = 0; i < b->count; i++) {
        const struct metric_value *v = &b->value[i];
        struct json *item = json_new_object();
        json_set_hex(item, "key", v->key);
        sums_set(item, &metric_by_sums(b, v)[task], &metric_by_more(b, v)[task], real);
        if (!real)
            value_auc_set(item, b, v, task);
        if (v->missed > 0)
            json_set_int(item, "missed", (int64_t)v->missed);
        json_append(list, item);
    }
    if (b->rest_values == 0)
        return list;
    struct json *other = json_new_object();
    json_set_string(other, "key", "other");
    json_set_int(other, "values", (int64_t)b->rest_values);
    sums_set(other, &b->rest[task], &b->rest_more[task], real);
    json_append(list, other);
    return list;
}

static void by_set(struct json *to, const struct metric_by *by, const struct job *job,
                   uint32_t task)
{
    struct json *tables = NULL;
    if (job->evaluate.by.count > 0)
        tables = json_new_object();
    for (size_t f = 0; f < job->evaluate.by.count; f++)
        json_set(tables, job->evaluate.by.item[f], values_json(&by[f], task));
    if (tables != NULL)
        json_set(to, "by", tables);
}

struct json *measure_json_by(const struct metric_by *by, const struct job *job)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < tasks_of(job); t++) {
        struct json *item = json_new_object();
        by_set(item, by, job, t);
        json_append(list, item);
    }
    return list;
}

struct json *measure_json_details(const struct measure *m, const struct job *job)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < m->options.tasks; t++) {
        struct json *item = json_new_object();
        if ((m->options.real >> t & 1) == 0)
            json_set(item, "buckets",
                     curve_json(&m->bucket[(size_t)t * m->options.buckets], m->bucket_count[t]));
        by_set(item, m->by, job, t);
        struct json *unseen = NULL;
        if (t == 0)
            unseen = unseen_json(&m->unseen, &job->legend);
        if (unseen != NULL)
            json_set(item, "unseen", unseen);
        json_append(list, item);
    }
    return list;
}

/* ---- figures --------------------------------------------------------------------------------- */

static void real_set(struct json *to, const struct metric *m, bool whole)
{
    json_set_number(to, "rmse", m->rmse);
    json_set_number(to, "mae", m->mae);
    json_set_number(to, "r2", m->r2);
    json_set_number(to, "calibration", m->calibration);
    if (whole)
        json_set_int(to, "examples", (int64_t)m->examples);
}

/* counts: write the counts of positives and groups, which a mean over labels does not have. */
static void metric_set(struct json *to, const struct metric *m, const struct job *job, bool whole,
                       bool counts)
{
    if (metric_is_real(m)) {
        real_set(to, m, whole);
        return;
    }
    json_set_number(to, "auc", m->auc);
    json_set_number(to, "logloss", m->logloss);
    json_set_number(to, "ne", m->ne);
    json_set_number(to, "calibration", m->calibration);
    json_set_number(to, "ece", m->ece);
    if (job->evaluate.group[0] != '\0') {
        json_set_number(to, "gauc", m->gauc);
        if (counts)
            json_set_int(to, "groups", (int64_t)m->groups);
        if (m->gauc_share < 1)
            json_set_number(to, "gauc_share", m->gauc_share);
    }
    if (whole || m->auc_error > 0)
        json_set_number(to, "auc_error", m->auc_error);
    if (!whole)
        return;
    json_set_int(to, "examples", (int64_t)m->examples);
    if (counts)
        json_set_int(to, "positives", (int64_t)m->positives);
}

static void details_set(struct json *to, const struct json *details, uint32_t task)
{
    static const char *const key[] = {"buckets", "by"};
    struct json *of = json_array_at(details, task);
    for (int i = 0; i < 2; i++)
        if (json_get(of, key[i]) != NULL)
            json_set(to, key[i], json_hold(json_get(of, key[i])));
}

struct json *measure_json_report(const struct metric *metric, const struct job *job,
                                 const struct json *details, bool whole)
{
    struct json *report = json_new_object();
    uint32_t tasks = tasks_of(job);
    struct metric mean;
    metric_mean(metric, job->model.task_weight, tasks, &mean);
    metric_set(report, &mean, job, whole, tasks == 1);
    struct json *unseen = json_get(json_array_at(details, 0), "unseen");
    if (unseen != NULL)
        json_set(report, "unseen", json_hold(unseen));
    if (tasks == 1) {
        details_set(report, details, 0);
        return report;
    }
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < tasks; t++) {
        struct json *item = json_new_object();
        json_set_string(item, "label", job->data.label[t]);
        metric_set(item, &metric[t], job, whole, true);
        details_set(item, details, t);
        json_append(list, item);
    }
    json_set(report, "tasks", list);
    return report;
}
