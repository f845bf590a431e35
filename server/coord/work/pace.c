/* pace.c: measures workers, makes the deal, and moves lanes from the slowest worker; pace.h has the
 * rules. */
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

/* A step with as many lanes as it had when one left it, that is much shorter than then. */
static void recovered_look(struct coord_pace *p)
{
    if (p->rests > 0 && p->step_lanes >= p->left_lanes &&
        COORD_PACE_GAIN * p->step_s * p->left_lanes <= p->left_s * p->step_lanes)
        p->rests = 0;
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
        recovered_look(p);
    }
    window_begin(p, beat, lanes, epoch, now);
}

void coord_pace_idle(struct coord_job *j, struct coord_worker *w)
{
    w->pace.idle_ns = coord_now_ns(j);
}

/* ---- steps ----------------------------------------------------------------------------------- */

/* True when the last lane has left it long enough ago: it may have one, and what was measured is
 * forgotten. */
static bool tried(const struct coord_pace *p, uint64_t now_ns)
{
    return p->rest_ns != 0 && now_ns >= p->rest_ns && p->left_lanes == 1;
}

static bool measured(const struct coord_pace *p, uint64_t now_ns)
{
    return p->step_s > 0 && !tried(p, now_ns);
}

/* The step with so many lanes; `each`: that of a lane of a worker that is not measured. */
static double step_with(const struct coord_pace *p, uint32_t lanes, double each, uint64_t now_ns)
{
    if (!measured(p, now_ns))
        return each * lanes;
    double step = p->step_s * lanes / p->step_lanes;
    if (p->bound && now_ns < p->rest_ns && lanes >= p->left_lanes)
        step = COORD_PACE_GAIN * MAX(step, p->left_s * lanes / p->left_lanes);
    return step;
}

/* The step that is measured with the lanes that the worker holds; 0: none is. */
static double step_now(const struct coord_pace *p)
{
    if (p->held == 0 || p->held != p->step_lanes)
        return 0;
    return p->step_s;
}

/* The least step for each lane of the workers that are measured; 0: none is. */
static double step_each(const struct coord_job *j, uint64_t now_ns)
{
    double least = 0;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_pace *p = &j->workers.worker[i].pace;
        if (!measured(p, now_ns))
            continue;
        double each = p->step_s / p->step_lanes;
        if (least == 0 || each < least)
            least = each;
    }
    return least;
}

/* ---- the deal -------------------------------------------------------------------------------- */

/* Fills pace.held of all workers, in one walk over the lanes. */
static void held_count(struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    for (uint32_t i = 0; i < j->workers.count; i++)
        j->workers.worker[i].pace.held = 0;
    for (uint32_t l = 0; l < t->lanes; l++) {
        struct coord_worker *w = NULL;
        if (t->lane[l].state == LANE_HELD || t->lane[l].state == LANE_GRANTING)
            w = coord_worker_find(&j->workers, t->lane[l].worker);
        if (w != NULL)
            w->pace.held++;
    }
}

/* True when the worker asked for a lane lately and got none, and could go on with this one. */
static bool has_place(const struct coord_job *j, const struct coord_worker *w, uint32_t lane,
                      uint64_t now_ns)
{
    return w->pace.idle_ns != 0 && now_ns - w->pace.idle_ns <= IDLE_NS &&
           coord_task_next(j->tasks, lane, w->number) != COORD_NO_TASK;
}

struct deal {
    uint64_t now_ns;                 /* one time for all that it asks */
    const struct coord_worker *asks; /* the worker that asks now; NULL: none does */
    bool begins;                     /* lanes are given out anew, to all */
    double each, best;               /* best: the batches a second of the best deal */
    uint32_t lanes;                  /* lanes of all shares */
    uint32_t order[LIMIT_LANES];     /* the workers that got them, by their index */
    uint32_t open;                   /* workers in the heap: those with a place for one more */
};

/* Returns how many lanes the worker can hold. */
static uint32_t places(const struct coord_job *j, const struct coord_worker *w,
                       const struct deal *d)
{
    const struct coord_pace *p = &w->pace;
    if (!d->begins && w != d->asks &&
        !has_place(j, w, 0, d->now_ns)) /* under ssp all lanes have the same tasks */
        return p->held;
    if (p->rests > 0 && !measured(p, d->now_ns)) /* a trial */
        return MAX(p->held, 1);
    return MAX(w->lanes_max, p->held + 1);
}

/* The heap of a deal: worker[i].pace.at_place is the index of the worker at place i. At place 0 is
 * the worker whose step with one more lane is the least; of two with the same, the earlier one. */
static bool goes_before(const struct coord_worker *worker, uint32_t a, uint32_t b)
{
    double x = worker[a].pace.next_s, y = worker[b].pace.next_s;
    return x < y || (x <= y && a < b);
}

