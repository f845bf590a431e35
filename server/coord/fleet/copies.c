/* copies.c: the lists of copies, their beats, and the copy that leads; copies.h has the
 * invariants. */
#include "server/coord/fleet/copies.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "server/coord/fleet/fleet.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct copies_record { /* value of "copies/N" */
    uint64_t term;
    uint32_t count, leader, in_sync, suspect;
    struct copy_record {
        char server[LIMIT_NAME];
        char holder[LIMIT_NAME];
        uint32_t index, placed;
        uint64_t incarnation, boot;
    } copy[LIMIT_COPIES];
};
_Static_assert(sizeof(struct copies_record) == 24 + LIMIT_COPIES * (2 * LIMIT_NAME + 24),
               "copies_record is stored");

struct coord_copies_of *coord_copies_shard(const struct coord_fleet *f, uint32_t shard)
{
    SHOAL_ASSERT(shard < f->members.shards);
    return f->copies.of == NULL ? NULL : &f->copies.of[shard];
}

struct coord_shard *coord_copies_any(const struct coord_fleet *f, uint32_t shard, uint32_t place)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    return place == of->leader ? &f->members.shard[shard] : &of->copy[place];
}

struct coord_shard *coord_copies_at(const struct coord_fleet *f, uint32_t shard, uint32_t place)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (of == NULL || place >= of->count || place == of->leader || of->copy[place].server[0] == 0)
        return NULL;
    return &of->copy[place];
}

uint32_t coord_copies_given(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    uint32_t given = 1; /* its leader: a shard without followers has no list */
    for (uint32_t p = 0; of != NULL && p < of->count; p++)
        given += coord_copies_at(f, shard, p) != NULL;
    return given;
}

bool coord_copies_others(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    return of != NULL && (of->in_sync & ~coord_copies_bit(of->leader)) != 0;
}

bool coord_copies_on(const struct coord_fleet *f, uint32_t shard, const char *server)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (strcmp(f->members.shard[shard].server, server) == 0)
        return true;
    for (uint32_t p = 0; of != NULL && p < of->count; p++)
        if (strcmp(coord_copies_any(f, shard, p)->server, server) == 0)
            return true;
    return false;
}

bool coord_copies_on_any(const struct coord_fleet *f, const char *server)
{
    COORD_EACH_SHARD (&f->members, s)
        if (coord_copies_on(f, s, server))
            return true;
    return false;
}

uint32_t coord_copies_wanted(const struct coord_fleet *f)
{
    return f->options.shards * f->options.replicas;
}

/* ---- the store ------------------------------------------------------------------------------- */

bool coord_copies_put(struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    struct copies_record r = {.term = of->term,
                              .count = of->count,
                              .leader = of->leader,
                              .in_sync = of->in_sync,
                              .suspect = of->suspect};
    char key[COORD_KEY_MAX];
    SHOAL_ASSERT(of->leader < of->count &&
                 (of->in_sync & coord_copies_bit(of->leader)) != 0); /* 5 */
    for (uint32_t p = 0; p < of->count; p++) {
        const struct coord_shard *s = coord_copies_any(f, shard, p);
        memcpy(r.copy[p].server, s->server, LIMIT_NAME);
        memcpy(r.copy[p].holder, s->holder, LIMIT_NAME);
        r.copy[p].index = s->index;
        r.copy[p].placed = s->placed;
        r.copy[p].incarnation = s->incarnation;
        r.copy[p].boot = of->boot[p];
    }
    (void)snprintf(key, sizeof key, "copies/%u", shard);
    return coord_put(f, key, &r, sizeof r);
}

