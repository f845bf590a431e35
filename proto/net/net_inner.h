/* net_inner.h: the struct behind a net, and what its files ask of each other:
 *
 *   net.c         the loop: one turn, its life and its end
 *   net_line.c    the sockets on the loop, and the peers that leave
 *   net_env.c     the calls of a core: time, connections, messages (env.h)
 *   net_listen.c  the ROUTER: which peers may connect, and the bounds of each connection */
#ifndef PROTO_NET_NET_INNER_H
#define PROTO_NET_NET_INNER_H

#include "proto/base/rng.h"
#include "proto/net/later.h"
#include "proto/net/net.h"
#include "proto/net/peer.h"
#include "proto/net/probe.h"
#include "proto/net/recent.h"
#include "proto/net/sock.h"
#include "proto/net/zap.h"

#include <uv.h>

struct line { /* a socket on the loop */
    uv_poll_t poll;
    uv_poll_t watch;  /* a DEALER's: its connection */
    uint32_t handles; /* number of the polls above that are open in the loop */
    struct net *net;
    struct sock *sock; /* owned; NULL once closed */
    struct peer *peer; /* a DEALER's; NULL on the ROUTER */
    bool touched;
    struct line *next_touched;
    char *endpoint; /* owned; the coordinator's, where handshakes are watched; else NULL */
    uint32_t pin;   /* index of the coordinator's key that is expected now */
    bool pinned_now;
    struct line *next, *prev; /* list of all open lines */
};

struct net {
    struct env env;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_async_t interrupt;
    uv_timer_t retry, shake;
    struct recent shakes;     /* failed handshakes that were logged */
    char wrong[ERR_TEXT_MAX]; /* net_wrong */
    uv_signal_t terminated, interrupted, hung_up;
    struct later later;
    struct probes probes;
    struct net_options options;
    struct rng rng;

    const struct env_handler *handler; /* borrowed */
    void *core;                        /* borrowed */
    void (*on_signal)(void *context, int signo);
    void *signal_context;

    struct peers *peers;       /* owned */
    struct line *lines;        /* owned: the open ones */
    struct line *router;       /* one of them, or NULL */
    struct zap_domain *domain; /* owned; the router's, where it asks for keys; else NULL */
    bool plain;                /* it listens on tcp without keys */
    struct {                   /* the router's connections */
        uv_poll_t connections, unfinished;
        uv_timer_t look;
        struct env_work trim; /* trims the heap after a cut */
        bool on, cut, trimming;
        uint64_t cut_ns;
    } watch;
    struct line *touched, **touched_end; /* a queue */
    peer_t *gone;                        /* owned: to be told to the core; 0: no more */
    uint32_t gone_count, gone_capacity;
    bool stopping, sending; /* env_stop was called; env_send is being called */
    uint64_t stop_by_ns;
};

/* net_line.c */
/* The line may have input although its descriptor says nothing: net.c, 1. */
void net_touch(struct line *l);
/* Removes the line at *link from the queue of touched ones. */
void net_untouch(struct net *n, struct line **link);
/* A socket on the loop, touched; NULL: the error is told. */
struct line *net_line_open(struct net *n, bool router, struct err *e);
/* Forgets its peer, too. The struct is freed at the end of this turn of the loop. */
void net_line_close(struct line *l);
/* The check step tells the core that this peer is gone; 0: no peer. */
void net_gone(struct net *n, peer_t name);
/* peers_flush's callback: an incoming peer is forgotten, and told. context: the net */
void net_peer_left(void *context, struct peer *p);
/* Forgets the peers whose connections the ROUTER's monitors have seen closing. */
void net_left_take(struct net *n);

/* net_env.c */
extern const struct env_ops net_ops;

#endif
