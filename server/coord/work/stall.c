/* stall.c: the workers that make progress, those that are held up, and taking work away. */
#include "server/coord/work/stall.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/core/awaited.h"
#include "server/coord/core/core.h"
#include "server/coord/work/eval.h"
#include "server/coord/work/grant.h"
#include "server/coord/work/objects_index.h"
#include "server/coord/work/ring_job.h"
#include "server/coord/work/task.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SECOND_NS UINT64_C(1000000000)

void coord_stall_moved(struct coord_worker *w, uint64_t now_ns)
{
    SHOAL_ASSERT(w->moved_ns <= now_ns);
    w->moved_ns = now_ns;
}

void coord_stall_beat(struct coord_worker *w, const struct wire_WORKER_BEAT *beat, uint64_t now_ns)
{
    const struct wire_WORKER_BEAT *last = &w->figures;
    bool more = false;
#define COUNTED(name) more = more || beat->name != last->name;
#define NONE(name)
    WIRE_WORKER_BEAT(NONE, COUNTED, NONE, NONE, NONE, NONE, NONE)
#undef NONE
#undef COUNTED
    if (!more)
        return;
    coord_stall_moved(w, now_ns);
    if (beat->batches != last->batches)
        w->stalls = 0;
}

/* ---- workers that have work ------------------------------------------------------------------ */

/* True in phases in which workers have work. */
static bool phase_works(const struct coord_job *j)
{
    enum coord_phase phase = j->at.phase;
    return phase == PHASE_INDEX || phase == PHASE_GROW || phase == PHASE_TRAIN ||
           phase == PHASE_EVAL || phase == PHASE_TEST;
}

static bool has_eval(const struct coord_eval *v, uint64_t worker)
{
    for (uint32_t i = v->measured; i < v->tasks && i < v->measured + v->window; i++)
        if (v->task[i].item.worker == worker)
            return true;
    return false;
}

static bool has_work(const struct coord_job *j, uint64_t worker)
{
    switch (j->at.phase) {
    case PHASE_INDEX:
    case PHASE_GROW:
        return coord_objects_asked(j, worker);
    case PHASE_TRAIN:
        if (coord_ring_on(j))
            return coord_ring_works(j, worker);
        return coord_lane_held(j->tasks, worker) > 0;
    case PHASE_EVAL:
    case PHASE_TEST:
        return has_eval(j->eval, worker);
    default:
        return false;
    }
}

/* ---- workers that are held up ---------------------------------------------------------------- */

/* True when a server has not answered the worker for that long, and was heard lately. */
static bool cut_for(const struct coord_fleet *f, const struct coord_worker *w, uint64_t most_ns,
                    uint64_t heard_ns)
{
    uint32_t shard = w->figures.late_shard;
    if (w->figures.late_ms * UINT64_C(1000000) <= most_ns || shard >= f->members.shards)
        return false;
    const struct coord_shard *s = &f->members.shard[shard];
    return s->seen && s->ready && env_now_ns(f->env) - s->beat_ns <= heard_ns;
}

uint32_t coord_stall_cut(const struct coord_job *j, const struct coord_worker *w)
{
    if (!cut_for(j->fleet, w, coord_lease_ns(j), coord_fleet_lease_ns(j->fleet)))
        return COORD_NOBODY;
    return w->figures.late_shard;
}

bool coord_stall_cut_seen(const struct coord_job *j, const struct coord_worker *w)
{
    return coord_stall_cut(j, w) != COORD_NOBODY ||
           cut_for(j->fleet, w, COORD_CUT_NS, COORD_CUT_NS);
}

void coord_stall_cut_text(const struct coord_fleet *f, const struct coord_worker *w, char *text,
                          size_t bytes)
{
    const struct coord_shard *s = &f->members.shard[w->figures.late_shard];
    const char *advice = "see the network between the two (firewall, routes), and `advertise` in "
                         "the server's file";
    SHOAL_ASSERT(w->figures.late_shard < f->members.shards);
    if (w->figures.unnamed)
        advice = "the name has no address on the worker's machine; see `advertise` in the "
                 "server's file, or that machine's DNS";
    (void)snprintf(text, bytes,
                   "worker %s gets no answer from server %s (%s) for %u s, and the server is heard "
                   "here: %s",
                   w->name, s->server, s->endpoint, w->figures.late_ms / 1000, advice);
}

/* True when all its lanes wait only for answers of shards that it reaches: those shards make them
 * wait for other lanes. Or the ring waits for other members. */
static bool waits_for_others(const struct coord_job *j, const struct coord_worker *w)
{
    uint32_t held = coord_lane_held(j->tasks, w->number);
    if (j->at.phase == PHASE_TRAIN && coord_ring_on(j) && coord_ring_waits(j, w->number))
        return true;
    return j->at.phase == PHASE_TRAIN && held > 0 && w->figures.waits >= held &&
           coord_stall_cut(j, w) == COORD_NOBODY;
}

bool coord_stall_able(const struct coord_job *j, const struct coord_worker *w)
{
    return w->barred_ns <= coord_now_ns(j) && coord_stall_cut(j, w) == COORD_NOBODY;
}

static bool other_able(const struct coord_job *j, const struct coord_worker *than)
{
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (j->workers.worker[i].number != than->number &&
            coord_stall_able(j, &j->workers.worker[i]))
            return true;
    return false;
}

/* True when a worker of the same key is barred, and one of another key is able. */
static bool key_barred(const struct coord_job *j, const struct coord_worker *than)
{
    bool barred = false, other = false;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        bool same = strcmp(w->holder, than->holder) == 0;
        barred = barred || (same && w->barred_ns > coord_now_ns(j));
        other = other || (!same && coord_stall_able(j, w));
    }
    return barred && other;
}

