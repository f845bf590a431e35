/* page_job.c: the job at hand: its figures, curves and time; the jobs before it. */
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void tile_begin(FILE *out, const char *name)
{
    fprintf(out, "<div class=\"tile\"><div class=\"k\">%s</div><div class=\"v\">", name);
}

static void tile_end(FILE *out, const char *more)
{
    fputs("</div><div class=\"s\">", out);
    html_text(out, more);
    fputs("</div></div>", out);
}

/* A tile of one number; nothing when it is not known. */
static void tile(FILE *out, const char *name, double x, const char *(*form)(double x, char *text),
                 const char *more)
{
    char text[NUMBER_TEXT];
    if (!isfinite(x))
        return;
    tile_begin(out, name);
    html_text(out, form(x, text));
    tile_end(out, more);
}

static void epoch_tile(const struct json *s, FILE *out)
{
    char more[64] = "", count[NUMBER_TEXT];
    tile_begin(out, "Epoch");
    fprintf(out, "%.0f", json_as_number(json_get(s, "epoch"), 0));
    if (!json_absent(json_get(s, "epochs")))
        fprintf(out, "<small> of %.0f</small>", html_at(s, "epochs"));
    (void)snprintf(more, sizeof more, "%s examples",
                   number_count(json_as_number(json_get(s, "examples"), 0), count));
    tile_end(out, more);
}

static void rate_tile(const struct json *s, FILE *out)
{
    char more[64] = "", left[NUMBER_TEXT];
    double eta = html_at(s, "eta_seconds");
    if (isfinite(eta))
        (void)snprintf(more, sizeof more, "about %s left", number_seconds(eta, left));
    tile(out, "Examples / s", html_at(s, "rate"), number_short, more);
}

static void staleness_tile(const struct json *s, FILE *out)
{
    char more[64];
    (void)snprintf(more, sizeof more, "clocks behind; p99 %.0f, most %.0f",
                   html_at(s, "staleness.p99"), html_at(s, "staleness.max"));
    tile(out, "Staleness", html_at(s, "staleness.p50"), number_short, more);
}

static void checkpoint_tile(const struct json *s, FILE *out)
{
    char more[128], text[NUMBER_TEXT];
    const struct json *newest = json_get(s, "checkpoint");
    double failed = json_as_number(json_get(s, "checkpoints_failed"), 0);
    if (json_absent(newest))
        return;
    (void)snprintf(more, sizeof more, "%.40s, %s", json_as_string(json_get(newest, "name"), "?"),
                   number_bytes(html_at(newest, "bytes"), text));
    if (failed > 0)
        (void)snprintf(more + strlen(more), sizeof more - strlen(more), "; %.0f failed", failed);
    tile_begin(out, "Checkpoint age");
    html_text(out, number_seconds(html_at(newest, "age_seconds"), text));
    tile_end(out, more);
}

static void curves_write(const struct json *figures, FILE *out)
{
    const struct json *x = json_get(figures, "curve.examples");
    const struct page_curve curve[] = {
        {"Logloss", "c1", x, json_get(figures, "curve.logloss"), number_figure, false},
        {"AUC before learning", "c3", json_get(figures, "auc.examples"),
         json_get(figures, "auc.auc"), number_figure, false},
        {"Examples / s", "c2", x, json_get(figures, "curve.rate"), number_short, true},
    };
    fputs("<div class=\"curves\">", out);
    for (size_t i = 0; i < sizeof curve / sizeof curve[0]; i++)
        page_chart(&curve[i], out);
    fputs("</div>", out);
}

static void time_write(const struct json *s, FILE *out)
{
    const struct page_part part[] = {
        {"read", "c5", html_at(s, "time.read")},       {"pull", "c1", html_at(s, "time.pull")},
        {"compute", "c3", html_at(s, "time.compute")}, {"push", "c2", html_at(s, "time.push")},
        {"wait", "c4", html_at(s, "time.wait")},
    };
    double sum = 0;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        sum += fmax(part[i].value, 0);
    if (!(sum > 0))
        return;
    fputs("<div class=\"card time\"><h3>Where workers spend their time</h3>", out);
    page_stack("Time of workers by stage", part, sizeof part / sizeof part[0], out);
    fputs("</div>", out);
}

void page_job(const struct json *figures, FILE *out)
{
    const struct json *s = json_get(figures, "status");
    if (json_as_string(json_get(s, "job"), "")[0] == 0) {
        fputs("<section><h2>Job</h2><p class=\"note\">No job has been submitted yet.</p></section>",
              out);
        return;
    }
    fputs("<section><h2>Job ", out);
    html_string(out, s, "job");
    fputs(" <span class=\"state\">", out);
    html_string(out, s, "state");
    fputs("</span></h2><div class=\"tiles\">", out);
    epoch_tile(s, out);
    rate_tile(s, out);
    tile(out, "Logloss", html_at(s, "loss"), number_figure, "of the epoch, in training");
    tile(out, "AUC", html_at(s, "train_auc"), number_figure, "before learning, newest");
    tile(out, "AUC, valid", html_at(s, "valid_auc"), number_figure, "the last evaluation");
    tile(out, "Calibration", html_at(s, "train_calibration"), number_figure,
         "mean prediction by mean label");
    staleness_tile(s, out);
    checkpoint_tile(s, out);
    fputs("</div>", out);
    curves_write(figures, out);
    time_write(s, out);
    fputs("</section>", out);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void job_write(const struct json *line, FILE *out)
{
    char text[NUMBER_TEXT];
    const char *state = json_as_string(json_get(line, "state"), "?");
    double auc = html_at(line, "test_auc");
    if (!isfinite(auc))
        auc = html_at(line, "valid_auc");
    if (!isfinite(auc))
        auc = html_at(line, "train_auc");
    fprintf(out, "<tr%s><td>", strcmp(state, "failed") == 0 ? " class=\"bad\"" : "");
    html_string(out, line, "job");
    fprintf(out, " <small>%" PRId64 "</small></td><td>", json_as_int(json_get(line, "number"), 0));
    html_text(out, state);
    fputs("</td><td>", out);
    html_text(out, number_count(html_at(line, "examples"), text));
    fputs("</td><td>", out);
    html_text(out, number_figure(auc, text));
    fputs("</td><td class=\"o\">", out);
    html_string(out, line, "began");
    fputs("</td><td class=\"o\">", out);
    html_string(out, line, "ended");
    fputs("</td></tr>", out);
    if (json_absent(json_get(line, "reason")))
        return;
    fputs("<tr class=\"why\"><td colspan=\"6\">", out);
    html_string(out, line, "reason");
    fputs("</td></tr>", out);
}

void page_jobs(const struct json *figures, FILE *out)
{
    const struct json *list = json_get(figures, "jobs");
    if (json_count(list) == 0)
        return;
    fputs("<section><h2>Last jobs</h2><div class=\"card scroll\" id=\"jobs\"><table><thead><tr>"
          "<th>job</th><th>state</th><th>examples</th><th>AUC</th><th class=\"o\">began</th>"
          "<th class=\"o\">ended</th></tr></thead><tbody>",
          out);
    for (size_t i = json_count(list); i > 0; i--)
        job_write(json_array_at(list, i - 1), out);
    fputs("</tbody></table></div></section>", out);
}
