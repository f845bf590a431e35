/* test_death.c: workers that die at the same work, in whole jobs with fake shards and workers. */
#include "server/coord/job/slot.h"
#include "server/coord/work/death.h"
#include "tests/lib/fleet_fake.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { ROWS = 1005, WORKERS = 64, LEASE_MS = FLEET_FAKE_LEASE_MS, BATCH = 7 };

static struct {
    struct fleet_fake f;
    struct fake_worker worker[WORKERS];
    uint32_t workers, killed;
    struct fake_client client;
    char yaml[512];
} r;

static void setup(void)
{
    memset(&r, 0, sizeof r);
    fleet_fake_start(&r.f);
}

static void teardown(void)
{
    fleet_fake_end(&r.f);
}

/* holder: the name of the worker's key. */
static struct fake_worker *worker_start(const char *holder)
{
    ck_assert_uint_lt(r.workers, WORKERS);
    struct fake_worker *w = &r.worker[r.workers];
    struct env_who who = {.role = ROLE_WORKER};
    char name[24];
    w->rows[0] = ROWS;
    w->rows[1] = 300;
    w->rows[2] = 200;
    w->batch = 10;
    w->seats = 4;
    w->step_ns = 5000000;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        w->quality[n] = 0.5 + 0.02 * n;
    (void)snprintf(name, sizeof name, "worker-%u", r.workers++);
    fake_worker_start(w, r.f.sim, name, r.f.shard, 2);
    (void)snprintf(who.key, sizeof who.key, "%s", holder);
    sim_node_who(w->node, &who);
    return w;
}

static void job_start(const char *consistency, uint32_t workers)
{
    (void)snprintf(
        r.yaml, sizeof r.yaml,
        "job: t\ndata: {format: libsvm, train: [a], valid: [b], test: [c], max_bad: 0.01}"
        "\ntables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
        "train: {batch: 10, task_batches: 4, epochs: 2, lanes: 4, consistency: %s}\n",
        consistency);
    for (uint32_t i = 0; i < workers; i++)
        (void)worker_start("good");
    fake_client_start(&r.client, r.f.sim, r.yaml, workers);
}

static bool over(void)
{
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

/* True when a seat of the worker is at batch `at` of lane 1 or later; at 0: at a task of an
 * evaluation. */
static bool at_it(const struct fake_worker *w, uint64_t at)
{
    for (uint32_t i = 0; w->node != NULL && i < w->seats; i++) {
        const struct fake_seat *s = &w->seat[i];
        if (s->state != FAKE_ASKING && s->state != FAKE_RESTING &&
            (at == 0 ? s->task.kind == WIRE_NEXT_EVAL && s->task.position == 0
                     : s->state == FAKE_WORKING && s->task.kind == WIRE_NEXT_TASK && s->lane == 1 &&
                           s->at >= at))
            return true;
    }
    return false;
}

/* Up to `most` workers die when they come to batch `at`, and a new one replaces each; on: each dies
 * a batch later than the one before. */
static void play(uint64_t at, uint32_t most, uint64_t on)
{
    while (!over() && sim_now_ns(r.f.sim) < 600 * SECOND) {
        ck_assert(sim_step(r.f.sim));
        for (uint32_t i = 0; i < r.workers; i++)
            if (r.killed < most && at_it(&r.worker[i], at)) {
                sim_kill(r.worker[i].node);
                r.worker[i].node = NULL;
                r.killed++;
                at += on;
                (void)worker_start("good");
            }
    }
    ck_assert_msg(over(), "no end: phase %u, epoch %u, %u killed", r.f.coord->slot[0].at.phase,
                  r.f.coord->slot[0].at.epoch, r.killed);
}

static const char *const consistency[] = {"async", "ssp, staleness: 1", "bsp"};

/* Workers used to come and die without end. */
START_TEST(death_at_the_same_batch_ends_the_job)
{
    job_start(consistency[_i], 2);
    play(BATCH, WORKERS - 4, 0);
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_uint_eq(r.killed, COORD_DEATHS_MAX);
    static const char *const says[] = {"lane 1 has lost its worker 6 times in a row at one place",
                                       "epoch 1, batch 7 of the lane",
                                       "data.train",
                                       "the last was worker-",
                                       "out of memory",
                                       "its log"};
    for (uint32_t i = 0; i < sizeof says / sizeof says[0]; i++)
        ck_assert_msg(strstr(r.client.text, says[i]) != NULL, "%s: %s", says[i], r.client.text);
}
END_TEST

/* Machines that come and go are not the fault of a batch: one more batch was done between two
 * deaths. */
START_TEST(death_with_progress_between_ends_nothing)
{
    job_start(consistency[_i], 2);
    play(2, 4 * COORD_DEATHS_MAX, 1);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    ck_assert_uint_gt(r.killed, COORD_DEATHS_MAX);
}
END_TEST

/* One death fewer than the limit, then the batch is done: the lane's count begins anew. */
START_TEST(death_is_counted_anew_after_progress)
{
    job_start(consistency[_i], 2);
    play(BATCH, COORD_DEATHS_MAX - 1, 0);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    ck_assert_uint_eq(r.killed, COORD_DEATHS_MAX - 1);
}
END_TEST

START_TEST(death_at_the_same_evaluation_ends_the_job)
{
    job_start("ssp", 2);
    play(0, WORKERS - 4, 0);
    ck_assert_uint_eq(r.client.state, WIRE_JOB_FAILED);
    ck_assert_uint_eq(r.killed, COORD_DEATHS_MAX);
    ck_assert_msg(strstr(r.client.text, "rows 0 to") != NULL &&
                      strstr(r.client.text, "of data.valid") != NULL,
                  "%s", r.client.text);
}
END_TEST

static bool works(const struct fake_worker *w)
{
    bool any = false;
    for (uint32_t i = 0; i < w->seats; i++)
        any = any || (w->seat[i].state == FAKE_WORKING && w->seat[i].task.kind == WIRE_NEXT_TASK);
    return any;
}

/* A machine whose workers always die does not end a job that workers of another key can do. */
START_TEST(death_of_one_machine_leaves_its_lane_to_others)
{
    enum { BAD = 4 };
    struct fake_worker *bad[BAD];
    job_start("bsp", 1);
    for (uint32_t i = 0; i < BAD; i++)
        bad[i] = worker_start("bad");
    r.client.workers = 1 + BAD;
    while (!over() && sim_now_ns(r.f.sim) < 600 * SECOND) {
        ck_assert(sim_step(r.f.sim));
        for (uint32_t i = 0; i < BAD && r.workers < WORKERS; i++)
            if (works(bad[i])) {
                sim_kill(bad[i]->node);
                r.killed++;
                bad[i] = worker_start("bad");
            }
    }
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%u killed: %s", r.killed, r.client.text);
    ck_assert_uint_ge(r.killed, COORD_DEATHS_MAX / 2);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_death");
    TCase *t = tcase_create("coord_death");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, death_at_the_same_batch_ends_the_job, 0, 3);
    tcase_add_loop_test(t, death_with_progress_between_ends_nothing, 0, 3);
    tcase_add_loop_test(t, death_is_counted_anew_after_progress, 0, 3);
    tcase_add_test(t, death_at_the_same_evaluation_ends_the_job);
    tcase_add_test(t, death_of_one_machine_leaves_its_lane_to_others);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
