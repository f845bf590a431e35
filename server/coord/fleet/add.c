/* add.c: add.h has the diagram. */
#include "server/coord/fleet/add.h"

#include "proto/base/log.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An order as far as it is read. */
struct add {
    struct coord_claim claim[COORD_STRANGERS]; /* the shards that get places */
    uint32_t claims;
    uint32_t shard[COORD_STRANGERS]; /* their numbers */
    uint32_t shards;
};

static bool has_shards(const struct coord_fleet *f, const char *server)
{
    COORD_EACH_SHARD (&f->members, s)
        if (coord_copies_on(f, s, server))
            return true;
    return false;
}

/* ---- reading the order ---- */

/* True when an order of a moment ago has given the shard a number: it waits until its next beat. */
static bool has_number(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b)
{
    uint32_t shard;
    return coord_member_number(&f->members, b) != COORD_NOBODY ||
           coord_copies_find(f, b, &shard) != NULL;
}

/* Takes the shards of a server that wait. Returns how many. */
static uint32_t waiting_take(const struct coord_fleet *f, const char *server, struct add *a)
{
    const struct coord_cluster *cl = &f->cluster;
    uint32_t before = a->claims;
    for (uint32_t i = 0; i < cl->strangers; i++) {
        const struct coord_stranger *s = &cl->stranger[i];
        if (!s->waits || strcmp(s->server, server) != 0 || !coord_cluster_stranger_heard(f, s))
            continue;
        struct wire_SHARD_BEAT *b = &a->claim[a->claims].beat;
        b->shard_index = s->index;
        memcpy(b->server, s->server, sizeof b->server);
        memcpy(b->zone, s->zone, sizeof b->zone);
        if (!has_number(f, b))
            a->claims++;
    }
    return a->claims - before;
}

/* Two copies of a shard do not lie on one server, so no server has more of the new places than
 * there are new shards. */
static int places_check(const struct coord_fleet *f, const struct add *a, struct err *e)
{
    uint32_t replicas = f->options.replicas;
    for (uint32_t i = 0; i < a->claims; i++) {
        const char *server = a->claim[i].beat.server;
        uint32_t on = 0;
        for (uint32_t k = 0; k < a->claims; k++)
            on += strcmp(a->claim[k].beat.server, server) == 0;
        if (a->claims % replicas != 0 || on > a->claims / replicas)
            return err_set(e, SHOAL_E_CONFIG,
                           "each new shard has %u copies on different servers (`replicas: %u`), "
                           "and these servers have %u places, %u of them on server %s: name %u "
                           "servers that wait, with as many shards each",
                           replicas, replicas, a->claims, on, server, replicas);
    }
    return 0;
}

static int by_server(const void *x, const void *y)
{
    const struct coord_claim *a = x, *b = y;
    int order = strcmp(a->beat.server, b->beat.server);
    return order != 0 ? order : (int)a->beat.shard_index - (int)b->beat.shard_index;
}

static int order_read(const struct coord_fleet *f, const char *servers, struct add *a,
                      struct err *e)
{
    char name[LIMIT_NAME];
    for (int used = 0; sscanf(servers, " %63s%n", name, &used) == 1; servers += used) {
        bool named = false;
        for (uint32_t i = 0; i < a->claims; i++)
            named |= strcmp(a->claim[i].beat.server, name) == 0;
        if (named || waiting_take(f, name, a) > 0 || has_shards(f, name))
            continue;
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no server %s waits for a place: start it with an empty data_dir and this "
                       "coordinator's address; `shoal status` shows the servers that wait",
                       name);
    }
    qsort(a->claim, a->claims, sizeof a->claim[0], by_server);
    return places_check(f, a, e);
}

bool coord_add_due(const struct coord_fleet *f, const char *servers)
{
    struct add a = {0};
    return coord_cluster_ready(&f->cluster) && order_read(f, servers, &a, NULL) == 0 &&
           a.claims > 0;
}

/* ---- numbers ---- */

