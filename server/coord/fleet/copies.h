/* copies.h: the copies of each shard number: one leads, the others follow it. With `replicas: 1`
 * from the beginning nothing here runs, and nothing is stored.
 *
 * members.shard[N] (member.h) is the copy that leads shard N, so that calls and jobs see one shard
 * for each number. The copies that follow are kept here. A copy has a place in the list of its
 * shard, which never changes. A term numbers the leaderships of a shard. The in-sync list is the
 * set of places whose copies have every record that was acknowledged.
 *
 *     founding: shards x replicas copies have come -> term 1, one leads, it alone is in sync
 *     IN_SYNC of the leader -> stored -> answered: from then on the leader counts on the list
 *     the leader's process has ended (its connection has closed and its endpoint refuses a
 *         probe), or its lease is over -> term + 1, the in-sync copy with most leads, stored ->
 *         told to all copies -> jobs set the shard up again
 *     the old leader beats again -> it follows
 *
 * A leader may answer workers until shard_lease after it sent the last beat that was answered. So
 * its lease is over, at the latest, shard_lease after that beat arrived here.
 *
 * A copy that starts again may have lost records that it had acknowledged: its rows were in memory,
 * its folder is empty or older, or its machine lost power and its journal was not synced. Such a
 * follower leaves the in-sync list. Such a leader leads on only when no other copy is in sync; else
 * it is `suspect` and waits for one of those.
 *
 * Operators give orders (copies_order.c): PROMOTE names a leader that is not in sync, REPLACE gives
 * up the places of a server. A place that is given up is free, and the next copy gets it.
 *
 * Invariants:
 *  1. No copy is told of a term, a leader or an in-sync list that is not stored. [test:
 *     coord_copies_in_sync_is_stored_before_it_is_answered]
 *  2. Only a copy of the in-sync list takes over by itself. [assert: coord_copies_lead] [test:
 *     coord_copies_takeover_takes_the_copy_in_sync_with_most]
 *  3. No copy is named while the lease of another process that leads may run. [test:
 *     coord_copies_no_second_leader_before_the_lease_is_over]
 *  4. Terms only rise, and each leadership of a process has one of its own. [assert:
 *     coord_copies_lead]
 *  5. The in-sync list has the leader in it. [assert: coord_copies_put] */
#ifndef SERVER_COORD_FLEET_COPIES_H
#define SERVER_COORD_FLEET_COPIES_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/json.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/member.h"

#include <stdbool.h>
#include <stdint.h>

struct coord_fleet;
struct coord_ask;
struct coord_claim;

struct coord_copies_of {
    uint64_t term;             /* 0: the shard has no followers */
    uint32_t count, leader;    /* places, of which some may be free; the leader's */
    uint32_t in_sync, suspect; /* a bit for each place */
    uint64_t boot[LIMIT_COPIES];
    uint64_t ended; /* an incarnation of the leader whose process has ended; 0: none is known */
    uint64_t order; /* order of the newest IN_SYNC of this term that this coordinator has taken */
    uint64_t led;   /* the term in which the leader has said that it leads */
    bool taken;     /* another copy leads, and the jobs do not know it yet */
    uint64_t out_ns[LIMIT_COPIES]; /* since when a copy is not in sync; 0: it is */
    /* asks whether the process whose connection has closed still listens */
    struct env_probe probe;
    peer_t gone; /* that connection of the leader */
    struct coord_fleet *fleet;
    /* (LIMIT_COPIES), owned, NULL while no shard has the number; at the leader's place: its beats
     * while it is suspect */
    struct coord_shard *copy;
};

struct coord_copies {
    struct coord_copies_of *of; /* (LIMIT_SHARDS), owned; NULL: replicas is 1, and was never more */
    uint64_t lease_ns;
    uint64_t begun_ns; /* a former coordinator may have answered a beat until then */
};

/* Reads the lists back. A list may have more copies than `replicas` says: once the leader leads,
 * it loses the last ones (coord_copies_order_tick). */
int coord_copies_open(struct coord_fleet *f, struct err *e);
void coord_copies_close(struct coord_fleet *f);
/* Makes room for the copies of a shard that is added. False: out of memory. */
bool coord_copies_make(struct coord_fleet *f, uint32_t shard);
/* The shard is retired: forgets its copies, in the store too, but for its last term. False: the
 * store failed. */
