/* copies_place.c: the places of copies: founding, and servers that come later; copies.h. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/fleet/fleet.h"

#include <stdio.h>
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
static void leads_on(struct coord_fleet *f, uint32_t shard, const char *server, uint32_t index)
{
    struct coord_shard *m = &f->members.shard[shard];
    memcpy(m->server, server, LIMIT_NAME);
    m->index = index;
}

static bool founded(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    leads_on(f, shard, of->copy[of->leader].server, of->copy[of->leader].index);
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
    for (uint32_t i = 0; f->options.replicas == 1 && i < claims; i++)
        leads_on(f, shard[i], claim[i].beat.server, claim[i].beat.shard_index);
    if (f->options.replicas == 1)
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
    const struct coord_claims *c = &f->cluster.claims;
    uint32_t shard[LIMIT_SHARDS], shards = 0;
    bool good = true;
    if (f->copies.of == NULL)
        return true;
    COORD_EACH_SHARD (&f->members, s)
        shard[shards++] = s;
    if (fresh)
        return coord_copies_deal(f, c->claim, c->count, shard, shards);
    for (uint32_t i = 0; i < c->count && good; i++) {
        good = coord_copies_make(f, c->claim[i].beat.number);
        if (good)
            claim_place(coord_copies_shard(f, c->claim[i].beat.number), &c->claim[i].beat);
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

/* True when the server is being drained, or the shard is to be retired with another one that is. */
static bool leaves(const struct coord_fleet *f, uint32_t shard, const char *server)
{
    const struct coord_moves *m = &f->moves;
    return m->kind == MOVES_DRAIN &&
           (strcmp(m->drained, server) == 0 || coord_copies_on(f, shard, m->drained));
}

bool coord_copies_room(const struct coord_fleet *f, uint32_t shard, const char *server)
{
    return f->copies.of != NULL && coord_copies_given(f, shard) < f->options.replicas &&
           !coord_copies_on(f, shard, server) && !leaves(f, shard, server);
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

/* Returns another copy of the shard in the zone of this one; NULL: there is none. */
static const struct coord_shard *same_zone(const struct coord_fleet *f, uint32_t shard,
                                           uint32_t place)
{
    const char *zone = coord_copies_any(f, shard, place)->figures.zone;
    for (uint32_t p = 0; p < f->copies.of[shard].count && zone[0] != 0; p++) {
        const struct coord_shard *other = coord_copies_any(f, shard, p);
        if (p != place && strcmp(other->figures.zone, zone) == 0)
            return other;
    }
    return NULL;
}

uint32_t coord_copies_doubled(const struct coord_fleet *f, uint32_t shard,
                              const struct coord_shard **other)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    uint32_t found = COORD_NOBODY;
    for (uint32_t p = 0; of != NULL && p < of->count; p++)
        if (p != of->leader && same_zone(f, shard, p) != NULL &&
            (found == COORD_NOBODY || (of->in_sync >> p & 1) == 0)) {
            found = p;
            *other = same_zone(f, shard, p);
        }
    return found;
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

/* True when copies are in more than one zone. */
static bool zones_several(const struct coord_fleet *f)
{
    const char *zone = "";
    COORD_EACH_SHARD (&f->members, s)
        for (uint32_t p = 0; p < f->copies.of[s].count; p++) {
            const char *here = coord_copies_any(f, s, p)->figures.zone;
            if (here[0] != 0 && zone[0] != 0 && strcmp(here, zone) != 0)
                return true;
            if (here[0] != 0)
                zone = here;
        }
    return false;
}

/* Returns a server that waits for a place, in a zone without a copy of the shard; NULL: none does.
 * */
static const struct coord_stranger *spare_of(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_cluster *cl = &f->cluster;
    for (uint32_t i = 0; i < cl->strangers; i++) {
        const struct coord_stranger *s = &cl->stranger[i];
        struct wire_SHARD_BEAT b = {.shard_index = s->index};
        uint32_t at;
        memcpy(b.server, s->server, sizeof b.server);
        if (s->waits && coord_cluster_stranger_heard(f, s) && s->zone[0] != 0 &&
            !zone_taken(f, shard, s->zone) && !coord_copies_on(f, shard, s->server) &&
            !leaves(f, shard, s->server) && coord_copies_find(f, &b, &at) == NULL &&
            coord_member_number(&f->members, &b) == COORD_NOBODY)
            return s;
    }
    return NULL;
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

/* Gives a place to a server. False: the store failed. */
static bool place_give(struct coord_fleet *f, uint32_t shard, const char *server, uint32_t index,
                       uint32_t *place)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    *place = free_place(of);
    of->copy[*place] = (struct coord_shard){.index = index};
    memcpy(of->copy[*place].server, server, LIMIT_NAME);
    if (!coord_copies_put(f, shard))
        return false;
    log_info("server %s is copy %u of shard %u", server, *place, shard);
    return true;
}

struct json *coord_copies_spread(struct coord_fleet *f, bool dry_run)
{
    struct json *list = json_new_array();
    COORD_EACH_SHARD (&f->members, s) {
        const struct coord_shard *other;
        const struct coord_stranger *spare = NULL;
        uint32_t place, given = coord_copies_given(f, s);
        if (given <= f->options.replicas && given < LIMIT_COPIES &&
            coord_copies_doubled(f, s, &other) != COORD_NOBODY)
            spare = spare_of(f, s);
        if (spare == NULL)
            continue;
        struct json *one = json_new_object();
        json_set_int(one, "shard", s);
        json_set_string(one, "server", spare->server);
        json_set_string(one, "zone", spare->zone);
        json_append(list, one);
        if (!dry_run && !place_give(f, s, spare->server, spare->index, &place))
            break;
    }
    return list;
}

bool coord_copies_one_zone(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes)
{
    const struct coord_shard *other = NULL;
    if (f->copies.of == NULL || !coord_member_used(&f->members, shard))
        return false;
    uint32_t place = coord_copies_doubled(f, shard, &other);
    const struct coord_stranger *spare = spare_of(f, shard);
    char advice[2 * LIMIT_NAME + 100] = "start a server with an empty data_dir in another zone, "
                                        "then: shoal rebalance";
    if (place == COORD_NOBODY || coord_copies_given(f, shard) > f->options.replicas)
        return false;
    if (spare != NULL)
        (void)snprintf(advice, sizeof advice,
                       "server %s waits in zone %s: shoal rebalance gives it a copy in place of "
                       "one of these",
                       spare->server, spare->zone);
    (void)snprintf(text, bytes, "shard %u: its copies on servers %s and %s are both in zone %s; %s",
                   shard, other->server, coord_copies_any(f, shard, place)->server,
                   other->figures.zone, advice);
    return spare != NULL || zones_several(f);
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
    if (!place_give(f, *shard, beat->server, beat->shard_index, place))
        return coord_store_failed(e);
    return 0;
}
