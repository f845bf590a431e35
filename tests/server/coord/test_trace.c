/* test_trace.c: the training curve covers all of a job in a bounded number of points. */
#include "server/coord/figures/trace.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct coord_point report_of(uint64_t i)
{
    return (struct coord_point){.job = 7,
                                .reports = 1,
                                .epoch = (uint32_t)(i / 100),
                                .seen = 10 * (i + 1),
                                .seconds = (double)i,
                                .examples = 10,
                                .batches = 2,
                                .loss = (double)i,
                                .weight = 1,
                                .dense_norm = 1,
                                .pulls = 3};
}

START_TEST(coord_curve_sums_everything_in_order)
{
    struct coord_curve c;
    static const uint32_t reports[] = {1, 999, 1000, 1001, 1002, 5000, 123456};
    struct coord_point all = {.job = 0};
    ck_assert_int_eq(coord_curve_open(&c, NULL), 0);
    for (uint64_t i = 0; i < reports[_i]; i++) {
        struct coord_point p = report_of(i);
        (void)coord_curve_add(&c, &p);
        ck_assert_uint_le(c.count, COORD_CURVE_MAX);
    }
    for (uint32_t i = 0; i < c.count; i++) {
        ck_assert_uint_eq(c.point[i].reports, c.stride);
        ck_assert_uint_eq(c.point[i].seen, 10 * (i + 1) * c.stride);
        coord_point_add(&all, &c.point[i]);
    }
    coord_point_add(&all, &c.open);
    ck_assert_uint_eq(all.reports, reports[_i]);
    ck_assert_uint_eq(all.examples, 10ull * reports[_i]);
    ck_assert_double_eq(all.loss, (double)reports[_i] * (reports[_i] - 1) / 2);
    ck_assert(reports[_i] < 2000 || c.count >= COORD_CURVE_MAX / 2);
    coord_curve_close(&c);
}
END_TEST

/* Storing only the reported changes is enough: such a copy always equals the curve. */
START_TEST(coord_curve_comes_back_from_what_was_stored)
{
    static struct coord_point stored[COORD_CURVE_MAX];
    struct coord_curve c, again;
    memset(stored, 0, sizeof stored);
    ck_assert_int_eq(coord_curve_open(&c, NULL), 0);
    for (uint64_t i = 0; i < 4321; i++) {
        struct coord_point p = report_of(i);
        enum coord_curve_change change = coord_curve_add(&c, &p);
        if (change == COORD_CURVE_JOINED)
            memcpy(stored, c.point, c.count * sizeof stored[0]);
        else if (change == COORD_CURVE_POINT)
            stored[c.count - 1] = c.point[c.count - 1];
        if (i % 97 != 0)
            continue;
        ck_assert_int_eq(coord_curve_open(&again, NULL), 0);
        for (uint32_t k = 0; k < COORD_CURVE_MAX && coord_curve_restore(&again, 7, &stored[k]); k++)
            continue;
        ck_assert_uint_eq(again.count, c.count);
        ck_assert(c.count == 0 || again.stride == c.stride);
        ck_assert(c.count == 0 || memcmp(again.point, c.point, c.count * sizeof *c.point) == 0);
        coord_curve_close(&again);
    }
    ck_assert_int_eq(coord_curve_open(&again, NULL), 0);
    ck_assert(!coord_curve_restore(&again, 8, &stored[0])); /* another job's */
    coord_curve_close(&again);
    coord_curve_close(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_curve");
    TCase *t = tcase_create("curve");
    tcase_add_loop_test(t, coord_curve_sums_everything_in_order, 0, 7);
    tcase_add_test(t, coord_curve_comes_back_from_what_was_stored);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
