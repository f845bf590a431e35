/* fresh.c: invariants in fresh.h. */
#include "server/coord/fresh.h"

#include "proto/base/assert.h"
#include "proto/base/plant.h"
#include "server/coord/core.h"
#include "server/coord/phase.h"

static const char CLEAR_KEY[] = "clear";

_Static_assert(sizeof(struct coord_fresh) == 16, "coord_fresh is stored");

int coord_fresh_open(struct coord *c, struct err *e)
{
    int rc = coord_store_get_fixed(c->store, CLEAR_KEY, &c->fresh, sizeof c->fresh, e);
    return rc == SHOAL_E_NOT_FOUND ? 0 : rc;
}

static bool put(struct coord *c, struct coord_fresh to)
{
    if (!coord_put(c, CLEAR_KEY, &to, sizeof to))
        return false;
    c->fresh = to;
    return true;
}

bool coord_fresh_want(struct coord *c, uint64_t number, bool all)
{
    const struct coord_fresh to = {all ? number : 0, all && coord_fresh_half(c)};
    return (!all && c->fresh.number == 0) || put(c, to);
}

bool coord_fresh_due(const struct coord *c)
{
    return c->fresh.number != 0 && c->fresh.number == c->job.at.number && coord_phase_running(c);
}

bool coord_fresh_half(const struct coord *c)
{
    return c->fresh.begun != 0 && !PLANTED("half_cleared");
}

bool coord_fresh_begin(struct coord *c)
{
    const struct coord_fresh to = {c->fresh.number, 1};
    return !coord_fresh_due(c) || put(c, to);
}

bool coord_fresh_done(struct coord *c)
{
    static const struct coord_fresh none;
    return !coord_fresh_due(c) || PLANTED("clear_again") || put(c, none);
}
