/* test_loss.c: logistic loss: values, gradient, far logits. */
#include "tests/lib/dense_check.h"

#include "dense/loss.h"

static double one(float logit, float label, float *score, float *dlogit)
{
    double sum = 0;
    loss_logistic(1, &logit, &label, 0.5, &sum, score, dlogit);
    return sum;
}

START_TEST(loss_is_the_log_of_the_score)
{
    for (float z = -8.0f; z <= 8.0f; z += 0.37f)
        for (int y = 0; y < 2; y++) {
            float score, dlogit;
            double p = 1 / (1 + exp(-(double)z)), loss = one(z, (float)y, &score, &dlogit);
            ck_assert_double_eq_tol(loss, y ? -log(p) : -log(1 - p), 1e-10);
            ck_assert_double_eq_tol((double)score, p, 1e-7);
            ck_assert_double_eq_tol((double)dlogit, 0.5 * (p - y), 1e-7);
        }
}
END_TEST

START_TEST(loss_of_far_logits_is_finite)
{
    float score, dlogit;
    ck_assert_double_eq_tol(one(1000.0f, 0.0f, &score, &dlogit), 1000.0, 1e-9);
    ck_assert_float_eq(score, 1.0f);
    ck_assert_double_eq_tol(one(-1000.0f, 1.0f, &score, &dlogit), 1000.0, 1e-9);
    ck_assert_float_eq(score, 0.0f);
    ck_assert_double_eq_tol(one(1000.0f, 1.0f, &score, &dlogit), 0.0, 1e-9);
}
END_TEST

START_TEST(loss_shows_what_is_not_a_number)
{
    ck_assert_double_nan(one(NAN, 1.0f, NULL, NULL));
    ck_assert(!isfinite(one(INFINITY, 0.0f, NULL, NULL)));
}
END_TEST

START_TEST(loss_adds_up_over_examples)
{
    float logit[3] = {0.5f, -1.0f, 2.0f}, label[3] = {1, 0, 0};
    double sum = 10, parts = 10;
    loss_logistic(3, logit, label, 1, &sum, NULL, NULL);
    for (int i = 0; i < 3; i++)
        parts += one(logit[i], label[i], NULL, NULL);
    ck_assert_double_eq_tol(sum, parts, 1e-12);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("loss");
    TCase *t = tcase_create("loss");
    tcase_add_test(t, loss_is_the_log_of_the_score);
    tcase_add_test(t, loss_of_far_logits_is_finite);
    tcase_add_test(t, loss_shows_what_is_not_a_number);
    tcase_add_test(t, loss_adds_up_over_examples);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
