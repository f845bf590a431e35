/* trainer_join.c: JOINING: asks the coordinator for a place until it has one, and takes the job
 * that comes with the answer. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/trainer_inner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
enum {
    JOIN_PAUSE_MS = 200,
    /* with options.stay, where days may pass; both double up to 32 times (client_requests.c) */
    WAIT_PAUSE_MS = 50,
    REFUSED_PAUSE_MS = 300,
    LEASE_MS_MIN = 30,
    CLOCK_TRIP_MS = 10000 /* the answer to a join that took longer is no evidence about clocks */
};

static struct msg *join_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, join);
    const struct backend *backend = t->options.backend;
    const char *kernel = "none", *name = "none", *device = "";
    if (backend != NULL) {
        kernel = backend_kernel(backend);
        name = backend_name(backend);
        device = backend_about(backend);
    }
    if (t->options.outside != NULL) /* by it the coordinator knows which jobs are for it */
        name = job_model_name(MODEL_EXTERNAL);
    struct wire w;
    client_head(r, &w);
    t->asked_ns = env_now_ns(t->env);
    w.u.WORKER_JOIN.pid = t->options.pid;
    w.u.WORKER_JOIN.lanes_max = t->options.lanes_max;
    w.u.WORKER_JOIN.stays = t->options.stay;
    snprintf(w.u.WORKER_JOIN.name, sizeof w.u.WORKER_JOIN.name, "%s", t->name);
    snprintf(w.u.WORKER_JOIN.kernel, sizeof w.u.WORKER_JOIN.kernel, "%s", kernel);
    snprintf(w.u.WORKER_JOIN.backend, sizeof w.u.WORKER_JOIN.backend, "%s", name);
    snprintf(w.u.WORKER_JOIN.device, sizeof w.u.WORKER_JOIN.device, "%s", device);
    snprintf(w.u.WORKER_JOIN.build, sizeof w.u.WORKER_JOIN.build, "%s", crash_build());
    snprintf(w.u.WORKER_JOIN.why, sizeof w.u.WORKER_JOIN.why, "%s", t->why);
    snprintf(w.u.WORKER_JOIN.endpoint, sizeof w.u.WORKER_JOIN.endpoint, "%s",
             door_endpoint(&t->door));
    return wire_encode(&w);
}

/* libzmq does not tell a worker that it is refused. */
static const char *key_asked(const struct trainer *t)
{
    if (t->options.keyed)
        return ", and does its list have our key";

    return "";
}

static void wait_fire(struct env_timer *timer)
{
    struct trainer *t = container_of(timer, struct trainer, wait_timer);
    struct err e = {0};
    if (t->paused) {
        t->paused = false;
        client_start(t->client, &t->join);
        return;
    }
    if (client_heard_ns(t->client) != 0)
        return;
    err_set(&e, SHOAL_E_UNAVAILABLE,
            "no answer from the coordinator at %s within %u s: is shoal-coordinator running, is "
            "this its endpoint%s?",
            client_coordinator(t->client), t->options.wait_ms / 1000, key_asked(t));
    trainer_clear(t, false, e.code, e.text);
}

/* With options.stay the worker retries, because it cannot see when the list of keys or the job is
 * mended. */
static enum request_verdict join_refused(struct trainer *t, const struct err *e)
{
    if (!t->refused || strcmp(t->end.text, e->text) != 0)
        log_event(WORKER_REFUSED, client_coordinator(t->client),
                  "%s; this worker asks again and again", e->text);
    t->refused = true;
    t->end = *e;
    t->join.pause_ms = REFUSED_PAUSE_MS;
    return REQUEST_LATER;
}

/* Rows are dated by the coordinator's clock (LANE_NEXT's time_limit), so a wrong clock here changes
 * none; it is logged, because the dates of log lines are wrong. A slow answer is no evidence about
 * clocks. */
