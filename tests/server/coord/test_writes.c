/* test_writes.c: the times of the store's transactions, and the sentence on a slow store. */
#include "proto/base/err.h"
#include "server/coord/fleet/writes.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <math.h>
#include <string.h>

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

START_TEST(writes_are_timed_from_begin_to_end)
{
    struct coord_writes w = {.begun = 7, .complete = 7};
    uint64_t count;
    ck_assert(isnan(coord_writes_mean_s(&w, &count)) && count == 0);
    coord_writes_begun(&w, 8, 1000 * MS);
    coord_writes_complete(&w, 8, 1002 * MS);
    coord_writes_begun(&w, 10, 2000 * MS); /* two, the second one later */
    coord_writes_begun(&w, 11, 2003 * MS);
    coord_writes_complete(&w, 11, 2004 * MS);
    ck_assert_double_eq_tol(coord_writes_mean_s(&w, &count), (2 + 4 + 4 + 1) * 1e-3 / 4, 1e-12);
    ck_assert_uint_eq(count, 4);
}
END_TEST

START_TEST(writes_that_stand_still_are_known)
{
    struct coord_writes w = {.begun = 0};
    ck_assert_uint_eq(coord_writes_stand_ns(&w, 5 * SECOND), 0);
    coord_writes_begun(&w, 1, 10 * SECOND);
    coord_writes_begun(&w, 2, 12 * SECOND);
    ck_assert_uint_eq(coord_writes_stand_ns(&w, 13 * SECOND), 3 * SECOND);
    coord_writes_complete(&w, 1, 14 * SECOND); /* it gets on */
    ck_assert_uint_eq(coord_writes_stand_ns(&w, 15 * SECOND), SECOND);
    coord_writes_complete(&w, 2, 16 * SECOND);
    ck_assert_uint_eq(coord_writes_stand_ns(&w, 20 * SECOND), 0);
}
END_TEST

/* While more transactions are under way than the ring holds, the newest ones are timed. */
START_TEST(writes_beyond_the_ring_are_not_timed)
{
    struct coord_writes w = {.begun = 0};
    uint64_t count;
    for (uint32_t i = 1; i <= 3 * COORD_WRITES; i++)
        coord_writes_begun(&w, i, i * MS);
    coord_writes_complete(&w, 3 * COORD_WRITES, 3 * COORD_WRITES * MS);
    ck_assert_double_eq_tol(coord_writes_mean_s(&w, &count), (COORD_WRITES - 1) * 0.5e-3, 1e-9);
    ck_assert_uint_eq(count, COORD_WRITES);
}
END_TEST

START_TEST(writes_that_are_slow_are_a_problem)
{
    struct coord_writes w = {.begun = 0};
    char text[ERR_TEXT_MAX];
    coord_writes_begun(&w, 1, SECOND);
    ck_assert(!coord_writes_problem(&w, "/var/lib/c", 3 * SECOND, text, sizeof text));
    ck_assert(coord_writes_problem(&w, "zookeeper://z/shoal", 5 * SECOND, text, sizeof text));
    ck_assert_str_eq(text,
                     "the coordinator's store, zookeeper://z/shoal, has completed no write for "
                     "4 s: workers and orders wait for it: see ZooKeeper's log and disk, and "
                     "the network to it");
    coord_writes_complete(&w, 1, 6 * SECOND);
    ck_assert(coord_writes_problem(&w, "/var/lib/c", 9 * SECOND, text, sizeof text));
    ck_assert_str_eq(text,
                     "the coordinator's store, /var/lib/c, took 5 s for a write, which ended 3 "
                     "s ago: workers and orders wait for each: see that disk, and what else "
                     "writes to it");
    ck_assert(coord_writes_problem(&w, "/var/lib/c", 36 * SECOND, text, sizeof text));
    ck_assert(!coord_writes_problem(&w, "/var/lib/c", 37 * SECOND, text, sizeof text));
    coord_writes_begun(&w, 2, 40 * SECOND); /* one that takes its time, and is not slow */
    coord_writes_complete(&w, 2, 42 * SECOND);
    ck_assert(!coord_writes_problem(&w, "/var/lib/c", 43 * SECOND, text, sizeof text));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_writes");
    TCase *t = suite_case(s, "writes", 10, NULL, NULL);
    tcase_add_test(t, writes_are_timed_from_begin_to_end);
    tcase_add_test(t, writes_that_stand_still_are_known);
    tcase_add_test(t, writes_beyond_the_ring_are_not_timed);
    tcase_add_test(t, writes_that_are_slow_are_a_problem);
    return suite_main(s);
}
