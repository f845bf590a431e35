/* grant.c: LANE_NEXT and the fences.
 *
 * 1. A raised generation is stored, then fenced on every shard, then told to a worker; a task is
 *    stored before it is told. [test: coord_restarted_coordinator_goes_on] [assert: answer_task]
 * 2. In bsp every lane is always live; in async and ssp it is live while somebody holds it.
 *    [assert: lane_fence]
 * 3. A lane's clocks are the same on all shards. [test: coord_lane_has_one_clock_on_all_shards] */
#include "server/coord/grant.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/plant.h"
#include "server/coord/back.h"
#include "server/coord/core.h"
#include "server/coord/death.h"
#include "server/coord/phase.h"
#include "server/coord/stall.h"
#include "server/coord/work.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* a grant answered this long ago and never used was perhaps never heard */
#define ANSWER_LOST_NS UINT64_C(500000000)
/* after this a free lane goes to whoever asks: those it was kept for do not come */
#define SHARE_WAIT_NS UINT64_C(2000000000)

static void lane_fence(struct coord *c, uint32_t lane, bool live);

bool coord_grant_lanes_put(struct coord *c)
{
    struct coord_lane_record record[LIMIT_LANES];
    struct coord_tasks *t = &c->job.tasks;
    SHOAL_ASSERT(t->lanes > 0 && t->lanes <= LIMIT_LANES);
    for (uint32_t l = 0; l < t->lanes; l++)
        record[l] = (struct coord_lane_record){t->lane[l].generation, t->lane[l].next_batch};
    if (!coord_put(c, "lanes", record, t->lanes * sizeof record[0]))
        return false;
    for (uint32_t l = 0; l < t->lanes; l++)
        t->lane[l].stored = t->lane[l].generation;
    return true;
}

bool coord_grant_task_put(struct coord *c, uint32_t index, bool promised)
{
    struct coord_task_record record;
    char key[COORD_KEY_MAX];
    coord_task_to_record(&c->job.tasks, index, c->job.at.run, &record);
    (void)snprintf(key, sizeof key, "task/%u", index);
    if (!promised)
        return coord_note(c, key, &record, sizeof record);
    SHOAL_ASSERT(record.first_batch != 0 && record.lane < c->job.tasks.lanes);
    if (!coord_put(c, key, &record, sizeof record))
        return false;
    c->job.tasks.task[index].stored = true;
    return true;
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct coord *c, peer_t to, uint64_t id, struct wire_LANE_NEXT_reply *reply)
{
    struct wire w = {.type = WIRE_TYPE_LANE_NEXT, .reply = true, .id = id};
    reply->run = c->job.at.run;
    w.u.LANE_NEXT_reply = *reply;
    coord_send(c, to, wire_encode(&w));
}

static void answer_kind(struct coord *c, peer_t to, uint64_t id, enum wire_next kind, uint32_t lane)
{
    struct wire_LANE_NEXT_reply reply = {.kind = kind, .lane = lane, .retry_ms = coord_retry_ms(c)};
    SHOAL_ASSERT(kind == WIRE_NEXT_WAIT || kind == WIRE_NEXT_END || kind == WIRE_NEXT_LEAVE);
    answer(c, to, id, &reply);
}

/* The lane's current task, to its holder. */
static void answer_task(struct coord *c, peer_t to, uint64_t id, uint32_t lane)
{
    struct coord_lane *l = &c->job.tasks.lane[lane];
    SHOAL_ASSERT(l->state == LANE_HELD && l->stored == l->generation); /* 1; task.h, 2 */
    SHOAL_ASSERT(c->job.at.phase == PHASE_TRAIN && l->task < c->job.tasks.tasks);
    const struct coord_task *task = &c->job.tasks.task[l->task];
    SHOAL_ASSERT(task->stored && task->lane == lane && !task->pushed); /* 1 */
    struct wire_LANE_NEXT_reply reply = {.kind = WIRE_NEXT_TASK,
                                         .lane = lane,
                                         .generation = l->generation,
                                         .mark = l->mark,
                                         .task = coord_task_number(&c->job.tasks, l->task),
                                         .epoch = c->job.tasks.epoch,
                                         .split = WIRE_TRAIN,
                                         .position = task->position,
                                         .rows = task->rows,
                                         .first_batch = task->first_batch,
                                         .batch_count = task->batch_count,
                                         .lr_scale = (float)c->job.at.lr_scale,
                                         .time_limit = coord_times_limit_now(&c->job)};
    if (task->object != COORD_NO_OBJECT)
        coord_objects_put(&c->job, WIRE_TRAIN, task->object, &reply);
    l->answered_ns = env_now_ns(c->env);
    if (coord_lease_note(c, lane))
        answer(c, to, id, &reply);
}

