/* test_pace.c: whole jobs on virtual time with a worker that needs five times as long for its work:
 * how fast they are, which lanes leave it, and that every example counts once. */
#include "proto/base/json.h"
#include "server/coord/job/slot.h"
#include "server/coord/work/pace.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define BOUND (900 * SECOND)
enum { ROWS = 20000, VALUES = 60, WORKERS = 4, LANES = 8, TIMES = 5 };

static struct backend *backend;
static struct cluster cluster;
static char yaml[1024];
static uint32_t job_places = LANES;

static void setup(void)
{
    static char data[16 * ROWS];
    size_t at = (size_t)snprintf(data, sizeof data, "label,a\n");
    worker_folder_make();
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u\n", i % 3 == 0, i * 7 % VALUES);
    worker_write("train.csv", data, at);
    backend = dense_backend();
}

static void teardown(void)
{
    worker_folder_remove();
}

static void job_start(const char *consistency, uint32_t epochs, uint32_t workers)
{
    snprintf(yaml, sizeof yaml,
             "job: pace\n"
             "data: {format: csv, label: label, train: [%s], cache: %s}\n"
             "tables: [{name: emb, dim: 2, tablets: 64, init: {kind: zero}, "
             "optimizer: {kind: sgd, lr: 1}}]\n"
             "model: {kind: probe}\n"
             "train: {batch: 10, epochs: %u, consistency: %s, lanes: %u, backend: cpu, "
             "task_batches: 8}\n"
             "coordinator: {lease: 3s}\n",
             worker_path("train.csv"), worker_path("cache"), epochs, consistency, LANES);
    const struct cluster_options o = {.sim = {.seed = 7,
                                              .delay_min_ns = MS / 10,
                                              .delay_max_ns = MS / 2,
                                              .work_min_ns = 8 * MS,
                                              .work_max_ns = 12 * MS},
                                      .yaml = yaml,
                                      .servers = 2,
                                      .workers = workers,
                                      .places = job_places};
    cluster_start(&cluster, &o, backend);
}

static const struct coord_job *the_job(void)
{
    return &cluster.coord->slot[0];
}

static uint32_t lanes_of(uint32_t worker)
{
    char name[32];
    snprintf(name, sizeof name, "worker-%u", worker);
    const struct coord_job *j = the_job();
    for (uint32_t i = 0; i < j->workers.count; i++)
        if (strcmp(j->workers.worker[i].name, name) == 0)
            return coord_lane_held(j->tasks, j->workers.worker[i].number);
    return 0;
}

/* Runs to the end: each example has counted once. Returns the seconds of training. */
static double finish(uint32_t epochs, char digest[40])
{
    struct cluster_result result;
    ck_assert(cluster_run(&cluster, BOUND));
    cluster_result(&cluster, &result);
    ck_assert_msg(result.state == WIRE_JOB_DONE, "%s", result.text);
    ck_assert_uint_eq(result.examples, ROWS * epochs);
    ck_assert_uint_eq(result.rows, VALUES);
    memcpy(digest, result.digest[0], 40);
    return (double)the_job()->at.train_ns * 1e-9;
}

/* The job with worker 0 as slow as said. */
static double trained(const char *consistency, uint32_t times, char digest[40], uint32_t *moved)
{
    job_start(consistency, 2, WORKERS);
    sim_slow(cluster.worker[0].node, times);
    double seconds = finish(2, digest);
    *moved = the_job()->tally.lanes_moved;
    cluster_free(&cluster);
    return seconds;
}

/* Without moves the job took as many times as long as its slow worker's work: 5. */
START_TEST(pace_a_slow_worker_does_not_hold_ssp)
{
    char alike[40], slow[40];
    uint32_t none, moved;
    double before = trained("ssp, staleness: 2", 1, alike, &none);
    double after = trained("ssp, staleness: 2", TIMES, slow, &moved);
    printf("ssp: %.1f s with four alike, %.1f s with one at 1/%u, %u lanes moved\n", before, after,
           TIMES, moved);
    ck_assert_uint_eq(none, 0);
    ck_assert_uint_ge(moved, 2);
    ck_assert_uint_le(moved, 6);
    ck_assert_double_lt(after, 2 * before);
    ck_assert_str_eq(alike, slow);
}
END_TEST

/* Under bsp lanes are fixed. */
START_TEST(pace_bsp_keeps_its_lanes)
{
    char alike[40], slow[40];
    uint32_t none, moved;
    double before = trained("bsp", 1, alike, &none), after = trained("bsp", TIMES, slow, &moved);
    printf("bsp: %.1f s with four alike, %.1f s with one at 1/%u\n", before, after, TIMES);
    ck_assert_uint_eq(none + moved, 0);
    ck_assert_double_gt(after, 3 * before);
    ck_assert_str_eq(alike, slow);
}
END_TEST

/* Under async each worker takes tasks at its own speed, so none needs to give a lane. */
START_TEST(pace_async_takes_tasks_by_speed)
{
    char alike[40], slow[40];
    uint32_t none, moved;
    double before = trained("async", 1, alike, &none),
           after = trained("async", TIMES, slow, &moved);
    printf("async: %.1f s with four alike, %.1f s with one at 1/%u\n", before, after, TIMES);
    ck_assert_uint_eq(none + moved, 0);
    ck_assert_double_lt(after, 2 * before);
    ck_assert_str_eq(alike, slow);
}
END_TEST

static bool emptied(void *context)
{
    (void)context;
    return the_job()->at.phase == PHASE_TRAIN && the_job()->tally.lanes_moved >= 2 &&
           lanes_of(0) == 0;
}

