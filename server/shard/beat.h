/* beat.h: the shard tells the coordinator that it is there: SHARD_BEAT at start and every third of
 * the lease. The first reply gives the shard's number. A beat says whether all rows are back after
 * a start: until then it gets the map and nothing else. The coordinator sends its own requests
 * (map, tables, runs, fences) back over this connection, so they are dispatched like those that
 * come in by the front door. Thread: the shard's. */
#ifndef SERVER_SHARD_BEAT_H
#define SERVER_SHARD_BEAT_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/msg.h"

#include <stdbool.h>

struct shard;

/* What the newest reply of the coordinator said. A shard without a coordinator is TAKEN. */
enum shard_place { SHARD_UNANSWERED, SHARD_REFUSED, SHARD_TAKEN };

struct beat {
    peer_t coordinator; /* 0: none */
    uint64_t incarnation;
    uint64_t id, sent_ns; /* of the newest beat */
    uint64_t heard_ns;    /* the newest reply; silent: that there is none has been told */
    bool silent;
    uint32_t lease_ms;
    uint64_t said; /* XXH3 of the last refusal that was logged */
    enum shard_place place;
    struct env_timer timer;
};

void beat_init(struct shard *s);
int beat_start(struct shard *s, struct err *e);
/* One out of turn: something has changed that the coordinator waits for. */
void beat_now(struct shard *s);
/* One if it is overdue, from within work that keeps the loop. */
void beat_due(struct shard *s);
/* s->in holds a reply to SHARD_BEAT. */
void beat_on_reply(struct shard *s, peer_t from);
void beat_close(struct shard *s);
/* SERVER_DISK, for another thread that speaks for its server (server_word.h). NULL: no memory. */
struct msg *beat_disk(const char *server, uint32_t seconds, uint64_t id);

#endif
