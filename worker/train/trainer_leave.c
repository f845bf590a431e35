/* trainer_leave.c: LEAVING and what follows: the farewell, then the next job, another backend, or
 * the end of the process. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
enum {
    FAILED_PAUSE_MS = 1000, /* doubles each time, up to */
    FAILED_PAUSE_MS_MAX = 30000,
    LEAVE_MS = 2000
};

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

/* ---- another backend ------------------------------------------------------------------------- */

static void replace_run(struct env_work *w) /* on a thread of the pool */
{
    struct trainer *t = container_of(w, struct trainer, replace);
    t->replace_status = t->options.replace(t->options.context, &t->replacement, &t->replace_error);
}

static void trainer_replaced(struct trainer *t)
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

static void replace_done(struct env_work *w)
{
    struct trainer *t = container_of(w, struct trainer, replace);
    t->replacing = false;
    trainer_replaced(t);
}

/* Replaces the backend whose device is lost, on a thread while t->replacing; everything made with
 * the old one is freed. */
static void trainer_replace(struct trainer *t)
{
    sm_move(&trainer_moves, &t->state, REPLACING);
    trainer_model_drop(t);
    SHOAL_ASSERT(!t->preparing && !t->replacing);
    t->replacing = true;
    env_work_start(t->env, &t->replace);
}

/* ---- the farewell ---------------------------------------------------------------------------- */

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

void trainer_farewell(struct trainer *t)
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

void trainer_leave(struct trainer *t)
{
    if ((t->state == CLEARING || t->state == REPLACING) && !t->again)
        trainer_stop(t);
    else
        trainer_clear(t, false, 0, "");
    if (t->state == CLEARING && trainer_has_device(t))
        env_timer_start(t->env, &t->leave_timer, t->lease_ms / 2 * MS);
}

void trainer_leave_init(struct trainer *t)
{
    t->leave = (struct request){.type = WIRE_TYPE_WORKER_LEAVE,
                                .target = CLIENT_COORDINATOR,
                                .build = leave_build,
                                .reply = leave_reply};
    t->leave_timer.fire = leave_fire;
    t->replace = (struct env_work){.run = replace_run, .done = replace_done};
}
