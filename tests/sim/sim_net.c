/* sim_net.c: the simulated network: addresses, connections, and messages from their sending to
 * their arrival.
 *
 * It keeps the invariants 2 to 4 of sim.c: the random draws for a message, the order of arrival,
 * and the receiver. A message in flight is counted in its channel from sim_send to sim_deliver or
 * sim_event_drop; one of the two always follows. */
#include "tests/sim/sim_inner.h"

#include "proto/base/err.h"
#include "proto/base/hash.h"

#include <stdlib.h>
#include <string.h>

/* messages in one direction of a connection: the capacity of the real connection's queue and
 * pipe */
#define IN_FLIGHT (LIMIT_PEER_QUEUE + 16u)

#define PROBE_NS UINT64_C(1000000000) /* the bound of a real probe */

static void *grow(void *array, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return array;
    *capacity = *capacity == 0 ? 64 : *capacity * 2;
    return sim_need(realloc(array, *capacity * item_bytes));
}

/* ---- addresses and names --------------------------------------------------------------------- */

static struct end *end_find(struct sim_node *n, peer_t name)
{
    struct sim *s = n->sim;
    if (name == 0 || name > s->end_count || s->ends[name - 1].owner != n ||
        s->ends[name - 1].link->closed)
        return NULL;
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
    for (struct address *a = s->addresses; a != NULL; a = a->next)
        if (strcmp(a->endpoint, endpoint) == 0 && sim_running(a->node))
            return a->node;
    return NULL;
}

static bool endpoint_ok(const char *endpoint)
{
    return strncmp(endpoint, "sim://", 6) == 0 && strlen(endpoint) < ENDPOINT_BYTES;
}

void sim_listen(struct sim_node *n, const char *endpoint)
{
    struct sim *s = n->sim;
    SHOAL_ASSERT(sim_running(n) && endpoint_ok(endpoint));
    SHOAL_ASSERT(listener(s, endpoint) == NULL);
    struct address *a = s->addresses;
    while (a != NULL && strcmp(a->endpoint, endpoint) != 0)
        a = a->next;
    if (a == NULL) {
        a = sim_need(calloc(1, sizeof(*a)));
        memcpy(a->endpoint, endpoint, strlen(endpoint) + 1);
        a->next = s->addresses;
        s->addresses = a;
    }
    a->node = n;
}

int sim_env_listen(struct env *env, const char *endpoint, const char *host, char told[256],
                   struct err *e)
{
    struct sim_node *n = sim_node_of(env);
    (void)host;
    if (!endpoint_ok(endpoint))
        return err_set(e, SHOAL_E_CONFIG, "%s is no endpoint of the simulator", endpoint);
    if (!sim_running(n) || listener(n->sim, endpoint) != NULL)
        return err_set(e, SHOAL_E_UNAVAILABLE, "%s is in use", endpoint);
    sim_listen(n, endpoint);
    n->door = true;
    memcpy(told, endpoint, strlen(endpoint) + 1);
    return 0;
}

int sim_admit(struct env *env, const struct env_who *list, uint32_t count)
{
    struct sim_node *n = sim_node_of(env);
    free(n->admitted);
    n->admitted = sim_need(calloc(count + 1, sizeof *n->admitted));
    if (count > 0)
        memcpy(n->admitted, list, count * sizeof *list);
    n->admitted_count = count;
    return 0;
}

/* The identity that a client has at this node; NULL: it may not connect. */
static const struct env_who *identity(const struct sim_node *n, const struct sim_node *client)
{
    if (!n->door || client->who.key[0] == 0)
        return &client->who;
    for (uint32_t i = 0; i < n->admitted_count; i++)
        if (strcmp(n->admitted[i].key, client->who.key) == 0)
            return &n->admitted[i];
    return NULL;
}

/* Returns the server that the link reaches now; a new server gets a new name for the link. */
static struct sim_node *link_server(struct sim *s, struct link *l)
{
    struct sim_node *node = listener(s, l->endpoint);
    if (node != NULL && node != l->server) {
        l->server = node;
        l->server_name = end_new(s, l, node, false);
    }
    return node;
}

/* ---- lines that are cut ---------------------------------------------------------------------- */

