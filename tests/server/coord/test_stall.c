/* test_stall.c: workers that send beats and do no work, in whole jobs with fake shards and
 * workers. */
#include "proto/base/json.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/status.h"
#include "server/coord/work/stall.h"
#include "tests/lib/fleet_fake.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
enum { ROWS = 1005, WORKERS = 3, LEASE_MS = FLEET_FAKE_LEASE_MS };

static struct {
    struct fleet_fake f;
    struct fake_worker worker[WORKERS];
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

static void worker_start(uint32_t i)
{
    struct fake_worker *w = &r.worker[i];
    char name[24];
    w->rows[0] = ROWS;
    w->rows[1] = 300;
    w->rows[2] = 200;
    w->batch = 10;
    w->seats = 2;
    w->step_ns = w->step_ns == 0 ? 5000000 : w->step_ns;
    w->resend_ns = SECOND / 2;
    w->digest = 42;
    for (uint32_t n = 0; n < FAKE_EPOCHS; n++)
        w->quality[n] = 0.5 + 0.02 * n;
    (void)snprintf(name, sizeof name, "worker-%u", i);
    fake_worker_start(w, r.f.sim, name, r.f.shard, 2);
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
        worker_start(i);
    fake_client_start(&r.client, r.f.sim, r.yaml, workers);
}

static bool over(void *context)
{
    (void)context;
    return r.client.submit_status != 0 || r.client.state == WIRE_JOB_DONE ||
           r.client.state == WIRE_JOB_FAILED;
}

static void run_to_the_end(uint64_t seconds)
{
    ck_assert_msg(sim_run(r.f.sim, sim_now_ns(r.f.sim) + seconds * SECOND, over, NULL),
                  "no end: phase %u, epoch %u", r.f.coord->slot[0].at.phase,
                  r.f.coord->slot[0].at.epoch);
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    for (uint32_t e = 1; e <= 2; e++)
        for (uint32_t row = 0; row < ROWS; row++)
            ck_assert_uint_eq(r.f.shard[0]->seen[e][row], 1);
}

/* Returns the text that `shoal status` would show; the caller frees it. */
static struct json *status(void)
{
    struct json *j;
    char *text = coord_status_text(&r.f.coord->slot[0]);
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    free(text);
    return j;
}

static bool problem(const struct json *j, const char *first, const char *second)
{
    const struct json *list = json_get(j, "problems");
    for (size_t i = 0; i < json_count(list); i++) {
        const char *text = json_as_string(json_array_at(list, i), "");
        if (strstr(text, first) != NULL && strstr(text, second) != NULL)
            return true;
    }
    return false;
}

static const char *const consistency[] = {"async", "ssp, staleness: 1", "bsp"};
static const enum wire_next kinds[] = {WIRE_NEXT_INDEX, WIRE_NEXT_TASK, WIRE_NEXT_EVAL};

/* The job used to stay in its place for ever, with the status "train". */
START_TEST(stall_a_worker_that_beats_alone_does_not_hold_the_job)
{
    r.worker[0].wedge_kind = kinds[_i / 3];
    r.worker[0].wedge_batch = _i / 3 == 1 ? 20 : 0;
    job_start(consistency[_i % 3], 2);
    run_to_the_end(120);
    ck_assert(r.worker[0].wedged);
}
END_TEST

/* The worker is named as soon as the job makes no progress, and again when its work is taken
 * away. */
START_TEST(stall_is_told_with_its_worker)
{
    bool waited = false, told = false;
    r.worker[0].wedge_kind = WIRE_NEXT_TASK;
    r.worker[0].wedge_batch = 20;
    job_start("bsp", 2);
    r.worker[1].held_up.waits = 4; /* its lanes wait for the other worker's */
    while (!sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 10, over, NULL) && !(waited && told)) {
        struct json *j = status();
        const char *waits = json_as_string(json_get(j, "waiting"), "");
        waited = waited || strstr(waits, "waits for worker worker-0, which beats") != NULL;
        told = told || problem(j, "worker-0", "gets no work for another");
        json_free(j);
        ck_assert_uint_lt(sim_now_ns(r.f.sim), 100 * SECOND);
    }
    ck_assert(waited && told);
}
END_TEST

