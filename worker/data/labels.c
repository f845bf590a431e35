/* labels.c: distinct values of a split's labels. */
#include "worker/data/labels.h"

#include "proto/base/minmax.h"
#include "worker/data/sample.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define VALUES_TOLD 3u

/* The values of one label. */
struct seen {
    double value[VALUES_TOLD]; /* the first distinct values */
    uint32_t values;           /* VALUES_TOLD + 1: more */
    uint64_t labels, above;
};

static void seen_add(struct seen *s, double value, double label_above)
{
    uint32_t i = 0;
    s->labels++;
    s->above += value > label_above;
    while (i < s->values && i < VALUES_TOLD && s->value[i] != value)
        i++;
    if (i == s->values && i < VALUES_TOLD)
        s->value[i] = value;
    if (i == s->values)
        s->values++;
}

struct look {
    const struct features *features;
    struct seen seen[LIMIT_TASKS];
};

static int row_look(void *context, const struct cell *cell)
{
    struct look *l = context;
    const struct features *f = l->features;
    double value;
    for (uint32_t t = 0; t < f->shape.tasks; t++)
        if (feature_label(&cell[f->label[t]], &value))
            seen_add(&l->seen[t], value, f->label_above);
    return 0;
}

static void values_told(const struct seen *s, char *text, size_t bytes)
{
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < s->values && i < VALUES_TOLD && n < bytes; i++)
        n += (size_t)snprintf(text + n, bytes - n, "%s%g", i > 0 ? ", " : "", s->value[i]);
    if (s->values > VALUES_TOLD && n < bytes)
        (void)snprintf(text + n, bytes - n, " and others");
}

/* Labels that the job already splits at a threshold may have many values. */
static void judge(const struct seen *s, const struct cell *name, const struct features *f,
                  bool real, char *text)
{
    double label_above = f->label_above;
    char values[96];
    int shown = (int)MIN(name->bytes, LIMIT_NAME - 1);
    values_told(s, values, sizeof values);
    if (real && s->labels > 1 && s->values == 1)
        (void)snprintf(text, ERR_TEXT_MAX,
                       "label \"%.*s\": all %" PRIu64 " lines looked at have the number %s, so "
                       "there is nothing to learn; look at data.label",
                       shown, name->text, s->labels, values);
    if (real)
        return;
    if (s->labels > 0 && (s->above == 0 || s->above == s->labels))
        (void)snprintf(text, ERR_TEXT_MAX,
                       "label \"%.*s\": all %" PRIu64 " lines looked at count as %d, for their "
                       "values (%s) are %s data.label_above: %g, so there is nothing to learn; "
                       "look at data.label, or set data.label_above between two classes",
                       shown, name->text, s->labels, s->above > 0, values,
                       s->above > 0 ? "above" : "not above", label_above);
    else if (s->values > 2 && !f->label_parted)
        (void)snprintf(text, ERR_TEXT_MAX,
                       "label \"%.*s\" has more than two values (%s): those above "
                       "data.label_above: %g count as 1, others as 0; if the classes part "
                       "elsewhere, set data.label_above there",
                       shown, name->text, values, label_above);
}

void labels_look(const struct source *s, const struct index *x, const struct features *f,
                 char text[ERR_TEXT_MAX])
{
    struct look look = {.features = f};
    struct err e;
    text[0] = '\0';
    if (sample_walk(s, x, f, SAMPLE_ROWS, row_look, &look, &e) != 0)
        return;
    for (uint32_t t = 0; t < f->shape.tasks && text[0] == '\0'; t++)
        judge(&look.seen[t], &f->name[f->label[t]], f, f->real >> t & 1, text);
}
