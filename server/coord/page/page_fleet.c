/* page_fleet.c: the map by load, and the servers. */
#include "proto/base/minmax.h"
#include "proto/base/number.h"
#include "proto/base/text.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>
#include <string.h>

enum {
    NAMED_SHARDS = 64, /* with more, the map names only those with a fault */
    LEVELS = 10,
    CELL = 8, /* units between two cells of the map */
};

/* ---- the map --------------------------------------------------------------------------------- */

bool page_server_ready(const struct json *server)
{
    return server == NULL || json_get_bool(server, "ready", false);
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
static void cells_write(const char *cells, FILE *out)
{
    size_t count = strlen(cells), across = cells_across(count),
           rows = (count + across - 1) / across;
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
    double number = json_get_number(shard, "shard", 0),
           load = json_get_number(shard, "load", 0) * 100;
    bool ready = page_server_ready(server);
    fprintf(out, "<div class=\"shard%s\" title=\"shard %.0f, ", text_if(!ready, " bad"), number);
    html_string(out, server, "name");
    fprintf(out, ": %.0f tablets, %.1f %% of the load\">", html_at(shard, "tablets"), load);
    if (named || !ready) {
        fprintf(out, "<p>%.0f ", number);
        html_name(out, server, "name");
        if (load > 0)
            fprintf(out, " <small>%.1f %%</small>", load);
        fputs("</p>", out);
    }
    cells_write(json_get_string(shard, "cells", ""), out);
    fputs("</div>", out);
}

/* The meaning of the colours, and the loads that they show, in words. */
static void scale_write(const struct json *map, FILE *out)
{
    double cell = json_get_number(map, "cell", 1), hottest = html_at(map, "hottest.share");
    fprintf(out, "<p class=\"note scale\">%.0f tablets on %zu shards; a cell is ",
            json_get_number(map, "tablets", 0), json_count(json_get(map, "shards")));
    if (cell > 1)
        fprintf(out, "the hottest of %.0f tablets", cell);
    else
        fputs("a tablet", out);
    fputs(". Its time in pulls and pushes: none <svg viewBox=\"0 0 80 8\" width=\"80\" "
          "height=\"8\" aria-hidden=\"true\">",
          out);
    for (int level = 0; level < LEVELS; level++)
        fprintf(out, "<path class=\"h%d\" d=\"M%d 0h7v7h-7z\"/>", level, level * CELL);
    fputs("</svg> most, each step twice as much.", out);
    if (hottest > 0)
        fprintf(out, " The hottest tablet takes %.2g %% of all the time, on shard %.0f.",
                hottest * 100, html_at(map, "hottest.shard"));
    else
        fputs(" No load is known yet.", out);
    fputs("</p>", out);
}

void page_map(const struct json *figures, FILE *out)
{
    const struct json *map = json_get(figures, "map"), *shards = json_get(map, "shards"),
                      *servers = json_get(figures, "status.servers");
    size_t count = json_count(shards);
    if (count == 0 || json_get_number(map, "tablets", 0) == 0)
        return;
    fputs("<section><h2>Map</h2><div class=\"card\"><div class=\"map\">", out);
    for (size_t i = 0; i < count; i++)
        shard_write(json_array_at(shards, i), json_array_at(servers, i), count <= NAMED_SHARDS,
                    out);
    fputs("</div>", out);
    scale_write(map, out);
    fputs("</div></section>", out);
}

/* ---- servers --------------------------------------------------------------------------------- */

/* The figures that a row of the table needs beside its server. */
struct row {
    const struct json *shard; /* in the map */
    double load_most;         /* the highest of all shards */
    bool bars, known;         /* known: the server has been heard */
};

/* Use of a budget as a bar beside the bytes. */
static void used(FILE *out, double bytes, double most, const struct row *row)
{
    char text[NUMBER_TEXT];
    if (!row->known) {
        page_number(out, "-");
        return;
    }
    fputs("<td>", out);
    html_text(out, number_bytes(bytes, text));
    if (most > 0) {
        fprintf(out, " <small>of %s</small> ", number_bytes(most, text));
        if (row->bars)
            page_bar(bytes / most, bytes > 0.9 * most ? "bad" : "c5", out);
    }
    fputs("</td>", out);
}

static void count(FILE *out, double x, const struct row *row)
{
    char text[NUMBER_TEXT];
    page_number(out, number_count(row->known ? x : (double)NAN, text));
}

static void ready_write(const struct json *v, FILE *out)
{
    char text[NUMBER_TEXT];
    double silent_ms = json_get_number(v, "silent_ms", -1);
    fputs("<td class=\"t\">", out);
    if (silent_ms < 0)
        fputs("not seen yet", out);
    else if (silent_ms >= PAGE_SILENT_MS)
        fprintf(out, "not heard for %s", number_seconds(silent_ms / 1000, text));
    else if (!page_server_ready(v))
        fputs("not ready", out);
    else if (json_get_bool(v, "disk_short", false))
        fputs("disk is full", out);
    else
        fputs("ready", out);
    fputs("</td>", out);
}

static bool server_bad(const struct json *v)
{
    return !page_server_ready(v) || json_get_number(v, "silent_ms", -1) >= PAGE_SILENT_MS ||
           json_get_bool(v, "disk_short", false);
}

static void server_write(const struct json *v, const struct row *row, FILE *out)
{
    char text[NUMBER_TEXT];
    double load = json_get_number(row->shard, "load", 0);
    fputs("<th scope=\"row\" title=\"", out);
    html_string(out, v, "endpoint");
    fprintf(out, "\">%.0f ", json_get_number(v, "shard", 0));
    html_name(out, v, "name");
    fputs("</th>", out);
    ready_write(v, out);
    if (row->load_most > 0) {
        fprintf(out, "<td>%.*f&nbsp;%% ", load < 0.001 ? 2 : 1, load * 100);
        if (row->bars)
            page_bar(load / row->load_most, "c1", out);
        fputs("</td>", out);
    } else {
        page_number(out, "-");
    }
    count(out, html_at(v, "tablets"), row);
    count(out, html_at(v, "rows"), row);
    used(out, html_at(v, "rss_bytes"), html_at(v, "memory_max"), row);
    page_number(out, number_short(html_at(v, "pull_rate"), text));
    page_number(out, number_short(html_at(v, "push_rate"), text));
    used(out, html_at(v, "disk_bytes"), html_at(v, "disk_max"), row);
    used(out, html_at(v, "journal_bytes"), 0, row);
    count(out, html_at(v, "parked"), row);
    fputs("</tr>", out);
}

/* Servers with a fault come first. */
void page_servers(const struct json *figures, FILE *out)
{
    static const struct page_head head[] = {{"shard", true},
                                            {"state", true},
                                            {"load", false},
                                            {"tablets", false},
                                            {"rows", false},
                                            {"memory", false},
                                            {"pulled keys/s", false},
                                            {"pushed keys/s", false},
                                            {"disk", false},
                                            {"journal", false},
                                            {"requests waiting", false}};
    const struct json *servers = json_get(figures, "status.servers"),
                      *shards = json_get(figures, "map.shards");
    struct page_table t = {.out = out,
                           .name = "Servers",
                           .id = "servers",
                           .head = head,
                           .heads = sizeof head / sizeof head[0],
                           .rows = json_count(servers)};
    struct row row = {.load_most = 0};
    size_t bads = 0;
    char about[64];
    for (size_t i = 0; i < json_count(shards); i++)
        row.load_most = fmax(row.load_most, json_get_number(json_array_at(shards, i), "load", 0));
    for (size_t i = 0; i < t.rows; i++)
        bads += server_bad(json_array_at(servers, i));
    (void)snprintf(about, sizeof about, "%zu of %zu shard%s ready", t.rows - bads, t.rows,
                   text_if(t.rows != 1, "s"));
    page_table_begin(&t, about);
    for (int bad = 1; bad >= 0; bad--)
        for (size_t i = 0; i < t.rows; i++) {
            const struct json *v = json_array_at(servers, i);
            if (server_bad(v) != (bad == 1))
                continue;
            page_row(&t, bad == 1);
            row.bars = !page_folded(&t);
            row.known = json_get_number(v, "silent_ms", 0) >= 0;
            row.shard = json_array_at(shards, i);
            server_write(v, &row, out);
        }
    page_table_end(&t);
}
