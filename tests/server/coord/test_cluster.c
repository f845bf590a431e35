/* test_cluster.c: which shards form a cluster, and which shard owns which tablets: founding, a lost
 * store, a store or a folder put back from a copy, folders of other clusters. The real coordinator
 * with fake shards. */
#include "proto/base/json.h"
#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/names_job.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/aside.h"
#include "server/coord/job/begin.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard shard[FAKE_SHARDS];
    struct fake_worker worker;
    struct fake_client client;
    uint32_t shards;
    char yaml[512];
} r;

static void coord_start(void)
{
    struct coord_options o = {
        .shards = r.shards, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    struct err e = {0};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void coord_kill(void)
{
    sim_kill(r.node);
    coord_free(r.coord);
}

static void shard_start(uint32_t i, uint64_t incarnation)
{
    char name[24];
    (void)snprintf(name, sizeof name, "server-%u", i);
    fake_shard_start(&r.shard[i], r.sim, name, 0, incarnation);
}

/* The shard has an empty folder from now on. */
static void shard_wipe(uint32_t i)
{
    struct fake_shard *s = &r.shard[i];
    free(s->shard_of);
    memset(s, 0, sizeof *s);
}

static void go(uint64_t ms)
{
    (void)sim_run(r.sim, sim_now_ns(r.sim) + ms * 1000000, NULL, NULL);
}

static void rig_start(uint32_t shards)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    log_set_level(LOG_LEVEL_ERROR);
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    r.shards = shards;
    coord_start();
}

static void fleet_start(uint32_t shards)
{
    rig_start(shards);
    for (uint32_t i = 0; i < shards; i++)
        shard_start(i, 1);
    go(500);
    ck_assert(coord_cluster_ready(&r.coord->fleet.cluster));
}

static void rig_stop(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < FAKE_SHARDS; i++)
        free(r.shard[i].shard_of);
    memset(&r, 0, sizeof r);
}

/* ---- jobs ---- */

static bool job_over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

/* Starts a new worker. */
static void worker_start(uint64_t step_ns)
{
    static struct fake_shard *shards[FAKE_SHARDS];
    struct fake_worker *w = &r.worker;
    if (w->node != NULL)
        sim_kill(w->node);
    memset(w, 0, sizeof *w);
    w->rows[0] = 1005;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = step_ns;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t i = 0; i < r.shards; i++)
        shards[i] = &r.shard[i];
    fake_worker_start(w, r.sim, "worker-0", shards, r.shards);
}

static void job_start(uint64_t step_ns)
{
    if (r.client.node != NULL)
        sim_kill(r.client.node);
    memset(&r.client, 0, sizeof r.client);
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: t\ndata: {format: libsvm, train: [a]}\ntables: [{name: emb, dim: 4}]\n"
                   "model: {kind: probe}\n"
                   "train: {batch: 10, task_batches: 4, epochs: 1, consistency: ssp, lanes: 2}\n");
    worker_start(step_ns);
    fake_client_start(&r.client, r.sim, r.yaml, 1);
}

static void job_run(void)
{
    job_start(5000000);
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL),
                  "job hangs in phase %u", r.coord->slot[0].at.phase);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
}

/* ---- stores ---- */

static int copy_one(void *context, const char *key, const void *value, size_t bytes)
{
    struct err e;
    return coord_store_put(context, key, value, bytes, &e);
}

static struct coord_store *store_copy(void)
{
    struct coord_store *copy = coord_store_memory();
    ck_assert_int_eq(coord_store_visit(r.store, copy_one, copy), 0);
    return copy;
}

/* Restarts the coordinator on another store. */
static void store_change(struct coord_store *store)
{
    coord_kill();
    coord_store_close(r.store);
    r.store = store;
    coord_start();
}

/* ---- founding ---- */

START_TEST(coord_cluster_is_founded_when_all_have_come)
{
    rig_start(3);
    shard_start(0, 1);
    shard_start(1, 1);
    go(2000);
    ck_assert(!coord_cluster_known(&r.coord->fleet.cluster));
    ck_assert_uint_eq(r.shard[0].number, UINT32_MAX);
    shard_start(2, 1);
    go(500);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
    uint32_t numbers = 0;
    for (uint32_t i = 0; i < 3; i++) {
        numbers |= 1u << r.shard[i].number;
        ck_assert_uint_eq(r.shard[i].cluster[0], r.coord->fleet.cluster.id[0]);
    }
    ck_assert_uint_eq(numbers, 7);
    shard_start(3, 1); /* one too many */
    go(500);
    ck_assert_ptr_nonnull(
        strstr(r.shard[3].refused,
               "shards belong to other servers. To give it one more: shoal add server-3"));
    rig_stop();
}
END_TEST

/* A shard came, and its machine was taken away: it does not count for the founding. */
START_TEST(coord_cluster_waits_for_nobody_who_left)
{
    rig_start(2);
    shard_start(0, 1);
    go(500);
    sim_kill(r.shard[0].node);
    go(3000);
    shard_start(1, 1);
    shard_start(2, 1);
    go(500);
    ck_assert(coord_cluster_known(&r.coord->fleet.cluster));
    ck_assert_uint_lt(r.shard[2].number, 2);
    rig_stop();
}
END_TEST

/* ---- a store that fails at one key ---- */

static const char *failing;

static int failing_begin(struct coord_keep *k, const struct coord_transaction *t, struct err *e)
{
    (void)k;
    for (size_t i = 0; i < t->count; i++)
        if (t->change[i].value != NULL && strcmp(t->change[i].key, failing) == 0)
            return err_set(e, SHOAL_E_IO, "a test");
    return 0;
}

static void failing_close(struct coord_keep *k)
{
    (void)k;
}

START_TEST(coord_nobody_is_told_what_is_not_stored)
{
    static struct coord_keep keep = {.begin = failing_begin, .close = failing_close};
    struct coord_store *store = coord_store_memory();
    static const char *const keys[] = {"cluster", "map", "none"};
    rig_start(2);
    failing = keys[_i];
    coord_store_keep(store, &keep);
    store_change(store);
    shard_start(0, 1);
    shard_start(1, 1);
    job_start(5000000);
    go(10000);
    ck_assert_int_eq(coord_fatal(r.coord), _i < 2 ? SHOAL_E_IO : 0);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(r.shard[i].number != UINT32_MAX, _i > 0);
        ck_assert_uint_eq(r.shard[i].map_epoch != 0, _i > 1);
    }
    rig_stop();
}
END_TEST

/* ---- a store that another coordinator may own ---- */

static bool owned;

static int taken_begin(struct coord_keep *k, const struct coord_transaction *t, struct err *e)
{
    (void)k;
    (void)t;
    (void)e;
    return 0;
}

static bool taken_owned(struct coord_keep *k)
{
    (void)k;
    return owned;
}

/* No answer leaves, and the coordinator stops. */
START_TEST(coord_that_may_lead_no_longer_answers_nothing)
{
    static struct coord_keep keep = {
        .begin = taken_begin, .close = failing_close, .owned = taken_owned};
    struct coord_store *store = coord_store_memory();
    owned = true;
    rig_start(1);
    coord_store_keep(store, &keep);
    store_change(store);
    shard_start(0, 1);
    go(1000);
    ck_assert_uint_eq(r.shard[0].number, 0);
    sim_kill(r.shard[0].node);
    owned = false;
    r.shard[0].number = UINT32_MAX;
    shard_start(0, 1);
    go(1000);
    ck_assert_int_eq(coord_fatal(r.coord), SHOAL_E_FENCED);
    ck_assert_uint_eq(r.shard[0].number, UINT32_MAX);
    rig_stop();
}
END_TEST

