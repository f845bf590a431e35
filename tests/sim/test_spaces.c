/* test_spaces.c: two models on one fleet, one trained after the other: neither touches the tables
 * of the other, whatever dies in between, begins anew, goes back or is dropped, and a coordinator
 * that lost its store finds both. */
#include "proto/base/json.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/queue.h"
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
enum { ROWS = 240, WORKERS = 2 };

static struct cluster cluster;
static struct fake_client client;
static uint32_t at_once; /* jobs; 0: one */
static bool in_memory;   /* folders of servers keep no rows */
static char digest[CLUSTER_TABLES][40], other[CLUSTER_TABLES][40];

/* Rows of two columns of these names, which differ between the models. */
static void input_write(const char *file, const char *columns, uint32_t salt)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "label,%s\n", columns);
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)snprintf(data + at, sizeof data - at, "%u,%u,%u\n", i % 3 == 0,
                               i * 7 % (50 + salt), i * 5 % (11 + salt));
    worker_write(file, data, at);
}

/* A job of a table `emb`: of the first model (which 0) or of the second, which has other fields,
 * dimensions, tablets and lanes. */
static const char *job_of(uint32_t which, const char *more)
{
    static char yaml[2048];
    static const char form[] =
        "job: %s\n"
        "data: {format: csv, label: label, train: [%s], valid: [%s], cache: %s}\n"
        "tables:\n"
        "  - {name: emb, dim: %u, tablets: %u, optimizer: {kind: adagrad, lr: 0.1}}\n"
        "model: {kind: deepfm, hidden: [%u]}\n"
        "train: {batch: 8, epochs: 2, task_batches: 10, consistency: bsp, lanes: %u%s}\n"
        "coordinator: {lease: 1s}\n"
        "net: {resend: 100ms}\n";
    char input[512], cache[512];
    (void)snprintf(input, sizeof input, "%s", worker_path(which == 0 ? "one.csv" : "two.csv"));
    (void)snprintf(cache, sizeof cache, "%s", worker_path("cache"));
    (void)snprintf(yaml, sizeof yaml, form, which == 0 ? "one" : "two", input, input, cache,
                   which == 0 ? 4u : 6u, which == 0 ? 64u : 128u, which == 0 ? 4u : 8u,
                   which == 0 ? 2u : 3u, more);
    return yaml;
}

static void setup(void)
{
    worker_folder_make();
    input_write("one.csv", "a,b", 0);
    input_write("two.csv", "c,d", 7);
}

static void teardown(void)
{
    cluster_free(&cluster);
    worker_folder_remove();
}

