/* setup_state.c: how far each shard is set up for a job; the steps are in setup.c. */
#include "server/coord/core/setup_state.h"

#include "proto/base/assert.h"

void coord_setup_lost(struct coord_job *j, uint32_t shard)
{
    SHOAL_ASSERT(!(j->setup.shard[shard].done && j->setup.shard[shard].busy));
    j->setup.shard[shard] = (struct coord_setup_shard){0};
}

void coord_setup_again(struct coord_job *j, uint32_t shard)
{
    coord_call_forget_shard(&j->fleet->calls, j, shard);
    coord_call_forget_shard(&j->fleet->calls, j->fleet, shard);
    coord_setup_lost(j, shard);
}

void coord_setup_forget(struct coord_job *j)
{
    j->space->drops_all = false; /* setup.c says so again, if it is so */
    for (uint32_t i = 0; i < j->fleet->members.shards; i++)
        coord_setup_again(j, i);
}

bool coord_setup_all(const struct coord_job *j)
{
    COORD_EACH_SHARD (&j->fleet->members, i)
        if (!j->setup.shard[i].done)
            return false;
    return true;
}

bool coord_setup_greeted(const struct coord_job *j)
{
    COORD_EACH_SHARD (&j->fleet->members, i)
        if (!j->setup.shard[i].greeted)
            return false;
    return !coord_call_open_type(&j->fleet->calls, j, WIRE_TYPE_CUT_KEEP);
}
