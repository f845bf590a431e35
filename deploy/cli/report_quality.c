/* report_quality.c: how good the predictions are: calibration curves, a line for each label, values
 * of fields. */
#include "deploy/cli/html.h"
#include "deploy/cli/report_page.h"
#include "deploy/cli/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_SHOWN = 12 };

/* Buckets of equal counts, as ours are, are no bars worth drawing. */
static bool uneven(const double *examples, size_t count)
{
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, examples[i]);
        most = fmax(most, examples[i]);
    }
    return least < 0.9 * most;
}

/* of: `valid`, `test`, or one of its tasks. */
static void calibration_card(FILE *out, const struct json *of, const char *title, const char *label)
{
    const struct json *buckets = json_get(of, "buckets");
    size_t count = json_count(buckets);
    double *x = report_page_column(buckets, "predicted"), *y = report_page_column(buckets, "label"),
           most = 0;
    double *examples = report_page_column(buckets, "examples");
    char text[32];
    for (size_t i = 0; i < count && x != NULL && y != NULL; i++)
        most = fmax(most, fmax(x[i], y[i]));
    if (count > 0 && x != NULL && y != NULL && examples != NULL && most > 0) {
        struct svg_series s = {.colour = "c1",
                               .x = x,
                               .y = y,
                               .count = count,
                               .dots = true,
                               .note = "bucket",
                               .name = NULL};
        struct svg_chart c = {.label = "Mean label by mean prediction",
                              .x_name = "mean prediction",
                              .y_name = "mean label",
                              .series = &s,
                              .series_count = 1,
                              .x_max = most * 1.06,
                              .y_max = most * 1.06,
                              .diagonal = true,
                              .bar = examples,
                              .bar_count = uneven(examples, count) ? count : 0};
        fprintf(out, "<div class=\"card\"><h3>%s", title);
        if (label != NULL) {
            fputs(": ", out);
            html_text(out, label);
        }
        fprintf(out,
                "</h3><p class=\"note\">mean label by mean prediction in %zu buckets of examples; "
                "on the dashed line "
                "predictions are "
                "right. Calibration %s, ",
                count, html_number(report_page_number(of, "calibration"), 3, text));
        fprintf(out, "expected error %s.%s</p>\n",
                html_number(report_page_number(of, "ece"), 5, text),
                c.bar_count > 0 ? " Bars: examples." : "");
        svg_chart(out, &c);
        fputs("</div>\n", out);
    }
    free(x), free(y), free(examples);
}

/* A report has as many labels and fields as a job can; what else a file holds is not shown. */
static size_t labels_of(const struct json *tasks)
{
    return json_count(tasks) < LIMIT_TASKS ? json_count(tasks) : LIMIT_TASKS;
}

static void calibration_of(FILE *out, const struct json *split, const char *title)
{
    const struct json *tasks = json_get(split, "tasks");
    if (json_absent(split))
        return;
    if (labels_of(tasks) == 0)
        calibration_card(out, split, title, NULL);
    for (size_t i = 0; i < labels_of(tasks); i++) {
        const struct json *t = json_array_at(tasks, i);
        calibration_card(out, t, title, json_as_string(json_get(t, "label"), "label"));
    }
}

