/* feature_plan.c: decides from job and columns which column is which field or number. */
#include "worker/data/feature.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "worker/data/feature_inner.h"
#include "worker/data/numbers.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- fields that refer to other fields ---- */

/* Finds the field that `key` (share, attend) of field i names. */
static int other_field(const struct feature_plan *p, const struct features *f, uint32_t i,
                       const char *key, const char *name, uint32_t *out, struct err *e)
{
    const struct feature_columns columns = {p->file, p->field};
    char path[LIMIT_NAME + 32];
    snprintf(path, sizeof path, "%s of column \"%s\"", key, p->column[f->field[i].column]->name);
    int rc = feature_table_named(f, &columns, path, name, out, e);
    if (rc == 0 && *out == i)
        return err_set(e, SHOAL_E_CONFIG, "%s names the column itself; name another", path);
    return rc;
}

static int share_make(const struct feature_plan *p, struct features *f, uint32_t i,
                      const struct column *c, struct err *e)
{
    uint32_t other;
    int rc = other_field(p, f, i, "share", c->share, &other, e);
    if (rc != 0)
        return rc;
    const struct column *of = p->column[f->field[other].column];
    if (of != NULL && of->share[0] != '\0')
        return err_set(
            e, SHOAL_E_CONFIG,
            "share of column \"%s\" names \"%s\", which shares with \"%s\": name that one", c->name,
            c->share, of->share);
    f->field[i].key_field = (uint16_t)other;
    return 0;
}

static int attend_make(const struct feature_plan *p, struct features *f, uint32_t i,
                       const struct column *c, struct err *e)
{
    uint32_t target;
    if (f->field[i].type != COLUMN_MULTI)
        return err_set(
            e, SHOAL_E_CONFIG,
            "column \"%s\" has pooling attention and is not of type multi; give it type: multi",
            c->name);
    int rc = other_field(p, f, i, "attend", c->attend, &target, e);
    if (rc == 0 && f->field[target].type == COLUMN_MULTI)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "attend of column \"%s\" names \"%s\", which has several values: name a "
                     "column with one",
                     c->name, c->attend);
    if (rc == 0)
        f->shape.attend[i] = (uint16_t)target;
    return rc;
}

static int links_make(const struct feature_plan *p, struct features *f, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < f->shape.fields && rc == 0; i++) {
        const struct column *c = p->column[f->field[i].column];
        if (f->field[i].type == COLUMN_CROSS)
            continue;
        if (c != NULL && c->share[0] != '\0')
            rc = share_make(p, f, i, c, e);
        if (rc == 0 && c != NULL && c->pooling == POOL_ATTENTION)
            rc = attend_make(p, f, i, c, e);
    }
    return rc;
}

/* Finds the fields of the gates (model.gate_fields). */
static int gates_make(const struct feature_plan *p, struct features *f, struct err *e)
{
    const struct feature_columns columns = {p->file, p->field};
    int rc = 0;
    if (p->job->model.gate_field[0][0] == '\0')
        return 0;
    for (uint32_t i = 0; i < 2 && rc == 0; i++) {
        uint32_t field = 0;
        rc = feature_table_named(f, &columns, "model.gate_fields", p->job->model.gate_field[i],
                                 &field, e);
        f->shape.gate_field[i] = (uint16_t)field;
    }
    f->shape.gate_fields = 2;
    return rc;
}

static int evaluate_columns(const struct feature_plan *p, struct features *f, struct err *e)
{
    const char *group = p->job->evaluate.group;
    const struct string_list *by = &p->job->evaluate.by;
    if (group[0] != '\0') {
        f->group = feature_names_find(f, group);
        if (f->group == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "evaluate.group", group, e);
    }
    if (by->count > LIMIT_BY)
        return err_set(e, SHOAL_E_CONFIG,
                       "evaluate.by names %zu columns, at most %u are told apart; take some out",
                       by->count, LIMIT_BY);
    for (size_t i = 0; i < by->count; i++) {
        f->by[i] = feature_names_find(f, by->item[i]);
        if (f->by[i] == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "evaluate.by", by->item[i], e);
    }
    f->by_count = (uint32_t)by->count;
    return 0;
}

