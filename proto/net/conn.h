/* conn.h: the TCP connections of a ROUTER, and how many bytes of an unfinished message ZeroMQ holds
 * for each. An internal header.
 *
 * ZeroMQ delivers whole messages: the frames of an incomplete message are not visible from outside,
 * and none of ZeroMQ's bounds counts them. But the kernel reports how many bytes it has received on
 * a descriptor and how many of them still wait there, and each message says which connection it
 * came from. The bytes that ZeroMQ has taken and not delivered belong to messages that wait, and to
 * one that is unfinished. Once every waiting message has been delivered, they belong to the
 * unfinished one.
 *
 * A connection is named by its descriptor, which ZeroMQ may close at any time. So the caller
 * reports connections that came and went before it reports their messages (conns_delivered), before
 * conns_look, and again before conns_cut.
 *
 * Thread: the net's. */
#ifndef PROTO_NET_CONN_H
#define PROTO_NET_CONN_H

#include "proto/base/env.h"

#include <stdbool.h>
#include <stdint.h>

struct conn_bounds {           /* bounds on bytes of unfinished messages */
    uint64_t one;              /* one connection */
    uint64_t strangers, known; /* all connections of that kind together */
};

struct conns;

/* NULL: out of memory or descriptors. */
struct conns *conns_new(const struct conn_bounds *bounds);
void conns_free(struct conns *cs); /* NULL is fine */

void conns_opened(struct conns *cs, int fd);
void conns_closed(struct conns *cs, int fd);
uint32_t conns_count(const struct conns *cs);
/* The peer's address: "10.0.0.7"; empty: not known. */
const char *conns_address(const struct conns *cs, int fd);
bool conns_has(const struct conns *cs, int fd);
/* Names the peer that sends on the connection at fd. */
void conns_name(struct conns *cs, int fd, peer_t name);
/* The next peer whose connection has closed; 0: none. Each is returned once. */
peer_t conns_left(struct conns *cs);

/* Reports a whole message from fd. bytes: its size on the line, with ZeroMQ's framing. */
void conns_delivered(struct conns *cs, int fd, uint64_t bytes);
/* Marks the connection at fd: its peer has sent a valid message. */
void conns_known(struct conns *cs, int fd);
/* Reports that no message waits at the moment. */
void conns_drained(struct conns *cs);

/* Becomes readable when bytes have come (or were sent) on any connection since the last look. */
int conns_descriptor(const struct conns *cs);
/* True: a message is unfinished, look again soon. *over: the number of connections to cut now. */
bool conns_look(struct conns *cs, uint64_t now_ns, uint32_t *over);
/* Shuts down the connections that the last look found. ZeroMQ then closes them. */
void conns_cut(struct conns *cs);

#endif
