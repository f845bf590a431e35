/* test_guess.c: usual names of columns and files are known, others are not. */
#include "worker/data/guess.h"

#include <check.h>
#include <stdlib.h>

START_TEST(guess_labels_are_known_in_any_spelling)
{
    ck_assert_uint_eq(guess_label("label"), 1);
    ck_assert_uint_ne(guess_label("Click"), 0);
    ck_assert_uint_ne(guess_label("is_click"), 0);
    ck_assert_uint_ne(guess_label("isClick"), 0);
    ck_assert_uint_lt(guess_label("click"), guess_label("buy"));
}
END_TEST

START_TEST(guess_a_part_of_a_name_is_no_label)
{
    ck_assert_uint_eq(guess_label("click_time"), 0);
    ck_assert_uint_eq(guess_label("clicker"), 0);
    ck_assert_uint_eq(guess_label(""), 0);
}
END_TEST

START_TEST(guess_words_within_a_name_tell_a_quantity)
{
    ck_assert(guess_quantity("user_age"));
    ck_assert(guess_quantity("itemPrice"));
    ck_assert(!guess_quantity("page"));
    ck_assert(!guess_quantity("language"));
}
END_TEST

START_TEST(guess_a_user_is_no_part_of_another_name)
{
    ck_assert(guess_user("user"));
    ck_assert(guess_user("userId"));
    ck_assert(!guess_user("user_feature_0"));
}
END_TEST

START_TEST(guess_files_tell_their_part)
{
    ck_assert_int_eq(guess_role("/d/train.csv"), GUESS_TRAIN);
    ck_assert_int_eq(guess_role("ratings.valid.tsv.gz"), GUESS_VALID);
    ck_assert_int_eq(guess_role("test-00001.csv"), GUESS_TEST);
    ck_assert_int_eq(guess_role("Train1.CSV"), GUESS_TRAIN);
    ck_assert_int_eq(guess_role("/train/day_1.csv"), GUESS_NO_ROLE);
    ck_assert_int_eq(guess_role("latest.csv"), GUESS_NO_ROLE);
}
END_TEST

START_TEST(guess_an_ending_stands_before_that_of_a_packer)
{
    ck_assert(guess_ends("a/b.svm", "svm"));
    ck_assert(guess_ends("a/b.SVM.gz", "svm"));
    ck_assert(!guess_ends("a/svm", "svm"));
    ck_assert(!guess_ends("a/b.csv", "svm"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("guess");
    TCase *t = tcase_create("guess");
    tcase_add_test(t, guess_labels_are_known_in_any_spelling);
    tcase_add_test(t, guess_a_part_of_a_name_is_no_label);
    tcase_add_test(t, guess_words_within_a_name_tell_a_quantity);
    tcase_add_test(t, guess_a_user_is_no_part_of_another_name);
    tcase_add_test(t, guess_files_tell_their_part);
    tcase_add_test(t, guess_an_ending_stands_before_that_of_a_packer);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
