/* copies_place.c: the places of copies: founding, and servers that come later; copies.h. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

/* ---- founding -------------------------------------------------------------------------------- */

/* Zone by zone, and there server by server. */
static int by_server(const void *x, const void *y)
{
    const struct coord_claim *a = x, *b = y;
    int order = strcmp(a->beat.zone, b->beat.zone);
    if (order == 0)
        order = strcmp(a->beat.server, b->beat.server);
    return order != 0 ? order : (int)a->beat.shard_index - (int)b->beat.shard_index;
}

/* The copies that get places at one time, and their shards. */
struct deal {
    struct coord_fleet *f;
    struct coord_claim *claim; /* (claims) */
    uint32_t claims;
    const uint32_t *shard; /* (shards) */
    uint32_t shards;
};

/* Returns a number for the server of a claim: the first claim of it. The claims are sorted. */
static uint32_t server_of(const struct deal *d, const struct coord_shard *s)
{
    uint32_t i = 0;
    while (strcmp(d->claim[i].beat.server, s->server) != 0)
        i++;
    return i;
}

/* Each leader is the copy whose server leads least so far. */
static bool leaders_spread(const struct deal *d)
{
    uint32_t *leads = calloc(d->claims, sizeof *leads);
    for (uint32_t i = 0; leads != NULL && i < d->shards; i++) {
        struct coord_copies_of *of = coord_copies_shard(d->f, d->shard[i]);
        for (uint32_t p = 1; p < of->count; p++)
            if (leads[server_of(d, &of->copy[p])] < leads[server_of(d, &of->copy[of->leader])])
                of->leader = p;
        leads[server_of(d, &of->copy[of->leader])]++;
        of->term = coord_copies_ended_term(d->f, d->shard[i]) + 1;
    }
    free(leads);
    return leads != NULL;
}

bool coord_copies_more(const struct wire_SHARD_BEAT *a, const struct wire_SHARD_BEAT *b)
{
    return a->last_term > b->last_term ||
           (a->last_term == b->last_term && a->sequence > b->sequence);
}

/* All copies are there: the one with most has every acknowledged record. */
static void leaders_find(struct coord_fleet *f)
{
    COORD_EACH_SHARD (&f->members, s) {
        struct coord_copies_of *of = coord_copies_shard(f, s);
        for (uint32_t p = 0; p < of->count; p++) {
            const struct wire_SHARD_BEAT *b = &of->copy[p].figures;
            if (coord_copies_more(b, &of->copy[of->leader].figures))
                of->leader = p;
            of->term = MAX(of->term, MAX(b->term, b->last_term));
        }
        of->term++;
    }
}

/* The leader's values are in members.shard from now on. */
static bool founded(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    struct coord_shard *m = &f->members.shard[shard];
    memcpy(m->server, of->copy[of->leader].server, LIMIT_NAME);
    m->index = of->copy[of->leader].index;
    of->in_sync = UINT32_C(1) << of->leader;
    for (uint32_t p = 0; p < of->count; p++) /* until they beat again nothing is known of them */
        of->copy[p].figures = (struct wire_SHARD_BEAT){0};
    return coord_copies_put(f, shard);
}

static void claim_place(struct coord_copies_of *of, const struct wire_SHARD_BEAT *b)
{
    struct coord_shard *s = &of->copy[of->count++];
    SHOAL_ASSERT(of->count <= LIMIT_COPIES);
    memcpy(s->server, b->server, LIMIT_NAME);
    s->index = b->shard_index;
    s->figures = *b;
}

bool coord_copies_deal(struct coord_fleet *f, struct coord_claim *claim, uint32_t claims,
                       const uint32_t *shard, uint32_t shards)
{
    const struct deal d = {f, claim, claims, shard, shards};
    SHOAL_ASSERT(claims == shards * f->options.replicas);
    if (f->copies.of == NULL)
        return true;
    /* No server has more than `shards` of the claims (the caller has checked it), so those of one
     * server go to different shards; so do those of one zone, as far as its servers have no more
     * either. */
    qsort(claim, claims, sizeof *claim, by_server);
    for (uint32_t i = 0; i < claims; i++) {
        if (!coord_copies_make(f, shard[i % shards]))
            return false;
        claim_place(coord_copies_shard(f, shard[i % shards]), &claim[i].beat);
    }
    bool good = leaders_spread(&d);
    for (uint32_t i = 0; good && i < shards; i++)
        good = founded(f, shard[i]);
    return good;
}

bool coord_copies_found(struct coord_fleet *f, bool fresh)
{
    const struct coord_cluster *cl = &f->cluster;
    uint32_t shard[LIMIT_SHARDS], shards = 0;
    bool good = true;
    if (f->copies.of == NULL)
        return true;
    COORD_EACH_SHARD (&f->members, s)
        shard[shards++] = s;
    if (fresh)
        return coord_copies_deal(f, cl->claim, cl->claims, shard, shards);
    for (uint32_t i = 0; i < cl->claims && good; i++) {
        good = coord_copies_make(f, cl->claim[i].beat.number);
        if (good)
            claim_place(coord_copies_shard(f, cl->claim[i].beat.number), &cl->claim[i].beat);
    }
    if (good)
        leaders_find(f);
    for (uint32_t i = 0; good && i < shards; i++)
        good = founded(f, shard[i]);
    return good;
}