/* ---- fences ---------------------------------------------------------------------------------- */

static void lane_leave(struct coord *c, uint32_t lane)
{
    coord_call_cancel(&c->calls, WIRE_TYPE_FENCE, lane);
    coord_lane_close(&c->job.tasks, lane);
    lane_fence(c, lane, c->job.tasks.mode == WIRE_BSP);
}

/* Gives the lane its next task when it has none; false when the epoch has none left (or the store
 * failed). */
static bool lane_task(struct coord *c, uint32_t lane)
{
    struct coord_tasks *t = &c->job.tasks;
    SHOAL_ASSERT(t->lane[lane].state == LANE_HELD);
    if (t->lane[lane].task != COORD_NO_TASK)
        return true;
    uint32_t index = coord_task_append(t, lane);
    return index != COORD_NO_TASK && coord_grant_task_put(c, index, true);
}

/* Every shard has the generation: the grant takes effect. What a dead worker left done everywhere
 * is not done again. */
static void lane_granted(struct coord *c, uint32_t lane, uint64_t mark)
{
    struct coord_tasks *t = &c->job.tasks;
    struct coord_lane *l = &t->lane[lane];
    coord_lane_granted(t, lane, mark);
    if (l->task != COORD_NO_TASK && mark >= coord_task_last(&t->task[l->task]))
        coord_task_pushed(t, lane, env_now_ns(c->env));
    peer_t peer = l->ask_peer;
    uint64_t id = l->ask_id;
    l->ask_peer = 0;
    if (!lane_task(c, lane)) {
        lane_leave(c, lane);
        if (peer != 0)
            answer_kind(c, peer, id, WIRE_NEXT_WAIT, 0);
        return;
    }
    if (peer != 0)
        answer_task(c, peer, id, lane);
}

/* A fence that is open is of its lane as it stands: it is taken back when the lane moves on, and
 * with the job. */
static bool fence_stands(const struct coord *c, const struct coord_call *call)
{
    const struct coord_tasks *t = &c->job.tasks;
    return coord_phase_running(c) && call->owner < t->lanes &&
           t->lane[call->owner].generation == call->request.u.FENCE.generation;
}

static void fence_mark(void *context, const struct coord_call *call, uint32_t shard,
                       const struct wire *reply, const struct msg *m)
{
    struct coord *c = context;
    struct coord_lane *l = &c->job.tasks.lane[call->owner];
    (void)m;
    SHOAL_ASSERT(fence_stands(c, call));
    if (reply->u.FENCE_reply.mark < l->fence_mark) {
        l->fence_mark = reply->u.FENCE_reply.mark;
        l->fence_shard = shard;
    }
    if (!reply->u.FENCE_reply.places && !l->placed)
        l->own = true;
    if (reply->u.FENCE_reply.low > l->fence_low)
        l->fence_low = reply->u.FENCE_reply.low;
    if (reply->u.FENCE_reply.high > l->fence_high) {
        l->fence_high = reply->u.FENCE_reply.high;
        l->fence_high_shard = shard;
    }
}

/* Behind its last task that was pushed no lane can go back. */
static bool pushes_lost(struct coord *c, const struct coord_lane *l, uint32_t lane)
{
    const struct coord_tasks *t = &c->job.tasks;
    uint64_t start = l->task == COORD_NO_TASK ? l->next_batch : t->task[l->task].first_batch;
    if (l->fence_mark + 1 >= start)
        return false;
    coord_back_want(c,
                    "lane %u stands at batch %" PRIu64 " on server %s, but batch %" PRIu64
                    " was acknowledged: a server has lost pushes",
                    lane, l->fence_mark, c->members.shard[l->fence_shard].server, start - 1);
    return true;
}

