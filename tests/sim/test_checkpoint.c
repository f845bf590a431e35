/* test_checkpoint.c: checkpoints on virtual time. A job makes one checkpoint after the other while
 * servers, workers and the coordinator are killed or frozen, and messages are lost. Then the whole
 * cluster is discarded, and a cluster with other numbers of servers and workers resumes one of the
 * checkpoints under the same faults.
 *
 * A folder with the name of a checkpoint is complete at every moment. The job ends with the rows of
 * the undisturbed one: the probe counts each example exactly once, and under bsp all tables are
 * equal bit for bit.
 *
 * Another test removes a server's folder in mid-job, and orders that the server is replaced from a
 * checkpoint.
 *
 * Other tests make a checkpoint of N servers while all workers push, and resume it with M servers:
 * N and M from 1 to 8.
 *
 * SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST, SHOAL_SIM_KIND, SHOAL_SIM_LOG as in test_cluster.c;
 * SHOAL_ALL_PAIRS: all 64 (N, M) instead of 8. */
#include "dense/model.h"
#include "embedding/checkpoint.h"
#include "proto/base/log.h"
#include "proto/job/job.h"
#include "proto/job/manifest.h"
#include "proto/wire/wire.h"
#include "server/coord/job/slot.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS 600u
#define NAMES_MAX 64u
#define SERVERS_MAX 8u
#define TABLETS 128u /* 16 for each of 8 servers */

static struct backend *backend;
static struct cluster cluster;
static char yaml[4096], checkpoints[512];
static const char *folder;

struct kind {
    const char *name, *model, *mode;
    bool replay; /* also with checkpoints at the ends of days */
};

static const struct kind kinds[] = {
    {"probe_async", "{kind: probe}", "async", false},
    {"probe_ssp", "{kind: probe}", "ssp", false},
    {"probe_bsp", "{kind: probe}", "bsp", false},
    {"replay_bsp", "{kind: fm}", "bsp", true},
    {"deepfm_bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", false},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void file_make(const char *name, uint32_t rows, uint32_t seed)
{
    static char data[1 << 16];
    struct rng r = rng_of(seed, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b,t\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t a = (uint32_t)rng_below(&r, 60), b = (uint32_t)rng_below(&r, 9);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u,%u\n",
                               (a * 3 + b + (uint32_t)rng_below(&r, 9)) % 2, a, b,
                               1700006400 + i * (5 * 86400 / rows));
    }
    worker_write(name, data, at);
}

static enum durability durability = DURABLE_JOURNAL; /* for the job and its servers */
static bool power;                                   /* machines may lose it */
static bool orderly;                                 /* as in struct cluster_options */

static void job_make(const struct kind *k, uint32_t every)
{
    bool probe = strstr(k->model, "probe") != NULL;
    char more[700] = "";
    if (every > 0)
        snprintf(more, sizeof more, "checkpoint: {dir: %s, every_batches: %u, keep: 4}\n",
                 checkpoints, every);
    snprintf(
        yaml, sizeof yaml,
        "job: sim\n"
        "data: {format: csv, label: label, time: t, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: %u, init: {kind: %s}, optimizer: {kind: %s, lr: %s}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %d, consistency: %s, staleness: 2, prefetch: 2, lanes: 3, "
        "backend: cpu, task_batches: 4}\n"
        "durability: %s\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n%s%s",
        worker_path("train.csv"), worker_path("valid.csv"), worker_path("cache"), TABLETS,
        probe ? "zero" : "uniform", probe ? "sgd" : "adagrad", probe ? "1" : "0.3", k->model,
        k->replay ? 1 : 2, k->mode, durability == DURABLE_MEMORY ? "memory" : "journal", more,
        !k->replay  ? ""
        : every > 0 ? "replay: {window: 6h}\n"
                    : "replay: {window: 6h, checkpoint: false}\n");
}

/* ---- what lies in the folder ----------------------------------------------------------------- */

struct key_names {
    char name[NAMES_MAX][LIMIT_NAME];
    uint32_t count;
};

/* Checks that every finished checkpoint is complete: its manifest, all parts, and (deep) every
 * file. */
