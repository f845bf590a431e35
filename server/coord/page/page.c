/* page.c: the document: what is wrong, then jobs, then servers. */
#include "server/coord/page/page.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/number.h"
#include "proto/base/text.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double OLD_S = 5; /* a loop that goes on makes figures every second */

/* ---- what is wrong --------------------------------------------------------------------------- */

enum { TOLD = 5 }; /* sentences; the rest is folded */

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

/* A member of the status that is one sentence; "" is none. */
static void member_said(const struct json *s, const char *name, const char *kind, const char *head,
                        FILE *out)
{
    const char *text = json_get_string(s, name, "");
    if (text[0] != 0)
        said(out, kind, head, text, NAN);
}

static void insecure_said(const struct json *list, FILE *out)
{
    if (json_count(list) == 0)
        return;
    fputs("<li class=\"warn\"><b>insecure_plaintext:</b> whoever reaches these over tcp is obeyed:",
          out);
    for (size_t i = 0; i < json_count(list); i++) {
        fprintf(out, "%s ", text_if(i > 0, ","));
        html_text(out, json_as_string(json_array_at(list, i), "?"));
    }
    fputs("</li>", out);
}

static void moves_said(const struct json *m, FILE *out)
{
    char seconds[NUMBER_TEXT], bytes[NUMBER_TEXT];
    double left = html_at(m, "seconds_left");
    if (json_absent(m))
        return;
    fputs("<li class=\"info\"><b>Tablets move</b> ", out);
    if (!json_absent(json_get(m, "drains"))) {
        fputs("to empty server ", out);
        html_name(out, m, "drains");
        fputs(": ", out);
    } else {
        fputs("so that shards carry the same: ", out);
    }
    fprintf(out, "%.0f of %.0f are left, %s so far", html_at(m, "left"), html_at(m, "tablets"),
            number_bytes(html_at(m, "bytes"), bytes));
    if (isfinite(left))
        fprintf(out, ", about %s more", number_seconds(left, seconds));
    fputs(". <code>shoal rebalance --stop</code> ends it.</li>", out);
    member_said(m, "last_failure", "warn", "A move failed and is tried again:", out);
}

static bool job_failed(const struct json *s)
{
    return strcmp(json_get_string(s, "state", ""), "failed") == 0;
}

static size_t shards_away(const struct json *s)
{
    const struct json *servers = json_get(s, "servers");
    size_t away = 0;
    for (size_t i = 0; i < json_count(servers); i++)
        away += !page_server_ready(json_array_at(servers, i));
    return away;
}

/* True when shards are away and no sentence of the status tells of it: their servers have not come
 * yet, or read their journals. */
static bool away_untold(const struct json *s)
{
    return json_count(json_get(s, "problems")) == 0 && json_absent(json_get(s, "waiting")) &&
           shards_away(s) > 0;
}

static void away_said(const struct json *s, FILE *out)
{
    const struct json *come = json_get(s, "cluster.come");
    size_t come_count = json_count(come);
    if (!away_untold(s))
        return;
    fprintf(out, "<li class=\"bad\">%zu of %zu shards are not ready", shards_away(s),
            json_count(json_get(s, "servers")));
    for (size_t i = 0; i < come_count; i++) {
        fputs(i > 0 ? ", " : " (came: ", out);
        html_name(out, json_array_at(come, i), "name");
    }
    fprintf(out, "%s servers, or see in their logs what they do</li>",
            come_count > 0 ? "): start the other" : ": start their");
}

/* The number of faults, for the headline and the title. */
static size_t faults_of(const struct page_figures *f, const struct json *s)
{
    return json_count(json_get(s, "problems")) + !json_absent(json_get(s, "waiting")) +
           (f->age_s > OLD_S) + job_failed(s) + away_untold(s);
}

static void problems_said(const struct json *s, FILE *out)
{
    const struct json *problems = json_get(s, "problems");
    size_t count = json_count(problems);
    for (size_t i = 0; i < count; i++) {
        if (i == TOLD)
            fprintf(out,
                    "</ul><details id=\"more-problems\"><summary>%zu more</summary>"
                    "<ul class=\"troubles\">",
                    count - TOLD);
        said(out, "bad", "", json_as_string(json_array_at(problems, i), "?"),
             json_as_number(json_array_at(json_get(s, "problem_seconds"), i), (double)NAN));
    }
    if (count > TOLD)
        fputs("</ul></details><ul class=\"troubles\">", out);
}

/* A screen reader says it by itself: it changes only when the number does. */
static void headline_write(size_t faults, FILE *out)
{
    fputs("<div role=\"status\">", out);
    if (faults == 0)
        fputs("<h2 class=\"good\">Nothing is wrong.</h2>", out);
    else
        fprintf(out, "<h2 class=\"bad\">%zu thing%s wrong</h2>", faults,
                faults == 1 ? " is" : "s are");
    fputs("</div>", out);
}

