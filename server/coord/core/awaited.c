/* awaited.c: servers that are away, read their rows or take no pushes. */
#include "server/coord/core/awaited.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"

uint64_t coord_awaited_silent_ns(const struct coord_job *j, const struct coord_shard *s)
{
    uint64_t now = env_now_ns(j->fleet->env), since = MAX(j->watch.begun_ns, s->beat_ns);
    if (s->seen)
        since = s->beat_ns;
    SHOAL_ASSERT(since <= now);
    return now - since;
}

bool coord_awaited_silent(const struct coord_job *j, const struct coord_shard *s)
{
    return coord_awaited_silent_ns(j, s) > j->fleet->options.lease_ms * UINT64_C(1000000);
}

bool coord_awaited_unheard(const struct coord_job *j, const struct coord_shard *s)
{
    uint64_t lease_ns = j->fleet->options.lease_ms * UINT64_C(1000000);
    return coord_awaited_silent_ns(j, s) > MIN(lease_ns, COORD_UNHEARD_NS);
}

const struct coord_shard *coord_awaited_missing(const struct coord_job *j)
{
    COORD_EACH_SHARD (&j->fleet->members, i)
        if (coord_awaited_silent(j, &j->fleet->members.shard[i]))
            return &j->fleet->members.shard[i];
    return NULL;
}

const struct coord_shard *coord_awaited_short(const struct coord_fleet *f)
{
    uint64_t now = env_now_ns(f->env);
    for (uint32_t i = 0; i < f->members.shards; i++)
        if (f->members.shard[i].short_ns != 0 &&
            now - f->members.shard[i].short_ns > COORD_SHORT_NS)
            return &f->members.shard[i];
    return NULL;
}

const struct coord_shard *coord_awaited_reading(const struct coord_fleet *f)
{
    for (uint32_t i = 0; i < f->members.shards; i++)
        if (f->members.shard[i].seen && !f->members.shard[i].ready)
            return &f->members.shard[i];
    return NULL;
}

bool coord_awaited_any(const struct coord_job *j)
{
    return coord_awaited_missing(j) != NULL || coord_awaited_reading(j->fleet) != NULL ||
           coord_awaited_short(j->fleet) != NULL ||
           coord_call_put_off_ns(&j->fleet->calls) > COORD_SHORT_NS;
}
