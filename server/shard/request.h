/* request.h: pulls and pushes on their way through a shard, taken from one bounded pool.
 *
 * A request owns its message until it is given back: keys and gradients are read, journalled and
 * applied from the very bytes that came in. Pulls and pushes have a share of the pool each, so that
 * those who wait for a clock never keep out what would bring it: LIMIT_WAITING requests, and a cap
 * on their bytes. Past either a newcomer is refused with BUSY, so a shard's memory for waiting work
 * has a bound whatever the peers do; the last quarter of a share is not for a key that has half of
 * it, over however many connections: of somebody without a key it is the connection that counts. A
 * request is on one list at a time. Thread: the shard's. */
#ifndef SERVER_SHARD_REQUEST_H
#define SERVER_SHARD_REQUEST_H

#include "embedding/engine.h"
#include "proto/base/env.h"
#include "proto/wire/wire.h"

struct request {
    struct request *next; /* of the list that it is on */
    struct msg *m;        /* owned; NULL once its bytes are no longer needed */
    size_t bytes;         /* of m, as counted in the pool */
    peer_t peer;
    uint64_t holder; /* of the key that it came with, or of none the peer: who it counts for */
    uint64_t id;
    uint64_t arrived_ns;
    enum wire_type type; /* PULL or PUSH */
    bool taken;          /* from the pool */
    union {
        struct {
            uint64_t run, batch;
            uint64_t need; /* answered once the lowest clock is this; 0: at once */
            uint64_t clock;
            uint32_t table, lane, bound, key_count;
            const uint64_t *keys; /* in m, (key_count) */
            bool parked;          /* its rows were asked for from the store: it is counted */
        } pull;
        struct {
            struct push_record r; /* points into m */
            struct push_plan plan;
            uint64_t wait_sequence; /* answered once the engine acknowledges this sequence */
            int status;             /* 0 or SHOAL_E_GAP */
        } push;
    };
};

struct request_list {
    struct request *head, *tail;
};

enum request_kind { REQUEST_PULL, REQUEST_PUSH, REQUEST_KINDS };

/* What holders have of a share, counted at a place that a holder's number says. Two may have one
 * place: then they count as one, which 1 in REQUEST_PLACES does to one beside a greedy one. */
enum { REQUEST_PLACES = 4096 };
struct request_count {
    uint32_t used;
    uint64_t bytes;
};

struct request_share {
    struct request_count of[REQUEST_PLACES];
    uint32_t used;
    uint64_t bytes, bytes_max;
    bool refused; /* somebody, for want of room, since there was some */
};

struct request_pool {
    struct request *block; /* owned: both shares', and some more for pushes at once */
    struct request *free;
    struct request_share share[REQUEST_KINDS];
};

/* 0 or SHOAL_E_NOMEM. bytes_max 0: 1 GiB; a quarter of it is for pulls. */
int request_pool_init(struct request_pool *p, uint64_t bytes_max);
uint32_t request_pool_used(const struct request_pool *p);
uint64_t request_pool_bytes(const struct request_pool *p);
/* Whether pushes have taken half of their share, or one did not fit: what can go on early
 * should. */
bool request_pool_pressed(const struct request_pool *p);
/* Frees the messages of all requests still out, wherever they are. */
void request_pool_close(struct request_pool *p);

struct request_from {
    peer_t peer;
    uint64_t holder; /* 0: the peer itself */
};
/* Takes m and the fields of a decoded PULL or PUSH. NULL when its share is full: m then stays the
 * caller's. at_once: a push that will not wait, so that a full share does not matter, unless twice
 * as many bytes are there, or a sixteenth more requests. */
struct request *request_take(struct request_pool *p, const struct request_from *from,
                             const struct wire *w, struct msg *m, bool at_once, uint64_t now_ns);
/* Whether such a request would be refused now. */
bool request_pool_full(const struct request_pool *p, const struct wire *w, const struct msg *m);
/* Frees the message early, when only the answer is outstanding. */
void request_drop_message(struct request_pool *p, struct request *q);
void request_give(struct request_pool *p, struct request *q);

/* Two pulls of one run and table: whether they are of one lane, batch and keys. A batch's pull may
 * be several messages over different keys. */
bool request_same_pull(const struct request *a, const struct request *b);

void request_append(struct request_list *l, struct request *q);
struct request *request_pop(struct request_list *l); /* or NULL */

#endif
