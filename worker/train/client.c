/* client.c: a client's life, its coordinator, and the messages that come in. */
#include "worker/train/client_inner.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"

#include <stdlib.h>

/* ---- the coordinator ------------------------------------------------------------------------- */

static void coordinator_moved(struct coordinators *of, peer_t before)
{
    struct client *c = container_of(of, struct client, coordinators);
    if (before != 0)
        client_hello(c, of->peer, 0);
    client_hasten(c, CLIENT_COORDINATOR, c->last_order);
}

const char *client_coordinator(const struct client *c)
{
    return coordinators_endpoint(&c->coordinators);
}

uint64_t client_heard_ns(const struct client *c)
{
    return c->heard_ns;
}

/* ---- messages in ----------------------------------------------------------------------------- */

void client_decoded(struct client *c, peer_t from, const struct wire *w, const struct msg *m)
{
    if (coordinators_heard(&c->coordinators, from, w))
        return;
    struct request *r = client_find(c, from, w);
    if (from == c->coordinators.peer && w->reply)
        c->heard_ns = env_now_ns(c->env);
    if (w->reply && w->type == WIRE_TYPE_HELLO)
        client_ping_answer(c, from, w->id);
    if (r != NULL && r->target != CLIENT_COORDINATOR)
        client_seek_heard(c, r->target, w->status);
    if (r != NULL)
        client_answer(c, r, w, m);
    else if (w->reply && w->status == SHOAL_E_VERSION)
        log_error("refused: %s", w->error);
}

void client_message(struct client *c, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e = {0};
    if (wire_decode(m, &w, &e) != 0)
        log_warn("a message was dropped: %s", e.text);
    else
        client_decoded(c, from, &w, m);
    msg_free(m);
}

/* ---- life ------------------------------------------------------------------------------------ */

int client_new(struct env *env, const struct client_options *options, struct client **out,
               struct err *e)
{
    SHOAL_ASSERT(env != NULL && options->coordinator != NULL);
    struct client *c = calloc(1, sizeof *c);
    if (c == NULL)
        return err_set(e, SHOAL_E_NOMEM, "no memory for the client");
    c->env = env;
    c->options = *options;
    client_requests_init(c);
    client_shards_init(c);
    client_ping_init(c);
    client_seek_init(c);
    c->coordinators = (struct coordinators){.moved = coordinator_moved, .logs = true};
    int rc = coordinators_open(&c->coordinators, env, options->coordinator, e);
    if (rc != 0) {
        free(c);
        return rc;
    }
    c->options.coordinator = NULL;
    client_hello(c, c->coordinators.peer, 0);
    *out = c;
    return 0;
}

void client_free(struct client *c)
{
    if (c == NULL)
        return;
    env_timer_stop(c->env, &c->timer);
    env_timer_stop(c->env, &c->seek_timer);
    client_shards_close(c);
    coordinators_close(&c->coordinators);
    free(c);
}

uint64_t client_now_ns(const struct client *c)
{
    return env_now_ns(c->env);
}
