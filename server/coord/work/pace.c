/* pace.c: measures workers, and moves lanes from the slowest one; pace.h has the rules. */
#include "server/coord/work/pace.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/core.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>

/* after this a free lane goes to any worker that asks: the workers it was kept for do not come */
#define SHARE_WAIT_NS UINT64_C(2000000000)
/* a worker with a place for a lane asks twice a second at least (coord_retry_ms) */
#define IDLE_NS UINT64_C(1000000000)
#define RESTS 3u /* doublings of a rest, at most */

/* ---- windows --------------------------------------------------------------------------------- */

static double busy_of(const struct wire_WORKER_BEAT *b)
{
    return b->read_s + b->pull_s + b->compute_s + b->push_s;
}

static void window_begin(struct coord_pace *p, const struct wire_WORKER_BEAT *beat, uint32_t lanes,
                         uint32_t epoch, uint64_t now_ns)
{
    p->since_ns = now_ns;
    p->busy_s = busy_of(beat);
    p->batches = beat->batches;
    p->lanes = lanes;
    p->epoch = epoch;
}

void coord_pace_beat(struct coord_job *j, struct coord_worker *w,
                     const struct wire_WORKER_BEAT *beat)
{
    struct coord_pace *p = &w->pace;
    uint32_t lanes = 0, epoch = j->tasks->epoch;
    uint64_t now = coord_now_ns(j);
    if (j->at.phase == PHASE_TRAIN)
        lanes = coord_lane_held(j->tasks, w->number);
    bool same = lanes > 0 && lanes == p->lanes && epoch == p->epoch && beat->batches >= p->batches;
    if (same && beat->batches - p->batches < COORD_PACE_BATCHES)
        return;
    double busy = busy_of(beat) - p->busy_s;
    if (same && busy > 0) {
        p->step_s = busy / (double)(beat->batches - p->batches);
        p->step_lanes = lanes;
        p->span_ns = now - p->since_ns;
    }
    window_begin(p, beat, lanes, epoch, now);
}

void coord_pace_idle(struct coord_job *j, struct coord_worker *w)
{
    w->pace.idle_ns = coord_now_ns(j);
}

/* ---- shares ---------------------------------------------------------------------------------- */

/* Fills pace.held of all workers, in one walk over the lanes. */
static void held_count(struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    for (uint32_t i = 0; i < j->workers.count; i++)
        j->workers.worker[i].pace.held = 0;
    for (uint32_t l = 0; l < t->lanes; l++) {
        struct coord_worker *w = NULL;
        if (t->lane[l].state == LANE_HELD)
            w = coord_worker_find(&j->workers, t->lane[l].worker);
        if (w != NULL)
            w->pace.held++;
    }
}

static bool others_hold(const struct coord_tasks *t, uint64_t worker)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_HELD && t->lane[l].worker != worker)
            return true;
    return false;
}

/* True when it may have one more lane for a trial. */
static bool rested(const struct coord_pace *p, uint64_t now_ns)
{
    return p->capped && now_ns >= p->rest_ns;
}

static void rest(struct coord_pace *p, uint64_t now_ns)
{
    p->rest_ns = now_ns + (COORD_PACE_REST * p->span_ns << MIN(p->rests, RESTS));
}

uint32_t coord_pace_share(const struct coord_job *j, const struct coord_worker *w)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t now = coord_now_ns(j);
    bool late = now - t->planned_ns > SHARE_WAIT_NS;
    uint32_t capped = 0, theirs = 0;
    if (w->pace.capped && (!late || others_hold(t, w->number)))
        return w->pace.most + rested(&w->pace, now);
    if (late)
        return t->lanes;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_pace *p = &j->workers.worker[i].pace;
        if (!p->capped)
            continue;
        capped++;
        theirs += p->most;
    }
    uint32_t live = MAX(SAT_SUB(coord_live_workers(j), capped), 1);
    return (SAT_SUB(t->lanes, theirs) + live - 1) / live;
}

void coord_pace_granted(struct coord_job *j, struct coord_worker *w)
{
    struct coord_pace *p = &w->pace;
    uint32_t held = coord_lane_held(j->tasks, w->number);
    p->idle_ns = 0; /* it asks anew for its next place */
    if (!p->capped || held <= p->most)
        return;
    if (rested(p, coord_now_ns(j))) {
        p->step_s = 0; /* a trial forgets what was measured */
        p->rests++;
        rest(p, coord_now_ns(j));
    }
    p->most = held;
    uint32_t share = j->tasks->lanes / coord_live_workers(j);
    p->capped = held < MIN(share, w->lanes_max);
    if (!p->capped)
        p->rests = 0;
}

void coord_pace_expire(struct coord_job *j)
{
    uint64_t now = coord_now_ns(j);
    for (uint32_t l = 0; l < j->tasks->lanes; l++) {
        struct coord_lane *lane = &j->tasks->lane[l];
        if (lane->kept_for != 0 && now - lane->kept_ns > SHARE_WAIT_NS)
            lane->kept_for = 0;
    }
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* True when the worker asked for a lane lately and got none, and could go on with this one. */
static bool has_place(const struct coord_job *j, const struct coord_worker *w, uint32_t lane)
{
    return w->pace.idle_ns != 0 && coord_now_ns(j) - w->pace.idle_ns <= IDLE_NS &&
           coord_task_next(j->tasks, lane, w->number) != COORD_NO_TASK;
}

/* Every lane is held: none moves yet, and none is free for a worker that has a place. */
static bool all_held(const struct coord_tasks *t)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state != LANE_HELD)
            return false;
    return true;
}

