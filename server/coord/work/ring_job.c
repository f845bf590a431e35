/* ring_job.c: gathers the workers of a job, and lets them rest; ring_ask.c has their message. */
#include "server/coord/work/ring_job.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/death.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/ring_inner.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char KEY[] = "ring";

bool coord_ring_on(const struct coord_job *j)
{
    return j->parsed && j->spec.train.allreduce && !j->spec.train.skip;
}

struct coord_ring_asker *coord_ring_asker_of(const struct coord_job *j, uint64_t worker)
{
    for (uint32_t i = 0; i < j->ring->count; i++)
        if (j->ring->asker[i].worker == worker)
            return &j->ring->asker[i];
    return NULL;
}

void coord_ring_gone(struct coord_job *j, uint64_t worker)
{
    struct coord_ring_job *r = j->ring;
    struct coord_ring_asker *a = coord_ring_asker_of(j, worker);
    if (a != NULL)
        *a = r->asker[--r->count];
}

void coord_ring_unable(struct coord_job *j, const struct coord_worker *w, const char *text)
{
    if (coord_ring_on(j))
        coord_unable_note(&j->ring->unable, w->name, text, coord_now_ns(j));
}

/* ---- the store ------------------------------------------------------------------------------- */

bool coord_ring_put(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    struct coord_ring_record record;
    coord_ring_to_record(&r->ring, j->at.run, &record);
    if (!coord_job_put(j, KEY, &record, sizeof record))
        return false;
    r->stored = r->ring.number;
    r->news++;
    return true;
}

/* Makes the ring ready for its first use. `news` is drawn, so that no answer of an earlier
 * coordinator counts as seen. */
static void ring_ready(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    if (r->news == 0)
        r->news = env_random(j->fleet->env) >> 1 | 1;
    if (r->ring.lanes != 0)
        return;
    coord_ring_open(&r->ring, j->tasks->lanes);
    r->ring.sharded = j->spec.train.sharded;
    r->rested_ns = coord_now_ns(j);
    r->published_ns = coord_now_ns(j);
}

int coord_ring_load(struct coord_job *j, struct err *e)
{
    struct coord_ring_record record;
    struct coord_ring_job *r = j->ring;
    if (!coord_ring_on(j))
        return 0;
    ring_ready(j);
    int rc = coord_store_get_fixed(j->store, KEY, &record, sizeof record, e);
    if (rc == SHOAL_E_NOT_FOUND)
        return 0;
    if (rc == 0 && coord_ring_from_record(&r->ring, j->at.run, &record))
        r->stored = r->ring.number;
    r->former = r->ring.count;
    /* this coordinator knows no worker yet, and they come under other numbers */
    (void)coord_ring_gather(&r->ring, NULL, 0);
    return rc;
}

void coord_ring_anew(struct coord_job *j)
{
    if (coord_ring_on(j))
        j->ring->former = j->ring->ring.count;
}

void coord_ring_saved(const struct coord_job *j, bool marks, struct coord_ring_record *out)
{
    struct coord_ring was = j->ring->ring;
    was.state = RING_NONE;
    was.count = 0;
    was.source = COORD_RING_TABLES;
    was.step = was.stood = 0;
    if (!marks)
        was.published = 0;
    coord_ring_to_record(&was, j->at.run, out);
    if (out->lanes == 0)
        out->lanes = j->tasks->lanes;
}

/* ---- digests --------------------------------------------------------------------------------- */

static const char *member_name(struct coord_job *j, uint32_t member)
{
    const struct coord_worker *w =
        coord_worker_find(&j->workers, j->ring->ring.member[member].worker);
    if (w == NULL)
        return "that has gone";
    return w->name;
}

static void wrong_mark(struct coord_job *j, uint32_t member, uint64_t step)
{
    struct coord_ring_asker *a = coord_ring_asker_of(j, j->ring->ring.member[member].worker);
    if (a == NULL || a->wrong != 0)
        return;
    a->wrong = step;
    log_warn("the network of worker %s differs from that of most others after step %" PRIu64
             ": the ring goes on without it",
             member_name(j, member), step);
}

void coord_ring_verdict(struct coord_job *j, const struct coord_digest_verdict *v)
{
    uint32_t count = j->ring->ring.count;
    for (uint32_t i = 0; i < count && v->word == DIGESTS_WRONG; i++)
        if ((v->wrong >> i & 1) != 0)
            wrong_mark(j, i, v->step);
    if (v->word == DIGESTS_LOST)
        coord_back_want(j,
                        "the networks of workers %s and %s differ after step %" PRIu64
                        ", and most workers agree on none: a machine computes or keeps something "
                        "wrong; test the memory and the processor of both",
                        member_name(j, v->one), member_name(j, v->other), v->step);
}

