/* propose_text.c: tells a survey and its proposal, for people and for programs. */
#include "worker/data/propose.h"

#include "proto/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WIDE 79
#define NAME_WIDE 20
#define EXAMPLES_WIDE (WIDE - NAME_WIDE - 36)

/* ---- lines of at most WIDE columns ----------------------------------------------------------- */

/* Bytes of the longest beginning with at most `most` characters of UTF-8. */
static size_t fit(const char *text, size_t most)
{
    size_t at = 0, shown = 0;
    while (text[at] != '\0') {
        size_t next = at + 1;
        while (((unsigned char)text[next] & 0xc0) == 0x80)
            next++;
        if (++shown > most)
            break;
        at = next;
    }
    return at;
}

static size_t wide_of(const char *text)
{
    size_t shown = 0;
    for (; *text != '\0'; text++)
        shown += ((unsigned char)*text & 0xc0) != 0x80;
    return shown;
}

void propose_wrap(FILE *f, const char *head, const char *rest, const char *text)
{
    size_t begun = strlen(head), at = begun;
    const char *p = text;
    fputs(head, f);
    while (*p != '\0') {
        size_t n = strcspn(p, " ");
        char word[PROPOSE_WHY + LIMIT_PATH];
        (void)snprintf(word, sizeof word, "%.*s", (int)n, p);
        size_t shown = wide_of(word);
        if (at > begun && at + 1 + shown > WIDE) {
            fprintf(f, "\n%s", rest);
            at = begun = strlen(rest);
        }
        if (at > begun)
            fputc(' ', f);
        at += shown + (at > begun);
        fputs(word, f);
        p += n;
        p += strspn(p, " ");
    }
    fputc('\n', f);
}

/* Prints words behind a head, with later lines indented as the first. */
static void words_put(FILE *f, const char *head, size_t indent, const char *text)
{
    char first[32], rest[32];
    (void)snprintf(first, sizeof first, "%-*s", (int)indent, head);
    (void)snprintf(rest, sizeof rest, "%*s", (int)indent, "");
    propose_wrap(f, first, rest, text);
}

static void time_text(uint32_t at, char out[32])
{
    time_t t = (time_t)at;
    struct tm tm;
    if (gmtime_r(&t, &tm) == NULL || strftime(out, 32, "%Y-%m-%d %H:%M", &tm) == 0)
        out[0] = '\0';
}

/* "812,345", "~1,234,000" for an estimate. */
static const char *count_text(double n, bool estimate, char out[40])
{
    char text[32];
    if (estimate && n > 1000) {
        double unit = pow(10, floor(log10(n)) - 2);
        n = floor(n / unit + 0.5) * unit;
    }
    (void)snprintf(out, 40, "%s%s", estimate ? "~" : "", text_count((uint64_t)n, text));
    return out;
}

/* ---- the head -------------------------------------------------------------------------------- */

static void part_put(FILE *f, const struct survey *s, const struct proposal *p, uint32_t i)
{
    static const char *const called[] = {"train", "valid", "test"};
    const struct survey_part *t = &s->part[i];
    char rows[40], all[48] = "", text[2 * LIMIT_PATH], more[48] = "", count[40], share[40] = "";
    double rate = t->rows > 0 ? 100.0 * (double)t->positives / (double)t->rows : 0;
    if (t->names.count == 0)
        return;
    if (p->label.column != FEATURE_NO_COLUMN && !p->label.real)
        (void)snprintf(share, sizeof share, ", %.4g%% positive", rate);
    if (!t->whole && t->all > 0)
        (void)snprintf(all, sizeof all, " of %s", count_text(t->all, true, count));
    else if (!t->whole)
        (void)snprintf(all, sizeof all, ", more follow");
    if (t->names.count > 1)
        (void)snprintf(more, sizeof more, " and %zu more", t->names.count - 1);
    (void)snprintf(text, sizeof text, "%s rows%s%s: %s%s", count_text((double)t->rows, false, rows),
                   all, share, t->names.item[0], more);
    words_put(f, called[i], 9, text);
    if (t->bad > 0) {
        (void)snprintf(text, sizeof text, "%" PRIu64 " malformed rows, the first: %s", t->bad,
                       t->bad_first);
        words_put(f, "", 9, text_clean(text));
    }
}

