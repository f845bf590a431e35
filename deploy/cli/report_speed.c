/* report_speed.c: how fast it went: where the time was spent, speed over time, staleness, norms of
 * the gradients. */
#include "deploy/cli/html.h"
#include "deploy/cli/report_page.h"
#include "deploy/cli/svg.h"

#include <math.h>
#include <stdlib.h>

/* stretches at most; points of training in each at least */
enum { SPEED_POINTS = 40, SPEED_REPORTS = 5 };

/* ---- where the time went --------------------------------------------------------------------- */

static void bottleneck(FILE *out, const struct json *r)
{
    const char *stage = json_as_string(json_get(r, "bottleneck.stage"), NULL);
    double speedup = report_page_number(r, "bottleneck.speedup_if_free");
    char text[32];
    if (stage == NULL)
        return;
    fputs("<p class=\"note\">What limits: <b>", out);
    html_text(out, stage);
    fprintf(out, "</b>, with %s %% of the time that lanes had work",
            html_number(report_page_number(r, "bottleneck.share") * 100, 0, text));
    if (isfinite(speedup)) {
        fprintf(out,
                "; if it took none, the job would be about %s times as fast, and then limited by ",
                html_number(speedup, 2, text));
        html_text(out, json_as_string(json_get(r, "bottleneck.next"), "something else"));
    }
    fputs(".</p>\n", out);
}

static void time_card(FILE *out, const struct json *r)
{
    static const char *const key[] = {"compute", "read", "pull", "push", "wait"};
    static const char *const name[] = {"forward and backward", "read, parse and hash", "pull rows",
                                       "push gradients", "wait"};
    static const char *const colour[] = {"c1", "c2", "c3", "c4", "c5"};
    const struct json *time = json_get(r, "time");
    struct svg_part part[5];
    char text[5][32];
    for (int i = 0; i < 5; i++) {
        double s = report_page_number(time, key[i]);
        (void)snprintf(text[i], sizeof text[i], "%.1f s", isfinite(s) ? s : 0);
        part[i] = (struct svg_part){name[i], colour[i], isfinite(s) ? s : 0, text[i]};
    }
    fputs("<div class=\"card wide\"><h3>Where the workers' time went</h3><p class=\"note\">lane "
          "time, each moment "
          "charged to one "
          "thing; what overlaps with computing costs nothing</p>\n",
          out);
    svg_stack(out, "Lane time by what it was spent on", part, 5);
    bottleneck(out, r);
    fputs("</div>\n", out);
}

/* ---- over time ------------------------------------------------------------------------------- */

/* Reports of tasks come in bunches, so speed is taken over equal stretches of time: x and y
 * (points) are seconds and examples a second. seconds and examples (count) rise; count at least
 * 2. */
static void speeds(const double *seconds, const double *examples, size_t count, size_t points,
                   double *x, double *y)
{
    double width = seconds[count - 1] / (double)points, before = 0;
    size_t at = 0;
    for (size_t i = 0; i < points; i++) {
        double end = width * (double)(i + 1);
        while (at + 1 < count && seconds[at + 1] <= end)
            at++;
        double next = at + 1 < count ? seconds[at + 1] : seconds[at], share = 0;
        if (next > seconds[at] && end > seconds[at])
            share = (end - seconds[at]) / (next - seconds[at]); /* of the way to the next point */
        double seen = seconds[at] > end ? examples[0] * end / seconds[0]
                      : at + 1 < count  ? examples[at] + share * (examples[at + 1] - examples[at])
                                        : examples[at];
        x[i] = end - width / 2;
        y[i] = width > 0 ? (seen - before) / width : (double)NAN;
        before = seen;
    }
}

static void speed_chart(FILE *out, const struct json *training)
{
    size_t count = json_count(training),
           points = count / SPEED_REPORTS < SPEED_POINTS ? count / SPEED_REPORTS : SPEED_POINTS;
    double *seconds = report_page_column(training, "seconds"),
           *examples = report_page_column(training, "examples");
    double x[SPEED_POINTS], y[SPEED_POINTS], most = 0;
    if (seconds != NULL && examples != NULL && points > 2 && seconds[count - 1] > 0) {
        speeds(seconds, examples, count, points, x, y);
        for (size_t i = 0; i < points; i++)
            most = isfinite(y[i]) && y[i] > most ? y[i] : most;
        struct svg_series s = {.colour = "c1", .x = x, .y = y, .count = points};
        struct svg_chart c = {.label = "Examples a second over seconds of training",
                              .x_name = "seconds of training",
                              .y_name = "examples a second",
                              .series = &s,
                              .series_count = 1,
                              .y_max = most * 1.1};
        fputs("<div class=\"card\"><h3>Examples a second</h3><p class=\"note\">over the time spent "
              "training</p>\n",
              out);
        svg_chart(out, &c);
        fputs("</div>\n", out);
    }
    free(seconds), free(examples);
}

