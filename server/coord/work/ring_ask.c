/* ring_ask.c: RING: what a worker says of its network, and what it is told of the ring. */
#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/work/ring_inner.h"
#include "server/coord/work/stall.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* how often a worker gets one answer that it has not obeyed yet */
#define AGAIN_NS UINT64_C(50000000)

/* ---- what a worker says ---------------------------------------------------------------------- */

/* Returns the worker's entry, or NULL: there is no room. */
static struct coord_ring_asker *asker_make(struct coord_job *j, uint64_t worker)
{
    struct coord_ring_job *r = j->ring;
    struct coord_ring_asker *a = coord_ring_asker_of(j, worker);
    if (a != NULL || r->count == COORD_RING_ASKERS)
        return a;
    a = &r->asker[r->count++];
    *a = (struct coord_ring_asker){.worker = worker};
    return a;
}

/* Refuses steps of batches that no lane has been given. */
static int steps_check(const struct coord_job *j, struct coord_ask *a)
{
    const struct wire_RING *q = &a->request->u.RING;
    uint64_t most = 0, said = MAX(q->step, q->begun);
    said = MAX(said, q->published);
    said = MAX(said, q->marks_high);
    for (uint32_t l = 0; l < j->tasks->lanes; l++)
        most = MAX(most, j->tasks->lane[l].next_batch - 1);
    if (said <= most && q->marks_low <= q->marks_high)
        return 0;
    return err_set(&a->e, SHOAL_E_MALFORMED,
                   "worker %s tells of step %" PRIu64 " of the network, and its lanes have batches "
                   "up to %" PRIu64,
                   a->worker->name, said, most);
}

/* Notes the worker's digest, if it is that of a member of the ring at hand. */
static void digest_take(struct coord_job *j, uint32_t member, const struct wire_RING *q)
{
    struct coord_ring_job *r = j->ring;
    if (r->ring.state != RING_STANDS || q->ring != r->ring.number || q->digest_step == 0 ||
        q->digest_step > q->step)
        return;
    const struct coord_digest_verdict v =
        coord_digests_note(&r->digests, member, q->digest_step, q->digest);
    coord_ring_verdict(j, &v);
}

/* A worker makes progress when it says something new. */
static void said_note(struct coord_job *j, struct coord_worker *w, struct coord_ring_asker *a,
                      const struct wire_RING *q)
{
    bool more = a->ring != q->ring || a->of != q->of || a->has != q->has || a->step != q->step ||
                a->begun != q->begun;
    a->seen = q->seen;
    a->ring = q->ring;
    a->has = q->has;
    a->step = q->step;
    a->begun = q->begun;
    a->unreached = q->unreached;
    a->of = q->of;
    if (q->of == j->ring->ring.number && q->step > j->ring->ring.step)
        coord_unable_over(&j->ring->unable, w->name);
    if (more)
        coord_stall_moved(w, coord_now_ns(j));
}

/* True when the worker's rest is whole: it runs all lanes that it was granted, and no lane waits
 * for a worker with batches of before the rest. */
static bool settled(const struct coord_job *j, uint64_t worker, const struct wire_RING *q)
{
    return q->settled && q->lanes == coord_lane_held(j->tasks, worker) &&
           !coord_ring_owes(j, j->ring->rest.at);
}

static void rest_take(struct coord_job *j, uint32_t member, const struct wire_RING *q)
{
    struct coord_ring_job *r = j->ring;
    bool news = false;
    if (r->ring.state != RING_STANDS || q->ring != r->ring.number || q->rest == 0)
        return;
    if (r->rest.state == REST_ASKED)
        news = coord_rest_begun(&r->rest, q->rest, member, q->begun);
    else if (settled(j, r->ring.member[member].worker, q))
        news = coord_rest_settled(&r->rest, q->rest, member);
    (void)coord_rest_published(&r->rest, r->ring.published);
    r->news += news;
}

/* The first member has assigned the network of this step to the tables. That stays true when the
 * ring gathers meanwhile. */
static void published_take(struct coord_job *j, const struct wire_RING *q)
{
    struct coord_ring_job *r = j->ring;
    bool rests = r->rest.state == REST_SETTLED;
    if (q->published <= r->ring.published || (rests && q->published > r->rest.at))
        return;
    coord_ring_published(&r->ring, q->published);
    r->published_ns = coord_now_ns(j);
    if (coord_ring_put(j))
        (void)coord_rest_published(&r->rest, r->ring.published);
}

/* The ring takes what a member reports: while it gathers, and while it stands. */
static void member_take(struct coord_job *j, uint64_t worker, const struct wire_RING *q)
{
    struct coord_ring_job *r = j->ring;
    const struct coord_ring_member *m = coord_ring_find(&r->ring, worker);
    bool tables = r->ring.state == RING_STANDS && r->ring.source == COORD_RING_TABLES;
    if (m == NULL)
        return;
    uint32_t member = (uint32_t)(m - r->ring.member);
    if (member == 0)
        published_take(j, q);
    bool has = q->has && coord_ring_counts(&r->ring, worker, q->of);
    if (coord_ring_report(&r->ring, worker, q->ring, has, q->step))
        coord_ring_stood(j);
    else if (tables && q->ring == r->ring.number && !q->has && q->marks_high > 0 &&
             (q->marks_low != r->ring.step || q->marks_high != r->ring.step))
        coord_ring_marks(j, q->marks_low, q->marks_high);
    rest_take(j, member, q);
    digest_take(j, member, q);
}

