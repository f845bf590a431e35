/* ring.c: members of a ring, and the step from which it goes on. */
#include "server/coord/work/ring.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

#include <string.h>

static const char *const names[] = {
    [RING_NONE] = "none", [RING_GATHERS] = "gathers", [RING_STANDS] = "stands"};
static const uint32_t moves[] = {[RING_NONE] = SM_TO(RING_GATHERS),
                                 [RING_GATHERS] =
                                     SM_TO(RING_GATHERS) | SM_TO(RING_STANDS) | SM_TO(RING_NONE),
                                 [RING_STANDS] = SM_TO(RING_GATHERS) | SM_TO(RING_NONE)};
static const struct sm ring_moves = SM("a ring", names, moves);

void coord_ring_open(struct coord_ring *r, uint32_t lanes)
{
    *r = (struct coord_ring){
        .lanes = lanes, .starts = MIN(lanes, WIRE_RING_MEMBERS), .source = COORD_RING_TABLES};
}

static uint32_t index_of(const struct coord_ring *r, uint64_t worker)
{
    for (uint32_t i = 0; i < r->count; i++)
        if (r->member[i].worker == worker)
            return i;
    return UINT32_MAX;
}

const struct coord_ring_member *coord_ring_find(const struct coord_ring *r, uint64_t worker)
{
    uint32_t i = index_of(r, worker);
    if (i == UINT32_MAX)
        return NULL;
    return &r->member[i];
}

/* ---- gathering ------------------------------------------------------------------------------- */

static bool lives(const uint64_t *worker, uint32_t count, uint64_t one)
{
    for (uint32_t i = 0; i < count; i++)
        if (worker[i] == one)
            return true;
    return false;
}

/* The next worker from *at on that is no member; 0: there is none. */
static uint64_t newcomer(const struct coord_ring *r, const uint64_t *worker, uint32_t count,
                         uint32_t *at)
{
    while (*at < count)
        if (index_of(r, worker[(*at)++]) == UINT32_MAX)
            return worker[*at - 1];
    return 0;
}

/* Writes the members of a ring of these workers; returns their number. */
static uint32_t members_pick(const struct coord_ring *r, const uint64_t *worker, uint32_t count,
                             uint64_t out[WIRE_RING_MEMBERS])
{
    uint32_t most = MIN(MIN(r->lanes, WIRE_RING_MEMBERS), count), picked = 0, at = 0;
    for (uint32_t i = 0; i < r->count && picked < most; i++) {
        uint64_t one = r->member[i].worker;
        if (!lives(worker, count, one))
            one = newcomer(r, worker, count, &at);
        if (one != 0)
            out[picked++] = one;
    }
    while (picked < most) {
        out[picked] = newcomer(r, worker, count, &at);
        SHOAL_ASSERT(out[picked] != 0); /* `most` workers live */
        picked++;
    }
    return picked;
}

static void members_set(struct coord_ring *r, const uint64_t *worker, uint32_t count)
{
    const struct coord_ring was = *r;
    memset(r->member, 0, sizeof r->member);
    r->count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = (uint32_t)((uint64_t)i * r->lanes / count),
                 end = (uint32_t)((uint64_t)(i + 1) * r->lanes / count),
                 at = index_of(&was, worker[i]);
        r->member[i] = (struct coord_ring_member){
            .worker = worker[i], .first = first, .lanes = end - first, .since = r->number};
        if (at != UINT32_MAX)
            r->member[i].since = was.member[at].since;
    }
}

static bool same_members(const struct coord_ring *r, const uint64_t *worker, uint32_t count)
{
    bool same = count == r->count;
    for (uint32_t i = 0; i < count && same; i++)
        same = r->member[i].worker == worker[i];
    return same;
}

bool coord_ring_changes(const struct coord_ring *r, const uint64_t *worker, uint32_t count)
{
    uint64_t next[WIRE_RING_MEMBERS];
    uint32_t picked = members_pick(r, worker, count, next);
    return !same_members(r, next, picked);
}

bool coord_ring_gather(struct coord_ring *r, const uint64_t *worker, uint32_t count)
{
    uint64_t next[WIRE_RING_MEMBERS];
    uint32_t picked = members_pick(r, worker, count, next);
    if (same_members(r, next, picked))
        return false;
    if (picked == 0) {
        sm_move(&ring_moves, &r->state, RING_NONE);
        r->count = 0;
        return false;
    }
    sm_move(&ring_moves, &r->state, RING_GATHERS);
    r->number++; /* 1 */
    members_set(r, next, picked);
    return true;
}

