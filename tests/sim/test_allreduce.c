/* test_allreduce.c: whole jobs whose workers keep the network in step (train.dense: allreduce), on
 * virtual time. Workers, servers and the coordinator die, freeze and come again, lines are cut,
 * messages are lost, doubled and late.
 *
 * A job must end with the rows of an undisturbed one, bit for bit: each contribution to the network
 * is counted once, at its step, and each push once.
 *
 *  - Under bsp all rows are compared, those of the network and the others.
 *  - Under ssp and async a batch is computed from rows of any age, within the bound. So the sparse
 *    rows of these jobs do not move: their learning rate is below the last bit of a weight. What a
 *    lane gives to the network then depends on its batches alone, and the rows' shows count every
 *    example of every push.
 *
 * The order in which a network is added up follows from the lanes alone (worker/ring/README.md), so
 * one undisturbed run has the bits of all, with any number of workers.
 *
 * Jobs with sharded optimizer state (train.dense_state) are compared with undisturbed ones of whole
 * state.
 *
 * SHOAL_SIM_SHARDED: 0 or 1, one of the two alone. SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST,
 * SHOAL_SIM_KIND, SHOAL_SIM_LOG as in test_cluster.c; SHOAL_SIM_STRIKE: one of the list `strikes`,
 * from 0. */
#include "proto/base/log.h"
#include "proto/job/manifest.h"
#include "proto/wire/wire.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/ring_job.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_oracle.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/worker_files.h"
#include "worker/ring/ring.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { ROWS = 480, EPOCHS = 2, LANES = 4, WORKERS_MOST = LANES };
#define LEASE SECOND

static struct cluster cluster;
static const char *folder;
static char yaml[4096], checkpoints[512], who[96];
static bool sharded; /* the job's optimizer state is */
static int epochs = EPOCHS;

struct kind {
    const char *name, *model, *mode, *table, *train;
};

#define MOVES "init: {kind: uniform}, optimizer: {kind: adagrad, lr: 0.3}"
#define STILL                                                                                      \
    "init: {kind: uniform, scale: 1}, optimizer: {kind: sgd, lr: 1.0e-12}, stats: true, "          \
    "score: {show: 1, click: 1}"
