/* report_html.c: a report as one page: what was learned, how good it is, how fast it went and why,
 * what is in the tables. Opens from disk; no script, no network. A part whose figures the report
 * lacks is left out. */
#include "deploy/cli/html.h"
#include "deploy/cli/report_page.h"
#include "deploy/cli/svg.h"
#include "proto/base/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT(j) json_as_string((j), NULL)
/* neighbours on a side: a curve of ours has at most 1,000 points, another report's may have more */
#define SMOOTH_MAX 25u

double report_page_number(const struct json *r, const char *path)
{
    return json_as_number(json_get(r, path), (double)NAN);
}

double *report_page_column(const struct json *list, const char *path)
{
    size_t count = json_count(list);
    double *x = malloc((count + 1) * sizeof *x);
    for (size_t i = 0; i < count && x != NULL; i++)
        x[i] = report_page_number(json_array_at(list, i), path);
    return x;
}

double *report_page_smooth(const struct json *list, const double *x)
{
    size_t count = json_count(list), reach = count / 40 < SMOOTH_MAX ? count / 40 : SMOOTH_MAX;
    double *mean = malloc((count + 1) * sizeof *mean), *epoch = report_page_column(list, "epoch");
    for (size_t i = 0; i < count && mean != NULL && epoch != NULL; i++) {
        size_t from = i < reach ? 0 : i - reach, to = i + reach < count ? i + reach : count - 1,
               seen = 0;
        double sum = 0;
        for (size_t k = from; k <= to; k++)
            if (isfinite(x[k]) && epoch[k] == epoch[i]) {
                sum += x[k];
                seen++;
            }
        mean[i] = seen > 0 ? sum / (double)seen : (double)NAN;
    }
    if (epoch == NULL) {
        free(mean);
        mean = NULL;
    }
    free(epoch);
    return mean;
}

static const char *n(double x, int digits, char out[32])
{
    return html_number(x, digits, out);
}

static void said(FILE *out, const char *what, const char *sentence)
{
    fprintf(out, "<p class=\"said\"><b>%s</b> ", what);
    html_text(out, sentence);
    fputs("</p>\n", out);
}

/* What a person should know before the figures. */
static void words(FILE *out, const struct json *r)
{
    const struct json *notes = json_get(r, "notes"), *where = json_get(r, "bad_where");
    if (TEXT(json_get(r, "reason")) != NULL)
        said(out,
             strcmp(json_as_string(json_get(r, "state"), ""), "stopped") == 0 ? "Stopped:"
                                                                              : "Failed:",
             TEXT(json_get(r, "reason")));
    if (TEXT(json_get(r, "warning")) != NULL)
        said(out, "Warning:", TEXT(json_get(r, "warning")));
    for (size_t i = 0; i < json_count(notes); i++)
        said(out, "Note:", TEXT(json_array_at(notes, i)));
    for (size_t i = 0; i < json_count(where); i++)
        said(out, "Malformed:", TEXT(json_array_at(where, i)));
}

static void tile(FILE *out, const char *name, const char *value, const char *more)
{
    fprintf(out,
            "<div class=\"tile\"><div class=\"k\">%s</div><div class=\"v\">%s</div><div "
            "class=\"s\">%s</div></div>\n",
            name, value, more);
}

static void seconds_text(double s, char out[32])
{
    if (!isfinite(s))
        (void)html_number(s, 1, out);
    else if (s < 120)
        (void)snprintf(out, 32, "%.1f s", s);
    else if (s < 7200)
        (void)snprintf(out, 32, "%.0f min %02.0f s", floor(s / 60), floor(fmod(s, 60)));
    else
        (void)snprintf(out, 32, "%.0f h %02.0f min", floor(s / 3600), floor(fmod(s, 3600) / 60));
}

#define AUC_LOST 5e-4 /* by so much less than another epoch's is worth a word */

