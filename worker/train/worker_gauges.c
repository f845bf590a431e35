/* worker_gauges.c: figures for Prometheus. */
#include "worker/train/worker_gauges.h"

#include "proto/base/assert.h"
#include "worker/train/client.h"
#include "worker/train/trainer_inner.h"

#include <stdio.h>

#define NS 1e-9

static void stages_put(const struct trainer *t, struct meter_sheet *out)
{
    static const char *const charged[STATS_KINDS] =
        {[STATS_WAIT] = "wait",       [STATS_READ] = "read", [STATS_PULL] = "pull",
         [STATS_COMPUTE] = "compute", [STATS_PUSH] = "push", [STATS_STEP] = "ring"},
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
    meter_put(out, WORKER_KEYS, (double)s->keys_echoed, space, name, "echo", NULL);
    meter_put(out, OVERFLOWS, (double)s->skipped_steps, space, name, NULL);
    meter_put_times(out, STEP_SECONDS, &s->steps, space, name, NULL);
    meter_put_times(out, GRADIENT_AGE, &s->gradient_ages, space, name, NULL);
    meter_put(out, LANES_HELD, t->host.lanes != NULL ? t->host.lanes(t->host.context) : 0, space,
              name, NULL);
}

static void lanes_put(const struct trainer *t, struct meter_sheet *out)
{
    char lane[16];
    for (uint32_t i = 0; i < t->seat_count; i++) {
        uint64_t age_ns = lane_gradient_age(seat_work(t->seat[i]));
        if (seat_lane(t->seat[i]) == SEAT_NO_LANE || age_ns == 0)
            continue;
        (void)snprintf(lane, sizeof lane, "%u", seat_lane(t->seat[i]));
        meter_put(out, LANE_AGE, (double)age_ns * NS, t->job.space, t->job.name, lane, NULL);
    }
}

static void ways_put(const struct trainer *t, struct meter_sheet *out)
{
    uint64_t late_ns, round_ns;
    char shard[16];
    for (uint32_t s = 0; client_way(t->client, s, &late_ns, &round_ns); s++) {
        (void)snprintf(shard, sizeof shard, "%u", s);
        meter_put(out, WORKER_ABSENCE, (double)late_ns * NS, shard, NULL);
        if (round_ns > 0)
            meter_put(out, ROUND_TRIP, (double)round_ns * NS, shard, NULL);
    }
}

static void device_put(const struct trainer *t, struct meter_sheet *out)
{
    uint64_t taken, all;
    if (!backend_memory(t->options.backend, &taken, &all))
        return;
    meter_put(out, DEVICE_MEMORY, (double)taken, NULL);
    meter_put(out, DEVICE_MEMORY_LIMIT, (double)all, NULL);
}

void worker_gauges_put(const struct trainer *t, struct meter_sheet *out)
{
    ways_put(t, out);
    device_put(t, out);
    if (!t->have_job)
        return;
    stages_put(t, out);
    work_put(t, out);
    lanes_put(t, out);
}