static void record_take(struct coord_copies_of *of, const struct copies_record *r)
{
    of->term = r->term;
    of->count = r->count;
    of->leader = r->leader;
    of->in_sync = r->in_sync;
    of->suspect = r->suspect;
    for (uint32_t p = 0; p < r->count; p++) {
        struct coord_shard *s = &of->copy[p];
        of->boot[p] = r->copy[p].boot;
        if (p == r->leader)
            continue; /* "shard/N" has it */
        (void)snprintf(s->server, sizeof s->server, "%.*s", (int)LIMIT_NAME - 1, r->copy[p].server);
        (void)snprintf(s->holder, sizeof s->holder, "%.*s", (int)LIMIT_NAME - 1, r->copy[p].holder);
        s->index = r->copy[p].index;
        s->placed = r->copy[p].placed != 0;
        s->incarnation = r->copy[p].incarnation;
    }
}

bool coord_copies_make(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (of != NULL && of->copy == NULL) /* `replicas` may have been more */
        of->copy = calloc(LIMIT_COPIES, sizeof *of->copy);
    return of == NULL || of->copy != NULL;
}

static void of_close(struct coord_fleet *f, struct coord_copies_of *of)
{
    if (of->fleet != NULL)
        env_probe_stop(f->env, &of->probe);
    free(of->copy);
    *of = (struct coord_copies_of){0};
}

static void ended_key(uint32_t shard, char key[COORD_KEY_MAX])
{
    (void)snprintf(key, COORD_KEY_MAX, "copies-ended/%u", shard);
}

bool coord_copies_retire(struct coord_fleet *f, uint32_t shard)
{
    char key[COORD_KEY_MAX];
    if (f->copies.of == NULL)
        return true;
    uint64_t term = MAX(f->copies.of[shard].term, coord_copies_ended_term(f, shard));
    of_close(f, &f->copies.of[shard]);
    ended_key(shard, key);
    if (!coord_put(f, key, &term, sizeof term))
        return false;
    (void)snprintf(key, sizeof key, "copies/%u", shard);
    return coord_remove(f, key);
}

uint64_t coord_copies_ended_term(const struct coord_fleet *f, uint32_t shard)
{
    uint64_t term = 0;
    char key[COORD_KEY_MAX];
    ended_key(shard, key);
    if (coord_store_get_fixed(f->store, key, &term, sizeof term, NULL) != 0)
        return 0;
    return term;
}

static int make(struct coord_fleet *f, struct err *e)
{
    struct coord_copies *c = &f->copies;
    c->of = calloc(LIMIT_SHARDS, sizeof *c->of);
    bool made = c->of != NULL;
    for (uint32_t s = 0; made && s < f->members.shards; s++)
        made = coord_copies_make(f, s);
    return made ? 0 : err_set(e, SHOAL_E_NOMEM, "no memory for the copies of shards");
}

static int of_load(struct coord_fleet *f, uint32_t shard, struct err *e)
{
    struct copies_record r;
    char key[COORD_KEY_MAX];
    (void)snprintf(key, sizeof key, "copies/%u", shard);
    int rc = coord_store_get_fixed(f->store, key, &r, sizeof r, e);
    if (rc != 0)
        return coord_store_optional(rc);
    if (r.term == 0 || r.count < 2 || r.count > LIMIT_COPIES || r.leader >= r.count ||
        (r.in_sync & coord_copies_bit(r.leader)) == 0 || r.in_sync >> r.count != 0)
        return err_set(e, SHOAL_E_CORRUPT, "the stored copies of shard %u are damaged%s", shard,
                       COORD_STORE_ADVICE);
    if (f->copies.of == NULL && make(f, e) != 0)
        return e->code;
    record_take(coord_copies_shard(f, shard), &r);
    return 0;
}

int coord_copies_open(struct coord_fleet *f, struct err *e)
{
    uint32_t replicas = f->options.replicas;
    SHOAL_ASSERT(replicas > 0 && replicas <= LIMIT_COPIES);
    f->copies.lease_ns = f->options.shard_lease_ms * UINT64_C(1000000);
    f->copies.begun_ns = env_now_ns(f->env);
    int rc = replicas > 1 ? make(f, e) : 0;
    COORD_EACH_SHARD (&f->members, s)
        if (rc == 0)
            rc = of_load(f, s, e);
    return rc;
}

