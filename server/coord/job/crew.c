/* crew.c: the rules of crew.h. */
#include "server/coord/job/crew.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/task.h"

#include <inttypes.h>

/* Returns the number of workers that the job is to have at least. */
static uint32_t wanted(const struct coord_job *j)
{
    return MAX(j->at.workers_wanted, 1);
}

static uint32_t lacking(const struct coord_job *j)
{
    if (!coord_phase_running(j) || j->at.phase == PHASE_FINISH)
        return 0;
    return SAT_SUB(wanted(j), j->workers.count);
}

/* True when the job does not begin before all its workers are there. */
static bool awaits(const struct coord_job *j)
{
    return j->at.phase == PHASE_WAITING && lacking(j) > 0;
}

/* Returns the number of the job's workers that are on their way back. */
static uint32_t leaving(const struct coord_job *j)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < j->workers.count; i++)
        count += j->workers.worker[i].released;
    return count;
}

/* Returns the newest worker that the job can give back; NULL: it has no spare one. */
static struct coord_worker *spare_of(const struct coord_job *j)
{
    if (!coord_phase_running(j) || j->workers.count - leaving(j) <= wanted(j))
        return NULL;
    for (uint32_t i = j->workers.count; i > 0; i--) {
        struct coord_worker *w = &j->workers.worker[i - 1];
        if (w->stays && !w->released)
            return w;
    }
    return NULL;
}

/* Returns how many workers the job can give back, with those on their way. */
static uint32_t spare_count(const struct coord_job *j)
{
    uint32_t stay = 0;
    if (!coord_phase_running(j))
        return 0;
    for (uint32_t i = 0; i < j->workers.count; i++)
        stay += j->workers.worker[i].stays;
    uint32_t spare = SAT_SUB(j->workers.count, wanted(j));
    return MIN(spare, stay);
}

/* Returns the job of rule 3; free: the workers that are free. NULL: there is none. */
static struct coord_job *oldest_to_serve(struct coord *c, uint32_t free)
{
    struct coord_job *oldest = NULL;
    uint32_t spare = 0;
    COORD_EACH_JOB (c, j)
        spare += spare_count(j);
    COORD_EACH_JOB (c, j)
        if (lacking(j) > 0 && lacking(j) <= free + spare &&
            (oldest == NULL || j->at.number < oldest->at.number))
            oldest = j;
    return oldest;
}

/* True when one more worker finds a lane in the job. Under bsp a lane leaves no worker. */
static bool has_place(const struct coord_job *j)
{
    uint64_t places = 0;
    for (uint32_t i = 0; i < j->workers.count; i++)
        places += j->tasks->mode == WIRE_BSP ? MAX(j->workers.worker[i].lanes_max, 1) : 1;
    return places < j->tasks->lanes;
}

/* True when a has a smaller share of its workers than b. */
static bool has_less(const struct coord_job *a, const struct coord_job *b)
{
    uint64_t of_a = (uint64_t)a->workers.count * wanted(b),
             of_b = (uint64_t)b->workers.count * wanted(a);
    if (of_a != of_b)
        return of_a < of_b;
    return a->at.number < b->at.number;
}

static struct coord_job *least_served(struct coord *c)
{
    struct coord_job *least = NULL;
    COORD_EACH_JOB (c, j) {
        bool takes = coord_phase_running(j) && j->at.phase != PHASE_FINISH && !awaits(j);
        if (takes && has_place(j) && (least == NULL || has_less(j, least)))
            least = j;
    }
    return least;
}

struct coord_job *coord_crew_to_join(struct coord *c, peer_t from)
{
    COORD_EACH_JOB (c, j)
        if (coord_phase_running(j) && coord_worker_of_peer(&j->workers, from) != NULL)
            return j;
    if (coord_slot_running(c) <= 1)
        return coord_slot_newest(c);
    uint32_t free = coord_sight_free(&c->fleet, from) + 1;
    struct coord_job *j = oldest_to_serve(c, free);
    if (j == NULL)
        return least_served(c);
    if (awaits(j) && lacking(j) > free)
        return NULL;
    return j;
}

void coord_crew_step(struct coord *c)
{
    struct coord_job *from = NULL;
    uint32_t free = coord_sight_free(&c->fleet, 0), coming = 0;
    if (coord_slot_running(c) <= 1)
        return;
    const struct coord_job *to = oldest_to_serve(c, free);
    COORD_EACH_JOB (c, j)
        coming += leaving(j);
    if (to == NULL || lacking(to) <= free + coming)
        return;
    COORD_EACH_JOB (c, j)
        if (spare_of(j) != NULL && (from == NULL || spare_count(j) > spare_count(from)))
            from = j;
    if (from == NULL)
        return;
    struct coord_worker *w = spare_of(from);
    w->released = true;
    log_info("worker %" PRIu64 " (%s) is given back by job %s, which has more than its %u: job %s "
             "lacks %u",
             w->number, w->name, from->spec.name, wanted(from), to->spec.name, lacking(to));
}
