/* grant.c: LANE_NEXT and the fences.
 *
 *  1. A raised generation is stored, then fenced on every shard, then told to a worker; a task
 *     is stored before a worker is told of it. [test: coord_restarted_coordinator_goes_on]
 *     [assert: answer_task]
 *  2. In bsp every lane is always live; in async and ssp a lane is live while a worker holds it.
 *     [assert: lane_fence]
 *  3. A lane's clocks are the same on all shards. [test: coord_lane_has_one_clock_on_all_shards]
 *  4. Where the workers keep the network, a lane's clock is its mark: all lanes make the same
 *     steps, so one that had a smaller clock would hold back the pulls of others, whose
 *     contributions it waits for itself. [test: ring_lanes_have_the_clocks_of_their_steps] */
#include "server/coord/work/grant.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/death.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/heard.h"
#include "server/coord/work/item.h"
#include "server/coord/work/lease_log.h"
#include "server/coord/work/objects.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/pace.h"
#include "server/coord/work/replay.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"
#include "server/coord/work/times.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* a grant that was answered this long ago and never used may not have reached the worker */
#define ANSWER_LOST_NS UINT64_C(500000000)

static void lane_fence(struct coord_job *j, uint32_t lane, bool live);

bool coord_grant_lanes_put(struct coord_job *j)
{
    struct coord_lane_record record[LIMIT_LANES];
    struct coord_tasks *t = j->tasks;
    SHOAL_ASSERT(t->lanes > 0 && t->lanes <= LIMIT_LANES);
    for (uint32_t l = 0; l < t->lanes; l++)
        record[l] = (struct coord_lane_record){t->lane[l].generation, t->lane[l].next_batch};
    if (!coord_job_put(j, "lanes", record, t->lanes * sizeof record[0]))
        return false;
    for (uint32_t l = 0; l < t->lanes; l++)
        t->lane[l].stored = t->lane[l].generation;
    return true;
}

bool coord_grant_task_put(struct coord_job *j, uint32_t index, bool promised)
{
    struct coord_task_record record;
    char key[COORD_KEY_MAX];
    coord_task_to_record(j->tasks, index, j->at.run, &record);
    (void)snprintf(key, sizeof key, "task/%u", index);
    if (!promised)
        return coord_job_note(j, key, &record, sizeof record);
    SHOAL_ASSERT(record.first_batch != 0 && record.lane < j->tasks->lanes);
    if (!coord_job_put(j, key, &record, sizeof record))
        return false;
    j->tasks->task[index].stored = true;
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct coord_job *j, peer_t to, uint64_t id, struct wire_LANE_NEXT_reply *reply)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true, .id = id};
    reply->run = j->at.run;
    w.u.LANE_NEXT_reply = *reply;
    coord_send(j->fleet, to, wire_encode(&w));
}

/* Answers the lane's holder with its current task. */
static void answer_task(struct coord_job *j, peer_t to, uint64_t id, uint32_t lane)
{
    struct coord_lane *l = &j->tasks->lane[lane];
    SHOAL_ASSERT(l->state == LANE_HELD && l->stored == l->generation); /* 1; task.h, 2 */
    SHOAL_ASSERT(j->at.phase == PHASE_TRAIN && l->task < j->tasks->tasks);
    const struct coord_task *task = &j->tasks->task[l->task];
    SHOAL_ASSERT(task->stored && task->lane == lane && !task->pushed); /* 1 */
    struct wire_LANE_NEXT_reply reply = {.kind = WIRE_NEXT_TASK,
                                         .lane = lane,
                                         .generation = l->generation,
                                         .mark = l->mark,
                                         .task = coord_task_number(j->tasks, l->task),
                                         .epoch = j->tasks->epoch,
                                         .split = WIRE_TRAIN,
                                         .position = task->position,
                                         .rows = task->rows,
                                         .first_batch = task->first_batch,
                                         .batch_count = task->batch_count,
                                         .lr_scale = (float)j->at.lr_scale,
                                         .time_limit = coord_times_limit_now(j)};
    if (task->object != COORD_NO_OBJECT)
        coord_objects_put(j, WIRE_TRAIN, task->object, &reply);
    l->answered_ns = coord_now_ns(j);
    if (coord_lease_note(j, lane))
        answer(j, to, id, &reply);
}

/* ---- fences ---------------------------------------------------------------------------------- */

