/* labels.c: the lines looked at lie in several places, for a log may be sorted by its label. */
#include "worker/data/labels.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOOK_PLACES 64u
#define LOOK_ROWS 512u /* in each; a split of not more rows in all is read whole */
#define VALUES_TOLD 3u

/* Of one label. */
struct seen {
    double value[VALUES_TOLD]; /* the first that differ */
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

/* Up to `rows` lines from a chunk on. */
static int place_look(struct lines *lines, const struct source *s, const struct index *x,
                      const struct features *f, uint64_t chunk, uint64_t rows, struct cell *cell,
                      struct seen *seen)
{
    struct line line;
    struct err e;
    char reason[REASON_BYTES];
    int rc = 0;
    lines_start(lines, s, f->header, x->chunk[chunk].at, x->bytes, x->chunk[chunk].number);
    for (uint64_t i = 0; i < rows && (rc = lines_next(lines, &line, &e)) == 0; i++) {
        double value;
        if (line.too_long || f->format->line(f, line.text, line.bytes, cell, reason) != 0)
            continue;
        for (uint32_t t = 0; t < f->shape.tasks; t++)
            if (feature_number(&cell[f->label[t]], &value))
                seen_add(&seen[t], value, f->label_above);
    }
    return rc == SHOAL_E_END ? 0 : rc;
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

static void judge(const struct seen *s, const struct cell *name, double label_above, char *text)
{
    char values[96];
    int shown = (int)(name->bytes < LIMIT_NAME ? name->bytes : LIMIT_NAME - 1);
    values_told(s, values, sizeof values);
    if (s->labels > 0 && (s->above == 0 || s->above == s->labels))
        (void)snprintf(text, ERR_TEXT_MAX,
                       "label \"%.*s\": all %" PRIu64 " lines looked at count as %d, for their "
                       "values (%s) are %s data.label_above: %g, so there is nothing to learn; "
                       "look at data.label, or set data.label_above between two classes",
                       shown, name->text, s->labels, s->above > 0, values,
                       s->above > 0 ? "above" : "not above", label_above);
    else if (s->values > 2)
        (void)snprintf(text, ERR_TEXT_MAX,
                       "label \"%.*s\" has more than two values (%s): those above "
                       "data.label_above: %g count as 1, others as 0; if the classes part "
                       "elsewhere, set data.label_above there",
                       shown, name->text, values, label_above);
}

void labels_look(const struct source *s, const struct index *x, const struct features *f,
                 char text[ERR_TEXT_MAX])
{
    struct seen seen[LIMIT_TASKS] = {0};
    struct lines lines;
    struct err e;
    bool whole = x->rows <= (uint64_t)LOOK_PLACES * LOOK_ROWS;
    uint32_t places = whole ? 1 : LOOK_PLACES;
    text[0] = '\0';
    if (x->chunks == 0 || lines_init(&lines, &e) != 0)
        return;
    struct cell *cell = malloc(sizeof *cell * CELLS_MAX);
    int rc = cell == NULL ? SHOAL_E_NOMEM : 0;
    for (uint32_t p = 0; p < places && rc == 0; p++)
        rc = place_look(&lines, s, x, f, (uint64_t)p * x->chunks / places,
                        whole ? x->rows : LOOK_ROWS, cell, seen);
    for (uint32_t t = 0; t < f->shape.tasks && rc == 0 && text[0] == '\0'; t++)
        judge(&seen[t], &f->name[f->label[t]], f->label_above, text);
    free(cell);
    lines_free(&lines);
}
