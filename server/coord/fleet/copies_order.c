/* copies_order.c: operators' orders over copies: PROMOTE and REPLACE; copies.h. */
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "server/coord/fleet/copies.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static uint64_t silent_ns(const struct coord_fleet *f, const struct coord_shard *s)
{
    uint64_t since = MAX(s->beat_ns, f->copies.begun_ns);
    return env_now_ns(f->env) - since;
}

static double seconds(uint64_t ns)
{
    return (double)ns * 1e-9;
}

static bool suspect(const struct coord_copies_of *of)
{
    return (of->suspect & coord_copies_bit(of->leader)) != 0;
}

/* ---- PROMOTE --------------------------------------------------------------------------------- */

/* Refuses while a copy that has every acknowledged record leads, or will without an order. */
static int needless(const struct coord_fleet *f, uint32_t shard, struct err *e)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    const struct coord_shard *m = &f->members.shard[shard];
    if (!suspect(of) && !coord_copies_lease_over(f, shard))
        return err_set(e, SHOAL_E_EXISTS,
                       "server %s leads shard %u, and was heard %.1f s ago: there is nothing to "
                       "promote",
                       m->server, shard, seconds(silent_ns(f, m)));
    uint32_t next = coord_copies_next(f, shard);
    if (next != COORD_NOBODY)
        return err_set(e, SHOAL_E_EXISTS,
                       "server %s is in sync with shard %u and takes over by itself: see shoal "
                       "status",
                       of->copy[next].server, shard);
    return 0;
}

/* Says what a copy has, what is known of the leader of before, and what may be lost. */
static void loss_text(const struct coord_fleet *f, uint32_t shard, uint32_t place, bool done,
                      char *text, size_t bytes)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    const struct coord_shard *m = &f->members.shard[shard], *s = &of->copy[place];
    bool beats = m->seen && m->figures.sequence >= m->synced;
    uint64_t known = m->synced;
    char whence[80] = "that was on its disk when this was last stored";
    if (beats) {
        known = m->figures.sequence;
        (void)snprintf(whence, sizeof whence, "of its last beat, %.0f s ago",
                       seconds(silent_ns(f, m)));
    }
    int n = snprintf(text, bytes,
                     "shard %u: server %s %s with its records up to %" PRIu64 ". Record %" PRIu64
                     " of server %s, which led, is the last that is known (%s): ",
                     shard, s->server, done ? "leads" : "would lead", s->figures.sequence, known,
                     m->server, whence);
    if (n < 0 || (size_t)n >= bytes)
        return;
    const char *terms = "";
    if (s->figures.last_term < of->term)
        terms = ", perhaps more, for the copy has none of the last term";
    (void)snprintf(text + n, bytes - (size_t)n,
                   "%" PRIu64 " records may be lost%s, and all that it took later, which are not "
                   "known",
                   SAT_SUB(known, s->figures.sequence), terms);
}

int coord_copies_promote(struct coord_fleet *f, struct coord_ask *a)
{
    const struct wire_PROMOTE *q = &a->request->u.PROMOTE;
    char *told = a->reply.u.PROMOTE_reply.told;
    struct coord_copies_of *of =
        q->shard < f->members.shards ? coord_copies_shard(f, q->shard) : NULL;
    if (of == NULL || coord_copies_given(f, q->shard) < 2)
        return err_set(&a->e, SHOAL_E_NOT_FOUND, "shard %u has no other copies here", q->shard);
    int rc = needless(f, q->shard, &a->e);
    if (rc != 0)
        return rc;
    uint32_t set = UINT32_MAX;
    if (!suspect(of))
        set &= ~coord_copies_bit(of->leader);
    uint32_t place = coord_copies_most(f, q->shard, set);
    if (place == COORD_NOBODY)
        return err_set(&a->e, SHOAL_E_UNAVAILABLE,
                       "shard %u: no copy of it is heard: start one of its servers", q->shard);
    loss_text(f, q->shard, place, q->accept_loss, told, sizeof a->reply.u.PROMOTE_reply.told);
    if (!q->accept_loss)
        return 0;
    log_warn("%s", told);
    if (!coord_copies_lead(f, q->shard, place, false))
        return coord_store_failed(&a->e);
    return 0;
}

