/* test_outside.c: jobs with model.kind: external on virtual time: the network is a function of this
 * file, as it is of another program with libshoal. Servers, workers and the coordinator are killed
 * or frozen, and messages are lost; the program gives batches back undone.
 *
 * The job ends with the rows of the undisturbed one: a network that counts examples counts each
 * exactly once, and under bsp all tables are equal bit for bit.
 *
 * SHOAL_SIM_SEEDS, SHOAL_SIM_FIRST, SHOAL_SIM_LOG as in test_cluster.c. */
#include "proto/base/log.h"
#include "proto/wire/wire.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/sim_play.h"
#include "tests/lib/worker_files.h"
#include "worker/train/outside.h"

#include <check.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ROWS 600u

static struct backend *backend;
static struct cluster cluster;
static char yaml[4096];
static const char *folder;

/* ---- the program ----------------------------------------------------------------------------- */

static struct {
    uint32_t undone, every; /* of `every` calls one gives its batch back undone; 0: none */
    uint64_t calls, scored;
    bool wrong; /* one batch has gradients and scores that are no numbers */
    bool spoiled;
} program;

static bool gives_back(void)
{
    program.calls++;
    return program.every > 0 && program.calls % program.every == 0;
}

/* As the probe (dense/model/models.c): a row's gradient is -1 for each example that has its key, so
 * with SGD at lr 1 the row is the number of its examples. */
static int count_run(void *context, struct outside_batch *b)
{
    const struct model_input *in = b->in;
    (void)context;
    if (gives_back()) {
        program.undone++;
        return SHOAL_E_AGAIN;
    }
    for (uint32_t i = 0; i < in->examples; i++) {
        b->out->scores[i] = 0.5f;
        for (uint32_t f = 0; f < b->batch->fields && b->train; f++)
            b->out->row_gradients[in->index[(size_t)i * b->batch->fields + f]] -= 1;
    }
    program.scored += !b->train;
    if (program.wrong && b->train && !program.spoiled) {
        program.spoiled = true;
        b->out->scores[0] = NAN;
    }
    return 0;
}

/* Logistic regression over rows of one float and a bias on the servers. */
static int learn_run(void *context, struct outside_batch *b)
{
    const struct model_input *in = b->in;
    (void)context;
    if (gives_back()) {
        program.undone++;
        return SHOAL_E_AGAIN;
    }
    for (uint32_t i = 0; i < in->examples; i++) {
        const uint32_t *index = &in->index[(size_t)i * b->batch->fields];
        double z = (double)in->dense[0];
        for (uint32_t f = 0; f < b->batch->fields; f++)
            z += (double)in->rows[index[f]];
        double p = 1 / (1 + exp(-z)), d = (p - (double)in->label[i]) / in->examples;
        b->out->scores[i] = (float)p;
        if (!b->train)
            continue;
        b->out->dense_gradients[0] += (float)d;
        for (uint32_t f = 0; f < b->batch->fields; f++)
            b->out->row_gradients[index[f]] += (float)d;
    }
    return 0;
}

static void nothing_stops(void *context)
{
    (void)context;
}

static const struct outside counts = {.run = count_run, .stop = nothing_stops};
static const struct outside learns = {.run = learn_run, .stop = nothing_stops};

/* ---- jobs ------------------------------------------------------------------------------------ */

struct kind {
    const char *name, *mode;
    const struct outside *outside;
};