static const struct kind kinds[] = {
    {"bsp", "{kind: deepfm, hidden: [4], dropout: 0.2, norm: batch}", "bsp", MOVES, ""},
    {"ssp", "{kind: dcnv2, hidden: [4], cross_layers: 1, norm: batch}", "ssp", STILL, ""},
    {"async", "{kind: dcnv2, hidden: [4], cross_layers: 1, dropout: 0.2}", "async", STILL, ""},
    {"window", "{kind: deepfm, hidden: [4], norm: batch}", "bsp", MOVES, "window: 2, "},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

/* every: batches between two checkpoints; 0: none. */
static void job_make(const struct kind *k, uint32_t every)
{
    char more[700] = "";
    if (every > 0)
        snprintf(more, sizeof more, "checkpoint: {dir: %s, every_batches: %u, keep: 4}\n",
                 checkpoints, every);
    snprintf(yaml, sizeof yaml,
             "job: sim\n"
             "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
             "tables:\n"
             "  - {name: emb, dim: 2, tablets: 64, %s}\n"
             "model: %s\n"
             "train: {dense: allreduce, dense_state: %s, dense_publish: 1s, batch: 8, epochs: %d, "
             "consistency: %s, "
             "staleness: 2, prefetch: 2, lanes: %d, %sbackend: cpu, task_batches: 4}\n"
             "durability: journal\n"
             "coordinator: {lease: 1s}\n"
             "net: {resend: 100ms}\n%s",
             worker_path("train.csv"), worker_path("train.csv"), worker_path("cache"), k->table,
             k->model, sharded ? "sharded" : "whole", epochs, k->mode, LANES, k->train, more);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

static struct cluster_options calm_options(uint32_t workers, uint64_t seed)
{
    return (struct cluster_options){.sim = sim_play_net(seed),
                                    .yaml = yaml,
                                    .servers = 1,
                                    .workers = workers,
                                    .durability = DURABLE_JOURNAL};
}

/* Starts a cluster, whose servers have folders below the test's. */
static void begin(const struct kind *k, struct cluster_options *o, const char *what, uint64_t seed)
{
    static char dir[512];
    snprintf(who, sizeof who, "%s%s, %s, seed %" PRIu64, k->name, sharded ? " sharded" : "", what,
             seed);
    snprintf(dir, sizeof dir, "%.400s/run", folder);
    o->dir = dir;
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    cluster_start(&cluster, o, dense_backend());
    oracle_watch(&cluster, who);
}

static void end(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf %.400s/run", folder);
    cluster_free(&cluster);
    ck_assert_int_eq(system(command), 0);
}

/* Runs that lost all their workers while the network went to the tables, or under bsp in the middle
 * of an epoch: without a checkpoint such a job ends, with a sentence. */
static uint32_t torn;

static bool network_lost(const char *text)
{
    return strstr(text, "the network half as of step") != NULL ||
           strstr(text, " ended at once, the network is in the tables as of") != NULL;
}

/* Power took pushes that were acknowledged, and the weights for them are gone. */
static bool rows_lost(const char *text)
{
    return cluster.options.power &&
           (strstr(text, "the servers have lost batches of lane") != NULL ||
            strstr(text, "a server has lost pushes") != NULL ||
            strstr(text, "power took what was not on a disk yet") != NULL);
}

/* Lets the job go on to its end, which must be a good one, or `torn`: false. Processes that are
 * dead stay dead, unless `mends`. */
static bool job_ends(bool over, bool mends)
{
    struct cluster_result got;
    for (uint64_t until = in(BOUND); !over && sim_now_ns(cluster.sim) < until;) {
        over = cluster_run(&cluster, in(10 * SECOND));
        if (mends)
            cluster_mend(&cluster);
    }
    cluster_result(&cluster, &got);
    ck_assert_msg(over, "%s: not over after %" PRIu64 " s", who, sim_now_ns(cluster.sim) / SECOND);
    if (got.state == WIRE_JOB_FAILED && (network_lost(got.text) || rows_lost(got.text))) {
        torn++;
        return false;
    }
    ck_assert_msg(got.state == WIRE_JOB_DONE, "%s: state %u: %s", who, got.state, got.text);
    ck_assert_msg(got.examples == (uint64_t)ROWS * EPOCHS, "%s: %" PRIu64 " examples", who,
                  got.examples);
    return true;
}

static uint32_t starts(void)
{
    return cluster.coord->slot[0].ring->ring.starts;
}

static void rows_take(struct oracle_rows *out)
{
    cluster_mend(&cluster);
    ck_assert_msg(cluster_settle(&cluster, in(BOUND)), "%s: the shards do not come back", who);
    oracle_marks();
    oracle_rows_take(out);
}

/* The rows of an undisturbed run, by kind; count 0: it was not made yet. */
static struct oracle_rows calms[KINDS];

static const struct oracle_rows *calm_of(const struct kind *k)
{
    struct oracle_rows *c = &calms[k - kinds];
    if (c->count > 0)
        return c;
    struct cluster_options o = calm_options(3, 1);
    bool was = sharded;
    sharded = false;
    job_make(k, 0);
    begin(k, &o, "calm", 0);
    ck_assert(job_ends(false, false));
    rows_take(c);
    end();
    sharded = was;
    return c;
}

/* The job has ended: compares all rows, those of the network too, with those of the undisturbed
 * run, and removes the cluster. */
static void check(const struct kind *k)
{
    struct oracle_rows rows;
    char of[sizeof who];
    ck_assert_uint_eq(starts(), LANES);
    memcpy(of, who, sizeof of);
    rows_take(&rows);
    end();
    const struct oracle_rows *must = calm_of(k);
    memcpy(who, of, sizeof who);
    oracle_name(who); /* the cluster is gone */
    oracle_rows_same(&rows, must);
    oracle_rows_free(&rows);
}

static bool acknowledged(void *context)
{
    return oracle_acknowledged() >= *(const uint64_t *)context;
}

/* Runs until so many pushes are acknowledged. Returns true if the job is over. */
static bool run_pushes(uint64_t pushes)
{
    (void)sim_run(cluster.sim, in(BOUND), acknowledged, &pushes);
    return cluster_run(&cluster, sim_now_ns(cluster.sim));
}

/* ---- what happens to it ---------------------------------------------------------------------- */

static void worker_dies(uint32_t n)
{
    cluster_worker_kill(&cluster, n % cluster.options.workers);
}

static void worker_dies_and_comes(uint32_t n)
{
    worker_dies(n);
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 1500 * MS));
    cluster_mend(&cluster);
}

