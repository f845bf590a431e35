/* sock.c: ZeroMQ sockets: options, and messages in and out without copies of large frames.
 *
 * 1. A message is sent whole or not at all: only its first frame may return EAGAIN (on a ROUTER the
 *    routing id). [test: net_full_peer_answers_busy_and_then_gets_all,
 *    net_frames_of_every_size_are_aligned_and_whole]
 * 2. Frames of a received message are 8-byte aligned and pin only their own memory: small ones, and
 *    those that ZeroMQ decoded inside a shared receive buffer, are copied into the pool. [assert:
 *    sock_receive]
 * 3. A message of more than LIMIT_FRAMES frames is read to its end, one frame at a time, and no
 *    part of it is kept. [assert: sock_receive] [test: net_foreign_messages_harm_nobody] */
#include "proto/net/sock.h"

#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"
#include "proto/base/text.h"
#include "proto/net/name.h"
#include "proto/net/recent.h"
#include "proto/net/shake.h"
#include "proto/net/zap.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <zmq.h>

/* ZeroMQ reads into 8 KiB buffers and delivers smaller frames as parts of them, which pins the
 * whole buffer; bigger ones get their own memory. */
#define COPY_IN_BYTES 8192u
/* Below this size a copy costs less than the bookkeeping of a borrowed frame. ThreadSanitizer does
 * not see how ZeroMQ passes a message between threads and would report every release on an I/O
 * thread as a race, so under it every frame is copied. */
#ifdef __SANITIZE_THREAD__
#define COPY_OUT_BYTES LIMIT_FRAME_BYTES
#else
#define COPY_OUT_BYTES 512u
#endif
#define HOLDERS_KEPT 1024u
/* ZMTP's header of a frame: flags, and the length in one byte or in eight. */
#define FRAME_HEAD_SHORT 2u
#define FRAME_HEAD_LONG 9u
/* CURVE's overhead of a frame: "\x07MESSAGE", a short nonce, the box's code, flags. */
#define CURVE_BYTES 33u
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

struct sock {
    void *zmq;
    int descriptor;
    bool router;
    bool curve; /* the other side shows its key */
    struct {
        struct conns *conns; /* owned; NULL: connections are not watched */
        void *monitor;
        int descriptor;
        uint32_t most;
        uint64_t cut;        /* connections cut because there were too many */
        uint64_t unfinished; /* connections cut for unfinished messages */
        const char *why;     /* the reason of a failed handshake, whose connection ends next */
        struct recent told;
        /* on a DEALER: the last handshake succeeded, and its connection stands */
        bool shaken;
        bool shake_done, shake_failed; /* since the last sock_shake_step */
    } watch;
};

/* ---- the context ----------------------------------------------------------------------------- */

static pthread_mutex_t context_lock = PTHREAD_MUTEX_INITIALIZER;
static void *context;
static unsigned context_holds;

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
    int64_t frame_bytes = LIMIT_FRAME_BYTES + CURVE_BYTES;
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

/* ---- watched connections --------------------------------------------------------------------- */

static int monitor_start(struct sock *s, int events, struct err *e)
{
    static atomic_uint_least64_t made; /* an address may outlive its socket for a moment */
    char address[64];
    int none = 0;
    size_t bytes = sizeof s->watch.descriptor;
    SHOAL_ASSERT(s->watch.monitor == NULL);
    (void)snprintf(address, sizeof address, "inproc://connections-%" PRIu64,
                   (uint64_t)atomic_fetch_add(&made, 1));
    if (zmq_socket_monitor(s->zmq, address, events) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "ZeroMQ does not tell of connections: %s",
                       zmq_strerror(errno));
    s->watch.monitor = zmq_socket(context, ZMQ_PAIR);
    if (s->watch.monitor == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "ZeroMQ gives no socket: %s", zmq_strerror(errno));
    /* a full pipe would stop its I/O */
    zmq_setsockopt(s->watch.monitor, ZMQ_RCVHWM, &none, sizeof none);
    zmq_setsockopt(s->watch.monitor, ZMQ_LINGER, &none, sizeof none);
    if (zmq_connect(s->watch.monitor, address) != 0 ||
        zmq_getsockopt(s->watch.monitor, ZMQ_FD, &s->watch.descriptor, &bytes) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "ZeroMQ does not tell of connections: %s",
                       zmq_strerror(errno));
    return 0;
}

