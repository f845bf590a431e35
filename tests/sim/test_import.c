/* test_import.c: rows are assigned to the tables of a fleet while its servers and its coordinator
 * die: each row is there once, as it was given. */
#include "proto/base/key.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/sim_cluster.h"
#include "tests/lib/sim_rows.h"
#include "tests/lib/worker_files.h"
#include "worker/train/assigner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MS UINT64_C(1000000)
#define BOUND (600 * 1000 * MS)
enum { EXAMPLES = 240, DIM = 4, WIDTH = DIM + 1, ROWS = 60000, SERVERS = 3 };

static struct cluster cluster;
static char yaml[2048];

static void job_make(void)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label,a,b\n");
    for (uint32_t i = 0; i < EXAMPLES; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n", i % 3 == 0, i * 7 % 50,
                               i * 5 % 11);
    worker_write("train.csv", data, at);
    (void)snprintf(
        yaml, sizeof yaml,
        "job: one\n"
        "data: {format: csv, label: label, train: [%s], cache: %s}\n"
        "tables: [{name: emb, dim: %u, tablets: 64, optimizer: {kind: adagrad, lr: 0.1}}]\n"
        "model: {kind: deepfm, hidden: [4]}\n"
        "train: {batch: 16, epochs: 1, lanes: 2}\n"
        "durability: journal\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n",
        worker_path("train.csv"), worker_path("cache"), (unsigned)DIM);
}

static void setup(void)
{
    char dir[512];
    worker_folder_make();
    job_make();
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

/* Trains the job to its end. */
static void fleet_open(uint64_t seed, uint32_t replicas)
{
    static char dir[512];
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    struct cluster_options o = {.yaml = yaml,
                                .servers = SERVERS,
                                .workers = 2,
                                .replicas = replicas,
                                .dir = dir,
                                .durability = DURABLE_JOURNAL};
    o.sim = (struct sim_options){.seed = seed,
                                 .drop = 0.01,
                                 .duplicate = 0.01,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    cluster_start(&cluster, &o, dense_backend());
    ck_assert(cluster_run(&cluster, BOUND));
    struct cluster_result r;
    cluster_result(&cluster, &r);
    ck_assert_msg(r.state == WIRE_JOB_DONE, "%s", r.text);
}

/* ---- the program that assigns ---- */

static struct {
    struct sim_node *node;
    struct client *client;
    struct assigner *assigner;
    uint64_t next; /* row of the source */
    bool begun, ended;
    int status;
    char text[ERR_TEXT_MAX];
} program;

static uint64_t key_at(uint64_t row)
{
    return key_make((uint32_t)(row % 2), rng_mix(row + 1));
}

static float number(uint64_t row, uint32_t i)
{
    return (float)(row % 1000) + (float)i / 16;
}

static int fill(void *context, uint64_t *keys, float *rows, uint32_t room, struct err *e)
{
    uint32_t n = 0;
    (void)context, (void)e;
    for (; n < room && n < 4000 && program.next < ROWS; n++, program.next++) {
        keys[n] = key_at(program.next);
        for (uint32_t i = 0; i < WIDTH; i++)
            rows[n * WIDTH + i] = number(program.next, i);
    }
    return (int)n;
}

static void done(void *context, int status, const struct err *e)
{
    (void)context;
    program.ended = true;
    program.status = status;
    if (status != 0)
        (void)snprintf(program.text, sizeof program.text, "%s", e->text);
}

static void on_map(void *context)
{
    (void)context;
    if (program.begun)
        assigner_remap(program.assigner);
    else
        assigner_start(program.assigner);
    program.begun = true;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    client_message(program.client, from, m);
}

static void on_drained(void *core)
{
    (void)core;
}

static void on_peer_gone(void *core, peer_t peer)
{
    (void)core;
    client_peer_gone(program.client, peer);
}

static void program_start(void)
{
    static const struct env_handler handler = {on_message, on_drained, on_peer_gone};
    const struct client_options c = {
        .coordinator = "sim://coordinator", .reads = true, .on_map = on_map};
    struct err e = {0};
    memset(&program, 0, sizeof program);
    program.node = sim_node_new(cluster.sim, "import", &handler, &program);
    ck_assert_msg(client_new(sim_node_env(program.node), &c, &program.client, &e) == 0, "%s",
                  e.text);
    client_set_resend(program.client, 100);
    const struct assigner_options o = {.client = program.client,
                                       .table = 0,
                                       .tablet_first = 0,
                                       .tablet_bits = 6,
                                       .floats = WIDTH,
                                       .at_once = 4,
                                       .fill = fill,
                                       .done = done};
    ck_assert_msg(assigner_new(&o, &program.assigner, &e) == 0, "%s", e.text);
    client_map_refresh(program.client);
}

static void program_stop(void)
{
    assigner_free(program.assigner);
    client_free(program.client);
    sim_kill(program.node);
}

static bool ended(void *context)
{
    (void)context;
    return program.ended;
}

static bool under_way(void *context)
{
    (void)context;
    return program.ended || assigner_counts(program.assigner)->sent > ROWS / 4;
}

/* ---- the tables ---- */

static void rows_check(void)
{
    float weights[WIDTH];
    for (uint64_t row = 0; row < ROWS; row++) {
        ck_assert_msg(cluster_row(&cluster, 0, key_at(row), weights), "row %d is not there",
                      (int)row);
        for (uint32_t i = 0; i < WIDTH; i++)
            ck_assert(weights[i] == number(row, i));
    }
}

/* 0: nothing dies; 1: a server; 2: the coordinator; 3: both, and another server later. */
static void strike(int how)
{
    if (how == 1 || how == 3)
        cluster_server_kill(&cluster, 1);
    if (how == 2 || how == 3)
        cluster_coord_kill(&cluster);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 300 * MS, ended, NULL);
    if (cluster.coord == NULL)
        cluster_coord_start(&cluster);
    if (!cluster_server_alive(&cluster, 1))
        cluster_server_start(&cluster, 1);
    if (how == 3)
        cluster_server_kill(&cluster, 2);
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 300 * MS, ended, NULL);
    if (!cluster_server_alive(&cluster, 2))
        cluster_server_start(&cluster, 2);
}