static void two_workers_die(uint32_t n)
{
    worker_dies(n);
    (void)cluster_run(&cluster, in((uint64_t)n * 53 % 1300 * MS));
    worker_dies(n + 1);
}

/* The tables alone have the network then. */
static void all_workers_die(uint32_t n)
{
    for (uint32_t i = 0; i < cluster.options.workers; i++)
        cluster_worker_kill(&cluster, i);
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 1500 * MS));
    cluster_mend(&cluster);
}

static void worker_freezes(uint32_t n)
{
    struct cluster_worker *w = &cluster.worker[n % cluster.options.workers];
    if (w->node != NULL)
        sim_pause(w->node, in((200 + (uint64_t)n * 331 % 4000) * MS));
}

static void worker_comes(uint32_t n)
{
    (void)n;
    (void)cluster_worker_start(&cluster);
}

/* Neighbours that do not reach each other, and beat both. */
static void line_is_cut(uint32_t n)
{
    struct sim_node *a = cluster.worker[n % 3].node, *b = cluster.worker[(n + 1) % 3].node;
    if (a == NULL || b == NULL)
        return;
    sim_cut(a, b, in((100 + (uint64_t)n * 211 % 6000) * MS));
    if (n % 2 == 0)
        sim_cut(b, a, in((100 + (uint64_t)n * 211 % 6000) * MS));
}

static void coordinator_dies(uint32_t n)
{
    cluster_coord_kill(&cluster);
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 1500 * MS));
    cluster_mend(&cluster);
}

static void coordinator_and_worker_die(uint32_t n)
{
    worker_dies(n);
    coordinator_dies(n);
}

static void server_dies(uint32_t n)
{
    cluster_server_kill(&cluster, n % cluster.options.servers);
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 500 * MS));
    cluster_mend(&cluster);
}

static void server_loses_power(uint32_t n)
{
    cluster_server_power(&cluster, n % cluster.options.servers, n);
    oracle_power_lost();
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 500 * MS));
    cluster_mend(&cluster);
}

static void all_servers_lose_power(uint32_t n)
{
    for (uint32_t i = 0; i < cluster.options.servers; i++)
        cluster_server_power(&cluster, i, n + i);
    cluster_coord_power(&cluster, n);
    oracle_power_lost();
    (void)cluster_run(&cluster, in((uint64_t)n * 37 % 1500 * MS));
    cluster_mend(&cluster);
}

static const struct {
    const char *name;
    void (*strike)(uint32_t n);
    bool quick; /* the job then goes on within a lease and a second */
    bool power; /* power may take acknowledged pushes, and with them the job */
} strikes[] = {{.name = "worker_dies", .strike = worker_dies, .quick = true},
               {.name = "worker_dies_and_comes", .strike = worker_dies_and_comes, .quick = true},
               {.name = "two_workers_die", .strike = two_workers_die},
               {.name = "all_workers_die", .strike = all_workers_die},
               {.name = "worker_freezes", .strike = worker_freezes, .quick = true},
               {.name = "worker_comes", .strike = worker_comes, .quick = true},
               {.name = "line_is_cut", .strike = line_is_cut},
               {.name = "coordinator_dies", .strike = coordinator_dies},
               {.name = "coordinator_and_worker_die", .strike = coordinator_and_worker_die},
               {.name = "server_dies", .strike = server_dies, .quick = true},
               {.name = "server_loses_power", .strike = server_loses_power, .power = true},
               {.name = "all_servers_lose_power", .strike = all_servers_lose_power, .power = true}};
#define STRIKES (sizeof strikes / sizeof strikes[0])

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

