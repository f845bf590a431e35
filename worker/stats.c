/* stats.c: sums of a worker. */
#include "worker/stats.h"

#include <string.h>

void stats_turn(struct stats *s, struct stats_clock *c, enum stats_kind kind, uint64_t now_ns)
{
    if (now_ns > c->since_ns)
        s->time_ns[c->kind] += now_ns - c->since_ns;
    c->since_ns = now_ns;
    c->kind = kind;
}

void stats_held(struct stats *s, uint64_t ns)
{
    if (ns > s->time_ns[STATS_PULL])
        ns = s->time_ns[STATS_PULL];
    s->time_ns[STATS_PULL] -= ns;
    s->time_ns[STATS_WAIT] += ns;
}

void stats_to_wire(const struct stats *s, uint64_t worker, struct wire_WORKER_BEAT *out)
{
    memset(out, 0, sizeof *out);
    out->worker = worker;
    out->examples = s->examples;
    out->batches = s->batches;
    out->skipped = s->skipped;
    out->recomputed = s->recomputed;
    out->bad_lines = s->bad_lines;
    out->keys_pulled = s->keys_pulled;
    out->keys_pushed = s->keys_pushed;
    out->read_s = (double)s->time_ns[STATS_READ] * 1e-9;
    out->pull_s = (double)s->time_ns[STATS_PULL] * 1e-9;
    out->compute_s = (double)s->time_ns[STATS_COMPUTE] * 1e-9;
    out->push_s = (double)s->time_ns[STATS_PUSH] * 1e-9;
    out->wait_s = (double)s->time_ns[STATS_WAIT] * 1e-9;
}
