/* claims.c: claims.h has the diagram. */
#include "server/coord/fleet/claims.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/fleet.h"
#include "server/coord/fleet/lost.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_AGAIN_NS UINT64_C(1000000000)
#define SPARE 64u /* claims of shards that were drained, beside those that are wanted */

static struct coord_claim *claim_of(struct coord_claims *c, const struct wire_SHARD_BEAT *b)
{
    for (uint32_t i = 0; i < c->count; i++)
        if (c->claim[i].beat.shard_index == b->shard_index &&
            strcmp(c->claim[i].beat.server, b->server) == 0)
            return &c->claim[i];
    return NULL;
}

/* Removes what shards that have stopped beating have claimed to be: they do not count when the
 * cluster is recognized. */
static void claims_expire(struct coord_fleet *f)
{
    struct coord_claims *c = &f->cluster.claims;
    uint64_t now = env_now_ns(f->env);
    for (uint32_t i = 0; i < c->count;)
        if (now - c->claim[i].beat_ns > coord_fleet_lease_ns(f))
            c->claim[i] = c->claim[--c->count];
        else
            i++;
}

/* Returns how many claims are of a server. */
static uint32_t claims_on(const struct coord_claims *c, const char *server)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++)
        count += strcmp(c->claim[i].beat.server, server) == 0;
    return count;
}

/* Returns how many claims are of shards that belong to a cluster, or have rows. */
static uint32_t claims_old(const struct coord_claims *c)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->count; i++)
        count += coord_member_belongs(&c->claim[i].beat) || c->claim[i].beat.holds;
    return count;
}

/* Refuses a shard that has no place among those that are wanted. */
static int room_check(const struct coord_fleet *f, const struct wire_SHARD_BEAT *b, struct err *e)
{
    const struct coord_claims *c = &f->cluster.claims;
    uint32_t most = coord_copies_wanted(f);
    if (coord_member_belongs(b))
        most += SPARE;
    if (c->count >= most)
        return err_set(e, SHOAL_E_BUSY,
                       "all %u shards of the coordinator's file are there without it: see "
                       "`shards` there",
                       c->count);
    if (f->options.replicas > 1 && !coord_member_belongs(b) &&
        claims_on(c, b->server) == f->options.shards)
        return err_set(e, SHOAL_E_BUSY,
                       "server %s has a copy of each of the %u shards without it, and two copies "
                       "of a shard lie on different servers (replicas: %u): start another server",
                       b->server, f->options.shards, f->options.replicas);
    return 0;
}

static int claim_note(struct coord_fleet *f, const struct wire_SHARD_BEAT *b, peer_t from,
                      struct err *e)
{
    struct coord_claims *c = &f->cluster.claims;
    claims_expire(f);
    struct coord_claim *at = claim_of(c, b);
    if (at == NULL) {
        int rc = room_check(f, b, e);
        if (rc != 0)
            return rc;
        if (array_room(&c->claim, c->count, &c->capacity, 8) != 0)
            return err_set(e, SHOAL_E_NOMEM, "no memory for one more shard");
        at = &c->claim[c->count++];
        c->came_ns = env_now_ns(f->env);
    }
    *at = (struct coord_claim){*b, from, env_now_ns(f->env)};
    return 0;
}

/* Writes e.g. "server a, shard 0: number 1 of cluster ..; server b, shard 0: empty". */
static int disagree(const struct coord_claims *c, struct err *e)
{
    char text[ERR_TEXT_MAX / 2] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < c->count && n < sizeof text; i++) {
        const struct wire_SHARD_BEAT *b = &c->claim[i].beat;
        char what[80];
        if (coord_member_belongs(b))
            (void)snprintf(what, sizeof what, "shard %u of %u of cluster %016" PRIx64, b->number,
                           b->shards, b->cluster_high);
        else
            text_copy(what, sizeof what, b->holds ? "tables of no cluster" : "empty");
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s/%u: %s", text_if(i > 0, "; "),
                              b->server, b->shard_index, what);
    }
    return err_set(e, SHOAL_E_CONFIG,
                   "the coordinator's data_dir is empty and the shards do not agree on a cluster "
                   "to take over (%s): bring back the coordinator's data_dir, or start only "
                   "servers of one cluster, all of them",
                   text);
}

/* ---- founding ---- */

static int found(struct coord_fleet *f, struct err *e)
{
    const uint64_t id[2] = {env_random(f->env) | 1, env_random(f->env)};
    if (!coord_cluster_found(f, id, false))
        return coord_store_failed(e);
    log_info("cluster %016" PRIx64 "%016" PRIx64 " is founded with %u shards", id[0], id[1],
             f->cluster.claims.count);
    return 0;
}

/* ---- taking over: the newest map ---- */

static bool leads(const struct coord_claims *c, uint32_t number)
{
    return (c->map.leads[number / 8] >> (number % 8) & 1) != 0;
}