/* False where the environment chooses another kind, or another of the strikes; STRIKES: none. */
static bool chosen(size_t kind, size_t strike)
{
    return number("SHOAL_SIM_SHARDED", sharded) == sharded &&
           number("SHOAL_SIM_KIND", kind) == kind && number("SHOAL_SIM_STRIKE", strike) == strike;
}

/* Some steps must be made within a lease and a second, or all of the epoch. Returns true when the
 * job is over. */
static bool goes_on(void)
{
    uint64_t pushes = oracle_acknowledged() + 6 * LANES, began = sim_now_ns(cluster.sim);
    bool over = false;
    while (!over && oracle_acknowledged() < pushes &&
           cluster.coord->slot[0].at.phase == PHASE_TRAIN) {
        over = cluster_run(&cluster, in(10 * MS));
        ck_assert_msg(sim_now_ns(cluster.sim) - began <= LEASE + SECOND,
                      "%s: it stands for %" PRIu64 " ms", who,
                      (sim_now_ns(cluster.sim) - began) / MS);
    }
    return over;
}

/* Three workers; what happens, at another moment in each run, until the job is over before it. */
START_TEST(allreduce_goes_on_whatever_happens)
{
    const struct kind *k = &kinds[_i / (int)STRIKES % 2];
    size_t what = (size_t)_i % STRIKES;
    uint64_t first = number("SHOAL_SIM_FIRST", 0);
    sharded = _i / (int)STRIKES >= 2;
    if (!chosen((size_t)(k - kinds), what))
        return;
    bool over = false;
    uint32_t runs = 0;
    for (uint32_t n = (uint32_t)first; !over && n < number("SHOAL_SIM_SEEDS", 400); n++) {
        struct cluster_options o = calm_options(3, 100 + n);
        bool ended = false;
        o.servers = 2;
        o.power = strikes[what].power;
        job_make(k, 0);
        begin(k, &o, strikes[what].name, n);
        over = run_pushes(1 + (uint64_t)n * 23);
        if (!over)
            strikes[what].strike(n);
        if (!over && strikes[what].quick)
            ended = goes_on();
        if (!job_ends(over || ended, true)) {
            end();
            continue;
        }
        check(k);
        runs += !over; /* it was struck */
    }
    /* two of three workers are all keepers of a share */
    bool all = strikes[what].strike == all_workers_die ||
               (sharded && strikes[what].strike == two_workers_die);
    if (strikes[what].power)
        ck_assert_uint_gt(runs, torn);
    else if (!all)
        ck_assert_uint_gt(runs, 4 * torn);
    else if (strcmp(k->mode, "bsp") != 0)
        ck_assert_uint_gt(2 * runs, torn);
    else
        ck_assert_uint_gt(torn, 0); /* without a checkpoint such a job ends in words */
}
END_TEST

/* As test_cluster: what strikes follows from the seed, and so does what the net does. */
START_TEST(allreduce_keeps_the_bits_under_faults)
{
    const struct kind *k = &kinds[_i % (int)KINDS];
    sharded = _i >= (int)KINDS;
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 12);
    if (!chosen((size_t)(k - kinds), STRIKES))
        return;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct rng r = rng_of(seed, 17, 17);
        struct cluster_options o = calm_options(1 + (uint32_t)rng_below(&r, WORKERS_MOST), seed);
        o.servers = 1 + (uint32_t)rng_below(&r, 3);
        o.sim.drop = (double)rng_below(&r, 3) * 0.05;
        o.sim.duplicate = (double)rng_below(&r, 3) * 0.1;
        o.sim.reorder = rng_below(&r, 2) == 1;
        o.sim.delay_max_ns = MS + rng_below(&r, 10) * MS;
        bool over = false;
        job_make(k, 0);
        begin(k, &o, "faults", seed);
        for (uint64_t i = 0, count = rng_below(&r, 7); i < count && !over; i++) {
            uint64_t back;
            over = cluster_run(&cluster, in((1 + rng_below(&r, 300)) * MS));
            if (!over)
                cluster_strike(&cluster, &r, &back);
            over = over || cluster_run(&cluster, back);
            cluster_mend(&cluster);
        }
        if (job_ends(over, true))
            check(k);
        else
            end();
    }
    ck_assert_uint_ge(seeds, (sharded ? 2 : 4) * torn);
}
END_TEST

