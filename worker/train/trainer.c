/* trainer.c: the life of a worker. trainer_tick has the order of its steps; read it first. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/crash.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/data/taken.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
enum {
    JOIN_PAUSE_MS = 200,
    /* with options.stay, where days may pass; both double up to 32 times (client_requests.c) */
    WAIT_PAUSE_MS = 50,
    REFUSED_PAUSE_MS = 300,
    FAILED_PAUSE_MS = 1000, /* doubles each time, up to */
    FAILED_PAUSE_MS_MAX = 30000,
    LEAVE_MS = 2000,
    LANES_DEFAULT = 2,
    LEASE_MS_MIN = 30,
    CLOCK_TRIP_MS = 10000, /* the answer to a join that took longer is no evidence about clocks */
    STEP_MS = 60000
};

static const char *const names[] = {
    [JOINING] = "joining",   [PREPARING] = "preparing", [WORKING] = "working",
    [CLEARING] = "clearing", [LEAVING] = "leaving",     [REPLACING] = "replacing the device",
    [DONE] = "done",
};
static const uint32_t moves[] = {
    [JOINING] = SM_TO(PREPARING) | SM_TO(CLEARING),
    [PREPARING] = SM_TO(WORKING) | SM_TO(CLEARING),
    [WORKING] = SM_TO(CLEARING),
    [CLEARING] = SM_TO(LEAVING) | SM_TO(DONE),
    [LEAVING] = SM_TO(JOINING) | SM_TO(REPLACING) | SM_TO(DONE),
    [REPLACING] = SM_TO(JOINING) | SM_TO(DONE),
    [DONE] = 0,
};
const struct sm trainer_moves = SM("a worker", names, moves);

void trainer_wake(struct trainer *t)
{
    if (t->state != DONE)
        env_timer_start(t->env, &t->tick_timer, 0);
}

bool trainer_has_device(const struct trainer *t)
{
    return t->options.backend != NULL && backend_is_device(t->options.backend);
}

void trainer_clear(struct trainer *t, bool again, int status, const char *text)
{
    if (t->state == DONE || (t->state >= CLEARING && !t->again))
        return;
    if (t->state < CLEARING)
        sm_move(&trainer_moves, &t->state, CLEARING);
    t->again = again;
    t->end.code = status;
    snprintf(t->end.text, sizeof t->end.text, "%s", text);
    client_cancel(t->client, &t->join);
    client_cancel(t->client, &t->objects);
    client_cancel(t->client, &t->taken);
    client_cancel(t->client, &t->tell);
    client_cancel(t->client, &t->declare);
    client_cancel(t->client, &t->profile);
    /* its answer would be taken for one to the new number */
    client_cancel(t->client, &t->beat);
    client_cancel(t->client, &t->trace);
    env_timer_stop(t->env, &t->beat_timer);
    env_timer_stop(t->env, &t->wait_timer);
    trainer_step_end(t);
    for (uint32_t i = 0; i < t->seat_count; i++)
        seat_drop(t->seat[i]);
    memset(t->host.proved, 0, sizeof t->host.proved); /* the next job may have another input */
    /* a step in flight may never come back */
    if (t->state == CLEARING && trainer_has_device(t))
        env_timer_start(t->env, &t->leave_timer, t->options.step_ms * MS);
    trainer_wake(t);
}

void trainer_end(struct trainer *t, int status, const char *text)
{
    if (t->over) /* the first reason stands */
        return;
    t->over = true;
    trainer_clear(t, t->options.stay, status, text);
}

void trainer_forgotten(struct trainer *t)
{
    log_warn("worker %" PRIu64 " gives up its lanes and joins again", t->host.worker);
    trainer_clear(t, true, 0, "");
}

/* ---- joining --------------------------------------------------------------------------------- */

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
    struct wire w;
    client_head(r, &w);
    t->asked_ns = env_now_ns(t->env);
    w.u.WORKER_JOIN.pid = t->options.pid;
    w.u.WORKER_JOIN.lanes_max = t->options.lanes_max;
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

/* door_options.opened. The worker may be leaving by now. */
static void door_opened(void *owner, const struct err *e)
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
        door_open(&t->door); /* door_opened joins again */
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

static void trainer_join(struct trainer *t, uint32_t pause_ms)
{
    SHOAL_ASSERT(t->state == JOINING && !t->preparing && !t->replacing);
    t->again = t->broken = false;
    t->paused = pause_ms > 0;
    if (t->paused)
        env_timer_start(t->env, &t->wait_timer, pause_ms * MS); /* wait_fire */
    else
        client_start(t->client, &t->join);
}

