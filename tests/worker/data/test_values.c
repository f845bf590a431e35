/* test_values.c: a report's values get their text from the evaluated split. */
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/data/values.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The value c3 as in reports of every release. */
#define C3 "0x04de346509033bbe"

static struct job job;
static struct json *report;
static struct err e;

/* Two columns; `cat` has c3 in the fifth row. The report names c3, a value that does not occur, and
 * the rest. */
static void setup(void)
{
    static const char told[] = "{\"by\": {\"cat\": [{\"key\": \"" C3 "\"}, {\"key\": \"0x7\"}, "
                               "{\"key\": \"other\"}]}, \"tasks\": [{\"by\": {\"cat\": "
                               "[{\"key\": \"" C3 "\"}]}}]}";
    char text[256];
    worker_folder_make();
    e = (struct err){0};
    worker_job(&job, DATA_CSV, NULL);
    strcpy(job.data.label[0], "click");
    job.data.label_count = 1;
    worker_job_column(&job, "item", COLUMN_CATEGORY);
    ck_assert_int_eq(config_list_add(&job.evaluate.by, "cat"), 0);
    ck_assert_int_eq(
        config_list_add(&job.data.valid, worker_text("valid", "click,item,cat\n1,c3,a\n0,2,c4\n"
                                                              "1,2,\n0,5,c33\n1,6,c3\n")),
        0);
    snprintf(text, sizeof text, "%s", told);
    ck_assert_int_eq(json_parse(text, strlen(text), &report, &e), 0);
}

static void teardown(void)
{
    json_free(report);
    job_free(&job);
    worker_folder_remove();
}

static const char *value_at(const char *path, size_t index)
{
    return json_as_string(json_get(json_array_at(json_get(report, path), index), "value"), NULL);
}

START_TEST(value_has_the_text_of_its_cell)
{
    ck_assert_msg(values_name_split(&job, WIRE_VALID, report, &e) == 0, "%s", e.text);
    ck_assert_str_eq(value_at("by.cat", 0), "c3");
    ck_assert_ptr_null(value_at("by.cat", 1)); /* its row does not exist */
    ck_assert_ptr_null(value_at("by.cat", 2));
    const struct json *task = json_array_at(json_get(report, "tasks"), 0);
    ck_assert_str_eq(
        json_as_string(json_get(json_array_at(json_get(task, "by.cat"), 0), "value"), ""), "c3");
}
END_TEST

/* If the input is gone, only the hash is reported; a pipe is not read a second time. */
START_TEST(value_of_another_split_or_a_stream_stays_a_hash)
{
    ck_assert_int_eq(values_name_split(&job, WIRE_TEST, report, &e), 0);
    ck_assert_ptr_null(value_at("by.cat", 0));
    config_list_free(&job.data.valid);
    ck_assert_int_eq(config_list_add(&job.data.valid, "-"), 0);
    ck_assert_int_eq(values_name_split(&job, WIRE_VALID, report, &e), 0);
    ck_assert_ptr_null(value_at("by.cat", 0));
}
END_TEST

START_TEST(split_that_is_gone_is_told)
{
    ck_assert_int_eq(remove(worker_path("valid")), 0);
    ck_assert_int_eq(values_name_split(&job, WIRE_VALID, report, &e), SHOAL_E_NOINPUT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("values");
    TCase *t = suite_case(s, "values", 60, setup, teardown);
    tcase_add_test(t, value_has_the_text_of_its_cell);
    tcase_add_test(t, value_of_another_split_or_a_stream_stays_a_hash);
    tcase_add_test(t, split_that_is_gone_is_told);
    return suite_main(s);
}
