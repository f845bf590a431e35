/* coordinators.c: the choice of the coordinator to ask, and the connection to it. */
#include "proto/wire/coordinators.h"

#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/log.h"
#include "proto/base/minmax.h"

#include <stdio.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define PAUSE_NS (100 * MS)
#define SELDOM_NS (1000 * MS)
#define SELDOM_AFTER 64u
#define PING_NS (500 * MS) /* from a request to the HELLO, and from there to the change */

/* ---- the list -------------------------------------------------------------------------------- */

int coordinators_parse(const char *list, struct coordinators *c, struct err *e)
{
    for (c->count = 0; list != NULL; c->count++) {
        const char *text = list + strspn(list, " ");
        size_t bytes = strcspn(text, ",");
        if (c->count == COORDINATORS_MAX)
            return err_set(e, SHOAL_E_CONFIG, "coordinator: the list has more than %u endpoints",
                           COORDINATORS_MAX);
        if (bytes >= COORDINATORS_BYTES || memmem(text, bytes, "://", 3) == NULL)
            return err_set(e, SHOAL_E_CONFIG,
                           "coordinator: endpoint %u of the list is not tcp://HOST:PORT or "
                           "ipc://PATH in less than %u bytes; a comma is between two",
                           c->count + 1, COORDINATORS_BYTES);
        memcpy(c->endpoint[c->count], text, bytes);
        c->endpoint[c->count][bytes] = '\0';
        list = NULL;
        if (text[bytes] == ',')
            list = &text[bytes + 1];
    }
    return 0;
}

bool coordinators_tcp(const char *list)
{
    return strstr(list, "tcp://") != NULL;
}

int coordinators_toward(const char *list,
                        int (*toward)(const char *endpoint, char address[64], struct err *e),
                        char address[64], struct err *e)
{
    struct coordinators c;
    int rc = coordinators_parse(list, &c, e);
    if (rc != 0)
        return rc;
    for (uint32_t i = 0; i < c.count; i++) {
        rc = toward(c.endpoint[i], address, e);
        if (rc == 0)
            break;
    }
    return rc;
}

const char *coordinators_endpoint(const struct coordinators *c)
{
    return c->endpoint[c->at];
}

/* ---- the connection -------------------------------------------------------------------------- */

static uint32_t next_of(const struct coordinators *c)
{
    return (c->at + 1) % c->count;
}

/* Plans the change to `to`, not before `pause_ns` from now, and not too soon after the last one. */
static void plan(struct coordinators *c, uint32_t to, uint64_t pause_ns)
{
    uint64_t now = env_now_ns(c->env), rest = PAUSE_NS;
    if (c->moves >= SELDOM_AFTER)
        rest = SELDOM_NS;
    c->to = to;
    c->move_ns = now + pause_ns;
    if (c->moved_ns != 0)
        c->move_ns = MAX(c->move_ns, c->moved_ns + rest);
    env_timer_start(c->env, &c->timer, c->move_ns - now);
}

static void move(struct coordinators *c)
{
    peer_t before = 0, peer;
    c->move_ns = 0;
    c->moved_ns = env_now_ns(c->env);
    c->moves++;
    c->owed_ns = 0;
    if (c->to != c->at) {
        uint32_t from = c->at;
        c->at = c->to;
        int rc = env_connect(c->env, c->endpoint[c->at], ENV_COORDINATOR, &peer);
        if (rc != 0) {
            log_warn("the coordinator's endpoint %s cannot be used: %s", c->endpoint[c->at],
                     err_text(rc));
            uint32_t next = next_of(c);
            c->at = from; /* the connection that it has stays */
            plan(c, next, SELDOM_NS);
            return;
        }
        before = c->peer;
        c->peer = peer;
        env_disconnect(c->env, before);
    }
    c->moved(c, before);
}

/* While an answer takes its time, another question shows that the coordinator is there. */
static void ping(struct coordinators *c)
{
    struct wire w;
    memset(&w, 0, sizeof w);
    w.type = WIRE_TYPE_HELLO;
    w.u.HELLO.version = WIRE_VERSION;
    struct msg *m = wire_encode(&w);
    if (m != NULL)
        (void)env_send(c->env, c->peer, m);
}

