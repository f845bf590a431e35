/* page_copies.c: the copies of the shards that follow a leader: how far each is behind. */
#include "proto/base/number.h"
#include "server/coord/page/html.h"
#include "server/coord/page/page_inner.h"

#include <math.h>

static bool silent(const struct json *copy)
{
    double ms = json_get_number(copy, "silent_ms", -1);
    return ms < 0 || ms >= PAGE_SILENT_MS;
}

static bool in_sync(const struct json *copy)
{
    return json_get_bool(copy, "in_sync", false);
}

static bool copy_bad(const struct json *copy)
{
    return !in_sync(copy) || silent(copy);
}

static void state_write(const struct json *copy, FILE *out)
{
    char text[NUMBER_TEXT], left[NUMBER_TEXT];
    const struct json *copying = json_get(copy, "copying");
    double out_ms = html_at(copy, "out_ms"), silent_ms = html_at(copy, "silent_ms"),
           done = html_at(copying, "bytes"), of = html_at(copying, "of");
    fputs("<td class=\"t\">", out);
    if (silent_ms < 0)
        fputs("not seen yet", out);
    else if (silent(copy))
        fprintf(out, "not heard for %s", number_seconds(silent_ms / 1000, text));
    else if (of > 0)
        fprintf(out, "copies: %s of %s", number_bytes(done, text), number_bytes(of, left));
    else if (in_sync(copy))
        fputs("in sync", out);
    else
        fputs("catches up", out);
    if (of > 0 && !silent(copy) && html_at(copying, "seconds_left") >= 0)
        fprintf(out, ", about %s left", number_seconds(html_at(copying, "seconds_left"), text));
    if (!in_sync(copy) && isfinite(out_ms))
        fprintf(out, "; not in sync for %s", number_seconds(out_ms / 1000, text));
    fputs("</td>", out);
}

static void copy_write(const struct json *shard, const struct json *copy, FILE *out)
{
    char text[NUMBER_TEXT];
    fprintf(out, "<th scope=\"row\">%.0f ", html_at(shard, "shard"));
    html_name(out, copy, "name");
    if (json_get_string(copy, "zone", "")[0] != 0) {
        fputs(" <small>zone ", out);
        html_name(out, copy, "zone");
        fputs("</small>", out);
    }
    fputs("</th>", out);
    state_write(copy, out);
    page_number(out, number_count(html_at(copy, "lag"), text));
    page_number(out, number_bytes(html_at(copy, "lag_bytes"), text));
    page_number(out, number_count(silent(copy) ? (double)NAN : html_at(copy, "lag_ms"), text));
    fputs("<td class=\"t\">", out);
    html_name(out, shard, "leader");
    fputs("</td></tr>", out);
}

static void copies_write(struct page_table *t, const struct json *shards, bool bad)
{
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *shard = json_array_at(shards, i), *copies = json_get(shard, "copies");
        for (size_t k = 0; k < json_count(copies); k++) {
            const struct json *copy = json_array_at(copies, k);
            if (json_get_bool(copy, "leads", false) || copy_bad(copy) != bad)
                continue;
            page_row(t, bad);
            copy_write(shard, copy, t->out);
        }
    }
}

void page_copies(const struct json *figures, FILE *out)
{
    static const struct page_head head[] = {{"copy of shard", true},   {"state", true},
                                            {"records behind", false}, {"bytes behind", false},
                                            {"ms behind", false},      {"leader", true}};
    const struct json *shards = json_get(figures, "status.cluster.copies");
    struct page_table t = {.out = out,
                           .name = "Copies",
                           .id = "copies",
                           .head = head,
                           .heads = sizeof head / sizeof head[0]};
    size_t synced = 0;
    char about[64];
    for (size_t i = 0; i < json_count(shards); i++) {
        const struct json *copies = json_get(json_array_at(shards, i), "copies");
        for (size_t k = 0; k < json_count(copies); k++) {
            const struct json *copy = json_array_at(copies, k);
            if (json_get_bool(copy, "leads", false))
                continue;
            t.rows++;
            synced += !copy_bad(copy);
        }
    }
    if (t.rows == 0)
        return;
    (void)snprintf(about, sizeof about, "%zu of %zu in sync with their leaders", synced, t.rows);
    page_table_begin(&t, about);
    copies_write(&t, shards, true);
    copies_write(&t, shards, false);
    page_table_end(&t);
}