bool coord_stall_barred(const struct coord_job *j, const struct coord_worker *w)
{
    if (j->at.phase == PHASE_INDEX && key_barred(j, w))
        return true;
    return w->barred_ns > coord_now_ns(j) && phase_works(j) && other_able(j, w);
}

bool coord_stall_excused(const struct coord_job *j, const struct coord_worker *w)
{
    return !phase_works(j) || coord_awaited_any(j) || waits_for_others(j, w) ||
           coord_stall_cut(j, w) != COORD_NOBODY;
}

static uint64_t limit_ns(const struct coord_job *j, const struct coord_worker *w)
{
    uint32_t doublings = MIN(w->stalls, COORD_STALL_DOUBLINGS);
    return COORD_STALL_LEASES * coord_lease_ns(j) << doublings;
}

/* ---- taking work away ------------------------------------------------------------------------ */

static void take_away(struct coord_job *j, struct coord_worker *w, const char *text)
{
    uint64_t now = coord_now_ns(j), limit = limit_ns(j, w);
    log_event(WORKER_STALLED, w->name,
              "%s: its work goes to others, and it gets none for %" PRIu64 " s", text,
              limit / SECOND_NS);
    w->barred_ns = now + limit;
    w->stalls++;
    w->moved_ns = now;
    coord_grant_worker_gone(j, w->number);
}

static void stalled(struct coord_job *j, struct coord_worker *w)
{
    char text[ERR_TEXT_MAX];
    if (coord_stall_cut(j, w) != COORD_NOBODY)
        coord_stall_cut_text(j->fleet, w, text, sizeof text);
    else
        (void)snprintf(text, sizeof text,
                       "worker %s beats, but has not got on for %" PRIu64 " s with what it has",
                       w->name, (coord_now_ns(j) - w->moved_ns) / SECOND_NS);
    take_away(j, w, text);
}

/* Members of a ring stand together: after one of them has lost its place, the others have their
 * time anew. */
static void members_moved(struct coord_job *j)
{
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (coord_ring_member(j, j->workers.worker[i].number))
            coord_stall_moved(&j->workers.worker[i], coord_now_ns(j));
}

/* Two members do not reach each other, although both are heard here: the later one gives up its
 * place. */
static void apart_look(struct coord_job *j)
{
    char text[2 * ERR_TEXT_MAX];
    uint64_t other = 0, one = coord_ring_apart(j, &other);
    struct coord_worker *w = coord_worker_find(&j->workers, one);
    const struct coord_worker *from = coord_worker_find(&j->workers, other);
    if (w == NULL || from == NULL || !other_able(j, w))
        return;
    (void)snprintf(text, sizeof text,
                   "workers %s (%s) and %s (%s) do not reach each other, and both are heard here: "
                   "see the network between the two, and `listen` in worker.yaml; %s is left out",
                   from->name, from->endpoint, w->name, w->endpoint, w->name);
    take_away(j, w, text);
    members_moved(j);
}

void coord_stall_tick(struct coord_job *j)
{
    uint64_t now = coord_now_ns(j);
    bool excused = !phase_works(j) || coord_awaited_any(j);
    if (j->at.phase == PHASE_TRAIN && coord_ring_on(j) && !excused)
        apart_look(j);
    for (uint32_t i = 0; i < j->workers.count && j->fleet->fatal == 0; i++) {
        struct coord_worker *w = &j->workers.worker[i];
        if (excused || !has_work(j, w->number))
            w->moved_ns = now;
        else if (now - w->moved_ns > limit_ns(j, w) && !waits_for_others(j, w) &&
                 other_able(j, w)) {
            stalled(j, w);
            members_moved(j);
        }
    }
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Returns the worker without progress for longest among those that hold the others up; NULL: none
 * has work. */
static const struct coord_worker *culprit(const struct coord_job *j)
{
    const struct coord_worker *worst = NULL;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        if (has_work(j, w->number) && !waits_for_others(j, w) &&
            (worst == NULL || w->moved_ns < worst->moved_ns))
            worst = w;
    }
    return worst;
}

uint64_t coord_stall_ns(const struct coord_job *j)
{
    uint64_t newest = 0, now = coord_now_ns(j);
    bool any = false;
    for (uint32_t i = 0; i < j->workers.count; i++) {
        const struct coord_worker *w = &j->workers.worker[i];
        if (!has_work(j, w->number))
            continue;
        any = true;
        newest = MAX(newest, w->moved_ns);
    }
    if (!any)
        return 0;
    return now - newest;
}

bool coord_stall_waits(const struct coord_job *j, char *text, size_t bytes)
{
    uint64_t stands = coord_stall_ns(j);
    if (stands <= coord_lease_ns(j))
        return false;
    const struct coord_worker *w = culprit(j);
    if (w == NULL)
        (void)snprintf(text, bytes,
                       "waits: no worker has got on for %" PRIu64 " s, all their lanes wait for "
                       "servers, which are heard",
                       stands / SECOND_NS);
    else if (coord_stall_cut(j, w) != COORD_NOBODY)
        coord_stall_cut_text(j->fleet, w, text, bytes);
    else
        (void)snprintf(text, bytes,
                       "waits for worker %s, which beats and has not got on for %" PRIu64
                       " s: see its log and its input",
                       w->name, (coord_now_ns(j) - w->moved_ns) / SECOND_NS);
    return true;
}
