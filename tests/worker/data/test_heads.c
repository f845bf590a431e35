/* test_heads.c: a file of another format is named, whichever file of the job it is. */
#include "worker/data/heads.h"

#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct job job;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    worker_job(&job, DATA_CSV, NULL);
    ck_assert_int_eq(config_list_add(&job.data.train, worker_text("a.csv", "label,row\n1,a\n")), 0);
}

static void teardown(void)
{
    job_free(&job);
    worker_folder_remove();
}

static struct string_list *list_of(int split)
{
    return split == WIRE_TRAIN   ? &job.data.train
           : split == WIRE_VALID ? &job.data.valid
                                 : &job.data.test;
}

/* Adds a file. One with only blank lines has no first line, and gives no hint. */
static void add(int split, const char *name, const char *text)
{
    ck_assert_int_eq(config_list_add(list_of(split), worker_text("empty", "\n\n")), 0);
    ck_assert_int_eq(config_list_add(list_of(split), worker_text(name, text)), 0);
}

static void refused(int rc, const char *name, const char *says)
{
    ck_assert_int_eq(rc, SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, name) != NULL && strstr(e.text, says) != NULL, "%s", e.text);
}

/* _i: the split with the file. */
START_TEST(heads_of_every_split_are_looked_at)
{
    struct dataset *d = NULL;
    add(_i, "b.csv", "\r\nlabel;row\n1;a\n");
    refused(heads_check_all(&job, &e), "b.csv:1: ", "2 columns are parted by \";\" here");
    for (int split = WIRE_TRAIN; split <= WIRE_TEST; split++)
        ck_assert_int_eq(heads_check(&job, (uint32_t)split, &e), split == _i ? SHOAL_E_DATA : 0);
    refused(dataset_check(&job, &e), "b.csv:1: ", "data.delimiter");
    refused(dataset_open(&job, (uint32_t)_i, &d, &e), "b.csv:1: ", "data.delimiter");
}
END_TEST

/* Formats with a delimiter of their own, and without one. */
START_TEST(heads_of_other_formats_are_told)
{
    static const struct {
        enum data_format format;
        const char *first, *other, *says;
    } is[] = {
        {DATA_LIBSVM, "1 3:1 4:1\n", "1,3,4\n", "3 columns are parted by \",\""},
        {DATA_LIBSVM, "1 3:1 4:1\n", "{\"label\": 1}\n", "it is JSON"},
        {DATA_CRITEO, "1\t2\n", "1 3:1 4:1\n", "data.format: libsvm"},
        {DATA_CRITEO, "1\t2\n", "1,2,3\n", "3 columns are parted by \",\""},
    };
    worker_text("a.csv", is[_i].first);
    job.data.format = is[_i].format;
    job.data.header = false;
    ck_assert_msg(heads_check_all(&job, &e) == 0, "%s", e.text);
    add(WIRE_VALID, "b", is[_i].other);
    refused(heads_check_all(&job, &e), "/b:1: ", is[_i].says);
}
END_TEST

/* Errors that source_check or the reader of lines reports are not reported here. */
START_TEST(heads_that_cannot_be_judged_are_passed_over)
{
    char command[64] = "cmd:printf 'label;row'", longest[2 << 20];
    add(WIRE_VALID, "good.csv", "label,row\n");
    ck_assert_int_eq(config_list_add(&job.data.valid, worker_path("missing")), 0);
    ck_assert_int_eq(config_list_add(&job.data.test, command), 0);
    memset(longest, ';', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    add(WIRE_TEST, "long.csv", longest);
    ck_assert_msg(heads_check_all(&job, &e) == 0, "%s", e.text);
    /* lines to be scored may have one column, with any character in it */
    add(WIRE_TEST, "b.csv", "a;b\n");
    ck_assert_int_eq(heads_check_all(&job, &e), SHOAL_E_DATA);
    job.predict.on = true;
    ck_assert_int_eq(heads_check_all(&job, &e), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("heads");
    TCase *t = tcase_create("heads");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, heads_of_every_split_are_looked_at, WIRE_TRAIN, WIRE_TEST + 1);
    tcase_add_loop_test(t, heads_of_other_formats_are_told, 0, 4);
    tcase_add_test(t, heads_that_cannot_be_judged_are_passed_over);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