/* True when it is known which numbers lead tablets by the newest map; else asks for it. */
static bool map_known(struct coord_fleet *f)
{
    struct coord_claims *c = &f->cluster.claims;
    const struct coord_claim *newest = &c->claim[0];
    uint64_t now = env_now_ns(f->env);
    for (uint32_t i = 1; i < c->count; i++)
        if (c->claim[i].beat.map_epoch > newest->beat.map_epoch)
            newest = &c->claim[i];
    if (newest->beat.map_epoch <= c->map.epoch) /* both 0: no job has made tables */
        return true;
    if (c->map.asked == newest->peer && c->map.asked_epoch == newest->beat.map_epoch &&
        now - c->map.asked_ns < ASK_AGAIN_NS)
        return false;
    c->map.asked = newest->peer;
    c->map.asked_epoch = newest->beat.map_epoch;
    c->map.asked_ns = now;
    coord_send(f, newest->peer, wire_encode(&(struct wire){.type = WIRE_TYPE_MAP_HELD, .id = 1}));
    return false;
}

void coord_claims_map(struct coord_fleet *f, peer_t from, const struct wire *reply,
                      const struct msg *m)
{
    struct coord_claims *c = &f->cluster.claims;
    const struct wire_MAP_HELD_reply *r = &reply->u.MAP_HELD_reply;
    uint8_t numbers[LIMIT_SHARDS / 8] = {0};
    if (from != c->map.asked || reply->status != 0 || r->map_epoch <= c->map.epoch)
        return; /* without an answer the next beats ask again */
    const uint16_t *shard_of = m->frame[1].data;
    for (uint32_t i = 0; i < r->tablet_count; i++) {
        if (shard_of[i] >= LIMIT_SHARDS) {
            log_error("the map of epoch %" PRIu64 " that a shard tells cannot be", r->map_epoch);
            return;
        }
        numbers[shard_of[i] / 8] |= (uint8_t)(1u << (shard_of[i] % 8));
    }
    c->map.epoch = r->map_epoch;
    memcpy(c->map.leads, numbers, sizeof numbers);
}

/* ---- taking over: the numbers ---- */

/* The numbers that are claimed. */
struct numbers {
    uint32_t count[LIMIT_SHARDS]; /* claims of each */
    uint32_t whole;               /* numbers whose copies are all there */
    uint32_t leading;             /* numbers that lead tablets */
    uint32_t away;                /* the first of those that is not whole; COORD_NOBODY: none */
    uint32_t end;                 /* above all */
};

/* Counts them. False: the shards are of several clusters, or a number has too many copies. */
static bool numbers_count(const struct coord_fleet *f, struct numbers *n)
{
    const struct coord_claims *c = &f->cluster.claims;
    *n = (struct numbers){.away = COORD_NOBODY};
    for (uint32_t i = 0; i < c->count; i++) {
        const struct wire_SHARD_BEAT *b = &c->claim[i].beat, *first = &c->claim[0].beat;
        if (!coord_member_belongs(b) || b->cluster_high != first->cluster_high ||
            b->cluster_low != first->cluster_low || b->number >= LIMIT_SHARDS ||
            n->count[b->number]++ == f->options.replicas)
            return false;
        n->end = MAX(n->end, b->number + 1);
    }
    for (uint32_t s = 0; s < LIMIT_SHARDS; s++) {
        bool whole = n->count[s] == f->options.replicas;
        n->whole += whole;
        n->leading += leads(c, s);
        if (leads(c, s))
            n->end = MAX(n->end, s + 1);
        if (leads(c, s) && !whole && n->away == COORD_NOBODY)
            n->away = s;
    }
    return true;
}

/* Returns the count of shards that all claims tell; 0: they tell different ones. */
static uint32_t told_shards(const struct coord_claims *c)
{
    for (uint32_t i = 1; i < c->count; i++)
        if (c->claim[i].beat.shards != c->claim[0].beat.shards)
            return 0;
    return c->claim[0].beat.shards;
}

/* Returns the newest map that a copy of the number has. */
static uint64_t epoch_of(const struct coord_claims *c, uint32_t number)
{
    uint64_t epoch = 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (c->claim[i].beat.number == number)
            epoch = MAX(epoch, c->claim[i].beat.map_epoch);
    return epoch;
}

/* Retires the numbers that are not taken over, and removes their claims: of those that lead no
 * tablet the ones with the newest maps stay, as many as the file says. */
static void numbers_take(struct coord_fleet *f, const struct numbers *n)
{
    struct coord_claims *c = &f->cluster.claims;
    struct coord_members *m = &f->members;
    uint32_t taken = n->leading;
    m->shards = n->end;
    for (uint32_t s = 0; s < n->end; s++)
        m->shard[s].retired = !leads(c, s);
    while (taken < f->options.shards) {
        uint32_t best = COORD_NOBODY;
        for (uint32_t s = 0; s < n->end; s++)
            if (m->shard[s].retired && n->count[s] == f->options.replicas &&
                (best == COORD_NOBODY || epoch_of(c, s) > epoch_of(c, best)))
                best = s;
        SHOAL_ASSERT(best != COORD_NOBODY);
        m->shard[best].retired = false;
        taken++;
    }
    for (uint32_t i = 0; i < c->count;)
        if (m->shard[c->claim[i].beat.number].retired)
            c->claim[i] = c->claim[--c->count];
        else
            i++;
}

