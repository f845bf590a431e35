/* phase.c: the diagram of flow.h as a table; the phase itself. */
#include "server/coord/phase.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/saved.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* One phase after the other, and what each may become. */
static const char *const names[] = {
    [PHASE_NONE] = "none",       [PHASE_WAITING] = "waiting", [PHASE_INDEX] = "index",
    [PHASE_TABLES] = "tables",   [PHASE_SETUP] = "setup",     [PHASE_LANES] = "lanes",
    [PHASE_TRAIN] = "train",     [PHASE_EVAL] = "eval",       [PHASE_CUT] = "cut",
    [PHASE_RESTORE] = "restore", [PHASE_TEST] = "test",       [PHASE_DIGEST] = "digest",
    [PHASE_FINISH] = "finish",   [PHASE_DONE] = "done",       [PHASE_FAILED] = "failed",
    [PHASE_GROW] = "objects",
};

static const uint32_t moves[] = {
    [PHASE_NONE] = SM_TO(PHASE_WAITING),
    [PHASE_WAITING] = SM_TO(PHASE_INDEX) | SM_TO(PHASE_FAILED),
    [PHASE_INDEX] = SM_TO(PHASE_TABLES) | SM_TO(PHASE_FAILED),
    [PHASE_TABLES] = SM_TO(PHASE_SETUP) | SM_TO(PHASE_FAILED),
    [PHASE_SETUP] = SM_TO(PHASE_LANES) | SM_TO(PHASE_EVAL) | SM_TO(PHASE_RESTORE) |
                    SM_TO(PHASE_TEST) | SM_TO(PHASE_DIGEST) | SM_TO(PHASE_GROW) |
                    SM_TO(PHASE_FAILED),
    [PHASE_LANES] = SM_TO(PHASE_TRAIN) | SM_TO(PHASE_FAILED),
    [PHASE_TRAIN] = SM_TO(PHASE_TRAIN) | SM_TO(PHASE_EVAL) | SM_TO(PHASE_TEST) |
                    SM_TO(PHASE_DIGEST) | SM_TO(PHASE_GROW) | SM_TO(PHASE_FAILED),
    [PHASE_EVAL] = SM_TO(PHASE_TRAIN) | SM_TO(PHASE_CUT) | SM_TO(PHASE_RESTORE) |
                   SM_TO(PHASE_TEST) | SM_TO(PHASE_DIGEST) | SM_TO(PHASE_GROW) |
                   SM_TO(PHASE_FAILED),
    [PHASE_CUT] =
        SM_TO(PHASE_TRAIN) | SM_TO(PHASE_TEST) | SM_TO(PHASE_DIGEST) | SM_TO(PHASE_FAILED),
    [PHASE_RESTORE] = SM_TO(PHASE_TEST) | SM_TO(PHASE_DIGEST) | SM_TO(PHASE_FAILED),
    [PHASE_TEST] = SM_TO(PHASE_DIGEST) | SM_TO(PHASE_FAILED),
    [PHASE_DIGEST] = SM_TO(PHASE_FINISH) | SM_TO(PHASE_FAILED),
    [PHASE_FINISH] = SM_TO(PHASE_DONE) | SM_TO(PHASE_FAILED),
    [PHASE_DONE] = 0,
    [PHASE_FAILED] = 0,
    [PHASE_GROW] =
        SM_TO(PHASE_TRAIN) | SM_TO(PHASE_TEST) | SM_TO(PHASE_DIGEST) | SM_TO(PHASE_FAILED),
};

/* Of a phase that was stored: where the job begins again. */
static const uint32_t restarts[] = {
    [PHASE_NONE] = 0,
    [PHASE_WAITING] = SM_TO(PHASE_WAITING),
    [PHASE_INDEX] = SM_TO(PHASE_WAITING),
    [PHASE_TABLES] = SM_TO(PHASE_WAITING),
    [PHASE_SETUP] = SM_TO(PHASE_SETUP),
    [PHASE_LANES] = SM_TO(PHASE_SETUP),
    [PHASE_TRAIN] = SM_TO(PHASE_SETUP),
    [PHASE_EVAL] = SM_TO(PHASE_SETUP),
    [PHASE_CUT] = SM_TO(PHASE_SETUP),
    [PHASE_RESTORE] = SM_TO(PHASE_SETUP),
    [PHASE_TEST] = SM_TO(PHASE_SETUP),
    [PHASE_DIGEST] = SM_TO(PHASE_SETUP),
    [PHASE_FINISH] = SM_TO(PHASE_SETUP),
    [PHASE_DONE] = 0,
    [PHASE_FAILED] = 0,
    [PHASE_GROW] = SM_TO(PHASE_SETUP),
};

