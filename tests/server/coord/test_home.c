/* test_home.c: a job goes back to the cut of its best epoch although tablets have moved since. The
 * real coordinator with fake shards and workers. */
#include "server/coord/keep/home.h"

#include "proto/base/log.h"
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/slot.h"
#include "tests/lib/server_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define SHARDS 3u
#define TABLETS 1024u /* more than the map has */
#define BEST 2u       /* epoch of the cut */

static struct {
    struct sim *sim;
    struct sim_node *node;
    struct coord_store *store;
    struct coord *coord;
    struct fake_shard *shard; /* owned, (SHARDS) */
    struct fake_shard *shards[SHARDS];
    struct fake_worker worker[2];
    struct fake_client client;
    char yaml[512];
    uint16_t home[TABLETS], goal[TABLETS];
} r;

static struct coord_job *job(void)
{
    return &r.coord->slot[0];
}

static struct coord_cluster *map(void)
{
    return &r.coord->fleet.cluster;
}

static void coord_start(void)
{
    struct err e = {0};
    struct coord_options o = {
        .shards = SHARDS, .lease_ms = 1000, .resend_ms = 200, .version = "test"};
    r.node = sim_node_new(r.sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&o, sim_node_env(r.node), r.store, &r.coord, &e) == 0, "%s", e.text);
    sim_node_set_handler(r.node, &coord_handler, r.coord);
    sim_listen(r.node, "sim://coordinator");
}

static void worker_start(uint32_t i)
{
    static const double quality[FAKE_EPOCHS] = {0, 0.6, 0.9, 0.7, 0.65, 0.6};
    struct fake_worker *w = &r.worker[i];
    char name[24];
    *w = (struct fake_worker){.rows = {1005, 300, 200},
                              .batch = 10,
                              .seats = 2,
                              .step_ns = SECOND / 20,
                              .resend_ns = SECOND / 2,
                              .digest = 42};
    memcpy(w->quality, quality, sizeof quality);
    (void)snprintf(name, sizeof name, "worker-%u", i);
    fake_worker_start(w, r.sim, name, r.shards, SHARDS);
}

static void setup(void)
{
    static const struct sim_options calm = {
        .seed = 7, .delay_min_ns = 100000, .delay_max_ns = 1000000};
    memset(&r, 0, sizeof r);
    log_set_level(LOG_LEVEL_ERROR);
    (void)snprintf(r.yaml, sizeof r.yaml,
                   "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
                   "train: {batch: 10, task_batches: 4, epochs: 10, consistency: ssp, lanes: 2, "
                   "early_stop: {metric: auc, patience: 2}}\n");
    r.sim = sim_new(&calm);
    r.store = coord_store_memory();
    r.shard = calloc(SHARDS, sizeof *r.shard);
    coord_start();
    for (uint32_t i = 0; i < SHARDS; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "server-%u", i);
        r.shards[i] = &r.shard[i];
        fake_shard_start(&r.shard[i], r.sim, name, 0, 1);
    }
    worker_start(0);
    worker_start(1);
    fake_client_start(&r.client, r.sim, r.yaml, 2);
}

static void teardown(void)
{
    coord_free(r.coord);
    sim_free(r.sim);
    coord_store_close(r.store);
    for (uint32_t i = 0; i < SHARDS; i++)
        free(r.shard[i].shard_of);
    free(r.shard);
}

static struct fake_shard *shard(uint32_t number)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        if (r.shard[i].number == number)
            return &r.shard[i];
    ck_abort_msg("no shard has number %u", number);
}

static bool is_map(const uint16_t *owner)
{
    return memcmp(map()->shard_of, owner, map()->tablets * sizeof *owner) == 0;
}

static void until(bool (*there)(void *context))
{
    ck_assert_msg(sim_run(r.sim, sim_now_ns(r.sim) + 300 * SECOND, there, NULL),
                  "phase %u, epoch %u: %s", job()->at.phase, job()->at.epoch, r.client.text);
}

static bool first_trains(void *context)
{
    (void)context;
    return job()->at.phase == PHASE_TRAIN && job()->at.epoch == 1;
}

static bool best_kept(void *context)
{
    (void)context;
    return job()->at.phase == PHASE_TRAIN && job()->at.epoch == BEST + 1;
}

static bool goes_back(void *context)
{
    (void)context;
    return job()->at.phase == PHASE_RESTORE;
}

static bool over(void *context)
{
    (void)context;
    return r.client.state == WIRE_JOB_DONE || r.client.state == WIRE_JOB_FAILED;
}

static bool no_plan(void *context)
{
    (void)context;
    return r.coord->fleet.moves.kind == MOVES_NONE;
}

/* Begins a plan that moves all tablets of one shard to another: r.goal. */
static void plan(uint32_t from, uint32_t to)
{
    struct err e = {0};
    ck_assert_uint_le(map()->tablets, TABLETS);
    for (uint32_t i = 0; i < map()->tablets; i++)
        r.goal[i] = map()->shard_of[i] == from ? (uint16_t)to : map()->shard_of[i];
    ck_assert_msg(coord_moves_begin(&r.coord->fleet, MOVES_REBALANCE, "", r.goal, &e) == 0, "%s",
                  e.text);
}

