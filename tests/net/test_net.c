/* test_net.c: the real network on loopback: an echo server on its own thread, a client on the
 * test's. */
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/rng.h"
#include "proto/net/net.h"
#include "proto/net/peer.h"

#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zmq.h>

#define SECOND UINT64_C(1000000000)

/* The loops' clock is ahead of the machine's by this much. */
static _Atomic uint64_t ahead_ns;
static unsigned gone_told;
static peer_t gone_peer;
uint64_t __real_uv_hrtime(void);
uint64_t __wrap_uv_hrtime(void);

uint64_t __wrap_uv_hrtime(void)
{
    return __real_uv_hrtime() + ahead_ns;
}

static void no_drained(void *core)
{
    (void)core;
}

/* ---- an echo server -------------------------------------------------------------------------- */

struct server {
    struct net *net;
    pthread_t thread;
    char bound[256];
    atomic_uint seen, drained, gone, misaligned, unsendable, late;
    atomic_bool quiet;   /* it does not answer */
    atomic_bool stops;   /* at its next message */
    atomic_uint slow_us; /* time that it takes for each message */
    peer_t last;         /* the last sender; for the server's thread, or after its end */
};

static void server_message(void *core, peer_t from, struct msg *m)
{
    struct server *s = core;
    for (uint32_t i = 0; i < m->frame_count; i++)
        if (((uintptr_t)m->frame[i].data & 7u) != 0)
            atomic_fetch_add(&s->misaligned, 1);
    s->last = from;
    env_known(net_env(s->net), from);
    usleep(s->slow_us);
    if (s->stops)
        env_stop(net_env(s->net));
    if (s->quiet)
        msg_free(m);
    else if (env_send(net_env(s->net), from, m) != 0)
        atomic_fetch_add(&s->unsendable, 1);
    atomic_fetch_add(&s->seen, 1); /* last: a waiting thread then finds the reply sent */
}

static void server_drained(void *core)
{
    struct server *s = core;
    atomic_fetch_add(&s->drained, 1);
}

static void server_gone(void *core, peer_t peer)
{
    struct server *s = core;
    (void)peer;
    atomic_fetch_add(&s->gone, 1);
}

static const struct net_options plain = {.insecure_plaintext = true};
static const struct env_handler server_handler = {server_message, server_drained, server_gone};

static void *server_thread(void *arg)
{
    struct server *s = arg;
    net_run(s->net);
    return NULL;
}

static void server_start(struct server *s, struct net_options options, const char *endpoint)
{
    struct err e = {0};
    memset(s, 0, sizeof(*s));
    options.insecure_plaintext = true; /* keys: test_keys.c */
    ck_assert_msg(net_new(&options, &s->net, &e) == 0, "%s", e.text);
    int rc = SHOAL_E_UNAVAILABLE;
    for (int i = 0; i < 200 && rc == SHOAL_E_UNAVAILABLE; i++) {
        /* ZeroMQ releases a port a little after net_free */
        rc = net_listen(s->net, endpoint, s->bound, &e);
        usleep(rc == 0 ? 0 : 10000);
    }
    ck_assert_msg(rc == 0, "%s", e.text);
    net_set_handler(s->net, &server_handler, s);
    ck_assert_int_eq(pthread_create(&s->thread, NULL, server_thread, s), 0);
}

static void server_stop(struct server *s)
{
    net_interrupt(s->net);
    pthread_join(s->thread, NULL);
    net_free(s->net);
}

/* ---- a client with a window of requests in flight -------------------------------------------- */

struct client {
    struct net *net;
    struct env *env;
    peer_t server;
    uint32_t window, total, sent, received, lost, frame_bytes;
    uint64_t allocations_warm;
    bool timed_out;
    struct env_timer guard, resend;
    struct server *asked;
};

static void client_give_up(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, guard);
    c->timed_out = true;
    env_stop(c->env);
}

static void client_send(struct client *c)
{
    struct msg *m = msg_new();
    uint64_t *head = msg_add(m, 16);
    head[0] = c->sent;
    head[1] = ~(uint64_t)c->sent;
    if (c->frame_bytes > 0) {
        uint8_t *bulk = msg_add(m, c->frame_bytes);
        memset(bulk, (int)(c->sent & 0xff), c->frame_bytes);
    }
    c->sent++;
    ck_assert_int_eq(env_send(c->env, c->server, m), 0);
}

static void client_message(void *core, peer_t from, struct msg *m)
{
    struct client *c = core;
    ck_assert_uint_eq(from, c->server);
    ck_assert_uint_eq(m->frame_count, c->frame_bytes > 0 ? 2 : 1);
    uint64_t head[2];
    ck_assert_uint_eq(m->frame[0].bytes, 16);
    memcpy(head, m->frame[0].data, 16);
    ck_assert_uint_eq(head[0], ~head[1]);
    ck_assert_uint_eq(head[0], c->received); /* in the order sent */
    if (c->frame_bytes > 0) {
        const uint8_t *bulk = m->frame[1].data;
        ck_assert_uint_eq(m->frame[1].bytes, c->frame_bytes);
        ck_assert_uint_eq((uintptr_t)bulk & 7u, 0);
        ck_assert_uint_eq(bulk[0], head[0] & 0xff);
        ck_assert_uint_eq(bulk[c->frame_bytes - 1], head[0] & 0xff);
    }
    msg_free(m);
    c->received++;
    if (c->received == c->total / 2)
        c->allocations_warm = msg_allocations();
    if (c->sent < c->total)
        client_send(c);
    else if (c->received == c->total)
        env_stop(c->env);
}

static const struct env_handler client_handler = {client_message, no_drained, NULL};

static void client_open(struct client *c, const char *endpoint)
{
    struct net_options options = {0};
    struct err e = {0};
    memset(c, 0, sizeof(*c));
    ck_assert_msg(net_new(&options, &c->net, &e) == 0, "%s", e.text);
    c->env = net_env(c->net);
    net_set_handler(c->net, &client_handler, c);
    if (endpoint != NULL)
        ck_assert_int_eq(env_connect(c->env, endpoint, ENV_COORDINATOR, &c->server), 0);
    c->guard.fire = client_give_up;
}

static void client_run(struct client *c, uint64_t most_ns)
{
    c->timed_out = false;
    env_timer_start(c->env, &c->guard, most_ns);
    net_run(c->net);
    env_timer_stop(c->env, &c->guard);
}

