/* test_mark.c: the push rule and the lowest marks. */
#include "embedding/rows/mark.h"

#include "proto/base/err.h"
#include "proto/base/rng.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TABLETS = 64 };
static uint8_t led[TABLETS];
static uint32_t before[TABLETS + 1];

static struct mark_scope scope_of(uint32_t led_first, uint32_t led_count)
{
    struct mark_scope s = {.tablets = TABLETS, .led = led, .led_before = before};
    for (uint32_t i = 0; i < TABLETS; i++) {
        led[i] = i - led_first < led_count;
        before[i] = s.led_count;
        s.led_count += led[i];
    }
    before[TABLETS] = s.led_count;
    return s;
}

START_TEST(rule_takes_skips_and_gaps)
{
    ck_assert_int_eq(mark_push_rule(0, 0, 1), PUSH_TAKE);
    ck_assert_int_eq(mark_push_rule(5, 3, 6), PUSH_TAKE);
    ck_assert_int_eq(mark_push_rule(3, 3, 6), PUSH_TAKE);
    ck_assert_int_eq(mark_push_rule(6, 3, 6), PUSH_SKIP);
    ck_assert_int_eq(mark_push_rule(9, 3, 6), PUSH_SKIP);
    ck_assert_int_eq(mark_push_rule(2, 3, 6), PUSH_GAP);
}
END_TEST

START_TEST(range_is_taken_whole_in_part_or_not)
{
    struct mark_scope s = scope_of(0, TABLETS);
    struct marks *m = marks_new(2);
    struct mark_plan p;
    uint8_t take[TABLETS] = {0};
    marks_refresh(m, 0, &s);
    ck_assert_int_eq(marks_reserve(m, 1, 0, TABLETS), 0);
    marks_plan(m, 1, 0, 0, 32, 0, 1, &p);
    ck_assert_int_eq(p.verdict, PUSH_TAKE);
    ck_assert_uint_eq(p.applied, 32);
    marks_move(m, 1, 0, 0, 32, 1, NULL, &s);
    ck_assert_uint_eq(marks_lowest(m, 1, 0), 0);

    marks_plan(m, 1, 0, 0, 64, 0, 1, &p);
    ck_assert_int_eq(p.verdict, PUSH_SOME);
    ck_assert_uint_eq(p.applied, 32);
    ck_assert_uint_eq(p.skipped, 32);
    marks_take(m, 1, 0, 0, 64, 0, 1, take);
    ck_assert_uint_eq(take[31], 0);
    ck_assert_uint_eq(take[32], 1);
    marks_move(m, 1, 0, 0, 64, 1, take, &s);
    ck_assert_uint_eq(marks_lowest(m, 1, 0), 1);

    marks_plan(m, 1, 0, 0, 64, 0, 1, &p);
    ck_assert_int_eq(p.verdict, PUSH_SKIP);
    ck_assert_uint_eq(p.skipped, 64);
    marks_move(m, 1, 0, 0, 1, 4, NULL, &s);
    marks_plan(m, 1, 0, 0, 64, 4, 5, &p);
    ck_assert_int_eq(p.verdict, PUSH_GAP);
    ck_assert_uint_eq(p.lowest, 1);
    ck_assert_uint_eq(marks_lowest(m, 0, 0), 0);
    marks_free(m);
}
END_TEST

/* Each tablet of the range counts, its first and its last included. */
START_TEST(one_tablet_that_lags_makes_a_gap)
{
    struct mark_scope s = scope_of(0, TABLETS);
    for (uint32_t k = 0; k < TABLETS; k++) {
        struct marks *m = marks_new(1);
        struct mark_plan p;
        marks_refresh(m, 0, &s);
        ck_assert_int_eq(marks_reserve(m, 0, 0, TABLETS), 0);
        marks_move(m, 0, 0, 0, TABLETS, 3, NULL, &s);
        for (uint32_t i = 0; i < TABLETS; i++)
            if (i != k)
                marks_move(m, 0, 0, i, 1, 5, NULL, &s);
        marks_plan(m, 0, 0, 0, TABLETS, 5, 6, &p);
        ck_assert_int_eq(p.verdict, PUSH_GAP);
        ck_assert_uint_eq(p.lowest, 3);
        ck_assert_uint_eq(p.highest, 5);
        marks_free(m);
    }
}
END_TEST

/* The steps are the sum of the three lanes' lowest marks. */
static void check_steps(const struct marks *m, uint32_t table)
{
    uint64_t steps = 0;
    for (uint32_t lane = 0; lane < 3; lane++)
        steps += marks_lowest(m, lane, table);
    ck_assert_uint_eq(marks_steps(m, table), steps);
}

