/* crew.c: the rules of crew.h. */
#include "server/coord/job/crew.h"

#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/sight.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <string.h>

#define BETWEEN_NS UINT64_C(30000000000) /* the longest way of a worker from one job to the next */

/* Each job whose workers are of that kind. */
#define EACH_JOB(c, kind, j)                                                                       \
    COORD_EACH_JOB ((c), j)                                                                        \
        if (is_external(j) != (kind))                                                              \
            continue;                                                                              \
        else

static bool is_external(const struct coord_job *j)
{
    return j->spec.model.kind == MODEL_EXTERNAL;
}

bool coord_crew_external(const struct wire_WORKER_JOIN *join)
{
    return strcmp(join->backend, job_model_name(MODEL_EXTERNAL)) == 0;
}

/* Returns how many jobs of the kind run; *newest: the last of them, NULL: none. */
static uint32_t running(struct coord *c, bool external, struct coord_job **newest)
{
    uint32_t count = 0;
    *newest = NULL;
    EACH_JOB (c, external, j) {
        if (!coord_phase_running(j))
            continue;
        count++;
        if (*newest == NULL || j->at.number > (*newest)->at.number)
            *newest = j;
    }
    return count;
}

/* Returns the number of workers that the job is to have at least. */
static uint32_t wanted(const struct coord_job *j)
{
    return MAX(j->at.workers_wanted, 1);
}

/* True when each lane of the job must have a worker, or none goes on. */
static bool all_held(const struct coord_job *j)
{
    return j->tasks->mode == WIRE_BSP || j->tasks->dealt;
}

/* Returns the number of lanes that the job's workers have places for. */
static uint64_t places_of(const struct coord_job *j)
{
    uint64_t places = 0;
    for (uint32_t i = 0; i < j->workers.count; i++)
        places += MAX(j->workers.worker[i].lanes_max, 1);
    return places;
}

