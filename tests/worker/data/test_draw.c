/* test_draw.c: the rows that training takes: a sample, and a share of the negatives. */
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_split.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Reads the epoch in batches and sets which rows of label 0 were kept; every row of label 1 must be
 * there. */
static uint32_t kept_negatives(uint32_t epoch, uint32_t rows, uint32_t batch, unsigned char *kept)
{
    uint32_t count = 0, dropped = 0, positive = 0;
    memset(kept, 0, rows);
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        split_read(epoch, at, want);
        dropped += split.batch.dropped;
        ck_assert_uint_eq(split.batch.examples + split.batch.dropped, want);
        for (uint32_t i = 0; i < split.batch.examples; i++) {
            uint32_t row = 0;
            positive += split.batch.label[i] == 1.0f;
            if (split.batch.label[i] == 1.0f)
                continue;
            while (row < rows && split_row_key(row) != split_key(i))
                row += 2;
            ck_assert_uint_lt(row, rows);
            ck_assert_uint_eq(kept[row], 0);
            kept[row] = 1;
            count++;
        }
    }
    ck_assert_uint_eq(positive, rows / 2);
    ck_assert_uint_eq(count + dropped, rows / 2);
    return count;
}

START_TEST(dataset_negatives_are_a_share_drawn_anew_each_epoch)
{
    enum { ROWS = 4000 };
    static unsigned char first[ROWS], second[ROWS], again[ROWS];
    split.job.data.negatives = 0.25;
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, ROWS));
    config_list_add(&split.job.data.valid, split_rows("v.csv", 0, ROWS));
    split_open(WIRE_TRAIN);
    uint32_t count = kept_negatives(1, ROWS, 512, first);
    ck_assert_uint_eq(count, 507);           /* the same in every release */
    ck_assert_uint_gt(count, 2000 / 4 - 80); /* four deviations of sqrt(2000 0.25 0.75) */
    ck_assert_uint_lt(count, 2000 / 4 + 80);
    /* not by position: other batches, the same rows */
    ck_assert_uint_eq(kept_negatives(1, ROWS, 333, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    kept_negatives(2, ROWS, 512, second);
    uint32_t both = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        both += first[i] & second[i];
    ck_assert_uint_gt(both, 2000 / 16 - 50);
    ck_assert_uint_lt(both, 2000 / 16 + 50);
    split.job.data.shuffle = false; /* nor by the order of the epoch */
    split_open(WIRE_TRAIN);
    kept_negatives(1, ROWS, 512, again);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    split_read(1, 0, ROWS);
    /* counts all rows: a reader in order learns the label later */
    ck_assert_uint_gt(split.batch.drawn, ROWS / 4 - 110);
    ck_assert_uint_lt(split.batch.drawn, ROWS / 4 + 110);
    split_read(0, 0, ROWS); /* evaluation takes all */
    ck_assert_uint_eq(split.batch.examples, ROWS);
    ck_assert_uint_eq(split.batch.drawn, ROWS);
    split_open(WIRE_VALID);
    split_read(1, 0, ROWS); /* and so does every split but train */
    ck_assert_uint_eq(split.batch.examples, ROWS);
    split.job.data.negatives = 0; /* a job made by hand: all */
    split_open(WIRE_TRAIN);
    split_read(1, 0, ROWS);
    ck_assert_uint_eq(split.batch.examples, ROWS);
}
END_TEST

/* Reads the epoch in batches and sets which rows were taken; returns their number. */
static uint32_t taken_rows(uint64_t seed, uint32_t epoch, uint32_t rows, uint32_t batch,
                           unsigned char *taken)
{
    uint32_t count = 0, drawn = 0;
    memset(taken, 0, rows);
    for (uint32_t at = 0; at < rows; at += batch) {
        uint32_t want = rows - at < batch ? rows - at : batch;
        ck_assert_msg(batch_read(split.data, seed, epoch, at, want, &split.batch, &split.error) ==
                          0,
                      "%s", split.error.text);
        ck_assert_uint_eq(split.batch.examples + split.batch.dropped, want);
        drawn += split.batch.drawn;
        for (uint32_t i = 0; i < split.batch.examples; i++) {
            uint32_t row = 0;
            while (row < rows && split_row_key(row) != split_key(i))
                row++;
            ck_assert_uint_lt(row, rows);
            ck_assert_uint_eq(taken[row], 0);
            taken[row] = 1;
            count++;
        }
    }
    ck_assert_uint_eq(drawn, count);
    return count;
}

START_TEST(dataset_sample_is_the_same_in_each_epoch)
{
    enum { ROWS = 4000 };
    static unsigned char first[ROWS], again[ROWS];
    split.job.data.sample = 0.25;
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, ROWS));
    config_list_add(&split.job.data.valid, split_rows("v.csv", 0, ROWS));
    split_open(WIRE_TRAIN);
    uint32_t count = taken_rows(2026, 1, ROWS, 512, first);
    ck_assert_uint_gt(count, ROWS / 4 - 110); /* four deviations of sqrt(4000 0.25 0.75) */
    ck_assert_uint_lt(count, ROWS / 4 + 110);
    /* in another epoch, in other batches and in the order of the file */
    ck_assert_uint_eq(taken_rows(2026, 2, ROWS, 333, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    split.job.data.shuffle = false;
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(taken_rows(2026, 7, ROWS, 1000, again), count);
    ck_assert_int_eq(memcmp(first, again, ROWS), 0);
    /* of another seed others, as many of them in both as chance has it */
    uint32_t both = 0;
    taken_rows(2027, 1, ROWS, 512, again);
    for (uint32_t i = 0; i < ROWS; i++)
        both += first[i] & again[i];
    ck_assert_uint_gt(both, ROWS / 16 - 62);
    ck_assert_uint_lt(both, ROWS / 16 + 62);
    split_read(0, 0, ROWS); /* evaluation takes all */
    ck_assert_uint_eq(split.batch.examples, ROWS);
    split_open(WIRE_VALID);
    split_read(1, 0, ROWS); /* and so does every split but train */
    ck_assert_uint_eq(split.batch.examples, ROWS);
}
END_TEST

/* A share of the negatives of the sample, and all of its positives. */
START_TEST(dataset_negatives_are_drawn_from_the_sample)
{
    enum { ROWS = 4000 };
    static unsigned char sample[ROWS], both[ROWS];
    config_list_add(&split.job.data.train, split_rows("a.csv", 0, ROWS));
    split.job.data.sample = 0.5;
    split_open(WIRE_TRAIN);
    taken_rows(2026, 1, ROWS, 500, sample);
    split.job.data.negatives = 0.25;
    split_open(WIRE_TRAIN);
    memset(both, 0, ROWS);
    uint32_t negatives = 0;
    split_read(1, 0, ROWS);
    for (uint32_t i = 0; i < split.batch.examples; i++) {
        uint32_t row = 0;
        while (row < ROWS && split_row_key(row) != split_key(i))
            row++;
        ck_assert_uint_eq(sample[row], 1);
        both[row] = 1;
        negatives += (row & 1) == 0;
    }
    for (uint32_t i = 1; i < ROWS; i += 2)
        ck_assert_uint_eq(sample[i], both[i]);
    ck_assert_uint_gt(negatives, ROWS / 2 / 8 - 60);
    ck_assert_uint_lt(negatives, ROWS / 2 / 8 + 60);
}
END_TEST

/* Writes a csv "label,user,row" in which row i is of user i * 7 % users; every 10th label is no
 * number where `bad`. */
static const char *write_users(const char *name, uint32_t rows, uint32_t users, bool bad)
{
    char *text = malloc(32 + 32 * (size_t)rows);
    size_t at = (size_t)sprintf(text, "label,user,row\n");
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)sprintf(text + at, "%s,u%u,r%u\n", bad && i % 10 == 3 ? "?" : "1",
                              i * 7 % users, i);
    const char *path = worker_write(name, text, at);
    free(text);
    return path;
}

