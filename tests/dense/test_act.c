/* test_act.c: bias, activation and dropout in one pass: values against libm, gradients against finite differences. */
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_reference.h"

#include "dense/act.h"
#include "dense/dropout.h"

enum { N = 9, WIDTH = 21 };

struct acts {
    enum activation act;
    struct dropout_mask mask;
    double x[N * WIDTH], bias[WIDTH], dy[N * WIDTH];
};

static double acts_value(const struct acts *a, uint32_t i)
{
    double y = dense_reference_act(a->act, a->x[i] + a->bias[i % WIDTH]);
    return dense_reference_kept(&a->mask, i) ? y * (double)a->mask.scale : 0.0;
}

static double acts_sum(void *context)
{
    const struct acts *a = context;
    double sum = 0;
    for (uint32_t i = 0; i < N * WIDTH; i++)
        sum += a->dy[i] * acts_value(a, i);
    return sum;
}

static void check(enum activation act, double dropout, bool train)
{
    struct dense_pass d;
    struct acts a = {.act = act, .mask = dropout_of(train ? dropout : 0, 1, 2, 3, 4)};
    struct rng r = rng_of(3, act, 0);
    float bias[WIDTH], bias_gradient[WIDTH] = {0};
    dense_pass_init(&d, N);
    d.pass.train = train;
    d.pass.seed = 1;
    d.pass.lane = 2;
    d.pass.batch = 3;
    struct layer l = {.number = 4, .out = WIDTH, .act = act, .dropout = dropout};
    l.y = dense_pass_tensor(&d, WIDTH, false);
    l.dy = dense_pass_tensor(&d, WIDTH, false);
    dense_fill(&r, d.data[l.y], N * WIDTH);
    dense_fill(&r, d.data[l.dy], N * WIDTH);
    dense_fill(&r, bias, WIDTH);
    for (uint32_t i = 0; i < N * WIDTH; i++) {
        a.x[i] = (double)(d.data[l.y][i] *= 3.0f);
        a.dy[i] = (double)d.data[l.dy][i];
    }
    for (uint32_t j = 0; j < WIDTH; j++)
        a.bias[j] = (double)bias[j];
    d.in.dense = bias;
    d.out.dense_gradients = bias_gradient;

    for (uint32_t first = 0; first < N; first += 5) { /* the mask goes by the example, not by the range */
        uint32_t count = N - first < 5 ? N - first : 5;
        act_layer.forward(&l, &d.pass, first, count);
        act_layer.backward(&l, &d.pass, first, count);
    }
    for (uint32_t i = 0; i < N * WIDTH; i++) {
        ck_assert_double_eq_tol((double)d.data[l.y][i], acts_value(&a, i), 1e-6);
        ck_assert_double_eq_tol((double)d.data[l.dy][i], dense_check_slope(acts_sum, &a, &a.x[i]), 1e-6);
    }
    for (uint32_t j = 0; j < WIDTH; j++)
        ck_assert_double_eq_tol((double)bias_gradient[j], dense_check_slope(acts_sum, &a, &a.bias[j]), 2e-6);
    dense_pass_free(&d);
}

START_TEST(act_is_its_function_and_gradient)
{
    check((enum activation)_i, 0.0, true);
}
END_TEST

START_TEST(act_drops_by_the_mask)
{
    check((enum activation)_i, 0.4, true);
}
END_TEST

START_TEST(act_drops_nothing_in_prediction)
{
    check((enum activation)_i, 0.4, false);
}
END_TEST

START_TEST(act_is_exact_far_out)
{
    static const float far[] = {-200.0f, -88.5f, -20.0f, -1e-3f, 0.0f, 1e-3f, 20.0f, 88.5f, 200.0f};
    const struct backend_ops *k = backend_ops_of(dense_backend());
    struct dropout_mask none = dropout_of(0.0, 0, 0, 0, 0);
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        float y = far[i];
        k->act_forward((enum activation)_i, &none, 0, 1, 1, NULL, &y);
        ck_assert_double_eq_tol((double)y, dense_reference_act((enum activation)_i, (double)far[i]), 2e-7);
    }
    float y = NAN;
    k->act_forward((enum activation)_i, &none, 0, 1, 1, NULL, &y);
    ck_assert_float_nan(y);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("act");
    TCase *t = tcase_create("act");
    tcase_add_loop_test(t, act_is_its_function_and_gradient, 0, 3);
    tcase_add_loop_test(t, act_drops_by_the_mask, 0, 3);
    tcase_add_loop_test(t, act_drops_nothing_in_prediction, 0, 3);
    tcase_add_loop_test(t, act_is_exact_far_out, 0, 3);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