START_TEST(lowest_is_what_a_search_finds)
{
    struct rng r = {11};
    struct mark_scope s = scope_of(8, 40);
    struct marks *m = marks_new(3);
    marks_refresh(m, 2, &s);
    for (int round = 0; round < 2000; round++) {
        uint32_t lane = (uint32_t)rng_below(&r, 3), first = 8 + (uint32_t)rng_below(&r, 40);
        uint32_t count =
            rng_below(&r, 3) == 0 ? 48 - first : 1 + (uint32_t)rng_below(&r, 48 - first);
        uint64_t to = 1 + rng_below(&r, 1000);
        if (rng_below(&r, 4) == 0) {
            first = 8;
            count = 40;
        }
        ck_assert_int_eq(marks_reserve(m, lane, 2, TABLETS), 0);
        marks_move(m, lane, 2, first, count, to, NULL, &s);
        uint64_t low = UINT64_MAX;
        for (uint32_t i = 8; i < 48; i++) {
            uint64_t mark = marks_get(m, lane, 2, i);
            low = mark < low ? mark : low;
        }
        ck_assert_uint_eq(marks_lowest(m, lane, 2), low);
        if (round % 100 == 0) /* counted anew, as after a recovery */
            marks_refresh(m, 2, &s);
        check_steps(m, 2);
    }
    s = scope_of(0, 0);
    marks_refresh(m, 2, &s);
    ck_assert_uint_eq(marks_steps(m, 2), 0);
    marks_free(m);
}
END_TEST

/* Each led tablet counts, the table's first and last included; a tablet beside them does not. */
START_TEST(the_lowest_is_that_of_any_led_tablet)
{
    const struct {
        uint32_t first, count;
    } range[] = {{0, TABLETS}, {8, 40}};
    for (size_t n = 0; n < sizeof range / sizeof range[0]; n++)
        for (uint32_t k = 0; k < TABLETS; k++) {
            struct mark_scope s = scope_of(range[n].first, range[n].count);
            struct marks *m = marks_new(1);
            for (uint32_t i = 0; i < TABLETS; i++)
                ck_assert_int_eq(marks_set(m, 0, 0, TABLETS, i, i == k ? 3 : 5), 0);
            marks_refresh(m, 0, &s);
            ck_assert_uint_eq(marks_lowest(m, 0, 0), led[k] ? 3 : 5);
            ck_assert_int_eq(marks_set(m, 0, 0, TABLETS, k, 0), 0);
            ck_assert_uint_eq(marks_get(m, 0, 0, k), 0);
            marks_refresh(m, 0, &s);
            ck_assert_uint_eq(marks_lowest(m, 0, 0), led[k] ? 0 : 5);
            marks_free(m);
        }
}
END_TEST

START_TEST(arrays_are_counted)
{
    struct marks *m = marks_new(2);
    ck_assert_uint_eq(marks_bytes(m), 0);
    uint64_t most = marks_bytes_most(2, TABLETS), one = most - TABLETS * sizeof(uint64_t);
    for (int turn = 0; turn < 2; turn++) {
        ck_assert_int_eq(marks_reserve(m, 1, 3, TABLETS), 0);
        ck_assert_uint_eq(marks_bytes(m), one);
    }
    ck_assert_int_eq(marks_reserve(m, 0, 3, TABLETS), 0);
    ck_assert_uint_eq(marks_bytes(m), most);
    marks_free(m);
}
END_TEST

START_TEST(what_is_not_led_does_not_count)
{
    struct mark_scope s = scope_of(0, 0);
    struct marks *m = marks_new(1);
    marks_refresh(m, 0, &s);
    ck_assert_uint_eq(marks_lowest(m, 0, 0), UINT64_MAX);
    ck_assert_uint_eq(marks_lowest(m, 0, 1), UINT64_MAX);
    s = scope_of(3, 1);
    ck_assert_int_eq(marks_set(m, 0, 0, TABLETS, 3, 17), 0);
    marks_refresh(m, 0, &s);
    ck_assert_uint_eq(marks_lowest(m, 0, 0), 17);
    marks_free(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mark");
    TCase *t = tcase_create("mark");
    tcase_add_test(t, rule_takes_skips_and_gaps);
    tcase_add_test(t, range_is_taken_whole_in_part_or_not);
    tcase_add_test(t, one_tablet_that_lags_makes_a_gap);
    tcase_add_test(t, lowest_is_what_a_search_finds);
    tcase_add_test(t, the_lowest_is_that_of_any_led_tablet);
    tcase_add_test(t, arrays_are_counted);
    tcase_add_test(t, what_is_not_led_does_not_count);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
