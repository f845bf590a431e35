/* test_many.c: three models of 31 tables on one fleet, so that tables have numbers from 64 on: each
 * ends as when it is alone, whatever dies in between, is dropped, or comes from a lost store. */
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
#define BOUND (900 * 1000 * MS)
enum { ROWS = 48, WORKERS = 2, COLUMNS = 30, MODELS = 3, TABLES = COLUMNS + 1 };
typedef char digests[TABLES][40];

static struct cluster cluster;
static struct fake_client client;
static digests digest[MODELS];

static void input_write(void)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label");
    for (uint32_t c = 0; c < COLUMNS; c++)
        at += (size_t)snprintf(data + at, sizeof data - at, ",c%u", c);
    for (uint32_t i = 0; i < ROWS; i++) {
        at += (size_t)snprintf(data + at, sizeof data - at, "\n%u", i % 3 == 0);
        for (uint32_t c = 0; c < COLUMNS; c++)
            at += (size_t)snprintf(data + at, sizeof data - at, ",%u", i * (7 + c) % (5 + c));
    }
    data[at++] = '\n';
    worker_write("rows.csv", data, at);
}

/* A job of a table for each column; the dims tell the models apart. */
static const char *job_of(uint32_t which, const char *more)
{
    static char yaml[1 << 14];
    static const char *const names[MODELS] = {"one", "two", "three"};
    char input[512], cache[512];
    (void)snprintf(input, sizeof input, "%s", worker_path("rows.csv"));
    (void)snprintf(cache, sizeof cache, "%s", worker_path("cache"));
    size_t at = (size_t)snprintf(
        yaml, sizeof yaml,
        "job: %s\n"
        "data: {format: csv, label: label, train: [%s], cache: %s}\n"
        "model: {kind: deepfm, hidden: [4]}\n"
        "train: {batch: 8, epochs: 1, task_batches: 2, consistency: bsp, lanes: 2%s}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n"
        "tables:\n",
        names[which], input, cache, more);
    for (uint32_t c = 0; c < COLUMNS; c++)
        at += (size_t)snprintf(yaml + at, sizeof yaml - at,
                               "  - {name: t%u, fields: [c%u], dim: %u, tablets: 32, "
                               "optimizer: {kind: adagrad, lr: 0.1}}\n",
                               c, c, 2 + which);
    return yaml;
}

static void setup(void)
{
    worker_folder_make();
    input_write();
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

static void open(uint64_t seed, const char *dir, uint32_t replicas)
{
    struct cluster_options o = {.servers = 2,
                                .idle = true,
                                .stay = true,
                                .dir = dir,
                                .replicas = replicas,
                                .shards = replicas};
    if (dir != NULL)
        o.durability = DURABLE_JOURNAL;
    o.sim = (struct sim_options){.seed = seed,
                                 .delay_min_ns = MS / 20,
                                 .delay_max_ns = MS,
                                 .work_min_ns = MS / 10,
                                 .work_max_ns = 4 * MS};
    memset(&client, 0, sizeof client);
    cluster_start(&cluster, &o, dense_backend());
    for (uint32_t i = 0; i < WORKERS; i++)
        (void)cluster_worker_start(&cluster);
}

static const char *servers_dir(void)
{
    static char dir[512];
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    return dir;
}

static bool over(void *context)
{
    (void)context;
    return client.submit_status != 0 || client.state == WIRE_JOB_DONE ||
           client.state == WIRE_JOB_FAILED;
}

static void submit(const char *yaml, const char *from)
{
    if (client.node != NULL)
        sim_kill(client.node);
    memset(&client, 0, sizeof client);
    client.from = from;
    fake_client_start(&client, cluster.sim, yaml, WORKERS);
}

/* Waits for the job's end, and writes the digests of its tables. */
static void end(digests out)
{
    struct json *r;
    struct err e = {0};
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    ck_assert_msg(client.state == WIRE_JOB_DONE, "%d: %s", client.submit_status, client.text);
    const struct coord_job *j = &cluster.coord->slot[0];
    ck_assert_msg(json_parse(j->report, strlen(j->report), &r, &e) == 0, "%s", e.text);
    const struct json *tables = json_get(r, "tables");
    ck_assert_uint_eq(json_count(tables), TABLES);
    for (uint32_t t = 0; t < TABLES; t++)
        (void)snprintf(out[t], sizeof out[t], "%s",
                       json_as_string(json_get(json_array_at(tables, t), "digest"), ""));
    json_free(r);
}

static void run(uint32_t which, digests out)
{
    submit(job_of(which, ""), NULL);
    end(out);
}

/* Reads a model's tables without training. */
static void look(uint32_t which)
{
    digests now;
    submit(job_of(which, ", skip: true"), "fleet");
    end(now);
    for (uint32_t t = 0; t < TABLES; t++)
        ck_assert_msg(strcmp(now[t], digest[which][t]) == 0, "model %u, table %u: %s, not %s",
                      which, t, now[t], digest[which][t]);
}

static bool never(void *context)
{
    (void)context;
    return false;
}

static void rest(uint64_t ns)
{
    (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + ns, never, NULL);
}

/* The digests of each model alone on a fleet. */
static void alone(void)
{
    for (uint32_t i = 0; i < MODELS; i++) {
        open(5 + i, NULL, 0);
        run(i, digest[i]);
        cluster_free(&cluster);
    }
}

static void trained(uint32_t which)
{
    digests now;
    run(which, now);
    for (uint32_t t = 0; t < TABLES; t++)
        ck_assert_msg(strcmp(now[t], digest[which][t]) == 0, "model %u, table %u: %s, not %s",
                      which, t, now[t], digest[which][t]);
}

static void held(uint32_t tables)
{
    const struct table_set *h = &cluster.coord->fleet.cluster.held;
    ck_assert_uint_eq(table_set_count(*h), tables);
    ck_assert(table_set_is_first(*h));
}

static void all_die(void)
{
    cluster_coord_kill(&cluster);
    cluster_server_kill(&cluster, 0);
    cluster_server_kill(&cluster, 1);
    rest(100 * MS);
    cluster_coord_start(&cluster);
    cluster_server_start(&cluster, 0);
    cluster_server_start(&cluster, 1);
}

START_TEST(three_models_of_many_tables_lie_beside_one_another)
{
    alone();
    open(41, NULL, 0);
    for (uint32_t i = 0; i < MODELS; i++)
        trained(i);
    held(MODELS * TABLES);
    for (uint32_t i = 0; i < MODELS; i++)
        look(i);
}
END_TEST

static bool third_trains(void *context)
{
    (void)context;
    const struct coord_job *j = &cluster.coord->slot[0];
    return j->at.phase == PHASE_TRAIN && strcmp(j->spec.name, "three") == 0;
}

/* A server, the coordinator and a worker die while the third model, whose tables have the last
 * numbers, is trained; with replicas (_i 1) the leader of the shard dies. */
START_TEST(so_they_do_whatever_dies)
{
    digests now;
    alone();
    open(51 + (uint64_t)_i, servers_dir(), _i == 1 ? 2 : 0);
    trained(0);
    trained(1);
    submit(job_of(2, ""), NULL);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, third_trains, NULL));
    cluster_server_kill(&cluster, _i == 1 ? 0 : 1);
    cluster_coord_kill(&cluster);
    cluster_worker_kill(&cluster, 0);
    rest(100 * MS);
    cluster_coord_start(&cluster);
    cluster_server_start(&cluster, _i == 1 ? 0 : 1);
    (void)cluster_worker_start(&cluster);
    end(now);
    for (uint32_t t = 0; t < TABLES; t++)
        ck_assert_str_eq(now[t], digest[2][t]);
    all_die();
    for (uint32_t i = 0; i < MODELS; i++)
        look(i);
}
END_TEST

