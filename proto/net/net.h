/* net.h: the real filling of env.h: one libuv loop, one ZeroMQ ROUTER to listen, one DEALER for
 * each connection out. The one door to zmq.h and uv.h.
 *
 * ZMQ_FD is edge-triggered: the prepare step reads ZMQ_EVENTS and starts an idle handle if there is
 * input, the check step drains up to a budget. Every peer has a bounded queue (LIMIT_PEER_QUEUE
 * messages, LIMIT_PEER_BYTES) because a ROUTER with ZMQ_ROUTER_MANDATORY answers EAGAIN on a full
 * one, on the identity frame only. MAXMSGSIZE = LIMIT_FRAME_BYTES, RCVHWM 16, more than
 * LIMIT_FRAMES frames are read and dropped. A ROUTER peer is known by its routing id; at most
 * LIMIT_PEERS of them, the longest silent one makes room, a stranger (env_known) before one who is
 * known. on_peer_gone comes when a send finds out
 * that an incoming peer has left, when one made room, or when its queue did not move for 30 s:
 * never for a connection out. A net belongs to one thread at a time; several nets of a process
 * share its ZeroMQ context. */
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
    /* ZeroMQ; 0: 1. Shared by all nets of the process: the first net decides */
    uint32_t io_threads;
    uint32_t drain_budget; /* messages between two on_drained; 0: 64 */
    uint64_t queue_bytes;  /* messages that wait for their peers, all together; 0: 256 MiB */
    /* share of messages to incoming peers (replies) lost on purpose, for tests; 0 */
    double drop_sends;
    /* Over tcp we show this key, and whoever comes has to show one that is listed (net_allow).
     * Borrowed; NULL: none. Over ipc there are no keys: who may enter the folder may speak. */
    const struct keyfile *keys;
    bool insecure_plaintext; /* listen on tcp without keys */
    /* so many at once: one more is cut; and whoever leaves too much of a message unfinished. 0: any
     * number, unwatched */
    uint32_t connections_max;
};

int net_new(const struct net_options *options, struct net **out, struct err *e);
/* Not while net_run runs. Waits for env_work that has begun, cancels the rest and calls `done` of
 * none: free the core after it, not before. What was sent still goes out, 1 s at most. */
void net_free(struct net *n);
struct env *net_env(struct net *n);
/* "tcp://127.0.0.1:7070" (port 0 or *: any) or "ipc://..."; the endpoint really bound goes to bound
 * (256). UNAVAILABLE with a sentence when the port is in use; CONFIG for tcp with neither keys nor
 * insecure_plaintext. With keys nobody is let in before net_allow. */
int net_listen(struct net *n, const char *endpoint, char bound[256], struct err *e);
/* Whether that would be refused for what the address says: CONFIG, with what to do. */
int net_listen_check(const char *endpoint, bool keys, bool insecure_plaintext, struct err *e);
/* False: it is an ipc path at which nobody listens, so no question would be answered. */
bool net_listened(const char *endpoint);
/* From now on these may come, and be what the list says, open connections too; takes it over. */
void net_allow(struct net *n, struct keylist *list);
/* Keys that were shown in the last NET_REFUSED_NS and are not in the list, at most NET_REFUSED_MOST
 * of them; returns how many. The one longest silent makes room. */
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
 * may still call back. It may be run again. Connections, timers and handler stay. */
void net_run(struct net *n);
void net_interrupt(struct net *n);
/* Calls on_signal(context, signo) on the loop for SIGTERM, SIGINT and SIGHUP. */
int net_signals(struct net *n, void (*on_signal)(void *context, int signo), void *context);

/* "libzmq 4.3.4, libuv 1.44.2" */
const char *net_libraries(void);

#endif