static int sample_column(const struct feature_plan *p, struct features *f, struct err *e)
{
    const char *name = p->job->data.sample_by;
    if (name[0] == '\0' || f->predict)
        return 0;
    f->sample = feature_names_find(f, name);
    if (f->sample == FEATURE_NO_COLUMN)
        return feature_names_missing(f, p->file, "data.sample_by", name, e);
    for (uint32_t i = 0; i < f->shape.tasks; i++)
        if (f->label[i] == f->sample)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.sample_by names column \"%s\", which is a label: its values would "
                           "be learnt whole or not at all; name another",
                           name);
    return 0;
}

/* Gives keys and rules the final field numbers; up to here fields are known by their places. */
static int numbers_take(const struct feature_plan *p, struct features *f, struct err *e)
{
    uint16_t number[LIMIT_FIELDS];
    uint32_t left = legend_numbers(&p->job->legend, LEGEND_FIELDS, number), given = 0;
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        char name[LEGEND_NAME];
        feature_use_name(f, &f->field[i], name);
        uint32_t known = feature_number_named(p, false, name);
        if (known == LEGEND_NONE && given++ < left)
            known = number[given - 1];
        f->shape.number[i] = (uint16_t)known;
    }
    if (given > left)
        return legend_full(LEGEND_FIELDS, LIMIT_FIELDS - left + given, e);
    for (uint32_t i = 0; i < f->shape.fields; i++) {
        f->field[i].key_field = f->shape.number[f->field[i].key_field];
        f->table_of[f->shape.number[i]] = f->shape.table[i];
    }
    for (uint32_t i = 0; i < f->rules; i++)
        f->shape.rule_field[i] = f->shape.number[f->shape.rule_field[i]];
    return 0;
}

/* Notes what is to be cleaned in a column that is read. */
static void clean_mark_column(const struct feature_plan *p, uint32_t column, uint8_t *what)
{
    const struct column *c = p->column[column];
    uint8_t type = p->type[column];
    if (type == COLUMN_NUMBER)
        what[column] = CLEAN_NUMBER;
    else if (type == COLUMN_CATEGORY && c != NULL && c->id)
        what[column] = CLEAN_ID;
    else if (type == COLUMN_CATEGORY && c != NULL && c->whole)
        what[column] = CLEAN_WHOLE;
}