/* The other workers only wait for the stalled one: nothing is taken from them. */
START_TEST(stall_takes_nothing_from_those_that_wait)
{
    r.worker[0].wedge_kind = WIRE_NEXT_TASK;
    r.worker[0].wedge_batch = 20;
    job_start("ssp", 2);
    r.worker[1].held_up.waits = 4;
    run_to_the_end(120);
    ck_assert_uint_eq(r.worker[1].fenced, 0);
}
END_TEST

static bool index_moved(void *context)
{
    (void)context;
    uint64_t at = r.f.coord->slot[0].objects[WIRE_TRAIN].item.worker;
    return r.worker[0].wedged && at != 0 && at != r.worker[0].number;
}

/* A key that has joined many times does not get the input again and again: the next reader is a
 * worker of another key, whichever worker asks first. */
START_TEST(stall_an_index_goes_to_another_key)
{
    r.worker[0].wedge_kind = WIRE_NEXT_INDEX;
    job_start("ssp", WORKERS);
    for (uint32_t i = 0; i < WORKERS; i++) {
        struct env_who who = {.role = ROLE_WORKER};
        (void)snprintf(who.key, sizeof who.key, "%s", (int)i == _i ? "other" : "same");
        sim_node_who(r.worker[i].node, &who);
    }
    ck_assert(sim_run(r.f.sim, 60 * SECOND, index_moved, NULL));
    ck_assert_uint_eq(r.f.coord->slot[0].objects[WIRE_TRAIN].item.worker, r.worker[_i].number);
    run_to_the_end(120);
}
END_TEST

/* A worker gets no answer from a server that the coordinator still hears: both are named, and the
 * worker's lanes go to the other one. */
START_TEST(stall_a_cut_between_a_worker_and_a_server_is_named)
{
    bool told = false;
    r.worker[0].wedge_kind = WIRE_NEXT_TASK;
    r.worker[0].wedge_batch = 20;
    job_start("ssp", 2);
    while (!sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 10, over, NULL)) {
        r.worker[0].held_up.waits = r.worker[0].wedged ? 2 : 0; /* it waits for the server */
        r.worker[0].held_up.late_shard = 1;
        r.worker[0].held_up.late_ms += r.worker[0].wedged ? 100 : 0;
        r.worker[0].held_up.unnamed = _i == 1;
        struct json *j = status();
        told = told || problem(j, "worker worker-0 gets no answer from server server-1",
                               _i == 1 ? "has no address on the worker's machine" : "firewall");
        json_free(j);
        ck_assert_uint_lt(sim_now_ns(r.f.sim), 100 * SECOND);
    }
    ck_assert(told);
    run_to_the_end(1);
}
END_TEST

/* The only worker keeps its lanes: it may be slow. */
START_TEST(stall_the_only_worker_keeps_its_lanes)
{
    r.worker[0].step_ns = 5 * SECOND; /* more than three leases a batch */
    job_start("ssp", 1);
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + 100 * SECOND, over, NULL);
    ck_assert_uint_eq(r.worker[0].fenced + r.worker[0].leaves, 0);
    ck_assert_uint_ge(r.worker[0].batches, 20);
}
END_TEST

/* A worker that needs longer than the limit for a batch has twice the limit the next time. */
START_TEST(stall_a_slow_worker_gets_ever_longer)
{
    r.worker[0].step_ns = 4 * SECOND;
    job_start("async", 2);
    ck_assert(sim_run(r.f.sim, sim_now_ns(r.f.sim) + 600 * SECOND, over, NULL));
    ck_assert_int_eq(r.client.state, WIRE_JOB_DONE);
    ck_assert_uint_ge(r.worker[0].batches, 1);
}
END_TEST

/* A worker that one server does not answer still pulls from the others in each batch that it
 * begins. */
START_TEST(stall_bars_last_longer_until_a_batch_is_done)
{
    struct coord_worker w = {.stalls = 3, .moved_ns = 1};
    struct wire_WORKER_BEAT beat = {.keys_pulled = 10, .read_bytes = 5};
    coord_stall_beat(&w, &beat, 7);
    ck_assert_uint_eq(w.moved_ns, 7);
    ck_assert_uint_eq(w.stalls, 3);
    w.figures = beat;
    beat.batches = 1;
    coord_stall_beat(&w, &beat, 9);
    ck_assert_uint_eq(w.stalls, 0);
}
END_TEST

