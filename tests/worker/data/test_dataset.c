/* test_dataset.c: splits that are opened, and what a dataset tells of them. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_split.h"

#include <check.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(dataset_digest_is_of_content)
{
    const char *plain = split_rows("a.csv", 0, 100);
    config_list_add(&split.job.data.train, plain);
    split_open(WIRE_TRAIN);
    uint64_t digest = dataset_digest(split.data);
    char command[4096];
    snprintf(command, sizeof command, "gzip -c %s > %s.gz", plain, plain);
    ck_assert_int_eq(system(command), 0);
    config_list_free(&split.job.data.train);
    config_list_add(&split.job.data.train, worker_path("a.csv.gz"));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_digest(split.data), digest);
    config_list_free(&split.job.data.train);
    config_list_add(&split.job.data.train, split_rows("b.csv", 1, 100));
    split_open(WIRE_TRAIN);
    ck_assert_uint_ne(dataset_digest(split.data), digest);
}
END_TEST

START_TEST(dataset_without_rows_is_refused)
{
    config_list_add(&split.job.data.train, worker_text("t.csv", "label,user\n\n"));
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TRAIN, &split.data, &split.error), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(split.error.text, "no row"));
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TEST, &split.data, &split.error),
                     SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(split.error.text, "data.test"));
}
END_TEST

START_TEST(dataset_first_file_may_be_empty)
{
    config_list_add(&split.job.data.train, worker_text("0.csv", ""));
    config_list_add(&split.job.data.train, split_rows("1.csv", 0, 5));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(split_epoch(0, 5, 5), 5);
}
END_TEST

START_TEST(dataset_groups_are_for_epoch_0)
{
    strcpy(split.job.evaluate.group, "row");
    config_list_add(&split.job.evaluate.by, "label");
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 10));
    config_list_add(&split.job.data.valid,
                    worker_text("v.csv", "row,label\nr3,1\n")); /* other columns */
    split_open(WIRE_TRAIN);
    split_read(1, 0, 10);
    ck_assert_ptr_null(split.batch.group);
    ck_assert_uint_eq(split.batch.by_count, 1); /* training reports by these, too */
    split_read(0, 0, 10);
    ck_assert_uint_eq(split.batch.group[3], hash_bytes("r3", 2, 0));
    ck_assert_uint_eq(split.batch.by[3], hash_bytes("1", 1, 0));
    split_open(WIRE_VALID);
    split_read(0, 0, 1);
    ck_assert_uint_eq(split.batch.group[0], hash_bytes("r3", 2, 0));
    ck_assert_uint_eq(split.batch.by[0], hash_bytes("1", 1, 0));
}
END_TEST

/* Opens a log without a header with these columns; its parsed rows are kept for the next job. */
static void open_named(const char *first, const char *second, const char *third)
{
    const char *const name[] = {first, second, third};
    split.job.data.column_count = 0;
    for (int i = 0; i < 3; i++)
        worker_job_column(&split.job, name[i],
                          strcmp(name[i], "x") == 0 ? COLUMN_CATEGORY : COLUMN_SKIP);
    split_open(WIRE_TRAIN);
    split_read(0, 0, 2);
}

/* If the names of such a log are corrected, its columns change, although the file is the same. */
START_TEST(dataset_kept_rows_are_of_the_columns_as_named)
{
    split.job.data.header = false;
    split.job.data.cache_max = 1u << 20;
    strcpy(split.job.data.label[0], "click");
    strcpy(split.job.data.weight, "weight");
    config_list_add(&split.job.data.train, worker_text("a.csv", "1,0,7\n0,1,8\n"));
    open_named("click", "weight", "x");
    ck_assert(split.batch.label[0] == 1 && split.batch.weight[0] == 0);
    open_named("weight", "click", "x");
    ck_assert_msg(split.batch.label[0] == 0 && split.batch.weight[0] == 1,
                  "label %g and weight %g of row 1", (double)split.batch.label[0],
                  (double)split.batch.weight[0]);
    strcpy(split.job.data.weight, "");
    strcpy(split.job.evaluate.group, "weight");
    config_list_add(&split.job.evaluate.by, "click");
    open_named("click", "weight", "x");
    ck_assert_uint_eq(split.batch.group[0], hash_bytes("0", 1, 0));
    ck_assert_uint_eq(split.batch.by[0], hash_bytes("1", 1, 0));
    open_named("weight", "click", "x");
    ck_assert_uint_eq(split.batch.group[0], hash_bytes("1", 1, 0));
    ck_assert_uint_eq(split.batch.by[0], hash_bytes("0", 1, 0));
}
END_TEST

