/* test_read_tfrecord.c: cells of tf.Example records. */
#include "proto/base/rng.h"
#include "proto/job/config.h"
#include "tests/lib/records.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/data/feature.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct job job;
static struct features f;
static struct cell cell[CELLS_MAX];
static char reason[REASON_BYTES];
static struct record r;
static struct err e;
static uint8_t text[RECORDS_BYTES * (1 + RECORD_ROOM)];

static void setup(void)
{
    worker_job(&job, DATA_TFRECORD, NULL);
    strcpy(job.data.label[0], "click");
    worker_job_column(&job, "price", COLUMN_NUMBER);
    worker_job_column(&job, "tags", COLUMN_MULTI);
    job.data.column[1].separator = '|';
    r.bytes = 0;
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

/* The first record has the features of `r`. */
static void features_take(void)
{
    size_t bytes = record_example(&r, text);
    ck_assert_msg(features_make(&job, "a.tfrecord", (char *)text, bytes, &f, &e) == 0, "%s",
                  e.text);
    r.bytes = 0;
}

static void usual_features(void)
{
    static const int64_t one = 1;
    static const float price = 1.5f;
    static const char *const user = "u7", *const tags[] = {"a", "b"};
    record_texts(&r, "user", &user, 1);
    record_integers(&r, "click", &one, 1);
    record_floats(&r, "price", &price, 1);
    record_texts(&r, "tags", tags, 2);
}

static int read_record(void)
{
    size_t bytes = record_example(&r, text);
    r.bytes = 0;
    reason[0] = '\0';
    return format_tfrecord.line(&f, (char *)text, bytes, cell, reason);
}

static void is_cell(const char *name, const char *expected)
{
    uint32_t i = keyed_find(&f.keyed, f.name, name, (uint32_t)strlen(name));
    ck_assert_uint_ne(i, KEYED_NO_COLUMN);
    ck_assert_msg(cell[i].bytes == strlen(expected) &&
                      memcmp(cell[i].text, expected, cell[i].bytes) == 0,
                  "%s is \"%.*s\", not \"%s\"", name, (int)cell[i].bytes, cell[i].text, expected);
}

START_TEST(tfrecord_columns_are_the_names_in_order)
{
    strcpy(job.data.weight, "w");
    usual_features();
    features_take();
    ck_assert_uint_eq(f.columns, 5);
    static const char *const names[] = {"click", "price", "tags", "user", "w"};
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_int_eq(memcmp(f.name[i].text, names[i], strlen(names[i])), 0);
    ck_assert_uint_eq(f.label[0], 0);
    ck_assert_uint_eq(f.weight, 4);
    ck_assert_uint_eq(f.shape.fields, 2);
    ck_assert_uint_eq(f.shape.numerics, 1);
}
END_TEST

START_TEST(tfrecord_values_are_text)
{
    static const int64_t many[] = {0, 7, -1, INT64_MIN, INT64_MAX};
    usual_features();
    features_take();
    usual_features();
    ck_assert_msg(read_record() == 0, "%s", reason);
    is_cell("user", "u7");
    is_cell("click", "1");
    is_cell("price", "1.5");
    is_cell("tags", "a|b");
    record_integers(&r, "tags", many, 5);
    ck_assert_msg(read_record() == 0, "%s", reason);
    is_cell("tags", "0|7|-1|-9223372036854775808|9223372036854775807");
    is_cell("user", "");
    is_cell("click", "");
}
END_TEST

START_TEST(tfrecord_floats_are_read_back_as_they_were)
{
    struct rng rng = rng_of(7, 7, 7);
    usual_features();
    features_take();
    for (uint32_t i = 0; i < 300000; i++) {
        float value = (float)(rng_next(&rng) % 1000) / 8, back;
        uint32_t bits = (uint32_t)rng_next(&rng);
        if (i % 3 == 1)
            value = (float)((double)(bits % 2000000000u) / 1e4);
        if (i % 3 == 2)
            memcpy(&value, &bits, sizeof value);
        if (!isfinite(value))
            continue;
        record_floats(&r, "price", &value, 1);
        ck_assert_msg(read_record() == 0, "%s", reason);
        char copy[32] = "";
        ck_assert_uint_lt(cell[1].bytes, 17);
        memcpy(copy, cell[1].text, cell[1].bytes);
        back = strtof(copy, NULL);
        ck_assert_msg(memcmp(&back, &value, 4) == 0 || (back == 0 && value == 0), "%s for %.9g",
                      copy, (double)value);
    }
    static const struct {
        float value;
        const char *text;
    } known[] = {{0, "0"}, {3, "3"}, {-0.5f, "-0.5"}, {1e6f, "1000000"}, {0.1f, "0.100000001"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        record_floats(&r, "price", &known[i].value, 1);
        ck_assert_int_eq(read_record(), 0);
        is_cell("price", known[i].text);
    }
}
END_TEST

static void refused(const char *part)
{
    ck_assert_int_eq(read_record(), SHOAL_E_DATA);
    ck_assert_msg(strstr(reason, part) != NULL, "\"%s\" is not in \"%s\"", part, reason);
}

START_TEST(tfrecord_what_would_be_lost_is_refused)
{
    static const int64_t two[] = {1, 2};
    static const char *const bar = "a|b", *const plain = "x";
    usual_features();
    features_take();
    record_integers(&r, "price", two, 2);
    refused("feature \"price\" has several values");
    record_texts(&r, "tags", &bar, 1);
    refused("feature \"tags\" has a value with its column's separator");
    record_texts(&r, "new", &plain, 1);
    refused("feature \"new\" is neither in the first record nor in the job");
    record_texts(&r, "user", &plain, 1);
    record_texts(&r, "user", &plain, 1);
    refused("feature \"user\" stands twice");
    record_texts(&r, "user", &bar, 1);
    ck_assert_int_eq(read_record(), 0); /* a category may have any text */
    is_cell("user", "a|b");
}
END_TEST

START_TEST(tfrecord_a_feature_with_two_lists_is_refused)
{
    uint8_t texts[8], both[16], entry[64];
    size_t n = record_part(both, 1, texts, record_part(texts, 1, "x", 1));
    n += record_part(both + n, 3, texts, record_part(texts, 1, "\1\2", 2));
    usual_features();
    features_take();
    size_t m = record_part(entry, 1, "tags", 4);
    m += record_part(entry + m, 2, both, n);
    r.bytes += record_part(r.data, 1, entry, m);
    refused("feature \"tags\" has two lists of values");
}
END_TEST

START_TEST(tfrecord_the_longest_floats_have_room)
{
    static float small[1000];
    for (size_t i = 0; i < 1000; i++)
        small[i] = -0.0000499999987f;
    usual_features();
    features_take();
    record_floats(&r, "tags", small, 1000);
    ck_assert_msg(read_record() == 0, "%s", reason);
    ck_assert_uint_eq(cell[2].bytes, 17 * 1000 - 1);
}
END_TEST

START_TEST(tfrecord_a_skipped_feature_may_have_any_values)
{
    static const char *const texts[] = {"a|b", "c"};
    worker_job_column(&job, "user", COLUMN_SKIP);
    usual_features();
    features_take();
    record_texts(&r, "user", texts, 2);
    ck_assert_msg(read_record() == 0, "%s", reason);
}
END_TEST

/* No text is made for a cell that nothing needs; evaluate.by and data.sample_by need one. */
START_TEST(tfrecord_a_skipped_feature_has_no_text)
{
    static const int64_t number = 7;
    worker_job_column(&job, "user", COLUMN_SKIP);
    worker_job_column(&job, "region", COLUMN_SKIP);
    config_list_add(&job.evaluate.by, "region");
    usual_features();
    record_integers(&r, "region", &number, 1);
    features_take();
    usual_features();
    record_integers(&r, "region", &number, 1);
    ck_assert_msg(read_record() == 0, "%s", reason);
    is_cell("user", "");
    is_cell("region", "7");
    is_cell("price", "1.5");
    static const char *const texts[] = {"x", "y"};
    record_texts(&r, "user", texts, 1);
    record_texts(&r, "user", texts, 1);
    refused("feature \"user\" stands twice");
}
END_TEST

START_TEST(tfrecord_other_messages_are_refused)
{
    static const char sequence[] = "\x0a\x00\x12\x00";
    usual_features();
    features_take();
    memcpy(text, sequence, 4);
    ck_assert_int_eq(format_tfrecord.line(&f, (char *)text, 4, cell, reason), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(reason, "tf.SequenceExample"));
    memcpy(text, "1,2,3\n", 6);
    ck_assert_int_eq(format_tfrecord.line(&f, (char *)text, 6, cell, reason), SHOAL_E_DATA);
    ck_assert_int_eq(features_make(&job, "a", "\x0a\x00", 2, &(struct features){0}, &e),
                     SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a:1: no tf.Example: the first record has no feature"));
}
END_TEST

START_TEST(tfrecord_cut_anywhere_is_refused_or_whole)
{
    usual_features();
    features_take();
    usual_features();
    size_t bytes = record_example(&r, text);
    for (size_t n = 1; n < bytes; n++) {
        char *copy = malloc(n * (1 + RECORD_ROOM));
        memcpy(copy, text, n);
        ck_assert_int_eq(format_tfrecord.line(&f, copy, n, cell, reason), SHOAL_E_DATA);
        free(copy);
    }
    r.bytes = 0;
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_tfrecord");
    TCase *t = suite_case(s, "read_tfrecord", 60, setup, teardown);
    tcase_add_test(t, tfrecord_columns_are_the_names_in_order);
    tcase_add_test(t, tfrecord_values_are_text);
    tcase_add_test(t, tfrecord_floats_are_read_back_as_they_were);
    tcase_add_test(t, tfrecord_what_would_be_lost_is_refused);
    tcase_add_test(t, tfrecord_a_feature_with_two_lists_is_refused);
    tcase_add_test(t, tfrecord_the_longest_floats_have_room);
    tcase_add_test(t, tfrecord_a_skipped_feature_may_have_any_values);
    tcase_add_test(t, tfrecord_a_skipped_feature_has_no_text);
    tcase_add_test(t, tfrecord_other_messages_are_refused);
    tcase_add_test(t, tfrecord_cut_anywhere_is_refused_or_whole);
    return suite_main(s);
}