void coord_copies_close(struct coord_fleet *f)
{
    for (uint32_t s = 0; f->copies.of != NULL && s < LIMIT_SHARDS; s++)
        of_close(f, &f->copies.of[s]);
    free(f->copies.of);
    f->copies.of = NULL;
}

/* ---- the leader ------------------------------------------------------------------------------ */

static void told_all(struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    for (uint32_t p = 0; p < of->count; p++) {
        const struct coord_shard *s = coord_copies_any(f, shard, p);
        if (s->seen)
            coord_copies_answer(f, s->peer, 0, shard, p);
    }
}

bool coord_copies_lead(struct coord_fleet *f, uint32_t shard, uint32_t place, bool whole)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    struct coord_shard *m = &f->members.shard[shard], old = *m;
    struct err e = {0};
    SHOAL_ASSERT(place < of->count &&
                 (!whole || (of->in_sync & coord_copies_bit(place)) != 0)); /* 2 */
    SHOAL_ASSERT(of->term < UINT64_MAX);                                    /* 4 */
    if (place != of->leader) {
        int rc = coord_member_lead(&f->members, f->store, shard, &of->copy[place], whole, &e);
        if (!coord_fleet_stored(f, rc, &e))
            return false;
        of->in_sync &= ~coord_copies_bit(of->leader);
        of->copy[of->leader] = old;
        of->copy[of->leader].ready = false;
        of->leader = place;
        of->taken = true;
        log_event(SHARD_TAKEN, m->server,
                  "server %s leads shard %u from record %" PRIu64 " on, in term %" PRIu64
                  ", in place of server %s%s",
                  m->server, shard, m->figures.sequence, of->term + 1, old.server,
                  whole ? "" : "; records may be lost: no copy in sync has kept all");
    }
    of->in_sync = whole ? of->in_sync & ~of->suspect : coord_copies_bit(place);
    of->suspect = 0;
    of->ended = of->order = 0;
    of->gone = 0;
    of->term++;
    if (!coord_copies_put(f, shard) || !coord_allowed_keep(f, shard))
        return false;
    told_all(f, shard);
    return true;
}

/* A copy beats three times a lease at least. One that died together with the leader has been silent
 * for longer than this when the lease is over. */
static bool heard(const struct coord_fleet *f, const struct coord_shard *s)
{
    return s->seen && s->ready && env_now_ns(f->env) - s->beat_ns <= f->copies.lease_ns / 2;
}

uint32_t coord_copies_most(const struct coord_fleet *f, uint32_t shard, uint32_t set)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    uint32_t best = COORD_NOBODY;
    for (uint32_t p = 0; p < of->count; p++)
        if ((set & coord_copies_bit(p)) != 0 && heard(f, &of->copy[p]) &&
            (best == COORD_NOBODY ||
             coord_copies_more(&of->copy[p].figures, &of->copy[best].figures)))
            best = p;
    return best;
}

uint32_t coord_copies_next(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    uint32_t others = ~coord_copies_bit(of->leader);
    return coord_copies_most(f, shard, of->in_sync & ~of->suspect & others);
}

bool coord_copies_take_over(struct coord_fleet *f, uint32_t shard)
{
    uint32_t best = coord_copies_next(f, shard);
    return best != COORD_NOBODY && coord_copies_lead(f, shard, best, true);
}

bool coord_copies_lease_over(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_shard *m = &f->members.shard[shard];
    uint64_t since = MAX(m->beat_ns, f->copies.begun_ns);
    bool ended = m->incarnation != 0 && coord_copies_shard(f, shard)->ended == m->incarnation;
    return ended || env_now_ns(f->env) - since >= f->copies.lease_ns; /* 3 */
}

/* True when the process that beats may lack records that the one before had acknowledged. */
static bool loses(const struct coord_shard *known, uint64_t boot, const struct wire_SHARD_BEAT *b)
{
    bool synced = b->durability == DURABLE_FSYNC + 1;
    return b->in_memory || !coord_member_belongs(b) || b->sequence < known->synced ||
           (b->boot != boot && !synced);
}