/* The epoch of the best AUC on the validation split, if it is better than what is kept; else 0. */
static size_t better_epoch(const struct json *r, double *best)
{
    const struct json *epochs = json_get(r, "epochs");
    size_t at = 0;
    *best = report_page_number(r, "valid.auc") + AUC_LOST;
    for (size_t i = 0; i < json_count(epochs); i++) {
        double auc = report_page_number(json_array_at(epochs, i), "valid.auc");
        if (auc > *best) {
            *best = auc;
            at = (size_t)json_as_int(json_get(json_array_at(epochs, i), "epoch"), (int64_t)i + 1);
        }
    }
    return at;
}

static void auc_tile(FILE *out, const struct json *r, const char *split)
{
    const struct json *v = json_get(r, split);
    char name[32], value[32], more[64], text[32];
    double error = report_page_number(v, "auc_error"), teacher = report_page_teacher(r, split),
           best = 0;
    size_t better = strcmp(split, "valid") == 0 ? better_epoch(r, &best) : 0;
    if (json_absent(v))
        return;
    (void)snprintf(name, sizeof name, "%sAUC, %s",
                   json_count(json_get(v, "tasks")) > 0 ? "Mean " : "", split);
    if (better > 0)
        (void)snprintf(more, sizeof more, "epoch %zu had %s", better, n(best, 4, text));
    else if (error > 0)
        (void)snprintf(more, sizeof more, "within \u00b1%s", n(error, 6, text));
    else if (!isnan(teacher))
        (void)snprintf(more, sizeof more, "best possible: %s", n(teacher, 4, text));
    else
        (void)snprintf(more, sizeof more, "of %s examples",
                       n(report_page_number(v, "examples"), 0, text));
    tile(out, name, n(report_page_number(v, "auc"), 4, value), more);
}

/* Measures of one split, or of a day. */
static void measure_tiles(FILE *out, const struct json *v, const char *split)
{
    char value[32], text[32], more[64], name[32];
    if (json_absent(v))
        return;
    if (!json_absent(json_get(v, "gauc"))) {
        if (json_count(json_get(v, "tasks")) > 0)
            (void)snprintf(more, sizeof more, "mean over labels");
        else
            (void)snprintf(more, sizeof more, "over %s groups",
                           n(report_page_number(v, "groups"), 0, text));
        (void)snprintf(name, sizeof name, "Group AUC, %s", split);
        tile(out, name, n(report_page_number(v, "gauc"), 4, value), more);
    }
    (void)snprintf(more, sizeof more, "normalised: %s", n(report_page_number(v, "ne"), 4, text));
    (void)snprintf(name, sizeof name, "Logloss, %s", split);
    tile(out, name, n(report_page_number(v, "logloss"), 4, value), more);
    double ece = report_page_number(v, "ece");
    (void)snprintf(more, sizeof more, "expected error: %s", n(ece, 4, text));
    if (isnan(ece)) /* of a day it is not known */
        (void)snprintf(more, sizeof more, "mean prediction by mean label");
    (void)snprintf(name, sizeof name, "Calibration, %s", split);
    tile(out, name, n(report_page_number(v, "calibration"), 3, value), more);
}

/* A replay scores each day before it learns it: the tiles are those of its last day. */
static void day_tiles(FILE *out, const struct json *r)
{
    const struct json *days = json_get(r, "replay.days");
    size_t count = json_count(days);
    char value[32], more[64], text[32];
    if (count == 0)
        return;
    const struct json *day = json_array_at(days, count - 1);
    (void)snprintf(more, sizeof more, "first day: %s",
                   n(report_page_number(json_array_at(days, 0), "figures.auc"), 4, text));
    tile(out, "AUC, last day", n(report_page_number(day, "figures.auc"), 4, value), more);
    measure_tiles(out, json_get(day, "figures"), "last day");
}