bool coord_copies_retire(struct coord_fleet *f, uint32_t shard);
/* Returns the copies that a cluster is founded with: shards x replicas. */
uint32_t coord_copies_wanted(const struct coord_fleet *f);
/* Gives the claims (claims: shards x replicas; sorted anew) the places of these shards, which have
 * none yet; a leader's server and index are in members.shard then. No server has more than `shards`
 * of them. Stores the copies. False: the store failed, or out of memory. */
bool coord_copies_deal(struct coord_fleet *f, struct coord_claim *claim, uint32_t claims,
                       const uint32_t *shard, uint32_t shards);
/* The cluster has just become known by the beats of all its copies (claims.h): stores what is
 * whose. fresh: all of them are empty; else they were taken over, and of each shard the copy with
 * most leads. False: the store failed, or out of memory. */
bool coord_copies_found(struct coord_fleet *f, bool fresh);
/* The bit of a place in a set of places, such as in_sync. */
static inline uint32_t coord_copies_bit(uint32_t place)
{
    return UINT32_C(1) << place;
}
/* True when the shard has a copy in sync besides its leader. */
bool coord_copies_others(const struct coord_fleet *f, uint32_t shard);
/* Returns the follower that this beat is of, and its shard; NULL: there is none. */
const struct coord_shard *coord_copies_find(const struct coord_fleet *f,
                                            const struct wire_SHARD_BEAT *beat, uint32_t *shard);
/* True when a copy of the shard is on this server. */
bool coord_copies_on(const struct coord_fleet *f, uint32_t shard, const char *server);
/* True when a copy of any shard is on this server. */
bool coord_copies_on_any(const struct coord_fleet *f, const char *server);
/* True when the shard has room for one more copy, and none on this server, and neither of the two
 * is being drained. */
bool coord_copies_room(const struct coord_fleet *f, uint32_t shard, const char *server);

/* Takes the beat of a copy that belongs here. *place: the place of a follower, whose beat is then
 * taken; COORD_NOBODY: the copy leads a shard, or is to lead one, so that member.h takes its beat.
 * AGAIN: it waits, for a leader or for copies in sync. BUSY: there is no place for it. */
int coord_copies_beat(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, peer_t from,
                      uint32_t *shard, uint32_t *place, struct err *e);
/* The leader's beat was taken. */
void coord_copies_heard(struct coord_fleet *f, uint32_t shard);
/* Answers a beat; id 0: no beat asks for it. place COORD_NOBODY: that of the leader. shard
 * WIRE_NO_SHARD: ask again. */
void coord_copies_answer(struct coord_fleet *f, peer_t to, uint64_t id, uint32_t shard,
                         uint32_t place);
/* Sends a follower the map, if it has another. */
void coord_copies_map(struct coord_fleet *f, const struct coord_shard *s);
/* The request IN_SYNC. NOT_LEADER, CONFIG; AGAIN: a copy that is to be added has not told that its
 * records are of the leader's term. */
int coord_copies_in_sync(struct coord_fleet *f, struct coord_ask *a);

/* A connection has closed. If a shard's leader beat over it, and its endpoint refuses a probe, its
 * process has ended. */
void coord_copies_gone(struct coord_fleet *f, peer_t peer);
/* Names new leaders where the old ones are gone. */
void coord_copies_tick(struct coord_fleet *f);
/* Returns a shard that another copy leads since the last call; COORD_NOBODY: there is none. */
uint32_t coord_copies_taken(struct coord_fleet *f);
/* The coordinator stood still for gap_ns. */
void coord_copies_forgive(struct coord_fleet *f, uint64_t gap_ns, uint64_t now_ns);

/* Returns the copies that have a place, the leader counted. */
uint32_t coord_copies_given(const struct coord_fleet *f, uint32_t shard);
/* Returns the follower at a place; NULL: it is free, or the leader's. */
struct coord_shard *coord_copies_at(const struct coord_fleet *f, uint32_t shard, uint32_t place);

#define COORD_EACH_FOLLOWER(f, s, p, follower)                                                     \
    for (uint32_t s = 0; (f)->copies.of != NULL && s < (f)->members.shards; s++)                   \
        for (uint32_t p = 0; p < (f)->copies.of[s].count; p++)                                     \
            for (struct coord_shard *follower = coord_copies_at(f, s, p); follower != NULL;        \
                 follower = NULL)

/* ---- orders ---- */
/* The request PROMOTE. NOT_FOUND; EXISTS: a copy in sync leads, or will; UNAVAILABLE: no copy is
 * heard. */
int coord_copies_promote(struct coord_fleet *f, struct coord_ask *a);
/* The request REPLACE. NOT_FOUND; BUSY: the server beats; UNAVAILABLE: it leads, and no copy in
 * sync is there. */
