/* propose.c: chooses what each column becomes. */
#include "worker/data/propose.h"

#include "proto/base/text.h"
#include "worker/data/recode.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LISTED_LEAST 0.01     /* share of cells with a separator, from which a column has lists */
#define LEAK_EXPECTED 200.0   /* rows of the other label that a value should have, and has not */
#define QUANTITY_LEAST 10u    /* fewer whole numbers are codes, whatever the name */
#define QUANTITY_DISTINCT 0.2 /* whole numbers with so many values a row are quantities */
#define LABEL_LARGE 20.0      /* the mean of a number to predict, from which it learns slowly */
#define SKEWED 20.0           /* the largest number over the mean, from which a log helps */

__attribute__((format(printf, 2, 3))) static void note(struct proposal *p, const char *format, ...)
{
    va_list list;
    if (p->notes == PROPOSE_NOTES)
        return;
    va_start(list, format);
    (void)vsnprintf(p->note[p->notes++], PROPOSE_WHY, format, list);
    va_end(list);
}

const char *propose_use_name(const struct propose_column *c)
{
    switch (c->use) {
    case PROPOSE_CATEGORY:
        return c->whole ? "category whole" : "category";
    case PROPOSE_NUMBER:
        return strcmp(c->transform, "log1p") == 0 ? "number log1p" : "number standard";
    case PROPOSE_MULTI:
        return c->weighted ? "multi weighted" : "multi";
    case PROPOSE_SKIP:
        return "skip";
    case PROPOSE_LABEL:
        return "label";
    case PROPOSE_TIME:
        return "time";
    }
    return "";
}

#define WHY(c, ...) (void)snprintf((c)->why, sizeof(c)->why, __VA_ARGS__)

/* ---- leaks ----------------------------------------------------------------------------------- */

/* A value that has one label alone in so many rows is known after the label is. */
static const struct form_value *leaking_value(const struct survey *s, const struct column_form *f)
{
    const struct survey_part *t = &s->part[GUESS_TRAIN];
    double rate = t->rows > 0 ? (double)t->positives / (double)t->rows : 0;
    for (uint32_t i = 0; i < f->few_count && f->few_count <= FORM_FEW; i++) {
        const struct form_value *v = &f->few[i];
        double rows = (double)v->rows;
        if ((v->positives == 0 && rows * rate >= LEAK_EXPECTED) ||
            (v->positives == v->rows && rows * (1 - rate) >= LEAK_EXPECTED))
            return v;
    }
    return NULL;
}

