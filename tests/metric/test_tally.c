/* test_tally.c: a few cells give nearly the result of all predictions, in any order, and impossible
 * cells of others are refused. */
#include "proto/base/rng.h"
#include "proto/metric/metric_tally.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MANY 20000u

static struct rng rng;

/* Returns a prediction of any size, with a label that follows it. */
static float prediction(float *label)
{
    double logit = 12 * (rng_double(&rng) - 0.7);
    double p = 1 / (1 + exp(-logit));
    *label = rng_double(&rng) < p ? 1.0f : 0.0f;
    return (float)p;
}

START_TEST(tally_figures_are_within_their_error)
{
    static struct metric_tally t;
    struct metric_scores s;
    struct metric is, few;
    struct metric_bucket bucket[10];
    uint32_t count;
    struct err e;
    memset(&t, 0, sizeof t);
    rng = rng_of(7, 0, 0);
    ck_assert_int_eq(metric_scores_open(&s, false, MANY, MANY, &e), 0);
    for (uint32_t i = 0; i < MANY; i++) {
        float y, p = i == 0 ? 0.0f : i == 1 ? 1.0f : prediction(&y);
        y = i < 2 ? (float)i : y;
        metric_tally_add(&t, p, y, metric_loss(p, y));
        ck_assert_int_eq(metric_scores_add(&s, p, y, metric_loss(p, y)), 0);
    }
    ck_assert_int_eq(metric_scores_finish(&s, 10, &is, bucket, &count, &e), 0);
    metric_tally_figures(&t, &few);
    ck_assert_uint_eq(metric_tally_examples(&t), MANY);
    ck_assert_uint_eq(few.examples, is.examples);
    ck_assert_uint_eq(few.positives, is.positives);
    ck_assert(few.auc_error > 0 && few.auc_error < 0.002);
    ck_assert_double_eq_tol(few.auc, is.auc, few.auc_error);
    ck_assert_double_eq_tol(few.logloss, is.logloss, 1e-8);
    ck_assert_double_eq_tol(few.ne, is.ne, 1e-7);
    ck_assert_double_eq_tol(few.calibration, is.calibration, 1e-7);
    ck_assert(isnan(few.ece) && isnan(few.gauc));
    metric_scores_close(&s);
}
END_TEST

static struct metric_tally part[3][2], all[2];
static struct metric_tally_sums sums[2];
static struct metric_tally_entry entry[2 * METRIC_TALLY_CELLS];

static void parts_fill(uint32_t each)
{
    memset(part, 0, sizeof part);
    memset(all, 0, sizeof all);
    rng = rng_of(3, 0, 0);
    for (uint32_t i = 0; i < 3 * each; i++)
        for (uint32_t l = 0; l < 2; l++) {
            float y, p = prediction(&y);
            metric_tally_add(&part[i % 3][l], p, y, metric_loss(p, y));
            metric_tally_add(&all[l], p, y, metric_loss(p, y));
        }
}

START_TEST(tally_is_the_same_in_any_order)
{
    static const uint32_t order[][3] = {{0, 1, 2}, {2, 0, 1}};
    static struct metric_tally got[2];
    parts_fill(500);
    for (uint32_t o = 0; o < 2; o++) {
        memset(got, 0, sizeof got);
        for (uint32_t i = 0; i < 3; i++) {
            uint32_t count = metric_tally_put(part[order[o][i]], 2, sums, entry);
            ck_assert(metric_tally_take(got, 2, 500, sums, entry, count));
        }
        ck_assert_int_eq(memcmp(got, all, sizeof got), 0);
    }
}
END_TEST

/* A worker may send any bytes. */
START_TEST(tally_takes_only_what_can_be)
{
    static struct metric_tally got[2];
    static const struct metric_tally nothing[2];
    struct metric_tally_entry was;
    parts_fill(100);
    uint32_t count = metric_tally_put(part[0], 2, sums, entry);
    ck_assert(!metric_tally_take(got, 2, 99, sums, entry, count));
    ck_assert(!metric_tally_take(got, 2, 201, sums, entry, count)); /* some have no label */
    ck_assert(!metric_tally_take(got, 2, UINT64_MAX, sums, entry, count));
    ck_assert(!metric_tally_take(got, 1, 100, sums, entry, count));
    ck_assert(!metric_tally_take(got, 1, 100, sums, entry, count - 1));
    ck_assert(!metric_tally_take(got, 2, 100, sums, entry, 0)); /* sums without examples */
    for (uint32_t i = 0; i < 6; i++) {
        was = entry[1];
        entry[1].label = i == 0 ? 7 : was.label;
        entry[1].cell = i == 1 ? METRIC_TALLY_CELLS : i == 2 ? entry[0].cell : was.cell;
        entry[1].positives = i == 3 ? UINT64_MAX : i == 4 ? was.positives + 1 : was.positives;
        entry[1].negatives = i == 5 ? UINT64_MAX : was.negatives;
        ck_assert(!metric_tally_take(got, 2, 100, sums, entry, count));
        entry[1] = was;
    }
    static const struct metric_tally_sums no_sums;
    const uint64_t half = UINT64_C(1) << 63;
    const struct metric_tally_entry none_in_64_bits[] = {{0, 1, half, half}, {0, 2, half, 0}};
    ck_assert(!metric_tally_take(got, 1, half, &no_sums, none_in_64_bits, 2));
    sums[1].loss = 100 * 36 * METRIC_TALLY_ONE;
    ck_assert(!metric_tally_take(got, 2, 100, sums, entry, count));
    sums[1].loss = 0;
    sums[1].predicted = 100 * METRIC_TALLY_ONE + 1;
    ck_assert(!metric_tally_take(got, 2, 100, sums, entry, count));
    ck_assert_int_eq(memcmp(got, nothing, sizeof got), 0);
    sums[1].predicted = 100 * METRIC_TALLY_ONE;
    ck_assert(metric_tally_take(got, 2, 100, sums, entry, count));
    memset(sums, 0, sizeof sums);
    ck_assert(metric_tally_take(got, 2, 100, sums, entry, 0)); /* a model without a loss */
}
END_TEST