/* ---- places for servers that come later ------------------------------------------------------ */

static bool is_of(const struct coord_shard *s, const struct wire_SHARD_BEAT *beat)
{
    return s->index == beat->shard_index && strcmp(s->server, beat->server) == 0;
}

bool coord_copies_place(const struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                        uint32_t *shard, uint32_t *place)
{
    COORD_EACH_FOLLOWER(f, s, p, copy)
    if (is_of(copy, beat)) {
        *shard = s;
        *place = p;
        return true;
    }
    return false;
}

const struct coord_shard *coord_copies_find(const struct coord_fleet *f,
                                            const struct wire_SHARD_BEAT *beat, uint32_t *shard)
{
    uint32_t place;
    return coord_copies_place(f, beat, shard, &place) ? coord_copies_at(f, *shard, place) : NULL;
}

bool coord_copies_room(const struct coord_fleet *f, uint32_t shard, const char *server)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (of == NULL || coord_copies_given(f, shard) >= f->options.replicas ||
        strcmp(f->members.shard[shard].server, server) == 0)
        return false;
    for (uint32_t p = 0; p < of->count; p++)
        if (strcmp(coord_copies_any(f, shard, p)->server, server) == 0)
            return false; /* a free place has no name */
    return true;
}

/* True when the shard has a copy in this zone. */
static bool zone_taken(const struct coord_fleet *f, uint32_t shard, const char *zone)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    for (uint32_t p = 0; p < of->count; p++)
        if (zone[0] != 0 && strcmp(coord_copies_any(f, shard, p)->figures.zone, zone) == 0)
            return true;
    return zone[0] != 0 && strcmp(f->members.shard[shard].figures.zone, zone) == 0;
}

/* A coordinator that has just started learns the zones by beats. */
static bool zones_known(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (env_now_ns(f->env) - f->copies.begun_ns > f->copies.lease_ns)
        return true;
    for (uint32_t p = 0; p < of->count; p++)
        if (coord_copies_at(f, shard, p) != NULL && !of->copy[p].seen)
            return false;
    return f->members.shard[shard].seen;
}

/* True when a copy in this zone would be the second one there, while another server that waits for
 * a place is in a zone without one. */
static bool zone_waits(const struct coord_fleet *f, uint32_t shard, const char *zone)
{
    const struct coord_cluster *cl = &f->cluster;
    if (zone[0] != 0 && !zones_known(f, shard))
        return true;
    if (!zone_taken(f, shard, zone))
        return false;
    for (uint32_t i = 0; i < cl->strangers; i++)
        if (cl->stranger[i].waits && coord_cluster_stranger_heard(f, &cl->stranger[i]) &&
            coord_copies_room(f, shard, cl->stranger[i].server) &&
            !zone_taken(f, shard, cl->stranger[i].zone))
            return true;
    return false;
}

/* Returns how well a place of this shard suits a copy: less is better. */
static uint32_t place_cost(const struct coord_fleet *f, uint32_t shard, const char *zone)
{
    uint32_t cost = coord_copies_given(f, shard);
    if (zone_taken(f, shard, zone))
        cost += LIMIT_COPIES;
    return cost;
}

static uint32_t free_place(struct coord_copies_of *of)
{
    uint32_t p = 0;
    while (p < of->count && (p == of->leader || of->copy[p].server[0] != 0))
        p++;
    if (p == of->count)
        of->count++;
    SHOAL_ASSERT(p < LIMIT_COPIES);
    return p;
}

int coord_copies_give(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, uint32_t *shard,
                      uint32_t *place, struct err *e)
{
    struct coord_copies_of *to = NULL;
    uint32_t least = UINT32_MAX;
    COORD_EACH_SHARD (&f->members, s) {
        if (!coord_copies_room(f, s, beat->server) ||
            (coord_member_belongs(beat) && beat->number != s) || zone_waits(f, s, beat->zone) ||
            least <= place_cost(f, s, beat->zone))
            continue;
        to = coord_copies_shard(f, s);
        least = place_cost(f, s, beat->zone);
        *shard = s;
    }
    if (to == NULL)
        return err_set(e, SHOAL_E_BUSY,
                       "server %s waits: there is no place for shard %u of it: each of the %u "
                       "shards has its %u copies, or has one on this server, and two copies of a "
                       "shard lie on different servers, and in different zones while any has room. "
                       "More shards, of %u servers that wait: shoal add %s ...",
                       beat->server, beat->shard_index, coord_member_count(&f->members),
                       f->options.replicas, f->options.replicas, beat->server);
    if (to->count == 0) {
        to->count = 1;
        to->in_sync = 1;
        to->term = coord_copies_ended_term(f, *shard) + 1;
        to->boot[0] = f->members.shard[*shard].figures.boot;
    }
    *place = free_place(to);
    to->copy[*place] = (struct coord_shard){.index = beat->shard_index};
    memcpy(to->copy[*place].server, beat->server, LIMIT_NAME);
    if (!coord_copies_put(f, *shard))
        return err_set(e, SHOAL_E_IO, "the coordinator's store failed");
    log_info("server %s is copy %u of shard %u", beat->server, *place, *shard);
    return 0;
}
