/* sock.c: one ZeroMQ socket of the process's context: its options, its keys, where it listens and
 * connects. */
#include "proto/net/sock.h"

#include "proto/base/assert.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/net/name.h"
#include "proto/net/sock_inner.h"
#include "proto/net/zap.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef ZMQ_ZAP_ENFORCE_DOMAIN
#define ZMQ_ZAP_ENFORCE_DOMAIN 93 /* libzmq has it, but its header shows it only in draft builds */
#endif
#define SOCKETS_MAX 24576 /* a connection out has three: itself, and the two ends of its watch */
/* Messages that a pipe takes in each direction before our own queue fills. A pull reply may have
 * 512 KiB: 16 of them are 8 MiB a peer. */
#define PIPE_MESSAGES 16
/* A connection without an acknowledgement, a try to connect without an answer. */
#define CUT_MS 6000
#define CONNECT_MS 2000
/* Between two tries to connect, first and last ones: a process that has started again is reached so
 * soon. */
#define RECONNECT_MS 100
#define RECONNECT_LAST_MS 250

/* ---- the context ----------------------------------------------------------------------------- */

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static void *context;
static unsigned context_holds;
static pthread_once_t context_once = PTHREAD_ONCE_INIT;

/* A forked process has its parent's context without the threads that serve it, so it makes one of
 * its own. The parent's memory stays allocated there. */
static void context_before_fork(void)
{
    pthread_mutex_lock(&context_lock);
}

static void context_in_parent(void)
{
    pthread_mutex_unlock(&context_lock);
}

static void context_in_child(void)
{
    context = NULL;
    context_holds = 0;
    pthread_mutex_unlock(&context_lock);
}

static void context_watch_forks(void)
{
    (void)pthread_atfork(context_before_fork, context_in_parent, context_in_child);
}

/* ZeroMQ allocates each received frame with malloc. By default glibc keeps returning the end of the
 * heap to the kernel, and each 4 KiB page that is needed again costs a page fault: up to 18 for a
 * reply of 512 KiB, about one with this. */
static void keep_heap(void)
{
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, 64 << 20);
}

int sock_context_hold(uint32_t io_threads, struct err *e)
{
    int rc = 0;
    (void)pthread_once(&context_once, context_watch_forks);
    pthread_mutex_lock(&context_lock);
    if (context_holds == 0) {
        keep_heap();
        context = zmq_ctx_new();
        if (context == NULL) {
            rc = err_set(e, SHOAL_E_NOMEM, "ZeroMQ gives no context: %s", zmq_strerror(errno));
        } else {
            zmq_ctx_set(context, ZMQ_IO_THREADS, (int)MAX(io_threads, 1));
            zmq_ctx_set(context, ZMQ_MAX_SOCKETS, SOCKETS_MAX);
        }
    }
    if (rc == 0)
        context_holds++;
    pthread_mutex_unlock(&context_lock);
    return rc;
}

void sock_context_release(void)
{
    void *last = NULL;
    pthread_mutex_lock(&context_lock);
    SHOAL_ASSERT(context_holds > 0);
    if (--context_holds == 0) {
        last = context;
        context = NULL;
    }
    pthread_mutex_unlock(&context_lock);
    while (last != NULL && zmq_ctx_term(last) != 0 && errno == EINTR) {
    }
    if (last != NULL)
        zap_stop();
}

/* ---- opening --------------------------------------------------------------------------------- */

static void option_set(struct sock *s, int option, int value)
{
    int rc = zmq_setsockopt(s->zmq, option, &value, sizeof(value));
    SHOAL_ASSERT(rc == 0);
}

