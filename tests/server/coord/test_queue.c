/* test_queue.c: jobs that wait for their turn: stored, bounded, taken out. */
#include "server/coord/coord.h"
#include "server/coord/figures/queue.h"
#include "server/coord/job/slot.h"
#include "tests/sim/sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim *sim;
static struct coord_store *store;
static struct coord *c;
static struct err e;

static int start(void)
{
    const struct coord_options options = {.shards = 1, .lease_ms = 1000};
    struct sim_node *node = sim_node_new(sim, "coordinator", &coord_handler, NULL);
    memset(&e, 0, sizeof e);
    return coord_new(&options, sim_node_env(node), store, &c, &e);
}

static void setup(void)
{
    static const struct sim_options calm = {.seed = 7, .delay_min_ns = 1, .delay_max_ns = 2};
    sim = sim_new(&calm);
    store = coord_store_memory();
    ck_assert_msg(start() == 0, "%s", e.text);
}

static void teardown(void)
{
    coord_free(c);
    coord_store_close(store);
    sim_free(sim);
}

static struct coord_queue *queue(void)
{
    return c->fleet.queue;
}

static int add(const char *job, const char *text, size_t bytes, peer_t peer)
{
    struct coord_queue_head head = {.workers = 2, .start = 1, .from = "fleet", .space = "s"};
    (void)snprintf(head.job, sizeof head.job, "%s", job);
    memset(&e, 0, sizeof e);
    return coord_queue_add(&c->fleet, &head, text, bytes, peer, &e);
}

START_TEST(queue_survives_a_restart)
{
    ck_assert_int_eq(add("one", "text 1", 6, 11), 0);
    ck_assert_int_eq(add("two", "text 22", 7, 12), 0);
    ck_assert_int_eq(add("three", "", 0, 13), 0);
    ck_assert(coord_queue_remove(&c->fleet, 1));
    uint64_t first = queue()->item[0].head.number, last = queue()->item[1].head.number;
    ck_assert_uint_lt(first, last);
    coord_free(c);
    ck_assert_msg(start() == 0, "%s", e.text);
    ck_assert_uint_eq(queue()->count, 2);
    ck_assert_uint_eq(queue()->bytes, 6);
    const struct coord_queued *one = &queue()->item[0];
    ck_assert(one->head.number == first && one->head.workers == 2 && one->head.start == 1);
    ck_assert_str_eq(one->head.job, "one");
    ck_assert_str_eq(one->head.from, "fleet");
    ck_assert_int_eq(memcmp(one->yaml, "text 1", 6), 0);
    ck_assert_uint_eq(one->peer, 0);
    ck_assert_uint_eq(coord_queue_find(queue(), last), 1);
    ck_assert_uint_eq(coord_queue_find(queue(), first + 1), 2);
    ck_assert_int_eq(add("four", "text", 4, 14), 0);
    ck_assert_uint_gt(queue()->item[2].head.number, last);
}
END_TEST

START_TEST(queue_has_a_bound)
{
    size_t most = 5u << 20;
    char *large = calloc(1, most);
    ck_assert_ptr_nonnull(large);
    for (uint32_t i = 0; i < 3; i++)
        ck_assert_int_eq(add("large", large, most, i), 0);
    ck_assert_int_eq(add("large", large, most, 9), SHOAL_E_BUSY);
    ck_assert_ptr_nonnull(strstr(e.text, "3 jobs wait already"));
    free(large);
    while (queue()->count < COORD_QUEUE_MAX)
        ck_assert_int_eq(add("small", "text", 4, 10), 0);
    ck_assert_int_eq(add("small", "text", 4, 10), SHOAL_E_BUSY);
    ck_assert(coord_queue_remove(&c->fleet, 0));
    ck_assert_int_eq(add("small", "text", 4, 10), 0);
}
END_TEST

/* A SUBMIT that is sent again over the same connection is that of the job that waits. */
START_TEST(queue_knows_a_job_that_is_sent_again)
{
    ck_assert_int_eq(add("one", "text 1", 6, 11), 0);
    ck_assert_int_eq(add("two", "text 2", 6, 11), 0);
    const struct coord_queue_head head = queue()->item[1].head;
    struct coord_queue_head other = head;
    other.start = 0;
    ck_assert_uint_eq(coord_queue_again(queue(), &head, "text 2", 6, 11), 1);
    ck_assert_uint_eq(coord_queue_again(queue(), &head, "text 2", 6, 12), 2);
    ck_assert_uint_eq(coord_queue_again(queue(), &head, "text 3", 6, 11), 2);
    ck_assert_uint_eq(coord_queue_again(queue(), &other, "text 2", 6, 11), 2);
    coord_free(c); /* after a restart any connection may be that of the client */
    ck_assert_msg(start() == 0, "%s", e.text);
    ck_assert_uint_eq(coord_queue_again(queue(), &head, "text 2", 6, 12), 1);
    ck_assert_uint_eq(coord_queue_again(queue(), &head, "text 3", 6, 12), 2);
}
END_TEST

START_TEST(queue_in_a_damaged_store_is_refused)
{
    ck_assert(coord_put(&c->fleet, "queue/00000000000000000001", "short", 5));
    coord_free(c);
    c = NULL;
    ck_assert_int_eq(start(), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "a stored job that waits cannot be"));
    c = NULL;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("queue");
    TCase *t = tcase_create("queue");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, queue_survives_a_restart);
    tcase_add_test(t, queue_has_a_bound);
    tcase_add_test(t, queue_knows_a_job_that_is_sent_again);
    tcase_add_test(t, queue_in_a_damaged_store_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
