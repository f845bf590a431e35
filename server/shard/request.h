/* request.h: pulls and pushes on their way through a shard, taken from one bounded pool.
 *
 * A request owns its message until it is given back: keys and gradients are read, journalled and
 * applied from the bytes that arrived, without a copy. A push that gets rows back holds its reply
 * in place of the message once it is applied (echo.h). Pulls and pushes have a share of the pool
 * each, so that pulls that wait for a clock never take the room of the pushes that complete it. Of
 * their own share they get five eighths, so that the pull of the lane for which they wait is taken.
 * A share is LIMIT_WAITING requests and a number of bytes. A request that does not fit is refused
 * with BUSY, so a shard's memory for waiting work has a bound whatever the peers do. A key that has
 * half of a share gets nothing of its last quarter, whatever the number of its connections; a peer
 * without a key is counted by its connection. A request is on one list at a time. Thread: the
 * shard's. */
#ifndef SERVER_SHARD_REQUEST_H
#define SERVER_SHARD_REQUEST_H

#include "embedding/engine.h"
#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "server/shard/span.h"

struct request {
    struct request *next; /* on its list */
    struct msg *m;        /* owned: its message, or its reply; NULL once that is not needed */
    size_t bytes;         /* bytes of m, as counted in the pool */
    peer_t peer;
    /* the hash of the peer's key, or the peer itself where it has none: requests are counted by
     * it */
    uint64_t holder;
    uint64_t id;
    uint64_t arrived_ns;
    enum wire_type type; /* PULL, PUSH or ASSIGN */
    bool taken;          /* from the pool */
    union {
        struct {
            uint64_t run, batch;
            uint64_t need; /* the pull is answered once the lowest clock is this; 0: at once */
            uint64_t clock;
            uint32_t table, lane, bound, key_count;
            uint32_t values, parts; /* as in struct wire_PULL */
            const uint64_t *keys;   /* in m, (key_count) */
            uint64_t epoch;         /* epoch of the map by which the keys were led when it came */
            bool parked;            /* its rows are fetched from the store: it is counted as cold */
        } pull;
        struct {
            struct push_record r; /* points into m */
            struct push_plan plan;
            uint32_t echo, values; /* as in struct wire_PUSH */
            const uint8_t
                *wanted;  /* in m, a bit for each key; `echo` are set; of an ASSIGN all 0 */
            bool replies; /* m is the reply */
            /* the push is answered once the engine acknowledges this sequence */
            uint64_t wait_sequence;
            int status; /* 0 or SHOAL_E_GAP */
        } push;
    };
    struct span span;
};

struct request_list {
    struct request *head, *tail;
};

/* True for a push, and for rows that are assigned, which go the way of a push. */
static inline bool request_pushes(const struct request *q)
{
    return q->type == WIRE_TYPE_PUSH || q->type == WIRE_TYPE_ASSIGN;
}
/* True for rows that are assigned by key: they are of no run. */
static inline bool request_of_no_run(const struct request *q)
{
    return q->type == WIRE_TYPE_ASSIGN && q->push.r.rows != NULL;
}

enum request_kind { REQUEST_PULL, REQUEST_PUSH, REQUEST_KINDS };

/* A holder's requests and bytes in a share. A hash of the holder selects one of REQUEST_PLACES
 * counters. Two holders with the same counter count as one: a holder has the counter of a given
 * greedy one with a chance of 1 in REQUEST_PLACES. */
enum { REQUEST_PLACES = 4096 };
struct request_count {
    uint32_t used;
    uint64_t bytes;
};

struct request_share {
    struct request_count of[REQUEST_PLACES];
    uint32_t used;
    uint64_t bytes, bytes_max;
    /* a request did not fit, and the share's bytes have been above a quarter ever since */
    bool refused;
};

struct request_pool {
    /* owned: both shares', and some more for pushes that are taken at once */
    struct request *block;
    uint32_t begun; /* places of it that were ever taken; the memory of the others is untouched */
    struct request *free; /* list of the begun places that are free */
    struct request_share share[REQUEST_KINDS];
};

/* 0 or SHOAL_E_NOMEM. bytes_max 0: 1 GiB; a quarter of it is for pulls. */
int request_pool_init(struct request_pool *p, uint64_t bytes_max);
uint32_t request_pool_used(const struct request_pool *p);
uint64_t request_pool_bytes(const struct request_pool *p);
/* True when pushes have taken half of their share, or one did not fit: pushes that can be applied
 * early should be. */
bool request_pool_pressed(const struct request_pool *p);
/* Frees the messages of all requests still out, wherever they are. */
void request_pool_close(struct request_pool *p);

struct request_from {
    peer_t peer;
    uint64_t holder; /* 0: the peer itself */
};
/* Makes a request of m and the decoded PULL, PUSH or ASSIGN. NULL when its share is full: m then
 * stays the caller's. at_once: the push will be applied without waiting, so it is taken even when
 * the share is full, up to twice the share's bytes and LIMIT_WAITING / 16 more requests. */
struct request *request_take(struct request_pool *p, const struct request_from *from,
                             const struct wire *w, struct msg *m, bool at_once, uint64_t now_ns);
/* True when a pull that is taken may wait for a clock, beside `waiting` others of so many bytes:
 * they get five eighths of the share, and the pulls of one holder half of it. */
bool request_may_wait(struct request_pool *p, const struct request *q, uint32_t waiting,
                      uint64_t bytes);
/* True when the share has no room for such a request. */
bool request_pool_full(const struct request_pool *p, const struct wire *w, const struct msg *m);
/* Frees the message early, when only the answer is outstanding. */
void request_drop_message(struct request_pool *p, struct request *q);
/* A reply of so many bytes may take the place of the push's message: the share has room for it. */
bool request_reply_fits(const struct request_pool *p, const struct request *q, size_t bytes);
/* Gives q, whose message is dropped, a reply to hold, and takes it back from q. */
void request_keep_reply(struct request_pool *p, struct request *q, struct msg *reply);
struct msg *request_take_reply(struct request_pool *p, struct request *q);
void request_give(struct request_pool *p, struct request *q);

/* For two pulls of one run and table: true when they are of one lane, batch and keys. A batch's
 * pull may be several messages over different keys. */
bool request_same_pull(const struct request *a, const struct request *b);

void request_append(struct request_list *l, struct request *q);
struct request *request_pop(struct request_list *l); /* or NULL */

#endif
