/* test_act.c: bias, activation and dropout: values against libm, gradients against finite
 * differences; in the linear layer and as a layer of its own. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

enum { WIDTH = 21 };

/* linear with bias and activation -> activation in place -> head. The two activations have masks of
 * their own. */
static void two_acts(struct plan *p)
{
    struct view x = plan_input(p, true, 0);
    x = plan_linear(p, x, WIDTH, p->job->model.activation, p->job->model.dropout, NORM_NONE,
                    VIEW_NONE);
    x = plan_linear(p, x, WIDTH, ACT_NONE, 0.0, NORM_NONE, VIEW_NONE);
    struct layer *l = plan_layer(p, &layer_act, x, x);
    l->act = p->job->model.activation;
    l->dropout = p->job->model.dropout;
    plan_head(p, x, 0);
}

static void act_case(struct dense_case *c, int act, double dropout)
{
    static const struct plan_kind kind = {.name = "two_acts", .build = two_acts, .vectors = true};
    dense_case_job(c, MODEL_DEEPFM);
    c->kind = &kind;
    c->range = 4;
    c->job.model.activation = (enum activation)act;
    c->job.model.dropout = dropout;
    dense_case_batch(c, 9, 6, false);
}

START_TEST(act_is_its_function_and_gradient)
{
    struct dense_case c;
    act_case(&c, _i, 0.0);
    dense_double_check(&c, 4e-6);
    dense_case_free(&c);
}
END_TEST

/* In ranges: the mask depends on the example, not on its place in the range. */
START_TEST(act_drops_by_the_mask)
{
    struct dense_case c;
    act_case(&c, _i, 0.4);
    dense_double_check(&c, 4e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(act_drops_nothing_in_prediction)
{
    struct dense_case c;
    act_case(&c, _i, 0.4);
    dense_double_check_predict(&c, 4e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(act_is_exact_far_out)
{
    static const float far[] = {-200.0f, -88.5f, -20.0f, -1e-3f, 0.0f,
                                1e-3f,   20.0f,  88.5f,  200.0f, NAN};
    enum { FAR = sizeof far / sizeof *far };
    const struct dropout_mask none = layer_dropout_mask(0.0, NULL);
    struct dense_device d;
    float y[FAR];
    dense_device_open(&d);
    float *there = dense_up(&d, far, sizeof far);
    d.k->act_forward(d.s, (enum activation)_i, &none, 0, FAR, 1, NULL, there, 1);
    dense_down(&d, there, y, sizeof y);
    for (size_t i = 0; i + 1 < FAR; i++)
        ck_assert_double_eq_tol((double)y[i], double_act((enum activation)_i, (double)far[i]),
                                2e-7);
    ck_assert_float_nan(y[FAR - 1]);
    dense_device_close(&d);
}
END_TEST

/* The gap between the rows of a wider array is not touched. */
START_TEST(act_keeps_to_its_columns)
{
    enum { ROWS = 3, LD = 24 };
    const struct dropout_mask none = layer_dropout_mask(0.0, NULL);
    struct dense_device d;
    float y[ROWS * LD], dy[ROWS * LD], bias[WIDTH] = {0};
    dense_device_open(&d);
    for (uint32_t i = 0; i < ROWS * LD; i++)
        y[i] = dy[i] = -2.0f;
    float *y_there = dense_up(&d, y, sizeof y), *dy_there = dense_up(&d, dy, sizeof dy);
    float *bias_there = dense_up(&d, bias, sizeof bias),
          *sum_there = dense_up(&d, NULL, sizeof bias);
    d.k->act_forward(d.s, ACT_SIGMOID, &none, 0, ROWS, WIDTH, bias_there, y_there, LD);
    d.k->act_backward(d.s, ACT_SIGMOID, &none, 0, ROWS, WIDTH, y_there, LD, dy_there, LD,
                      sum_there);
    dense_down(&d, y_there, y, sizeof y);
    dense_down(&d, dy_there, dy, sizeof dy);
    dense_down(&d, sum_there, bias, sizeof bias);
    double score = double_act(ACT_SIGMOID, -2.0), slope = -2.0 * score * (1.0 - score);
    for (uint32_t i = 0; i < ROWS * LD; i++) {
        ck_assert_double_eq_tol((double)y[i], i % LD < WIDTH ? score : -2.0, 1e-7);
        ck_assert_double_eq_tol((double)dy[i], i % LD < WIDTH ? slope : -2.0, 1e-7);
    }
    for (uint32_t j = 0; j < WIDTH; j++)
        ck_assert_double_eq_tol((double)bias[j], ROWS * slope, 1e-6);
    dense_device_close(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("act");
    TCase *t = tcase_create("act");
    tcase_add_loop_test(t, act_is_its_function_and_gradient, 0, 4);
    tcase_add_loop_test(t, act_drops_by_the_mask, 0, 4);
    tcase_add_loop_test(t, act_drops_nothing_in_prediction, 0, 4);
    tcase_add_loop_test(t, act_is_exact_far_out, 0, 4);
    tcase_add_test(t, act_keeps_to_its_columns);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
