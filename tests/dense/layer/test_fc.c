/* test_fc.c: matrix products, fully connected layers and the head, forward and back, against plain
 * loops in double. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <string.h>

/* ---- matrix products ------------------------------------------------------------------------- */

enum { M = 9, N = 20, K = 33, LD = 40 };

/* Returns element (i, j) of op(a). */
static double element(const float *a, bool transpose, uint32_t i, uint32_t j)
{
    return (double)(transpose ? a[j * LD + i] : a[i * LD + j]);
}

START_TEST(gemm_takes_each_way_round)
{
    bool ta = _i & 1, tb = _i & 2, add = _i & 4;
    static float a[LD * LD], b[LD * LD], was[M * LD], c[M * LD];
    struct rng r = rng_of(6, (uint64_t)_i, 0);
    struct dense_device d;
    dense_fill(&r, a, LD * LD);
    dense_fill(&r, b, LD * LD);
    dense_fill(&r, was, M * LD);
    if (!add)
        was[2] = NAN; /* beta 0 does not read it */
    dense_device_open(&d);
    float *there = dense_up(&d, was, sizeof was);
    d.k->gemm(d.s, ta, tb, M, N, K, dense_up(&d, a, sizeof a), LD, dense_up(&d, b, sizeof b), LD,
              add ? 1.0f : 0.0f, there, LD);
    dense_down(&d, there, c, sizeof c);
    for (uint32_t i = 0; i < M; i++)
        for (uint32_t j = 0; j < LD; j++) {
            double sum = add || j >= N ? (double)was[i * LD + j] : 0.0;
            for (uint32_t k = 0; j < N && k < K; k++)
                sum += element(a, ta, i, k) * element(b, tb, k, j);
            ck_assert_double_eq_tol((double)c[i * LD + j], sum, 1e-5);
        }
    dense_device_close(&d);
}
END_TEST

/* ---- the linear layer ------------------------------------------------------------------------ */

enum { ROWS = 37, IN = 29, OUT = 18, WANTED = 23, LDX = 31, LDY = 22, LDD = 25 };

struct linear {
    float x[ROWS * LDX], w[OUT * IN], bias[OUT], y[ROWS * LDY], dy[ROWS * LDY], dx[ROWS * LDD],
        dw[OUT * IN], dbias[OUT];
};

static void linear_draw(struct linear *l)
{
    struct rng r = rng_of(5, 0, 0);
    dense_fill(&r, l->x, ROWS * LDX);
    dense_fill(&r, l->w, OUT * IN);
    dense_fill(&r, l->bias, OUT);
    dense_fill(&r, l->y, ROWS * LDY);
    dense_fill(&r, l->dy, ROWS * LDY);
    dense_fill(&r, l->dx, ROWS * LDD);
    dense_fill(&r, l->dw, OUT * IN); /* gradients are added */
    dense_fill(&r, l->dbias, OUT);
}

static void linear_run(const struct linear *in, struct linear *out, bool add, bool dx)
{
    struct dense_device d;
    dense_device_open(&d);
    struct linear *t = dense_up(&d, in, sizeof *in);
    struct linear_args a = {.count = ROWS,
                            .in = IN,
                            .out = OUT,
                            .x = t->x,
                            .ldx = LDX,
                            .w = t->w,
                            .bias = t->bias,
                            .act = ACT_TANH,
                            .mask = layer_dropout_mask(0.0, NULL),
                            .y = t->y,
                            .ldy = LDY,
                            .dy = t->dy,
                            .lddy = LDY,
                            .dw = t->dw,
                            .dbias = t->dbias,
                            .dx = dx ? t->dx : NULL,
                            .lddx = LDD,
                            .dx_width = WANTED,
                            .add = add};
    d.k->linear_forward(d.s, &a);
    d.k->linear_backward(d.s, &a);
    dense_down(&d, t, out, sizeof *out);
    dense_device_close(&d);
}