static void client_exchange(struct client *c, uint32_t total, uint32_t window, uint32_t frame_bytes)
{
    c->sent = c->received = 0;
    c->total = total;
    c->frame_bytes = frame_bytes;
    for (uint32_t i = 0; i < window; i++)
        client_send(c);
    client_run(c, 60 * SECOND);
    ck_assert_msg(!c->timed_out, "stalled after %u of %u replies", c->received, total);
    ck_assert_uint_eq(c->received, total);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The server counts a message after its reply, so the last reply may arrive before the count is up
 * to date. */
static void seen_wait(struct server *s, unsigned count)
{
    for (int i = 0; i < 2000 && atomic_load(&s->seen) < count; i++)
        usleep(1000);
    ck_assert_uint_eq(atomic_load(&s->seen), count);
}

START_TEST(net_carries_mebibyte_frames)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 200, 4, 1u << 20);
    net_free(c.net);
    server_stop(&s);
    ck_assert_uint_eq(s.misaligned, 0);
    ck_assert_uint_eq(s.unsendable, 0);
    ck_assert_uint_ge(s.drained, 1);
    ck_assert_uint_le(s.drained, s.seen);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(net_carries_messages_over_ipc)
{
    struct server s;
    struct client c;
    char endpoint[128];
    snprintf(endpoint, sizeof(endpoint), "ipc:///tmp/shoal-test-net-%d", getpid());
    server_start(&s, (struct net_options){0}, endpoint);
    client_open(&c, s.bound);
    client_exchange(&c, 100, 4, 70000);
    struct net *other = NULL;
    struct err e = {0};
    char bound[256];
    ck_assert_int_eq(net_new(&plain, &other, &e), 0);
    ck_assert_int_eq(net_listen(other, endpoint, bound, &e),
                     SHOAL_E_UNAVAILABLE); /* the path of a running server stays */
    client_exchange(&c, 100, 4, 70000);
    net_free(other);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

START_TEST(net_knows_a_path_at_which_nobody_listens)
{
    struct server s;
    char endpoint[128];
    snprintf(endpoint, sizeof(endpoint), "ipc:///tmp/shoal-test-net-%d-none", getpid());
    ck_assert(!net_listened(endpoint)); /* no such file */
    server_start(&s, (struct net_options){0}, endpoint);
    ck_assert(net_listened(endpoint));
    server_stop(&s);
    int left = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%.100s", endpoint + strlen("ipc://"));
    unlink(address.sun_path);
    ck_assert_int_eq(bind(left, (struct sockaddr *)&address, sizeof(address)), 0);
    close(left);
    ck_assert_int_eq(access(address.sun_path, F_OK), 0);
    ck_assert(!net_listened(endpoint)); /* left by a killed process */
    unlink(address.sun_path);
    ck_assert(net_listened("tcp://127.0.0.1:1")); /* only a connection would tell */
}
END_TEST

START_TEST(net_frames_of_every_size_are_aligned_and_whole)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    static const uint32_t sizes[] = {1,    7,    33,   34,   255,   256,   511,   513,
                                     4097, 8191, 8192, 8193, 12289, 65535, 300001};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        client_exchange(&c, 40, 7, sizes[i]);
    net_free(c.net);
    server_stop(&s);
    ck_assert_uint_eq(s.misaligned, 0);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(net_warm_path_allocates_nothing)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 20000, 8, 200);
    /* Counted over the last 10,000. On a busy machine a queue may once become deeper than
     * before. */
    ck_assert_uint_le(msg_allocations() - c.allocations_warm, 32);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* A lost edge shows as a stall: the guard ends it and client_exchange reports it. */
