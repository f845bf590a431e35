/* page_fleet.c: the map, the servers, the workers. */
#include "proto/base/minmax.h"
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>
#include <string.h>

enum {
    NAMED_SHARDS = 64, /* with more, the map names only those with a fault */
    SHOWN = 24,        /* rows of a table; the rest is folded */
    LEVELS = 10,
    CELL = 8, /* units between two cells of the map */
};
static const double SILENT_MS = 5000; /* servers and workers beat more often */

/* ---- the map --------------------------------------------------------------------------------- */

static bool server_ready(const struct json *server)
{
    return server == NULL || json_as_bool(json_get(server, "ready"), false);
}

/* How many cells stand in one row. */
static size_t cells_across(size_t cells)
{
    if (cells <= 8)
        return MAX(cells, 1);
    if (cells <= 16)
        return 8;
    if (cells <= 256)
        return 16;
    return 32;
}

/* One path for all cells of a level. */
static void cells_write(const char *cells, size_t count, FILE *out)
{
    size_t across = cells_across(count), rows = (count + across - 1) / across;
    fprintf(out, "<svg viewBox=\"0 0 %zu %zu\" width=\"%zu\" height=\"%zu\" aria-hidden=\"true\">",
            across * CELL, rows * CELL, across * CELL, rows * CELL);
    for (char level = '0'; level < '0' + LEVELS; level++) {
        const char *first = strchr(cells, level);
        if (first == NULL)
            continue;
        fprintf(out, "<path class=\"h%c\" d=\"", level);
        for (size_t i = (size_t)(first - cells); i < count; i++)
            if (cells[i] == level)
                fprintf(out, "M%zu %zuh7v7h-7z", i % across * CELL, i / across * CELL);
        fputs("\"/>", out);
    }
    fputs("</svg>", out);
}

static void shard_write(const struct json *shard, const struct json *server, bool named, FILE *out)
{
    const char *cells = json_as_string(json_get(shard, "cells"), "");
    double number = json_as_number(json_get(shard, "shard"), 0);
    bool ready = server_ready(server);
    fprintf(out, "<div class=\"shard%s\" title=\"shard %.0f, ", ready ? "" : " bad", number);
    html_string(out, server, "name");
    fprintf(out, ": %.0f tablets, %.1f %% of the load\">", html_at(shard, "tablets"),
            json_as_number(json_get(shard, "load"), 0) * 100);
    if (named || !ready) {
        fprintf(out, "<span>%.0f <b>", number);
        html_string(out, server, "name");
        fputs("</b></span>", out);
    }
    cells_write(cells, strlen(cells), out);
    fputs("</div>", out);
}

void page_map(const struct json *figures, FILE *out)
{
    const struct json *shards = json_get(figures, "map.shards"),
                      *servers = json_get(figures, "status.servers");
    size_t count = json_count(shards);
    double tablets = json_as_number(json_get(figures, "map.tablets"), 0),
           cell = json_as_number(json_get(figures, "map.cell"), 1);
    if (count == 0 || tablets == 0)
        return;
    fputs("<section><h2>Map</h2><div class=\"card\"><div class=\"map\">", out);
    for (size_t i = 0; i < count; i++)
        shard_write(json_array_at(shards, i), json_array_at(servers, i), count <= NAMED_SHARDS,
                    out);
    fprintf(out, "</div><p class=\"note scale\">%.0f tablets on %zu shards; a cell is ", tablets,
            count);
    if (cell > 1)
        fprintf(out, "the hottest of %.0f tablets", cell);
    else
        fputs("a tablet", out);
    fputs(". Its time in pulls and pushes: none <svg viewBox=\"0 0 80 8\" width=\"80\" "
          "height=\"8\" aria-hidden=\"true\">",
          out);
    for (int level = 0; level < LEVELS; level++)
        fprintf(out, "<path class=\"h%d\" d=\"M%d 0h7v7h-7z\"/>", level, level * CELL);
    fputs("</svg> most, each step twice as much</p></div></section>", out);
}

/* ---- servers --------------------------------------------------------------------------------- */

static void cell(FILE *out, const char *text, const char *kind)
{
    fprintf(out, "<td%s>", kind);
    html_text(out, text);
    fputs("</td>", out);
}

