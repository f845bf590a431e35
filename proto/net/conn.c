/* conn.c: compares the bytes received with the bytes delivered, and picks the connections to cut.
 *
 * 1. Bytes count as unfinished only if ZeroMQ had taken them before a time at which no message
 *    waited. Either the socket said so, or every connection with a waiting message has had its turn
 *    since (ZeroMQ takes from its connections in turn). So a net thread that is late never cuts a
 *    connection for messages that it has not yet fetched itself. [test:
 *    net_who_waits_for_a_late_loop_is_not_cut]
 * 2. When all together exceed their bound, the connection that has been unfinished for longest is
 *    cut. Strangers and known peers have separate bounds. The age decides, not the size: a worker's
 *    push ends soon, and the largest message is often nearly whole. [test:
 *    net_unfinished_messages_of_strangers_are_bounded_together]
 * 3. A connection that delivered a message since the last look needs no system call: its earlier
 *    unfinished message has ended. [test: net_unfinished_messages_are_bounded] */
#include "proto/net/conn.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Greeting and handshake are taken and never delivered: some 120 bytes from a peer of ours. */
#define SLACK 1024u
/* After this many turns of all connections each has had a whole turn, even if one that left changed
 * the order. */
#define TURNS 3u
#define NEWS 64

struct conn {
    char address[46]; /* INET6_ADDRSTRLEN */
    bool open, known, busy, over;
    bool delivered_since; /* the last look */
    uint64_t turn;        /* the turn of its last delivery */
    uint64_t delivered;   /* bytes */
    uint64_t taken;       /* bytes that ZeroMQ had taken at the last look */
    uint64_t unfinished;  /* a lower bound of the unfinished part of `taken` */
    uint64_t since_ns;    /* since when bytes are outstanding without a delivery; 0: none are */
    peer_t peer;          /* the peer that sends on it; 0: not known */
};

struct conns {
    struct conn_bounds bounds;
    int news;        /* an epoll of the descriptors, for new bytes */
    uint32_t count;  /* open connections */
    uint32_t places; /* size of at and of busy */
    struct conn *at; /* owned; (places), by descriptor */
    int *busy;       /* owned; (places): descriptors with outstanding bytes at the last look */
    uint32_t busy_count;
    uint64_t turn, looked_turn;
    bool drained; /* since the last look */
    peer_t *left; /* owned: peers whose connections closed */
    uint32_t left_count, left_capacity;
};

struct conns *conns_new(const struct conn_bounds *bounds)
{
    struct conns *cs = calloc(1, sizeof *cs);
    if (cs == NULL)
        return NULL;
    cs->bounds = *bounds;
    cs->turn = 1;
    cs->news = epoll_create1(EPOLL_CLOEXEC);
    if (cs->news < 0) {
        free(cs);
        return NULL;
    }
    return cs;
}

void conns_free(struct conns *cs)
{
    if (cs == NULL)
        return;
    close(cs->news);
    free(cs->at);
    free(cs->busy);
    free(cs->left);
    free(cs);
}

/* ---- the connections ------------------------------------------------------------------------- */

static struct conn *conn_of(const struct conns *cs, int fd)
{
    if (fd >= 0 && (uint32_t)fd < cs->places && cs->at[fd].open)
        return &cs->at[fd];
    return NULL;
}

static bool room_make(struct conns *cs, uint32_t fd)
{
    uint32_t places = cs->places ? cs->places : 64;
    while (places <= fd)
        places *= 2;
    if (places == cs->places)
        return true;
    struct conn *at = realloc(cs->at, places * sizeof *at);
    if (at != NULL)
        cs->at = at;
    int *busy = realloc(cs->busy, places * sizeof *busy);
    if (busy != NULL)
        cs->busy = busy;
    if (at == NULL || busy == NULL)
        return false;
    memset(at + cs->places, 0, (places - cs->places) * sizeof *at);
    cs->places = places;
    return true;
}

