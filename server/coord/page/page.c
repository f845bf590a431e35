/* page.c: the document: what is wrong, then jobs, then servers. */
#include "server/coord/page/page.h"

#include "proto/base/assert.h"
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double OLD_S = 5; /* a loop that goes on makes figures every second */

/* ---- what is wrong --------------------------------------------------------------------------- */

static void said(FILE *out, const char *kind, const char *head, const char *text, double since_s)
{
    char since[NUMBER_TEXT];
    fprintf(out, "<li class=\"%s\">", kind);
    if (head[0] != 0)
        fprintf(out, "<b>%s</b> ", head);
    html_text(out, text);
    if (since_s >= 1)
        fprintf(out, " <span class=\"since\">found for %s</span>", number_seconds(since_s, since));
    fputs("</li>", out);
}

/* A member of the status that is one sentence. */
static void member_said(const struct json *s, const char *name, const char *kind, const char *head,
                        FILE *out)
{
    if (!json_absent(json_get(s, name)))
        said(out, kind, head, json_as_string(json_get(s, name), "?"), NAN);
}

static void insecure_said(const struct json *list, FILE *out)
{
    if (json_count(list) == 0)
        return;
    fputs("<li class=\"bad\"><b>insecure_plaintext:</b> whoever reaches these over tcp is obeyed:",
          out);
    for (size_t i = 0; i < json_count(list); i++) {
        fputs(i > 0 ? ", " : " ", out);
        html_text(out, json_as_string(json_array_at(list, i), "?"));
    }
    fputs("</li>", out);
}

static void moves_said(const struct json *m, FILE *out)
{
    char text[160], seconds[NUMBER_TEXT];
    if (json_absent(m))
        return;
    (void)snprintf(text, sizeof text, "%.0f of %.0f tablets are left, about %s", html_at(m, "left"),
                   html_at(m, "tablets"), number_seconds(html_at(m, "seconds_left"), seconds));
    said(out, "info", "Tablets move:", text, NAN);
    member_said(m, "last_failure", "bad", "A move failed:", out);
}

/* Returns the number of faults. */
static size_t troubles_write(const struct page_figures *f, const struct json *s, FILE *out)
{
    const struct json *problems = json_get(s, "problems");
    char old[96], seconds[NUMBER_TEXT];
    size_t faults = json_count(problems) + !json_absent(json_get(s, "waiting"));
    bool failed = strcmp(json_as_string(json_get(s, "state"), ""), "failed") == 0;
    fputs("<ul class=\"troubles\">", out);
    if (f->age_s > OLD_S) {
        (void)snprintf(old, sizeof old,
                       "has not made new figures for %s: it hangs, or its machine is busy",
                       number_seconds(f->age_s, seconds));
        said(out, "bad", "The coordinator", old, NAN);
        faults++;
    }
    if (!json_absent(json_get(s, "waiting")))
        said(out, "bad", "The job", json_as_string(json_get(s, "waiting"), "?"),
             html_at(s, "waiting_seconds"));
    for (size_t i = 0; i < json_count(problems); i++)
        said(out, "bad", "", json_as_string(json_array_at(problems, i), "?"),
             json_as_number(json_array_at(json_get(s, "problem_seconds"), i), (double)NAN));
    member_said(s, "error", failed ? "bad" : "info",
                failed ? "The job failed:" : "The job ended:", out);
    member_said(s, "checkpoint_failure", "warn", "A checkpoint failed:", out);
    insecure_said(json_get(s, "insecure"), out);
    member_said(s, "warning", "warn", "Warning:", out);
    moves_said(json_get(s, "cluster.moves"), out);
    if (faults == 0 && !failed)
        fputs("<li class=\"good\">Nothing is wrong.</li>", out);
    fputs("</ul>", out);
    return faults + failed;
}

/* ---- the document ---------------------------------------------------------------------------- */

static void date_write(const struct json *figures, FILE *out)
{
    time_t now = (time_t)json_as_int(json_get(figures, "now"), 0);
    struct tm tm;
    char text[32];
    if (now > 0 && gmtime_r(&now, &tm) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) > 0)
        fprintf(out, "<p class=\"now\">%s UTC</p>", text);
}

static void main_write(const struct page_figures *f, const struct json *figures, FILE *out)
{
    const struct json *s = json_get(figures, "status");
    date_write(figures, out);
    (void)troubles_write(f, s, out);
    page_job(figures, out);
    page_servers(figures, out);
    page_map(figures, out);
    page_workers(figures, out);
    page_jobs(figures, out);
    fputs("<footer>Cluster ", out);
    html_string(out, s, "cluster.id");
    fputs(", Shoal ", out);
    html_string(out, figures, "version");
    fputs(". The same in a terminal: <code>shoal top</code>, <code>shoal status</code>.</footer>",
          out);
}

/* Why there are no figures. */
static void none_write(const struct json *figures, FILE *out)
{
    const char *leader = json_as_string(json_get(figures, "stands_by"), "");
    fputs("<ul class=\"troubles\">", out);
    if (leader[0] != 0)
        said(out, "info", "This coordinator stands by. The one that leads is at", leader, NAN);
    else if (figures != NULL)
        said(out, "bad", "This coordinator stands by,",
             "and does not know which one leads: see whether another one runs, and the store", NAN);
    else
        said(out, "info", "", "The figures are being made: they are here in a second.", NAN);
    fputs("</ul>", out);
}

static void title_write(const struct json *figures, FILE *out)
{
    const struct json *s = json_get(figures, "status");
    size_t faults = json_count(json_get(s, "problems")) + !json_absent(json_get(s, "waiting"));
    const char *job = json_as_string(json_get(s, "job"), "");
    if (faults > 0)
        fprintf(out, "(%zu) ", faults);
    html_text(out, job);
    fputs(job[0] != 0 ? " – Shoal" : "Shoal", out);
}

/* Writes the template up to the mark, and returns what follows it. */
static const char *part_write(const char *from, const char *mark, FILE *out)
{
    const char *at = strstr(from, mark);
    SHOAL_ASSERT(at != NULL);
    fwrite(from, 1, (size_t)(at - from), out);
    return at + strlen(mark);
}

void page_write(const struct page_figures *f, FILE *out)
{
    struct json *parsed = NULL, *figures = NULL;
    const char *from = page_template;
    if (f->text != NULL && json_parse(f->text, f->bytes, &parsed, NULL) == 0)
        figures = json_printable(parsed);
    json_free(parsed);
    from = part_write(from, "@TITLE@", out);
    title_write(figures, out);
    from = part_write(from, "@MAIN@", out);
    if (json_get(figures, "status") != NULL)
        main_write(f, figures, out);
    else
        none_write(figures, out);
    fputs(from, out);
    json_free(figures);
}
