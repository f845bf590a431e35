/* propose_label.c: finds the label by names and values, or says what might be it. */
#include "worker/data/propose.h"

#include "proto/base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool value_number(const struct form_value *v, double *x)
{
    struct cell c = {v->text, v->bytes};
    return feature_label(&c, x);
}

/* True when there are two values, whatever they are. */
static bool is_binary(const struct column_form *f)
{
    return f->few_count == 2;
}

/* True when all values are numbers, True or False. */
static bool all_numbers(const struct column_form *f)
{
    double x;
    for (uint32_t i = 0; i < f->few_count && f->few_count <= FORM_FEW; i++)
        if (!value_number(&f->few[i], &x))
            return false;
    return f->few_count <= FORM_FEW
               ? f->few_count > 0
               : f->seen.numbers > 0 && f->seen.numbers == column_form_values(f);
}

static bool is_zero_one(const struct column_form *f)
{
    double a, b;
    return is_binary(f) && value_number(&f->few[0], &a) && value_number(&f->few[1], &b) &&
           (a < b ? a <= 0 && b == 1 : b <= 0 && a == 1);
}

/* The number above which about half of the rows are. */
static double middle_of(const struct column_form *f)
{
    double best = 0, best_off = 2;
    uint64_t values = column_form_values(f);
    for (uint32_t i = 0; i < f->few_count; i++) {
        double above, x;
        uint64_t rows = 0;
        (void)value_number(&f->few[i], &above);
        for (uint32_t k = 0; k < f->few_count; k++)
            if (value_number(&f->few[k], &x) && x > above)
                rows += f->few[k].rows;
        double share = (double)rows / (double)values;
        double off = share > 0.5 ? share - 0.5 : 0.5 - share;
        if (rows > 0 && off < best_off) {
            best = above;
            best_off = off;
        }
    }
    return best;
}

static void numbers_part(const struct column_form *f, struct survey_label *l)
{
    double a, b;
    if (f->few_count > FORM_FEW) /* a count */
        return;
    if (is_binary(f)) {
        (void)value_number(&f->few[0], &a);
        (void)value_number(&f->few[1], &b);
        double low = a < b ? a : b, high = a < b ? b : a;
        if (low <= 0 && high > 0)
            return;
        l->above = low;
    } else {
        l->above = middle_of(f);
    }
    l->parted = l->above != 0;
}

static bool means_yes(const struct form_value *v)
{
    static const char *const list[] = {
        "click", "clicked", "yes",      "y",         "t",    "buy", "pos",  "positive",
        "good",  "won",     "purchase", "converted", "like", "1",   "true", "conversion"};
    char text[COLUMN_SEEN_TEXT + 1] = "";
    memcpy(text, v->text, strnlen(v->text, sizeof v->text));
    for (size_t i = 0; i < sizeof list / sizeof list[0]; i++)
        if (strcasecmp(text, list[i]) == 0)
            return true;
    return false;
}

/* Chooses the one of two words that means yes, or the rarer one. Returns false where that is a
 * guess. */
static bool words_part(const struct column_form *f, struct survey_label *l)
{
    bool yes[2] = {means_yes(&f->few[0]), means_yes(&f->few[1])};
    uint32_t at = f->few[1].rows < f->few[0].rows;
    if (yes[0] != yes[1])
        at = yes[1];
    l->words = true;
    memcpy(l->positive, f->few[at].text, sizeof l->positive - 1);
    return yes[0] != yes[1];
}

/* How much a column looks like the label; 0: not at all. */
static uint32_t score_of(const struct survey *s, uint32_t i)
{
    const struct survey_column *c = &s->column[i];
    const struct column_form *f = &c->form;
    uint32_t named = guess_label(c->name), score = 0;
    bool binary = is_binary(f), few = f->few_count > 1 && f->few_count <= FORM_FEW;
    if (c->unnamed || f->few_count < 2)
        return 0;
    if (named != 0 && (binary || all_numbers(f)))
        score = 1000 - named;
    if (guess_grade(c->name) && few && all_numbers(f))
        score = 400;
    if (binary && score == 0)
        score = is_zero_one(f) ? 100 : 20;
    if (score > 0 && i == 0)
        score += 10;
    if (score > 0 && i + 1 == s->columns)
        score += 5;
    return score;
}