void sim_cut(struct sim_node *from, struct sim_node *to, uint64_t until_ns)
{
    struct sim *s = from->sim;
    s->cut[s->cuts++ % CUTS] = (struct cut){from, to, until_ns};
}

static bool is_cut(const struct sim *s, const struct sim_node *from, const struct sim_node *to)
{
    for (uint32_t i = 0; i < CUTS; i++)
        if (s->cut[i].from == from && s->cut[i].to == to && s->now_ns < s->cut[i].until_ns)
            return true;
    return false;
}

/* ---- sending --------------------------------------------------------------------------------- */

static bool chance(struct sim *s, double share)
{
    return rng_double(&s->rng) < share;
}

static uint64_t arrival(struct sim *s, struct channel *c)
{
    uint64_t at_ns =
        s->now_ns + sim_draw(&s->rng, s->options.delay_min_ns, s->options.delay_max_ns);
    if (!s->options.reorder && at_ns < c->last_ns)
        at_ns = c->last_ns;
    if (at_ns > c->last_ns)
        c->last_ns = at_ns;
    return at_ns;
}

void sim_event_drop(struct sim *s, struct event *e)
{
    if (e->kind == EVENT_MESSAGE) {
        e->channel->in_flight--;
        e->channel->in_flight_bytes -= msg_bytes(e->m);
        msg_free(e->m);
    }
    heap_give(&s->heap, e);
}

/* Makes a deep copy, from the same pool. */
static struct msg *message_copy(const struct msg *m)
{
    struct msg *copy = sim_need(msg_new());
    for (uint32_t i = 0; i < m->frame_count; i++) {
        void *data = sim_need(msg_add(copy, m->frame[i].bytes));
        if (m->frame[i].bytes > 0)
            memcpy(data, m->frame[i].data, m->frame[i].bytes);
    }
    return copy;
}

static void message_start(struct sim *s, struct channel *c, struct sim_node *node, peer_t from,
                          struct msg *m)
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

int sim_send(struct env *env, peer_t to, struct msg *m)
{
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    struct end *end = n->dead ? NULL : end_find(n, to);
    if (end == NULL) {
        msg_free(m);
        return SHOAL_E_UNAVAILABLE;
    }
    struct link *l = end->link;
    bool up = end->up;
    if (s->watch != NULL)
        s->watch(s->watch_context, n, l->number, up, m);
    struct channel *c = up ? &l->up : &l->down;
    if (c->in_flight >= IN_FLIGHT || c->in_flight_bytes + msg_bytes(m) > LIMIT_PEER_BYTES) {
        msg_free(m);
        return SHOAL_E_BUSY;
    }
    struct sim_node *node = up ? link_server(s, l) : sim_running(l->client) ? l->client : NULL;
    peer_t from = up ? l->server_name : l->client_name;
    bool lost = chance(s, s->options.drop);
    bool twice = chance(s, s->options.duplicate);
    if (node == NULL || lost || is_cut(s, n, node) || (up && identity(node, n) == NULL)) {
        msg_free(m);
        return 0;
    }
    if (twice)
        message_start(s, c, node, from, message_copy(m));
    message_start(s, c, node, from, m);
    return 0;
}

/* ---- connecting ------------------------------------------------------------------------------ */

const struct env_who *sim_who(struct env *env, peer_t peer)
{
    static const struct env_who nobody = {.role = ROLE_NOBODY}, local = {.role = ROLE_LOCAL};
    const struct end *end = end_find(sim_node_of(env), peer);
    if (end == NULL)
        return &local; /* the test invented this name */
    const struct env_who *who = end->up ? NULL : identity(end->owner, end->link->client);
    return who == NULL ? &nobody : who;
}

/* Connects without a check of keys: here a peer always has the expected key. */
int sim_connect(struct env *env, const char *endpoint, const char *key, peer_t *out)
{
    (void)key;
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    if (strncmp(endpoint, "sim://", 6) != 0 || strlen(endpoint) >= ENDPOINT_BYTES)
        return SHOAL_E_CONFIG;
    struct link *l = sim_need(calloc(1, sizeof(*l)));
    memcpy(l->endpoint, endpoint, strlen(endpoint) + 1);
    l->client = n;
    s->links = grow(s->links, s->link_count, &s->link_capacity, sizeof(struct link *));
    s->links[s->link_count++] = l;
    l->number = s->link_count;
    l->client_name = end_new(s, l, n, true);
    *out = l->client_name;
    return 0;
}