void coord_ring_again(struct coord_ring *r)
{
    sm_move(&ring_moves, &r->state, RING_GATHERS);
    r->number++; /* 1 */
    for (uint32_t i = 0; i < r->count; i++)
        r->member[i].told = r->member[i].has = false;
}

bool coord_ring_counts(const struct coord_ring *r, uint64_t worker, uint64_t of)
{
    const struct coord_ring_member *m = coord_ring_find(r, worker);
    return of != 0 && of <= r->number && (of == r->stood || (m != NULL && of >= m->since));
}

/* Every member has told its step. */
static void ring_stand(struct coord_ring *r)
{
    r->step = r->published;
    r->source = COORD_RING_TABLES;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct coord_ring_member *m = &r->member[i];
        if (m->has && (r->source == COORD_RING_TABLES || m->step > r->step)) {
            r->step = m->step;
            r->source = i;
        }
    }
    SHOAL_ASSERT(r->step >= r->published); /* 4: what is published was whole at a member */
    r->stood = r->number;
    sm_move(&ring_moves, &r->state, RING_STANDS);
}

bool coord_ring_report(struct coord_ring *r, uint64_t worker, uint64_t number, bool has,
                       uint64_t step)
{
    uint32_t i = index_of(r, worker);
    if (r->state != RING_GATHERS || number != r->number || i == UINT32_MAX || r->member[i].told)
        return false;
    r->member[i].told = true;
    r->member[i].has = has && step >= r->published; /* an older one is of no use */
    r->member[i].step = step;
    for (i = 0; i < r->count; i++)
        if (!r->member[i].told)
            return false;
    ring_stand(r);
    return true;
}

void coord_ring_published(struct coord_ring *r, uint64_t step)
{
    r->published = MAX(r->published, step);
}

void coord_ring_found(struct coord_ring *r, uint64_t step)
{
    SHOAL_ASSERT(r->state == RING_STANDS && r->source == COORD_RING_TABLES);
    r->step = r->published = step;
}

uint64_t coord_ring_holder(const struct coord_ring *r, uint32_t lane)
{
    SHOAL_ASSERT(lane < r->lanes);
    for (uint32_t i = 0; i < r->count; i++)
        if (lane - r->member[i].first < r->member[i].lanes)
            return r->member[i].worker;
    return 0;
}

uint64_t coord_ring_at(const struct coord_ring *r)
{
    return MAX(r->step, r->published);
}

uint64_t coord_ring_batch(const struct coord_ring *r, uint64_t mark)
{
    SHOAL_ASSERT(r->state == RING_STANDS);
    uint64_t at = coord_ring_at(r);
    return MIN(mark, at) + 1;
}

/* ---- the store ------------------------------------------------------------------------------- */

void coord_ring_to_record(const struct coord_ring *r, uint64_t run, struct coord_ring_record *out)
{
    *out = (struct coord_ring_record){.run = run,
                                      .number = r->number,
                                      .stood = r->stood,
                                      .step = r->step,
                                      .published = r->published,
                                      .state = r->state,
                                      .lanes = r->lanes,
                                      .starts = r->starts,
                                      .source = r->source,
                                      .count = r->count};
    for (uint32_t i = 0; i < r->count; i++)
        out->worker[i] = r->member[i].worker;
}

bool coord_ring_from_record(struct coord_ring *r, uint64_t run, const struct coord_ring_record *in)
{
    bool stands = in->state == RING_STANDS;
    if (in->run != run || in->lanes != r->lanes || in->stood > in->number ||
        in->state > RING_STANDS || in->count > MIN(in->lanes, WIRE_RING_MEMBERS) ||
        in->starts > MIN(in->lanes, WIRE_RING_MEMBERS) ||
        (in->count == 0 && in->state != RING_NONE))
        return false;
    if (stands && (in->starts == 0 || (in->source >= in->count && in->source != COORD_RING_TABLES)))
        return false;
    coord_ring_open(r, in->lanes);
    r->number = in->number;
    r->stood = in->stood;
    if (in->starts != 0)
        r->starts = in->starts; /* 3: of a run that began under a release with another rule */
    r->published = in->published;
    if (in->count == 0)
        return true;
    members_set(r, in->worker, in->count);
    sm_move(&ring_moves, &r->state, RING_GATHERS);
    if (stands) {
        r->step = in->step;
        r->source = in->source;
        sm_move(&ring_moves, &r->state, RING_STANDS);
    }
    return true;
}