START_TEST(coord_restart_keeps_the_cluster)
{
    fleet_start(2);
    job_run();
    uint64_t id = r.coord->fleet.cluster.id[0], epoch = r.coord->fleet.cluster.map_epoch;
    coord_kill();
    coord_start();
    go(500);
    ck_assert_uint_eq(r.coord->fleet.cluster.id[0], id);
    ck_assert_uint_eq(r.coord->fleet.cluster.map_epoch, epoch);
    job_run();
    ck_assert_uint_eq(r.coord->fleet.cluster.map_epoch, epoch); /* the same tables: the same map */
    rig_stop();
}
END_TEST

/* ---- the coordinator's store is lost ---- */

START_TEST(coord_lost_store_is_taken_over_from_all_shards)
{
    fleet_start(2);
    job_run();
    uint64_t id = r.coord->fleet.cluster.id[0], run = r.coord->slot[0].at.run;
    uint32_t tablets = r.coord->fleet.cluster.tablets, number = r.shard[0].number;
    uint16_t *owners = malloc(tablets * sizeof *owners);
    r.shard[0].shard_of[3] = r.shard[1].shard_of[3] = 1; /* no formula yields this owner */
    memcpy(owners, r.coord->fleet.cluster.shard_of, tablets * sizeof *owners);
    owners[3] = 1;
    sim_kill(r.shard[1].node);
    store_change(coord_store_memory());
    go(3000);
    ck_assert(!coord_cluster_known(&r.coord->fleet.cluster)); /* one of them is not enough */
    shard_start(1, 2);
    go(1000);
    ck_assert_uint_eq(r.coord->fleet.cluster.id[0], id);
    ck_assert_uint_eq(r.coord->fleet.cluster.tablets, tablets);
    ck_assert_mem_eq(r.coord->fleet.cluster.shard_of, owners, tablets * sizeof *owners);
    ck_assert_uint_eq(r.shard[0].number, number);
    job_run();
    ck_assert_mem_eq(r.coord->fleet.cluster.shard_of, owners, tablets * sizeof *owners);
    ck_assert_uint_gt(r.coord->slot[0].at.run, run);
    free(owners);
    rig_stop();
}
END_TEST

/* _i 0: a folder is empty; 1: it belongs to another cluster; 2: both claim the same number. */
START_TEST(coord_lost_store_and_shards_that_differ_are_refused)
{
    fleet_start(2);
    job_run();
    sim_kill(r.shard[0].node);
    sim_kill(r.shard[1].node);
    if (_i == 0)
        shard_wipe(1);
    else if (_i == 1)
        r.shard[1].cluster[0]++;
    else
        r.shard[1].number = r.shard[0].number;
    store_change(coord_store_memory());
    shard_start(0, 2);
    shard_start(1, 2);
    go(2000);
    ck_assert(!coord_cluster_known(&r.coord->fleet.cluster));
    const char *text = r.shard[0].refused;
    ck_assert_ptr_nonnull(strstr(text, "do not agree"));
    ck_assert_ptr_nonnull(strstr(text, "server-0/0: shard"));
    ck_assert_msg(strstr(text, _i == 0 ? "server-1/0: empty" : "server-1/0: shard") != NULL, "%s",
                  text);
    rig_stop();
}
END_TEST

START_TEST(coord_lost_store_with_another_number_of_shards_is_refused)
{
    fleet_start(2);
    job_run();
    r.shards = 3;
    store_change(coord_store_memory());
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[0].refused, "set `shards: 2` there"));
    r.shards = 2;
    store_change(coord_store_memory()); /* as it says */
    go(1000);
    ck_assert(coord_cluster_ready(&r.coord->fleet.cluster));
    job_run();
    rig_stop();
}
END_TEST

/* ---- the coordinator's store was put back ---- */

START_TEST(coord_older_store_takes_the_newer_map_and_numbers)
{
    fleet_start(2);
    struct coord_store *older = store_copy(); /* before the first job */
    job_run();
    uint64_t epoch = r.coord->fleet.cluster.map_epoch, run = r.coord->slot[0].at.run;
    uint16_t owner = r.coord->fleet.cluster.shard_of[5];
    store_change(older);
    go(1000);
    ck_assert_uint_eq(r.coord->fleet.cluster.map_epoch, epoch);
    ck_assert_uint_eq(r.coord->fleet.cluster.shard_of[5], owner);
    job_run();
    ck_assert_uint_gt(r.coord->slot[0].at.run, run);
    ck_assert_uint_eq(r.coord->fleet.cluster.map_epoch, epoch);
    rig_stop();
}
END_TEST

START_TEST(coord_older_store_ends_the_job_that_it_remembers)
{
    fleet_start(2);
    job_start(5000000);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    struct coord_store *older = store_copy();
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    job_run(); /* one more job, unknown to the copy */
    store_change(older);
    go(1000);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_FAILED);
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, "data_dir is older than it was"));
    job_run(); /* as it says */
    rig_stop();
}
END_TEST

/* The stored job has ended since, and no other job has come: no shard opens its run again. _i: the
 * phase in which the copy is taken. */
START_TEST(coord_older_store_does_not_train_a_job_that_has_ended)
{
    static const enum coord_phase phases[] = {PHASE_WAITING, PHASE_INDEX, PHASE_SETUP,
                                              PHASE_LANES,   PHASE_TRAIN, PHASE_DIGEST};
    fleet_start(2);
    job_run(); /* there is a map */
    uint32_t applied = r.shard[0].applied + r.shard[1].applied;
    job_start(5000000);
    while (r.coord->slot[0].at.phase != (uint32_t)phases[_i])
        ck_assert(sim_step(r.sim));
    struct coord_store *older = store_copy();
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    go(2000); /* its run is dropped everywhere */
    uint64_t run = r.coord->slot[0].at.run;
    ck_assert_uint_eq(r.shard[0].run.run, 0);
    ck_assert_uint_eq(r.shard[0].applied + r.shard[1].applied, 2 * applied);
    store_change(older);
    ck_assert_uint_eq(r.coord->slot[0].at.run, run);
    worker_start(5000000);
    go(10000);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_FAILED);
    ck_assert_ptr_nonnull(strstr(r.coord->slot[0].at.text, "submit the job again"));
    ck_assert_uint_eq(r.shard[0].applied + r.shard[1].applied, 2 * applied);
    job_run(); /* as it says */
    ck_assert_uint_gt(r.coord->slot[0].at.run, run);
    ck_assert_uint_eq(r.shard[0].applied + r.shard[1].applied, 3 * applied);
    rig_stop();
}
END_TEST

/* ---- folders ---- */

START_TEST(coord_empty_folder_under_an_old_name_is_refused)
{
    fleet_start(2);
    job_run();
    sim_kill(r.shard[1].node);
    shard_wipe(1);
    r.shard[1].in_memory = _i == 1; /* in memory, no start has rows */
    shard_start(1, 2);
    go(1000);
    ck_assert(_i == 1 || strstr(r.shard[1].refused, "comes with an empty folder") != NULL);
    ck_assert_uint_eq(r.shard[1].number != UINT32_MAX, _i == 1);
    ck_assert(coord_member_shards_ready(&r.coord->fleet.members));
    rig_stop();
}
END_TEST

START_TEST(coord_older_folder_is_refused)
{
    fleet_start(2);
    r.shard[1].sequence = 500;
    go(20000);
    coord_kill(); /* it remembers */
    coord_start();
    sim_kill(r.shard[1].node);
    r.shard[1].sequence = 499;
    shard_start(1, 2);
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[1].refused, "record 499 is its last, 500 was"));
    sim_kill(r.shard[1].node);
    r.shard[1].sequence = 500;
    shard_start(1, 3);
    go(1000);
    ck_assert_str_eq(r.shard[1].refused, "");
    rig_stop();
}
END_TEST

