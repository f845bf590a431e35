/* net.c: one turn of the loop drains sockets, calls the core, flushes queues and advances time.
 *
 * 1. A socket is `touched` from the moment its descriptor fired, or a message was sent or received
 *    on it, until ZMQ_EVENTS or a receive has said that there is no input. Only then may the loop
 *    sleep on its descriptor, because the edge may have been consumed already. [assert: prepare_cb]
 *    [test: net_never_sleeps_on_a_used_edge, net_send_does_not_swallow_the_edge_of_a_reply]
 * 2. prepare: if a touched socket has input, the idle handle runs, so that the loop does not sleep.
 *    check: drain at most drain_budget messages, call on_drained once if there was one, flush the
 *    queues of peers. [assert: drain, prepare_cb]
 * 3. After env_stop no message is delivered; the loop goes on while messages wait to be sent, for 1
 *    s at most. [assert: line_drain] [test: net_stop_sends_what_waits_first]
 * 4. on_peer_gone is called in the check step, never from inside env_send, and only for a peer that
 *    the core has not disconnected. The loop does not sleep before. [assert: check_cb, prepare_cb]
 *    [test: net_tells_of_every_connection_that_closes] */
#include "proto/net/net.h"

#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/net/later.h"
#include "proto/net/local.h"
#include "proto/net/name.h"
#include "proto/net/peer.h"
#include "proto/net/probe.h"
#include "proto/net/recent.h"
#include "proto/net/shake.h"
#include "proto/net/sock.h"
#include "proto/net/zap.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>
#include <zmq.h>

#define DRAIN_BUDGET 64
/* Interval of checks of the coordinator's handshakes, where both sides show keys. */
#define SHAKE_MS 250
#define STOP_NS UINT64_C(1000000000)
#define RETRY_MS 2 /* retry interval of a full pipe, in case its own signal was consumed */
/* Interval of checks for new connections and unfinished messages, while bytes come. An excess is
 * found within two checks, so the bounds below may be exceeded by what a line of 2 GB/s brings in
 * that time. */
#define LOOK_MS 4
/* From a cut to the trim of the heap: ZeroMQ needs a while to free millions of frames. */
#define TRIM_NS UINT64_C(1000000000)
/* Strangers together: somewhat more than one message, because a worker that reconnects may begin
 * with its largest. Known peers together: half of what 64 workers send that push 8 MiB each. */
#define UNFINISHED_STRANGERS (24ull << 20)
#define UNFINISHED_KNOWN (256ull << 20)

struct line { /* a socket on the loop */
    uv_poll_t poll;
    uv_poll_t watch;  /* a DEALER's: its connection */
    uint32_t handles; /* of these, open in the loop */
    struct net *net;
    struct sock *sock; /* owned; NULL once closed */
    struct peer *peer; /* a DEALER's; NULL on the ROUTER */
    bool touched;
    struct line *next_touched;
    char *endpoint; /* owned; the coordinator's, where handshakes are watched; else NULL */
    uint32_t pin;   /* index of the coordinator's key that is expected now */
    bool pinned_now;
    struct line *next, *prev; /* list of all open lines */
};

struct net {
    struct env env;
    uv_loop_t loop;
    uv_prepare_t prepare;
    uv_check_t check;
    uv_idle_t idle;
    uv_async_t interrupt;
    uv_timer_t retry, shake;
    struct recent shakes;     /* failed handshakes that were logged */
    char wrong[ERR_TEXT_MAX]; /* net_wrong */
    uv_signal_t terminated, interrupted, hung_up;
    struct later later;
    struct probes probes;
    struct net_options options;
    struct rng rng;

    const struct env_handler *handler; /* borrowed */
    void *core;                        /* borrowed */
    void (*on_signal)(void *context, int signo);
    void *signal_context;