static void open_copied(uint64_t seed, const char *dir, uint32_t replicas)
{
    struct cluster_options o = {.servers = 2,
                                .jobs = at_once,
                                .idle = true,
                                .stay = true,
                                .dir = dir,
                                .replicas = replicas,
                                .shards = replicas};
    if (dir != NULL && !in_memory)
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

static void open(uint64_t seed, const char *dir)
{
    open_copied(seed, dir, 0);
}

static bool over(void *context)
{
    (void)context;
    return client.submit_status != 0 || client.state == WIRE_JOB_DONE ||
           client.state == WIRE_JOB_FAILED;
}

/* Writes the digests of the tables of the job that is done. */
static void digests_of(char out[CLUSTER_TABLES][40])
{
    struct json *r;
    struct err e = {0};
    const struct coord_job *j = &cluster.coord->slot[0];
    ck_assert_msg(json_parse(j->report, strlen(j->report), &r, &e) == 0, "%s", e.text);
    const struct json *tables = json_get(r, "tables");
    ck_assert_uint_ge(json_count(tables), 2); /* the embedding and the network */
    memset(out, 0, CLUSTER_TABLES * sizeof *out);
    for (uint32_t t = 0; t < json_count(tables); t++)
        (void)snprintf(out[t], sizeof out[t], "%s",
                       json_as_string(json_get(json_array_at(tables, t), "digest"), ""));
    json_free(r);
}

static void submit(const char *yaml, const char *from)
{
    if (client.node != NULL)
        sim_kill(client.node);
    memset(&client, 0, sizeof client);
    client.from = from;
    fake_client_start(&client, cluster.sim, yaml, WORKERS);
}

/* Runs a job to its end, and writes the digests of its tables. */
static void run(const char *yaml, const char *from, char out[CLUSTER_TABLES][40])
{
    submit(yaml, from);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    ck_assert_msg(client.state == WIRE_JOB_DONE, "%d: %s", client.submit_status, client.text);
    digests_of(out);
}

static void same(char a[CLUSTER_TABLES][40], char b[CLUSTER_TABLES][40])
{
    for (uint32_t t = 0; t < CLUSTER_TABLES; t++)
        ck_assert_msg(strcmp(a[t], b[t]) == 0, "table %u: %s, not %s", t, a[t], b[t]);
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

/* Digests of the first model after one job, and after a second one that goes on with its tables. */
static void alone(char first[CLUSTER_TABLES][40], char second[CLUSTER_TABLES][40])
{
    open(7, NULL);
    run(job_of(0, ""), NULL, first);
    run(job_of(0, ""), "fleet", second);
    cluster_free(&cluster);
}

/* Looks at the tables without training. */
static void look(uint32_t which, char out[CLUSTER_TABLES][40])
{
    run(job_of(which, ", skip: true"), "fleet", out);
}

START_TEST(a_model_is_not_touched_by_another_ones_job)
{
    char first[CLUSTER_TABLES][40], second[CLUSTER_TABLES][40], now[CLUSTER_TABLES][40];
    alone(first, second);
    open(11 + (uint64_t)_i, NULL);
    run(job_of(0, ""), NULL, digest);
    same(digest, first);
    run(job_of(1, ""), NULL, other);
    look(0, now);
    same(now, first);
    look(1, now);
    same(now, other);
    run(job_of(0, ""), "fleet", now);
    same(now, second);
    look(1, now);
    same(now, other);
    ck_assert_uint_eq(coord_spaces_held(&cluster.coord->fleet), 2);
}
END_TEST

static bool second_trains(void *context)
{
    (void)context;
    const struct coord_job *j = &cluster.coord->slot[0];
    return j->at.phase == PHASE_TRAIN && strcmp(j->spec.name, "two") == 0;
}

/* 0 to 2: a server, the coordinator, a worker dies while the second model is trained; 3: all. */
START_TEST(so_it_is_whatever_dies)
{
    char dir[512], now[CLUSTER_TABLES][40];
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    open(31 + (uint64_t)_i, dir);
    run(job_of(0, ""), NULL, digest);
    submit(job_of(1, ""), NULL);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, second_trains, NULL));
    if (_i == 0 || _i == 3)
        cluster_server_kill(&cluster, 1);
    if (_i == 1 || _i == 3)
        cluster_coord_kill(&cluster);
    if (_i == 2 || _i == 3)
        cluster_worker_kill(&cluster, 0);
    rest(100 * MS);
    if (cluster.coord == NULL)
        cluster_coord_start(&cluster);
    if (!cluster_server_alive(&cluster, 1))
        cluster_server_start(&cluster, 1);
    if (cluster.worker[0].node == NULL)
        (void)cluster_worker_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    ck_assert_msg(client.state == WIRE_JOB_DONE, "%s", client.text);
    look(0, now);
    same(now, digest);
    look(1, other);
    cluster_coord_kill(&cluster);
    cluster_server_kill(&cluster, 0);
    rest(100 * MS);
    cluster_coord_start(&cluster);
    cluster_server_start(&cluster, 0);
    look(0, now);
    same(now, digest);
    look(1, now);
    same(now, other);
}
END_TEST

/* The servers know both spaces, their tables and the names of their fields. */
START_TEST(a_lost_store_is_taken_over_with_both)
{
    char dir[512], now[CLUSTER_TABLES][40];
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    open(61, dir);
    run(job_of(0, ""), NULL, digest);
    run(job_of(1, ""), NULL, other);
    cluster_store_change(&cluster, coord_store_memory());
    rest(5000 * MS);
    ck_assert_uint_eq(coord_spaces_held(&cluster.coord->fleet), 2);
    look(1, now);
    same(now, other);
    look(0, now);
    same(now, digest);
}
END_TEST

/* ---- tables of one model are dropped --------------------------------------------------------- */