/* A job shorter than the second between two records of what is on disk. */
START_TEST(coord_folder_of_before_the_last_digest_is_refused)
{
    fleet_start(2);
    r.shard[1].sequence = 400;
    go(2000);
    r.shard[1].digested = 500;
    job_run();
    sim_kill(r.shard[1].node);
    coord_kill();
    coord_start();
    shard_start(1, 2); /* 400 is its last */
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[1].refused, "record 400 is its last, 500 was"));
    rig_stop();
}
END_TEST

/* _i 0: a folder of another cluster; 1: the number of a present shard; 2: a number that
 * the cluster never had. */
START_TEST(coord_folder_of_another_place_is_refused)
{
    static const char *const says[] = {"has rows of cluster", "which server server-0 holds",
                                       "shard 5, which this cluster never had"};
    fleet_start(2);
    sim_kill(r.shard[1].node);
    if (_i == 0)
        r.shard[1].cluster[1]++;
    else if (_i == 1)
        r.shard[1].number = r.shard[0].number;
    else
        r.shard[1].number = 5;
    shard_start(1, 2);
    go(1000);
    ck_assert_msg(strstr(r.shard[1].refused, says[_i]) != NULL, "%s", r.shard[1].refused);
    struct json *j = coord_cluster_json(&r.coord->fleet);
    ck_assert_str_eq(json_as_string(json_get(j, "strangers.0.name"), ""), "server-1");
    json_free(j);
    rig_stop();
}
END_TEST

START_TEST(coord_two_copies_of_a_folder_are_found)
{
    fleet_start(2);
    r.shard[2] = r.shard[1]; /* the folder, copied to another machine */
    r.shard[2].shard_of = NULL;
    fake_shard_start(&r.shard[2], r.sim, "server-1", 0, 9);
    go(1000);
    ck_assert_ptr_nonnull(strstr(r.shard[1].refused, "two servers run as server-1"));
    ck_assert_str_eq(r.shard[2].refused, "");
    rig_stop();
}
END_TEST

static struct table_schema *tables_of(uint32_t first_bits)
{
    static struct table_schema table[3];
    memset(table, 0, sizeof table);
    for (uint32_t t = 0; t < 3; t++) {
        table[t].table = t;
        (void)snprintf(table[t].name, sizeof table[t].name, "t%u", t);
        table[t].tablet_bits = t == 0 ? first_bits : 6;
        table[t].tablet_first =
            t == 0 ? 0 : table[t - 1].tablet_first + (1u << table[t - 1].tablet_bits);
    }
    return table;
}

/* Server-1 starts twice within a moment, and the only beat of the first start arrives last. */
START_TEST(coord_late_word_of_a_dead_server_keeps_no_living_one_out)
{
    fleet_start(2);
    r.shard[2] = r.shard[1];
    r.shard[2].shard_of = NULL;
    sim_kill(r.shard[1].node);
    shard_start(1, 3);
    go(500);
    fake_shard_start(&r.shard[2], r.sim, "server-1", 0, 2);
    while (r.coord->fleet.members.shard[r.shard[1].number].incarnation != 2)
        ck_assert(sim_step(r.sim));
    sim_kill(r.shard[2].node);
    go(3000); /* a lease is one second */
    ck_assert_uint_eq(r.coord->fleet.members.shard[r.shard[1].number].incarnation, 3);
    rig_stop();
}
END_TEST

static bool finishing(void *context)
{
    (void)context;
    return r.coord->slot[0].at.phase == PHASE_FINISH;
}

/* A finished job does not need the map any more, and the next job may be a day away. The shard gets
 * it at once, so that readers of rows are answered meanwhile. */
START_TEST(coord_shard_that_comes_back_as_a_job_ends_is_told_the_map)
{
    fleet_start(2);
    job_start(5000000);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, finishing, NULL));
    fake_shard_die(&r.shard[1]);
    shard_start(1, 2);
    ck_assert_uint_eq(r.shard[1].map_epoch, 0);
    go(3000);
    ck_assert_uint_eq(r.shard[1].map_epoch, r.coord->fleet.cluster.map_epoch);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_DONE);
    rig_stop();
}
END_TEST

/* The store is lost, and the next job has fewer tables than the cluster: the map stays whole, and a
 * later job with all tables finds it so. */
START_TEST(coord_lost_store_and_a_job_of_fewer_tables)
{
    struct err e = {0};
    fleet_start(2);
    struct coord_cluster *cl = &r.coord->fleet.cluster;
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(6), 3, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    cl->tables = 0; /* as in a map taken from a shard */
    r.coord->fleet.members.shard[0].figures.holds = true;
    cl->shard_of[130] ^= 1;
    uint16_t owner = cl->shard_of[130];
    for (uint32_t tables = 1; tables <= 3; tables++) {
        ck_assert_int_eq(coord_cluster_map(&r.coord->fleet, tables_of(6), tables,
                                           coord_fresh_due(&r.coord->slot[0]),
                                           &r.coord->slot[0].space->numbers,
                                           &r.coord->slot[0].space->left, &e),
                         0);
        ck_assert_uint_eq(cl->map_epoch, 1);
        ck_assert_uint_eq(cl->tablets, 3 * 64);
        ck_assert_uint_eq(cl->shard_of[130], owner);
    }
    rig_stop();
}
END_TEST

/* A slot's tables keep their numbers and owners whatever the jobs of another slot declare. */
START_TEST(coord_tables_of_a_second_slot_lie_beside)
{
    struct err e = {0};
    struct table_set one = {{0}}, two = one, one_left = one, two_left = one;
    uint16_t was[2 * 64], view[128 + 64];
    fleet_start(2);
    struct coord_fleet *f = &r.coord->fleet;
    struct coord_cluster *cl = &f->cluster;
    ck_assert_int_eq(coord_cluster_map(f, tables_of(6), 2, false, &one, &one_left, &e), 0);
    memcpy(was, cl->shard_of, sizeof was);
    ck_assert_int_eq(coord_cluster_map(f, tables_of(7), 2, false, &two, &two_left, &e), 0);
    ck_assert(set_is(one, 3) && set_is(two, 12) && set_is(cl->held, 15) && cl->tables == 4);
    ck_assert_uint_eq(cl->map_epoch, 2);
    ck_assert_uint_eq(cl->tablets, 2 * 64 + 128 + 64);
    ck_assert_int_eq(memcmp(was, cl->shard_of, sizeof was), 0);
    coord_map_view(cl, two, tables_of(7), 2, view);
    for (uint32_t i = 0; i < 128 + 64; i++)
        ck_assert_uint_eq(view[i], i < 128 ? i / 64 : (i - 128) / 32);
    /* each slot gets more tables, behind all others; a fresh job too, as the others are not its
     * own */
    ck_assert_int_eq(coord_cluster_map(f, tables_of(7), 3, false, &two, &two_left, &e), 0);
    ck_assert_int_eq(coord_cluster_map(f, tables_of(6), 3, true, &one, &one_left, &e), 0);
    ck_assert(set_is(two, 0x1c) && set_is(one, 0x23) && cl->map_epoch == 4);
    ck_assert_uint_eq(coord_map_first(cl, one, &tables_of(6)[2]), 2 * 64 + 128 + 2 * 64);
    /* a job that gets no place leaves the numbers unchanged */
    struct table_schema wide[3];
    memcpy(wide, tables_of(9), sizeof wide);
    wide[0].tablet_bits = 0; /* too few tablets for two shards */
    ck_assert_int_eq(coord_cluster_map(f, wide, 1, false, &two, &two_left, &e), SHOAL_E_CONFIG);
    ck_assert(set_is(two, 0x1c) && set_is(cl->held, 0x3f) && cl->map_epoch == 4);
    /* a job of fewer tables, then the earlier one again: the map stays */
    ck_assert_int_eq(coord_cluster_map(f, tables_of(7), 1, false, &two, &two_left, &e), 0);
    ck_assert_int_eq(coord_cluster_map(f, tables_of(6), 3, false, &one, &one_left, &e), 0);
    ck_assert(set_is(two, 4) && set_is(one, 0x23) && cl->map_epoch == 4);
    rig_stop();
}
END_TEST

