/* page_workers.c: the workers of the job, with their lanes, and those that wait or are refused. */
#include "proto/base/number.h"
#include "proto/base/text.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

/* The lanes of a worker by number, as many as have room, each with its batches done. */
static void lanes_write(const struct json *lanes, double worker, FILE *out)
{
    enum { NAMED = 8 };
    char text[NUMBER_TEXT];
    size_t found = 0;
    fputs("<td class=\"t\">", out);
    for (size_t i = 0; i < json_count(lanes); i++) {
        const struct json *lane = json_array_at(lanes, i);
        if (html_at(lane, "worker") != worker)
            continue;
        if (found++ < NAMED)
            fprintf(out, "%s%.0f <small>(%s)</small>", text_if(found > 1, ", "),
                    html_at(lane, "lane"), number_count(html_at(lane, "batch"), text));
    }
    if (found > NAMED)
        fprintf(out, " and %zu more", found - NAMED);
    if (found == 0)
        fputs("none", out);
    fputs("</td>", out);
}

static bool worker_silent(const struct json *v)
{
    return html_at(v, "silent_ms") >= PAGE_SILENT_MS;
}

static bool worker_bad(const struct json *v)
{
    return worker_silent(v) || json_get_number(v, "stalls", 0) > 0;
}

static void state_write(const struct json *v, FILE *out)
{
    char text[NUMBER_TEXT];
    fputs("<td class=\"t\">", out);
    if (worker_silent(v))
        fprintf(out, "not heard for %s", number_seconds(html_at(v, "silent_ms") / 1000, text));
    else if (worker_bad(v))
        fputs("stalled", out);
    else
        fputs("beats", out);
    fputs("</td>", out);
}

static void worker_write(const struct json *v, const struct json *lanes, FILE *out)
{
    char text[NUMBER_TEXT];
    fprintf(out, "<th scope=\"row\">%.0f ", html_at(v, "worker"));
    html_name(out, v, "name");
    fputs("</th>", out);
    state_write(v, out);
    lanes_write(lanes, html_at(v, "worker"), out);
    page_number(out, number_short(html_at(v, "rate"), text));
    page_number(out, number_count(html_at(v, "examples"), text));
    fputs("<td class=\"t\">", out);
    html_string(out, v, "backend");
    fputs(" ", out);
    html_string(out, v, "device");
    fputs("</td></tr>", out);
}

static bool refused(const struct json *v)
{
    return json_get_string(v, "why", "")[0] != 0;
}

static void idle_write(const struct json *v, FILE *out)
{
    fputs("<th scope=\"row\">", out);
    html_name(out, v, "name");
    fprintf(out, "</th><td class=\"t\" colspan=\"5\"><div>%s",
            refused(v) ? "refused: " : "waits for a job");
    html_string(out, v, "why");
    fputs("</div></td></tr>", out);
}

/* How many there are, of each kind that there is. */
static void about_make(const struct json *s, char *text, size_t bytes)
{
    size_t workers = json_count(json_get(s, "workers")), idle = json_count(json_get(s, "idle")),
           at = 0;
    if (workers > 0 || idle == 0)
        at = (size_t)snprintf(text, bytes, "%zu in the job, %zu lanes", workers,
                              workers > 0 ? json_count(json_get(s, "lanes")) : 0);
    if (idle > 0)
        (void)snprintf(text + at, bytes - at, "%s%zu without a job", text_if(at > 0, ", "), idle);
}

void page_workers(const struct json *figures, FILE *out)
{
    static const struct page_head head[] = {{"worker", true},          {"state", true},
                                            {"lanes (batches)", true}, {"examples/s", false},
                                            {"examples", false},       {"computes on", true}};
    const struct json *s = json_get(figures, "status"), *workers = json_get(s, "workers"),
                      *idle = json_get(s, "idle"), *lanes = json_get(s, "lanes");
    struct page_table t = {.out = out,
                           .name = "Workers",
                           .id = "workers",
                           .head = head,
                           .heads = sizeof head / sizeof head[0],
                           .rows = json_count(workers) + json_count(idle)};
    char about[96] = "";
    if (t.rows == 0) {
        fputs("<section><h2>Workers</h2><p class=\"note\">No worker is connected.</p></section>",
              out);
        return;
    }
    about_make(s, about, sizeof about);
    page_table_begin(&t, about);
    for (int bad = 1; bad >= 0; bad--) {
        for (size_t i = 0; i < json_count(workers); i++) {
            const struct json *v = json_array_at(workers, i);
            if (worker_bad(v) != (bad == 1))
                continue;
            page_row(&t, worker_bad(v));
            worker_write(v, lanes, out);
        }
        for (size_t i = 0; i < json_count(idle); i++) {
            const struct json *v = json_array_at(idle, i);
            if (refused(v) != (bad == 1))
                continue;
            page_row(&t, refused(v));
            idle_write(v, out);
        }
    }
    page_table_end(&t);
}