static void head_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    char text[2 * LIMIT_PATH], from[32], to[32];
    (void)snprintf(text, sizeof text, "%s%s: %s", format_name(s->layout.format),
                   s->layout.sure ? "" : " (a guess)", s->layout.why);
    words_put(f, "format", 9, text);
    for (uint32_t i = 0; i < GUESS_ROLES; i++)
        part_put(f, s, p, i);
    (void)snprintf(text, sizeof text, "none found");
    if (p->label.column != FEATURE_NO_COLUMN)
        (void)snprintf(text, sizeof text, "%s, %s%s", s->column[p->label.column].name, p->label_why,
                       p->label_sure ? "" : " (not sure)");
    words_put(f, "label", 9, text_clean(text));
    if (p->candidates > 0) {
        (void)snprintf(text, sizeof text, "or else:");
        for (uint32_t i = 0; i < p->candidates; i++) {
            size_t at = strlen(text);
            (void)snprintf(text + at, sizeof text - at, "%s %s", i > 0 ? "," : "",
                           s->column[p->candidate[i]].name);
        }
        size_t at = strlen(text);
        (void)snprintf(text + at, sizeof text - at, " (--label NAME)");
        words_put(f, "", 9, text_clean(text));
    }
    if (p->time != FEATURE_NO_COLUMN) {
        const struct form_time *t = &s->column[p->time].form.time[p->time_form];
        time_text(t->least, from);
        time_text(t->most, to);
        (void)snprintf(text, sizeof text, "%s, %s, %s to %s UTC, rows %s of time",
                       s->column[p->time].name, column_form_called(p->time_form), from, to,
                       p->ordered ? "in order" : "not in order");
        words_put(f, "time", 9, text_clean(text));
    }
    for (size_t i = 0; i < s->left.count; i++) {
        (void)snprintf(text, sizeof text, "%s", s->left.item[i]);
        words_put(f, "left out", 9, text_clean(text));
    }
}

/* ---- the columns ----------------------------------------------------------------------------- */

static double filled_of(const struct column_form *f)
{
    if (f->cells == 0)
        return 0;
    return (double)column_form_values(f) / (double)f->cells;
}

/* Distinct values: of a list its values'. */
static double distinct_of(const struct column_form *f, const struct propose_column *c, bool *guess)
{
    const struct column_seen *s = &f->seen;
    if (c->use == PROPOSE_MULTI && f->piece.values > 0)
        s = &f->piece;
    *guess = s->thinned != 0;
    return (double)column_seen_distinct(s);
}

static void examples_text(const struct column_form *f, const struct propose_column *c, char *out,
                          size_t bytes)
{
    size_t at = 0;
    out[0] = '\0';
    if (c->use == PROPOSE_NUMBER && f->seen.numbers > 0) {
        (void)snprintf(out, bytes, "%.6g to %.6g", f->seen.least, f->seen.most);
        return;
    }
    for (uint32_t i = 0; i < f->seen.examples && at < bytes; i++) {
        const char *text = f->seen.example[i];
        if (i > 0 && wide_of(out) + 2 + wide_of(text) > EXAMPLES_WIDE)
            break; /* the first alone is cut */
        at += (size_t)snprintf(out + at, bytes - at, "%s%s", i > 0 ? ", " : "", text);
    }
    (void)text_clean(out);
}

static void column_put(FILE *f, const struct survey *s, const struct proposal *p, uint32_t i)
{
    const struct survey_column *of = &s->column[i];
    const struct propose_column *c = &p->column[i];
    char name[LIMIT_NAME], examples[4 * COLUMN_SEEN_TEXT], values[40];
    bool guess;
    double distinct = distinct_of(&of->form, c, &guess);
    text_copy(name, sizeof name, of->name);
    (void)text_clean(name);
    size_t n = fit(name, NAME_WIDE);
    bool cut = name[n] != '\0';
    if (cut)
        n = fit(name, NAME_WIDE - 2);
    examples_text(&of->form, c, examples, sizeof examples);
    double filled = 100 * filled_of(&of->form);
    if (filled > 99 && filled < 100) /* 100% is all */
        filled = 99;
    size_t at = (size_t)fprintf(f, "%.*s%s", (int)n, name, cut ? ".." : "");
    at -= n - (cut ? NAME_WIDE - 2 : wide_of(name)); /* in characters */
    fprintf(f, "%*s %-15s %5.0f%% %10s  ", (int)(at < NAME_WIDE ? NAME_WIDE - at : 0), "",
            propose_use_name(c), filled, count_text(distinct, guess, values));
    fprintf(f, "%.*s\n", (int)fit(examples, EXAMPLES_WIDE), examples);
}

static void table_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    bool guess = false, any = false;
    fprintf(f, "\n%-*s %-15s %6s %10s  %s\n", NAME_WIDE, "column", "as", "filled", "values",
            "examples, or range");
    for (uint32_t i = 0; i < s->columns; i++) {
        column_put(f, s, p, i);
        (void)distinct_of(&s->column[i].form, &p->column[i], &guess);
        any |= guess;
    }
    if (any)
        fputs("~: an estimate, within a few percent\n", f);
}