/* Schemas of so many tables of 32 tablets. */
static struct table_schema *small_tables(uint32_t count)
{
    static struct table_schema table[LIMIT_TABLES];
    memset(table, 0, sizeof table);
    for (uint32_t t = 0; t < count; t++) {
        table[t].table = t;
        (void)snprintf(table[t].name, sizeof table[t].name, "t%u", t);
        table[t].tablet_bits = 5;
        table[t].tablet_first = t << 5;
    }
    return table;
}

/* The tables of all spaces have 256 numbers: the next one is refused, and nothing has changed. The
 * map and the numbers come back from the store. */
START_TEST(coord_tables_of_a_fleet_are_bounded)
{
    static const uint32_t counts[] = {64, 1, 128, 62, 1}; /* up to 64, 65, 193, 255, 256 */
    struct err e = {0};
    uint32_t all = 0;
    fleet_start(2);
    for (uint32_t i = 0; i < 5; i++) {
        struct coord_fleet *f = &r.coord->fleet;
        struct coord_space *s = &f->spaces.space[i];
        ck_assert_msg(coord_cluster_map(f, small_tables(counts[i]), counts[i], false, &s->numbers,
                                        &s->left, &e) == 0,
                      "%s", e.text);
        ck_assert(coord_space_numbers_put(f, s));
        ck_assert_uint_eq(table_set_lowest(s->numbers), all);
        ck_assert_uint_eq(table_set_count(s->numbers), counts[i]);
        all += counts[i];
        ck_assert(table_set_equal(f->cluster.held, table_set_first(all)));
        coord_kill();
        coord_start();
        go(3000);
        f = &r.coord->fleet;
        ck_assert_uint_eq(f->cluster.tables, all);
        ck_assert_uint_eq(f->cluster.tablets, all << 5);
        ck_assert_uint_eq(f->cluster.first[all - 1], (all - 1) << 5);
        ck_assert(table_set_equal(f->cluster.held, table_set_first(all)));
        ck_assert(table_set_equal(coord_map_places(&f->cluster), table_set_first(all)));
    }
    struct coord_fleet *f = &r.coord->fleet;
    struct table_set numbers = TABLE_SET_NONE, left = numbers;
    ck_assert_int_eq(coord_cluster_map(f, small_tables(1), 1, false, &numbers, &left, &e),
                     SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "the tables of all spaces would be more than 256: declare "
                                         "fewer, or drop a space (shoal drop SPACE)"));
    ck_assert(!table_set_any(numbers) && !table_set_any(left));
    ck_assert(table_set_equal(f->cluster.held, TABLE_SET_ALL));
    rig_stop();
}
END_TEST

/* Tables with another number of tablets than the servers' are refused before the map is stored;
 * otherwise no later job could be set up. While no server holds tables, tablets are dealt anew. */
START_TEST(coord_map_of_another_layout_is_refused)
{
    struct err e = {0};
    fleet_start(2);
    struct coord_cluster *cl = &r.coord->fleet.cluster;
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(6), 2, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    r.coord->fleet.members.shard[1].figures.holds = true;
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(7), 2, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "table t0 has 128 tablets"));
    ck_assert_uint_eq(cl->map_epoch, 1);
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(6), 3, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0); /* one more is fine */
    ck_assert_uint_eq(cl->map_epoch, 2);
    r.coord->fleet.members.shard[1].figures.holds = false;
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(7), 2, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    rig_stop();
}
END_TEST

/* Rows in memory, and one of two servers restarted since the last job. Its part would read as new
 * rows, the other server's would not: the job is refused, also by a restarted coordinator. Once
 * both servers have restarted, all begins anew. */
START_TEST(coord_half_of_the_rows_in_memory_is_refused)
{
    fleet_start(2);
    r.shard[0].in_memory = r.shard[1].in_memory = true;
    go(500);
    job_run();
    job_run(); /* both have theirs */
    sim_kill(r.shard[1].node);
    shard_start(1, 2);
    if (_i == 1) {
        coord_kill();
        coord_start();
    }
    go(1000);
    job_start(5000000);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_int_eq(r.client.submit_status, SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(r.client.text, "server server-1 has started again"));
    sim_kill(r.shard[0].node);
    shard_start(0, 2);
    go(1000);
    job_run();
    rig_stop();
}
END_TEST

/* When all rows in memory are lost, no job starts from them, and no client is told that they
 * exist. */
START_TEST(coord_rows_in_memory_that_are_gone_are_not_begun_with)
{
    struct err e = {0};
    uint64_t run;
    fleet_start(2);
    r.shard[0].in_memory = r.shard[1].in_memory = true;
    go(500);
    job_run();
    const struct coord_submit ask = {r.yaml, strlen(r.yaml), 1, "fleet", true};
    for (uint32_t i = 0; i < 2; i++) {
        sim_kill(r.shard[i].node);
        shard_start(i, 2);
    }
    if (_i == 1) {
        coord_kill();
        coord_start();
    }
    go(2000);
    ck_assert_int_eq(coord_submit(&r.coord->slot[0], 77, &ask, NULL, &run, &e), SHOAL_E_NOINPUT);
    ck_assert_msg(strstr(e.text, "has started again, and the rows were in memory") != NULL, "%s",
                  e.text);
    job_run();
    ck_assert_ptr_null(r.client.from);
    rig_stop();
}
END_TEST

static int submit(uint64_t *run, struct err *e)
{
    const struct coord_submit s = {r.yaml, strlen(r.yaml), 1, "", false};
    return coord_submit(&r.coord->slot[0], 77, &s, NULL, run, e);
}

/* A client that submitted right after the restart was told, in turn, that the servers hold the
 * tables, that the job goes on, and that it had failed. */
START_TEST(coord_job_in_memory_is_not_submitted_before_its_rows_are_known)
{
    struct err e = {0};
    uint64_t run = 0;
    fleet_start(2);
    r.shard[0].in_memory = r.shard[1].in_memory = true;
    go(500);
    job_start(5000000);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN || r.worker.batches < 5)
        ck_assert(sim_step(r.sim));
    uint64_t was = r.coord->slot[0].at.number;
    coord_kill();
    for (uint32_t i = 0; i < 2 && _i == 0; i++)
        sim_kill(r.shard[i].node);
    coord_start();
    ck_assert_int_eq(submit(&run, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "has rows of this job in its memory, and has not"));
    for (uint32_t i = 0; i < 2 && _i == 0; i++)
        shard_start(i, 2);
    uint64_t end = sim_now_ns(r.sim) + 60 * SECOND;
    while (submit(&run, &e) == SHOAL_E_UNAVAILABLE)
        ck_assert(sim_step(r.sim) && sim_now_ns(r.sim) < end);
    ck_assert_uint_eq(run == was, _i == 1); /* it goes on; otherwise it begins anew */
    if (_i == 0)
        worker_start(5000000);
    while (r.coord->slot[0].at.phase != PHASE_DONE)
        ck_assert(sim_step(r.sim) && sim_now_ns(r.sim) < end);
    rig_stop();
}
END_TEST

/* A server that was not heard yet, or still reads its rows, used to count as one without rows, or
 * as one with rows. */
