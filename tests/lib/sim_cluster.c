/* sim_cluster.c: nodes of a simulated cluster, their deaths and returns. */
#include "tests/lib/sim_cluster.h"
#include "proto/base/array.h"
#include "proto/base/json.h"
#include "proto/wire/coordinators.h"
#include "server/coord/coord.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
#include "tests/lib/disk.h"
#include "tests/lib/server_fake.h"
#include "worker/train/trainer.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define CLUSTER_NEVER_NS (UINT64_C(1000000) * 1000 * MS)

/* Trainers whose threads had work when they died are never freed, as in a real process; the leak
 * checker finds them here. */
static struct trainer **dead;
static uint32_t dead_count, dead_capacity;

/* Starts watching a machine's folder as its disk. */
static void disk_start(const struct cluster *c, struct disk **d, const char *dir)
{
    if (!c->options.power)
        return;
    if (*d == NULL) {
        ck_assert_int_eq(mkdir(dir, 0700), 0);
        *d = disk_watch(dir);
    }
    if (disk_is_off(*d))
        disk_on(*d);
}

/* ---- coordinators ---------------------------------------------------------------------------- */

static const char *const coord_endpoint[2] = {"sim://coordinator", "sim://coordinator-1"};

static const char *coordinators(const struct cluster *c)
{
    return c->options.standby ? "sim://coordinator,sim://coordinator-1" : coord_endpoint[0];
}

/* The place of the newest coordinator: the first one of two leads at the second place. */
static uint32_t coord_place(const struct cluster *c)
{
    return c->options.standby ? c->coords % 2 : 0;
}

static void standby_message(void *core, peer_t from, struct msg *m)
{
    struct cluster *c = core;
    struct wire w;
    bool request = wire_decode(m, &w, NULL) == 0 && !w.reply;
    msg_free(m);
    if (!request)
        return;
    if (c->coord == NULL)
        m = wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_NONE);
    else
        m = wire_refusal(&w, SHOAL_E_NOT_LEADER, COORDINATORS_LEADS,
                         coord_endpoint[coord_place(c)]);
    (void)env_send(sim_node_env(c->standby), from, m);
}

static void standby_drained(void *core)
{
    (void)core;
}

/* The place that the one that stood by has left is the new leader's. */
static void standby_start(struct cluster *c)
{
    static const struct env_handler handler = {standby_message, standby_drained, NULL};
    if (c->standby != NULL)
        sim_kill(c->standby);
    c->standby = sim_node_new(c->sim, "standby", &handler, c);
    sim_listen(c->standby, coord_endpoint[1 - coord_place(c)]);
}

/* ---- servers --------------------------------------------------------------------------------- */

static void shard_node_start(struct cluster *c, uint32_t i, uint32_t k)
{
    struct cluster_server *s = &c->server[i * c->options.shards + k];
    char endpoint[64];
    struct err e = {0};
    ck_assert_ptr_null(s->node);
    snprintf(s->name, sizeof s->name, "server-%u", i);
    snprintf(endpoint, sizeof endpoint, "sim://%s-%u", s->name, k);
    struct shard_options o = {.server = s->name,
                              .shard_index = k,
                              .shard_count = c->options.shards,
                              .waiting_max = c->options.waiting_max,
                              .boot = s->boot,
                              .coordinator = coordinators(c)};
    if (c->options.dir != NULL) {
        snprintf(s->dir, sizeof s->dir, "%s/server-%u-%u", c->options.dir, i, k);
        o.engine.dir = s->dir;
        disk_start(c, &s->disk, s->dir);
    }
    o.engine.durability = (enum durability)c->options.durability;
    o.engine.segment_bytes = 1u << 20;
    o.engine.memory = c->options.memory;
    o.engine.disk_watermark = 1;
    s->node = sim_node_new(c->sim, s->name, NULL, NULL);
    ck_assert_msg(shard_open(&o, sim_node_env(s->node), &s->shard, &e) == 0, "%s", e.text);
    sim_node_set_handler(s->node, &shard_handler, s->shard);
    sim_listen(s->node, endpoint);
    ck_assert_msg(shard_start(s->shard, endpoint, &e) == 0, "%s", e.text);
}

void cluster_server_start(struct cluster *c, uint32_t i)
{
    for (uint32_t k = 0; k < c->options.shards; k++)
        shard_node_start(c, i, k);
}

bool cluster_server_alive(const struct cluster *c, uint32_t i)
{
    return c->server[i * c->options.shards].node != NULL;
}