int sock_open(bool router, struct sock **out, struct err *e)
{
    struct sock *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for a socket");
    s->context = context;
    s->router = router;
    s->zmq = zmq_socket(context, router ? ZMQ_ROUTER : ZMQ_DEALER);
    if (s->zmq == NULL) {
        int rc = err_set(e, SHOAL_E_UNAVAILABLE,
                         "ZeroMQ gives no socket: %s; raise the limit of open files (ulimit -n)",
                         zmq_strerror(errno));
        free(s);
        return rc;
    }
    int64_t frame_bytes = LIMIT_FRAME_BYTES;
    int rc = zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &frame_bytes, sizeof(frame_bytes));
    SHOAL_ASSERT(rc == 0);
    option_set(s, ZMQ_RCVHWM, PIPE_MESSAGES);
    option_set(s, ZMQ_SNDHWM, PIPE_MESSAGES);
    option_set(s, ZMQ_LINGER, SOCK_LINGER_MS);
    option_set(s, ZMQ_HANDSHAKE_IVL, 3000);
    option_set(s, ZMQ_TCP_KEEPALIVE, 1);
    option_set(s, ZMQ_TCP_KEEPALIVE_IDLE, 30);
    option_set(s, ZMQ_TCP_KEEPALIVE_INTVL, 10);
    option_set(s, ZMQ_TCP_KEEPALIVE_CNT, 3);
    /* else a cut connection is noticed only after a quarter of an hour, and one that is whole again
     * goes on as late after the cut as that was long: the kernel doubles its pauses */
    option_set(s, ZMQ_TCP_MAXRT, CUT_MS);
    if (router) {
        option_set(s, ZMQ_ROUTER_MANDATORY, 1);
        option_set(s, ZMQ_BACKLOG, 512);
    } else {
        option_set(s, ZMQ_RECONNECT_IVL, RECONNECT_MS);
        option_set(s, ZMQ_RECONNECT_IVL_MAX, RECONNECT_LAST_MS);
        option_set(s, ZMQ_CONNECT_TIMEOUT, CONNECT_MS);
    }
    size_t bytes = sizeof(s->descriptor);
    rc = zmq_getsockopt(s->zmq, ZMQ_FD, &s->descriptor, &bytes);
    SHOAL_ASSERT(rc == 0);
    *out = s;
    return 0;
}

void sock_close(struct sock *s)
{
    if (s == NULL)
        return;
    if (s->watch.monitor != NULL) {
        zmq_socket_monitor(s->zmq, NULL, 0);
        zmq_close(s->watch.monitor);
    }
    conns_free(s->watch.conns);
    zmq_close(s->zmq);
    free(s);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static int keys_error(int error, struct err *e)
{
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "ZeroMQ takes no keys (%s): install a libzmq with CURVE, 4.3.3 or later",
                   zmq_strerror(error));
}

/* Raises the limit of a frame's size by CURVE's overhead. */
static int curve_begin(struct sock *s, struct err *e)
{
    int64_t frame_bytes = LIMIT_FRAME_BYTES + SOCK_CURVE_BYTES;
    s->curve = true;
    if (zmq_setsockopt(s->zmq, ZMQ_MAXMSGSIZE, &frame_bytes, sizeof frame_bytes) != 0)
        return keys_error(errno, e);
    return 0;
}

int sock_keys_ask(struct sock *s, const struct keyfile *own, const char *domain, struct err *e)
{
    int yes = 1;
    SHOAL_ASSERT(s->router);
    pthread_mutex_lock(&context_lock);
    int rc = zap_start(context, e);
    pthread_mutex_unlock(&context_lock);
    if (rc != 0)
        return rc;
    if (zmq_setsockopt(s->zmq, ZMQ_ZAP_DOMAIN, domain, strlen(domain)) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_ZAP_ENFORCE_DOMAIN, &yes, sizeof yes) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_CURVE_SERVER, &yes, sizeof yes) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_CURVE_SECRETKEY, own->secret, strlen(own->secret)) != 0)
        return keys_error(errno, e);
    return curve_begin(s, e);
}