START_TEST(coord_new_job_waits_for_what_the_servers_hold)
{
    struct err e = {0};
    uint64_t run = 0;
    fleet_start(2);
    struct coord_shard *s = &r.coord->fleet.members.shard[1];
    job_start(5000000);
    sim_kill(r.client.node);
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, tables_of(6), 1, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    bool *what = _i == 0 ? &s->seen : &s->ready;
    *what = false;
    ck_assert_int_eq(submit(&run, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "server server-1 has not said yet what it holds"));
    *what = true;
    s->figures.rows = 1;
    ck_assert_int_eq(submit(&run, &e), SHOAL_E_EXISTS);
    s->figures.rows = 0;
    ck_assert_int_eq(submit(&run, &e), 0);
    rig_stop();
}
END_TEST

/* A run that was interrupted before it began goes on with fewer workers; it used to wait for the
 * others for ever. */
START_TEST(coord_job_waits_for_as_many_workers_as_were_said_last)
{
    struct err e = {0};
    uint64_t run = 0, was;
    fleet_start(2);
    job_start(5000000);
    sim_kill(r.client.node);
    const struct coord_submit many = {r.yaml, strlen(r.yaml), 3, "", false};
    ck_assert_int_eq(coord_submit(&r.coord->slot[0], 77, &many, NULL, &was, &e), 0);
    go(2000);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_WAITING);
    if (_i == 1) {
        coord_kill();
        coord_start();
    }
    ck_assert_int_eq(submit(&run, &e), 0);
    ck_assert_uint_eq(run, was);
    if (_i == 2) { /* it is stored */
        coord_kill();
        coord_start();
    }
    uint64_t end = sim_now_ns(r.sim) + 60 * SECOND;
    while (r.coord->slot[0].at.phase != PHASE_DONE)
        ck_assert(sim_step(r.sim) && sim_now_ns(r.sim) < end);
    rig_stop();
}
END_TEST

/* A refused server will never say what it holds. */
START_TEST(coord_new_job_does_not_wait_for_who_is_refused)
{
    struct err e = {0};
    uint64_t run = 0;
    fleet_start(2);
    job_start(5000000);
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        ck_assert(sim_step(r.sim));
    coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped");
    coord_kill();
    sim_kill(r.shard[1].node);
    coord_start();
    shard_wipe(1);
    shard_start(1, 2);
    go(1000);
    ck_assert_int_eq(submit(&run, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "server server-1 has not said yet what it holds: it was not "
                                 "taken: ") != NULL,
                  "%s", e.text);
    rig_stop();
}
END_TEST

/* Workers get endpoints one a line: a line feed inside one would make it two. */
START_TEST(coord_endpoint_is_one_word)
{
    static const char *const wrong[] = {"", "tcp", "tcp://", "://x", "tcp://a b", "tcp://a\x7f"};
    struct wire_SHARD_BEAT beat = {.server = "s", .incarnation = 1};
    struct err e;
    fleet_start(2);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        (void)snprintf(beat.endpoint, sizeof beat.endpoint, "%s", wrong[i]);
        ck_assert_int_eq(coord_cluster_claim(&r.coord->fleet, &beat, &e), SHOAL_E_MALFORMED);
    }
    rig_stop();
}
END_TEST

/* ---- the map ---- */

START_TEST(coord_map_of_more_tables_keeps_the_owners)
{
    static struct table_schema table[3];
    struct err e = {0};
    fleet_start(2);
    for (uint32_t t = 0; t < 3; t++) {
        table[t].table = t;
        table[t].tablet_bits = t == 1 ? 4 : 6;
        table[t].tablet_first =
            t == 0 ? 0 : table[t - 1].tablet_first + (1u << table[t - 1].tablet_bits);
        table[t].dense = t == 1;
    }
    struct coord_cluster *cl = &r.coord->fleet.cluster;
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, table, 2, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    ck_assert_uint_eq(cl->map_epoch, 1);
    cl->shard_of[7] ^= 1;
    uint16_t moved = cl->shard_of[7];
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, table, 3, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0);
    ck_assert_uint_eq(cl->map_epoch, 2);
    ck_assert_uint_eq(cl->tablets, 64 + 16 + 64);
    ck_assert_uint_eq(cl->shard_of[7], moved);
    ck_assert_uint_eq(cl->shard_of[80], 0);
    ck_assert_uint_eq(cl->shard_of[143], 1);
    ck_assert_int_eq(
        coord_cluster_map(&r.coord->fleet, table, 1, coord_fresh_due(&r.coord->slot[0]),
                          &r.coord->slot[0].space->numbers, &r.coord->slot[0].space->left, &e),
        0); /* fewer: it stays whole */
    ck_assert_uint_eq(cl->map_epoch, 2);
    ck_assert_uint_eq(cl->tablets, 64 + 16 + 64);
    rig_stop();
}
END_TEST

/* ---- what fields are called ---- */

/* Starts a job with the fields a, b, .. of `letters`, with a worker that reports them. from: the
 * tables to start from, or NULL. */
static void named_start(const char *letters, const char *from)
{
    struct coord_job *j = &r.coord->slot[0];
    struct legend is = {.input = strdup("in"), .labels = strdup("label")};
    struct err e = {0};
    uint64_t before = j->at.number;
    job_start(5000000);
    r.client.from = from;
    while (j->at.number == before || j->at.phase < PHASE_WAITING)
        ck_assert(sim_step(r.sim) && !job_over(NULL));
    for (; *letters != 0; letters++) {
        const char name[2] = {*letters, 0};
        ck_assert_int_eq(legend_add(&is, LEGEND_FIELDS, name, "emb", "category", &e), 0);
    }
    ck_assert_msg(legend_match(&j->spec.legend, &is, NULL, 0, false, &e) == 0, "%s", e.text);
    ck_assert_int_eq(coord_begin_name(j, &is, false, &e), 0);
    ck_assert(coord_put(&r.coord->fleet, "job", j->yaml, j->yaml_bytes));
    legend_free(&is);
}

static void named_run(const char *letters, const char *from)
{
    named_start(letters, from);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
}

/* Returns the number of a field of the tables that the servers hold. */
static uint32_t number_of(const char *name)
{
    const struct legend *n;
    struct err e = {0};
    ck_assert_msg(coord_names_of_fleet(&r.coord->slot[0], &n, &e) == 0, "%s", e.text);
    uint32_t at = legend_find(n, LEGEND_FIELDS, name);
    ck_assert_uint_ne(at, LEGEND_NONE);
    return n->name[LEGEND_FIELDS][at].number;
}

static int fleet_submit(struct err *e)
{
    const struct coord_submit s = {r.yaml, strlen(r.yaml), 1, "fleet", true};
    uint64_t run;
    return coord_submit(&r.coord->slot[0], 77, &s, NULL, &run, e);
}

START_TEST(coord_names_are_kept_by_the_shards)
{
    fleet_start(2);
    r.shard[1].names_slow = true;
    named_start("abc", NULL);
    go(3000);
    ck_assert_uint_eq(r.coord->slot[0].at.phase,
                      PHASE_SETUP); /* one server has not kept them yet */
    ck_assert_uint_eq(r.shard[0].applied + r.shard[1].applied, 0);
    r.shard[1].names_slow = false;
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_uint_eq(r.client.state, WIRE_JOB_DONE);
    ck_assert_str_eq(r.shard[0].names, r.shard[1].names);
    named_run("bc", "fleet");
    uint64_t version = r.coord->fleet.names.version;
    ck_assert_uint_eq(r.shard[0].names_version, version);
    named_run("bc", "fleet"); /* the same ones */
    ck_assert_uint_eq(r.shard[0].names_version, version);
    ck_assert_uint_eq(number_of("c"), 2);
    rig_stop();
}
END_TEST

