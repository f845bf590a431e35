/* part_shards.c: the cost or gain of several shards in a server: three servers, with 1, 2 and 4
 * shards, are measured in turn, so that a noisy machine disturbs each equally.
 *
 * A batch is 8,192 random keys, split into a part for each shard as a worker splits it; four
 * batches are in flight, and a batch is answered when all of its parts are. */
#include "deploy/cli/cli.h"
#include "proto/base/assert.h"
#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "tests/bench/part.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SERVERS = 3, SHARDS_MAX = 4, SETS = 64, ROUNDS = 5, WINDOW = 4 };

static const uint32_t shards_of[SERVERS] = {1, 2, SHARDS_MAX};

struct turn_server { /* one of the three */
    struct part_server process;
    peer_t peer[SHARDS_MAX];
    uint64_t batch;                    /* the last one of its lane */
    double pull[ROUNDS], push[ROUNDS]; /* keys a second */
};

struct shards_bench {
    uint64_t *keys, *fill; /* owned; (SETS, PART_KEYS), (rows): each set by mixed key */
    float *gradients;      /* owned; (PART_KEYS, PART_WIDTH) */
    uint64_t rows;
    struct turn_server server[SERVERS];
    struct net *net;
    struct env *env;
    struct env_timer deadline;
    /* the turn */
    struct turn_server *now;
    uint32_t shards, slot_parts[WINDOW]; /* parts that a batch in flight waits for */
    bool pushing, filling, stopping;
    uint64_t sequence, filled, keys_answered, slot_keys[WINDOW];
    struct err why;
};

/* ---- a batch --------------------------------------------------------------------------------- */

/* Returns the end of the keys, of `count`, that shard `shard` leads by the map that
 * lead (part_server.c) sets. */
static uint32_t stretch_end(const struct shards_bench *b, const uint64_t *keys, uint32_t count,
                            uint32_t at, uint32_t shard)
{
    while (at < count && (uint64_t)key_tablet(key_mix(keys[at]), PART_TABLET_BITS) * b->shards >>
                                 PART_TABLET_BITS ==
                             shard)
        at++;
    return at;
}

static int part_send(struct shards_bench *b, uint32_t slot, uint32_t shard, const uint64_t *keys,
                     uint32_t count)
{
    const uint32_t tablets = (1u << PART_TABLET_BITS) / b->shards;
    const struct part_push push = {b->now->batch, shard * tablets, tablets, b->gradients};
    struct msg *m =
        part_request(++b->sequence * WINDOW + slot, keys, count, b->pushing ? &push : NULL);
    if (m == NULL || env_send(b->env, b->now->peer[shard], m) != 0)
        return err_set(&b->why, SHOAL_E_INTERNAL, "a request could not be sent");
    return 0;
}