/* A shard gives rows as they were before its newest clock, no older ones. A lane's pushes of a
 * batch are acknowledged everywhere before its next, and no part of a clock is applied before all
 * lanes push of it (server/shard/bsp.h; a server of the release before does, when it is full), so
 * it takes a loss to be further behind. */
static bool clocks_apart(struct coord *c, const struct coord_lane *l, uint32_t lane)
{
    const struct coord_shard *s = c->members.shard;
    if (l->fence_high <= l->fence_mark + 1 || PLANTED("clocks_apart"))
        return false;
    coord_back_want(c,
                    "lane %u stands at clock %" PRIu64 " on server %s, and server %s has clock "
                    "%" PRIu64 ": power took what was not on a disk yet, and rows can be had as of "
                    "one clock before",
                    lane, l->fence_mark, s[l->fence_shard].server, s[l->fence_high_shard].server,
                    l->fence_high);
    return true;
}

/* Where it begins: at the smallest clock of the lanes that are live, by what the shard furthest on
 * says, or, where none of them is live on a shard yet, of those that are placed. Did each shard go
 * by its own marks, which are not the same where a worker died amid its pushes, two lanes could
 * wait for each other on two shards without end; as they can while one is of the release before,
 * which knows no other way: then all do, at one fence, which keeps them near each other. */
static void lane_place(struct coord *c, uint32_t lane)
{
    struct coord_tasks *t = &c->job.tasks;
    struct coord_lane *l = &t->lane[lane];
    uint64_t low = UINT64_MAX;
    for (uint32_t i = 0; i < t->lanes && l->fence_low == 0; i++) {
        const struct coord_lane *o = &t->lane[i];
        bool placed = o->placed && !PLANTED("begins_alone") &&
                      (o->state == LANE_GRANTING || o->state == LANE_HELD);
        low = placed && o->clock < low ? o->clock : low;
    }
    l->at = l->fence_mark;
    l->clock = l->fence_low != 0 ? l->fence_low : low != UINT64_MAX ? low : l->fence_mark;
    l->placed = true;
    lane_fence(c, lane, true);
}

static void lane_closed(struct coord *c, uint32_t lane)
{
    if (!coord_death_placed(c, lane, c->job.tasks.lane[lane].fence_mark))
        coord_lane_closed(&c->job.tasks, lane);
}

static void fence_done(void *context, const struct coord_call *call, int status, const char *text)
{
    struct coord *c = context;
    uint32_t lane = (uint32_t)call->owner;
    struct coord_lane *l = &c->job.tasks.lane[lane];
    SHOAL_ASSERT(fence_stands(c, call));
    if (status != 0) {
        coord_end_fail(c, status, "fence of lane %u: %s", lane, text);
        return;
    }
    if (pushes_lost(c, l, lane) || clocks_apart(c, l, lane))
        return;
    if (l->state == LANE_GRANTING && !l->placed && c->job.tasks.mode != WIRE_BSP)
        lane_place(c, lane);
    else if (l->state == LANE_GRANTING)
        lane_granted(c, lane, l->fence_mark);
    else
        lane_closed(c, lane);
}

static void lane_fence(struct coord *c, uint32_t lane, bool live)
{
    struct wire w = {.type = WIRE_TYPE_FENCE};
    struct coord_lane *l = &c->job.tasks.lane[lane];
    SHOAL_ASSERT(l->state == LANE_GRANTING || l->state == LANE_CLOSING);
    bool bsp = c->job.tasks.mode == WIRE_BSP;
    SHOAL_ASSERT(live == (bsp || (l->state == LANE_GRANTING && l->placed))); /* 2, 3 */
    if (l->stored != l->generation && !coord_grant_lanes_put(c))             /* invariant 1 */
        return;
    if (!coord_phase_running(c))
        return; /* its run is dropped: no server would ever say that it is fenced */
    l->fence_mark = UINT64_MAX;
    l->fence_high = l->fence_low = 0;
    w.u.FENCE = (struct wire_FENCE){.run = c->job.at.run,
                                    .lane = lane,
                                    .generation = l->generation,
                                    .live = live,
                                    .placed = live && !bsp && !l->own && !PLANTED("lane_unplaced"),
                                    .at = l->at,
                                    .clock = l->clock};
    if (!coord_call_start(&c->calls, &(struct coord_call){.request = w,
                                                          .target = COORD_NOBODY,
                                                          .owner = lane,
                                                          .on_reply = fence_mark,
                                                          .on_done = fence_done}))
        coord_end_fail(c, SHOAL_E_NOMEM, "no memory to fence lane %u", lane);
}