/* The coordinator's store has the servers' map and no names. A job that drops the tables uses its
 * own names (0); a job that begins as if there were no tables ends (1). */
START_TEST(coord_names_hold_up_no_job_that_drops_them)
{
    struct err e = {0};
    uint64_t run;
    fleet_start(2);
    named_run("abc", NULL);
    uint64_t version = r.coord->fleet.names.version;
    struct coord_store *taken = store_copy();
    ck_assert_int_eq(coord_store_remove(taken, "names", &e), 0);
    ck_assert_int_eq(coord_store_remove(taken, "job", &e), 0);
    ck_assert_int_eq(coord_store_remove(taken, "progress", &e), 0);
    store_change(taken);
    ck_assert_uint_eq(r.coord->fleet.names.version, 0);
    strcat(r.yaml, _i == 0 ? "fresh: [all]\n" : "");
    struct coord_submit s = {r.yaml, strlen(r.yaml), 1, "", false};
    if (_i == 1)
        r.coord->fleet.cluster.map_epoch = 0; /* as of before the first job */
    ck_assert_msg(coord_submit(&r.coord->slot[0], 77, &s, NULL, &run, &e) == 0, "%s", e.text);
    worker_start(5000000);
    while (r.coord->fleet.names.newest == 0)
        ck_assert(sim_step(r.sim));
    go(30000);
    ck_assert_msg(r.coord->slot[0].at.phase == (_i == 0 ? PHASE_DONE : PHASE_FAILED), "%s",
                  r.coord->slot[0].at.text);
    ck_assert_int_eq(strstr(r.coord->slot[0].at.text, "did not know of") != NULL, _i == 1);
    ck_assert_uint_ge(r.coord->fleet.names.version, version);
    rig_stop();
}
END_TEST

/* A server said that it knows newer names, and came back with other data before it sent them. */
START_TEST(coord_names_that_nobody_knows_any_more_are_not_waited_for)
{
    fleet_start(2);
    named_run("abc", NULL);
    r.coord->fleet.names.newest = r.coord->fleet.names.version + 7;
    r.coord->fleet.names.newest_shard = 1;
    ck_assert(!coord_names_ready(&r.coord->fleet.names));
    go(3000);
    ck_assert(coord_names_ready(&r.coord->fleet.names));
    named_run("abc", "fleet");
    rig_stop();
}
END_TEST

static int drop(const char *table, const char *field, uint64_t id, struct err *e)
{
    struct wire w = {.type = WIRE_TYPE_DROP, .id = id};
    struct coord_ask ask = {.from = 77, .request = &w};
    (void)snprintf(w.u.DROP.table, sizeof w.u.DROP.table, "%s", table);
    (void)snprintf(w.u.DROP.field, sizeof w.u.DROP.field, "%s", field);
    int rc = coord_drop_request(&r.coord->fleet, &ask, coord_aside_used, r.coord);
    *e = ask.e;
    return rc;
}

/* ---- an operator's question ---- */

static struct wire heard;

static void heard_message(void *core, peer_t from, struct msg *m)
{
    struct err e;
    (void)core, (void)from;
    ck_assert_int_eq(wire_decode(m, &heard, &e), 0);
    msg_free(m);
}

static void heard_drained(void *core)
{
    (void)core;
}

/* Asks the coordinator; the status and the sentence of its reply. */
static int asked(const struct wire *w, struct err *e)
{
    static const struct env_handler handler = {.on_message = heard_message,
                                               .on_drained = heard_drained};
    struct sim_node *node = sim_node_new(r.sim, "asker", &handler, NULL);
    peer_t to;
    heard.id = 0;
    ck_assert_int_eq(env_connect(sim_node_env(node), "sim://coordinator", ENV_COORDINATOR, &to), 0);
    ck_assert_int_eq(env_send(sim_node_env(node), to, wire_encode(w)), 0);
    go(50);
    ck_assert(heard.reply && heard.id == w->id);
    sim_kill(node);
    (void)err_set(e, heard.status, "%s", heard.error);
    return heard.status;
}

static int import_of(uint64_t token, uint32_t number, bool done, struct err *e)
{
    static uint64_t id = 900;
    struct wire w = {.type = WIRE_TYPE_IMPORT, .id = id++};
    w.u.IMPORT = (struct wire_IMPORT){.number = number, .rows = 7, .done = done, .token = token};
    (void)snprintf(w.u.IMPORT.table, sizeof w.u.IMPORT.table, "emb");
    return asked(&w, e);
}

static int import(uint32_t number, bool done, struct err *e)
{
    return import_of(5, number, done, e);
}

/* Rows of files go into no table that a job trains. */
START_TEST(coord_imports_into_no_table_of_a_job)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    ck_assert_int_eq(import(0, false, &e), 0);
    ck_assert_int_eq(import(LIMIT_TABLES, false, &e), SHOAL_E_MALFORMED);
    ck_assert_int_eq(fleet_submit(&e), 0);
    go(100);
    ck_assert_int_eq(import(0, false, &e), SHOAL_E_BUSY);
    ck_assert_msg(strstr(e.text, "trains in table emb") != NULL, "%s", e.text);
    rig_stop();
}
END_TEST

/* A job that begins between the two ends of an import is noticed at the second one, whether it has
 * ended (_i 0) or not (1), and by a coordinator that has started since (2). */
START_TEST(coord_an_import_is_done_where_no_job_has_begun)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    ck_assert_int_eq(import(0, false, &e), 0);
    ck_assert_int_eq(import(0, false, &e), 0); /* sent again */
    ck_assert_int_eq(import(0, true, &e), 0);
    ck_assert_int_eq(import_of(0, 0, false, &e), SHOAL_E_MALFORMED);
    if (_i == 0) {
        named_run("abc", "fleet");
    } else {
        ck_assert_int_eq(fleet_submit(&e), 0);
        go(100);
    }
    if (_i == 2) {
        struct coord_store *same = store_copy();
        store_change(same);
        go(1000);
    }
    ck_assert_int_eq(import(0, true, &e), SHOAL_E_STOPPED);
    ck_assert_msg(strstr(e.text, "a job has begun in table emb") != NULL, "%s", e.text);
    rig_stop();
}
END_TEST

/* Two imports into one table at a time: the first one learns of the second. */
START_TEST(coord_an_import_that_another_one_meets_is_not_done)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    ck_assert_int_eq(import_of(5, 0, false, &e), 0);
    ck_assert_int_eq(import_of(6, 0, false, &e), 0);
    ck_assert_int_eq(import_of(5, 0, true, &e), SHOAL_E_STOPPED);
    ck_assert_msg(strstr(e.text, "another import has begun") != NULL, "%s", e.text);
    ck_assert_int_eq(import_of(6, 0, true, &e), 0);
    rig_stop();
}
END_TEST

/* A job may ask for a lease that is shorter than the time between two beats of a server. Servers
 * beat by the coordinator's lease, so they do not count as away. */
