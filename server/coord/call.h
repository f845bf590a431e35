/* call.h: a request to one shard or to all of them, sent again until every answer is there.
 *
 * A call goes over the connection of each shard's last beat. It ends once: with 0 when all asked
 * shards have answered well, or with the first answer that says more than "not now" (AGAIN, BUSY,
 * OLD_RUN, NO_TABLE, UNAVAILABLE and NOT_LEADER are "not now": the shard is being set up, or coming
 * back). A shard that is away is waited for. Requests must be idempotent: they are sent more than
 * once.
 *
 *   coord_call_start -> [sent] -coord_call_on_reply-> on_reply for each shard
 *                        |  ^                           -> last one: on_done, call freed
 *                        +--+ coord_call_tick, every resend_ns; coord_call_shard_ready
 *
 * Thread: the coordinator's loop. on_done may start and cancel calls. */
#ifndef SERVER_COORD_CALL_H
#define SERVER_COORD_CALL_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/coord/member.h"

#include <stdbool.h>
#include <stdint.h>

#define COORD_CALLS_MAX (LIMIT_LANES + LIMIT_SHARDS + 64u)

struct coord_call;

typedef void (*coord_call_reply)(void *context, const struct coord_call *call, uint32_t shard,
                                 const struct wire *reply, const struct msg *m);
typedef void (*coord_call_done)(void *context, const struct coord_call *call, int status,
                                const char *text);

struct coord_call {
    struct wire request;
    void *frame; /* owned: the raw frame sent along, or NULL for none */
    size_t frame_bytes;
    bool has_frame;
    uint32_t target; /* a shard, or COORD_NOBODY: all */
    uint64_t owner;  /* the caller's: a lane, a table */
    bool early;      /* is part of setting a shard up: does not wait for that */
    uint64_t sent_ns;
    uint32_t missing; /* answers */
    uint8_t answered[LIMIT_SHARDS / 8];
    coord_call_reply on_reply; /* may be NULL */
    coord_call_done on_done;
    struct coord_call *next;
};

struct coord_calls {
    struct env *env;               /* borrowed */
    struct coord_members *members; /* borrowed */
    void *context;                 /* borrowed: first argument of both callbacks */
    uint64_t resend_ns;
    uint64_t next_id;
    struct coord_call *head; /* owned */
    uint32_t count;
};

void coord_call_open(struct coord_calls *c, struct env *env, struct coord_members *members,
                     void *context, uint64_t resend_ns);
void coord_call_close(struct coord_calls *c);
/* request: type and u filled in; frame (bytes) is copied, has_frame tells whether the type has one.
 * Never calls back by itself. NULL when out of memory or when COORD_CALLS_MAX are open. */
struct coord_call *coord_call_start(struct coord_calls *c, const struct wire *request,
                                    const void *frame, size_t frame_bytes, bool has_frame,
                                    uint32_t target, bool early, uint64_t owner,
                                    coord_call_reply on_reply, coord_call_done on_done);
/* Ends calls of a type without a callback; owner UINT64_MAX: all of the type. */
void coord_call_cancel(struct coord_calls *c, enum wire_type type, uint64_t owner);
void coord_call_cancel_all(struct coord_calls *c);
bool coord_call_open_type(const struct coord_calls *c, enum wire_type type);
void coord_call_on_reply(struct coord_calls *c, peer_t from, const struct wire *reply,
                         const struct msg *m);
void coord_call_tick(struct coord_calls *c);
/* it is set up: it gets what is open, at once */
void coord_call_shard_ready(struct coord_calls *c, uint32_t shard);
/* Nobody is set up any more: another job, another run. What was asked for that is taken back. */
void coord_call_forget(struct coord_calls *c);
void coord_call_forget_shard(struct coord_calls *c, uint32_t shard); /* likewise this one */

#endif
