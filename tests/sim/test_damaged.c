/* test_damaged.c: one value of the coordinator's store about a job is lost or damaged, and a
 * coordinator starts on it. It must start, and have the job or have failed it with a sentence.
 * Values about the cluster, not a job, may be refused with a sentence. (On disk a checksum finds
 * such damage; here it stands for anything that an older coordinator, or a worker's message, could
 * have left.) */
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
#include <unistd.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

static struct backend *backend;
static struct cluster cluster;
static char yaml[SIM_JOB_TEXT];
static const char *folder;

enum damage { GONE, HALF, ZEROS, ONES, DAMAGES };
static const char *const damage_text[] = {"gone", "half", "zeros", "ones"};

/* True for keys that belong to no job: the servers, the owners of tablets, names and keys, the logs
 * that the tables have learnt, the counters, the space of the job, because the rows of another one
 * would get its gradients, and the phase of the job, by which a store of another release is
 * recognized. */
static bool of_cluster(const char *key)
{
    static const char *const of[] = {"cluster", "counters", "keys",     "made/",       "map",
                                     "names",   "shard",    "progress", "next-worker", "synced/",
                                     "fresh",   "drop",     "owner",    "of_space",    "space"};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        if (strncmp(key, of[i], strlen(of[i])) == 0)
            return true;
    return strcmp(key, "taken") == 0; /* taken/0 belongs to the job */
}

struct copying {
    struct coord_store *to;
    const char *key; /* the damaged key */
    enum damage how;
};

static int copy_one(void *context, const char *key, const void *value, size_t bytes)
{
    const struct copying *copying = context;
    struct err e;
    bool damaged = strcmp(key, copying->key) == 0;
    char *copy = malloc(bytes + 1);
    ck_assert_ptr_nonnull(copy);
    memcpy(copy, value, bytes);
    if (damaged && copying->how >= ZEROS)
        memset(copy, copying->how == ZEROS ? 0 : 0xff, bytes);
    if (!damaged || copying->how != GONE)
        ck_assert_int_eq(coord_store_put(copying->to, key, copy,
                                         damaged && copying->how == HALF ? bytes / 2 : bytes, &e),
                         0);
    free(copy);
    return 0;
}

static void starts(const char *kind, const char *key, enum damage how)
{
    struct coord_store *store = coord_store_memory();
    struct copying copying = {store, key, how};
    struct coord_options o = {.shards = cluster.options.servers,
                              .lease_ms = 1000,
                              .resend_ms = 100,
                              .version = "test",
                              .folder = &coord_folder_disk};
    struct coord *c = NULL;
    struct err e = {0};
    if (getenv("SHOAL_SIM_LOG") != NULL)
        (void)fprintf(stderr, "%s: %s %s\n", kind, key, damage_text[how]);
    ck_assert_int_eq(coord_store_visit(cluster.store, copy_one, &copying), 0);
    struct sim_node *node = sim_node_new(cluster.sim, "another", NULL, NULL);
    int rc = coord_new(&o, sim_node_env(node), store, &c, &e);
    if (rc == 0) {
        sim_node_set_handler(node, &coord_handler, c);
        (void)sim_run(cluster.sim, sim_now_ns(cluster.sim) + 60 * MS, NULL, NULL);
        ck_assert_msg(c->slot[0].at.phase != PHASE_FAILED || c->slot[0].at.text[0] != 0,
                      "%s: %s %s: failed without a word", kind, key, damage_text[how]);
    }
    ck_assert_msg(rc == 0 || of_cluster(key), "%s: %s %s: no start: %s", kind, key,
                  damage_text[how], e.text);
    ck_assert_msg(rc == 0 || e.text[0] != 0, "%s: %s %s: no word", kind, key, damage_text[how]);
    sim_kill(node);
    if (rc == 0)
        coord_free(c);
    coord_store_close(store);
}

struct keys {
    char (*key)[COORD_KEY_MAX]; /* owned (count) */
    uint32_t count;
};

static int key_take(void *context, const char *key, const void *value, size_t bytes)
{
    struct keys *k = context;
    (void)value;
    (void)bytes;
    k->key = realloc(k->key, (k->count + 1) * sizeof *k->key);
    ck_assert_ptr_nonnull(k->key);
    memcpy(k->key[k->count], key, strlen(key) + 1);
    k->count++;
    return 0;
}

static void damage_all(const char *kind)
{
    struct keys k = {0};
    ck_assert_int_eq(coord_store_visit(cluster.store, key_take, &k), 0);
    for (uint32_t i = 0; i < k.count; i++)
        for (enum damage how = GONE; how < DAMAGES; how++)
            starts(kind, k.key[i], how);
    ck_assert_uint_gt(k.count, 10);
    free(k.key);
}

/* Damages the store while the job is set up, trains, is scored, and is done. */
START_TEST(damaged_job_keeps_no_coordinator_from_starting)
{
    static const enum coord_phase phases[] = {PHASE_SETUP, PHASE_TRAIN, PHASE_EVAL, PHASE_DONE};
    const struct sim_job *k = &sim_jobs[_i];
    struct cluster_options o = {.yaml = yaml,
                                .servers = 2,
                                .workers = 1,
                                .sim = {.seed = 5,
                                        .delay_min_ns = MS / 20,
                                        .delay_max_ns = MS,
                                        .work_min_ns = MS / 10,
                                        .work_max_ns = 4 * MS,
                                        .wall_s = SIM_JOBS_WALL_S}};
    sim_job_text(k, yaml);
    cluster_start(&cluster, &o, backend);
    for (uint32_t i = 0; i < sizeof phases / sizeof phases[0]; i++) {
        (void)cluster_run_phase(&cluster, phases[i], sim_now_ns(cluster.sim) + 30 * SECOND);
        damage_all(k->name);
    }
    cluster_free(&cluster);
}
END_TEST

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    folder = worker_folder_make();
    ck_assert_int_eq(chdir(folder), 0);
    (void)sim_jobs_input();
    if (backend == NULL)
        backend = dense_backend();
}

int main(void)
{
    Suite *s = suite_create("damaged");
    const char *only = getenv("SHOAL_SIM_KIND");
    int first = only != NULL ? atoi(only) : 0;
    TCase *t = suite_case(s, "damaged", 300, setup, worker_folder_remove);
    tcase_add_loop_test(t, damaged_job_keeps_no_coordinator_from_starting, first,
                        only != NULL ? first + 1 : (int)SIM_JOBS);
    return suite_main(s);
}