static void look(struct key_names *out, bool deep, const char *who, uint64_t seed)
{
    DIR *d = opendir(checkpoints);
    const struct dirent *entry;
    out->count = 0;
    while (d != NULL && (entry = readdir(d)) != NULL) {
        char path[LIMIT_PATH];
        void *text;
        size_t bytes;
        struct json *m;
        struct checkpoint *c;
        struct err e = {0};
        if (!manifest_name_ok(entry->d_name))
            continue;
        snprintf(path, sizeof path, "%.500s/%.200s", checkpoints, entry->d_name);
        int rc = coord_folder_disk.get(path, MANIFEST_FILE, 1 << 20, &text, &bytes, &e);
        if (rc == 0) {
            rc = manifest_parse(text, bytes, &m, &e);
            free(text);
        }
        if (rc == 0) {
            json_free(m);
            rc = checkpoint_open(path, NULL, &c, &e);
        }
        if (rc == 0) {
            rc = deep ? checkpoint_verify(c, NULL, NULL, &e) : 0;
            checkpoint_close(c);
        }
        ck_assert_msg(rc == 0, "%s, seed %" PRIu64 ": %s is half there: %s", who, seed, path,
                      e.text);
        if (out->count < NAMES_MAX)
            snprintf(out->name[out->count++], LIMIT_NAME, "%.63s", entry->d_name);
    }
    if (d != NULL)
        closedir(d);
}

/* ---- one cluster's life ---------------------------------------------------------------------- */

static void cluster_make(const struct kind *k, struct rng *r, const char *dir, const char *from,
                         bool calm)
{
    struct sim_options sim = sim_play_net(rng_below(r, 1u << 30));
    struct cluster_options o = {.yaml = yaml,
                                .dir = dir,
                                .from = from,
                                .servers = 1,
                                .workers = 1,
                                .durability = durability,
                                .power = power,
                                .orderly = orderly};
    (void)k;
    if (!calm) {
        sim.drop = (double)rng_below(r, 3) * 0.05;
        sim.duplicate = (double)rng_below(r, 3) * 0.1;
        sim.reorder = rng_below(r, 2) == 1;
        sim.delay_max_ns = MS + rng_below(r, 10) * MS;
        o.servers = 1 + (uint32_t)rng_below(r, 3);
        o.workers = 1 + (uint32_t)rng_below(r, 3);
    }
    o.sim = sim;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    cluster_start(&cluster, &o, backend);
}

static bool making(void *context)
{
    (void)context;
    return cluster.coord == NULL || cluster.coord->slot[0].checkpoint->state != CHECKPOINT_IDLE;
}

/* Applies faults, half of them while a checkpoint is being made. Returns true if the job ended
 * meanwhile. */
static bool strikes(struct rng *r, uint32_t count, const char *who, uint64_t seed)
{
    struct key_names names;
    bool over = false;
    for (uint32_t i = 0; i < count && !over; i++) {
        uint64_t back;
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + (1 + rng_below(r, 300)) * MS);
        if (!over && rng_below(r, 2) == 0) {
            (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 2 * SECOND, making, NULL);
            over = cluster_run(&cluster, sim_now_ns(cluster.sim) + rng_below(r, 30) * MS);
        }
        if (over)
            break;
        cluster_strike(&cluster, r, &back);
        look(&names, false, who, seed);
        over = cluster_run(&cluster, back);
        cluster_mend(&cluster);
    }
    return over;
}

static void run_to_end(bool over, const struct kind *k, uint64_t seed, struct cluster_result *out)
{
    if (!over)
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + BOUND);
    ck_assert_msg(over, "%s, seed %" PRIu64 ": the job did not end", k->name, seed);
    cluster_result(&cluster, out);
    ck_assert_msg(out->state == WIRE_JOB_DONE, "%s, seed %" PRIu64 ": state %u: %s", k->name, seed,
                  out->state, out->text);
}

static void folders_remove(void)
{
    char command[2048];
    snprintf(command, sizeof command, "rm -rf %s/first %s/second %s", folder, folder, checkpoints);
    ck_assert_int_eq(system(command), 0);
}