/* Puts a worker into a place, or below it where others go before. */
static void heap_put(struct coord_worker *worker, uint32_t open, uint32_t place, uint32_t index)
{
    for (uint32_t next; (next = 2 * place + 1) < open; place = next) {
        if (next + 1 < open &&
            goes_before(worker, worker[next + 1].pace.at_place, worker[next].pace.at_place))
            next++;
        if (!goes_before(worker, worker[next].pace.at_place, index))
            break;
        worker[place].pace.at_place = worker[next].pace.at_place;
    }
    worker[place].pace.at_place = index;
}

static void heap_make(struct coord_job *j, struct deal *d)
{
    struct coord_worker *worker = j->workers.worker;
    d->open = 0;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        struct coord_pace *p = &worker[i].pace;
        p->share = 0;
        p->places = places(j, &worker[i], d);
        if (p->places == 0)
            continue;
        p->next_s = step_with(p, 1, d->each, d->now_ns);
        worker[d->open++].pace.at_place = i;
    }
    for (uint32_t place = d->open / 2; place-- > 0;)
        heap_put(worker, d->open, place, worker[place].pace.at_place);
}

/* Gives lane n, from 0 on, to the worker that has the least step with one more. Returns that step;
 * 0: none has a place. */
static double lane_deal(struct coord_job *j, struct deal *d, uint32_t n)
{
    struct coord_worker *worker = j->workers.worker;
    if (d->open == 0)
        return 0;
    uint32_t index = worker[0].pace.at_place;
    struct coord_pace *to = &worker[index].pace;
    double step = to->next_s;
    d->order[n] = index;
    if (++to->share < to->places)
        to->next_s = step_with(to, to->share + 1, d->each, d->now_ns);
    else
        index = worker[--d->open].pace.at_place;
    heap_put(worker, d->open, 0, index);
    return step;
}

/* Fills pace.share of all workers; `now_ns`, `asks` and `begins` are set. Lanes are dealt in the
 * order of their steps, so the last one's is the longest. Those behind the last that pays are taken
 * back. */
static void deal_make(struct coord_job *j, struct deal *d)
{
    uint32_t dealt = 0;
    double step;
    d->each = step_each(j, d->now_ns);
    d->best = 0;
    d->lanes = 0;
    SHOAL_ASSERT(d->each > 0 && j->tasks->lanes <= LIMIT_LANES);
    heap_make(j, d);
    while (dealt < j->tasks->lanes && (step = lane_deal(j, d, dealt)) > 0) {
        dealt++;
        d->best = MAX(d->best, dealt / step);
        if (COORD_PACE_GAIN * dealt / step > d->best)
            d->lanes = dealt;
    }
    while (dealt > d->lanes)
        j->workers.worker[d->order[--dealt]].pace.share--;
}

/* ---- shares ---------------------------------------------------------------------------------- */

static bool others_hold(const struct coord_tasks *t, uint64_t worker)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_HELD && t->lane[l].worker != worker)
            return true;
    return false;
}

static bool any_free(const struct coord_tasks *t)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state == LANE_FREE)
            return true;
    return false;
}

static bool any_kept(const struct coord_tasks *t, uint64_t worker)
{
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].kept_for == worker)
            return true;
    return false;
}

uint32_t coord_pace_share(struct coord_job *j, const struct coord_worker *w)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t now = coord_now_ns(j);
    uint32_t live = coord_live_workers(j);
    struct deal d;
    bool begins = now - t->planned_ns <= SHARE_WAIT_NS;
    bool deals = t->mode == WIRE_SSP && step_each(j, now) > 0;
    if (begins && (!deals || j->workers.count < live))
        return (t->lanes + live - 1) / live;
    bool alone = !begins && !others_hold(t, w->number);
    bool unknown = !begins && w->pace.rests == 0 && !measured(&w->pace, now);
    if (!deals || alone || unknown || any_kept(t, w->number))
        return t->lanes;
    if (!any_free(t))
        return 0;
    held_count(j);
    d.now_ns = now;
    d.asks = w;
    d.begins = begins;
    deal_make(j, &d);
    return w->pace.share;
}

void coord_pace_granted(struct coord_job *j, struct coord_worker *w)
{
    struct coord_pace *p = &w->pace;
    p->idle_ns = 0; /* it asks anew for its next place */
    if (tried(p, coord_now_ns(j)))
        p->step_s = 0;
    if (coord_lane_held(j->tasks, w->number) >= p->left_lanes) { /* it has back what left */
        p->bound = false;
        p->rest_ns = 0;
    }
}