int coord_ring_ask(struct coord_job *j, struct coord_ask *a)
{
    const struct wire_RING *q = &a->request->u.RING;
    if (!coord_phase_running(j))
        return err_set(&a->e, SHOAL_E_AGAIN, "there is no job to work on");
    if (!coord_ring_on(j))
        return err_set(&a->e, SHOAL_E_MALFORMED,
                       "the servers keep the network of this job (train.dense)");
    struct coord_ring_asker *s = asker_make(j, a->worker->number);
    if (s == NULL)
        return err_set(&a->e, SHOAL_E_AGAIN,
                       "%u workers ask for a place in the ring already, which is enough",
                       COORD_RING_ASKERS);
    a->silent = true; /* the answer comes in coord_ring_step */
    if (a->request->id < s->id)
        return 0; /* a late copy */
    bool trains = q->run == j->at.run && j->at.phase == PHASE_TRAIN && !coord_goes_back(j);
    int rc = trains ? steps_check(j, a) : 0;
    if (rc != 0)
        return rc;
    if (a->request->id > s->id)
        s->since_ns = coord_now_ns(j);
    s->id = a->request->id;
    s->peer = a->from;
    s->waits = true;
    if (q->run == j->at.run)
        said_note(j, a->worker, s, q);
    else
        s->seen = 0; /* it is told of the run */
    if (trains)
        member_take(j, s->worker, q);
    return 0;
}

/* ---- what a worker is told ------------------------------------------------------------------- */

static void members_tell(struct coord_job *j, struct wire_ring_member *out)
{
    const struct coord_ring *r = &j->ring->ring;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct coord_worker *w = coord_worker_find(&j->workers, r->member[i].worker);
        out[i] = (struct wire_ring_member){.worker = r->member[i].worker,
                                           .first = r->member[i].first,
                                           .lanes = r->member[i].lanes};
        if (w == NULL) /* it has gone while nothing is trained */
            continue;
        _Static_assert(sizeof out->key == sizeof w->key, "the same keys");
        memcpy(out[i].endpoint, w->endpoint, sizeof out[i].endpoint);
        memcpy(out[i].key, w->key, sizeof out[i].key);
    }
}

static void first_tell(const struct coord_ring_job *r, struct wire_RING_reply *reply)
{
    reply->generation = r->generation;
    reply->publish = r->rest.state == REST_SETTLED && r->generation != 0;
}

/* The worker leaves: its network is not that of most. */
static void refuse(struct coord_job *j, struct coord_ring_asker *a)
{
    const struct wire request = {.type = WIRE_TYPE_RING, .id = a->id};
    const struct coord_worker *w = coord_worker_find(&j->workers, a->worker);
    a->waits = false;
    if (w != NULL)
        coord_send(j->fleet, a->peer,
                   wire_refusal(&request, SHOAL_E_CORRUPT,
                                "the network of worker %s differs from that of most others after "
                                "step %" PRIu64 ": its machine computes or keeps something wrong; "
                                "test its memory and processor before it works again",
                                w->name, a->wrong));
}

static void answer(struct coord_job *j, struct coord_ring_asker *a)
{
    struct wire_ring_member member[WIRE_RING_MEMBERS];
    const struct coord_ring_job *r = j->ring;
    const struct coord_ring_member *m = coord_ring_find(&r->ring, a->worker);
    struct wire w = {.type = WIRE_TYPE_RING, .reply = true, .id = a->id};
    w.u.RING_reply = (struct wire_RING_reply){.run = j->at.run,
                                              .news = r->news,
                                              .ring = r->ring.number,
                                              .state = r->ring.state,
                                              .member = WIRE_RING_MEMBERS,
                                              .lanes = r->ring.lanes,
                                              .starts = r->ring.starts,
                                              .step = r->ring.step,
                                              .source = r->ring.source,
                                              .published = r->ring.published,
                                              .rest = r->rest.number,
                                              .rest_at = r->rest.at};
    if (m != NULL) {
        w.u.RING_reply.member = (uint32_t)(m - r->ring.member);
        w.u.RING_reply.there = m->has && m->step == r->ring.step;
    }
    if (m == r->ring.member)
        first_tell(r, &w.u.RING_reply);
    if (r->ring.state == RING_STANDS && r->told == r->ring.number) {
        w.u.RING_reply.members = r->ring.count;
        members_tell(j, member);
    } else if (r->ring.state == RING_STANDS) {
        w.u.RING_reply.state = WIRE_RING_GATHERS;
    }
    a->waits = false;
    a->answered = r->news;
    a->answered_ns = coord_now_ns(j);
    (void)coord_send_frame(j->fleet, a->peer, &w, member,
                           w.u.RING_reply.members * sizeof member[0]);
}

void coord_ring_answer_all(struct coord_job *j)
{
    struct coord_ring_job *r = j->ring;
    uint64_t now = coord_now_ns(j);
    for (uint32_t i = 0; i < r->count; i++) {
        struct coord_ring_asker *a = &r->asker[i];
        bool knows = a->seen == r->news,
             told = a->answered == r->news && now - a->answered_ns < AGAIN_NS,
             late = now - a->since_ns >= WIRE_BEAT_MS * UINT64_C(1000000);
        if (a->waits && a->wrong != 0)
            refuse(j, a);
        else if (a->waits && (late || (!knows && !told)))
            answer(j, a);
    }
}
_Static_assert((int)WIRE_RING_NONE == (int)RING_NONE &&
                   (int)WIRE_RING_GATHERS == (int)RING_GATHERS &&
                   (int)WIRE_RING_STANDS == (int)RING_STANDS &&
                   WIRE_RING_TABLES == COORD_RING_TABLES,
               "the wire has the states of ring.h");
