/* test_read_criteo.c: lines of the Criteo log become 13 numbers and 26 keys. */
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct err e;
static bool wide = true; /* where the processor can */

#define NUMBERS "1\t-2\t\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2"
#define CATEGORIES                                                                                 \
    "68fd1e64\t80e26c9b\tfb936136\t7b4723c4\t25c83c98\t7e0ccccf\tde7995b8\t1f89b562\ta73ee510\ta8" \
    "cd5504\tb2cb9c98\t37"                                                                         \
    "c9c164\t"                                                                                     \
    "2824a5f6\t1adce6ef\t8ba8b39a\t891b62e7\te5ba7672\tf54016b9\t21ddcdc9\tb1252a9d\t07b5194c\t\t" \
    "3a171ecb\tc5c50484\t"                                                                         \
    "e8b83407\t9727dd16"

static void make(enum number_transform number)
{
    worker_job(&job, DATA_CRITEO, NULL);
    job.features.number = number;
    ck_assert_msg(features_make(&job, "log", NULL, 0, &f, &e) == 0, "%s", e.text);
    f.wide &= wide;
}

static void setup(void)
{
    make(NUMBER_LOG1P);
}

static void setup_plain(void)
{
    wide = false;
    setup();
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

START_TEST(criteo_line_has_26_fields_and_13_numbers)
{
    ck_assert_uint_eq(f.shape.fields, 26);
    ck_assert_uint_eq(f.shape.numerics, 13);
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, "1\t" NUMBERS "\t" CATEGORIES), 0);
    ck_assert(r.label[0] == 1.0f);
    ck_assert_uint_eq(r.example.keys, 26);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "68fd1e64", 8));
    ck_assert_uint_eq(r.key[25], key_of_value(25, "9727dd16", 8));
    ck_assert_uint_eq(key_field(r.key[25]), 25);
    ck_assert_float_eq_tol(r.numeric[0], (float)log(2), 1e-7f);
    ck_assert_float_eq_tol(r.numeric[1], (float)-log(3), 1e-7f);
    ck_assert(r.numeric[2] == 0.0f && r.numeric[3] == 0.0f);
    ck_assert_float_eq_tol(r.numeric[4], (float)log(1383), 1e-6f);
}
END_TEST

START_TEST(criteo_empty_category_is_a_value_of_its_own)
{
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, "0\t" NUMBERS "\t" CATEGORIES), 0);
    ck_assert(r.label[0] == 0.0f);
    ck_assert_uint_eq(r.key[21], key_of_value(21, "", 0));
}
END_TEST

START_TEST(criteo_numbers_may_be_categories)
{
    features_free(&f);
    make(NUMBER_BUCKET);
    ck_assert_uint_eq(f.shape.fields, 39);
    ck_assert_uint_eq(f.shape.numerics, 0);
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, "1\t" NUMBERS "\t" CATEGORIES), 0);
    ck_assert_uint_eq(r.example.keys, 39);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "+0", 2));
    ck_assert_uint_eq(r.key[1], key_of_value(1, "-1", 2));
    ck_assert_uint_eq(r.key[2], key_of_value(2, "", 0));
    ck_assert_uint_eq(r.key[3], key_of_value(3, "0", 1));
    ck_assert_uint_eq(r.key[4], key_of_value(4, "+10", 3));
    ck_assert_uint_eq(r.key[13], key_of_value(13, "68fd1e64", 8));
}
END_TEST

START_TEST(criteo_numbers_may_be_used_as_they_are)
{
    features_free(&f);
    make(NUMBER_NONE);
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, "1\t" NUMBERS "\t" CATEGORIES), 0);
    ck_assert(r.numeric[1] == -2.0f && r.numeric[4] == 1382.0f && r.numeric[2] == 0.0f);
}
END_TEST

static void check_bad(const char *line, const char *reason)
{
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, line), SHOAL_E_DATA);
    ck_assert_msg(strstr(r.reason, reason) != NULL, "\"%s\" does not say \"%s\"", r.reason, reason);
}

