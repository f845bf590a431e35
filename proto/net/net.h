/* net.h: the real implementation of env.h: one libuv loop, one ZeroMQ ROUTER to listen, one DEALER
 * for each connection out. Only proto/net includes zmq.h and uv.h.
 *
 * ZMQ_FD is edge-triggered: the prepare step reads ZMQ_EVENTS and starts an idle handle if there is
 * input; the check step drains up to a budget. Every peer has a bounded queue (LIMIT_PEER_QUEUE
 * messages, LIMIT_PEER_BYTES), because a ROUTER with ZMQ_ROUTER_MANDATORY returns EAGAIN when a
 * pipe is full, on the identity frame only. MAXMSGSIZE is LIMIT_FRAME_BYTES and RCVHWM is 16. A
 * message of more than LIMIT_FRAMES frames is read and dropped.
 *
 * A ROUTER peer is identified by its routing id. There are at most LIMIT_PEERS of them. A new one
 * replaces the one that has been silent longest, a stranger before a known peer (env_known).
 * on_peer_gone is called, for an incoming peer, when its connection has closed (where connections
 * are watched: connections_max) or a send finds that it has left, when it was replaced, or when its
 * queue did not move for 30 s; for a connection out, when it has closed or a try to connect has
 * failed (every 0.1 to 1 s).
 *
 * A net belongs to one thread at a time. All nets of a process share its ZeroMQ context. */
#ifndef PROTO_NET_NET_H
#define PROTO_NET_NET_H

#include "proto/base/env.h"
#include "proto/base/err.h"
#include "proto/net/keyfile.h"
#include "proto/net/keylist.h"

#include <stdbool.h>
#include <stdint.h>

struct net;

struct net_options {
    /* I/O threads of ZeroMQ; 0: 1. Shared by all nets of the process: the first net decides */
    uint32_t io_threads;
    uint32_t drain_budget; /* messages between two on_drained; 0: 64 */
    uint64_t queue_bytes;  /* bytes of messages that wait for all peers together; 0: 256 MiB */
    /* share of messages to incoming peers (replies) that is dropped on purpose, for tests; 0:
     * none */
    double drop_sends;
    /* Over tcp this side shows this key, and a peer that connects must show a listed one
     * (net_allow). Borrowed; NULL: none. Over ipc there are no keys: a process that may enter the
     * folder may connect. */
    const struct keyfile *keys;
    bool insecure_plaintext; /* listen on tcp without keys */
    /* most connections at a time: one more is cut, and so is one that leaves too much of a message
     * unfinished. 0: any number, unwatched */
    uint32_t connections_max;
};

int net_new(const struct net_options *options, struct net **out, struct err *e);
/* Not while net_run runs. Waits for env_work that has begun, cancels the rest and calls no `done`:
 * free the core afterwards, not before. Messages already sent still go out, for 1 s at most. */
void net_free(struct net *n);
struct env *net_env(struct net *n);
/* Why the last env_connect that failed did, which is also logged; "": none has. */
const char *net_wrong(const struct net *n);
/* endpoint: "tcp://127.0.0.1:7070" (port 0 or *: any) or "ipc://..."; the endpoint really bound
 * goes to bound (256). UNAVAILABLE with a sentence when the port is in use; CONFIG for tcp with
 * neither keys nor insecure_plaintext. With keys no peer is admitted before net_allow. */
int net_listen(struct net *n, const char *endpoint, char bound[256], struct err *e);
/* CONFIG, with what to do, when net_listen would refuse the address. */
int net_listen_check(const char *endpoint, bool keys, bool insecure_plaintext, struct err *e);
/* False: no process listens at this ipc path, so no request would be answered. */
bool net_listened(const char *endpoint);
/* Replaces the allow-list, which the net then owns. It applies at once, to open connections too. */
void net_allow(struct net *n, struct keylist *list);
/* Keys that were refused in the last NET_REFUSED_NS and are not in the list now, at most
 * NET_REFUSED_MOST; returns how many. A new one replaces the one that has been silent longest. */
#define NET_REFUSED_MOST 16u
#define NET_REFUSED_NS UINT64_C(15000000000)
struct net_refused {
    char key[KEYFILE_KEY], address[64];
    uint64_t first_ns, last_ns, count; /* monotonic */
};
uint32_t net_refused(const struct net *n, struct net_refused out[NET_REFUSED_MOST]);
void net_set_handler(struct net *n, const struct env_handler *handler, void *core);
/* Runs the loop until env_stop (from a callback, or before) or net_interrupt (any thread,
 * signal-safe). After a stop no message is delivered; while queues are being sent, timers and work
 * may still call back. net_run may be called again: connections, timers and handler stay. */
void net_run(struct net *n);
void net_interrupt(struct net *n);
/* Calls on_signal(context, signo) on the loop for SIGTERM, SIGINT and SIGHUP. */
int net_signals(struct net *n, void (*on_signal)(void *context, int signo), void *context);

/* "libzmq 4.3.4, libuv 1.44.2" */
const char *net_libraries(void);

#endif
