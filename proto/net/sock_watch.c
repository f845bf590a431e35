/* sock_watch.c: the connections of a socket, as ZeroMQ's monitor reports them: those that come to a
 * ROUTER and go, their unfinished messages, and the one of a DEALER. */
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/base/text.h"
#include "proto/net/shake.h"
#include "proto/net/sock.h"
#include "proto/net/sock_inner.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

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
    s->watch.monitor = zmq_socket(s->context, ZMQ_PAIR);
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
