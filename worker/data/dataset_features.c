/* dataset_features.c: the features of a job, from the head of its input or from its tables, and the
 * columns of each split. */
#include "worker/data/dataset_inner.h"

#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/dated.h"
#include "worker/data/feature_inner.h"
#include "worker/data/heads.h"
#include "worker/data/object.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the features ---- */

/* True when the job names its fields and its label, so that no training input is needed to number
 * them. */
static bool names_all(const struct job *job)
{
    for (size_t i = 0; i < job->features.fields.count; i++) {
        const char *name = job->features.fields.item[i];
        if (name[strspn(name, "0123456789")] == '\0') /* a position in that very input */
            return false;
    }
    return job->data.header && job->features.fields.count > 0 && !job->features.fields_auto &&
           job->data.label[0][0] != '\0';
}

bool dataset_goes_by_names(const struct job *job)
{
    const char *what;
    const struct string_list *list = job_input(job, WIRE_TRAIN, &what);
    bool stream = list->count > 0 && source_is_stream(list->item[0]),
         reads = job_reads_only(job) && (stream || job->data.objects.of[WIRE_TRAIN].on);
    return (job->predict.on || reads) && job->data.format != DATA_EVENTS &&
           feature_names_known(job);
}

static int features_of_objects(const struct job *job, struct features *f, struct err *e)
{
    struct string_list lines;
    char *head;
    int rc = dataset_objects(job, WIRE_TRAIN, &lines, &head, e);
    if (rc != 0)
        return rc;
    rc = features_make(job, lines.item[0], head, strlen(head), f, e);
    config_list_free(&lines);
    free(head);
    return rc;
}

int dataset_make_features(const struct job *job, const struct cache *cache, uint32_t other,
                          struct features *f, struct err *e)
{
    const char *what;
    if (job->data.format == DATA_EVENTS)
        return dataset_features_of_events(job, other, f, e);
    const struct string_list *list = job_input(job, WIRE_TRAIN, &what);
    bool stream = list->count > 0 && source_is_stream(list->item[0]);
    /* otherwise this would list all of a long log */
    bool looks = job->predict.on || job->data.objects.grow_ms == 0;
    bool gone = looks && list->count > 0 && !stream && source_check(list, what, NULL) != 0;
    if (dataset_goes_by_names(job) || (gone && feature_names_known(job)))
        return features_make(job, "the tables", NULL, 0, f, e);
    bool named = job->predict.on && names_all(job);
    if (job->predict.on && stream && !named && format_of(job->data.format)->columns == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "%s was a stream, which numbered the fields and is gone: name a file of the "
                       "same columns with --set data.train=FILE",
                       what);
    if (list->count == 0 || (named && (stream || gone)))
        list = job_input(job, other, &what);
    if (format_of(job->data.format)->columns != NULL)
        return features_make(job, what, NULL, 0, f, e);
    if (list == &job->data.train && job->data.head != NULL)
        return features_make(job, what, job->data.head, strlen(job->data.head), f, e);
    if (list == &job->data.train && job->data.objects.of[WIRE_TRAIN].on)
        return features_of_objects(job, f, e);
    char *name, *line;
    size_t bytes;
    const struct format *format = format_of(job->data.format);
    int rc;
    if (format->look != NULL)
        rc = source_lines(list, what, cache, &name, &line, &bytes, e);
    else
        rc = source_head(list, what, format->framing, cache, &name, &line, &bytes, e);
    if (rc != 0)
        return rc;
    if (job->data.join.on && !job->predict.on)
        rc = join_text_head(job, &line, &bytes, e);
    if (rc == 0)
        rc = features_make(job, name, line, bytes, f, e);
    free(name);
    free(line);
    return rc;
}

int dataset_features(const struct job *job, struct features *out, struct err *e)
{
    struct cache cache;
    int rc = cache_init(&cache, job->data.cache, e);
    if (rc != 0)
        return rc;
    return dataset_make_features(job, &cache, job->predict.on ? WIRE_TEST : WIRE_TRAIN, out, e);
}

int dataset_shape(const struct job *job, struct model_shape *out, struct err *e)
{
    struct features f;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    *out = f.shape;
    features_free(&f);
    return 0;
}

int dataset_inputs(const struct job *job, struct dataset_inputs *out, struct err *e)
{
    struct features f;
    int rc;
    if (job->data.format != DATA_EVENTS && feature_names_known(job))
        rc = features_make(job, "the tables", NULL, 0, &f, e);
    else
        rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    out->shape = f.shape;
    for (uint32_t i = 0; i < f.shape.fields; i++) {
        feature_use_name(&f, &f.field[i], out->field[i]);
        out->key_field[i] = (uint16_t)f.field[i].key_field;
    }
    for (uint32_t i = 0; i < f.shape.numerics; i++)
        feature_use_name(&f, &f.numeric[i], out->numeric[i]);
    features_free(&f);
    return 0;
}