/* True when another backend may replace a lost device. Under bsp it would not give the same
 * bits. */
static bool device_replaceable(const struct trainer *t, int status)
{
    return status == SHOAL_E_UNAVAILABLE && t->options.replace != NULL &&
           t->job.train.backend == BACKEND_AUTO && t->job.train.mode != WIRE_BSP;
}

void trainer_apart(struct trainer *t, const char *text)
{
    if (t->state >= CLEARING)
        return;
    if (!t->options.stay)
        log_error("%s: this worker leaves, its lanes go to others", text);
    t->broken = true;
    trainer_end(t, SHOAL_E_CONFIG, text);
}

void trainer_break(struct trainer *t, int status, const char *text)
{
    const char *about = "";
    if (t->options.backend != NULL)
        about = backend_about(t->options.backend);

    if (t->state == DONE || (t->state >= CLEARING && !t->again))
        return;
    if (device_replaceable(t, status)) {
        log_event(DEVICE_LOST, about,
                  "%s: the device (%s) is lost: this worker gives its lanes back and goes on by "
                  "another backend, as "
                  "train.backend is auto",
                  text, about);
        err_set(&t->lost, status, "%s", text);
        trainer_clear(t, true, 0, "");
    } else {
        log_event(DEVICE_LOST, about,
                  "%s: this worker (%s) leaves, its lanes go to others; it ends with status %d and "
                  "may be started again",
                  text, about, err_exit_status(status));
        t->broken = true;
        trainer_clear(t, false, status, text);
    }
    /* a lost device may keep a thread for ever */
    env_timer_start(t->env, &t->leave_timer, t->lease_ms / 2 * MS);
}

/* Notes how many batches of a lane each stage may work on at once, for the least time of
 * stats.h. */
static void stages_note(struct trainer *t)
{
    uint32_t prefetch = t->job.train.prefetch;
    t->stats.wide[STAGE_PARSE] = t->host.base.readers;
    t->stats.wide[STAGE_PULL] = 1 + prefetch;
    t->stats.wide[STAGE_PUSH] = 1; /* a batch waits for the push before it, or for its rows */
}

/* Model and seats are made. */
static void trainer_prepared(struct trainer *t)
{
    const struct backend *backend = t->options.backend;
    const char *name = "none", *about = "", *colon = "";
    SHOAL_ASSERT(t->seat_count > 0 && t->have_model);
    if (backend != NULL) {
        name = backend_name(backend);
        about = backend_about(backend);
    }
    if (t->why[0] != '\0')
        colon = ": ";
    log_info("worker %" PRIu64
             " joined job %s: %u lanes here, %u batches of each read at once, backend "
             "%s (%s)%s%s",
             t->host.worker, t->job.name, t->seat_count, t->host.base.readers, name, about, colon,
             t->why);
    stages_note(t);
    sm_move(&trainer_moves, &t->state, WORKING);
    trainer_job_declare(t);
    client_map_refresh(t->client);
    trainer_step_begin(t);
}

/* ---- working: seats and map ------------------------------------------------------------------ */

/* A complete map differs from the last one. */
static void map_changed(void *context)
{
    struct trainer *t = context;
    for (uint32_t i = 0; i < t->seat_count; i++)
        lane_remap(seat_work(t->seat[i]));
    if (t->step != NULL)
        step_remap(t->step);
    trainer_wake(t);
}