static void expect_same(const struct kind *k, uint64_t seed, const struct cluster_result *got,
                        const struct cluster_result *calm)
{
    uint64_t s = seed;
    ck_assert_msg(got->examples == calm->examples,
                  "%s, seed %" PRIu64 ": %" PRIu64 " examples, %" PRIu64 " expected", k->name, s,
                  got->examples, calm->examples);
    ck_assert_msg(got->rows == calm->rows,
                  "%s, seed %" PRIu64 ": %" PRIu64 " rows, %" PRIu64 " expected", k->name, s,
                  got->rows, calm->rows);
    for (uint32_t i = 0; i < calm->tables; i++)
        ck_assert_msg(strcmp(got->digest[i], calm->digest[i]) == 0,
                      "%s, seed %" PRIu64 ": table %u is %s, %s expected", k->name, s, i,
                      got->digest[i], calm->digest[i]);
}

/* The job without faults and checkpoints. */
static void calm_run(const struct kind *k, struct cluster_result *calm)
{
    struct rng r = rng_of(1, 1, 1);
    char dir[512];
    snprintf(dir, sizeof dir, "%s/first", folder);
    job_make(k, 0);
    cluster_make(k, &r, dir, NULL, true);
    run_to_end(false, k, 0, calm);
    cluster_free(&cluster);
    folders_remove();
}

/* Returns true if the job resumed from a checkpoint; false if it ended before it had one. */
static bool play(const struct kind *k, uint64_t seed, const struct cluster_result *calm)
{
    struct rng r = rng_of(seed, 11, 11);
    struct cluster_result got;
    struct key_names names;
    char first[512], second[512], from[LIMIT_PATH];
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    job_make(k, 3 + (uint32_t)rng_below(&r, 12));
    cluster_make(k, &r, first, NULL, false);
    bool over = strikes(&r, (uint32_t)rng_below(&r, 6), k->name, seed);
    look(&names, false, k->name, seed);
    for (uint32_t i = 0; i < 200 && !over && names.count <= rng_below(&r, 3); i++) {
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + 20 * MS);
        look(&names, false, k->name, seed);
    }
    if (over) {
        run_to_end(over, k, seed, &got);
        expect_same(k, seed, &got, calm);
    }
    cluster_free(&cluster);
    look(&names, true, k->name, seed);
    if (names.count > 0) {
        snprintf(from, sizeof from, "%.500s/%s", checkpoints,
                 names.name[rng_below(&r, names.count)]);
        cluster_make(k, &r, second, from, false);
        run_to_end(strikes(&r, (uint32_t)rng_below(&r, 5), k->name, seed), k, seed, &got);
        cluster_free(&cluster);
        expect_same(k, seed, &got, calm);
        look(&names, true, k->name, seed);
    }
    folders_remove();
    return names.count > 0;
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(checkpoint_goes_on_with_the_same_rows_under_faults)
{
    const struct kind *k = &kinds[_i];
    struct cluster_result calm;
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 6),
             went_on = 0;
    calm_run(k, &calm);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        went_on += play(k, seed, &calm);
    ck_assert_msg(2 * went_on >= seeds,
                  "only %" PRIu64 " of %" PRIu64 " jobs went on from a checkpoint", went_on, seeds);
}
END_TEST

/* ---- rows that are lost ---------------------------------------------------------------------- */

/* As `strikes`; half of the faults are a server's loss of power, at any moment. */
static bool outages(struct rng *r, uint32_t count, const char *who, uint64_t seed)
{
    bool over = false;
    for (uint32_t i = 0; i < count && !over; i++) {
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + (1 + rng_below(r, 150)) * MS);
        if (!over && rng_below(r, 2) == 0)
            over = strikes(r, 1, who, seed);
        if (over)
            break;
        cluster_server_power(&cluster, (uint32_t)rng_below(r, cluster.options.servers),
                             rng_next(r));
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + (1 + rng_below(r, 200)) * MS);
        cluster_mend(&cluster);
    }
    return over;
}

static bool power_said(const char *text)
{
    return strstr(text, "a server has lost pushes") != NULL ||
           strstr(text, "power took what was not on a disk yet") != NULL;
}