static int take_over(struct coord_fleet *f, const struct numbers *n, struct err *e)
{
    const struct wire_SHARD_BEAT *b = &f->cluster.claims.claim[0].beat;
    const uint64_t id[2] = {b->cluster_high, b->cluster_low};
    numbers_take(f, n);
    if (!coord_cluster_found(f, id, true))
        return coord_store_failed(e);
    log_warn("this data_dir was empty; cluster %016" PRIx64 "%016" PRIx64
             " is taken over from its %u shards, which all agree",
             id[0], id[1], f->cluster.claims.count);
    coord_lost_look(f);
    return 0;
}

/* Shards of a cluster have come: decides whether all have. */
static int takeover_judge(struct coord_fleet *f, struct err *e)
{
    const struct coord_claims *c = &f->cluster.claims;
    uint32_t wanted = f->options.shards, told = told_shards(c);
    bool known = map_known(f);
    struct numbers n;
    if (!numbers_count(f, &n)) {
        if (c->count < coord_copies_wanted(f))
            return SHOAL_E_AGAIN;
        return disagree(c, e);
    }
    bool settled = env_now_ns(f->env) - c->came_ns > coord_fleet_lease_ns(f);
    if (told != 0 && told != wanted && !(settled && n.whole == wanted))
        return err_set(e, SHOAL_E_CONFIG,
                       "it belongs to a cluster of %u shards, the coordinator's file says "
                       "`shards: %u`: set `shards: %u` there, unless shards were added or drained "
                       "since that one was told",
                       told, wanted, told);
    if (n.whole < wanted || !known || n.away != COORD_NOBODY)
        return SHOAL_E_AGAIN;
    if (n.leading > wanted)
        return err_set(e, SHOAL_E_CONFIG,
                       "%u shards of its cluster lead tablets, the coordinator's file says "
                       "`shards: %u`: set `shards: %u` there",
                       n.leading, wanted, MAX(n.leading, told));
    return take_over(f, &n, e);
}

int coord_claims_beat(struct coord_fleet *f, const struct wire_SHARD_BEAT *b, peer_t from,
                      struct err *e)
{
    struct coord_claims *c = &f->cluster.claims;
    int rc = claim_note(f, b, from, e);
    if (rc != 0)
        return rc;
    if (claims_old(c) > 0)
        return takeover_judge(f, e);
    if (c->count < coord_copies_wanted(f))
        return SHOAL_E_AGAIN;
    return found(f, e);
}

/* Returns a shard of which copies are missing, one that leads tablets first; COORD_NOBODY: those
 * that have come are whole. */
static uint32_t part_of(const struct coord_fleet *f, const struct numbers *n)
{
    if (n->away != COORD_NOBODY)
        return n->away;
    for (uint32_t s = 0; s < n->end; s++)
        if (n->count[s] > 0 && n->count[s] < f->options.replicas)
            return s;
    return COORD_NOBODY;
}

/* Writes which copies of a shard have come. */
static void part_say(const struct coord_fleet *f, const struct numbers *n, uint32_t shard,
                     char *out, size_t bytes)
{
    const struct coord_claims *c = &f->cluster.claims;
    const char *between = "";
    if (n->count[shard] == 0) {
        (void)snprintf(out, bytes, "; shard %u, which leads tablets, has not", shard);
        return;
    }
    size_t used = (size_t)snprintf(out, bytes, "; shard %u has %u of %u copies, on ", shard,
                                   n->count[shard], f->options.replicas);
    for (uint32_t i = 0; i < c->count && used < bytes; i++) {
        if (c->claim[i].beat.number != shard)
            continue;
        used +=
            (size_t)snprintf(out + used, bytes - used, "%s%s", between, c->claim[i].beat.server);
        between = " and ";
    }
}

bool coord_claims_waits(const struct coord_fleet *f, char *text, size_t bytes)
{
    const struct coord_claims *c = &f->cluster.claims;
    struct numbers n;
    char who[LIMIT_COPIES * (LIMIT_NAME + 8)] = "", further[160] = "";
    if (coord_cluster_known(&f->cluster) || claims_old(c) == 0 || !numbers_count(f, &n))
        return false;
    uint32_t part = part_of(f, &n);
    if (part != COORD_NOBODY)
        part_say(f, &n, part, who, sizeof who);
    else if (n.whole > 0 && n.whole < f->options.shards && c->map.epoch > 0)
        (void)snprintf(further, sizeof further,
                       "; those that have come lead all tablets: if the others were drained, set "
                       "`shards: %u` in the coordinator's file",
                       n.whole);
    (void)snprintf(text, bytes,
                   "this coordinator began with an empty data_dir, and takes the cluster of its "
                   "servers over once all %u shards have come, with all their copies: %u have%s. "
                   "Start the other servers%s",
                   f->options.shards, n.whole, who, further);
    return true;
}