static void clock_compare(struct trainer *t, uint64_t wall_s)
{
    uint64_t own_s = env_wall_s(t->env), took_ns = env_now_ns(t->env) - t->asked_ns;
    t->clock_ahead_s = 0;
    if (own_s == 0 || wall_s == 0 || own_s > UINT32_MAX || wall_s > UINT32_MAX ||
        took_ns > CLOCK_TRIP_MS * MS)
        return;
    int64_t ahead_s = (int64_t)own_s - (int64_t)wall_s;
    t->clock_ahead_s = (int32_t)MIN(MAX(ahead_s, -INT32_MAX), INT32_MAX);
    if (wire_clock_apart(t->clock_ahead_s))
        log_warn(
            "the clock of this machine is %d s %s that of the coordinator: set it right; event "
            "times are judged by the coordinator's alone",
            abs(t->clock_ahead_s), t->clock_ahead_s > 0 ? "ahead of" : "behind");
}

void trainer_door_opened(void *owner, const struct err *e)
{
    struct trainer *t = owner;
    if (t->state != JOINING) {
        trainer_wake(t);
    } else if (e->code == 0) {
        client_start(t->client, &t->join);
    } else {
        t->broken = true;
        trainer_end(t, e->code, e->text);
    }
}

/* True when the job needs a door that is shut. */
static bool door_wanted(const struct trainer *t)
{
    return t->job.train.allreduce && t->options.where != NULL && door_endpoint(&t->door)[0] == 0;
}

static enum request_verdict join_reply(struct request *r, const struct wire *w, const struct msg *m)
{
    struct trainer *t = container_of(r, struct trainer, join);
    const struct wire_WORKER_JOIN_reply *reply = &w->u.WORKER_JOIN_reply;
    struct err e = {0};
    if (client_passing(w->status)) { /* AGAIN: there is no job yet */
        t->join.pause_ms = JOIN_PAUSE_MS;
        if (t->options.stay)
            t->join.pause_ms = WAIT_PAUSE_MS;

        t->refused = false;
        return REQUEST_LATER;
    }
    if (w->status != 0) {
        err_set(&e, w->status, "the coordinator at %s refused this worker: %s",
                client_coordinator(t->client), wire_error(w));
        if (t->options.stay)
            return join_refused(t, &e);
        trainer_end(t, e.code, e.text);
        return REQUEST_DONE;
    }
    t->refused = false;
    t->end = (struct err){.code = 0};
    t->host.worker = t->host.base.worker = reply->worker;
    t->host.pass = reply->pass;
    t->run = reply->run;
    t->lanes = reply->lanes;
    t->lease_ms = reply->lease_ms;
    if (reply->lease_ms < LEASE_MS_MIN)
        t->lease_ms = LEASE_MS_MIN;

    env_timer_stop(t->env, &t->wait_timer);
    memset(&t->stats, 0, sizeof t->stats);
    traces_set(&t->traces, reply->trace_every);
    clock_compare(t, reply->wall_s);
    int rc = trainer_job_take(t, reply->job, m->frame[1].data, m->frame[1].bytes, &e);
    if (rc != 0) {
        trainer_end(t, rc, e.text);
        return REQUEST_DONE;
    }
    if (door_wanted(t)) {
        door_open(&t->door); /* trainer_door_opened joins again */
        return REQUEST_DONE;
    }
    sm_move(&trainer_moves, &t->state, PREPARING);
    t->known = 0; /* a coordinator that came back asks again */
    t->profiled = false;
    trainer_job_prepare(t);
    trainer_beat_later(t);
    trainer_wake(t);
    return REQUEST_DONE;
}

void trainer_join(struct trainer *t, uint32_t pause_ms)
{
    SHOAL_ASSERT(t->state == JOINING && !t->preparing && !t->replacing);
    t->again = t->broken = false;
    t->paused = pause_ms > 0;
    if (t->paused)
        env_timer_start(t->env, &t->wait_timer, pause_ms * MS); /* wait_fire */
    else
        client_start(t->client, &t->join);
}

void trainer_join_init(struct trainer *t)
{
    t->join = (struct request){.type = WIRE_TYPE_WORKER_JOIN,
                               .target = CLIENT_COORDINATOR,
                               .pause_ms = JOIN_PAUSE_MS,
                               .build = join_build,
                               .reply = join_reply};
    t->wait_timer.fire = wait_fire;
}