/* Sets which users have examples in the split; all of a user's rows must be there, or none. */
static uint32_t taken_users(uint32_t rows, uint32_t users, unsigned char *taken)
{
    static uint32_t count[256];
    char text[16];
    uint32_t all = 0;
    ck_assert_uint_le(users, 256);
    memset(count, 0, sizeof count);
    split_read(1, 0, rows);
    for (uint32_t i = 0; i < split.batch.examples; i++) {
        uint32_t user = 0;
        while (user < users && split.batch.keys[split.batch.index[2 * i]] !=
                                   key_of_value(0, text, (size_t)sprintf(text, "u%u", user)))
            user++;
        ck_assert_uint_lt(user, users);
        count[user]++;
    }
    for (uint32_t user = 0; user < users; user++) {
        ck_assert(count[user] == 0 || count[user] == rows / users);
        taken[user] = count[user] > 0;
        all += taken[user];
    }
    return all;
}

START_TEST(dataset_sample_takes_whole_users)
{
    enum { USERS = 200, ROWS = 10 * USERS };
    static unsigned char first[USERS], again[USERS];
    split.job.data.sample = 0.25;
    strcpy(split.job.data.sample_by, "user");
    config_list_add(&split.job.data.train, write_users("a.csv", ROWS, USERS, false));
    split_open(WIRE_TRAIN);
    uint32_t count = taken_users(ROWS, USERS, first);
    ck_assert_uint_gt(count, USERS / 4 - 25); /* four deviations of sqrt(200 0.25 0.75) */
    ck_assert_uint_lt(count, USERS / 4 + 25);
    ck_assert_uint_eq(split.batch.drawn, split.batch.examples);
    /* the same users of another log, and of an object of one */
    config_list_free(&split.job.data.train);
    config_list_add(&split.job.data.train, write_users("b.csv", 2 * ROWS, USERS, false));
    split_open(WIRE_TRAIN);
    ck_assert_uint_eq(taken_users(2 * ROWS, USERS, again), count);
    ck_assert_int_eq(memcmp(first, again, USERS), 0);
    dataset_close(split.data);
    split.data = NULL;
    split.job.data.objects.of[WIRE_TRAIN].on = true;
    ck_assert_msg(dataset_open_object(&split.job, WIRE_TRAIN, split.job.data.train.item[0],
                                      &split.data, &split.error) == 0,
                  "%s", split.error.text);
    ck_assert_uint_eq(taken_users(2 * ROWS, USERS, again), count);
    ck_assert_int_eq(memcmp(first, again, USERS), 0);
}
END_TEST

