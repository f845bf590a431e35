/* feature_legend.c: names of fields, numbers, input columns and labels, as the tables keep them
 * (proto/job/legend.h). */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Columns of the same name get their rank among them as a suffix. */
void feature_column_name(const struct features *f, uint32_t column, char out[LEGEND_NAME])
{
    const struct cell *name = &f->name[column];
    uint32_t which = 1;
    for (uint32_t i = 0; i < column; i++)
        which += f->name[i].bytes == name->bytes &&
                 memcmp(f->name[i].text, name->text, name->bytes) == 0;
    legend_write(name->text, name->bytes, which, out);
}

/* The kind, and the field whose rows it shares. */
static void field_kind(const struct features *f, uint32_t i, char out[LEGEND_WHAT])
{
    const struct feature_use *use = &f->field[i];
    feature_kind(f, use, out);
    size_t n = strlen(out);
    for (uint32_t k = 0; k < f->shape.fields; k++)
        if (k != i && f->shape.number[k] == use->key_field) {
            const struct cell *of = &f->name[f->field[k].column];
            (void)snprintf(out + n, LEGEND_WHAT - n, ", rows of ~%08" PRIx32,
                           (uint32_t)hash_bytes(of->text, of->bytes, 0));
        }
}

/* Describes the columns of the network's input in order: for a field the floats of its vector and
 * its pooling, for a number its transform. */
static int input_text(const struct features *f, const struct job *job, struct legend *out,
                      struct err *e)
{
    static const char *const pooled[] = {
        [POOL_SUM] = "", [POOL_MEAN] = " mean", [POOL_ATTENTION] = " attention"};
    char name[LEGEND_NAME], kind[LEGEND_WHAT];
    size_t bytes = 0;
    FILE *t = open_memstream(&out->input, &bytes);
    if (t == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        feature_use_name(f, &f->field[i], name);
        fprintf(t, "%s%s %u%s", text_if(i > 0, ", "), name, job->table[f->shape.table[i]].dim,
                pooled[f->shape.pooling[i]]);
        if (f->shape.most[i] > 0)
            fprintf(t, " last %u", f->shape.most[i]);
    }
    for (uint32_t i = 0; i < f->shape.numerics; i++) {
        feature_use_name(f, &f->numeric[i], name);
        feature_kind(f, &f->numeric[i], kind);
        /* "age log1p": without the word number */
        fprintf(t, "%s%s%s", text_if(i + f->shape.fields > 0, ", "), name, kind + strlen("number"));
    }
    if (fclose(t) != 0 || out->input == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");

    return 0;
}

/* Positions of the labels, where columns are named by position. */
static void place_text(const struct features *f, const struct job *job, char out[LIMIT_NAME])
{
    bool named = f->header || f->format->keyed || f->format->columns != NULL ||
                 (f->format->named && job->data.column_count > 0);
    size_t at = 0;
    out[0] = 0;
    for (uint32_t i = 0; !named && i < f->shape.tasks && at < LIMIT_NAME; i++)
        at +=
            (size_t)snprintf(out + at, LIMIT_NAME - at, "%s%u", text_if(i > 0, ", "), f->label[i]);
}

static int labels_text(const struct features *f, const struct job *job, struct legend *out,
                       struct err *e)
{
    size_t bytes = 0;
    FILE *t = open_memstream(&out->labels, &bytes);
    for (uint32_t i = 0; t != NULL && i < f->shape.tasks; i++)
        fprintf(t, "%s%s", text_if(i > 0, ", "), job->data.label[i]);

    if (t == NULL || fclose(t) != 0)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");

    return 0;
}

/* Adds the figures that were taken from the data. */
static int figures_put(const struct features *f, struct legend *out, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->scales && rc == 0; i++) {
        const struct scale *s = &f->scale[i];
        char name[LEGEND_NAME], text[SCALE_TEXT];
        if (!s->known || (s->transform != NUMBER_STANDARD && s->quantiles == 0))
            continue;
        feature_column_name(f, f->scaled[i], name);
        scale_text(s, text);
        rc = legend_figures_put(out, name, text, e);
    }
    return rc;
}

int feature_legend(const struct features *f, const struct job *job, struct legend *out,
                   struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++) {
        char name[LEGEND_NAME], kind[LEGEND_WHAT];
        feature_use_name(f, &f->field[i], name);
        field_kind(f, i, kind);
        rc = legend_add(out, LEGEND_FIELDS, name, job->table[f->shape.table[i]].name, kind, e);
    }
    for (uint32_t i = 0; i < f->shape.numerics && rc == 0; i++) {
        char name[LEGEND_NAME], kind[LEGEND_WHAT];
        feature_use_name(f, &f->numeric[i], name);
        feature_kind(f, &f->numeric[i], kind);
        rc = legend_add(out, LEGEND_NUMBERS, name, "", kind, e);
    }
    if (rc == 0)
        rc = figures_put(f, out, e);
    place_text(f, job, out->place);
    out->real = job_real_labels(job);
    out->columns = out->place[0] != 0 ? f->columns : 0;
    if (rc == 0)
        rc = input_text(f, job, out, e);
    if (rc != 0)
        return rc;

    return labels_text(f, job, out, e);
}

static int words_put(struct legend *out, enum legend_reading which, const struct string_list *words,
                     struct err *e)
{
    int rc = 0;
    for (size_t i = 0; i < words->count && rc == 0; i++)
        rc = legend_reading_add(out, which, words->item[i], e);
    return rc;
}

static bool column_whole(const struct features *f, const struct job *job, uint32_t column)
{
    const struct column *c = NULL, *all = job->data.column;
    for (size_t i = 0; i < job->data.column_count && c == NULL; i++)
        if (feature_names_find(f, all[i].name) == column)
            c = &all[i];
    if (c == NULL && job->data.rest_said)
        c = &job->data.rest;
    return c != NULL && c->whole && !c->id;
}

/* True when some column of the field has `whole`. */
static bool field_whole(const struct features *f, const struct job *job,
                        const struct feature_use *use)
{
    bool whole = false;
    if (use->type == COLUMN_CATEGORY)
        return column_whole(f, job, use->column);
    if (use->type != COLUMN_CROSS || use->at == FEATURE_PLAIN)
        return false;
    const struct feature_cross *x = &f->cross[use->at];
    for (uint32_t i = 0; i < x->parts; i++)
        whole |= x->part[i].type == COLUMN_CATEGORY && column_whole(f, job, x->part[i].column);
    return whole;
}

int feature_reading(const struct features *f, const struct job *job, struct legend *out,
                    struct err *e)
{
    char name[LEGEND_NAME];
    int rc = legend_reading_begin(out, e);
    if (rc == 0)
        rc = words_put(out, LEGEND_MISSING, &job->data.missing, e);
    if (rc == 0)
        rc = words_put(out, LEGEND_POSITIVE, &job->data.label_positive, e);
    if (rc == 0 && f->entries == ENTRIES_INDEXES)
        rc = legend_reading_add(out, LEGEND_ENTRIES, WORD_INDEXES, e);
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++) {
        feature_use_name(f, &f->field[i], name);
        if (field_whole(f, job, &f->field[i]))
            rc = legend_reading_add(out, LEGEND_WHOLE, name, e);
    }
    return rc;
}