static void fire(struct env_timer *t)
{
    struct coordinators *c = container_of(t, struct coordinators, timer);
    uint64_t now = env_now_ns(c->env);
    if (c->move_ns != 0 && now >= c->move_ns) {
        move(c);
    } else if (c->move_ns != 0) {
        env_timer_start(c->env, t, c->move_ns - now);
    } else if (c->owed_ns != 0 && c->pinged) {
        plan(c, next_of(c), 0); /* an answer that waits to be read still keeps the connection */
    } else if (c->owed_ns != 0) {
        c->pinged = true;
        ping(c);
        env_timer_start(c->env, t, PING_NS);
    }
}

int coordinators_open(struct coordinators *c, struct env *env, const char *list, struct err *e)
{
    SHOAL_ASSERT(c->moved != NULL && c->peer == 0);
    int rc = coordinators_parse(list, c, e);
    if (rc != 0)
        return rc;
    c->env = env;
    c->timer.fire = fire;
    rc = env_connect(env, c->endpoint[0], ENV_COORDINATOR, &c->peer);
    if (rc == 0)
        return 0;
    c->peer = 0;
    return err_set(
        e, rc,
        "the coordinator's endpoint %s cannot be used: %s; write tcp://HOST:PORT or ipc://PATH",
        c->endpoint[0], err_text(rc));
}

void coordinators_close(struct coordinators *c)
{
    if (c->peer == 0)
        return;
    env_timer_stop(c->env, &c->timer);
    env_disconnect(c->env, c->peer);
    c->peer = 0;
}

/* ---- what happens ---------------------------------------------------------------------------- */

void coordinators_asked(struct coordinators *c)
{
    if (c->count < 2 || c->owed_ns != 0 || c->move_ns != 0)
        return;
    c->owed_ns = env_now_ns(c->env);
    c->pinged = false;
    if (c->timer.due_ns == 0)
        env_timer_start(c->env, &c->timer, PING_NS);
}

bool coordinators_named(const char *refusal, char endpoint[COORDINATORS_BYTES])
{
    const char *name = strchr(COORDINATORS_LEADS, '%'), *after = name + strlen("%s");
    size_t before = (size_t)(name - COORDINATORS_LEADS), rest = strlen(after),
           bytes = strlen(refusal);
    if (bytes <= before + rest || bytes - before - rest >= COORDINATORS_BYTES ||
        memcmp(refusal, COORDINATORS_LEADS, before) != 0 ||
        strcmp(&refusal[bytes - rest], after) != 0)
        return false;
    memcpy(endpoint, &refusal[before], bytes - before - rest);
    endpoint[bytes - before - rest] = '\0';
    return true;
}

/* True for the refusal of a coordinator that stands by. *leader: the number of the one that it
 * names in the list; c->count: none. */
static bool stands_by(const struct coordinators *c, const struct wire *w, uint32_t *leader)
{
    char name[COORDINATORS_BYTES];
    *leader = c->count;
    if (w->status != SHOAL_E_NOT_LEADER)
        return false;
    if (!coordinators_named(w->error, name))
        return strcmp(w->error, COORDINATORS_NONE) == 0;
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->endpoint[i], name) == 0)
            *leader = i;
    return true;
}

bool coordinators_heard(struct coordinators *c, peer_t from, const struct wire *w)
{
    uint32_t leader;
    if (from != c->peer || !w->reply)
        return false;
    c->owed_ns = 0;
    if (!stands_by(c, w, &leader)) {
        if (c->moves > 0 && c->logs)
            log_info("the coordinator at %s leads", coordinators_endpoint(c));
        c->moves = 0;
        c->move_ns = 0;
        return false;
    }
    if (c->logs && leader == c->count && strcmp(w->error, COORDINATORS_NONE) != 0 &&
        c->moves % SELDOM_AFTER == 0)
        log_warn("the coordinator at %s says: %s; that endpoint is not in `coordinator`, %u are",
                 coordinators_endpoint(c), w->error, c->count);
    if (leader < c->count && leader != c->at)
        plan(c, leader, 0);
    else if (c->move_ns == 0)
        plan(c, next_of(c), PAUSE_NS);
    return true;
}

void coordinators_gone(struct coordinators *c, peer_t peer)
{
    if (c->count > 1 && peer == c->peer && c->peer != 0 && c->move_ns == 0)
        plan(c, next_of(c), 0);
}
