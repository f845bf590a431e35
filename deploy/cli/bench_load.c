/* bench_load.c: the requests of a measurement, and the load that they make. */
#include "deploy/cli/bench.h"

#include "proto/base/container_of.h"
#include "proto/base/key.h"
#include "proto/base/minmax.h"
#include "proto/base/rng.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>

static int mixed_compare(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    if (x < y)
        return -1;
    return x > y;
}

static void keys_sort(uint64_t *keys, size_t count)
{
    qsort(keys, count, sizeof *keys, mixed_compare);
}

/* The key of row `row`: a bijection that spreads the rows over the whole key space. */
static uint64_t key_of(uint64_t row)
{
    return rng_mix(row + 1);
}

struct wire bench_load_pull(uint32_t count)
{
    struct wire w = {.type = WIRE_TYPE_PULL};
    w.u.PULL = (struct wire_PULL){.run = 1, .lane = UINT32_MAX, .bound = WIRE_BOUND_ASYNC};
    w.u.PULL.key_count = count;
    w.u.PULL.map_epoch = 1;
    return w;
}

/* A push of the next batch of a space. The lane's batches of each table are counted by themselves,
 * as those of jobs are. */
static struct wire push_of(struct bench_load *l, uint32_t space, uint32_t count)
{
    struct wire w = {.type = WIRE_TYPE_PUSH};
    w.u.PUSH = (struct wire_PUSH){.run = 1, .generation = 1, .lr_scale = 1, .map_epoch = 1};
    w.u.PUSH.table = bench_server_table(&l->server, space);
    w.u.PUSH.from = l->batch[space]++;
    w.u.PUSH.to = l->batch[space];
    w.u.PUSH.tablet_count = 1u << bench_server_bits(&l->server);
    w.u.PUSH.key_count = count;
    return w;
}

static uint32_t spaces_of(const struct bench_load *l)
{
    return MAX(l->server.spaces, 1);
}

static void request_send(struct bench_load *l, enum bench_kind kind)
{
    uint64_t *keys = l->keys + (l->sequence % l->sets) * BENCH_KEYS;
    uint32_t count = BENCH_KEYS, space = (uint32_t)(l->sequence % spaces_of(l));
    struct wire w = bench_load_pull(count);
    w.u.PULL.table = bench_server_table(&l->server, space);
    if (l->filling && kind == BENCH_PUSH) {
        uint64_t at = l->filled % l->rows, left = l->rows - at;
        space = (uint32_t)(l->filled / l->rows);
        count = (uint32_t)MIN(left, BENCH_KEYS);
        keys = l->fill + at;
        l->filled += count;
    }
    if (kind == BENCH_PUSH)
        w = push_of(l, space, count);
    w.id = ++l->sequence;
    l->in_flight[kind]++;
    struct msg *m = wire_encode(&w);
    int rc = SHOAL_E_NOMEM;
    if (m != NULL)
        rc = msg_add_borrowed(m, keys, count * sizeof *keys, NULL, NULL);
    if (rc == 0 && kind == BENCH_PUSH)
        rc = msg_add_borrowed(m, l->gradients, count * BENCH_WIDTH * sizeof(float), NULL, NULL);
    if (rc == 0 && kind == BENCH_PUSH)
        rc = msg_add_borrowed(m, NULL, 0, NULL, NULL); /* no rows are wanted */
    if (rc != 0)
        msg_free(m);
    else if (env_send(l->env, l->peer[kind], m) == 0)
        return;
    err_set(&l->why, SHOAL_E_INTERNAL, "a request could not be sent");
    env_stop(l->env);
}

/* Sends requests while the windows have room. */
static void flow(struct bench_load *l)
{
    for (int kind = 0; kind < BENCH_KINDS; kind++)
        while (l->why.code == 0 && l->in_flight[kind] < l->window[kind] &&
               !(l->filling && kind == BENCH_PUSH && l->filled >= l->rows * spaces_of(l)))
            request_send(l, (enum bench_kind)kind);
}

static void load_on_message(void *core, peer_t from, struct msg *m)
{
    struct bench_load *l = core;
    struct wire w;
    enum bench_kind kind = from == l->peer[BENCH_PUSH] ? BENCH_PUSH : BENCH_PULL;
    if (wire_decode(m, &w, &l->why) == 0 && w.status != 0)
        err_set(&l->why, w.status, "the server: %s", w.error);
    msg_free(m);
    l->answered++;
    l->in_flight[kind]--;
    flow(l);
    if (l->why.code != 0 || l->in_flight[BENCH_PUSH] + l->in_flight[BENCH_PULL] == 0)
        env_stop(l->env);
}

