/* dataset_figures.c: figures of numbers (mean and deviation, quantiles), from a sample of the
 * training input: lines at many places of it, or of its first object that has rows. */
#include "worker/data/dataset_inner.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "worker/data/feature_inner.h"
#include "worker/data/sample.h"

#include <inttypes.h>
#include <stdlib.h>

#define NUMBERS_MOST (1u << 22) /* numbers of all columns together: 32 MiB */
#define ROWS_LEAST 1024u

struct figures {
    const struct features *features;
    double *number;  /* owned; (scales, rows) */
    uint32_t *count; /* owned; (scales): numbers of each */
    uint64_t rows;   /* at most */
};

static int row_see(void *context, const struct cell *cell)
{
    struct figures *v = context;
    const struct features *f = v->features;
    char reason[REASON_BYTES];
    for (uint32_t i = 0; i < f->scales; i++) {
        const struct scale *s = &f->scale[i];
        const struct feature_use use = {.column = f->scaled[i], .type = COLUMN_NUMBER};
        const struct cell *own = &cell[use.column];
        double x = s->fill;
        if (s->known || v->count[i] == v->rows || (own->bytes == 0 && !s->filled))
            continue;
        if (own->bytes > 0 && feature_number_cell(f, &use, own, &x, reason) != 0)
            continue; /* the line is malformed */
        v->number[i * v->rows + v->count[i]++] = x;
    }
    return 0;
}

static void figures_say(const struct features *f, uint32_t i, uint32_t count)
{
    char text[SCALE_TEXT], name[LEGEND_NAME];
    scale_text(&f->scale[i], text);
    feature_column_name(f, f->scaled[i], name);
    if (count == 0)
        log_warn("data.train: column %s has no number in the sample that its figures are of: it "
                 "is read as \"%s\"",
                 name, text);
    else
        log_info("data.train: column %s is read as \"%s\", by %u numbers of a sample", name, text,
                 count);
}

static int figures_learn(struct dataset *d, struct err *e)
{
    struct features *f = &d->features;
    uint64_t most = MIN(NUMBERS_MOST / f->scales, SAMPLE_ROWS);
    struct figures v = {.features = f, .rows = MAX(most, ROWS_LEAST)};
    v.number = malloc(f->scales * v.rows * sizeof *v.number);
    v.count = calloc(f->scales, sizeof *v.count);
    int rc = 0;
    if (v.number == NULL || v.count == NULL)
        rc = err_set(e, SHOAL_E_NOMEM,
                     "data.train: no memory for a sample of %u columns; free some", f->scales);
    if (rc == 0)
        rc = sample_walk(&d->source, &d->index, f, v.rows, row_see, &v, e);
    for (uint32_t i = 0; i < f->scales && rc == 0; i++) {
        if (f->scale[i].known)
            continue;
        scale_learn(&f->scale[i], v.number + i * v.rows, v.count[i]);
        figures_say(f, i, v.count[i]);
    }
    free(v.number);
    free(v.count);
    return rc;
}

/* Opens the text and the index of the training input, or of one of its objects. */
static int part_open(const struct job *job, const char *line, struct dataset **out, struct err *e)
{
    struct dataset *d = dataset_new("data.train", e);
    if (d == NULL)
        return SHOAL_E_NOMEM;
    int rc = dataset_parts_open(d, job, WIRE_TRAIN, line, e);
    if (rc == 0)
        rc = dataset_index(d, job, WIRE_TRAIN, e);
    if (rc != 0) {
        dataset_close(d);
        return rc;
    }
    *out = d;
    return 0;
}

/* Opens the first object that has rows; the last one where none has. */
static int object_part_open(const struct job *job, struct dataset **out, struct err *e)
{
    struct string_list lines = {0};
    char *head = NULL;
    int rc = dataset_objects(job, WIRE_TRAIN, &lines, &head, e);
    *out = NULL;
    for (size_t i = 0; i < lines.count && rc == 0; i++) {
        dataset_close(*out);
        *out = NULL;
        rc = part_open(job, lines.item[i], out, e);
        if (rc == SHOAL_E_DATA && i + 1 < lines.count)
            rc = 0; /* a damaged one is judged when it is trained on */
        if (rc == 0 && *out != NULL && (*out)->index.rows > 0)
            break;
    }
    config_list_free(&lines);
    free(head);
    if (rc == 0 && *out == NULL)
        rc = err_set(e, SHOAL_E_DATA, "data.train: no object has a row that could be looked at");
    return rc;
}

int dataset_figures(const struct job *job, struct features *f, struct err *e)
{
    struct dataset *d = NULL;
    int rc;
    if (features_figured(f))
        return 0;
    if (job->predict.on)
        return err_set(e, SHOAL_E_CONFIG,
                       "the job asks for figures of the training input (transform: standard, or "
                       "quantiles) that these tables do not have: take the job file that lies with "
                       "the tables");
    if (job->data.objects.of[WIRE_TRAIN].on)
        rc = object_part_open(job, &d, e);
    else
        rc = part_open(job, NULL, &d, e);
    if (rc == 0)
        rc = figures_learn(d, e);
    /* both were made by one plan */
    for (uint32_t i = 0; i < f->scales && rc == 0; i++)
        f->scale[i] = d->features.scale[i];
    dataset_close(d);
    return rc;
}
