/* watch.c: servers and workers that a running job cannot go on without. */
#include "server/coord/watch.h"
#include "proto/base/log.h"
#include "server/coord/core.h"
#include "server/coord/end.h"
#include "server/coord/phase.h"

#include <inttypes.h>
#include <stdio.h>

#define SAY_NS UINT64_C(10000000000)

static uint64_t silent_ns(const struct coord *c, const struct coord_shard *s)
{
    return env_now_ns(c->env) - (s->seen ? s->beat_ns : c->watch.begun_ns);
}

/* The first server that has been silent for longer than its lease, or NULL. */
static const struct coord_shard *server_missing(const struct coord *c)
{
    for (uint32_t i = 0; i < c->members.shards; i++)
        if (silent_ns(c, &c->members.shard[i]) > c->options.lease_ms * UINT64_C(1000000))
            return &c->members.shard[i];
    return NULL;
}

/* The first that is there and reads its rows back, or NULL. */
static const struct coord_shard *server_reading(const struct coord *c)
{
    for (uint32_t i = 0; i < c->members.shards; i++)
        if (c->members.shard[i].seen && !c->members.shard[i].ready)
            return &c->members.shard[i];
    return NULL;
}

bool coord_watch_missing(const struct coord *c, char *text, size_t bytes)
{
    text[0] = 0;
    if (!coord_phase_running(c))
        return false;
    const struct coord_shard *s = server_missing(c);
    if (s != NULL && s->server[0] != 0)
        (void)snprintf(text, bytes,
                       "waits for server %s (%s), not heard for %" PRIu64 " s: start it again",
                       s->server, s->endpoint[0] != 0 ? s->endpoint : "not seen yet",
                       (silent_ns(c, s) / UINT64_C(1000000000)));
    else if (s != NULL)
        (void)snprintf(
            text, bytes,
            "waits for servers: not all of the %u shards of the coordinator's file have come",
            c->members.shards);
    else if ((s = server_reading(c)) != NULL)
        (void)snprintf(text, bytes,
                       "waits for server %s (%s): it has started and reads its rows back",
                       s->server, s->endpoint);
    else if (c->members.workers == 0 && env_now_ns(c->env) - c->watch.worker_ns > coord_lease_ns(c))
        (void)snprintf(text, bytes, "waits for a worker: none is there");
    return text[0] != 0;
}

/* Rows that were in the memory of a process are gone with it. */
static void memory_look(struct coord *c)
{
    if (!coord_phase_running(c) || c->job.at.phase < PHASE_SETUP ||
        c->job.spec.durability != DURABLE_MEMORY)
        return;
    for (uint32_t i = 0; i < c->members.shards; i++) {
        const struct coord_shard *s = &c->members.shard[i];
        uint64_t silent = silent_ns(c, s);
        if (silent <= 2 * c->options.lease_ms * UINT64_C(1000000))
            continue;
        coord_end_fail(c, SHOAL_E_UNAVAILABLE,
                       "server %s has not been heard for %" PRIu64
                       " s and durability is memory: its "
                       "rows count as lost; "
                       "start the job again, or use durability: journal",
                       s->server, silent / UINT64_C(1000000000));
        return;
    }
}

void coord_watch_tick(struct coord *c)
{
    char text[ERR_TEXT_MAX];
    uint64_t now = env_now_ns(c->env);
    if (c->members.workers > 0)
        c->watch.worker_ns = now;
    memory_look(c);
    if (now - c->watch.said_ns < SAY_NS || !coord_watch_missing(c, text, sizeof text))
        return;
    c->watch.said_ns = now;
    log_warn("job %s %s", c->job.spec.name, text);
}