/* Seats whose input or map arrived go on; one of the free seats asks. */
static void seats_tick(struct trainer *t)
{
    struct seat *free_one = NULL;
    bool asking = false;
    for (uint32_t i = 0; i < t->seat_count && t->state == WORKING; i++) {
        seat_look(t->seat[i]);
        asking = asking || seat_is_asking(t->seat[i]);
        if (free_one == NULL && seat_is_free(t->seat[i]))
            free_one = t->seat[i];
    }
    inputs_looked(&t->inputs);
    trainer_step_look(t);
    if (t->state == WORKING && !asking && free_one != NULL && seat_is_free(free_one))
        seat_ask(free_one);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static struct msg *leave_build(struct request *r)
{
    struct trainer *t = container_of(r, struct trainer, leave);
    struct wire w;
    client_head(r, &w);
    w.u.WORKER_LEAVE.pass = t->host.pass;
    w.u.WORKER_LEAVE.fatal = t->end.code != 0 && !t->broken;
    w.u.WORKER_LEAVE.fail_status = t->end.code;
    snprintf(w.u.WORKER_LEAVE.fail_text, sizeof w.u.WORKER_LEAVE.fail_text, "%s", t->end.text);
    return wire_encode(&w);
}

static void trainer_join(struct trainer *t, uint32_t pause_ms);

/* Stops at once, whatever is in flight. */
static void trainer_stop(struct trainer *t)
{
    if (t->state != DONE) /* false: a thread that made another backend came back late */
        sm_move(&trainer_moves, &t->state, DONE);
    client_cancel(t->client, &t->leave);
    client_cancel(t->client, &t->beat);
    client_cancel(t->client, &t->trace);
    env_timer_stop(t->env, &t->leave_timer);
    env_timer_stop(t->env, &t->tick_timer);
    env_stop(t->env);
}

/* Replaces the backend whose device is lost; everything made with it is freed. */
static void trainer_replace(struct trainer *t)
{
    sm_move(&trainer_moves, &t->state, REPLACING);
    trainer_model_drop(t);
    trainer_job_replace(t);
}

void trainer_replaced(struct trainer *t)
{
    SHOAL_ASSERT(!t->replacing && t->seat_count == 0);
    if (t->replace_status != 0 && t->again) {
        log_error("there is no other backend: %s", t->replace_error.text);
        t->end = t->lost;
        t->again = false;
    }
    if (!t->again) {
        trainer_stop(t);
        return;
    }
    snprintf(t->why, sizeof t->why, "auto: the device was lost: %s", t->lost.text);
    t->options.backend = t->replacement;
    t->options.replace = NULL;
    t->lost = (struct err){.code = 0};
    sm_move(&trainer_moves, &t->state, JOINING);
    trainer_join(t, 0);
}

/* Frees everything of a finished job, its rows and its memory on a device. A job that failed here
 * is retried at growing intervals: other workers may be at work on it, and what is missing here may
 * come. */
static void job_over(struct trainer *t)
{
    uint64_t what = t->job_hash ^ t->job_number,
             said = hash_bytes(t->end.text, strlen(t->end.text), what);
    bool failed = t->end.code != 0,
         again = failed && what == t->failed_hash && t->stats.examples == 0;
    uint32_t longer = FAILED_PAUSE_MS;
    if (t->failed_ms != 0)
        longer = 2 * t->failed_ms;

    if (failed && !(again && said == t->failed_said))
        log_error("%s; this worker looks again and again, or takes the next job", t->end.text);
    else if (!failed)
        log_info("the job is over: worker %" PRIu64 " waits for another", t->host.worker);
    t->failed_hash = failed ? what : 0;
    t->failed_said = said;
    if (!again)
        t->failed_ms = 0;
    else if (longer < FAILED_PAUSE_MS_MAX)
        t->failed_ms = longer;
    else
        t->failed_ms = FAILED_PAUSE_MS_MAX;

    trainer_job_forget(t);
    t->host.worker = t->host.base.worker = 0;
    t->refused = again; /* logged together with `end` */
    if (!again)
        t->end = (struct err){.code = 0};
    t->over = t->broken = false;
}

/* The farewell was answered, or there is no coordinator to answer it. */
static void trainer_left(struct trainer *t)
{
    client_cancel(t->client, &t->leave);
    client_cancel(t->client, &t->beat);
    client_cancel(t->client, &t->trace);
    env_timer_stop(t->env, &t->leave_timer);
    bool over = t->over;
    uint32_t pause_ms = t->pause_ms;
    t->pause_ms = 0;
    if (t->again && over) {
        job_over(t);
        pause_ms = t->failed_ms;
    }
    if (!t->again) {
        trainer_stop(t);
    } else if (t->lost.code != 0) {
        trainer_replace(t);
    } else {
        sm_move(&trainer_moves, &t->state, JOINING);
        trainer_join(t, pause_ms);
    }
}

static enum request_verdict leave_reply(struct request *r, const struct wire *w,
                                        const struct msg *m)
{
    (void)w;
    (void)m;
    trainer_left(container_of(r, struct trainer, leave));
    return REQUEST_DONE;
}

/* Sends the last beat, so that the report counts every example, then the farewell, for which the
 * coordinator has two seconds. A worker that joins again says farewell too: a coordinator that
 * still knows it frees its lanes at once rather than at the end of the lease. */
static void trainer_farewell(struct trainer *t)
{
    if (t->host.worker == 0 || client_heard_ns(t->client) == 0) {
        /* it never joined */
        trainer_stop(t);
        return;
    }
    SHOAL_ASSERT(!request_active(&t->leave) && !request_active(&t->join));
    sm_move(&trainer_moves, &t->state, LEAVING);
    client_cancel(t->client, &t->beat);
    client_start(t->client, &t->beat);
    trainer_traces_send(t);
    client_start(t->client, &t->leave);
    env_timer_start(t->env, &t->leave_timer, LEAVE_MS * MS);
}

/* CLEARING takes too long: the device failed and keeps a thread. The memory that the thread uses
 * cannot be freed, so the process ends. Nothing more is sent, since its lanes are dropped. */
static void leave_fire(struct env_timer *timer)
{
    struct trainer *t = container_of(timer, struct trainer, leave_timer);
    if (t->state != CLEARING) {
        trainer_left(t);
        return;
    }
    bool opening = (t->preparing || t->replacing) && (t->broken || t->again);
    if (trainer_computing_ns(t) == 0 && !opening) { /* a slow file will come back */
        env_timer_start(t->env, timer, t->lease_ms / 2 * MS);
        return;
    }
    log_error("the device keeps a thread at work: this worker ends without it");
    if (t->again) {
        t->again = false;
        t->broken = true;
        if (t->lost.code == 0)
            err_set(&t->lost, SHOAL_E_UNAVAILABLE,
                    "a step has not come back from the device for %" PRIu64 " s",
                    (trainer_computing_ns(t) / (1000 * MS)));
        t->end = t->lost;
    }
    trainer_farewell(t);
}

/* ---- the tick
 * --------------------------------------------------------------------------------- */

bool trainer_settled(const struct trainer *t)
{
    if (t->preparing || t->replacing || door_busy(&t->door) ||
        (t->have_job && inputs_busy(&t->inputs)))
        return false;
    for (uint32_t i = 0; i < t->seat_count; i++)
        if (!lane_idle(seat_work(t->seat[i])))
            return false;
    return t->step == NULL || step_idle(t->step);
}

void trainer_tick(struct trainer *t)
{
    switch (t->state) {
    case JOINING: /* join_reply goes on */
        break;
    case PREPARING:
        if (t->listing)
            trainer_job_list(t);
        else if (t->known == JOB_SPLITS && !t->preparing)
            trainer_prepared(t);
        if (t->state == WORKING)
            seats_tick(t);
        break;
    case WORKING:
        if (t->listing)
            trainer_job_list(t);
        seats_tick(t);
        break;
    case CLEARING:
        if (trainer_settled(t))
            trainer_farewell(t);
        break;
    case LEAVING:
    case REPLACING:
    case DONE:
        break;
    }
}

static void tick_fire(struct env_timer *timer)
{
    trainer_tick(container_of(timer, struct trainer, tick_timer));
}

/* door_options.request: what members of a ring send. */
static void trainer_request(void *owner, peer_t from, const struct wire *w, const struct msg *m)
{
    struct trainer *t = owner;
    if (t->step != NULL && step_message(t->step, from, w, m))
        return;
    struct msg *reply = wire_refusal(w, SHOAL_E_AGAIN, "this worker is in no ring yet");
    if (reply != NULL)
        (void)env_send(t->env, from, reply);
}

static void trainer_on_message(void *core, peer_t from, struct msg *m)
{
    struct trainer *t = core;
    struct err e = {0};
    struct wire w;
    if (wire_decode(m, &w, &e) != 0 || !w.reply)
        door_message(&t->door, from, &w, m, &e);
    else if (t->step == NULL || !step_message(t->step, from, &w, m))
        client_decoded(t->client, from, &w, m);
    msg_free(m);
}

static void trainer_on_peer_gone(void *core, peer_t peer)
{
    struct trainer *t = core;
    client_peer_gone(t->client, peer);
}

static void trainer_on_drained(void *core)
{
    trainer_lease_check(core);
}

const struct env_handler *trainer_handler(void)
{
    static const struct env_handler handler = {.on_message = trainer_on_message,
                                               .on_drained = trainer_on_drained,
                                               .on_peer_gone = trainer_on_peer_gone};
    return &handler;
}

static void requests_init(struct trainer *t)
{
    trainer_beat_init(t);
    t->join = (struct request){.type = WIRE_TYPE_WORKER_JOIN,
                               .target = CLIENT_COORDINATOR,
                               .pause_ms = JOIN_PAUSE_MS,
                               .build = join_build,
                               .reply = join_reply};
    t->leave = (struct request){.type = WIRE_TYPE_WORKER_LEAVE,
                                .target = CLIENT_COORDINATOR,
                                .build = leave_build,
                                .reply = leave_reply};
    t->wait_timer.fire = wait_fire;
    t->leave_timer.fire = leave_fire;
    t->tick_timer.fire = tick_fire;
}

int trainer_new(struct env *env, const struct trainer_options *options, struct trainer **out,
                struct err *e)
{
    struct trainer *t = calloc(1, sizeof *t);
    if (t == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the worker");
    t->env = env;
    t->options = *options;
    t->taken_before = taken_bytes();
    if (t->options.lanes_max == 0)
        t->options.lanes_max = LANES_DEFAULT;
    if (t->options.lanes_max > LIMIT_LANES)
        t->options.lanes_max = LIMIT_LANES;
    if (t->options.wait_ms == 0)
        t->options.wait_ms = 30000;
    if (t->options.step_ms == 0)
        t->options.step_ms = STEP_MS;
    snprintf(t->name, sizeof t->name, "%s", options->name);
    snprintf(t->why, sizeof t->why, "%s", options->why == NULL ? "" : options->why);
    requests_init(t);
    trainer_job_init(t);
    const struct door_options door = {.env = env,
                                      .where = options->where,
                                      .context = options->context,
                                      .opened = door_opened,
                                      .request = trainer_request,
                                      .owner = t};
    door_init(&t->door, &door);
    struct client_options client = {.coordinator = options->coordinator,
                                    .resolve = options->resolve,
                                    .on_map = map_changed,
                                    .context = t};
    int rc = client_new(env, &client, &t->client, e);
    if (rc != 0) {
        free(t);
        return rc;
    }
    trainer_host_init(t);
    if (!t->options.stay)
        env_timer_start(env, &t->wait_timer, t->options.wait_ms * MS);
    trainer_join(t, 0);
    *out = t;
    return 0;
}

void trainer_free(struct trainer *t)
{
    if (t == NULL)
        return;
    SHOAL_ASSERT(trainer_settled(t));
    trainer_step_end(t);
    struct env_timer *timers[] = {&t->beat_timer, &t->wait_timer, &t->leave_timer, &t->tick_timer};
    for (size_t i = 0; i < sizeof timers / sizeof timers[0]; i++)
        env_timer_stop(t->env, timers[i]);
    for (uint32_t i = 0; i < t->seat_count; i++)
        seat_drop(t->seat[i]);
    trainer_job_drop(t);
    client_free(t->client);
    traces_close(&t->traces);
    free(t);
}

void trainer_leave(struct trainer *t)
{
    if ((t->state == CLEARING || t->state == REPLACING) && !t->again)
        trainer_stop(t);
    else
        trainer_clear(t, false, 0, "");
    if (t->state == CLEARING && trainer_has_device(t))
        env_timer_start(t->env, &t->leave_timer, t->lease_ms / 2 * MS);
}

int trainer_status(const struct trainer *t, struct err *e)
{
    if (t->end.code != 0 && e != NULL)
        *e = t->end;
    return t->end.code;
}

bool trainer_taken(const struct trainer *t, bool otherwise)
{
    if (client_heard_ns(t->client) == 0)
        return otherwise;

    return !(t->state == JOINING && t->refused);
}

uint64_t trainer_absence_ns(const struct trainer *t)
{
    return client_absence_ns(t->client);
}

static void describe_waiting(const struct trainer *t, char *text, size_t bytes)
{
    if (t->refused || t->end.code != 0)
        snprintf(text, bytes, "%s", t->end.text);
    else if (client_heard_ns(t->client) == 0)
        snprintf(text, bytes, "waiting for the coordinator at %s%s", client_coordinator(t->client),
                 t->options.keyed ? " (does its list have our key?)" : "");
    else
        snprintf(text, bytes, "waiting for a job");
}

void trainer_describe(struct trainer *t, char *text, size_t bytes)
{
    uint64_t now = env_now_ns(t->env), examples = t->stats.examples,
             since = SAT_SUB(examples, t->told_examples);
    double seconds = 0;
    if (t->told_ns != 0)
        seconds = (double)(now - t->told_ns) * 1e-9;

    t->told_ns = now;
    t->told_examples = examples;
    if (t->state == JOINING)
        describe_waiting(t, text, bytes);
    else if (t->state == WORKING)
        snprintf(text, bytes, "job %s: %u lanes, %" PRIu64 " examples, %.0f/s", t->job.name,
                 t->host.lanes(t->host.context), examples,
                 seconds > 0 ? (double)since / seconds : 0);
    else
        snprintf(text, bytes, "%s", names[t->state]);
}