static void tiles(FILE *out, const struct json *r)
{
    const char *split = json_absent(json_get(r, "test")) ? "valid" : "test";
    char value[32], text[32], more[64];
    words(out, r);
    fputs("<div class=\"tiles\">\n", out);
    auc_tile(out, r, "valid");
    auc_tile(out, r, "test");
    measure_tiles(out, json_get(r, split), split);
    if (json_absent(json_get(r, split)))
        day_tiles(out, r);
    (void)snprintf(more, sizeof more, "%s in all", n(report_page_number(r, "examples"), 0, text));
    tile(out, "Examples / s", n(report_page_number(r, "examples_per_second"), 0, value), more);
    seconds_text(report_page_number(r, "seconds"), value);
    size_t epochs = json_count(json_get(r, "epochs"));
    (void)snprintf(more, sizeof more, "%zu epoch%s", epochs, epochs == 1 ? "" : "s");
    tile(out, "Time", value, more);
    fputs("</div>\n", out);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* name: of a label, or NULL. */
static void card_begin(FILE *out, const char *title, const char *name, const char *more)
{
    fprintf(out, "<div class=\"card\"><h3>%s%s", title, name == NULL ? "" : ": ");
    html_text(out, name);
    fprintf(out, "</h3><p class=\"note\">%s</p>\n", more);
}

/* Where each epoch ends, in examples: the last point of it. (epochs); the caller frees. */
static double *epoch_ends(const struct json *training, size_t epochs)
{
    double *end = malloc((epochs + 1) * sizeof *end);
    for (size_t i = 0; i < epochs && end != NULL; i++)
        end[i] = (double)NAN;
    for (size_t i = 0; i < json_count(training) && end != NULL; i++) {
        int64_t epoch = json_as_int(json_get(json_array_at(training, i), "epoch"), 0);
        if (epoch >= 1 && epoch <= (int64_t)epochs)
            end[epoch - 1] = report_page_number(json_array_at(training, i), "examples");
    }
    return end;
}

/* Evaluations of data.valid, as `evaluations` has them, or a report of before that the epochs. */
struct evaluations {
    const struct json *list;
    const char *of; /* where its figures are */
    double *x;      /* (count), owned: examples of training */
    size_t count;
};

static struct evaluations evaluations_of(const struct json *r)
{
    struct evaluations v = {.list = json_get(r, "evaluations"), .of = ""};
    bool own = json_count(v.list) > 0;
    if (!own)
        v = (struct evaluations){.list = json_get(r, "epochs"), .of = "valid."};
    v.count = json_count(v.list);
    v.x =
        own ? report_page_column(v.list, "examples") : epoch_ends(json_get(r, "training"), v.count);
    return v;
}

/* label: of several, its number and name; NULL: there is one. */
static void loss_chart(FILE *out, const struct json *training, const struct json *epochs,
                       const struct evaluations *v, size_t label, const char *name)
{
    size_t count = json_count(training), ends = json_count(epochs);
    char of_train[32] = "logloss", of_valid[48];
    (void)snprintf(of_valid, sizeof of_valid, "%slogloss", v->of);
    if (name != NULL) {
        (void)snprintf(of_train, sizeof of_train, "tasks.%zu", label);
        (void)snprintf(of_valid, sizeof of_valid, "%stasks.%zu.logloss", v->of, label);
    }
    double *x = report_page_column(training, "examples"),
           *raw = report_page_column(training, of_train), *end = epoch_ends(training, ends);
    double *mean = raw == NULL ? NULL : report_page_smooth(training, raw),
           *valid = report_page_column(v->list, of_valid);

    if (x != NULL && raw != NULL && mean != NULL && end != NULL && valid != NULL && v->x != NULL) {
        bool evaluated = v->count > 0 && isfinite(valid[v->count - 1]);
        struct svg_series s[] = {
            {.colour = "c1", .x = x, .y = raw, .count = count, .faint = true},
            {.name = "train", .colour = "c1", .x = x, .y = mean, .count = count},
            {.name = "valid",
             .colour = "c2",
             .x = v->x,
             .y = valid,
             .count = v->count,
             .dots = true,
             .note = "evaluation"}};
        struct svg_chart c = {.label = "Logloss over examples of training",
                              .x_name = "examples",
                              .y_name = "logloss",
                              .series = s,
                              .series_count = evaluated ? 3 : 2,
                              .mark = end,
                              .mark_count = ends};
        card_begin(out, "Logloss", name, "by examples of training; dashed lines: ends of epochs");
        svg_chart(out, &c);
        fputs("</div>\n", out);
    }
    free(x), free(raw), free(mean), free(valid), free(end);
}

/* Where the tables that the job ends with were evaluated, in examples; NaN where that is the last
 * one, or not known. */
static double kept_at(const struct json *r, const struct evaluations *v)
{
    size_t kept = (size_t)json_as_int(json_get(r, "final_epoch"), 0);
    for (size_t i = 0; v->of[0] == 0 && i < v->count; i++)
        if (json_as_bool(json_get(json_array_at(v->list, i), "kept"), false))
            kept = i + 1;
    return v->x != NULL && kept > 0 && kept < v->count ? v->x[kept - 1] : (double)NAN;
}

/* The teacher's AUC up to the last evaluation. */
static bool teacher_line(const struct json *r, const struct evaluations *v, double x[2],
                         double y[2])
{
    y[0] = y[1] = report_page_teacher(r, "valid");
    if (v->x == NULL || v->count == 0)
        return false;
    x[0] = 0;
    x[1] = v->x[v->count - 1];
    return isfinite(y[0]);
}

/* AUC by examples of training: of what was trained, before it was learnt, and of the validation
 * split, of the one label with its group AUC, or of each of several. */
static void auc_chart(FILE *out, const struct json *r, const struct evaluations *v, size_t labels)
{
    static const char *const colour[] = {"c2", "c3", "c4", "c5", "c1"};
    const struct json *windows = json_get(r, "train.windows");
    size_t lines = labels > 0 ? labels < LIMIT_TASKS ? labels : LIMIT_TASKS : 2, drawn = 0;
    struct svg_series s[LIMIT_TASKS + 2];
    double *x = report_page_column(windows, "examples"), *y = report_page_column(windows, "auc");
    double across[2], best[2], kept = kept_at(r, v);
    char path[64];
    if (json_count(windows) > 0 && x != NULL && y != NULL)
        s[drawn++] = (struct svg_series){
            .name = "train", .colour = "c1", .x = x, .y = y, .count = json_count(windows)};
    size_t first = drawn;
    for (size_t i = 0; i < lines; i++) {
        s[drawn] = (struct svg_series){.name = i == 0 ? "valid" : "valid, group AUC",
                                       .colour = colour[i % 5],
                                       .x = v->x,
                                       .count = v->count,
                                       .dots = true,
                                       .note = "evaluation"};
        (void)snprintf(path, sizeof path, "epochs.0.tasks.%zu.label", i);
        if (labels > 0)
            s[drawn].name = json_as_string(json_get(r, path), "label");
        (void)snprintf(path, sizeof path, "%stasks.%zu.auc", v->of, i);
        if (labels == 0)
            (void)snprintf(path, sizeof path, "%s%s", v->of, i == 0 ? "auc" : "gauc");
        s[drawn].y = report_page_column(v->list, path);
        if (s[drawn].y != NULL && v->x != NULL && v->count > 0 &&
            isfinite(s[drawn].y[v->count - 1]))
            drawn++;
        else
            free((void *)(uintptr_t)s[drawn].y);
    }
    size_t owned = drawn;
    if (drawn > 0 && labels == 0 && teacher_line(r, v, across, best))
        s[drawn++] = (struct svg_series){
            .name = "best possible", .colour = "c5", .x = across, .y = best, .count = 2};
    if (drawn > 0) {
        struct svg_chart c = {.label = "AUC by examples of training",
                              .x_name = "examples",
                              .y_name = "AUC",
                              .series = s,
                              .series_count = drawn,
                              .x_max = v->x != NULL && v->count > 0 ? v->x[v->count - 1] : 0,
                              .mark = &kept,
                              .mark_count = isfinite(kept) ? 1 : 0};
        card_begin(out, "AUC", NULL,
                   "train: examples as they were scored before they were learnt; valid: the "
                   "validation split; dashed line: the evaluation whose tables are kept");
        svg_chart(out, &c);
        fputs("</div>\n", out);
    }
    for (size_t i = first; i < owned; i++)
        free((void *)(uintptr_t)s[i].y);
    free(x), free(y);
}

/* With evaluations within epochs: each, the kept one marked. */
static void evaluations_table(FILE *out, const struct json *r)
{
    const struct json *list = json_get(r, "evaluations");
    char text[32];
    if (json_count(list) <= json_count(json_get(r, "epochs")))
        return;
    fputs("<details><summary>Every evaluation as a table</summary><div "
          "class=\"scroll\"><table><tr><th>batch</th><th>epoch</th><th>examples</th><th>AUC</th>"
          "<th>logloss</th><th>NE</th><th>calibration</th></tr>\n",
          out);
    for (size_t i = 0; i < json_count(list); i++) {
        static const struct {
            const char *key;
            int digits;
        } figure[] = {{"batch", 0},   {"epoch", 0}, {"examples", 0},   {"auc", 5},
                      {"logloss", 5}, {"ne", 4},    {"calibration", 3}};
        const struct json *v = json_array_at(list, i);
        fprintf(out, "<tr%s>", json_as_bool(json_get(v, "kept"), false) ? " class=\"best\"" : "");
        for (size_t k = 0; k < sizeof figure / sizeof figure[0]; k++)
            fprintf(out, "<td>%s</td>",
                    n(report_page_number(v, figure[k].key), figure[k].digits, text));
        fputs("</tr>\n", out);
    }
    fputs("</table></div></details>\n", out);
}

static void epochs_table(FILE *out, const struct json *r)
{
    const struct json *epochs = json_get(r, "epochs");
    int64_t final = json_as_int(json_get(r, "final_epoch"), 0);
    char text[32];
    fputs("<details><summary>Every epoch as a table</summary><div "
          "class=\"scroll\"><table><tr><th>epoch</th><th>train "
          "logloss</th>"
          "<th>valid logloss</th><th>valid "
          "AUC</th><th>NE</th><th>calibration</th><th>ECE</th><th>seconds</th></tr>\n",
          out);
    for (size_t i = 0; i < json_count(epochs); i++) {
        const struct json *e = json_array_at(epochs, i);
        fprintf(out, "<tr%s><td>%s</td>",
                json_as_int(json_get(e, "epoch"), -1) == final ? " class=\"best\"" : "",
                n(report_page_number(e, "epoch"), 0, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "train_logloss"), 5, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "valid.logloss"), 5, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "valid.auc"), 5, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "valid.ne"), 4, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "valid.calibration"), 3, text));
        fprintf(out, "<td>%s</td>", n(report_page_number(e, "valid.ece"), 5, text));
        fprintf(out, "<td>%s</td></tr>\n", n(report_page_number(e, "seconds"), 1, text));
    }
    fputs("</table></div></details>\n", out);
}