static void tasks_table(FILE *out, const struct json *split, const char *name)
{
    static const struct {
        const char *key, *name;
        int digits;
    } figure[] = {{"auc", "AUC", 5},
                  {"gauc", "group AUC", 5},
                  {"logloss", "logloss", 5},
                  {"ne", "NE", 4},
                  {"calibration", "calibration", 3},
                  {"ece", "ECE", 5},
                  {"positives", "positives", 0}};
    const struct json *tasks = json_get(split, "tasks");
    char text[32];

    if (labels_of(tasks) == 0)
        return;
    fprintf(out, "<h2>Labels, %s split</h2>\n<div class=\"card scroll\"><table><tr><th>label</th>",
            name);
    for (size_t f = 0; f < sizeof figure / sizeof figure[0]; f++)
        fprintf(out, "<th>%s</th>", figure[f].name);
    fputs("</tr>\n", out);
    for (size_t i = 0; i < labels_of(tasks); i++) {
        const struct json *t = json_array_at(tasks, i);
        fputs("<tr><td>", out);
        html_text(out, json_as_string(json_get(t, "label"), ""));
        fputs("</td>", out);
        for (size_t f = 0; f < sizeof figure / sizeof figure[0]; f++)
            fprintf(out, "<td>%s</td>",
                    html_number(report_page_number(t, figure[f].key), figure[f].digits, text));
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

/* ---- values of fields ------------------------------------------------------------------------ */

/* A bar from the middle, which is 1: to the right what promises too much; a half or twice as much
 * fills it. */
static void calibration_bar(FILE *out, double calibration)
{
    double log2_of =
        isfinite(calibration) && calibration > 0 ? fmax(-1, fmin(1, log2(calibration))) : 0;
    double width = fabs(log2_of) * 50;
    fprintf(out,
            "<span class=\"bar\"><i class=\"%s\" style=\"left:%.1f%%;width:%.1f%%\"></i></span>",
            log2_of > 0 ? "over" : "under", log2_of > 0 ? 50 : 50 - width, width);
}

static void value_row(FILE *out, const struct json *v)
{
    const char *key = json_as_string(json_get(v, "key"), ""),
               *value = json_as_string(json_get(v, "value"), key);
    char text[32];
    fputs("<tr><td class=\"code\">", out);
    html_text(out, value[0] != 0 ? value : "(empty)");
    if (strcmp(key, "other") == 0)
        fprintf(out, " (%s values)", html_number(report_page_number(v, "values"), 0, text));
    fprintf(out, "</td><td>%s</td>", html_number(report_page_number(v, "examples"), 0, text));
    fprintf(out, "<td>%s</td>", html_number(report_page_number(v, "label"), 4, text));
    fprintf(out, "<td>%s</td>", html_number(report_page_number(v, "predicted"), 4, text));
    fprintf(out, "<td>%s</td>", html_number(report_page_number(v, "logloss"), 4, text));
    fprintf(out, "<td>%s</td>", html_number(report_page_number(v, "auc"), 4, text));
    fprintf(out, "<td>%s", html_number(report_page_number(v, "calibration"), 3, text));
    calibration_bar(out, report_page_number(v, "calibration"));
    fputs("</td></tr>\n", out);
}

/* The values with the most examples, and the sum of all others. */
static void field_table(FILE *out, const char *field, const struct json *values)
{
    size_t count = json_count(values);
    fputs("<div class=\"card scroll wide\"><h3>", out);
    html_text(out, field);
    fputs("</h3>\n<table><tr><th>value</th><th>examples</th><th>mean label</th><th>mean "
          "prediction</th><th>logloss</th><th>AUC</th>"
          "<th>calibration</th></tr>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const struct json *v = json_array_at(values, i);
        if (i < VALUES_SHOWN || strcmp(json_as_string(json_get(v, "key"), ""), "other") == 0)
            value_row(out, v);
    }
    fputs("</table>", out);
    if (count > VALUES_SHOWN + 1)
        fprintf(out, "<p class=\"note\">%zu more values in report.json.</p>",
                count - VALUES_SHOWN - 1);
    fputs("</div>\n", out);
}

static void fields_of(FILE *out, const struct json *of, const char *label)
{
    const struct json *by = json_get(of, "by");
    if (json_members(by) == 0)
        return;
    fputs("<h2>By field value", out);
    if (label != NULL) {
        fputs(": ", out);
        html_text(out, label);
    }
    fputs("</h2>\n<div class=\"cards\">\n", out);
    for (size_t i = 0; i < json_members(by) && i < LIMIT_BY; i++)
        field_table(out, json_member_name(by, i), json_member_at(by, i));
    fputs("</div>\n", out);
}

void report_page_quality(FILE *out, const struct json *r)
{
    const struct json *valid = json_get(r, "valid"), *test = json_get(r, "test");
    const struct json *last = json_absent(test) ? valid : test, *tasks = json_get(last, "tasks");
    if (json_absent(last))
        return;
    fputs("<h2>Calibration</h2>\n<div class=\"cards\">\n", out);
    calibration_of(out, valid, "Validation split");
    calibration_of(out, test, "Test split");
    fputs("</div>\n", out);
    tasks_table(out, last, json_absent(test) ? "validation" : "test");
    if (labels_of(tasks) == 0)
        fields_of(out, last, NULL);
    for (size_t i = 0; i < labels_of(tasks); i++)
        fields_of(out, json_array_at(tasks, i),
                  json_as_string(json_get(json_array_at(tasks, i), "label"), "label"));
}
