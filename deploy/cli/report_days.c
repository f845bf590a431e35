/* report_days.c: a replay's days and hours, as they were before they were learnt, and the values of
 * fields that moved most from one day to the next. */
#include "deploy/cli/html.h"
#include "deploy/cli/report_page.h"
#include "deploy/cli/svg.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOVED_SHOWN = 12 };

/* ---- charts ---------------------------------------------------------------------------------- */

int64_t report_page_time(const char *label)
{
    struct tm t = {0};
    int hours = 0, minutes = 0;
    const char *zone = strptime(label, "%Y-%m-%dT%H:%M:%S", &t);
    if (zone != NULL && *zone != 'Z')
        (void)sscanf(zone + 1, "%2d:%2d", &hours, &minutes);
    int64_t ahead = hours * 3600 + minutes * 60;
    return timegm(&t) - (zone != NULL && *zone == '-' ? -ahead : ahead);
}

/* When a day or a window begins, in days of 24 hours since the first one began. */
static double days_since(const struct json *days, const struct json *of)
{
    const char *first = json_as_string(json_get(json_array_at(days, 0), "from"), ""),
               *from = json_as_string(json_get(of, "from"), "");
    return (double)(report_page_time(from) - report_page_time(first)) / 86400;
}

/* How long days and windows are, in days of 24 hours. */
struct lengths {
    double day, window;
};

/* A figure of hours and of days, each at the middle of its time. */
struct course {
    double *hour_x, *hour, *day_x, *day; /* owned */
    size_t hours, days;
};

static void course_free(struct course *c)
{
    free(c->hour_x), free(c->hour), free(c->day_x), free(c->day);
}

static bool course_make(const struct json *days, const struct lengths *lasts, const char *path,
                        struct course *c)
{
    size_t count = 0;
    for (size_t d = 0; d < json_count(days); d++)
        count += json_count(json_get(json_array_at(days, d), "hours"));
    *c = (struct course){.hour_x = malloc((count + 1) * sizeof(double)),
                         .hour = malloc((count + 1) * sizeof(double)),
                         .day_x = malloc((json_count(days) + 1) * sizeof(double)),
                         .day = report_page_column(days, path)};
    if (c->hour_x == NULL || c->hour == NULL || c->day_x == NULL || c->day == NULL)
        return false;
    for (size_t d = 0; d < json_count(days); d++) {
        const struct json *day = json_array_at(days, d), *hours = json_get(day, "hours");
        c->day_x[c->days++] = days_since(days, day) + lasts->day / 2;
        for (size_t h = 0; h < json_count(hours); h++) {
            const struct json *hour = json_array_at(hours, h);
            c->hour_x[c->hours] = days_since(days, hour) + lasts->window / 2;
            c->hour[c->hours++] = report_page_number(hour, path);
        }
    }
    return true;
}