void coord_pace_changed(struct coord_job *j)
{
    for (uint32_t i = 0; i < j->workers.count; i++)
        j->workers.worker[i].pace.bound = false;
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
    uint64_t now = coord_now_ns(j);
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        const struct coord_pace *p = &w->pace;
        if (p->held == 0 && (p->rests == 0 || tried(p, now)) && has_place(j, w, lane, now))
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

/* Returns the worker that holds fewer lanes than its share and would have the least step with one
 * more. It is measured with the lanes that it holds, or holds none. NULL: there is none. */
static const struct coord_worker *taker(const struct coord_job *j, const struct deal *d)
{
    const struct coord_worker *best = NULL;
    double least = 0;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        const struct coord_pace *p = &w->pace;
        double step = step_with(p, p->held + 1, d->each, d->now_ns);
        if (p->share <= p->held || (p->held > 0 && step_now(p) == 0) ||
            (best != NULL && step >= least))
            continue;
        best = w;
        least = step;
    }
    return best;
}

/* True when the worker is measured with the lanes that it holds, all others with lanes are
 * measured, and none of them has a longer step. *lanes: those of all workers. */
static bool is_slowest(const struct coord_job *j, const struct coord_worker *w, uint32_t *lanes)
{
    double own = step_now(&w->pace);
    *lanes = 0;
    if (own == 0)
        return false;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_pace *p = &j->workers.worker[i].pace;
        *lanes += p->held;
        if (p->held > 0 && (p->step_s == 0 || p->step_s * p->held / p->step_lanes > own))
            return false;
    }
    return true;
}

/* A lane leaves the worker for its speed. */
static void left(struct coord_pace *p, uint64_t now_ns)
{
    p->left_s = p->step_s;
    p->left_lanes = p->held;
    p->bound = true;
    if (p->rests == 0 || now_ns >= p->rest_ns) /* not the next lane of the same slowness */
        p->rests++;
    p->rest_ns = now_ns + (COORD_PACE_REST * p->span_ns << MIN(p->rests - 1, RESTS));
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
    struct coord_pace *p = &w->pace;
    struct deal d;
    uint32_t lanes;
    if ((p->held == 1 && j->tasks->holder != NULL) || !is_slowest(j, w, &lanes))
        return false;
    d.now_ns = coord_now_ns(j);
    d.asks = NULL;
    d.begins = false;
    deal_make(j, &d);
    double now = lanes / p->step_s;
    if (p->share >= p->held || COORD_PACE_GAIN * now > d.best)
        return false;
    const struct coord_worker *to = taker(j, &d);
    if (to == NULL && d.lanes >= lanes)
        return false;
    const char *whose = "no worker";
    if (to != NULL)
        whose = to->name;
    log_info("lane %u leaves worker %s for %s: %s needs %.3g s for a batch of a lane, so the job "
             "does %.3g batches a second, and would do up to %.3g",
             lane, w->name, whose, w->name, p->step_s, now, d.best);
    left(p, coord_now_ns(j));
    if (to != NULL)
        keep(j, lane, to);
    return true;
}

bool coord_pace_leaves(struct coord_job *j, uint32_t lane)
{
    struct coord_tasks *t = j->tasks;
    struct coord_worker *w = coord_worker_find(&j->workers, t->lane[lane].worker);
    SHOAL_ASSERT(t->lane[lane].state == LANE_HELD && t->lane[lane].task == COORD_NO_TASK);
    if (t->dealt || j->workers.count < 2 || w == NULL)
        return false;
    coord_pace_expire(j);
    if (any_moves(t) || coord_task_next(t, lane, w->number) == COORD_NO_TASK)
        return false;
    held_count(j);
    if (!leaves_for_newcomer(j, lane, w) && (t->mode != WIRE_SSP || !leaves_slow(j, lane, w)))
        return false;
    j->tally.lanes_moved++;
    return coord_tally_note(j);
}

/* ---- for people ------------------------------------------------------------------------------ */

/* True when another worker needs longer with the lanes that it holds. */
static bool another_slower(const struct coord_job *j, const struct coord_worker *than, double step)
{
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        if (w != than && w->pace.step_s > step &&
            w->pace.step_lanes == coord_lane_held(j->tasks, w->number))
            return true;
    }
    return false;
}

bool coord_pace_text(const struct coord_job *j, const struct coord_worker *w, char *text,
                     size_t bytes)
{
    const struct coord_pace *p = &w->pace;
    uint32_t held = coord_lane_held(j->tasks, w->number);
    bool trains = j->at.phase == PHASE_TRAIN || j->at.phase == PHASE_EVAL;
    if (p->rests == 0 || p->step_s == 0 || !trains || held >= p->left_lanes)
        return false;
    if (held > 0 && held == p->step_lanes && another_slower(j, w, p->step_s)) /* it has recovered */
        return false;
    (void)snprintf(text, bytes,
                   "worker %s needed %.3g s for a batch of a lane, longer than the others: lanes "
                   "have left it, and it holds %u; see what else runs on its machine",
                   w->name, p->step_s, held);
    return true;
}