static void home_note(void)
{
    memcpy(r.home, map()->shard_of, map()->tablets * sizeof *r.home);
}

static uint32_t looks(void)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < SHARDS; i++)
        sum += r.shard[i].looks + r.shard[i].restores;
    return sum;
}

/* Runs to the end of the return: from the first look at the cut no tablet is away from home. */
static void go_back(void)
{
    while (job()->at.phase == PHASE_RESTORE || job()->at.phase == PHASE_SETUP) {
        ck_assert(sim_step(r.sim));
        ck_assert(looks() == 0 || job()->at.phase == PHASE_TEST || is_map(r.home));
    }
    ck_assert_uint_eq(job()->at.phase, PHASE_TEST);
}

static void done(void)
{
    until(over);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    until(no_plan);
}

/* _i 0: all tablets of the plan have moved; 1: the coordinator dies while they go home; 2: the
 * operator stops moves meanwhile, so they stay at home. */
START_TEST(coord_moves_tablets_go_home_and_return)
{
    struct err e = {0};
    until(best_kept);
    home_note();
    plan(0, 1);
    until(no_plan);
    ck_assert(is_map(r.goal));
    until(goes_back);
    ck_assert(!is_map(r.home));
    ck_assert_uint_eq(looks(), 0);
    if (_i == 1) {
        uint64_t epoch = map()->map_epoch;
        while (map()->map_epoch < epoch + 3)
            ck_assert(sim_step(r.sim));
        ck_assert(!is_map(r.home) && !is_map(r.goal));
        sim_kill(r.node);
        coord_free(r.coord);
        coord_start();
    }
    if (_i == 2) {
        while (no_plan(NULL))
            ck_assert(sim_step(r.sim));
        ck_assert_int_eq(coord_moves_stop(&r.coord->fleet, &e), 0);
    }
    go_back();
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_uint_ge(r.shard[i].restores, 1);
    done();
    ck_assert(is_map(_i == 2 ? r.home : r.goal));
}
END_TEST

/* An order in the middle of the return waits for its end. */
START_TEST(coord_moves_wait_while_a_job_goes_back)
{
    until(goes_back);
    home_note();
    plan(0, 1);
    go_back();
    ck_assert_uint_gt(looks(), 0);
    done();
    ck_assert(is_map(r.goal));
}
END_TEST

/* Returns how often the time of a plan's first group goes into the pause after it. */
static uint64_t first_pause(void)
{
    const struct coord_moves *m = &r.coord->fleet.moves;
    plan(0, 1);
    while (m->kind != MOVES_NONE && m->moved == 0)
        ck_assert(sim_step(r.sim));
    ck_assert_uint_gt(m->longest_ns, 0);
    return (m->next_ns - sim_now_ns(r.sim)) / m->longest_ns;
}

START_TEST(coord_moves_leave_time_to_a_job_that_trains)
{
    until(first_trains);
    ck_assert_uint_eq(first_pause(), COORD_MOVE_PAUSE);
}
END_TEST

START_TEST(coord_moves_go_on_at_once_where_no_job_trains)
{
    done();
    ck_assert_uint_eq(first_pause(), 1);
}
END_TEST

/* Shard 2 led nothing when the cut was made, as one that joined later. It knows no such cut. */
START_TEST(coord_shard_without_a_part_opens_the_run)
{
    until(first_trains);
    plan(2, 0);
    until(no_plan);
    until(best_kept);
    home_note();
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert(coord_home_needs(job(), i) == (i != 2));
    plan(0, 2);
    until(no_plan);
    memset(shard(2)->kept, 0, sizeof shard(2)->kept);
    until(goes_back);
    go_back();
    ck_assert_uint_eq(shard(2)->looks + shard(2)->restores, 0);
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_uint_eq(shard(i)->run.run, job()->at.run);
    done();
    ck_assert(is_map(r.goal));
    ck_assert(!coord_home_needs(job(), 0));
}
END_TEST

/* The stored owners are damaged: the job ends, and the coordinator goes on. */
START_TEST(coord_damaged_owners_end_the_job)
{
    static const char damaged[20];
    struct err e = {0};
    until(best_kept);
    char value[sizeof damaged];
    memcpy(value, damaged, sizeof value);
    memcpy(value, &job()->at.best_cut, sizeof job()->at.best_cut);
    ck_assert_int_eq(coord_store_put(r.store, "cut-owners", value, sizeof value, &e), 0);
    sim_kill(r.node);
    coord_free(r.coord);
    coord_start();
    ck_assert_uint_eq(job()->at.phase, PHASE_FAILED);
    ck_assert_ptr_nonnull(strstr(job()->at.text, "owners of its best epoch's cut"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_home");
    TCase *t = suite_case(s, "home", 120, setup, teardown);
    tcase_add_loop_test(t, coord_moves_tablets_go_home_and_return, 0, 3);
    tcase_add_test(t, coord_moves_wait_while_a_job_goes_back);
    tcase_add_test(t, coord_moves_leave_time_to_a_job_that_trains);
    tcase_add_test(t, coord_moves_go_on_at_once_where_no_job_trains);
    tcase_add_test(t, coord_shard_without_a_part_opens_the_run);
    tcase_add_test(t, coord_damaged_owners_end_the_job);
    return suite_main(s);
}
