/* trainer_beat.c: beats, and what a worker sees of the coordinator, the shards and its device
 * between two of them. */
#include "proto/base/container_of.h"
#include "proto/base/minmax.h"
#include "worker/data/taken.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>

#define MS UINT64_C(1000000)

/* Starts the timer of the next beat. */
void trainer_beat_later(struct trainer *t)
{
    uint64_t third_ms = MIN(t->lease_ms / 3, WIRE_BEAT_MS);
    env_timer_start(t->env, &t->beat_timer, third_ms * MS);
}

/* True when the coordinator has been silent for longer than the lease. */
static bool coordinator_silent(const struct trainer *t)
{
    return t->state == WORKING &&
           env_now_ns(t->env) - client_heard_ns(t->client) > t->lease_ms * MS;
}

/* Describes what delays the worker, as far as it can see. A worker that does not hear the
 * coordinator pushes nothing, even if its beats arrive there; its lanes then do not wait for other
 * lanes. */
static void held_up_put(const struct trainer *t, struct wire_WORKER_BEAT *out)
{
    struct client_reach reach;
    client_reach(t->client, &reach);
    uint64_t late_ms = reach.late_ns / MS;
    out->late_shard = reach.late_shard;
    out->late_ms = UINT32_MAX;
    if (late_ms < UINT32_MAX)
        out->late_ms = (uint32_t)late_ms;

    out->unnamed = reach.unnamed;
    out->slow_shard = reach.slow_shard;
    out->slow_us = reach.slow_us;
    out->usual_us = reach.usual_us;
    for (uint32_t i = 0; i < t->seat_count && !coordinator_silent(t); i++)
        out->waits += lane_waits(seat_work(t->seat[i]));
    out->read_bytes = taken_bytes() - t->taken_before;
}

static struct msg *beat_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, beat);
    struct wire w;
    for (uint32_t i = 0; i < t->seat_count; i++)
        lane_account(seat_work(t->seat[i]));
    client_head(r, &w);
    stats_to_wire(&t->stats, t->host.pass, &w.u.WORKER_BEAT);
    held_up_put(t, &w.u.WORKER_BEAT);
    w.u.WORKER_BEAT.clock_ahead_s = t->clock_ahead_s;
    trainer_step_figures(t, &w.u.WORKER_BEAT);
    return wire_encode(&w);
}

static enum request_verdict beat_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, beat);
    (void)m;
    if (w->status == SHOAL_E_UNAVAILABLE && (t->state == WORKING || t->state == PREPARING))
        trainer_forgotten(t);
    else if (w->status == 0)
        traces_set(&t->traces, w->u.WORKER_BEAT_reply.trace_every);
    if (w->status == 0 && w->u.WORKER_BEAT_reply.list)
        trainer_objects_list_again(t);
    return REQUEST_DONE;
}

static struct msg *trace_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, trace);
    return traces_build(&t->traces, r->id, t->host.pass);
}

/* A coordinator that refuses them does so again: they are dropped. */
static enum request_verdict trace_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, trace);
    (void)w;
    (void)m;
    traces_sent(&t->traces);
    return REQUEST_DONE;
}

void trainer_traces_send(struct trainer *t)
{
    if (!request_active(&t->trace) && traces_wait(&t->traces))
        client_start(t->client, &t->trace);
}

/* Mutes pushes after a silence longer than the lease, until the coordinator is heard again. */
void trainer_lease_check(struct trainer *t)
{
    client_mute(t->client, coordinator_silent(t));
}

/* The longest time that a thread has been computing a step of a lane; 0: none is. */
uint64_t trainer_computing_ns(const struct trainer *t)
{
    uint64_t longest = 0;
    for (uint32_t i = 0; i < t->seat_count; i++) {
        uint64_t ns = lane_computing_ns(seat_work(t->seat[i]));
        longest = MAX(ns, longest);
    }
    return longest;
}

/* A step on a device takes milliseconds, or some seconds while kernels are loaded. A step that
 * never returns would hold its lane for ever. */
static void device_check(struct trainer *t)
{
    char text[128];
    if (t->state != WORKING || !trainer_has_device(t) ||
        trainer_computing_ns(t) <= t->options.step_ms * MS)
        return;
    snprintf(text, sizeof text, "a step has not come back from the device for %" PRIu64 " s",
             (trainer_computing_ns(t) / (1000 * MS)));
    trainer_break(t, SHOAL_E_UNAVAILABLE, text);
}

static void beat_fire(struct env_timer *timer)
{
    struct trainer *t = container_of(timer, struct trainer, beat_timer);
    if (!request_active(&t->beat))
        client_start(t->client, &t->beat);
    trainer_traces_send(t);
    client_ping(t->client);
    trainer_lease_check(t);
    device_check(t);
    if (t->state >= CLEARING)
        return;
    trainer_beat_later(t);
}

void trainer_beat_init(struct trainer *t)
{
    t->beat = (struct request){.type = WIRE_TYPE_WORKER_BEAT,
                               .target = CLIENT_COORDINATOR,
                               .build = beat_build,
                               .reply = beat_reply};
    t->trace = (struct request){.type = WIRE_TYPE_TRACES,
                                .target = CLIENT_COORDINATOR,
                                .build = trace_build,
                                .reply = trace_reply};
    t->beat_timer.fire = beat_fire;
}
