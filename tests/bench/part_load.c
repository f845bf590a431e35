/* part_load.c: pushes, pulls and questions of one connection each. */
#include "tests/bench/part_load.h"

#include "proto/base/container_of.h"
#include "proto/base/time.h"

#include <stdlib.h>

/* ---- requests -------------------------------------------------------------------------------- */

static void fail(struct load *l, const char *what)
{
    if (l->why.code == 0)
        err_set(&l->why, SHOAL_E_INTERNAL, "%s could not be sent", what);
    env_stop(l->env);
}

static void push_send(struct load *l)
{
    const uint64_t *keys = l->keys + (l->sequence % LOAD_SETS) * PART_KEYS;
    uint32_t count = PART_KEYS;
    if (l->filling) { /* rows that the table does not have yet, spread over it */
        uint64_t *fresh = l->fill_keys[l->batch % LOAD_WINDOW];
        count = l->rows - l->filled < PART_KEYS ? (uint32_t)(l->rows - l->filled) : PART_KEYS;
        for (uint32_t i = 0; i < count; i++)
            fresh[i] = part_key(l->filled++);
        part_keys_sort(fresh, count);
        keys = fresh;
    }
    const struct part_push push = {l->batch++, 0, 1u << PART_TABLET_BITS, l->gradients};
    struct msg *m = part_request(++l->sequence, keys, count, &push);
    if (m == NULL || env_send(l->env, l->pusher, m) != 0) {
        fail(l, "a push");
        return;
    }
    l->pushes++;
}

static void pull_send(struct load *l)
{
    const uint64_t *keys = l->keys + (l->sequence * 7 % LOAD_SETS) * PART_KEYS;
    struct msg *m = part_request(++l->sequence, keys, PART_KEYS, NULL);
    l->pull_began = time_monotonic_ns();
    if (m == NULL || env_send(l->env, l->puller, m) != 0)
        fail(l, "a pull");
}

static void pull_answered(struct load *l)
{
    if (l->pulled != NULL && l->pulled->count < LOAD_TIMES)
        l->pulled->ns[l->pulled->count++] = time_monotonic_ns() - l->pull_began;
    l->pull_began = 0;
    if (l->pulling)
        pull_send(l);
}

static void push_answered(struct load *l)
{
    l->pushes--;
    if (l->filling && l->filled >= l->rows) {
        if (l->pushes == 0)
            env_stop(l->env);
    } else if (l->pushing) {
        push_send(l);
    }
}

static void load_on_message(void *core, peer_t from, struct msg *m)
{
    struct load *l = core;
    struct wire w;
    int rc = wire_decode(m, &w, &l->why);
    if (rc == 0 && from == l->asker) {
        if (w.id == l->asked && l->answer == 1) {
            l->answer = w.status;
            l->reply = w;
            env_stop(l->env);
        }
    } else if (rc == 0 && w.status != 0) {
        err_set(&l->why, w.status, "the server: %s", w.error);
        env_stop(l->env);
    } else if (rc == 0 && w.type == WIRE_TYPE_PULL) {
        pull_answered(l);
    } else if (rc == 0) {
        push_answered(l);
    }
    if (rc != 0 || (!l->pushing && !l->pulling && l->pushes == 0 && l->pull_began == 0))
        env_stop(l->env);
    msg_free(m);
}

static void load_on_drained(void *core)
{
    (void)core;
}

static void deadline_fire(struct env_timer *t)
{
    env_stop((container_of(t, struct load, deadline))->env);
}

/* ---- driving --------------------------------------------------------------------------------- */

int part_load_connect(struct load *l, struct err *e)
{
    static const struct env_handler handler = {load_on_message, load_on_drained, NULL};
    struct net_options none = {0};
    int rc = net_new(&none, &l->net, e);
    if (rc != 0)
        return rc;
    l->env = net_env(l->net);
    net_set_handler(l->net, &handler, l);
    l->deadline.fire = deadline_fire;
    l->pushes = 0;
    l->pull_began = 0;
    if (env_connect(l->env, l->server.endpoint, ENV_COORDINATOR, &l->pusher) != 0 ||
        env_connect(l->env, l->server.endpoint, ENV_COORDINATOR, &l->puller) != 0 ||
        env_connect(l->env, l->server.endpoint, ENV_COORDINATOR, &l->asker) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE, "cannot connect to %s", l->server.endpoint);
    return 0;
}

void part_load_disconnect(struct load *l)
{
    if (l->net != NULL)
        net_free(l->net);
    l->net = NULL;
}

static int turn(struct load *l, struct err *e)
{
    net_run(l->net);
    return l->why.code == 0 ? 0 : err_set(e, l->why.code, "%s", l->why.text);
}

static void flow(struct load *l)
{
    while (l->pushing && l->pushes < LOAD_WINDOW && !(l->filling && l->filled >= l->rows))
        push_send(l);
    if (l->pulling && l->pull_began == 0)
        pull_send(l);
}

int part_load_run(struct load *l, double seconds, struct times *pulled, struct err *e)
{
    l->pulled = pulled;
    flow(l);
    env_timer_start(l->env, &l->deadline, (uint64_t)(seconds * 1e9));
    int rc = turn(l, e);
    env_timer_stop(l->env, &l->deadline);
    l->pulled = NULL;
    return rc;
}

int part_load_ask(struct load *l, struct wire *w, struct err *e)
{
    w->id = l->asked = ++l->sequence;
    l->answer = 1;
    struct msg *m = wire_encode(w);
    if (m == NULL || env_send(l->env, l->asker, m) != 0)
        return err_set(e, SHOAL_E_INTERNAL, "a question could not be sent");
    flow(l);
    int rc = 0;
    while (rc == 0 && l->answer == 1)
        rc = turn(l, e);
    return rc != 0 || l->answer == 0
               ? rc
               : err_set(e, l->answer, "%s: %s", wire_type_name(w->type), l->reply.error);
}

int part_load_rest(struct load *l, struct err *e)
{
    int rc = 0;
    l->pushing = l->pulling = false;
    while (rc == 0 && (l->pushes > 0 || l->pull_began != 0))
        rc = turn(l, e);
    return rc;
}

int part_load_fill(struct load *l, struct times *pulled, struct err *e)
{
    l->pushing = l->filling = l->pulling = true;
    l->pulled = pulled;
    flow(l);
    int rc = turn(l, e);
    l->pulled = NULL;
    l->filling = false;
    return rc;
}

int part_load_prepare(struct load *l, uint64_t rows)
{
    struct rng r = {99};
    l->rows = rows;
    l->keys = malloc(sizeof *l->keys * LOAD_SETS * PART_KEYS);
    l->gradients = malloc(sizeof *l->gradients * PART_KEYS * PART_WIDTH);
    if (l->keys == NULL || l->gradients == NULL)
        return SHOAL_E_NOMEM;
    for (size_t i = 0; i < (size_t)PART_KEYS * PART_WIDTH; i++)
        l->gradients[i] = 1e-3f;
    for (size_t i = 0; i < (size_t)LOAD_SETS * PART_KEYS; i++)
        l->keys[i] = part_key(rng_below(&r, rows));
    for (size_t s = 0; s < LOAD_SETS; s++)
        part_keys_sort(l->keys + s * PART_KEYS, PART_KEYS);
    return 0;
}

void part_load_release(struct load *l)
{
    free(l->keys);
    free(l->gradients);
}
