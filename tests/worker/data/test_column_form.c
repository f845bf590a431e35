/* test_column_form.c: the forms of cells are counted; memory is bounded by the limit. */
#include "worker/data/column_form.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct column_form f;

static void setup(void)
{
    column_form_init(&f, 1024);
}

static void teardown(void)
{
    column_form_free(&f);
}

static void add(const char *text)
{
    struct cell c = {text, (uint32_t)strlen(text)};
    ck_assert_int_eq(column_form_add(&f, &c, false), 0);
}

START_TEST(column_form_words_for_nothing_are_no_values)
{
    add("NA");
    add("\\N");
    add("");
    add("7");
    ck_assert_uint_eq(column_form_values(&f), 1);
    ck_assert_uint_eq(f.seen.numbers, 1);
}
END_TEST

START_TEST(column_form_numbers_are_told_apart)
{
    add("12");
    add("-3");
    add("007");
    add("1.5");
    add("2,5");
    ck_assert_uint_eq(f.wholes, 3);
    ck_assert_uint_eq(f.negatives, 1);
    ck_assert_uint_eq(f.padded, 1);
    ck_assert_uint_eq(f.seen.fractions, 1);
    ck_assert_uint_eq(f.commas, 1);
}
END_TEST

START_TEST(column_form_commas_are_decimal_or_between_thousands)
{
    add("1,5");
    add("0,123");
    add("1234,567");
    add("2,714");
    ck_assert(column_form_decimal(&f));
    add("1,234,567");
    add("-12,345.6");
    ck_assert_uint_eq(f.commas, 3);
    ck_assert_uint_eq(f.either, 1);
    ck_assert_uint_eq(f.thousands, 2);
    ck_assert(column_form_numbers(&f));
    ck_assert(!column_form_decimal(&f));
    add("1,23,456");
    ck_assert(!column_form_numbers(&f));
}
END_TEST

START_TEST(column_form_one_comma_before_three_digits_may_be_either)
{
    add("2,714");
    add("999");
    ck_assert(column_form_numbers(&f));
    ck_assert(!column_form_decimal(&f));
}
END_TEST

static void check_time(const char *text, const char *called)
{
    teardown();
    setup();
    add(text);
    uint32_t form = column_form_time(&f);
    ck_assert_msg(form < FORM_TIMES, "%s is no time", text);
    ck_assert_str_eq(column_form_called(form), called);
}

START_TEST(column_form_times_are_found)
{
    check_time("1767225600", "seconds since 1970");
    check_time("1767225600123", "milliseconds since 1970");
    check_time("1767225600123456", "microseconds since 1970");
    check_time("2026-01-01 10:00:00", "a date");
    check_time("2026-01-01T10:00", "a date");
    check_time("20260101", "YYYYMMDD");
    check_time("26010123", "YYMMDDHH");
    check_time("2026010123", "YYYYMMDDHH");
    check_time("31/12/2026", "DD/MM/YYYY");
    check_time("12/31/2026", "MM/DD/YYYY");
}
END_TEST

START_TEST(column_form_other_numbers_are_no_times)
{
    add("34");
    ck_assert_uint_eq(column_form_time(&f), FORM_TIMES);
    teardown();
    setup();
    add("1767225600");
    add("5");
    ck_assert_uint_eq(column_form_time(&f), FORM_TIMES);
}
END_TEST

START_TEST(column_form_times_that_go_back_are_counted_within_a_file)
{
    add("1767225600");
    add("1767225500");
    column_form_file(&f);
    add("1767225400");
    ck_assert_uint_eq(f.time[column_form_time(&f)].back, 1);
}
END_TEST

START_TEST(column_form_lists_have_the_separator_of_the_first)
{
    add("a");
    add("a|b");
    add("b|c|d");
    ck_assert_int_eq(f.separator, '|');
    ck_assert_uint_eq(f.listed, 2);
    ck_assert_uint_eq(f.pieces, 6);
    ck_assert_uint_eq(f.pieces_most, 3);
    ck_assert_uint_eq(f.piece.distinct, 4);
    ck_assert_uint_eq(f.weighted, 0);
}
END_TEST

START_TEST(column_form_weights_of_a_list_are_no_part_of_its_values)
{
    add("12:0.5|7:1.2");
    add("12:2|9:1");
    ck_assert_uint_eq(f.weighted, 4);
    ck_assert_uint_eq(f.piece.distinct, 3);
}
END_TEST

START_TEST(column_form_many_values_are_estimated_in_bounded_memory)
{
    char text[16];
    for (int i = 0; i < 200000; i++) {
        sprintf(text, "v%d", i);
        add(text);
        add(text);
    }
    uint64_t distinct = column_seen_distinct(&f.seen);
    ck_assert_uint_le(f.seen.slots, 1024);
    ck_assert_uint_ne(f.seen.thinned, 0);
    ck_assert_msg(distinct > 170000 && distinct < 230000, "%lu", (unsigned long)distinct);
    ck_assert(!column_seen_own(&f.seen));
}
END_TEST

START_TEST(column_form_values_of_their_own_are_known_beyond_the_bound)
{
    char text[16];
    for (int i = 0; i < 20000; i++) {
        sprintf(text, "v%d", i);
        add(text);
    }
    ck_assert_uint_ne(f.seen.thinned, 0);
    ck_assert(column_seen_own(&f.seen));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("column_form");
    TCase *t = tcase_create("column_form");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, column_form_words_for_nothing_are_no_values);
    tcase_add_test(t, column_form_numbers_are_told_apart);
    tcase_add_test(t, column_form_commas_are_decimal_or_between_thousands);
    tcase_add_test(t, column_form_one_comma_before_three_digits_may_be_either);
    tcase_add_test(t, column_form_times_are_found);
    tcase_add_test(t, column_form_other_numbers_are_no_times);
    tcase_add_test(t, column_form_times_that_go_back_are_counted_within_a_file);
    tcase_add_test(t, column_form_lists_have_the_separator_of_the_first);
    tcase_add_test(t, column_form_weights_of_a_list_are_no_part_of_its_values);
    tcase_add_test(t, column_form_many_values_are_estimated_in_bounded_memory);
    tcase_add_test(t, column_form_values_of_their_own_are_known_beyond_the_bound);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