/* The servers' list of spaces has the numbers of all tables. */
START_TEST(a_lost_store_finds_the_last_tables)
{
    alone();
    open(61, servers_dir(), 0);
    for (uint32_t i = 0; i < MODELS; i++)
        trained(i);
    cluster_store_change(&cluster, coord_store_memory());
    rest(5000 * MS);
    held(MODELS * TABLES);
    for (uint32_t i = MODELS; i-- > 0;)
        look(i);
}
END_TEST

/* ---- a drop ---------------------------------------------------------------------------------- */

static void told_drop(void *core, peer_t from, struct msg *m)
{
    struct wire w;
    struct err e = {0};
    (void)from;
    ck_assert_int_eq(wire_decode(m, &w, &e), 0);
    msg_free(m);
    if (!w.reply || w.type != WIRE_TYPE_DROP)
        return;
    ck_assert_msg(w.status == 0, "%s", w.error);
    *(bool *)core = true;
}

static void drained(void *core)
{
    (void)core;
}

static bool is_told(void *context)
{
    return *(const bool *)context;
}

/* Drops a space as an operator does. */
static void drop(const char *space)
{
    static const struct env_handler handler = {.on_message = told_drop, .on_drained = drained};
    static bool told;
    struct wire w = {.type = WIRE_TYPE_DROP, .id = 1};
    peer_t to;
    told = false;
    (void)snprintf(w.u.DROP.space, sizeof w.u.DROP.space, "%s", space);
    struct sim_node *node = sim_node_new(cluster.sim, "operator", &handler, &told);
    ck_assert_int_eq(env_connect(sim_node_env(node), "sim://coordinator", ENV_COORDINATOR, &to), 0);
    ck_assert_int_eq(env_send(sim_node_env(node), to, wire_encode(&w)), 0);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, is_told, &told));
    sim_kill(node);
}

/* The model in the middle, whose numbers lie in two words, goes and comes again; the others stay,
 * also after all processes have died. */
START_TEST(a_dropped_model_leaves_the_others)
{
    alone();
    open(71 + (uint64_t)_i, _i == 0 ? NULL : servers_dir(), 0);
    for (uint32_t i = 0; i < MODELS; i++)
        trained(i);
    drop("two");
    ck_assert_uint_eq(table_set_count(cluster.coord->fleet.cluster.held), 2 * TABLES);
    if (_i == 1)
        all_die();
    look(0);
    look(2);
    trained(1);
    held(MODELS * TABLES);
    if (_i == 1)
        all_die();
    for (uint32_t i = 0; i < MODELS; i++)
        look(i);
    drop("three");
    look(0);
    look(1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("many");
    TCase *t = tcase_create("many");
    tcase_set_timeout(t, 200);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, three_models_of_many_tables_lie_beside_one_another);
    tcase_add_loop_test(t, so_they_do_whatever_dies, 0, 2);
    tcase_add_test(t, a_lost_store_finds_the_last_tables);
    tcase_add_loop_test(t, a_dropped_model_leaves_the_others, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
