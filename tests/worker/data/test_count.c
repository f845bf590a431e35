/* test_count.c: the keys of a log are counted, and those of the whole log are estimated from a
 * part. */
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/crafted.h"
#include "worker/data/count.h"
#include "worker/data/dataset.h"
#include "worker/data/feature.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(counter_counts_keys_past_each_threshold)
{
    struct counter c;
    ck_assert_int_eq(count_init(&c), 0);
    for (uint32_t i = 0; i < 200000; i++) /* over several growths */
        ck_assert_int_eq(count_add(&c, key_make(3, i), 1), 0);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(count_add(&c, key_make(3, i), i < 10 ? 9 : 2), 0);
    ck_assert_uint_eq(c.keys, 200000);
    ck_assert_uint_eq(c.field[3].appearances, 200000 + 990 * 2 + 10 * 9);
    static const uint64_t kept[COUNT_THRESHOLDS] = {200000, 1000, 1000, 10, 10};
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++)
        ck_assert_uint_eq(c.field[3].kept[i], kept[i]);
    ck_assert_uint_eq(c.field[2].kept[0], 0);
    ck_assert_int_eq(count_add(&c, key_make(LIMIT_FIELDS, 1), 1), SHOAL_E_TOO_BIG);
    count_free(&c);
}
END_TEST

START_TEST(counter_finds_crafted_keys_soon)
{
    enum { KEYS = 8000 };
    struct counter c;
    struct crafted_run run = {0};
    ck_assert_int_eq(count_init(&c), 0);
    for (uint64_t i = 0; c.keys < KEYS; i++)
        if (key_field(crafted_key(i)) < LIMIT_FIELDS)
            ck_assert_int_eq(count_add(&c, crafted_key(i), 1), 0);
    for (uint64_t i = 0; i < c.slots; i++)
        crafted_place(&run, c.times[i] != 0);
    ck_assert_uint_lt(run.most, 200);
    count_free(&c);
}
END_TEST

/* Values of a Zipf law with exponent 1 + 1/shape over a number of keys (0: endless), drawn by
 * inversion; their figures after n draws. */
struct drawn {
    struct counter counter;
    struct count_curve curve;
};

static void draw(struct drawn *d, uint64_t seed, uint32_t n, double shape, uint32_t keys)
{
    struct rng r = rng_of(seed, 1, 1);
    ck_assert_int_eq(count_init(&d->counter), 0);
    for (uint32_t i = 0; i < n; i++) {
        double u = ((double)(rng_next(&r) >> 11) + 1) * 0x1p-53;
        uint64_t value = keys > 0 ? rng_below(&r, keys) : (uint64_t)fmin(pow(u, -shape), 1e15);
        ck_assert_int_eq(count_add(&d->counter, key_make(0, value), 1), 0);
        if (i + 1 == n / 4)
            d->curve.quarter = (double)d->counter.field[0].kept[0];
        if (i + 1 == n / 2)
            d->curve.half = (double)d->counter.field[0].kept[0];
    }
    for (uint32_t i = 0; i < COUNT_THRESHOLDS; i++)
        d->curve.now[i] = (double)d->counter.field[0].kept[i];
}

/* A tenth of a log gives the whole within a tenth if keys never end, and within a hundredth if they
 * do. */
START_TEST(the_whole_log_follows_from_a_tenth_of_it)
{
    static const struct {
        double shape;
        uint32_t keys;
        double tolerance;
    } of[] = {{2, 0, 0.1}, {1, 0, 0.1}, {4, 0, 0.1}, {0, 500, 0.01}, {0, 20000, 0.06}};
    struct drawn part, whole;
    double reckoned[COUNT_THRESHOLDS];
    draw(&part, 1, 20000, of[_i].shape, of[_i].keys);
    draw(&whole, 2, 200000, of[_i].shape, of[_i].keys);
    count_fit_extrapolate(&part.curve, 10, reckoned);
    ck_assert_msg(fabs(reckoned[0] / whole.curve.now[0] - 1) < of[_i].tolerance,
                  "%g keys instead of %g", reckoned[0], whole.curve.now[0]);
    for (uint32_t i = 1; i < COUNT_THRESHOLDS; i++)
        ck_assert_msg(fabs(reckoned[i] / whole.curve.now[i] - 1) < 0.3, "%g with %u instead of %g",
                      reckoned[i], count_fit_threshold[i], whole.curve.now[i]);
    count_free(&part.counter);
    count_free(&whole.counter);
}
END_TEST

START_TEST(what_cannot_be_reckoned_stays_as_it_is)
{
    struct count_curve none = {0}, few = {.quarter = 0, .half = 1, .now = {2, 0, 0, 0, 0}};
    double out[COUNT_THRESHOLDS];
    count_fit_extrapolate(&none, 10, out);
    ck_assert(out[0] == 0 && out[4] == 0);
    count_fit_extrapolate(&few, 10, out);
    ck_assert(out[0] == 2 && out[1] == 0);
    /* each key occurs once: so will the others */
    few = (struct count_curve){.quarter = 10, .half = 20, .now = {40, 0, 0, 0, 0}};
    count_fit_extrapolate(&few, 10, out);
    ck_assert(out[0] > 300 && out[0] < 440);
    count_fit_extrapolate(&few, 1, out);
    ck_assert(out[0] == 40);
}
END_TEST

