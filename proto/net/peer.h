/* peer.h: the peers of a net, and the messages that wait to be sent to them. An internal header.
 *
 * A peer is a connection out (one DEALER) or a program that wrote to our ROUTER (a routing id). Its
 * name (peer_t) is never used again. There are at most LIMIT_PEERS incoming peers: a new one
 * replaces the stranger that has been silent longest, or, where there is no stranger, the known
 * peer that has. Messages that a peer's pipe does not take wait in its queue: at most
 * LIMIT_PEER_QUEUE messages, and a bound in bytes (one message at least). After PEER_STALL_NS
 * without progress the queue is dropped.
 *
 * Thread: the net's. Nothing is allocated until there are more peers than ever before. */
#ifndef PROTO_NET_PEER_H
#define PROTO_NET_PEER_H

#include "proto/base/env.h"
#include "proto/net/sock.h"

#include <stdbool.h>
#include <stdint.h>

#define PEER_STALL_NS UINT64_C(30000000000)
#define PEERS_WAITING_BYTES ((uint64_t)LIMIT_PEER_BYTES * 4) /* in all queues of a net together */

struct peers;

struct peer {
    peer_t name;
    bool incoming;
    bool known;         /* it has sent a valid message */
    struct sock_id id;  /* an incoming peer's */
    int watched;        /* the connection whose end is reported; -1: none */
    struct env_who who; /* an incoming peer's, by the list of who_version (zap.h) */
    uint64_t who_version;
    struct sock *sock; /* borrowed */
    void *owner;       /* the caller's; borrowed */

    struct msg *head, *tail; /* owned: waiting, oldest first */
    uint32_t waiting;
    uint64_t waiting_bytes;
    uint64_t moved_ns;          /* when the queue began or last moved */
    struct peer *next_waiting;  /* list of peers with a queue */
    struct peer *newer, *older; /* incoming peers of its kind, by time of their last message */
    struct peer *next;          /* next in the hash bucket, or in the free list */
};

/* waiting_bytes: bound of all queues together; a peer gets a quarter of it, LIMIT_PEER_BYTES at
 * most; 0: PEERS_WAITING_BYTES. NULL: out of memory. */
struct peers *peers_new(uint64_t seed, uint64_t waiting_bytes);
void peers_free(struct peers *ps); /* drops waiting messages */

struct peer *peers_find(const struct peers *ps, peer_t name); /* NULL: no such peer */
/* Finds or makes the peer of a routing id, and marks it as heard last. A used routing id with
 * another key, or over ipc with another user, is a new peer. *evicted: the name of the peer that
 * was replaced, or that had the id before; or 0. NULL: out of memory. */
struct peer *peers_heard(struct peers *ps, struct sock *router, const struct sock_id *id,
                         peer_t *evicted);
/* Marks an incoming peer that has sent a valid message. */
void peers_known(struct peers *ps, struct peer *p);
/* Adds a connection out; at most LIMIT_PEERS besides the incoming ones. NULL: too many, or out of
 * memory. */
struct peer *peers_add(struct peers *ps, struct sock *dealer);
void peers_remove(struct peers *ps, struct peer *p);

/* Takes m in any case. 0, BUSY, or UNAVAILABLE when the peer has left: the caller removes it. */
int peers_send(struct peers *ps, struct peer *p, struct msg *m, uint64_t now_ns);
/* Sends waiting messages as far as the pipes take them; calls left(context, p) for each peer that
 * has left or stalled. The callback may remove that peer, and no other. */
void peers_flush(struct peers *ps, uint64_t now_ns, void (*left)(void *context, struct peer *p),
                 void *context);
/* the list of peers with a queue, by next_waiting; or NULL */
struct peer *peers_waiting(const struct peers *ps);

#endif
