/* client.h: the worker's connections, one to the coordinator and one to each shard of the map, and
 * the table of requests in flight.
 *
 * A request is a struct of its owner (which finds itself with container_of). The client knows it by
 * its id from client_start until its `reply` returns REQUEST_DONE or client_cancel is called. Until
 * then the client sends it again, with the same id and newly built bytes, when no reply came in
 * time (resend_ms, doubling after the third try) or the reply was "later" (BUSY and the like: after
 * 50 ms, doubling up to 1 s). Every request of this system may arrive twice. Ids grow, so that a
 * server can tell a late copy of an old request from a new one.
 *
 * client_map_refresh fetches the map, which is kept here; shards are connected when their endpoints
 * become known or change. When a shard stays silent the client refreshes the map by itself, because
 * the server may have restarted elsewhere.
 *
 * Another coordinator of the list (coordinators.h) gets all requests in flight, with the ids that
 * they have; passes and generations are in its store.
 *
 * A shard is sought when its connection closes, or it answers NOT_LEADER: the client fetches the
 * map at once, then every 50 ms, and after 2 s less often, down to every second. The search ends
 * when the map has another endpoint or key for the shard, when a closed connection answers a ping,
 * or when the shard answers a request in another way. The shard's requests in flight are then sent
 * at once, with the ids that they had.
 *
 * A request needs no allocation; messages come from the pool. Thread: the worker's loop. */
#ifndef WORKER_TRAIN_CLIENT_H
#define WORKER_TRAIN_CLIENT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"
#include "worker/train/map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_COORDINATOR UINT32_MAX /* a request's target that is no shard */

enum request_verdict {
    /* it is finished: the owner may start, change or free it, also within `reply` */
    REQUEST_DONE,
    REQUEST_LATER, /* send it again after a pause */
    REQUEST_NOW,   /* send it again at once */
};

struct request {
    /* Set by the owner before client_start. */
    enum wire_type type;
    uint32_t target;   /* shard number, or CLIENT_COORDINATOR */
    bool write;        /* not sent while the client is muted */
    uint32_t pause_ms; /* after REQUEST_LATER; 0: 50 ms, doubling up to 1 s */
    struct msg *(*build)(
        /* builds the message, with r->id in its header; NULL: no memory, it is tried again later */
        struct request *r);
    /* Called with each reply, whatever its status; w and m are borrowed for the call. */
    enum request_verdict (*reply)(struct request *r, const struct wire *w, const struct msg *m);
    /* Set by the client. */
    uint64_t id;     /* 0: not in flight */
    uint64_t order;  /* rank of its last sending among all sendings; 0: never sent */
    uint64_t due_ns; /* when it is sent next */
    uint32_t tries;  /* sendings since client_start */
    uint32_t pauses; /* answers "later" in a row */
    struct request *next, **back;
};

struct client_options {
    const char *coordinator; /* endpoints (coordinators.h); copied */
    bool reads;              /* only reads the tables that MAP_GET names; false: works on a job's */
    const char *space;       /* space of these tables; borrowed; NULL: the only one */
    /* Checks that the name in an endpoint has an address. It runs on a thread and may take seconds.
     * NULL: names are not checked. */
    int (*resolve)(const char *endpoint, char numeric[256], struct err *e);
    /* called when a complete map differs from the last complete one; may be NULL */
    void (*on_map)(void *context);
    /* The coordinator has refused the map, and is asked again: with the status and sentence of its
     * answer, or NOT_FOUND where it has tables of another space alone. May be NULL */
    void (*on_refused)(void *context, int status, const char *text);
    void *context;
};

struct client;

/* CONFIG: the list of coordinators, or an endpoint in it, cannot be used. */
int client_new(struct env *env, const struct client_options *options, struct client **out,
               struct err *e);
void client_free(struct client *c); /* drops requests in flight without a call */
/* The endpoint of the coordinator that is asked now. */
const char *client_coordinator(const struct client *c);
void client_set_resend(struct client *c, uint32_t resend_ms);

/* on_message of the worker's core: takes m and finds its request. Messages without one (late
 * copies, strangers) are dropped. */
void client_message(struct client *c, peer_t from, struct msg *m);
/* The same for a message that was decoded; m stays the caller's. */
void client_decoded(struct client *c, peer_t from, const struct wire *w, const struct msg *m);
/* on_peer_gone of the worker's core. */
void client_peer_gone(struct client *c, peer_t peer);

void client_start(struct client *c, struct request *r); /* sends it; r must not be in flight */
void client_again(struct client *c, struct request *r); /* sends it again at once; r is in flight */
/* no reply will be called; allowed when r is not in flight */
void client_cancel(struct client *c, struct request *r);
static inline bool request_active(const struct request *r)
{
    return r->id != 0;
}
/* Fills the head of the message that `build` makes with r's type and id; other fields are 0. */
void client_head(const struct request *r, struct wire *w);
/* True when a status means "later, unchanged": BUSY, AGAIN, NO_SPACE, TIMEOUT, UNAVAILABLE,
 * NO_TABLE (the shard does not have the table yet), IO, NOMEM, STOPPED. */
bool client_passing(int status);

/* Pings each shard of the map. A shard answers at once even while it holds pulls back, so the
 * answer tells an unreachable shard from one at which a pull waits for other lanes. */
void client_ping(struct client *c);
struct client_reach {
    uint32_t late_shard; /* the shard that has owed an answer for the longest time */
    uint64_t late_ns;    /* that time; 0: none owes one */
    bool unnamed;        /* the name in its endpoint has no address here */
    /* The shard with the slowest answers, their time, and that of the next slower shard, in
     * microseconds; 0: unknown. */
    uint32_t slow_shard, slow_us, usual_us;
};
void client_reach(const struct client *c, struct client_reach *out);
/* The way to one shard: for how long it has owed an answer, 0: it owes none; and how long its
 * answers take, 0: unknown. False: the map has no shard of this number. */
bool client_way(const struct client *c, uint32_t shard, uint64_t *late_ns, uint64_t *round_ns);

/* Requests the map, unless a request is in flight. */
void client_map_refresh(struct client *c);
/* The newest complete map; NULL: there is none yet. */
const struct map *client_map(const struct client *c);
/* Muted, it sends no request marked `write`; unmuting sends all of them. */
void client_mute(struct client *c, bool muted);
uint64_t client_now_ns(const struct client *c);   /* the clock of its env */
uint64_t client_heard_ns(const struct client *c); /* when the coordinator last answered; 0: never */
/* The longest time so far from a request that was lost, or refused with NOT_LEADER, to the next
 * answer of its shard. */
uint64_t client_absence_ns(const struct client *c);

#endif