START_TEST(net_never_sleeps_on_a_used_edge)
{
    struct server s;
    struct client c;
    static const uint32_t windows[] = {1, 2, 3, 8, 13, 60, 200};
    server_start(&s, (struct net_options){.drain_budget = 3}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    for (size_t i = 0; i < sizeof(windows) / sizeof(windows[0]); i++)
        client_exchange(&c, 4000, windows[i], i % 2 == 0 ? 0 : 900);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

static void stop_message(void *core, peer_t from, struct msg *m)
{
    struct client *c = core;
    (void)from;
    msg_free(m);
    c->received++;
    env_stop(c->env);
}

/* In one callback: a request is sent, its reply arrives and with it the edge; then a send uses the
 * edge up and gets no answer. */
static void ask_sleep_send(struct env_timer *t)
{
    struct client *c = container_of(t, struct client, resend);
    struct server *s = c->asked;
    unsigned before = atomic_load(&s->seen);
    s->quiet = false;
    client_send(c);
    for (int i = 0; i < 2000 && atomic_load(&s->seen) == before; i++)
        usleep(1000);
    s->quiet = true;
    usleep(50000);
    client_send(c);
}

START_TEST(net_send_does_not_swallow_the_edge_of_a_reply)
{
    static const struct env_handler handler = {stop_message, no_drained, NULL};
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 10, 1, 0);
    net_set_handler(c.net, &handler, &c);
    c.asked = &s;
    c.resend.fire = ask_sleep_send;
    for (int round = 0; round < 5; round++) {
        c.received = 0;
        /* the loop sleeps on the descriptor first */
        env_timer_start(c.env, &c.resend, SECOND / 20);
        client_run(&c, 2 * SECOND);
        ck_assert_msg(c.received == 1, "the reply lay there unread");
    }
    net_free(c.net);
    server_stop(&s);
}
END_TEST

START_TEST(net_many_clients_share_a_server_and_a_context)
{
    struct server s, t;
    struct client c[6];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    server_start(&t, (struct net_options){0}, "tcp://127.0.0.1:*");
    for (int i = 0; i < 6; i++)
        client_open(&c[i], i % 2 == 0 ? s.bound : t.bound);
    for (int i = 0; i < 6; i++)
        client_exchange(&c[i], 300, 5, 9000);
    for (int i = 0; i < 6; i++)
        net_free(c[i].net);
    server_stop(&s);
    server_stop(&t);
    seen_wait(&s, 900);
    seen_wait(&t, 900);
}
END_TEST

START_TEST(net_forked_process_has_a_context_of_its_own)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 10, 1, 100);

    pid_t child = fork();
    if (child == 0) {
        struct client own;
        client_open(&own, s.bound);
        own.total = 10;
        client_send(&own);
        client_run(&own, 10 * SECOND);
        net_free(own.net);
        _exit(own.received == 10 ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);

    client_exchange(&c, 10, 1, 100); /* the parent's goes on */
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* ---- full queues ----------------------------------------------------------------------------- */

struct flooder {
    struct net *net;
    char bound[256];
    uint32_t accepted, refused;
    int last_rc;
    uint64_t took_ns;
    bool flooded;
    struct env_timer guard;
};

static void flooder_message(void *core, peer_t from, struct msg *m)
{
    struct flooder *f = core;
    struct env *env = net_env(f->net);
    msg_free(m);
    if (f->flooded)
        return;
    f->flooded = true;
    uint64_t began = env_now_ns(env);
    for (uint32_t i = 0; i < 4000 && f->refused == 0; i++) {
        struct msg *reply = msg_new();
        uint64_t *head = msg_add(reply, 16);
        head[0] = f->accepted;
        head[1] = ~head[0];
        memset(msg_add(reply, 64u << 10), (int)(head[0] & 0xff), 64u << 10);
        f->last_rc = env_send(env, from, reply);
        if (f->last_rc == 0)
            f->accepted++;
        else
            f->refused++;
    }
    f->took_ns = env_now_ns(env) - began;
}

static const struct env_handler flooder_handler = {flooder_message, no_drained, NULL};

static void *flooder_thread(void *arg)
{
    struct flooder *f = arg;
    net_run(f->net);
    return NULL;
}

START_TEST(net_full_peer_answers_busy_and_then_gets_all)
{
    struct flooder f = {0};
    struct client c;
    struct err e = {0};
    pthread_t thread;
    ck_assert_int_eq(net_new(&plain, &f.net, &e), 0);
    ck_assert_int_eq(net_listen(f.net, "tcp://127.0.0.1:0", f.bound, &e), 0);
    net_set_handler(f.net, &flooder_handler, &f);
    client_open(&c, f.bound);
    c.frame_bytes = 0;
    c.total = UINT32_MAX;
    client_send(&c);
    pthread_create(&thread, NULL, flooder_thread, &f);
    usleep(700000); /* the client does not read meanwhile */
    c.frame_bytes = 64u << 10;
    c.sent = c.total;
    client_run(&c, 3 * SECOND);
    net_interrupt(f.net);
    pthread_join(thread, NULL);
    ck_assert_int_eq(f.last_rc, SHOAL_E_BUSY);
    ck_assert_uint_ge(f.accepted, LIMIT_PEER_QUEUE);
    ck_assert_uint_lt(f.took_ns, SECOND); /* no call blocked */
    ck_assert_uint_eq(c.received, f.accepted);
    net_free(c.net);
    net_free(f.net);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

START_TEST(net_queues_are_bounded_in_bytes_too)
{
    enum { BYTES = 100 << 10 };
    struct net *n;
    struct err e = {0};
    peer_t to[2];
    ck_assert_int_eq(net_new(&(struct net_options){.queue_bytes = 1 << 20}, &n, &e), 0);
    for (int peer = 0; peer < 2; peer++) {
        uint32_t accepted = 0, waiting = 0;
        ck_assert_int_eq(env_connect(net_env(n), "tcp://127.0.0.1:1", ENV_COORDINATOR, &to[peer]),
                         0);
        for (int i = 0; i < 100; i++) {
            struct msg *m = msg_new();
            memset(msg_add(m, BYTES), 1, BYTES);
            accepted += env_send(net_env(n), to[peer], m) == 0;
        }
        waiting = accepted > 16 ? accepted - 16 : 0; /* ZeroMQ's own pipe takes 16 */
        ck_assert_uint_le(waiting, 2);               /* a quarter of 1 MiB */
        ck_assert_uint_ge(accepted, 1);
    }
    net_free(n);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* Sends until no more may wait; returns how many were accepted. */
static uint32_t fill(struct client *c)
{
    uint32_t accepted = 0;
    int rc = 0;
    while (rc == 0 && accepted < 10000) {
        struct msg *m = msg_new();
        memset(msg_add(m, 100), 1, 100);
        rc = env_send(c->env, c->server, m);
        accepted += rc == 0;
    }
    ck_assert_int_eq(rc, SHOAL_E_BUSY);
    return accepted;
}

START_TEST(net_unreachable_server_answers_busy_when_the_queue_is_full)
{
    struct client c;
    client_open(&c, "tcp://127.0.0.1:1");
    env_known(c.env, c.server); /* no effect on outgoing connections */
    env_known(c.env, 12345);
    uint32_t accepted = fill(&c);
    ck_assert_uint_ge(accepted, LIMIT_PEER_QUEUE);
    ck_assert_uint_le(accepted, LIMIT_PEER_QUEUE + 64);
    net_free(c.net);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

static void stop_again(struct env_timer *t)
{
    const struct client *c = container_of(t, struct client, guard);
    env_stop(c->env);
    env_timer_start(c->env, t, SECOND / 10);
}

/* Messages that no peer takes delay a stop for a second and no longer, however often it is
 * requested. */
START_TEST(net_stop_waits_no_longer_than_its_second)
{
    struct client c;
    client_open(&c, "tcp://127.0.0.1:1");
    fill(&c);
    c.guard.fire = stop_again;
    stop_again(&c.guard);
    uint64_t begun = env_now_ns(c.env);
    net_run(c.net);
    ck_assert_uint_ge(env_now_ns(c.env) - begun, SECOND - SECOND / 10);
    ck_assert_uint_lt(env_now_ns(c.env) - begun, PEER_STALL_NS / 2); /* or that ends it */
    net_free(c.net);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

static void client_gone(void *core, peer_t peer)
{
    (void)core;
    gone_peer = peer;
    gone_told++;
}

static const struct env_handler told_handler = {client_message, no_drained, client_gone};

/* An outgoing connection whose server takes nothing for a long time loses its waiting messages, and
 * stays: it reaches the server once that is back. An incoming one would be removed. */
START_TEST(net_connection_out_stays_when_what_waits_is_dropped)
{
    struct server s;
    struct client c;
    char endpoint[256];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    memcpy(endpoint, s.bound, sizeof endpoint);
    server_stop(&s);
    client_open(&c, endpoint);
    uint32_t accepted = fill(&c);
    ahead_ns += PEER_STALL_NS + 1;
    client_run(&c, SECOND / 20);
    struct msg *m = msg_new();
    memset(msg_add(m, 16), 1, 16);
    ck_assert_int_eq(env_send(c.env, c.server, m), 0); /* there is room again */
    server_start(&s, (struct net_options){0}, endpoint);
    s.quiet = true;
    client_run(&c, SECOND);
    ck_assert_uint_ge(s.seen, 2);
    ck_assert_uint_le(s.seen, accepted - LIMIT_PEER_QUEUE + 1);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* A quiet server: closing a connection with unread replies resets it, and messages that the server
 * has not read yet are lost. */
START_TEST(net_stop_sends_what_waits_first)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    s.quiet = true;
    client_open(&c, s.bound);
    c.frame_bytes = 0;
    for (int i = 0; i < 200; i++) /* more than the pipe takes */
        client_send(&c);
    env_stop(c.env);
    net_run(c.net);
    net_free(c.net);
    for (int i = 0; i < 500 && s.seen < 200; i++)
        usleep(10000);
    server_stop(&s);
    ck_assert_uint_eq(s.seen, 200);
}
END_TEST

/* ---- connections ----------------------------------------------------------------------------- */

START_TEST(net_old_connection_reaches_a_new_server)
{
    struct server s;
    struct client c;
    char endpoint[256];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    memcpy(endpoint, s.bound, sizeof(endpoint));
    client_open(&c, endpoint);
    client_exchange(&c, 50, 2, 100);
    server_stop(&s);
    server_start(&s, (struct net_options){0}, endpoint);
    /* messages sent before ZeroMQ sees the end of the old connection are lost with it */
    usleep(500000);
    client_exchange(&c, 50, 2, 100);
    net_free(c.net);
    server_stop(&s);
    ck_assert_uint_eq(s.seen, 50);
}
END_TEST

/* The server is away for so long that tries to connect which double their pauses up to a second
 * would be more than half a second apart. */
START_TEST(net_server_that_was_away_is_reached_soon)
{
    struct server s;
    struct client c;
    char endpoint[256];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    memcpy(endpoint, s.bound, sizeof(endpoint));
    client_open(&c, endpoint);
    client_exchange(&c, 1, 1, 0);
    server_stop(&s);
    c.sent = c.received = 0;
    c.total = 2; /* more than comes: it runs until the time is over */
    client_run(&c, SECOND / 100 * 195);
    server_start(&s, (struct net_options){0}, endpoint);
    c.sent = 0;
    c.total = 1;
    client_send(&c);
    client_run(&c, SECOND / 2);
    ck_assert(!c.timed_out);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

static int raw_connect(const char *bound)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)atoi(strrchr(bound, ':') + 1));
    int fd = socket(AF_INET, SOCK_STREAM, 0), at_once = 1;
    ck_assert_int_eq(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    return fd;
}

/* Writes all of it; false: the connection was cut. */
static bool raw_write(int fd, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t n = send(fd, at, bytes, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += n;
        bytes -= (size_t)n;
    }
    return true;
}

/* Opens a DEALER connection by hand, with greeting and handshake done. */
static int raw_dealer(const char *bound)
{
    uint8_t greeting[64] = {[0] = 0xff, [9] = 0x7f, [10] = 3, [12] = 'N', 'U', 'L', 'L'};
    static const char ready[] = "\5READY\xbSocket-Type\0\0\0\6DEALER";
    char theirs[64];
    int fd = raw_connect(bound);
    uint8_t head[2];
    char rest[256];
    ck_assert(raw_write(fd, greeting, sizeof greeting));
    ck_assert_int_eq(recv(fd, theirs, sizeof theirs, MSG_WAITALL), sizeof theirs);
    ck_assert(raw_write(fd, (uint8_t[]){4, sizeof ready - 1}, 2));
    ck_assert(raw_write(fd, ready, sizeof ready - 1));
    ck_assert_int_eq(recv(fd, head, sizeof head, MSG_WAITALL), sizeof head);
    ck_assert_int_eq(recv(fd, rest, head[1], MSG_WAITALL), head[1]);
    return fd;
}

/* A peer that leaves before its answer is reported, and its name is invalid afterwards. */
START_TEST(net_tells_of_who_left_before_the_answer)
{
    struct server s;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    s.slow_us = 500000;
    int fd = raw_dealer(s.bound);
    ck_assert(raw_write(fd, "\0\10 a word", 10));
    close(fd);
    seen_wait(&s, 1);
    for (int ms = 0; ms < 2000 && s.gone == 0; ms++)
        usleep(1000);
    ck_assert_uint_eq(s.unsendable, 1);
    ck_assert_uint_eq(s.gone, 1);
    server_stop(&s);
}
END_TEST

static void gone_wait(struct server *s, unsigned count)
{
    for (int ms = 0; ms < 5000 && s->gone < count; ms++)
        usleep(1000);
    ck_assert_uint_eq(s->gone, count);
}

/* Nothing is sent to a peer whose connection closes: the end of the connection tells of it, once.
 * The second round has the descriptors of the first. */
START_TEST(net_tells_of_every_connection_that_closes)
{
    enum { MANY = 100 };
    struct server s;
    int fd[MANY];
    server_start(&s, (struct net_options){.connections_max = 2 * MANY}, "tcp://127.0.0.1:0");
    s.quiet = true;
    int stays = raw_dealer(s.bound);
    ck_assert(raw_write(stays, "\0\10 a word", 10));
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < MANY; i++) {
            fd[i] = raw_dealer(s.bound);
            ck_assert(raw_write(fd[i], "\0\10 a word", 10));
        }
        seen_wait(&s, (round + 1) * MANY + 1);
        gone_wait(&s, round * MANY);
        for (unsigned i = 0; i < MANY; i++)
            close(fd[i]);
        gone_wait(&s, (round + 1) * MANY);
    }
    ck_assert(raw_write(stays, "\0\10 a word", 10));
    seen_wait(&s, 2 * MANY + 2);
    usleep(20000);
    ck_assert_uint_eq(s.gone, 2 * MANY);
    close(stays);
    gone_wait(&s, 2 * MANY + 1);
    server_stop(&s);
}
END_TEST

/* A connection out that closes is told of, with every try that fails; it keeps its name and reaches
 * the next server at the address. Over tcp and ipc. */
START_TEST(net_tells_when_a_connection_out_closes)
{
    static const char *const listen_at[] = {"tcp://127.0.0.1:0", "ipc:///tmp/shoal-net-out.sock"};
    struct server s;
    struct client c;
    char endpoint[256];
    server_start(&s, (struct net_options){0}, listen_at[_i]);
    memcpy(endpoint, s.bound, sizeof endpoint);
    client_open(&c, endpoint);
    net_set_handler(c.net, &told_handler, &c);
    client_exchange(&c, 50, 2, 100);
    client_run(&c, SECOND / 5);
    ck_assert_uint_eq(gone_told, 0);
    server_stop(&s);
    for (int i = 0; i < 20 && gone_told == 0; i++)
        client_run(&c, SECOND / 20);
    ck_assert_uint_ge(gone_told, 1);
    ck_assert_uint_eq(gone_peer, c.server);
    client_run(&c, 2 * SECOND);
    ck_assert_uint_ge(gone_told, 3);
    ck_assert_uint_le(gone_told, 20);
    server_start(&s, (struct net_options){0}, endpoint);
    client_exchange(&c, 50, 2, 100);
    unsigned told = gone_told;
    client_run(&c, SECOND / 5);
    ck_assert_uint_eq(gone_told, told);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

static void hang_up_gone(void *core, peer_t peer)
{
    struct client *c = core;
    ck_assert_uint_eq(gone_peer, 0); /* not told again after its end */
    gone_peer = peer;
    env_disconnect(c->env, peer);
    env_stop(c->env);
}

/* The core may disconnect it there. */
START_TEST(net_disconnects_what_is_gone)
{
    static const struct env_handler handler = {client_message, no_drained, hang_up_gone};
    struct client c;
    client_open(&c, "tcp://127.0.0.1:1");
    net_set_handler(c.net, &handler, &c);
    net_run(c.net);
    ck_assert_uint_eq(gone_peer, c.server);
    client_run(&c, SECOND / 2);
    net_free(c.net);
}
END_TEST

static int descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 4096; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A core tries again and again, for days. */
START_TEST(net_connection_that_cannot_be_leaves_nothing)
{
    struct net *n;
    struct err e = {0};
    peer_t to = 0;
    ck_assert_int_eq(net_new(&plain, &n, &e), 0);
    ck_assert_int_eq(env_connect(net_env(n), "tcp://127.0.0.1:1", ENV_COORDINATOR, &to), 0);
    int before = descriptors();
    for (int i = 0; i < 20; i++)
        ck_assert_int_ne(env_connect(net_env(n), "tcp://no port", ENV_COORDINATOR, &to), 0);
    net_interrupt(n); /* the loop releases closed connections */
    net_run(n);
    for (int ms = 0; ms < 2000 && descriptors() > before; ms++)
        usleep(1000);
    ck_assert_int_eq(descriptors(), before);
    net_free(n);
}
END_TEST

START_TEST(net_peer_that_left_is_unavailable)
{
    struct server s;
    struct client c;
    struct err e = {0};
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 5, 1, 100);
    net_free(c.net);
    usleep(300000);
    net_interrupt(s.net);
    pthread_join(s.thread, NULL); /* its env may be used from here now */
    struct msg *m = msg_new();
    memset(msg_add(m, 10), 1, 10);
    ck_assert_int_eq(env_send(net_env(s.net), s.last, m), SHOAL_E_UNAVAILABLE);
    m = msg_new();
    memset(msg_add(m, 10), 1, 10);
    ck_assert_int_eq(env_send(net_env(s.net), 12345, m), SHOAL_E_UNAVAILABLE); /* an unknown name */
    net_interrupt(s.net);
    net_run(s.net);
    net_free(s.net);
    (void)e;
}
END_TEST

static void hang_up_message(void *core, peer_t from, struct msg *m)
{
    struct client *c = core;
    msg_free(m);
    c->received++;
    env_disconnect(c->env, from);
    env_disconnect(c->env, from); /* a name is invalid at once */
    m = msg_new();
    memset(msg_add(m, 10), 1, 10);
    c->lost += env_send(c->env, from, m) == SHOAL_E_UNAVAILABLE;
    env_stop(c->env);
}

START_TEST(net_disconnects_inside_a_message)
{
    static const struct env_handler handler = {hang_up_message, no_drained, NULL};
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    net_set_handler(c.net, &handler, &c);
    for (int i = 0; i < 10; i++)
        client_send(&c);
    client_run(&c, 10 * SECOND);
    ck_assert_uint_eq(c.received, 1);
    ck_assert_uint_eq(c.lost, 1);
    peer_t old = c.server;
    net_set_handler(c.net, &client_handler, &c);
    ck_assert_int_eq(env_connect(c.env, s.bound, ENV_COORDINATOR, &c.server), 0);
    ck_assert_uint_ne(c.server, old);
    client_exchange(&c, 10, 2, 50);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

START_TEST(net_refuses_a_port_in_use)
{
    struct server s;
    struct net *other = NULL;
    struct err e = {0};
    char bound[256];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    ck_assert_int_eq(net_new(&plain, &other, &e), 0);
    ck_assert_int_eq(net_listen(other, s.bound, bound, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, s.bound));
    ck_assert_ptr_nonnull(strstr(e.text, "in use"));
    net_free(other);
    server_stop(&s);
}
END_TEST

START_TEST(net_listens_on_tcp_with_keys_alone_unless_told)
{
    static const struct {
        const char *endpoint;
        int without, insecure;
    } cases[] = {
        {"tcp://127.0.0.1:0", SHOAL_E_CONFIG, 0},
        {"tcp://127.1.2.3:*", SHOAL_E_CONFIG, 0},
        {"tcp://localhost:0", SHOAL_E_CONFIG, 0},
        {"tcp://[::1]:0", SHOAL_E_CONFIG, 0},
        {"tcp://0.0.0.0:0", SHOAL_E_CONFIG, 0},
        {"tcp://*:0", SHOAL_E_CONFIG, 0},
        {"tcp://127.evil.example:0", SHOAL_E_CONFIG, SHOAL_E_UNAVAILABLE},
        {"tcp://localhost.example:0", SHOAL_E_CONFIG, SHOAL_E_UNAVAILABLE},
        {"ipc:///tmp/shoal-net-listens", 0, 0},
    };
    static const char *const wrong[] = {"tcp://127.0.0.1",
                                        "tcp://127.0.0.1:65536",
                                        "tcp://127.0.0.1:7x",
                                        "tcp://:7070",
                                        "127.0.0.1:7070",
                                        "inproc://x",
                                        "ipc://",
                                        ""};
    char bound[256];
    for (int insecure = 0; insecure < 2; insecure++) {
        const struct net_options options = {.insecure_plaintext = insecure};
        for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
            struct net *n = NULL;
            struct err e = {0};
            ck_assert_int_eq(net_new(&options, &n, &e), 0);
            int rc = net_listen(n, cases[i].endpoint, bound, &e);
            ck_assert_msg(rc == (insecure ? cases[i].insecure : cases[i].without), "%s %d: %d %s",
                          cases[i].endpoint, insecure, rc, e.text);
            ck_assert(rc != SHOAL_E_CONFIG || (strstr(e.text, "insecure_plaintext") != NULL &&
                                               strstr(e.text, "shoal keygen") != NULL &&
                                               strstr(e.text, "ipc://PATH") != NULL));
            net_free(n);
        }
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            struct net *n = NULL;
            struct err e = {0};
            ck_assert_int_eq(net_new(&options, &n, &e), 0);
            ck_assert_int_eq(net_listen(n, wrong[i], bound, &e), SHOAL_E_CONFIG);
            net_free(n);
        }
    }
}
END_TEST

static void count_message(void *core, peer_t from, struct msg *m)
{
    struct client *c = core;
    (void)from;
    msg_free(m);
    c->received++;
}

static const struct env_handler count_handler = {count_message, no_drained, NULL};

START_TEST(net_drop_sends_loses_its_share)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){.drop_sends = 0.25}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    net_set_handler(c.net, &count_handler, &c);
    for (uint32_t sent = 0; sent < 4000;) {
        for (int i = 0; i < 100; i++, sent++)
            client_send(&c);
        /* waits for the answers, except lost ones: they must not pile up */
        for (int i = 0; i < 2500 && (s.seen < sent || c.received + 150 < sent * 3 / 4); i++)
            client_run(&c, SECOND / 500);
    }
    client_run(&c, SECOND / 2);
    ck_assert_uint_eq(s.seen, 4000);
    ck_assert_uint_eq(s.unsendable, 0);        /* a lost reply looks sent */
    ck_assert_uint_ge(c.received, 3000 - 150); /* 5 sigma = 137 */
    ck_assert_uint_le(c.received, 3000 + 150);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* ---- unknown peers --------------------------------------------------------------------------- */