/* Malformed lines go by their number, so that they keep their share of the lines. */
START_TEST(dataset_sample_has_its_share_of_malformed_lines)
{
    enum { ROWS = 8000 };
    split.job.data.sample = 0.25;
    if (_i == 1)
        strcpy(split.job.data.sample_by, "user");
    config_list_add(&split.job.data.train, write_users("a.csv", ROWS, 1000, true));
    split_open(WIRE_TRAIN);
    split_read(1, 0, ROWS);
    ck_assert_uint_eq(split.batch.drawn, split.batch.examples + split.batch.bad_lines);
    ck_assert_uint_gt(split.batch.bad_lines,
                      ROWS / 40 - 50); /* four deviations of sqrt(800 0.25 0.75) */
    ck_assert_uint_lt(split.batch.bad_lines, ROWS / 40 + 50);
}
END_TEST

START_TEST(dataset_dropped_negatives_leave_an_empty_batch)
{
    split.job.data.negatives = 1e-6;
    config_list_add(&split.job.data.train, worker_text("a.csv", "label,row\n0,a\n0,b\n0,c\n"));
    split_open(WIRE_TRAIN);
    split_read(1, 0, 3);
    ck_assert_uint_eq(split.batch.examples, 0);
    ck_assert_uint_eq(split.batch.key_count, 0);
    ck_assert_uint_eq(split.batch.dropped, 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("draw");
    TCase *t = suite_case(s, "draw", 120, split_setup, split_teardown);
    tcase_add_test(t, dataset_negatives_are_a_share_drawn_anew_each_epoch);
    tcase_add_test(t, dataset_sample_is_the_same_in_each_epoch);
    tcase_add_test(t, dataset_negatives_are_drawn_from_the_sample);
    tcase_add_test(t, dataset_sample_takes_whole_users);
    tcase_add_loop_test(t, dataset_sample_has_its_share_of_malformed_lines, 0, 2);
    tcase_add_test(t, dataset_dropped_negatives_leave_an_empty_batch);
    return suite_main(s);
}