static void why_put(FILE *f, const struct survey *s, const struct proposal *p)
{
    char text[LIMIT_NAME + PROPOSE_WHY + 8];
    bool begun = false;
    for (uint32_t i = 0; i < s->columns; i++) {
        if (p->column[i].why[0] == '\0' || p->column[i].use == PROPOSE_TIME)
            continue;
        fputs(begun ? "" : "\n", f);
        begun = true;
        (void)snprintf(text, sizeof text, "%s (%s): %s", s->column[i].name,
                       propose_use_name(&p->column[i]), p->column[i].why);
        words_put(f, "-", 2, text_clean(text));
    }
    for (uint32_t i = 0; i < p->notes; i++) {
        fputs(begun ? "" : "\n", f);
        begun = true;
        words_put(f, "-", 2, p->note[i]);
    }
}

char *propose_text(const struct survey *s, const struct proposal *p)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);
    if (f == NULL)
        return NULL;
    head_put(f, s, p);
    table_put(f, s, p);
    why_put(f, s, p);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- as JSON --------------------------------------------------------------------------------- */

static struct json *part_json(const struct survey_part *p, bool positives)
{
    struct json *j = json_new_object(), *files = json_new_array();
    for (size_t i = 0; i < p->names.count; i++)
        json_append_string(files, p->names.item[i]);
    json_set(j, "files", files);
    json_set_int(j, "rows", (int64_t)p->rows);
    json_set_bool(j, "whole", p->whole);
    json_set_int(j, "malformed", (int64_t)p->bad);
    if (p->bad > 0)
        json_set_string(j, "malformed_first", p->bad_first);
    if (p->all > 0)
        json_set_number(j, "rows_estimated", floor(p->all + 0.5));
    if (positives)
        json_set_int(j, "positives", (int64_t)p->positives);
    return j;
}

static struct json *column_json(const struct survey *s, const struct proposal *p, uint32_t i)
{
    const struct column_form *f = &s->column[i].form;
    const struct propose_column *c = &p->column[i];
    struct json *j = json_new_object(), *examples = json_new_array();
    bool guess;
    double distinct = distinct_of(f, c, &guess);
    json_set_string(j, "name", s->column[i].name);
    json_set_string(j, "as", propose_use_name(c));
    json_set_number(j, "filled", filled_of(f));
    json_set_number(j, "values", distinct);
    json_set_bool(j, "estimate", guess);
    if (f->seen.numbers > 0) {
        json_set_number(j, "least", f->seen.least);
        json_set_number(j, "most", f->seen.most);
    }
    for (uint32_t k = 0; k < f->seen.examples; k++)
        json_append_string(examples, f->seen.example[k]);
    json_set(j, "examples", examples);
    if (c->why[0] != '\0')
        json_set_string(j, "why", c->why);
    return j;
}

static void time_json(const struct survey *s, const struct proposal *p, struct json *j)
{
    const struct form_time *t = &s->column[p->time].form.time[p->time_form];
    struct json *time = json_new_object();
    json_set_string(time, "name", s->column[p->time].name);
    json_set_string(time, "form", column_form_called(p->time_form));
    json_set_int(time, "first", t->least);
    json_set_int(time, "last", t->most);
    json_set_bool(time, "in_order", p->ordered);
    json_set(j, "time", time);
}

static void label_json(const struct survey *s, const struct proposal *p, struct json *j)
{
    struct json *label = json_new_object(), *others = json_new_array();
    json_set_string(label, "name", s->column[p->label.column].name);
    json_set_string(label, "why", p->label_why);
    json_set_bool(label, "sure", p->label_sure);
    json_set_bool(label, "number", p->label.real);
    for (uint32_t i = 0; i < p->candidates; i++)
        json_append_string(others, s->column[p->candidate[i]].name);
    json_set(label, "others", others);
    json_set(j, "label", label);
}

struct json *propose_json(const struct survey *s, const struct proposal *p)
{
    static const char *const called[] = {"train", "valid", "test"};
    struct json *j = json_new_object(), *columns = json_new_array(), *notes = json_new_array(),
                *left = json_new_array();
    bool known = p->label.column != FEATURE_NO_COLUMN;
    json_set_string(j, "format", format_name(s->layout.format));
    json_set_string(j, "format_why", s->layout.why);
    json_set_bool(j, "format_sure", s->layout.sure);
    for (uint32_t i = 0; i < GUESS_ROLES; i++)
        if (s->part[i].names.count > 0)
            json_set(j, called[i], part_json(&s->part[i], known && !p->label.real));
    if (known)
        label_json(s, p, j);
    if (p->time != FEATURE_NO_COLUMN)
        time_json(s, p, j);
    for (uint32_t i = 0; i < s->columns; i++)
        json_append(columns, column_json(s, p, i));
    json_set(j, "columns", columns);
    for (uint32_t i = 0; i < p->notes; i++)
        json_append_string(notes, p->note[i]);
    json_set(j, "notes", notes);
    for (size_t i = 0; i < s->left.count; i++)
        json_append_string(left, s->left.item[i]);
    json_set(j, "left_out", left);
    char *job = known ? propose_job(s, p, true) : NULL;
    if (job != NULL)
        json_set_string(j, "job", job);
    free(job);
    return j;
}
