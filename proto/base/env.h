/* env.h: the only interface between a core (shard, coordinator, worker) and the world: time,
 * timers, messages, random numbers and work on other threads. It has two implementations: net.h
 * (proto/net) with libuv and ZeroMQ, and sim.h (tests/sim) with a virtual clock and an in-memory
 * network. A core never reads a clock, opens a socket or starts a thread by itself.
 *
 * Thread: a core runs on one thread, its loop. The core calls every function here on that thread,
 * and every callback arrives on it. Only env_work.run runs elsewhere (in the simulator: inline,
 * later in virtual time). */
#ifndef PROTO_BASE_ENV_H
#define PROTO_BASE_ENV_H

#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/base/role.h"

#include <stdbool.h>
#include <stdint.h>

typedef uint64_t peer_t; /* names a connection, in or out, for its life; 0: none */

struct env;

struct env_timer {
    void (*fire)(struct env_timer *t); /* set by the owner before env_timer_start; one shot */
    uint64_t due_ns;                   /* set by env; 0 when not running */
    void *impl;                        /* owned by the env */
};

struct env_work {
    void (*run)(struct env_work *w); /* on another thread: touches only what the owner left to it */
    void (*done)(struct env_work *w); /* on the loop, once, after run */
    /* set by env before done: how long run took, waiting for a thread not counted */
    uint64_t ran_ns;
    void *impl; /* owned by the env */
};

enum env_probe_answer {
    ENV_PROBE_UNKNOWN, /* no answer within a second, no route, a name without an address */
    ENV_PROBE_REFUSED, /* no process listens there: its machine says so */
    ENV_PROBE_ANSWERS, /* a process listens there; it may be paused or hang */
};

struct env_probe {
    void (*done)(struct env_probe *p); /* set by the owner before env_probe_start; called once */
    enum env_probe_answer answer;      /* set by env before done */
    void *impl;                        /* owned by the env; NULL when not running */
};

/* The identity of a peer, as proved by its key and not by what it claims; or of one that may come
 * (env_admit). */
struct env_who {
    enum role role;
    char name[LIMIT_NAME]; /* the name of its key; empty: it has no key */
    char key[48];          /* its public key, Z85; empty: it has none */
    char address[48];      /* its origin: an IP address, or "uid:1000"; empty: not known */
};

/* The callbacks of a core; each gets the pointer that the env was given as `core`. on_message owns
 * m. on_drained follows a batch of on_message calls (at least one, at most a budget): a shard
 * commits its journal there, once, and then replies. A peer_t is never used again.
 *
 * on_peer_gone: the connection has closed. It is only a hint: a peer whose machine or cable fails
 * stays silent. After it a connection in is no more, and the same program is a new peer when it
 * connects again. A connection out stays: it reconnects by itself, its peer_t is the same, and the
 * hint may come again, with each try to connect that fails. */
struct env_handler {
    void (*on_message)(void *core, peer_t from, struct msg *m);
    void (*on_drained)(void *core);
    void (*on_peer_gone)(void *core, peer_t peer); /* may be NULL */
};

struct env_ops {
    uint64_t (*now_ns)(struct env *env);
    uint64_t (*random)(struct env *env);
    uint64_t (*wall_s)(struct env *env); /* NULL: the env knows no calendar */
    /* starts a timer, or restarts one that runs */
    void (*timer_start)(struct env *env, struct env_timer *t, uint64_t delay_ns);
    void (*timer_stop)(struct env *env, struct env_timer *t);
    /* the connection reconnects by itself */
    int (*connect)(struct env *env, const char *endpoint, const char *key, peer_t *out);
    void (*disconnect)(struct env *env, peer_t peer);
    int (*send)(struct env *env, peer_t to, struct msg *m);
    void (*known)(struct env *env, peer_t peer);                /* NULL: all peers are equal */
    const struct env_who *(*who)(struct env *env, peer_t peer); /* NULL: the env has no keys */
    int (*listen)(struct env *env, const char *endpoint, const char *host, char told[256],
                  struct err *e);
    int (*admit)(struct env *env, const struct env_who *list, uint32_t count);
    void (*work)(struct env *env, struct env_work *w);
    void (*probe_start)(struct env *env, struct env_probe *p, const char *endpoint);
    void (*probe_stop)(struct env *env, struct env_probe *p);
    /* the loop returns after the current callbacks; it first sends queued messages, for 1 s at
     * most */
    void (*stop)(struct env *env);
};

