/* replace.c: see replace.h. */
#include "server/coord/fleet/replace.h"

#include "proto/base/assert.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <string.h>

static const char KEY[] = "replace";

int coord_replace_open(struct coord_fleet *f, struct err *e)
{
    int rc = coord_store_get_fixed(f->store, KEY, &f->replace, sizeof f->replace, e);
    f->replace.from[LIMIT_PATH - 1] = 0;
    return coord_store_optional(rc);
}

static bool is_of(const struct coord_fleet *f, uint32_t shard, const char *server)
{
    return strcmp(f->members.shard[shard].server, server) == 0;
}

uint32_t coord_replace_shards(const struct coord_fleet *f, const char *server)
{
    uint32_t shards = 0;
    for (uint32_t s = 0; s < f->members.shards; s++)
        shards += is_of(f, s, server);
    return shards;
}

static int shard_check(const struct coord_fleet *f, uint32_t shard, uint64_t since_ns,
                       struct err *e)
{
    const struct coord_shard *s = &f->members.shard[shard];
    uint64_t now = env_now_ns(f->env), lease = coord_fleet_lease_ns(f);
    if (coord_copies_others(f, shard))
        return err_set(e, SHOAL_E_USAGE,
                       "another copy of shard %u has all rows of server %s, so no checkpoint is "
                       "needed: shoal replace %s",
                       shard, s->server, s->server);
    if (s->seen && now - s->beat_ns <= lease)
        return err_set(e, SHOAL_E_BUSY,
                       "server %s beats, and its shard %u is there: a server is replaced when its "
                       "data_dir is lost. Stop it first, then ask again after %.0f s",
                       s->server, shard, (double)lease * 1e-9);
    if (!s->seen && !s->vacant && now - since_ns <= lease)
        return err_set(e, SHOAL_E_BUSY,
                       "the coordinator started less than %.0f s ago, and server %s may still "
                       "come: ask again then",
                       (double)lease * 1e-9, s->server);
    return 0;
}

int coord_replace_check(const struct coord_fleet *f, const char *server, uint64_t since_ns,
                        struct err *e)
{
    if (server[0] == 0 || coord_replace_shards(f, server) == 0)
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no server %s holds a shard here: shoal status names those that do", server);
    if (f->options.replicas > 1 && f->copies.of == NULL)
        return err_set(e, SHOAL_E_BUSY, "the copies of the shards are not known yet: ask again");
    for (uint32_t s = 0; s < f->members.shards; s++) {
        int rc = 0;
        if (is_of(f, s, server))
            rc = shard_check(f, s, since_ns, e);
        if (rc != 0)
            return rc;
    }
    if (f->options.replicas > 1)
        return err_set(e, SHOAL_E_CONFIG,
                       "replicas: %u, and no copy of the shards of server %s is there: start the "
                       "servers that have one; --from is for replicas: 1",
                       f->options.replicas, server);
    return 0;
}

bool coord_replace_put(struct coord_fleet *f, const char *server, const char *from)
{
    struct coord_replace order = {.from = ""};
    struct err e = {0};
    int rc = 0;
    SHOAL_ASSERT(from[0] != 0);
    text_copy(order.from, sizeof order.from, from);
    if (!coord_put(f, KEY, &order, sizeof order))
        return false;
    for (uint32_t s = 0; s < f->members.shards && rc == 0; s++)
        if (is_of(f, s, server))
            rc = coord_member_vacate(&f->members, s, f->counters.next_run, f->store, &e);
    if (!coord_fleet_stored(f, rc, &e))
        return false;
    f->replace = order;
    return true;
}

bool coord_replace_done(struct coord_fleet *f)
{
    static const struct coord_replace none;
    if (f->replace.from[0] == 0)
        return true;
    if (!coord_put(f, KEY, &none, sizeof none))
        return false;
    f->replace = none;
    return true;
}