/* A stop that a server or a disk causes is not counted against a worker. */
START_TEST(stall_a_server_away_is_no_fault_of_workers)
{
    job_start("ssp", 2);
    while (r.worker[0].batches + r.worker[1].batches < 40)
        ck_assert(sim_step(r.f.sim));
    fake_shard_die(r.f.shard[1]);
    r.worker[0].wedged = r.worker[1].wedged = true;
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + 30 * SECOND, over, NULL);
    for (uint32_t i = 0; i < r.f.coord->slot[0].workers.count; i++)
        ck_assert_uint_eq(r.f.coord->slot[0].workers.worker[i].stalls, 0);
}
END_TEST

static uint32_t slow_told(const char *first, const char *second)
{
    struct json *j = status();
    bool told = problem(j, first, second);
    json_free(j);
    return told;
}

/* Slow connections are named: a server that is slow for one worker, and a worker for which all
 * servers are slow. */
START_TEST(stall_a_slow_way_is_named)
{
    for (uint32_t i = 0; i < 3; i++)
        r.worker[i].step_ns = SECOND / 4;
    job_start("ssp", 3);
    while (r.worker[0].batches < 1)
        ck_assert(sim_step(r.f.sim));
    for (uint32_t i = 0; i < 3; i++) {
        r.worker[i].held_up.slow_us = 3000;
        r.worker[i].held_up.usual_us = 2000;
    }
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 2, over, NULL);
    ck_assert(!slow_told("answers", "ms"));
    r.worker[1].held_up.slow_us = 200000;
    r.worker[1].held_up.slow_shard = 1;
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 2, over, NULL);
    ck_assert(slow_told("server server-1", "answers worker worker-1 in 200 ms, the others in 2.0"));
    r.worker[1].held_up.usual_us = 190000;
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 2, over, NULL);
    ck_assert(slow_told("worker worker-1 gets answers of servers in 190 ms", "2.0 ms"));
    ck_assert(!slow_told("server server-1", "answers worker"));
}
END_TEST

/* A worker's request to a server that has just ended takes ever longer, as one to a slow server. */
START_TEST(stall_a_server_that_has_ended_is_not_slow)
{
    r.worker[1].step_ns = SECOND / 4;
    r.f.coord->fleet.options.lease_ms = 10000;
    job_start("ssp", 2);
    while (r.worker[1].batches < 1)
        ck_assert(sim_step(r.f.sim));
    r.worker[1].held_up.slow_us = 200000;
    r.worker[1].held_up.usual_us = 2000;
    r.worker[1].held_up.slow_shard = 1;
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + SECOND / 2, over, NULL);
    ck_assert(slow_told("server server-1", "answers worker"));
    fake_shard_die(r.f.shard[1]);
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + 2 * SECOND, over, NULL);
    ck_assert(!slow_told("server server-1", "answers worker"));
    ck_assert(!slow_told("server server-1", "not heard"));
    (void)sim_run(r.f.sim, sim_now_ns(r.f.sim) + 2 * SECOND, over, NULL);
    ck_assert(slow_told("server server-1", "not heard"));
    ck_assert(!slow_told("server server-1", "answers worker"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stall");
    TCase *c = suite_case(s, "stall", 60, setup, teardown);
    tcase_add_loop_test(c, stall_a_worker_that_beats_alone_does_not_hold_the_job, 0, 9);
    tcase_add_test(c, stall_is_told_with_its_worker);
    tcase_add_test(c, stall_takes_nothing_from_those_that_wait);
    tcase_add_loop_test(c, stall_an_index_goes_to_another_key, 1, WORKERS);
    tcase_add_loop_test(c, stall_a_cut_between_a_worker_and_a_server_is_named, 0, 2);
    tcase_add_test(c, stall_the_only_worker_keeps_its_lanes);
    tcase_add_test(c, stall_a_slow_worker_gets_ever_longer);
    tcase_add_test(c, stall_bars_last_longer_until_a_batch_is_done);
    tcase_add_test(c, stall_a_server_away_is_no_fault_of_workers);
    tcase_add_test(c, stall_a_slow_way_is_named);
    tcase_add_test(c, stall_a_server_that_has_ended_is_not_slow);
    return suite_main(s);
}
