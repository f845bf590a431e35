/* sim.c: many nodes, one virtual clock, one heap of events, one seed.
 *
 * 1. Events run in order of (time, number); numbers are given out as events are made. Nothing else decides an order: no
 * address, no hash table, no real clock.
 * 2. What the network does is drawn from one generator, in the order of the sends; each node has a generator of its
 * own.
 * 3. Messages of a connection arrive in the order sent, unless `reorder`. A copy of a message is deep.
 * 4. A message is meant for the node that listens when it is sent: if that node is dead when it arrives, or nobody
 * listens, it is lost. The next message of an old connection reaches whoever listens at the address by then, under a
 * new name.
 * 5. A dead or stopped node gets nothing more, and none of the core's memory is touched again. */
#include "proto/net/sim.h"

#include "proto/base/assert.h"
#include "proto/base/err.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "proto/net/sim_heap.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define ENDPOINT_BYTES 256
#define BATCH 64                           /* messages for one node at one instant, before on_drained */
#define IN_FLIGHT (LIMIT_PEER_QUEUE + 16u) /* of a connection and direction: what queue and pipe of the real one hold  \
                                            */

struct channel {      /* one direction of a connection */
    uint64_t last_ns; /* when its latest message arrives */
    uint32_t in_flight;
    uint64_t in_flight_bytes;
};

struct link { /* a connection: from a client to an address */
    struct sim_node *client;
    struct sim_node *server; /* who was reached last, or NULL */
    peer_t client_name;      /* the link in the eyes of the client */
    peer_t server_name;      /* and of that server */
    bool closed;
    struct channel up, down;
    char endpoint[ENDPOINT_BYTES];
};

struct end { /* what a peer_t names: one end's view of a link */
    struct link *link;
    struct sim_node *owner;
    bool up; /* the owner is the client: it sends upwards */
};

struct sim_node {
    struct env env;
    struct sim *sim;
    char name[LIMIT_NAME];
    uint64_t index;
    struct rng rng;
    const struct env_handler *handler;
    void *core;
    bool dead, stopped;
    uint64_t paused_until_ns;
    struct sim_node *next;
};

struct address {
    char endpoint[ENDPOINT_BYTES];
    struct sim_node *node;
    struct address *next;
};

struct sim {
    struct sim_options options;
    uint64_t now_ns, trace;
    struct rng rng;
    struct event_heap heap;
    struct end *ends; /* owned; a peer_t is an index + 1 */
    size_t end_count, end_capacity;
    struct link **links; /* owned */
    size_t link_count, link_capacity;
    struct sim_node *nodes; /* owned */
    uint64_t node_count;
    struct address *addresses; /* owned */
};

/* The simulator has nobody to tell that memory is short. */
static void *need(void *p)
{
    SHOAL_ASSERT(p != NULL);
    return p;
}

static void *grow(void *array, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity) {
        return array;
    }
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    return need(realloc(array, *capacity * item_bytes));
}

static struct sim_node *node_of(struct env *env)
{
    return (struct sim_node *)(void *)((char *)env - offsetof(struct sim_node, env));
}

static void trace(struct sim *s, uint64_t a, uint64_t b, uint64_t c)
{
    s->trace = rng_mix(s->trace ^ rng_mix(a ^ rng_mix(b ^ rng_mix(c))));
}

/* ---- the network ------------------------------------------------------------------------------------------- */

static bool running(const struct sim_node *n)
{
    return n != NULL && !n->dead && !n->stopped;
}

static struct end *end_find(struct sim_node *n, peer_t name)
{
    struct sim *s = n->sim;
    if (name == 0 || name > s->end_count || s->ends[name - 1].owner != n || s->ends[name - 1].link->closed) {
        return NULL;
    }
    return &s->ends[name - 1];
}

static peer_t end_new(struct sim *s, struct link *l, struct sim_node *owner, bool up)
{
    s->ends = grow(s->ends, s->end_count, &s->end_capacity, sizeof(struct end));
    s->ends[s->end_count++] = (struct end){l, owner, up};
    return s->end_count;
}

static struct sim_node *listener(struct sim *s, const char *endpoint)
{
    for (struct address *a = s->addresses; a != NULL; a = a->next) {
        if (strcmp(a->endpoint, endpoint) == 0 && running(a->node)) {
            return a->node;
        }
    }
    return NULL;
}

/* The server that the link reaches now; a new one knows it by a new name. */
static struct sim_node *link_server(struct sim *s, struct link *l)
{
    struct sim_node *node = listener(s, l->endpoint);
    if (node != NULL && node != l->server) {
        l->server = node;
        l->server_name = end_new(s, l, node, false);
    }
    return node;
}