static void course_card(FILE *out, const struct json *days, const struct lengths *lasts,
                        const char *title, const char *path)
{
    const struct json *last = json_array_at(days, json_count(days) - 1);
    struct course c;
    char axis[80];
    (void)snprintf(axis, sizeof axis, "days from %.25s on",
                   json_as_string(json_get(json_array_at(days, 0), "from"), ""));
    if (course_make(days, lasts, path, &c)) {
        struct svg_series s[] = {{.name = "window",
                                  .colour = "c1",
                                  .x = c.hour_x,
                                  .y = c.hour,
                                  .count = c.hours,
                                  .faint = true},
                                 {.name = lasts->day == 1 ? "day" : "period",
                                  .colour = "c2",
                                  .x = c.day_x,
                                  .y = c.day,
                                  .count = c.days,
                                  .dots = true,
                                  .note = lasts->day == 1 ? "day" : "period"}};
        struct svg_chart chart = {.label = title,
                                  .x_name = axis,
                                  .y_name = title,
                                  .series = s,
                                  .series_count = 2,
                                  .x_min = 0,
                                  .x_max = days_since(days, last) + lasts->day};
        fprintf(out,
                "<div class=\"card\"><h3>%s</h3><p class=\"note\">of examples as they were "
                "scored before they were learnt; faint: windows</p>\n",
                title);
        svg_chart(out, &chart);
        fputs("</div>\n", out);
    }
    course_free(&c);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void figures_row(FILE *out, const struct json *of)
{
    static const struct {
        const char *key;
        int digits;
    } figure[] = {{"rows", 0},        {"examples", 0},
                  {"figures.auc", 5}, {"figures.logloss", 5},
                  {"figures.ne", 4},  {"figures.calibration", 3}};
    char text[32];
    fputs("<tr><td>", out);
    html_text(out, json_as_string(json_get(of, "from"), ""));
    fputs("</td>", out);
    for (size_t k = 0; k < sizeof figure / sizeof figure[0]; k++)
        fprintf(out, "<td>%s</td>",
                html_number(report_page_number(of, figure[k].key), figure[k].digits, text));
    fputs("</tr>\n", out);
}

static void figures_table(FILE *out, const struct json *list, const char *what)
{
    fprintf(out,
            "<table><tr><th>%s</th><th>rows</th><th>examples</th><th>AUC</th><th>logloss</th>"
            "<th>NE</th><th>calibration</th></tr>\n",
            what);
    for (size_t i = 0; i < json_count(list); i++)
        figures_row(out, json_array_at(list, i));
    fputs("</table>\n", out);
}

/* ---- values that moved ----------------------------------------------------------------------- */

struct moved {
    const char *day, *field, *value; /* borrowed */
    double was, is, weight;          /* logloss; by which they are ordered */
};

static int heaviest(const void *a, const void *b)
{
    const struct moved *x = a, *y = b;
    return (x->weight < y->weight) - (x->weight > y->weight);
}

/* Keeps the heaviest. */
static void moved_add(struct moved top[MOVED_SHOWN + 1], size_t *count, struct moved m)
{
    top[(*count)++] = m;
    qsort(top, *count, sizeof *top, heaviest);
    *count = *count > MOVED_SHOWN ? MOVED_SHOWN : *count;
}

static const struct json *value_of(const struct json *list, const char *key)
{
    for (size_t i = 0; i < json_count(list); i++)
        if (strcmp(json_as_string(json_get(json_array_at(list, i), "key"), "-"), key) == 0)
            return json_array_at(list, i);
    return NULL;
}

static void field_look(const char *day, const char *field, const struct json *was,
                       const struct json *is, struct moved top[MOVED_SHOWN + 1], size_t *count)
{
    for (size_t i = 0; i < json_count(is); i++) {
        const struct json *v = json_array_at(is, i);
        const char *key = json_as_string(json_get(v, "key"), "");
        struct moved m = {day,
                          field,
                          json_as_string(json_get(v, "value"), key),
                          report_page_number(value_of(was, key), "logloss"),
                          report_page_number(v, "logloss"),
                          0};
        if (strncmp(key, "0x", 2) != 0)
            continue; /* the sum of the others */
        m.weight = fabs(m.is - m.was) * sqrt(fmax(report_page_number(v, "examples"), 0));
        if (isfinite(m.weight) && m.weight > 0)
            moved_add(top, count, m);
    }
}

static void moved_table(FILE *out, const struct json *days)
{
    struct moved top[MOVED_SHOWN + 1];
    size_t count = 0;
    char text[32];
    for (size_t d = 1; d < json_count(days); d++) {
        const struct json *day = json_array_at(days, d), *by = json_get(day, "figures.by"),
                          *before = json_get(json_array_at(days, d - 1), "figures.by");
        for (size_t f = 0; f < json_members(by); f++)
            field_look(json_as_string(json_get(day, "from"), ""), json_member_name(by, f),
                       json_get(before, json_member_name(by, f)), json_member_at(by, f), top,
                       &count);
    }
    if (count == 0)
        return;
    fputs("<div class=\"card scroll\"><h3>Values that moved most from one day to the next</h3>"
          "<p class=\"note\">logloss by values of evaluate.by, heavier with more examples</p>"
          "<table><tr><th>day</th><th>field</th><th>value</th><th>the day before</th><th>this "
          "day</th></tr>\n",
          out);
    for (size_t i = 0; i < count; i++) {
        const char *const word[] = {top[i].day, top[i].field, top[i].value};
        fputs("<tr>", out);
        for (size_t k = 0; k < 3; k++) {
            fputs("<td>", out);
            html_text(out, word[k]);
            fputs("</td>", out);
        }
        fprintf(out, "<td>%s</td>", html_number(top[i].was, 5, text));
        fprintf(out, "<td>%s</td></tr>\n", html_number(top[i].is, 5, text));
    }
    fputs("</table></div>\n", out);
}

/* "Days", or "Periods of 7 days", and from when on they are counted. */
static void heading(FILE *out, const struct json *r, double days)
{
    char text[32];
    const char *first =
        json_as_string(json_get(json_array_at(json_get(r, "replay.days"), 0), "from"), "");
    if (days == 1)
        fputs("<h2>Days</h2>\n", out);
    else if (days > 1)
        fprintf(out, "<h2>Periods of %s days</h2>\n", html_number(days, 0, text));
    else
        fprintf(out, "<h2>Periods of %s hours</h2>\n", html_number(days * 24, 2, text));
    const char *log = json_as_string(json_get(r, "events.from"), NULL);
    if (days == 1 || log == NULL || report_page_time(log) <= report_page_time(first))
        return;
    fputs("<p class=\"note\">Periods are counted from 1970-01-01 on: the first begins ", out);
    html_text(out, first);
    fputs(", and the log ", out);
    html_text(out, log);
    fputs(".</p>\n", out);
}

void report_page_days(FILE *out, const struct json *r)
{
    const struct json *days = json_get(r, "replay.days");
    const struct lengths lasts = {report_page_number(r, "replay.every") / 86400,
                                  report_page_number(r, "replay.window") / 86400};
    if (json_count(days) == 0)
        return;
    heading(out, r, lasts.day);
    fputs("<div class=\"cards\">\n", out);
    course_card(out, days, &lasts, "AUC", "figures.auc");
    course_card(out, days, &lasts, "logloss", "figures.logloss");
    fputs("</div>\n<div class=\"card scroll\">", out);
    figures_table(out, days, lasts.day == 1 ? "day" : "period");
    fputs("</div>\n", out);
    fputs("<details><summary>Every window as a table</summary><div class=\"scroll\">", out);
    for (size_t d = 0; d < json_count(days); d++)
        figures_table(out, json_get(json_array_at(days, d), "hours"), "window");
    fputs("</div></details>\n", out);
    moved_table(out, days);
}
