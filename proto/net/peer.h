/* peer.h: the peers of a net: who they are and what waits to be sent to them. An inside header.
 *
 * A peer is a connection out (one DEALER) or somebody who wrote to our ROUTER (a routing id). Its
 * name (peer_t) is used once and never again. There are at most LIMIT_PEERS of the second kind: the
 * longest silent stranger makes room, and only where all are known the longest silent of those.
 * What a peer's pipe does not take waits in its queue: at most LIMIT_PEER_QUEUE messages and so
 * many bytes (one message at least), for PEER_STALL_NS without any progress; then it is dropped.
 *
 * Thread: the net's. Nothing is allocated once as many peers are known as ever were. */
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
    bool known;         /* it has sent a lawful message */
    struct sock_id id;  /* of an incoming one */
    struct env_who who; /* likewise: by the list of that version (zap.h) */
    uint64_t who_version;
    struct sock *sock; /* borrowed */
    void *owner;       /* of the caller; borrowed */

    struct msg *head, *tail; /* owned: waiting, oldest first */
    uint32_t waiting;
    uint64_t waiting_bytes;
    uint64_t moved_ns;          /* when the queue began or last moved */
    struct peer *next_waiting;  /* list of peers with a queue */
    struct peer *newer, *older; /* incoming, of its kind: by time of their last message */
    struct peer *next;          /* of the hash bucket, or of the free list */
};

/* waiting_bytes: in all queues together, of which a peer gets a quarter (LIMIT_PEER_BYTES at most);
 * 0: PEERS_WAITING_BYTES. NULL: out of memory. */
struct peers *peers_new(uint64_t seed, uint64_t waiting_bytes);
void peers_free(struct peers *ps); /* drops what waits */

struct peer *peers_find(const struct peers *ps, peer_t name); /* NULL: no such peer */
/* The peer of a routing id, made if new, and now the one heard last. Another key, or over ipc
 * another user, under a routing id that was in use is another peer. *evicted: the name of the one
 * that made room, or whose id it was, or 0. NULL: out of memory. */
struct peer *peers_heard(struct peers *ps, struct sock *router, const struct sock_id *id,
                         peer_t *evicted);
/* An incoming one has sent a lawful message. */
void peers_known(struct peers *ps, struct peer *p);
/* A connection out; at most as many as LIMIT_PEERS besides the incoming ones. NULL: too many, or
 * out of memory. */
struct peer *peers_add(struct peers *ps, struct sock *dealer);
void peers_remove(struct peers *ps, struct peer *p);

/* Takes m in any case. 0, BUSY, or UNAVAILABLE when the peer has left: the caller removes it. */
int peers_send(struct peers *ps, struct peer *p, struct msg *m, uint64_t now_ns);
/* Sends what waits as far as it goes; calls left(context, p) for each peer that has left or
 * stalled: it may remove it, and no other. */
void peers_flush(struct peers *ps, uint64_t now_ns, void (*left)(void *context, struct peer *p),
                 void *context);
/* the list of those with a queue, by next_waiting; or NULL */
struct peer *peers_waiting(const struct peers *ps);

#endif