static void learning(FILE *out, const struct json *r)
{
    const struct json *training = json_get(r, "training"), *epochs = json_get(r, "epochs");
    if (json_count(epochs) == 0)
        return;
    fputs("<h2>Learning</h2>\n<div class=\"cards\">\n", out);
    size_t labels = json_count(json_get(r, "epochs.0.tasks"));
    labels = labels < LIMIT_TASKS ? labels : LIMIT_TASKS;
    struct evaluations v = evaluations_of(r);
    if (json_count(training) > 0 && labels == 0)
        loss_chart(out, training, epochs, &v, 0, NULL);
    for (size_t t = 0; t < labels && json_count(training) > 0; t++) {
        char path[48];
        (void)snprintf(path, sizeof path, "epochs.0.tasks.%zu.label", t);
        loss_chart(out, training, epochs, &v, t, json_as_string(json_get(r, path), "label"));
    }
    auc_chart(out, r, &v, labels);
    free(v.x);
    fputs("</div>\n", out);
    epochs_table(out, r);
    evaluations_table(out, r);
}

/* ---- the page -------------------------------------------------------------------------------- */

/* "5 not admitted, 3 expired" */
static void rules(FILE *out, const struct json *of)
{
    char text[32];
    for (size_t i = 0; i < json_members(of); i++) {
        fprintf(out, "%s%s ", i > 0 ? ", " : "",
                n(json_as_number(json_member_at(of, i), 0), 0, text));
        for (const char *p = json_member_name(of, i); *p != 0; p++) {
            const char one[2] = {*p == '_' ? ' ' : *p, 0};
            html_text(out, one);
        }
    }
}

