/* test_ahead.c: how far a lane looks ahead changes nothing but the time: with one lane, every job
 * of a kind ends with the digests of prefetch 0, under async and ssp, with the same gradients from
 * the same rows in each batch, also while servers die and tablets move.
 *
 * The model is wrapped here (the linker's --wrap): some steps are skipped, as after an overflow of
 * fp16, and some have a gradient that the shards refuse. */
#include "dense/model.h"
#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "server/coord/fleet/moves.h"
#include "server/coord/job/slot.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/train/lane.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROWS = 900, BATCHES = 2 * ROWS / 12 };

static struct backend *backend;
static struct cluster cluster;
static char yaml[2048];
static const char *folder;

/* What each batch of the first job was computed from, and how later jobs differ from it. */
static struct {
    uint64_t rows[BATCHES + 1];
    bool first;
    bool any;       /* the model is as it is */
    uint64_t other; /* the lowest batch with other rows; 0: none */
    uint32_t skipped, poisoned;
} play;

int __real_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);
int __wrap_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out);

/* Compares the rows of a batch with those that it had in the first job. */
static void rows_note(const struct model *m, const struct model_input *in, size_t row_floats,
                      uint64_t batch)
{
    ck_assert_uint_le(batch, BATCHES);
    uint64_t sum = hash_bytes(in->rows, row_floats * sizeof(float), 0);
    if (in->dense != NULL)
        sum = hash_bytes(in->dense, model_dense_floats(m) * sizeof(float), sum);
    if (in->stats != NULL)
        sum = hash_bytes(in->stats, model_stats_floats(m) * sizeof(float), sum);
    if (play.first)
        play.rows[batch] = sum;
    else if (play.rows[batch] != sum && (play.other == 0 || batch < play.other))
        play.other = batch;
}

static void all_bad(float *gradients, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gradients[i] = NAN;
}

int __wrap_model_train(const struct model *m, struct model_run *r, const struct model_input *in,
                       uint64_t seed, uint32_t lane, uint64_t batch, struct model_output *out)
{
    size_t floats = 0;
    if (play.any)
        return __real_model_train(m, r, in, seed, lane, batch, out);
    for (uint32_t t = 0; t < model_tables(m); t++)
        floats += (size_t)in->table_rows[t] * (t == 0 ? 5 : 3); /* dims 4 and 2, a weight each */
    rows_note(m, in, floats, batch);
    int rc = __real_model_train(m, r, in, seed, lane, batch, out);
    if (rc == 0 && batch % 7 == 0) {
        out->skipped = true;
        out->row_gradients[0] = NAN; /* it would end the job if it were pushed */
        play.skipped++;
    } else if (rc == 0 && batch % 11 == 0) {
        all_bad(out->row_gradients, floats); /* in every part, so the division does not matter */
        all_bad(out->dense_gradients, model_dense_floats(m));
        all_bad(out->stats_gradients, model_stats_floats(m));
        play.poisoned++;
    }
    return rc;
}

/* ---- the job --------------------------------------------------------------------------------- */

/* Kinds of jobs; each has several tables with statistics, admission, 16-bit values and packed
 * gradients, a network with running statistics, and an L2 that works on rows without a push. */
static const struct {
    const char *name, *mode, *first, *second, *gradients;
} kinds[] = {
    {"async", "async", "values: bf16, stats: true, admit: {min_count: 2}",
     "values: fp16, optimizer: {kind: adam, lr: 0.01}", "int8"},
    {"ssp", "ssp", "values: fp16, stats: true, admit: {min_count: 3}",
     "optimizer: {kind: ftrl, lr: 0.1, l1: 0.001}", "bf16"},
    {"ssp_fp32", "ssp", "optimizer: {kind: adagrad, lr: 0.2, l2: 0.001}, admit: {min_count: 2}",
     "stats: true, by_shows: true, optimizer: {kind: sgd, lr: 0.1}", "fp32"},
};