static void lane_leave(struct coord_job *j, uint32_t lane)
{
    coord_call_cancel(&j->fleet->calls, j, WIRE_TYPE_FENCE, lane);
    coord_lane_close(j->tasks, lane);
    lane_fence(j, lane, j->tasks->mode == WIRE_BSP);
}

/* Gives the lane its next task if it has none. False: the epoch has no task left, or the store
 * failed. */
static bool lane_task(struct coord_job *j, uint32_t lane)
{
    struct coord_tasks *t = j->tasks;
    SHOAL_ASSERT(t->lane[lane].state == LANE_HELD);
    if (t->lane[lane].task != COORD_NO_TASK)
        return true;
    uint32_t index = coord_task_append(t, lane);
    return index != COORD_NO_TASK && coord_grant_task_put(j, index, true);
}

/* Gives the lane the task with the batch behind the mark. Tasks that are done up to the mark are
 * not done again. False: as lane_task. */
static bool lane_task_behind(struct coord_job *j, uint32_t lane, uint64_t mark)
{
    struct coord_tasks *t = j->tasks;
    struct coord_lane *l = &t->lane[lane];
    while (lane_task(j, lane)) {
        if (mark < coord_task_last(&t->task[l->task])) {
            l->mark = mark;
            return true;
        }
        coord_task_pushed(t, lane);
    }
    return false;
}

static void wait_tell(struct coord_job *j, peer_t peer, uint64_t id)
{
    if (peer != 0)
        answer(
            j, peer, id,
            &(struct wire_LANE_NEXT_reply){.kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(j)});
}

/* Every shard has the generation: the grant takes effect. Batches of a dead worker that are done on
 * all shards are not done again, unless the network lacks them. */
static void lane_granted(struct coord_job *j, uint32_t lane, uint64_t mark)
{
    struct coord_tasks *t = j->tasks;
    struct coord_lane *l = &t->lane[lane];
    if (coord_ring_on(j))
        mark = coord_ring_mark(j, mark);
    coord_lane_granted(t, lane, mark);
    peer_t peer = l->ask_peer;
    uint64_t id = l->ask_id;
    l->ask_peer = 0;
    if (!lane_task_behind(j, lane, mark)) {
        lane_leave(j, lane);
        wait_tell(j, peer, id);
        return;
    }
    if (peer != 0)
        answer_task(j, peer, id, lane);
}

void coord_grant_lane_moved(struct coord_job *j, uint32_t lane)
{
    const struct coord_lane *l = &j->tasks->lane[lane];
    if (l->state == LANE_CLOSING)
        return;
    wait_tell(j, l->ask_peer, l->ask_id);
    lane_leave(j, lane);
}

/* True while the lane and the job are as they were when the fence was sent. An open fence is
 * cancelled when the lane moves on, and with the job. */
static bool fence_stands(const struct coord_job *j, const struct coord_call *call)
{
    const struct coord_tasks *t = j->tasks;
    return coord_phase_running(j) && call->owner < t->lanes &&
           t->lane[call->owner].generation == call->request.u.FENCE.generation;
}

static void fence_mark(void *context, const struct coord_call *call, uint32_t shard,
                       const struct wire *reply, const struct msg *m)
{
    struct coord_job *j = context;
    struct coord_lane *l = &j->tasks->lane[call->owner];
    (void)m;
    SHOAL_ASSERT(fence_stands(j, call));
    if (reply->u.FENCE_reply.mark < l->fence_mark) {
        l->fence_mark = reply->u.FENCE_reply.mark;
        l->fence_shard = shard;
    }
    if (reply->u.FENCE_reply.low > l->fence_low)
        l->fence_low = reply->u.FENCE_reply.low;
    if (reply->u.FENCE_reply.high > l->fence_high) {
        l->fence_high = reply->u.FENCE_reply.high;
        l->fence_high_shard = shard;
    }
}

/* True when a shard has lost pushes of the lane: its mark lies before the lane's last pushed task,
 * and the lane cannot go back there. */
static bool pushes_lost(struct coord_job *j, const struct coord_lane *l, uint32_t lane)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t start = l->task == COORD_NO_TASK ? l->next_batch : t->task[l->task].first_batch;
    if (l->fence_mark + 1 >= start)
        return false;
    coord_back_want(j,
                    "lane %u stands at batch %" PRIu64 " on server %s, but batch %" PRIu64
                    " was acknowledged: a server has lost pushes",
                    lane, l->fence_mark, j->fleet->members.shard[l->fence_shard].server, start - 1);
    return true;
}