static bool leaks(const struct survey *s, const struct column_form *f, struct propose_column *c)
{
    const struct form_value *v = leaking_value(s, f);
    if (column_seen_tells(&f->seen) ||
        (f->seen.numbers > 0 && f->seen.numbers == f->seen.values && column_seen_parts(&f->seen))) {
        WHY(c, "it alone tells the label: it would leak; take it if it is known before");
        return true;
    }
    if (v == NULL)
        return false;
    char shown[COLUMN_SEEN_TEXT];
    text_copy(shown, sizeof shown, v->text);
    WHY(c, "\"%s\" has no %s label in %.0f rows: it may leak; take it if it is known before",
        text_clean(shown), v->positives == 0 ? "positive" : "negative", (double)v->rows);
    return true;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static bool is_list(const struct column_form *f)
{
    double listed = (double)f->listed, values = (double)column_form_values(f);
    if (f->listed < 2 || listed < values * LISTED_LEAST)
        return false;
    switch (f->separator) {
    case ',':
        return f->plain == f->pieces && listed >= values * 0.05;
    case ' ':
        return f->weighted == f->pieces || f->piece.numbers == f->piece.values;
    default:
        return true;
    }
}

static const char *transform_of(const struct column_form *f)
{
    uint64_t n = f->seen.numbers;
    double mean = n > 0 ? f->sum / (double)n : 0;
    bool skewed = f->seen.least >= 0 && mean > 0 && f->seen.most > SKEWED * mean;
    return skewed ? "log1p" : "standard";
}

static void number_take(const struct column_form *f, struct propose_column *c)
{
    c->use = PROPOSE_NUMBER;
    c->transform = transform_of(f);
}

/* Whole numbers are quantities by their name, their sign or their many values; others are ids. */
static bool is_quantity(const char *name, const struct column_form *f, struct propose_column *c)
{
    uint64_t distinct = column_seen_distinct(&f->seen), values = column_form_values(f);
    if (guess_identity(name) && !guess_quantity(name))
        return false;
    if (guess_quantity(name) && distinct > QUANTITY_LEAST)
        return true;
    if (f->negatives > 0 && distinct > 10) {
        WHY(c, "negative numbers, so a quantity");
        return true;
    }
    if (distinct > 1000 && (double)distinct > QUANTITY_DISTINCT * (double)values) {
        WHY(c, "many different numbers and no name of an id: a quantity? else type: category");
        return true;
    }
    return false;
}

static void numeric_choose(const char *name, const struct column_form *f, struct propose_column *c)
{
    const struct column_seen *s = &f->seen;
    bool floats = s->fractions > 0 && s->zeros == s->fractions;
    if (floats && s->fractions + f->wholes >= s->numbers && !is_quantity(name, f, c)) {
        c->whole = true;
        WHY(c, "whole numbers with .0, as pandas writes them: ids? else type: number");
        return;
    }
    if (floats) {
        number_take(f, c);
        return;
    }
    if (f->commas + f->either > 0 || s->fractions > 0 || f->wholes < s->numbers) {
        number_take(f, c);
        return;
    }
    if (is_quantity(name, f, c))
        number_take(f, c);
    else if (column_seen_distinct(s) > 20 && !guess_identity(name))
        WHY(c, "whole numbers: ids, or a quantity? then type: number");
}

static void text_choose(const struct column_form *f, struct propose_column *c)
{
    uint64_t values = column_form_values(f);
    if (f->brackets * 2 > values) {
        c->use = PROPOSE_SKIP;
        WHY(c, "lists in brackets: write [1, 2] as 1|2 (sed), then type: multi");
    } else if (is_list(f)) {
        c->use = PROPOSE_MULTI;
        c->separator = f->separator;
        c->weighted = f->weighted == f->pieces;
        if (c->separator == ',' || c->separator == ' ')
            WHY(c, "lists parted by \"%c\"? else type: category", c->separator);
    } else if (f->quoted == values && values > 0) {
        WHY(c, "values stand in single quotes, which are part of them: other files too?");
    } else if (column_seen_distinct(&f->seen) > 1000 &&
               (double)column_seen_distinct(&f->seen) > 0.5 * (double)values) {
        WHY(c, "nearly each row has another value: little is learnt from it");
    }
}

/* ---- times ----------------------------------------------------------------------------------- */

/* A number that may be a time needs a name, or rows in its order. */
static uint32_t time_of(const struct survey_column *c)
{
    const struct column_form *f = &c->form;
    uint32_t form = column_form_time(f);
    if (form == FORM_TIMES || f->cells != f->time[form].good)
        return FORM_TIMES;
    const struct form_time *t = &f->time[form];
    bool number = f->seen.numbers == f->seen.values, named = guess_time(c->name);
    bool ordered = t->back * 100 <= t->good && t->most > t->least;
    if (!number || named || (ordered && !column_form_plain_time(form)))
        return form;
    return FORM_TIMES;
}

static void time_choose(const struct survey *s, struct proposal *p)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        uint32_t form = time_of(&s->column[i]);
        struct propose_column *c = &p->column[i];
        if (form == FORM_TIMES || i == p->label.column)
            continue;
        if (p->time != FEATURE_NO_COLUMN) {
            c->use = PROPOSE_SKIP;
            WHY(c, "another time (%s)", column_form_called(form));
            continue;
        }
        c->use = PROPOSE_TIME;
        WHY(c, "%s; the time of an example, for replays and windows; no feature",
            column_form_called(form));
        p->time = i;
        p->time_form = form;
        const struct form_time *t = &s->column[i].form.time[form];
        p->ordered = t->back * 1000 <= t->good && t->most > t->least;
    }
}