static void job_make(uint32_t kind, uint32_t prefetch, const char *durability)
{
    int n =
        snprintf(yaml, sizeof yaml,
                 "job: ahead\n"
                 "data: {format: csv, label: label, train: [%s], cache: %s}\n"
                 "tables:\n"
                 "  - {name: one, fields: [a, b], dim: 4, tablets: 64, %s}\n"
                 "  - {name: two, fields: [c], dim: 2, tablets: 64, %s}\n"
                 "model: {kind: wide_deep, hidden: [4], norm: batch, dropout: 0.1}\n"
                 "train: {batch: 12, epochs: 2, lanes: 1, backend: cpu, task_batches: 20, seed: 3, "
                 "consistency: %s, prefetch: %u, max_refused: 0.5}\n"
                 "durability: %s\n"
                 "coordinator: {lease: 1s}\n"
                 "net: {resend: 100ms, gradients: %s}\n",
                 worker_path("train.csv"), worker_path("cache"), kinds[kind].first,
                 kinds[kind].second, kinds[kind].mode, prefetch, durability, kinds[kind].gradients);
    ck_assert_uint_lt((size_t)n, sizeof yaml);
}

static uint64_t in(uint64_t ns)
{
    return sim_now_ns(cluster.sim) + ns;
}

/* Moves some tablets, where no plan is under way. */
static void tablets_move(struct rng *r)
{
    uint16_t goal[1024];
    struct err e;
    if (cluster.coord == NULL)
        return;
    struct coord_fleet *f = &cluster.coord->fleet;
    if (!coord_cluster_ready(&f->cluster) || f->cluster.tablets == 0 || f->moves.kind != MOVES_NONE)
        return;
    ck_assert_uint_le(f->cluster.tablets, 1024);
    for (uint32_t i = 0; i < f->cluster.tablets; i++) {
        goal[i] = f->cluster.shard_of[i];
        if (rng_below(r, 3) == 0)
            goal[i] = (uint16_t)rng_below(r, cluster.options.servers);
    }
    (void)coord_moves_begin(f, MOVES_REBALANCE, "", goal, &e);
}

/* Kills servers and moves tablets until the job is over. Returns how many servers died. */
static uint32_t job_suffers(struct rng *r)
{
    uint32_t died = 0;
    bool over = false;
    while (!over && sim_now_ns(cluster.sim) < BOUND) {
        tablets_move(r);
        over = cluster_run(&cluster, in((20 + rng_below(r, 150)) * MS));
        if (over || rng_below(r, 3) != 0)
            continue;
        died++;
        cluster_server_kill(&cluster, (uint32_t)rng_below(r, cluster.options.servers));
        over = cluster_run(&cluster, in((50 + rng_below(r, 500)) * MS));
        cluster_mend(&cluster);
    }
    ck_assert(over);
    return died;
}

struct figures {
    int64_t echoed, missed, skipped;
    uint32_t died;
};

