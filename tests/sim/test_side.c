/* test_side.c: two and three jobs run side by side on one fleet, each with fields of its own, and
 * each ends with the same tables as when it runs alone. */
#include "proto/base/json.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/coord/keep/checkpoint.h"
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
enum { ROWS = 480, EACH = 2, JOBS = 3 }; /* EACH: workers of a job */

static struct cluster cluster;
static char yaml[JOBS][2048];
static char digest[JOBS][CLUSTER_TABLES][40];

/* Makes jobs with a table of the same name, over fields of other names; each has another model, and
 * other lanes and tablets. */
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
    static const char *const name[JOBS] = {"one", "two", "three"};
    static const uint32_t of[JOBS][5] = {/* dim, tablets, hidden, epochs, lanes */
                                         {4, 64, 4, 3, 2},
                                         {6, 128, 8, 2, 3},
                                         {4, 32, 6, 2, 4}};
    for (uint32_t i = 0; i < JOBS; i++) {
        char input[512], cache[512], file[32];
        (void)snprintf(file, sizeof file, "%s.csv", name[i]);
        (void)snprintf(input, sizeof input, "%s", worker_path(file));
        (void)snprintf(cache, sizeof cache, "%s", worker_path("cache"));
        (void)snprintf(yaml[i], sizeof yaml[i], form, name[i], input, input, cache, of[i][0],
                       of[i][1], of[i][2], of[i][3], of[i][4]);
    }
}

static void input_write(const char *file, const char *columns, uint32_t salt)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label,%s\n", columns);
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n", (i + salt) % 3 == 0,
                               i * 7 % (50 + salt), i * 5 % 11);
    worker_write(file, data, at);
}

static void setup(void)
{
    worker_folder_make();
    input_write("one.csv", "a,b", 0);
    input_write("two.csv", "b,c", 3);
    input_write("three.csv", "x,y", 5);
    jobs_make();
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

static void open(uint64_t seed, const char *dir)
{
    struct cluster_options o = {.servers = 2, .jobs = JOBS, .idle = true, .stay = true, .dir = dir};
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
        fake_client_start(&client[i], cluster.sim, yaml[first + i], EACH);
    ck_assert(sim_run(cluster.sim, until_ns, all_wait, &count));
    for (uint32_t i = 0; i < EACH * count; i++)
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

static uint32_t which(const struct coord_job *j)
{
    uint32_t i = 0;
    while (i < JOBS && strncmp(yaml[i] + 5, j->spec.name, strlen(j->spec.name)) != 0)
        i++;
    ck_assert_uint_lt(i, JOBS);
    return i;
}

static void same_as_alone(uint32_t jobs)
{
    char now[CLUSTER_TABLES][40];
    uint64_t numbers = 0;
    for (uint32_t i = 0; i < jobs; i++) {
        const struct coord_job *j = &cluster.coord->slot[i];
        digests_of(j, now);
        ck_assert_msg(memcmp(now, digest[which(j)], sizeof now) == 0, "job %s", j->spec.name);
        ck_assert_uint_eq(numbers & j->space->numbers.word[0], 0);
        numbers |= j->space->numbers.word[0];
    }
}

/* Two jobs (_i 0 to 2), and three. */
START_TEST(jobs_end_as_each_does_alone)
{
    uint32_t jobs = _i < 3 ? 2 : 3;
    alone();
    open(7 + (uint64_t)_i, NULL);
    run(0, jobs, BOUND);
    ck_assert(sim_run(cluster.sim, BOUND, all_over, &jobs));
    same_as_alone(jobs);
}
END_TEST

static bool all_train(void *context)
{
    const uint32_t *jobs = context;
    for (uint32_t i = 0; i < *jobs; i++)
        if (cluster.coord->slot[i].at.phase != PHASE_TRAIN)
            return false;
    return true;
}

/* 0 to 2: a server, the coordinator, a worker dies while all jobs train; 3: all of them; 4 to 7:
 * the same with three jobs. */
START_TEST(jobs_end_so_whatever_dies)
{
    uint32_t jobs = _i < 4 ? 2 : 3, what = (uint32_t)_i % 4;
    char dir[512];
    alone();
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    open(11 + (uint64_t)_i, dir);
    run(0, jobs, BOUND);
    ck_assert(sim_run(cluster.sim, BOUND, all_train, &jobs));
    if (what == 0 || what == 3)
        cluster_server_kill(&cluster, 1);
    if (what == 1 || what == 3)
        cluster_coord_kill(&cluster);
    if (what == 2 || what == 3)
        cluster_worker_kill(&cluster, 0);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 100 * MS, never, NULL);
    if (cluster.coord == NULL)
        cluster_coord_start(&cluster);
    if (!cluster_server_alive(&cluster, 1))
        cluster_server_start(&cluster, 1);
    if (cluster.worker[0].node == NULL)
        (void)cluster_worker_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, all_over, &jobs));
    same_as_alone(jobs);
}
END_TEST

