/* stats.c: sums of a worker. */
#include "worker/train/stats.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <string.h>

void stats_turn(struct stats *s, struct stats_clock *c, enum stats_kind kind, uint64_t now_ns)
{
    SHOAL_ASSERT(kind < STATS_KINDS && c->kind < STATS_KINDS);
    if (now_ns > c->since_ns)
        s->time_ns[c->kind] += now_ns - c->since_ns;
    c->since_ns = now_ns;
    if (kind != c->kind)
        c->begun_ns = now_ns;
    c->kind = kind;
}

void stats_held(struct stats *s, uint64_t ns)
{
    if (ns > s->time_ns[STATS_PULL])
        ns = s->time_ns[STATS_PULL];
    s->time_ns[STATS_PULL] -= ns;
    s->time_ns[STATS_WAIT] += ns;
    s->held_ns += ns;
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static double least(const struct stats *s, enum stats_stage stage, uint64_t busy_ns)
{
    return seconds(busy_ns) / MAX(s->wide[stage], 1);
}

void stats_to_wire(const struct stats *s, uint64_t pass, struct wire_WORKER_BEAT *out)
{
    *out = (struct wire_WORKER_BEAT){
        .pass = pass,
        .examples = s->examples,
        .batches = s->batches,
        .skipped = s->skipped,
        .recomputed = s->recomputed,
        .bad_lines = s->bad_lines,
        .keys_pulled = s->keys_pulled,
        .keys_pushed = s->keys_pushed,
        .keys_echoed = s->keys_echoed,
        .keys_missed = s->keys_missed,
        .read_s = seconds(s->time_ns[STATS_READ]),
        .pull_s = seconds(s->time_ns[STATS_PULL]),
        .compute_s = seconds(s->time_ns[STATS_COMPUTE]),
        .push_s = seconds(s->time_ns[STATS_PUSH]),
        .wait_s = seconds(s->time_ns[STATS_WAIT]),
        .ring_wait_s = seconds(s->time_ns[STATS_STEP]),
        .skipped_steps = s->skipped_steps,
        .held_s = seconds(s->held_ns),
        .file_busy_s = seconds(s->busy_ns[STAGE_FILE]),
        .parse_busy_s = seconds(s->busy_ns[STAGE_PARSE]),
        .pull_busy_s = seconds(s->busy_ns[STAGE_PULL]),
        .compute_busy_s = seconds(s->busy_ns[STAGE_COMPUTE]),
        .push_busy_s = seconds(s->busy_ns[STAGE_PUSH]),
        .read_least_s = least(s, STAGE_PARSE, s->busy_ns[STAGE_FILE] + s->busy_ns[STAGE_PARSE]),
        .pull_least_s = least(s, STAGE_PULL, s->busy_ns[STAGE_PULL]),
        .push_least_s = least(s, STAGE_PUSH, s->busy_ns[STAGE_PUSH]),
        .clamped_times = s->clamped,
        .outside_partition = s->outside,
        .site_s = s->site_s,
        .site_waited_s = s->site_waited_s,
    };
}