void coord_grant_fence_all(struct coord *c)
{
    struct coord_tasks *t = &c->job.tasks;
    for (uint32_t l = 0; l < t->lanes && c->fatal == 0 && coord_phase_running(c); l++) {
        if (t->lane[l].state == LANE_CLOSING) /* a shard may have answered and forgotten */
            coord_lane_closed(t, l);
        lane_leave(c, l);
    }
}

bool coord_grant_marks_known(const struct coord *c)
{
    enum coord_phase phase = c->job.at.phase;
    return c->job.laned == c->job.at.run && c->job.tasks.lanes > 0 && !c->job.spec.train.skip &&
           (phase == PHASE_EVAL || (phase == PHASE_CUT && !PLANTED("cut_unnoticed")) ||
            phase == PHASE_TEST || phase == PHASE_DIGEST || phase == PHASE_GROW);
}

void coord_grant_worker_gone(struct coord *c, uint64_t worker)
{
    struct coord_tasks *t = &c->job.tasks;
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].worker == worker &&
            (t->lane[l].state == LANE_HELD ||
             (t->lane[l].state == LANE_GRANTING && !PLANTED("granted_to_the_dead"))))
            lane_leave(c, l);
    SHOAL_ASSERT(worker != 0 && coord_lane_held(t, worker) == 0);
    coord_eval_worker_gone(&c->job.eval, worker);
    coord_objects_worker_gone(&c->job, worker);
    for (uint32_t s = 0; s < 3; s++)
        if (c->job.index[s].worker == worker && !PLANTED("indexed_by_the_dead"))
            c->job.index[s].worker = 0;
}

/* ---- a question without a lane --------------------------------------------------------------- */

static void ask_note(struct coord *c, struct coord_lane *l, peer_t from, uint64_t id)
{
    SHOAL_ASSERT(l->state == LANE_GRANTING);
    l->ask_peer = from;
    l->ask_id = id;
    l->ask_ns = env_now_ns(c->env);
}

/* A copy of a question that was dealt with (sent again, or doubled on the way) must not be granted
 * one more lane: nobody would hear of it. Ids of a worker's questions rise, and it asks for one
 * lane at a time. */
static void next_copy(struct coord *c, peer_t from, const struct wire *request,
                      const struct coord_worker *w)
{
    /* of a former job's it may be a lane that this one has not */
    if (w->asked_generation == 0 || w->asked_lane >= c->job.tasks.lanes) {
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        return;
    }
    struct coord_lane *l = &c->job.tasks.lane[w->asked_lane];
    if (l->worker != w->number || l->generation != w->asked_generation)
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0); /* granted, and taken back since */
    else if (l->state == LANE_GRANTING)
        ask_note(c, l, from, request->id);
    else if (!l->used)
        answer_task(c, from, request->id, w->asked_lane);
}

static void asked_note(struct coord_worker *w, uint32_t lane, uint64_t generation)
{
    w->asked_lane = lane;
    w->asked_generation = generation;
}

/* A grant of this worker that it seems not to have heard of: `held` is how many lanes it says it
 * holds. Answered again, or the answer to come is led to the newer question. */
