/* dataset_events.c: event files as the input of a job: features by what their heads say. */
#include "worker/data/dataset_inner.h"

#include "proto/wire/wire.h"

#include <stdlib.h>
#include <string.h>

/* What the head of an event file makes of a job: that of the training input, so that every split
 * has the same fields, or, where that has gone, of `other`. *name: the file's, the caller's. */
static int events_job(const struct job *job, uint32_t other, struct job *out, char **head,
                      char **name, struct err *e)
{
    const char *what;
    const struct string_list *list = dataset_list(job, WIRE_TRAIN, &what);
    struct cache cache;
    struct source s;
    struct events v;
    if (job->predict.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "a prediction reads text, and data.format is events: name the log's with "
                       "--set data.format=..");
    if (list->count == 0 || source_check(list, what, NULL) != 0)
        list = dataset_list(job, other, &what);
    const struct string_list first = {list->item, list->count > 0 ? 1 : 0};
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc == 0)
        rc = source_open(&first, what, &cache, &s, e);
    if (rc != 0)
        return rc;
    rc = events_open(s.file[0].fd, s.file[0].name, &v, e);
    if (rc == 0) {
        *name = strdup(s.file[0].name);
        rc = *name == NULL ? err_set(e, SHOAL_E_NOMEM, "%s: no memory for a name", what)
                           : columns_job(&v.columns, job, *name, out, head, e);
        if (rc != 0)
            free(*name);
        events_close(&v);
    }
    source_close(&s);
    return rc;
}

int dataset_features_of_events(const struct job *job, uint32_t other, struct features *f,
                               struct err *e)
{
    struct job read;
    char *head, *name;
    int rc = events_job(job, other, &read, &head, &name, e);
    if (rc != 0)
        return rc;
    rc = features_make(&read, name, head, strlen(head), f, e);
    free(name);
    columns_job_free(&read, head);
    return rc;
}

int dataset_legend_of_events(const struct features *f, const struct job *job, struct legend *out,
                             struct err *e)
{
    struct job read;
    char *head, *name;
    int rc = events_job(job, WIRE_TRAIN, &read, &head, &name, e);
    if (rc != 0)
        return rc;
    rc = feature_legend(f, &read, out, e);
    free(name);
    columns_job_free(&read, head);
    return rc;
}
