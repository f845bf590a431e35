/* test_batch.c: values of a batch become unique keys sorted by key_mix, and an index into them. */
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "worker/data/batch_inner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job job;
static struct features f;
static struct batch b;
static struct err e;
static bool positives_only;

static void setup(void)
{
    worker_job(&job, DATA_CSV, NULL);
    f = (struct features){0};
    batch_init(&b);
}

static void teardown(void)
{
    batch_free(&b);
    features_free(&f);
    job_free(&job);
}

static void make(const char *head)
{
    ck_assert_msg(features_make(&job, "a.csv", head, strlen(head), &f, &e) == 0, "%s", e.text);
}

static void add(const char *text)
{
    static char copy[1 << 16];
    strcpy(copy, text);
    struct line line = {
        .text = copy, .bytes = (uint32_t)strlen(text), .number = b.examples + b.bad_lines + 2};
    const struct draw draw = {.negatives = positives_only, .epoch = 1};
    ck_assert_int_eq(batch_add(&b, &f, &line, "some/folder/a.csv", &draw, 0, &e), 0);
}

/* Checks that value i of the batch is this value of this field. */
static void check_value(uint32_t i, uint32_t field, const char *value)
{
    ck_assert_uint_lt(i, b.values);
    ck_assert_uint_lt(b.index[i], b.key_count);
    ck_assert_uint_eq(b.keys[b.index[i]], key_of_value(field, value, strlen(value)));
}

static void check_sorted(void)
{
    for (uint32_t i = 1; i < b.key_count; i++)
        ck_assert_uint_lt(key_mix(b.keys[i - 1]), key_mix(b.keys[i]));
}

START_TEST(batch_keys_are_unique_and_sorted)
{
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    add("1,u1,i1");
    add("0,u1,i2");
    add("1,u2,i1");
    add("0,i1,u1"); /* the same text in another field is another key */
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 4);
    ck_assert_uint_eq(b.values, 8);
    ck_assert_uint_eq(b.key_count, 6);
    ck_assert_ptr_null(b.offset);
    check_sorted();
    check_value(0, 0, "u1");
    check_value(1, 1, "i1");
    check_value(4, 0, "u2");
    check_value(5, 1, "i1");
    check_value(7, 1, "u1");
    ck_assert(b.label[0] == 1.0f && b.label[1] == 0.0f);
}
END_TEST

START_TEST(batch_malformed_lines_are_counted_and_left_out)
{
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    add("1,u1,i1");
    add("oops");
    add("x,u1,i1");
    add("0,u2,i1");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 2);
    ck_assert_uint_eq(b.bad_lines, 2);
    ck_assert_str_eq(b.bad_where, "some/folder/a.csv:3: 1 columns, not 3 as in the header");
    ck_assert_uint_eq(b.values, 4);
    check_value(2, 0, "u2");
}
END_TEST

START_TEST(batch_long_names_leave_room_for_the_reason)
{
    char name[600];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 1, false, &e), 0);
    struct line line = {.text = (char[]){"oops"}, .bytes = 4, .number = UINT64_MAX};
    ck_assert_int_eq(batch_add(&b, &f, &line, name, &(struct draw){.epoch = 0}, 0, &e), 0);
    ck_assert_ptr_nonnull(strstr(b.bad_where, "1 columns, not 3 as in the header"));
}
END_TEST

START_TEST(batch_of_bad_lines_only_is_empty)
{
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 1, false, &e), 0);
    add("oops");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 0);
    ck_assert_uint_eq(b.key_count, 0);
}
END_TEST

START_TEST(batch_multi_values_have_offsets)
{
    worker_job_column(&job, "tags", COLUMN_MULTI);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    make("label,tags,user");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    add("1,a|b|c,u1");
    add("1,,u1");
    add("bad,a|b,u1");
    add("0,a,u2");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    static const uint32_t expected[] = {0, 3, 4, 4, 5, 6, 7};
    ck_assert_uint_eq(b.examples, 3);
    ck_assert_uint_eq(b.values, 7);
    ck_assert_ptr_nonnull(b.offset);
    ck_assert_int_eq(memcmp(b.offset, expected, sizeof expected), 0);
    check_value(2, 0, "c");
    check_value(3, 1, "u1");
    check_value(4, 1, "u1");
    check_value(5, 0, "a");
    /* If every field of every example has one value, there are no offsets, and the next batch may
     * have them again. */
    ck_assert_int_eq(batch_begin(&b, &f, 1, false, &e), 0);
    add("1,a,u1");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_ptr_null(b.offset);
    ck_assert_int_eq(batch_begin(&b, &f, 1, false, &e), 0);
    add("1,a|b,u1");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_ptr_nonnull(b.offset);
}
END_TEST

static int compare_u64(const void *x, const void *y)
{
    uint64_t p = key_mix(*(const uint64_t *)x), q = key_mix(*(const uint64_t *)y);
    return (p > q) - (p < q);
}

