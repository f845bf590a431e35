/* sim.c: many nodes, one virtual clock, one heap of events, one seed. The network is in sim_net.c.
 *
 *  1. Events run in order of (time, number); an event gets its number when it is made. Nothing else
 *     decides an order: no address, no hash table, no real clock.
 *  2. The network's random draws come from one generator, in the order of the sends; each node has
 *     a generator of its own.
 *  3. Messages of a connection arrive in the order of sending, unless `reorder` is set. A copy of a
 *     message is deep.
 *  4. A message is for the node that listens when it is sent: if no node listens, or if that node
 *     is dead when the message arrives, it is lost. The next message of an old connection reaches
 *     the node that listens at the address by then, under a new name.
 *  5. A dead or stopped node gets no more events, and the core's memory is not touched again. */
#include "tests/sim/sim_inner.h"

#include "proto/base/hash.h"
#include "proto/base/minmax.h"

#include <stdlib.h>
#include <string.h>

#define WALL_STAYS_NS UINT64_C(3000000000) /* time until a calendar jumps */
#define BATCH 64 /* messages for one node at one instant, before on_drained */

/* ---- time, work, the end --------------------------------------------------------------------- */

static uint64_t op_now_ns(struct env *env)
{
    return sim_node_of(env)->sim->now_ns;
}

static uint64_t op_wall_s(struct env *env)
{
    const struct sim_node *n = sim_node_of(env);
    const struct sim *s = n->sim;
    uint64_t now = s->options.wall_s + s->now_ns / 1000000000, most = s->options.wall_jump_s;
    if (s->options.wall_s == 0 || most == 0)
        return s->options.wall_s == 0 ? 0 : now;
    SHOAL_ASSERT(now > most);
    uint64_t set = rng_mix(s->options.seed ^ rng_mix(n->index << 32 | s->now_ns / WALL_STAYS_NS));
    return now - most + set % (2 * most + 1);
}

static uint64_t op_random(struct env *env)
{
    return rng_next(&sim_node_of(env)->rng);
}

static void op_timer_stop(struct env *env, struct env_timer *t)
{
    struct sim_node *n = sim_node_of(env);
    if (!sim_running(n) || t->impl == NULL)
        return; /* the events of a dead node went with it */
    struct event *e = t->impl;
    SHOAL_ASSERT(e->timer == t);
    heap_remove(&n->sim->heap, e);
    sim_event_drop(n->sim, e);
    t->impl = NULL;
    t->due_ns = 0;
}

static void op_timer_start(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    if (!sim_running(n))
        return;
    op_timer_stop(env, t);
    t->due_ns = delay_ns > INT64_MAX - s->now_ns ? INT64_MAX : s->now_ns + delay_ns;
    struct event *e = heap_take(&s->heap, EVENT_TIMER, n, t->due_ns);
    e->timer = t;
    t->impl = e;
    heap_push(&s->heap, e);
}

static void op_work(struct env *env, struct env_work *w)
{
    struct sim_node *n = sim_node_of(env);
    struct sim *s = n->sim;
    if (!sim_running(n))
        return;
    w->ran_ns = sim_draw(&s->rng, s->options.work_min_ns, s->options.work_max_ns);
    if (n->times > 0)
        w->ran_ns *= n->times;
    struct event *e = heap_take(&s->heap, EVENT_WORK, n, s->now_ns + w->ran_ns);
    e->work = w;
    n->works++;
    n->works_most = MAX(n->works_most, n->works);
    heap_push(&s->heap, e);
}

/* Removes a node's events. */
static void events_purge(struct sim *s, const struct sim_node *n)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->heap.count; i++)
        if (s->heap.at[i]->node == n)
            sim_event_drop(s, s->heap.at[i]);
        else
            s->heap.at[kept++] = s->heap.at[i];
    heap_rebuild(&s->heap, kept);
}

static void op_stop(struct env *env)
{
    struct sim_node *n = sim_node_of(env);
    if (sim_running(n))
        sim_hang_up(n);
    n->stopped = true;
    events_purge(n->sim, n);
}

static const struct env_ops sim_ops = {
    .now_ns = op_now_ns,
    .random = op_random,
    .wall_s = op_wall_s,
    .timer_start = op_timer_start,
    .timer_stop = op_timer_stop,
    .connect = sim_connect,
    .disconnect = sim_disconnect,
    .send = sim_send,
    .who = sim_who,
    .listen = sim_env_listen,
    .admit = sim_admit,
    .work = op_work,
    .probe_start = sim_probe_start,
    .probe_stop = sim_probe_stop,
    .stop = op_stop,
};

/* ---- running --------------------------------------------------------------------------------- */

static void messages_deliver(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    bool delivered = sim_deliver(s, e);
    for (int i = 1;
         i < BATCH && sim_running(n) && n->paused_until_ns <= s->now_ns && s->heap.count > 0; i++) {
        e = s->heap.at[0];
        if (e->kind != EVENT_MESSAGE || e->node != n || e->at_ns > s->now_ns)
            break;
        delivered |= sim_deliver(s, heap_pop(&s->heap));
    }
    if (delivered && !n->dead)
        n->handler->on_drained(n->core);
}