const struct sm coord_phase_moves = SM("the job's phase", names, moves);
const struct sm coord_phase_restarts = SM("the job's phase after a restart", names, restarts);

/* ---- reading it ------------------------------------------------------------------------------ */

bool coord_phase_running(const struct coord *c)
{
    return c->job.at.phase != PHASE_NONE && c->job.at.phase != PHASE_DONE &&
           c->job.at.phase != PHASE_FAILED;
}

bool coord_phase_over(const struct coord *c)
{
    uint32_t phase = c->job.at.phase;
    return phase == PHASE_NONE || (phase >= PHASE_FINISH && phase <= PHASE_FAILED);
}

/* Of a job that an order has ended: nothing failed. */
static bool stopped(const struct coord *c)
{
    return c->job.at.phase == PHASE_FAILED && c->job.at.status == SHOAL_E_STOPPED;
}

const char *coord_phase_name(const struct coord *c)
{
    return stopped(c) ? "stopped" : names[c->job.at.phase];
}

uint32_t coord_phase_state(const struct coord *c)
{
    switch (c->job.at.phase) {
    case PHASE_NONE:
        return WIRE_JOB_NONE;
    case PHASE_WAITING:
        return WIRE_JOB_WAITING;
    case PHASE_INDEX:
    case PHASE_TABLES:
    case PHASE_SETUP:
        return WIRE_JOB_INDEX;
    case PHASE_LANES:
    case PHASE_TRAIN:
    case PHASE_GROW:
        return WIRE_JOB_TRAIN;
    case PHASE_DONE:
        return WIRE_JOB_DONE;
    case PHASE_FAILED:
        return WIRE_JOB_FAILED;
    default:
        return WIRE_JOB_EVAL;
    }
}