static void address_read(int fd, char out[46])
{
    union {
        struct sockaddr any;
        struct sockaddr_in in;
        struct sockaddr_in6 in6;
    } a;
    socklen_t bytes = sizeof a;
    out[0] = 0;
    if (getpeername(fd, &a.any, &bytes) != 0)
        return;
    if (a.any.sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &a.in.sin_addr, out, 46);
    else if (a.any.sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &a.in6.sin6_addr, out, 46);
}

void conns_opened(struct conns *cs, int fd)
{
    conns_closed(cs, fd); /* in case its end was not reported */
    if (fd < 0 || !room_make(cs, (uint32_t)fd))
        return;
    cs->count++;
    struct conn *c = &cs->at[fd];
    *c = (struct conn){.open = true, .busy = c->busy, .peer = c->peer};
    address_read(fd, c->address);
    /* Edge-triggered. If ZeroMQ reads faster than this thread, EPOLLIN finds nothing, but EPOLLOUT
     * still reports the edge. The call fails where fd was closed meanwhile. */
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.fd = fd};
    (void)epoll_ctl(cs->news, EPOLL_CTL_ADD, fd, &e);
}

/* Without memory the notice is lost: it is only a hint. */
static void peer_leaves(struct conns *cs, struct conn *c)
{
    if (c->peer != 0 && array_room(&cs->left, cs->left_count, &cs->left_capacity, 16) == 0)
        cs->left[cs->left_count++] = c->peer;
    c->peer = 0;
}

peer_t conns_left(struct conns *cs)
{
    return cs->left_count > 0 ? cs->left[--cs->left_count] : 0;
}

/* A name may come before the connection (several I/O threads report in any order) or after its
 * end; the next name or end at that descriptor then ends it. */
void conns_name(struct conns *cs, int fd, peer_t name)
{
    if (fd < 0 || !room_make(cs, (uint32_t)fd))
        return;
    if (cs->at[fd].peer != name)
        peer_leaves(cs, &cs->at[fd]);
    cs->at[fd].peer = name;
}

void conns_closed(struct conns *cs, int fd)
{
    struct conn *c = conn_of(cs, fd);
    if (c == NULL)
        return;
    peer_leaves(cs, c);
    SHOAL_ASSERT(cs->count > 0);
    cs->count--;
    c->open = false; /* the next look removes it from busy */
}

const char *conns_address(const struct conns *cs, int fd)
{
    const struct conn *c = conn_of(cs, fd);
    if (c == NULL)
        return "";
    return c->address;
}

bool conns_has(const struct conns *cs, int fd)
{
    return conn_of(cs, fd) != NULL;
}

uint32_t conns_count(const struct conns *cs)
{
    return cs->count;
}

void conns_delivered(struct conns *cs, int fd, uint64_t bytes)
{
    struct conn *c = conn_of(cs, fd);
    if (c == NULL)
        return;
    if (c->turn == cs->turn)
        cs->turn++; /* its second in this turn: all others have had theirs */
    c->turn = cs->turn;
    c->delivered += bytes;
    c->delivered_since = true;
}

void conns_known(struct conns *cs, int fd)
{
    struct conn *c = conn_of(cs, fd);
    if (c != NULL)
        c->known = true;
}

void conns_drained(struct conns *cs)
{
    cs->drained = true;
}

