/* test_layer_norm.c: layer norm's kernels. Its gradients: test_model_attention.c. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include <string.h>

enum { N = 21, WIDTH = 37, GAP = 3, LD = WIDTH + GAP };

/* The arrays of one call on the host. */
struct normed {
    float x[N * LD], y[N * LD], dy[N * LD], gamma[WIDTH], beta[WIDTH], moments[2 * N];
    float gamma_gradient[WIDTH], beta_gradient[WIDTH];
};

static void normed_draw(struct normed *n)
{
    struct rng r = rng_of(1, 2, 3);
    dense_fill(&r, n->x, N * LD);
    dense_fill(&r, n->y, N * LD);
    dense_fill(&r, n->dy, N * LD);
    dense_fill(&r, n->gamma, WIDTH);
    dense_fill(&r, n->beta, WIDTH);
    dense_fill(&r, n->gamma_gradient, WIDTH);
    dense_fill(&r, n->beta_gradient, WIDTH);
    memset(n->moments, 0, sizeof n->moments);
}

static struct layer_norm_args args_of(enum activation act)
{
    return (struct layer_norm_args){
        .count = N, .width = WIDTH, .ldx = LD, .act = act, .ldy = LD, .lddy = LD};
}

/* Runs forward and backward over the first `width` columns on the backend. */
static void normed_run_columns(struct normed *n, enum activation act, uint32_t width)
{
    struct dense_device d;
    struct layer_norm_args a = args_of(act);
    a.width = width;
    dense_device_open(&d);
    a.x = dense_up(&d, n->x, sizeof n->x);
    a.gamma = dense_up(&d, n->gamma, sizeof n->gamma);
    a.beta = dense_up(&d, n->beta, sizeof n->beta);
    a.y = dense_up(&d, n->y, sizeof n->y);
    a.moments = dense_up(&d, n->moments, sizeof n->moments);
    a.dy = dense_up(&d, n->dy, sizeof n->dy);
    a.gamma_gradient = dense_up(&d, n->gamma_gradient, sizeof n->gamma_gradient);
    a.beta_gradient = dense_up(&d, n->beta_gradient, sizeof n->beta_gradient);
    d.k->attention.layer_norm_forward(d.s, &a);
    d.k->attention.layer_norm_backward(d.s, &a);
    dense_down(&d, a.y, n->y, sizeof n->y);
    dense_down(&d, a.moments, n->moments, sizeof n->moments);
    dense_down(&d, a.dy, n->dy, sizeof n->dy);
    dense_down(&d, a.gamma_gradient, n->gamma_gradient, sizeof n->gamma_gradient);
    dense_down(&d, a.beta_gradient, n->beta_gradient, sizeof n->beta_gradient);
    dense_device_close(&d);
}

static void normed_run(struct normed *n, enum activation act)
{
    normed_run_columns(n, act, WIDTH);
}

START_TEST(row_has_mean_0_and_deviation_1)
{
    static struct normed n;
    normed_draw(&n);
    for (uint32_t i = 0; i < N * LD; i++)
        n.x[i] = 1000.0f + 3.0f * n.x[i]; /* far from 0: no digits may be lost */
    for (uint32_t j = 0; j < WIDTH; j++) {
        n.gamma[j] = 1.0f;
        n.beta[j] = 0.0f;
    }
    normed_run(&n, ACT_NONE);
    for (uint32_t i = 0; i < N; i++) {
        double sum = 0, square = 0;
        for (uint32_t j = 0; j < WIDTH; j++) {
            sum += (double)n.y[i * LD + j];
            square += (double)n.y[i * LD + j] * (double)n.y[i * LD + j];
        }
        ck_assert_double_eq_tol(sum / WIDTH, 0.0, 1e-4);
        ck_assert_double_eq_tol(square / WIDTH, 1.0, 1e-4);
    }
}
END_TEST

START_TEST(gamma_and_beta_scale_and_shift)
{
    static struct normed plain, scaled;
    normed_draw(&plain);
    normed_draw(&scaled);
    for (uint32_t j = 0; j < WIDTH; j++) {
        plain.gamma[j] = 1.0f;
        plain.beta[j] = 0.0f;
    }
    normed_run(&plain, ACT_NONE);
    normed_run(&scaled, ACT_RELU);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < WIDTH; j++)
            ck_assert_float_eq_tol(scaled.y[i * LD + j],
                                   fmaxf(0, plain.y[i * LD + j] * scaled.gamma[j] + scaled.beta[j]),
                                   1e-5f);
}
END_TEST