static bool next_repeat(struct coord *c, peer_t from, const struct wire *request,
                        struct coord_worker *w)
{
    struct coord_tasks *t = &c->job.tasks;
    uint64_t now = env_now_ns(c->env);
    uint32_t held = 0, used = 0;
    for (uint32_t l = 0; l < t->lanes; l++) {
        bool his = t->lane[l].worker == w->number && t->lane[l].state == LANE_HELD;
        held += his;
        used += his && t->lane[l].used;
    }
    for (uint32_t i = 0; i < t->lanes; i++) {
        struct coord_lane *l = &t->lane[i];
        if (l->worker != w->number)
            continue;
        if (l->state == LANE_GRANTING && (l->ask_peer == 0 || now - l->ask_ns >= ANSWER_LOST_NS)) {
            asked_note(w, i, l->generation);
            ask_note(c, l, from, request->id);
            return true;
        }
        if (l->state == LANE_HELD && !l->used && request->u.LANE_NEXT.batch < held &&
            now - l->answered_ns >= ANSWER_LOST_NS) {
            asked_note(w, i, l->generation);
            answer_task(c, from, request->id, i);
            return true;
        }
    }
    if (request->u.LANE_NEXT.batch >= used)
        return false;
    /* It has dropped a lane that we think it runs (a shard refused it, or it joined again under its
     * number), and cannot say which: all go back, so that none is held by nobody for ever. */
    log_warn("worker %" PRIu64 " holds %" PRIu64 " lanes, not %u: they are taken back", w->number,
             request->u.LANE_NEXT.batch, used);
    for (uint32_t l = 0; l < t->lanes && c->fatal == 0; l++)
        if (t->lane[l].worker == w->number && t->lane[l].state == LANE_HELD && t->lane[l].used)
            lane_leave(c, l);
    answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
    return true;
}

static void next_lane(struct coord *c, peer_t from, const struct wire *request,
                      struct coord_worker *w)
{
    struct coord_tasks *t = &c->job.tasks;
    uint32_t live = coord_live_workers(c);
    uint32_t share = (t->lanes + live - 1) / live;
    SHOAL_ASSERT(c->job.at.phase == PHASE_TRAIN && w->asked_generation == 0);
    coord_replay_gate(c); /* before the first tick it is closed */
    if (next_repeat(c, from, request, w))
        return;
    if (env_now_ns(c->env) - t->planned_ns > SHARE_WAIT_NS)
        share = t->lanes;
    t->fair = (c->job.objects[WIRE_TRAIN].count + live - 1) / live;
    uint32_t lane =
        coord_death_shunned(c, w) ? COORD_NO_LANE : coord_lane_pick(t, w->number, share);
    if (lane == COORD_NO_LANE) {
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        return;
    }
    coord_lane_grant(t, lane, w->number);
    coord_stall_moved(w, env_now_ns(c->env));
    if (w->rate_ns == 0) { /* examples are counted from here on */
        w->rate_ns = env_now_ns(c->env);
        w->rate_examples = w->figures.examples;
    }
    asked_note(w, lane, t->lane[lane].generation);
    ask_note(c, &t->lane[lane], from, request->id);
    log_info("lane %u to worker %" PRIu64 ", generation %" PRIu64, lane, w->number,
             t->lane[lane].generation);
    lane_fence(c, lane, t->mode == WIRE_BSP);
}

/* False: it was answered. */
static bool objects_given(struct coord *c, uint32_t split, peer_t from, const struct wire *request,
                          uint64_t worker)
{
    uint32_t object = coord_objects_next(c, split, worker);
    struct wire_LANE_NEXT_reply reply = {.kind = WIRE_NEXT_INDEX, .split = split};
    if (object == COORD_NO_OBJECT)
        return true;
    coord_objects_put(&c->job, split, object, &reply);
    answer(c, from, request->id, &reply);
    return false;
}

static void next_index(struct coord *c, peer_t from, const struct wire *request,
                       struct coord_worker *w)
{
    uint64_t worker = w->number;
    uint64_t now = env_now_ns(c->env);
    for (uint32_t s = 0; s < 3; s++) {
        if (c->job.at.split[s].used == 0 || c->job.at.split[s].known != 0)
            continue;
        if (c->job.spec.data.objects.of[s].on) {
            if (!objects_given(c, s, from, request, worker))
                return;
            continue;
        }
        bool again = c->job.index[s].worker == worker &&
                     now - c->job.index[s].given_ns > COORD_EVAL_AGAIN_NS;
        if (!again && c->job.index[s].worker != 0)
            continue;
        c->job.index[s].worker = worker;
        c->job.index[s].given_ns = now;
        coord_stall_moved(w, now);
        struct wire_LANE_NEXT_reply reply = {.kind = WIRE_NEXT_INDEX, .split = s};
        answer(c, from, request->id, &reply);
        return;
    }
    answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
}

