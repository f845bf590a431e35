/* profile_notes.c: sentences about columns; each names the column, the observation and the
 * remedy. */
#include "worker/data/profile_notes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define NUMBERS_LEAST 20u /* with fewer cells a column may have numbers by chance */
#define LARGE 10.0        /* larger numbers are out of the usual range of network inputs */
#define COLUMNS_TOLD 4u
#define LISTS_LEAST 10u /* cells or values that all have the suspicious form */

enum { SENTENCE = 1024 };

static bool is_category(const struct profile_column *c)
{
    return !c->numeric && c->use->type == COLUMN_CATEGORY;
}

/* The columns of one sentence: the first COLUMNS_TOLD by name, each with an example value. */
struct told {
    char text[COLUMNS_TOLD * (LIMIT_NAME + COLUMN_SEEN_TEXT + 8)];
    const char *first;
    uint32_t count;
};

static void told_add(struct told *t, const struct profile_column *c, const char *example)
{
    size_t at = strlen(t->text);
    if (t->count++ == 0)
        t->first = c->name;
    if (t->count <= COLUMNS_TOLD)
        (void)snprintf(t->text + at, sizeof t->text - at, "%s\"%s\"%s%s%s", at > 0 ? ", " : "",
                       c->name, example[0] != '\0' ? " (" : "", example,
                       example[0] != '\0' ? ")" : "");
}

/* "column "a" (1)", or "columns "a" (1), "b" (2) and 3 more". */
static const char *told_text(struct told *t, char *out, size_t bytes)
{
    char more[32] = "";
    if (t->count > COLUMNS_TOLD)
        (void)snprintf(more, sizeof more, " and %u more", t->count - COLUMNS_TOLD);
    (void)snprintf(out, bytes, "%s %s%s", t->count > 1 ? "columns" : "column", t->text, more);
    return out;
}

static bool is_own(const struct profile_column *c)
{
    return is_category(c) && column_seen_own(&c->seen);
}

static void own_note(const struct profile_column *column, uint32_t count, struct json *notes)
{
    struct told t = {.count = 0};
    char text[SENTENCE], columns[SENTENCE], rows[48];
    for (uint32_t i = 0; i < count; i++) {
        (void)snprintf(rows, sizeof rows, "%u in %" PRIu64, column[i].seen.distinct,
                       column[i].seen.cells);
        if (is_own(&column[i]))
            told_add(&t, &column[i], rows);
    }
    if (t.count == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "a value of its own in every row looked at: %s: a category learns nothing from "
                   "that; leave it out with data.columns: [{name: \"%s\", type: skip}], or give it "
                   "type: number",
                   told_text(&t, columns, sizeof columns), t.first);
    json_append_string(notes, text);
}

/* A category whose values are all numbers; integers are probably ids. */
static bool has_numbers(const struct profile_column *c)
{
    const struct column_seen *s = &c->seen;
    return is_category(c) && s->values >= NUMBERS_LEAST && s->numbers == s->values &&
           s->fractions >= s->values / 2;
}

/* Ids with the ".0" that pandas appends in a column with empty cells. */
static void floats_note(const struct profile_column *column, uint32_t count, struct json *notes)
{
    struct told t = {.count = 0};
    char text[SENTENCE], columns[SENTENCE];
    for (uint32_t i = 0; i < count; i++)
        if (has_numbers(&column[i]) && column[i].seen.zeros == column[i].seen.fractions)
            told_add(&t, &column[i], column[i].seen.example[0]);
    if (t.count == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "values end in \".0\", as pandas writes whole numbers of a column with empty "
                   "cells: %s: \"34\" is another value than \"34.0\"; write them one way "
                   "everywhere, or give those that are quantities type: number",
                   told_text(&t, columns, sizeof columns));
    json_append_string(notes, text);
}

static void numbers_note(const struct profile_column *column, uint32_t count, struct json *notes)
{
    struct told t = {.count = 0};
    char text[SENTENCE], columns[SENTENCE];
    for (uint32_t i = 0; i < count; i++) {
        const struct column_seen *s = &column[i].seen;
        if (has_numbers(&column[i]) && s->zeros < s->fractions && !is_own(&column[i]))
            told_add(&t, &column[i], s->example[0]);
    }
    if (t.count == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "numbers, and each is learnt as a category of its own: %s: data.columns: "
                   "[{name: \"%s\", type: number}] takes one as a number",
                   told_text(&t, columns, sizeof columns), t.first);
    json_append_string(notes, text);
}

