/* test_dataset_read.c: batches by position: every row once an epoch, the same bytes each time, and
 * changed input is noticed. */
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_split.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

START_TEST(dataset_epoch_visits_every_row_once)
{
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 5000));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(split.data), 5000);
    ck_assert_uint_lt(split_epoch(1, 5000, 512), 20);
    ck_assert_uint_lt(split_epoch(2, 5000, 999), 20);
    ck_assert_uint_eq(split_epoch(0, 5000, 512), 5000); /* epoch 0 is file order */
    split.job.data.shuffle = false;
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(split_epoch(1, 5000, 512), 5000);
}
END_TEST

START_TEST(dataset_chunks_of_many_rows_are_visited_once_too)
{
    /* More than 2^18 rows: chunks of two, in three files, so that a chunk may cross the end of a
     * file; batches of odd sizes cut chunks. */
    split_rows("a1.csv", 0, 100001);
    split_rows("a2.csv", 100001, 100000);
    split_rows("a3.csv", 200001, 62200);
    config_list_add(&split.job.data.train, worker_path("a*.csv"));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(split.data), 262201);
    ck_assert_uint_lt(split_epoch(1, 262201, 4097), 100);
    ck_assert_uint_eq(split_epoch(0, 262201, 65535), 262201);
}
END_TEST

START_TEST(dataset_eval_is_in_file_order)
{
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 10));
    config_list_add(&split.job.data.valid, split_rows("v.csv", 0, 300));
    split_open(WIRE_VALID);
    ck_assert_uint_eq(split_epoch(1, 300, 64), 300);
}
END_TEST

START_TEST(dataset_batches_are_the_same_bytes_each_time)
{
    struct batch other;
    batch_init(&other);
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 3000));
    split_open(WIRE_TRAIN);
    split_read(3, 1000, 500);
    struct dataset *again;
    ck_assert_int_eq(dataset_open(&split.job, WIRE_TRAIN, &again, &split.error), 0);
    /* buffers with another history */
    ck_assert_int_eq(batch_read(again, 2026, 3, 0, 700, &other, &split.error), 0);
    ck_assert_int_eq(batch_read(again, 2026, 3, 1000, 500, &other, &split.error), 0);
    ck_assert_uint_eq(split.batch.key_count, other.key_count);
    ck_assert_int_eq(
        memcmp(split.batch.keys, other.keys, sizeof split.batch.keys[0] * split.batch.key_count),
        0);
    ck_assert_int_eq(
        memcmp(split.batch.index, other.index, sizeof split.batch.index[0] * split.batch.values),
        0);
    ck_assert_int_eq(
        memcmp(split.batch.label, other.label, sizeof split.batch.label[0] * split.batch.examples),
        0);
    ck_assert_int_eq(batch_read(again, 2027, 3, 1000, 500, &other, &split.error), 0);
    ck_assert_int_ne(
        memcmp(split.batch.keys, other.keys, sizeof split.batch.keys[0] * split.batch.key_count),
        0);
    dataset_close(again);
    batch_free(&other);
}
END_TEST

static void overwrite(const char *path, off_t at, const char *text)
{
    int fd = open(path, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, text, strlen(text), at), (ssize_t)strlen(text));
    close(fd);
}

START_TEST(dataset_changed_input_is_an_error)
{
    static const char *changes[] = {"X", "\n"}; /* another value; another row */
    for (int i = 0; i < 2; i++) {
        const char *path = split_rows("a.csv", 0, 1000);
        config_list_free(&split.job.data.train);
        config_list_add(&split.job.data.train, path);
        split_open(WIRE_TRAIN);
        split_read(1, 0, 1000);
        overwrite(path, 3003, changes[i]);
        ck_assert_int_eq(batch_read(split.data, 2026, 1, 0, 1000, &split.batch, &split.error),
                         SHOAL_E_CHECKSUM);
        ck_assert_ptr_nonnull(strstr(split.error.text, "a.csv"));
        ck_assert_int_eq(batch_read(split.data, 2026, 0, 0, 1000, &split.batch, &split.error),
                         SHOAL_E_CHECKSUM);
        /* unchanged rows are still good */
        ck_assert_int_eq(batch_read(split.data, 2026, 0, 0, 100, &split.batch, &split.error), 0);
    }
}
END_TEST

