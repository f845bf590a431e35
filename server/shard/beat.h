/* beat.h: the shard's heartbeat to the coordinator: SHARD_BEAT at the start and then every third of
 * the lease, or every second (WIRE_BEAT_MS). The first reply gives the shard's number. A beat says
 * whether all rows are back after a start: until then the coordinator sends the map and nothing
 * else. The coordinator sends its own requests (map, tables, runs, fences) over this connection,
 * and they are dispatched like requests from other peers. Another coordinator of the list
 * (coordinators.h) looks like the same one started again: the next beat tells it all. Thread: the
 * shard's. */
#ifndef SERVER_SHARD_BEAT_H
#define SERVER_SHARD_BEAT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/wire/coordinators.h"
#include "proto/wire/wire.h"

#include <stdbool.h>

struct shard;

/* The newest reply of the coordinator. A shard without a coordinator is TAKEN. */
enum shard_place { SHARD_UNANSWERED, SHARD_REFUSED, SHARD_TAKEN };

#define BEAT_TIMES 8u

struct beat {
    struct coordinators list;
    peer_t coordinator; /* the one of the list that is asked; 0: there is none */
    uint64_t incarnation;
    uint64_t id, sent_ns;         /* id and time of the newest beat */
    uint64_t sent_of[BEAT_TIMES]; /* the times of the newest beats, by id */
    uint64_t heard_ns;            /* time of the newest reply; silent: the lack of one is logged */
    bool silent;
    uint32_t lease_ms;
    uint64_t said; /* XXH3 of the last refusal that was logged */
    enum shard_place place;
    struct env_timer timer;
};

void beat_init(struct shard *s);
int beat_start(struct shard *s, struct err *e);
/* Sends a beat out of turn, after a change that the coordinator waits for. */
void beat_now(struct shard *s);
/* Sends a beat if one is overdue; called within work that keeps the loop. */
void beat_due(struct shard *s);
/* s->in holds a reply. True: a coordinator that stands by has refused, which renews no lease. */
bool beat_refused(struct shard *s, peer_t from);
/* s->in holds a reply to SHARD_BEAT. */
void beat_on_reply(struct shard *s, peer_t from);
void beat_close(struct shard *s);
/* A SERVER_DISK message, for the main thread, which speaks for its server (server_word.h). NULL: no
 * memory. */
struct msg *beat_disk(const struct wire_SERVER_DISK *hang, uint64_t id);

#endif
