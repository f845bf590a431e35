/* page_job.c: the job at hand: its figures, curves and time; the jobs before it. */
#include "proto/base/number.h"
#include "proto/base/text.h"
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

/* A tile of one number, or of a dash while it is not known: nothing moves when it comes. */
static void tile(FILE *out, const char *name, double x, const char *(*form)(double x, char *text),
                 const char *more)
{
    char text[NUMBER_TEXT];
    tile_begin(out, name);
    html_text(out, form(x, text));
    tile_end(out, more);
}

static void epoch_tile(const struct json *s, FILE *out)
{
    char more[64] = "", count[NUMBER_TEXT];
    tile_begin(out, "Epoch");
    fputs(number_count(json_as_number(json_get(s, "epoch"), 0), count), out);
    if (!json_absent(json_get(s, "epochs")))
        fprintf(out, "<small> of %s</small>", number_count(html_at(s, "epochs"), count));
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

static void ring_tile(const struct json *s, FILE *out)
{
    char more[128];
    const struct json *ring = json_get(s, "ring");
    if (json_absent(ring))
        return;
    const char *state = json_as_string(json_get(ring, "state"), "?");
    if (strcmp(state, "none") == 0)
        (void)snprintf(more, sizeof more, "no ring");
    else
        (void)snprintf(more, sizeof more, "ring number %.0f, of %.0f workers, %.20s",
                       html_at(ring, "rings"), html_at(ring, "members"), state);
    tile(out, "Network age", html_at(ring, "published_seconds"), number_seconds, more);
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

/* The loss of all labels together. */
static const char *loss_title(const struct json *s)
{
    if (strcmp(json_as_string(json_get(s, "loss_name"), "logloss"), "logloss") == 0)
        return "Logloss";
    return "Loss";
}

static void curves_write(const struct json *figures, FILE *out)
{
    const char *quality = "AUC before learning", *values = "auc.auc";
    if (json_get(figures, "auc.rmse") != NULL) {
        quality = "RMSE before learning";
        values = "auc.rmse";
    }

    const struct json *x = json_get(figures, "curve.examples");
    const struct page_curve curve[] = {
        {loss_title(json_get(figures, "status")), "c1", x, json_get(figures, "curve.logloss"),
         number_figure, false, 1e-3},
        {quality, "c3", json_get(figures, "auc.examples"), json_get(figures, values), number_figure,
         false, 1e-3},
        {"Examples / s", "c2", x, json_get(figures, "curve.rate"), number_short, true, 1},
    };
    fputs("<div class=\"curves\">", out);
    for (size_t i = 0; i < sizeof curve / sizeof curve[0]; i++)
        page_chart(&curve[i], out);
    fputs("</div>", out);
}

static void time_write(const struct json *s, FILE *out)
{
    const struct page_part part[] = {
        {"read", "c5", html_at(s, "time.read")},
        {"pull", "c1", html_at(s, "time.pull")},
        {"compute", "c3", html_at(s, "time.compute")},
        {"push", "c2", html_at(s, "time.push")},
        {"wait", "c4", html_at(s, "time.wait") + json_as_number(json_get(s, "time.ring"), 0)},
    };
    double sum = 0;
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++)
        sum += fmax(part[i].value, 0);
    if (!(sum > 0))
        return;
    fputs("<div class=\"card time\"><h3>Where workers spend their time</h3>", out);
    page_stack(part, sizeof part / sizeof part[0], out);
    fputs("</div>", out);
}

static const char *state_kind(const struct json *s)
{
    if (strcmp(json_as_string(json_get(s, "state"), ""), "failed") == 0)
        return " bad";
    return text_if(!json_absent(json_get(s, "waiting")), " bad");
}

/* AUC, or the RMSE of a job whose labels are numbers. */
static void quality_tiles(const struct json *s, FILE *out)
{
    const char *name = "AUC", *name_valid = "AUC, valid";
    double train = html_at(s, "train_auc"), valid = html_at(s, "valid_auc");
    if (json_get(s, "train_rmse") != NULL || json_get(s, "valid_rmse") != NULL) {
        name = "RMSE";
        name_valid = "RMSE, valid";
        train = html_at(s, "train_rmse");
        valid = html_at(s, "valid_rmse");
    }

    tile(out, name, train, number_figure, "before learning, newest");
    if (isfinite(valid))
        tile(out, name_valid, valid, number_figure, "the last evaluation");
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
    html_name(out, s, "job");
    fprintf(out, " <span class=\"state%s\">", state_kind(s));
    html_string(out, s, "state");
    fputs("</span></h2><div class=\"tiles\">", out);
    epoch_tile(s, out);
    rate_tile(s, out);
    tile(out, loss_title(s), html_at(s, "loss"), number_figure, "of the epoch, in training");
    quality_tiles(s, out);
    tile(out, "Calibration", html_at(s, "train_calibration"), number_figure,
         "mean prediction / mean label");
    staleness_tile(s, out);
    ring_tile(s, out);
    checkpoint_tile(s, out);
    fputs("</div>", out);
    curves_write(figures, out);
    time_write(s, out);
    fputs("</section>", out);
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void running_write(struct page_table *t, const struct json *v)
{
    char text[NUMBER_TEXT];
    page_row(t, !json_absent(json_get(v, "waiting")));
    fputs("<th scope=\"row\">", t->out);
    html_name(t->out, v, "job");
    fprintf(t->out, " <small>%" PRId64 "</small></th>", json_as_int(json_get(v, "number"), 0));
    page_text(t->out, json_as_string(json_get(v, "space"), "?"));
    page_text(t->out, json_as_string(json_get(v, "state"), "?"));
    page_number(t->out, number_count(html_at(v, "workers"), text));
    page_number(t->out, number_count(html_at(v, "workers_wanted"), text));
    page_number(t->out, number_count(html_at(v, "examples"), text));
    page_number(t->out, number_short(html_at(v, "rate"), text));
    fputs("</tr>", t->out);
    if (json_absent(json_get(v, "waiting")))
        return;
    fprintf(t->out, "<tr class=\"why\"><td class=\"t\" colspan=\"%zu\"><div>", t->heads);
    html_string(t->out, v, "waiting");
    fputs("</div></td></tr>", t->out);
}

void page_running(const struct json *figures, FILE *out)
{
    static const struct page_head head[] = {
        {"job", true},     {"space", true},     {"state", true}, {"workers", false},
        {"wanted", false}, {"examples", false}, {"ex/s", false}};
    const struct json *list = json_get(figures, "status.running");
    struct page_table t = {.out = out,
                           .name = "Jobs that run",
                           .id = "running",
                           .head = head,
                           .heads = sizeof head / sizeof head[0],
                           .rows = json_count(list)};
    if (t.rows < 2)
        return;
    page_table_begin(&t, "the newest is told of below");
    for (size_t i = 0; i < t.rows; i++)
        running_write(&t, json_array_at(list, i));
    page_table_end(&t);
}

/* "2026-11-30T05:13:12Z" without its letters. */
static void date_write(const struct json *line, const char *name, FILE *out)
{
    const char *date = json_as_string(json_get(line, name), "");
    char text[20];
    (void)snprintf(text, sizeof text, "%s", date);
    if (strlen(text) > 10)
        text[10] = ' ';
    page_text(out, text);
}

/* The newest AUC, or RMSE, and of which examples it is. */
static void auc_write(const struct json *line, FILE *out)
{
    static const char *const of[][2] = {{"test_auc", "test"},   {"test_rmse", "RMSE test"},
                                        {"valid_auc", "valid"}, {"valid_rmse", "RMSE valid"},
                                        {"train_auc", "train"}, {"train_rmse", "RMSE train"}};
    char text[NUMBER_TEXT];
    fputs("<td>", out);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        double auc = html_at(line, of[i][0]);
        if (!isfinite(auc))
            continue;
        fprintf(out, "<small>%s</small> %s</td>", of[i][1], number_figure(auc, text));
        return;
    }
    fputs("-</td>", out);
}

static void job_write(struct page_table *t, const struct json *line)
{
    char text[NUMBER_TEXT];
    const char *state = json_as_string(json_get(line, "state"), "?");
    page_row(t, strcmp(state, "failed") == 0);
    fputs("<th scope=\"row\">", t->out);
    html_name(t->out, line, "job");
    fprintf(t->out, " <small>%" PRId64 "</small></th>", json_as_int(json_get(line, "number"), 0));
    page_text(t->out, state);
    page_number(t->out, number_count(html_at(line, "examples"), text));
    auc_write(line, t->out);
    date_write(line, "began", t->out);
    date_write(line, "ended", t->out);
    fputs("</tr>", t->out);
    if (json_absent(json_get(line, "reason")))
        return;
    fprintf(t->out, "<tr class=\"why\"><td class=\"t\" colspan=\"%zu\"><div>", t->heads);
    html_string(t->out, line, "reason");
    fputs("</div></td></tr>", t->out);
}

void page_jobs(const struct json *figures, FILE *out)
{
    static const struct page_head head[] = {{"job", true},         {"state", true},
                                            {"examples", false},   {"AUC", false},
                                            {"began (UTC)", true}, {"ended (UTC)", true}};
    const struct json *list = json_get(figures, "jobs");
    struct page_table t = {.out = out,
                           .name = "Jobs",
                           .id = "jobs",
                           .head = head,
                           .heads = sizeof head / sizeof head[0],
                           .rows = json_count(list)};
    if (t.rows == 0)
        return;
    page_table_begin(&t, "newest first");
    for (size_t i = t.rows; i > 0; i--)
        job_write(&t, json_array_at(list, i - 1));
    page_table_end(&t);
}
