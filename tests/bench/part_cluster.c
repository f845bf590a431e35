/* part_cluster.c: servers, shards and copies: up to three clusters are measured in turn, so that a
 * noisy machine disturbs each equally.
 *
 * The bench is the coordinator of all of them: it answers beats, and every in-sync list that a
 * leader asks for is stored at once. Copy p of shard i is on server (i + p) % servers.
 *
 * A batch is 8,192 random keys, split into a part for each shard as a worker splits it; four
 * batches are in flight, and a batch is answered when all of its parts are. */
#include "tests/bench/part_cluster.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SETS = 64 };
#define BEAT_MS 1500u   /* three beats in this time */
#define LEASE_MS 20000u /* the bench does not answer beats while it starts a server */
#define TURN_NS UINT64_C(20000000)
#define JOIN_NS UINT64_C(120000000000)

/* ---- the coordinator ------------------------------------------------------------------------- */

static uint32_t server_of(const struct form *f, uint32_t shard, uint32_t copy)
{
    return (shard + copy) % f->servers;
}

/* The number within its server. */
static uint32_t index_of(const struct form *f, uint32_t shard, uint32_t copy)
{
    uint32_t before = 0, server = server_of(f, shard, copy);
    for (uint32_t i = 0; i < shard * f->copies + copy; i++)
        before += server_of(f, i / f->copies, i % f->copies) == server;
    return before;
}

static bool place_find(const struct form *f, uint32_t server, uint32_t index, uint32_t *shard,
                       uint32_t *copy)
{
    for (uint32_t i = 0; i < f->shards * f->copies; i++) {
        *shard = i / f->copies;
        *copy = i % f->copies;
        if (server_of(f, *shard, *copy) == server && index_of(f, *shard, *copy) == index)
            return true;
    }
    return false;
}

static void leader_endpoint(const struct cluster *c, uint32_t shard, char endpoint[64])
{
    part_server_endpoint(&c->server[server_of(&c->form, shard, 0)], index_of(&c->form, shard, 0),
                         endpoint);
}

static void reply(struct cluster_bench *b, peer_t to, struct wire *w, enum wire_type type)
{
    w->type = type;
    w->reply = true;
    (void)env_send(b->env, to, wire_encode(w));
}

static void copy_first(struct cluster *c, const struct wire_SHARD_BEAT *beat)
{
    c->copied_first = beat->copied;
    c->copy_ms_first = beat->copy_ms;
}

static void on_beat(struct cluster_bench *b, peer_t from, const struct wire_SHARD_BEAT *beat,
                    uint64_t id)
{
    unsigned number, server;
    uint32_t shard, copy;
    struct wire w = {.id = id};
    struct wire_SHARD_BEAT_reply *r = &w.u.SHARD_BEAT_reply;
    if (sscanf(beat->server, "c%u-s%u", &number, &server) != 2 || number >= b->clusters ||
        !place_find(&b->cluster[number].form, server, beat->shard_index, &shard, &copy))
        return;
    struct cluster *c = &b->cluster[number];
    c->boss[shard][copy] = from;
    if (beat->copied > 0) {
        if (c->copied == 0)
            copy_first(c, beat);
        c->copied = beat->copied;
        c->copy_ms = beat->copy_ms;
    }
    *r = (struct wire_SHARD_BEAT_reply){.shard = shard,
                                        .lease_ms = BEAT_MS,
                                        .cluster_high = 1,
                                        .cluster_low = number + 1,
                                        .shards = c->form.shards,
                                        .copy = copy,
                                        .term = 1,
                                        .in_sync = c->in_sync[shard],
                                        .min_in_sync = 1,
                                        .shard_lease_ms = LEASE_MS};
    if (c->form.copies > 1)
        r->copies = c->form.copies;
    char endpoint[64];
    leader_endpoint(c, shard, endpoint);
    if (copy > 0)
        (void)snprintf(r->leader, sizeof r->leader, "%s", endpoint);
    reply(b, from, &w, WIRE_TYPE_SHARD_BEAT);
}

