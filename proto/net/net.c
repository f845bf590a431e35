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
#include "proto/base/assert.h"
#include "proto/base/log.h"
#include "proto/net/net_inner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <zmq.h>

#define DRAIN_BUDGET 64
#define RETRY_MS 2 /* retry interval of a full pipe, in case its own signal was consumed */

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
            net_gone(n, evicted);
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
        net_untouch(n, &n->touched);
        if (!empty)
            net_touch(l); /* moves it behind the others: each gets its turn */
    }
    SHOAL_ASSERT(budget < n->options.drain_budget || !delivered); /* 2 */
    if (delivered)
        n->handler->on_drained(n->core);
}

static void flush(struct net *n)
{
    for (struct peer *p = peers_waiting(n->peers); p != NULL; p = p->next_waiting)
        net_touch(p->owner);
    peers_flush(n->peers, uv_hrtime(), net_peer_left, n);
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
    net_left_take(n);
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
            net_untouch(n, link);
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

/* ---- its life -------------------------------------------------------------------------------- */

static void interrupt_cb(uv_async_t *async)
{
    struct net *n = async->data;
    env_stop(&n->env);
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
        net_line_close(n->lines);
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