int dataset_legend(const struct job *job, struct legend *out, struct err *e)
{
    struct features f;
    int rc = dataset_features(job, &f, e);
    if (rc != 0)
        return rc;
    if (job->data.format == DATA_EVENTS)
        rc = dataset_legend_of_events(&f, job, out, e);
    else
        rc = dataset_figures(job, &f, e);
    if (rc == 0 && job->data.format != DATA_EVENTS)
        rc = feature_legend(&f, job, out, e);
    if (rc == 0 && job->data.format != DATA_EVENTS)
        rc = feature_reading(&f, job, out, e);
    features_free(&f);
    return rc;
}

/* ---- before a job begins ---- */

/* Checks data.partition against the names of files; objects are checked when they are listed. */
static int names_check(const struct job *job, struct err *e)
{
    struct string_list names = {0};
    if (job->data.partition.step == 0 || job->data.objects.of[WIRE_TRAIN].open != NULL)
        return 0;
    int rc = source_names(&job->data.train, "data.train", &names, e);
    if (rc == 0)
        rc = dated_check(job, &names, e);
    config_list_free(&names);
    return rc;
}

int dataset_check(const struct job *job, struct err *e)
{
    int rc = 0;
    /* a job that trains nothing can take the columns from the tables; objects of a growing log may
     * arrive later */
    bool waits = job->train.skip || job->data.objects.grow_ms > 0;
    bool gone = waits && source_check(&job->data.train, "data.train", NULL) != 0;
    for (uint32_t split = gone ? WIRE_VALID : WIRE_TRAIN; split <= WIRE_TEST && rc == 0; split++) {
        const char *what;
        const struct string_list *list = job_input(job, split, &what);
        if (list->count > 0)
            rc = source_check(list, what, e);
        else
            rc = 0;
    }
    if (rc == 0 && job->data.join.on && !gone)
        rc = source_check(&job->data.join.clicks, "data.join.clicks", e);
    if (rc == 0 && !gone)
        rc = names_check(job, e);
    bool waits_for_text =
        gone || job->data.train.count == 0 || source_is_stream(job->data.train.item[0]);
    if (rc == 0 && !waits_for_text) {
        struct features f;
        rc = dataset_make_features(job, NULL, WIRE_TRAIN, &f, e);
        if (rc != 0)
            return rc;
        features_free(&f);
    }
    if (rc != 0)
        return rc;

    return heads_check_all(job, e);
}

/* ---- columns of a split ---- */

/* csv with a header: finds the columns in the first header of this split. Its other files must have
 * the same header. */
static int headers_bind(struct dataset *d, struct lines *lines, struct err *e)
{
    const struct source *s = &d->source;
    struct line line;
    char *first = NULL;
    size_t bytes = 0;
    int rc = 0;
    const char *first_name = NULL;
    for (uint32_t i = 0; i < s->count && rc == 0; i++) {
        rc = dataset_header(s, i, lines, &line, e);
        if (rc == 0)
            clean_mark(&line);
        if (rc == SHOAL_E_END) {
            rc = 0;
        } else if (rc == 0 && first == NULL) {
            first_name = s->file[i].name;
            bytes = line.bytes;
            first = malloc(bytes);
            if (first == NULL) {
                rc = err_set(e, SHOAL_E_NOMEM, "%s: no memory for its header; free some",
                             first_name);
                break;
            }
            memcpy(first, line.text, bytes);
            rc = features_bind(&d->features, first_name, first, bytes, e);
        } else if (rc == 0 && (line.bytes != bytes || memcmp(first, line.text, bytes) != 0)) {
            rc = err_set(
                e, SHOAL_E_CONFIG,
                "%s:%" PRIu64
                ": the header is not that of %s; give both the same columns in the same order",
                s->file[i].name, line.number, first_name);
        }
    }
    free(first);
    return rc;
}

/* Without headers, the first row of the split shows whether it has labels. */
static int predict_bind(struct dataset *d, const struct job *job, struct lines *lines,
                        struct err *e)
{
    const struct source *s = &d->source;
    struct line line = {.text = NULL};
    int rc = SHOAL_E_END;
    for (uint32_t i = 0; i < s->count && rc == SHOAL_E_END; i++)
        rc = dataset_header(s, i, lines, &line, e);
    if (rc == SHOAL_E_END)
        return 0; /* no row; the index reports that */
    if (rc != 0)
        return rc;
    struct cell first = {line.text, 0};
    if (line.fault == NULL)
        first.bytes = (uint32_t)line.bytes;
    return features_predict(&d->features, job, s->file[line.file].name, &first, e);
}

int dataset_bind(struct dataset *d, const struct job *job, struct err *e)
{
    struct lines lines;
    if (!d->features.header && !job->predict.on)
        return 0;
    int rc = lines_init(&lines, e);
    if (rc != 0)
        return rc;
    rc = 0;
    if (d->features.header)
        rc = headers_bind(d, &lines, e);
    if (rc == 0 && job->predict.on)
        rc = predict_bind(d, job, &lines, e);
    lines_free(&lines);
    return rc;
}