/* y = tanh(x w' + bias); with g = dy (1 - y^2): dx = g w (its leading columns), dw += g' x, dbias
 * += sum of g. */
static void linear_expect(const struct linear *l, double *y, double *dx, double *dw, double *dbias,
                          bool add)
{
    for (uint32_t i = 0; i < OUT * IN; i++)
        dw[i] = (double)l->dw[i];
    for (uint32_t j = 0; j < OUT; j++)
        dbias[j] = (double)l->dbias[j];
    for (uint32_t i = 0; i < ROWS * WANTED; i++)
        dx[i] = add ? (double)l->dx[i / WANTED * LDD + i % WANTED] : 0.0;
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t j = 0; j < OUT; j++) {
            double sum = (double)l->bias[j];
            for (uint32_t k = 0; k < IN; k++)
                sum += (double)l->x[i * LDX + k] * (double)l->w[j * IN + k];
            y[i * OUT + j] = tanh(sum);
            double g = (double)l->dy[i * LDY + j] * (1 - tanh(sum) * tanh(sum));
            dbias[j] += g;
            for (uint32_t k = 0; k < IN; k++) {
                dw[j * IN + k] += g * (double)l->x[i * LDX + k];
                if (k < WANTED)
                    dx[i * WANTED + k] += g * (double)l->w[j * IN + k];
            }
        }
}

START_TEST(fc_is_a_matrix_product_and_its_gradients)
{
    static struct linear before, after;
    static double y[ROWS * OUT], dx[ROWS * WANTED], dw[OUT * IN], dbias[OUT];
    linear_draw(&before);
    linear_expect(&before, y, dx, dw, dbias, _i);
    linear_run(&before, &after, _i, true);
    for (uint32_t i = 0; i < ROWS * LDY; i++)
        ck_assert_double_eq_tol((double)after.y[i],
                                i % LDY < OUT ? y[i / LDY * OUT + i % LDY] : (double)before.y[i],
                                1e-5);
    for (uint32_t i = 0; i < ROWS * LDD; i++)
        ck_assert_double_eq_tol(
            (double)after.dx[i],
            i % LDD < WANTED ? dx[i / LDD * WANTED + i % LDD] : (double)before.dx[i], 1e-5);
    ck_assert_double_lt(dense_check_worst(after.dw, dw, OUT * IN), 1e-5);
    ck_assert_double_lt(dense_check_worst(after.dbias, dbias, OUT), 1e-5);
}
END_TEST

START_TEST(fc_without_dx_has_the_same_other_gradients)
{
    static struct linear before, with, without;
    linear_draw(&before);
    linear_run(&before, &with, false, true);
    linear_run(&before, &without, false, false);
    ck_assert_mem_eq(without.dx, before.dx, sizeof before.dx);
    ck_assert_mem_eq(without.dw, with.dw, sizeof with.dw);
}
END_TEST

/* ---- the head -------------------------------------------------------------------------------- */

enum { TASKS = 2, TASK = 1 };

