/* trainer_step.c: a trainer's part in a network that the workers keep in step (step.h). */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "worker/train/trainer_inner.h"

#include <inttypes.h>
#include <stdio.h>

/* Doubles each time, until a step is made. */
enum { UNABLE_PAUSE_MS = 1000, UNABLE_PAUSE_MS_MAX = 30000 };

/* ---- callbacks of the step ------------------------------------------------------------------- */

static void step_moved(void *context)
{
    struct trainer *t = context;
    for (uint32_t i = 0; i < t->seat_count; i++)
        lane_look(seat_work(t->seat[i]));
}

static void step_stands(void *context, const struct wire_ring_member *member, uint32_t count,
                        uint32_t first, uint32_t end)
{
    struct trainer *t = context;
    if (door_admit(&t->door, member, count) != 0)
        log_warn("no memory for the keys of a ring: its workers cannot reach this one");
    for (uint32_t i = 0; i < t->seat_count; i++) {
        uint32_t lane = seat_lane(t->seat[i]);
        if (lane == SEAT_NO_LANE || (lane >= first && lane < end))
            continue;
        log_info("lane %u goes to another worker of the ring", lane);
        seat_drop(t->seat[i]);
    }
    trainer_wake(t);
}

/* CORRUPT: the network of this worker alone differs, and the job goes on without it. */
static void step_failed(void *context, int status, const char *text)
{
    struct trainer *t = context;
    t->broken = t->broken || status == SHOAL_E_CORRUPT;
    trainer_end(t, status, text);
}

static void step_lost(void *context, const char *text)
{
    struct trainer *t = context;
    if (text[0] != '\0')
        log_warn("%s", text);
    trainer_forgotten(t);
}

static void step_unable(void *context, int status, const char *text)
{
    struct trainer *t = context;
    const char *advice = "see the log of the worker that it names, and the network to it";
    uint64_t steps = step_figures(t->step).steps;
    char why[ERR_TEXT_MAX];
    if (t->unable_ms == 0 || steps != t->unable_steps)
        t->unable_ms = UNABLE_PAUSE_MS;
    else
        t->unable_ms = MIN(2 * t->unable_ms, UNABLE_PAUSE_MS_MAX);
    t->unable_steps = steps;
    t->pause_ms = t->unable_ms;
    if (status == SHOAL_E_NOMEM)
        advice = "free memory on its machine, or stop this worker";
    (void)snprintf(why, sizeof why, "no place in the ring that keeps the network: %.380s; %s", text,
                   advice);
    log_warn("%s; this worker gives up its lanes and joins again in %u s", why, t->pause_ms / 1000);
    t->broken = true; /* the job goes on without it */
    trainer_clear(t, true, status, why);
}

static uint32_t step_lanes_held(void *context)
{
    const struct trainer *t = context;
    uint32_t held = 0;
    for (uint32_t i = 0; i < t->seat_count; i++) {
        uint32_t lane = seat_lane(t->seat[i]);
        held += lane != SEAT_NO_LANE && step_lane_known(t->step, lane, seat_generation(t->seat[i]));
    }
    return held;
}

/* ---- its life -------------------------------------------------------------------------------- */

int trainer_step_make(struct trainer *t, struct trainer_made *m)
{
    const struct lane_base *base = &t->host.base;
    const struct step_options o = {.env = t->env,
                                   .client = t->client,
                                   .job = &t->job,
                                   .model = m->model,
                                   .backend = t->options.backend,
                                   .schema = t->schema,
                                   .table_count = base->table_count,
                                   .lanes = t->lanes,
                                   .moved = step_moved,
                                   .stands = step_stands,
                                   .failed = step_failed,
                                   .lost = step_lost,
                                   .unable = step_unable,
                                   .lanes_held = step_lanes_held,
                                   .context = t};
    if (!t->job.train.allreduce || t->job.train.skip) /* skip: it trains nothing */
        return 0;
    return step_new(&o, &m->step, &m->error);
}

void trainer_step_begin(struct trainer *t)
{
    const struct step_begin as = {
        .worker = t->host.worker, .pass = t->host.pass, .run = t->run, .lease_ms = t->lease_ms};
    if (t->step != NULL)
        step_begin(t->step, &as);
}

void trainer_step_end(struct trainer *t)
{
    if (t->step != NULL)
        step_end(t->step);
}

void trainer_step_look(struct trainer *t)
{
    if (t->step != NULL)
        step_look(t->step);
}

void trainer_step_drop(struct trainer *t)
{
    step_free(t->step);
    t->step = t->host.base.step = NULL;
}

void trainer_step_figures(const struct trainer *t, struct wire_WORKER_BEAT *out)
{
    if (t->step == NULL)
        return;
    const struct step_figures f = step_figures(t->step);
    out->ring_bytes = f.bytes;
    out->ring_steps = f.steps;
    out->keys_pushed += f.blocks; /* so a worker that assigns makes progress */
}