static void load_on_drained(void *core)
{
    (void)core;
}

static void deadline_fire(struct env_timer *t)
{
    env_stop(container_of(t, struct bench_load, deadline)->env);
}

/* Runs until the deadline, or until nothing is in flight. */
static int turn(struct bench_load *l, uint32_t pushes, uint32_t pulls, struct err *e)
{
    l->window[BENCH_PUSH] = pushes;
    l->window[BENCH_PULL] = pulls;
    flow(l);
    net_run(l->net);
    if (l->why.code == 0)
        return 0;
    return err_set(e, l->why.code, "%s", l->why.text);
}

int bench_load_prepare(struct bench_load *l, uint64_t rows, uint32_t sets, uint64_t stretch,
                       struct err *e)
{
    struct rng r = {99};
    l->rows = rows;
    l->sets = sets;
    l->fill = malloc(sizeof *l->fill * rows);
    l->keys = malloc(sizeof *l->keys * sets * BENCH_KEYS);
    l->gradients = malloc(sizeof *l->gradients * BENCH_KEYS * BENCH_WIDTH);
    if (l->fill == NULL || l->keys == NULL || l->gradients == NULL)
        return err_set(e, SHOAL_E_NOMEM, "out of memory for %" PRIu64 " keys", rows);

    for (size_t i = 0; i < (size_t)BENCH_KEYS * BENCH_WIDTH; i++)
        l->gradients[i] = 1e-3f;
    for (uint64_t i = 0; i < rows; i++)
        l->fill[i] = key_of(i);
    for (uint64_t i = 0; i < rows; i += stretch)
        keys_sort(l->fill + i, MIN(rows - i, stretch));
    for (size_t i = 0; i < (size_t)sets * BENCH_KEYS; i++)
        l->keys[i] = key_of(rng_below(&r, rows));
    for (size_t s = 0; s < sets; s++)
        keys_sort(l->keys + s * BENCH_KEYS, BENCH_KEYS);
    return 0;
}

int bench_load_connect(struct bench_load *l, struct err *e)
{
    static const struct env_handler handler = {load_on_message, load_on_drained, NULL};
    struct net_options none = {0};
    int rc = net_new(&none, &l->net, e);
    if (rc != 0)
        return rc;
    l->env = net_env(l->net);
    net_set_handler(l->net, &handler, l);
    l->deadline.fire = deadline_fire;
    for (int kind = 0; kind < BENCH_KINDS; kind++) {
        l->in_flight[kind] = 0;
        if (env_connect(l->env, l->server.endpoint, ENV_COORDINATOR, &l->peer[kind]) != 0)
            return err_set(e, SHOAL_E_UNAVAILABLE, "cannot connect to %s", l->server.endpoint);
    }
    return 0;
}

int bench_load_fill(struct bench_load *l, const char *data, const char *durability, struct err *e)
{
    int rc = bench_server_start(&l->server, data, durability, true, e);
    if (rc != 0 || (rc = bench_server_arrange(&l->server, e)) != 0 ||
        (rc = bench_load_connect(l, e)) != 0)
        return rc;
    l->filling = true;
    rc = turn(l, 4, 0, e);
    l->filling = false;
    if (rc != 0)
        return rc;
    return bench_load_rest(l, e);
}

int bench_load_run(struct bench_load *l, uint32_t pushes, uint32_t pulls, double seconds,
                   struct err *e)
{
    l->answered = 0;
    env_timer_start(l->env, &l->deadline, (uint64_t)(seconds * 1e9));
    int rc = turn(l, pushes, pulls, e);
    env_timer_stop(l->env, &l->deadline);
    return rc;
}

int bench_load_rest(struct bench_load *l, struct err *e)
{
    if (l->in_flight[BENCH_PULL] + l->in_flight[BENCH_PUSH] > 0)
        return turn(l, 0, 0, e);
    return 0;
}

void bench_load_end(struct bench_load *l, int signo)
{
    if (l->net != NULL)
        net_free(l->net);
    l->net = NULL;
    bench_server_end(&l->server, signo);
}

void bench_load_release(struct bench_load *l)
{
    bench_load_end(l, SIGKILL);
    free(l->fill);
    free(l->keys);
    free(l->gradients);
}