/* With rows in memory alone (_i 0), or with a folder for each server. */
static const char *servers_dir(int i)
{
    static char dir[512];
    if (i == 0)
        return NULL;
    (void)snprintf(dir, sizeof dir, "%s", worker_path("servers"));
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    return dir;
}

/* The second model begins anew, in the middle of which all processes die (_i 2): the first one's
 * rows, and their later course, are as if it had been alone. */
START_TEST(a_model_that_begins_anew_leaves_the_other)
{
    char first[CLUSTER_TABLES][40], second[CLUSTER_TABLES][40], now[CLUSTER_TABLES][40];
    alone(first, second);
    open(81 + (uint64_t)_i, servers_dir(_i));
    run(job_of(0, ""), NULL, digest);
    run(job_of(1, ""), NULL, other);
    char text[2048];
    (void)snprintf(text, sizeof text, "%sfresh: [all]\n", job_of(1, ""));
    if (_i < 2) {
        run(text, NULL, now);
    } else {
        submit(text, NULL);
        ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, second_trains, NULL));
        cluster_coord_kill(&cluster);
        cluster_server_kill(&cluster, 0);
        cluster_server_kill(&cluster, 1);
        rest(100 * MS);
        cluster_server_start(&cluster, 0);
        cluster_server_start(&cluster, 1);
        cluster_coord_start(&cluster);
        ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
        ck_assert_msg(client.state == WIRE_JOB_DONE, "%s", client.text);
        look(1, now);
    }
    same(now, other);
    look(0, now);
    same(now, first);
    run(job_of(0, ""), "fleet", now);
    same(now, second);
    look(1, now);
    same(now, other);
}
END_TEST

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

/* One model is dropped, and a third one of another shape takes its places; both then and after all
 * have died the other model is as it was. */
START_TEST(a_model_takes_the_places_of_a_dropped_one)
{
    char now[CLUSTER_TABLES][40], third[CLUSTER_TABLES][40], text[2048];
    open(91 + (uint64_t)_i, servers_dir(_i));
    run(job_of(0, ""), NULL, digest);
    run(job_of(1, ""), NULL, other);
    const struct coord_fleet *f = &cluster.coord->fleet;
    uint64_t places = f->spaces.space[0].numbers.word[0];
    drop("one");
    ck_assert_uint_eq(f->cluster.held.word[0] & places, 0);
    look(1, now);
    same(now, other);
    (void)snprintf(text, sizeof text, "job: third%s", strchr(job_of(1, ""), '\n'));
    run(text, NULL, third);
    same(third, other); /* the same rows and the same seed */
    f = &cluster.coord->fleet;
    ck_assert_uint_ne(coord_space_find(&cluster.coord->fleet, "third")->numbers.word[0] & places,
                      0);
    if (_i == 1) {
        cluster_coord_kill(&cluster);
        cluster_server_kill(&cluster, 0);
        cluster_server_kill(&cluster, 1);
        rest(100 * MS);
        cluster_server_start(&cluster, 0);
        cluster_server_start(&cluster, 1);
        cluster_coord_start(&cluster);
    }
    look(1, now);
    same(now, other);
    drop("two");
    run(job_of(0, ""), NULL, now);
    same(now, digest);
    (void)snprintf(text, sizeof text, "job: third%s", strchr(job_of(1, ", skip: true"), '\n'));
    run(text, "fleet", now);
    same(now, third);
}
END_TEST

static bool has_checkpoint(void *context)
{
    const struct coord_job *j = &cluster.coord->slot[0];
    char path[LIMIT_PATH];
    (void)context;
    return j->at.phase == PHASE_TRAIN && coord_checkpoint_newest(j, 0, path);
}

/* The second model goes back to its checkpoint beside the first one. */
START_TEST(a_model_that_goes_back_leaves_the_other)
{
    char now[CLUSTER_TABLES][40], text[2048];
    open(101 + (uint64_t)_i, servers_dir(_i));
    run(job_of(0, ""), NULL, digest);
    ck_assert_int_eq(mkdir(worker_path("kept"), 0700), 0);
    (void)snprintf(text, sizeof text, "%scheckpoint: {dir: %s, every_batches: 5, keep: 4}\n",
                   job_of(1, ""), worker_path("kept"));
    submit(text, NULL);
    ck_assert_msg(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, has_checkpoint, NULL),
                  "phase %u: %s", cluster.coord->slot[0].at.phase, client.text);
    coord_back_want(&cluster.coord->slot[0], "rows are lost, says a test");
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    ck_assert_msg(client.state == WIRE_JOB_DONE, "%s", client.text);
    ck_assert_uint_eq(cluster.coord->slot[0].went_back, 1);
    look(1, other);
    look(0, now);
    same(now, digest);
    drop("two");
    run(job_of(1, ""), NULL, now); /* as without the return */
    same(now, other);
    look(0, now);
    same(now, digest);
}
END_TEST