/* ---- REPLACE --------------------------------------------------------------------------------- */

/* Checks that the server holds copies, and is silent; counts those that follow and lead. */
static int gone_check(const struct coord_fleet *f, const char *server, uint32_t *follows,
                      uint32_t *leads, struct err *e)
{
    for (uint32_t s = 0; s < f->members.shards; s++) {
        const struct coord_copies_of *of = coord_copies_shard(f, s);
        for (uint32_t p = 0; p < MAX(of->count, 1u); p++) {
            const struct coord_shard *at = coord_copies_any(f, s, p);
            if (strcmp(at->server, server) != 0)
                continue;
            *leads += p == of->leader;
            *follows += p != of->leader;
            if (silent_ns(f, at) <= MAX(coord_fleet_lease_ns(f), f->copies.lease_ns))
                return err_set(e, SHOAL_E_BUSY,
                               "server %s was heard %.1f s ago, or this coordinator has just "
                               "started: stop it first, and say this again %.0f s later",
                               server, seconds(silent_ns(f, at)),
                               seconds(MAX(coord_fleet_lease_ns(f), f->copies.lease_ns)));
        }
    }
    if (*follows + *leads == 0)
        return err_set(e, SHOAL_E_NOT_FOUND, "no server %s has a copy here: see shoal status",
                       server);
    return 0;
}

/* Refuses when a shard would be left without a leader, or has a leader that waits for another copy
 * in sync, which may be this server's. */
static int leaders_check(const struct coord_fleet *f, const char *server, struct err *e)
{
    for (uint32_t s = 0; s < f->members.shards; s++) {
        const struct coord_copies_of *of = coord_copies_shard(f, s);
        bool leads = strcmp(f->members.shard[s].server, server) == 0, holds = leads;
        for (uint32_t p = 0; p < of->count; p++)
            holds |= strcmp(coord_copies_any(f, s, p)->server, server) == 0;
        bool next = coord_copies_next(f, s) != COORD_NOBODY;
        if (leads && coord_copies_given(f, s) < 2)
            return err_set(e, SHOAL_E_UNAVAILABLE,
                           "server %s has the only copy of shard %u: bring its data_dir back",
                           server, s);
        if (holds && ((leads && !next) || suspect(of)))
            return err_set(e, SHOAL_E_UNAVAILABLE,
                           "shard %u has no leader, and no copy in sync is there: start one again, "
                           "or name another copy with shoal promote %u, then say this again",
                           s, s);
    }
    return 0;
}

/* Frees the place of a follower. */
static void place_free(struct coord_copies_of *of, uint32_t place)
{
    of->copy[place] = (struct coord_shard){0};
    of->boot[place] = of->out_ns[place] = 0;
    of->in_sync &= ~coord_copies_bit(place);
    of->suspect &= ~coord_copies_bit(place);
}

/* Gives the places of a server in a shard's list up. It leads the shard no more. The new term ends
 * what the server, if it should still run unheard, tells the leader of its old place. */
static bool release(struct coord_fleet *f, uint32_t shard, const char *server)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    bool released = false;
    for (uint32_t p = 0; p < of->count; p++) {
        struct coord_shard *at = coord_copies_at(f, shard, p);
        if (at == NULL || strcmp(at->server, server) != 0)
            continue;
        place_free(of, p);
        released = true;
    }
    return !released || coord_copies_lead(f, shard, of->leader, true);
}

/* Writes which shards lack copies. */
static void lacking_text(const struct coord_fleet *f, char *text, size_t bytes)
{
    uint32_t lacking = 0;
    COORD_EACH_SHARD (&f->members, s)
        lacking += f->options.replicas > coord_copies_given(f, s);
    (void)snprintf(text, bytes,
                   "%u shards have fewer than %u copies: a server that has room, or that is "
                   "started now, gets them",
                   lacking, f->options.replicas);
}

