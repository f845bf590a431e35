/* test_loss.c: losses: values, gradient, weights, tasks, extreme logits; and operations on
 * whole gradients. */
#include "tests/lib/dense_check.h"

#include <string.h>

/* Runs the kernel on host arrays: (count, tasks); weight, scores, dlogit may be NULL. */
static void losses(const struct loss_spec *spec, uint32_t count, uint32_t tasks, const float *logit,
                   float offset, const float *label, const float *weight, const float *factor,
                   double *loss, float *scores, float *dlogit)
{
    struct dense_device d;
    size_t bytes = (size_t)count * tasks * sizeof(float);
    dense_device_open(&d);
    float *scores_there = scores != NULL ? dense_up(&d, NULL, bytes) : NULL,
          *dlogit_there = dlogit != NULL ? dense_up(&d, NULL, bytes) : NULL;
    double *loss_there = dense_up(&d, loss, tasks * sizeof *loss);
    d.k->loss(d.s, count, NULL, tasks, spec, dense_up(&d, logit, bytes), offset,
              dense_up(&d, label, bytes),
              weight != NULL ? dense_up(&d, weight, count * sizeof *weight) : NULL,
              dense_up(&d, factor, tasks * sizeof *factor), loss_there, scores_there, dlogit_there);
    dense_down(&d, loss_there, loss, tasks * sizeof *loss);
    if (scores != NULL)
        dense_down(&d, scores_there, scores, bytes);
    if (dlogit != NULL)
        dense_down(&d, dlogit_there, dlogit, bytes);
    dense_device_close(&d);
}

static void logistic(uint32_t count, uint32_t tasks, const float *logit, float offset,
                     const float *label, const float *weight, const float *factor, double *loss,
                     float *scores, float *dlogit)
{
    static const struct loss_spec spec;
    losses(&spec, count, tasks, logit, offset, label, weight, factor, loss, scores, dlogit);
}

static double one(float logit, float label, float *score, float *dlogit)
{
    double sum = 0;
    float factor = 0.5f;
    logistic(1, 1, &logit, 0.0f, &label, NULL, &factor, &sum, score, dlogit);
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
    float logit[3] = {0.5f, -1.0f, 2.0f}, label[3] = {1, 0, 0}, factor = 1.0f;
    double sum = 10, parts = 10;
    logistic(3, 1, logit, 0.0f, label, NULL, &factor, &sum, NULL, NULL);
    for (int i = 0; i < 3; i++)
        parts += one(logit[i], label[i], NULL, NULL);
    ck_assert_double_eq_tol(sum, parts, 1e-12);
}
END_TEST

/* More examples than a chunk of the kernel, on any backend: task t of example i has weight[i]. */
START_TEST(loss_weighs_examples_and_keeps_tasks_apart)
{
    enum { N = 1500, TASKS = 3 };
    static float logit[N * TASKS], label[N * TASKS], weight[N], scores[N * TASKS],
        dlogit[N * TASKS];
    float factor[TASKS] = {1.0f, 0.25f, 0.0f};
    double loss[TASKS] = {0, 1, 2}, expected[TASKS] = {0, 1, 2};
    struct rng r = rng_of(1, 2, 3);
    dense_fill(&r, logit, N * TASKS);
    for (uint32_t i = 0; i < N; i++)
        weight[i] = i % 4 == 0 ? 0.0f : rng_float(&r);
    for (uint32_t i = 0; i < N * TASKS; i++)
        label[i] = (float)rng_below(&r, 2);
    logistic(N, TASKS, logit, 0.125f, label, weight, factor, loss, scores, dlogit);
    for (uint32_t i = 0; i < N * TASKS; i++) {
        double z = (double)logit[i] + 0.125, p = 1 / (1 + exp(-z)), w = (double)weight[i / TASKS];
        expected[i % TASKS] -= w * (label[i] > 0 ? log(p) : log(1 - p));
        ck_assert_double_eq_tol((double)scores[i], p, 1e-7);
        ck_assert_double_eq_tol((double)dlogit[i],
                                (double)factor[i % TASKS] * w * (p - (double)label[i]), 1e-7);
    }
    for (uint32_t t = 0; t < TASKS; t++)
        ck_assert_double_eq_tol(loss[t], expected[t], 1e-8);
}
END_TEST