static void on_in_sync(struct cluster_bench *b, peer_t from, const struct wire_IN_SYNC *ask,
                       uint64_t id)
{
    struct wire w = {.id = id};
    for (uint32_t i = 0; i < b->clusters; i++)
        if (ask->shard < b->cluster[i].form.shards && b->cluster[i].boss[ask->shard][0] == from)
            b->cluster[i].in_sync[ask->shard] = ask->in_sync;
    w.u.IN_SYNC_reply.in_sync = ask->in_sync;
    reply(b, from, &w, WIRE_TYPE_IN_SYNC);
}

/* ---- a batch --------------------------------------------------------------------------------- */

/* The end of the keys, of `count`, that shard `shard` leads by the map of the cluster. */
static uint32_t stretch_end(const struct cluster_bench *b, const uint64_t *keys, uint32_t count,
                            uint32_t at, uint32_t shard)
{
    const uint32_t shards = b->now->form.shards;
    while (at < count &&
           (uint64_t)key_tablet(key_mix(keys[at]), PART_TABLET_BITS) * shards >> PART_TABLET_BITS ==
               shard)
        at++;
    return at;
}

/* The first tablet of a shard. */
static uint32_t tablet_of(const struct form *f, uint32_t shard)
{
    return ((shard << PART_TABLET_BITS) + f->shards - 1) / f->shards;
}

static int part_send(struct cluster_bench *b, uint32_t slot, uint32_t shard, const uint64_t *keys,
                     uint32_t count)
{
    const struct form *f = &b->now->form;
    const uint32_t first = tablet_of(f, shard), tablets = tablet_of(f, shard + 1) - first;
    const struct part_push push = {b->now->batch, first, tablets, b->gradients};
    struct msg *m =
        part_request(++b->sequence * WINDOW + slot, keys, count, b->pushing ? &push : NULL);
    if (m == NULL || env_send(b->env, b->now->peer[shard], m) != 0)
        return err_set(&b->why, SHOAL_E_INTERNAL, "a request could not be sent");
    return 0;
}

static void batch_send(struct cluster_bench *b, uint32_t slot)
{
    const uint64_t *keys = b->keys + (b->sequence % SETS) * PART_KEYS;
    uint32_t count = PART_KEYS, at = 0;
    if (b->filling) {
        keys = b->fill + b->filled;
        count = b->rows - b->filled < PART_KEYS ? (uint32_t)(b->rows - b->filled) : PART_KEYS;
        b->filled += count;
    }
    b->slot_keys[slot] = count;
    b->slot_parts[slot] = b->now->form.shards;
    for (uint32_t i = 0; i < b->now->form.shards; i++) {
        uint32_t end = stretch_end(b, keys, count, at, i);
        if (part_send(b, slot, i, keys + at, end - at) != 0) {
            env_stop(b->env);
            return;
        }
        at = end;
    }
    SHOAL_ASSERT(at == count); /* sorted by mixed key, and every tablet has a shard */
    b->now->batch += b->pushing;
}

