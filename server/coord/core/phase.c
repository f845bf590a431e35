/* phase.c: the diagram of flow.h as a table; the phase itself. */
#include "server/coord/core/phase.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"

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
    if (stopped(j))
        return "stopped";
    return names[j->at.phase];
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
    if (j->at.phase != PHASE_TRAIN)
        return j->epoch_spent_ns;
    return j->epoch_spent_ns + env_now_ns(j->fleet->env) - j->epoch_ns;
}

double coord_phase_trained_s(const struct coord_job *j)
{
    return (double)(j->at.train_ns + coord_phase_trained_ns(j)) * 1e-9;
}

/* ---- end ---- */

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
    j->end->before(j, "the job has ended");
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
    if (coord_phase_enter(j, PHASE_FAILED))
        j->end->after(j, run);
    return false;
}

void coord_back_want(struct coord_job *j, const char *format, ...)
{
    va_list arguments;
    if (j->lost[0] != 0) /* the first reason stays */
        return;
    va_start(arguments, format);
    (void)vsnprintf(j->lost, sizeof j->lost, format, arguments);
    va_end(arguments);
}