/* What must be so when a phase begins, whoever enters it. */
static bool phase_ready(const struct coord_job *j, enum coord_phase phase)
{
    switch (phase) {
    case PHASE_LANES:
    case PHASE_TRAIN: /* nobody holds a lane; the epoch's tasks are those of this epoch */
        for (uint32_t l = 0; l < j->tasks.lanes; l++)
            if (j->tasks.lane[l].state != LANE_FREE)
                return false;
        return j->tasks.epoch == j->at.epoch;
    case PHASE_EVAL:
    case PHASE_TEST:
        return j->eval.tasks > 0 && j->eval.split == (phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST);
    case PHASE_GROW: /* none of the round before is looked at any more */
        return j->objects[WIRE_TRAIN].count == 0 && j->tasks.holder == NULL;
    case PHASE_CUT: /* what is kept is what was just judged the best */
        return j->at.kept == j->valid.count;
    case PHASE_FAILED:
        return j->at.status != 0;
    default:
        return phase != PHASE_DONE || j->report != NULL;
    }
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void elapsed_note(struct coord *c)
{
    uint64_t now = env_now_ns(c->env);
    if (!coord_phase_running(c) || c->job.started_ns == 0)
        return;
    SHOAL_ASSERT(c->job.started_ns <= now);
    c->job.at.elapsed_ns += now - c->job.started_ns;
    c->job.started_ns = now;
}

bool coord_phase_put(struct coord *c)
{
    elapsed_note(c);
    return coord_put(c, "progress", &c->job.at, sizeof c->job.at);
}

bool coord_phase_enter(struct coord *c, enum coord_phase phase)
{
    sm_move(&coord_phase_moves, &c->job.at.phase, phase);
    SHOAL_ASSERT(phase_ready(&c->job, phase));
    c->job.phase_ns = env_now_ns(c->env);
    if (phase == PHASE_DONE)
        log_event(JOB_DONE, c->job.spec.name, "job %s, epoch %u: %s", c->job.spec.name,
                  c->job.at.epoch, names[phase]);
    else
        log_info("job %s, epoch %u: %s", c->job.spec.name, c->job.at.epoch, coord_phase_name(c));
    return coord_phase_put(c);
}

void coord_phase_restart(struct coord *c, enum coord_phase phase)
{
    sm_move(&coord_phase_restarts, &c->job.at.phase, phase);
}

const char *coord_phase_text(enum coord_phase phase)
{
    SHOAL_ASSERT((uint32_t)phase < coord_phase_moves.count);
    return names[phase];
}

/* How long the epoch at hand has been trained, by this coordinator and by those that died in it. */
uint64_t coord_phase_trained_ns(const struct coord *c)
{
    SHOAL_ASSERT(c->job.epoch_ns <= env_now_ns(c->env));
    bool now = c->job.at.phase == PHASE_TRAIN;
    return c->job.epoch_spent_ns + (now ? env_now_ns(c->env) - c->job.epoch_ns : 0);
}

/* ---- end ---- */

static void run_dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("run %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_end_tidy(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    bool loading = coord_from_loading(&c->job.at);
    w.u.RUN_DROP.run = c->job.at.run;
    if (loading) {
        w.type = WIRE_TYPE_LOAD_DROP;
        w.u.LOAD_DROP.run = c->job.at.run;
    }
    (void)coord_call_start(&c->calls, &(struct coord_call){.request = w,
                                                           .target = COORD_NOBODY,
                                                           .early = loading,
                                                           .owner = c->job.at.run,
                                                           .on_done = run_dropped});
    if (c->job.at.best_cut != 0)
        coord_cut_drop(c, c->job.at.best_cut);
}

/* Whoever waits for a lane asks again, and hears that there is no more. */
static void dismiss(struct coord *c)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true};
    w.u.LANE_NEXT_reply = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(c), .run = c->job.at.run};
    SHOAL_ASSERT(!coord_phase_running(c)); /* or they would ask for ever */
    for (uint32_t l = 0; l < c->job.tasks.lanes; l++) {
        struct coord_lane *lane = &c->job.tasks.lane[l];
        w.id = lane->ask_id;
        if (lane->ask_peer != 0)
            coord_send(c, lane->ask_peer, wire_encode(&w));
        lane->ask_peer = 0;
    }
}

void coord_end_work(struct coord *c, const char *why)
{
    uint64_t unfinished = c->cut.state == CUT_HOLDING || c->cut.state == CUT_GOING ? c->cut.cut : 0;
    coord_cut_cancel(c); /* first: an order that waits would begin, and could end the job again */
    coord_checkpoint_give_up(c, SHOAL_E_STOPPED, why);
    coord_call_cancel_all(&c->calls);
    SHOAL_ASSERT(c->cut.state == CUT_IDLE && !c->cut.waits);
    if (unfinished != 0)
        coord_cut_drop(c, unfinished);
}

bool coord_end_fail(struct coord *c, int status, const char *format, ...)
{
    va_list arguments;
    /* without a store it is as it is stored: the coordinator stops, and goes on with it */
    if (!coord_phase_running(c) || c->fatal != 0)
        return false;
    SHOAL_ASSERT(status != 0);
    c->job.at.status = status;
    va_start(arguments, format);
    (void)vsnprintf(c->job.at.text, sizeof c->job.at.text, format, arguments);
    va_end(arguments);
    coord_end_work(c, "the job has ended");
    coord_from_let_go(c, &c->job);
    free(c->job.report); /* of a job that was about to be done */
    c->job.report = NULL;
    bool run = c->job.at.phase >= PHASE_SETUP;
    elapsed_note(c); /* for the report */
    if (status == SHOAL_E_STOPPED)
        log_event(JOB_STOPPED, c->job.spec.name, "job %s ended in %s: %s", c->job.spec.name,
                  coord_phase_name(c), c->job.at.text);
    else
        log_event(JOB_FAILED, c->job.spec.name, "job %s failed in %s: %s", c->job.spec.name,
                  coord_phase_name(c), c->job.at.text);
    /* once it is stored: a run that is dropped cannot be gone on with */
    if (!coord_phase_enter(c, PHASE_FAILED))
        return false;
    if (run)
        coord_end_tidy(c);
    coord_call_forget(&c->calls);
    dismiss(c);
    return false;
}
