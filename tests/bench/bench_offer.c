/* bench_offer.c: pulls and pushes of many connections to one server without a coordinator, as many
 * as it answers, or at a given rate.
 *
 *     bench_offer [OPTION VALUE]... ENDPOINT SECONDS CONNECTIONS RATE
 *
 * RATE 0: each connection has four requests in flight, and sends the next when one is answered.
 * Otherwise RATE requests a second are offered over all connections, whatever the answers; a
 * request is not sent if its connection has 128 in flight, or does not accept it. Half of the
 * connections pull, half push, each in a lane of its own; a request has 2,048 keys of a table of a
 * million rows of dim 16.
 *
 *     --ask mixed|pull|push|batch   (mixed) what a connection asks for. Other than mixed, RATE is 0
 *                                   and each has one request in flight; batch: it pulls keys, then
 *                                   pushes to them
 *     --keys N                      (2048) of a request, 8192 at most
 *     --stored, --values, --gradients KIND
 *                                   (fp32) what the table stores; what pulled rows and gradients
 *                                   travel as, as in job.yaml; values earlier: rows come widened,
 *                                   as to a worker of 0.2.0. Other than mixed, rows are widened and
 *                                   gradients written and packed as a worker does both
 *     --key FILE --server KEY       keys over tcp
 *
 * The output is one JSON object with figures a second: done (answered without an error), busy
 * (refused because the server has no room), unsent; other: requests that were refused for another
 * reason; keys: of the requests that were done, or of whole batches, a second; sent, received:
 * bytes of messages for each key. No test: run by tests/load and tests/link. */
#include "proto/base/container_of.h"
#include "proto/base/env.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "proto/job/half.h"
#include "proto/job/packed.h"
#include "proto/net/keyfile.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum ask { ASK_MIXED, ASK_PULL, ASK_PUSH, ASK_BATCH };

enum {
    KEYS_MOST = 8192,
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
    uint64_t batch;          /* the last one sent in its lane */
    uint32_t under_way, set; /* of keys: those of the newest request */
    bool pulled;             /* ASK_BATCH: it pushes to them next */
    float *rows, *gradients; /* (KEYS_MOST, WIDTH); of one request; NULL if mixed */
    /* bytes of a request, and of requests and answers whose keys are not yet counted */
    uint64_t each, sent, received;
};

struct offer {
    struct net *net;
    struct env *env;
    struct connection connection[CONNECTIONS_MAX];
    uint32_t connections, next, keys_each;
    enum ask ask;
    struct table_schema schema;
    uint32_t values; /* as in struct wire_PULL */
    enum packed_width width;
    double rate;
    uint64_t sequence, began_ns, offered;
    uint64_t done, busy, unsent, other, keyed, sent, received;
    struct env_timer tick, end;
    struct wire reply; /* to a question */
    bool asking, ended;
    uint64_t keys[SETS][KEYS_MOST];
    float gradients[KEYS_MOST * WIDTH];
};

/* ---- requests -------------------------------------------------------------------------------- */

static bool pushes(const struct offer *o, uint32_t index)
{
    if (o->ask == ASK_MIXED)
        return index % 2 == 1;
    return o->ask == ASK_PUSH || (o->ask == ASK_BATCH && o->connection[index].pulled);
}

static uint32_t lane_of(const struct offer *o, uint32_t index)
{
    return o->ask == ASK_MIXED ? index / 2 : index;
}

static uint64_t *keys_of(struct offer *o, uint32_t index)
{
    struct connection *c = &o->connection[index];
    if (o->ask != ASK_BATCH || !c->pulled)
        c->set = (uint32_t)(o->sequence % SETS);
    return o->keys[c->set];
}

/* The gradients of a push: written as by a model, then packed. */
static float *gradients_of(struct offer *o, uint32_t index, const uint64_t *keys)
{
    struct connection *c = &o->connection[index];
    if (o->ask == ASK_MIXED)
        return o->gradients;
    memcpy(c->gradients, o->gradients, o->keys_each * WIDTH * sizeof *c->gradients);
    packed_close(&o->schema, o->width, lane_of(o, index), c->batch + 1, keys, c->gradients,
                 o->keys_each);
    return c->gradients;
}

static struct wire request_head(struct offer *o, uint32_t index)
{
    /* the reply's id names the connection */
    struct wire w = {.id = ++o->sequence * CONNECTIONS_MAX + index};
    if (pushes(o, index)) {
        w.type = WIRE_TYPE_PUSH;
        /* from 0: one that was refused is left out, as if it had had no keys */
        w.u.PUSH = (struct wire_PUSH){.run = 1,
                                      .lane = lane_of(o, index),
                                      .generation = 1,
                                      .to = o->connection[index].batch + 1,
                                      .tablet_count = 1u << TABLET_BITS,
                                      .lr_scale = 1,
                                      .key_count = o->keys_each,
                                      .map_epoch = 1,
                                      .width = o->width};
    } else {
        w.type = WIRE_TYPE_PULL;
        w.u.PULL = (struct wire_PULL){.run = 1,
                                      .lane = UINT32_MAX,
                                      .bound = WIRE_BOUND_ASYNC,
                                      .key_count = o->keys_each,
                                      .map_epoch = 1,
                                      .values = o->values};
    }
    return w;
}