/* Takes numbers for the new shards: those that are retired, then the next ones. */
static int numbers_take(struct coord_fleet *f, struct add *a, struct err *e)
{
    struct coord_members *m = &f->members;
    uint32_t wanted = a->claims / f->options.replicas;
    if (coord_member_count(m) + wanted > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_TOO_BIG, "a cluster has %u shards at most", LIMIT_SHARDS);
    for (uint32_t s = 0; a->shards < wanted; s++) {
        if (s < m->shards && !m->shard[s].retired)
            continue;
        m->shard[s] = (struct coord_shard){0};
        if (s == m->shards)
            m->shards++;
        coord_call_shard_added(&f->calls, s);
        a->shard[a->shards++] = s;
    }
    return 0;
}

/* Gives the new shards their servers. */
static int places_give(struct coord_fleet *f, struct add *a, struct err *e)
{
    struct coord_members *m = &f->members;
    int rc = coord_member_numbers_put(m, f->store, e);
    for (uint32_t i = 0; i < a->shards; i++)
        if (!coord_copies_make(f, a->shard[i]))
            return err_set(e, SHOAL_E_NOMEM, "no memory for the copies of shards");
    if (rc == 0 && f->options.replicas > 1 &&
        !coord_copies_deal(f, a->claim, a->claims, a->shard, a->shards))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    for (uint32_t i = 0; i < a->shards && rc == 0; i++) {
        struct coord_shard *s = &m->shard[a->shard[i]];
        const struct wire_SHARD_BEAT *b = &a->claim[i].beat;
        if (f->options.replicas > 1) /* dealt */
            rc = coord_member_reserve(m, f->store, a->shard[i], s->server, s->index,
                                      env_now_ns(f->env), e);
        else
            rc = coord_member_reserve(m, f->store, a->shard[i], b->server, b->shard_index,
                                      env_now_ns(f->env), e);
    }
    return rc;
}

static struct json *told_json(const struct coord_fleet *f, const char *servers)
{
    struct json *j = json_new_object(), *list = json_new_array();
    char name[LIMIT_NAME];
    for (int used = 0; sscanf(servers, " %63s%n", name, &used) == 1; servers += used)
        COORD_EACH_SHARD (&f->members, s) {
            if (!coord_copies_on(f, s, name))
                continue;
            struct json *one = json_new_object();
            json_set_int(one, "shard", s);
            json_set_string(one, "server", name);
            json_append(list, one);
        }
    json_set(j, "shards", list);
    return j;
}

int coord_add_order(struct coord_fleet *f, const char *servers, struct json **told, struct err *e)
{
    struct add a = {0};
    if (!coord_cluster_ready(&f->cluster))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the cluster is not known yet: it is founded by the first %u shards that "
                       "come; `shoal status` shows which have",
                       f->options.shards);
    int rc = order_read(f, servers, &a, e);
    if (rc == 0)
        rc = numbers_take(f, &a, e);
    if (rc != 0)
        return rc;
    if (a.shards > 0) {
        rc = places_give(f, &a, e);
        /* what is in memory now and not in the store would be told: the coordinator ends */
        if (!coord_fleet_stored(f, rc, e))
            return rc;
        log_info("the cluster has %u shards more, on %s: %u in all", a.shards, servers,
                 coord_member_count(&f->members));
    }
    *told = told_json(f, servers);
    return 0;
}

/* ---- leaving ---- */

/* False: the store failed. */
static bool shard_retire(struct coord_fleet *f, uint32_t shard)
{
    struct err e = {0};
    coord_call_forget_shard(&f->calls, NULL, shard);
    coord_call_shard_retired(&f->calls, shard);
    return coord_copies_retire(f, shard) &&
           coord_fleet_stored(f, coord_member_retire(&f->members, f->store, shard, &e), &e);
}

void coord_add_step(struct coord_fleet *f, const char *job)
{
    const char *server = f->moves.drained;
    if (!coord_moves_emptied(f) || !coord_cluster_ready(&f->cluster) || job != NULL ||
        !coord_call_quiet(&f->calls))
        return;
    for (uint32_t s = 0; s < f->members.shards; s++) {
        if (f->members.shard[s].retired || !coord_copies_on(f, s, server) ||
            coord_cluster_led(&f->cluster, s) > 0)
            continue;
        if (!shard_retire(f, s))
            return;
        log_info("shard %u of server %s is retired: it leads no tablet, and no job awaits it", s,
                 server);
    }
    coord_moves_end(f);
}