static bool one_made(void *context)
{
    (void)context;
    return cluster.coord->slot[0].checkpoint->list->made > 0;
}

/* As `play`, with servers that lose all their data when they die, or, on disks, with machines that
 * lose power: the job goes back to its newest checkpoint by itself. Returns how often it did; a job
 * without a checkpoint ended with a sentence that says so. */
static uint32_t play_lossy(const struct kind *k, uint64_t seed, const struct cluster_result *calm)
{
    bool memory = durability == DURABLE_MEMORY;
    struct rng r = rng_of(seed, 12, memory ? 12 : 13);
    struct cluster_result got;
    struct key_names names;
    char first[512];
    uint32_t times = 0;
    snprintf(first, sizeof first, "%s/first", folder);
    job_make(k, memory ? 2 + (uint32_t)rng_below(&r, 6) : 8 + (uint32_t)rng_below(&r, 24));
    power = !memory;
    orderly = memory;
    cluster_make(k, &r, first, NULL, false);
    power = orderly = false;
    if (rng_below(&r, 8) > 0) /* else the job may have no checkpoint and end */
        (void)sim_run(cluster.sim, 20 * SECOND, one_made, NULL);
    uint32_t count = 2 + (uint32_t)rng_below(&r, 6);
    bool over = memory ? strikes(&r, count, k->name, seed) : outages(&r, count, k->name, seed);
    if (!over)
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + BOUND);
    ck_assert_msg(over, "%s, seed %" PRIu64 ": the job did not end", k->name, seed);
    cluster_result(&cluster, &got);
    look(&names, true, k->name, seed);
    if (got.state == WIRE_JOB_DONE) {
        expect_same(k, seed, &got, calm);
        times = cluster.coord == NULL ? 0 : cluster.coord->slot[0].went_back;
    } else {
        ck_assert_msg(names.count == 0 && (memory ? strstr(got.text, "in memory alone") != NULL
                                                  : power_said(got.text)),
                      "%s, seed %" PRIu64 ": %u checkpoints, and it ended: %s", k->name, seed,
                      names.count, got.text);
    }
    cluster_free(&cluster);
    folders_remove();
    return times;
}

/* Returns how often the jobs of `seeds` seeds went back, in all. */
static uint32_t lossy(const struct kind *k, enum durability how, uint64_t seeds)
{
    struct cluster_result calm;
    uint64_t first = number("SHOAL_SIM_FIRST", 1);
    uint32_t times = 0;
    durability = how;
    calm_run(k, &calm);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        times += play_lossy(k, seed, &calm);
    durability = DURABLE_JOURNAL;
    return times;
}

START_TEST(lost_memory_sends_the_job_back_to_its_checkpoint)
{
    uint64_t seeds = number("SHOAL_SIM_SEEDS", 6);
    uint32_t times = lossy(&kinds[_i], DURABLE_MEMORY, seeds);
    ck_assert_msg(4 * times >= seeds, "%u times back in %" PRIu64 " jobs", times, seeds);
}
END_TEST

START_TEST(lost_power_sends_the_job_back_to_its_checkpoint)
{
    uint64_t seeds = number("SHOAL_SIM_SEEDS", 3);
    uint32_t times = lossy(&kinds[_i], DURABLE_JOURNAL, seeds);
    printf("%s: %u times back in %" PRIu64 " jobs\n", kinds[_i].name, times, seeds);
}
END_TEST

/* ---- N servers to M servers ------------------------------------------------------------------ */

static void cluster_of(const char *dir, const char *from, uint32_t servers, uint64_t seed)
{
    struct cluster_options o = {.yaml = yaml,
                                .dir = dir,
                                .from = from,
                                .servers = servers,
                                .workers = 3,
                                .durability = DURABLE_JOURNAL,
                                .sim = sim_play_net(seed)};
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    cluster_start(&cluster, &o, backend);
}

/* Makes a checkpoint with this many servers in the middle of the job, while every lane pushes; the
 * cluster is then discarded. */