START_TEST(every_row_is_there_whatever_dies)
{
    fleet_open(5 + (uint64_t)_i, 1);
    program_start();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, under_way, NULL));
    ck_assert(_i == 0 || !program.ended);
    strike(_i);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, ended, NULL));
    ck_assert_msg(program.status == 0, "%s", program.text);
    const struct assigner_counts *c = assigner_counts(program.assigner);
    ck_assert_uint_eq(c->sent, ROWS);
    ck_assert_uint_eq(c->made + c->replaced, ROWS); /* what was answered twice counts once */
    rows_check();
    program_stop();
}
END_TEST

/* A program that is killed half way is started again, and begins from the first row. */
START_TEST(an_import_that_is_killed_is_repeated)
{
    fleet_open(31, 1);
    program_start();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, under_way, NULL));
    program_stop();
    program_start();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, ended, NULL));
    ck_assert_msg(program.status == 0, "%s", program.text);
    ck_assert_uint_gt(assigner_counts(program.assigner)->replaced, ROWS / 4 - 1);
    rows_check();
    program_stop();
}
END_TEST

/* The leader of a shard dies for good: a copy in sync has every row that was answered. */
START_TEST(a_copy_that_takes_over_has_the_rows)
{
    fleet_open(41 + (uint64_t)_i, 2);
    program_start();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, under_way, NULL));
    ck_assert(!program.ended);
    cluster_server_kill(&cluster, (uint32_t)_i);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, ended, NULL));
    ck_assert_msg(program.status == 0, "%s", program.text);
    ck_assert_uint_eq(assigner_counts(program.assigner)->sent, ROWS);
    rows_check();
    program_stop();
}
END_TEST

/* ---- a server that leaves ---- */

enum { LEAVER = 1 };

static bool left(void *context)
{
    const struct coord_fleet *f = &cluster.coord->fleet;
    (void)context;
    return f->moves.kind == MOVES_NONE && !coord_member_used(&f->members, LEAVER);
}

static void drain_begin(void)
{
    struct coord_fleet *f = &cluster.coord->fleet;
    uint16_t goal[1024];
    struct err e = {0};
    for (uint32_t i = 0; i < f->cluster.tablets; i++) {
        goal[i] = f->cluster.shard_of[i];
        if (goal[i] == LEAVER)
            goal[i] = i % 2 == 0 ? 0 : 2;
    }
    ck_assert_msg(coord_moves_begin(f, MOVES_DRAIN, "server-1", goal, &e) == 0, "%s", e.text);
    coord_fleet_end(f);
}

/* The program sleeps while a server is drained and switched off. The number of its shard is then in
 * no map, and a request to that shard would wait for ever. */
START_TEST(rows_for_a_server_that_left_go_to_the_others)
{
    fleet_open(51, 1);
    program_start();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, under_way, NULL));
    ck_assert(!program.ended);
    sim_pause(program.node, sim_now_ns(cluster.sim) + 60000 * MS);
    drain_begin();
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + 50000 * MS, left, NULL));
    cluster_server_kill(&cluster, LEAVER);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, ended, NULL));
    ck_assert_msg(program.status == 0, "%s", program.text);
    ck_assert_uint_eq(assigner_counts(program.assigner)->sent, ROWS);
    rows_check();
    program_stop();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("import");
    TCase *t = tcase_create("import");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_row_is_there_whatever_dies, 0, 4);
    tcase_add_test(t, an_import_that_is_killed_is_repeated);
    tcase_add_loop_test(t, a_copy_that_takes_over_has_the_rows, 0, 2);
    tcase_add_test(t, rows_for_a_server_that_left_go_to_the_others);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
