/* trainer_clear.c: the reasons for which a worker gives up all that it does, and how CLEARING
 * begins. Every other part of a trainer may call it. */
#include "proto/base/log.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)

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
    if (t->options.outside != NULL)
        t->options.outside->stop(t->options.outside->context);
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

void trainer_given_back(struct trainer *t, const char *text)
{
    log_warn("%s: this worker gives its lanes back and joins again", text);
    trainer_clear(t, true, 0, "");
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