static bool tells_label(const struct profile_column *c)
{
    if (!c->numeric && c->use->type == COLUMN_MULTI)
        return false;
    return column_seen_tells(&c->seen) || (c->numeric && column_seen_parts(&c->seen));
}

static void tells_note(const struct profile_column *column, uint32_t count, const char *label,
                       struct json *notes, const char **tells)
{
    struct told t = {.count = 0};
    char text[SENTENCE], columns[SENTENCE];
    for (uint32_t i = 0; i < count && label != NULL; i++)
        if (tells_label(&column[i]))
            told_add(&t, &column[i], column[i].seen.example[0]);
    *tells = t.first;
    if (t.count == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "%s alone tells the label \"%s\" in all %" PRIu64
                   " rows looked at: is it known before the label is? if not, leave it out with "
                   "data.columns: [{name: \"%s\", type: skip}]",
                   told_text(&t, columns, sizeof columns), label, column[0].seen.cells, t.first);
    json_append_string(notes, text);
}

static double magnitude(const struct profile_column *c)
{
    bool plain = c->numeric && c->use->transform == NUMBER_NONE && c->seen.numbers > 0;

    if (!plain)
        return 0;

    return fmax(fabs(c->seen.least), fabs(c->seen.most));
}

/* The column after `at` in descending order of its largest number; count: there is none. */
static uint32_t next_large(const struct profile_column *column, uint32_t count, uint32_t at)
{
    double limit;
    if (at < count)
        limit = magnitude(&column[at]);
    else
        limit = (double)INFINITY;

    uint32_t best = count;
    for (uint32_t i = 0; i < count; i++) {
        double m = magnitude(&column[i]);
        bool follows = m < limit || (m == limit && at < i && at < count);
        if (m > LARGE && follows && (best == count || m > magnitude(&column[best])))
            best = i;
    }
    return best;
}

static void large_note(const struct profile_column *column, uint32_t count, struct json *notes)
{
    struct told t = {.count = 0};
    char text[SENTENCE], columns[SENTENCE], most[32];
    for (uint32_t i = next_large(column, count, count); i < count;
         i = next_large(column, count, i)) {
        (void)snprintf(most, sizeof most, "up to %.4g", magnitude(&column[i]));
        told_add(&t, &column[i], most);
    }
    if (t.count == 0)
        return;
    (void)snprintf(text, sizeof text,
                   "numbers are taken as they stand, and large ones drown the rest of the input: "
                   "%s; scale them with features.number: log1p, standard or bucket",
                   told_text(&t, columns, sizeof columns));
    json_append_string(notes, text);
}

void profile_notes_add(const struct profile_column *column, uint32_t count, const char *label,
                       struct json *notes, const char **tells)
{
    own_note(column, count, notes);
    floats_note(column, count, notes);
    numbers_note(column, count, notes);
    tells_note(column, count, label, notes, tells);
    large_note(column, count, notes);
}

int profile_notes_refuse(const struct profile_column *c, struct err *e)
{
    const struct column_seen *s = &c->seen;
    uint64_t full = s->cells - s->empty;
    if (c->numeric || c->use->type != COLUMN_MULTI)
        return 0;
    if (full >= LISTS_LEAST && s->lists == full)
        return err_set(e, SHOAL_E_DATA,
                       "column \"%s\" has lists as Python writes them (its first value would be "
                       "\"%s\"): write the values alone, with a separator between them, as in "
                       "3%c7",
                       c->name, s->example[0], c->use->separator);
    bool open = !c->weighted && !c->weighted_said;
    if (open && s->values >= LISTS_LEAST && s->weighted == s->values && s->weights > 0)
        return err_set(
            e, SHOAL_E_DATA,
            "column \"%s\" has weights of values (\"%s\"): data.columns: [{name: \"%s\", "
            "type: multi, weighted: true}] reads them; with weighted: false each is a "
            "value as it stands",
            c->name, s->example[0], c->name);
    return 0;
}
