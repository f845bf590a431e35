/* test_dropout.c: the mask is a function of (seed, lane, batch, layer), and drops exactly the share
 * that it should. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <string.h>

enum { VALUES = 100000 };

struct key_names {
    uint64_t seed;
    uint32_t lane;
    uint64_t batch;
    uint32_t layer;
};

static const struct key_names usual = {1, 2, 3, 4};

/* Draws kept values as 0 and 1. */
static void draw(double rate, struct key_names n, float *y)
{
    struct dense_device d;
    uint32_t key[2];
    layer_dropout_key(n.seed, n.lane, n.batch, n.layer, key);
    for (uint32_t i = 0; i < VALUES; i++)
        y[i] = 1.0f;
    dense_device_open(&d);
    struct dropout_mask mask = layer_dropout_mask(rate, dense_up(&d, key, sizeof key));
    float *there = dense_up(&d, y, VALUES * sizeof *y);
    d.k->act_forward(d.s, ACT_RELU, &mask, 0, VALUES / 100, 100, NULL, there, 100);
    dense_down(&d, there, y, VALUES * sizeof *y);
    dense_device_close(&d);
    for (uint32_t i = 0; i < VALUES; i++)
        y[i] = y[i] > 0 ? 1.0f : 0.0f;
}

static double kept_share(const float *a, const float *b)
{
    double sum = 0;
    for (uint32_t i = 0; i < VALUES; i++)
        sum += (double)(a[i] * b[i]) / VALUES;
    return sum;
}

static float a[VALUES], b[VALUES];

START_TEST(dropout_keeps_the_share_that_it_should)
{
    static const double rates[] = {0.05, 0.2, 0.5, 0.9};
    draw(rates[_i], usual, a);
    ck_assert_double_eq_tol(kept_share(a, a), 1 - rates[_i], 0.01);
    ck_assert_double_eq_tol((double)layer_dropout_mask(rates[_i], NULL).scale, 1 / (1 - rates[_i]),
                            1e-6);
}
END_TEST

START_TEST(dropout_of_rate_0_keeps_all)
{
    draw(0.0, usual, a);
    ck_assert_double_eq_tol(kept_share(a, a), 1.0, 1e-9);
    ck_assert_float_eq(layer_dropout_mask(0.0, NULL).scale, 1.0f);
}
END_TEST

START_TEST(dropout_of_the_same_names_is_the_same)
{
    draw(0.3, usual, a);
    draw(0.3, usual, b);
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

/* Unrelated: two masks keep the same value as often as chance would. */
START_TEST(dropout_of_other_names_is_unrelated)
{
    static const struct key_names other[] = {
        {2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}};
    draw(0.3, usual, a);
    draw(0.3, other[_i], b);
    ck_assert_double_eq_tol(kept_share(a, b), 0.49, 0.01);
    memmove(b, b + 1, (VALUES - 1) * sizeof *b); /* nor is one a shift of the other */
    ck_assert_double_eq_tol(kept_share(a, b), 0.49, 0.01);
}
END_TEST

START_TEST(dropout_follows_the_written_rule)
{
    uint32_t key[2];
    layer_dropout_key(1, 2, 3, 4, key);
    draw(0.3, usual, a);
    for (uint32_t i = 0; i < VALUES; i++)
        ck_assert_int_eq(a[i] > 0, double_kept(key, (uint32_t)(0.3 * 0x1p24), i));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dropout");
    TCase *t = tcase_create("dropout");
    tcase_add_loop_test(t, dropout_keeps_the_share_that_it_should, 0, 4);
    tcase_add_test(t, dropout_of_rate_0_keeps_all);
    tcase_add_test(t, dropout_of_the_same_names_is_the_same);
    tcase_add_loop_test(t, dropout_of_other_names_is_unrelated, 0, 4);
    tcase_add_test(t, dropout_follows_the_written_rule);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