START_TEST(batch_agrees_with_a_plain_sort)
{
    enum { ROWS = 20000 };
    static uint64_t all[2 * ROWS];
    struct rng rng = {7};
    char text[64];
    make("label,user,item");
    for (int round = 0; round < 3; round++) { /* the same buffers, other values */
        uint32_t rows = round == 1 ? 100 : ROWS;
        ck_assert_int_eq(batch_begin(&b, &f, rows, false, &e), 0);
        for (uint32_t i = 0; i < rows; i++) {
            uint64_t user = rng_below(&rng, 30000), item = rng_below(&rng, 50);
            int n = sprintf(text, "%u,%d,%d", i & 1, (int)user, (int)item);
            struct line line = {.text = text, .bytes = (uint32_t)n, .number = i};
            ck_assert_int_eq(batch_add(&b, &f, &line, "a", &(struct draw){.epoch = 0}, 0, &e), 0);
        }
        for (uint32_t i = 0; i < 2 * rows; i++)
            all[i] = b.space->mixed[i];
        ck_assert_int_eq(batch_end(&b, &e), 0);
        ck_assert_uint_eq(b.values, 2 * rows);
        for (uint32_t i = 0; i < b.values; i++)
            ck_assert_uint_eq(b.keys[b.index[i]], all[i]);
        qsort(all, b.values, sizeof all[0], compare_u64);
        uint32_t unique = 0;
        for (uint32_t i = 0; i < b.values; i++)
            if (i == 0 || all[i] != all[i - 1])
                ck_assert_uint_eq(b.keys[unique++], all[i]);
        ck_assert_uint_eq(b.key_count, unique);
    }
}
END_TEST

START_TEST(batch_buffers_are_kept)
{
    make("label,user,item");
    void *label = NULL, *index = NULL, *keys = NULL;
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(batch_begin(&b, &f, 3 - (uint32_t)round, false, &e), 0);
        add("1,u1,i1");
        ck_assert_int_eq(batch_end(&b, &e), 0);
        if (round > 0)
            ck_assert(b.label == label && b.index == index && b.keys == keys);
        label = b.label;
        index = b.index;
        keys = b.keys;
    }
}
END_TEST

START_TEST(batch_crowded_keys_are_sorted_too)
{
    /* Keys chosen so that all fall into one bucket of the sort. */
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 2000, false, &e), 0);
    for (uint32_t i = 0; i < 2000; i++)
        add("1,u,i");
    for (uint32_t i = 0; i < b.values; i++)
        b.space->mixed[i] = key_unmix((uint64_t)(b.values - i) << 8);
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.key_count, 4000);
    check_sorted();
    ck_assert_uint_eq(b.index[0], 3999);
}
END_TEST

START_TEST(batch_labels_are_example_major)
{
    strcpy(job.data.label[0], "buy");
    strcpy(job.data.label[1], "click");
    job.data.label_count = 2;
    make("click,buy,user");
    ck_assert_int_eq(batch_begin(&b, &f, 3, false, &e), 0);
    add("1,0,u1");
    add("1,x,u1"); /* the other label is not a number: a bad line */
    add("0,1,u2");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    static const float expected[] = {0, 1, 1, 0};
    ck_assert_uint_eq(b.tasks, 2);
    ck_assert_uint_eq(b.examples, 2);
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_int_eq(memcmp(b.label, expected, sizeof expected), 0);
    ck_assert_ptr_null(b.weight);
}
END_TEST

START_TEST(batch_weights_stand_by_example)
{
    strcpy(job.data.weight, "w");
    make("label,w,user");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    add("1,2,u1");
    add("1,-2,u1");
    add("1,inf,u1");
    add("0,0,u2");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 2);
    ck_assert_uint_eq(b.bad_lines, 2);
    ck_assert_str_eq(b.bad_where,
                     "some/folder/a.csv:3: a negative weight: column \"w\" has \"-2\"");
    ck_assert(b.weight[0] == 2.0f && b.weight[1] == 0.0f);
}
END_TEST

START_TEST(batch_groups_are_filled_in_evaluation_only)
{
    strcpy(job.evaluate.group, "user");
    config_list_add(&job.evaluate.by, "item");
    config_list_add(&job.evaluate.by, "user");
    make("label,user,item");
    for (int evaluating = 0; evaluating < 3; evaluating++) {
        /* the same buffers: not requested, requested, not again */
        ck_assert_int_eq(batch_begin(&b, &f, 3, evaluating == 1, &e), 0);
        add("1,u1,i1");
        add("bad,u9,i9");
        add("1,u2,i2");
        ck_assert_int_eq(batch_end(&b, &e), 0);
        ck_assert((b.group != NULL) == (evaluating == 1));
        ck_assert(b.group == NULL || b.group[1] == hash_bytes("u2", 2, 0));
        ck_assert_uint_eq(b.by_count, 2);
        ck_assert_uint_eq(b.by[0], hash_bytes("i1", 2, 0));
        ck_assert_uint_eq(b.by[2], hash_bytes("i2", 2, 0));
        ck_assert_uint_eq(b.by[3], hash_bytes("u2", 2, 0));
    }
}
END_TEST