START_TEST(criteo_malformed_lines_are_refused_with_a_reason)
{
    check_bad("1\t" NUMBERS "\t" CATEGORIES "\tmore", "41 columns");
    check_bad("1\t" NUMBERS, "14 columns");
    check_bad("x", "1 columns");
    check_bad("yes\t" NUMBERS "\t" CATEGORIES, "label: column \"label\" has \"yes\"");
    check_bad("\t" NUMBERS "\t" CATEGORIES, "label");
    check_bad("1\t1.5" NUMBERS "\t" CATEGORIES, "no integer");
    check_bad("1\t-\t-2\t\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATEGORIES,
              "column \"I1\" has \"-\"");
    check_bad("1\t1234567890123456\t-2\t\t0\t1382\t4\t15\t2\t181\t1\t2\t\t2\t" CATEGORIES,
              "no integer of at most 15 digits");
}
END_TEST

START_TEST(criteo_nul_bytes_are_harmless)
{
    static const char line[] =
        "1\t" NUMBERS "\tab\0cdefg\t80e26c9b" /* and the rest of the categories below */;
    char whole[1024];
    size_t bytes = sizeof line - 1;
    memcpy(whole, line, bytes);
    for (int i = 0; i < 24; i++)
        whole[bytes++] = '\t';
    ck_assert_int_eq(read_line_bytes(&r, format_criteo.line, &f, whole, bytes), 0);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "ab\0cdefg", 8));
    whole[0] = '\0';
    ck_assert_int_eq(read_line_bytes(&r, format_criteo.line, &f, whole, bytes), SHOAL_E_DATA);
}
END_TEST

START_TEST(criteo_fields_may_be_chosen)
{
    features_free(&f);
    job.features.fields_auto = false;
    config_list_add(&job.features.fields, "C2");
    config_list_add(&job.features.fields, "I5");
    config_list_add(&job.features.fields, "C1");
    ck_assert_int_eq(features_make(&job, "log", NULL, 0, &f, &e), 0);
    ck_assert_uint_eq(f.shape.fields, 2);
    ck_assert_uint_eq(f.shape.numerics, 1);
    ck_assert_int_eq(read_line_text(&r, format_criteo.line, &f, "1\t" NUMBERS "\t" CATEGORIES), 0);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "80e26c9b", 8));
    ck_assert_uint_eq(r.key[1], key_of_value(1, "68fd1e64", 8));
    ck_assert_float_eq_tol(r.numeric[0], (float)log(1383), 1e-6f);
}
END_TEST

START_TEST(criteo_columns_are_told_more_of_by_name)
{
    features_free(&f);
    worker_job_column(&job, "C1", COLUMN_CATEGORY);
    worker_job_column(&job, "I1", COLUMN_NUMBER);
    snprintf(job.data.column[0].share, LIMIT_NAME, "%s", "C2");
    ck_assert_msg(features_make(&job, "log", NULL, 0, &f, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(f.field[0].key_field, 1);
    features_free(&f);
    job.data.column[1].type = COLUMN_CATEGORY;
    ck_assert_int_eq(features_make(&job, "log", NULL, 0, &f, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "column \"I1\" another type, in criteo it is a number"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_criteo");
    for (int plain = 0; plain < 2; plain++) {
        TCase *t = tcase_create(plain ? "plain" : "wide");
        tcase_add_checked_fixture(t, plain ? setup_plain : setup, teardown);
        tcase_add_test(t, criteo_line_has_26_fields_and_13_numbers);
        tcase_add_test(t, criteo_empty_category_is_a_value_of_its_own);
        tcase_add_test(t, criteo_numbers_may_be_categories);
        tcase_add_test(t, criteo_numbers_may_be_used_as_they_are);
        tcase_add_test(t, criteo_malformed_lines_are_refused_with_a_reason);
        tcase_add_test(t, criteo_nul_bytes_are_harmless);
        tcase_add_test(t, criteo_fields_may_be_chosen);
        tcase_add_test(t, criteo_columns_are_told_more_of_by_name);
        suite_add_tcase(s, t);
    }
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