static void candidate_add(struct proposal *p, uint32_t column)
{
    if (p->candidates < PROPOSE_CANDIDATES)
        p->candidate[p->candidates++] = column;
}

static int none_found(const struct survey *s, const char *said, struct err *e)
{
    char names[256] = "";
    for (uint32_t i = 0; i < s->columns; i++) {
        size_t at = strlen(names);
        if (at + strlen(s->column[i].name) + 8 < sizeof names)
            (void)snprintf(names + at, sizeof names - at, "%s%s", at > 0 ? ", " : "",
                           s->column[i].name);
        else if (at + 4 < sizeof names && strcmp(names + at - 2, "..") != 0)
            strcat(names, " ..");
    }
    if (said != NULL)
        return err_set(e, SHOAL_E_NOT_FOUND, "--label %s: there is no such column; there are %s",
                       said, names);
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "no column looks like a label: none has two values, or a name such as click or "
                   "label; say which one it is: --label NAME, of %s",
                   names);
}

/* Sets what is positive, and how sure that is. */
static void positive_choose(const struct survey *s, struct proposal *p)
{
    const struct column_form *f = &s->column[p->label.column].form;
    size_t at = strlen(p->label_why);
    if (all_numbers(f)) {
        numbers_part(f, &p->label);
        if (p->label.parted)
            (void)snprintf(p->label_why + at, sizeof p->label_why - at, "; positive above %g",
                           p->label.above);
        return;
    }
    if (!is_binary(f)) {
        (void)snprintf(p->label_why + at, sizeof p->label_why - at,
                       "; it has other values than "
                       "numbers, True and False");
        p->label_sure = false;
        return;
    }
    bool sure = words_part(f, &p->label);
    char shown[COLUMN_SEEN_TEXT];
    text_copy(shown, sizeof shown, p->label.positive);
    (void)snprintf(p->label_why + at, sizeof p->label_why - at, "; positive is \"%s\"%s",
                   text_clean(shown), sure ? "" : ", the rarer word: a guess");
    p->label_sure &= sure;
}

static int said_find(const struct survey *s, const char *said, struct proposal *p, struct err *e)
{
    for (uint32_t i = 0; i < s->columns; i++)
        if (strcmp(s->column[i].name, said) == 0) {
            p->label.column = i;
            p->label_sure = true;
            (void)snprintf(p->label_why, sizeof p->label_why, "as --label says");
            positive_choose(s, p);
            return 0;
        }
    return none_found(s, said, e);
}

int propose_label(const struct survey *s, const char *said, struct proposal *p, struct err *e)
{
    uint32_t best = 0, second = 0;
    *p = (struct proposal){
        .label.column = FEATURE_NO_COLUMN, .time = FEATURE_NO_COLUMN, .group = FEATURE_NO_COLUMN};
    if (said != NULL)
        return said_find(s, said, p, e);
    if (!format_of(s->layout.format)->named) {
        p->label.column = 0;
        p->label_sure = true;
        (void)snprintf(p->label_why, sizeof p->label_why, "first on each line of this format");
        positive_choose(s, p);
        return 0;
    }
    for (uint32_t i = 0; i < s->columns; i++) {
        uint32_t score = score_of(s, i);
        if (score > best) {
            second = best;
            best = score;
            p->label.column = i;
        } else if (score > second) {
            second = score;
        }
    }
    if (best == 0)
        return none_found(s, NULL, e);
    for (uint32_t i = 0; i < s->columns; i++)
        if (i != p->label.column && score_of(s, i) >= 20 && best < 400)
            candidate_add(p, i);
    p->label_sure = best >= 500 || (best >= 100 && p->candidates == 0) || best >= 400;
    (void)snprintf(p->label_why, sizeof p->label_why, "%s",
                   best >= 400          ? "by its name"
                   : p->candidates == 0 ? "the only column with two values"
                                        : "one of several with two values: look at it");
    positive_choose(s, p);
    return 0;
}
