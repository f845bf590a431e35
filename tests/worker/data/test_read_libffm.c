/* test_read_libffm.c: the entries of a libffm line become weighted values of their fields. */
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
    features_free(&f);
    f = (struct features){0};
    return features_make(&job, "a.ffm", head, strlen(head), &f, &e);
}

static void setup(void)
{
    f = (struct features){0};
    worker_job(&job, DATA_LIBFFM, NULL);
    ck_assert_msg(make("1 0:35:1 2:237:0.5\n0 2:9:1 17:261:2\n") == 0, "%s", e.text);
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

static int read_text(const char *line)
{
    return read_line_text(&r, format_libffm.line, &f, line);
}

static void check_bad(const char *line, const char *reason)
{
    ck_assert_int_eq(read_text(line), SHOAL_E_DATA);
    ck_assert_msg(strstr(r.reason, reason) != NULL, "\"%s\" does not say \"%s\"", r.reason, reason);
}

static void check_value(uint32_t i, uint32_t field, const char *index, float weight)
{
    ck_assert_uint_lt(i, r.example.keys);
    ck_assert_uint_eq(r.key[i], key_of_value(field, index, strlen(index)));
    ck_assert_msg(r.value_weight[i] == weight, "%g is not %g", (double)r.value_weight[i],
                  (double)weight);
}

static void check_name(uint32_t column, const char *name)
{
    ck_assert_uint_eq(f.name[column].bytes, strlen(name));
    ck_assert(memcmp(f.name[column].text, name, strlen(name)) == 0);
}

START_TEST(libffm_first_lines_give_the_fields)
{
    ck_assert_uint_eq(f.shape.fields, 3);
    ck_assert_uint_eq(f.columns, 5);
    check_name(0, "label");
    check_name(1, "0");
    check_name(2, "2");
    check_name(3, "17");
    check_name(4, "qid");
    ck_assert(f.multi && f.weighted);
}
END_TEST

START_TEST(libffm_entries_are_weighted_values_of_their_fields)
{
    ck_assert_msg(read_text("-1 0:35:1 2:237:0.5 2:9:-2 17:261:12.11") == 0, "%s", r.reason);
    ck_assert(r.label[0] == 0.0f);
    ck_assert_uint_eq(r.example.keys, 4);
    ck_assert_uint_eq(r.count[0], 1);
    ck_assert_uint_eq(r.count[1], 2);
    ck_assert_uint_eq(r.count[2], 1);
    check_value(0, 0, "35", 1.0f);
    check_value(1, 1, "237", 0.5f);
    check_value(2, 1, "9", -2.0f);
    check_value(3, 2, "261", 12.11f);
}
END_TEST

START_TEST(libffm_entries_may_stand_in_any_order_and_lack_values)
{
    ck_assert_msg(read_text("1 qid:4\t2:7:2 17:8 2:9:0  0:1:1e1 17:8:3 2:7 # x") == 0, "%s",
                  r.reason);
    ck_assert_uint_eq(r.example.keys, 6);
    check_value(0, 0, "1", 10.0f);
    check_value(1, 1, "7", 2.0f);
    check_value(2, 1, "9", 0.0f);
    check_value(3, 1, "7", 1.0f);
    check_value(4, 2, "8", 1.0f);
    check_value(5, 2, "8", 3.0f);
    ck_assert_int_eq(read_text("1"), 0);
    ck_assert_uint_eq(r.example.keys, 0);
}
END_TEST

START_TEST(libffm_malformed_lines_are_refused_with_a_reason)
{
    check_bad("1 0:35:1 35:1", "entry 2 has field 35, which none of the first lines has");
    check_bad("1 4:35:1", "entry 1 has field 4, which none of the first lines has: name it in "
                          "data.columns: [{name: \"4\", type: multi}]");
    check_bad("1 99999999999:35:1", "entry 1 has field 4294967295");
    check_bad("1 0:35:1 2", "entry 2 is not field:index:value");
    check_bad("1 a:35:1", "entry 1 is not field:index:value");
    check_bad("1 0:", "has \"0:\"");
    check_bad("1 0::1", "has \"0::1\"");
    check_bad("1 0:a:1", "has \"0:a:1\"");
    check_bad("1 0:1:", "has \"0:1:\"");
    check_bad("1 0:1:2:3", "has \"0:1:2:3\"");
    check_bad("0:1:1 2:1:1", "label");
}
END_TEST

START_TEST(libffm_fields_may_be_named_pooled_and_skipped)
{
    worker_job_column(&job, "40", COLUMN_MULTI);
    worker_job_column(&job, "2", COLUMN_SKIP);
    job.data.column[0].pooling = POOL_MEAN;
    ck_assert_msg(make("1 0:35:1 2:237:0.5\n") == 0, "%s", e.text);
    ck_assert_uint_eq(f.shape.fields, 2);
    ck_assert_int_eq(read_text("1 40:3:2 2:8:1"), 0);
    ck_assert_uint_eq(r.example.keys, 1);
    check_value(0, 1, "3", 2.0f);
    job.data.column[0].type = COLUMN_NUMBER;
    ck_assert_int_eq(make("1 0:35:1 2:237:0.5\n"), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "column \"40\" another type, in libffm it is multi"));
}
END_TEST

START_TEST(libffm_first_lines_that_are_none_are_refused)
{
    ck_assert_int_eq(make("1 35:1 237:1\n"), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "a.ffm:1: entry 1 is not field:index:value") != NULL, "%s",
                  e.text);
    ck_assert_int_eq(make("1 4096:35:1\n"), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "field 4096 is above 4095") != NULL, "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_libffm");
    TCase *t = tcase_create("read_libffm");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, libffm_first_lines_give_the_fields);
    tcase_add_test(t, libffm_entries_are_weighted_values_of_their_fields);
    tcase_add_test(t, libffm_entries_may_stand_in_any_order_and_lack_values);
    tcase_add_test(t, libffm_malformed_lines_are_refused_with_a_reason);
    tcase_add_test(t, libffm_fields_may_be_named_pooled_and_skipped);
    tcase_add_test(t, libffm_first_lines_that_are_none_are_refused);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