START_TEST(dataset_input_cut_short_is_an_error)
{
    const char *path = split_rows("a.csv", 0, 1000);
    config_list_add(&split.job.data.train, path);
    split_open(WIRE_TRAIN);
    ck_assert_int_eq(truncate(path, 5000), 0);
    ck_assert_int_eq(batch_read(split.data, 2026, 1, 0, 1000, &split.batch, &split.error),
                     SHOAL_E_CHECKSUM);
    ck_assert_ptr_nonnull(strstr(split.error.text, "shorter"));
}
END_TEST

START_TEST(dataset_replaced_file_does_not_disturb_a_running_job)
{
    const char *path = split_rows("a.csv", 0, 1000);
    config_list_add(&split.job.data.train, path);
    split_open(WIRE_TRAIN);
    ck_assert_int_eq(rename(worker_text("new.csv", "label,row\n1,x\n"), path), 0);
    split_epoch(1, 1000, 100);
}
END_TEST

START_TEST(dataset_malformed_lines_are_counted_with_their_place)
{
    config_list_add(&split.job.data.train,
                    worker_text("a.csv", "label,row\n\n1,a\nbroken\n0,b\nx,c\n1,d\n"));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(dataset_rows(split.data), 5);
    split_read(0, 0, 5);
    ck_assert_uint_eq(split.batch.examples, 3);
    ck_assert_uint_eq(split.batch.bad_lines, 2);
    ck_assert_ptr_nonnull(strstr(split.batch.bad_where, "a.csv:4: 1 columns, not 2"));
    split_read(0, 2, 3); /* its place is known from the index, wherever reading begins */
    ck_assert_uint_eq(split.batch.bad_lines, 1);
    ck_assert_ptr_nonnull(strstr(split.batch.bad_where, "a.csv:6: no number as label"));
}
END_TEST

START_TEST(dataset_line_over_the_limit_is_malformed)
{
    size_t bytes = (LIMIT_LINE_BYTES + 100u) + 64;
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    memcpy(text, "label,row\n1,", 12);
    memcpy(text + bytes - 6, "\n0,ok\n", 6);
    config_list_add(&split.job.data.train, worker_write("a.csv", text, bytes));
    free(text);
    split_open(WIRE_TRAIN);
    split_read(1, 0, 2);
    ck_assert_uint_eq(split.batch.examples, 1);
    ck_assert_uint_eq(split.batch.bad_lines, 1);
    ck_assert_ptr_nonnull(strstr(split.batch.bad_where, "a.csv:2: the line is longer than"));
}
END_TEST

START_TEST(dataset_position_beyond_the_end_is_refused)
{
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, 10));
    split_open(WIRE_TRAIN);
    ck_assert_int_eq(batch_read(split.data, 1, 1, 5, 6, &split.batch, &split.error), SHOAL_E_DATA);
    ck_assert_int_eq(batch_read(split.data, 1, 1, UINT64_MAX, 6, &split.batch, &split.error),
                     SHOAL_E_DATA);
    ck_assert_int_eq(batch_read(split.data, 1, 1, 10, 0, &split.batch, &split.error), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dataset_read");
    TCase *t = suite_case(s, "dataset_read", 120, split_setup, split_teardown);
    tcase_add_test(t, dataset_epoch_visits_every_row_once);
    tcase_add_test(t, dataset_chunks_of_many_rows_are_visited_once_too);
    tcase_add_test(t, dataset_eval_is_in_file_order);
    tcase_add_test(t, dataset_batches_are_the_same_bytes_each_time);
    tcase_add_test(t, dataset_changed_input_is_an_error);
    tcase_add_test(t, dataset_input_cut_short_is_an_error);
    tcase_add_test(t, dataset_replaced_file_does_not_disturb_a_running_job);
    tcase_add_test(t, dataset_malformed_lines_are_counted_with_their_place);
    tcase_add_test(t, dataset_line_over_the_limit_is_malformed);
    tcase_add_test(t, dataset_position_beyond_the_end_is_refused);
    return suite_main(s);
}