START_TEST(coord_a_jobs_lease_is_not_the_servers)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    named_run("bc", "fleet");
    r.coord->slot[0].spec.coordinator.lease_ms = 100;
    for (uint32_t i = 0; i < 2; i++)
        r.coord->fleet.members.shard[i].beat_ns =
            sim_now_ns(r.sim) - coord_fleet_lease_ns(&r.coord->fleet) / 2;
    ck_assert_msg(drop("emb", "a", 1, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(coord_lease_ns(&r.coord->slot[0]), UINT64_C(100000000));
    rig_stop();
}
END_TEST

/* The names stay until the last server has no rows. A coordinator (_i 1) or a server (2) that dies
 * leaves them unchanged. */
START_TEST(coord_drops_before_it_forgets)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    ck_assert_int_eq(drop("emb", "a", 1, &e), SHOAL_E_EXISTS);
    named_run("bc", "fleet");
    uint64_t version = r.coord->fleet.names.version;
    ck_assert_int_eq(drop("emb", "d", 2, &e), SHOAL_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "any more is emb/a"));
    r.shard[1].drop_slow = true;
    ck_assert_int_eq(drop("emb", "a", 3, &e), 0);
    go(3000);
    ck_assert_str_eq(r.shard[0].what, "emb:0");
    ck_assert_uint_eq(r.shard[0].drops, 1);
    ck_assert_uint_eq(r.coord->fleet.names.version, version);
    ck_assert_int_eq(fleet_submit(&e), SHOAL_E_BUSY);
    ck_assert_int_eq(drop("emb", "a", 3, &e), 0); /* again */
    ck_assert_int_eq(drop("emb", "a", 4, &e), SHOAL_E_BUSY);
    if (_i == 1) {
        struct coord_store *same = store_copy();
        store_change(same);
        go(1000);
    } else if (_i == 2) {
        sim_kill(r.shard[1].node);
        go(15000);
        ck_assert_int_eq(r.coord->fleet.drop.answered.status, SHOAL_E_UNAVAILABLE);
    }
    ck_assert_uint_eq(r.coord->fleet.names.version, version);
    if (_i > 0)
        ck_assert(legend_find(&r.coord->fleet.spaces.space[0].legend, LEGEND_FIELDS, "a") !=
                  LEGEND_NONE);
    if (_i == 2) {
        ck_assert_int_eq(drop("emb", "a", 5, &e), SHOAL_E_UNAVAILABLE);
        rig_stop();
        return;
    }
    r.shard[1].drop_slow = false;
    if (_i == 1)
        ck_assert_int_eq(drop("emb", "a", 6, &e), 0);
    go(3000);
    ck_assert_int_eq(r.coord->fleet.drop.answered.status, 0);
    ck_assert_uint_eq(r.coord->fleet.drop.answered.rows, 10);
    ck_assert_uint_gt(r.coord->fleet.names.version, version);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(r.shard[i].names_version, r.coord->fleet.names.version);
        ck_assert_ptr_null(strstr(r.shard[i].names, "\"a\""));
    }
    ck_assert_int_eq(drop("emb", "a", 7, &e), SHOAL_E_NOT_FOUND);
    named_run("bc", "fleet");
    rig_stop();
}
END_TEST

/* A job ends when one server has dropped a field and the other has not: the next job drops it there
 * without being asked. */
START_TEST(coord_half_fresh_fields_are_carried)
{
    fleet_start(2);
    named_run("abc", NULL);
    r.shard[1].drop_slow = true;
    named_start("abc", "fleet");
    ck_assert(coord_fresh_want(&r.coord->fleet, r.coord->slot[0].space, r.coord->slot[0].at.number,
                               false, "emb:1"));
    go(3000);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_SETUP);
    ck_assert_uint_eq(r.shard[0].drops, 1);
    ck_assert_str_eq(r.shard[0].what, "emb:1");
    (void)coord_end_fail(&r.coord->slot[0], SHOAL_E_STOPPED, "stopped");
    r.shard[1].drop_slow = false;
    if (_i == 1) {
        struct coord_store *same = store_copy();
        store_change(same);
        go(1000);
    }
    named_run("abc", "fleet");
    ck_assert_uint_eq(r.shard[1].drops, 1);
    ck_assert_str_eq(r.shard[1].what, "emb:1");
    uint32_t drops = r.shard[0].drops;
    named_run("abc", "fleet"); /* no more drops */
    ck_assert_uint_eq(r.shard[0].drops, drops);
    ck_assert_uint_eq(r.shard[1].drops, 1);
    rig_stop();
}
END_TEST

/* A job that ends before a server was told to drop fields has dropped none, and the next job does
 * not drop them. */
START_TEST(coord_fresh_fields_that_nobody_has_begun_to_drop_stay)
{
    fleet_start(2);
    named_run("abc", NULL);
    named_start("abc", "fleet");
    ck_assert(coord_fresh_want(&r.coord->fleet, r.coord->slot[0].space, r.coord->slot[0].at.number,
                               false, "emb:1"));
    for (uint32_t i = 0; i < 100000 && r.coord->slot[0].at.phase < PHASE_SETUP; i++)
        (void)sim_run(r.sim, sim_now_ns(r.sim) + 50000, NULL, NULL);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_SETUP);
    (void)coord_end_fail(&r.coord->slot[0], SHOAL_E_CONFIG, "a table is another one");
    ck_assert_str_eq(coord_fresh_fields_half(r.coord->slot[0].space), "");
    named_run("abc", "fleet");
    ck_assert_uint_eq(r.shard[0].drops + r.shard[1].drops, 0);
    rig_stop();
}
END_TEST

static bool names_said(void)
{
    struct json *j = coord_cluster_json(&r.coord->fleet);
    bool said = json_as_bool(json_get(j, "names"), false);
    json_free(j);
    return said;
}

/* _i 0: the store is lost; 1: the store is the one from before the second job. */
START_TEST(coord_names_of_shards_are_taken_by_a_store_that_has_none_or_older_ones)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    struct coord_store *older = store_copy();
    named_run("cd", "fleet");
    uint64_t version = r.coord->fleet.names.version;
    sim_kill(r.shard[1].node);
    if (_i == 0) {
        coord_store_close(older);
        older = coord_store_memory();
    }
    store_change(older);
    go(1000);
    if (_i == 0) { /* the other server may know newer names */
        ck_assert_int_eq(fleet_submit(&e), SHOAL_E_UNAVAILABLE);
        ck_assert_ptr_nonnull(strstr(e.text, "submit again when"));
        ck_assert(!names_said()); /* the doctor checks this */
    }
    shard_start(1, 2);
    go(1000);
    ck_assert(names_said());
    ck_assert_uint_eq(r.coord->fleet.names.version, version);
    ck_assert_uint_eq(number_of("c"), 2);
    ck_assert_uint_eq(number_of("d"), 3);
    named_run("dc", "fleet");
    ck_assert_uint_eq(number_of("a"), 0);
    ck_assert_uint_eq(number_of("d"), 3);
    coord_kill(); /* its store has them now */
    coord_start();
    ck_assert_uint_eq(r.coord->fleet.names.version, r.shard[0].names_version);
    rig_stop();
}
END_TEST

static bool taken_over(void *context)
{
    (void)context;
    return coord_cluster_known(&r.coord->fleet.cluster);
}

/* A coordinator that had stored the names and died before it stored the map reported that there are
 * no tables. */
START_TEST(coord_names_of_shards_are_taken_after_their_map)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    store_change(coord_store_memory());
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, taken_over, NULL));
    ck_assert(!coord_cluster_ready(&r.coord->fleet.cluster)); /* it asks for the map */
    r.shard[0].map_slow = r.shard[1].map_slow = true;
    go(1000);
    ck_assert(!coord_cluster_ready(&r.coord->fleet.cluster));
    coord_kill();
    coord_start();
    ck_assert_int_eq(fleet_submit(&e), SHOAL_E_UNAVAILABLE);
    r.shard[0].map_slow = r.shard[1].map_slow = false;
    go(1000);
    ck_assert(names_said());
    named_run("cb", "fleet");
    ck_assert_uint_eq(number_of("c"), 2);
    rig_stop();
}
END_TEST