/* ---- columns --------------------------------------------------------------------------------- */

/* True when the column is left out, whatever its form. */
static bool left_out(const struct survey *s, const struct proposal *p, uint32_t i,
                     struct propose_column *c)
{
    const struct survey_column *of = &s->column[i];
    const struct column_form *f = &of->form;
    uint64_t distinct = column_seen_distinct(&f->seen);
    bool fraction = f->seen.fractions > f->seen.zeros || f->commas + f->either > 0;
    if (column_form_values(f) == 0) {
        WHY(c, "all cells are empty");
    } else if (distinct <= 1 && f->empty == 0) {
        WHY(c, "the same value in all rows looked at");
    } else if (of->unnamed && column_seen_own(&f->seen)) {
        WHY(c, "no name, and a value of its own in each row: an index, as pandas writes it");
    } else if (column_seen_own(&f->seen) && !fraction) {
        WHY(c, "a value of its own in each row: it names the row");
    } else if (p->label.column != FEATURE_NO_COLUMN && guess_label(of->name) != 0 &&
               f->few_count == 2) {
        WHY(c, "another label? two tasks: label: [%.40s, %.40s], model: {kind: mmoe}",
            s->column[p->label.column].name, of->name);
    } else if (guess_propensity(of->name)) {
        WHY(c, "a propensity is of the policy, no feature; 1/p may be data.weight");
    } else if (guess_weight(of->name) && column_form_numbers(f)) {
        WHY(c, "a weight of examples? then data.weight: %.40s", of->name);
    } else if (!leaks(s, f, c)) {
        return false;
    }
    c->use = PROPOSE_SKIP;
    return true;
}

static void missing_take(const struct column_form *f, bool numeric, struct proposal *p)
{
    for (uint32_t i = 0; i < FORM_MISSING; i++) {
        const char *word = column_form_missing(i);
        bool always = strcmp(word, "\\N") == 0 || strcmp(word, "NULL") == 0;
        if (f->missing[i] > 0 && (numeric || always))
            p->missing |= 1u << i;
    }
}

/* True when a column surely has decimal commas: then others have them, too. */
static bool commas_are_decimal(const struct survey *s)
{
    for (uint32_t i = 0; i < s->columns; i++)
        if (column_form_decimal(&s->column[i].form))
            return true;
    return false;
}

/* Leaves out a column of numbers with commas that are not decimal ones, or may be others. */
static bool commas_leave(const struct survey *s, const struct column_form *f,
                         struct propose_column *c)
{
    if (f->thousands + f->either == 0 || (f->thousands == 0 && commas_are_decimal(s)))
        return false;
    c->use = PROPOSE_SKIP;
    if (f->thousands > 0)
        WHY(c, "numbers with commas between thousands, which no job reads: take the commas between "
               "thousands out, then type: number");
    else
        WHY(c, "1,234 or 1.234? Take the commas between thousands out, then type: number; if they "
               "are decimal: data.decimal: comma and type: number");
    return true;
}

static void column_choose(const struct survey *s, struct proposal *p, uint32_t i)
{
    struct propose_column *c = &p->column[i];
    const struct survey_column *of = &s->column[i];
    if (i == p->label.column) {
        c->use = PROPOSE_LABEL;
        missing_take(&of->form, true, p);
        p->comma |= p->label.real && of->form.commas > 0;
        return;
    }
    if (c->use != PROPOSE_CATEGORY || left_out(s, p, i, c))
        return;
    bool numeric = column_form_numbers(&of->form);
    if (numeric && commas_leave(s, &of->form, c))
        return;
    if (numeric)
        numeric_choose(of->name, &of->form, c);
    else
        text_choose(&of->form, c);
    missing_take(&of->form, numeric, p);
    p->comma |= c->use == PROPOSE_NUMBER && of->form.commas > 0;
}

