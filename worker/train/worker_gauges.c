/* worker_gauges.c: figures for Prometheus. */
#include "worker/train/worker_gauges.h"

#include "proto/base/assert.h"
#include "worker/train/client.h"
#include "worker/train/trainer_inner.h"

#include <stdio.h>

#define NS 1e-9

static void stages_put(const struct trainer *t, struct meter_sheet *out)
{
    static const char *const charged[STATS_KINDS] = {[STATS_WAIT] = "wait",
                                                     [STATS_READ] = "read",
                                                     [STATS_PULL] = "pull",
                                                     [STATS_COMPUTE] = "compute",
                                                     [STATS_PUSH] = "push"},
                             *const busy[STAGES] = {[STAGE_FILE] = "file",
                                                    [STAGE_PARSE] = "parse",
                                                    [STAGE_PULL] = "pull",
                                                    [STAGE_COMPUTE] = "compute",
                                                    [STAGE_PUSH] = "push"};
    const struct stats *s = &t->stats;
    for (int i = 0; i < STATS_KINDS; i++)
        meter_put(out, LANE_SECONDS, (double)s->time_ns[i] * NS, t->job.space, t->job.name,
                  charged[i], NULL);
    for (int i = 0; i < STAGES; i++)
        meter_put(out, BUSY_SECONDS, (double)s->busy_ns[i] * NS, t->job.space, t->job.name, busy[i],
                  NULL);
}

static void work_put(const struct trainer *t, struct meter_sheet *out)
{
    const char *space = t->job.space, *name = t->job.name;
    const struct stats *s = &t->stats;
    meter_put(out, EXAMPLES, (double)s->examples, space, name, NULL);
    meter_put(out, BATCHES, (double)s->batches, space, name, NULL);
    meter_put(out, BATCHES_SKIPPED, (double)s->skipped, space, name, NULL);
    meter_put(out, BAD_LINES, (double)s->bad_lines, space, name, NULL);
    meter_put(out, WORKER_KEYS, (double)s->keys_pulled, space, name, "pull", NULL);
    meter_put(out, WORKER_KEYS, (double)s->keys_pushed, space, name, "push", NULL);
    meter_put(out, CACHE_KEYS, (double)s->cache_hits, space, name, "hit", NULL);
    meter_put(out, CACHE_KEYS, (double)s->cache_misses, space, name, "miss", NULL);
    meter_put(out, OVERFLOWS, (double)s->skipped_steps, space, name, NULL);
    meter_put(out, LANES_HELD, t->host.lanes != NULL ? t->host.lanes(t->host.context) : 0, space,
              name, NULL);
}

void worker_gauges_put(const struct trainer *t, struct meter_sheet *out)
{
    struct client_reach reach;
    client_reach(t->client, &reach);
    meter_put(out, WORKER_ABSENCE, (double)reach.late_ns * NS, NULL);
    if (!t->have_job)
        return;
    stages_put(t, out);
    work_put(t, out);
}
