/* test_replicas.c: jobs on a fleet whose shards have followers, under faults that follow from a
 * seed: servers are killed and started again, frozen, or cut from one another and from the
 * coordinator; the coordinator is killed.
 *
 * There is one fault at a time, and it begins while all copies are in sync, so no acknowledged push
 * may be lost, in `memory` mode either. At the end
 *  - the rows equal those of an undisturbed run without followers (probe: the input's counts);
 *  - all copies of a shard are equal bit for bit: rows, marks, last record.
 * The oracle (sim_oracle.h) knows every acknowledged push and checks it on the copy that leads.
 *
 * SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST and SHOAL_SIM_KIND are those of test_cluster. */
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)
#define ROWS 600u
#define EPOCHS 2u
#define VALUES 60u
#define STRIKES 6u

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048], who[64];
static const char *folder;
static struct oracle_count counts[VALUES];

struct kind {
    const char *name, *model, *mode;
    enum durability durability;
};
static const struct kind kinds[] = {
    {"probe_ssp_journal", "{kind: probe}", "ssp", DURABLE_JOURNAL},
    {"probe_ssp_memory", "{kind: probe}", "ssp", DURABLE_MEMORY},
    {"probe_ssp_fsync", "{kind: probe}", "ssp", DURABLE_FSYNC},
    {"deepfm_bsp_journal", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp",
     DURABLE_JOURNAL},
    {"deepfm_bsp_memory", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", DURABLE_MEMORY},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static bool is_probe(const struct kind *k)
{
    return strstr(k->model, "probe") != NULL;
}

static void file_make(const char *name, uint32_t rows, uint32_t seed, bool count)
{
    static char data[1 << 16];
    struct rng r = rng_of(seed, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "label,a\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t a = (uint32_t)rng_below(&r, VALUES);
        char text[16];
        int bytes = snprintf(text, sizeof text, "%u", a);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%s\n",
                               (a * 3 + (uint32_t)rng_below(&r, 9)) % 2, text);
        if (count) {
            counts[a].key = key_of_value(0, text, (size_t)bytes);
            counts[a].examples++;
        }
    }
    worker_write(name, data, at);
}

static void job_make(const struct kind *k)
{
    static const char *const names[] = {"memory", "journal", "fsync"};
    bool probe = is_probe(k);
    snprintf(
        yaml, sizeof yaml,
        "job: sim\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: 64, init: {kind: %s}, optimizer: {kind: %s, lr: %s}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %u, consistency: %s, staleness: 2, prefetch: 2, lanes: 3, "
        "backend: cpu, task_batches: 4}\n"
        "durability: %s\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("valid.csv"), worker_path("cache"),
        probe ? "zero" : "uniform", probe ? "sgd" : "adagrad", probe ? "1" : "0.3", k->model,
        EPOCHS, k->mode, names[k->durability]);
}

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

/* ---- copies ---------------------------------------------------------------------------------- */

static uint32_t all_copies(void)
{
    return cluster.options.servers * cluster.options.shards;
}

/* True when every copy of every shard is there and in sync, as the coordinator has stored it. */
static bool in_sync(void *context)
{
    (void)context;
    if (cluster.coord == NULL || !coord_cluster_ready(&cluster.coord->fleet.cluster))
        return false;
    for (uint32_t i = 0; i < all_copies(); i++)
        if (cluster.server[i].node == NULL || !engine_back(cluster.server[i].shard->engine))
            return false;
    const struct coord_fleet *f = &cluster.coord->fleet;
    for (uint32_t s = 0; s < f->members.shards; s++)
        if (f->copies.of[s].in_sync != (1u << cluster.options.replicas) - 1)
            return false;
    return true;
}

static void copies_equal(const struct shard *a, const struct shard *b)
{
    struct engine_stats x, y;
    engine_stats_get(a->engine, &x);
    engine_stats_get(b->engine, &y);
    ck_assert_msg(x.sequence == y.sequence, "%s: %s has %" PRIu64 " records, %s has %" PRIu64, who,
                  a->name, x.sequence, b->name, y.sequence);
    uint64_t run = engine_newest_run(a->engine);
    for (uint32_t t = 0; t < CLUSTER_TABLES; t++) {
        struct table *of = engine_table(a->engine, t);
        ck_assert_msg((of == NULL) == (engine_table(b->engine, t) == NULL), "%s: table %u", who, t);
        uint32_t tablets = of == NULL ? 0 : 1u << table_schema_of(of)->tablet_bits;
        for (uint32_t k = 0; k < tablets; k++) {
            uint64_t here = 0, there = 0;
            struct err e = {0};
            ck_assert_int_eq(table_digest(engine_whole(a->engine, t, k, &e), k, &here), 0);
            ck_assert_int_eq(table_digest(engine_whole(b->engine, t, k, &e), k, &there), 0);
            ck_assert_msg(here == there, "%s: tablet %u of table %u: %s and %s have other rows",
                          who, k, t, a->name, b->name);
            for (uint32_t l = 0; l < 3; l++)
                ck_assert_uint_eq(engine_mark_range(a->engine, run, l, t, k, 1),
                                  engine_mark_range(b->engine, run, l, t, k, 1));
        }
    }
}

static void all_copies_equal(void)
{
    ck_assert_msg(sim_run(cluster.sim, in(BOUND), in_sync, NULL), "%s: not in sync at the end",
                  who);
    (void)cluster_run(&cluster, in(5 * SECOND));
    (void)sim_run(cluster.sim, in(5 * SECOND), NULL, NULL);
    for (uint32_t i = 0; i < all_copies(); i++)
        for (uint32_t k = i + 1; k < all_copies(); k++)
            if (cluster.server[i].shard->lead.self == cluster.server[k].shard->lead.self)
                copies_equal(cluster.server[i].shard, cluster.server[k].shard);
}

/* ---- faults ---------------------------------------------------------------------------------- */

/* Cuts two servers from each other, or a server from the coordinator, one way or both. */
static void cut(struct rng *r, uint64_t until)
{
    struct sim_node *a = cluster.server[rng_below(r, all_copies())].node;
    struct sim_node *b = cluster.server[rng_below(r, all_copies())].node;
    uint64_t ways = rng_below(r, 3);
    if (rng_below(r, 3) == 0)
        b = cluster.coord_node;
    if (a == NULL || b == NULL || a == b)
        return;
    if (ways != 0)
        sim_cut(a, b, until);
    if (ways != 1)
        sim_cut(b, a, until);
}

/* Returns when the fault is over. */
static uint64_t strike(struct rng *r)
{
    uint32_t server = (uint32_t)rng_below(r, cluster.options.servers);
    uint64_t pause = (20 + rng_below(r, 4000)) * MS;
    switch (rng_below(r, 8)) {
    case 0:
    case 1:
    case 2:
    case 3:
        cluster_server_kill(&cluster, server);
        break;
    case 4:
        cluster_coord_kill(&cluster);
        break;
    case 5:
        for (uint32_t k = 0; k < cluster.options.shards; k++)
            sim_pause(cluster.server[server * cluster.options.shards + k].node, in(pause));
        return in(pause);
    default:
        cut(r, in(pause));
        return in(pause);
    }
    return 0;
}

static void job_suffers(struct rng *r)
{
    bool over = false;
    for (uint32_t i = 0; i < STRIKES && !over; i++) {
        (void)sim_run(cluster.sim, in(60 * SECOND), in_sync, NULL);
        over = cluster_run(&cluster, in((1 + rng_below(r, 400)) * MS));
        if (over || !in_sync(NULL))
            continue;
        oracle_marks();
        uint64_t until = strike(r);
        over =
            cluster_run(&cluster, in((5 + rng_below(r, rng_below(r, 2) == 0 ? 200 : 4000)) * MS));
        if (!over && until > sim_now_ns(cluster.sim)) /* one fault at a time */
            over = cluster_run(&cluster, until);
        cluster_mend(&cluster);
    }
    for (uint64_t end = in(BOUND); !over && sim_now_ns(cluster.sim) < end;) {
        over = cluster_run(&cluster, in(10 * SECOND));
        cluster_mend(&cluster);
    }
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s of virtual time", who,
                  sim_now_ns(cluster.sim) / SECOND);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static struct oracle_rows calm;

static uint64_t play(const struct kind *k, uint64_t seed)
{
    struct rng r = rng_of(seed, 7, 8);
    char dir[512], command[600];
    struct cluster_result got;
    snprintf(who, sizeof who, "%s, seed %" PRIu64, k->name, seed);
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .durability = k->durability, .dir = dir};
    o.sim = (struct sim_options){.seed = seed + 1,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    if (seed != 0) {
        o.replicas = 2 + (uint32_t)rng_below(&r, 2);
        o.servers = o.replicas + (uint32_t)rng_below(&r, 5 - o.replicas);
        o.shards = o.replicas;
        o.workers = 1 + (uint32_t)rng_below(&r, 3);
        o.sim.drop = (double)rng_below(&r, 3) * 0.05;
        o.sim.duplicate = (double)rng_below(&r, 3) * 0.1;
        o.sim.reorder = rng_below(&r, 2) == 1;
        o.sim.delay_max_ns = MS + rng_below(&r, 5) * MS;
    }
    job_make(k);
    cluster_start(&cluster, &o, backend);
    oracle_watch(&cluster, who);
    if (seed != 0)
        job_suffers(&r);
    else
        ck_assert(cluster_run(&cluster, BOUND));
    cluster_result(&cluster, &got);
    ck_assert_msg(got.state == WIRE_JOB_DONE, "%s: state %u: %s", who, got.state, got.text);
    cluster_mend(&cluster);
    bool settled = cluster_settle(&cluster, in(BOUND));
    ck_assert_msg(settled, "%s: the shards do not come back", who);
    struct oracle_rows rows;
    oracle_marks();
    oracle_rows_take(&rows);
    if (is_probe(k))
        oracle_rows_count(&rows, counts, VALUES, EPOCHS);
    if (seed == 0) {
        oracle_rows_free(&calm);
        calm = rows;
    } else {
        oracle_rows_same(&rows, &calm);
        oracle_rows_free(&rows);
        all_copies_equal();
    }
    uint64_t trace = sim_trace(cluster.sim);
    cluster_free(&cluster);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    return trace;
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(replicas_lose_no_acknowledged_push)
{
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 4);
    play(&kinds[_i], 0);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        fprintf(stderr, "SHOAL_SIM_KIND=%d SHOAL_SIM_FIRST=%" PRIu64 "\n", _i, seed);
        (void)play(&kinds[_i], seed);
    }
}
END_TEST

START_TEST(replicas_same_seed_is_the_same_run)
{
    play(&kinds[0], 0);
    uint64_t first = play(&kinds[0], 3), second = play(&kinds[0], 3);
    ck_assert_uint_eq(first, second);
    ck_assert_uint_ne(first, play(&kinds[0], 4));
}
END_TEST

static void setup(void)
{
    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    memset(counts, 0, sizeof counts);
    file_make("train.csv", ROWS, 1, true);
    file_make("valid.csv", 100, 2, false);
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("replicas");
    TCase *c = tcase_create("replicas");
    const char *only = getenv("SHOAL_SIM_KIND");
    bool one = only != NULL && strtoul(only, NULL, 10) < KINDS;
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, replicas_lose_no_acknowledged_push, one ? atoi(only) : 0,
                        one ? atoi(only) + 1 : (int)KINDS);
    if (!one)
        tcase_add_test(c, replicas_same_seed_is_the_same_run);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