int coord_copies_replace(struct coord_fleet *f, struct coord_ask *a);

/* Where two copies of a shard lie in one zone, a server that waits in another zone gets a copy too.
 * Once that copy is in sync, one of the two gives its place up (coord_copies_order_tick). Returns
 * the new copies: [{"shard", "server", "zone"}]. */
struct json *coord_copies_spread(struct coord_fleet *f, bool dry_run);

/* Does without an order what `replicas` and `replace_after` say. */
void coord_copies_order_tick(struct coord_fleet *f);

/* ---- between the files of copies ---- */
/* NULL: replicas is 1, and was never more. */
struct coord_copies_of *coord_copies_shard(const struct coord_fleet *f, uint32_t shard);
/* Returns the copy at a place that is given, the leader too. */
struct coord_shard *coord_copies_any(const struct coord_fleet *f, uint32_t shard, uint32_t place);
/* Names a leader: stores it, tells all copies. whole: it has all acknowledged records, and so have
 * the others of the list that are not suspect; else it alone is in sync. The leader may be the one
 * of before: a term of its own ends what was asked in the last one. */
bool coord_copies_lead(struct coord_fleet *f, uint32_t shard, uint32_t place, bool whole);
/* True when no process but the one that beats now can lead the shard. */
bool coord_copies_lease_over(const struct coord_fleet *f, uint32_t shard);
/* Returns the heard copy with most of a set of places; COORD_NOBODY: none is heard. */
uint32_t coord_copies_most(const struct coord_fleet *f, uint32_t shard, uint32_t set);
/* Returns the copy that takes over when the leader is gone: that one of the others in sync. */
uint32_t coord_copies_next(const struct coord_fleet *f, uint32_t shard);
/* The leader's process is gone: another copy takes over, if one in sync is heard. */
bool coord_copies_take_over(struct coord_fleet *f, uint32_t shard);
/* Returns the last term of the shard that had the number before; 0: none had. A folder of that
 * shard has records of such terms, and must not be taken for a copy of the new one. */
uint64_t coord_copies_ended_term(const struct coord_fleet *f, uint32_t shard);
/* Stores the list of a shard. */
bool coord_copies_put(struct coord_fleet *f, uint32_t shard);
/* True when a copy has more than another one: by the term of its newest record, then by its
 * sequence. */
bool coord_copies_more(const struct wire_SHARD_BEAT *a, const struct wire_SHARD_BEAT *b);
/* Finds the place of a follower. */
bool coord_copies_place(const struct coord_fleet *f, const struct wire_SHARD_BEAT *beat,
                        uint32_t *shard, uint32_t *place);
/* Returns the place of a follower in the zone of another copy, and that copy; COORD_NOBODY: each
 * copy is in a zone of its own. */
uint32_t coord_copies_doubled(const struct coord_fleet *f, uint32_t shard,
                              const struct coord_shard **other);
/* Gives a new copy a place: the shard with fewest copies gets it, if it can one without a copy in
 * this zone. BUSY: no shard has room. */
int coord_copies_give(struct coord_fleet *f, const struct wire_SHARD_BEAT *beat, uint32_t *shard,
                      uint32_t *place, struct err *e);

/* ---- for people ---- */
/* Writes one sentence on a leader that waits for another copy in sync; false: there is none. */
bool coord_copies_leaderless(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
/* Writes which two copies of the shard are in one zone, and what to do; false: none are, or nothing
 * can be done, since the fleet has no other zone. */
bool coord_copies_one_zone(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
/* Names the servers whose copies of the shard are not in sync. */
void coord_copies_behind(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
/* Writes what is wrong with the copies of a shard, and what to do; false: nothing is. */
bool coord_copies_problem(const struct coord_fleet *f, uint32_t shard, char *text, size_t bytes);
/* [{"shard", "term", "leader", "in_sync", "lease_left_ms", "copies": [{"name", "index", "place",
 * "endpoint", "key", "zone", "leads", "in_sync", "ready", "silent_ms", "sequence", "lag",
 * "lag_bytes", "lag_ms", "out_ms", "beside", "copying": {"bytes", "of", "seconds_left"}}]}]; NULL:
 * no shard has followers. lag: records; lag_bytes: an estimate, absent before a first record came;
 * out_ms: for how long the copy has not been in sync; beside: the server of another copy of the
 * shard on the same machine; copying: a copy that begins anew; seconds_left -1: not known yet */
struct json *coord_copies_json(const struct coord_fleet *f);

#endif
