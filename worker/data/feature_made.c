/* feature_made.c: features that are made of columns: scales of numbers, indicators of missing ones,
 * and crosses. */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"
#include "proto/base/hash.h"
#include "proto/base/minmax.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- numbers --------------------------------------------------------------------------------- */

enum number_transform feature_transform(const struct feature_plan *p, uint32_t column)
{
    const struct column *c = p->column[column];
    if (c != NULL && c->scaled)
        return c->scale.transform;
    return p->job->features.number;
}

/* The scale that the job gives a column. The figures that the tables know come first: those of an
 * event file may be another sample's. */
static struct scale scale_of_job(const struct feature_plan *p, const struct features *f,
                                 uint32_t column)
{
    const struct column *c = p->column[column];
    struct scale s = {.transform = feature_transform(p, column)}, kept;
    s.known = s.transform != NUMBER_STANDARD;
    if (c != NULL && c->scaled)
        s = c->scale;
    s.filled = c != NULL && c->filled;
    if (s.filled)
        s.fill = c->scale.fill;
    char name[LEGEND_NAME];
    feature_column_name(f, column, name);
    const char *text = legend_figures_of(&p->job->legend, name);
    if (text != NULL && scale_parse(text, &kept))
        (void)scale_take(&s, &kept);
    return s;
}