int sock_watch_start(struct sock *s, uint32_t most, const struct conn_bounds *bounds, struct err *e)
{
    SHOAL_ASSERT(s->router && most > 0);
    s->watch.conns = conns_new(bounds);
    if (s->watch.conns == NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "no memory or descriptor to watch connections");
    s->watch.most = most;
    return monitor_start(s,
                         ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED |
                             ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL,
                         e);
}

int sock_watch_descriptor(const struct sock *s)
{
    return s->watch.descriptor;
}

/* An event is two frames: its number (16 bits) with its value (32), and an address. False: there is
 * no event. */
static bool event_read(struct sock *s, uint16_t *number, uint32_t *value)
{
    uint8_t frame[256];
    int bytes = zmq_recv(s->watch.monitor, frame, sizeof frame, ZMQ_DONTWAIT);
    if (bytes < (int)(sizeof *number + sizeof *value))
        return false;
    memcpy(number, frame, sizeof *number);
    memcpy(value, frame + sizeof *number, sizeof *value);
    (void)zmq_recv(s->watch.monitor, frame, sizeof frame, ZMQ_DONTWAIT);
    return true;
}

static void connection_came(struct sock *s, int fd)
{
    conns_opened(s->watch.conns, fd);
    if (conns_count(s->watch.conns) <= s->watch.most)
        return;
    /* ZeroMQ then closes it and reports that. If ZeroMQ has closed it already and another
     * connection has its descriptor, that one is cut and reconnects. */
    (void)shutdown(fd, SHUT_RDWR);
    s->watch.cut++;
}

/* ZeroMQ reports the end of a connection before it closes the descriptor, so before a new
 * connection can reuse it. It reports a failed handshake just before the end of its connection. */
static bool event_take(struct sock *s)
{
    uint16_t number;
    uint32_t value;
    if (!event_read(s, &number, &value))
        return false;
    const char *why = shake_why(number, value);
    if (why != NULL)
        s->watch.why = why;
    if (number == ZMQ_EVENT_ACCEPTED)
        connection_came(s, (int)value);
    if (number != ZMQ_EVENT_DISCONNECTED)
        return true;
    if (s->watch.why != NULL)
        shake_failed(&s->watch.told, conns_address(s->watch.conns, (int)value), s->watch.why);
    s->watch.why = NULL;
    conns_closed(s->watch.conns, (int)value);
    return true;
}

void sock_watch_name(struct sock *s, int connection, peer_t name)
{
    conns_name(s->watch.conns, connection, name);
}

peer_t sock_watch_left(struct sock *s)
{
    return conns_left(s->watch.conns);
}

int sock_out_watch(struct sock *s, struct err *e)
{
    SHOAL_ASSERT(!s->router);
    return monitor_start(s,
                         ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CONNECT_RETRIED |
                             ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                             ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH,
                         e);
}

bool sock_out_step(struct sock *s)
{
    uint16_t number;
    uint32_t value;
    bool closed = false;
    while (event_read(s, &number, &value))
        if (number == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
            s->watch.shake_done = s->watch.shaken = true;
        } else if (number == ZMQ_EVENT_DISCONNECTED) {
            s->watch.shaken = false;
            closed = true;
        } else if (number == ZMQ_EVENT_CONNECT_RETRIED) {
            closed = true;
        } else {
            s->watch.shake_failed = s->watch.shake_failed || !s->watch.shaken;
        }
    return closed;
}