/* With decimal commas a point in a number is malformed, so one kind is left out: that which the
 * label has not, or the points. */
static void points_leave(const struct survey *s, struct proposal *p)
{
    const struct column_form *label = NULL;
    if (p->label.real)
        label = &s->column[p->label.column].form;
    if (!p->comma)
        return;
    p->comma = label == NULL || label->commas > 0 || label->seen.fractions == 0;
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct column_form *f = &s->column[i].form;
        struct propose_column *c = &p->column[i];
        if (c->use != PROPOSE_NUMBER ||
            (p->comma ? f->seen.fractions == 0 : f->commas + f->either == 0))
            continue;
        c->use = PROPOSE_SKIP;
        WHY(c, "decimal %s, beside %s in other columns: write one kind, then type: number",
            p->comma ? "points" : "commas", p->comma ? "commas" : "points");
    }
}

static void group_choose(const struct survey *s, struct proposal *p)
{
    for (uint32_t i = 0; i < s->columns && p->group == FEATURE_NO_COLUMN && !p->label.real; i++) {
        const struct column_form *f = &s->column[i].form;
        uint64_t distinct = column_seen_distinct(&f->seen);
        if (p->column[i].use == PROPOSE_CATEGORY && guess_user(s->column[i].name) &&
            distinct > 10 && distinct * 2 < column_form_values(f))
            p->group = i;
    }
}

/* ---- what validates -------------------------------------------------------------------------- */

/* The command that prints the text of a file; "": it is text as it is. False: none is known. */
static bool unpack_find(const char *path, char out[64])
{
    static const struct {
        const char *magic;
        size_t bytes;
        const char *command;
    } list[] = {{"\x1f\x8b", 2, "gzip -dc"},
                {"\x28\xb5\x2f\xfd", 4, "zstd -dc"},
                {"BZh", 3, "bzip2 -dc"},
                {"\xfd\x37zXZ", 5, "xz -dc"}};
    char first[4096];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, first, sizeof first) : -1;
    if (fd >= 0)
        close(fd);
    out[0] = '\0';
    if (n <= 0)
        return false;
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if ((size_t)n >= list[i].bytes && memcmp(first, list[i].magic, list[i].bytes) == 0) {
            (void)snprintf(out, 64, "%s", list[i].command);
            return true;
        }
    enum recode kind = recode_of(first, (size_t)n);
    if (kind == RECODE_CR)
        (void)snprintf(out, 64, "tr '\\r' '\\n' <");
    else if (kind != RECODE_NONE)
        (void)snprintf(out, 64, "iconv -f UTF-16%s -t UTF-8",
                       (unsigned char)first[0] >= 0xfe ? ""
                       : kind == RECODE_UTF16LE        ? "LE"
                                                       : "BE");
    return true;
}

static void split_choose(const struct survey *s, struct proposal *p)
{
    const struct string_list *train = &s->part[GUESS_TRAIN].names;
    p->split = PROPOSE_NONE;
    if (s->part[GUESS_VALID].names.count > 0) {
        p->split = PROPOSE_FILES;
        return;
    }
    if (train->count != 1 || strcmp(train->item[0], "-") == 0 || s->breaks ||
        format_of(s->layout.format)->framing == FRAMING_TFRECORD ||
        s->layout.format == DATA_EVENTS || !unpack_find(train->item[0], p->unpack))
        return;
    bool last = p->ordered && s->part[GUESS_TRAIN].all > 0;
    p->split = last ? PROPOSE_LAST : PROPOSE_TENTH;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static void sums_take(const struct survey *s, struct proposal *p)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        const struct propose_column *c = &p->column[i];
        p->fields += c->use == PROPOSE_CATEGORY || c->use == PROPOSE_MULTI;
        p->numbers += c->use == PROPOSE_NUMBER;
    }
    if (p->label.column == FEATURE_NO_COLUMN)
        return;
    const struct column_form *label = &s->column[p->label.column].form;
    p->unlabelled = label->cells - column_form_values(label);
}

