/* phase.c: the diagram of flow.h as a table; the phase itself. */
#include "server/coord/phase.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/from.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The name of each phase; the table below says which phases may follow. */
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

/* The phase in which a restart goes on from a stored phase. */
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

bool coord_phase_running(const struct coord_job *j)
{
    return j->at.phase != PHASE_NONE && j->at.phase != PHASE_DONE && j->at.phase != PHASE_FAILED;
}

bool coord_phase_over(const struct coord_job *j)
{
    uint32_t phase = j->at.phase;
    return phase == PHASE_NONE || (phase >= PHASE_FINISH && phase <= PHASE_FAILED);
}

/* True for a job that an order has ended: nothing failed. */
static bool stopped(const struct coord_job *j)
{
    return j->at.phase == PHASE_FAILED && j->at.status == SHOAL_E_STOPPED;
}

const char *coord_phase_name(const struct coord_job *j)
{
    return stopped(j) ? "stopped" : names[j->at.phase];
}

uint32_t coord_phase_state(const struct coord_job *j)
{
    switch (j->at.phase) {
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

/* True when the conditions of a phase's begin hold, on every way into it. */
static bool phase_ready(const struct coord_job *j, enum coord_phase phase)
{
    switch (phase) {
    case PHASE_LANES:
    case PHASE_TRAIN: /* no worker holds a lane; the tasks are this epoch's */
        for (uint32_t l = 0; l < j->tasks.lanes; l++)
            if (j->tasks.lane[l].state != LANE_FREE)
                return false;
        return j->tasks.epoch == j->at.epoch;
    case PHASE_EVAL:
    case PHASE_TEST:
        return j->eval.tasks > 0 && j->eval.split == (phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST);
    case PHASE_GROW: /* the objects of the round before are no longer used */
        return j->objects[WIRE_TRAIN].count == 0 && j->tasks.holder == NULL;
    case PHASE_CUT: /* the kept evaluation is the one just judged the best */
        return j->at.kept == j->valid.count;
    case PHASE_FAILED:
        return j->at.status != 0;
    default:
        return phase != PHASE_DONE || j->report != NULL;
    }
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void elapsed_note(struct coord_job *j)
{
    uint64_t now = env_now_ns(j->fleet->env);
    if (!coord_phase_running(j) || j->started_ns == 0)
        return;
    SHOAL_ASSERT(j->started_ns <= now);
    j->at.elapsed_ns += now - j->started_ns;
    j->started_ns = now;
}

bool coord_phase_put(struct coord_job *j)
{
    elapsed_note(j);
    return coord_job_put(j, "progress", &j->at, sizeof j->at);
}

bool coord_phase_enter(struct coord_job *j, enum coord_phase phase)
{
    sm_move(&coord_phase_moves, &j->at.phase, phase);
    SHOAL_ASSERT(phase_ready(j, phase));
    j->phase_ns = env_now_ns(j->fleet->env);
    if (phase == PHASE_DONE)
        log_event(JOB_DONE, j->spec.name, "job %s, epoch %u: %s", j->spec.name, j->at.epoch,
                  names[phase]);
    else
        log_info("job %s, epoch %u: %s", j->spec.name, j->at.epoch, coord_phase_name(j));
    return coord_phase_put(j);
}

void coord_phase_restart(struct coord_job *j, enum coord_phase phase)
{
    sm_move(&coord_phase_restarts, &j->at.phase, phase);
}

const char *coord_phase_text(enum coord_phase phase)
{
    SHOAL_ASSERT((uint32_t)phase < coord_phase_moves.count);
    return names[phase];
}

uint64_t coord_phase_trained_ns(const struct coord_job *j)
{
    SHOAL_ASSERT(j->epoch_ns <= env_now_ns(j->fleet->env));
    bool now = j->at.phase == PHASE_TRAIN;
    return j->epoch_spent_ns + (now ? env_now_ns(j->fleet->env) - j->epoch_ns : 0);
}

/* ---- end ---- */

static void run_dropped(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context;
    if (status != 0)
        log_warn("run %" PRIu64 " was not dropped: %s", call->owner, text);
}

void coord_end_tidy(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_RUN_DROP};
    bool loading = coord_from_loading(&j->at);
    w.u.RUN_DROP.run = j->at.run;
    if (loading) {
        w.type = WIRE_TYPE_ROWS_GO;
        w.u.ROWS_GO =
            (struct wire_ROWS_GO){.run = j->at.run, .tables = j->numbers, .what = WIRE_ROWS_LOADED};
    }
    (void)coord_call_start(&j->fleet->calls,
                           &(struct coord_call){.context = j,
                                                .request = w,
                                                .target = COORD_NOBODY,
                                                .set_up = loading ? NULL : &j->setup,
                                                .owner = j->at.run,
                                                .on_done = run_dropped});
    if (j->at.best_cut != 0)
        coord_cut_drop(j, j->at.best_cut);
}

/* Dismisses the workers that wait for a lane: they ask again, and are told that there is none. */
static void dismiss(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true};
    w.u.LANE_NEXT_reply = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(j), .run = j->at.run};
    SHOAL_ASSERT(!coord_phase_running(j)); /* otherwise they would ask for ever */
    for (uint32_t l = 0; l < j->tasks.lanes; l++) {
        struct coord_lane *lane = &j->tasks.lane[l];
        w.id = lane->ask_id;
        if (lane->ask_peer != 0)
            coord_send(j->fleet, lane->ask_peer, wire_encode(&w));
        lane->ask_peer = 0;
    }
}

void coord_end_work(struct coord_job *j, const char *why)
{
    uint64_t unfinished = j->cut.state == CUT_HOLDING || j->cut.state == CUT_GOING ? j->cut.cut : 0;
    coord_cut_cancel(j); /* first: a waiting order would begin, and could end the job again */
    coord_checkpoint_give_up(j, SHOAL_E_STOPPED, why);
    coord_call_cancel_all(&j->fleet->calls);
    SHOAL_ASSERT(j->cut.state == CUT_IDLE && !j->cut.waits);
    if (unfinished != 0)
        coord_cut_drop(j, unfinished);
}

bool coord_end_fail(struct coord_job *j, int status, const char *format, ...)
{
    va_list arguments;
    /* after a failure of the store the job stays as stored: the coordinator stops, and a restart
     * goes on */
    if (!coord_phase_running(j) || j->fleet->fatal != 0)
        return false;
    SHOAL_ASSERT(status != 0);
    j->at.status = status;
    va_start(arguments, format);
    (void)vsnprintf(j->at.text, sizeof j->at.text, format, arguments);
    va_end(arguments);
    coord_end_work(j, "the job has ended");
    coord_from_let_go(j);
    free(j->report); /* from when the job was about to be done */
    j->report = NULL;
    bool run = j->at.phase >= PHASE_SETUP;
    elapsed_note(j); /* for the report */
    if (status == SHOAL_E_STOPPED)
        log_event(JOB_STOPPED, j->spec.name, "job %s ended in %s: %s", j->spec.name,
                  coord_phase_name(j), j->at.text);
    else
        log_event(JOB_FAILED, j->spec.name, "job %s failed in %s: %s", j->spec.name,
                  coord_phase_name(j), j->at.text);
    /* only after FAILED is stored, since a run that is dropped cannot be resumed */
    if (!coord_phase_enter(j, PHASE_FAILED))
        return false;
    if (run)
        coord_end_tidy(j);
    coord_setup_forget(j);
    dismiss(j);
    return false;
}