static bool has_all(void *context)
{
    const struct coord_job *j = &cluster.coord->slot[0];
    (void)context;
    return j->at.phase == PHASE_TRAIN && j->workers.count == 2 * EACH;
}

/* The first job has all workers, more than it was submitted for. The second one gets those that are
 * spare while the first goes on, and both end as alone. */
START_TEST(a_later_job_gets_spare_workers)
{
    uint32_t jobs = 2;
    alone();
    open(31 + (uint64_t)_i, NULL);
    memset(client, 0, sizeof client);
    fake_client_start(&client[0], cluster.sim, yaml[0], EACH);
    for (uint32_t i = 0; i < 2 * EACH; i++)
        (void)cluster_worker_start(&cluster);
    ck_assert(sim_run(cluster.sim, BOUND, has_all, NULL));
    fake_client_start(&client[1], cluster.sim, yaml[1], EACH);
    ck_assert(sim_run(cluster.sim, BOUND, all_train, &jobs));
    ck_assert(sim_run(cluster.sim, BOUND, all_over, &jobs));
    same_as_alone(jobs);
}
END_TEST

static struct coord_job *job_of(const char *name)
{
    for (uint32_t i = 0; cluster.coord != NULL && i < JOBS; i++)
        if (strcmp(cluster.coord->slot[i].spec.name, name) == 0)
            return &cluster.coord->slot[i];
    return NULL;
}

/* Both train, and the second one has a checkpoint. */
static bool has_kept(void *context)
{
    uint32_t jobs = 2;
    char path[LIMIT_PATH];
    (void)context;
    return all_train(&jobs) && job_of("two") != NULL &&
           coord_checkpoint_newest(job_of("two"), 0, path);
}

/* A server dies with rows in its memory, alone (_i even) or together with the coordinator. The job
 * that has a checkpoint goes back to it and ends as alone; the other one says what is lost and
 * ends, and its space is marked. */
START_TEST(a_job_goes_back_beside_one_that_cannot)
{
    uint32_t jobs = 2;
    char now[CLUSTER_TABLES][40];
    alone();
    ck_assert_int_eq(mkdir(worker_path("kept"), 0700), 0);
    size_t at = strlen(yaml[1]);
    (void)snprintf(yaml[1] + at, sizeof yaml[1] - at,
                   "checkpoint: {dir: %s, every_batches: 5, keep: 4}\n", worker_path("kept"));
    open(51 + (uint64_t)_i, NULL);
    run(0, jobs, BOUND);
    ck_assert(sim_run(cluster.sim, BOUND, has_kept, NULL));
    cluster_server_kill(&cluster, (uint32_t)_i / 2 % 2);
    if (_i % 2 == 1)
        cluster_coord_kill(&cluster);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 100 * MS, never, NULL);
    cluster_server_start(&cluster, (uint32_t)_i / 2 % 2);
    if (_i % 2 == 1)
        cluster_coord_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, all_over, &jobs));
    const struct coord_job *one = job_of("one"), *two = job_of("two");
    ck_assert_int_eq(one->at.phase, PHASE_FAILED);
    ck_assert_msg(strstr(one->at.text, "memory") != NULL, "%s", one->at.text);
    ck_assert_uint_eq(one->space->state, SPACE_LOST);
    digests_of(two, now);
    ck_assert(memcmp(now, digest[1], sizeof now) == 0);
    ck_assert_uint_eq(two->space->state, SPACE_IS);
    ck_assert_uint_ge(two->went_back, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("side");
    TCase *t = tcase_create("side");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, jobs_end_as_each_does_alone, 0, 5);
    tcase_add_loop_test(t, jobs_end_so_whatever_dies, 0, 8);
    tcase_add_loop_test(t, a_later_job_gets_spare_workers, 0, 2);
    tcase_add_loop_test(t, a_job_goes_back_beside_one_that_cannot, 0, 8);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