/* Writes frames of a MiB, each with the flag that more follow, with pauses of some ms. Returns how
 * many were written. */
static int raw_unfinished(int fd, int frames)
{
    static uint8_t frame[9 + (1 << 20)] = {3, 0, 0, 0, 0, 0, 0x10, 0, 0};
    int sent = 0;
    while (sent < frames && raw_write(fd, frame, sizeof frame)) {
        sent++;
        usleep(2000);
    }
    return sent;
}

static bool raw_is_cut(int fd)
{
    char byte;
    ssize_t n = recv(fd, &byte, 1, MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

/* ZeroMQ neither limits the frames of a message that never ends nor shows them before its end. */
START_TEST(net_unfinished_messages_are_bounded)
{
    struct server s;
    struct client c;
    server_start(&s, (struct net_options){.connections_max = 20}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 20, 4, 1000);
    int fd = raw_dealer(s.bound);
    ck_assert(raw_write(fd, "\0\1x", 3)); /* a message: the peer is known now */
    int sent = raw_unfinished(fd, 300);
    ck_assert_int_ge(sent, LIMIT_MESSAGE_BYTES >> 20);
    ck_assert_int_lt(sent, 150);
    client_exchange(&c, 200, 4, 1000);
    close(fd);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

START_TEST(net_unfinished_messages_of_strangers_are_bounded_together)
{
    struct server s;
    struct client c;
    int fd[60], cut = 0;
    server_start(&s, (struct net_options){.connections_max = 200}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 20, 4, 1000);
    for (int i = 0; i < 60; i++) {
        fd[i] = raw_dealer(s.bound);
        (void)raw_unfinished(fd[i], 1);
    }
    usleep(200000);
    for (int i = 0; i < 60; i++)
        cut += raw_is_cut(fd[i]);
    ck_assert_int_ge(cut, 36);
    ck_assert_int_le(cut, 40);
    ck_assert(raw_is_cut(fd[0]) && !raw_is_cut(fd[59])); /* the oldest was cut */
    client_exchange(&c, 200, 4, 1000);
    for (int i = 0; i < 60; i++)
        close(fd[i]);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* Their messages wait in ZeroMQ, many times the allowed size of one; none is unfinished. */
START_TEST(net_who_waits_for_a_late_loop_is_not_cut)
{
    static uint8_t message[9 + (4 << 20)] = {2, 0, 0, 0, 0, 0, 0x40, 0, 0};
    struct server s;
    int fd[8];
    server_start(&s, (struct net_options){.connections_max = 20, .drain_budget = 1},
                 "tcp://127.0.0.1:0");
    s.quiet = true;
    s.slow_us = 10000;
    for (int i = 0; i < 8; i++)
        fd[i] = raw_dealer(s.bound);
    for (int i = 0; i < 80; i++)
        ck_assert(raw_write(fd[i % 8], message, sizeof message));
    seen_wait(&s, 80);
    ck_assert_uint_eq(s.seen, 80);
    for (int i = 0; i < 8; i++) {
        ck_assert(!raw_is_cut(fd[i]));
        close(fd[i]);
    }
    server_stop(&s);
}
END_TEST

/* Checked again and again while messages wait: each is counted for the connection that it came
 * from. */
START_TEST(net_who_has_sent_much_is_not_cut)
{
    static uint8_t message[9 + (1 << 20)] = {2, 0, 0, 0, 0, 0, 0x10, 0, 0};
    struct server s;
    server_start(&s, (struct net_options){.connections_max = 20, .drain_budget = 4},
                 "tcp://127.0.0.1:0");
    s.quiet = true;
    s.slow_us = 1000;
    int fd = raw_dealer(s.bound);
    for (int i = 0; i < 400; i++)
        ck_assert(raw_write(fd, message, sizeof message));
    seen_wait(&s, 400);
    usleep(100000);
    ck_assert(!raw_is_cut(fd));
    close(fd);
    server_stop(&s);
}
END_TEST

START_TEST(net_garbage_on_the_port_harms_nobody)
{
    static const uint8_t greeting[] = {0xff, 0,    0, 0, 0,   0,   0,   0,
                                       1,    0x7f, 3, 1, 'N', 'U', 'L', 'L'};
    struct server s;
    struct client c;
    struct rng rng = rng_of(11, 0, 0);
    int open[64];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    for (int i = 0; i < 64; i++) {
        uint8_t noise[3000];
        for (size_t k = 0; k < sizeof(noise); k++)
            noise[k] = (uint8_t)rng_next(&rng);
        open[i] = raw_connect(s.bound);
        if (i % 3 != 0) /* some begin like ZMTP */
            memcpy(noise, greeting, i % 3 == 1 ? 10 : sizeof(greeting));
        ssize_t sent = send(open[i], noise, 1 + rng_below(&rng, sizeof(noise) - 1), MSG_NOSIGNAL);
        ck_assert_int_ge(sent, 1);
        if (i % 4 == 0) {
            close(open[i]);
            open[i] = -1;
        }
    }
    client_exchange(&c, 500, 4, 20000);
    for (int i = 0; i < 64; i++)
        if (open[i] >= 0)
            close(open[i]);
    client_exchange(&c, 500, 4, 20000);
    net_free(c.net);
    server_stop(&s);
    /* some noise makes messages of ZMTP 1: the core's decoder refuses them */
    ck_assert_uint_ge(s.seen, 1000);
}
END_TEST

static void *foreign_open(void *context, const char *bound)
{
    int linger = 0, timeout = 2000;
    void *z = zmq_socket(context, ZMQ_DEALER);
    zmq_setsockopt(z, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(z, ZMQ_RCVTIMEO, &timeout, sizeof(timeout));
    zmq_setsockopt(z, ZMQ_SNDTIMEO, &timeout, sizeof(timeout));
    ck_assert_int_eq(zmq_connect(z, bound), 0);
    return z;
}

static void foreign_frames(void *z, int frames, size_t bytes)
{
    char *data = calloc(1, bytes + 1);
    for (int i = 0; i < frames; i++)
        ck_assert_int_eq(zmq_send(z, data, bytes, i + 1 < frames ? ZMQ_SNDMORE : 0), (int)bytes);
    free(data);
}

START_TEST(net_foreign_messages_harm_nobody)
{
    struct server s;
    struct client c;
    char reply[64];
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    void *context = zmq_ctx_new();
    void *z = foreign_open(context, s.bound);
    foreign_frames(z, LIMIT_FRAMES, 5);     /* the largest message: echoed */
    foreign_frames(z, LIMIT_FRAMES + 1, 5); /* dropped */
    foreign_frames(z, 10, 20000);           /* dropped */
    foreign_frames(z, 5000, 1);             /* dropped */
    foreign_frames(z, 1, 0);                /* an empty one is a message: echoed */
    for (int i = 0; i < LIMIT_FRAMES; i++)
        ck_assert_int_eq(zmq_recv(z, reply, sizeof(reply), 0), 5);
    ck_assert_int_eq(zmq_recv(z, reply, sizeof(reply), 0), 0);
    seen_wait(&s, 2);
    client_exchange(&c, 100, 4, 1000);
    foreign_frames(z, 1, LIMIT_FRAME_BYTES + 1); /* the peer loses its connection */
    client_exchange(&c, 100, 4, 1000);
    seen_wait(&s, 202);
    zmq_close(z);
    zmq_ctx_term(context);
    net_free(c.net);
    server_stop(&s);
    ck_assert_uint_eq(msg_frames_live(), 0);
}
END_TEST

/* ---- time, work, signals --------------------------------------------------------------------- */

struct clockwork {
    struct net *net;
    struct env *env;
    struct env_timer a, b, c;
    struct env_work work;
    uint64_t fired_ns[3];
    int fires, order[8];
    atomic_bool begun;
    pthread_t ran_on;
    bool done;
    int signo;
};

static void clockwork_fire(struct clockwork *k, struct env_timer *t, int which)
{
    ck_assert_uint_eq(t->due_ns, 0);
    k->fired_ns[which] = env_now_ns(k->env);
    k->order[k->fires++] = which;
}

static void fire_a(struct env_timer *t)
{
    struct clockwork *k = container_of(t, struct clockwork, a);
    clockwork_fire(k, t, 0);
    env_timer_stop(k->env, &k->c);
    env_timer_stop(k->env, &k->c);
}

static void fire_b(struct env_timer *t)
{
    struct clockwork *k = container_of(t, struct clockwork, b);
    clockwork_fire(k, t, 1);
    if (k->fires < 4)
        env_timer_start(k->env, t, 0); /* restarting it does not block the loop */
    else
        env_stop(k->env);
}

static void fire_c(struct env_timer *t)
{
    struct clockwork *k = container_of(t, struct clockwork, c);
    clockwork_fire(k, t, 2);
}

START_TEST(net_timers_fire_in_order_and_never_early)
{
    struct clockwork k = {.a.fire = fire_a, .b.fire = fire_b, .c.fire = fire_c};
    struct err e = {0};
    ck_assert_int_eq(net_new(&plain, &k.net, &e), 0);
    k.env = net_env(k.net);
    uint64_t began = env_now_ns(k.env);
    env_timer_start(k.env, &k.a, 10 * SECOND);
    env_timer_start(k.env, &k.a, 20300000); /* restarted: 20.3 ms */
    env_timer_start(k.env, &k.b, 30700000);
    env_timer_start(k.env, &k.c, 60000000); /* stopped by a */
    ck_assert_uint_ge(k.a.due_ns, began + 20300000);
    net_run(k.net);
    ck_assert_int_eq(k.fires, 4);
    ck_assert_int_eq(k.order[0], 0);
    ck_assert_int_eq(k.order[1], 1);
    ck_assert_uint_ge(k.fired_ns[0], began + 20300000);
    ck_assert_uint_ge(k.fired_ns[1], began + 30700000);
    ck_assert_uint_ne(env_random(k.env), env_random(k.env));
    net_free(k.net);
}
END_TEST

static void work_run(struct env_work *w)
{
    struct clockwork *k = container_of(w, struct clockwork, work);
    atomic_store(&k->begun, true);
    usleep(20000);
    k->ran_on = pthread_self();
}

static void work_done(struct env_work *w)
{
    struct clockwork *k = container_of(w, struct clockwork, work);
    k->done = true;
    if (++k->fires == 3)
        env_stop(k->env);
    else
        env_work_start(k->env, w);
}

START_TEST(net_work_runs_elsewhere_and_ends_on_the_loop)
{
    struct clockwork k = {.work.run = work_run, .work.done = work_done};
    struct err e = {0};
    ck_assert_int_eq(net_new(&plain, &k.net, &e), 0);
    k.env = net_env(k.net);
    env_work_start(k.env, &k.work);
    ck_assert(!k.done);
    net_run(k.net);
    ck_assert_int_eq(k.fires, 3);
    ck_assert(!pthread_equal(k.ran_on, pthread_self()));
    k.done = false;
    k.ran_on = 0;
    atomic_store(&k.begun, false);
    env_work_start(k.env, &k.work);
    while (!atomic_load(&k.begun))
        usleep(1000);
    net_free(k.net);
    ck_assert(k.ran_on != 0); /* it was waited for */
    ck_assert(!k.done);       /* and its end was not reported */
}
END_TEST

/* Timers that restart themselves and take longer than their interval. */
struct grind {
    struct env *env;
    struct env_timer a, b;
    struct env_work work;
    int fired;
    bool done;
};

static void grind_fire(struct grind *g, struct env_timer *t)
{
    usleep(3000);
    if (!g->done && ++g->fired < 400)
        env_timer_start(g->env, t, SECOND / 1000);
    else
        env_stop(g->env);
}

static void grind_a(struct env_timer *t)
{
    grind_fire(container_of(t, struct grind, a), t);
}

static void grind_b(struct env_timer *t)
{
    grind_fire(container_of(t, struct grind, b), t);
}

static void grind_run(struct env_work *w)
{
    (void)w;
}

static void grind_done(struct env_work *w)
{
    (container_of(w, struct grind, work))->done = true;
}

START_TEST(net_slow_timers_do_not_keep_the_rest_of_the_loop_waiting)
{
    struct net_options options = {0};
    struct grind g = {.a = {.fire = grind_a},
                      .b = {.fire = grind_b},
                      .work = {.run = grind_run, .done = grind_done}};
    struct net *net;
    struct err e;
    ck_assert_int_eq(net_new(&options, &net, &e), 0);
    g.env = net_env(net);
    env_timer_start(g.env, &g.a, 0);
    env_timer_start(g.env, &g.b, 0);
    env_work_start(g.env, &g.work);
    net_run(net);
    ck_assert(g.done);
    ck_assert_int_lt(g.fired, 50);
    net_free(net);
}
END_TEST

static void step_fire(struct env_timer *t)
{
    struct grind *g = container_of(t, struct grind, a);
    g->fired++;
    if (!g->done && g->fired < 100000)
        env_timer_start(g->env, t, 0);
    else
        env_stop(g->env);
}

static void stop_fire(struct env_timer *t)
{
    (container_of(t, struct grind, b))->done = true;
}

/* Work in steps restarts its timer at once: the rest of the loop gets its turn between two
 * steps. */
START_TEST(net_steps_leave_the_loop_its_turn)
{
    struct net_options options = {0};
    struct grind g = {.a = {.fire = step_fire}, .b = {.fire = stop_fire}};
    struct net *net;
    struct err e;
    ck_assert_int_eq(net_new(&options, &net, &e), 0);
    g.env = net_env(net);
    env_timer_start(g.env, &g.a, 0);
    env_timer_start(g.env, &g.b, SECOND / 50);
    net_run(net);
    ck_assert(g.done);
    ck_assert_int_lt(g.fired, 1000);
    net_free(net);
}
END_TEST

static void signal_seen(void *context, int signo)
{
    struct clockwork *k = context;
    k->signo = signo;
    env_stop(k->env);
}

START_TEST(net_signals_reach_the_loop)
{
    struct clockwork k = {.signo = 0};
    struct err e = {0};
    ck_assert_int_eq(net_new(&plain, &k.net, &e), 0);
    k.env = net_env(k.net);
    ck_assert_int_eq(net_signals(k.net, signal_seen, &k), 0);
    raise(SIGTERM);
    net_run(k.net);
    ck_assert_int_eq(k.signo, SIGTERM);
    raise(SIGINT);
    net_run(k.net);
    ck_assert_int_eq(k.signo, SIGINT);
    raise(SIGHUP);
    net_run(k.net);
    ck_assert_int_eq(k.signo, SIGHUP);
    net_interrupt(k.net); /* before the run: it ends at once */
    net_run(k.net);
    net_free(k.net);
}
END_TEST

/* Any number of peers connect: beyond the limit they are cut, known peers continue, and there is
 * room again once the others have left (here: because they never sent a message). */
START_TEST(net_connections_are_bounded)
{
    struct server s;
    struct client c, late;
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd[200], said = memfd_create("said", MFD_CLOEXEC);
    char text[4096] = "";
    ck_assert_int_ge(dup2(said, STDERR_FILENO), 0);
    server_start(&s, (struct net_options){.connections_max = 20}, "tcp://127.0.0.1:0");
    client_open(&c, s.bound);
    client_exchange(&c, 20, 4, 1000);
    address.sin_port = htons((uint16_t)atoi(strrchr(s.bound, ':') + 1));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int cut = 0;
    for (int i = 0; i < 200; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(connect(fd[i], (const struct sockaddr *)&address, sizeof address), 0);
    }
    usleep(500000);
    for (int i = 0; i < 200; i++) {
        char greeting[128];
        ssize_t n = recv(fd[i], greeting, sizeof greeting, MSG_DONTWAIT);
        while (n > 0)
            n = recv(fd[i], greeting, sizeof greeting, MSG_DONTWAIT);
        cut += n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
    }
    ck_assert_int_ge(cut, 150);
    ck_assert_int_lt(cut, 190);
    client_exchange(&c, 200, 4, 1000);
    usleep(3500000); /* silent ones are cut after 3 s */
    client_open(&late, s.bound);
    client_exchange(&late, 20, 4, 1000);
    ck_assert_int_gt(pread(said, text, sizeof text - 1, 0), 0); /* names the limit to raise */
    ck_assert_ptr_nonnull(strstr(text, "more than 20 connections"));
    ck_assert_ptr_nonnull(strstr(text, "LimitNOFILE="));
    for (int i = 0; i < 200; i++)
        close(fd[i]);
    net_free(late.net);
    net_free(c.net);
    server_stop(&s);
}
END_TEST

/* With LIMIT_PEERS known peers, one makes room for the next, and the core is told which one: it may
 * hold state of it. After its stop the core is told nothing. */
START_TEST(net_tells_of_peers_that_made_room)
{
    struct server s;
    server_start(&s, (struct net_options){0}, "tcp://127.0.0.1:0");
    s.quiet = true;
    for (unsigned i = 0; i < LIMIT_PEERS + 3; i++) {
        int fd = raw_dealer(s.bound);
        s.stops = i == LIMIT_PEERS + 2;
        ck_assert(raw_write(fd, "\0\10 a word", 10));
        seen_wait(&s, i + 1);
        unsigned gone = i < LIMIT_PEERS ? 0 : i + 1 - LIMIT_PEERS - s.stops;
        for (int ms = 0; ms < 2000 && s.gone < gone; ms++)
            usleep(1000);
        ck_assert_uint_eq(s.gone, gone);
        close(fd);
    }
    pthread_join(s.thread, NULL);
    ck_assert_uint_eq(s.gone, 2);
    net_free(s.net);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("net");
    TCase *t = tcase_create("net");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, net_carries_mebibyte_frames);
    tcase_add_test(t, net_tells_of_peers_that_made_room);
    tcase_add_test(t, net_carries_messages_over_ipc);
    tcase_add_test(t, net_knows_a_path_at_which_nobody_listens);
    tcase_add_test(t, net_frames_of_every_size_are_aligned_and_whole);
    tcase_add_test(t, net_warm_path_allocates_nothing);
    tcase_add_test(t, net_never_sleeps_on_a_used_edge);
    tcase_add_test(t, net_send_does_not_swallow_the_edge_of_a_reply);
    tcase_add_test(t, net_many_clients_share_a_server_and_a_context);
    tcase_add_test(t, net_forked_process_has_a_context_of_its_own);
    tcase_add_test(t, net_full_peer_answers_busy_and_then_gets_all);
    tcase_add_test(t, net_queues_are_bounded_in_bytes_too);
    tcase_add_test(t, net_unreachable_server_answers_busy_when_the_queue_is_full);
    tcase_add_test(t, net_stop_sends_what_waits_first);
    tcase_add_test(t, net_stop_waits_no_longer_than_its_second);
    tcase_add_test(t, net_connection_out_stays_when_what_waits_is_dropped);
    tcase_add_test(t, net_old_connection_reaches_a_new_server);
    tcase_add_test(t, net_server_that_was_away_is_reached_soon);
    tcase_add_test(t, net_tells_of_who_left_before_the_answer);
    tcase_add_test(t, net_tells_of_every_connection_that_closes);
    tcase_add_loop_test(t, net_tells_when_a_connection_out_closes, 0, 2);
    tcase_add_test(t, net_disconnects_what_is_gone);
    tcase_add_test(t, net_connection_that_cannot_be_leaves_nothing);
    tcase_add_test(t, net_peer_that_left_is_unavailable);
    tcase_add_test(t, net_disconnects_inside_a_message);
    tcase_add_test(t, net_refuses_a_port_in_use);
    tcase_add_test(t, net_listens_on_tcp_with_keys_alone_unless_told);
    tcase_add_test(t, net_drop_sends_loses_its_share);
    tcase_add_test(t, net_garbage_on_the_port_harms_nobody);
    tcase_add_test(t, net_connections_are_bounded);
    tcase_add_test(t, net_unfinished_messages_are_bounded);
    tcase_add_test(t, net_unfinished_messages_of_strangers_are_bounded_together);
    tcase_add_test(t, net_who_waits_for_a_late_loop_is_not_cut);
    tcase_add_test(t, net_who_has_sent_much_is_not_cut);
    tcase_add_test(t, net_foreign_messages_harm_nobody);
    tcase_add_test(t, net_timers_fire_in_order_and_never_early);
    tcase_add_test(t, net_slow_timers_do_not_keep_the_rest_of_the_loop_waiting);
    tcase_add_test(t, net_steps_leave_the_loop_its_turn);
    tcase_add_test(t, net_work_runs_elsewhere_and_ends_on_the_loop);
    tcase_add_test(t, net_signals_reach_the_loop);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
