/* net_env.c: the calls of a core (env.h) over one loop. A connection out shows keys to the other
 * side, and the coordinator's may be one of two. */
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/net/local.h"
#include "proto/net/name.h"
#include "proto/net/net_inner.h"
#include "proto/net/shake.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Interval of checks of the coordinator's handshakes, where both sides show keys. */
#define SHAKE_MS 250
#define STOP_NS UINT64_C(1000000000)

static struct net *net_of(struct env *env)
{
    return container_of(env, struct net, env);
}

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
    net_touch(l); /* it consumes edges (net.c, 1) */
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
    struct line *l = net_line_open(n, false, &e);
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
        net_line_close(l);
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
        net_line_close(p->owner);
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
    net_touch(p->owner);
    n->sending = true;
    int rc = peers_send(n->peers, p, m, uv_hrtime());
    if (rc == SHOAL_E_UNAVAILABLE)
        net_peer_left(n, p);
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

const struct env_ops net_ops = {
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
