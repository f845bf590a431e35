/* feature_predict.c: features of a prediction: columns to pass on, and labels that may be
 * missing. */
#include "worker/data/feature.h"

#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "worker/data/feature_inner.h"

#include <stdlib.h>
#include <string.h>

static bool is_label(const struct features *f, uint32_t column)
{
    bool is = false;
    for (uint32_t t = 0; t < f->shape.tasks; t++)
        is |= f->label[t] == column;
    return is;
}

void features_unlabelled(const struct features *f, struct cell *cell)
{
    uint32_t from = f->columns, tasks = f->shape.tasks;
    SHOAL_ASSERT(f->unlabelled && !f->header && f->columns + tasks <= CELLS_MAX);
    for (uint32_t at = f->columns + tasks; at-- > 0;)
        cell[at] = is_label(f, at) ? (struct cell){"", 0} : cell[--from];
    SHOAL_ASSERT(from == 0);
}

/* True when the line has `columns` cells in this format; works on a copy. */
static bool fits(const struct features *f, const struct cell *line, struct cell *cell)
{
    char reason[REASON_BYTES], *copy = malloc(line->bytes + 1);
    bool good = copy != NULL;
    if (good) {
        memcpy(copy, line->text, line->bytes);
        good = f->format->line(f, copy, line->bytes, cell, reason) == 0;
    }
    free(copy);
    return good;
}

/* Without a header the first row decides: it fits the format with its labels, or without them. A
 * row that fits neither is malformed. */
static int labels_look_for(struct features *f, const struct cell *line, struct err *e)
{
    struct cell *cell = malloc(CELLS_MAX * sizeof *cell);
    if (cell == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the cells of a line; free some");
    if (f->columns > f->shape.tasks && !fits(f, line, cell)) {
        f->columns -= f->shape.tasks;
        f->unlabelled = true;
        if (!fits(f, line, cell)) {
            f->columns += f->shape.tasks;
            f->unlabelled = false;
        }
    }
    free(cell);
    return 0;
}

int features_predict(struct features *f, const struct job *job, const char *name,
                     const struct cell *line, struct err *e)
{
    const struct string_list *columns = &job->predict.columns;
    SHOAL_ASSERT(f->predict);
    if (columns->count > LIMIT_PASS)
        return err_set(e, SHOAL_E_USAGE, "%zu columns to pass on, at most %u are; take some out",
                       columns->count, LIMIT_PASS);
    for (size_t i = 0; i < columns->count; i++) {
        f->pass[i] = feature_names_find(f, columns->item[i]);
        if (f->pass[i] == FEATURE_NO_COLUMN)
            return feature_names_missing(f, name, "--column", columns->item[i], e);
        if (f->format->keyed)
            keyed_want(&f->keyed, f->pass[i]);
    }
    f->pass_count = (uint32_t)columns->count;
    f->weight = f->time = FEATURE_NO_COLUMN; /* a prediction needs neither */

    if (f->header || f->format->keyed)
        return 0;

    return labels_look_for(f, line, e);
}
