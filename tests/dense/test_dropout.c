/* test_dropout.c: the mask is a function of (seed, lane, batch, layer), drops the share it should, and nothing else. */
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_reference.h"

#include "dense/dropout.h"

#include <string.h>

enum { VALUES = 100000 };

/* Kept values as 0 and 1. */
static void draw(struct dropout_mask mask, float *y)
{
    for (uint32_t i = 0; i < VALUES; i++)
        y[i] = 1.0f;
    backend_ops_of(dense_backend())->act_forward(ACT_RELU, &mask, 0, VALUES / 100, 100, NULL, y);
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
    draw(dropout_of(rates[_i], 1, 2, 3, 4), a);
    ck_assert_double_eq_tol(kept_share(a, a), 1 - rates[_i], 0.01);
}
END_TEST

START_TEST(dropout_of_rate_0_keeps_all)
{
    struct dropout_mask mask = dropout_of(0.0, 1, 2, 3, 4);
    draw(mask, a);
    ck_assert_double_eq_tol(kept_share(a, a), 1.0, 1e-9);
    ck_assert_float_eq(mask.scale, 1.0f);
}
END_TEST

START_TEST(dropout_of_the_same_names_is_the_same)
{
    draw(dropout_of(0.3, 1, 2, 3, 4), a);
    draw(dropout_of(0.3, 1, 2, 3, 4), b);
    ck_assert_mem_eq(a, b, sizeof a);
}
END_TEST

/* Unrelated: two masks keep a value together as often as chance has it. */
START_TEST(dropout_of_other_names_is_unrelated)
{
    static const uint32_t names[][4] = {{2, 2, 3, 4}, {1, 3, 3, 4}, {1, 2, 4, 4}, {1, 2, 3, 5}};
    const uint32_t *n = names[_i];
    draw(dropout_of(0.3, 1, 2, 3, 4), a);
    draw(dropout_of(0.3, n[0], n[1], n[2], n[3]), b);
    ck_assert_double_eq_tol(kept_share(a, b), 0.49, 0.01);
    memmove(b, b + 1, (VALUES - 1) * sizeof *b); /* nor is it the other's shift */
    ck_assert_double_eq_tol(kept_share(a, b), 0.49, 0.01);
}
END_TEST

START_TEST(dropout_follows_the_written_rule)
{
    struct dropout_mask mask = dropout_of(0.3, 1, 2, 3, 4);
    draw(mask, a);
    for (uint32_t i = 0; i < VALUES; i++)
        ck_assert_int_eq(a[i] > 0, dense_reference_kept(&mask, i));
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