enum sock_shake sock_shake_step(struct sock *s)
{
    bool done = s->watch.shake_done, failed = s->watch.shake_failed;
    s->watch.shake_done = s->watch.shake_failed = false;
    if (s->watch.shaken && done)
        return SOCK_SHAKE_DONE;
    if (failed && !s->watch.shaken)
        return SOCK_SHAKE_FAILED;
    return SOCK_SHAKE_NONE;
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

void sock_watch_step(struct sock *s)
{
    uint64_t cut = s->watch.cut;
    while (event_take(s))
        continue;
    if (cut != s->watch.cut)
        log_warn("more than %u connections: %" PRIu64 " were not let in so far%s", s->watch.most,
                 s->watch.cut,
                 text_if(s->watch.most < LIMIT_PEERS,
                         "; they are a share of the files that may be open: raise LimitNOFILE= "
                         "(ulimit -n)"));
}

int sock_unfinished_descriptor(const struct sock *s)
{
    return conns_descriptor(s->watch.conns);
}

void sock_heap_trim(void)
{
    (void)malloc_trim(0);
}

bool sock_unfinished_step(struct sock *s, uint64_t now_ns, bool *cut)
{
    uint32_t over = 0;
    sock_watch_step(s);
    bool more = conns_look(s->watch.conns, now_ns, &over);
    (void)sock_readable(s); /* complete messages are delivered before the next look */
    if (over == 0)
        return more;
    sock_watch_step(s); /* a new connection on a closed one's descriptor is not cut in its place */
    conns_cut(s->watch.conns);
    s->watch.unfinished += over;
    *cut = true;
    log_warn("too much of unfinished messages: %" PRIu64 " connections were cut so far",
             s->watch.unfinished);
    return more;
}

void sock_known(struct sock *s, const struct sock_id *from)
{
    if (s->watch.conns != NULL)
        conns_known(s->watch.conns, from->connection);
}

int sock_ipc_connect(const char *endpoint)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *path = endpoint + strlen("ipc://");
    if (strncmp(endpoint, "ipc://", 6) != 0 || strlen(path) >= sizeof(address.sun_path))
        return EINVAL;
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    int rc = 0;
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0)
        rc = errno;
    close(fd);
    return rc;
}

bool sock_ipc_answers(const char *endpoint)
{
    int rc = sock_ipc_connect(endpoint);
    return rc == 0 || rc == EAGAIN;
}

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
    (void)snprintf(said, sizeof said, "%s", endpoint);
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

/* ---- receiving ------------------------------------------------------------------------------- */

/* Keeps a received frame's zmq_msg_t while a message borrows its bytes. One list for the process:
 * frames are freed on any thread. */
struct holder {
    zmq_msg_t z;
    struct holder *next;
};

static pthread_mutex_t holder_lock = PTHREAD_MUTEX_INITIALIZER;
static struct holder *holder_free;
static unsigned holder_kept;

static struct holder *holder_take(void)
{
    pthread_mutex_lock(&holder_lock);
    struct holder *h = holder_free;
    if (h != NULL) {
        holder_free = h->next;
        holder_kept--;
    }
    pthread_mutex_unlock(&holder_lock);
    if (h != NULL)
        return h;
    return malloc(sizeof(*h));
}

static void holder_give(struct holder *h)
{
    pthread_mutex_lock(&holder_lock);
    bool keep = holder_kept < HOLDERS_KEPT;
    if (keep) {
        h->next = holder_free;
        holder_free = h;
        holder_kept++;
    }
    pthread_mutex_unlock(&holder_lock);
    if (!keep)
        free(h);
}

static void holder_release(void *data, void *hint)
{
    (void)data;
    struct holder *h = hint;
    zmq_msg_close(&h->z);
    holder_give(h);
}

/* Adds the frame z to m: a copy of it, or the frame itself, which leaves z empty. The caller closes
 * z. */
static int frame_take(struct msg *m, zmq_msg_t *z)
{
    size_t bytes = zmq_msg_size(z);
    void *data = zmq_msg_data(z);
    if (bytes == 0) {
        static uint64_t nothing;
        return msg_add_borrowed(m, &nothing, 0, NULL, NULL);
    }
    if (bytes <= COPY_IN_BYTES || ((uintptr_t)data & 7u) != 0) {
        void *copy = msg_add(m, bytes);
        if (copy == NULL)
            return SHOAL_E_NOMEM;
        memcpy(copy, data, bytes);
        return 0;
    }
    struct holder *h = holder_take();
    if (h == NULL)
        return SHOAL_E_NOMEM;
    zmq_msg_init(&h->z);
    zmq_msg_move(&h->z, z);
    int rc = msg_add_borrowed(m, data, bytes, holder_release, h);
    if (rc != 0) {
        zmq_msg_close(&h->z);
        holder_give(h);
    }
    return rc;
}