static void on_reply(struct cluster_bench *b, const struct wire *w)
{
    if (w->id == b->asked) {
        b->answered = true;
        b->answer = w->status;
        (void)snprintf(b->text, sizeof b->text, "%s", w->error);
        env_stop(b->env);
        return;
    }
    if (w->type != WIRE_TYPE_PULL && w->type != WIRE_TYPE_PUSH)
        return;
    uint32_t slot = (uint32_t)(w->id % WINDOW), parts = 0;
    if (w->status != 0) {
        err_set(&b->why, w->status, "server: %s", w->error);
        env_stop(b->env);
        return;
    }
    if (--b->slot_parts[slot] == 0) {
        b->keys_answered += b->slot_keys[slot];
        b->stopping |= b->filling && b->filled == b->rows;
        if (!b->stopping)
            batch_send(b, slot);
    }
    for (uint32_t i = 0; i < WINDOW; i++)
        parts += b->slot_parts[i];
    if (parts == 0)
        env_stop(b->env);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct cluster_bench *b = core;
    struct wire w;
    struct err e = {0};
    if (wire_decode(m, &w, &e) == 0) {
        if (w.reply)
            on_reply(b, &w);
        else if (w.type == WIRE_TYPE_SHARD_BEAT)
            on_beat(b, from, &w.u.SHARD_BEAT, w.id);
        else if (w.type == WIRE_TYPE_IN_SYNC)
            on_in_sync(b, from, &w.u.IN_SYNC, w.id);
    }
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void deadline_cb(struct env_timer *t)
{
    struct cluster_bench *b = container_of(t, struct cluster_bench, deadline);
    uint32_t parts = 0;
    b->stopping = true;
    for (uint32_t i = 0; i < WINDOW; i++)
        parts += b->slot_parts[i];
    if (parts == 0)
        env_stop(b->env);
}

static double leaders_cpu(const struct cluster *c)
{
    double all = 0;
    for (uint32_t i = 0; i < c->form.shards && i < c->form.servers; i++)
        all += part_server_cpu(&c->server[i]);
    return all;
}

/* Runs a cluster for `seconds` (0: until it has all rows). *rate: keys a second, *cpu_ns: of a key;
 * or both NULL. */
static int turn_run(struct cluster_bench *b, struct cluster *c, bool pushing, double seconds,
                    double *rate, double *cpu_ns, struct err *e)
{
    b->now = c;
    b->pushing = pushing;
    b->filling = seconds == 0;
    b->stopping = false;
    b->filled = b->keys_answered = 0;
    if (!b->filling)
        env_timer_start(b->env, &b->deadline, (uint64_t)(seconds * 1e9));
    uint64_t begin = time_monotonic_ns();
    double cpu = leaders_cpu(c);
    for (uint32_t i = 0; i < WINDOW && !(b->filling && b->filled == b->rows); i++)
        batch_send(b, i);
    net_run(b->net);
    env_timer_stop(b->env, &b->deadline);
    if (b->why.code != 0)
        return err_set(e, b->why.code, "%s", b->why.text);
    if (rate != NULL) {
        *rate = (double)b->keys_answered / ((double)(time_monotonic_ns() - begin) / 1e9);
        *cpu_ns = (leaders_cpu(c) - cpu) * 1e9 / (double)b->keys_answered;
    }
    return 0;
}

/* ---- a cluster begins ------------------------------------------------------------------------ */

static void rest(struct cluster_bench *b, uint64_t ns)
{
    env_timer_start(b->env, &b->deadline, ns);
    net_run(b->net);
    env_timer_stop(b->env, &b->deadline);
}

/* Asks until the shard is ready to answer. */
static int ask(struct cluster_bench *b, peer_t to, struct wire *w, const void *data, size_t bytes,
               struct err *e)
{
    for (int tries = 0; tries < 500; tries++) {
        w->id = b->asked = ++b->sequence * WINDOW;
        struct msg *m = wire_encode(w);
        if (data != NULL &&
            (m == NULL || msg_add_borrowed(m, (void *)(uintptr_t)data, bytes, NULL, NULL) != 0))
            return err_set(e, SHOAL_E_NOMEM, "out of memory");
        b->answered = false;
        if (env_send(b->env, to, m) == 0)
            rest(b, JOIN_NS);
        b->asked = 0;
        if (b->answered && b->answer == 0)
            return 0;
        if (b->answered && b->answer != SHOAL_E_AGAIN)
            break;
        rest(b, TURN_NS);
    }
    return err_set(e, SHOAL_E_UNAVAILABLE, "%s: %s", wire_type_name(w->type),
                   b->answered ? b->text : "no answer");
}

int cluster_server_begin(struct cluster_bench *b, struct cluster *c, uint32_t i, struct err *e)
{
    struct part_server *s = &c->server[i];
    const uint32_t number = (uint32_t)(c - b->cluster);
    char name[48];
    (void)snprintf(s->name, sizeof s->name, "c%u-s%u", number, i);
    (void)snprintf(name, sizeof name, "server-%s-%s", b->kept, s->name);
    (void)snprintf(s->coordinator, sizeof s->coordinator, "%.63s", b->endpoint);
    s->port = 20000 + (int)(getpid() % 20000) + (int)(number * SERVERS + i) * SHARDS * COPIES;
    s->shards = 0;
    for (uint32_t k = 0; k < c->form.shards * c->form.copies; k++)
        s->shards += server_of(&c->form, k / c->form.copies, k % c->form.copies) == i;
    return part_server_start(s, b->dir, name, b->kept, true, e);
}

/* Waits until so many copies of every shard are known. */
int cluster_wait(struct cluster_bench *b, struct cluster *c, uint32_t copies, bool in_sync,
                 struct err *e)
{
    uint64_t begin = time_monotonic_ns();
    for (uint32_t i = 0; i < c->form.shards * copies; i++) {
        uint32_t shard = i / copies, copy = i % copies;
        while (in_sync ? (c->in_sync[shard] >> copy & 1) == 0 : c->boss[shard][copy] == 0) {
            if (time_monotonic_ns() - begin > JOIN_NS)
                return err_set(e, SHOAL_E_UNAVAILABLE, "copy %u of shard %u does not come", copy,
                               shard);
            rest(b, TURN_NS);
        }
    }
    return 0;
}

static int table_make(struct cluster_bench *b, struct cluster *c, uint32_t shard, struct err *e)
{
    struct wire w;
    part_table(PART_TABLET_BITS, &w);
    return ask(b, c->boss[shard][0], &w, "", 0, e); /* a frame without a name */
}

static int run_open(struct cluster_bench *b, struct cluster *c, uint32_t shard, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_RUN_OPEN};
    w.u.RUN_OPEN = (struct wire_RUN_OPEN){.run = 1, .lanes = 1, .mode = WIRE_ASYNC};
    int rc = ask(b, c->boss[shard][0], &w, NULL, 0, e);
    if (rc != 0)
        return rc;
    w = (struct wire){.type = WIRE_TYPE_FENCE};
    w.u.FENCE = (struct wire_FENCE){.run = 1, .lane = 0, .generation = 1, .live = true};
    return ask(b, c->boss[shard][0], &w, NULL, 0, e);
}

