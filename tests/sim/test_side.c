/* test_side.c: two jobs run side by side on one fleet, and each ends with the same tables as when
 * it runs alone. */
#include "proto/base/json.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define BOUND (600 * 1000 * MS)
enum { ROWS = 480, WORKERS = 4, JOBS = 2 };

static struct cluster cluster;
static char yaml[JOBS][2048];
static char digest[JOBS][CLUSTER_TABLES][40];

/* Makes two jobs with a table of the same name; the second has another model, and more lanes and
 * tablets. */
static void jobs_make(void)
{
    static const char form[] =
        "job: %s\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: %u, tablets: %u, optimizer: {kind: adagrad, lr: 0.1}}\n"
        "model: {kind: deepfm, hidden: [%u]}\n"
        "train: {batch: 8, epochs: %u, task_batches: 10, consistency: bsp, lanes: %u}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n";
    char input[512], cache[512];
    (void)snprintf(input, sizeof input, "%s", worker_path("train.csv"));
    (void)snprintf(cache, sizeof cache, "%s", worker_path("cache"));
    (void)snprintf(yaml[0], sizeof yaml[0], form, "one", input, input, cache, 4u, 64u, 4u, 3u, 2u);
    (void)snprintf(yaml[1], sizeof yaml[1], form, "two", input, input, cache, 6u, 128u, 8u, 2u, 3u);
}

static void input_write(void)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b\n");
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n", i % 3 == 0, i * 7 % 50,
                               i * 5 % 11);
    worker_write("train.csv", data, at);
}

static void setup(void)
{
    worker_folder_make();
    input_write();
    jobs_make();
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

static void open(uint64_t seed, const char *dir)
{
    struct cluster_options o = {.servers = 2, .jobs = JOBS, .idle = true, .dir = dir};
    if (dir != NULL)
        o.durability = DURABLE_JOURNAL;
    o.sim = (struct sim_options){.seed = seed,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    cluster_start(&cluster, &o, dense_backend());
}

static bool job_over(const struct coord_job *j)
{
    return j->parsed && !coord_phase_running(j);
}

static bool all_over(void *context)
{
    const uint32_t *jobs = context;
    for (uint32_t i = 0; i < *jobs; i++)
        if (cluster.coord == NULL || !job_over(&cluster.coord->slot[i]))
            return false;
    return true;
}

static bool all_wait(void *context)
{
    const uint32_t *jobs = context;
    for (uint32_t i = 0; i < *jobs; i++)
        if (!coord_phase_running(&cluster.coord->slot[i]))
            return false;
    return true;
}

static bool never(void *context)
{
    (void)context;
    return false;
}

/* Writes the digests of the tables of a job that is done. */
static void digests_of(const struct coord_job *j, char out[CLUSTER_TABLES][40])
{
    struct json *r;
    struct err e = {0};
    ck_assert_msg(j->at.phase == PHASE_DONE, "%s", j->at.text);
    ck_assert_msg(json_parse(j->report, strlen(j->report), &r, &e) == 0, "%s", e.text);
    const struct json *tables = json_get(r, "tables");
    ck_assert_uint_ge(json_count(tables), 2); /* the embedding and the network */
    memset(out, 0, CLUSTER_TABLES * sizeof *out);
    for (uint32_t t = 0; t < json_count(tables); t++)
        (void)snprintf(out[t], sizeof out[t], "%s",
                       json_as_string(json_get(json_array_at(tables, t), "digest"), ""));
    json_free(r);
}

static struct fake_client client[JOBS];

/* Submits `count` jobs from this one on, with workers for all, and runs until they are over. */
static void run(uint32_t first, uint32_t count, uint64_t until_ns)
{
    memset(client, 0, sizeof client);
    for (uint32_t i = 0; i < count; i++)
        fake_client_start(&client[i], cluster.sim, yaml[first + i], WORKERS / JOBS);
    ck_assert(sim_run(cluster.sim, until_ns, all_wait, &count));
    for (uint32_t i = 0; i < WORKERS / JOBS * count; i++)
        (void)cluster_worker_start(&cluster);
}

/* Gets the digests of each job when it runs alone. */
static void alone(void)
{
    uint32_t one = 1;
    for (uint32_t i = 0; i < JOBS; i++) {
        open(7, NULL);
        run(i, 1, BOUND);
        ck_assert(sim_run(cluster.sim, BOUND, all_over, &one));
        digests_of(&cluster.coord->slot[0], digest[i]);
        cluster_free(&cluster);
    }
}

static void same_as_alone(void)
{
    char now[CLUSTER_TABLES][40];
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct coord_job *j = &cluster.coord->slot[i]; /* in the order of submission */
        digests_of(j, now);
        ck_assert_int_eq(memcmp(now, digest[strcmp(j->spec.name, "two") == 0], sizeof now), 0);
    }
}

START_TEST(two_jobs_end_as_each_does_alone)
{
    uint32_t both = JOBS;
    alone();
    open(7 + (uint64_t)_i, NULL);
    run(0, JOBS, BOUND);
    ck_assert(sim_run(cluster.sim, BOUND, all_over, &both));
    same_as_alone();
    ck_assert_uint_eq(cluster.coord->slot[0].space->numbers & cluster.coord->slot[1].space->numbers,
                      0);
}
END_TEST

static bool both_train(void *context)
{
    (void)context;
    COORD_EACH_JOB (cluster.coord, j)
        if (j->at.phase != PHASE_TRAIN)
            return false;
    return true;
}

/* 0 to 2: a server, the coordinator, a worker dies while both jobs train; 3: all of them. */
START_TEST(two_jobs_end_so_whatever_dies)
{
    uint32_t both = JOBS;
    char dir[512];
    alone();
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    open(11 + (uint64_t)_i, dir);
    run(0, JOBS, BOUND);
    ck_assert(sim_run(cluster.sim, BOUND, both_train, NULL));
    if (_i == 0 || _i == 3)
        cluster_server_kill(&cluster, 1);
    if (_i == 1 || _i == 3)
        cluster_coord_kill(&cluster);
    if (_i == 2 || _i == 3)
        cluster_worker_kill(&cluster, 0);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 100 * MS, never, NULL);
    if (cluster.coord == NULL)
        cluster_coord_start(&cluster);
    if (!cluster_server_alive(&cluster, 1))
        cluster_server_start(&cluster, 1);
    if (cluster.worker[0].node == NULL)
        (void)cluster_worker_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, all_over, &both));
    same_as_alone();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("side");
    TCase *t = tcase_create("side");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, two_jobs_end_as_each_does_alone, 0, 3);
    tcase_add_loop_test(t, two_jobs_end_so_whatever_dies, 0, 4);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