static void server_end(struct cluster *c, uint32_t i, struct rng *power)
{
    for (uint32_t k = 0; k < c->options.shards && cluster_server_alive(c, i); k++) {
        sim_kill(c->server[i * c->options.shards + k].node);
        if (power != NULL)
            disk_off(c->server[i * c->options.shards + k].disk, rng_next(power));
        c->server[i * c->options.shards + k].boot += power != NULL;
    }
    for (uint32_t k = 0; k < c->options.shards; k++) {
        struct cluster_server *s = &c->server[i * c->options.shards + k];
        if (s->node != NULL)
            shard_close(s->shard, false);
        s->node = NULL;
        s->shard = NULL;
    }
}

void cluster_server_kill(struct cluster *c, uint32_t i)
{
    server_end(c, i, NULL);
}

void cluster_server_power(struct cluster *c, uint32_t i, uint64_t seed)
{
    struct rng r = rng_of(seed, i, 1);
    server_end(c, i, &r);
}

/* ---- the coordinator ------------------------------------------------------------------------- */

void cluster_coord_start(struct cluster *c)
{
    uint32_t replicas = c->options.replicas == 0 ? 1 : c->options.replicas;
    struct coord_options o = {.shards = c->options.servers * c->options.shards / replicas,
                              .replicas = replicas,
                              .shard_lease_ms = 1500,
                              .lease_ms = 1000,
                              .resend_ms = 100,
                              .version = "test",
                              .jobs = c->options.jobs,
                              .folder = &coord_folder_disk};
    struct err e = {0};
    ck_assert_ptr_null(c->coord_node);
    if (c->options.power) {
        char dir[512];
        snprintf(dir, sizeof dir, "%s/coordinator", c->options.dir);
        disk_start(c, &c->disk, dir);
        ck_assert_ptr_null(c->store);
        ck_assert_msg(coord_store_open(dir, 0, &c->store, &e) == 0, "%s", e.text);
    }
    c->coords++;
    if (c->options.standby)
        standby_start(c);
    c->coord_node = sim_node_new(c->sim, "coordinator", NULL, NULL);
    if (c->options.keep_ns > 0)
        c->store = coord_kept_open(&c->kept, sim_node_env(c->coord_node));
    ck_assert_msg(coord_new(&o, sim_node_env(c->coord_node), c->store, &c->coord, &e) == 0, "%s",
                  e.text);
    sim_node_set_handler(c->coord_node, &coord_handler, c->coord);
    sim_listen(c->coord_node, coord_endpoint[coord_place(c)]);
}

static void coord_end(struct cluster *c, bool power, uint64_t seed)
{
    if (c->coord_node == NULL)
        return;
    if (c->options.orderly && c->coords % 2 == 0)
        sim_works_end(c->coord_node);
    sim_kill(c->coord_node);
    if (power)
        disk_off(c->disk, seed);
    coord_free(c->coord);
    if (c->options.power || c->options.keep_ns > 0) {
        coord_store_close(c->store);
        c->store = NULL;
    }
    c->coord_node = NULL;
    c->coord = NULL;
}

void cluster_coord_kill(struct cluster *c)
{
    coord_end(c, false, 0);
}

void cluster_coord_power(struct cluster *c, uint64_t seed)
{
    coord_end(c, true, seed);
}

static int store_copy_one(void *context, const char *key, const void *value, size_t bytes)
{
    struct err e;
    return coord_store_put(context, key, value, bytes, &e);
}

struct coord_store *cluster_store_copy(const struct cluster *c)
{
    struct coord_store *copy = coord_store_memory();
    ck_assert_ptr_nonnull(copy);
    ck_assert_int_eq(
        coord_store_visit(c->options.keep_ns > 0 ? c->kept.values : c->store, store_copy_one, copy),
        0);
    return copy;
}

void cluster_store_change(struct cluster *c, struct coord_store *store)
{
    ck_assert_ptr_nonnull(store);
    struct coord_store **at = c->options.keep_ns > 0 ? &c->kept.values : &c->store;
    cluster_coord_kill(c);
    coord_store_close(*at);
    *at = store;
    cluster_coord_start(c);
}

/* ---- workers --------------------------------------------------------------------------------- */

/* trainer_options.where: other workers of a ring reach it by its name. */
static int worker_where(void *context, char endpoint[256], char host[256], struct err *e)
{
    const struct cluster_worker *w = context;
    (void)e;
    snprintf(endpoint, 256, "sim://%s", w->name);
    host[0] = 0;
    return 0;
}

