/* feature_types.c: the type of each column, from the job and the format. */
#include "worker/data/feature_inner.h"

#include <stdio.h>
#include <string.h>

/* Columns that data.columns does not name keep their default type. */
static int types_of_job(struct feature_plan *p, struct features *f, struct err *e)
{
    bool positional = !f->header && !f->format->keyed;
    for (size_t i = 0; i < p->job->data.column_count; i++) {
        const struct column *c = &p->job->data.column[i];
        uint32_t at;
        if (positional)
            at = (uint32_t)i;
        else
            at = feature_names_find(f, c->name);
        if (at == FEATURE_NO_COLUMN && f->predict &&
            (c->type == COLUMN_LABEL || c->type == COLUMN_SKIP)) {
            f->unlabelled |= c->type == COLUMN_LABEL;
            continue;
        }
        if (at == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "data.columns", c->name, e);
        if (p->column[at] != NULL)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns names column \"%s\" twice; take one out", c->name);
        p->type[at] = (uint8_t)c->type;
        p->column[at] = c;
    }
    return 0;
}

static int label_take(struct feature_plan *p, struct features *f, uint32_t task, const char *name,
                      struct err *e)
{
    uint32_t at = feature_names_find(f, name);
    if (at == FEATURE_NO_COLUMN && f->predict) {
        f->unlabelled = true;
        return 0;
    }
    if (at == FEATURE_NO_COLUMN)
        return feature_names_missing(f, p->file, "data.label", name, e);
    if (p->column[at] != NULL && p->type[at] != COLUMN_SKIP && p->type[at] != COLUMN_LABEL)
        return err_set(e, SHOAL_E_CONFIG,
                       "column \"%s\" is the label (data.label: %s) and has another type in "
                       "data.columns; give it "
                       "type: label, or name the right one in data.label",
                       p->column[at]->name, name);
    for (uint32_t i = 0; i < task; i++)
        if (f->label[i] == at)
            return err_set(e, SHOAL_E_CONFIG, "data.label names column \"%s\" twice; take one out",
                           name);
    f->label[task] = at;
    return 0;
}

/* Finds columns of type label that data.label does not name. In a job that names no label one such
 * column is the label, *only; otherwise they are a contradiction. */
static int labels_typed(struct feature_plan *p, struct features *f, uint32_t tasks, uint32_t *only,
                        struct err *e)
{
    *only = FEATURE_NO_COLUMN;
    for (uint32_t i = 0; i < f->columns; i++) {
        bool named = false;
        for (uint32_t t = 0; tasks > 1 && t < tasks; t++)
            named |= f->label[t] == i;
        if (p->type[i] != COLUMN_LABEL || named)
            continue;
        if (tasks > 1)
            return err_set(e, SHOAL_E_CONFIG,
                           "column \"%s\" has type label in data.columns and is not in data.label; "
                           "name it there too, or "
                           "give it type: skip",
                           p->column[i]->name);
        if (*only != FEATURE_NO_COLUMN)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns has two columns of type label: \"%s\" and \"%s\"; keep "
                           "one, or name both in "
                           "data.label",
                           p->column[*only]->name, p->column[i]->name);
        *only = i;
    }
    return 0;
}

/* Several labels are those of data.label, in its order. A single label is the column of type label,
 * or the one that data.label names. */
static int labels_of_job(struct feature_plan *p, struct features *f, struct err *e)
{
    uint32_t tasks = f->shape.tasks, only;
    const char *name = "0";
    if (p->job->data.label[0][0] != '\0')
        name = p->job->data.label[0];

    int rc = 0;
    for (uint32_t i = 0; tasks > 1 && i < tasks && rc == 0; i++)
        rc = label_take(p, f, i, p->job->data.label[i], e);
    if (rc == 0)
        rc = labels_typed(p, f, tasks, &only, e);
    if (rc == 0 && tasks == 1 && only != FEATURE_NO_COLUMN)
        f->label[0] = only;
    else if (rc == 0 && tasks == 1 && !f->unlabelled)
        rc = label_take(p, f, 0, name, e);
    for (uint32_t i = 0; i < tasks && rc == 0 && !f->unlabelled; i++)
        p->type[f->label[i]] = COLUMN_LABEL;
    return rc;
}

/* Finds the column that a key of the job names; FEATURE_NO_COLUMN: it names none, or the file is
 * only predicted and lacks it. */
static int column_named(const struct feature_plan *p, struct features *f, const char *key,
                        const char *name, uint32_t *at, struct err *e)
{
    *at = FEATURE_NO_COLUMN;
    if (name[0] == '\0')
        return 0;
    *at = feature_names_find(f, name);
    if (*at == FEATURE_NO_COLUMN && !f->predict)
        return feature_names_missing(f, p->file, key, name, e);
    return 0;
}