/* Reads the next frame into z (initialised) and adds its size on the line to *line. */
static int frame_read(struct sock *s, zmq_msg_t *z, uint64_t *line)
{
    for (;;) {
        int bytes = zmq_msg_recv(z, s->zmq, ZMQ_DONTWAIT);
        if (bytes >= 0) {
            uint64_t all = (uint64_t)bytes;
            if (s->curve)
                all += CURVE_BYTES;
            *line += all + (all > UINT8_MAX ? FRAME_HEAD_LONG : FRAME_HEAD_SHORT);
            return 0;
        }
        if (errno != EINTR)
            return SHOAL_E_AGAIN;
    }
}

/* Over ipc ZeroMQ gives ":uid:gid:pid", preceded by "localhost" where glibc calls the machine that.
 * The kernel recorded them when the connection was made. No tcp address has this form. */
static bool user_read(const char *address, uint32_t *user, uint32_t *group)
{
    uint32_t process;
    int end = 0;
    if (strncmp(address, "localhost", 9) == 0)
        address += 9;
    return sscanf(address, ":%" SCNu32 ":%" SCNu32 ":%" SCNu32 "%n", user, group, &process, &end) ==
               3 &&
           address[end] == 0;
}

/* Reads the properties that the connection's handshake attached to each of its frames. */
static void who_take(const struct sock *s, zmq_msg_t *z, struct sock_id *from)
{
    const char *key = NULL, *address = zmq_msg_gets(z, "Peer-Address");
    if (s->curve)
        key = zmq_msg_gets(z, "User-Id");
    (void)snprintf(from->key, sizeof from->key, "%s", text_or(key, ""));
    from->local = address != NULL && user_read(address, &from->user, &from->group);
    if (from->local)
        (void)snprintf(from->address, sizeof from->address, "uid:%" PRIu32, from->user);
    else
        (void)snprintf(from->address, sizeof from->address, "%s", text_or(address, ""));
}

