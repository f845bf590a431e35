/* test_slot.c: two jobs in one coordinator: each has its slot, its part of the store, and its
 * workers. */
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/job/crew.h"
#include "server/coord/job/handle.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/job/turns.h"
#include "tests/lib/spaces_rig.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim *sim;
static struct coord_store *store;
static struct coord *c;
static struct err e;
static uint32_t most = 2; /* jobs at the same time */

static void start(void)
{
    const struct coord_options options = {.shards = 1, .lease_ms = 1000, .jobs = most};
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    ck_assert_msg(coord_new(&options, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    sim = sim_new(&calm);
    store = coord_store_memory();
    start();
}

static void teardown(void)
{
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
}

/* Submits as the peer. Returns the slot that the job got; NULL: it waits for its turn. */
static struct coord_job *submit(const char *name, uint32_t lanes, peer_t from)
{
    char yaml[512];
    uint64_t run;
    (void)snprintf(yaml, sizeof yaml,
                   "job: %s\ndata: {format: libsvm, train: [a]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\n"
                   "train: {batch: 10, consistency: ssp, lanes: %u}\n",
                   name, lanes);
    const struct coord_submit s = {.yaml = yaml, .bytes = strlen(yaml), .from = ""};
    struct coord_job *j;
    ck_assert_msg(coord_turns_slot(c, from, &s, &j, &e) == 0, "%s", e.text);
    return j != NULL && coord_submit(j, from, &s, NULL, &run, &e) == 0 ? j : NULL;
}

/* A worker joins over its own connection. Returns the job that it got. */
static struct coord_job *join(peer_t peer, uint64_t *pass)
{
    struct wire w = {.type = WIRE_TYPE_WORKER_JOIN};
    struct coord_ask a = {.from = peer, .request = &w};
    (void)snprintf(w.u.WORKER_JOIN.name, sizeof w.u.WORKER_JOIN.name, "w%u", (uint32_t)peer);
    w.u.WORKER_JOIN.pid = (uint32_t)peer;
    struct coord_job *j =
        coord_crew_to_join(c, &w.u.WORKER_JOIN, peer, &(const struct coord_job *){NULL});
    ck_assert_msg(coord_handle_join(j, &a) == 0, "%s", a.e.text);
    *pass = a.reply.u.WORKER_JOIN_reply.pass;
    return j;
}

START_TEST(a_second_job_gets_the_other_slot_and_a_third_none)
{
    struct coord_job *one = submit("one", 2, 11), *two = submit("two", 3, 12);
    ck_assert_ptr_nonnull(one);
    ck_assert_ptr_nonnull(two);
    ck_assert_ptr_ne(one, two);
    ck_assert_ptr_eq(coord_slot_newest(c), two);
    ck_assert_ptr_null(submit("three", 2, 13));
    ck_assert(coord_phase_running(one) && one->tasks->lanes == 2 && two->tasks->lanes == 3);
}
END_TEST

START_TEST(a_job_that_is_sent_again_stays_in_its_slot)
{
    struct coord_job *one = submit("one", 2, 11);
    uint64_t run = one->at.number;
    ck_assert_ptr_eq(submit("one", 2, 11), one);
    ck_assert_uint_eq(one->at.number, run);
    ck_assert(!coord_phase_running(&c->slot[1]));
}
END_TEST

/* A job of a space whose job runs waits, whatever slots are free; one that has ended keeps its
 * slot for the next of its space, and a slot that never had a job comes before one that had. */
START_TEST(a_space_is_in_one_slot)
{
    struct coord_job *one = submit("one", 2, 11);
    ck_assert_ptr_null(submit("one", 3, 12));
    coord_end_fail(one, SHOAL_E_STOPPED, "stopped");
    struct coord_job *two = submit("two", 2, 13);
    ck_assert_ptr_ne(two, one);
    ck_assert_ptr_eq(submit("one", 3, 14), one);
}
END_TEST

/* The coordinator's file says jobs: 1 since: the job in the second slot goes on, and no other one
 * begins beside it. */
START_TEST(a_job_beyond_the_limit_goes_on)
{
    submit("one", 2, 11);
    uint64_t two = submit("two", 3, 12)->at.number;
    coord_free(c);
    most = 1;
    start();
    most = 2;
    ck_assert_uint_eq(c->slots, 2);
    ck_assert_uint_eq(c->slot[1].at.number, two);
    coord_end_fail(&c->slot[0], SHOAL_E_STOPPED, "stopped");
    ck_assert_ptr_null(submit("three", 2, 13));
    coord_end_fail(&c->slot[1], SHOAL_E_STOPPED, "stopped");
    ck_assert_ptr_nonnull(submit("three", 2, 13));
}
END_TEST

/* Each job has its own progress, text and lanes in the store. */
START_TEST(both_jobs_are_there_after_a_restart)
{
    uint64_t one = submit("one", 2, 11)->at.number, two = submit("two", 3, 12)->at.number;
    coord_free(c);
    start();
    ck_assert_uint_eq(c->slot[0].at.number, one);
    ck_assert_uint_eq(c->slot[1].at.number, two);
    ck_assert_str_eq(c->slot[0].spec.name, "one");
    ck_assert_str_eq(c->slot[1].spec.name, "two");
    ck_assert_uint_eq(c->slot[1].tasks->lanes, 3);
    ck_assert_ptr_eq(coord_slot_newest(c), &c->slot[1]);
}
END_TEST

/* The end of one job does not touch the other one, and frees its slot. */
START_TEST(one_job_ends_and_the_other_stays)
{
    struct coord_job *one = submit("one", 2, 11), *two = submit("two", 3, 12);
    coord_end_fail(one, SHOAL_E_STOPPED, "stopped");
    ck_assert(!coord_phase_running(one) && coord_phase_running(two));
    ck_assert_ptr_eq(submit("three", 4, 13), one);
    ck_assert_uint_eq(two->tasks->lanes, 3);
    ck_assert_ptr_eq(coord_slot_newest(c), one);
    coord_end_fail(one, SHOAL_E_STOPPED, "stopped");
    ck_assert_ptr_eq(coord_slot_newest(c), two); /* the one that runs, not the last one */
}
END_TEST

static void on_done(void *context, const struct coord_call *call, int status, const char *text)
{
    (void)context, (void)call, (void)status, (void)text;
}

/* The end of a job takes back what it has asked the shards, and nothing of another job or of the
 * fleet, which would wait for the answers without end. */
START_TEST(the_end_of_a_job_leaves_the_calls_of_others)
{
    struct coord_job *one = submit("one", 2, 11), *two = submit("two", 3, 12);
    const void *context[] = {one, two, &c->fleet};
    for (uint32_t i = 0; i < 3; i++)
        ck_assert(coord_call_start(&c->fleet.calls,
                                   &(struct coord_call){.context = (void *)(uintptr_t)context[i],
                                                        .request.type = WIRE_TYPE_DIGEST,
                                                        .target = 0,
                                                        .on_done = on_done}));
    coord_end_fail(one, SHOAL_E_CONFIG, "refused");
    ck_assert(!coord_call_open_type(&c->fleet.calls, one, WIRE_TYPE_DIGEST));
    ck_assert(coord_call_open_type(&c->fleet.calls, two, WIRE_TYPE_DIGEST));
    ck_assert(coord_call_open_type(&c->fleet.calls, &c->fleet, WIRE_TYPE_DIGEST));
}
END_TEST

/* A new worker goes to the job with the fewest. Its later questions are about the job that it
 * joined, which its pass names, even over another connection. */
START_TEST(workers_are_dealt_to_jobs_and_found_by_their_pass)
{
    struct coord_job *got[4], *one = submit("one", 2, 11), *two = submit("two", 3, 12);
    uint64_t pass[4];
    for (uint32_t i = 0; i < 4; i++)
        got[i] = join(100 + i, &pass[i]);
    ck_assert_uint_eq(one->workers.count, 2);
    ck_assert_uint_eq(two->workers.count, 2);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t again;
        ck_assert_ptr_eq(coord_slot_of(c, 999, &pass[i], ""), got[i]);
        ck_assert_ptr_eq(coord_slot_of(c, 100 + i, NULL, ""), got[i]);
        ck_assert_ptr_eq(join(100 + i, &again), got[i]);
        ck_assert_uint_eq(again, pass[i]);
    }
    uint64_t none = 1;
    ck_assert_ptr_eq(coord_slot_of(c, 999, &none, ""), two); /* unknown: the newest job answers */
}
END_TEST

/* A part sees only its own keys, and the whole store has them under the prefix. */
START_TEST(a_part_of_a_store_has_its_own_keys)
{
    struct coord_store *whole = coord_store_memory(), *part = coord_store_part(whole, "job2/");
    uint32_t mine = 7, theirs = 9, got = 0;
    ck_assert_int_eq(coord_store_put(whole, "progress", &theirs, sizeof theirs, &e), 0);
    ck_assert_int_eq(coord_store_get_fixed(part, "progress", &got, sizeof got, &e),
                     SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(coord_store_put(part, "progress", &mine, sizeof mine, &e), 0);
    ck_assert_int_eq(coord_store_get_fixed(part, "progress", &got, sizeof got, &e), 0);
    ck_assert_uint_eq(got, 7);
    ck_assert_int_eq(coord_store_get_fixed(whole, "progress", &got, sizeof got, &e), 0);
    ck_assert_uint_eq(got, 9);
    ck_assert_int_eq(coord_store_get_fixed(whole, "job2/progress", &got, sizeof got, &e), 0);
    ck_assert_int_eq(coord_store_remove(part, "progress", &e), 0);
    ck_assert_int_eq(coord_store_get_fixed(whole, "job2/progress", &got, sizeof got, &e),
                     SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(coord_store_get_fixed(whole, "progress", &got, sizeof got, &e), 0);
    coord_store_close(part);
    coord_store_close(whole);
}
END_TEST

static void again_with(uint32_t jobs)
{
    r.jobs = jobs;
    rig_coord_again();
}

/* jobs: is lowered, so that the slot of a job that has ended is gone, and raised again after
 * another job of its space, which runs (_i 1) or is done: that job keeps the space alone, and the
 * next one of the space takes its slot. */
START_TEST(a_space_is_in_one_slot_when_slots_come_back)
{
    rig_start();
    again_with(2);
    rig_job_run("two", "", NULL);
    rig_job_run("one", "", NULL);
    ck_assert_ptr_eq(r.coord->slot[1].space, rig_space("one"));
    again_with(1);
    ck_assert_uint_eq(r.coord->slots, 1);
    rig_job_begin("one", "", "fleet");
    while (r.coord->slot[0].at.phase != PHASE_TRAIN)
        rig_go(10);
    if (_i == 0)
        ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * RIG_SECOND, rig_over, NULL));
    again_with(2);
    const struct coord_job *slot = r.coord->slot;
    struct coord_space *none = coord_space_none(&r.coord->fleet.spaces);
    ck_assert_uint_eq(r.coord->slots, 2);
    ck_assert_ptr_eq(slot[0].space, rig_space("one"));
    ck_assert_ptr_eq(slot[1].space, none);
    ck_assert(rig_space("one")->used && !none->used);
    ck_assert(sim_run(r.sim, sim_now_ns(r.sim) + 60 * RIG_SECOND, rig_over, NULL));
    ck_assert_msg(r.client.state == WIRE_JOB_DONE, "%s", r.client.text);
    rig_job_run("one", "", "fleet");
    ck_assert_ptr_eq(slot[0].space, rig_space("one"));
    rig_job_run("two", "", "fleet");
    ck_assert_ptr_eq(slot[1].space, rig_space("two"));
    rig_stop();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slot");
    TCase *t = tcase_create("slots");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_second_job_gets_the_other_slot_and_a_third_none);
    tcase_add_test(t, a_job_that_is_sent_again_stays_in_its_slot);
    tcase_add_test(t, a_space_is_in_one_slot);
    tcase_add_test(t, a_job_beyond_the_limit_goes_on);
    tcase_add_test(t, both_jobs_are_there_after_a_restart);
    tcase_add_test(t, one_job_ends_and_the_other_stays);
    tcase_add_test(t, the_end_of_a_job_leaves_the_calls_of_others);
    tcase_add_test(t, workers_are_dealt_to_jobs_and_found_by_their_pass);
    tcase_add_test(t, a_part_of_a_store_has_its_own_keys);
    suite_add_tcase(s, t);
    t = tcase_create("spaces");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_space_is_in_one_slot_when_slots_come_back, 0, 2);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
