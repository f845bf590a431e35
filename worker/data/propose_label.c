/* propose_label.c: finds the label by names and values, or says what might be it. */
#include "worker/data/propose.h"

#include "proto/base/text.h"

#include <ctype.h>
#include <stdarg.h>
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

/* True when all values are numbers, of which some may have commas, True or False. */
static bool all_numbers(const struct column_form *f)
{
    double x;
    if (f->few_count > FORM_FEW || column_form_numbers(f))
        return column_form_numbers(f);
    for (uint32_t i = 0; i < f->few_count; i++)
        if (!value_number(&f->few[i], &x))
            return false;
    return f->few_count > 0;
}

static bool has_commas(const struct column_form *f)
{
    return f->commas + f->thousands + f->either > 0;
}

/* True for whole numbers from 0 on, of which most are 0: clicks of an impression. */
static bool is_count(const struct column_form *f)
{
    return f->wholes == column_form_values(f) && f->negatives == 0 && f->zeros * 2 >= f->wholes;
}

/* True for many numbers, which no two classes part. */
static bool is_real(const struct column_form *f)
{
    return all_numbers(f) && (has_commas(f) || (f->few_count > FORM_FEW && !is_count(f)));
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
    l->real = is_real(f);
    if (l->real || f->few_count > FORM_FEW) /* a count */
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
    if (guess_grade(c->name) && all_numbers(f))
        score = few && !is_real(f) ? 400 : 60;
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

/* Lists columns that may be numbers to predict, by their names. */
static void amounts_list(const struct survey *s, char *out, size_t bytes)
{
    for (uint32_t i = 0; i < s->columns; i++) {
        size_t at = strlen(out);
        if (guess_amount(s->column[i].name) && is_real(&s->column[i].form) &&
            at + strlen(s->column[i].name) + 3 < bytes)
            (void)snprintf(out + at, bytes - at, "%s%s", at > 0 ? ", " : "", s->column[i].name);
    }
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
    char amounts[128] = "";
    amounts_list(s, amounts, sizeof amounts);
    return err_set(e, SHOAL_E_NOT_FOUND,
                   "no column looks like a label: none has two values, or a name such as click or "
                   "label; say which one it is: --label NAME, of %s%s%s",
                   names, amounts[0] != '\0' ? "; numbers to predict: " : "", amounts);
}

/* Adds words to the reason. */
__attribute__((format(printf, 2, 3))) static void why_add(struct proposal *p, const char *format,
                                                          ...)
{
    size_t at = strlen(p->label_why);
    va_list list;
    va_start(list, format);
    (void)vsnprintf(p->label_why + at, sizeof p->label_why - at, format, list);
    va_end(list);
}

static int numbers_choose(const struct column_form *f, const char *name, struct proposal *p,
                          struct err *e)
{
    numbers_part(f, &p->label);
    if (p->label.real && has_commas(f) && !column_form_decimal(f))
        return err_set(e, SHOAL_E_CONFIG,
                       "the label \"%s\" has commas before three digits, as \"1,234\": take the "
                       "commas between thousands out; if they are decimal, write a point",
                       name);
    if (p->label.real)
        why_add(p, "; a number to predict: model.loss: mse");
    else if (f->few_count > FORM_FEW)
        why_add(p, "; a count, positive above 0; as a number: model.loss: mse");
    else if (p->label.parted)
        why_add(p, "; positive above %g", p->label.above);
    if (!p->label.real && p->label.parted && f->few_count > 2)
        why_add(p, "; as a number: model.loss: mse, without label_above");
    return 0;
}

static int words_refuse(const struct column_form *f, const char *name, struct err *e)
{
    char list[128] = "";
    for (uint32_t i = 0; i < f->few_count && i < FORM_FEW; i++) {
        char word[COLUMN_SEEN_TEXT];
        size_t at = strlen(list);
        text_copy(word, sizeof word, f->few[i].text);
        if (at + strlen(word) + 3 < sizeof list)
            (void)snprintf(list + at, sizeof list - at, "%s%s", at > 0 ? ", " : "",
                           text_clean(word));
    }
    if (f->few_count == 0)
        return err_set(e, SHOAL_E_CONFIG, "the label \"%s\" is empty in all rows looked at", name);
    return err_set(e, SHOAL_E_CONFIG,
                   "the label \"%s\" has %s (%s%s), and a label is a number or one of two words: "
                   "no job is proposed; write a job whose data.label_positive lists the words that "
                   "are positive, or name another --label",
                   name, f->few_count == 1 ? "one word" : "more than two words", list,
                   f->few_count > FORM_FEW ? ", .." : "");
}

/* Sets what is positive, and how sure that is. CONFIG: no job can have this label. */
static int positive_choose(const struct survey *s, struct proposal *p, struct err *e)
{
    const struct survey_column *c = &s->column[p->label.column];
    char name[LIMIT_NAME];
    text_copy(name, sizeof name, c->name);
    int rc = 0;
    if (all_numbers(&c->form)) {
        rc = numbers_choose(&c->form, text_clean(name), p, e);
    } else if (!is_binary(&c->form)) {
        rc = words_refuse(&c->form, text_clean(name), e);
    } else {
        bool sure = words_part(&c->form, &p->label);
        char shown[COLUMN_SEEN_TEXT];
        text_copy(shown, sizeof shown, p->label.positive);
        why_add(p, "; positive is \"%s\"%s", text_clean(shown),
                sure ? "" : ", the rarer word: a guess");
        p->label_sure &= sure;
    }
    if (rc != 0)
        p->label.column = FEATURE_NO_COLUMN;
    return rc;
}

static int said_find(const struct survey *s, const char *said, struct proposal *p, struct err *e)
{
    for (uint32_t i = 0; i < s->columns; i++)
        if (strcmp(s->column[i].name, said) == 0) {
            p->label.column = i;
            p->label_sure = true;
            (void)snprintf(p->label_why, sizeof p->label_why, "as --label says");
            return positive_choose(s, p, e);
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
        return positive_choose(s, p, e);
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
                   best >= 400 || guess_grade(s->column[p->label.column].name) ? "by its name"
                   : p->candidates == 0 ? "the only column with two values"
                                        : "one of several with two values: look at it");
    return positive_choose(s, p, e);
}