static uint64_t draw(struct rng *r, uint64_t least, uint64_t most)
{
    return most > least ? least + rng_below(r, most - least + 1) : least;
}

static bool chance(struct sim *s, double share)
{
    return rng_double(&s->rng) < share;
}

static uint64_t arrival(struct sim *s, struct channel *c)
{
    uint64_t at_ns = s->now_ns + draw(&s->rng, s->options.delay_min_ns, s->options.delay_max_ns);
    if (!s->options.reorder && at_ns < c->last_ns) {
        at_ns = c->last_ns;
    }
    if (at_ns > c->last_ns) {
        c->last_ns = at_ns;
    }
    return at_ns;
}

/* Ends an event that will not run. */
static void event_drop(struct sim *s, struct event *e)
{
    if (e->kind == EVENT_MESSAGE) {
        e->channel->in_flight--;
        e->channel->in_flight_bytes -= msg_bytes(e->m);
        msg_free(e->m);
    }
    heap_give(&s->heap, e);
}

static void message_start(struct sim *s, struct channel *c, struct sim_node *node, peer_t from, struct msg *m)
{
    m->next = NULL;
    struct event *e = heap_take(&s->heap, EVENT_MESSAGE, node, arrival(s, c));
    e->channel = c;
    e->from = from;
    e->m = m;
    c->in_flight++;
    c->in_flight_bytes += msg_bytes(m);
    heap_push(&s->heap, e);
}

static int op_send(struct env *env, peer_t to, struct msg *m)
{
    struct sim_node *n = node_of(env);
    struct sim *s = n->sim;
    struct end *end = n->dead ? NULL : end_find(n, to);
    if (end == NULL) {
        msg_free(m);
        return SHOAL_E_UNAVAILABLE;
    }
    struct link *l = end->link;
    bool up = end->up;
    struct channel *c = up ? &l->up : &l->down;
    if (c->in_flight >= IN_FLIGHT || c->in_flight_bytes + msg_bytes(m) > LIMIT_PEER_BYTES) {
        msg_free(m);
        return SHOAL_E_BUSY;
    }
    struct sim_node *node = up ? link_server(s, l) : running(l->client) ? l->client : NULL;
    peer_t from = up ? l->server_name : l->client_name;
    bool lost = chance(s, s->options.drop);
    bool twice = chance(s, s->options.duplicate);
    if (node == NULL || lost) {
        msg_free(m);
        return 0;
    }
    if (twice) {
        message_start(s, c, node, from, need(msg_copy(m)));
    }
    message_start(s, c, node, from, m);
    return 0;
}

static int op_connect(struct env *env, const char *endpoint, peer_t *out)
{
    struct sim_node *n = node_of(env);
    struct sim *s = n->sim;
    if (strncmp(endpoint, "sim://", 6) != 0 || strlen(endpoint) >= ENDPOINT_BYTES) {
        return SHOAL_E_CONFIG;
    }
    struct link *l = need(calloc(1, sizeof(*l)));
    memcpy(l->endpoint, endpoint, strlen(endpoint) + 1);
    l->client = n;
    s->links = grow(s->links, s->link_count, &s->link_capacity, sizeof(struct link *));
    s->links[s->link_count++] = l;
    l->client_name = end_new(s, l, n, true);
    *out = l->client_name;
    return 0;
}

static void op_disconnect(struct env *env, peer_t peer)
{
    struct sim_node *n = node_of(env);
    struct sim *s = n->sim;
    struct end *end = end_find(n, peer);
    if (end == NULL) {
        return;
    }
    struct link *l = end->link;
    if (!end->up) { /* as with ZeroMQ: should the client speak again, it is a new peer */
        end->owner = NULL;
        l->server = NULL;
        return;
    }
    l->closed = true;
    if (running(l->server)) {
        struct event *e = heap_take(&s->heap, EVENT_GONE, l->server, arrival(s, &l->up));
        e->from = l->server_name;
        heap_push(&s->heap, e);
    }
}

/* ---- time, work, the end ----------------------------------------------------------------------------------- */

static uint64_t op_now_ns(struct env *env)
{
    return node_of(env)->sim->now_ns;
}

static uint64_t op_wall_s(struct env *env)
{
    const struct sim *s = node_of(env)->sim;
    return s->options.wall_s == 0 ? 0 : s->options.wall_s + s->now_ns / 1000000000;
}

static uint64_t op_random(struct env *env)
{
    return rng_next(&node_of(env)->rng);
}