/* Finds the columns whose cells are to be cleaned, and makes what cleans them. */
static int clean_take(const struct feature_plan *p, struct features *f, struct err *e)
{
    uint8_t *what = calloc(f->columns, sizeof *what);
    if (what == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its columns; free some", p->file);
    for (uint32_t i = 0; i < f->shape.fields; i++)
        clean_mark_column(p, f->field[i].column, what);
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        clean_mark_column(p, f->numeric[i].column, what);
    for (uint32_t i = 0; i < f->crosses; i++)
        for (uint32_t k = 0; k < f->cross[i].parts; k++)
            clean_mark_column(p, f->cross[i].part[k].column, what);
    int rc = clean_make(f, p->job, what, e);
    free(what);
    return rc;
}

/* How many values a feature of a record may have, and how they are put together. */
static void separators_take(struct features *f)
{
    char *separator = f->keyed.separator;
    if (separator == NULL)
        return;
    for (uint32_t i = 0; i < f->shape.numerics; i++)
        separator[f->numeric[i].column] = KEYED_ONE;
    for (uint32_t i = 0; i < f->shape.fields; i++)
        separator[f->field[i].column] =
            f->field[i].type == COLUMN_MULTI ? f->field[i].separator : KEYED_ONE;
    for (uint32_t i = 0; i < f->crosses; i++)
        for (uint32_t k = 0; k < f->cross[i].parts; k++)
            separator[f->cross[i].part[k].column] = KEYED_ONE;
    for (uint32_t i = 0; i < f->shape.tasks; i++)
        if (f->label[i] != FEATURE_NO_COLUMN)
            separator[f->label[i]] = KEYED_ONE;
    if (f->weight != FEATURE_NO_COLUMN)
        separator[f->weight] = KEYED_ONE;
    if (f->time != FEATURE_NO_COLUMN)
        separator[f->time] = KEYED_ONE;
    for (uint32_t i = 0; i < f->by_count; i++)
        keyed_want(&f->keyed, f->by[i]);
    if (f->group != FEATURE_NO_COLUMN)
        keyed_want(&f->keyed, f->group);
    if (f->sample != FEATURE_NO_COLUMN)
        keyed_want(&f->keyed, f->sample);
}

static int plan_make(struct feature_plan *p, struct features *f, struct err *e)
{
    const struct job *job = p->job;
    const struct feature_columns columns = {p->file, p->field};
    int rc = feature_types_make(p, f, e);
    if (rc == 0)
        rc = feature_crosses_make(p, f, e);
    if (rc == 0)
        rc = feature_choose(p, f, e);
    if (rc == 0 && f->shape.fields + f->shape.numerics == 0)
        rc = err_set(e, SHOAL_E_CONFIG,
                     "%s: no column is left as a feature; look at data.columns and features.fields",
                     p->file);
    if (rc == 0)
        rc = links_make(p, f, e);
    if (rc == 0)
        rc = feature_tables_make(job, f, &columns, e);
    if (rc == 0)
        rc = gates_make(p, f, e);
    if (rc == 0)
        rc = evaluate_columns(p, f, e);
    if (rc == 0)
        rc = sample_column(p, f, e);
    if (rc == 0)
        rc = clean_take(p, f, e);
    if (rc != 0)
        return rc;

    separators_take(f);
    return numbers_take(p, f, e);
}

static int plan_run(const struct job *job, const char *name, struct features *f, struct err *e)
{
    struct feature_plan p = {.job = job, .file = name, .type = calloc(f->columns, 1)};
    int rc = SHOAL_E_NOMEM;
    p.column = calloc(f->columns, sizeof p.column[0]);
    p.field = malloc(f->columns * sizeof p.field[0]);
    if (p.type != NULL && p.column != NULL && p.field != NULL) {
        for (uint32_t i = 0; i < f->columns; i++)
            p.field[i] = FEATURE_NO_FIELD;
        rc = plan_make(&p, f, e);
    } else {
        err_set(e, rc, "%s: no memory for its columns; free some", name);
    }
    free(p.type);
    free(p.column);
    free(p.field);
    return rc;
}

int features_make(const struct job *job, const char *name, const char *head, size_t bytes,
                  struct features *out, struct err *e)
{
    *out = (struct features){.format = format_of(job->data.format),
                             .real = job_real_labels(job),
                             .label_above = job->data.label_above,
                             .label_parted = job->data.label_parted,
                             .weight = FEATURE_NO_COLUMN,
                             .time = FEATURE_NO_COLUMN,
                             .time_form = job->data.time_form,
                             .zone = job->data.zone,
                             .group = FEATURE_NO_COLUMN,
                             .sample = FEATURE_NO_COLUMN,
                             .predict = job->predict.on,
                             .wide = numbers_wide()};
    for (uint32_t i = 0; i < LIMIT_TASKS; i++)
        out->label[i] = FEATURE_NO_COLUMN;
    out->shape.tasks = 1;
    if (job->data.label_count > 1)
        out->shape.tasks = job->data.label_count;

    text_copy(out->delimiter, sizeof out->delimiter, ",");
    if (job->data.delimiter[0] != '\0')
        text_copy(out->delimiter, sizeof out->delimiter, job->data.delimiter);

    out->header = out->format->named && !out->format->keyed && job->data.header;
    for (uint32_t i = 0; i < FEATURE_LOG1P_TABLE; i++)
        out->log1p[i] = feature_log1p(i);
    int rc = feature_names_make(out, job, name, head, bytes, e);
    if (rc == 0)
        rc = plan_run(job, name, out, e);
    if (rc != 0)
        features_free(out);
    return rc;
}

/* Words for a missing value may stand where a number is expected, and words for labels do. Without
 * a header the columns of an unlabelled line have other places. */
uint32_t features_number_column(const struct features *f)
{
    bool elsewhere = f->unlabelled && !f->header;
    if (f->format->framing != FRAMING_CSV || f->clean.missing_count > 0 || elsewhere)
        return 0;
    if (f->clean.positive_count == 0 && f->label[0] < f->columns)
        return f->label[0] + 1;
    if (f->clean.number_count > 0)
        return f->clean.number[0] + 1u;
    return 0;
}

void features_free(struct features *f)
{
    free(f->name);
    free(f->text);
    free(f->span);
    clean_free(&f->clean);
    keyed_free(&f->keyed);
    free(f->scale);
    free(f->scaled);
    free(f->cross);
    f->name = NULL;
    f->text = NULL;
    f->span = NULL;
    f->scale = NULL;
    f->scaled = NULL;
    f->cross = NULL;
}