static int waits(const struct coord_fleet *f, uint32_t shard, struct err *e)
{
    return err_set(e, SHOAL_E_AGAIN, "shard %u of server %s waits for another copy in sync", shard,
                   f->members.shard[shard].server);
}

/* No copy in sync is sure to have all acknowledged records. Once all of them have come, the one
 * with most leads. */
static void suspects_judge(struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    if (of->suspect != of->in_sync)
        return;
    for (uint32_t p = 0; p < of->count; p++)
        if ((of->in_sync & coord_copies_bit(p)) != 0 && !heard(f, &of->copy[p]))
            return;
    (void)coord_copies_lead(f, shard, coord_copies_most(f, shard, of->in_sync), false);
}

static bool suspect_set(struct coord_fleet *f, uint32_t shard, uint32_t place)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    if ((of->suspect & coord_copies_bit(place)) != 0)
        return true;
    of->suspect |= coord_copies_bit(place);
    return coord_copies_put(f, shard);
}

/* Keeps what a beat says of a copy that does not lead. */
static void figures_take(struct coord_fleet *f, struct coord_shard *s,
                         const struct wire_SHARD_BEAT *b, peer_t from)
{
    if (s->seen && s->incarnation != b->incarnation)
        s->former = s->incarnation;
    s->seen = true;
    s->ready = b->ready;
    s->incarnation = b->incarnation;
    s->placed = coord_member_belongs(b);
    s->synced = b->synced;
    s->peer = from;
    s->beat_ns = env_now_ns(f->env);
    s->figures = *b;
    memcpy(s->server, b->server, LIMIT_NAME);
    s->index = b->shard_index;
    memcpy(s->endpoint, b->endpoint, sizeof s->endpoint);
}

/* A process other than the one that led beats in its name. 0: it follows now, or leads in a term of
 * its own. */
static int leader_back(struct coord_fleet *f, const struct wire_SHARD_BEAT *b, peer_t from,
                       uint32_t shard, struct err *e)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    const struct coord_shard *m = &f->members.shard[shard];
    uint32_t was = of->leader;
    bool others = coord_copies_others(f, shard), lost = loses(m, of->boot[was], b);
    /* the folder is locked by its process, so the one before has ended; an empty folder may lie on
     * another machine */
    if (others && !coord_member_belongs(b) && !coord_copies_lease_over(f, shard))
        return waits(f, shard, e);
    if (others && coord_copies_take_over(f, shard))
        return 0;
    if (others && lost) {
        if (!suspect_set(f, shard, was))
            return coord_store_failed(e);
        figures_take(f, &of->copy[was], b, from);
        if (!m->placed || coord_member_belongs(b) || b->in_memory)
            suspects_judge(f, shard);
        return (of->suspect & coord_copies_bit(was)) != 0 ? waits(f, shard, e) : 0;
    }
    of->boot[was] = b->boot;
    return coord_copies_lead(f, shard, was, !lost) ? 0 : coord_store_failed(e);
}

/* ---- beats ----------------------------------------------------------------------------------- */

static int follower_beat(struct coord_fleet *f, const struct wire_SHARD_BEAT *b, peer_t from,
                         uint32_t shard, uint32_t place, struct err *e)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    struct coord_shard *s = &of->copy[place];
    bool anew = s->incarnation != b->incarnation,
         listed = (of->in_sync & coord_copies_bit(place)) != 0;
    bool lost = anew && s->incarnation != 0 && loses(s, of->boot[place], b);
    bool changed = anew || s->placed != coord_member_belongs(b);
    figures_take(f, s, b, from);
    of->boot[place] = b->boot;
    if (coord_allowed_note(f, s, from, b->keylist))
        changed = true;
    if (lost && listed && of->suspect == 0) {
        of->in_sync &= ~coord_copies_bit(place);
        changed = true;
        log_warn("server %s has started again without all of its records: it is not in sync with "
                 "shard %u",
                 s->server, shard);
    } else if (lost && listed && !suspect_set(f, shard, place)) {
        return coord_store_failed(e);
    }
    return !changed || coord_copies_put(f, shard) ? 0 : coord_store_failed(e);
}

