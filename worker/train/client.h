/* client.h: the worker's connections: one to the coordinator, one to each shard of the map; and the
 * table of requests that are under way.
 *
 * A request is a struct of its owner's (found again with container_of), known here by its id from
 * client_start until its `reply` answers REQUEST_DONE or client_cancel. Until then it is sent
 * again, with the same id and newly built bytes, whenever no reply came in time (resend_ms,
 * doubling after the third time) or the answer was "later" (BUSY and the like: 50 ms, doubling to 1
 * s). All requests of this system may be sent twice. Ids grow, so that whoever answers can tell a
 * late copy of an old request from a new one.
 *
 * The map is fetched by client_map_refresh and kept here: shards are connected as their endpoints
 * become known or change. A shard that stays silent makes the client look at the map again by
 * itself: its server may have come back elsewhere.
 *
 * Nothing is allocated for a request; messages come from the pool. Thread: the worker's loop. */
#ifndef WORKER_TRAIN_CLIENT_H
#define WORKER_TRAIN_CLIENT_H

#include "proto/base/env.h"
#include "proto/wire/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CLIENT_COORDINATOR UINT32_MAX /* a request's target that is no shard */
#define MAP_ENDPOINT_BYTES 256u
#define MAP_KEY_BYTES 48u

/* Which shard leads each tablet, as the worker knows it, and where the shards listen: a plain
 * value, taken from a MAP_GET reply. */
struct map {
    uint64_t epoch;
    uint32_t tablet_count; /* over all tables; 0: no map yet */
    uint32_t shard_count;
    uint16_t *shard;                      /* owned (tablet_count): shard of each global tablet */
    char (*endpoint)[MAP_ENDPOINT_BYTES]; /* owned (shard_count); "" while unknown */
    char (*key)[MAP_KEY_BYTES];           /* likewise: that each has to show; "": none */
};

void client_map_init(struct map *m);
void client_map_close(struct map *m);
/* Takes the content of a reply. MALFORMED (counts and bytes disagree, a shard number beyond the
 * count, a line too long) or NOMEM leave *m as it was. */
int client_map_take(struct map *m, const struct wire_MAP_GET_reply *reply,
                    const struct frame *shards, const struct frame *endpoints, struct err *e);
/* Every tablet has a shard whose endpoint is known. */
bool client_map_complete(const struct map *m);
/* Whether both give every tablet to the same shard. */
bool client_map_same(const struct map *a, const struct map *b);
/* How many tablets from global tablet `first` on, below `end`, are led by first's shard. */
uint32_t client_map_stretch(const struct map *m, uint32_t first, uint32_t end);

enum request_verdict {
    /* it is over: the owner may start, change or free it, and may have done so already */
    REQUEST_DONE,
    REQUEST_LATER, /* send it again after a pause */
    REQUEST_NOW,   /* send it again at once */
};

struct request {
    /* Set by the owner before client_start. */
    enum wire_type type;
    uint32_t target;   /* shard number, or CLIENT_COORDINATOR */
    bool write;        /* not sent while the client is muted */
    uint32_t pause_ms; /* of REQUEST_LATER; 0: 50 ms, doubling to 1 s */
    struct msg *(*build)(
        /* the message to send, r->id in its header; NULL: out of memory, tried again later */
        struct request *r);
    /* Called with each reply, whatever its status; w and m are borrowed for the call. */
    enum request_verdict (*reply)(struct request *r, const struct wire *w, const struct msg *m);
    /* Of the client. */
    uint64_t id;     /* 0: not under way */
    uint64_t order;  /* rank of its last sending among all sendings; 0: not sent yet */
    uint64_t due_ns; /* when it will be sent (again) */
    uint32_t tries;  /* sendings since client_start */
    uint32_t pauses; /* answers "later" in a row */
    struct request *next, **back;
};

struct client_options {
    const char *coordinator; /* endpoint; copied */
    bool reads;              /* tables that are there, as MAP_GET says; else it works on a job's */
    /* whether the name in an endpoint has an address: may take seconds, on a thread; NULL: names
     * are not looked up */
    int (*resolve)(const char *endpoint, char numeric[256], struct err *e);
    /* a complete map came that differs from the last complete one; may be NULL */
    void (*on_map)(void *context);
    void *context;
};

struct client;

int client_new(struct env *env, const struct client_options *options, struct client **out,
               struct err *e);
void client_free(struct client *c); /* requests under way are forgotten without a call */
const char *client_coordinator(const struct client *c);
void client_set_resend(struct client *c, uint32_t resend_ms);

/* on_message of the worker's core: takes m, finds its request. What belongs to none (late copies,
 * strangers) is dropped. */
void client_message(struct client *c, peer_t from, struct msg *m);

void client_start(struct client *c, struct request *r); /* sends it; r must not be under way */
void client_again(struct client *c, struct request *r); /* sends it again at once; r is under way */
/* no reply will be called; fine when not under way */
void client_cancel(struct client *c, struct request *r);
static inline bool request_active(const struct request *r)
{
    return r->id != 0;
}
/* The head of what `build` makes: of r's type and id, without a field. */
void client_head(const struct request *r, struct wire *w);
/* Whether a status means "later, as it is": BUSY, AGAIN, NO_SPACE, TIMEOUT, UNAVAILABLE, NO_TABLE
 * (a shard that was not told yet), IO, NOMEM, STOPPED. */
bool client_passing(int status);

/* Each shard of the map is asked for a sign of life, which it gives at once whatever it holds back:
 * so a shard that cannot be reached is told from one that lets a pull wait for other lanes. */
void client_ping(struct client *c);
struct client_reach {
    uint32_t late_shard; /* the one that has owed its sign of life for longest, */
    uint64_t late_ns;    /* so long; 0: none owes one */
    bool unnamed;        /* ... and the name in its endpoint has no address here */
    /* the one whose signs of life take longest, how long, and how long the next slower one takes;
     * in microseconds, 0: not known */
    uint32_t slow_shard, slow_us, usual_us;
};
void client_reach(const struct client *c, struct client_reach *out);

/* Asks the coordinator for the map, unless that is being done. */
void client_map_refresh(struct client *c);
/* The newest map that was complete; NULL while there was none. */
const struct map *client_map(const struct client *c);
/* Muted, nothing marked `write` is sent; unmuted, all of it is. */
void client_mute(struct client *c, bool muted);
uint64_t client_heard_ns(const struct client *c); /* when the coordinator answered last; 0: never */

#endif