/* Every copy gets the map. */
static int map_tell(struct cluster_bench *b, struct cluster *c, uint32_t shard, uint32_t copy,
                    struct err *e)
{
    static uint16_t shard_of[1 << PART_TABLET_BITS];
    struct wire w = {.type = WIRE_TYPE_MAP_SET};
    for (uint32_t i = 0; i < 1u << PART_TABLET_BITS; i++)
        shard_of[i] = (uint16_t)((uint64_t)i * c->form.shards >> PART_TABLET_BITS);
    w.u.MAP_SET = (struct wire_MAP_SET){.map_epoch = 1,
                                        .tablet_count = 1u << PART_TABLET_BITS,
                                        .cluster_high = 1,
                                        .cluster_low = (uint64_t)(c - b->cluster) + 1};
    return ask(b, c->boss[shard][copy], &w, shard_of, sizeof shard_of, e);
}

/* Begins a cluster, of which `servers` run, and fills it. */
int cluster_begin(struct cluster_bench *b, struct cluster *c, uint32_t servers, struct err *e)
{
    char endpoint[64];
    uint32_t copies = c->form.copies;
    int rc = 0;
    if (servers < c->form.servers)
        copies = 1;
    c->batch = 0;
    for (uint32_t i = 0; i < c->form.shards; i++)
        c->in_sync[i] = 1;
    for (uint32_t i = 0; i < servers && rc == 0; i++)
        rc = cluster_server_begin(b, c, i, e);
    if (rc == 0)
        rc = cluster_wait(b, c, copies, false, e);
    for (uint32_t i = 0; i < c->form.shards && rc == 0; i++)
        rc = table_make(b, c, i, e);
    for (uint32_t i = 0; i < c->form.shards * copies && rc == 0; i++)
        rc = map_tell(b, c, i / copies, i % copies, e);
    for (uint32_t i = 0; i < c->form.shards && rc == 0; i++)
        rc = run_open(b, c, i, e);
    if (rc == 0)
        rc = cluster_wait(b, c, copies, true, e);
    for (uint32_t i = 0; i < c->form.shards && rc == 0; i++) {
        leader_endpoint(c, i, endpoint);
        rc = env_connect(b->env, endpoint, ENV_COORDINATOR, &c->peer[i]);
    }
    if (rc == 0)
        rc = turn_run(b, c, true, 0, NULL, NULL, e);
    return rc;
}

