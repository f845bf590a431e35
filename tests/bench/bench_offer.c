/* bench_offer.c: pulls and pushes of many connections to one server without a coordinator, as many
 * as it answers, or at a given rate.
 *
 *     bench_offer ENDPOINT SECONDS CONNECTIONS RATE
 *
 * RATE 0: each connection has four requests in flight, and sends the next when one is answered.
 * Otherwise RATE requests a second are offered over all connections, whatever the answers; a
 * request is not sent if its connection has 128 in flight, or does not accept it. Half of the
 * connections pull, half push, each in a lane of its own; a request has 2,048 keys of a table of a
 * million rows of dim 16. The output is one JSON object with figures a second: done (answered
 * without an error), busy (refused because the server has no room), unsent; and other: requests
 * that were refused for another reason. No test: run by tests/load. */
#include "proto/base/container_of.h"
#include "proto/base/env.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEYS = 2048,
    SETS = 32,
    WIDTH = 16,
    TABLET_BITS = 8,
    ROWS = 1000000,
    CONNECTIONS_MAX = 256,
    WINDOW = 4,
    ON_THEIR_WAY = 128,
    TICK_NS = 1000000
};

struct connection {
    peer_t peer;
    uint64_t batch; /* the last one sent in its lane */
    uint32_t under_way;
};

struct offer {
    struct net *net;
    struct env *env;
    struct connection connection[CONNECTIONS_MAX];
    uint32_t connections, next;
    double rate;
    uint64_t sequence, began_ns, offered;
    uint64_t done, busy, unsent, other;
    struct env_timer tick, end;
    struct wire reply; /* to a question */
    bool asking, ended;
    uint64_t keys[SETS][KEYS];
    float gradients[KEYS * WIDTH];
};

/* ---- requests -------------------------------------------------------------------------------- */

static struct msg *request_make(struct offer *o, uint32_t index)
{
    struct connection *c = &o->connection[index];
    /* the reply's id names the connection */
    struct wire w = {.id = ++o->sequence * CONNECTIONS_MAX + index};
    bool pushes = index % 2 == 1;
    if (pushes) {
        w.type = WIRE_TYPE_PUSH;
        /* from 0: one that was refused is left out, as if it had had no keys */
        w.u.PUSH = (struct wire_PUSH){.run = 1,
                                      .lane = index / 2,
                                      .generation = 1,
                                      .to = ++c->batch,
                                      .tablet_count = 1u << TABLET_BITS,
                                      .lr_scale = 1,
                                      .key_count = KEYS,
                                      .map_epoch = 1};
    } else {
        w.type = WIRE_TYPE_PULL;
        w.u.PULL = (struct wire_PULL){.run = 1,
                                      .lane = UINT32_MAX,
                                      .bound = WIRE_BOUND_ASYNC,
                                      .key_count = KEYS,
                                      .map_epoch = 1};
    }
    struct msg *m = wire_encode(&w);
    uint64_t *keys = o->keys[o->sequence % SETS];
    if (m == NULL || msg_add_borrowed(m, keys, sizeof o->keys[0], NULL, NULL) != 0 ||
        (pushes && (msg_add_borrowed(m, o->gradients, sizeof o->gradients, NULL, NULL) != 0 ||
                    msg_add_borrowed(m, NULL, 0, NULL, NULL) != 0))) {
        fprintf(stderr, "bench_offer: no memory\n");
        exit(70);
    }
    return m;
}

static void offer_one(struct offer *o, uint32_t index)
{
    struct connection *c = &o->connection[index];
    if (c->under_way >= ON_THEIR_WAY || env_send(o->env, c->peer, request_make(o, index)) != 0)
        o->unsent++;
    else
        c->under_way++;
}

static void tick_fire(struct env_timer *t)
{
    struct offer *o = container_of(t, struct offer, tick);
    double due = o->rate * 1e-9 * (double)(env_now_ns(o->env) - o->began_ns);
    for (; (double)o->offered < due; o->offered++) {
        offer_one(o, o->next);
        o->next = (o->next + 1) % o->connections;
    }
    env_timer_start(o->env, t, TICK_NS);
}

static void end_fire(struct env_timer *t)
{
    struct offer *o = container_of(t, struct offer, end);
    o->ended = true;
    env_stop(o->env);
}