static bool back(void *context)
{
    (void)context;
    return lanes_of(0) > 0;
}

/* Once it is as fast as the others, it is tried, and keeps what it gets. */
START_TEST(pace_a_worker_that_recovers_is_tried_again)
{
    char digest[40];
    job_start("ssp, staleness: 2", 12, WORKERS);
    sim_slow(cluster.worker[0].node, TIMES);
    ck_assert(sim_run(cluster.sim, BOUND, emptied, NULL));
    uint64_t since = sim_now_ns(cluster.sim);
    sim_slow(cluster.worker[0].node, 1);
    ck_assert(sim_run(cluster.sim, BOUND, back, NULL));
    printf("back after %.1f s\n", (double)(sim_now_ns(cluster.sim) - since) * 1e-9);
    ck_assert_uint_eq(the_job()->at.phase, PHASE_TRAIN);
    uint32_t moved = the_job()->tally.lanes_moved;
    finish(12, digest);
    ck_assert_uint_eq(the_job()->tally.lanes_moved, moved); /* it keeps the lane */
    cluster_free(&cluster);
}
END_TEST

static int64_t reported(const char *key)
{
    struct json *report = NULL;
    struct err e;
    const char *text = the_job()->report;
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(json_parse(text, strlen(text), &report, &e) == 0, "%s", e.text);
    int64_t value = json_as_int(json_get(report, key), 0);
    json_free(report);
    return value;
}

static bool one_lane(void *context)
{
    (void)context;
    uint32_t held = 0;
    for (uint32_t i = 0; i < WORKERS; i++)
        held += lanes_of(i);
    return held > 0;
}

/* The report lost the moves from before, and the worker that was there. */
START_TEST(pace_a_restarted_coordinator_knows_the_moves)
{
    char digest[40];
    job_start("ssp, staleness: 2", 2, WORKERS);
    sim_slow(cluster.worker[0].node, TIMES);
    ck_assert(sim_run(cluster.sim, BOUND, emptied, NULL));
    uint32_t moved = the_job()->tally.lanes_moved;
    sim_slow(cluster.worker[0].node, 1); /* it loses no lane again */
    cluster_worker_kill(&cluster, 3);
    cluster_coord_kill(&cluster);
    cluster_coord_start(&cluster);
    ck_assert_uint_eq(the_job()->tally.lanes_moved, moved);
    ck_assert(sim_run(cluster.sim, BOUND, one_lane, NULL));
    finish(2, digest);
    ck_assert_int_ge(reported("lanes_moved"), moved);
    ck_assert_int_eq(reported("workers"), WORKERS);
    cluster_free(&cluster);
}
END_TEST

static bool slow_works(void *context)
{
    (void)context;
    return lanes_of(0) > 0;
}

/* It had to wait for its rest, while the lanes of the dead lay without a worker. */
START_TEST(pace_a_slow_worker_takes_over_from_the_dead)
{
    char digest[40];
    job_places = 3;
    job_start("ssp, staleness: 2", 12, WORKERS);
    sim_slow(cluster.worker[0].node, 3);
    ck_assert(sim_run(cluster.sim, BOUND, emptied, NULL));
    struct coord_job *j = &cluster.coord->slot[0];
    for (uint32_t i = 0; i < j->workers.count; i++)
        j->workers.worker[i].pace.rest_ns += 1000 * SECOND;
    cluster_worker_kill(&cluster, 2);
    cluster_worker_kill(&cluster, 3);
    uint64_t killed = sim_now_ns(cluster.sim);
    ck_assert(sim_run(cluster.sim, killed + 10 * SECOND, slow_works, NULL)); /* the lease is 3 s */
    printf("lanes again %.1f s after the deaths\n",
           (double)(sim_now_ns(cluster.sim) - killed) * 1e-9);
    finish(12, digest);
    cluster_free(&cluster);
}
END_TEST

static bool newcomer_works(void *context)
{
    (void)context;
    return lanes_of(WORKERS - 1) > 0;
}

static bool all_held(void *context)
{
    (void)context;
    uint32_t held = 0;
    for (uint32_t i = 0; i + 1 < WORKERS; i++)
        held += lanes_of(i);
    return held == LANES;
}

static const char *const free_modes[] = {"ssp, staleness: 2", "async"};

/* It used to wait for the end of the epoch. */
START_TEST(pace_a_worker_that_comes_later_gets_a_lane)
{
    char digest[40];
    job_start(free_modes[_i], 2, WORKERS - 1);
    ck_assert(sim_run(cluster.sim, BOUND, all_held, NULL));
    cluster_worker_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + 5 * SECOND, newcomer_works, NULL));
    ck_assert_uint_eq(the_job()->at.epoch, 1);
    finish(2, digest);
    cluster_free(&cluster);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pace");
    TCase *t = suite_case(s, "pace", 120, setup, teardown);
    tcase_add_test(t, pace_a_slow_worker_does_not_hold_ssp);
    tcase_add_test(t, pace_bsp_keeps_its_lanes);
    tcase_add_test(t, pace_async_takes_tasks_by_speed);
    tcase_add_test(t, pace_a_worker_that_recovers_is_tried_again);
    tcase_add_test(t, pace_a_restarted_coordinator_knows_the_moves);
    tcase_add_test(t, pace_a_slow_worker_takes_over_from_the_dead);
    tcase_add_loop_test(t, pace_a_worker_that_comes_later_gets_a_lane, 0, 2);
    return suite_main(s);
}