static struct msg *request_make(struct offer *o, uint32_t index)
{
    const struct wire w = request_head(o, index);
    struct msg *m = wire_encode(&w);
    uint64_t *keys = keys_of(o, index);
    int rc = m == NULL;
    if (rc == 0)
        rc = msg_add_borrowed(m, keys, o->keys_each * sizeof *keys, NULL, NULL);
    if (rc == 0 && w.type == WIRE_TYPE_PUSH)
        rc = msg_add_borrowed(m, gradients_of(o, index, keys),
                              o->keys_each * packed_bytes(&o->schema, o->width), NULL, NULL);
    if (rc == 0 && w.type == WIRE_TYPE_PUSH)
        rc = msg_add_borrowed(m, NULL, 0, NULL, NULL); /* no rows are asked for */
    if (rc != 0) {
        fprintf(stderr, "bench_offer: no memory\n");
        exit(70);
    }
    o->connection[index].batch += w.type == WIRE_TYPE_PUSH;
    o->connection[index].each = msg_bytes(m); /* mixed: always the same */
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

/* Takes a pull's rows, as a worker does, and turns to the next kind of request. */
static void take(struct offer *o, struct connection *c, const struct wire *w, const struct msg *m)
{
    if (w->type == WIRE_TYPE_PULL && c->rows != NULL)
        half_widen((enum value_kind)w->u.PULL_reply.values, m->frame[1].data, c->rows,
                   o->keys_each * WIDTH);
    c->pulled = w->type == WIRE_TYPE_PULL;
    c->sent += c->each;
    c->received += msg_bytes(m);
    o->done++;
    if (o->ask == ASK_BATCH && c->pulled)
        return;
    o->keyed += o->keys_each;
    o->sent += c->sent;
    o->received += c->received;
    c->sent = c->received = 0;
}

static void answered(struct offer *o, const struct wire *w, const struct msg *m)
{
    uint32_t index = (uint32_t)(w->id % CONNECTIONS_MAX);
    if (index >= o->connections)
        return;
    o->connection[index].under_way--;
    if (w->status == 0)
        take(o, &o->connection[index], w, m);
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
        answered(o, &w, m);
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
    struct wire w = {.type = WIRE_TYPE_TABLE_CREATE};
    wire_schema_to(&o->schema, &w.u.TABLE_CREATE);
    ask(o, &w, NULL, 0, true);
    w = (struct wire){.type = WIRE_TYPE_MAP_SET};
    w.u.MAP_SET = (struct wire_MAP_SET){.map_epoch = 1, .tablet_count = 1 << TABLET_BITS};
    ask(o, &w, shard_of, sizeof shard_of, true);
    w = (struct wire){.type = WIRE_TYPE_RUN_OPEN};
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = 1, .lanes = CONNECTIONS_MAX, .mode = WIRE_ASYNC};
    ask(o, &w, NULL, 0, false);
    for (uint32_t i = 0; i < o->connections; i++) {
        w = (struct wire){.type = WIRE_TYPE_FENCE};
        w.u.FENCE =
            (struct wire_FENCE){.run = 1, .lane = lane_of(o, i), .generation = 1, .live = true};
        ask(o, &w, NULL, 0, false);
        o->connection[i].batch = o->reply.u.FENCE_reply.mark;
    }
}

/* A batch's keys are unique: each comes from its own part of the rows. */
static void keys_draw(struct offer *o)
{
    struct rng r = rng_of(7, 0, 0);
    const uint32_t each = o->keys_each;
    for (uint32_t s = 0; s < SETS; s++) {
        for (uint32_t i = 0; i < each; i++)
            o->keys[s][i] = rng_mix(1 + i + each * rng_below(&r, ROWS / each));
        qsort(o->keys[s], each, sizeof o->keys[s][0], key_by_mixed);
    }
    for (uint32_t i = 0; i < each * WIDTH; i++)
        o->gradients[i] = (rng_float(&r) - 0.5f) * 2e-3f;
}

/* ---- the command line ------------------------------------------------------------------------ */

static int usage(void)
{
    fputs("usage: bench_offer [OPTION VALUE]... ENDPOINT SECONDS CONNECTIONS RATE; options: --ask "
          "mixed|pull|push|batch, --keys N, --stored, --values fp32|fp16|bf16, --gradients "
          "fp32|bf16|int8, --key FILE, --server KEY\n",
          stderr);
    return 64;
}

static int place_of(const char *word, const char *const *words)
{
    int i = 0;
    while (words[i] != NULL && strcmp(words[i], word) != 0)
        i++;
    if (words[i] == NULL)
        exit(usage());
    return i;
}