/* An end that the node has disconnected meanwhile is not told; an outgoing one stays. */
static void peer_gone(struct sim *s, struct sim_node *n, peer_t peer)
{
    struct end *end = &s->ends[peer - 1];
    if (end->owner != n || (end->up && end->link->closed))
        return;
    if (n->handler != NULL && n->handler->on_peer_gone != NULL)
        n->handler->on_peer_gone(n->core, peer);
    end = &s->ends[peer - 1]; /* the call may have grown them */
    if (end->up)
        return;
    end->owner = NULL;
    if (end->link->server_name == peer)
        end->link->server = NULL; /* what is still under way comes from a new peer */
}

static void event_run(struct sim *s, struct event *e)
{
    struct sim_node *n = e->node;
    if (e->kind == EVENT_MESSAGE) {
        messages_deliver(s, e);
        return;
    }
    sim_trace_add(s, s->now_ns, n->index << 8 | e->kind, e->from);
    struct event copy = *e;
    heap_give(&s->heap, e);
    switch (copy.kind) {
    case EVENT_TIMER:
        copy.timer->impl = NULL;
        copy.timer->due_ns = 0;
        copy.timer->fire(copy.timer);
        break;
    case EVENT_WORK:
        n->works--;
        copy.work->run(copy.work);
        copy.work->done(copy.work);
        break;
    case EVENT_PROBE:
        copy.probe->impl = NULL;
        copy.probe->done(copy.probe);
        break;
    case EVENT_GONE:
        peer_gone(s, n, copy.from);
        break;
    case EVENT_MESSAGE:
    case EVENT_KILL:
        break;
    }
}

bool sim_step(struct sim *s)
{
    if (s->heap.count == 0)
        return false;
    struct event *e = heap_pop(&s->heap);
    if (e->at_ns > s->now_ns)
        s->now_ns = e->at_ns;
    uint64_t free_ns = e->node->paused_until_ns;
    if (e->kind == EVENT_WORK && e->node->wedged_until_ns > free_ns)
        free_ns = e->node->wedged_until_ns;
    if (free_ns > s->now_ns) {
        e->at_ns = free_ns; /* the event keeps its number, so later ones do not overtake it */
        heap_push(&s->heap, e);
    } else {
        event_run(s, e);
    }
    return true;
}

bool sim_run(struct sim *s, uint64_t until_ns, bool (*stop)(void *context), void *context)
{
    for (;;) {
        if (stop != NULL && stop(context))
            return true;
        if (s->heap.count == 0 || s->heap.at[0]->at_ns > until_ns)
            break;
        sim_step(s);
    }
    if (s->now_ns < until_ns)
        s->now_ns = until_ns;
    return false;
}

/* ---- building -------------------------------------------------------------------------------- */

struct sim *sim_new(const struct sim_options *options)
{
    struct sim *s = sim_need(calloc(1, sizeof(*s)));
    s->options = *options;
    s->rng = rng_of(options->seed, 0, 0);
    s->trace = rng_mix(options->seed);
    return s;
}

struct sim_node *sim_node_new(struct sim *s, const char *name, const struct env_handler *handler,
                              void *core)
{
    struct sim_node *n = sim_need(calloc(1, sizeof(*n)));
    SHOAL_ASSERT(strlen(name) < sizeof(n->name));
    memcpy(n->name, name, strlen(name) + 1);
    n->env.ops = &sim_ops;
    n->who.role = ROLE_LOCAL;
    n->sim = s;
    n->index = ++s->node_count;
    n->rng = rng_of(s->options.seed, 1, n->index);
    n->handler = handler;
    n->core = core;
    n->next = s->nodes;
    s->nodes = n;
    sim_trace_add(s, s->now_ns, n->index, hash_bytes(name, strlen(name), 0));
    return n;
}

void sim_node_set_handler(struct sim_node *n, const struct env_handler *handler, void *core)
{
    n->handler = handler;
    n->core = core;
}

void sim_node_who(struct sim_node *n, const struct env_who *who)
{
    n->who = *who;
}

struct env *sim_node_env(struct sim_node *n)
{
    return &n->env;
}

void sim_kill(struct sim_node *n)
{
    if (n->dead)
        return;
    if (!n->stopped)
        sim_hang_up(n);
    n->dead = true;
    sim_trace_add(n->sim, n->sim->now_ns, n->index << 8 | EVENT_KILL, 0);
    events_purge(n->sim, n);
}

void sim_works_end(struct sim_node *n)
{
    const struct event_heap *h = &n->sim->heap;
    for (size_t i = 0; i < h->count; i++)
        if (h->at[i]->node == n && h->at[i]->kind == EVENT_WORK)
            h->at[i]->work->run(h->at[i]->work);
}

void sim_pause(struct sim_node *n, uint64_t until_ns)
{
    n->paused_until_ns = until_ns;
}

void sim_wedge(struct sim_node *n, uint64_t until_ns)
{
    n->wedged_until_ns = until_ns;
}

void sim_slow(struct sim_node *n, uint32_t times)
{
    n->times = times;
}

bool sim_stopped(const struct sim_node *n)
{
    return n->stopped;
}

uint32_t sim_works_most(const struct sim_node *n)
{
    return n->works_most;
}

void sim_watch(struct sim *s, sim_watch_send watch, void *context)
{
    s->watch = watch;
    s->watch_context = context;
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
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->heap.count; i++)
        sim_event_drop(s, s->heap.at[i]);
    heap_close(&s->heap);
    for (size_t i = 0; i < s->link_count; i++)
        free(s->links[i]);
    while (s->nodes != NULL) {
        struct sim_node *n = s->nodes;
        s->nodes = n->next;
        free(n->admitted);
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