/* A follower drops what its leader dropped, and has what the leader has of the other model: it
 * leads when that server is gone. */
START_TEST(a_follower_drops_the_same_tables)
{
    char now[CLUSTER_TABLES][40], third[CLUSTER_TABLES][40], text[2048];
    open_copied(111 + (uint64_t)_i, servers_dir(1), 2);
    run(job_of(0, ""), NULL, digest);
    run(job_of(1, ""), NULL, other);
    if (_i == 0) {
        drop("one");
        (void)snprintf(text, sizeof text, "job: third%s", strchr(job_of(1, ""), '\n'));
    } else {
        (void)snprintf(text, sizeof text, "%sfresh: [all]\n", job_of(0, ""));
    }
    run(text, NULL, third);
    same(third, _i == 0 ? other : digest);
    rest(3000 * MS); /* the follower has copied all anew */
    cluster_server_kill(&cluster, 0);
    rest(15000 * MS);
    look(1, now);
    same(now, other);
    cluster_server_start(&cluster, 0);
    rest(3000 * MS);
    cluster_server_kill(&cluster, 1);
    rest(15000 * MS);
    look(1, now);
    same(now, other);
}
END_TEST

/* ---- rows that vanish ------------------------------------------------------------------------ */

#define PHASE_HALF_SET UINT32_MAX /* SETUP, and the server that is to die is set up */
static const uint32_t moments[] = {PHASE_WAITING, PHASE_INDEX,    PHASE_TABLES,
                                   PHASE_SETUP,   PHASE_HALF_SET, PHASE_LANES,
                                   PHASE_TRAIN,   PHASE_EVAL,     PHASE_DIGEST};
enum { MOMENTS = sizeof moments / sizeof moments[0] };
enum { IN_MEMORY, WITH_CHECKPOINTS, COPIED, JOURNALLED, KINDS };

/* The job that begins with the tables is at this moment, or over. */
static bool is_at(void *context)
{
    uint32_t phase = *(const uint32_t *)context;
    const struct coord_job *j = &cluster.coord->slot[0];
    if (over(NULL))
        return true;
    if (!j->parsed || strcmp(j->asked.path, "fleet") != 0)
        return false;
    if (phase == PHASE_HALF_SET)
        return j->at.phase == PHASE_SETUP && j->setup.shard[1].done;
    return j->at.phase == phase;
}

/* A job begins with the tables that the servers hold, in memory or not, with copies or not. At each
 * moment of it a server dies, alone or together with the coordinator, and comes back: the job ends
 * with the rows that it has where nothing dies, or says what is lost. Then no job begins with the
 * rest. */
START_TEST(rows_that_vanish_are_noticed)
{
    uint32_t phase = moments[_i % MOMENTS], kind = (uint32_t)_i / MOMENTS % KINDS;
    bool both = _i / (MOMENTS * KINDS) == 1;
    char first[CLUSTER_TABLES][40], second[CLUSTER_TABLES][40], now[CLUSTER_TABLES][40];
    char text[2048];
    alone(first, second);
    in_memory = kind != JOURNALLED;
    open_copied(131 + (uint64_t)_i, servers_dir(1), kind == COPIED ? 2 : 0);
    run(job_of(0, ""), NULL, digest);
    same(digest, first);
    (void)snprintf(text, sizeof text, "%s", job_of(0, ""));
    if (kind == WITH_CHECKPOINTS) {
        ck_assert_int_eq(mkdir(worker_path("kept"), 0700), 0);
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "checkpoint: {dir: %s, every_batches: 5, keep: 4}\n", worker_path("kept"));
    }
    submit(text, "fleet");
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, is_at, &phase));
    cluster_server_kill(&cluster, 1);
    if (both)
        cluster_coord_kill(&cluster);
    rest(100 * MS);
    cluster_server_start(&cluster, 1);
    if (both)
        cluster_coord_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    if (client.state == WIRE_JOB_DONE) {
        digests_of(now);
        same(now, second);
        return;
    }
    ck_assert_int_ne(kind, JOURNALLED);
    ck_assert_msg(strstr(client.text, "memory") != NULL, "%s", client.text);
    submit(job_of(0, ""), "fleet");
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, over, NULL));
    ck_assert_msg(client.state != WIRE_JOB_DONE, "a part of the rows is gone");
}
END_TEST

