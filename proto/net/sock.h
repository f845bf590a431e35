/* sock.h: one ZeroMQ socket: its options, and whole messages in and out. An internal header.
 *
 * Thread: a sock belongs to its net's thread. Bytes of a message may be released on any thread:
 * ZeroMQ releases sent ones on its own I/O threads. No call blocks. Any send or receive may consume
 * the edge of the descriptor, so call sock_readable before waiting on it. */
#ifndef PROTO_NET_SOCK_H
#define PROTO_NET_SOCK_H

#include "proto/base/err.h"
#include "proto/base/msg.h"
#include "proto/net/conn.h"
#include "proto/net/keyfile.h"

#include <stdbool.h>
#include <stdint.h>

#define SOCK_ID_BYTES 255u /* a routing id is never longer */
#define SOCK_LINGER_MS 1000

struct sock;

struct sock_id { /* names a peer of a ROUTER */
    uint8_t bytes;
    uint8_t data[SOCK_ID_BYTES];
    /* the connection of its last message, where connections are watched; else -1 */
    int connection;
    char key[KEYFILE_KEY]; /* the key that it has proved; empty: the socket asks for none */
    char address[48];      /* its address: "10.0.0.7", over ipc "uid:1000"; empty: unknown */
    bool local;            /* over ipc: the kernel reports user and group */
    uint32_t user, group;
};

/* The process's one ZeroMQ context, with a reference count: the first hold decides the number of
 * I/O threads; the last release ends it and waits at most SOCK_LINGER_MS for messages still to be
 * sent. Any thread. */
int sock_context_hold(uint32_t io_threads, struct err *e);
void sock_context_release(void);

int sock_open(bool router, struct sock **out, struct err *e);
/* NULL is fine; sent messages still go out, within SOCK_LINGER_MS */
void sock_close(struct sock *s);

/* Called before the socket binds or connects. sock_keys_ask (ROUTER): only peers whose key the
 * process's ZAP thread accepts for `domain` are admitted. sock_keys_show (DEALER): the other side
 * must have the key `server`. UNAVAILABLE. */
int sock_keys_ask(struct sock *s, const struct keyfile *own, const char *domain, struct err *e);
int sock_keys_show(struct sock *s, const struct keyfile *own, const char *server, struct err *e);

/* bound (256) gets the endpoint really bound, with the address in place of a name. UNAVAILABLE: in
 * use, or a name without an address; DENIED; CONFIG: not an endpoint. */
int sock_bind(struct sock *s, const char *endpoint, char bound[256], struct err *e);
int sock_connect(struct sock *s, const char *endpoint, struct err *e);

/* Watches the connections of a ROUTER, called before it binds; a connection beyond `most` is cut.
 * To stop listening instead would cut all: ZeroMQ closes a listener together with its connections.
 * UNAVAILABLE. */
int sock_watch_start(struct sock *s, uint32_t most, const struct conn_bounds *bounds,
                     struct err *e);
/* A descriptor like sock_descriptor: readable when a connection came or went. It reports nothing
 * before the first step. */
int sock_watch_descriptor(const struct sock *s);
void sock_watch_step(struct sock *s);
/* Names the peer of a watched connection: sock_watch_left returns it, once, when that has closed.
 * Both act on the events of the last step. 0: none has. */
void sock_watch_name(struct sock *s, int connection, peer_t name);
peer_t sock_watch_left(struct sock *s);
/* Watches the connection of a DEALER; called before it connects. Its descriptor is as above.
 * UNAVAILABLE. */
int sock_out_watch(struct sock *s, struct err *e);
/* True: since the last step the connection has closed, or a try to connect has failed. */
bool sock_out_step(struct sock *s);
/* The result of handshakes up to the last sock_out_step: a failure counts when none has succeeded.
 * The next call looks only at later ones. */
enum sock_shake { SOCK_SHAKE_NONE, SOCK_SHAKE_DONE, SOCK_SHAKE_FAILED };
enum sock_shake sock_shake_step(struct sock *s);
/* Connects again, and now expects the key `server` there. Messages that wait to be sent are
 * lost. */
int sock_keys_change(struct sock *s, const char *endpoint, const char *server, struct err *e);
/* Readable when bytes have come. sock_unfinished_step cuts connections whose unfinished messages
 * exceed the bounds, and then sets *cut. True: a message is unfinished, call it again soon. */
int sock_unfinished_descriptor(const struct sock *s);
bool sock_unfinished_step(struct sock *s, uint64_t now_ns, bool *cut);
/* Returns free heap memory to the kernel: a cut connection leaves millions of small free pieces.
 * Takes milliseconds, any thread. */
void sock_heap_trim(void);
/* Marks the connection of the sender's last message: its peer has sent a valid message. */
void sock_known(struct sock *s, const struct sock_id *from);

/* becomes readable when something may have changed; edge-triggered */
int sock_descriptor(const struct sock *s);
bool sock_readable(struct sock *s); /* re-arms the descriptor when it returns false */

/* 0: *out is a message (the caller's); from is filled in for a ROUTER. AGAIN: there is no message,
 * and the descriptor is armed. TOO_BIG: a message of too many frames was read to its end and
 * dropped. NOMEM: dropped too, for want of memory. */
int sock_receive(struct sock *s, struct sock_id *from, struct msg **out);
/* 0: m is taken. AGAIN (that peer's pipe is full) and UNAVAILABLE (no such peer) leave m with the
 * caller. to: NULL on a DEALER. */
int sock_send(struct sock *s, const struct sock_id *to, struct msg *m);

/* Endpoints that `listen` may name. Internal to proto/net. */

/* Accepts "tcp://HOST:PORT" (PORT 1..65535, 0 or *) and "ipc://PATH". CONFIG: neither of them; or
 * tcp, loopback too, without keys, unless `plain`. */
int sock_endpoint_check(const char *endpoint, bool plain, struct err *e);
bool sock_endpoint_tcp(const char *endpoint);
/* Connects to an ipc path and closes again: 0, or the errno; EAGAIN: a process listens there, but
 * too many wait to be let in. EINVAL: it is another endpoint. */
int sock_ipc_connect(const char *endpoint);
/* True when a process listens at an ipc path; false for any other endpoint. */
bool sock_ipc_answers(const char *endpoint);

#endif
