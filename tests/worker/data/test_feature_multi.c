/* test_feature_multi.c: values of a multi cell with weights, and the factors of a batch. */
#include "proto/base/key.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"
#include "worker/data/batch_inner.h"

#include <check.h>
#include <math.h>
#include <stdio.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct batch b;
static struct err e;

static void setup(void)
{
    f = (struct features){0};
    batch_init(&b);
    worker_job(&job, DATA_CSV, NULL);
    worker_job_column(&job, "tags", COLUMN_MULTI);
    job.data.column[0].weighted = true;
}

static void teardown(void)
{
    batch_free(&b);
    features_free(&f);
    job_free(&job);
}

static void make(void)
{
    static const char head[] = "click,user,tags,city";
    features_free(&f);
    f = (struct features){0};
    ck_assert_msg(features_make(&job, "a.csv", head, strlen(head), &f, &e) == 0, "%s", e.text);
}

static int read_text(const char *line)
{
    return read_line_text(&r, format_csv.line, &f, line);
}

/* Checks value i of the field tags. */
static void check_tag(uint32_t i, const char *tag, float weight)
{
    ck_assert_uint_lt(i, r.count[1]);
    ck_assert_uint_eq(r.key[1 + i], key_of_value(1, tag, strlen(tag)));
    ck_assert_msg(r.value_weight[1 + i] == weight, "%g", (double)r.value_weight[1 + i]);
}

START_TEST(multi_weights_stand_behind_the_last_colon)
{
    make();
    ck_assert_msg(read_text("1,u,12:0.5|7:-1.25||a:b:2|9|5:0,rome") == 0, "%s", r.reason);
    ck_assert_uint_eq(r.count[1], 5);
    check_tag(0, "12", 0.5f);
    check_tag(1, "7", -1.25f);
    check_tag(2, "a:b", 2.0f);
    check_tag(3, "9", 1.0f);
    check_tag(4, "5", 0.0f);
    ck_assert(r.value_weight[0] == 1.0f && r.value_weight[6] == 1.0f); /* user, city */
    ck_assert_int_eq(read_text("1,u,,rome"), 0);
    ck_assert_uint_eq(r.count[1], 0);
}
END_TEST

START_TEST(multi_weights_that_are_no_numbers_are_refused)
{
    static const char *const cells[] = {"12:", "12:x", "12:0.5 kg", "12:nan", "12:1e39", ":0.5"};
    make();
    for (size_t i = 0; i < sizeof cells / sizeof cells[0]; i++) {
        char line[64];
        snprintf(line, sizeof line, "1,u,7:1|%s|8:1,rome", cells[i]);
        ck_assert_int_eq(read_text(line), SHOAL_E_DATA);
        snprintf(line, sizeof line, "column \"tags\" has \"%s\"", cells[i]);
        ck_assert_msg(strstr(r.reason, line) != NULL, "%s", r.reason);
    }
}
END_TEST

START_TEST(multi_padding_is_a_value_without_its_weight)
{
    strcpy(job.data.column[0].padding, "0");
    job.data.column[0].max = 2;
    make();
    ck_assert_int_eq(read_text("1,u,3:1|4:2|5:3|0:0|0:1|0,rome"), 0);
    ck_assert_uint_eq(r.count[1], 2);
    check_tag(0, "4", 2.0f);
    check_tag(1, "5", 3.0f);
}
END_TEST

/* ---- factors --------------------------------------------------------------------------------- */

static void add(const char *text)
{
    static char copy[1 << 12];
    strcpy(copy, text);
    struct line line = {.text = copy, .bytes = (uint32_t)strlen(text), .number = 2};
    const struct draw draw = {.epoch = 1};
    ck_assert_int_eq(batch_add(&b, &f, &line, "a.csv", &draw, 0, &e), 0);
}

static void batch_of(const char *first, const char *second)
{
    make();
    ck_assert_int_eq(batch_begin(&b, &f, 4, false, &e), 0);
    add(first);
    add(second);
    ck_assert_int_eq(batch_end(&b, &e), 0);
    ck_assert_uint_eq(b.examples, 2);
}

START_TEST(factors_of_a_sum_are_the_weights)
{
    static const float expected[] = {1, 0.5f, -2, 1, 1, 3, 1};
    batch_of("1,u,12:0.5|7:-2,rome", "0,v,8:3,oslo");
    ck_assert_uint_eq(b.values, 7);
    for (uint32_t i = 0; i < b.values; i++)
        ck_assert_msg(b.factor[i] == expected[i], "%u: %g", i, (double)b.factor[i]);
}
END_TEST

START_TEST(factors_of_a_mean_are_shares_of_the_magnitudes)
{
    static const float expected[] = {1, 0.25f, -0.75f, 1, 1, 0, 0, 1};
    job.data.column[0].pooling = POOL_MEAN;
    batch_of("1,u,12:0.5|7:-1.5,rome", "0,v,8:0|9:0,oslo");
    ck_assert_uint_eq(b.values, 8);
    for (uint32_t i = 0; i < b.values; i++)
        ck_assert_msg(b.factor[i] == expected[i], "%u: %g", i, (double)b.factor[i]);
}
END_TEST

/* One divided by their sum is no float. */
START_TEST(factors_of_tiny_weights_are_finite)
{
    job.data.column[0].pooling = POOL_MEAN;
    batch_of("1,u,12:1e-40|7:1e-40,rome", "0,v,8:2,oslo");
    ck_assert(b.factor[1] == 0.5f && b.factor[2] == 0.5f);
}
END_TEST

/* The pools then divide by the count, and no array travels to a device. */
START_TEST(a_batch_whose_weights_are_1_has_no_factors)
{
    job.data.column[0].pooling = POOL_MEAN;
    batch_of("1,u,12:1|7,rome", "0,v,8:1.0,oslo");
    ck_assert_ptr_null(b.factor);
    ck_assert_ptr_nonnull(b.offset);
    batch_of("1,u,12:1|7,rome", "0,v,8:2,oslo");
    ck_assert_ptr_nonnull(b.factor);
    ck_assert(b.factor[1] == 0.5f && b.factor[2] == 0.5f && b.factor[5] == 1.0f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("feature_multi");
    TCase *t = tcase_create("feature_multi");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, multi_weights_stand_behind_the_last_colon);
    tcase_add_test(t, multi_weights_that_are_no_numbers_are_refused);
    tcase_add_test(t, multi_padding_is_a_value_without_its_weight);
    tcase_add_test(t, factors_of_a_sum_are_the_weights);
    tcase_add_test(t, factors_of_a_mean_are_shares_of_the_magnitudes);
    tcase_add_test(t, factors_of_tiny_weights_are_finite);
    tcase_add_test(t, a_batch_whose_weights_are_1_has_no_factors);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