static void save(uint32_t servers, const struct cluster_result *calm, char from[LIMIT_PATH])
{
    struct key_names names = {0};
    struct err e = {0};
    struct json *m;
    char dir[512];
    void *text;
    size_t bytes;
    snprintf(dir, sizeof dir, "%s/first", folder);
    cluster_of(dir, NULL, servers, servers);
    for (uint32_t i = 0; i < 2000 && names.count < 2; i++) {
        ck_assert(!cluster_run(&cluster, sim_now_ns(cluster.sim) + 5 * MS));
        look(&names, false, "pairs", servers);
    }
    cluster_free(&cluster);
    ck_assert_uint_ge(names.count, 1);
    snprintf(from, LIMIT_PATH, "%.500s/%s", checkpoints, names.name[0]);
    ck_assert_int_eq(coord_folder_disk.get(from, MANIFEST_FILE, 1 << 20, &text, &bytes, &e), 0);
    ck_assert_int_eq(manifest_parse(text, bytes, &m, &e), 0);
    uint64_t examples = (uint64_t)json_as_int(json_get(m, "examples"), 0);
    ck_assert_uint_eq(json_count(json_get(m, "parts")), servers);
    ck_assert_msg(examples > 0 && examples < calm->examples, "%" PRIu64 " of %" PRIu64 " examples",
                  examples, calm->examples);
    free(text);
    json_free(m);
}

/* One test is row N of the matrix: the result under bsp is equal bit for bit, for any two numbers
 * of servers. */
START_TEST(saved_by_n_servers_goes_on_with_m)
{
    const struct kind *k = &kinds[KINDS - 1];
    uint32_t servers = (uint32_t)_i, every = getenv("SHOAL_ALL_PAIRS") != NULL ? 1 : SERVERS_MAX;
    struct cluster_result calm, got;
    char dir[512], from[LIMIT_PATH];
    snprintf(dir, sizeof dir, "%s/second", folder);
    job_make(k, 0);
    cluster_of(dir, NULL, 1, 1);
    run_to_end(false, k, 0, &calm);
    cluster_free(&cluster);
    folders_remove();
    job_make(k, 20);
    save(servers, &calm, from);
    job_make(k, 0); /* existing checkpoints stay as they are */
    for (uint32_t after = 1 + (servers * 3) % every; after <= SERVERS_MAX; after += every) {
        char command[600];
        cluster_of(dir, from, after, 100 + after);
        run_to_end(false, k, 100 * servers + after, &got);
        cluster_free(&cluster);
        expect_same(k, 100 * servers + after, &got, &calm);
        snprintf(command, sizeof command, "rm -rf %s", dir);
        ck_assert_int_eq(system(command), 0);
    }
    folders_remove();
}
END_TEST

/* ---- a lost disk ----------------------------------------------------------------------------- */

static struct wire replaced; /* the last answer to REPLACE */

static void on_replaced(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    (void)core;
    (void)from;
    if (wire_decode(m, &w, NULL) == 0 && w.type == WIRE_TYPE_REPLACE)
        replaced = w;
    msg_free(m);
}

static void nothing_drained(void *core)
{
    (void)core;
}

/* Orders that the server is replaced from the newest checkpoint, until that is taken; returns true
 * if the job ended before. */
static bool replace(uint32_t server, const char *who, uint64_t seed)
{
    static const struct env_handler handler = {on_replaced, nothing_drained, NULL};
    struct sim_node *node = sim_node_new(cluster.sim, "operator", &handler, NULL);
    struct wire w = {.type = WIRE_TYPE_REPLACE};
    struct key_names names;
    peer_t to;
    ck_assert_int_eq(env_connect(sim_node_env(node), "sim://coordinator", ENV_COORDINATOR, &to), 0);
    replaced = (struct wire){.status = -1};
    for (uint32_t i = 0; i < 200 && replaced.status != 0; i++) {
        look(&names, false, who, seed);
        w.id = i + 1;
        (void)snprintf(w.u.REPLACE.server, LIMIT_NAME, "%s", cluster.server[server].name);
        (void)snprintf(w.u.REPLACE.from, LIMIT_PATH, "%.500s/%s", checkpoints, names.name[0]);
        if (env_send(sim_node_env(node), to, wire_encode(&w)) != 0 ||
            cluster_run(&cluster, sim_now_ns(cluster.sim) + 100 * MS))
            break;
        cluster_mend(&cluster); /* the lost server with an empty folder is refused until then */
    }
    sim_kill(node);
    return cluster_run(&cluster, sim_now_ns(cluster.sim));
}

