/* test_cluster.c: whole jobs on virtual time under faults from one seed: lost, doubled and
 * reordered messages, lines that are cut; servers (of several shards), workers and the coordinator
 * killed and started again, once in a while after hours, or frozen for many leases; pools that hold
 * a batch or three; rows that are not in memory.
 *
 * Every run must end within a bound of virtual time, with the rows that the undisturbed run has:
 * the probe's counts by digest (every example exactly once), under bsp the digests of all tables,
 * bit for bit. Two runs of one seed are the same, event for event.
 *
 * SHOAL_SIM_SEEDS=N runs N seeds of each kind, SHOAL_SIM_FIRST=S begins at seed S. */
#include "tests/lib/dense_case.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_cold.h"
#include "tests/lib/worker_files.h"

#include "dense/model.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/job/job.h"
#include "proto/wire/wire.h"
#include "server/coord/core.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)
#define ROWS 600u

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048];
static const char *folder;

/* ---- the job --------------------------------------------------------------------------------- */

static void file_make(const char *name, uint32_t rows, uint32_t seed)
{
    static char data[1 << 16];
    struct rng r = rng_of(seed, 0, 0);
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b\n");
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t a = (uint32_t)rng_below(&r, 60), b = (uint32_t)rng_below(&r, 9);
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n",
                               (a * 3 + b + (uint32_t)rng_below(&r, 9)) % 2, a, b);
    }
    worker_write(name, data, at);
}

struct kind {
    const char *name, *model, *mode, *more;
    enum durability durability;
};

static const struct kind kinds[] = {
    {"probe_async", "{kind: probe}", "async", "", DURABLE_JOURNAL},
    {"probe_ssp", "{kind: probe}", "ssp", "", DURABLE_JOURNAL},
    {"probe_fsync", "{kind: probe}", "ssp", "", DURABLE_FSYNC},
    {"probe_bsp", "{kind: probe}", "bsp", "", DURABLE_JOURNAL},
    {"deepfm_bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", "",
     DURABLE_JOURNAL},
    {"cache_async", "{kind: probe}", "async", "cache: {rows: 40, batches: 3}, ", DURABLE_JOURNAL},
    {"stop_bsp", "{kind: deepfm, hidden: [4], norm: none}", "bsp",
     "early_stop: {metric: logloss, patience: 1, lr_decay: 0.1}, ", DURABLE_JOURNAL},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static void job_make(const struct kind *k)
{
    static const char *const names[] = {"memory", "journal", "fsync"};
    bool probe = strstr(k->model, "probe") != NULL;
    snprintf(
        yaml, sizeof yaml,
        "job: sim\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 2, tablets: 64, init: {kind: %s}, optimizer: {kind: %s, lr: %s}}\n"
        "model: %s\n"
        "train: {batch: 16, epochs: %d, consistency: %s, staleness: 2, prefetch: 2, lanes: 3, "
        "%sbackend: cpu, "
        "task_batches: 4}\n"
        "durability: %s\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("valid.csv"), worker_path("cache"),
        probe ? "zero" : "uniform", probe ? "sgd" : "adagrad", probe ? "1" : "0.3", k->model,
        strstr(k->more, "stop") != NULL ? 5 : 2, k->mode, k->more, names[k->durability]);
}

/* ---- what goes wrong ------------------------------------------------------------------------- */

/* A run from one seed; 0 is the undisturbed one. Returns the trace. */
static uint64_t play(const struct kind *k, uint64_t seed, struct cluster_result *out)
{
    struct rng r = rng_of(seed, 7, 7);
    struct sim_options sim = {.seed = seed + 1,
                              .delay_min_ns = MS / 20,
                              .delay_max_ns = MS,
                              .work_min_ns = MS / 10,
                              .work_max_ns = 4 * MS};
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .durability = k->durability};
    char dir[512];
    uint32_t strikes = 0;
    if (seed != 0) {
        sim.drop = (double)rng_below(&r, 3) * 0.05 + (rng_below(&r, 8) == 0 ? 0.1 : 0);
        sim.duplicate = (double)rng_below(&r, 3) * 0.1;
        sim.reorder = rng_below(&r, 2) == 1;
        sim.delay_max_ns = MS + rng_below(&r, 10) * MS;
        o.servers = 1 + (uint32_t)rng_below(&r, 3);
        o.shards = 1 + (uint32_t)rng_below(&r, 4 / o.servers); /* 64 tablets, 16 each at least */
        o.waiting_max = rng_below(&r, 3) == 0 ? 16384 : 0;     /* a batch of a lane, or three */
        o.workers = 1 + (uint32_t)rng_below(&r, 3);
        strikes = (uint32_t)rng_below(&r, 9);
    }
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    o.sim = sim;
    o.dir = dir;
    job_make(k);
    sim_cold_share(seed % 2 == 0 ? 0 : 5 + (uint32_t)rng_below(&r, 30));
    cluster_start(&cluster, &o, backend);
    bool over = false;
    uint64_t gap = 30 + rng_below(&r, 600);
    for (uint32_t i = 0; i < strikes && !over; i++) {
        uint64_t back;
        if (rng_below(&r, 3) == 0) {
            /* aimed at the short phases, which chance alone hardly ever meets */
            uint32_t phase = PHASE_INDEX + (uint32_t)rng_below(&r, PHASE_DONE - PHASE_INDEX);
            over = cluster_run_phase(&cluster, phase, sim_now_ns(cluster.sim) + 4 * SECOND);
            over = over ||
                   cluster_run(&cluster, sim_now_ns(cluster.sim) + rng_below(&r, 4000) * MS / 1000);
        } else {
            over = cluster_run(&cluster, sim_now_ns(cluster.sim) + (1 + rng_below(&r, gap)) * MS);
        }
        if (over)
            break;
        cluster_strike(&cluster, &r, &back);
        if (rng_below(&r, 4) == 0) { /* another one before the first is mended */
            uint64_t other;
            over = cluster_run(&cluster, sim_now_ns(cluster.sim) + rng_below(&r, 40) * MS);
            cluster_strike(&cluster, &r, &other);
        }
        over = over || cluster_run(&cluster, back);
        cluster_mend(&cluster);
    }
    if (!over)
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + BOUND);
    memset(out, 0, sizeof *out);
    if (over)
        cluster_result(&cluster, out);
    uint64_t trace = sim_trace(cluster.sim), now = sim_now_ns(cluster.sim);
    if (!over)
        fprintf(stderr, "%s, seed %" PRIu64 ": the job did not end\n", k->name, seed);
    cluster_free(&cluster);
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_msg(over, "%s, seed %" PRIu64 ": not over after %" PRIu64 " s of virtual time",
                  k->name, seed, now / SECOND);
    return trace;
}