/* Gradients are measured now and then, so not every point knows of them: those that do not are left
 * out. */
static void norm_chart(FILE *out, const struct json *training)
{
    size_t all = json_count(training), count = 0;
    double *x = report_page_column(training, "examples"),
           *dense = report_page_column(training, "dense_norm"),
           *rows = report_page_column(training, "row_norm");
    for (size_t i = 0; i < all && x != NULL && dense != NULL && rows != NULL; i++) {
        if (!isfinite(dense[i]) || !isfinite(rows[i]))
            continue;
        x[count] = x[i];
        dense[count] = dense[i];
        rows[count++] = rows[i];
    }
    if (count > 1) {
        struct svg_series s[] = {
            {.name = "rows", .colour = "c3", .x = x, .y = rows, .count = count},
            {.name = "dense", .colour = "c4", .x = x, .y = dense, .count = count}};
        struct svg_chart c = {.label = "Norm of a batch's gradient over examples",
                              .x_name = "examples",
                              .y_name = "norm",
                              .series = s,
                              .series_count = 2};
        fputs("<div class=\"card\"><h3>Gradient norms</h3><p class=\"note\">of a batch, before "
              "clipping</p>\n",
              out);
        svg_chart(out, &c);
        fputs("</div>\n", out);
    }
    free(x), free(dense), free(rows);
}

static void staleness_card(FILE *out, const struct json *r)
{
    const struct json *training = json_get(r, "training");
    size_t count = json_count(training);
    double *x = report_page_column(training, "examples"),
           *y = report_page_column(training, "staleness"), most = 0;
    double *mean = y == NULL ? NULL : report_page_smooth(training, y);
    char text[32];
    for (size_t i = 0; i < count && y != NULL; i++)
        most = isfinite(y[i]) ? fmax(most, y[i]) : most;
    fprintf(out,
            "<div class=\"card\"><h3>Staleness</h3><p class=\"note\">clocks that a pull was "
            "behind: half of them at "
            "most %s, ",
            html_number(report_page_number(r, "staleness.p50"), 0, text));
    fprintf(out, "99 %% at most %s, ",
            html_number(report_page_number(r, "staleness.p99"), 0, text));
    fprintf(out, "none more than %s</p>\n",
            html_number(report_page_number(r, "staleness.max"), 0, text));
    if (x != NULL && mean != NULL && count > 1) {
        struct svg_series s[] = {{.colour = "c2", .x = x, .y = y, .count = count, .faint = true},
                                 {.colour = "c2", .x = x, .y = mean, .count = count}};
        struct svg_chart c = {.label = "Mean staleness over examples",
                              .x_name = "examples",
                              .y_name = "clocks",
                              .series = s,
                              .series_count = 2,
                              .y_max = most > 0 ? most * 1.1 : 1};
        svg_chart(out, &c);
    }
    fputs("</div>\n", out);
    free(x), free(y), free(mean);
}

static void batches_card(FILE *out, const struct json *r)
{
    static const struct {
        const char *key, *name;
        double unit;
        int digits;
    } figure[] = {{"batches.applied", "batches applied", 1, 0},
                  {"batches.skipped", "of these skipped by tablets that had them", 1, 0},
                  {"batches.recomputed", "computed a second time", 1, 0},
                  {"keys_pulled", "keys pulled", 1, 0},
                  {"keys_pushed", "keys pushed", 1, 0},
                  {"cache.hit_rate", "device cache, hits in %", 0.01, 1},
                  {"bad_lines", "malformed lines", 1, 0},
                  {"clamped_times", "event times in the future", 1, 0},
                  {"outside_partition", "event times outside of their partition", 1, 0},
                  {"restarts", "daemons started again", 1, 0},
                  {"worker_deaths", "workers lost", 1, 0},
                  {"peak_server_rss_bytes", "server memory at its peak, MiB", 1048576, 0}};
    char text[32];

    fputs("<div class=\"card scroll\"><h3>Counts</h3><table class=\"counts\">\n", out);
    for (size_t i = 0; i < sizeof figure / sizeof figure[0]; i++)
        if (!json_absent(json_get(r, figure[i].key)))
            fprintf(out, "<tr><td>%s</td><td>%s</td></tr>\n", figure[i].name,
                    html_number(report_page_number(r, figure[i].key) / figure[i].unit,
                                figure[i].digits, text));
    fputs("</table></div>\n", out);
}

void report_page_speed(FILE *out, const struct json *r)
{
    fputs("<h2>Speed</h2>\n<div class=\"cards\">\n", out);
    if (!json_absent(json_get(r, "time"))) /* not of a job whose coordinator ended before it did */
        time_card(out, r);
    speed_chart(out, json_get(r, "training"));
    if (!json_absent(json_get(r, "staleness")))
        staleness_card(out, r);
    norm_chart(out, json_get(r, "training"));
    batches_card(out, r);
    fputs("</div>\n", out);
}