/* The job came before the servers, which know the names of other fields. */
START_TEST(coord_names_that_are_newer_end_a_job_that_began_without_them)
{
    fleet_start(2);
    named_run("abc", NULL);
    sim_kill(r.shard[0].node);
    sim_kill(r.shard[1].node);
    store_change(coord_store_memory());
    job_start(5000000);
    go(500);
    ck_assert_uint_eq(r.coord->slot[0].at.phase, PHASE_WAITING);
    shard_start(0, 2);
    shard_start(1, 2);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * SECOND, job_over, NULL));
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_msg(strstr(r.client.text, "--start-from fleet begins with them") != NULL, "%s",
                  r.client.text);
    go(1000);
    named_run("cb", "fleet"); /* as it says */
    ck_assert_uint_eq(number_of("c"), 2);
    rig_stop();
}
END_TEST

START_TEST(coord_two_names_of_one_version_are_refused)
{
    fleet_start(2);
    named_run("abc", NULL);
    *strstr(r.shard[1].names, "\"b\"") = '\'';
    go(500);
    ck_assert_ptr_nonnull(strstr(r.shard[1].refused, "server server-1 has other names of fields"));
    ck_assert_str_eq(r.shard[0].refused, "");
    rig_stop();
}
END_TEST

/* A store from a release without names, with a finished job: the names are sent to the servers from
 * now on. A malformed reply is not taken, and no names are made up. */
START_TEST(coord_names_of_before_are_told_and_none_are_made_up)
{
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    struct coord_store *older = store_copy();
    ck_assert_int_eq(coord_store_remove(older, "names", &e), 0);
    r.shard[0].names_version = r.shard[1].names_version = 0;
    sim_kill(r.shard[0].node);
    sim_kill(r.shard[1].node);
    store_change(older);
    shard_start(0, 2);
    shard_start(1, 2);
    go(1000);
    ck_assert_uint_gt(r.shard[0].names_version, 0);
    ck_assert_uint_eq(r.shard[0].names_version, r.coord->fleet.names.version);
    for (uint32_t i = 0; i < 2; i++) {
        r.shard[i].names_version = r.coord->fleet.names.version + 1;
        (void)snprintf(r.shard[i].names, sizeof r.shard[i].names, "names: {\"fields\": 7");
    }
    go(1000);
    ck_assert_uint_le(r.shard[0].names_asked + r.shard[1].names_asked, 3); /* once a second */
    ck_assert_int_eq(fleet_submit(&e), SHOAL_E_UNAVAILABLE);
    for (uint32_t i = 0; i < 2; i++)
        r.shard[i].names_version = 0; /* as in the older release */
    store_change(coord_store_memory());
    go(1000);
    ck_assert_int_eq(fleet_submit(&e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "neither this coordinator nor a server knows"));
    rig_stop();
}
END_TEST

START_TEST(coord_names_in_a_damaged_store_are_refused)
{
    static const char *const wrong[] = {"", "12345678", "1234567", "\1\0\0\0\0\0\0\0names: 7"};
    static const size_t bytes[] = {0, 8, 7, 16};
    struct err e = {0};
    fleet_start(2);
    named_run("abc", NULL);
    coord_kill();
    ck_assert_int_eq(coord_store_put(r.store, "names", wrong[_i], bytes[_i], &e), 0);
    struct coord_options o = {.shards = 2, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    struct coord *c = NULL;
    ck_assert_int_eq(coord_new(&o, sim_node_env(r.node), r.store, &c, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "the stored names"));
    ck_assert_ptr_nonnull(strstr(e.text, "bring the data_dir back"));
    ck_assert_int_eq(coord_store_remove(r.store, "names", &e), 0);
    coord_start();
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cluster");
    TCase *t = tcase_create("cluster");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, coord_cluster_is_founded_when_all_have_come);
    tcase_add_test(t, coord_cluster_waits_for_nobody_who_left);
    tcase_add_loop_test(t, coord_nobody_is_told_what_is_not_stored, 0, 3);
    tcase_add_test(t, coord_that_may_lead_no_longer_answers_nothing);
    tcase_add_test(t, coord_restart_keeps_the_cluster);
    tcase_add_test(t, coord_lost_store_is_taken_over_from_all_shards);
    tcase_add_loop_test(t, coord_lost_store_and_shards_that_differ_are_refused, 0, 3);
    tcase_add_test(t, coord_lost_store_with_another_number_of_shards_is_refused);
    tcase_add_test(t, coord_older_store_takes_the_newer_map_and_numbers);
    tcase_add_test(t, coord_older_store_ends_the_job_that_it_remembers);
    tcase_add_loop_test(t, coord_older_store_does_not_train_a_job_that_has_ended, 0, 6);
    tcase_add_loop_test(t, coord_empty_folder_under_an_old_name_is_refused, 0, 2);
    tcase_add_test(t, coord_older_folder_is_refused);
    tcase_add_test(t, coord_folder_of_before_the_last_digest_is_refused);
    tcase_add_loop_test(t, coord_folder_of_another_place_is_refused, 0, 3);
    tcase_add_test(t, coord_two_copies_of_a_folder_are_found);
    tcase_add_test(t, coord_late_word_of_a_dead_server_keeps_no_living_one_out);
    tcase_add_test(t, coord_shard_that_comes_back_as_a_job_ends_is_told_the_map);
    tcase_add_loop_test(t, coord_half_of_the_rows_in_memory_is_refused, 0, 2);
    tcase_add_loop_test(t, coord_rows_in_memory_that_are_gone_are_not_begun_with, 0, 2);
    tcase_add_loop_test(t, coord_job_in_memory_is_not_submitted_before_its_rows_are_known, 0, 2);
    tcase_add_loop_test(t, coord_new_job_waits_for_what_the_servers_hold, 0, 2);
    tcase_add_loop_test(t, coord_job_waits_for_as_many_workers_as_were_said_last, 0, 3);
    tcase_add_test(t, coord_new_job_does_not_wait_for_who_is_refused);
    tcase_add_test(t, coord_lost_store_and_a_job_of_fewer_tables);
    tcase_add_test(t, coord_tables_of_a_second_slot_lie_beside);
    tcase_add_test(t, coord_tables_of_a_fleet_are_bounded);
    tcase_add_test(t, coord_map_of_another_layout_is_refused);
    tcase_add_test(t, coord_endpoint_is_one_word);
    tcase_add_test(t, coord_map_of_more_tables_keeps_the_owners);
    tcase_add_test(t, coord_names_are_kept_by_the_shards);
    tcase_add_loop_test(t, coord_names_hold_up_no_job_that_drops_them, 0, 2);
    tcase_add_test(t, coord_names_that_nobody_knows_any_more_are_not_waited_for);
    tcase_add_loop_test(t, coord_drops_before_it_forgets, 0, 3);
    tcase_add_loop_test(t, coord_half_fresh_fields_are_carried, 0, 2);
    tcase_add_test(t, coord_fresh_fields_that_nobody_has_begun_to_drop_stay);
    tcase_add_test(t, coord_imports_into_no_table_of_a_job);
    tcase_add_loop_test(t, coord_an_import_is_done_where_no_job_has_begun, 0, 3);
    tcase_add_test(t, coord_an_import_that_another_one_meets_is_not_done);
    tcase_add_test(t, coord_a_jobs_lease_is_not_the_servers);
    tcase_add_loop_test(t, coord_names_of_shards_are_taken_by_a_store_that_has_none_or_older_ones,
                        0, 2);
    tcase_add_test(t, coord_names_of_shards_are_taken_after_their_map);
    tcase_add_test(t, coord_names_that_are_newer_end_a_job_that_began_without_them);
    tcase_add_test(t, coord_two_names_of_one_version_are_refused);
    tcase_add_test(t, coord_names_of_before_are_told_and_none_are_made_up);
    tcase_add_loop_test(t, coord_names_in_a_damaged_store_are_refused, 0, 4);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