struct keyed {
    struct net_options net;
    struct keyfile *keys;
    const char *server;
};

static void options_take(struct offer *o, struct keyed *k, int argc, char **argv)
{
    static const char *const asks[] = {"mixed", "pull", "push", "batch", NULL};
    static const char *const kinds[] = {"fp32", "fp16", "bf16", NULL};
    static const char *const asked[] = {"earlier", "fp32", "fp16", "bf16", NULL};
    static const char *const widths[] = {"fp32", "int8", "bf16", NULL};
    static const struct option options[] = {
        {"ask", required_argument, NULL, 'a'},       {"keys", required_argument, NULL, 'n'},
        {"stored", required_argument, NULL, 's'},    {"values", required_argument, NULL, 'v'},
        {"gradients", required_argument, NULL, 'g'}, {"key", required_argument, NULL, 'k'},
        {"server", required_argument, NULL, 'p'},    {NULL, 0, NULL, 0}};
    struct err e = {0};
    int c;
    while ((c = getopt_long(argc, argv, "", options, NULL)) != -1)
        if (c == 'a')
            o->ask = (enum ask)place_of(optarg, asks);
        else if (c == 'n')
            o->keys_each = (uint32_t)strtoul(optarg, NULL, 10);
        else if (c == 's')
            o->schema.values = (uint32_t)place_of(optarg, kinds);
        else if (c == 'v')
            o->values = (uint32_t)place_of(optarg, asked);
        else if (c == 'g')
            o->width = (enum packed_width)(place_of(optarg, widths) * 8);
        else if (c == 'p')
            k->server = optarg;
        else if (c != 'k' || keyfile_load(optarg, &k->keys, &e) != 0)
            exit(usage());
    k->net.keys = k->keys;
}

static void buffers_make(struct offer *o)
{
    const size_t floats = (size_t)KEYS_MOST * WIDTH;
    for (uint32_t i = 0; i < o->connections && o->ask != ASK_MIXED; i++) {
        struct connection *c = &o->connection[i];
        c->rows = calloc(2 * floats, sizeof *c->rows);
        if (c->rows == NULL)
            exit(70);
        c->gradients = c->rows + floats;
    }
}

static void said(const struct offer *o, double seconds)
{
    const double keys = o->keyed == 0 ? 1 : (double)o->keyed;
    printf("{\"done\": %.1f, \"busy\": %.1f, \"unsent\": %.1f, \"other\": %" PRIu64
           ", \"keys\": %.0f, \"sent\": %.3f, \"received\": %.3f}\n",
           (double)o->done / seconds, (double)o->busy / seconds, (double)o->unsent / seconds,
           o->other, (double)o->keyed / seconds, (double)o->sent / keys,
           (double)o->received / keys);
}

int main(int argc, char **argv)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    static struct offer o = {.tick = {.fire = tick_fire}, .end = {.fire = end_fire}};
    struct keyed k = {.server = ENV_COORDINATOR};
    struct err e = {0};
    o.keys_each = 2048;
    o.values = WIRE_VALUES + VALUES_FP32;
    o.schema = (struct table_schema){
        .name = "load",
        .width = WIDTH,
        .tablet_bits = TABLET_BITS,
        .seed = 1,
        .init = {INIT_UNIFORM, 0.01f},
        .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.01f, .eps = 1e-8f, .initial = 0.1f}};
    options_take(&o, &k, argc, argv);
    char *const *word = argv + optind;
    if (argc != optind + 4)
        return usage();
    double seconds = atof(word[1]);
    o.connections = (uint32_t)atoi(word[2]);
    o.rate = atof(word[3]);
    if (seconds <= 0 || o.connections < 2 || o.connections > CONNECTIONS_MAX || o.keys_each < 1 ||
        o.keys_each > KEYS_MOST || (o.ask != ASK_MIXED && o.rate > 0))
        return usage();
    keys_draw(&o);
    buffers_make(&o);
    if (net_new(&k.net, &o.net, &e) != 0) {
        fprintf(stderr, "bench_offer: %s\n", e.text);
        return 70;
    }
    o.env = net_env(o.net);
    net_set_handler(o.net, &handler, &o);
    for (uint32_t i = 0; i < o.connections; i++)
        if (env_connect(o.env, word[0], k.server, &o.connection[i].peer) != 0)
            return 69;
    env_timer_start(o.env, &o.end, UINT64_C(20000000000)); /* for the answers of `arrange` */
    arrange(&o);
    o.began_ns = env_now_ns(o.env);
    env_timer_start(o.env, &o.end, (uint64_t)(seconds * 1e9));
    const uint32_t window = o.ask == ASK_MIXED ? WINDOW : 1;
    for (uint32_t i = 0; o.rate == 0 && i < o.connections * window; i++)
        offer_one(&o, i % o.connections);
    if (o.rate > 0)
        tick_fire(&o.tick);
    net_run(o.net);
    said(&o, seconds);
    net_free(o.net);
    keyfile_free(k.keys);
    return 0;
}