/* True when power loss has set the shards' clocks apart. A shard can restore rows as they were
 * before its newest clock, but no older ones. A lane's pushes of one batch are acknowledged on all
 * shards before those of its next, and no part of a clock is applied before all lanes push it
 * (server/shard/bsp.h), so only a loss can leave a shard further behind. */
static bool clocks_apart(struct coord_job *j, const struct coord_lane *l, uint32_t lane)
{
    const struct coord_shard *s = j->fleet->members.shard;
    if (l->fence_high <= l->fence_mark + 1)
        return false;
    coord_back_want(j,
                    "lane %u stands at clock %" PRIu64 " on server %s, and server %s has clock "
                    "%" PRIu64 ": power took what was not on a disk yet, and rows can be had as of "
                    "one clock before",
                    lane, l->fence_mark, s[l->fence_shard].server, s[l->fence_high_shard].server,
                    l->fence_high);
    return true;
}

/* Places the lane's clock: at the smallest clock of the live lanes, as the most advanced shard
 * reports it, or, if none is live on a shard yet, of the lanes that are placed. If each shard used
 * its own marks, which differ when a worker dies between its pushes, two lanes could wait for each
 * other on two shards for ever. */
static void lane_place(struct coord_job *j, uint32_t lane)
{
    struct coord_tasks *t = j->tasks;
    struct coord_lane *l = &t->lane[lane];
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < t->lanes && l->fence_low == 0; i++) {
        const struct coord_lane *o = &t->lane[i];
        bool placed = o->placed && (o->state == LANE_GRANTING || o->state == LANE_HELD);
        if (placed && o->clock < low)
            low = o->clock;
    }
    l->at = l->fence_mark;
    l->clock = l->fence_mark;
    if (!coord_ring_on(j) && l->fence_low != 0) /* 4 */
        l->clock = l->fence_low;
    else if (!coord_ring_on(j) && low != UINT64_MAX)
        l->clock = low;
    l->placed = true;
    lane_fence(j, lane, true);
}

static void lane_closed(struct coord_job *j, uint32_t lane)
{
    if (!coord_death_placed(j, lane, j->tasks->lane[lane].fence_mark))
        coord_lane_closed(j->tasks, lane);
}

static void fence_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord_job *j = context;
    uint32_t lane = (uint32_t)call->owner;
    struct coord_lane *l = &j->tasks->lane[lane];
    SHOAL_ASSERT(fence_stands(j, call));
    if (status != 0) {
        coord_end_fail(j, status, "fence of lane %u: %s", lane, text);
        return;
    }
    if (pushes_lost(j, l, lane) || clocks_apart(j, l, lane))
        return;
    if (l->state == LANE_GRANTING && coord_ring_behind(j, lane, l->fence_mark))
        return;
    if (l->state == LANE_GRANTING && !l->placed && j->tasks->mode != WIRE_BSP)
        lane_place(j, lane);
    else if (l->state == LANE_GRANTING)
        lane_granted(j, lane, l->fence_mark);
    else
        lane_closed(j, lane);
}

static void lane_fence(struct coord_job *j, uint32_t lane, bool live)
{
    struct wire w = {.type = WIRE_TYPE_FENCE};
    struct coord_lane *l = &j->tasks->lane[lane];
    SHOAL_ASSERT(l->state == LANE_GRANTING || l->state == LANE_CLOSING);
    bool bsp = j->tasks->mode == WIRE_BSP;
    SHOAL_ASSERT(live == (bsp || (l->state == LANE_GRANTING && l->placed))); /* 2, 3 */
    if (l->stored != l->generation && !coord_grant_lanes_put(j))             /* invariant 1 */
        return;
    if (!coord_phase_running(j))
        return; /* servers drop the run of a job that has ended, and would not answer the fence */
    l->fence_mark = UINT64_MAX;
    l->fence_high = l->fence_low = 0;
    w.u.FENCE = (struct wire_FENCE){.run = j->at.run,
                                    .lane = lane,
                                    .generation = l->generation,
                                    .live = live,
                                    .placed = live && !bsp,
                                    .at = l->at,
                                    .clock = l->clock};
    if (!coord_call_start(&j->fleet->calls, &(struct coord_call){.context = j,
                                                                 .set_up = &j->setup,
                                                                 .request = w,
                                                                 .target = COORD_NOBODY,
                                                                 .owner = lane,
                                                                 .on_reply = fence_mark,
                                                                 .on_done = fence_done}))
        coord_end_fail(j, SHOAL_E_NOMEM, "no memory to fence lane %u", lane);
}

