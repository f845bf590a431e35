/* test_turns.c: jobs that wait for their turn: which one begins, and when one is tried again. */
#include "server/coord/coord.h"
#include "server/coord/core/phase.h"
#include "server/coord/figures/jobs.h"
#include "server/coord/job/slot.h"
#include "server/coord/job/submit.h"
#include "server/coord/job/turns.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct sim *sim;
static struct coord_store *store;
static struct coord *c;
static struct err e;
static uint32_t at_once = 2;

static void start(void)
{
    const struct coord_options options = {.shards = 1, .lease_ms = 1000, .jobs = at_once};
    struct sim_node *node = sim_node_new(sim, "coordinator", NULL, NULL);
    ck_assert_msg(coord_new(&options, sim_node_env(node), store, &c, &e) == 0, "%s", e.text);
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    sim = sim_new(&calm);
    store = coord_store_memory();
    at_once = 2;
    start();
}

static void teardown(void)
{
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
}

/* Submits as `shoal submit` does. Returns the number, with what is said in e.text. */
static uint64_t submit(const char *space, uint32_t salt)
{
    static peer_t peer = 100;
    char yaml[512];
    uint64_t number = 0;
    (void)snprintf(yaml, sizeof yaml,
                   "job: %s-%u\nspace: %s\ndata: {format: libsvm, train: [a]}\n"
                   "tables: [{name: emb, dim: 4}]\nmodel: {kind: probe}\ntrain: {batch: 10}\n",
                   space, salt, space);
    const struct coord_submit s = {.yaml = yaml, .bytes = strlen(yaml), .from = ""};
    struct coord_ask a = {.from = peer++};
    struct coord_job *j;
    memset(&e, 0, sizeof e);
    ck_assert_msg(coord_turns_slot(c, a.from, &s, &j, &e) == 0, "%s", e.text);
    int rc = j == NULL ? coord_turns_take(c, &a, &s, &number, e.text, &e)
                       : coord_submit(j, a.from, &s, NULL, &number, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    return number;
}

static bool runs(uint64_t number)
{
    const struct coord_job *j = coord_slot_numbered(c, number);
    return j != NULL && coord_phase_running(j);
}

static void end(uint64_t number)
{
    coord_end_fail(coord_slot_numbered(c, number), SHOAL_E_STOPPED, "stopped");
    coord_turns_step(c);
}

/* The last try of the job was so much earlier. */
static void later(struct coord_queued *item, uint64_t ns)
{
    item->tried_ns -= ns;
    coord_turns_step(c);
}

START_TEST(a_job_that_waits_for_its_space_holds_back_no_other)
{
    uint64_t one = submit("one", 1), again = submit("one", 2);
    ck_assert_ptr_nonnull(strstr(e.text, "runs in space one"));
    uint64_t third = submit("one", 3);
    ck_assert_ptr_nonnull(strstr(e.text, "is before it and uses space one, too"));
    uint64_t two = submit("two", 4);
    coord_turns_step(c);
    ck_assert(runs(one) && runs(two) && !runs(again) && !runs(third));
    end(one);
    ck_assert(runs(again) && !runs(third));
    end(again);
    ck_assert(runs(third) && runs(two));
}
END_TEST

/* All places are taken: the oldest gets the one that becomes free, also before a job that is
 * submitted only then. */
START_TEST(places_are_given_in_order)
{
    uint64_t one = submit("one", 1), two = submit("two", 2), three = submit("three", 3),
             four = submit("four", 4);
    ck_assert_ptr_nonnull(strstr(e.text, "1 before it"));
    coord_turns_step(c);
    ck_assert(!runs(three) && !runs(four));
    coord_end_fail(coord_slot_numbered(c, one), SHOAL_E_STOPPED, "stopped");
    uint64_t five = submit("five", 5);
    coord_turns_step(c);
    ck_assert(runs(three) && !runs(four) && !runs(five));
    end(two);
    ck_assert(runs(four) && !runs(five));
}
END_TEST

/* The slot's former job still makes a checkpoint. The job that waits is tried after pauses that
 * double, or when that has changed, and asks the shards for nothing until it begins. */
START_TEST(a_job_is_tried_again_when_something_has_changed)
{
    coord_free(c);
    at_once = 1;
    start();
    uint64_t one = submit("one", 1), again = submit("one", 2);
    struct coord_job *j = coord_slot_numbered(c, one);
    struct coord_queued *item = &c->fleet.queue->item[0];
    coord_end_fail(j, SHOAL_E_STOPPED, "stopped");
    j->checkpoint->state = CHECKPOINT_EXPORTING;
    uint32_t calls = c->fleet.calls.count;
    coord_turns_step(c);
    coord_turns_step(c);
    ck_assert_uint_eq(item->tries, 1);
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t tries = item->tries;
        later(item, (SECOND << i) - SECOND / 10);
        ck_assert_uint_eq(item->tries, tries);
        later(item, SECOND / 5);
        ck_assert_uint_eq(item->tries, tries + 1);
    }
    ck_assert_uint_eq(c->fleet.calls.count, calls);
    struct json *list = json_new_array(); /* people are told what it waits for */
    coord_queue_lines(c->fleet.queue, list);
    const char *reason = json_get_string(json_array_at(list, 0), "reason", "");
    ck_assert_msg(strstr(reason, "of the last job is being made") != NULL, "%s", reason);
    json_free(list);
    j->checkpoint->state = CHECKPOINT_IDLE;
    coord_turns_step(c);
    ck_assert(runs(again));
}
END_TEST

/* The queue and the jobs at hand are there after a restart, and go on in the same order. */
START_TEST(the_order_outlives_the_coordinator)
{
    uint64_t one = submit("one", 1), again = submit("one", 2), two = submit("two", 3),
             three = submit("three", 4);
    coord_free(c);
    start();
    coord_turns_step(c);
    ck_assert(runs(one) && runs(two) && !runs(again) && !runs(three));
    end(one);
    ck_assert(runs(again) && !runs(three)); /* the oldest */
    end(two);
    ck_assert(runs(three));
}
END_TEST

START_TEST(a_job_that_ended_is_told_of)
{
    char said[ERR_TEXT_MAX];
    submit("one", 1);
    uint64_t again = submit("one", 2);
    ck_assert(!coord_jobs_ended(&c->fleet, again, said));
    ck_assert(coord_turns_stop(c, again));
    ck_assert(!coord_turns_stop(c, again));
    ck_assert(coord_jobs_ended(&c->fleet, again, said));
    ck_assert_str_eq(said, "job one-2 has ended already, stopped: stopped by request");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("turns");
    TCase *t = tcase_create("turns");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_job_that_waits_for_its_space_holds_back_no_other);
    tcase_add_test(t, places_are_given_in_order);
    tcase_add_test(t, a_job_is_tried_again_when_something_has_changed);
    tcase_add_test(t, the_order_outlives_the_coordinator);
    tcase_add_test(t, a_job_that_ended_is_told_of);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
