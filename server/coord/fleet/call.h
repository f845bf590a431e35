/* call.h: requests of the coordinator to shards. */
#ifndef SERVER_COORD_FLEET_CALL_H
#define SERVER_COORD_FLEET_CALL_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/wire/wire.h"
#include "server/coord/fleet/member.h"

#include <stdbool.h>
#include <stdint.h>

/* A request to one shard or to all shards, sent again until every reply is there.
 *
 * A call uses the connection of each shard's last beat. It ends once: with 0 when all asked shards
 * have replied with 0, or with the first reply that says more than "not now" (AGAIN, BUSY, OLD_RUN,
 * NO_TABLE, UNAVAILABLE and NOT_LEADER are "not now": the shard is being set up, or coming back).
 * NO_TABLE ends a MOVE_TAKE, which holds up a job. The call waits for a shard that is away.
 * Requests are sent more than once, so they must be idempotent.
 *
 *   coord_call_start -> [sent] -coord_call_on_reply-> on_reply for each shard
 *                        |  ^                           -> last one: on_done, call freed
 *                        +--+ coord_call_tick, every resend_ns; coord_call_shard_ready
 *
 * Thread: the coordinator's loop. on_done may start and cancel calls. */

#define COORD_CALLS_MAX (LIMIT_LANES + LIMIT_SHARDS + 64u)

struct coord_call;

/* How far each shard is set up for the job. */
struct coord_setup {
    struct coord_setup_shard {
        bool done;      /* it has map, tables and run */
        bool busy;      /* a step is asked for and not answered */
        uint32_t step;  /* how many steps are done */
        bool greeted;   /* it was told what every shard is told (coord_setup_greet) */
        bool tables;    /* it leads no tablet, and was told the tables that are made */
        uint64_t leads; /* epoch of the newest map by which it leads tablets, so it has them */
    } shard[LIMIT_SHARDS];
};

/* context: the `context` of struct coord_call. */
typedef void (*coord_call_reply)(void *context, const struct coord_call *call, uint32_t shard,
                                 const struct wire *reply, const struct msg *m);
typedef void (*coord_call_done)(void *context, const struct coord_call *call, int status,
                                const char *text);

struct coord_call {
    struct wire request;
    void *frame; /* owned: the raw frame sent with the request; NULL: the type has none */
    size_t frame_bytes;
    void *more; /* owned: the second raw frame; NULL: the type has none */
    size_t more_bytes;
    uint32_t target; /* a shard, or COORD_NOBODY: all shards */
    uint64_t owner;  /* set by the caller: a lane, a table */
    /* borrowed: the call goes only to shards that this setup has set up; NULL: to any shard */
    const struct coord_setup *set_up;
    /* asks only shards that are present, for as long as they are: a shard that comes back learns it
     * from its registration */
    bool present;
    /* borrowed; passed to both callbacks: the fleet, or the job that asks */
    void *context;
    coord_call_reply on_reply; /* may be NULL */
    coord_call_done on_done;
    uint64_t sent_ns;
    uint64_t waits_ns; /* since when a shard has replied "not now"; 0: none has */
    uint32_t missing;  /* replies that are still missing */
    /* by shard; the caller may mark shards that are not to be asked (not with `present`) */
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
    bool held; /* only calls about moves are sent (moves.h) */
    struct {   /* the newest "not now": its shard and reason */
        uint32_t shard;
        char text[ERR_TEXT_MAX];
    } waits;
};

/* Returns for how long the longest postponed call has waited, in ns; 0: none is postponed. */
uint64_t coord_call_put_off_ns(const struct coord_calls *c);
void coord_call_open(struct coord_calls *c, struct env *env, struct coord_members *members,
                     uint64_t resend_ns, uint64_t lease_ns);
/* asked: the caller fills in `request` (type and u) to `on_done`; the frame is copied. Does not
 * call back before it returns. False when out of memory or when COORD_CALLS_MAX are open; the last
 * places are reserved for calls that set shards up. */
bool coord_call_start(struct coord_calls *c, const struct coord_call *asked);
/* Ends calls of a type that were started with the context, without a callback; owner UINT64_MAX:
 * all calls of the type. */
void coord_call_cancel(struct coord_calls *c, const void *context, enum wire_type type,
                       uint64_t owner);
/* The same for all calls of the context. */
void coord_call_cancel_of(struct coord_calls *c, const void *context);
void coord_call_cancel_all(struct coord_calls *c);
/* The same for all calls that were started with the context. */
void coord_call_cancel_of(struct coord_calls *c, const void *context);
/* True when no call is open that counts tablets, or that sets a shard up. A call that drops a run
 * or a cut may stay open until the next job. */
bool coord_call_quiet(const struct coord_calls *c);
/* From here on only calls about moves are sent; others are sent when they are let go. It is
 * quiet. */
void coord_call_hold(struct coord_calls *c);
void coord_call_let_go(struct coord_calls *c);
bool coord_call_open_type(const struct coord_calls *c, const void *context, enum wire_type type);
void coord_call_on_reply(struct coord_calls *c, peer_t from, const struct wire *reply,
                         const struct msg *m);
void coord_call_tick(struct coord_calls *c);
/* The shard is set up: sends it the open calls at once. */
void coord_call_shard_ready(struct coord_calls *c, uint32_t shard);
/* A new shard: the open calls do not ask it. */
void coord_call_shard_added(struct coord_calls *c, uint32_t shard);
/* The shard is no more: the open calls go on as if it had answered. */
void coord_call_shard_retired(struct coord_calls *c, uint32_t shard);
/* The shard has started again, or is to be set up and greeted anew. Ends the calls of the context
 * (NULL: of every context) that set it up or greet it, without a callback. A call to the present
 * shards does not wait for this shard any more. */
void coord_call_forget_shard(struct coord_calls *c, const void *context, uint32_t shard);

#endif