static void batch_send(struct shards_bench *b, uint32_t slot)
{
    const uint64_t *keys = b->keys + (b->sequence % SETS) * PART_KEYS;
    uint32_t count = PART_KEYS, at = 0;
    if (b->filling) {
        keys = b->fill + b->filled;
        count = b->rows - b->filled < PART_KEYS ? (uint32_t)(b->rows - b->filled) : PART_KEYS;
        b->filled += count;
    }
    b->slot_keys[slot] = count;
    b->slot_parts[slot] = b->shards;
    for (uint32_t i = 0; i < b->shards; i++) {
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

static void on_message(void *core, peer_t from, struct msg *m)
{
    struct shards_bench *b = core;
    struct wire w;
    (void)from;
    int rc = wire_decode(m, &w, &b->why);
    if (rc == 0 && w.status != 0)
        rc = err_set(&b->why, w.status, "server: %s", w.error);
    msg_free(m);
    if (rc != 0) {
        env_stop(b->env);
        return;
    }
    uint32_t slot = (uint32_t)(w.id % WINDOW), parts = 0;
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

static void on_drained(void *core)
{
    (void)core;
}

static void deadline_cb(struct env_timer *t)
{
    container_of(t, struct shards_bench, deadline)->stopping = true;
}

/* Runs one server for `seconds` (a fill: until it has all rows); *rate: keys a second, if not
 * NULL. */
static int turn_run(struct shards_bench *b, uint32_t server, bool pushing, double seconds,
                    double *rate, struct err *e)
{
    b->now = &b->server[server];
    b->shards = shards_of[server];
    b->pushing = pushing;
    b->filling = seconds == 0;
    b->stopping = false;
    b->filled = b->keys_answered = 0;
    if (!b->filling)
        env_timer_start(b->env, &b->deadline, (uint64_t)(seconds * 1e9));
    uint64_t begin = time_monotonic_ns();
    for (uint32_t i = 0; i < WINDOW && !(b->filling && b->filled == b->rows); i++)
        batch_send(b, i);
    net_run(b->net);
    env_timer_stop(b->env, &b->deadline);
    if (rate != NULL)
        *rate = (double)b->keys_answered / ((double)(time_monotonic_ns() - begin) / 1e9);
    return b->why.code == 0 ? 0 : err_set(e, b->why.code, "%s", b->why.text);
}

/* ---- three servers --------------------------------------------------------------------------- */

static int keys_make(struct shards_bench *b, struct err *e)
{
    struct rng r = {99};
    b->keys = malloc(sizeof *b->keys * SETS * PART_KEYS);
    b->fill = malloc(sizeof *b->fill * b->rows);
    b->gradients = malloc(sizeof *b->gradients * PART_KEYS * PART_WIDTH);
    if (b->keys == NULL || b->fill == NULL || b->gradients == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for %" PRIu64 " keys", b->rows);
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

static int server_open(struct shards_bench *b, uint32_t i, const char *dir, const char *durability,
                       struct err *e)
{
    char name[48], endpoint[64];
    struct turn_server *s = &b->server[i];
    (void)snprintf(name, sizeof name, "server-%s-shards-%u", durability, shards_of[i]);
    s->batch = 0;
    s->process.port = 20000 + (int)(getpid() % 20000) + (int)i * SHARDS_MAX;
    s->process.shards = shards_of[i];
    int rc = part_server_start(&s->process, dir, name, durability, true, e);
    if (rc == 0)
        rc = part_server_arrange(&s->process, e);
    for (uint32_t k = 0; k < shards_of[i] && rc == 0; k++) {
        part_server_endpoint(&s->process, k, endpoint);
        rc = env_connect(b->env, endpoint, ENV_COORDINATOR, &s->peer[k]);
    }
    return rc != 0 ? rc : turn_run(b, i, true, 0, NULL, e);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *rate)
{
    qsort(rate, ROUNDS, sizeof *rate, compare);
    return rate[ROUNDS / 2];
}

static int figures(struct shards_bench *b, struct part_out *out, const char *durability)
{
    char name[64];
    int rc = 0;
    for (uint32_t push = 0; push < 2; push++) {
        double one = 0, all = 0;
        for (uint32_t i = 0; i < SERVERS && rc == 0; i++) {
            all = median(push ? b->server[i].push : b->server[i].pull);
            one = i == 0 ? all : one;
            (void)snprintf(name, sizeof name, "%s_%s_shards%u", push ? "push" : "pull", durability,
                           shards_of[i]);
            rc = part_figure(out, name, all, 0, "keys/s");
        }
        (void)snprintf(name, sizeof name, "%s_%s_shards4_of_1", push ? "push" : "pull", durability);
        if (rc == 0)
            rc = part_figure(out, name, one > 0 ? all / one : 0, 3, "of one shard's");
    }
    return rc;
}

static int durability_run(struct shards_bench *b, struct part_out *out, const char *dir,
                          const char *durability, double seconds, struct err *e)
{
    static const struct env_handler handler = {on_message, on_drained, NULL};
    struct net_options none = {0};
    int rc = net_new(&none, &b->net, e);
    if (rc != 0)
        return rc;
    b->env = net_env(b->net);
    net_set_handler(b->net, &handler, b);
    b->deadline.fire = deadline_cb;
    for (uint32_t i = 0; i < SERVERS && rc == 0; i++)
        rc = server_open(b, i, dir, durability, e);
    for (uint32_t round = 0; round < ROUNDS && rc == 0; round++)
        for (uint32_t k = 0; k < SERVERS && rc == 0; k++) {
            uint32_t i = (k + round) % SERVERS; /* each server is first in turn */
            rc = turn_run(b, i, false, 0.2, NULL, e);
            if (rc == 0)
                rc = turn_run(b, i, false, seconds / 2, &b->server[i].pull[round], e);
            if (rc == 0)
                rc = turn_run(b, i, true, seconds / 2, &b->server[i].push[round], e);
        }
    net_free(b->net);
    for (uint32_t i = 0; i < SERVERS; i++)
        part_server_end(&b->server[i].process, SIGKILL);
    return rc != 0 ? rc : figures(b, out, durability);
}

int part_shards(struct part_out *out, const char *dir, uint64_t rows, double seconds, struct err *e)
{
    struct shards_bench *b = calloc(1, sizeof *b);
    if (b == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory");
    b->rows = rows;
    int rc = keys_make(b, e);
    if (rc == 0)
        rc = durability_run(b, out, dir, "memory", seconds, e);
    if (rc == 0)
        rc = durability_run(b, out, dir, "journal", seconds, e);
    free(b->keys);
    free(b->fill);
    free(b->gradients);
    free(b);
    return rc;
}