static const struct kind kinds[] = {
    {"count_async", "async", &counts},
    {"count_ssp", "ssp", &counts},
    {"count_bsp", "bsp", &counts},
    {"learn_bsp", "bsp", &learns},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

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

static void job_make(const struct kind *k)
{
    bool learn = k->outside == &learns;
    (void)snprintf(
        yaml, sizeof yaml,
        "job: sim\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 1, tablets: 64, init: {kind: zero}, optimizer: {kind: %s, lr: %s}}\n"
        "model: {kind: external%s}\n"
        "train: {batch: 16, epochs: 2, consistency: %s, staleness: 2, prefetch: 2, lanes: 3, "
        "backend: cpu, task_batches: 4}\n"
        "durability: journal\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("valid.csv"), worker_path("cache"),
        learn ? "adagrad" : "sgd", learn ? "0.3" : "1",
        learn ? ", tensors: [{name: bias, shape: [1]}]" : "", k->mode);
}

static void cluster_make(const struct kind *k, struct rng *r, const char *dir, bool calm)
{
    struct sim_options sim = sim_play_net(rng_below(r, 1u << 30));
    struct cluster_options o = {.yaml = yaml,
                                .dir = dir,
                                .servers = 1,
                                .workers = 1,
                                .durability = DURABLE_JOURNAL,
                                .outside = k->outside};
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

static bool strikes(struct rng *r, uint32_t count)
{
    bool over = false;
    for (uint32_t i = 0; i < count && !over; i++) {
        uint64_t back;
        over = cluster_run(&cluster, sim_now_ns(cluster.sim) + (1 + rng_below(r, 300)) * MS);
        if (over)
            break;
        cluster_strike(&cluster, r, &back);
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

/* Plays a job to its end; its folder goes. */
static void play(const struct kind *k, uint64_t seed, bool calm, struct cluster_result *out)
{
    struct rng r = rng_of(seed, 17, 17);
    char dir[512], command[600];
    (void)snprintf(dir, sizeof dir, "%s/servers", folder);
    memset(&program, 0, sizeof program);
    program.every = calm ? 0 : (uint32_t)rng_below(&r, 3) * 7;
    job_make(k);
    cluster_make(k, &r, dir, calm);
    run_to_end(!calm && strikes(&r, 1 + (uint32_t)rng_below(&r, 6)), k, seed, out);
    cluster_free(&cluster);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
}

static uint64_t number(const char *name, uint64_t fallback)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : fallback;
}

START_TEST(outside_job_ends_with_the_same_rows_under_faults)
{
    const struct kind *k = &kinds[_i];
    struct cluster_result calm, got;
    uint64_t first = number("SHOAL_SIM_FIRST", 1), seeds = number("SHOAL_SIM_SEEDS", 8), undone = 0;
    play(k, 0, true, &calm);
    ck_assert_uint_eq(calm.examples, 2 * ROWS);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        play(k, seed, false, &got);
        undone += program.undone;
        ck_assert_msg(got.examples == calm.examples && got.rows == calm.rows,
                      "%s, seed %" PRIu64 ": %" PRIu64 " examples, %" PRIu64 " rows", k->name, seed,
                      got.examples, got.rows);
        for (uint32_t i = 0; i < calm.tables; i++)
            ck_assert_msg(strcmp(got.digest[i], calm.digest[i]) == 0,
                          "%s, seed %" PRIu64 ": table %u is %s, %s expected", k->name, seed, i,
                          got.digest[i], calm.digest[i]);
    }
    ck_assert_uint_gt(undone, 0);
}
END_TEST

/* The built-in probe and the program that counts make the same rows. */
START_TEST(outside_counts_as_the_probe_does)
{
    struct cluster_result probe, own;
    struct rng r = rng_of(1, 17, 17);
    char dir[512], command[600], *model;
    (void)snprintf(dir, sizeof dir, "%s/servers", folder);
    play(&kinds[1], 0, true, &own);
    job_make(&kinds[1]);
    model = strstr(yaml, "{kind: external}");
    ck_assert_ptr_nonnull(model);
    memcpy(model, "{kind: probe}   ", strlen("{kind: external}"));
    cluster_make(&(struct kind){.name = "probe"}, &r, dir, true);
    run_to_end(false, &kinds[1], 0, &probe);
    cluster_free(&cluster);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert_uint_eq(own.rows, probe.rows);
    ck_assert_uint_gt(program.scored, 0);
}
END_TEST

/* The program scores validation data, too, and learns: the loss falls. */
START_TEST(outside_learns_and_is_evaluated)
{
    struct cluster_result got;
    play(&kinds[3], 0, true, &got);
    ck_assert_uint_eq(got.epochs, 2);
    ck_assert_msg(got.loss[1] < got.loss[0], "%f, then %f", got.loss[0], got.loss[1]);
}
END_TEST

/* A score that is no number costs its batch, and not the job. */
START_TEST(outside_scores_that_are_no_numbers_cost_a_batch)
{
    struct cluster_result got;
    struct rng r = rng_of(1, 17, 17);
    char dir[512], command[600];
    (void)snprintf(dir, sizeof dir, "%s/servers", folder);
    memset(&program, 0, sizeof program);
    program.wrong = true;
    job_make(&kinds[1]);
    cluster_make(&kinds[1], &r, dir, true);
    run_to_end(false, &kinds[1], 0, &got);
    cluster_free(&cluster);
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    ck_assert_int_eq(system(command), 0);
    ck_assert(program.spoiled);
    ck_assert_uint_eq(got.examples, 2 * ROWS);
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
    Suite *s = suite_create("outside");
    TCase *c = tcase_create("outside");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 7200);
    tcase_add_loop_test(c, outside_job_ends_with_the_same_rows_under_faults, 0, (int)KINDS);
    tcase_add_test(c, outside_counts_as_the_probe_does);
    tcase_add_test(c, outside_learns_and_is_evaluated);
    tcase_add_test(c, outside_scores_that_are_no_numbers_cost_a_batch);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
