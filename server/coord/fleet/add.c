/* add.c: add.h has the diagram. */
#include "server/coord/fleet/add.h"

#include "proto/base/array.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An order as far as it is read. */
struct add {
    struct coord_claim *claim; /* (claims), owned: the shards that get places */
    uint32_t claims, capacity;
    uint32_t shard[COORD_STRANGERS]; /* their numbers */
    uint32_t shards;
};

/* ---- reading the order ---- */

/* True when an order of a moment ago has given the shard a number: it waits until its next beat. */
static bool has_number(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b)
{
    uint32_t shard;
    return coord_member_number(&f->members, b) != COORD_NOBODY ||
           coord_copies_find(f, b, &shard) != NULL;
}

/* Takes the shards of a server that wait. *found: it has one. NOMEM. */
static int waiting_take(const struct coord_fleet *f, const char *server, struct add *a, bool *found,
                        struct err *e)
{
    const struct coord_cluster *cl = &f->cluster;
    for (uint32_t i = 0; i < cl->strangers; i++) {
        const struct coord_stranger *s = &cl->stranger[i];
        if (!s->waits || strcmp(s->server, server) != 0 || !coord_cluster_stranger_heard(f, s))
            continue;
        if (array_room(&a->claim, a->claims, &a->capacity, 8) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for the shards that wait");
        struct wire_SHARD_BEAT *b = &a->claim[a->claims].beat;
        a->claim[a->claims] = (struct coord_claim){.beat.shard_index = s->index};
        memcpy(b->server, s->server, sizeof b->server);
        memcpy(b->zone, s->zone, sizeof b->zone);
        if (has_number(f, b))
            continue;
        a->claims++;
        *found = true;
    }
    return 0;
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
        bool found = false;
        for (uint32_t i = 0; i < a->claims; i++) /* it may be named twice */
            found |= strcmp(a->claim[i].beat.server, name) == 0;
        if (!found && waiting_take(f, name, a, &found, e) != 0)
            return SHOAL_E_NOMEM;
        if (found || coord_copies_on_any(f, name))
            continue;
        return err_set(e, SHOAL_E_NOT_FOUND,
                       "no server %s waits for a place: start it with an empty data_dir and this "
                       "coordinator's address; `shoal status` shows the servers that wait",
                       name);
    }
    if (a->claims > 0)
        qsort(a->claim, a->claims, sizeof a->claim[0], by_server);
    return places_check(f, a, e);
}

/* ---- numbers ---- */

/* Returns a number that no shard has had, so that no folder of a shard that was drained is taken
 * for the new one's. Once there is none, one that is retired. */
static uint32_t number_fresh(struct coord_members *m)
{
    uint32_t s = 0;
    if (m->shards < LIMIT_SHARDS)
        return m->shards++;
    while (!m->shard[s].retired)
        s++;
    return s;
}

static int numbers_take(struct coord_fleet *f, struct add *a, struct err *e)
{
    struct coord_members *m = &f->members;
    uint32_t wanted = a->claims / f->options.replicas;
    if (coord_member_count(m) + wanted > LIMIT_SHARDS)
        return err_set(e, SHOAL_E_TOO_BIG, "a cluster has %u shards at most", LIMIT_SHARDS);
    while (a->shards < wanted) {
        uint32_t s = number_fresh(m);
        m->shard[s] = (struct coord_shard){0};
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
    if (rc == 0 && !coord_copies_deal(f, a->claim, a->claims, a->shard, a->shards))
        return coord_store_failed(e);
    for (uint32_t i = 0; i < a->shards && rc == 0; i++)
        rc = coord_member_reserve(m, f->store, a->shard[i], env_now_ns(f->env), e);
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

static int order_carry_out(struct coord_fleet *f, const char *servers, const struct err *busy,
                           struct add *a, struct err *e)
{
    int rc = order_read(f, servers, a, e);
    if (rc == 0 && a->claims > 0 && busy->code != 0)
        return err_set(e, busy->code, "%s", busy->text);
    if (rc == 0)
        rc = numbers_take(f, a, e);
    if (rc != 0 || a->shards == 0)
        return rc;
    rc = places_give(f, a, e);
    /* servers would hear of places that are in memory and not in the store: the coordinator ends */
    if (coord_fleet_stored(f, rc, e))
        log_info("the cluster has %u shards more, on %s: %u in all", a->shards, servers,
                 coord_member_count(&f->members));
    return rc;
}

int coord_add_order(struct coord_fleet *f, const char *servers, const struct err *busy,
                    struct json **told, struct err *e)
{
    struct add a = {.claim = NULL};
    if (!coord_cluster_ready(&f->cluster))
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "the cluster is not known yet: it is founded by the first %u shards that "
                       "come; `shoal status` shows which have",
                       f->options.shards);
    int rc = order_carry_out(f, servers, busy, &a, e);
    free(a.claim);
    if (rc == 0)
        *told = told_json(f, servers);
    return rc;
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

/* True when the shard has no rows and is away: it never came, or is silent. */
static bool absent(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_shard *s = &f->members.shard[shard];
    uint64_t since = MAX(s->beat_ns, f->copies.begun_ns);
    bool came = s->seen || !s->vacant || s->replaced != 0;
    if (coord_cluster_led(&f->cluster, shard) > 0 || coord_copies_others(f, shard))
        return false;
    return !came || env_now_ns(f->env) - since > coord_fleet_lease_ns(f);
}

bool coord_add_absent(const struct coord_fleet *f, const char *server)
{
    const struct coord_moves *m = &f->moves;
    uint32_t of_it = 0;
    COORD_EACH_SHARD (&f->members, s) {
        if (!coord_copies_on(f, s, server))
            continue;
        of_it++;
        if (!absent(f, s))
            return false;
        for (uint32_t i = 0; i < m->tablets; i++)
            if (m->goal[i] == s)
                return false;
    }
    return of_it > 0 && of_it < coord_member_count(&f->members) && coord_cluster_ready(&f->cluster);
}

int coord_add_take_back(struct coord_fleet *f, const char *server, const struct err *busy,
                        struct json **told, struct err *e)
{
    struct json *retired = json_new_array();
    int rc = 0;
    if (busy->code != 0)
        rc = err_set(e, busy->code, "%s", busy->text);
    COORD_EACH_SHARD (&f->members, s) {
        if (rc != 0 || !coord_copies_on(f, s, server))
            continue;
        log_info("shard %u of server %s is retired: the server is away, and it led no tablet", s,
                 server);
        if (!shard_retire(f, s))
            rc = coord_store_failed(e);
        struct json *one = json_new_object();
        json_set_int(one, "shard", s);
        json_append(retired, one);
    }
    if (rc != 0) {
        json_free(retired);
        return rc;
    }
    *told = json_new_object();
    json_set(*told, "retired", retired);
    return 0;
}

const char *coord_add_ways(const struct coord_fleet *f, const char *server, char out[ERR_TEXT_MAX])
{
    if (!coord_add_absent(f, server))
        return coord_member_ways(f->options.replicas, server, out);
    (void)snprintf(out, ERR_TEXT_MAX,
                   "it leads no tablets: if it does not come, shoal drain %s lets the cluster go "
                   "on without it",
                   server);
    return out;
}

void coord_add_step(struct coord_fleet *f)
{
    const char *server = f->moves.drained;
    if (!coord_moves_emptied(f) || !coord_cluster_ready(&f->cluster) ||
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