int conns_descriptor(const struct conns *cs)
{
    return cs->news;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Adds the connections on which bytes came to busy. */
static void news_take(struct conns *cs)
{
    struct epoll_event e[NEWS];
    int n;
    do {
        n = epoll_wait(cs->news, e, NEWS, 0);
        for (int i = 0; i < n; i++) {
            struct conn *c = conn_of(cs, e[i].data.fd);
            if (c == NULL || c->busy)
                continue;
            c->busy = true;
            cs->busy[cs->busy_count++] = e[i].data.fd;
            SHOAL_ASSERT(cs->busy_count <= cs->places);
        }
    } while (n == NEWS);
}

/* Bytes that ZeroMQ has taken from the kernel; 0 on sockets other than TCP, which have no such
 * count. The waiting bytes are read first: bytes that come between the two calls then count as
 * taken for a moment. In the other order they would count as waiting but not as received, and
 * `taken` could fall below what was delivered. */
static uint64_t taken(int fd)
{
    struct tcp_info info;
    socklen_t bytes = sizeof info;
    int waiting = 0;
    memset(&info, 0, sizeof info);
    if (ioctl(fd, SIOCINQ, &waiting) != 0 || waiting < 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 ||
        bytes < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return 0;
    if (info.tcpi_bytes_received > (uint64_t)waiting)
        return info.tcpi_bytes_received - (uint64_t)waiting;
    return 0;
}

/* whole: every message that waited at the last look has been delivered. False: c has no outstanding
 * bytes. */
static bool conn_look(struct conn *c, int fd, bool whole, uint64_t now_ns)
{
    if (c->delivered_since) { /* 3 */
        c->delivered_since = false;
        c->since_ns = c->unfinished = 0;
        return true;
    }
    uint64_t now_taken = taken(fd);
    /* more than came: the last messages of an earlier owner of the descriptor */
    if (c->delivered > now_taken)
        c->delivered = now_taken;
    if (whole) /* 1 */
        c->unfinished = c->taken > c->delivered ? c->taken - c->delivered : 0;
    c->taken = now_taken;
    if (now_taken - c->delivered <= SLACK) {
        c->since_ns = c->unfinished = 0;
        return false;
    }
    if (c->since_ns == 0)
        c->since_ns = now_ns;
    return true;
}

/* The connection of its kind that has been unfinished for longest; NULL: there is none. */
static struct conn *oldest(const struct conns *cs, bool known)
{
    struct conn *old = NULL;
    for (uint32_t i = 0; i < cs->busy_count; i++) {
        struct conn *c = &cs->at[cs->busy[i]];
        if (c->known == known && !c->over && c->unfinished > 0 &&
            (old == NULL || c->since_ns < old->since_ns))
            old = c;
    }
    return old;
}

static uint32_t judge(struct conns *cs)
{
    uint64_t sum[2] = {0, 0}, most[2] = {cs->bounds.strangers, cs->bounds.known};
    uint32_t over = 0;
    for (uint32_t i = 0; i < cs->busy_count; i++) {
        struct conn *c = &cs->at[cs->busy[i]];
        c->over = c->unfinished > cs->bounds.one;
        over += c->over;
        if (!c->over)
            sum[c->known] += c->unfinished;
    }
    for (int known = 0; known < 2; known++) {
        while (sum[known] > most[known]) { /* 2 */
            struct conn *c = oldest(cs, known);
            SHOAL_ASSERT(c != NULL && c->unfinished <= sum[known]);
            c->over = true;
            over++;
            sum[known] -= c->unfinished;
        }
    }
    return over;
}

bool conns_look(struct conns *cs, uint64_t now_ns, uint32_t *over)
{
    bool whole = cs->drained || cs->turn >= cs->looked_turn + TURNS;
    uint32_t kept = 0;
    news_take(cs);
    for (uint32_t i = 0; i < cs->busy_count; i++) {
        int fd = cs->busy[i];
        struct conn *c = &cs->at[fd];
        c->busy = c->open && conn_look(c, fd, whole, now_ns);
        if (c->busy)
            cs->busy[kept++] = fd;
    }
    cs->busy_count = kept;
    cs->drained = false;
    cs->looked_turn = cs->turn;
    *over = judge(cs);
    return kept > 0;
}

void conns_cut(struct conns *cs)
{
    for (uint32_t i = 0; i < cs->busy_count; i++) {
        struct conn *c = &cs->at[cs->busy[i]];
        if (c->open && c->over)
            (void)shutdown(cs->busy[i], SHUT_RDWR);
        c->over = false;
    }
}