/* True when the copy gets a shard number that no server leads yet (member.c). */
static bool leads_new(const struct coord_fleet *f, const struct wire_SHARD_BEAT *beat)
{
    COORD_EACH_SHARD (&f->members, s)
        if (f->members.shard[s].server[0] == 0 &&
            (!coord_member_belongs(beat) || beat->number == s))
            return true;
    return false;
}

int coord_copies_beat(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, peer_t from,
                      uint32_t *shard, uint32_t *place, struct err *e)
{
    int rc = 0;
    *place = COORD_NOBODY;
    if (f->copies.of == NULL)
        return 0;
    *shard = coord_member_number(&f->members, beat);
    if (*shard != COORD_NOBODY) {
        uint64_t led = f->members.shard[*shard].incarnation;
        bool restarted = led != 0 && led != beat->incarnation;
        if (coord_copies_shard(f, *shard)->count > 0 && restarted)
            rc = leader_back(f, beat, from, *shard, e);
        if (rc != 0 || coord_member_number(&f->members, beat) == *shard)
            return rc;
    }
    if (!coord_copies_place(f, beat, shard, place)) {
        if (leads_new(f, beat))
            return 0;
        rc = coord_copies_give(f, beat, shard, place, e);
        if (rc != 0)
            return rc;
        told_all(f, *shard);
    }
    return follower_beat(f, beat, from, *shard, *place, e);
}

void coord_copies_heard(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    const struct coord_shard *m = &f->members.shard[shard];
    if (of == NULL || of->count == 0)
        return;
    if (of->boot[of->leader] != m->figures.boot) { /* its first beat */
        of->boot[of->leader] = m->figures.boot;
        (void)coord_copies_put(f, shard);
    }
    if (m->figures.term == of->term && m->figures.last_term == of->term && of->led != of->term) {
        of->led = of->term; /* it takes what it refused before it knew that it leads */
        coord_call_shard_ready(&f->calls, shard);
    }
}

/* ---- requests and time ----------------------------------------------------------------------- */

int coord_copies_in_sync(struct coord_fleet *f, struct coord_ask *a)
{
    const struct wire_IN_SYNC *q = &a->request->u.IN_SYNC;
    struct coord_copies_of *of =
        q->shard < f->members.shards ? coord_copies_shard(f, q->shard) : NULL;
    bool known = of != NULL && of->count > 0 && q->term == of->term;
    if (known && !f->members.shard[q->shard].seen)
        return err_set(&a->e, SHOAL_E_AGAIN,
                       "shard %u: the coordinator has just started, and waits for its beat",
                       q->shard);
    if (!known || f->members.shard[q->shard].peer != a->from)
        return err_set(&a->e, SHOAL_E_NOT_LEADER,
                       "shard %u: the sender does not lead it in term %" PRIu64, q->shard, q->term);
    if (q->order < of->order)
        return err_set(&a->e, SHOAL_E_AGAIN, "shard %u: its leader has asked anew since", q->shard);
    of->order = q->order;
    if ((q->in_sync & coord_copies_bit(of->leader)) == 0 || q->in_sync >> of->count != 0)
        return err_set(&a->e, SHOAL_E_CONFIG,
                       "shard %u has copies 0 to %u, and its leader, copy %u, is always in sync",
                       q->shard, of->count - 1, of->leader);
    for (uint32_t p = 0; p < of->count; p++) {
        const struct coord_shard *s = coord_copies_any(f, q->shard, p);
        /* an older request of the leader must not add a copy that has lost its records since */
        if ((q->in_sync & ~of->in_sync & coord_copies_bit(p)) != 0 &&
            (!s->seen || s->figures.last_term != of->term))
            return err_set(&a->e, SHOAL_E_AGAIN,
                           "copy %u of shard %u has not told that it has records of term %" PRIu64,
                           p, q->shard, of->term);
    }
    a->reply.u.IN_SYNC_reply.in_sync = q->in_sync;
    if (q->in_sync == of->in_sync)
        return 0;
    log_info("shard %u: %d of %u copies are in sync", q->shard, __builtin_popcount(q->in_sync),
             of->count);
    of->in_sync = q->in_sync;
    return coord_copies_put(f, q->shard) ? 0 : coord_store_failed(&a->e);
}