static void op_timer_stop(struct env *env, struct env_timer *t)
{
    struct sim_node *n = node_of(env);
    if (!running(n) || t->impl == NULL) {
        return; /* the events of a dead node went with it */
    }
    struct event *e = t->impl;
    SHOAL_ASSERT(e->timer == t);
    heap_remove(&n->sim->heap, e);
    event_drop(n->sim, e);
    t->impl = NULL;
    t->due_ns = 0;
}

static void op_timer_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    struct sim_node *n = node_of(env);
    struct sim *s = n->sim;
    if (!running(n)) {
        return;
    }
    op_timer_stop(env, t);
    t->due_ns = delay_ns > INT64_MAX - s->now_ns ? INT64_MAX : s->now_ns + delay_ns;
    struct event *e = heap_take(&s->heap, EVENT_TIMER, n, t->due_ns);
    e->timer = t;
    t->impl = e;
    heap_push(&s->heap, e);
}

static void op_work(struct env *env, struct env_work *w)
{
    struct sim_node *n = node_of(env);
    struct sim *s = n->sim;
    if (!running(n)) {
        return;
    }
    w->ran_ns = draw(&s->rng, s->options.work_min_ns, s->options.work_max_ns);
    struct event *e = heap_take(&s->heap, EVENT_WORK, n, s->now_ns + w->ran_ns);
    e->work = w;
    heap_push(&s->heap, e);
}

/* Takes a node's events away. */
static void events_purge(struct sim *s, const struct sim_node *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->heap.count; i++) {
        if (s->heap.at[i]->node == n) {
            event_drop(s, s->heap.at[i]);
        } else {
            s->heap.at[kept++] = s->heap.at[i];
        }
    }
    heap_rebuild(&s->heap, kept);
}

static void op_stop(struct env *env)
{
    struct sim_node *n = node_of(env);
    n->stopped = true;
    events_purge(n->sim, n);
}

static const struct env_ops sim_ops = {
    .now_ns = op_now_ns,
    .random = op_random,
    .wall_s = op_wall_s,
    .timer_start = op_timer_start,
    .timer_stop = op_timer_stop,
    .connect = op_connect,
    .disconnect = op_disconnect,
    .send = op_send,
    .work = op_work,
    .stop = op_stop,
};

/* ---- running ----------------------------------------------------------------------------------------------- */

static uint64_t message_hash(const struct msg *m)
{
    uint64_t h = m->frame_count;
    for (uint32_t i = 0; i < m->frame_count; i++) {
        h = hash_bytes(m->frame[i].data, m->frame[i].bytes, h);
    }
    return h;
}

/* The name under which a message arrives: the one of its sending, unless the node has hung up on that peer since. */
static peer_t arrival_name(struct sim *s, struct sim_node *n, peer_t from)
{
    struct link *l = s->ends[from - 1].link;
    if (s->ends[from - 1].owner == n) {
        return from;
    }
    if (l->server != n) {
        l->server = n;
        l->server_name = end_new(s, l, n, false);
    }
    return l->server_name;
}

/* Delivers e's message (the event is freed); whether the core saw it. */
static bool message_deliver(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    struct msg *m = e->m;
    peer_t from = arrival_name(s, n, e->from);
    const struct end *end = &s->ends[from - 1];
    trace(s, s->now_ns, n->index << 8 | EVENT_MESSAGE, message_hash(m));
    e->channel->in_flight--;
    e->channel->in_flight_bytes -= msg_bytes(m);
    heap_give(&s->heap, e);
    if (n->handler == NULL || (end->up && end->link->closed)) {
        msg_free(m);
        return false;
    }
    n->handler->on_message(n->core, from, m);
    return true;
}

static void messages_deliver(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    bool delivered = message_deliver(s, e);
    for (int i = 1; i < BATCH && running(n) && n->paused_until_ns <= s->now_ns && s->heap.count > 0; i++) {
        e = s->heap.at[0];
        if (e->kind != EVENT_MESSAGE || e->node != n || e->at_ns > s->now_ns) {
            break;
        }
        delivered |= message_deliver(s, heap_pop(&s->heap));
    }
    if (delivered && !n->dead) {
        n->handler->on_drained(n->core);
    }
}

static void event_run(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    if (e->kind == EVENT_MESSAGE) {
        messages_deliver(s, e);
        return;
    }
    trace(s, s->now_ns, n->index << 8 | e->kind, e->from);
    struct event copy = *e;
    heap_give(&s->heap, e);
    switch (copy.kind) {
    case EVENT_TIMER:
        copy.timer->impl = NULL;
        copy.timer->due_ns = 0;
        copy.timer->fire(copy.timer);
        break;
    case EVENT_WORK:
        copy.work->run(copy.work);
        copy.work->done(copy.work);
        break;
    case EVENT_GONE:
        if (n->handler != NULL && n->handler->on_peer_gone != NULL) {
            n->handler->on_peer_gone(n->core, copy.from);
        }
        s->ends[copy.from - 1].owner = NULL;
        break;
    case EVENT_MESSAGE:
    case EVENT_KILL:
        break;
    }
}

