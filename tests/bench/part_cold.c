/* part_cold.c: pulls of a table that is four times its server's memory budget.
 *
 * Keys are drawn by Zipf's law with exponent 1.05, like the ids of a click log: rank k of `rows`
 * with a probability of k^-1.05; ranks are spread over the table and independent of the order in
 * which rows were made. A pull asks for 8,192 different keys, as a batch does; four are in flight.
 * No set of keys is asked for twice. The store's share is the share of keys that were not in
 * memory: fetched rows divided by pulled rows. */
#include "proto/base/container_of.h"
#include "proto/base/time.h"
#include "proto/net/net.h"
#include "proto/wire/wire.h"
#include "tests/bench/part.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 4, SETS_SECOND = 250, SLOTS = 4 * PART_KEYS, TABLET_BITS = 6 };
#define ROW_BYTES 136ull    /* key, weights, state */
#define STORE_ROWS 340000.0 /* rows a second from the store: RocksDB itself, measured */
#define EXPONENT 1.05
/* a prime above the number of rows: rank times it, modulo rows, is a bijection */
#define SPREAD UINT64_C(2654435761)

struct cold {
    struct part_server server;
    struct net *net;
    struct env *env;
    peer_t peer;
    struct env_timer deadline;
    uint64_t rows, filled, batch, sequence;
    uint64_t (*fill)[PART_KEYS]; /* owned; (WINDOW): lent to the pushes in flight */
    float *gradients;            /* owned; (PART_KEYS, PART_WIDTH) */
    uint64_t *keys;              /* owned; (sets, PART_KEYS) */
    size_t sets, next;
    uint32_t in_flight;
    uint64_t answered;
    bool filling, stopping;
    struct err why;
};

/* ---- keys ------------------------------------------------------------------------------------ */

