/* test_read_libsvm.c: the entries of a libsvm line become one value a field. */
#include "proto/base/key.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"

#include <check.h>
#include <stdio.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct err e;

static int make(const char *head)
{
    return features_make(&job, "a.libsvm", head, strlen(head), &f, &e);
}

static void setup(void)
{
    worker_job(&job, DATA_LIBSVM, NULL);
    ck_assert_msg(make("1 3:1 957:1 5039:1") == 0, "%s", e.text);
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

START_TEST(libsvm_first_line_gives_the_fields)
{
    ck_assert_uint_eq(f.shape.fields, 3);
    ck_assert_uint_eq(f.shape.numerics, 0);
    ck_assert_uint_eq(f.columns, 4);
}
END_TEST

START_TEST(libsvm_entry_is_a_key_of_its_place)
{
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, "-1 7:1  7:1.0\t12:1. "), 0);
    ck_assert(r.label[0] == 0.0f);
    ck_assert_uint_eq(r.example.keys, 3);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "7", 1));
    ck_assert_uint_eq(r.key[1], key_of_value(1, "7", 1));
    ck_assert_uint_eq(r.key[2], key_of_value(2, "12", 2));
}
END_TEST

START_TEST(libsvm_label_may_be_signed_or_a_fraction)
{
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, "+1 1:1 2:1 3:1"), 0);
    ck_assert(r.label[0] == 1.0f);
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, "0.0 1:1 2:1 3:1"), 0);
    ck_assert(r.label[0] == 0.0f);
}
END_TEST

static void check_bad(const char *line, const char *reason)
{
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, line), SHOAL_E_DATA);
    ck_assert_msg(strstr(r.reason, reason) != NULL, "\"%s\" does not say \"%s\"", r.reason, reason);
}

/* Forms that other tools read; e2e/test_newcomer runs the commands in the advice. */
START_TEST(libsvm_of_other_tools_is_refused_with_what_to_do)
{
    check_bad("1 1:1 2 3:1", "entry 2 has no value; write idx:1");
    check_bad("1 1:1 2:1 3:1 # row 7", "entry 4 begins a comment; take comments off");
    check_bad("1 qid:3 1:1 2:1", "entry 1 is qid:N");
    check_bad("1 0:1:1 1:2:1 2:3:1", "entry 1 is field:idx:value (libffm)");
    check_bad("1 1:1 2:0.5 3:1", "with the values in columns of type number");
    check_bad("1 1:1 2:1", "csv with a column of type multi");
}
END_TEST

START_TEST(libsvm_malformed_lines_are_refused_with_a_reason)
{
    check_bad("1 1:1 2:1", "2 entries, not 3");
    check_bad("1 1:1 2:1 3:1 4:1", "4 entries, not 3");
    check_bad("1", "0 entries");
    check_bad("", "0 entries");
    check_bad("1 1:1 2:0.5 3:1", "value other than 1");
    check_bad("1 1:1 2: 3:1", "value other than 1");
    check_bad("1 1:1 2:10 3:1", "value other than 1");
    check_bad("1 1:1 a:1 3:1", "entry 2 is not idx:value");
    check_bad("1 1:1 :1 3:1", "entry 2 is not idx:value");
    check_bad("1 1:1 2x 3:1", "entry 2 is not idx:value");
    check_bad("one 1:1 2:1 3:1", "label");
    check_bad("nan 1:1 2:1 3:1", "label");
    check_bad("0x1 1:1 2:1 3:1", "label");
}
END_TEST

START_TEST(libsvm_head_without_entries_is_refused)
{
    features_free(&f);
    ck_assert_int_eq(make("1"), SHOAL_E_DATA);
    ck_assert_int_eq(make("label,user,item"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a.libsvm:1"));
}
END_TEST

/* The format gives its columns their types; they may be used, shared and read as ids by name. */
START_TEST(libsvm_columns_may_be_ids_or_skipped)
{
    features_free(&f);
    worker_job_column(&job, "3", COLUMN_CATEGORY);
    worker_job_column(&job, "2", COLUMN_SKIP);
    job.data.column[0].id = true;
    ck_assert_msg(make("1 3:1 957:1 5039:1") == 0, "%s", e.text);
    ck_assert_uint_eq(f.shape.fields, 2);
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, "1 7:1 x8:1 9:1"), SHOAL_E_DATA);
    ck_assert_int_eq(read_line_text(&r, format_libsvm.line, &f, "1 7:1 8:1 4711:1"), 0);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "7", 1));
    ck_assert_uint_eq(r.key[1], (1ULL << 48) + 4711);
    check_bad("1 7:1 8:1 09:1", "no id");
    features_free(&f);
    job.data.column[1].type = COLUMN_MULTI;
    ck_assert_int_eq(make("1 3:1 957:1 5039:1"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "column \"2\" another type, in libsvm it is a category"));
    snprintf(job.data.column[1].name, LIMIT_NAME, "%s", "C9");
    ck_assert_int_eq(make("1 3:1 957:1 5039:1"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.columns names column \"C9\""));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_libsvm");
    TCase *t = tcase_create("read_libsvm");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, libsvm_first_line_gives_the_fields);
    tcase_add_test(t, libsvm_entry_is_a_key_of_its_place);
    tcase_add_test(t, libsvm_label_may_be_signed_or_a_fraction);
    tcase_add_test(t, libsvm_of_other_tools_is_refused_with_what_to_do);
    tcase_add_test(t, libsvm_malformed_lines_are_refused_with_a_reason);
    tcase_add_test(t, libsvm_head_without_entries_is_refused);
    tcase_add_test(t, libsvm_columns_may_be_ids_or_skipped);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