static void tables(FILE *out, const struct json *r)
{
    const struct json *list = json_get(r, "tables");
    char text[32];
    bool ruled = false;
    if (json_count(list) == 0)
        return;
    for (size_t i = 0; i < json_count(list); i++)
        ruled |= json_members(json_get(json_array_at(list, i), "rules")) > 0;
    fprintf(out,
            "<h2>Tables</h2>\n<div class=\"card "
            "scroll\"><table><tr><th>table</th><th>rows</th>%s<th>digest</th></tr>\n",
            ruled ? "<th>rules</th>" : "");
    for (size_t i = 0; i < json_count(list); i++) {
        const struct json *t = json_array_at(list, i);
        fputs("<tr><td>", out);
        html_text(out, TEXT(json_get(t, "name")));
        fprintf(out, "</td><td>%s</td>", n(report_page_number(t, "rows"), 0, text));
        if (ruled) {
            fputs("<td>", out);
            rules(out, json_get(t, "rules"));
            fputs("</td>", out);
        }
        fputs("<td class=\"code\">", out);
        html_text(out, TEXT(json_get(t, "digest")));
        fputs("</td></tr>\n", out);
    }
    fputs("</table><p class=\"note\">Equal digests, equal tables, bit for bit: weights and "
          "optimizer state.</p></div>\n",
          out);
}

