/* client_inner.h: the struct behind a client, for client.c (its life, messages in),
 * client_requests.c (the table of requests in flight), client_shards.c (the map, connections),
 * client_ping.c (which shard owes an answer), client_seek.c (the search for a shard). */
#ifndef WORKER_TRAIN_CLIENT_INNER_H
#define WORKER_TRAIN_CLIENT_INNER_H

#include "proto/base/env.h"
#include "proto/wire/coordinators.h"
#include "proto/wire/wire.h"
#include "worker/train/client.h"
#include "worker/train/map.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    CLIENT_CHAINS = 1024,
    CLIENT_ROUNDS = 3,         /* answers to pings whose times are kept */
    CLIENT_MAP_PAUSE_MS = 200, /* between two questions for the map, unless a shard is sought */
    CLIENT_SILENT_MS = 1000    /* a shard that has not answered a ping for so long is sought */
};
#define MS UINT64_C(1000000)

/* The connection to a shard. */
struct connection {
    peer_t peer; /* 0: none yet */
    char endpoint[MAP_ENDPOINT_BYTES];
    char key[MAP_KEY_BYTES];              /* key that the peer must show */
    struct ping {                         /* a shard's ping */
        uint64_t id;                      /* id of the ping in flight; 0: it is answered */
        uint64_t begun_ns, sent_ns;       /* first and last time that it was sent */
        uint64_t round_ns[CLIENT_ROUNDS]; /* times from sending to answer, the newest ones */
        uint32_t rounds;                  /* answers so far */
        bool unnamed;
    } ping;
    struct seek {          /* where the shard is looked for */
        bool closed;       /* until it answers a ping */
        bool refused;      /* NOT_LEADER, until it answers in another way */
        bool silent;       /* it owes a sign of life */
        uint64_t order;    /* requests sent up to here may be lost with the connection */
        uint64_t begun_ns; /* a request has waited for the shard since then; 0: none has */
    } seek;
};

struct client {
    struct env *env;               /* borrowed */
    struct client_options options; /* without the coordinator */
    struct coordinators coordinators;
    struct connection *shard; /* owned (shard_count) */
    uint32_t shard_count;
    struct map map; /* the newest complete map */
    struct request *chain[CLIENT_CHAINS];
    uint64_t last_id, last_order;
    struct env_timer timer, seek_timer;
    uint32_t seek_tries; /* questions of this search */
    uint64_t absence_ns; /* longest time of a request without a shard that was sought */
    struct request map_get;
    uint64_t heard_ns;
    uint32_t resend_ms;
    bool muted;
    struct { /* checks the address of a silent shard */
        struct env_work work;
        bool busy;
        uint32_t shard;
        char endpoint[MAP_ENDPOINT_BYTES], numeric[256];
        int status;
        struct err error;
    } look;
};

/* client_requests.c */
void client_requests_init(struct client *c);
/* The request that w answers, which came from `from`; NULL: none. */
struct request *client_find(struct client *c, peer_t from, const struct wire *w);
/* Gives r its answer and does what its verdict says. */
void client_answer(struct client *c, struct request *r, const struct wire *w, const struct msg *m);
/* Sends the requests to a target, those last sent up to `order`, at the next turn of the loop. */
void client_hasten(struct client *c, uint32_t target, uint64_t order);
/* True while a request to the target is in flight. */
bool client_awaits(const struct client *c, uint32_t target);

/* client_shards.c */
void client_shards_init(struct client *c);
void client_shards_close(struct client *c);
/* Names this worker to a peer. The first message on a connection has id 0, and the reply to it is
 * ignored; later ones are pings. */
void client_hello(struct client *c, peer_t peer, uint64_t id);
/* The peer of a request's target; 0: it is not known. */
peer_t client_peer_of(const struct client *c, uint32_t target);

/* client_ping.c */
void client_ping_init(struct client *c);
/* Takes the answer to a ping; ids of other pings are ignored. */
void client_ping_answer(struct client *c, peer_t from, uint64_t id);

/* client_seek.c */
void client_seek_init(struct client *c);
/* A request was sent to the shard: it waits while the shard is sought. */
void client_seek_sent(struct client *c, uint32_t shard);
/* Begins a search if the shard owes the answer to a ping. A shard whose machine stands still, or is
 * cut off, closes no connection: another copy may lead by now. A shard that answers pings only lets
 * a request wait. */
void client_seek_silent(struct client *c, uint32_t shard);
/* The shard has answered a request with this status. */
void client_seek_heard(struct client *c, uint32_t shard, int status);

#endif