/* ---- checkpoints ----------------------------------------------------------------------------- */

static bool two_made(void *context)
{
    (void)context;
    return cluster.coord->slot[0].checkpoint->list->made >= 2;
}

/* The bits do not depend on the number of workers with which a job begins. */
START_TEST(allreduce_has_the_same_bits_with_any_number_of_workers)
{
    const struct kind *k = &kinds[_i];
    if (!chosen((size_t)_i, STRIKES))
        return;
    for (uint32_t workers = 1; workers <= WORKERS_MOST; workers++) {
        struct cluster_options o = calm_options(workers, 10 + workers);
        job_make(k, 0);
        begin(k, &o, "workers", workers);
        ck_assert(job_ends(false, false));
        check(k);
    }
}
END_TEST

/* A job of two workers goes on from a checkpoint with one, two, three and four. Sharded state
 * becomes whole, too. */
START_TEST(allreduce_resumes_with_any_number_of_workers)
{
    const struct kind *k = &kinds[_i % (int)KINDS];
    char from[LIMIT_PATH];
    struct cluster_options o = calm_options(2, 5);
    sharded = _i >= (int)KINDS;
    if (!chosen((size_t)(k - kinds), STRIKES))
        return;
    const struct oracle_rows *calm = calm_of(k);
    job_make(k, 12);
    begin(k, &o, "first", 0);
    ck_assert_msg(sim_run(cluster.sim, in(BOUND), two_made, NULL), "%s: no checkpoint", who);
    snprintf(from, sizeof from, "%.500s/%s", checkpoints,
             coord_checkpoint_record(&cluster.coord->slot[0], 0)->name);
    end();
    for (uint32_t workers = 1; workers <= WORKERS_MOST; workers++) {
        struct oracle_rows rows;
        o = calm_options(workers, 6);
        o.servers = 1 + workers % 2;
        o.from = from;
        sharded = _i >= (int)KINDS && workers != 2; /* two go on with whole state */
        job_make(k, 0);
        begin(k, &o, "resumes", workers);
        ck_assert(job_ends(false, false));
        ck_assert_uint_eq(starts(), LANES);
        rows_take(&rows);
        end();
        oracle_rows_same(&rows, calm);
        oracle_rows_free(&rows);
    }
}
END_TEST

/* ---- power ----------------------------------------------------------------------------------- */

static bool one_made(void *context)
{
    (void)context;
    return cluster.coord->slot[0].checkpoint->list->made > 0;
}

static void checkpoints_remove(void)
{
    char command[600];
    snprintf(command, sizeof command, "rm -rf %.400s/*", checkpoints);
    ck_assert_int_eq(system(command), 0);
}

/* Servers lose power again and again. Returns true when the job is over. */
static bool outages(struct rng *r)
{
    bool over = false;
    for (uint64_t i = 0, count = 2 + rng_below(r, 5); i < count && !over; i++) {
        uint64_t pushes = oracle_acknowledged() + rng_below(r, 60);
        (void)sim_run(cluster.sim, in(SECOND), acknowledged, &pushes);
        over = cluster_run(&cluster, in((1 + rng_below(r, 30)) * MS));
        if (over)
            break;
        cluster_server_power(&cluster, (uint32_t)rng_below(r, cluster.options.servers),
                             rng_next(r));
        oracle_power_lost();
        over = cluster_run(&cluster, in((1 + rng_below(r, 200)) * MS));
        cluster_mend(&cluster);
    }
    return over;
}

/* Power takes acknowledged pushes. The job goes back to a checkpoint by itself and ends with the
 * bits of an undisturbed one; before the first checkpoint it may end with a sentence. */