START_TEST(batch_dropped_lines_are_counted_apart)
{
    make("label,user,item");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    positives_only = true;
    add("0,u1,i1");
    add("1,u2,i2");
    add("x,u3,i3");
    positives_only = false;
    add("0,u4,i4");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 2);
    ck_assert_uint_eq(b.dropped, 2); /* a malformed line takes part in the same draw */
    ck_assert_uint_eq(b.drawn, 1);   /* whatever they contain */
    ck_assert_uint_eq(b.bad_lines, 0);
    ck_assert_uint_eq(b.values, 4);
    check_value(0, 0, "u2");
    check_value(2, 0, "u4");
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    ck_assert_uint_eq(b.dropped, 0);
    add("x,u3,i3");
    ck_assert_uint_eq(b.bad_lines, 1);
}
END_TEST

START_TEST(batch_key_may_come_twice_in_one_example)
{
    worker_job_column(&job, "history", COLUMN_MULTI);
    strcpy(job.data.column[0].share, "item");
    worker_job_column(&job, "item", COLUMN_CATEGORY);
    make("label,history,item");
    ck_assert_int_eq(batch_begin(&b, &f, 2, false, &e), 0);
    add("1,a|b|a,a");
    add("0,,b");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.values, 5);
    ck_assert_uint_eq(b.key_count, 2);
    check_sorted();
    ck_assert(b.index[0] == b.index[2] && b.index[2] == b.index[3]);
    ck_assert(b.index[1] == b.index[4] && b.index[0] != b.index[1]);
    check_value(0, 1, "a");
    check_value(4, 1, "b");
}
END_TEST

/* The median does not depend on the order of lines; a malformed line has no time. */
START_TEST(batch_event_time_is_the_median)
{
    struct rng random = rng_of(5, 0, 0);
    char text[64];
    snprintf(job.data.time, sizeof job.data.time, "at");
    job.data.time_form.any = true;
    make("label,at,user");
    for (uint32_t count = 1; count <= 40; count++) {
        ck_assert_int_eq(batch_begin(&b, &f, count + 1, false, &e), 0);
        uint32_t time[40], distinct = count % 3 == 0 ? 2 : 1000000;
        for (uint32_t i = 0; i < count; i++) {
            time[i] = 1000 + (uint32_t)rng_below(&random, distinct);
            snprintf(text, sizeof text, "1,%u,u", time[i]);
            add(text);
        }
        add("1,never,u");
        ck_assert_int_eq(batch_end(&b, &e), 0);
        ck_assert_uint_eq(b.bad_lines, 1);
        uint32_t below = 0, equal = 0;
        for (uint32_t i = 0; i < count; i++) {
            below += time[i] < b.event_time;
            equal += time[i] == b.event_time;
        }
        /* the ((count - 1) / 2)-th, from 0, of the sorted ones */
        ck_assert_uint_le(below, (count - 1) / 2);
        ck_assert_uint_gt(below + equal, (count - 1) / 2);
    }
    ck_assert_int_eq(batch_begin(&b, &f, 2, false, &e), 0);
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.event_time, 0); /* no example */
}
END_TEST

/* Every stamp after the limit counts as the limit; earlier ones stay, however old. */
START_TEST(batch_times_of_the_future_are_clamped)
{
    snprintf(job.data.time, sizeof job.data.time, "at");
    job.data.time_form.any = true;
    make("label,at,user");
    for (uint32_t limit = 0; limit <= 2000; limit += 1000) {
        b.time_limit = limit;
        ck_assert_int_eq(batch_begin(&b, &f, 3, false, &e), 0);
        add("1,4000000000,u");
        add("1,1000,u"); /* at the limit is not past it */
        add("1,3000,u");
        ck_assert_int_eq(batch_end(&b, &e), 0);
        ck_assert_uint_eq(b.event_time, limit == 0 ? 3000 : limit);
        ck_assert_uint_eq(b.clamped, limit == 0 ? 0 : 2);
    }
    ck_assert_int_eq(batch_begin(&b, &f, 1, false, &e), 0);
    add("1,7,u");
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.event_time, 7);
    ck_assert_uint_eq(b.clamped, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("batch");
    TCase *t = tcase_create("batch");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, batch_keys_are_unique_and_sorted);
    tcase_add_test(t, batch_malformed_lines_are_counted_and_left_out);
    tcase_add_test(t, batch_long_names_leave_room_for_the_reason);
    tcase_add_test(t, batch_of_bad_lines_only_is_empty);
    tcase_add_test(t, batch_multi_values_have_offsets);
    tcase_add_test(t, batch_agrees_with_a_plain_sort);
    tcase_add_test(t, batch_buffers_are_kept);
    tcase_add_test(t, batch_crowded_keys_are_sorted_too);
    tcase_add_test(t, batch_labels_are_example_major);
    tcase_add_test(t, batch_weights_stand_by_example);
    tcase_add_test(t, batch_groups_are_filled_in_evaluation_only);
    tcase_add_test(t, batch_dropped_lines_are_counted_apart);
    tcase_add_test(t, batch_key_may_come_twice_in_one_example);
    tcase_add_test(t, batch_event_time_is_the_median);
    tcase_add_test(t, batch_times_of_the_future_are_clamped);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