static double number_loss(enum loss_kind kind, double delta, double z, double y)
{
    double error = fabs(z - y);
    if (kind == LOSS_MSE)
        return error * error;
    return error <= delta ? error * error / 2 : delta * (error - delta / 2);
}

/* The score is the number itself, and dlogit the slope of the loss, here by finite differences. */
START_TEST(loss_of_a_number_and_its_slope)
{
    struct loss_spec spec = {.kind = {_i == 0 ? LOSS_MSE : LOSS_HUBER}, .delta = 1.5};
    const double h = 1e-5;
    for (float z = -5.0f; z <= 5.0f; z += 0.31f)
        for (float y = -2.0f; y <= 200.0f; y = 3 * y + 7) {
            float score, dlogit, factor = 0.5f, weight = 3.0f;
            double sum = 0, x = (double)z, of = (double)y;
            losses(&spec, 1, 1, &z, 0.0f, &y, &weight, &factor, &sum, &score, &dlogit);
            double loss = number_loss(spec.kind[0], spec.delta, x, of),
                   slope = (number_loss(spec.kind[0], spec.delta, x + h, of) -
                            number_loss(spec.kind[0], spec.delta, x - h, of)) /
                           (2 * h);
            ck_assert_double_eq_tol(sum, 3 * loss, 1e-9 * (1 + loss));
            ck_assert_float_eq(score, z);
            ck_assert_double_eq_tol((double)dlogit, 1.5 * slope, 1e-4 * (1 + fabs(slope)));
        }
}
END_TEST

/* Neither the loss nor the gradient knows of a row without the label; its score is there. */
START_TEST(loss_leaves_out_labels_that_are_missing)
{
    const struct loss_spec spec = {.kind = {LOSS_LOGLOSS, LOSS_MSE}, .delta = 1};
    float logit[6] = {0.5f, 2.0f, -1.0f, 3.0f, 0.25f, 4.0f}, label[6] = {1, NAN, NAN, 2.5f, 0, NAN},
          factor[2] = {1, 1}, scores[6], dlogit[6];
    double sum[2] = {0}, alone[2] = {0};
    losses(&spec, 3, 2, logit, 0.0f, label, NULL, factor, sum, scores, dlogit);
    alone[0] = one(0.5f, 1, NULL, NULL) + one(0.25f, 0, NULL, NULL);
    alone[1] = 0.25;
    ck_assert_double_eq_tol(sum[0], alone[0], 1e-12);
    ck_assert_double_eq_tol(sum[1], alone[1], 1e-12);
    ck_assert(dlogit[1] == 0.0f && dlogit[2] == 0.0f && dlogit[5] == 0.0f);
    ck_assert(dlogit[0] < 0.0f && dlogit[3] == 1.0f && dlogit[4] > 0.0f);
    ck_assert_float_eq(scores[1], 2.0f);
    ck_assert_float_eq(scores[5], 4.0f);
    logit[1] = NAN; /* is shown though the label is missing */
    losses(&spec, 3, 2, logit, 0.0f, label, NULL, factor, sum, NULL, NULL);
    ck_assert_double_nan(sum[1]);
}
END_TEST

enum { COUNT = 2500, ROW = 5 };

static void gradient_draw(float *x)
{
    struct rng r = rng_of(4, 4, 4);
    dense_fill(&r, x, COUNT);
}