/* A server dies in mid-job, its folder is removed, and it is replaced from a checkpoint. Returns 1
 * if that was in time, 0 if the job ended before. */
static uint32_t play_replaced(const struct kind *k, uint64_t seed,
                              const struct cluster_result *calm)
{
    struct rng r = rng_of(seed, 14, 14);
    struct cluster_result got;
    char first[512], command[640];
    snprintf(first, sizeof first, "%s/first", folder);
    job_make(k, 4 + (uint32_t)rng_below(&r, 8));
    cluster_make(k, &r, first, NULL, false);
    (void)sim_run(cluster.sim, 20 * SECOND, one_made, NULL);
    bool over = cluster_run(&cluster, sim_now_ns(cluster.sim) + rng_below(&r, 100) * MS);
    uint32_t lost = (uint32_t)rng_below(&r, cluster.options.servers), times = 0;
    if (!over) {
        cluster_server_kill(&cluster, lost);
        snprintf(command, sizeof command, "rm -rf %s", cluster.server[lost].dir);
        ck_assert_int_eq(system(command), 0);
        ck_assert_int_eq(mkdir(cluster.server[lost].dir, 0700), 0);
        over = replace(lost, k->name, seed);
        ck_assert_msg(over || replaced.status == 0, "%s, seed %" PRIu64 ": %d, %s", k->name, seed,
                      replaced.status, replaced.error);
        over = over || strikes(&r, (uint32_t)rng_below(&r, 4), k->name, seed);
        times = 1;
    }
    cluster_mend(&cluster);
    run_to_end(over, k, seed, &got);
    expect_same(k, seed, &got, calm);
    ck_assert_uint_ge(cluster.coord == NULL ? 1 : cluster.coord->slot[0].went_back, times);
    cluster_free(&cluster);
    folders_remove();
    return times;
}

/* The job ends with the rows of an undisturbed one, as one that is resumed from the checkpoint
 * does. */
START_TEST(lost_disk_is_replaced_from_a_checkpoint)
{
    uint64_t seeds = number("SHOAL_SIM_SEEDS", 4), first = number("SHOAL_SIM_FIRST", 1);
    const struct kind *k = &kinds[_i];
    struct cluster_result calm;
    uint32_t times = 0;
    calm_run(k, &calm);
    for (uint64_t seed = first; seed < first + seeds; seed++)
        times += play_replaced(k, seed, &calm);
    ck_assert_msg(2 * times >= seeds, "%u of %" PRIu64 " jobs had a server replaced", times, seeds);
}
END_TEST

static void setup(void)
{

    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", folder);
    file_make("train.csv", ROWS, 1);
    file_make("valid.csv", 100, 2);
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("checkpoint");
    TCase *c = tcase_create("checkpoint");
    const char *only = getenv("SHOAL_SIM_KIND");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    if (only != NULL && strtoul(only, NULL, 10) < KINDS)
        tcase_add_loop_test(c, checkpoint_goes_on_with_the_same_rows_under_faults, atoi(only),
                            atoi(only) + 1);
    else
        tcase_add_loop_test(c, checkpoint_goes_on_with_the_same_rows_under_faults, 0, (int)KINDS);
    tcase_add_loop_test(c, lost_memory_sends_the_job_back_to_its_checkpoint,
                        only != NULL ? atoi(only) : 0, only != NULL ? atoi(only) + 1 : (int)KINDS);
    tcase_add_loop_test(c, lost_power_sends_the_job_back_to_its_checkpoint,
                        only != NULL ? atoi(only) : 0, only != NULL ? atoi(only) + 1 : (int)KINDS);
    tcase_add_loop_test(c, lost_disk_is_replaced_from_a_checkpoint, only != NULL ? atoi(only) : 0,
                        only != NULL ? atoi(only) + 1 : (int)KINDS);
    if (only == NULL)
        tcase_add_loop_test(c, saved_by_n_servers_goes_on_with_m, 1, SERVERS_MAX + 1);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