void coord_grant_fence_all(struct coord_job *j)
{
    struct coord_tasks *t = j->tasks;
    for (uint32_t l = 0; l < t->lanes && j->fleet->fatal == 0 && coord_phase_running(j); l++) {
        if (t->lane[l].state == LANE_CLOSING) /* a shard may have answered and forgotten it */
            coord_lane_closed(t, l);
        lane_leave(j, l);
    }
}

bool coord_grant_marks_known(const struct coord_job *j)
{
    enum coord_phase phase = j->at.phase;
    return j->laned == j->at.run && j->tasks->lanes > 0 && !j->spec.train.skip &&
           (phase == PHASE_EVAL || phase == PHASE_CUT || phase == PHASE_TEST ||
            phase == PHASE_DIGEST || phase == PHASE_GROW);
}

void coord_grant_worker_gone(struct coord_job *j, uint64_t worker)
{
    struct coord_tasks *t = j->tasks;
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].worker == worker &&
            (t->lane[l].state == LANE_HELD || t->lane[l].state == LANE_GRANTING))
            lane_leave(j, l);
    SHOAL_ASSERT(worker != 0 && coord_lane_held(t, worker) == 0);
    coord_eval_worker_gone(j->eval, worker);
    coord_objects_worker_gone(j, worker);
}

/* ---- a question without a lane --------------------------------------------------------------- */

/* Handlers of a question return true when it is answered already, or will be: a worker is told of a
 * lane once the lane is fenced. Else `reply` is sent, which says "wait" unless a handler has
 * changed it. */

/* The lane belongs to this worker now: the answer is its task, once the lane is fenced. */
static void lane_asked(struct coord_job *j, const struct coord_ask *a, uint32_t lane)
{
    struct coord_lane *l = &j->tasks->lane[lane];
    a->worker->asked_lane = lane;
    a->worker->asked_generation = l->generation;
    if (l->state == LANE_HELD) {
        answer_task(j, a->from, a->request->id, lane);
        return;
    }
    SHOAL_ASSERT(l->state == LANE_GRANTING);
    l->ask_peer = a->from;
    l->ask_id = a->request->id;
    l->ask_ns = coord_now_ns(j);
}

/* Answers a copy of an earlier question (sent again, or duplicated on the way). It must not be
 * granted another lane, of which the worker would never know. The ids of a worker's questions rise,
 * and it asks for one lane at a time. */
static bool next_copy(struct coord_job *j, const struct coord_ask *a)
{
    const struct coord_worker *w = a->worker;
    /* a former job's lane, which this job may not have */
    if (w->asked_generation == 0 || w->asked_lane >= j->tasks->lanes)
        return false;
    const struct coord_lane *l = &j->tasks->lane[w->asked_lane];
    if (l->worker != w->number || l->generation != w->asked_generation)
        return false; /* granted, and taken back since */
    if (l->state == LANE_GRANTING || !l->used)
        lane_asked(j, a, w->asked_lane);
    return true;
}

/* Returns the number of lanes that the worker holds; `used`: only those that it has asked with. */
static uint32_t lanes_of(const struct coord_tasks *t, uint64_t worker, bool used)
{
    uint32_t held = 0;
    for (uint32_t l = 0; l < t->lanes; l++)
        held += t->lane[l].worker == worker && t->lane[l].state == LANE_HELD &&
                (t->lane[l].used || !used);
    return held;
}

/* Returns a lane that was granted to the worker without its knowledge, as it seems; `batch` of its
 * question is the number of lanes that it says it holds. */
static uint32_t lane_unheard(const struct coord_job *j, const struct coord_ask *a)
{
    const struct coord_tasks *t = j->tasks;
    uint64_t now = coord_now_ns(j), worker = a->worker->number;
    bool fewer = a->request->u.LANE_NEXT.batch < lanes_of(t, worker, false);
    for (uint32_t i = 0; i < t->lanes; i++) {
        const struct coord_lane *l = &t->lane[i];
        bool granting =
            l->state == LANE_GRANTING && (l->ask_peer == 0 || now - l->ask_ns >= ANSWER_LOST_NS);
        bool unused =
            l->state == LANE_HELD && !l->used && fewer && now - l->answered_ns >= ANSWER_LOST_NS;
        if (l->worker == worker && (granting || unused))
            return i;
    }
    return COORD_NO_LANE;
}

