/* test_layout.c: the format of a text is found by its lines, and what is no log is named. */
#include "worker/data/layout.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct layout found;
static struct err e;

static int look(const char *name, const char *text, size_t bytes)
{
    e = (struct err){0};
    return layout_of(name, text, bytes, false, &found, &e);
}

static void check_csv(const char *text, const char *delimiter, uint32_t columns, bool header)
{
    ck_assert_msg(look("a.csv", text, strlen(text)) == 0, "%s", e.text);
    ck_assert_int_eq(found.format, DATA_CSV);
    ck_assert_str_eq(found.delimiter, delimiter);
    ck_assert_uint_eq(found.columns, columns);
    ck_assert_int_eq(found.header, header);
}

static void check_format(const char *name, const char *text, enum data_format format)
{
    ck_assert_msg(look(name, text, strlen(text)) == 0, "%s", e.text);
    ck_assert_int_eq(found.format, format);
}

static void check_refused(const char *text, size_t bytes, const char *says)
{
    ck_assert_int_eq(look("a.csv", text, bytes), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, says) != NULL, "\"%s\": %s", says, e.text);
}

START_TEST(layout_delimiters_are_found)
{
    check_csv("click,user\n1,u7\n0,u8\n", ",", 2, true);
    check_csv("click\tuser\n1\tu7\n0\tu8\n", "\t", 2, true);
    check_csv("click;user\n1;u7\n0;u8\n", ";", 2, true);
    check_csv("click|user\n1|u7\n0|u8\n", "|", 2, true);
    check_csv("click\x01user\n1\x01u7\n0\x01u8\n", "\x01", 2, true);
    check_csv("1::1193::5\n1::661::3\n", "::", 3, false);
    check_csv("1 1193 5\n1 661 3\n", " ", 3, false);
}
END_TEST

START_TEST(layout_a_decimal_comma_is_no_delimiter)
{
    check_csv("click;price\n1;12,5\n0;3,25\n", ";", 2, true);
    check_csv("1;7;12,5\n0;8;3,25\n", ";", 3, false);

    /* commas part all lines but the first into two */
    char text[1024] = "click;price\n";
    for (int i = 0; i < 40; i++)
        sprintf(text + strlen(text), "%d;%d,25\n", i % 2, i);
    check_csv(text, ";", 2, true);
}
END_TEST

START_TEST(layout_lists_in_cells_are_no_columns)
{
    check_csv("click,tags\n1,a|b|c\n0,a|c|d\n", ",", 2, true);
}
END_TEST

START_TEST(layout_quoted_cells_may_hold_delimiters_and_line_ends)
{
    check_csv("click,city\n1,\"Rome, Italy\"\n0,\"Oslo, Norway\"\n", ",", 2, true);
    check_csv("click,city\n1,\"Rome\nItaly\"\n0,oslo\n1,rome\n0,rome\n", ",", 2, true);
}
END_TEST

START_TEST(layout_a_header_has_no_numbers)
{
    check_csv("a,b\n1,2\n", ",", 2, true);
    check_csv("1,2\n3,4\n", ",", 2, false);
    check_csv(",click\n0,1\n1,0\n", ",", 2, true);
}
END_TEST

START_TEST(layout_a_first_line_whose_values_stand_again_is_no_header)
{
    check_csv("red,rome\nblue,oslo\nred,oslo\n", ",", 2, false);
    ck_assert(found.sure);
    check_csv("colour,place\nblue,oslo\nred,oslo\n", ",", 2, true);
    ck_assert_msg(!found.sure, "nothing tells these from values");
}
END_TEST

START_TEST(layout_entries_are_told_apart)
{
    check_format("a", "1 3:1 11:0.25\n0 5:1\n", DATA_LIBSVM);
    check_format("a", "+1 qid:4 3:0.5 # why\n-1 5:1\n", DATA_LIBSVM);
    check_format("a", "1 0:35:1 1:237:0.5\n0 0:121:1\n", DATA_LIBFFM);
}
END_TEST

START_TEST(layout_numbers_between_blanks_are_libsvm_by_name_alone)
{
    check_format("a.svm", "0 35 237 261\n1 121 242 264\n", DATA_LIBSVM);
    ck_assert(!found.sure);
    check_format("a.txt", "0 35 237 261\n1 121 242 264\n", DATA_CSV);
}
END_TEST

START_TEST(layout_criteo_has_forty_columns_and_numbers_first)
{
    char line[512] = "1";
    for (int i = 0; i < 13; i++)
        strcat(line, i % 2 ? "\t" : "\t5");
    for (int i = 0; i < 26; i++)
        strcat(line, "\t68fd1e64");
    strcat(line, "\n");
    check_format("a", line, DATA_CRITEO);
    line[2] = 'x'; /* I1 */
    check_format("a", line, DATA_CSV);
}
END_TEST

START_TEST(layout_what_is_no_log_is_named)
{
    check_refused("", 0, "is empty");
    check_refused("\n\n", 2, "no line that is not empty");
    check_refused("a,b\0c\n1,2,3\n", 12, "binary");
    check_refused("{\"click\": 1}\n", 13, "JSON");
    check_refused("click\n1\n0\n", 10, "one column only");
    check_refused("sep=,\na,b\n", 10, "sep=");
}
END_TEST

START_TEST(layout_of_other_columns_is_another)
{
    struct layout first;
    check_csv("click,user\n1,7\n", ",", 2, true);
    first = found;
    check_csv("click,user\n0,9\n1,8\n", ",", 2, true);
    ck_assert(layout_same(&first, &found));
    check_csv("click,item\n0,9\n", ",", 2, true);
    ck_assert(!layout_same(&first, &found));
}
END_TEST

START_TEST(layout_a_line_that_is_cut_is_not_judged)
{
    const char text[] = "click,user\n1,7\n0,8\n1";
    ck_assert_int_eq(layout_of("a", text, strlen(text), true, &found, &e), 0);
    ck_assert_ptr_nonnull(strstr(found.why, "100% of 3 lines"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layout");
    TCase *t = tcase_create("layout");
    tcase_add_test(t, layout_delimiters_are_found);
    tcase_add_test(t, layout_a_decimal_comma_is_no_delimiter);
    tcase_add_test(t, layout_lists_in_cells_are_no_columns);
    tcase_add_test(t, layout_quoted_cells_may_hold_delimiters_and_line_ends);
    tcase_add_test(t, layout_a_header_has_no_numbers);
    tcase_add_test(t, layout_a_first_line_whose_values_stand_again_is_no_header);
    tcase_add_test(t, layout_entries_are_told_apart);
    tcase_add_test(t, layout_numbers_between_blanks_are_libsvm_by_name_alone);
    tcase_add_test(t, layout_criteo_has_forty_columns_and_numbers_first);
    tcase_add_test(t, layout_what_is_no_log_is_named);
    tcase_add_test(t, layout_of_other_columns_is_another);
    tcase_add_test(t, layout_a_line_that_is_cut_is_not_judged);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