/* The members change: what they have told decides. True: the job goes back. */
static bool digests_close(struct coord_job *j)
{
    const struct coord_digest_verdict v = coord_digests_close(&j->ring->digests);
    coord_ring_verdict(j, &v);
    return coord_goes_back(j);
}

/* ---- gathering ------------------------------------------------------------------------------- */

/* Returns the number of workers that can be members. */
static uint32_t able(struct coord_job *j, uint64_t worker[COORD_RING_ASKERS])
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->ring->count; i++) {
        uint64_t number = j->ring->asker[i].worker;
        const struct coord_worker *w = coord_worker_find(&j->workers, number);
        if (w != NULL && w->endpoint[0] != 0 && j->ring->asker[i].wrong == 0 &&
            !coord_stall_barred(j, w) && !coord_death_shunned(j, w))
            worker[count++] = number;
    }
    return count;
}

static bool any_member(const struct coord_ring *r, const uint64_t *worker, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (coord_ring_find(r, worker[i]) != NULL)
            return true;
    return false;
}

/* The members are others, or there are none: stores that, and takes their lanes from those that do
 * not hold them any more. A grant that is under way was made by the former ring. */
static void changed(struct coord_job *j, const uint64_t *holder)
{
    struct coord_ring_job *r = j->ring;
    struct coord_tasks *t = j->tasks;
    coord_rest_end(&r->rest);
    if (!coord_ring_put(j)) /* 1: before the fences, in one transaction */
        return;
    for (uint32_t l = 0; l < t->lanes && j->fleet->fatal == 0; l++)
        if (t->lane[l].state == LANE_GRANTING || coord_ring_holder(&r->ring, l) != holder[l])
            coord_grant_lane_moved(j, l);
}

/* True when a ring may begin: all workers that the job expects are there, and as many as the former
 * ring had, because one of those may be the only one that has the network; or it has waited for a
 * lease. */
static bool begins(struct coord_job *j, uint32_t count)
{
    struct coord_ring_job *r = j->ring;
    uint64_t now = coord_now_ns(j);
    if (count == 0) {
        r->waits_ns = 0;
        return false;
    }
    if (r->waits_ns == 0)
        r->waits_ns = now;
    uint32_t wanted = MAX(coord_live_workers(j), r->former);
    return count >= wanted || now - r->waits_ns >= coord_lease_ns(j);
}

static void gather(struct coord_job *j)
{
    uint64_t worker[COORD_RING_ASKERS], holder[LIMIT_LANES];
    struct coord_ring_job *r = j->ring;
    uint32_t count = able(j, worker);
    if (r->ring.state == RING_STANDS && (r->again || coord_ring_changes(&r->ring, worker, count))) {
        if (digests_close(j))
            return;
        count = able(j, worker);
    }
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        holder[l] = coord_ring_holder(&r->ring, l);
    if (r->ring.state != RING_NONE && !any_member(&r->ring, worker, count)) {
        (void)coord_ring_gather(&r->ring, worker, 0);
        log_info("ring %" PRIu64 ": all members have gone", r->ring.number);
        changed(j, holder);
        return;
    }
    if (r->ring.state == RING_NONE && !begins(j, count))
        return;
    if (!coord_ring_gather(&r->ring, worker, count)) {
        if (!r->again)
            return;
        coord_ring_again(&r->ring);
    }
    r->again = false;
    r->former = 0;
    log_info("ring %" PRIu64 " gathers: %u workers", r->ring.number, r->ring.count);
    r->waits_ns = 0;
    changed(j, holder);
}

/* ---- standing -------------------------------------------------------------------------------- */

/* Lanes that no worker holds go on behind the ring's step. */
static void lanes_place(struct coord_job *j)
{
    struct coord_tasks *t = j->tasks;
    uint64_t step = coord_ring_at(&j->ring->ring);
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state != LANE_HELD && !coord_task_again(t, l, step + 1)) {
            coord_back_want(j,
                            "no worker has the network any more, the tables have it as of step "
                            "%" PRIu64 ", and what was trained since belongs to an earlier epoch",
                            step);
            return;
        }
}

