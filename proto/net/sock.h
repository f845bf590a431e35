/* sock.h: one ZeroMQ socket and what crosses it: its options, whole messages in, whole messages
 * out. An inside header.
 *
 * Thread: a sock belongs to its net's thread. Bytes of a message may be released on any thread:
 * ZeroMQ releases what was sent on its own I/O threads. No call blocks. Any send or receive may
 * consume the edge of the descriptor, so ask sock_readable before waiting on it. */
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
    int connection;        /* that its last message came from, where they are watched; else -1 */
    char key[KEYFILE_KEY]; /* that it has proved to have; empty: nobody asked */
    char address[48]; /* where it comes from: "10.0.0.7", over ipc "uid:1000"; empty: unknown */
    bool local;       /* over ipc: the kernel says whose process it is */
    uint32_t user, group;
};

/* The process's one ZeroMQ context, counted: the first hold decides the number of I/O threads, the
 * last release ends it and waits at most SOCK_LINGER_MS for what is still to be sent. Any
 * thread. */
int sock_context_hold(uint32_t io_threads, struct err *e);
void sock_context_release(void);

int sock_open(bool router, struct sock **out, struct err *e);
/* NULL is fine; what was sent still goes out, within SOCK_LINGER_MS */
void sock_close(struct sock *s);

/* Before it binds or connects. Of a ROUTER: only holders of keys are let in, as the process's ZAP
 * thread says for `domain`. Of a DEALER: the other side must have the key `server`. UNAVAILABLE. */
int sock_keys_ask(struct sock *s, const struct keyfile *own, const char *domain, struct err *e);
int sock_keys_show(struct sock *s, const struct keyfile *own, const char *server, struct err *e);

/* bound (256) gets the endpoint really taken, an address in the place of a name. UNAVAILABLE: in
 * use, or a name without an address; DENIED; CONFIG: not an endpoint. */
int sock_bind(struct sock *s, const char *endpoint, char bound[256], struct err *e);
int sock_connect(struct sock *s, const char *endpoint, struct err *e);

/* Of a ROUTER, before it binds: its connections are watched, and one beyond `most` is cut. Stopping
 * to listen would cut all: ZeroMQ ends a listener with those that came by it. UNAVAILABLE. */
int sock_watch_start(struct sock *s, uint32_t most, const struct conn_bounds *bounds,
                     struct err *e);
/* As sock_descriptor: a connection came or went. It tells of nothing before the first step. */
int sock_watch_descriptor(const struct sock *s);
void sock_watch_step(struct sock *s);
/* Watches the handshakes of a DEALER; called before it connects. UNAVAILABLE. */
int sock_shake_watch(struct sock *s, struct err *e);
/* What came of them since the last step: a failure counts where none has succeeded. */
enum sock_shake { SOCK_SHAKE_NONE, SOCK_SHAKE_DONE, SOCK_SHAKE_FAILED };
enum sock_shake sock_shake_step(struct sock *s);
/* Connects anew, and now wants the key `server` there. What waited to be sent is lost. */
int sock_keys_change(struct sock *s, const char *endpoint, const char *server, struct err *e);
/* Readable: bytes have come. Those of unfinished messages beyond the bounds cost their sender the
 * connection (*cut is set then). True: there are some, come again soon. */
int sock_unfinished_descriptor(const struct sock *s);
bool sock_unfinished_step(struct sock *s, uint64_t now_ns, bool *cut);
/* What those held is free, but the heap keeps it: millions of small pieces. Gives it to the kernel;
 * takes milliseconds, any thread. */
void sock_heap_trim(void);
/* Whose last message it was speaks our language. */
void sock_known(struct sock *s, const struct sock_id *from);

/* becomes readable when something may have changed; edge-triggered */
int sock_descriptor(const struct sock *s);
bool sock_readable(struct sock *s); /* re-arms the descriptor when it answers false */

/* 0: *out is a message (the caller's); from is filled in for a ROUTER. AGAIN: nothing there, and
 * the descriptor is armed. TOO_BIG: a message of too many frames was read to its end and dropped.
 * NOMEM: likewise, for want of memory. */
int sock_receive(struct sock *s, struct sock_id *from, struct msg **out);
/* 0: m is taken. AGAIN (that peer's pipe is full) and UNAVAILABLE (no such peer) leave m with the
 * caller. to: NULL on a DEALER. */
int sock_send(struct sock *s, const struct sock_id *to, struct msg *m);

/* What may stand in `listen`. Inside of proto/net. */

/* "tcp://HOST:PORT" (PORT 1..65535, 0 or *) or "ipc://PATH". CONFIG: neither of them; or tcp,
 * loopback too, where no keys are asked for, unless `plain`. */
int sock_endpoint_check(const char *endpoint, bool plain, struct err *e);
bool sock_endpoint_tcp(const char *endpoint);
/* Whether somebody listens at an ipc path; false of any other endpoint. */
bool sock_ipc_answers(const char *endpoint);

#endif