int sock_receive(struct sock *s, struct sock_id *from, struct msg **out)
{
    zmq_msg_t z;
    uint64_t line = 0;
    zmq_msg_init(&z);
    int rc = frame_read(s, &z, &line);
    if (rc != 0) {
        zmq_msg_close(&z);
        if (s->watch.conns != NULL)
            conns_drained(s->watch.conns);
        return rc;
    }
    bool have_frame = true;
    if (s->router) {
        size_t bytes = zmq_msg_size(&z);
        SHOAL_ASSERT(bytes > 0 && bytes <= SOCK_ID_BYTES); /* ZeroMQ's own prefix */
        from->bytes = (uint8_t)bytes;
        memcpy(from->data, zmq_msg_data(&z), bytes);
        line = 0; /* the routing id is not sent on the line */
        have_frame = zmq_msg_more(&z) && frame_read(s, &z, &line) == 0;
        /* Read from the second frame: ZeroMQ does not tell the connection of the prefix when it has
         * looked at the message before (sock_readable). */
        from->connection = s->watch.conns != NULL && have_frame ? zmq_msg_get(&z, ZMQ_SRCFD) : -1;
        who_take(s, &z, from);
    }
    struct msg *m = msg_new();
    rc = have_frame ? 0 : SHOAL_E_TOO_BIG;
    if (m == NULL)
        rc = SHOAL_E_NOMEM;
    for (uint32_t count = 1; have_frame; count++) {
        bool more = zmq_msg_more(&z);
        if (rc == 0 && count + more > LIMIT_FRAMES)
            rc = SHOAL_E_TOO_BIG;
        if (rc == 0)
            rc = frame_take(m, &z);
        if (rc != 0 && m != NULL) { /* read on to the end, but keep nothing */
            msg_free(m);
            m = NULL;
        }
        SHOAL_ASSERT(m == NULL || ((uintptr_t)m->frame[m->frame_count - 1].data & 7u) == 0); /* 2 */
        have_frame = more && frame_read(s, &z, &line) == 0;
    }
    zmq_msg_close(&z);
    if (s->watch.conns != NULL) {
        if (!conns_has(s->watch.conns, from->connection)) /* a new connection */
            sock_watch_step(s);
        conns_delivered(s->watch.conns, from->connection, line);
    }
    SHOAL_ASSERT(rc == 0 ? m->frame_count <= LIMIT_FRAMES : m == NULL); /* 3 */
    *out = m;
    return rc;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Makes z from a frame; a lent frame's bytes are passed without a copy, and ZeroMQ releases them.
 * Never fails: without memory z is empty, and the receiver's decoder refuses it as a frame of a
 * wrong size. */
static void frame_give(zmq_msg_t *z, struct frame *f, bool lend)
{
    if (lend && f->release != NULL &&
        zmq_msg_init_data(z, f->data, f->bytes, f->release, f->hint) == 0) {
        f->release = NULL;
        return;
    }
    if (zmq_msg_init_size(z, f->bytes) != 0)
        zmq_msg_init(z);
    else if (f->bytes > 0)
        memcpy(zmq_msg_data(z), f->data, f->bytes);
}

/* 0 or the errno. z is empty afterwards in any case. */
static int frame_write(struct sock *s, zmq_msg_t *z, bool more)
{
    int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
    int rc = 0;
    while (zmq_msg_send(z, s->zmq, flags) < 0) {
        rc = errno;
        if (rc != EINTR) {
            zmq_msg_close(z);
            return rc;
        }
    }
    return 0;
}

int sock_send(struct sock *s, const struct sock_id *to, struct msg *m)
{
    SHOAL_ASSERT(m->frame_count >= 1 && m->frame_count <= LIMIT_FRAMES &&
                 s->router == (to != NULL));
    zmq_msg_t z;
    int rc = 0;
    if (s->router) {
        if (zmq_msg_init_size(&z, to->bytes) != 0)
            return SHOAL_E_AGAIN;
        memcpy(zmq_msg_data(&z), to->data, to->bytes);
        rc = frame_write(s, &z, true);
    }
    for (uint32_t i = 0; rc == 0 && i < m->frame_count; i++) {
        /* A DEALER's first frame may be refused and is then needed again, so it is copied. It is a
         * header, and small. */
        bool lend = m->frame[i].bytes > COPY_OUT_BYTES && (s->router || i > 0);
        frame_give(&z, &m->frame[i], lend);
        int failed = frame_write(s, &z, i + 1 < m->frame_count);
        if (i == 0 && !s->router)
            rc = failed;
        /* A later frame fails only when the pipe died during the message. ZeroMQ then still expects
         * the remaining frames, and drops them. */
    }
    if (rc != 0)
        return rc == EAGAIN ? SHOAL_E_AGAIN : SHOAL_E_UNAVAILABLE;
    msg_free(m);
    return 0;
}

/* ---- endpoint ---- */

static int malformed(const char *endpoint, const char *why, struct err *e)
{
    return err_set(e, SHOAL_E_CONFIG,
                   "cannot listen at \"%.200s\": %s; give tcp://HOST:PORT or ipc://PATH", endpoint,
                   why);
}

static bool port_valid(const char *port)
{
    if (strcmp(port, "*") == 0)
        return true;
    size_t digits = strspn(port, "0123456789");
    return digits >= 1 && digits <= 5 && port[digits] == '\0' && strtol(port, NULL, 10) <= 65535;
}

bool sock_endpoint_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

int sock_endpoint_check(const char *endpoint, bool plain, struct err *e)
{
    if (strlen(endpoint) > 200)
        return malformed(endpoint, "it is longer than 200 bytes", e);
    if (strncmp(endpoint, "ipc://", 6) == 0) {
        if (endpoint[6] == '\0' || strlen(endpoint + 6) > 107)
            return malformed(endpoint, "the path must have 1 to 107 bytes", e);
        return 0;
    }
    const char *colon = strrchr(endpoint, ':');
    if (strncmp(endpoint, "tcp://", 6) != 0 || colon < endpoint + 7)
        return malformed(endpoint, "it has no host and port", e);
    if (!port_valid(colon + 1))
        return malformed(endpoint, "the port must be 0 to 65535 or *", e);
    if (!plain)
        return err_set(
            e, SHOAL_E_CONFIG,
            "refusing to listen at \"%s\": whoever reaches it, from this machine or "
            "another, would be obeyed; make keys (shoal keygen) and name them with `keys` "
            "(a coordinator's `allow` lists who may come), or listen at ipc://PATH, or, "
            "in a network that you trust, set insecure_plaintext: yes",
            endpoint);
    return 0;
}