static void job_run(uint32_t kind, uint32_t prefetch, uint64_t seed, struct cluster_result *out,
                    struct figures *f)
{
    struct rng r = rng_of(seed, kind, prefetch);
    char dir[512], command[600];
    snprintf(dir, sizeof dir, "%s/run", folder);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    struct cluster_options o = {.yaml = yaml,
                                .servers = 2 + (uint32_t)seed % 2,
                                .workers = 1,
                                .durability = DURABLE_JOURNAL,
                                .dir = dir};
    o.sim = sim_play_net(seed + 1);
    o.sim.delay_max_ns = MS * (1 + seed % 3);
    job_make(kind, prefetch, "journal");
    play.other = 0;
    play.skipped = play.poisoned = 0;
    cluster_start(&cluster, &o, backend);
    if (seed > 0)
        f->died = job_suffers(&r);
    sim_play_end(&cluster, 2 * ROWS, out);
    ck_assert_uint_gt(play.skipped, 10);
    ck_assert_uint_gt(play.poisoned, 5);
    f->echoed = sim_play_reported(&cluster, NULL, "keys_echoed");
    f->missed = sim_play_reported(&cluster, NULL, "keys_missed");
    f->skipped = sim_play_reported(&cluster, NULL, "skipped_steps");
    cluster_free(&cluster);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

/* ---- cases ----------------------------------------------------------------------------------- */

START_TEST(looking_ahead_gives_the_bits_of_prefetch_0)
{
    static const uint32_t prefetch[] = {0, 1, 2, 5};
    struct cluster_result first, got;
    struct figures f = {0};
    uint32_t died = 0;
    play.first = true;
    job_run((uint32_t)_i, 0, 0, &first, &f);
    play.first = false;
    ck_assert_int_eq(f.echoed, 0);
    for (uint64_t seed = 0; seed < 4; seed++)
        for (uint32_t p = 0; p < 4; p++) {
            job_run((uint32_t)_i, prefetch[p], seed, &got, &f);
            ck_assert_msg(play.other == 0,
                          "%s, prefetch %u, seed %" PRIu64 ": batch %" PRIu64 " has other rows",
                          kinds[_i].name, prefetch[p], seed, play.other);
            for (uint32_t t = 0; t < first.tables; t++)
                ck_assert_msg(strcmp(got.digest[t], first.digest[t]) == 0,
                              "%s, prefetch %u, seed %" PRIu64 ": table %u differs", kinds[_i].name,
                              prefetch[p], seed, t);
            ck_assert_int_eq(f.echoed > 0, prefetch[p] > 0);
            died += f.died;
        }
    ck_assert_uint_gt(died, 5);
}
END_TEST

/* Another job, with these settings of `train`. */
static void other_make(const char *train)
{
    int n = snprintf(yaml, sizeof yaml,
                     "job: ahead\n"
                     "data: {format: csv, label: label, train: [%s], cache: %s}\n"
                     "tables: [{name: one, dim: 4, tablets: 64}]\n"
                     "model: {kind: probe}\n"
                     "train: {backend: cpu, %s}\n",
                     worker_path("train.csv"), worker_path("cache"), train);
    ck_assert_uint_lt((size_t)n, sizeof yaml);
}

/* The slices of a window, eight a lane on four cores, leave the other threads of the pool to reads
 * and to divisions of keys, behind which pushes wait. */
START_TEST(slices_take_no_thread_of_other_stages)
{
    struct cluster_options o = {
        .yaml = yaml, .servers = 1, .workers = 1, .places = 2, .sim = sim_play_net(1)};
    struct cluster_result out;
    play.any = true;
    other_make("batch: 6, window: 8, epochs: 4, lanes: 2, consistency: async, prefetch: 2");
    cluster_start(&cluster, &o, backend);
    const struct sim_node *node = cluster.worker[0].node;
    sim_play_end(&cluster, 4 * ROWS, &out);
    ck_assert_uint_le(sim_works_most(node), lane_threads(4, 2));
    cluster_free(&cluster);
}
END_TEST

/* Seconds of training of a small job, 30 batches an epoch: works take 10 ms, a round trip 2 ms. */
static double small_trained(const char *tasks)
{
    struct cluster_options o = {.yaml = yaml,
                                .servers = 2,
                                .workers = 1,
                                .sim = {.seed = 1,
                                        .delay_min_ns = MS,
                                        .delay_max_ns = MS,
                                        .work_min_ns = 10 * MS,
                                        .work_max_ns = 10 * MS}};
    struct cluster_result out;
    char train[128];
    snprintf(train, sizeof train, "batch: 30, epochs: 4, lanes: 1, consistency: async%s", tasks);
    other_make(train);
    cluster_start(&cluster, &o, backend);
    sim_play_end(&cluster, 4 * ROWS, &out);
    double seconds = (double)cluster.coord->slot[0].at.train_ns * 1e-9;
    cluster_free(&cluster);
    return seconds;
}

/* A lane does not look ahead beyond its task: tasks of a job that says nothing are long enough for
 * that to cost little. */
START_TEST(tasks_of_a_small_job_are_not_too_short)
{
    play.any = true;
    double whole = small_trained(", task_batches: 30"),
           short_ones = small_trained(", task_batches: 3"), own = small_trained("");
    printf("tasks of 30 batches: %.3f s, of 3: %.3f s, by the coordinator: %.3f s\n", whole,
           short_ones, own);
    ck_assert_double_lt(own, 1.25 * whole);
    ck_assert_double_gt(short_ones, 1.4 * whole);
}
END_TEST

static void setup(void)
{
    static const struct sim_column columns[] = {{"a", 40}, {"b", 9}, {"c", 300}};
    folder = sim_play_input(columns, 3, ROWS, 5);
    memset(&play, 0, sizeof play);
    if (backend == NULL)
        backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

int main(void)
{
    Suite *s = suite_create("ahead");
    TCase *c = suite_case(s, "ahead", 600, setup, teardown);
    tcase_add_loop_test(c, looking_ahead_gives_the_bits_of_prefetch_0, 0, 3);
    tcase_add_test(c, slices_take_no_thread_of_other_stages);
    tcase_add_test(c, tasks_of_a_small_job_are_not_too_short);
    return suite_main(s);
}
