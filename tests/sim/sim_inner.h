/* sim_inner.h: the structs of the simulation, for sim.c and sim_net.c. */
#ifndef TESTS_SIM_SIM_INNER_H
#define TESTS_SIM_SIM_INNER_H

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/rng.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_heap.h"

#include <stdint.h>

#define ENDPOINT_BYTES 256

struct channel {      /* one direction of a connection */
    uint64_t last_ns; /* arrival of its latest message */
    uint32_t in_flight;
    uint64_t in_flight_bytes;
};

struct link { /* a connection: from a client to an address */
    struct sim_node *client;
    struct sim_node *server; /* the server that was reached last, or NULL */
    peer_t client_name;      /* the client's name for the link */
    peer_t server_name;      /* that server's name for it */
    bool closed;
    uint64_t number; /* for the watcher */
    struct channel up, down;
    char endpoint[ENDPOINT_BYTES];
};

struct end { /* one end's view of a link; a peer_t names it */
    struct link *link;
    struct sim_node *owner;
    bool up; /* the owner is the client, and sends upwards */
};

struct sim_node {
    struct env env;
    struct sim *sim;
    char name[LIMIT_NAME];
    uint64_t index;
    struct rng rng;
    const struct env_handler *handler;
    void *core;
    struct env_who who; /* the identity that it shows when it connects */
    bool door;          /* it listens by env_listen: peers with a key come if it admits them */
    struct env_who *admitted; /* owned (admitted_count) */
    uint32_t admitted_count;
    bool dead, stopped;
    uint64_t paused_until_ns, wedged_until_ns;
    uint32_t times; /* its work takes so many times as long; 0: as long */
    uint32_t works, works_most;
    struct sim_node *next;
};

struct address {
    char endpoint[ENDPOINT_BYTES];
    struct sim_node *node;
    struct address *next;
};

#define CUTS 16u
struct cut { /* a line that is cut, in one direction */
    const struct sim_node *from, *to;
    uint64_t until_ns;
};

struct sim {
    struct sim_options options;
    struct cut cut[CUTS];
    uint32_t cuts;        /* cuts made so far; a new one replaces the oldest */
    sim_watch_send watch; /* or NULL */
    void *watch_context;
    uint64_t now_ns, trace;
    struct rng rng;
    struct event_heap heap;
    struct end *ends; /* owned; a peer_t is an index + 1 */
    size_t end_count, end_capacity;
    struct link **links; /* owned */
    size_t link_count, link_capacity;
    struct sim_node *nodes; /* owned */
    uint64_t node_count;
    struct address *addresses; /* owned */
};

/* The simulator ends the process when memory is short. */
static inline void *sim_need(void *p)
{
    SHOAL_ASSERT(p != NULL);
    return p;
}

static inline struct sim_node *sim_node_of(struct env *env)
{
    return container_of(env, struct sim_node, env);
}

static inline bool sim_running(const struct sim_node *n)
{
    return n != NULL && !n->dead && !n->stopped;
}

/* Adds values to the run's trace. */
static inline void sim_trace_add(struct sim *s, uint64_t a, uint64_t b, uint64_t c)
{
    s->trace = rng_mix(s->trace ^ rng_mix(a ^ rng_mix(b ^ rng_mix(c))));
}

static inline uint64_t sim_draw(struct rng *r, uint64_t least, uint64_t most)
{
    return most > least ? least + rng_below(r, most - least + 1) : least;
}

/* sim_net.c: a node's network calls, as in struct env_ops. */
int sim_send(struct env *env, peer_t to, struct msg *m);
int sim_connect(struct env *env, const char *endpoint, const char *key, peer_t *out);
const struct env_who *sim_who(struct env *env, peer_t peer);
int sim_env_listen(struct env *env, const char *endpoint, const char *host, char told[256],
                   struct err *e);
int sim_admit(struct env *env, const struct env_who *list, uint32_t count);
void sim_disconnect(struct env *env, peer_t peer);
void sim_probe_start(struct env *env, struct env_probe *p, const char *endpoint);
void sim_probe_stop(struct env *env, struct env_probe *p);
/* Closes the connections of a node that ends now. */
void sim_hang_up(struct sim_node *n);
/* Delivers e's message and frees the event. Returns true if the core got the message. */
bool sim_deliver(struct sim *s, struct event *e);
/* Ends an event that will not run. */
void sim_event_drop(struct sim *s, struct event *e);

#endif
