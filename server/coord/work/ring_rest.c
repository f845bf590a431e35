/* ring_rest.c: the states of a rest; ring_rest.h has the diagram. */
#include "server/coord/work/ring_rest.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/sm.h"

static const char *const names[] = {[REST_NONE] = "none",
                                    [REST_ASKED] = "asked",
                                    [REST_KNOWN] = "known",
                                    [REST_SETTLED] = "settled",
                                    [REST_STANDS] = "stands"};
static const uint32_t moves[] = {[REST_NONE] = SM_TO(REST_ASKED),
                                 [REST_ASKED] =
                                     SM_TO(REST_KNOWN) | SM_TO(REST_STANDS) | SM_TO(REST_NONE),
                                 [REST_KNOWN] = SM_TO(REST_SETTLED) | SM_TO(REST_NONE),
                                 [REST_SETTLED] = SM_TO(REST_STANDS) | SM_TO(REST_NONE),
                                 [REST_STANDS] = SM_TO(REST_NONE)};
static const struct sm rest_moves = SM("a rest", names, moves);

void coord_rest_begin(struct coord_rest *r, uint64_t number, uint32_t members, uint64_t least)
{
    SHOAL_ASSERT(number != 0 && members >= 1 && members <= 64);
    sm_move(&rest_moves, &r->state, REST_ASKED);
    r->number = number;
    r->members = members;
    r->newest = least;
    r->at = r->told = 0;
}

/* The member has answered. True: all have. */
static bool told_all(struct coord_rest *r, uint32_t member)
{
    SHOAL_ASSERT(member < r->members);
    r->told |= UINT64_C(1) << member;
    return r->told == UINT64_MAX >> (64 - r->members);
}

bool coord_rest_begun(struct coord_rest *r, uint64_t number, uint32_t member, uint64_t begun)
{
    if (r->state != REST_ASKED || number != r->number)
        return false;
    r->newest = MAX(r->newest, begun); /* 1 */
    if (!told_all(r, member))
        return false;
    r->at = r->newest;
    r->told = 0;
    sm_move(&rest_moves, &r->state, r->at == 0 ? REST_STANDS : REST_KNOWN);
    return true;
}

bool coord_rest_settled(struct coord_rest *r, uint64_t number, uint32_t member)
{
    if (r->state != REST_KNOWN || number != r->number || !told_all(r, member))
        return false;
    sm_move(&rest_moves, &r->state, REST_SETTLED);
    return true;
}

bool coord_rest_published(struct coord_rest *r, uint64_t step)
{
    if (r->state != REST_SETTLED || step < r->at)
        return false;
    sm_move(&rest_moves, &r->state, REST_STANDS); /* 2 */
    return true;
}

void coord_rest_end(struct coord_rest *r)
{
    if (r->state != REST_NONE)
        sm_move(&rest_moves, &r->state, REST_NONE);
    r->number = r->at = 0;
}