uint32_t cluster_worker_start(struct cluster *c)
{
    uint32_t i = c->workers++;
    struct cluster_worker *w = &c->worker[i];
    struct err e = {0};
    ck_assert_uint_lt(i, CLUSTER_WORKERS);
    snprintf(w->name, sizeof w->name, "worker-%u", i);
    struct trainer_options o = {.coordinator = coordinators(c),
                                .name = w->name,
                                .pid = 100 + i,
                                .lanes_max = c->options.places,
                                .cores = 4,
                                .backend = c->backend,
                                .why = "a test",
                                .commands = true,
                                .replace = c->options.replace,
                                .outside = c->options.outside,
                                .where = worker_where,
                                .context = w,
                                .stay = c->options.stay,
                                .wait_ms = 600000};
    w->node = sim_node_new(c->sim, w->name, NULL, NULL);
    ck_assert_msg(trainer_new(sim_node_env(w->node), &o, &w->trainer, &e) == 0, "%s", e.text);
    sim_node_set_handler(w->node, trainer_handler(), w->trainer);
    return i;
}

static void worker_bury(struct cluster_worker *w)
{
    if (trainer_settled(w->trainer)) {
        trainer_free(w->trainer);
    } else {
        ck_assert_int_eq(array_room(&dead, dead_count, &dead_capacity, 64), 0);
        dead[dead_count++] = w->trainer;
    }
    w->node = NULL;
    w->trainer = NULL;
}

void cluster_worker_kill(struct cluster *c, uint32_t i)
{
    if (c->worker[i].node == NULL)
        return;
    sim_kill(c->worker[i].node);
    worker_bury(&c->worker[i]);
}

static void workers_reap(struct cluster *c)
{
    for (uint32_t i = 0; i < c->workers; i++) {
        struct cluster_worker *w = &c->worker[i];
        if (w->node == NULL || !sim_stopped(w->node))
            continue;
        w->ended = true;
        w->status = trainer_status(w->trainer, &w->error);
        worker_bury(w);
    }
}

/* ---- the whole ------------------------------------------------------------------------------- */

void cluster_start(struct cluster *c, const struct cluster_options *options,
                   struct backend *backend)
{
    memset(c, 0, sizeof *c);
    c->options = *options;
    c->options.shards = options->shards == 0 ? 1 : options->shards;
    c->backend = backend;
    ck_assert(options->servers <= CLUSTER_SERVERS && options->shards <= CLUSTER_SHARDS);
    ck_assert_msg(options->dir != NULL || options->replicas <= 1 ||
                      options->durability == DURABLE_MEMORY,
                  "copies with a journal need dir: without one a killed server loses what it has "
                  "acknowledged");
    c->sim = sim_new(&options->sim);
    ck_assert(!options->power || options->keep_ns == 0);
    if (options->keep_ns > 0)
        c->kept = (struct coord_kept){.values = coord_store_memory(),
                                      .left = COORD_KEPT_ALL,
                                      .delay_ns = options->keep_ns,
                                      .rng = rng_of(options->sim.seed, 5, 5)};
    else if (!options->power)
        c->store = coord_store_memory();
    c->client = calloc(1, sizeof *c->client);
    ck_assert_ptr_nonnull(c->client);
    cluster_coord_start(c);
    for (uint32_t i = 0; i < options->servers; i++)
        cluster_server_start(c, i);
    for (uint32_t i = 0; i < options->workers; i++)
        cluster_worker_start(c);
    c->client->from = options->from;
    c->client->list = coordinators(c);
    if (!options->idle)
        fake_client_start(c->client, c->sim, options->yaml, options->workers);
}

