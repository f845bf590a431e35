/* feature_bind.c: finds the features in a file whose header has other columns or another order. */
#include "worker/data/feature_inner.h"

#include "proto/base/assert.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The column with this name in the tables (proto/job/legend.h). */
static uint32_t column_called(const struct features *f, const struct cell *wanted)
{
    char name[LEGEND_NAME];
    for (uint32_t i = 0; i < f->columns; i++) {
        feature_column_name(f, i, name);
        if (strlen(name) == wanted->bytes && memcmp(name, wanted->text, wanted->bytes) == 0)
            return i;
    }
    return FEATURE_NO_COLUMN;
}

static bool same_name(const struct cell *a, const struct cell *b)
{
    return a->bytes == b->bytes && memcmp(a->text, b->text, a->bytes) == 0;
}

/* The rank, from 1, of a column among those of its name. */
static uint32_t which_of_name(const struct features *f, uint32_t column)
{
    uint32_t which = 1;
    for (uint32_t i = 0; i < column; i++)
        which += same_name(&f->name[i], &f->name[column]);
    return which;
}

/* The column in `now` with the name and rank that `column` has in `was`, or with its name in the
 * tables when its own name is not unique enough. FEATURE_NO_COLUMN: there is none. */
static uint32_t column_again(const struct features *was, const struct features *now,
                             uint32_t column)
{
    const struct cell *wanted = &was->name[column];
    SHOAL_ASSERT(column < was->columns);
    uint32_t left = which_of_name(was, column);
    for (uint32_t i = 0; i < now->columns; i++)
        if (same_name(&now->name[i], wanted) && --left == 0)
            return i;
    bool other = memchr(wanted->text, '~', wanted->bytes) != NULL ||
                 memchr(wanted->text, '#', wanted->bytes) != NULL;

    if (!other)
        return FEATURE_NO_COLUMN;

    return column_called(now, wanted);
}

/* Replaces *column, of `was`, by the same column in `now`. */
static int rebind(const struct features *was, const struct features *now, const char *name,
                  uint32_t *column, struct err *e)
{
    uint32_t again = column_again(was, now, *column);
    if (again != FEATURE_NO_COLUMN) {
        *column = again;
        return 0;
    }
    const struct cell *wanted = &was->name[*column];
    char text[LIMIT_NAME * 4];
    int shown;
    if (wanted->bytes < sizeof text)
        shown = (int)wanted->bytes;
    else
        shown = (int)sizeof text - 1;

    if (which_of_name(was, *column) > 1)
        feature_column_name(was, *column, text);
    else
        snprintf(text, sizeof text, "%.*s", shown, wanted->text);
    return feature_names_missing(now, name, "the header of the training input", text, e);
}

/* Finds the labels again; a prediction can do without them. */
static void labels_rebind_known(struct features *f, const struct features *now)
{
    for (uint32_t i = 0; i < f->shape.tasks && !f->unlabelled; i++) {
        f->label[i] = column_again(f, now, f->label[i]);
        f->unlabelled |= f->label[i] == FEATURE_NO_COLUMN;
    }
}

/* Replaces *column, the weight or the time, which only training requires. */
static int rebind_learnt(const struct features *f, const struct features *now, const char *name,
                         uint32_t *column, struct err *e)
{
    if (*column == FEATURE_NO_COLUMN)
        return 0;
    if (f->learnt)
        return rebind(f, now, name, column, e);
    *column = column_again(f, now, *column);
    return 0;
}

/* Replaces a list of columns. */
static int list_rebind(const struct features *f, const struct features *now, const char *name,
                       uint16_t *list, uint32_t count, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        uint32_t column = list[i];
        rc = rebind(f, now, name, &column, e);
        list[i] = (uint16_t)column;
    }
    return rc;
}

static int cross_rebind(const struct features *f, const struct features *now, const char *name,
                        struct feature_cross *x, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < x->parts && rc == 0; i++) {
        uint32_t column = x->part[i].column;
        rc = rebind(f, now, name, &column, e);
        x->part[i].column = (uint16_t)column;
    }
    return rc;
}

static int rebind_all(struct features *f, const struct features *now, const char *name,
                      struct err *e)
{
    int rc = 0;
    if (f->predict)
        labels_rebind_known(f, now);
    for (uint32_t i = 0; i < f->shape.tasks && rc == 0 && !f->predict; i++)
        rc = rebind(f, now, name, &f->label[i], e);
    if (rc == 0)
        rc = rebind_learnt(f, now, name, &f->weight, e);
    if (rc == 0)
        rc = rebind_learnt(f, now, name, &f->time, e);
    if (rc == 0 && f->group != FEATURE_NO_COLUMN)
        rc = rebind(f, now, name, &f->group, e);
    if (rc == 0 && f->sample != FEATURE_NO_COLUMN)
        rc = rebind(f, now, name, &f->sample, e);
    for (uint32_t i = 0; i < f->by_count && rc == 0; i++)
        rc = rebind(f, now, name, &f->by[i], e);
    if (rc == 0)
        rc = list_rebind(f, now, name, f->clean.whole, f->clean.whole_count, e);
    if (rc == 0)
        rc = list_rebind(f, now, name, f->clean.number, f->clean.number_count, e);
    if (rc == 0)
        rc = list_rebind(f, now, name, f->scaled, f->scales, e);
    for (uint32_t i = 0; i < f->shape.fields + f->shape.numerics && rc == 0; i++) {
        struct feature_use *use;
        if (i < f->shape.fields)
            use = &f->field[i];
        else
            use = &f->numeric[i - f->shape.fields];
        uint32_t column = use->column;
        rc = rebind(f, now, name, &column, e);
        use->column = (uint16_t)column;
    }
    for (uint32_t i = 0; i < f->crosses && rc == 0; i++)
        rc = cross_rebind(f, now, name, &f->cross[i], e);
    return rc;
}

int features_bind(struct features *f, const char *name, const char *head, size_t bytes,
                  struct err *e)
{
    struct features now = {.format = f->format, .header = true};
    SHOAL_ASSERT(f->header && f->format->named);
    memcpy(now.delimiter, f->delimiter, sizeof now.delimiter);
    int rc = feature_names_make(&now, NULL, name, head, bytes, e);
    if (rc == 0)
        rc = rebind_all(f, &now, name, e);
    if (rc != 0) {
        features_free(&now);
        return rc;
    }
    free(f->name);
    free(f->text);
    f->name = now.name;
    f->text = now.text;
    f->columns = now.columns;
    return 0;
}