enum { JOBS = 20 };
static struct fake_client submitter[JOBS];
static char text_of[JOBS][2048];

static bool all_over(void *context)
{
    (void)context;
    bool over = cluster.coord != NULL;
    for (uint32_t i = 0; i < JOBS; i++) {
        uint32_t state = submitter[i].state;
        over = over && (state == WIRE_JOB_DONE || state == WIRE_JOB_FAILED);
    }
    return over;
}

static bool some_over(void *context)
{
    return json_count(cluster.coord->beside.jobs.list) >= *(const uint32_t *)context;
}

/* Twenty jobs of two spaces are submitted at once, of which one runs at a time, or two (_i 1). All
 * end, those of one space in the order of their numbers; the coordinator dies while they wait. */
START_TEST(jobs_that_wait_end_in_order)
{
    uint32_t some = 5;
    at_once = _i == 0 ? 0 : 2;
    open(71, NULL);
    for (int i = 0; i < _i * WORKERS; i++)
        (void)cluster_worker_start(&cluster);
    for (uint32_t i = 0; i < JOBS; i++) {
        const char *space = i % 2 == 0 ? "one" : "two", *keys = strchr(job_of(i % 2, ""), '\n');
        (void)snprintf(text_of[i], sizeof text_of[i], "job: %s-%u\nspace: %s%s", space, i, space,
                       keys);
        memset(&submitter[i], 0, sizeof submitter[i]);
        if (i >= 2)
            submitter[i].from = "fleet";
        fake_client_start(&submitter[i], cluster.sim, text_of[i], WORKERS);
        rest(5 * MS);
    }
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + BOUND, some_over, &some));
    ck_assert_uint_gt(cluster.coord->beside.queue.count, 0);
    cluster_coord_kill(&cluster);
    rest(100 * MS);
    cluster_coord_start(&cluster);
    ck_assert(sim_run(cluster.sim, sim_now_ns(cluster.sim) + 4 * BOUND, all_over, NULL));
    const struct json *list = cluster.coord->beside.jobs.list;
    ck_assert_uint_eq(json_count(list), JOBS);
    int64_t before[2] = {0};
    for (uint32_t i = 0; i < JOBS; i++) {
        const struct json *line = json_array_at(list, i);
        int64_t *last = &before[strcmp(json_get_string(line, "space", ""), "two") == 0];
        ck_assert_str_eq(json_get_string(line, "state", ""), "finished");
        ck_assert_int_gt(json_get_int(line, "number", 0), *last);
        *last = json_get_int(line, "number", 0);
    }
    ck_assert_uint_eq(coord_spaces_held(&cluster.coord->fleet), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spaces");
    TCase *t = tcase_create("spaces");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_model_is_not_touched_by_another_ones_job, 0, 2);
    tcase_add_loop_test(t, so_it_is_whatever_dies, 0, 4);
    tcase_add_test(t, a_lost_store_is_taken_over_with_both);
    tcase_add_loop_test(t, a_model_that_begins_anew_leaves_the_other, 0, 3);
    tcase_add_loop_test(t, a_model_takes_the_places_of_a_dropped_one, 0, 2);
    tcase_add_loop_test(t, a_model_that_goes_back_leaves_the_other, 0, 2);
    tcase_add_loop_test(t, a_follower_drops_the_same_tables, 0, 2);
    tcase_add_loop_test(t, rows_that_vanish_are_noticed, 0, 2 * KINDS * MOMENTS);
    tcase_add_loop_test(t, jobs_that_wait_end_in_order, 0, 2);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