/* Each thread reads all batches of the epoch and combines them to one number. */
static void *read_epoch(void *result)
{
    struct batch mine;
    batch_init(&mine);
    uint64_t fold = 0;
    for (uint32_t at = 0; at < 4000; at += 500) {
        if (batch_read(split.data, 7, 1, at, 500, &mine, NULL) != 0)
            return NULL;
        fold = hash_bytes(mine.keys, sizeof mine.keys[0] * mine.key_count, fold);
        fold = hash_bytes(mine.index, sizeof mine.index[0] * mine.values, fold);
    }
    batch_free(&mine);
    *(uint64_t *)result = fold;
    return result;
}

START_TEST(dataset_is_read_by_several_threads)
{
    pthread_t thread[4];
    uint64_t fold[4] = {0};
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 4000));
    split_open(WIRE_TRAIN);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_epoch, &fold[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *result;
        ck_assert_int_eq(pthread_join(thread[i], &result), 0);
        ck_assert_ptr_nonnull(result);
        ck_assert_uint_eq(fold[i], fold[0]);
    }
    ck_assert_uint_ne(fold[0], 0);
}
END_TEST

/* Writes `rows` lines; line i has label i % classes + first. */
static void open_labels(uint32_t rows, uint32_t first, uint32_t classes)
{
    char name[32];
    snprintf(name, sizeof name, "l%u-%u-%u.csv", rows, first, classes);
    FILE *f = fopen(worker_path(name), "w");
    fputs("stars,user\n", f);
    for (uint32_t i = 0; i < rows; i++)
        fprintf(f, "%u,u%u\n", first + i * classes / rows, i % 7); /* sorted by the label */
    fclose(f);
    config_list_free(&split.job.data.train);
    ck_assert_int_eq(config_list_add(&split.job.data.train, worker_path(name)), 0);
    split_open(WIRE_TRAIN);
}

START_TEST(dataset_labels_that_teach_nothing_are_told)
{
    static const struct {
        uint32_t rows, first, classes;
        const char *says;
    } told[] = {
        {100, 0, 2, ""},
        {90000, 0, 2, ""},
        {100, 1, 1, "label \"stars\": all 100 lines looked at count as 1"},
        {90000, 0, 1, "all 32768 lines looked at count as 0, for their values (0) are not above"},
        {100, 1, 5, "all 100 lines looked at count as 1, for their values (1, 2, 3 and others)"},
        {90000, 0, 3, "label \"stars\" has more than two values (0, 1, 2)"},
        {100, 0, 6, "data.label_above: 0 count as 1"},
    };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++) {
        open_labels(told[i].rows, told[i].first, told[i].classes);
        const char *says = dataset_warning(split.data);
        ck_assert_msg(told[i].says[0] == '\0' ? says[0] == '\0'
                                              : strstr(says, told[i].says) != NULL,
                      "%zu: %s", i, says);
    }
    split.job.data.label_above = 3;
    open_labels(100, 1, 5);
    ck_assert_ptr_nonnull(strstr(dataset_warning(split.data), "data.label_above: 3 count as 1"));
    split.job.data.label_parted = true; /* the job says it: it is not determined again */
    open_labels(100, 1, 5);
    ck_assert_str_eq(dataset_warning(split.data), "");
    split.job.data.label_above = 30;
    open_labels(100, 1, 5);
    ck_assert_ptr_nonnull(strstr(dataset_warning(split.data), "so there is nothing to learn"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dataset");
    TCase *t = suite_case(s, "dataset", 120, split_setup, split_teardown);
    tcase_add_test(t, dataset_digest_is_of_content);
    tcase_add_test(t, dataset_without_rows_is_refused);
    tcase_add_test(t, dataset_first_file_may_be_empty);
    tcase_add_test(t, dataset_groups_are_for_epoch_0);
    tcase_add_test(t, dataset_kept_rows_are_of_the_columns_as_named);
    tcase_add_test(t, dataset_is_read_by_several_threads);
    tcase_add_test(t, dataset_labels_that_teach_nothing_are_told);
    return suite_main(s);
}