/* What each worker computed on, and why on that. */
static void workers(FILE *out, const struct json *r)
{
    static const char *const key[] = {"name", "backend", "device", "why"};
    const struct json *list = json_get(r, "backends");
    if (json_count(list) == 0)
        return;
    fputs("<h2>Workers</h2>\n<div class=\"card "
          "scroll\"><table><tr><th>worker</th><th>backend</th><th>device</th><th>why</th></tr>\n",
          out);
    for (size_t i = 0; i < json_count(list); i++) {
        fputs("<tr>", out);
        for (size_t k = 0; k < sizeof key / sizeof key[0]; k++) {
            fputs("<td>", out);
            html_text(out, TEXT(json_get(json_array_at(list, i), key[k])));
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</table></div>\n", out);
}

int report_page_html(const struct json *r, const char *path, struct err *e)
{
    char temporary[LIMIT_PATH + 8], title[LIMIT_NAME + 32];
    (void)snprintf(temporary, sizeof temporary, "%s.tmp", path);
    (void)snprintf(title, sizeof title, "%.63s \u2013 report",
                   json_as_string(json_get(r, "job"), "job"));
    FILE *out = file_stream(temporary, false);
    if (out == NULL)
        return err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", temporary, strerror(errno));
    html_begin(out, title);
    report_page_head(out, r);
    tiles(out, r);
    report_page_days(out, r);
    learning(out, r);
    report_page_quality(out, r);
    report_page_input(out, r);
    report_page_speed(out, r);
    tables(out, r);
    workers(out, r);
    fputs("<footer>Written by Shoal from report.json, which holds every figure.</footer>\n", out);
    html_end(out);
    int rc = 0;
    bool good = ferror(out) == 0;
    if (fclose(out) != 0 || !good)
        rc = err_set(e, SHOAL_E_IO, "cannot write %s: %s", temporary, strerror(errno));
    else if (file_rename(temporary, path) != 0)
        rc = err_set(e, SHOAL_E_CANTCREATE, "cannot write %s: %s", path, strerror(errno));
    if (rc != 0)
        (void)file_unlink(temporary);
    return rc;
}
