/* test_bad_lines.c: the first malformed line of a file is reported, whatever the order of the
 * reports. */
#include "proto/job/bad_lines.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(bad_lines_are_compared_by_number_within_a_file)
{
    ck_assert(bad_lines_before("a.csv:9: x", "a.csv:10: x"));
    ck_assert(!bad_lines_before("a.csv:10: x", "a.csv:9: x"));
    ck_assert(!bad_lines_before("a.csv:9: x", "a.csv:9: y"));
    ck_assert(bad_lines_before("a.csv:900: x", "b.csv:1: x"));
    ck_assert(bad_lines_before("a:b.csv:2: no: 1: 2", "a:b.csv:10: x"));
}
END_TEST

START_TEST(bad_lines_without_a_number_are_texts)
{
    ck_assert(bad_lines_before("a", "b"));
    ck_assert(!bad_lines_before("b", "a"));
    ck_assert(!bad_lines_before("", ""));
    ck_assert(!bad_lines_before("a:99999999999999999999999: x", "a:99999999999999999999999: x"));
}
END_TEST

START_TEST(bad_lines_least_is_the_first_of_those_seen)
{
    char least[32] = "";
    bad_lines_least(least, sizeof least, "a.csv:12: x");
    bad_lines_least(least, sizeof least, "a.csv:7: y");
    bad_lines_least(least, sizeof least, "a.csv:30: z");
    bad_lines_least(least, sizeof least, "");
    ck_assert_str_eq(least, "a.csv:7: y");
}
END_TEST

START_TEST(bad_lines_are_told_in_percent)
{
    struct err e;
    ck_assert_int_eq(bad_lines_refuse(&e, "data.train: ", 201, 201, 0.001, "a.csv:2: x"),
                     SHOAL_E_DATA);
    ck_assert_str_eq(e.text, "data.train: 201 of 201 lines (100 %) are malformed, data.max_bad "
                             "allows 0.1 %; the first seen: a.csv:2: x");
    bad_lines_refuse(&e, "", 1, 8, 0, "");
    ck_assert_ptr_nonnull(strstr(e.text, "(12.5 %) are malformed, data.max_bad allows 0 %"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("bad_lines");
    TCase *t = tcase_create("bad_lines");
    tcase_add_test(t, bad_lines_are_compared_by_number_within_a_file);
    tcase_add_test(t, bad_lines_without_a_number_are_texts);
    tcase_add_test(t, bad_lines_least_is_the_first_of_those_seen);
    tcase_add_test(t, bad_lines_are_told_in_percent);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