static const char OPTIONAL[] = " class=\"o\"";

/* What a row of the table needs beside its server. */
struct row {
    const struct json *shard; /* in the map */
    double load_most;         /* of all shards */
    bool bars;                /* the row has bars: not in a fold, where they would be thousands */
};

/* Use of a budget as a bar beside the bytes. */
static void used(FILE *out, double bytes, double most, bool bars, const char *kind)
{
    char text[NUMBER_TEXT];
    fprintf(out, "<td%s>", kind);
    html_text(out, number_bytes(bytes, text));
    if (most > 0) {
        fputs(" <small>of ", out);
        html_text(out, number_bytes(most, text));
        fputs("</small> ", out);
        if (bars)
            page_bar(bytes / most, bytes > 0.9 * most ? "bad" : "c5", out);
    }
    fputs("</td>", out);
}

static void ready_write(const struct json *v, FILE *out)
{
    char text[NUMBER_TEXT];
    double silent_ms = json_as_number(json_get(v, "silent_ms"), -1);
    if (silent_ms < 0)
        fputs("not seen yet", out);
    else if (!server_ready(v) && silent_ms < SILENT_MS)
        fputs("not ready", out);
    else if (silent_ms >= SILENT_MS)
        fprintf(out, "not heard for %s", number_seconds(silent_ms / 1000, text));
    else
        fputs("ready", out);
}

static bool server_bad(const struct json *v)
{
    return !server_ready(v) || json_as_number(json_get(v, "silent_ms"), -1) >= SILENT_MS ||
           json_as_bool(json_get(v, "disk_short"), false);
}

static void server_write(const struct json *v, const struct row *row, FILE *out)
{
    char text[NUMBER_TEXT];
    double load = json_as_number(json_get(row->shard, "load"), 0);
    fprintf(out, "<tr%s><td title=\"", server_bad(v) ? " class=\"bad\"" : "");
    html_string(out, v, "endpoint");
    fprintf(out, "\">%.0f <b>", json_as_number(json_get(v, "shard"), 0));
    html_string(out, v, "name");
    fputs("</b></td><td>", out);
    ready_write(v, out);
    fprintf(out, "</td><td>%.1f %% ", load * 100);
    if (row->bars && row->load_most > 0)
        page_bar(load / row->load_most, "c1", out);
    fputs("</td>", out);
    cell(out, number_short(html_at(v, "pull_rate"), text), "");
    cell(out, number_short(html_at(v, "push_rate"), text), "");
    cell(out, number_count(html_at(v, "rows"), text), "");
    used(out, html_at(v, "rss_bytes"), html_at(v, "memory_max"), row->bars, "");
    used(out, html_at(v, "disk_bytes"), html_at(v, "disk_max"), row->bars, OPTIONAL);
    cell(out, number_bytes(html_at(v, "journal_bytes"), text), OPTIONAL);
    cell(out, number_count(html_at(v, "parked"), text), OPTIONAL);
    fputs("</tr>", out);
}

static void servers_head(FILE *out)
{
    fputs("<table><thead><tr><th>shard</th><th>state</th><th>load</th><th>pulled keys/s</th>"
          "<th>pushed keys/s</th><th>rows</th><th>memory</th><th class=\"o\">disk</th>"
          "<th class=\"o\">journal</th><th class=\"o\">waiting</th></tr></thead><tbody>",
          out);
}

/* Those with a fault come first; after SHOWN rows the table goes on in a fold. */
void page_servers(const struct json *figures, FILE *out)
{
    const struct json *servers = json_get(figures, "status.servers"),
                      *shards = json_get(figures, "map.shards");
    struct row row = {.bars = true};
    size_t count = json_count(servers), shown = 0;
    for (size_t i = 0; i < json_count(shards); i++)
        row.load_most =
            fmax(row.load_most, json_as_number(json_get(json_array_at(shards, i), "load"), 0));
    fprintf(out,
            "<section><h2>Servers <small>%zu shard%s</small></h2>"
            "<div class=\"card scroll\" id=\"servers\">",
            count, count == 1 ? "" : "s");
    servers_head(out);
    for (int bad = 1; bad >= 0; bad--)
        for (size_t i = 0; i < count; i++) {
            if (server_bad(json_array_at(servers, i)) != (bad == 1))
                continue;
            if (shown++ == SHOWN) {
                fprintf(out,
                        "</tbody></table><details id=\"more-servers\"><summary>%zu more"
                        "</summary>",
                        count - SHOWN);
                servers_head(out);
                row.bars = false;
            }
            row.shard = json_array_at(shards, i);
            server_write(json_array_at(servers, i), &row, out);
        }
    fprintf(out, "</tbody></table>%s</div></section>", shown > SHOWN ? "</details>" : "");
}