/* The server is gone for good: gives its places up, and says so. */
static int server_replace(struct coord_fleet *f, const char *server, char told[WIRE_TOLD],
                          struct err *e)
{
    char more[160];
    uint32_t follows = 0, leads = 0;
    if (f->copies.of == NULL)
        return err_set(e, SHOAL_E_CONFIG,
                       "replicas: 1: no other server has a copy of what server %s holds: shoal "
                       "replace %s --from CHECKPOINT",
                       server, server);
    int rc = gone_check(f, server, &follows, &leads, e);
    if (rc == 0)
        rc = leaders_check(f, server, e);
    if (rc != 0)
        return rc;
    bool good = true;
    for (uint32_t s = 0; good && s < f->members.shards; s++) {
        if (strcmp(f->members.shard[s].server, server) == 0)
            good = coord_copies_take_over(f, s);
        good = good && release(f, s, server);
    }
    if (!good)
        return coord_store_failed(e);
    lacking_text(f, more, sizeof more);
    (void)snprintf(told, WIRE_TOLD,
                   "server %s is replaced: %u places of copies are given up, %u of them led; %s",
                   server, follows + leads, leads, more);
    log_warn("%s", told);
    return 0;
}

int coord_copies_replace(struct coord_fleet *f, struct coord_ask *a)
{
    return server_replace(f, a->request->u.REPLACE.server, a->reply.u.REPLACE_reply.told, &a->e);
}

/* ---- without an order ------------------------------------------------------------------------ */

/* True when the shard's leader leads in the present term, and answers. */
static bool leads_now(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    return of->count > 0 && of->suspect == 0 && of->led == of->term &&
           f->members.shard[shard].ready && !coord_copies_lease_over(f, shard);
}

/* Returns the place of the copy that is needed least; COORD_NOBODY: one that is to take the place
 * of another one, in the zone of a third, is not in sync yet. */
static uint32_t surplus_of(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    const struct coord_shard *other;
    uint32_t last = COORD_NOBODY, doubled = coord_copies_doubled(f, shard, &other);
    for (uint32_t p = 0; p < of->count; p++)
        if (coord_copies_at(f, shard, p) != NULL &&
            (last == COORD_NOBODY || (of->in_sync & coord_copies_bit(p)) == 0 ||
             (of->in_sync & coord_copies_bit(last)) != 0))
            last = p;
    if (doubled == COORD_NOBODY || last == doubled)
        return last;
    const struct coord_shard *s = &of->copy[last];
    bool comes = s->incarnation == 0 || silent_ns(f, s) <= f->copies.lease_ns;
    if ((of->in_sync & coord_copies_bit(last)) != 0)
        return doubled;
    return comes ? COORD_NOBODY : last;
}

/* There are more copies than `replicas` says: one gives its place up, one in each term. */
static void surplus_release(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    uint32_t last = surplus_of(f, shard);
    if (last == COORD_NOBODY)
        return;
    log_warn("replicas: %u: server %s has a copy of shard %u no more; its data_dir can be emptied",
             f->options.replicas, of->copy[last].server, shard);
    place_free(of, last);
    (void)coord_copies_lead(f, shard, of->leader, true);
}

/* Replaces the server of a follower that was silent for `replace_after`, if the leaders of all that
 * it holds are there. */
static bool silent_replace(struct coord_fleet *f, const struct coord_shard *at)
{
    char told[WIRE_TOLD], server[LIMIT_NAME];
    struct err e = {0};
    memcpy(server, at->server, LIMIT_NAME);
    COORD_EACH_FOLLOWER(f, s, p, other)
    if (strcmp(other->server, server) == 0 && !leads_now(f, s))
        return false;
    return server_replace(f, server, told, &e) == 0;
}

void coord_copies_order_tick(struct coord_fleet *f)
{
    uint64_t after_ns = f->options.replace_after_ms * UINT64_C(1000000);
    for (uint32_t s = 0; f->copies.of != NULL && s < f->members.shards && f->fatal == 0; s++)
        if (coord_copies_given(f, s) > f->options.replicas && leads_now(f, s))
            surplus_release(f, s);
    if (after_ns == 0)
        return;
    COORD_EACH_FOLLOWER(f, s, p, copy)
    if (f->fatal == 0 && silent_ns(f, copy) > after_ns && silent_replace(f, copy))
        return; /* the next one in the next tick */
}