/* A row of equal numbers has no deviation: the result is beta, and never NaN. */
START_TEST(row_of_equal_numbers_gives_beta)
{
    static struct normed n;
    normed_draw(&n);
    for (uint32_t j = 0; j < WIDTH; j++)
        n.x[2 * LD + j] = 0.7f;
    normed_run(&n, ACT_NONE);
    for (uint32_t j = 0; j < WIDTH; j++) {
        ck_assert_float_eq_tol(n.y[2 * LD + j], n.beta[j], 1e-3f);
        ck_assert(isfinite(n.dy[2 * LD + j]));
    }
}
END_TEST

/* The result is beta for any value: the gradient would only be rounding, which 1 / sqrt of a zero
 * deviation enlarges. */
START_TEST(column_alone_has_no_gradient)
{
    static struct normed n;
    normed_draw(&n);
    normed_run_columns(&n, ACT_TANH, 1);
    for (uint32_t i = 0; i < N; i++)
        ck_assert_float_eq(n.dy[i * LD], 0.0f);
}
END_TEST

/* Adding a number to a row, or scaling it, does not change the result: so dx has no component along
 * either. */
START_TEST(gradient_has_no_part_along_the_row)
{
    static struct normed n;
    normed_draw(&n);
    normed_run(&n, ACT_TANH);
    for (uint32_t i = 0; i < N; i++) {
        double sum = 0, along = 0;
        for (uint32_t j = 0; j < WIDTH; j++) {
            sum += (double)n.dy[i * LD + j];
            along +=
                (double)n.dy[i * LD + j] * ((double)n.x[i * LD + j] - (double)n.moments[2 * i]);
        }
        ck_assert_double_eq_tol(sum, 0.0, 2e-4);
        ck_assert_double_eq_tol(along, 0.0, 2e-3); /* eps takes a little */
    }
}
END_TEST

START_TEST(what_is_not_a_number_stays_in_its_row)
{
    static struct normed n;
    normed_draw(&n);
    n.x[4 * LD + 20] = NAN;
    normed_run(&n, ACT_RELU);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < WIDTH; j++)
            ck_assert_int_eq(isnan(n.y[i * LD + j]), i == 4);
}
END_TEST

START_TEST(columns_beside_the_view_are_left_alone)
{
    static struct normed before, n;
    normed_draw(&before);
    normed_draw(&n);
    normed_run(&n, ACT_RELU);
    for (uint32_t i = 0; i < N; i++) {
        ck_assert_mem_eq(n.y + i * LD + WIDTH, before.y + i * LD + WIDTH, GAP * sizeof(float));
        ck_assert_mem_eq(n.dy + i * LD + WIDTH, before.dy + i * LD + WIDTH, GAP * sizeof(float));
    }
}
END_TEST

START_TEST(every_width_gives_the_same_bits)
{
    static struct normed of[DENSE_WIDTHS];
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        struct layer_norm_args a = args_of(_i == 0 ? ACT_RELU : ACT_TANH);
        struct normed *n = &of[w];
        if (k == NULL)
            continue;
        normed_draw(n);
        a.x = n->x;
        a.gamma = n->gamma;
        a.beta = n->beta;
        a.y = n->y;
        a.moments = n->moments;
        a.dy = n->dy;
        a.gamma_gradient = n->gamma_gradient;
        a.beta_gradient = n->beta_gradient;
        k->attention.layer_norm_forward(NULL, &a);
        k->attention.layer_norm_backward(NULL, &a);
        ck_assert_msg(memcmp(n, &of[0], sizeof *n) == 0, "%s", dense_width_name[w]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("layer_norm");
    TCase *t = tcase_create("layer_norm");
    tcase_add_test(t, row_has_mean_0_and_deviation_1);
    tcase_add_test(t, gamma_and_beta_scale_and_shift);
    tcase_add_test(t, row_of_equal_numbers_gives_beta);
    tcase_add_test(t, column_alone_has_no_gradient);
    tcase_add_test(t, gradient_has_no_part_along_the_row);
    tcase_add_test(t, what_is_not_a_number_stays_in_its_row);
    tcase_add_test(t, columns_beside_the_view_are_left_alone);
    tcase_add_loop_test(t, every_width_gives_the_same_bits, 0, 2);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