struct env {
    const struct env_ops *ops; /* borrowed */
};

static inline uint64_t env_now_ns(struct env *e)
{
    return e->ops->now_ns(e);
}
/* Seconds since 1970 by the machine's calendar; 0: not known. The calendar may be set forward or
 * back, so the value serves to compare with times from logs, never to measure. */
static inline uint64_t env_wall_s(struct env *e)
{
    if (e->ops->wall_s == NULL)
        return 0;
    return e->ops->wall_s(e);
}
static inline uint64_t env_random(struct env *e)
{
    return e->ops->random(e);
}
static inline void env_timer_start(struct env *e, struct env_timer *t, uint64_t delay_ns)
{
    e->ops->timer_start(e, t, delay_ns);
}
static inline void env_timer_stop(struct env *e, struct env_timer *t)
{
    e->ops->timer_stop(e, t);
}
#define ENV_COORDINATOR NULL
/* key: the public key (Z85) that the other side has to prove. ENV_COORDINATOR: the coordinator's
 * key, which this process's own key file pins. "": the other side has no key, so that a process
 * with keys cannot connect to it over tcp (DENIED). A process without keys ignores it. */
static inline int env_connect(struct env *e, const char *endpoint, const char *key, peer_t *out)
{
    return e->ops->connect(e, endpoint, key, out);
}
static inline void env_disconnect(struct env *e, peer_t peer)
{
    e->ops->disconnect(e, peer);
}
/* Takes m in any case. Returns 0, SHOAL_E_BUSY (the bounded queue of that peer is full) or
 * SHOAL_E_UNAVAILABLE (no such peer). An error drops m; a core that needs the answer sends again
 * when its timer fires. */
static inline int env_send(struct env *e, peer_t to, struct msg *m)
{
    return e->ops->send(e, to, m);
}
/* Marks a peer that has sent a valid message: when connections are cut for want of room, strangers
 * are cut before it. */
static inline void env_known(struct env *e, peer_t peer)
{
    if (e->ops->known != NULL)
        e->ops->known(e, peer);
}
/* The identity behind a peer_t, by the current allow-list; borrowed until the next call of the env.
 * A peer that has left is ROLE_NOBODY. */
static inline const struct env_who *env_who(struct env *e, peer_t peer)
{
    static const struct env_who local = {.role = ROLE_LOCAL};
    if (e->ops->who == NULL)
        return &local;
    return e->ops->who(e, peer);
}
/* Listens from now on, besides what the process was started with. endpoint: as in `listen` of a
 * daemon's file, with an address instead of a name (a resolver would stop the loop). told: where
 * other machines reach it: the endpoint that was bound, over tcp with `host` instead of its own
 * unless that is "". UNAVAILABLE: it is in use or no address of this machine; CONFIG: no endpoint,
 * or tcp without keys. After an error the core may try again. */
static inline int env_listen(struct env *env, const char *endpoint, const char *host,
                             char told[256], struct err *e)
{
    return env->ops->listen(env, endpoint, host, told, e);
}
/* Replaces the list of those that may connect over tcp, by role, name and key of each; those
 * without a key are left out, and of one key the first counts. It applies at once, to open
 * connections too. Before the first list no peer may connect with a key. Where no keys are shown
 * (ipc, insecure_plaintext) it changes nothing. NOMEM: the former list stays. */
static inline int env_admit(struct env *env, const struct env_who *list, uint32_t count)
{
    return env->ops->admit(env, list, count);
}
static inline void env_work_start(struct env *e, struct env_work *w)
{
    e->ops->work(e, w);
}
/* Asks whether a process listens at an endpoint, without keys and without a message to it. The
 * answer comes within a second, never from inside the call. p is not running. */
static inline void env_probe_start(struct env *e, struct env_probe *p, const char *endpoint)
{
    e->ops->probe_start(e, p, endpoint);
}
/* No `done` is called any more; allowed when p is not running. */
static inline void env_probe_stop(struct env *e, struct env_probe *p)
{
    e->ops->probe_stop(e, p);
}
static inline void env_stop(struct env *e)
{
    e->ops->stop(e);
}

#endif
