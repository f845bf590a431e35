/* test_alloc.c: the coordinator's n-th allocation fails, for each n, from a job's submission until
 * it trains. The coordinator must not crash, and the job is refused, goes on, or fails with a
 * sentence. A coordinator that starts afterwards must start, and must know everything that the job
 * was told. */
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_jobs.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static struct backend *backend;
static struct cluster cluster;
static char yaml[SIM_JOB_TEXT];

/* ---- the n-th allocation --------------------------------------------------------------------- */

static uint64_t left; /* allocations of the coordinator until one fails; 0: none fails */
static bool inside;   /* the coordinator is handling an event */

static bool fails(void)
{
    return inside && left > 0 && --left == 0;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *at, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *at, size_t bytes);

void *__wrap_malloc(size_t bytes)
{
    return fails() ? NULL : __real_malloc(bytes);
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    return fails() ? NULL : __real_calloc(count, bytes);
}

void *__wrap_realloc(void *at, size_t bytes)
{
    return fails() ? NULL : __real_realloc(at, bytes);
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    inside = true;
    coord_handler.on_message(core, from, m);
    inside = false;
}

static void on_drained(void *core)
{
    inside = true;
    coord_handler.on_drained(core);
    inside = false;
}

static const struct env_handler handler = {on_message, on_drained, NULL};

/* The net's own allocations do not count as the coordinator's. */
static const struct env_ops *net;
static struct env_ops ops;

static int send_outside(struct env *env, peer_t to, struct msg *m)
{
    bool was = inside;
    inside = false;
    int rc = net->send(env, to, m);
    inside = was;
    return rc;
}

static void timer_outside(struct env *env, struct env_timer *t, uint64_t delay_ns)
{
    bool was = inside;
    inside = false;
    net->timer_start(env, t, delay_ns);
    inside = was;
}

static void coord_poor(uint64_t n)
{
    struct env *env = sim_node_env(cluster.coord_node);
    net = env->ops;
    ops = *net;
    ops.send = send_outside;
    ops.timer_start = timer_outside;
    env->ops = &ops;
    sim_node_set_handler(cluster.coord_node, &handler, cluster.coord);
    left = n;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static bool job_over(void)
{
    return cluster.client->submit_status != 0 || cluster.client->state == WIRE_JOB_DONE ||
           cluster.client->state == WIRE_JOB_FAILED;
}

/* Returns true if the n-th allocation was reached. */
static bool play(const struct sim_job *k, uint64_t n)
{
    struct cluster_options o = {.yaml = yaml,
                                .servers = 1,
                                .workers = 1,
                                .sim = {.seed = 5,
                                        .delay_min_ns = MS / 20,
                                        .delay_max_ns = MS,
                                        .work_min_ns = MS / 10,
                                        .work_max_ns = 4 * MS,
                                        .wall_s = SIM_JOBS_WALL_S}};
    cluster_start(&cluster, &o, backend);
    coord_poor(n);
    (void)cluster_run_phase(&cluster, PHASE_TRAIN, 20 * SECOND);
    bool reached = left == 0;
    left = 0;
    ck_assert_msg(!job_over() || cluster.client->text[0] != 0 ||
                      cluster.client->state == WIRE_JOB_DONE,
                  "%s, allocation %u: ended without a word", k->name, (unsigned)n);
    cluster_coord_kill(&cluster);
    cluster_coord_start(&cluster); /* asserts that it starts */
    if (!job_over() && !sim_job_grows(k)) {
        for (uint32_t i = 0; i < 90 && !cluster_run(&cluster, sim_now_ns(cluster.sim) + SECOND);
             i++)
            cluster_mend(&cluster);
        ck_assert_msg(job_over(), "%s, allocation %u: not over", k->name, (unsigned)n);
        ck_assert_msg(strstr(cluster.client->text, "resume the newest checkpoint") == NULL,
                      "%s, allocation %u: %s", k->name, (unsigned)n, cluster.client->text);
    }
    cluster_free(&cluster);
    return reached;
}

START_TEST(coordinator_without_memory_keeps_what_it_has_said)
{
    static const uint32_t kinds[] = {1, 6, 9, 12, 13}; /* files, windows, objects, both, a log */
    const struct sim_job *k = &sim_jobs[kinds[_i]];
    sim_job_text(k, yaml);
    uint64_t n = 1;
    while (play(k, n))
        n++;
    ck_assert_uint_gt(n, 40);
}
END_TEST

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    ck_assert_int_eq(chdir(worker_folder_make()), 0);
    (void)sim_jobs_input();
    if (backend == NULL)
        backend = dense_backend();
}

int main(void)
{
    Suite *s = suite_create("alloc");
    TCase *t = suite_case(s, "alloc", 300, setup, worker_folder_remove);
    tcase_add_loop_test(t, coordinator_without_memory_keeps_what_it_has_said, 0, 5);
    return suite_main(s);
}
