/* net_line.c: the sockets on the loop: touched ones (net.c, 1), and peers that leave. */
#include "proto/base/array.h"
#include "proto/base/assert.h"
#include "proto/net/net_inner.h"

#include <stdlib.h>

void net_touch(struct line *l)
{
    struct net *n = l->net;
    if (!l->touched) {
        l->touched = true;
        l->next_touched = NULL;
        *n->touched_end = l;
        n->touched_end = &l->next_touched;
    }
}

void net_untouch(struct net *n, struct line **link)
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
    net_touch(poll->data);
}

static void line_closed_cb(uv_handle_t *handle)
{
    struct line *l = handle->data;
    if (--l->handles > 0)
        return;
    free(l->endpoint);
    free(l);
}

void net_gone(struct net *n, peer_t name)
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
        net_gone(l->net, l->peer->name);
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

struct line *net_line_open(struct net *n, bool router, struct err *e)
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
    net_touch(l);
    return l;
}

void net_line_close(struct line *l)
{
    struct net *n = l->net;
    if (l->peer != NULL) {
        gone_forget(n, l->peer->name);
        peers_remove(n->peers, l->peer);
        l->peer = NULL;
    }
    for (struct line **link = &n->touched; *link != NULL; link = &(*link)->next_touched) {
        if (*link == l) {
            net_untouch(n, link);
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

void net_peer_left(void *context, struct peer *p)
{
    struct net *n = context;
    if (p->incoming) {
        net_gone(n, p->name);
        peers_remove(n->peers, p);
    }
}

void net_left_take(struct net *n)
{
    peer_t name;
    while (n->watch.on && (name = sock_watch_left(n->router->sock)) != 0) {
        struct peer *p = peers_find(n->peers, name);
        if (p != NULL)
            net_peer_left(n, p);
    }
}