int feature_scale_add(const struct feature_plan *p, struct features *f, uint32_t column,
                      uint32_t *at, struct err *e)
{
    struct scale s = scale_of_job(p, f, column);
    bool plain = s.transform != NUMBER_STANDARD && !s.filled && s.borders == 0 && s.quantiles == 0;
    *at = FEATURE_PLAIN;
    if (plain)
        return 0;
    for (uint32_t i = 0; i < f->scales; i++)
        if (f->scaled[i] == column) {
            *at = i;
            return 0;
        }
    if (f->scale == NULL) {
        f->scale = calloc(f->columns, sizeof *f->scale);
        f->scaled = calloc(f->columns, sizeof *f->scaled);
    }
    if (f->scale == NULL || f->scaled == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for its numbers; free some", p->file);
    SHOAL_ASSERT(f->scales < f->columns);
    f->scaled[f->scales] = (uint16_t)column;
    f->scale[f->scales] = s;
    *at = f->scales++;
    return 0;
}

bool features_figured(const struct features *f)
{
    bool known = true;
    for (uint32_t i = 0; i < f->scales; i++)
        known &= f->scale[i].known;
    return known;
}

/* ---- crosses --------------------------------------------------------------------------------- */

/* Refuses a column that has no single value known before the label. */
static int part_check(const struct feature_plan *p, const struct features *f, uint32_t column,
                      const char *name, struct err *e)
{
    const char *what = NULL;
    if (p->type[column] == COLUMN_LABEL)
        what = "the label";
    else if (column == f->weight)
        what = "the weight";
    else if (column == f->time)
        what = "the time";
    else if (p->type[column] == COLUMN_SKIP)
        what = "skipped (leave it out with features.fields instead)";
    else if (p->type[column] == COLUMN_MULTI)
        what = "of type multi, with several values";
    else if (p->type[column] == COLUMN_NUMBER && feature_transform(p, column) != NUMBER_BUCKET)
        what = "a number; give it transform: bucket, so that it has few values";
    if (what == NULL)
        return 0;
    return err_set(e, SHOAL_E_CONFIG, "features.crosses names column \"%s\", which is %s", name,
                   what);
}

static int cross_make(const struct feature_plan *p, struct features *f, const struct job_cross *of,
                      struct feature_cross *x, struct err *e)
{
    size_t n = 0;
    x->field = FEATURE_NO_FIELD; /* until it is made here, and no column of an event file */
    for (uint32_t i = 0; i < of->columns; i++) {
        uint32_t column = feature_names_find(f, of->column[i]);
        if (column == FEATURE_NO_COLUMN)
            return feature_names_missing(f, p->file, "features.crosses", of->column[i], e);
        int rc = part_check(p, f, column, of->column[i], e);
        if (rc != 0)
            return rc;
        struct feature_use *use = &x->part[i];
        *use = (struct feature_use){.column = (uint16_t)column, .type = COLUMN_CATEGORY};
        use->at = FEATURE_PLAIN;
        if (p->type[column] == COLUMN_NUMBER) {
            use->type = COLUMN_NUMBER;
            rc = feature_scale_add(p, f, column, &use->at, e);
        }
        if (rc != 0)
            return rc;
        const struct cell *name = &f->name[column];
        n += (size_t)snprintf(x->name + n, sizeof x->name - n, "%s%.*s", i > 0 ? " x " : "",
                              (int)MIN(name->bytes, LIMIT_NAME - 1), name->text);
    }
    x->parts = of->columns;
    return 0;
}

int feature_crosses_make(const struct feature_plan *p, struct features *f, struct err *e)
{
    int rc = 0;
    uint32_t count = p->job->features.cross_count;
    if (count == 0)
        return 0;
    f->cross = calloc(count, sizeof *f->cross);
    if (f->cross == NULL)
        return err_set(e, SHOAL_E_NOMEM, "%s: no memory for %u crosses; free some", p->file, count);
    for (uint32_t i = 0; i < count && rc == 0; i++, f->crosses++)
        rc = cross_make(p, f, &p->job->features.cross[i], &f->cross[i], e);
    return rc;
}

uint32_t feature_cross_named(const struct features *f, const char *name)
{
    for (uint32_t i = 0; i < f->crosses; i++)
        if (strcmp(f->cross[i].name, name) == 0)
            return f->cross[i].field;
    return FEATURE_NO_FIELD;
}

uint32_t feature_cross_hash(const struct features *f, const struct feature_cross *x)
{
    uint64_t hash = 0;
    char text[SCALE_TEXT] = "bucket";
    for (uint32_t i = 0; i < x->parts; i++) {
        const struct feature_use *part = &x->part[i];
        if (part->type != COLUMN_NUMBER)
            continue;
        if (part->at != FEATURE_PLAIN)
            scale_text(&f->scale[part->at], text);
        hash = hash_bytes(text, strlen(text), hash + i + 1);
    }
    return (uint32_t)hash;
}

/* ---- names and kinds ------------------------------------------------------------------------- */

static bool made(const struct feature_use *use, enum column_type type)
{
    return use->type == type && use->at != FEATURE_PLAIN;
}

void feature_use_name(const struct features *f, const struct feature_use *use,
                      char out[LEGEND_NAME])
{
    char name[LEGEND_NAME], missing[LEGEND_NAME + 8];
    if (made(use, COLUMN_CROSS)) {
        legend_write(f->cross[use->at].name, strlen(f->cross[use->at].name), 1, out);
        return;
    }
    feature_column_name(f, use->column, name);
    if (made(use, COLUMN_MISSING)) {
        int n = snprintf(missing, sizeof missing, "missing %s", name);
        legend_write(missing, (size_t)n, 1, out);
        return;
    }
    (void)snprintf(out, LEGEND_NAME, "%s", name);
}

void feature_use_shown(const struct features *f, const struct feature_use *use,
                       char out[FEATURE_SHOWN])
{
    const struct cell *name = &f->name[use->column];
    if (made(use, COLUMN_CROSS))
        (void)snprintf(out, FEATURE_SHOWN, "%s", f->cross[use->at].name);
    else
        (void)snprintf(out, FEATURE_SHOWN, "%s%.*s", made(use, COLUMN_MISSING) ? "missing " : "",
                       (int)MIN(name->bytes, LIMIT_NAME - 1), name->text);
}

/* The rule of a number; plain ones have the words of former releases. */
static void number_kind(const struct features *f, const struct feature_use *use, bool field,
                        char out[LEGEND_WHAT])
{
    char rule[SCALE_RULE_TEXT] = "bucket";
    if (use->at != FEATURE_PLAIN)
        scale_rule(&f->scale[use->at], rule);
    else if (!field)
        (void)snprintf(rule, sizeof rule, "%s", use->transform == NUMBER_LOG1P ? "log1p" : "");
    (void)snprintf(out, LEGEND_WHAT, "%s%s%s", field ? "" : "number",
                   !field && rule[0] != 0 ? " " : "", rule);
}

void feature_kind(const struct features *f, const struct feature_use *use, char out[LEGEND_WHAT])
{
    bool field = use >= f->field && use < f->field + f->shape.fields;
    const char *kind = "category";
    uint32_t parts = 0;
    switch (use->type) {
    case COLUMN_NUMBER:
        number_kind(f, use, field, out);
        return;
    case COLUMN_MISSING:
        kind = "number missing";
        break;
    case COLUMN_CROSS:
        parts = f->crossed[use - f->field];
        if (made(use, COLUMN_CROSS))
            parts = feature_cross_hash(f, &f->cross[use->at]);
        kind = "cross";
        break;
    case COLUMN_MULTI:
        kind = use->id ? KIND_MULTI_ID : KIND_MULTI;
        if (f->multi_form[use - f->field] != MULTI_PLAIN)
            kind = use->id ? KIND_MULTI_ID KIND_WEIGHTED : KIND_MULTI KIND_WEIGHTED;
        break;
    default:
        kind = use->id ? KIND_ID : "category";
    }
    (void)snprintf(out, LEGEND_WHAT, "%s", kind);
    if (parts != 0)
        (void)snprintf(out, LEGEND_WHAT, "%s ~%08" PRIx32, kind, parts);
}