START_TEST(head_adds_a_product_to_the_logit_of_its_task)
{
    static float x[ROWS * LDX], w[IN], logit[ROWS * TASKS], dx[ROWS * LDD], dw[IN], got[ROWS * LDX];
    struct rng r = rng_of(7, 0, 0);
    struct dense_device d;
    bool add = _i == 1, wanted = _i < 2;
    dense_fill(&r, x, ROWS * LDX);
    dense_fill(&r, w, IN);
    dense_fill(&r, logit, ROWS * TASKS);
    dense_fill(&r, dx, ROWS * LDD);
    dense_fill(&r, dw, IN);
    dense_device_open(&d);
    float *logit_there = dense_up(&d, logit, sizeof logit),
          *dlogit_there = dense_up(&d, logit, sizeof logit);
    float *dx_there = dense_up(&d, dx, sizeof dx), *dw_there = dense_up(&d, dw, sizeof dw);
    float *x_there = dense_up(&d, x, sizeof x), *w_there = dense_up(&d, w, sizeof w);
    d.k->head_forward(d.s, ROWS, IN, x_there, LDX, w_there, logit_there + TASK, TASKS);
    d.k->head_backward(d.s, ROWS, IN, x_there, LDX, w_there, dlogit_there + TASK, TASKS, dw_there,
                       wanted ? dx_there : NULL, LDD, WANTED, add);
    dense_down(&d, logit_there, got, sizeof logit);
    for (uint32_t i = 0; i < ROWS * TASKS; i++) {
        double sum = (double)logit[i];
        for (uint32_t k = 0; k < IN && i % TASKS == TASK; k++)
            sum += (double)x[i / TASKS * LDX + k] * (double)w[k];
        ck_assert_double_eq_tol((double)got[i], sum, 1e-5);
    }
    dense_down(&d, dx_there, got, sizeof dx);
    for (uint32_t i = 0; i < ROWS; i++)
        for (uint32_t k = 0; k < LDD; k++) {
            double was = (double)dx[i * LDD + k],
                   slope = (double)logit[i * TASKS + TASK] * (k < IN ? (double)w[k] : 0.0);
            ck_assert_double_eq_tol((double)got[i * LDD + k],
                                    wanted && k < WANTED ? (add ? was : 0.0) + slope : was, 1e-6);
        }
    dense_down(&d, dw_there, got, sizeof dw);
    for (uint32_t k = 0; k < IN; k++) {
        double sum = (double)dw[k];
        for (uint32_t i = 0; i < ROWS; i++)
            sum += (double)logit[i * TASKS + TASK] * (double)x[i * LDX + k];
        ck_assert_double_eq_tol((double)got[k], sum, 1e-5);
    }
    dense_device_close(&d);
}
END_TEST

START_TEST(bias_begins_each_task)
{
    float bias[TASKS] = {0.5f, -2.0f}, logit[ROWS * TASKS], sum[TASKS] = {1, 1};
    double expected[TASKS] = {1, 1};
    struct rng r = rng_of(8, 0, 0);
    struct dense_device d;
    dense_device_open(&d);
    float *there = dense_up(&d, NULL, sizeof logit), *bias_there = dense_up(&d, bias, sizeof bias);
    d.k->bias_forward(d.s, ROWS, TASKS, bias_there, there);
    dense_down(&d, there, logit, sizeof logit);
    for (uint32_t i = 0; i < ROWS * TASKS; i++)
        ck_assert_float_eq(logit[i], bias[i % TASKS]);
    d.k->bias_forward(d.s, ROWS, TASKS, NULL, there);
    dense_down(&d, there, logit, sizeof logit);
    for (uint32_t i = 0; i < ROWS * TASKS; i++)
        ck_assert_float_eq(logit[i], 0.0f);
    dense_fill(&r, logit, ROWS * TASKS);
    for (uint32_t i = 0; i < ROWS * TASKS; i++)
        expected[i % TASKS] += (double)logit[i];
    float *sum_there = dense_up(&d, sum, sizeof sum);
    d.k->bias_backward(d.s, ROWS, TASKS, dense_up(&d, logit, sizeof logit), sum_there);
    dense_down(&d, sum_there, sum, sizeof sum);
    ck_assert_double_lt(dense_check_worst(sum, expected, TASKS), 2e-6);
    dense_device_close(&d);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fc");
    TCase *t = tcase_create("fc");
    tcase_add_loop_test(t, gemm_takes_each_way_round, 0, 8);
    tcase_add_loop_test(t, fc_is_a_matrix_product_and_its_gradients, 0, 2);
    tcase_add_test(t, fc_without_dx_has_the_same_other_gradients);
    tcase_add_loop_test(t, head_adds_a_product_to_the_logit_of_its_task, 0, 3);
    tcase_add_test(t, bias_begins_each_task);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