static int weight_of_job(struct feature_plan *p, struct features *f, struct err *e)
{
    const char *name = p->job->data.weight;
    uint32_t at;
    int rc = column_named(p, f, "data.weight", name, &at, e);
    if (rc != 0 || at == FEATURE_NO_COLUMN)
        return rc;
    if (p->type[at] == COLUMN_LABEL)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.weight names column \"%s\", which is a label; name another", name);
    if (p->column[at] != NULL && p->type[at] != COLUMN_NUMBER && p->type[at] != COLUMN_SKIP)
        return err_set(e, SHOAL_E_CONFIG,
                       "column \"%s\" is the weight (data.weight) and a category in data.columns; "
                       "give it type: number",
                       p->column[at]->name);
    p->type[at] = COLUMN_SKIP;
    f->weight = at;
    return 0;
}

static int time_of_job(struct feature_plan *p, struct features *f, struct err *e)
{
    const char *name = p->job->data.time;
    uint32_t at;
    int rc = column_named(p, f, "data.time", name, &at, e);
    if (rc != 0 || at == FEATURE_NO_COLUMN)
        return rc;
    if (p->type[at] == COLUMN_LABEL || at == f->weight)
        return err_set(e, SHOAL_E_CONFIG,
                       "data.time names column \"%s\", which is %s; name another", name,
                       at == f->weight ? "the weight" : "a label");
    if (p->column[at] != NULL && p->type[at] != COLUMN_NUMBER && p->type[at] != COLUMN_SKIP)
        return err_set(e, SHOAL_E_CONFIG,
                       "column \"%s\" is the time (data.time) and a category in data.columns; give "
                       "it type: skip",
                       p->column[at]->name);
    p->type[at] = COLUMN_SKIP;
    f->time = at;
    return 0;
}

/* Skips the impression's id: it predicts nothing about the next impression. */
static void id_of_join(struct feature_plan *p, const struct features *f)
{
    uint32_t at = FEATURE_NO_COLUMN;
    if (p->job->data.join.on)
        at = feature_names_find(f, p->job->data.join.id);
    if (at != FEATURE_NO_COLUMN && p->type[at] != COLUMN_LABEL)
        p->type[at] = COLUMN_SKIP;
}

/* Types that the format fixes. */
static void types_of_format(struct feature_plan *p, const struct features *f)
{
    const struct format_columns *c = f->format->columns;
    for (uint32_t at = 0; c != NULL && c->count > 0; at += c++->count)
        memset(p->type + at, (int)c->type, c->count);
    if (f->entries == ENTRIES_PLACES)
        return;
    memset(p->type + 1, COLUMN_MULTI, f->columns - 2);
    p->type[f->columns - 1] = COLUMN_SKIP; /* qid */
}

/* Applies data.columns to columns whose types the format fixes. It may only change whether they are
 * used and how their values are looked up. */
static int columns_of_format(struct feature_plan *p, struct features *f, struct err *e)
{
    static const char *const types[] = {[COLUMN_LABEL] = "the label",
                                        [COLUMN_SKIP] = "skipped",
                                        [COLUMN_CATEGORY] = "a category",
                                        [COLUMN_MULTI] = "multi",
                                        [COLUMN_NUMBER] = "a number"};
    for (size_t i = 0; i < p->job->data.column_count; i++) {
        const struct column *c = &p->job->data.column[i];
        uint32_t at = feature_names_find(f, c->name);
        if (at == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "data.columns", c->name, e);
        if (p->column[at] != NULL)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns names column \"%s\" twice; take one out", c->name);
        if (c->type != p->type[at] && (c->type != COLUMN_SKIP || p->type[at] == COLUMN_LABEL))
            return err_set(e, SHOAL_E_CONFIG,
                           "data.columns gives column \"%s\" another type, in %s it is %s; give "
                           "it that type, or use csv",
                           c->name, format_name(p->job->data.format), types[p->type[at]]);
        p->type[at] = (uint8_t)c->type;
        p->column[at] = c;
    }
    return 0;
}

/* Gives columns without an entry the type of the entry called "*". */
static void rest_apply(struct feature_plan *p, const struct features *f)
{
    const struct column *c = &p->job->data.rest;
    for (uint32_t i = 0; i < f->columns; i++)
        if (p->column[i] == NULL && p->type[i] == COLUMN_CATEGORY) {
            p->type[i] = (uint8_t)c->type;
            p->column[i] = c;
        }
}

int feature_types_make(struct feature_plan *p, struct features *f, struct err *e)
{
    int rc = 0;
    memset(p->type, COLUMN_CATEGORY, f->columns);
    types_of_format(p, f);
    if (!f->format->named) {
        if (f->shape.tasks > 1)
            return err_set(e, SHOAL_E_CONFIG,
                           "data.label names %u labels; a line of %s has one: use csv for several",
                           f->shape.tasks, format_name(p->job->data.format));
        p->type[0] = COLUMN_LABEL;
        f->label[0] = 0;
        rc = columns_of_format(p, f, e);
    } else {
        if (p->job->data.column_count > 0)
            rc = types_of_job(p, f, e);
        if (rc == 0)
            rc = labels_of_job(p, f, e);
    }
    id_of_join(p, f);
    if (rc == 0)
        rc = weight_of_job(p, f, e);
    if (rc == 0)
        rc = time_of_job(p, f, e);
    if (rc == 0 && f->format->named && p->job->data.rest_said)
        rest_apply(p, f);
    return rc;
}