/* Notes a label of which nothing, or little, can be learnt as it is. */
static void label_note(const struct survey *s, struct proposal *p)
{
    const struct survey_part *t = &s->part[GUESS_TRAIN];
    if (p->label.column == FEATURE_NO_COLUMN)
        return;
    const struct column_form *f = &s->column[p->label.column].form;
    double mean = f->seen.numbers > 0 ? f->sum / (double)f->seen.numbers : 0;
    if (p->label.real ? column_seen_distinct(&f->seen) < 2
                      : t->positives == 0 || t->positives == t->rows)
        note(p, "all rows looked at have the same label: nothing can be learnt from them");
    if (p->label.real && (mean > LABEL_LARGE || mean < -LABEL_LARGE))
        note(p,
             "the label is %.3g on average: divide it, so that it is a few units, as minutes "
             "for seconds, or learn its logarithm",
             mean);
    if (p->label.real && mean > 0 && f->seen.most > SKEWED * mean)
        note(p,
             "labels go up to %.3g, %.3g on average: with model.loss: huber the few large ones "
             "count less",
             f->seen.most, mean);
    if (p->unlabelled > 0)
        note(p,
             "%" PRIu64 " of %" PRIu64 " rows have no label and are left out; if an empty one "
             "means no click, write 0",
             p->unlabelled, t->rows);
}

static void notes_take(const struct survey *s, struct proposal *p)
{
    label_note(s, p);
    if (!s->layout.sure)
        note(p, "the format is a guess: %.150s", s->layout.why);
    if (s->by_order)
        note(p, "no file name tells train from valid, so the last one validates: move the "
                "files if that is wrong");
    if (p->split == PROPOSE_NONE && s->breaks)
        note(p, "cells have line ends in them, so no command splits the file by lines: "
                "make a file for data.valid, or nothing tells how well the model does");
    else if (p->split == PROPOSE_NONE)
        note(p, "nothing validates: name files for data.valid, or nothing tells how well "
                "the model does");
    if (p->fields + p->numbers == 0)
        note(p, "no column is left to learn from");
}

/* Criteo's log and lines of entries have their types. */
static void format_choose(const struct survey *s, struct proposal *p)
{
    p->column[0].use = PROPOSE_LABEL;
    for (uint32_t i = 1; i < s->columns; i++) {
        struct propose_column *c = &p->column[i];
        if (s->layout.format == DATA_CRITEO && i <= 13) {
            c->use = PROPOSE_NUMBER;
            c->transform = "log1p";
        } else if (strcmp(s->column[i].name, "qid") == 0) {
            c->use = PROPOSE_SKIP;
        } else if (s->layout.format != DATA_CRITEO && s->features.entries != ENTRIES_PLACES) {
            c->use = PROPOSE_MULTI;
            c->weighted = true;
        }
    }
}

int propose_columns(const struct survey *s, struct proposal *p, struct err *e)
{
    p->column = calloc(s->columns, sizeof *p->column);
    if (p->column == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for %u columns; free some", s->columns);
    if (format_of(s->layout.format)->named) {
        time_choose(s, p);
        for (uint32_t i = 0; i < s->columns; i++)
            column_choose(s, p, i);
        points_leave(s, p);
        group_choose(s, p);
    } else {
        format_choose(s, p);
    }
    for (uint32_t i = 0; i < s->columns; i++) /* names in it go into comments */
        (void)text_clean(p->column[i].why);
    sums_take(s, p);
    split_choose(s, p);
    notes_take(s, p);
    return 0;
}

void propose_free(struct proposal *p)
{
    free(p->column);
    p->column = NULL;
}