/* ---- cases ----------------------------------------------------------------------------------- */

static void expect_same(const struct kind *k, uint64_t seed, const struct cluster_result *got,
                        const struct cluster_result *calm)
{
    uint64_t s = seed;
    ck_assert_msg(got->state == WIRE_JOB_DONE, "%s, seed %" PRIu64 ": state %u: %s", k->name, s,
                  got->state, got->text);
    ck_assert_msg(got->examples == calm->examples,
                  "%s, seed %" PRIu64 ": %" PRIu64 " examples, %" PRIu64 " expected", k->name, s,
                  got->examples, calm->examples);
    ck_assert_msg(got->epochs == calm->epochs, "%s, seed %" PRIu64 ": %u epochs, %u expected",
                  k->name, s, got->epochs, calm->epochs);
    ck_assert_msg(got->rows == calm->rows,
                  "%s, seed %" PRIu64 ": %" PRIu64 " rows, %" PRIu64 " expected", k->name, s,
                  got->rows, calm->rows);
    for (uint32_t i = 0; i < calm->tables; i++)
        ck_assert_msg(strcmp(got->digest[i], calm->digest[i]) == 0,
                      "%s, seed %" PRIu64 ": table %u is %s, %s expected", k->name, s, i,
                      got->digest[i], calm->digest[i]);
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(cluster_ends_with_the_same_rows_under_faults)
{
    const struct kind *k = &kinds[_i];
    struct cluster_result calm, got;
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 6);
    play(k, 0, &calm);
    ck_assert_msg(calm.state == WIRE_JOB_DONE, "%s: %s", k->name, calm.text);
    ck_assert_uint_gt(calm.tables, 0);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(k, seed, &got);
        expect_same(k, seed, &got, &calm);
    }
    ck_assert(seeds < 2 || sim_cold_answers() > 0);
}
END_TEST

START_TEST(cluster_same_seed_is_the_same_run)
{
    struct cluster_result a, b;
    uint64_t first = play(&kinds[1], 3, &a), second = play(&kinds[1], 3, &b);
    ck_assert_uint_eq(first, second);
    ck_assert_uint_ne(first, play(&kinds[1], 4, &b));
}
END_TEST

static void setup(void)
{

    log_set_level(getenv("SHOAL_SIM_LOG") != NULL ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR);
    folder = worker_folder_make();
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
    Suite *s = suite_create("cluster");
    TCase *c = tcase_create("cluster");
    const char *only = getenv("SHOAL_SIM_KIND");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    if (only != NULL && strtoul(only, NULL, 10) < KINDS)
        tcase_add_loop_test(c, cluster_ends_with_the_same_rows_under_faults, atoi(only),
                            atoi(only) + 1);
    else
        tcase_add_loop_test(c, cluster_ends_with_the_same_rows_under_faults, 0, (int)KINDS);
    tcase_add_test(c, cluster_same_seed_is_the_same_run);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