static void probed(struct env_probe *p)
{
    struct coord_copies_of *of = container_of(p, struct coord_copies_of, probe);
    struct coord_fleet *f = of->fleet;
    const struct coord_shard *m = &f->members.shard[of - f->copies.of];
    if (p->answer != ENV_PROBE_REFUSED || m->peer != of->gone)
        return;
    of->ended = m->incarnation;
    log_info("the process of server %s has ended: nothing listens at %s", m->server, m->endpoint);
}

static void probe(struct coord_fleet *f, uint32_t shard)
{
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    of->probe.done = probed;
    of->fleet = f;
    env_probe_start(f->env, &of->probe, f->members.shard[shard].endpoint);
}

/* A process that ends may still let a connection in after another one has closed: it is asked again
 * until nothing listens, or it beats over a new connection. */
static bool probe_again(const struct coord_fleet *f, uint32_t shard)
{
    const struct coord_copies_of *of = coord_copies_shard(f, shard);
    return of->gone != 0 && f->members.shard[shard].peer == of->gone && of->probe.impl == NULL;
}

void coord_copies_gone(struct coord_fleet *f, peer_t peer)
{
    uint32_t shard = coord_member_shard_of(&f->members, peer);
    COORD_EACH_FOLLOWER(f, s, p, follower)
    if (follower->peer == peer)
        follower->ready = false; /* until it beats again it takes nothing over */
    if (shard == COORD_NOBODY || f->copies.of == NULL)
        return;
    struct coord_copies_of *of = coord_copies_shard(f, shard);
    env_probe_stop(f->env, &of->probe);
    of->gone = peer; /* its last IN_SYNC, which makes a takeover possible, may still be read */
    if (coord_copies_others(f, shard))
        probe(f, shard);
}

/* Notes since when copies are not in sync. */
static void out_note(struct coord_fleet *f, struct coord_copies_of *of)
{
    for (uint32_t p = 0; p < of->count; p++)
        if ((of->in_sync & coord_copies_bit(p)) != 0)
            of->out_ns[p] = 0;
        else if (of->out_ns[p] == 0)
            of->out_ns[p] = env_now_ns(f->env);
}

void coord_copies_tick(struct coord_fleet *f)
{
    for (uint32_t s = 0; f->copies.of != NULL && s < f->members.shards; s++)
        out_note(f, &f->copies.of[s]);
    for (uint32_t s = 0; f->copies.of != NULL && s < f->members.shards && f->fatal == 0; s++)
        if (coord_copies_others(f, s)) {
            if (coord_copies_lease_over(f, s))
                (void)coord_copies_take_over(f, s);
            else if (probe_again(f, s))
                probe(f, s);
        }
    coord_copies_order_tick(f);
}

uint32_t coord_copies_taken(struct coord_fleet *f)
{
    for (uint32_t s = 0; f->copies.of != NULL && s < f->members.shards; s++)
        if (f->copies.of[s].taken) {
            f->copies.of[s].taken = false;
            return s;
        }
    return COORD_NOBODY;
}

void coord_copies_forgive(struct coord_fleet *f, uint64_t gap_ns, uint64_t now_ns)
{
    COORD_EACH_FOLLOWER(f, s, p, copy)
    if (copy->seen)
        copy->beat_ns = coord_later(copy->beat_ns, gap_ns, now_ns);
    f->copies.begun_ns = coord_later(f->copies.begun_ns, gap_ns, now_ns);
}
