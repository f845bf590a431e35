/* test_report.c: which stage limits, by hand. */
#include "server/coord/job/report.h"

#include <check.h>
#include <math.h>

static struct coord_bottleneck found;

/* 100 s of lanes: 80 of compute, 5 waiting for parsed batches, 10 for rows, 1 for acknowledgements,
 * and 4 held by the staleness bound. Parsing alone would take 40 s, which is the rest without
 * compute. */
START_TEST(bottleneck_is_the_largest_charge)
{
    struct wire_WORKER_BEAT sum = {.compute_s = 80,
                                   .read_s = 5,
                                   .pull_s = 10,
                                   .push_s = 1,
                                   .held_s = 4,
                                   .wait_s = 1000,
                                   .compute_busy_s = 78,
                                   .file_busy_s = 2,
                                   .parse_busy_s = 78,
                                   .read_least_s = 40,
                                   .pull_least_s = 15,
                                   .push_least_s = 3};
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.stage, "compute");
    ck_assert_str_eq(found.next, "parse");
    ck_assert_double_eq_tol(found.share, 0.8, 1e-12);
    ck_assert_double_eq_tol(found.speedup_if_free, 2.5, 1e-12);
    sum.read_least_s = 10; /* now the sum of all others is larger: 20 s, most of them for pulls */
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.next, "pull");
    ck_assert_double_eq_tol(found.speedup_if_free, 5.0, 1e-12);
}
END_TEST

START_TEST(bottleneck_tells_files_from_parsing)
{
    struct wire_WORKER_BEAT sum = {
        .read_s = 60, .compute_s = 40, .compute_busy_s = 40, .file_busy_s = 1, .parse_busy_s = 99};
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.stage, "parse");
    ck_assert_str_eq(found.next, "compute");
    ck_assert_double_eq_tol(found.speedup_if_free, 2.5, 1e-12);
    sum.file_busy_s = 100;
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.stage, "read");
}
END_TEST

START_TEST(bottleneck_may_be_the_bound)
{
    struct wire_WORKER_BEAT sum = {
        .held_s = 50, .compute_s = 30, .compute_busy_s = 30, .pull_s = 20};
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.stage, "bound");
    ck_assert_double_eq_tol(found.share, 0.5, 1e-12);
    ck_assert_double_eq_tol(found.speedup_if_free, 2.0, 1e-12);
}
END_TEST

/* The limit is never slower than the job was; it is empty if no work was done, and infinite if
 * there is no other stage. */
START_TEST(bottleneck_knows_its_limits)
{
    struct wire_WORKER_BEAT sum = {.compute_s = 10, .read_s = 1, .read_least_s = 30};
    coord_bottleneck_find(&sum, &found);
    ck_assert_double_eq(found.speedup_if_free, 1.0);
    sum = (struct wire_WORKER_BEAT){.wait_s = 5};
    coord_bottleneck_find(&sum, &found);
    ck_assert_ptr_null(found.stage);
    sum = (struct wire_WORKER_BEAT){.compute_s = 5};
    coord_bottleneck_find(&sum, &found);
    ck_assert_str_eq(found.stage, "compute");
    ck_assert(isinf(found.speedup_if_free));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_bottleneck");
    TCase *c = tcase_create("coord_bottleneck");
    tcase_add_test(c, bottleneck_is_the_largest_charge);
    tcase_add_test(c, bottleneck_tells_files_from_parsing);
    tcase_add_test(c, bottleneck_may_be_the_bound);
    tcase_add_test(c, bottleneck_knows_its_limits);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
