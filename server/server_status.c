/* server_status.c: the one-line status of a server. */
#include "server/server_status.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"

#include <inttypes.h>
#include <stdio.h>

void server_status_work(const struct server_progress *p, uint32_t shards, const char *what,
                        const char *of, char *text, size_t bytes)
{
    double share = 0;
    uint32_t known = 0;
    for (uint32_t i = 0; i < shards; i++) {
        uint64_t done = p[i].done, all = p[i].of;
        if (all == 0)
            continue;
        known++;
        share += (double)MIN(done, all) / (double)all;
    }
    if (known == 0)
        text_copy(text, bytes, what);
    else
        (void)snprintf(text, bytes, "%s: %.0f %% of %s", what, 100 * share / shards, of);
}

/* The rate per second; 0 when the counter has begun anew. */
static double rate(uint64_t now, uint64_t before, uint64_t ns)
{
    if (ns == 0 || now < before)
        return 0;
    return (double)(now - before) * 1e9 / (double)ns;
}

void server_status_serving(const struct server_progress *p, uint32_t shards, uint64_t now_ns,
                           struct server_told *told, char *text, size_t bytes)
{
    uint64_t rows = 0, pulled = 0, pushed = 0, away = 0, tablets = 0, ns = 0;
    if (told->ns != 0)
        ns = now_ns - told->ns;
    for (uint32_t i = 0; i < shards; i++) {
        rows += p[i].rows;
        pulled += p[i].pulled;
        pushed += p[i].pushed;
        away += p[i].away;
        tablets += p[i].tablets;
    }
    int used = snprintf(text, bytes, "serving: %" PRIu64 " rows, %.0f keys/s pulled, %.0f pushed",
                        rows, rate(pulled, told->pulled, ns), rate(pushed, told->pushed, ns));
    if (away > 0 && tablets >= away && used > 0 && (size_t)used < bytes)
        (void)snprintf(text + used, bytes - (size_t)used,
                       "; recovers: %.0f %% of the rows are back",
                       100 * (double)(tablets - away) / (double)tablets);
    *told = (struct server_told){now_ns, pulled, pushed};
}