/* ---- the bench ------------------------------------------------------------------------------- */

static int keys_make(struct cluster_bench *b)
{
    struct rng r = {99};
    b->keys = malloc(sizeof *b->keys * SETS * PART_KEYS);
    b->fill = malloc(sizeof *b->fill * b->rows);
    b->gradients = malloc(sizeof *b->gradients * PART_KEYS * PART_WIDTH);
    if (b->keys == NULL || b->fill == NULL || b->gradients == NULL)
        return SHOAL_E_NOMEM;
    for (size_t i = 0; i < (size_t)PART_KEYS * PART_WIDTH; i++)
        b->gradients[i] = 1e-3f;
    for (uint64_t i = 0; i < b->rows; i++)
        b->fill[i] = part_key(i);
    for (uint64_t i = 0; i < b->rows; i += PART_KEYS)
        part_keys_sort(b->fill + i, b->rows - i < PART_KEYS ? b->rows - i : PART_KEYS);
    for (size_t i = 0; i < (size_t)SETS * PART_KEYS; i++)
        b->keys[i] = part_key(rng_below(&r, b->rows));
    for (size_t s = 0; s < SETS; s++)
        part_keys_sort(b->keys + s * PART_KEYS, PART_KEYS);
    return 0;
}

int cluster_bench_begin(struct cluster_bench *b, const char *dir, const char *kept, struct err *e)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    struct net_options plain = {.insecure_plaintext = true};
    b->dir = dir;
    b->kept = kept;
    int rc = net_new(&plain, &b->net, e);
    if (rc != 0)
        return rc;
    b->env = net_env(b->net);
    net_set_handler(b->net, &handler, b);
    b->deadline.fire = deadline_cb;
    return net_listen(b->net, "tcp://127.0.0.1:0", b->endpoint, e);
}

void cluster_bench_end(struct cluster_bench *b)
{
    if (b->net != NULL)
        net_free(b->net);
    b->net = NULL;
    for (uint32_t i = 0; i < b->clusters; i++) {
        for (uint32_t k = 0; k < SERVERS; k++)
            part_server_end(&b->cluster[i].server[k], SIGKILL);
        b->cluster[i] = (struct cluster){.form = b->cluster[i].form};
    }
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double cluster_median(double of[ROUNDS])
{
    qsort(of, ROUNDS, sizeof *of, compare);
    return of[ROUNDS / 2];
}

int cluster_rounds(struct cluster_bench *b, bool pulls, double seconds, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < b->clusters && rc == 0; i++)
        rc = cluster_begin(b, &b->cluster[i], b->cluster[i].form.servers, e);
    for (uint32_t round = 0; round < ROUNDS && rc == 0; round++)
        for (uint32_t k = 0; k < b->clusters && rc == 0; k++) {
            struct cluster *c = &b->cluster[(k + round) % b->clusters]; /* each is first in turn */
            rc = turn_run(b, c, !pulls, 0.2, NULL, NULL, e);
            for (int push = !pulls; push < 2 && rc == 0; push++)
                rc = turn_run(b, c, push, seconds, &c->rate[push][round], &c->cpu[push][round], e);
        }
    return rc;
}

struct cluster_bench *cluster_bench_new(uint64_t rows, const struct form *form, uint32_t clusters)
{
    struct cluster_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return NULL;
    b->rows = rows;
    b->clusters = clusters;
    for (uint32_t i = 0; i < clusters; i++)
        b->cluster[i].form = form[i];
    if (keys_make(b) == 0)
        return b;
    cluster_bench_free(b);
    return NULL;
}

void cluster_bench_free(struct cluster_bench *b)
{
    cluster_bench_end(b);
    free(b->keys);
    free(b->fill);
    free(b->gradients);
    free(b);
}
