/* park.h: who waits for rows that are in the store, or for room in the journal and in memory.
 *
 * Pushes (bsp's are held by bsp.h until they can go) wait in one list in order of arrival. A push
 * goes into it when
 *   - the engine is short of room (BUSY): then every newcomer waits behind it, so that nobody asks
 *     again and again and the windows of the senders set the pace;
 *   - rows of its keys are in the store (engine_warm): it is admitted when they have come. Live
 *     order is journal order, so nothing of the same run, lane and table goes before it; others do.
 * Pulls whose rows are in the store wait in a list of their own; other pulls are answered
 * meanwhile.
 *
 * Each list is walked again (push_parked, pull_tick), from its head, when rows have come; the walk
 * ends after a few that are still not there, for the engine fetches in the order in which it was
 * asked. One that is sent again takes the place of the older one. The pool (request.h) bounds how
 * many wait. While a cut is held no push moves. Thread: the shard's. */
#ifndef SERVER_SHARD_PARK_H
#define SERVER_SHARD_PARK_H

#include "server/shard/request.h"

struct shard;

#define PARK_MISSES 4u /* of one walk: requests whose rows are still not there */

struct park {
    struct request_list pushes, pulls;
    struct env_timer timer;     /* makes a tick when nothing else does (shard.c) */
    bool short_of_room;         /* the engine has said BUSY, nobody has been admitted since */
    bool pushes_due, pulls_due; /* rows have come since the last walk */
    bool purge_due;             /* a run went while pushes may have been on their way */
};

void park_init(struct shard *s);
/* A push of a run that is not bsp's: admitted, refused or parked. Takes q. */
void park_enter(struct shard *s, struct request *q);
/* The engine has no room: a tick comes soon and tries again. */
void park_short(struct shard *s);
/* A pull whose rows have been asked for. Takes q. */
void park_pull(struct shard *s, struct request *q);
/* engine_options.on_fetched. */
void park_fetched(struct shard *s);
/* Whether one must stay behind the other. */
bool park_same_lane(const struct push_record *a, const struct push_record *b);
/* Whether somebody on the list is of the same run, lane and table. */
bool park_lane_waits(const struct request_list *l, const struct push_record *r);
/* Takes out the pulls of a peer that is gone. Its pushes stay: they are the lane's. */
void park_peer_gone(struct shard *s, peer_t peer, struct request_list *out);
/* Takes out the pulls that arrived before an instant. */
void park_expire(struct shard *s, uint64_t before_ns, struct request_list *out);
void park_close(struct shard *s);
uint32_t park_count(const struct shard *s); /* of pushes and pulls that wait; counted one by one */

/* Runs changed: whatever waits for one that is gone is refused with OLD_RUN. The group is empty. */
void park_purge(struct shard *s);
/* Others may come in the place of all tables: pulls of no run are refused too. */
void park_tables_gone(struct shard *s);
/* As park_purge, at the end of a tick that comes by itself: from the engine, which may be stepping
 * within an admission. */
void park_purge_soon(struct shard *s);

#endif