/* True: the worker has dropped a lane that should be running (a shard refused it, or the worker
 * joined again under its number), and cannot say which. All its lanes are taken back, so that none
 * is left without a worker. */
static bool lanes_dropped(struct coord_job *j, const struct coord_ask *a)
{
    struct coord_tasks *t = j->tasks;
    uint64_t worker = a->worker->number, has = a->request->u.LANE_NEXT.batch;
    uint32_t used = lanes_of(t, worker, true);
    if (has >= used)
        return false;
    log_warn("worker %" PRIu64 " holds %" PRIu64 " lanes, not %u: they are taken back", worker, has,
             used);
    for (uint32_t l = 0; l < t->lanes && j->fleet->fatal == 0; l++)
        if (t->lane[l].worker == worker && t->lane[l].state == LANE_HELD && t->lane[l].used)
            lane_leave(j, l);
    coord_ring_lane_lost(j);
    return true;
}

/* Returns the lane that the worker gets now, or COORD_NO_LANE. */
static uint32_t lane_for(struct coord_job *j, struct coord_worker *w)
{
    struct coord_tasks *t = j->tasks;
    if (coord_ring_on(j))
        return coord_ring_pick(j, w->number);
    uint32_t live = coord_live_workers(j), share = coord_pace_share(j, w);
    coord_pace_expire(j);
    t->fair = (j->objects[WIRE_TRAIN].count + live - 1) / live;
    if (share == 0)
        return COORD_NO_LANE;
    return coord_lane_pick(t, w->number, share);
}

static bool next_lane(struct coord_job *j, const struct coord_ask *a)
{
    struct coord_tasks *t = j->tasks;
    struct coord_worker *w = a->worker;
    uint64_t now = coord_now_ns(j);
    SHOAL_ASSERT(j->at.phase == PHASE_TRAIN && w->asked_generation == 0);
    coord_replay_gate(j); /* before the first tick it is closed */
    uint32_t lane = lane_unheard(j, a);
    if (lane != COORD_NO_LANE) {
        lane_asked(j, a, lane);
        return true;
    }
    if (lanes_dropped(j, a) || coord_death_shunned(j, w))
        return false;
    lane = lane_for(j, w);
    if (lane == COORD_NO_LANE) {
        coord_pace_idle(j, w);
        return false;
    }
    coord_lane_grant(t, lane, w->number);
    coord_pace_granted(j, w);
    coord_stall_moved(w, now);
    if (w->rate_ns == 0) { /* examples are counted from here on */
        w->rated = false;
        w->rate_ns = now;
        w->rate_examples = w->figures.examples;
    }
    lane_asked(j, a, lane);
    log_info("lane %u to worker %" PRIu64 ", generation %" PRIu64, lane, w->number,
             t->lane[lane].generation);
    lane_fence(j, lane, t->mode == WIRE_BSP);
    return true;
}

/* Gives the worker the index of the split, or of an object of it; false: there is none to make. */
static bool index_give(struct coord_job *j, uint32_t split, struct coord_ask *a)
{
    struct wire_LANE_NEXT_reply *reply = &a->reply.u.LANE_NEXT_reply;
    struct coord_item *item = &j->objects[split].item;
    uint64_t now = coord_now_ns(j);
    if (j->spec.data.objects.of[split].on) {
        uint32_t object = coord_objects_next(j, split, a->worker->number);
        if (object == COORD_NO_OBJECT)
            return false;
        coord_objects_put(j, split, object, reply);
    } else if (coord_item_free(item, a->worker->number, now)) {
        coord_item_give(item, a->worker->number, now);
        coord_stall_moved(a->worker, now);
    } else {
        return false;
    }
    reply->kind = WIRE_NEXT_INDEX;
    reply->split = split;
    return true;
}

static void next_index(struct coord_job *j, struct coord_ask *a)
{
    for (uint32_t s = 0; s < JOB_SPLITS; s++)
        if (j->at.split[s].used != 0 && j->at.split[s].known == 0 && index_give(j, s, a))
            return;
}