static void answered(struct offer *o, const struct wire *w)
{
    uint32_t index = (uint32_t)(w->id % CONNECTIONS_MAX);
    if (index >= o->connections)
        return;
    o->connection[index].under_way--;
    if (w->status == 0)
        o->done++;
    else if (w->status == SHOAL_E_BUSY)
        o->busy++;
    else if (o->other++ == 0)
        fprintf(stderr, "bench_offer: the server: %s\n", w->error);
    if (o->rate == 0)
        offer_one(o, index);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct offer *o = core;
    struct err e = {0};
    struct wire w;
    (void)from;
    if (wire_decode(m, &w, &e) != 0) {
        fprintf(stderr, "bench_offer: a reply: %s\n", e.text);
        exit(70);
    }
    if (o->asking) {
        o->reply = w;
        o->asking = false;
        env_stop(o->env);
    } else {
        answered(o, &w);
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

/* ---- the server's setup
 * ----------------------------------------------------------------------- */

static void ask(struct offer *o, struct wire *w, const void *data, size_t bytes, bool frame)
{
    w->id = 1;
    struct msg *m = wire_encode(w);
    o->asking = true;
    if (m == NULL ||
        (frame && msg_add_borrowed(m, (void *)(uintptr_t)data, bytes, NULL, NULL) != 0) ||
        env_send(o->env, o->connection[0].peer, m) != 0)
        exit(70);
    net_run(o->net);
    if (o->asking || o->reply.status != 0) {
        fprintf(stderr, "bench_offer: %s: %s\n", wire_type_name(w->type),
                o->asking ? "no answer" : o->reply.error);
        exit(69);
    }
}

/* Sets up table, map, run and lanes; a repeated setup changes nothing. Each lane continues after
 * its last batch. */
static void arrange(struct offer *o)
{
    static const uint16_t shard_of[1 << TABLET_BITS];
    struct table_schema schema = {
        .name = "load",
        .width = WIDTH,
        .tablet_bits = TABLET_BITS,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    struct wire w = {.type = WIRE_TYPE_TABLE_CREATE};
    wire_schema_to(&schema, &w.u.TABLE_CREATE);
    ask(o, &w, NULL, 0, true);
    w = (struct wire){.type = WIRE_TYPE_MAP_SET};
    w.u.MAP_SET = (struct wire_MAP_SET){.map_epoch = 1, .tablet_count = 1 << TABLET_BITS};
    ask(o, &w, shard_of, sizeof shard_of, true);
    w = (struct wire){.type = WIRE_TYPE_RUN_OPEN};
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = 1, .lanes = CONNECTIONS_MAX, .mode = WIRE_ASYNC};
    ask(o, &w, NULL, 0, false);
    for (uint32_t i = 1; i < o->connections; i += 2) {
        w = (struct wire){.type = WIRE_TYPE_FENCE};
        w.u.FENCE = (struct wire_FENCE){.run = 1, .lane = i / 2, .generation = 1, .live = true};
        ask(o, &w, NULL, 0, false);
        o->connection[i].batch = o->reply.u.FENCE_reply.mark;
    }
}

static int by_mix(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

/* A batch's keys are unique: each comes from its own part of the rows. */
static void keys_draw(struct offer *o)
{
    struct rng r = rng_of(7, 0, 0);
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t i = 0; i < KEYS; i++)
            o->keys[s][i] = rng_mix(1 + i + KEYS * rng_below(&r, ROWS / KEYS));
        qsort(o->keys[s], KEYS, sizeof o->keys[s][0], by_mix);
    }
    for (uint32_t i = 0; i < KEYS * WIDTH; i++)
        o->gradients[i] = 1e-3f;
}

int main(int argc, char **argv)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    static struct offer o = {.tick = {.fire = tick_fire}, .end = {.fire = end_fire}};
    struct net_options none = {0};
    struct err e = {0};
    double seconds = argc == 5 ? atof(argv[2]) : 0;
    o.connections = argc == 5 ? (uint32_t)atoi(argv[3]) : 0;
    if (seconds <= 0 || o.connections < 2 || o.connections > CONNECTIONS_MAX) {
        fprintf(stderr, "usage: bench_offer ENDPOINT SECONDS CONNECTIONS RATE\n");
        return 64;
    }
    o.rate = atof(argv[4]);
    keys_draw(&o);
    if (net_new(&none, &o.net, &e) != 0) {
        fprintf(stderr, "bench_offer: %s\n", e.text);
        return 70;
    }
    o.env = net_env(o.net);
    net_set_handler(o.net, &handler, &o);
    for (uint32_t i = 0; i < o.connections; i++)
        if (env_connect(o.env, argv[1], ENV_COORDINATOR, &o.connection[i].peer) != 0)
            return 69;
    env_timer_start(o.env, &o.end, UINT64_C(20000000000)); /* for the answers of `arrange` */
    arrange(&o);
    o.began_ns = env_now_ns(o.env);
    env_timer_start(o.env, &o.end, (uint64_t)(seconds * 1e9));
    for (uint32_t i = 0; o.rate == 0 && i < o.connections * WINDOW; i++)
        offer_one(&o, i % o.connections);
    if (o.rate > 0)
        tick_fire(&o.tick);
    net_run(o.net);
    printf("{\"done\": %.1f, \"busy\": %.1f, \"unsent\": %.1f, \"other\": %" PRIu64 "}\n",
           (double)o.done / seconds, (double)o.busy / seconds, (double)o.unsent / seconds, o.other);
    net_free(o.net);
    return 0;
}
