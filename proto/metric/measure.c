/* measure.c: one evaluation, handed on to the measures that are asked for. */
#include "proto/metric/measure.h"
#include "proto/base/assert.h"

#include <stdlib.h>
#include <string.h>

#define VALUES_LEAST 1024u /* of one field, however many fields there are */

_Static_assert(MEASURE_VALUES / LIMIT_BY >= VALUES_LEAST, "MEASURE_VALUES is kept");

struct measure_options measure_options_of(const struct job *job, uint64_t expected)
{
    return (struct measure_options){
        .tasks = job->data.label_count == 0 ? 1 : job->data.label_count,
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
    int status = 0;

    SHOAL_ASSERT(o->tasks > 0 && o->tasks <= LIMIT_TASKS && o->by_count <= LIMIT_BY);
    SHOAL_ASSERT(o->buckets > 0 && o->buckets <= MEASURE_BUCKETS_MAX);
    memset(m, 0, sizeof *m);
    m->options = *o;
    if (o->expected > METRIC_EXAMPLES_MAX)
        return err_set(e, SHOAL_E_TOO_BIG,
                       "an evaluation of %llu rows, at most %u: take a sample of the split",
                       (unsigned long long)o->expected, METRIC_EXAMPLES_MAX);
    m->bucket = calloc((size_t)o->tasks * o->buckets, sizeof *m->bucket);
    m->by = calloc(o->by_count + 1ull, sizeof *m->by);
    if (m->bucket == NULL || m->by == NULL)
        status = err_set(e, SHOAL_E_NOMEM, "no memory for the measures");
    for (uint32_t t = 0; t < o->tasks && status == 0; t++)
        status = metric_scores_open(&m->scores[t], o->exact, o->expected, e);
    if (status == 0 && o->group)
        status = metric_group_open(&m->group, o->tasks, o->exact, o->expected, e);
    for (uint32_t i = 0; i < o->by_count && status == 0; i++)
        status = metric_by_open(&m->by[i], o->tasks, values_each(o->by_count), e);
    if (status != 0)
        measure_close(m);
    return status;
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
    int status = 0;

    SHOAL_ASSERT((group != NULL || !m->options.group) && (by != NULL || by_count == 0));
    for (uint32_t i = 0; i < count && status == 0; i++, score += tasks, label += tasks) {
        for (uint32_t t = 0; t < tasks && status == 0; t++) {
            loss[t] = metric_loss(score[t], label[t]);
            status = metric_scores_add(&m->scores[t], score[t], label[t], loss[t]);
        }
        if (m->options.group && status == 0)
            status = metric_group_add(&m->group, group[i], score, label);
        for (uint32_t f = 0; f < by_count && status == 0; f++)
            metric_by_add(&m->by[f], by[(size_t)i * by_count + f], score, label, loss);
    }
    return status == 0
               ? 0
               : err_set(
                     e, status,
                     "no memory for the measures of so many examples: set evaluate.exact lower");
}

int measure_finish(struct measure *m, struct err *e)
{
    uint32_t buckets = m->options.buckets;
    int status = 0;

    for (uint32_t t = 0; t < m->options.tasks && status == 0; t++)
        status = metric_scores_finish(&m->scores[t], buckets, &m->metric[t],
                                      &m->bucket[(size_t)t * buckets], &m->bucket_count[t], e);
    if (status == 0 && m->options.group)
        status = metric_group_finish(&m->group, m->metric, e);
    for (uint32_t f = 0; f < m->options.by_count && status == 0; f++)
        metric_by_finish(&m->by[f], MEASURE_TOP);
    return status;
}