void coord_ring_stood(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    const char *source = "the tables";
    SHOAL_ASSERT(j->at.phase == PHASE_TRAIN && r->ring.state == RING_STANDS);
    coord_digests_open(&r->digests, r->ring.count);
    if (r->ring.source != COORD_RING_TABLES)
        source = "a member";
    log_info("ring %" PRIu64 " stands: %u workers, step %" PRIu64 " from %s", r->ring.number,
             r->ring.count, r->ring.step, source);
    if (!coord_ring_put(j))
        return;
    /* members that had a part of the network hold lanes still, which go back with it */
    for (uint32_t l = 0; l < j->tasks->lanes && r->ring.sharded && j->fleet->fatal == 0; l++)
        if (r->ring.source == COORD_RING_TABLES)
            coord_grant_lane_moved(j, l);
    if (j->fleet->fatal == 0)
        lanes_place(j);
}

void coord_ring_marks(struct coord_job *j, uint64_t low, uint64_t high)
{
    struct coord_ring_job *r = j->ring;
    if (low != high) {
        coord_back_want(j,
                        "the tables have the network half as of step %" PRIu64
                        " and half as of step %" PRIu64
                        ": the workers ended while they wrote it, and none has it any more",
                        low, high);
        return;
    }
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        if (j->tasks->lane[l].state == LANE_GRANTING || j->tasks->lane[l].state == LANE_HELD)
            return; /* another member has read this step, and goes on from it */
    coord_ring_found(&r->ring, low);
    coord_ring_stood(j);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

bool coord_ring_ready(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring *r = &j->ring->ring;
    const struct coord_ring_asker *a = coord_ring_asker_of(j, worker);
    return r->state == RING_STANDS && a != NULL && a->ring == r->number && a->has &&
           a->of == r->number && a->step >= coord_ring_at(r);
}

void coord_ring_lane_lost(struct coord_job *j)
{
    j->ring->again = coord_ring_on(j) && j->ring->ring.state != RING_NONE;
}

uint32_t coord_ring_pick(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring_member *m = coord_ring_find(&j->ring->ring, worker);
    const struct coord_tasks *t = j->tasks;
    if (m == NULL || !coord_ring_ready(j, worker))
        return COORD_NO_LANE;
    for (uint32_t l = m->first; l < m->first + m->lanes; l++)
        if (t->lane[l].state == LANE_FREE &&
            (t->lane[l].task != COORD_NO_TASK || coord_task_next(t, l, worker) != COORD_NO_TASK))
            return l;
    return COORD_NO_LANE;
}

bool coord_ring_behind(struct coord_job *j, uint32_t lane, uint64_t mark)
{
    const struct coord_ring *r = &j->ring->ring;
    uint64_t step = coord_ring_at(r);
    /* the weights of the step before are at members that have made the step, not in the tables */
    bool before = r->source != COORD_RING_TABLES;
    if (!coord_ring_on(j))
        return false;
    if (step > 0 && mark < step - before)
        coord_back_want(j,
                        "the servers have lost batches of lane %u after batch %" PRIu64
                        ", and the network is as of step %" PRIu64
                        ", so its weights for these batches are gone",
                        lane, mark, step);
    else if (j->tasks->mode == WIRE_BSP && mark > step)
        coord_back_want(j,
                        "%s ended at once, the network is in the tables as of step "
                        "%" PRIu64 " alone, and the rows of lane %u are as of batch %" PRIu64
                        ": under consistency: bsp the batches between cannot be computed again",
                        r->sharded ? "all keepers of a share of the network" : "all workers", step,
                        lane, mark);
    else
        return false;
    return true;
}

uint64_t coord_ring_mark(const struct coord_job *j, uint64_t mark)
{
    SHOAL_ASSERT(j->ring->ring.state == RING_STANDS); /* 2 */
    return coord_ring_batch(&j->ring->ring, mark) - 1;
}

/* ---- rests ----------------------------------------------------------------------------------- */

/* The step of which all batches are done, if all tasks up to their stop are; else 0. */
static uint64_t drained_at(const struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    if (t->pushed < t->stop)
        return 0;
    return t->lane[0].next_batch - 1; /* rounds are even */
}

bool coord_ring_alone(const struct coord_job *j, char *text, size_t bytes)
{
    uint64_t without = coord_now_ns(j) - j->watch.worker_ns;
    if (!coord_ring_on(j) || j->at.phase != PHASE_TRAIN || j->workers.count > 0 ||
        without <= coord_lease_ns(j))
        return false;
    (void)snprintf(text, bytes,
                   "job %s has no worker, and its workers keep the network (train.dense): the "
                   "servers have it as of step %" PRIu64
                   " alone, and rows of later steps. Start a worker, and ask again when it trains",
                   j->spec.name, j->ring->ring.published);
    return true;
}

bool coord_ring_rest(struct coord_job *j, enum coord_ring_for what)
{
    struct coord_ring_job *r = j->ring;
    if (!coord_ring_on(j) || j->at.phase > PHASE_TRAIN)
        return true; /* 3: training has rested before it paused */
    r->wanted |= what;
    if (r->rest.state != REST_STANDS)
        return false;
    if (what == RING_FOR_PAUSE && r->ring.published < drained_at(j)) {
        if (r->wanted == RING_FOR_PAUSE) /* it rested in the middle, for a cut */
            coord_rest_end(&r->rest);
        return false;
    }
    return true;
}

void coord_ring_go(struct coord_job *j, enum coord_ring_for what)
{
    struct coord_ring_job *r = j->ring;
    if ((r->wanted & what) == 0)
        return;
    SHOAL_ASSERT(what != RING_FOR_PAUSE || r->ring.published >= drained_at(j)); /* 3 */
    r->wanted &= ~(uint32_t)what;
    if (r->wanted != 0 || r->rest.state == REST_NONE)
        return;
    coord_rest_end(&r->rest);
    r->news++;
}

bool coord_ring_owes(const struct coord_job *j, uint64_t step)
{
    const struct coord_tasks *t = j->tasks;
    for (uint32_t l = 0; l < t->lanes; l++) {
        const struct coord_lane *lane = &t->lane[l];
        uint64_t next = lane->next_batch;
        if (lane->task != COORD_NO_TASK)
            next = t->task[lane->task].first_batch;
        if (lane->state != LANE_HELD && next <= step)
            return true;
    }
    return false;
}

/* The tables get sharded state in a rest, now and then. */
static void publish_step(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    uint64_t now = coord_now_ns(j);
    if ((r->wanted & RING_FOR_PUBLISH) != 0 && r->rest.state == REST_STANDS) {
        coord_ring_go(j, RING_FOR_PUBLISH);
        r->rested_ns = now;
    }
    if (r->ring.sharded && r->ring.state == RING_STANDS && r->rest.state == REST_NONE &&
        now - r->rested_ns >= j->spec.train.publish_ms * UINT64_C(1000000))
        r->wanted |= RING_FOR_PUBLISH;
}

/* False while a lane has work and no worker, of a ring that has read the network from the tables.
 * Under bsp its rows may be ahead of that network, which is known when the lane is granted
 * (coord_ring_behind): a cut before would be of two steps. */
static bool rows_known(const struct coord_job *j)
{
    const struct coord_tasks *t = j->tasks;
    if (t->mode != WIRE_BSP || j->ring->ring.source != COORD_RING_TABLES)
        return true;
    for (uint32_t l = 0; l < t->lanes; l++)
        if (t->lane[l].state != LANE_HELD &&
            (t->lane[l].task != COORD_NO_TASK ||
             coord_task_next(t, l, coord_ring_holder(&j->ring->ring, l)) != COORD_NO_TASK))
            return false;
    return true;
}

static void rest_step(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    uint64_t drained = drained_at(j);
    if (r->wanted == 0 || r->ring.state != RING_STANDS || r->rest.state != REST_NONE ||
        !rows_known(j))
        return;
    r->news++;
    uint64_t at = coord_ring_at(&r->ring);
    coord_rest_begin(&r->rest, r->news, r->ring.count, MAX(at, drained));
}

/* ---- each step ------------------------------------------------------------------------------- */

/* Notes the generation of lane 0 once all shards have it: the first member assigns with it. */
static void generation_look(struct coord_job *j)
{
    const struct coord_lane *l = &j->tasks->lane[0];
    struct coord_ring_job *r = j->ring;
    uint64_t now = 0;
    if (l->state == LANE_FREE || l->state == LANE_HELD)
        now = l->generation;
    if (now != r->generation)
        r->news++;
    r->generation = now;
    /* members read the tables only when no former first member can write there any more */
    if (r->ring.state == RING_STANDS && (r->ring.source != COORD_RING_TABLES || now != 0))
        r->told = r->ring.number;
}

static void late_look(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    if (j->at.phase != PHASE_TRAIN || r->ring.state == RING_STANDS)
        r->gathers_ns = 0;
    else if (r->gathers_ns == 0)
        r->gathers_ns = coord_now_ns(j);
}

void coord_ring_step(struct coord_job *j)
{
    if (!coord_ring_on(j) || !coord_phase_running(j) || j->fleet->fatal != 0)
        return;
    ring_ready(j);
    if (j->at.phase == PHASE_TRAIN) {
        gather(j);
        publish_step(j);
        rest_step(j);
    }
    generation_look(j);
    late_look(j);
    if (j->fleet->fatal != 0)
        return;
    SHOAL_ASSERT(j->ring->stored == j->ring->ring.number); /* 1 */
    coord_ring_answer_all(j);
}