static void gone_start(struct sim *s, struct channel *c, struct sim_node *node, peer_t from)
{
    struct event *e = heap_take(&s->heap, EVENT_GONE, node, arrival(s, c));
    e->from = from;
    heap_push(&s->heap, e);
}

void sim_disconnect(struct env *env, peer_t peer)
{
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    struct end *end = end_find(n, peer);
    if (end == NULL)
        return;
    struct link *l = end->link;
    if (!end->up) { /* as with ZeroMQ: if the client sends again, it is a new peer */
        end->owner = NULL;
        l->server = NULL;
        return;
    }
    l->closed = true;
    if (sim_running(l->server))
        gone_start(s, &l->up, l->server, l->server_name);
}

/* The client of a link is told even if it has sent nothing yet: it is connected. */
void sim_hang_up(struct sim_node *n)
{
    struct sim *s = n->sim;
    for (size_t i = 0; i < s->link_count; i++) {
        struct link *l = s->links[i];
        if (l->closed)
            continue;
        if (l->client == n && sim_running(l->server) && !is_cut(s, n, l->server))
            gone_start(s, &l->up, l->server, l->server_name);
        else if (sim_running(l->client) && listener(s, l->endpoint) == n &&
                 !is_cut(s, n, l->client))
            gone_start(s, &l->down, l->client, l->client_name);
    }
}

/* ---- probes of endpoints --------------------------------------------------------------------- */

static bool is_cut_off(const struct sim *s, const struct sim_node *n, const char *endpoint)
{
    for (const struct address *a = s->addresses; a != NULL; a = a->next)
        if (strcmp(a->endpoint, endpoint) == 0)
            return is_cut(s, n, a->node) || is_cut(s, a->node, n);
    return false;
}

/* The state is that at the start: the answer is as old as a real one may be. */
void sim_probe_start(struct env *env, struct env_probe *p, const char *endpoint)
{
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    SHOAL_ASSERT(p->impl == NULL && p->done != NULL);
    if (!sim_running(n))
        return;
    uint64_t delay_ns = 0;
    for (int way = 0; way < 2; way++)
        delay_ns += sim_draw(&s->rng, s->options.delay_min_ns, s->options.delay_max_ns);
    p->answer = ENV_PROBE_REFUSED;
    if (listener(s, endpoint) != NULL)
        p->answer = ENV_PROBE_ANSWERS;
    if (is_cut_off(s, n, endpoint) || delay_ns > PROBE_NS) {
        p->answer = ENV_PROBE_UNKNOWN;
        delay_ns = PROBE_NS;
    }
    struct event *e = heap_take(&s->heap, EVENT_PROBE, n, s->now_ns + delay_ns);
    e->probe = p;
    p->impl = e;
    heap_push(&s->heap, e);
}

void sim_probe_stop(struct env *env, struct env_probe *p)
{
    struct sim_node *n = sim_node_of(env);
    if (!sim_running(n) || p->impl == NULL)
        return; /* the events of a dead node went with it */
    heap_remove(&n->sim->heap, p->impl);
    sim_event_drop(n->sim, p->impl);
    p->impl = NULL;
}

/* ---- arriving -------------------------------------------------------------------------------- */

static uint64_t message_hash(const struct msg *m)
{
    uint64_t h = m->frame_count;
    for (uint32_t i = 0; i < m->frame_count; i++)
        h = hash_bytes(m->frame[i].data, m->frame[i].bytes, h);
    return h;
}

/* Returns the name under which a message arrives: the name at its sending, unless the node has
 * disconnected from that peer since. */
static peer_t arrival_name(struct sim *s, struct sim_node *n, peer_t from)
{
    struct link *l = s->ends[from - 1].link;
    if (s->ends[from - 1].owner == n)
        return from;
    if (l->server != n) {
        l->server = n;
        l->server_name = end_new(s, l, n, false);
    }
    return l->server_name;
}

bool sim_deliver(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    struct msg *m = e->m;
    peer_t from = arrival_name(s, n, e->from);
    const struct end *end = &s->ends[from - 1];
    sim_trace_add(s, s->now_ns, n->index << 8 | EVENT_MESSAGE, message_hash(m));
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
