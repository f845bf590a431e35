/* course.c: the conditions of each phase, and what the end of a job takes back. */
#include "server/coord/job/course.h"

#include "proto/base/assert.h"
#include "server/coord/core/phase.h"
#include "server/coord/core/setup_state.h"
#include "server/coord/figures/judge.h"
#include "server/coord/keep/checkpoint.h"
#include "server/coord/keep/cut.h"
#include "server/coord/keep/from.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/task.h"

/* True when the conditions of a phase's begin hold, on every way into it. */
static bool phase_ready(const struct coord_job *j, enum coord_phase phase)
{
    switch (phase) {
    case PHASE_LANES:
    case PHASE_TRAIN: /* no worker holds a lane; the tasks are this epoch's */
        for (uint32_t l = 0; l < j->tasks->lanes; l++)
            if (j->tasks->lane[l].state != LANE_FREE)
                return false;
        return j->tasks->epoch == j->at.epoch;
    case PHASE_EVAL:
    case PHASE_TEST:
        return j->eval->tasks > 0 &&
               j->eval->split == (phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST);
    case PHASE_GROW: /* the objects of the round before are no longer used */
        return j->objects[WIRE_TRAIN].count == 0 && j->tasks->holder == NULL;
    case PHASE_CUT: /* the kept evaluation is the one just judged the best */
        return j->at.kept == j->valid->count;
    case PHASE_FAILED:
        return j->at.status != 0;
    default:
        return phase != PHASE_DONE || j->report != NULL;
    }
}

bool coord_course_enter(struct coord_job *j, enum coord_phase phase)
{
    SHOAL_ASSERT(phase_ready(j, phase));
    return coord_phase_enter(j, phase);
}

void coord_course_take_back(struct coord_job *j, const char *why)
{
    uint64_t unfinished = 0;
    if (j->cut->state == CUT_HOLDING || j->cut->state == CUT_GOING)
        unfinished = j->cut->cut;
    coord_cut_cancel(j); /* first: a waiting order would begin, and could end the job again */
    coord_checkpoint_give_up(j, SHOAL_E_STOPPED, why);
    coord_call_cancel_of(&j->fleet->calls, j); /* other jobs wait for theirs */
    SHOAL_ASSERT(j->cut->state == CUT_IDLE && !j->cut->waits);
    if (unfinished != 0)
        coord_cut_drop(j, unfinished);
}

/* Dismisses the workers that wait for a lane: they ask again, and are told that there is none. */
static void dismiss(struct coord_job *j)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true};
    w.u.LANE_NEXT_reply = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(j), .run = j->at.run};
    SHOAL_ASSERT(!coord_phase_running(j)); /* otherwise they would ask for ever */
    for (uint32_t l = 0; l < j->tasks->lanes; l++) {
        struct coord_lane *lane = &j->tasks->lane[l];
        w.id = lane->ask_id;
        if (lane->ask_peer != 0)
            coord_send(j->fleet, lane->ask_peer, wire_encode(&w));
        lane->ask_peer = 0;
    }
}

static void before_end(struct coord_job *j, const char *why)
{
    coord_course_take_back(j, why);
    coord_from_let_go(j);
}

static void after_end(struct coord_job *j, bool run)
{
    if (run)
        coord_cut_run_drop(j);
    coord_setup_forget(j);
    dismiss(j);
}

const struct coord_end coord_course_end = {before_end, after_end};