static uint32_t lacking(const struct coord_job *j)
{
    if (!coord_phase_running(j) || j->at.phase == PHASE_FINISH)
        return 0;
    if (j->workers.count >= wanted(j) && all_held(j) && places_of(j) < j->tasks->lanes)
        return 1; /* it stands still: it was submitted for too few */
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

/* Returns how many workers the job can give back, with those on their way; *next: the newest that
 * is not yet on its way, NULL: there is none. */
static uint32_t spare_count(const struct coord_job *j, struct coord_worker **next)
{
    uint32_t spare = 0, count = j->workers.count;
    uint64_t places = places_of(j);
    *next = NULL;
    for (uint32_t i = count; i > 0 && coord_phase_running(j); i--) {
        struct coord_worker *w = &j->workers.worker[i - 1];
        uint32_t lanes = MAX(w->lanes_max, 1);
        bool needed = all_held(j) && places < j->tasks->lanes + (uint64_t)lanes;
        if (!w->stays || needed || count - spare <= wanted(j))
            continue;
        spare++;
        places -= lanes;
        if (!w->released && *next == NULL)
            *next = w;
    }
    return spare;
}

/* True when the job trains until it is stopped. */
static bool is_endless(const struct coord_job *j)
{
    return coord_grow_on(j) && j->spec.train.max_minutes <= 0 && j->spec.data.kafka.until_s == 0 &&
           !j->stop.asked;
}

/* Returns how many workers the fleet has for a job that is patient: those that are free, and those
 * that stay when the job that they work for ends; of a job without an end, those that it can
 * spare. */
static uint64_t workers_of(struct coord *c, bool external, uint32_t free)
{
    struct coord_worker *next;
    uint64_t all = free;
    EACH_JOB (c, external, j) {
        bool never = is_endless(j) && !awaits(j);
        for (uint32_t i = 0; i < j->workers.count && !never; i++)
            all += j->workers.worker[i].stays || awaits(j);
        all += never ? spare_count(j, &next) : 0;
    }
    return all;
}

/* True when the fleet has all workers that the job awaits. Those of a job that has just ended are
 * on their way to the next one, and not known meanwhile. */
static bool has_enough(struct coord_job *j, uint64_t all, uint64_t now_ns)
{
    if (wanted(j) <= all)
        j->enough_ns = now_ns;
    return j->enough_ns != 0 && now_ns - j->enough_ns < BETWEEN_NS;
}

/* Returns the oldest job that has been patient; NULL: there is none. */
static struct coord_job *patient_of(struct coord *c, bool external, uint32_t free)
{
    struct coord_job *patient = NULL;
    uint64_t all = workers_of(c, external, free), now = env_now_ns(c->fleet.env);
    EACH_JOB (c, external, j)
        if (awaits(j) && has_enough(j, all, now) && now - j->phase_ns >= COORD_PATIENCE_NS &&
            (patient == NULL || j->at.number < patient->at.number))
            patient = j;
    return patient;
}

/* Returns the oldest job that can get all that it lacks; free: the workers that are free. NULL:
 * there is none. */
static struct coord_job *oldest_to_serve(struct coord *c, bool external, uint32_t free,
                                         const struct coord_job *patient)
{
    struct coord_job *oldest = NULL;
    struct coord_worker *next;
    uint32_t spare = 0;
    EACH_JOB (c, external, j)
        spare += spare_count(j, &next);
    EACH_JOB (c, external, j) {
        bool after = patient != NULL && awaits(j) && j->at.number > patient->at.number;
        if (lacking(j) > 0 && lacking(j) <= free + spare && !after &&
            (oldest == NULL || j->at.number < oldest->at.number))
            oldest = j;
    }
    return oldest;
}

/* True when one more worker finds a lane in the job. Under bsp a lane leaves no worker. */
static bool has_place(const struct coord_job *j)
{
    uint64_t places = j->tasks->mode == WIRE_BSP ? places_of(j) : j->workers.count;
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

static struct coord_job *least_served(struct coord *c, bool external)
{
    struct coord_job *least = NULL;
    EACH_JOB (c, external, j) {
        bool takes = coord_phase_running(j) && j->at.phase != PHASE_FINISH && !awaits(j);
        if (takes && has_place(j) && (least == NULL || has_less(j, least)))
            least = j;
    }
    return least;
}

struct coord_job *coord_crew_to_join(struct coord *c, const struct wire_WORKER_JOIN *join,
                                     peer_t from, const struct coord_job **kept)
{
    bool external = coord_crew_external(join);
    struct coord_job *newest;
    *kept = NULL;
    COORD_EACH_JOB (c, j)
        if (coord_phase_running(j) && coord_worker_of_peer(&j->workers, from) != NULL)
            return j;
    uint32_t jobs = running(c, external, &newest);
    if (jobs == 0)
        return join->stays && coord_slot_running(c) > 0 ? NULL : coord_slot_newest(c);
    if (jobs == 1)
        return newest;
    uint32_t free = coord_sight_free(&c->fleet, external, from) + 1;
    struct coord_job *patient = patient_of(c, external, free),
                     *j = oldest_to_serve(c, external, free, patient);
    if (j == NULL && patient == NULL)
        return least_served(c, external);
    if (j != NULL && (!awaits(j) || lacking(j) <= free))
        return j;
    *kept = j != NULL ? j : patient;
    return NULL;
}

const char *coord_crew_why(struct coord *c, bool external)
{
    struct coord_job *newest;
    if (running(c, external, &newest) > 0)
        return "no job that runs has a place for one more worker";
    if (external)
        return "no job with model.kind: external runs, which this program has a network for";
    return "the jobs that run have model.kind: external, and programs with their networks";
}

/* Returns the next worker to give back, from the job (*of) with the most spare ones; NULL: there is
 * none. */
static struct coord_worker *spare_next(struct coord *c, bool external, const struct coord_job **of)
{
    struct coord_worker *found = NULL, *next;
    uint32_t most = 0;
    EACH_JOB (c, external, j) {
        uint32_t spare = spare_count(j, &next);
        if (next == NULL || spare <= most)
            continue;
        most = spare;
        found = next;
        *of = j;
    }
    return found;
}

static void kind_step(struct coord *c, bool external)
{
    const struct coord_job *from = NULL;
    struct coord_job *newest;
    uint32_t free = coord_sight_free(&c->fleet, external, 0), coming = 0;
    if (running(c, external, &newest) <= 1)
        return;
    const struct coord_job *to = oldest_to_serve(c, external, free, patient_of(c, external, free));
    EACH_JOB (c, external, j)
        coming += leaving(j);
    if (to == NULL || lacking(to) <= free + coming)
        return;
    struct coord_worker *w = spare_next(c, external, &from);
    if (w == NULL)
        return;
    w->released = true;
    log_info("worker %" PRIu64 " (%s) is given back by job %s, which has more than its %u: job %s "
             "lacks %u",
             w->number, w->name, from->spec.name, wanted(from), to->spec.name, lacking(to));
}

void coord_crew_step(struct coord *c)
{
    if (coord_slot_running(c) <= 1)
        return;
    kind_step(c, false);
    kind_step(c, true);
}
