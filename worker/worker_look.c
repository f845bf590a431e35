/* worker_look.c: verbs that read the input alone. */
#include "worker/worker_look.h"
#include "proto/base/file.h"
#include "proto/base/json.h"
#include "worker/data/count.h"
#include "worker/data/dataset.h"
#include "worker/data/feature.h"
#include "worker/data/values.h"
#include "worker/worker_convert.h"
#include "worker/worker_data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPORT_BYTES_MAX ((size_t)32 << 20)

/* A field of the job file that the tables lack, or have as another kind, has no key there. */
static int field_known(const struct job *job, const char *name, struct err *e)
{
    struct legend is = {.input = NULL};
    char known[LEGEND_NAME];
    legend_write(name, strlen(name), 1, known);
    uint32_t was = legend_find(&job->legend, LEGEND_FIELDS, known);
    if (!legend_known(&job->legend))
        return 0;
    if (was == LEGEND_NONE)
        return err_set(e, SHOAL_E_NOT_FOUND, "the tables have no field %s", name);
    const char *kind = job->legend.name[LEGEND_FIELDS][was].what;
    int rc = dataset_legend(job, &is, e);
    uint32_t at = LEGEND_NONE;
    if (rc == 0)
        at = legend_find(&is, LEGEND_FIELDS, known);
    if (at != LEGEND_NONE && strcmp(is.name[LEGEND_FIELDS][at].what, kind) != 0)
        rc = err_set(e, SHOAL_E_CONFIG, "field %s is %s in the job file, in the tables it is %s",
                     name, is.name[LEGEND_FIELDS][at].what, kind);
    legend_free(&is);
    return rc;
}

static int fields_tell(const struct worker_arguments *a, const struct job *job, struct json **out,
                       struct err *e)
{
    struct features f;
    char name[LIMIT_NAME] = "";
    uint32_t field = 0;
    uint64_t key = 0;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    if (a->field != NULL) { /* a name means a former field rather than a number */
        rc = feature_field_find(&f, a->field, &field, e);
        if (rc == 0)
            feature_field_name(&f, field, name);
        int gone = SHOAL_E_NOT_FOUND;
        if (strcmp(name, a->field) != 0)
            gone = feature_gone_key(&job->legend, a->field, a->value, &key, e);
        if (gone != SHOAL_E_NOT_FOUND)
            rc = gone;
        else if (rc == 0)
            rc = feature_field_key(&f, field, a->value, &key, e);
        if (rc == 0 && a->made_by != NULL && name[0] != '\0')
            rc = field_known(job, name, e);
    }
    if (rc == 0) {
        *out = json_new_object();
        if (a->field != NULL)
            json_set_hex(*out, "key", key);
        json_set(*out, "fields", feature_fields_json(&f, &job->legend));
    }
    features_free(&f);
    return rc;
}

/* The report, with the values of evaluate.by beside their hashes. */
static int values_tell(const struct worker_arguments *a, const struct job *job, struct json **out,
                       struct err *e)
{
    char *text;
    size_t bytes;
    if (a->report == NULL)
        return err_set(e, SHOAL_E_USAGE, "--report is missing: the report.json to complete");
    if (file_read_whole(a->report, REPORT_BYTES_MAX, &text, &bytes) != 0)
        return err_set(e, SHOAL_E_NOINPUT, "cannot read %s: %s", a->report, strerror(errno));
    int rc = json_parse(text, bytes, out, e);
    free(text);

    if (rc == 0)
        return values_name(job, *out, e);

    return err_wrap(e, rc, "%s", a->report);
}

static int convert(const struct worker_arguments *a, const struct job *job, struct err *e)
{
    if (a->check != NULL)
        return worker_convert_check(a->check, a->as_json, e);
    if (a->out == NULL)
        return err_set(e, SHOAL_E_USAGE, "--out is missing: the event file to write");
    return worker_convert(job, a->split, a->out, a->as_json, e);
}

int worker_look(const struct worker_arguments *a, struct job *job, struct err *e)
{
    struct json *j = NULL;
    if (strcmp(a->verb, "check") == 0)
        return dataset_check(job, e);
    if (strcmp(a->verb, "convert") == 0)
        return convert(a, job, e);
    if (strcmp(a->verb, "data") == 0)
        return worker_data(a, e);
    int rc;
    if (strcmp(a->verb, "fields") == 0)
        rc = fields_tell(a, job, &j, e);
    else if (strcmp(a->verb, "values") == 0)
        rc = values_tell(a, job, &j, e);
    else
        rc = count_job(job, a->share, &j, e);
    char *text = NULL;
    if (rc == 0)
        text = json_text(j, 2);

    json_free(j);
    if (rc == 0 && text == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory to print the answer");
    if (rc == 0)
        puts(text);
    free(text);
    return rc;
}