static void troubles_write(const struct page_figures *f, const struct json *s, FILE *out)
{
    char old[192], seconds[NUMBER_TEXT];
    headline_write(faults_of(f, s), out);
    fputs("<ul class=\"troubles\">", out);
    if (f->age_s > OLD_S) {
        (void)snprintf(old, sizeof old,
                       "has not made new figures for %s: it hangs, or its machine is busy; see "
                       "the disk of its data_dir and that machine's load",
                       number_seconds(f->age_s, seconds));
        said(out, "bad", "The coordinator", old, NAN);
    }
    if (!json_absent(json_get(s, "waiting")))
        said(out, "bad", "The job", json_get_string(s, "waiting", "?"),
             html_at(s, "waiting_seconds"));
    away_said(s, out);
    problems_said(s, out);
    if (job_failed(s))
        member_said(s, "error", "bad", "The job failed:", out);
    else
        member_said(s, "error", "info", "The job ended:", out);
    member_said(s, "checkpoint_failure", "warn", "A checkpoint failed:", out);
    insecure_said(json_get(s, "insecure"), out);
    for (size_t i = 0; i < json_count(json_get(s, "notes")); i++)
        said(out, "info", "", json_as_string(json_array_at(json_get(s, "notes"), i), "?"), NAN);
    member_said(s, "warning", "warn", "Warning:", out);
    moves_said(json_get(s, "cluster.moves"), out);
    fputs("</ul>", out);
}

/* ---- the document ---------------------------------------------------------------------------- */

static void date_write(const struct json *figures, FILE *out)
{
    time_t now = (time_t)json_get_int(figures, "now", 0);
    struct tm tm;
    char text[32];
    if (now > 0 && gmtime_r(&now, &tm) != NULL &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &tm) > 0)
        fprintf(out, "<p class=\"now\">%s UTC</p>", text);
}

/* "Store DIR: 12 kB, 812 writes of 3.1 ms, " */
static void store_said(const struct json *store, FILE *out)
{
    char bytes[NUMBER_TEXT], writes[NUMBER_TEXT];
    if (json_get_string(store, "place", "")[0] == 0)
        return;
    fputs("store ", out);
    html_string(out, store, "place");
    fprintf(out, ": %s, %s writes", number_bytes(html_at(store, "bytes"), bytes),
            number_count(html_at(store, "writes"), writes));
    if (isfinite(html_at(store, "write_ms")))
        fprintf(out, " of %.1f ms", html_at(store, "write_ms"));
    fputs(", ", out);
}

static void main_write(const struct page_figures *f, const struct json *figures, FILE *out)
{
    const struct json *s = json_get(figures, "status");
    date_write(figures, out);
    troubles_write(f, s, out);
    page_running(figures, out);
    page_job(figures, out);
    page_servers(figures, out);
    page_copies(figures, out);
    page_map(figures, out);
    page_workers(figures, out);
    page_jobs(figures, out);
    fputs("<footer>", out);
    if (json_get_string(s, "cluster.id", "")[0] != 0) {
        fputs("Cluster ", out);
        html_string(out, s, "cluster.id");
        fputs(", ", out);
    }
    store_said(json_get(s, "store"), out);
    fputs("Shoal ", out);
    html_string(out, figures, "version");
    fputs(". The same in a terminal: <code>shoal top</code>, <code>shoal status</code>.</footer>",
          out);
}

/* Why there are no figures. */
static void none_write(const struct json *figures, FILE *out)
{
    const char *leader = json_get_string(figures, "stands_by", ""),
               *why = json_get_string(figures, "why", "");
    char text[ERR_TEXT_MAX + 128];
    (void)snprintf(text, sizeof text,
                   "and does not know which one leads%s%s%s: see whether another one runs, and the "
                   "store",
                   text_if(why[0] != 0, " ("), why, text_if(why[0] != 0, ")"));
    fputs("<h2>Coordinator</h2><ul class=\"troubles\">", out);
    if (leader[0] != 0)
        said(out, "info", "This coordinator stands by. The one that leads is at", leader, NAN);
    else if (figures != NULL)
        said(out, "bad", "This coordinator stands by,", text, NAN);
    else
        said(out, "info", "", "The figures are being made: they are here in a second.", NAN);
    fputs("</ul>", out);
}

static void title_write(const struct page_figures *f, const struct json *figures, FILE *out)
{
    const struct json *s = json_get(figures, "status");
    size_t faults = faults_of(f, s);
    const char *job = json_get_string(s, "job", "");
    if (faults > 0)
        fprintf(out, "(%zu) ", faults);
    html_text(out, job);
    fprintf(out, "%sShoal", text_if(job[0] != 0, " – "));
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
    title_write(f, figures, out);
    from = part_write(from, "@MAIN@", out);
    if (json_get(figures, "status") != NULL)
        main_write(f, figures, out);
    else
        none_write(figures, out);
    fputs(from, out);
    json_free(figures);
}