static int job_of(const char *text, struct job *job)
{
    struct err e = {0};
    int rc = job_parse(text, strlen(text), "job.yaml", NULL, job, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    return rc;
}

/* 1,000 lines: `a` has 10 values, `b` a value for each line, `n` is a number in buckets. */
static void log_write(const char *path)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs("label,a,b,n\n", f);
    for (int i = 0; i < 1000; i++)
        fprintf(f, "%d,a%d,b%d,%d\n", i % 2, i % 10, i, i);
    fclose(f);
}

START_TEST(a_job_is_counted_by_field)
{
    char dir[] = "/tmp/shoal-count-XXXXXX", text[1024], path[64];
    struct job job;
    struct json *j;
    struct err e = {0};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/log.csv", dir);
    log_write(path);
    snprintf(text, sizeof text,
             "job: t\ndata: {format: csv, train: [%s], label: label, cache: %s/cache, columns: "
             "[{name: a, type: category}, "
             "{name: b, type: category}, {name: n, type: number}]}\nfeatures: {number: bucket}\n"
             "tables: [{name: emb, dim: 3, optimizer: {kind: sgd}}]\nmodel: {kind: fm}\ntrain: "
             "{batch: 64}\n",
             path, dir);
    job_of(text, &job);
    ck_assert_msg(count_job(&job, 1, &j, &e) == 0, "%s", e.text);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), 0), 1000);
    ck_assert_int_eq(json_as_int(json_get(j, "sampled"), 0), 1000);
    ck_assert_int_eq(json_as_int(json_get(j, "tables.0.row_floats"), 0), 4);
    ck_assert_str_eq(json_as_string(json_get(j, "tables.0.name"), ""), "emb");
    ck_assert_str_eq(json_as_string(json_get(j, "fields.2.table"), ""), "emb");
    ck_assert_str_eq(json_as_string(json_get(j, "fields.0.name"), ""), "a");
    ck_assert_int_eq(json_as_int(json_get(j, "fields.0.keys"), 0), 10);
    ck_assert_int_eq(json_as_int(json_get(j, "fields.0.kept.10"), 0), 10);
    ck_assert_int_eq(json_as_int(json_get(j, "fields.1.keys"), 0), 1000);
    ck_assert_int_eq(json_as_int(json_get(j, "fields.1.kept.2"), 9), 0);
    /* 0 and floor(log2 x) of 1 to 999 */
    ck_assert_int_eq(json_as_int(json_get(j, "fields.2.keys"), 0), 11);
    json_free(j);
    ck_assert_msg(count_job(&job, 0.2, &j, &e) == 0, "%s", e.text);
    ck_assert_int_eq(json_as_int(json_get(j, "sampled"), 0), 200);
    ck_assert_int_eq(json_as_int(json_get(j, "fields.1.keys"), 0), 200);
    ck_assert_int_eq(json_as_int(json_get(j, "fields.0.whole.1"), 0), 10);
    ck_assert_double_eq_tol(json_as_number(json_get(j, "fields.1.whole.1"), 0), 1000, 100);
    json_free(j);

    struct features f;
    uint32_t field;
    uint64_t key;
    ck_assert_int_eq(dataset_features(&job, &f, &e), 0);
    ck_assert_int_eq(feature_field_find(&f, "b", &field, &e), 0);
    ck_assert_uint_eq(field, 1);
    ck_assert_int_eq(feature_field_key(&f, field, "b7", &key, &e), 0);
    ck_assert_uint_eq(key, key_of_value(1, "b7", 2));
    ck_assert_int_eq(feature_field_find(&f, "2", &field, &e), 0); /* by number */
    ck_assert_int_eq(feature_field_key(&f, field, "700", &key, &e), 0);
    ck_assert_uint_eq(key, key_of_value(2, "+9", 2)); /* a bucket, as feature.c names it */
    ck_assert_int_eq(feature_field_key(&f, field, "seven", &key, &e), SHOAL_E_DATA);
    ck_assert_int_eq(feature_field_find(&f, "c", &field, &e), SHOAL_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "a, b, n"));
    struct json *list = feature_fields_json(&f, &job.legend);
    ck_assert_uint_eq(json_count(list), 3);
    ck_assert_str_eq(json_as_string(json_get(list, "2.kind"), ""), "bucket");
    json_free(list);
    features_free(&f);
    job_free(&job);
    snprintf(text, sizeof text, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(text), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("count");
    TCase *c = tcase_create("count");
    tcase_add_test(c, counter_counts_keys_past_each_threshold);
    tcase_add_test(c, counter_finds_crafted_keys_soon);
    tcase_add_loop_test(c, the_whole_log_follows_from_a_tenth_of_it, 0, 5);
    tcase_add_test(c, what_cannot_be_reckoned_stays_as_it_is);
    tcase_add_test(c, a_job_is_counted_by_field);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