static void next_eval(struct coord_job *j, struct coord_ask *a)
{
    struct wire_LANE_NEXT_reply *reply = &a->reply.u.LANE_NEXT_reply;
    struct coord_eval *v = j->eval;
    SHOAL_ASSERT(v->split == (j->at.phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST));
    v->fair = v->objects.count / coord_live_workers(j);
    uint32_t index = coord_eval_lease(v, a->worker->number, coord_now_ns(j));
    if (index == COORD_NO_EVAL)
        return;
    reply->kind = WIRE_NEXT_EVAL;
    reply->task = coord_eval_task_number(v, index);
    reply->split = v->split;
    reply->epoch = j->at.epoch;
    reply->position = v->task[index].position;
    reply->rows = v->task[index].rows;
    reply->unseen = true;
    if (v->task[index].object != COORD_NO_OBJECT)
        coord_objects_put(j, v->split, v->task[index].object, reply);
}

static bool next_without_lane(struct coord_job *j, struct coord_ask *a)
{
    struct coord_worker *w = a->worker;
    uint64_t id = a->request->id;
    if (id < w->asked_id)
        return true; /* a late copy: it was answered, or the worker has given it up */
    if (coord_stall_barred(j, w) || coord_goes_back(j))
        return false;
    bool copy = id == w->asked_id;
    if (!copy) {
        w->asked_id = id;
        w->asked_generation = 0;
    }
    switch (j->at.phase) {
    case PHASE_NONE:
    case PHASE_FINISH:
    case PHASE_DONE:
    case PHASE_FAILED:
        a->reply.u.LANE_NEXT_reply.kind = WIRE_NEXT_END;
        return false;
    case PHASE_INDEX:
        next_index(j, a);
        return false;
    case PHASE_GROW:
        (void)index_give(j, WIRE_TRAIN, a);
        return false;
    case PHASE_TRAIN:
        if (copy)
            return next_copy(j, a);
        return next_lane(j, a);
    case PHASE_EVAL:
    case PHASE_TEST:
        next_eval(j, a);
        return false;
    default:
        return false;
    }
}

/* ---- a question with a lane ------------------------------------------------------------------ */

static bool next_of_lane(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_LANE_NEXT *q = &a->request->u.LANE_NEXT;
    struct wire_LANE_NEXT_reply *reply = &a->reply.u.LANE_NEXT_reply;
    struct coord_tasks *t = j->tasks;
    struct coord_lane *l = q->lane < t->lanes ? &t->lane[q->lane] : NULL;
    bool held = j->at.phase == PHASE_TRAIN && l != NULL && l->state == LANE_HELD &&
                l->worker == a->worker->number && l->generation == q->generation;
    reply->lane = q->lane;
    reply->kind = coord_phase_over(j) ? WIRE_NEXT_END : WIRE_NEXT_LEAVE;
    if (!held || coord_goes_back(j)) /* its pushes belong to another worker, or are lost */
        return false;
    l->used = true;
    if (l->task != COORD_NO_TASK && q->batch >= coord_task_last(&t->task[l->task]))
        coord_task_pushed(t, q->lane);
    bool leaves = l->task == COORD_NO_TASK && coord_pace_leaves(j, q->lane);
    if (!leaves && lane_task(j, q->lane)) {
        answer_task(j, a->from, a->request->id, q->lane);
        return true;
    }
    if (j->fleet->fatal == 0)
        lane_leave(j, q->lane);
    return false;
}

int coord_grant_next(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_LANE_NEXT *q = &a->request->u.LANE_NEXT;
    int rc = coord_heard(j, a, q->pass);
    if (rc != 0 && q->lane == COORD_NO_LANE)
        return rc;
    a->reply.u.LANE_NEXT_reply = (struct wire_LANE_NEXT_reply){
        .kind = WIRE_NEXT_WAIT, .retry_ms = coord_retry_ms(j), .run = j->at.run};
    if (rc != 0) { /* frozen for longer than its lease: other workers have its lanes now */
        a->reply.u.LANE_NEXT_reply.kind = WIRE_NEXT_LEAVE;
        a->reply.u.LANE_NEXT_reply.lane = q->lane;
    } else if (a->worker->released) { /* its lanes go to others when it leaves */
        a->reply.u.LANE_NEXT_reply.kind = WIRE_NEXT_END;
    } else if (q->lane == COORD_NO_LANE) {
        a->silent = next_without_lane(j, a);
    } else {
        a->silent = next_of_lane(j, a);
    }
    return 0;
}