/* ---- workers --------------------------------------------------------------------------------- */

/* The lanes of a worker by number, as many as have room. */
static void lanes_write(const struct json *lanes, double worker, FILE *out)
{
    enum { NAMED = 8 };
    size_t found = 0;
    for (size_t i = 0; i < json_count(lanes); i++) {
        const struct json *lane = json_array_at(lanes, i);
        if (html_at(lane, "worker") != worker)
            continue;
        if (found++ < NAMED)
            fprintf(out, "%s<span title=\"%.0f batches done\">%.0f</span>", found > 1 ? ", " : "",
                    html_at(lane, "batch"), html_at(lane, "lane"));
    }
    if (found > NAMED)
        fprintf(out, " and %zu more", found - NAMED);
    if (found == 0)
        fputs("none", out);
}

static void worker_write(const struct json *v, const struct json *lanes, FILE *out)
{
    char text[NUMBER_TEXT];
    double silent_ms = html_at(v, "silent_ms");
    bool bad = silent_ms >= SILENT_MS || json_as_number(json_get(v, "stalls"), 0) > 0;
    fprintf(out, "<tr%s><td>%.0f <b>", bad ? " class=\"bad\"" : "", html_at(v, "worker"));
    html_string(out, v, "name");
    fputs("</b></td><td>", out);
    if (silent_ms >= SILENT_MS)
        fprintf(out, "not heard for %s", number_seconds(silent_ms / 1000, text));
    else
        fputs(bad ? "stalled" : "beats", out);
    fputs("</td><td>", out);
    lanes_write(lanes, html_at(v, "worker"), out);
    fputs("</td>", out);
    cell(out, number_short(html_at(v, "rate"), text), "");
    cell(out, number_count(html_at(v, "examples"), text), "");
    fputs("<td class=\"o\">", out);
    html_string(out, v, "backend");
    fputs(" ", out);
    html_string(out, v, "device");
    fputs("</td></tr>", out);
}

static void idle_write(const struct json *v, FILE *out)
{
    bool refused = json_as_string(json_get(v, "why"), "")[0] != 0;
    fprintf(out, "<tr%s><td><b>", refused ? " class=\"bad\"" : "");
    html_string(out, v, "name");
    fprintf(out, "</b></td><td colspan=\"5\">%s", refused ? "refused: " : "waits for a job");
    html_string(out, v, "why");
    fputs("</td></tr>", out);
}

void page_workers(const struct json *figures, FILE *out)
{
    const struct json *workers = json_get(figures, "status.workers"),
                      *idle = json_get(figures, "status.idle"),
                      *lanes = json_get(figures, "status.lanes");
    size_t count = json_count(workers), all = count + json_count(idle);
    fprintf(out, "<section><h2>Workers <small>%zu, %zu lanes</small></h2>", count,
            json_count(lanes));
    if (all == 0) {
        fputs("<p class=\"note\">No worker is connected.</p></section>", out);
        return;
    }
    fputs("<div class=\"card scroll\" id=\"workers\"><table><thead><tr><th>worker</th>"
          "<th>state</th><th>lanes</th><th>examples/s</th><th>examples</th>"
          "<th class=\"o\">computes on</th></tr></thead><tbody>",
          out);
    for (size_t i = 0; i < all; i++) {
        if (i == SHOWN)
            fprintf(out,
                    "</tbody></table><details id=\"more-workers\"><summary>%zu more</summary>"
                    "<table><tbody>",
                    all - SHOWN);
        if (i < count)
            worker_write(json_array_at(workers, i), lanes, out);
        else
            idle_write(json_array_at(idle, i - count), out);
    }
    fprintf(out, "</tbody></table>%s</div></section>", all > SHOWN ? "</details>" : "");
}