void cluster_free(struct cluster *c)
{
    for (uint32_t i = 0; i < c->workers; i++)
        cluster_worker_kill(c, i);
    for (uint32_t i = 0; i < c->options.servers; i++)
        cluster_server_kill(c, i);
    cluster_coord_kill(c);
    coord_store_close(c->store);
    coord_store_close(c->kept.values);
    for (uint32_t i = 0; i < c->options.servers * c->options.shards; i++)
        if (c->server[i].disk != NULL)
            disk_free(c->server[i].disk);
    if (c->disk != NULL)
        disk_free(c->disk);
    free(c->client);
    sim_free(c->sim);
    c->sim = NULL; /* a late use is found at once */
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* Pauses a process, by number: a server's shards are paused together, because they are one
 * process. */
static void pause_one(struct cluster *c, uint32_t i, uint64_t until_ns)
{
    uint32_t servers = c->options.servers;
    if (i < servers) {
        for (uint32_t k = 0; k < c->options.shards && cluster_server_alive(c, i); k++)
            sim_pause(c->server[i * c->options.shards + k].node, until_ns);
        return;
    }
    struct sim_node *n = i == servers ? c->coord_node : c->worker[i - servers - 1].node;
    if (n != NULL)
        sim_pause(n, until_ns);
}

/* Cuts a line between two processes, one way or both. */
static void cut_line(struct cluster *c, struct rng *r, uint64_t until_ns)
{
    uint32_t all = c->options.servers * c->options.shards;
    struct sim_node *shard = c->server[rng_below(r, all)].node;
    uint32_t i = (uint32_t)rng_below(r, c->workers + 1);
    struct sim_node *other = i == 0 ? c->coord_node : c->worker[i - 1].node;
    if (rng_below(r, 3) == 0) /* a worker and the coordinator */
        shard = c->coord_node;
    if (shard == NULL || other == NULL || shard == other)
        return;
    uint64_t ways = rng_below(r, 3);
    if (ways == 2)
        c->struck.line_cut_both_ways++;
    else
        c->struck.line_cut_one_way++;
    if (ways != 0)
        sim_cut(shard, other, until_ns);
    if (ways != 1)
        sim_cut(other, shard, until_ns);
}

/* Makes a worker ill for longer than the leases, one in four for ever: it sends beats and does no
 * work, or is cut, one way or both, from one server or the coordinator. */
static void worker_ails(struct cluster *c, struct rng *r, uint64_t now, bool wedge)
{
    struct cluster_worker *w = &c->worker[rng_below(r, c->workers)];
    uint32_t all = c->options.servers * c->options.shards;
    struct sim_node *other =
        rng_below(r, 3) == 0 ? c->coord_node : c->server[rng_below(r, all)].node;
    uint64_t until = now + (3000 + rng_below(r, 12000)) * MS, ways = rng_below(r, 3);
    bool lost = rng_below(r, 4) == 0 && c->workers + c->options.workers < CLUSTER_WORKERS;
    if (w->node == NULL || other == NULL || w->ill_until_ns > now)
        return;
    w->ill_from_ns = now;
    w->ill_until_ns = lost ? UINT64_MAX : until;
    w->lost = lost;
    c->struck.worker_lost += lost;
    c->struck.worker_wedged += wedge;
    c->struck.worker_cut_from_coordinator += !wedge && other == c->coord_node;
    c->struck.worker_cut_from_server += !wedge && other != c->coord_node;
    if (wedge)
        sim_wedge(w->node, lost ? now + CLUSTER_NEVER_NS : until);
    if (!wedge && ways != 0)
        sim_cut(w->node, other, w->ill_until_ns);
    if (!wedge && ways != 1)
        sim_cut(other, w->node, w->ill_until_ns);
}

/* Takes the power of a server, of the coordinator, or of all. */
static void power_strike(struct cluster *c, struct rng *r)
{
    uint64_t which = rng_below(r, 6);
    uint32_t one = (uint32_t)rng_below(r, c->options.servers);
    for (uint32_t i = 0; i < c->options.servers; i++)
        if ((which < 3 && i == one) || which == 5) {
            cluster_server_power(c, i, rng_next(r));
            c->struck.server_without_power++;
        }
    if (which >= 3) {
        cluster_coord_power(c, rng_next(r));
        c->struck.coordinator_without_power++;
    }
}

void cluster_strike(struct cluster *c, struct rng *r, uint64_t *back)
{
    uint64_t now = sim_now_ns(c->sim), pause = 20 * MS + rng_below(r, 2500) * MS;
    *back = now + 5 * MS + rng_below(r, rng_below(r, 4) == 0 ? 3000 : 200) * MS;
    if (c->options.power && rng_below(r, 2) == 0) {
        power_strike(c, r);
        return;
    }
    switch (rng_below(r, 12)) {
    case 0:
    case 1:
    case 2:
        cluster_server_kill(c, (uint32_t)rng_below(r, c->options.servers));
        if (rng_below(r, 60) == 0) { /* it is not started again for hours */
            *back += CLUSTER_AWAY_NS;
            c->struck.server_away++;
        } else {
            c->struck.server_killed++;
        }
        break;
    case 3:
    case 4:
        cluster_coord_kill(c);
        c->struck.coordinator_killed++;
        break;
    case 5:
    case 6: {
        uint32_t i = c->workers > 4 ? c->workers - 1 - (uint32_t)rng_below(r, 4)
                                    : (uint32_t)rng_below(r, c->workers);
        cluster_worker_kill(c, i);
        c->struck.worker_killed++;
        break;
    }
    case 7:
        cut_line(c, r, now + pause);
        break;
    case 8:
    case 9:
        worker_ails(c, r, now, rng_below(r, 2) == 0);
        break;
    default:
        if (rng_below(r, 4) == 0) {
            pause += 15000 * MS; /* many leases */
            c->struck.paused_for_leases++;
        } else {
            c->struck.paused++;
        }
        pause_one(c, (uint32_t)rng_below(r, c->options.servers + c->workers + 1), now + pause);
    }
}

void cluster_mend(struct cluster *c)
{
    uint32_t alive = 0;
    for (uint32_t i = 0; i < c->options.servers; i++)
        if (!cluster_server_alive(c, i))
            cluster_server_start(c, i);
    if (c->coord_node == NULL)
        cluster_coord_start(c);
    for (uint32_t i = 0; i < c->workers; i++)
        alive += c->worker[i].node != NULL && !c->worker[i].lost;
    for (; alive < c->options.workers; alive++)
        cluster_worker_start(c);
}

static bool job_over(void *context)
{
    const struct fake_client *client = context;
    return client->submit_status != 0 || client->state == WIRE_JOB_DONE ||
           client->state == WIRE_JOB_FAILED;
}

bool cluster_run(struct cluster *c, uint64_t until_ns)
{
    bool over = sim_run(c->sim, until_ns, job_over, c->client);
    workers_reap(c);
    return over;
}

void cluster_submit(struct cluster *c)
{
    if (c->client->node != NULL)
        sim_kill(c->client->node);
    memset(c->client, 0, sizeof *c->client);
    workers_reap(c);
    cluster_mend(c);
    c->client->list = coordinators(c);
    fake_client_start(c->client, c->sim, c->options.yaml, c->options.workers);
}

static bool settled(void *context)
{
    const struct cluster *c = context;
    bool good = c->coord != NULL;
    uint32_t leaders = 0;
    for (uint32_t i = 0; good && i < c->options.servers * c->options.shards; i++) {
        const struct shard *s = c->server[i].shard;
        if (s != NULL && s->copies.role == COPIES_FOLLOWS)
            good = engine_back(s->engine);
        else
            good = s != NULL && engine_back(s->engine) && lead_ready(&s->lead) &&
                   s->lead.epoch == c->coord->fleet.cluster.map_epoch &&
                   (s->copies.role == COPIES_ALONE || copies_leased(s));
        leaders += good && s->copies.role != COPIES_FOLLOWS;
    }
    return good && leaders == coord_member_count(&c->coord->fleet.members);
}

bool cluster_settle(struct cluster *c, uint64_t until_ns)
{
    bool is = sim_run(c->sim, until_ns, settled, c);
    workers_reap(c);
    return is;
}

struct phase_wait {
    const struct cluster *c;
    uint32_t phase;
};

static bool phase_reached(void *context)
{
    const struct phase_wait *w = context;
    return job_over(w->c->client) ||
           (w->c->coord != NULL && w->c->coord->slot[0].at.phase == w->phase);
}

bool cluster_run_phase(struct cluster *c, uint32_t phase, uint64_t until_ns)
{
    struct phase_wait w = {c, phase};
    (void)sim_run(c->sim, until_ns, phase_reached, &w);
    workers_reap(c);
    return job_over(c->client);
}

void cluster_result(const struct cluster *c, struct cluster_result *out)
{
    const struct fake_client *client = c->client;
    memset(out, 0, sizeof *out);
    out->state = client->state;
    out->status = client->submit_status != 0 ? client->submit_status : client->status;
    snprintf(out->text, sizeof out->text, "%s", client->text);
    if (out->state != WIRE_JOB_DONE)
        return;
    struct json *r;
    struct err e = {0};
    ck_assert_msg(json_parse(client->report, strlen(client->report), &r, &e) == 0, "%s", e.text);
    out->examples = (uint64_t)json_as_int(json_get(r, "examples"), 0);
    out->rows = (uint64_t)json_as_int(json_get(r, "rows"), 0);
    const struct json *tables = json_get(r, "tables"), *epochs = json_get(r, "epochs");
    out->tables = (uint32_t)json_count(tables);
    ck_assert_uint_le(out->tables, CLUSTER_TABLES);
    for (uint32_t i = 0; i < out->tables; i++)
        snprintf(out->digest[i], sizeof out->digest[i], "%s",
                 json_as_string(json_get(json_array_at(tables, i), "digest"), ""));
    out->epochs = (uint32_t)json_count(epochs);
    for (uint32_t i = 0; i < out->epochs && i < 16; i++)
        out->loss[i] = json_as_number(json_get(json_array_at(epochs, i), "train_logloss"), 0);
    json_free(r);
}