int sock_keys_show(struct sock *s, const struct keyfile *own, const char *server, struct err *e)
{
    SHOAL_ASSERT(!s->router);
    if (zmq_setsockopt(s->zmq, ZMQ_CURVE_SERVERKEY, server, strlen(server)) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_CURVE_PUBLICKEY, own->pub, strlen(own->pub)) != 0 ||
        zmq_setsockopt(s->zmq, ZMQ_CURVE_SECRETKEY, own->secret, strlen(own->secret)) != 0)
        return keys_error(errno, e);
    return curve_begin(s, e);
}

/* Without a linger: messages queued for the other key would keep the old session alive, and it
 * would keep failing. */
int sock_keys_change(struct sock *s, const char *endpoint, const char *server, struct err *e)
{
    option_set(s, ZMQ_LINGER, 0);
    (void)zmq_disconnect(s->zmq, endpoint);
    option_set(s, ZMQ_LINGER, SOCK_LINGER_MS);
    if (zmq_setsockopt(s->zmq, ZMQ_CURVE_SERVERKEY, server, strlen(server)) != 0)
        return keys_error(errno, e);
    s->watch.shaken = false;
    return sock_connect(s, endpoint, e);
}

void sock_heap_trim(void)
{
    (void)malloc_trim(0);
}

/* ---- where it listens and connects ----------------------------------------------------------- */

static int bind_error(const char *endpoint, int error, struct err *e)
{
    switch (error) {
    case EADDRINUSE:
        return err_set(
            e, SHOAL_E_UNAVAILABLE,
            "%s is in use by another process: stop that one, or choose another port (0 takes any)",
            endpoint);
    case EACCES:
    case EPERM:
        return err_set(
            e, SHOAL_E_DENIED,
            "%s: not allowed to listen there: choose a port above 1023 or a path of your own",
            endpoint);
    case EADDRNOTAVAIL:
    case ENODEV:
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s: this machine has no such address: listen on one of its own", endpoint);
    case EMFILE:
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s: too many open files: raise the limit (ulimit -n)", endpoint);
    default:
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: cannot listen there (%s): give tcp://HOST:PORT or ipc://PATH", endpoint,
                       zmq_strerror(error));
    }
}

int sock_bind(struct sock *s, const char *endpoint, char bound[256], struct err *e)
{
    char numeric[256];
    int rc = name_resolve(endpoint, numeric, e);
    if (rc != 0)
        return rc;
    option_set(s, ZMQ_IPV6, strchr(numeric, '[') != NULL);
    /* ZeroMQ unlinks any file at an ipc path before it binds, a living server's socket too */
    if (sock_ipc_answers(endpoint))
        return bind_error(endpoint, EADDRINUSE, e);
    char said[600]; /* the name with its address */
    text_copy(said, sizeof said, endpoint);
    if (strcmp(numeric, endpoint) != 0)
        (void)snprintf(said, sizeof said, "%s (%s)", endpoint, numeric);
    if (zmq_bind(s->zmq, numeric) != 0)
        return bind_error(said, errno, e);
    size_t bytes = 256;
    if (zmq_getsockopt(s->zmq, ZMQ_LAST_ENDPOINT, bound, &bytes) != 0)
        return bind_error(said, errno, e);
    return 0;
}

int sock_connect(struct sock *s, const char *endpoint, struct err *e)
{
    option_set(s, ZMQ_IPV6, strchr(endpoint, '[') != NULL);
    if (zmq_connect(s->zmq, endpoint) != 0) {
        return err_set(e, SHOAL_E_CONFIG,
                       "%s: cannot connect there (%s): give tcp://HOST:PORT or ipc://PATH",
                       endpoint, zmq_strerror(errno));
    }
    return 0;
}

int sock_descriptor(const struct sock *s)
{
    return s->descriptor;
}

bool sock_readable(struct sock *s)
{
    int events = 0;
    size_t bytes = sizeof(events);
    bool readable =
        zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &bytes) == 0 && (events & ZMQ_POLLIN) != 0;
    if (!readable && s->watch.conns != NULL)
        conns_drained(s->watch.conns);
    return readable;
}