bool sim_step(struct sim *s)
{
    if (s->heap.count == 0) {
        return false;
    }
    struct event *e = heap_pop(&s->heap);
    if (e->at_ns > s->now_ns) {
        s->now_ns = e->at_ns;
    }
    if (e->node->paused_until_ns > s->now_ns) {
        e->at_ns = e->node->paused_until_ns; /* its number stays: nothing overtakes */
        heap_push(&s->heap, e);
    } else {
        event_run(s, e);
    }
    return true;
}

bool sim_run(struct sim *s, uint64_t until_ns, bool (*stop)(void *context), void *context)
{
    for (;;) {
        if (stop != NULL && stop(context)) {
            return true;
        }
        if (s->heap.count == 0 || s->heap.at[0]->at_ns > until_ns) {
            break;
        }
        sim_step(s);
    }
    if (s->now_ns < until_ns) {
        s->now_ns = until_ns;
    }
    return false;
}

/* ---- building ---------------------------------------------------------------------------------------------- */

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *s = need(calloc(1, sizeof(*s)));
    s->options = *options;
    s->rng = rng_of(options->seed, 0, 0);
    s->trace = rng_mix(options->seed);
    return s;
}

struct sim_node *sim_node_new(struct sim *s, const char *name, const struct env_handler *handler, void *core)
{
    struct sim_node *n = need(calloc(1, sizeof(*n)));
    SHOAL_ASSERT(strlen(name) < sizeof(n->name));
    memcpy(n->name, name, strlen(name) + 1);
    n->env.ops = &sim_ops;
    n->sim = s;
    n->index = ++s->node_count;
    n->rng = rng_of(s->options.seed, 1, n->index);
    n->handler = handler;
    n->core = core;
    n->next = s->nodes;
    s->nodes = n;
    trace(s, s->now_ns, n->index, hash_bytes(name, strlen(name), 0));
    return n;
}

void sim_node_set_handler(struct sim_node *n, const struct env_handler *handler, void *core)
{
    n->handler = handler;
    n->core = core;
}

struct env *sim_node_env(struct sim_node *n)
{
    return &n->env;
}

void sim_listen(struct sim_node *n, const char *endpoint)
{
    struct sim *s = n->sim;
    SHOAL_ASSERT(running(n) && strncmp(endpoint, "sim://", 6) == 0 && strlen(endpoint) < ENDPOINT_BYTES);
    SHOAL_ASSERT(listener(s, endpoint) == NULL);
    struct address *a = s->addresses;
    while (a != NULL && strcmp(a->endpoint, endpoint) != 0) {
        a = a->next;
    }
    if (a == NULL) {
        a = need(calloc(1, sizeof(*a)));
        memcpy(a->endpoint, endpoint, strlen(endpoint) + 1);
        a->next = s->addresses;
        s->addresses = a;
    }
    a->node = n;
}

void sim_kill(struct sim_node *n)
{
    if (n->dead) {
        return;
    }
    n->dead = true;
    trace(n->sim, n->sim->now_ns, n->index << 8 | EVENT_KILL, 0);
    events_purge(n->sim, n);
}

void sim_pause(struct sim_node *n, uint64_t until_ns)
{
    n->paused_until_ns = until_ns;
}

bool sim_stopped(const struct sim_node *n)
{
    return n->stopped;
}

uint64_t sim_now_ns(const struct sim *s)
{
    return s->now_ns;
}

uint64_t sim_trace(const struct sim *s)
{
    return s->trace;
}

void sim_faults(struct sim *s, double drop, double duplicate)
{
    s->options.drop = drop;
    s->options.duplicate = duplicate;
}

void sim_free(struct sim *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->heap.count; i++) {
        event_drop(s, s->heap.at[i]);
    }
    heap_close(&s->heap);
    for (size_t i = 0; i < s->link_count; i++) {
        free(s->links[i]);
    }
    while (s->nodes != NULL) {
        struct sim_node *n = s->nodes;
        s->nodes = n->next;
        free(n);
    }
    while (s->addresses != NULL) {
        struct address *a = s->addresses;
        s->addresses = a->next;
        free(a);
    }
    free(s->ends);
    free(s->links);
    free(s);
}
