/* conn.h: the TCP connections of a ROUTER, and how much of an unfinished message lies in ZeroMQ for
 * each. An inside header.
 *
 * ZeroMQ hands out whole messages: frames of one whose end has not come are seen by nobody, and
 * counted by none of its bounds. But the kernel says how many bytes it has received on a descriptor
 * and how many of them still wait there, and each message says where it came from. What ZeroMQ has
 * taken and not handed out is of messages that wait, and of one that is unfinished; after every
 * message that waited has been handed out, it is unfinished.
 *
 * A connection is named by its descriptor, which ZeroMQ closes when it likes: so news of those that
 * came and went are to be told before what they sent is counted (conns_delivered), before
 * conns_look and again before conns_cut.
 *
 * Thread: the net's. */
#ifndef PROTO_NET_CONN_H
#define PROTO_NET_CONN_H

#include <stdbool.h>
#include <stdint.h>

struct conn_bounds {           /* bytes of unfinished messages */
    uint64_t one;              /* of any connection */
    uint64_t strangers, known; /* of all of that kind together */
};

struct conns;

/* NULL: out of memory, or of descriptors. */
struct conns *conns_new(const struct conn_bounds *bounds);
void conns_free(struct conns *cs); /* NULL is fine */

void conns_opened(struct conns *cs, int fd);
void conns_closed(struct conns *cs, int fd);
uint32_t conns_count(const struct conns *cs);
/* Where it comes from: "10.0.0.7"; empty: not known. */
const char *conns_address(const struct conns *cs, int fd);
bool conns_has(const struct conns *cs, int fd);

/* A whole message came from fd; bytes: as they were on the line, what ZeroMQ adds counted. */
void conns_delivered(struct conns *cs, int fd, uint64_t bytes);
/* Who is at fd speaks our language. */
void conns_known(struct conns *cs, int fd);
/* No message waits at the moment. */
void conns_drained(struct conns *cs);

/* Becomes readable when bytes have come (or gone) on any connection since the last look. */
int conns_descriptor(const struct conns *cs);
/* True: something is unfinished, look again soon. *over: so many are to be cut now. */
bool conns_look(struct conns *cs, uint64_t now_ns, uint32_t *over);
/* Shuts down those that the last look found. ZeroMQ then closes them. */
void conns_cut(struct conns *cs);

#endif
