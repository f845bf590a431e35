/* park.h: requests that wait for rows from the store, or for room in the journal and in memory.
 *
 * Pushes wait in one list in order of arrival (pushes of bsp runs are held by bsp.h until they can
 * go). A push is put into the list when
 *   - the engine is short of room (BUSY): then every later push that needs the same room waits
 *     behind it, so that senders do not retry again and again and their windows set the pace. That
 *     is every push, or those to the tables of a space that is held to its share of the memory;
 *   - rows of its keys are in the store (engine_warm): it is admitted when they have come. Live
 *     order is journal order, so no later push of the same run, lane and table overtakes it; others
 *     do.
 *
 * Pulls whose rows are in the store wait in a list of their own; other pulls are answered
 * meanwhile.
 *
 * Each list is walked again (push_parked, pull_tick), from its head, when rows have come. A walk
 * ends after PARK_MISSES requests whose rows are not there, for the engine fetches in the order of
 * the requests; those of spaces that are held to their shares are counted apart, because no rows
 * come for them. A request that is sent again takes the place of the older one. The pool
 * (request.h) bounds the number of waiting requests. While a cut is held no push moves. Thread: the
 * shard's. */
#ifndef SERVER_SHARD_PARK_H
#define SERVER_SHARD_PARK_H

#include "server/shard/request.h"

struct shard;

#define PARK_MISSES 4u /* a walk ends after so many requests whose rows are not there */

struct park {
    struct request_list pushes, pulls;
    struct env_timer timer; /* starts a tick when no message does (shard.c) */
    /* tables for which the engine has said BUSY, in the last walk or since */
    struct table_set short_of_room;
    bool pushes_due, pulls_due; /* rows have come since the last walk */
    bool purge_due;             /* a run was dropped while its pushes may have been on their way */
};

void park_init(struct shard *s);
/* Takes q, a push of a run that is not bsp: admits, refuses or parks it. */
void park_enter(struct shard *s, struct request *q);
/* The engine has no room for pushes to some tables: starts a tick soon, which tries again. */
void park_short(struct shard *s, struct table_set tables);
/* Takes q, a pull whose rows are being fetched. */
void park_pull(struct shard *s, struct request *q);
/* engine_options.on_fetched. */
void park_fetched(struct shard *s);
/* True when one of the two pushes must stay behind the other. */
bool park_same_lane(const struct push_record *a, const struct push_record *b);
/* True when a push on the list is of the same run, lane and table. */
bool park_lane_waits(const struct request_list *l, const struct push_record *r);
/* Takes out the pulls of a peer that is gone. Its pushes stay: they belong to the lane. */
void park_peer_gone(struct shard *s, peer_t peer, struct request_list *out);
/* Takes out the pulls that arrived before an instant. */
void park_expire(struct shard *s, uint64_t before_ns, struct request_list *out);
void park_close(struct shard *s);
/* pushes and pulls that wait; the lists are counted at each call */
uint32_t park_count(const struct shard *s);

/* The set of runs changed: waiting requests of runs that are gone are refused with OLD_RUN. The
 * group is empty. */
void park_purge(struct shard *s);
/* These tables go, and others may come in their place: what waits for them is refused,
 * pulls of no run too. */
void park_tables_gone(struct shard *s, struct table_set tables);
/* Like park_purge, but at the end of a tick that is started for it: for a call from the engine,
 * which may be in the middle of an admission. */
void park_purge_soon(struct shard *s);

#endif