START_TEST(allreduce_goes_back_when_power_takes_its_rows)
{
    const struct kind *k = &kinds[_i];
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 8);
    uint32_t back = 0;
    if (!chosen((size_t)_i, STRIKES))
        return;
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        struct rng r = rng_of(seed, 23, 1);
        struct cluster_options o = calm_options(1 + (uint32_t)rng_below(&r, 3), seed);
        o.servers = 1 + (uint32_t)rng_below(&r, 3);
        o.power = true;
        job_make(k, 8 + (uint32_t)rng_below(&r, 24));
        begin(k, &o, "power", seed);
        if (rng_below(&r, 8) > 0)
            (void)sim_run(cluster.sim, in(20 * SECOND), one_made, NULL);
        bool over = outages(&r), good = job_ends(over, true);
        back += cluster.coord->slot[0].went_back;
        if (good)
            check(k);
        else
            end();
        checkpoints_remove();
    }
    ck_assert_uint_ge(seeds, 4 * torn);
    ck_assert(seeds < 8 || back > 0 || strcmp(k->mode, "bsp") != 0);
}
END_TEST

/* ---- a worker that cannot -------------------------------------------------------------------- */

static struct env *poor; /* the worker that has no memory for a ring */
static uint64_t tried_ns[16];
static uint32_t tries;

int __real_ring_open(const struct ring_options *options, struct ring **out, struct err *e);
int __wrap_ring_open(const struct ring_options *options, struct ring **out, struct err *e);
int __wrap_ring_open(const struct ring_options *options, struct ring **out, struct err *e)
{
    if (options->env != poor)
        return __real_ring_open(options, out, e);
    if (tries < 16)
        tried_ns[tries] = sim_now_ns(cluster.sim);
    tries++;
    return err_set(e, SHOAL_E_NOMEM, "no memory for a ring");
}

static bool three_times(void *context)
{
    char text[ERR_TEXT_MAX];
    (void)context;
    return coord_unable_text(&cluster.coord->slot[0].ring->unable, 0, sim_now_ns(cluster.sim), text,
                             sizeof text);
}

/* A worker that has no memory for a ring stops the others ever more seldom, and is named. */
START_TEST(allreduce_waits_between_the_tries_of_a_worker_that_cannot)
{
    const struct kind *k = &kinds[1];
    struct cluster_options o = calm_options(3, 5);
    epochs = 1000; /* it is still at work when the test is over */
    job_make(k, 0);
    begin(k, &o, "poor", 0);
    (void)run_pushes(20);
    poor = sim_node_env(cluster.worker[cluster_worker_start(&cluster)].node);
    ck_assert_msg(sim_run(cluster.sim, in(60 * SECOND), three_times, NULL), "%s: %u tries", who,
                  tries);
    ck_assert_uint_eq(tries, COORD_UNABLE_TRIES);
    for (uint32_t i = 1; i < tries; i++)
        ck_assert_uint_ge(tried_ns[i] - tried_ns[i - 1], SECOND << (i - 1));
    poor = NULL; /* now it can */
    uint32_t members = 0;
    for (uint32_t i = 0; i < 100 && members < 4; i++) {
        (void)cluster_run(&cluster, in(100 * MS));
        members = cluster.coord->slot[0].ring->ring.count;
    }
    ck_assert_uint_eq(members, 4);
    end();
}
END_TEST

static void setup(void)
{
    static const struct sim_column columns[] = {{"a", 40}, {"b", 7}};
    folder = sim_play_input(columns, 2, ROWS, 3);
    snprintf(checkpoints, sizeof checkpoints, "%.400s/checkpoints", folder);
    ck_assert_int_eq(mkdir(checkpoints, 0700), 0);
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("allreduce");
    TCase *c = tcase_create("allreduce");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 1200);
    tcase_add_loop_test(c, allreduce_goes_on_whatever_happens, 0, 4 * STRIKES);
    tcase_add_loop_test(c, allreduce_keeps_the_bits_under_faults, 0, 2 * KINDS);
    tcase_add_loop_test(c, allreduce_has_the_same_bits_with_any_number_of_workers, 0, KINDS);
    tcase_add_loop_test(c, allreduce_goes_back_when_power_takes_its_rows, 0, KINDS);
    tcase_add_loop_test(c, allreduce_resumes_with_any_number_of_workers, 0, 2 * KINDS);
    suite_add_tcase(s, c);
    c = tcase_create("cannot");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 300);
    tcase_add_test(c, allreduce_waits_between_the_tries_of_a_worker_that_cannot);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
