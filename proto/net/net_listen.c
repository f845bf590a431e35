/* net_listen.c: the ROUTER: which peers may connect, and how much a connection may leave
 * unfinished (conn.h). */
#include "proto/base/container_of.h"
#include "proto/base/limits.h"
#include "proto/net/net_inner.h"

#include <string.h>

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
    net_touch(n->router); /* it queries the socket, which consumes edges (net.c, 1) */
    bool more = sock_unfinished_step(n->router->sock, now_ns, &cut);
    net_left_take(n);
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
        n->router = net_line_open(n, true, e);
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