static double norm_of(const float *x, uint32_t count)
{
    double sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

START_TEST(scale_multiplies_and_by_0_does_not_read)
{
    static float x[COUNT], y[COUNT];
    float half = 0.5f;
    struct dense_device d;
    gradient_draw(x);
    x[7] = NAN;
    dense_device_open(&d);
    float *x_there = dense_up(&d, x, sizeof x), *y_there = dense_up(&d, x, sizeof x);
    d.k->scale(d.s, COUNT, 0.0f, x_there, y_there);
    dense_down(&d, y_there, y, sizeof y);
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert_float_eq(y[i], 0.0f);
    d.k->scale(d.s, COUNT, 3.0f, x_there, y_there);
    d.k->scale_by(d.s, COUNT, dense_up(&d, &half, sizeof half), y_there);
    dense_down(&d, y_there, y, sizeof y);
    for (uint32_t i = 0; i < COUNT; i++)
        ck_assert(i == 7 ? isnan(y[i]) : fabsf(y[i] - 1.5f * x[i]) < 1e-6f);
    dense_device_close(&d);
}
END_TEST

START_TEST(add_keeps_to_its_columns)
{
    enum { ROWS = 7, LDX = 23, LDY = 20, WIDE = 18 };
    float x[ROWS * LDX], y[ROWS * LDY], was[ROWS * LDY];
    struct rng r = rng_of(5, 5, 5);
    struct dense_device d;
    dense_fill(&r, x, ROWS * LDX);
    dense_fill(&r, was, ROWS * LDY);
    dense_device_open(&d);
    float *y_there = dense_up(&d, was, sizeof was);
    d.k->add(d.s, ROWS, WIDE, dense_up(&d, x, sizeof x), LDX, y_there, LDY);
    dense_down(&d, y_there, y, sizeof y);
    for (uint32_t i = 0; i < ROWS * LDY; i++)
        ck_assert_float_eq(y[i], i % LDY < WIDE ? was[i] + x[i / LDY * LDX + i % LDY] : was[i]);
    dense_device_close(&d);
}
END_TEST

START_TEST(clip_scales_to_the_limit_and_no_further)
{
    static float x[COUNT], y[COUNT];
    double square = 0;
    struct dense_device d;
    gradient_draw(x);
    double norm = norm_of(x, COUNT);
    dense_device_open(&d);
    float *there = dense_up(&d, x, sizeof x);
    double *square_there = dense_up(&d, NULL, sizeof square);
    d.k->square_sum(d.s, COUNT, there, square_there);
    dense_down(&d, square_there, &square, sizeof square);
    ck_assert_double_eq_tol(sqrt(square), norm, 1e-5 * norm);
    d.k->clip(d.s, COUNT, norm * 1.01, square_there, there);
    dense_down(&d, there, y, sizeof y);
    ck_assert_mem_eq(x, y, sizeof x);
    d.k->clip(d.s, COUNT, norm / 4, square_there, there);
    dense_down(&d, there, y, sizeof y);
    ck_assert_double_eq_tol(norm_of(y, COUNT), norm / 4, 1e-5 * norm);
    ck_assert_double_eq_tol((double)y[3], (double)x[3] / 4, 1e-6);
    dense_device_close(&d);
}
END_TEST

START_TEST(clip_rows_takes_each_row_by_itself)
{
    static float x[COUNT], y[COUNT];
    struct dense_device d;
    gradient_draw(x);
    memset(x, 0, ROW * sizeof *x); /* a row of zeros stays */
    dense_device_open(&d);
    float *there = dense_up(&d, x, sizeof x);
    d.k->clip_rows(d.s, COUNT / ROW, ROW, 1.25f, there);
    dense_down(&d, there, y, sizeof y);
    uint32_t clipped = 0;
    for (uint32_t i = 0; i < COUNT / ROW; i++) {
        double norm = norm_of(x + i * ROW, ROW), factor = norm > 1.25 ? 1.25 / norm : 1.0;
        clipped += norm > 1.25;
        for (uint32_t j = i * ROW; j < (i + 1) * ROW; j++)
            ck_assert_double_eq_tol((double)y[j], (double)x[j] * factor, 1e-6);
    }
    ck_assert_uint_gt(clipped, 100);
    ck_assert_uint_lt(clipped, 450);
    dense_device_close(&d);
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
    tcase_add_test(t, loss_weighs_examples_and_keeps_tasks_apart);
    tcase_add_loop_test(t, loss_of_a_number_and_its_slope, 0, 2);
    tcase_add_test(t, loss_leaves_out_labels_that_are_missing);
    tcase_add_test(t, scale_multiplies_and_by_0_does_not_read);
    tcase_add_test(t, add_keeps_to_its_columns);
    tcase_add_test(t, clip_scales_to_the_limit_and_no_further);
    tcase_add_test(t, clip_rows_takes_each_row_by_itself);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