static uint64_t rank_drawn(const double *sum, uint64_t rows, struct rng *r)
{
    double at = (double)(rng_next(r) >> 11) * 0x1p-53 * sum[rows - 1];
    uint64_t low = 0, high = rows - 1;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        if (sum[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* True when the key was not yet in the set of this number. */
static bool fresh(uint64_t *slot, uint64_t key)
{
    size_t i = (size_t)(rng_mix(key) % SLOTS);
    while (slot[i] != 0 && slot[i] != key)
        i = (i + 1) % SLOTS;
    bool yes = slot[i] == 0;
    slot[i] = key;
    return yes;
}

static int keys_draw(struct cold *c)
{
    struct rng r = {77};
    double *sum = malloc(sizeof *sum * c->rows), total = 0;
    uint64_t *slot = malloc(sizeof *slot * SLOTS);
    for (uint64_t k = 0; sum != NULL && k < c->rows; k++)
        sum[k] = total += pow((double)k + 1, -EXPONENT);
    for (size_t s = 0; sum != NULL && slot != NULL && s < c->sets; s++) {
        uint64_t *set = c->keys + s * PART_KEYS;
        memset(slot, 0, sizeof *slot * SLOTS);
        for (size_t n = 0; n < PART_KEYS;) {
            uint64_t key = part_key(rank_drawn(sum, c->rows, &r) * SPREAD % c->rows);
            if (key != 0 && fresh(slot, key))
                set[n++] = key;
        }
        part_keys_sort(set, PART_KEYS);
    }
    bool good = sum != NULL && slot != NULL;
    free(sum);
    free(slot);
    return good ? 0 : SHOAL_E_NOMEM;
}

/* ---- requests -------------------------------------------------------------------------------- */

static void request_send(struct cold *c)
{
    uint64_t *keys = c->keys + c->next * PART_KEYS;
    uint32_t count = PART_KEYS;
    if (c->filling) {
        keys = c->fill[c->batch % WINDOW];
        count = c->rows - c->filled < PART_KEYS ? (uint32_t)(c->rows - c->filled) : PART_KEYS;
        for (uint32_t i = 0; i < count; i++)
            keys[i] = part_key(c->filled++);
        part_keys_sort(keys, count);
    }
    const struct part_push push = {c->batch, 0, 1u << TABLET_BITS, c->gradients};
    c->batch += c->filling;
    c->next += !c->filling;
    struct msg *m = part_request(++c->sequence, keys, count, c->filling ? &push : NULL);
    if (m == NULL || env_send(c->env, c->peer, m) != 0) {
        err_set(&c->why, SHOAL_E_INTERNAL, "a request could not be sent");
        env_stop(c->env);
        return;
    }
    c->in_flight++;
}

static bool more(const struct cold *c)
{
    return !c->stopping && (c->filling ? c->filled < c->rows : c->next < c->sets);
}

static void cold_on_message(void *core, peer_t from, struct msg *m)
{
    struct cold *c = core;
    struct wire w;
    (void)from;
    c->in_flight--;
    if (wire_decode(m, &w, &c->why) != 0 || w.status != 0) {
        if (c->why.code == 0)
            err_set(&c->why, w.status, "the server: %s", w.error);
        c->stopping = true;
    } else {
        c->answered++;
    }
    msg_free(m);
    if (more(c))
        request_send(c);
    else if (c->in_flight == 0)
        env_stop(c->env);
}

static void cold_on_drained(void *core)
{
    (void)core;
}

static void deadline_fire(struct env_timer *t)
{
    (container_of(t, struct cold, deadline))->stopping = true;
}

/* Returns rows pulled (or pushed) a second. seconds 0: until all are sent. */
static int phase(struct cold *c, bool filling, double seconds, double *rows_per_second,
                 struct err *e)
{
    c->filling = filling;
    c->stopping = false;
    c->answered = 0;
    if (seconds > 0)
        env_timer_start(c->env, &c->deadline, (uint64_t)(seconds * 1e9));
    uint64_t began = time_monotonic_ns();
    while (c->in_flight < WINDOW && more(c))
        request_send(c);
    if (c->in_flight > 0)
        net_run(c->net);
    env_timer_stop(c->env, &c->deadline);
    *rows_per_second =
        (double)c->answered * PART_KEYS / ((double)(time_monotonic_ns() - began) / 1e9);
    return c->why.code == 0 ? 0 : err_set(e, c->why.code, "%s", c->why.text);
}

/* ---- the measurement ------------------------------------------------------------------------- */

static int status_read(struct cold *c, double *fetched, double *cold_rows, double *pulled,
                       struct err *e)
{
    struct json *j = NULL;
    int rc = part_server_status(&c->server, &j, e);
    *fetched = json_as_number(json_get(j, "fetched"), 0);
    *cold_rows = json_as_number(json_get(j, "cold_rows"), 0);
    *pulled = json_as_number(json_get(j, "keys_pulled"), 0);
    json_free(j);
    return rc;
}

static int connection_open(struct cold *c, struct err *e)
{
    static const struct env_handler handler = {cold_on_message, cold_on_drained, NULL};
    struct net_options none = {0};
    int rc = net_new(&none, &c->net, e);
    if (rc != 0)
        return rc;
    c->env = net_env(c->net);
    net_set_handler(c->net, &handler, c);
    c->deadline.fire = deadline_fire;
    return env_connect(c->env, c->server.endpoint, ENV_COORDINATOR, &c->peer);
}

static int measure(struct cold *c, struct part_out *out, const char *dir, double seconds,
                   struct err *e)
{
    double rate, fetched[2], cold_rows, pulled[2];
    c->server.memory = c->rows * ROW_BYTES / 4;
    c->server.tablet_bits = TABLET_BITS;
    int rc = part_server_start(&c->server, dir, "server-cold", "journal", true, e);
    if (rc == 0)
        rc = part_server_arrange(&c->server, e);
    if (rc == 0)
        rc = connection_open(c, e);
    if (rc == 0)
        rc = phase(c, true, 0, &rate, e);
    if (rc == 0)
        rc = phase(c, false, seconds, &rate, e); /* frequent rows come to memory */
    if (rc == 0)
        rc = status_read(c, &fetched[0], &cold_rows, &pulled[0], e);
    if (rc == 0)
        rc = phase(c, false, seconds, &rate, e);
    if (rc == 0)
        rc = status_read(c, &fetched[1], &cold_rows, &pulled[1], e);
    if (rc != 0)
        return rc;
    if (pulled[1] <= pulled[0])
        return err_set(e, SHOAL_E_INTERNAL, "nothing was left to pull: too few keys were drawn");
    double share = (fetched[1] - fetched[0]) / (pulled[1] - pulled[0]);
    if ((rc = part_figure(out, "pull_cold", rate, 0, "rows/s")) != 0 ||
        (rc = part_figure(out, "pull_cold_misses", share, 4, "of the rows")) != 0 ||
        (rc = part_figure(out, "pull_cold_stored", cold_rows / (double)c->rows, 4,
                          "of the table")) != 0)
        return rc;
    return part_figure(out, "pull_cold_of_store", rate * share / STORE_ROWS, 3,
                       "of 0.34 M rows/s by misses");
}

int part_cold(struct part_out *out, const char *dir, uint64_t rows, double seconds, struct err *e)
{
    struct cold *c = calloc(1, sizeof *c);
    int rc = 0;
    if (c != NULL) {
        c->rows = rows;
        c->sets = (size_t)(2 * seconds * SETS_SECOND) + 2 * WINDOW;
        c->fill = malloc(sizeof *c->fill * WINDOW);
        c->keys = malloc(sizeof *c->keys * PART_KEYS * c->sets);
        c->gradients = malloc(sizeof *c->gradients * PART_KEYS * PART_WIDTH);
    }
    if (c == NULL || c->fill == NULL || c->keys == NULL || c->gradients == NULL ||
        keys_draw(c) != 0)
        rc = err_set(e, SHOAL_E_NOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < (size_t)PART_KEYS * PART_WIDTH; i++)
        c->gradients[i] = 1e-3f;
    if (rc == 0) {
        rc = measure(c, out, dir, seconds, e);
        if (c->net != NULL)
            net_free(c->net);
        part_server_end(&c->server, SIGKILL);
    }
    if (c != NULL) {
        free(c->fill);
        free(c->keys);
        free(c->gradients);
    }
    free(c);
    return rc;
}
