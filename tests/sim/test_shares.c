/* test_shares.c: a greedy job, whose every key is new, beside a small one, on servers with little
 * memory: the rows of the small one stay in memory, and its tables end as when it runs alone. */
#include "embedding/engine.h"
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "server/shard/shard.h"
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
#define MEMORY (4u << 20)
enum { SMALL_ROWS = 400, GREEDY_ROWS = 24000, SERVERS = 2, JOBS = 2 };
enum { SMALL, GREEDY };

static struct cluster cluster;
static char yaml[JOBS][2048];

static void input_write(const char *name, uint32_t rows, uint32_t keys)
{
    char *data = malloc(64 + 32ull * rows);
    size_t at = (size_t)sprintf(data, "label,a,b\n");
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)sprintf(data + at, "%u,%u,%u\n", i % 3 == 0, i * 7 % keys, i * 5 % keys);
    worker_write(name, data, at);
    free(data);
}

static void job_make(uint32_t job, const char *name, uint32_t epochs, uint32_t batch)
{
    static const char form[] =
        "job: %s\n"
        "data: {format: csv, label: label, train: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: 16, tablets: 64, optimizer: {kind: adagrad, lr: 0.1}}\n"
        "model: {kind: fm}\n"
        "train: {batch: %u, epochs: %u, task_batches: 10, consistency: bsp, lanes: 2}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n";
    char input[512], file[32], cache[512];
    (void)snprintf(file, sizeof file, "%s.csv", name);
    (void)snprintf(input, sizeof input, "%s", worker_path(file));
    (void)snprintf(cache, sizeof cache, "%s", worker_path("cache"));
    (void)snprintf(yaml[job], sizeof yaml[job], form, name, input, cache, batch, epochs);
}

static void setup(void)
{
    worker_folder_make();
    input_write("small.csv", SMALL_ROWS, 97);
    input_write("greedy.csv", GREEDY_ROWS, 1000003);
    job_make(SMALL, "small", 60, 20);
    job_make(GREEDY, "greedy", 1, 100);
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

/* dir NULL: without a store. */
static void open(uint64_t seed, const char *dir, uint64_t memory)
{
    struct cluster_options o = {.servers = SERVERS,
                                .jobs = JOBS,
                                .idle = true,
                                .dir = dir,
                                .durability = dir == NULL ? DURABLE_MEMORY : DURABLE_JOURNAL,
                                .memory = memory};
    o.sim = (struct sim_options){.seed = seed,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    if (dir != NULL)
        ck_assert_int_eq(mkdir(dir, 0700), 0);
    cluster_start(&cluster, &o, dense_backend());
}

static bool all_wait(void *context)
{
    const uint32_t *jobs = context;
    for (uint32_t i = 0; i < *jobs; i++)
        if (!coord_phase_running(&cluster.coord->slot[i]))
            return false;
    return true;
}

static bool all_over(void *context)
{
    const uint32_t *jobs = context;
    for (uint32_t i = 0; i < *jobs; i++)
        if (!cluster.coord->slot[i].parsed || coord_phase_running(&cluster.coord->slot[i]))
            return false;
    return true;
}

static const struct coord_job *job_of(const char *name)
{
    COORD_EACH_JOB (cluster.coord, j)
        if (j->parsed && strcmp(j->spec.name, name) == 0)
            return j;
    ck_abort_msg("there is no job %s", name);
}

/* Rows of a job's tables that are in the stores of all servers. */
static uint64_t stored(const char *job)
{
    const struct table_set numbers = job_of(job)->space->numbers;
    uint64_t rows = 0;
    for (uint32_t i = 0; i < SERVERS; i++)
        TABLE_SET_EACH (t, &numbers)
            if (engine_table(cluster.server[i].shard->engine, t) != NULL)
                rows += table_cold_rows(engine_table(cluster.server[i].shard->engine, t));
    return rows;
}

/* Begins the jobs from this one on, with two workers each. */
static void begin(uint32_t first, uint32_t count)
{
    static struct fake_client client[JOBS];
    memset(client, 0, sizeof client);
    for (uint32_t i = 0; i < count; i++)
        fake_client_start(&client[i], cluster.sim, yaml[first + i], 2);
    ck_assert(sim_run(cluster.sim, BOUND, all_wait, &count));
    for (uint32_t i = 0; i < 2 * count; i++)
        (void)cluster_worker_start(&cluster);
}

/* Runs them to their end; the rows of the small one stay. */
static void run(uint32_t first, uint32_t count)
{
    begin(first, count);
    for (uint32_t i = 0; !all_over(&count); i++) {
        ck_assert_uint_lt(i, 6000);
        (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 100 * MS, all_over, &count);
        ck_assert_uint_eq(stored("small"), 0);
    }
}

static void digest_of(const char *job, char out[40])
{
    struct json *r;
    struct err e = {0};
    const struct coord_job *j = job_of(job);
    ck_assert_msg(j->at.phase == PHASE_DONE, "%s", j->at.text);
    ck_assert_msg(json_parse(j->report, strlen(j->report), &r, &e) == 0, "%s", e.text);
    (void)snprintf(out, 40, "%s",
                   json_get_string(json_array_at(json_get(r, "tables"), 0), "digest", ""));
    json_free(r);
}

START_TEST(a_greedy_job_takes_no_row_of_a_small_one)
{
    char alone[40], now[40];
    log_set_level(LOG_LEVEL_ERROR);
    open(7 + (uint64_t)_i, worker_path("alone"), MEMORY / 2); /* a server of its share */
    run(SMALL, 1);
    digest_of("small", alone);
    cluster_free(&cluster);
    open(7 + (uint64_t)_i, worker_path("both"), MEMORY);
    run(0, JOBS);
    digest_of("small", now);
    ck_assert_str_eq(now, alone);
    ck_assert_str_ne(now, "");
    ck_assert_uint_gt(stored("greedy"), GREEDY_ROWS / 4);
    ck_assert_uint_gt(cluster.coord->fleet.shares.count, 1);
}
END_TEST

static bool small_over(void *context)
{
    (void)context;
    return !coord_phase_running(job_of("small"));
}

/* Without a store no row can leave: the greedy job waits at its share, and the small one ends. */
START_TEST(without_a_store_the_greedy_job_alone_waits)
{
    char alone[40], now[40];
    struct engine_share_use use[LIMIT_SPACES];
    uint64_t refused[2] = {0};
    log_set_level(LOG_LEVEL_ERROR + 1);
    open(7, NULL, MEMORY / 2);
    run(SMALL, 1);
    digest_of("small", alone);
    cluster_free(&cluster);
    open(7, NULL, MEMORY);
    begin(0, JOBS);
    ck_assert(sim_run(cluster.sim, BOUND, small_over, NULL));
    digest_of("small", now);
    ck_assert_str_eq(now, alone);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 20 * 1000 * MS, NULL, NULL);
    ck_assert(coord_phase_running(job_of("greedy")));
    for (uint32_t i = 0; i < SERVERS; i++) {
        uint32_t count = engine_shares(cluster.server[i].shard->engine, use);
        for (uint32_t k = 0; k < count; k++)
            refused[strcmp(use[k].share.name, "greedy") == 0] += use[k].refused;
    }
    ck_assert(refused[0] == 0 && refused[1] > 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shares");
    TCase *t = tcase_create("shares");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_greedy_job_takes_no_row_of_a_small_one, 0, 2);
    tcase_add_test(t, without_a_store_the_greedy_job_alone_waits);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