    struct peers *peers;       /* owned */
    struct line *lines;        /* owned: the open ones */
    struct line *router;       /* one of them, or NULL */
    struct zap_domain *domain; /* owned; the router's, where it asks for keys; else NULL */
    bool plain;                /* it listens on tcp without keys */
    struct {                   /* the router's connections */
        uv_poll_t connections, unfinished;
        uv_timer_t look;
        struct env_work trim; /* trims the heap after a cut */
        bool on, cut, trimming;
        uint64_t cut_ns;
    } watch;
    struct line *touched, **touched_end; /* a queue */
    peer_t *gone;                        /* owned: to be told to the core; 0: no more */
    uint32_t gone_count, gone_capacity;
    bool stopping, sending; /* env_stop was called; env_send is being called */
    uint64_t stop_by_ns;
};

static struct net *net_of(struct env *env)
{
    return container_of(env, struct net, env);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void touch(struct line *l)
{
    struct net *n = l->net;
    if (!l->touched) {
        l->touched = true;
        l->next_touched = NULL;
        *n->touched_end = l;
        n->touched_end = &l->next_touched;
    }
}

/* Removes the line at *link from the queue of touched ones. */
static void untouch(struct net *n, struct line **link)
{
    struct line *l = *link;
    SHOAL_ASSERT(l->touched);
    l->touched = false;
    *link = l->next_touched;
    if (n->touched_end == &l->next_touched)
        n->touched_end = link;
}

static void poll_cb(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    touch(poll->data);
}

static void line_closed_cb(uv_handle_t *handle)
{
    struct line *l = handle->data;
    if (--l->handles > 0)
        return;
    free(l->endpoint);
    free(l);
}

static void gone(struct net *n, peer_t name)
{
    /* without memory it is lost: it is only a hint */
    if (name != 0 && array_room(&n->gone, n->gone_count, &n->gone_capacity, 16) == 0)
        n->gone[n->gone_count++] = name;
}

/* The core has disconnected it. */
static void gone_forget(struct net *n, peer_t name)
{
    for (uint32_t i = 0; i < n->gone_count; i++)
        if (n->gone[i] == name)
            n->gone[i] = 0;
}

static void out_cb(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct line *l = poll->data;
    if (sock_out_step(l->sock))
        gone(l->net, l->peer->name);
}

static int line_poll(struct line *l, uv_poll_t *poll, int descriptor, uv_poll_cb call,
                     struct err *e)
{
    int rc = uv_poll_init(&l->net->loop, poll, descriptor);
    if (rc != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "cannot watch a socket: %s", uv_strerror(rc));
    l->handles++;
    poll->data = l;
    rc = uv_poll_start(poll, UV_READABLE, call);
    SHOAL_ASSERT(rc == 0);
    return 0;
}

/* The struct is freed once libuv has closed its handles, at the end of this turn of the loop. */
static void line_free(struct line *l)
{
    if (l->handles > 1)
        uv_close((uv_handle_t *)&l->watch, line_closed_cb);
    if (l->handles > 0)
        uv_close((uv_handle_t *)&l->poll, line_closed_cb); /* before the descriptor is closed */
    sock_close(l->sock);
    l->sock = NULL;
    if (l->handles == 0)
        free(l);
}

static struct line *line_open(struct net *n, bool router, struct err *e)
{
    struct line *l = calloc(1, sizeof(*l));
    if (l == NULL) {
        err_set(e, SHOAL_E_NOMEM, "out of memory for a socket");
        return NULL;
    }
    l->net = n;
    int rc = sock_open(router, &l->sock, e);
    if (rc == 0)
        rc = line_poll(l, &l->poll, sock_descriptor(l->sock), poll_cb, e);
    if (rc == 0 && !router)
        rc = sock_out_watch(l->sock, e);
    if (rc == 0 && !router)
        rc = line_poll(l, &l->watch, sock_watch_descriptor(l->sock), out_cb, e);
    if (rc != 0) {
        line_free(l);
        return NULL;
    }
    if (!router)
        (void)sock_out_step(l->sock); /* its descriptor reports nothing before */
    l->next = n->lines;
    if (n->lines != NULL)
        n->lines->prev = l;
    n->lines = l;
    touch(l);
    return l;
}

static void line_close(struct line *l)
{
    struct net *n = l->net;
    if (l->peer != NULL) {
        gone_forget(n, l->peer->name);
        peers_remove(n->peers, l->peer);
        l->peer = NULL;
    }
    for (struct line **link = &n->touched; *link != NULL; link = &(*link)->next_touched) {
        if (*link == l) {
            untouch(n, link);
            break;
        }
    }
    if (l->prev != NULL)
        l->prev->next = l->next;
    else
        n->lines = l->next;
    if (l->next != NULL)
        l->next->prev = l->prev;
    line_free(l);
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* Asks for a report of the end of the connection on which a peer now sends. Ends of earlier
 * connections of that descriptor are taken first. */
static void peer_watch(struct net *n, struct peer *p, int connection)
{
    p->watched = connection;
    sock_watch_step(n->router->sock);
    sock_watch_name(n->router->sock, connection, p->name);
}

/* Delivers the line's messages within *budget. True when the line has no more input. */
static bool line_drain(struct line *l, uint32_t *budget, bool *delivered)
{
    struct net *n = l->net;
    struct sock_id id;
    while (*budget > 0 && !n->stopping) {
        struct msg *m = NULL;
        int rc = sock_receive(l->sock, &id, &m);
        if (rc == SHOAL_E_AGAIN)
            return true;
        --*budget;
        if (rc != 0) {
            log_debug("dropped a message: %s", err_text(rc));
            continue;
        }
        peer_t evicted = 0;
        struct peer *from = l->peer;
        if (from == NULL) {
            from = peers_heard(n->peers, l->sock, &id, &evicted);
            gone(n, evicted);
            if (from == NULL) {
                msg_free(m);
                continue;
            }
            from->owner = l;
            if (n->watch.on && from->watched != id.connection)
                peer_watch(n, from, id.connection);
        }
        SHOAL_ASSERT(!n->stopping); /* 3 */
        *delivered = true;
        n->handler->on_message(n->core, from->name, m);
        if (l->sock == NULL)
            return false; /* the core has disconnected it, which took it off the queue */
    }
    return false;
}

static void drain(struct net *n)
{
    uint32_t budget = n->options.drain_budget;
    bool delivered = false;
    if (n->watch.on && n->touched != NULL)
        sock_watch_step(n->router->sock); /* learns which connections the descriptors belong to */
    while (n->touched != NULL && budget > 0 && !n->stopping) {
        struct line *l = n->touched;
        bool empty = line_drain(l, &budget, &delivered);
        if (l->sock == NULL)
            continue;
        SHOAL_ASSERT(n->touched == l);
        untouch(n, &n->touched);
        if (!empty)
            touch(l); /* moves it behind the others: each gets its turn */
    }
    SHOAL_ASSERT(budget < n->options.drain_budget || !delivered); /* 2 */
    if (delivered)
        n->handler->on_drained(n->core);
}

static void peer_left(void *context, struct peer *p)
{
    struct net *n = context;
    if (p->incoming) {
        gone(n, p->name);
        peers_remove(n->peers, p);
    }
}

static void left_take(struct net *n)
{
    peer_t name;
    while (n->watch.on && (name = sock_watch_left(n->router->sock)) != 0) {
        struct peer *p = peers_find(n->peers, name);
        if (p != NULL)
            peer_left(n, p);
    }
}

static void flush(struct net *n)
{
    for (struct peer *p = peers_waiting(n->peers); p != NULL; p = p->next_waiting)
        touch(p->owner);
    peers_flush(n->peers, uv_hrtime(), peer_left, n);
}

static void retry_cb(uv_timer_t *timer)
{
    (void)timer; /* the check step of this turn does the work */
}

static bool stop_if_done(struct net *n)
{
    bool done = n->stopping && (peers_waiting(n->peers) == NULL || uv_hrtime() >= n->stop_by_ns);
    if (done)
        uv_stop(&n->loop);
    return done;
}

static void check_cb(uv_check_t *check)
{
    struct net *n = check->data;
    if (n->handler != NULL && n->touched != NULL)
        drain(n);
    if (peers_waiting(n->peers) != NULL)
        flush(n);
    left_take(n);
    SHOAL_ASSERT(!n->sending); /* 4 */
    for (uint32_t i = 0; i < n->gone_count; i++)
        if (n->gone[i] != 0 && n->handler != NULL && n->handler->on_peer_gone != NULL &&
            !n->stopping)
            n->handler->on_peer_gone(n->core, n->gone[i]);
    n->gone_count = 0;
    stop_if_done(n);
}

static void idle_cb(uv_idle_t *idle)
{
    (void)idle; /* an active idle handle keeps the loop from sleeping */
}

static void prepare_cb(uv_prepare_t *prepare)
{
    struct net *n = prepare->data;
    if (stop_if_done(n))
        return;
    for (struct line **link = &n->touched; *link != NULL;)
        if (sock_readable((*link)->sock))
            link = &(*link)->next_touched;
        else
            untouch(n, link);
    bool input = (n->touched != NULL || n->gone_count > 0) && n->handler != NULL && !n->stopping;
    if (input)
        uv_idle_start(&n->idle, idle_cb);
    else
        uv_idle_stop(&n->idle);
    /* the loop never sleeps on input, but may sleep while no core can take it (1, 2, 4) */
    SHOAL_ASSERT(input == (uv_is_active((uv_handle_t *)&n->idle) != 0));
    if (peers_waiting(n->peers) != NULL)
        uv_timer_start(&n->retry, retry_cb, RETRY_MS, 0);
}

/* ---- the env --------------------------------------------------------------------------------- */

static uint64_t op_now_ns(struct env *env)
{
    (void)env;
    return uv_hrtime();
}

static uint64_t op_wall_s(struct env *env)
{
    uv_timeval64_t now;
    (void)env;
    if (uv_gettimeofday(&now) == 0 && now.tv_sec > 0)
        return (uint64_t)now.tv_sec;
    return 0;
}

static uint64_t op_random(struct env *env)
{
    return rng_next(&net_of(env)->rng);
}

static void op_timer_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    later_timer_start(&net_of(env)->later, t, delay_ns);
}

static void op_timer_stop(struct env *env, struct env_timer *t)
{
    later_timer_stop(&net_of(env)->later, t);
}

static void op_work(struct env *env, struct env_work *w)
{
    later_work(&net_of(env)->later, w);
}

static void op_probe_start(struct env *env, struct env_probe *p, const char *endpoint)
{
    probes_start(&net_of(env)->probes, p, endpoint);
}

static void op_probe_stop(struct env *env, struct env_probe *p)
{
    probes_stop(&net_of(env)->probes, p);
}

/* A process with keys shows its own over tcp, and demands the other side's. */
static int keys_show(struct net *n, struct sock *s, const char *endpoint, const char *key,
                     struct err *e)
{
    const struct keyfile *own = n->options.keys;
    if (own == NULL || !sock_endpoint_tcp(endpoint))
        return 0;
    if (key == ENV_COORDINATOR && own->coordinator[0][0] == 0)
        return err_set(e, SHOAL_E_DENIED,
                       "%s: the key file pins no coordinator: make one with shoal keygen FILE "
                       "--coordinator COORDINATOR.pub",
                       endpoint);
    if (key == ENV_COORDINATOR)
        key = own->coordinator[0];
    if (!keyfile_key_ok(key))
        return err_set(e, SHOAL_E_DENIED, "%s: which key it has is not known", endpoint);
    return sock_keys_show(s, own, key, e);
}

/* ---- a coordinator whose key is changed ---- */

static void pin_change(struct net *n, struct line *l)
{
    const struct keyfile *own = n->options.keys;
    struct err e;
    uint32_t pins = own->coordinator[1][0] != 0 ? 2 : 1;
    shake_refused(&n->shakes, l->endpoint, pins);
    if (pins == 1)
        return;
    l->pin = !l->pin;
    l->pinned_now = true;
    touch(l); /* it consumes edges (1) */
    if (sock_keys_change(l->sock, l->endpoint, own->coordinator[l->pin], &e) != 0)
        log_error("connect: %s", e.text);
}

/* Ignores the events of the former session after a change of keys. */
static void shake_cb(uv_timer_t *timer)
{
    struct net *n = timer->data;
    for (struct line *l = n->lines; l != NULL; l = l->next) {
        if (l->endpoint == NULL)
            continue;
        enum sock_shake now = sock_shake_step(l->sock);
        if (now == SOCK_SHAKE_FAILED && !l->pinned_now)
            pin_change(n, l);
        else
            l->pinned_now = false;
    }
}

/* Watches the handshakes of a line that shows keys to the coordinator. */
static int shake_watch(struct net *n, struct line *l, const char *endpoint, struct err *e)
{
    l->endpoint = strdup(endpoint);
    if (l->endpoint == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for a connection");
    if (!uv_is_active((uv_handle_t *)&n->shake))
        uv_timer_start(&n->shake, shake_cb, SHAKE_MS, SHAKE_MS);
    return 0;
}

/* The line of a connection that failed is logged, and kept for the caller. */
static int connect_failed(struct net *n, const struct err *e)
{
    log_error("connect: %s", e->text);
    (void)snprintf(n->wrong, sizeof n->wrong, "%s", e->text);
    return e->code;
}

static int op_connect(struct env *env, const char *endpoint, const char *key, peer_t *out)
{
    struct net *n = net_of(env);
    struct err e = {0};
    struct line *l = line_open(n, false, &e);
    if (l == NULL) {
        err_wrap(&e, e.code, "%s", endpoint);
        return connect_failed(n, &e);
    }
    l->peer = peers_add(n->peers, l->sock);
    int rc = 0;
    if (l->peer == NULL)
        rc = err_set(&e, SHOAL_E_BUSY, "%s: too many connections", endpoint);
    if (rc == 0) {
        l->peer->owner = l;
        rc = keys_show(n, l->sock, endpoint, key, &e);
        if (rc == 0 && n->options.keys != NULL && key == ENV_COORDINATOR &&
            sock_endpoint_tcp(endpoint))
            rc = shake_watch(n, l, endpoint, &e);
        if (rc == 0)
            rc = sock_connect(l->sock, endpoint, &e);
    }
    if (rc != 0) {
        e.code = rc;
        line_close(l);
        return connect_failed(n, &e);
    }
    *out = l->peer->name;
    return 0;
}

static void op_disconnect(struct env *env, peer_t peer)
{
    struct net *n = net_of(env);
    struct peer *p = peers_find(n->peers, peer);
    if (p == NULL)
        return;
    if (p->incoming) {
        /* ZeroMQ cannot cut one peer of a ROUTER: if it sends again, it is a new peer */
        peers_remove(n->peers, p);
    } else {
        line_close(p->owner);
    }
}

static int op_send(struct env *env, peer_t to, struct msg *m)
{
    struct net *n = net_of(env);
    struct peer *p = peers_find(n->peers, to);
    if (p == NULL) {
        msg_free(m);
        return SHOAL_E_UNAVAILABLE;
    }
    if (p->incoming && n->options.drop_sends > 0 && rng_double(&n->rng) < n->options.drop_sends) {
        msg_free(m);
        return 0;
    }
    touch(p->owner);
    n->sending = true;
    int rc = peers_send(n->peers, p, m, uv_hrtime());
    if (rc == SHOAL_E_UNAVAILABLE)
        peer_left(n, p);
    n->sending = false;
    return rc;
}

static void op_stop(struct env *env)
{
    struct net *n = net_of(env);
    if (!n->stopping) {
        n->stopping = true;
        n->stop_by_ns = uv_hrtime() + STOP_NS;
    }
}

static void op_known(struct env *env, peer_t peer)
{
    struct net *n = net_of(env);
    struct peer *p = peers_find(n->peers, peer);
    if (p == NULL || !p->incoming)
        return;
    peers_known(n->peers, p);
    sock_known(p->sock, &p->id);
}

/* The role of a peer: by the allow-list where keys are used; over ipc by its user; else
 * (insecure_plaintext) the same for all. */
static enum role role_of(const struct net *n, const struct peer *p,
                         const struct keylist_entry *entry)
{
    if (n->domain != NULL && entry != NULL)
        return entry->role;
    if (n->domain == NULL && p->id.local)
        return local_role(p->id.user, p->id.group);
    if (n->domain == NULL && n->plain)
        return ROLE_LOCAL;
    return ROLE_NOBODY;
}

static const struct env_who *op_who(struct env *env, peer_t peer)
{
    static const struct env_who nobody = {.role = ROLE_NOBODY};
    struct net *n = net_of(env);
    struct peer *p = peers_find(n->peers, peer);
    uint64_t version = 0;
    if (p == NULL || !p->incoming)
        return &nobody;
    const struct keylist *list = NULL;
    if (n->domain != NULL)
        list = zap_domain_list(n->domain, &version);
    if (p->who_version == version)
        return &p->who;
    const struct keylist_entry *entry = NULL;
    if (list != NULL)
        entry = keylist_find(list, p->who.key);
    p->who_version = version;
    p->who.role = role_of(n, p, entry);
    (void)snprintf(p->who.name, sizeof p->who.name, "%s", entry != NULL ? entry->name : "");
    return &p->who;
}

static int op_listen(struct env *env, const char *endpoint, const char *host, char told[256],
                     struct err *e)
{
    char bound[256];
    int rc = net_listen(net_of(env), endpoint, bound, e);
    if (rc == 0)
        name_advertised(host, bound, "", told);
    return rc;
}

static int op_admit(struct env *env, const struct env_who *list, uint32_t count)
{
    struct keylist *keys;
    int rc = keylist_of(list, count, &keys);
    if (rc == 0)
        net_allow(net_of(env), keys);
    return rc;
}

static const struct env_ops net_ops = {
    .now_ns = op_now_ns,
    .random = op_random,
    .wall_s = op_wall_s,
    .timer_start = op_timer_start,
    .timer_stop = op_timer_stop,
    .connect = op_connect,
    .disconnect = op_disconnect,
    .send = op_send,
    .known = op_known,
    .who = op_who,
    .listen = op_listen,
    .admit = op_admit,
    .work = op_work,
    .probe_start = op_probe_start,
    .probe_stop = op_probe_stop,
    .stop = op_stop,
};

/* ---- from outside ---------------------------------------------------------------------------- */

static void interrupt_cb(uv_async_t *async)
{
    struct net *n = async->data;
    op_stop(&n->env);
}

static int loop_open(struct net *n, struct err *e)
{
    int rc = uv_loop_init(&n->loop);
    if (rc != 0) {
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "no event loop: %s; raise the limit of open files (ulimit -n)",
                       uv_strerror(rc));
    }
    rc = uv_async_init(&n->loop, &n->interrupt, interrupt_cb);
    SHOAL_ASSERT(rc == 0);
    uv_prepare_init(&n->loop, &n->prepare);
    uv_check_init(&n->loop, &n->check);
    uv_idle_init(&n->loop, &n->idle);
    uv_timer_init(&n->loop, &n->retry);
    uv_timer_init(&n->loop, &n->shake);
    n->shake.data = n;
    uv_signal_init(&n->loop, &n->terminated);
    uv_signal_init(&n->loop, &n->interrupted);
    uv_signal_init(&n->loop, &n->hung_up);
    n->interrupt.data = n->prepare.data = n->check.data = n->terminated.data = n->interrupted.data =
        n->hung_up.data = n;
    uv_prepare_start(&n->prepare, prepare_cb);
    uv_check_start(&n->check, check_cb);
    later_init(&n->later, &n->loop);
    probes_init(&n->probes, &n->later);
    return 0;
}

int net_new(const struct net_options *options, struct net **out, struct err *e)
{
    uint64_t seed = 0;
    if (getrandom(&seed, sizeof(seed), 0) != sizeof(seed))
        return err_set(e, SHOAL_E_INTERNAL, "the kernel gives no random numbers");
    struct net *n = calloc(1, sizeof(*n));
    if (n == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for a network loop");
    n->env.ops = &net_ops;
    n->options = *options;
    if (n->options.drain_budget == 0)
        n->options.drain_budget = DRAIN_BUDGET;
    n->rng = rng_of(seed, 0, 0);
    n->touched_end = &n->touched;
    n->peers = peers_new(rng_next(&n->rng), options->queue_bytes);
    int rc;
    if (n->peers == NULL)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory for a table of peers");
    else
        rc = sock_context_hold(n->options.io_threads, e);
    if (rc != 0)
        goto free_peers;
    rc = loop_open(n, e);
    if (rc != 0)
        goto release_context;
    *out = n;
    return 0;
release_context:
    sock_context_release();
free_peers:
    peers_free(n->peers);
    free(n);
    return rc;
}

void net_free(struct net *n)
{
    if (n == NULL)
        return;
    n->handler = NULL;
    probes_close(&n->probes);
    later_close(&n->later);
    probes_free(&n->probes);
    if (n->watch.on) { /* before its socket is closed */
        uv_close((uv_handle_t *)&n->watch.connections, NULL);
        uv_close((uv_handle_t *)&n->watch.unfinished, NULL);
        uv_close((uv_handle_t *)&n->watch.look, NULL);
    }
    while (n->lines != NULL)
        line_close(n->lines);
    uv_handle_t *handles[] = {
        (uv_handle_t *)&n->interrupt,  (uv_handle_t *)&n->prepare,     (uv_handle_t *)&n->check,
        (uv_handle_t *)&n->idle,       (uv_handle_t *)&n->retry,       (uv_handle_t *)&n->shake,
        (uv_handle_t *)&n->terminated, (uv_handle_t *)&n->interrupted, (uv_handle_t *)&n->hung_up};
    for (size_t i = 0; i < sizeof(handles) / sizeof(handles[0]); i++)
        uv_close(handles[i], NULL);
    uv_run(&n->loop, UV_RUN_DEFAULT);
    int rc = uv_loop_close(&n->loop);
    SHOAL_ASSERT(rc == 0);
    later_free(&n->later);
    peers_free(n->peers);
    zap_domain_free(n->domain);
    sock_context_release();
    free(n->gone);
    free(n);
}

const char *net_wrong(const struct net *n)
{
    return n->wrong;
}

struct env *net_env(struct net *n)
{
    return &n->env;
}

static void look_cb(uv_timer_t *timer);

/* Connections changed or bytes came: both polls stop until the next look. */
static void watch_cb(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    struct net *n = poll->data;
    uv_poll_stop(&n->watch.connections);
    uv_poll_stop(&n->watch.unfinished);
    uv_timer_start(&n->watch.look, look_cb, LOOK_MS, 0);
}

static void watch_sleep(struct net *n)
{
    uv_poll_start(&n->watch.connections, UV_READABLE, watch_cb);
    uv_poll_start(&n->watch.unfinished, UV_READABLE, watch_cb);
}

static void trim_run(struct env_work *w)
{
    (void)w;
    sock_heap_trim();
}

static void trim_done(struct env_work *w)
{
    struct net *n = container_of(w, struct net, watch.trim);
    n->watch.trimming = false;
}

/* Trims the heap a second after a cut, when ZeroMQ has freed the frames. */
static void trim(struct net *n, uint64_t now_ns)
{
    if (!n->watch.cut || n->watch.trimming || now_ns - n->watch.cut_ns < TRIM_NS)
        return;
    n->watch.cut = false;
    n->watch.trimming = true;
    later_work(&n->later, &n->watch.trim);
}

static void look_cb(uv_timer_t *timer)
{
    struct net *n = timer->data;
    uint64_t now_ns = uv_hrtime();
    bool cut = false;
    touch(n->router); /* it queries the socket, which consumes edges (1) */
    bool more = sock_unfinished_step(n->router->sock, now_ns, &cut);
    left_take(n);
    trim(n, now_ns);
    if (cut && !n->watch.cut) {
        n->watch.cut = true;
        n->watch.cut_ns = now_ns;
    }
    if (more || n->watch.cut)
        uv_timer_start(&n->watch.look, look_cb, LOOK_MS, 0);
    else
        watch_sleep(n);
}

static int watch_start(struct net *n, struct err *e)
{
    static const struct conn_bounds bounds = {.one = LIMIT_MESSAGE_BYTES + LIMIT_HEADER_BYTES,
                                              .strangers = UNFINISHED_STRANGERS,
                                              .known = UNFINISHED_KNOWN};
    struct sock *s = n->router->sock;
    int rc = sock_watch_start(s, n->options.connections_max, &bounds, e);
    if (rc != 0)
        return rc;
    if (uv_poll_init(&n->loop, &n->watch.connections, sock_watch_descriptor(s)) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "cannot watch connections");
    if (uv_poll_init(&n->loop, &n->watch.unfinished, sock_unfinished_descriptor(s)) != 0) {
        uv_close((uv_handle_t *)&n->watch.connections, NULL);
        return err_set(e, SHOAL_E_UNAVAILABLE, "cannot watch connections");
    }
    uv_timer_init(&n->loop, &n->watch.look);
    n->watch.connections.data = n->watch.unfinished.data = n->watch.look.data = n;
    n->watch.trim.run = trim_run;
    n->watch.trim.done = trim_done;
    n->watch.on = true;
    sock_watch_step(s);
    watch_sleep(n);
    return 0;
}

int net_listen_check(const char *endpoint, bool keys, bool insecure_plaintext, struct err *e)
{
    return sock_endpoint_check(endpoint, keys || insecure_plaintext, e);
}

bool net_listened(const char *endpoint)
{
    return strncmp(endpoint, "ipc://", 6) != 0 || sock_ipc_answers(endpoint);
}

/* No peer is admitted before there is a list (zap.h). */
static int keys_ask(struct net *n, struct err *e)
{
    if (n->domain != NULL)
        return 0;
    n->domain = zap_domain_new();
    if (n->domain == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for a list of keys");
    return sock_keys_ask(n->router->sock, n->options.keys, zap_domain_name(n->domain), e);
}

uint32_t net_refused(const struct net *n, struct net_refused out[NET_REFUSED_MOST])
{
    if (n->domain == NULL)
        return 0;
    return zap_domain_refused(n->domain, out);
}

void net_allow(struct net *n, struct keylist *list)
{
    if (n->domain != NULL)
        zap_domain_set(n->domain, list);
    else
        keylist_free(list); /* without keys there is no list */
}

int net_listen(struct net *n, const char *endpoint, char bound[256], struct err *e)
{
    bool keys = n->options.keys != NULL;
    int rc = sock_endpoint_check(endpoint, keys || n->options.insecure_plaintext, e);
    if (rc != 0)
        return rc;
    if (n->router == NULL) {
        n->router = line_open(n, true, e);
        if (n->router == NULL)
            return SHOAL_E_UNAVAILABLE;
        if (n->options.connections_max > 0 && (rc = watch_start(n, e)) != 0)
            return rc;
    }
    n->plain = n->plain || (!keys && sock_endpoint_tcp(endpoint));
    if (keys && sock_endpoint_tcp(endpoint) && (rc = keys_ask(n, e)) != 0)
        return rc;
    return sock_bind(n->router->sock, endpoint, bound, e);
}

void net_set_handler(struct net *n, const struct env_handler *handler, void *core)
{
    n->handler = handler;
    n->core = core;
}

void net_run(struct net *n)
{
    uv_run(&n->loop, UV_RUN_DEFAULT);
    n->stopping = false;
}

void net_interrupt(struct net *n)
{
    uv_async_send(&n->interrupt);
}

static void signal_cb(uv_signal_t *handle, int signo)
{
    struct net *n = handle->data;
    n->on_signal(n->signal_context, signo);
}

int net_signals(struct net *n, void (*on_signal)(void *context, int signo), void *context)
{
    n->on_signal = on_signal;
    n->signal_context = context;
    int rc = uv_signal_start(&n->terminated, signal_cb, SIGTERM);
    if (rc == 0)
        rc = uv_signal_start(&n->interrupted, signal_cb, SIGINT);
    if (rc == 0)
        rc = uv_signal_start(&n->hung_up, signal_cb, SIGHUP);
    if (rc != 0)
        return SHOAL_E_INTERNAL;
    return 0;
}

const char *net_libraries(void)
{
    static char text[64];
    int major, minor, patch;
    zmq_version(&major, &minor, &patch);
    (void)snprintf(text, sizeof text, "libzmq %d.%d.%d, libuv %s", major, minor, patch,
                   uv_version_string());
    return text;
}
