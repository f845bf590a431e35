/* measure_json.c: figures, curves and tables as JSON values. */
#include "proto/metric/measure_json.h"

#include <math.h>

static uint32_t tasks_of(const struct job *job)
{
    return job->data.label_count == 0 ? 1 : job->data.label_count;
}

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

static void sums_set(struct json *item, const struct metric_by_task *sums, uint64_t examples)
{
    double n = (double)examples;
    json_set_int(item, "examples", (int64_t)examples);
    json_set_number(item, "logloss", ratio(sums->loss, n));
    json_set_number(item, "predicted", ratio(sums->predicted, n));
    json_set_number(item, "label", ratio((double)sums->positives, n));
    json_set_number(item, "calibration", ratio(sums->predicted, (double)sums->positives));
}

static struct json *values_json(const struct metric_by *b, uint32_t task)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < b->count; i++) {
        const struct metric_value *v = &b->value[i];
        struct json *item = json_new_object();
        json_set_hex(item, "key", v->key);
        sums_set(item, &metric_by_sums(b, v)[task], v->examples);
        if (v->missed > 0)
            json_set_int(item, "missed", (int64_t)v->missed);
        json_append(list, item);
    }
    if (b->rest_values == 0)
        return list;
    struct json *other = json_new_object();
    json_set_string(other, "key", "other");
    json_set_int(other, "values", (int64_t)b->rest_values);
    sums_set(other, &b->rest[task], b->rest_examples);
    json_append(list, other);
    return list;
}

struct json *measure_json_details(const struct measure *m, const struct job *job)
{
    struct json *list = json_new_array();
    for (uint32_t t = 0; t < m->options.tasks; t++) {
        struct json *item = json_new_object();
        json_set(item, "buckets",
                 curve_json(&m->bucket[(size_t)t * m->options.buckets], m->bucket_count[t]));
        struct json *by = m->options.by_count > 0 ? json_new_object() : NULL;
        for (uint32_t f = 0; f < m->options.by_count; f++)
            json_set(by, job->evaluate.by.item[f], values_json(&m->by[f], t));
        if (m->options.by_count > 0)
            json_set(item, "by", by);
        json_append(list, item);
    }
    return list;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* counts: of positives and groups, which a mean over labels has not. */
static void metric_set(struct json *to, const struct metric *m, const struct job *job, bool whole,
                       bool counts)
{
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