static bool any_moves(const struct coord_tasks *t)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_GRANTING || t->lane[l].state == LANE_CLOSING ||
            t->lane[l].kept_for != 0)
            return true;
    return false;
}

/* A worker without a lane that may have one. */
static const struct coord_worker *newcomer(const struct coord_job *j, uint32_t lane)
{
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        const struct coord_pace *p = &w->pace;
        if (p->held == 0 && (!p->capped || rested(p, coord_now_ns(j))) && has_place(j, w, lane))
            return w;
    }
    return NULL;
}

static bool has_most(const struct coord_job *j, const struct coord_worker *w)
{
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (j->workers.worker[i].pace.held > w->pace.held)
            return false;
    return w->pace.held >= 2;
}

/* The step that is known for the lanes that the worker holds; 0: none. */
static double step_now(const struct coord_worker *w)
{
    const struct coord_pace *p = &w->pace;
    if (p->held == 0 || p->held != p->step_lanes)
        return 0;
    return p->step_s;
}

/* The longest step of the workers but `than`. */
static double step_longest(const struct coord_job *j, const struct coord_worker *than)
{
    double longest = 0;
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (&j->workers.worker[i] != than && step_now(&j->workers.worker[i]) > longest)
            longest = step_now(&j->workers.worker[i]);
    return longest;
}

/* The worker with a place for a lane that would then have the least step; NULL: none has one, or
 * none is measured. *step: that step. */
static const struct coord_worker *taker(const struct coord_job *j, const struct coord_worker *than,
                                        uint32_t lane, double *step)
{
    const struct coord_worker *best = NULL;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        double more = step_now(w) * (w->pace.held + 1) / MAX(w->pace.held, 1);
        if (w == than || more == 0 || !has_place(j, w, lane) || (best != NULL && more >= *step))
            continue;
        best = w;
        *step = more;
    }
    return best;
}

/* True when the lanes of the other workers alone would do more batches. */
static bool better_without(const struct coord_job *j, const struct coord_worker *w)
{
    uint32_t all = 0;
    double longest = step_longest(j, w), own = step_now(w);
    for (uint32_t i = 0; i < j->workers.count; i++)
        all += j->workers.worker[i].pace.held;
    return longest > 0 && (all - w->pace.held) / longest >= COORD_PACE_GAIN * all / own;
}

static void cap(struct coord_pace *p, uint32_t most, uint64_t now_ns)
{
    p->capped = true;
    p->most = most;
    rest(p, now_ns);
}

static void keep(struct coord_job *j, uint32_t lane, const struct coord_worker *to)
{
    j->tasks->lane[lane].kept_for = to->number;
    j->tasks->lane[lane].kept_ns = coord_now_ns(j);
}

static bool leaves_for_newcomer(struct coord_job *j, uint32_t lane, const struct coord_worker *w)
{
    const struct coord_worker *to = newcomer(j, lane);
    if (to == NULL || !has_most(j, w) || !all_held(j->tasks))
        return false;
    log_info("lane %u leaves worker %s, which has %u, for worker %s, which has none", lane, w->name,
             w->pace.held, to->name);
    keep(j, lane, to);
    return true;
}

static bool leaves_slow(struct coord_job *j, uint32_t lane, struct coord_worker *w)
{
    double own = step_now(w), longest = step_longest(j, w), step = 0;
    bool last = w->pace.held == 1;
    if (own == 0 || own < longest || (last && j->tasks->holder != NULL))
        return false;
    const struct coord_worker *to = taker(j, w, lane, &step);
    if (to != NULL && COORD_PACE_GAIN * step > own)
        to = NULL;
    if (to == NULL && !better_without(j, w))
        return false;
    const char *whose = "no worker";
    if (to != NULL)
        whose = to->name;
    log_info("lane %u leaves worker %s, which needs %.3g s for a batch of a lane, the slowest of "
             "the others %.3g s, for %s",
             lane, w->name, own, longest, whose);
    cap(&w->pace, w->pace.held - 1, coord_now_ns(j));
    if (to != NULL)
        keep(j, lane, to);
    return true;
}

bool coord_pace_leaves(struct coord_job *j, uint32_t lane)
{
    struct coord_tasks *t = j->tasks;
    struct coord_worker *w = coord_worker_find(&j->workers, t->lane[lane].worker);
    SHOAL_ASSERT(t->lane[lane].state == LANE_HELD && t->lane[lane].task == COORD_NO_TASK);
    if (t->mode == WIRE_BSP || j->workers.count < 2 || w == NULL)
        return false;
    coord_pace_expire(j);
    if (any_moves(t) || coord_task_next(t, lane, w->number) == COORD_NO_TASK)
        return false;
    held_count(j);
    bool leaves =
        leaves_for_newcomer(j, lane, w) || (t->mode == WIRE_SSP && leaves_slow(j, lane, w));
    t->moved += leaves;
    return leaves;
}

/* ---- for people ------------------------------------------------------------------------------ */

bool coord_pace_text(const struct coord_job *j, const struct coord_worker *w, char *text,
                     size_t bytes)
{
    const struct coord_pace *p = &w->pace;
    uint32_t held = coord_lane_held(j->tasks, w->number);
    bool trains = j->at.phase == PHASE_TRAIN || j->at.phase == PHASE_EVAL;
    if (!p->capped || p->step_s == 0 || !trains)
        return false;
    if (held > 0 && step_now(w) < step_longest(j, w)) /* it has recovered */
        return false;
    (void)snprintf(
        text, bytes,
        "worker %s needed %.3g s for a batch of a lane, longer than the others: it holds "
        "%u lanes, the others have the rest; see what else runs on its machine",
        w->name, p->step_s, held);
    return true;
}
