/* dated.c: matches names with data.partition. */
#include "worker/data/dated.h"

#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

static bool dated(const struct job *job)
{
    return job->data.partition.step > 0 && job->data.format != DATA_EVENTS && !job->predict.on;
}

static int span_of(const struct job *job, const char *name, struct job_span *out, struct err *e)
{
    struct err why = {0};
    int rc = partition_of(&job->data.partition, &job->data.zone, name, strcspn(name, "\t"),
                          &out->from, &out->to, &why);
    if (rc == 0)
        return 0;

    return err_set(e, rc,
                   "data.partition: %s; as many last parts of each name in data.train as "
                   "the pattern has must match it",
                   why.text);
}

int dated_check(const struct job *job, const struct string_list *names, struct err *e)
{
    struct job_span span;
    int rc = 0;
    for (size_t i = 0; rc == 0 && dated(job) && i < names->count; i++)
        rc = span_of(job, names->item[i], &span, e);
    return rc;
}

int dated_take(const struct job *job, const struct source *s, struct features *f, struct err *e)
{
    const char *text = job->data.partition.text;
    int rc = 0;
    bool needs = !job->predict.on && job_timed(job) && !features_timed(f);
    if (!dated(job) && needs)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.train: %s was made without event times, and data.partition is "
                       "not for event files: convert the log with it, or with data.time",
                       s->file[0].name);
    if (!dated(job))
        return 0;
    f->span = calloc(s->count, sizeof *f->span);
    if (f->span == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the partitions of %u files", s->count);
    f->dated = hash_bytes(text, strlen(text), 1) | 1;
    for (uint32_t i = 0; rc == 0 && i < s->count; i++)
        rc = span_of(job, s->file[i].name, &f->span[i], e);
    return rc;
}
