/* ring_waits.c: the members for which a ring waits. */
#include "proto/base/minmax.h"
#include "server/coord/core/core.h"
#include "server/coord/work/ring_inner.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>

bool coord_ring_member(const struct coord_job *j, uint64_t worker)
{
    return coord_ring_on(j) && coord_ring_find(&j->ring->ring, worker) != NULL;
}

/* The member is to assign the rest's step to the tables: its shares of it, or all, which the first
 * member does. */
static bool assigns(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring_job *r = j->ring;
    const struct coord_ring_asker *a = coord_ring_asker_of(j, worker);
    return (r->ring.sharded || r->ring.member[0].worker == worker) &&
           r->rest.state == REST_SETTLED && a != NULL && a->published < r->rest.at;
}

bool coord_ring_works(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring_job *r = j->ring;
    if (coord_ring_find(&r->ring, worker) == NULL)
        return false;
    if (r->ring.state != RING_STANDS || !coord_ring_ready(j, worker) || assigns(j, worker))
        return true;
    bool rests = r->rest.state == REST_SETTLED || r->rest.state == REST_STANDS;
    return !rests &&
           (coord_lane_held(j->tasks, worker) > 0 || coord_ring_pick(j, worker) != COORD_NO_LANE);
}

static uint64_t begun_of(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring_asker *a = coord_ring_asker_of(j, worker);
    if (a == NULL || a->ring != j->ring->ring.number)
        return 0;
    return a->begun;
}

/* All lanes of the worker wait for servers. */
static bool lanes_wait(const struct coord_job *j, uint64_t worker)
{
    uint32_t held = coord_lane_held(j->tasks, worker);
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (j->workers.worker[i].number == worker)
            return held > 0 && j->workers.worker[i].figures.waits >= held;
    return false;
}

/* Returns the member that the ring waits for: one that has not reported, or is furthest behind; of
 * several one whose lanes do not all wait for servers, of these the one that came last. 0: there
 * are no members. */
static uint64_t awaited(const struct coord_job *j)
{
    const struct coord_ring *r = &j->ring->ring;
    uint64_t worst = 0, least = UINT64_MAX;
    bool waits = true;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct coord_ring_member *m = &r->member[i];
        uint64_t at = m->told;
        if (r->state == RING_STANDS)
            at = begun_of(j, m->worker);
        bool wait = lanes_wait(j, m->worker);
        if (at < least || (at == least && (wait < waits || (wait == waits && m->worker > worst)))) {
            least = at;
            worst = m->worker;
            waits = wait;
        }
    }
    return worst;
}

/* Every member has begun the step of the rest: it waits for those that have not settled. */
static bool settles(const struct coord_job *j)
{
    const struct coord_ring *r = &j->ring->ring;
    if (r->state != RING_STANDS || j->ring->rest.state != REST_KNOWN)
        return false;
    for (uint32_t i = 0; i < r->count; i++)
        if (begun_of(j, r->member[i].worker) < j->ring->rest.at)
            return false;
    return true;
}

bool coord_ring_waits(const struct coord_job *j, uint64_t worker)
{
    const struct coord_ring_member *m = coord_ring_find(&j->ring->ring, worker);
    if (m != NULL && j->ring->rest.state == REST_SETTLED)
        return !assigns(j, worker);
    if (m != NULL && settles(j))
        return (j->ring->rest.told >> (m - j->ring->ring.member) & 1) != 0;
    return awaited(j) != worker;
}

uint64_t coord_ring_apart(const struct coord_job *j, uint64_t *other)
{
    const struct coord_ring *r = &j->ring->ring;
    for (uint32_t i = 0; i < r->count; i++) {
        uint64_t one = r->member[i].worker;
        const struct coord_ring_asker *a = coord_ring_asker_of(j, one);
        if (a == NULL || a->ring != r->number || a->unreached == one ||
            coord_ring_find(r, a->unreached) == NULL)
            continue;
        *other = MIN(one, a->unreached);
        return MAX(one, a->unreached);
    }
    return 0;
}

bool coord_ring_late(const struct coord_job *j, char *text, size_t bytes)
{
    const struct coord_ring_job *r = j->ring;
    uint64_t now = coord_now_ns(j);
    uint32_t missing = 0;
    if (!coord_ring_on(j) || j->workers.count == 0 || r->gathers_ns == 0 ||
        now - r->gathers_ns <= coord_lease_ns(j))
        return false;
    const struct coord_worker *w = NULL;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_ring_member *m = coord_ring_find(&r->ring, j->workers.worker[i].number);
        if (m == NULL || m->told)
            continue;
        w = &j->workers.worker[i];
        missing++;
    }
    if (w == NULL)
        (void)snprintf(text, bytes,
                       "no worker can take part in the ring that keeps the network: none has told "
                       "where it listens, or those that have get no work now; see `listen` in "
                       "worker.yaml, and the workers' logs");
    else
        (void)snprintf(text, bytes,
                       "the ring gathers its %u workers for %" PRIu64
                       " s: %u of them have not answered, %s is one; see its log",
                       r->ring.count, (now - r->gathers_ns) / UINT64_C(1000000000), missing,
                       w->name);
    return true;
}