static void next_eval(struct coord *c, peer_t from, const struct wire *request, uint64_t worker)
{
    struct coord_eval *v = &c->job.eval;
    SHOAL_ASSERT(v->split == (c->job.at.phase == PHASE_EVAL ? WIRE_VALID : WIRE_TEST));
    v->fair = v->objects.count / coord_live_workers(c);
    uint32_t index = coord_eval_lease(v, worker, env_now_ns(c->env));
    if (index == COORD_NO_EVAL) {
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        return;
    }
    struct wire_LANE_NEXT_reply reply = {.kind = WIRE_NEXT_EVAL,
                                         .task = coord_eval_task_number(v, index),
                                         .split = v->split,
                                         .epoch = c->job.at.epoch,
                                         .position = v->task[index].position,
                                         .rows = v->task[index].rows,
                                         .unseen = true};
    if (v->task[index].object != COORD_NO_OBJECT)
        coord_objects_put(&c->job, v->split, v->task[index].object, &reply);
    answer(c, from, request->id, &reply);
}

static void next_without_lane(struct coord *c, peer_t from, const struct wire *request,
                              struct coord_worker *w)
{
    if (request->id < w->asked_id)
        return; /* a late copy: it was answered, or the worker has given it up */
    if (coord_stall_barred(c, w) || coord_goes_back(c)) {
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        return;
    }
    bool copy = request->id == w->asked_id;
    if (!copy) {
        w->asked_id = request->id;
        asked_note(w, 0, 0);
    }
    switch (c->job.at.phase) {
    case PHASE_NONE:
    case PHASE_FINISH:
    case PHASE_DONE:
    case PHASE_FAILED:
        answer_kind(c, from, request->id, WIRE_NEXT_END, 0);
        break;
    case PHASE_INDEX:
        next_index(c, from, request, w);
        break;
    case PHASE_GROW:
        if (objects_given(c, WIRE_TRAIN, from, request, w->number))
            answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        break;
    case PHASE_TRAIN:
        if (copy)
            next_copy(c, from, request, w);
        else
            next_lane(c, from, request, w);
        break;
    case PHASE_EVAL:
    case PHASE_TEST:
        next_eval(c, from, request, w->number);
        break;
    default:
        answer_kind(c, from, request->id, WIRE_NEXT_WAIT, 0);
        break;
    }
}

/* ---- a question with a lane ------------------------------------------------------------------ */

static void next_of_lane(struct coord *c, peer_t from, const struct wire *request, uint64_t worker)
{
    const struct wire_LANE_NEXT *q = &request->u.LANE_NEXT;
    struct coord_tasks *t = &c->job.tasks;
    struct coord_lane *l = q->lane < t->lanes ? &t->lane[q->lane] : NULL;
    if (c->job.at.phase != PHASE_TRAIN || l == NULL || l->state != LANE_HELD ||
        l->worker != worker || l->generation != q->generation) {
        answer_kind(c, from, request->id, coord_phase_over(c) ? WIRE_NEXT_END : WIRE_NEXT_LEAVE,
                    q->lane);
        return;
    }
    if (coord_goes_back(c)) { /* what it pushed is in vain */
        answer_kind(c, from, request->id, WIRE_NEXT_LEAVE, q->lane);
        return;
    }
    l->used = true;
    if (l->task != COORD_NO_TASK && q->batch >= coord_task_last(&t->task[l->task]))
        coord_task_pushed(t, q->lane, env_now_ns(c->env));
    if (lane_task(c, q->lane)) {
        answer_task(c, from, request->id, q->lane);
    } else if (c->fatal == 0) {
        lane_leave(c, q->lane);
        answer_kind(c, from, request->id, WIRE_NEXT_LEAVE, q->lane);
    }
}

int coord_grant_next(struct coord *c, struct coord_ask *a)
{
    const struct wire_LANE_NEXT *q = &a->request->u.LANE_NEXT;
    int rc = coord_work_known(c, a, q->pass);
    if (rc != 0 && q->lane == COORD_NO_LANE)
        return rc;
    a->silent = true; /* the answer may wait for a fence */
    if (rc != 0)      /* frozen for longer than its lease: its lanes are others' now */
        answer_kind(c, a->from, a->request->id, WIRE_NEXT_LEAVE, q->lane);
    else if (q->lane == COORD_NO_LANE)
        next_without_lane(c, a->from, a->request, a->worker);
    else
        next_of_lane(c, a->from, a->request, a->worker->number);
    return 0;
}