/* One example of three has no first label, and another one no second label. */
START_TEST(tally_counts_the_examples_of_each_label)
{
    static struct metric_tally got[2];
    memset(part, 0, sizeof part);
    memset(got, 0, sizeof got);
    for (uint32_t i = 0; i < 300; i++)
        for (uint32_t l = 0; l < 2; l++)
            if (i % 3 != l)
                metric_tally_add(&part[0][l], 0.25f, (float)(i % 2), 0.5);
    uint32_t count = metric_tally_put(part[0], 2, sums, entry);
    ck_assert(!metric_tally_take(got, 2, 199, sums, entry, count));
    ck_assert(!metric_tally_take(got, 2, 401, sums, entry, count));
    ck_assert(metric_tally_take(got, 2, 300, sums, entry, count));
    ck_assert_uint_eq(metric_tally_examples(&got[0]), 200);
    ck_assert_uint_eq(metric_tally_examples(&got[1]), 200);
    ck_assert_uint_eq(metric_tally_most(got, 2), 200);
}
END_TEST

/* Draws numbers of all sizes and signs. */
static float number(void)
{
    return (float)ldexp(rng_double(&rng) - 0.4, (int)rng_below(&rng, 40) - 20);
}

/* The sums of numbers are those of double, and the same bits in any order. */
START_TEST(tally_of_numbers_is_their_sums)
{
    static struct metric_tally one, halves[2], got;
    struct metric_real is = {0};
    struct metric few, whole;
    rng = rng_of(5, 0, 0);
    metric_tally_clear(&one, 1, 1);
    metric_tally_clear(halves, 2, 3);
    metric_tally_clear(&got, 1, 1);
    for (uint32_t i = 0; i < 4000; i++) {
        float y = number(), p = y + number();
        metric_real_add(&is, p, y);
        metric_tally_add(&one, p, y, 0);
        metric_tally_add(&halves[i % 7 == 0], p, y, 0);
    }
    metric_real_figures(&is, &whole);
    metric_tally_figures(&one, &few);
    ck_assert(metric_is_real(&few));
    ck_assert_uint_eq(few.examples, 4000);
    ck_assert_double_eq_tol(few.rmse, whole.rmse, 1e-9 * whole.rmse);
    ck_assert_double_eq_tol(few.mae, whole.mae, 1e-9 * whole.mae);
    ck_assert_double_eq_tol(few.r2, whole.r2, 1e-9);
    ck_assert_double_eq_tol(few.calibration, whole.calibration, 1e-9 * fabs(whole.calibration));
    for (uint32_t h = 2; h-- > 0;) {
        uint32_t count = metric_tally_put(&halves[h], 1, sums, entry);
        uint64_t examples = metric_tally_examples(&halves[h]);
        ck_assert(!metric_tally_take(&got, 1, examples - 1, sums, entry, count));
        ck_assert(metric_tally_take(&got, 1, examples, sums, entry, count));
    }
    ck_assert_mem_eq(&got, &one, sizeof one);
}
END_TEST

START_TEST(tally_of_numbers_takes_only_what_can_be)
{
    static struct metric_tally one, got;
    static const struct metric_tally_sums lie = {.loss = 1};
    metric_tally_clear(&one, 1, 1);
    metric_tally_clear(&got, 1, 1);
    for (uint32_t i = 0; i < 10; i++)
        metric_tally_add(&one, 3.5f, -2.0f, 0);
    uint32_t count = metric_tally_put(&one, 1, sums, entry);
    ck_assert(!metric_tally_take(&got, 1, 10, &lie, entry, count));
    struct metric_tally_entry was = entry[1];
    entry[1].positives = UINT64_C(11) << METRIC_TALLY_LIMB_BITS;
    ck_assert(!metric_tally_take(&got, 1, 10, sums, entry, count));
    entry[1] = was;
    was = entry[count - 1];
    entry[count - 1].cell = METRIC_TALLY_REAL_CELLS;
    ck_assert(!metric_tally_take(&got, 1, 10, sums, entry, count));
    entry[count - 1] = was;
    ck_assert(metric_tally_take(&got, 1, 10, sums, entry, count));
}
END_TEST

/* A diverged model's error is no overflow. */
START_TEST(tally_of_a_huge_error_is_bounded)
{
    static struct metric_tally one;
    struct metric of;
    metric_tally_clear(&one, 1, 1);
    metric_tally_add(&one, 3e38f, -3e38f, 0);
    metric_tally_figures(&one, &of);
    ck_assert_double_eq_tol(of.rmse, ldexp(1, 48), 1e9);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("tally");
    TCase *c = tcase_create("tally");
    tcase_add_test(c, tally_figures_are_within_their_error);
    tcase_add_test(c, tally_is_the_same_in_any_order);
    tcase_add_test(c, tally_takes_only_what_can_be);
    tcase_add_test(c, tally_counts_the_examples_of_each_label);
    tcase_add_test(c, tally_of_numbers_is_their_sums);
    tcase_add_test(c, tally_of_numbers_takes_only_what_can_be);
    tcase_add_test(c, tally_of_a_huge_error_is_bounded);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
