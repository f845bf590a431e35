/* trainer.c: the life of a worker. trainer_tick has the order of its steps; read it first. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/data/taken.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define MS UINT64_C(1000000)
enum { LANES_DEFAULT = 2, STEP_MS = 60000 };

/* ---- working: seats and map ------------------------------------------------------------------ */

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
    trainer_tables_declare(t);
    client_map_refresh(t->client);
    trainer_step_begin(t);
}

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

/* ---- the tick -------------------------------------------------------------------------------- */

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
            trainer_objects_list(t);
        else if (t->known == JOB_SPLITS && !t->preparing)
            trainer_prepared(t);
        if (t->state == WORKING)
            seats_tick(t);
        break;
    case WORKING:
        if (t->listing)
            trainer_objects_list(t);
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

/* ---- its life -------------------------------------------------------------------------------- */

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
    t->tick_timer.fire = tick_fire;
    trainer_join_init(t);
    trainer_job_init(t);
    trainer_objects_init(t);
    trainer_tables_init(t);
    trainer_beat_init(t);
    trainer_leave_init(t);
    const struct door_options door = {.env = env,
                                      .where = options->where,
                                      .context = options->context,
                                      .opened = trainer_door_opened,
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

bool trainer_works(const struct trainer *t)
{
    return t->state == WORKING;
}

struct trainer_counts trainer_counts(const struct trainer *t)
{
    return (struct trainer_counts){.batches = t->stats.batches,
                                   .examples = t->stats.examples,
                                   .keys_pulled = t->stats.keys_pulled,
                                   .keys_pushed = t->stats.keys_pushed};
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
        snprintf(text, bytes, "%s", trainer_moves.name[t->state]);
}
