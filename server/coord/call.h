/* call.h: requests of the coordinator to shards. */
#ifndef SERVER_COORD_CALL_H
#define SERVER_COORD_CALL_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/member.h"

#include <stdbool.h>
#include <stdint.h>

/* A request to one shard or to all of them, sent again until every answer is there.
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

#define COORD_CALLS_MAX (LIMIT_LANES + LIMIT_SHARDS + 64u)

struct coord_call;
struct coord_setup;

/* context: that of the call (struct coord_call). */
typedef void (*coord_call_reply)(void *context, const struct coord_call *call, uint32_t shard,
                                 const struct wire *reply, const struct msg *m);
typedef void (*coord_call_done)(void *context, const struct coord_call *call, int status,
                                const char *text);

struct coord_call {
    struct wire request;
    void *frame; /* owned: the raw frame sent along; NULL: the type has none */
    size_t frame_bytes;
    uint32_t target; /* a shard, or COORD_NOBODY: all */
    uint64_t owner;  /* the caller's: a lane, a table */
    /* borrowed: the call goes to the shards that are set up by it; NULL: to any shard */
    const struct coord_setup *set_up;
    /* asks the shards that are there now, for as long as they are: one that comes back learns it
     * from its registration */
    bool present;
    void *context;             /* borrowed; goes to both: the fleet, or the job that asks */
    coord_call_reply on_reply; /* may be NULL */
    coord_call_done on_done;
    uint64_t sent_ns;
    uint64_t waits_ns; /* since then a shard has said "not now"; 0: none has */
    uint32_t missing;  /* answers */
    uint8_t answered[LIMIT_SHARDS / 8];
    struct coord_call *next;
};

struct coord_calls {
    struct env *env;               /* borrowed */
    struct coord_members *members; /* borrowed */
    uint64_t resend_ns, lease_ns;
    uint64_t next_id;
    struct coord_call *head; /* owned */
    uint32_t count;
    struct { /* the newest "not now": which shard, and why */
        uint32_t shard;
        char text[ERR_TEXT_MAX];
    } waits;
};

/* For how long the call that has been put off longest has been; 0: none is. */
uint64_t coord_call_put_off_ns(const struct coord_calls *c);
void coord_call_open(struct coord_calls *c, struct env *env, struct coord_members *members,
                     uint64_t resend_ns, uint64_t lease_ns);
/* asked: filled in from `request` (type and u) to `on_done`; the frame is copied. Never calls back
 * by itself. False when out of memory or when COORD_CALLS_MAX are open; the last places are for
 * those that set shards up. */
bool coord_call_start(struct coord_calls *c, const struct coord_call *asked);
/* Ends calls of a type that were started with the context, without a callback; owner UINT64_MAX:
 * all of the type. */
void coord_call_cancel(struct coord_calls *c, const void *context, enum wire_type type,
                       uint64_t owner);
void coord_call_cancel_all(struct coord_calls *c);
bool coord_call_open_type(const struct coord_calls *c, const void *context, enum wire_type type);
void coord_call_on_reply(struct coord_calls *c, peer_t from, const struct wire *reply,
                         const struct msg *m);
void coord_call_tick(struct coord_calls *c);
/* The shard is set up: it gets the open calls at once. */
void coord_call_shard_ready(struct coord_calls *c, uint32_t shard);
/* The shard has started again, or is to be set up and greeted anew. The calls of the context (NULL:
 * of every context) that set it up or greet it end without a callback, and a call to the shards
 * that are present waits for this one no longer. */
void coord_call_forget_shard(struct coord_calls *c, const void *context, uint32_t shard);

#endif
