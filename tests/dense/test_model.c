/* test_model.c: whole models: gradients against finite differences, determinism, prediction, the probe, a golden loss
 * curve. */
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_reference.h"

#include <stdio.h>
#include <string.h>

#define SEED 2026u
#define LANE 3u
#define BATCH 17u

static double *doubles(const float *x, size_t count)
{
    double *d = malloc((count + 1) * sizeof *d);
    for (size_t i = 0; i < count; i++)
        d[i] = (double)x[i];
    return d;
}

/* The largest difference of the gradients from central differences of the double model, and that of the loss itself. */
static double worst_gradient(struct dense_case *c)
{
    size_t row_floats = (size_t)c->in.row_count * model_row_width(c->model),
           dense_floats = model_dense_floats(c->model);
    double *rows = doubles(c->rows, row_floats), *dense = doubles(c->dense, dense_floats), worst = 0, h = 1e-6;

    ck_assert_int_eq(model_train(c->model, c->run, &c->in, SEED, LANE, BATCH, &c->out), 0);
    for (size_t i = 0; i < row_floats + dense_floats; i++) {
        double *at = i < row_floats ? &rows[i] : &dense[i - row_floats], was = *at;
        *at = was + h;
        double up = dense_reference_loss(c, rows, dense, true, SEED, LANE, BATCH, NULL);
        *at = was - h;
        double down = dense_reference_loss(c, rows, dense, true, SEED, LANE, BATCH, NULL);
        *at = was;
        double found = (double)(i < row_floats ? c->out.row_gradients[i] : c->out.dense_gradients[i - row_floats]);
        worst = fmax(worst, fabs((up - down) / (2 * h) - found));
    }
    struct dense_case plain = *c;
    plain.job.model.l2 = plain.job.model.l2_dense = 0;
    double loss = dense_reference_loss(&plain, rows, dense, true, SEED, LANE, BATCH, NULL);
    worst = fmax(worst, fabs(loss - c->out.loss_sum / c->in.examples));
    free(rows);
    free(dense);
    return worst;
}

static const enum model_kind kinds[] = {MODEL_LR, MODEL_FM, MODEL_WIDE_DEEP, MODEL_DEEPFM};

START_TEST(gradient_is_that_of_the_loss)
{
    for (int many = 0; many < 2; many++) {
        struct dense_case c;
        dense_case_job(&c, kinds[_i]);
        dense_case_batch(&c, 7, 9, many);
        ck_assert_double_lt(worst_gradient(&c), 2e-6);
        dense_case_free(&c);
    }
}
END_TEST

START_TEST(gradient_holds_with_norm_dropout_l2_and_every_activation)
{
    for (int norm = 0; norm < 2; norm++) {
        struct dense_case c;
        dense_case_job(&c, MODEL_DEEPFM);
        c.job.model.activation = (enum activation)_i;
        c.job.model.norm = norm ? NORM_BATCH : NORM_NONE;
        c.job.model.dropout = 0.3;
        c.job.model.l2 = 0.01;
        c.job.model.l2_dense = 0.02;
        dense_case_batch(&c, 11, 9, true);
        ck_assert_double_lt(worst_gradient(&c), 4e-6);
        dense_case_free(&c);
    }
}
END_TEST

/* More examples than a range: the pieces must add up, with and without batch norm. */
START_TEST(gradient_holds_over_several_ranges)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = _i ? NORM_BATCH : NORM_NONE;
    c.job.model.dropout = 0.2;
    dense_case_batch(&c, 1300, 9, false);
    ck_assert_double_lt(worst_gradient(&c), 2e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_check_notices_a_wrong_gradient)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_FM);
    c.job.model.l2 = 0.01;
    dense_case_batch(&c, 7, 9, false);
    c.job.model.l2 = 0.0101; /* the model has 0.01 */
    ck_assert_double_gt(worst_gradient(&c), 2e-6);
    dense_case_free(&c);
}
END_TEST

static void norm_case(struct dense_case *c, uint32_t examples)
{
    dense_case_job(c, MODEL_DEEPFM);
    c->job.model.norm = NORM_BATCH;
    c->job.model.dropout = 0.4;
    dense_case_batch(c, examples, 9, true);
}

START_TEST(same_step_gives_the_same_bits)
{
    struct dense_case a, b;
    norm_case(&a, 1100);
    norm_case(&b, 1100);
    ck_assert_int_eq(model_train(b.model, b.run, &b.in, SEED, LANE, BATCH + 1, &b.out),
                     0); /* leaves other values in the scratch */
    ck_assert_int_eq(model_train(a.model, a.run, &a.in, SEED, LANE, BATCH, &a.out), 0);
    ck_assert_double_ne(a.out.loss_sum, b.out.loss_sum);
    ck_assert_int_eq(model_train(b.model, b.run, &b.in, SEED, LANE, BATCH, &b.out), 0);
    ck_assert_mem_eq(&a.out.loss_sum, &b.out.loss_sum, sizeof a.out.loss_sum);
    ck_assert_mem_eq(a.out.row_gradients, b.out.row_gradients, 9 * 4 * sizeof(float));
    ck_assert_mem_eq(a.out.dense_gradients, b.out.dense_gradients, model_dense_floats(a.model) * sizeof(float));
    ck_assert_mem_eq(a.out.stats_gradients, b.out.stats_gradients, model_stats_floats(a.model) * sizeof(float));
    ck_assert_mem_eq(a.out.scores, b.out.scores, 1100 * sizeof(float));
    dense_case_free(&a);
    dense_case_free(&b);
}
END_TEST

START_TEST(predict_takes_running_statistics_and_drops_nothing)
{
    struct dense_case c;
    double expected[600];
    norm_case(&c, 600);
    double *rows = doubles(c.rows, 9 * 4), *dense = doubles(c.dense, model_dense_floats(c.model));
    double loss = dense_reference_loss(&c, rows, dense, false, 0, 0, 0, expected);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    ck_assert_double_eq_tol(c.out.loss_sum / 600, loss, 1e-6);
    for (uint32_t i = 0; i < 600; i++)
        ck_assert_double_eq_tol((double)c.out.scores[i], expected[i], 2e-6);
    free(rows);
    free(dense);
    dense_case_free(&c);
}
END_TEST

START_TEST(one_example_trains_with_running_statistics)
{
    struct dense_case c;
    norm_case(&c, 1);
    ck_assert_double_lt(worst_gradient(&c), 4e-6);
    for (size_t i = 0; i < model_stats_floats(c.model); i++)
        ck_assert_float_eq(c.out.stats_gradients[i], 0.0f);
    dense_case_free(&c);
}
END_TEST

START_TEST(empty_batch_has_no_gradient)
{
    struct dense_case c;
    norm_case(&c, 4);
    c.in.examples = 0;
    c.out.dense_gradients[0] = c.out.row_gradients[0] = 5.0f;
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, SEED, LANE, BATCH, &c.out), 0);
    ck_assert_double_eq(c.out.loss_sum, 0.0);
    ck_assert_float_eq(c.out.dense_gradients[0], 0.0f);
    ck_assert_float_eq(c.out.row_gradients[0], 0.0f);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    dense_case_free(&c);
}
END_TEST

START_TEST(not_a_number_is_noticed)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_WIDE_DEEP);
    c.job.model.activation = ACT_RELU;
    dense_case_batch(&c, 8, 9, false);
    c.rows[c.index[3] * 4 + 2] = NAN;
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, SEED, LANE, BATCH, &c.out), SHOAL_E_NOT_FINITE);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), SHOAL_E_NOT_FINITE);
    dense_case_free(&c);
}
END_TEST

START_TEST(probe_counts_each_example_of_a_key_once)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_PROBE);
    c.job.model.l2 = 1.0;
    dense_case_batch(&c, 900, 9, true);
    for (uint32_t v = 0; v < c.values; v++) /* as in real input, no two fields share a key */
        for (uint32_t s = 0; s < 900 * 3; s++)
            if (v >= c.offset[s] && v < c.offset[s + 1])
                c.index[v] = c.index[v] / 3 * 3 % 9 + s % 3;
    float expected[9] = {0};
    for (uint32_t i = 0; i < 900; i++)
        for (uint32_t k = 0; k < 9; k++) {
            bool has = false;
            for (uint32_t v = c.offset[i * 3]; v < c.offset[i * 3 + 3]; v++)
                has = has || c.index[v] == k;
            expected[k] -= has ? 1.0f : 0.0f;
        }
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, SEED, LANE, BATCH, &c.out), 0);
    ck_assert_uint_eq(model_row_width(c.model), 1);
    ck_assert_uint_eq(model_dense_floats(c.model), 0);
    ck_assert_double_eq(c.out.loss_sum, 0.0);
    ck_assert_mem_eq(c.out.row_gradients, expected, sizeof expected);
    dense_case_free(&c);
}
END_TEST

/* 20 steps of SGD, batch norm and dropout. Another kernel type rounds otherwise, so the curve is compared to 5 digits.
 */
START_TEST(loss_curve_is_the_golden_one)
{
    struct dense_case c;
    char seen[2048] = "";
    norm_case(&c, 700);
    size_t row_floats = 9 * 4, dense = model_dense_floats(c.model), stats = model_stats_floats(c.model);
    FILE *golden = fopen("tests/golden/dense_deepfm.txt", "r");
    bool same = true;
    ck_assert_ptr_nonnull(golden);
    for (uint32_t step = 1; step <= 20; step++) {
        double expected = 0;
        ck_assert_int_eq(model_train(c.model, c.run, &c.in, SEED, LANE, step, &c.out), 0);
        double loss = c.out.loss_sum / c.in.examples;
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.7f\n", loss);
        same = same && fscanf(golden, "%lf", &expected) == 1 && fabs(loss - expected) < 1e-5;
        for (size_t i = 0; i < row_floats; i++)
            c.rows[i] -= 0.5f * c.out.row_gradients[i];
        for (size_t i = 0; i < dense; i++)
            c.dense[i] -= 0.5f * c.out.dense_gradients[i];
        for (size_t i = 0; i < stats; i++)
            c.stats[i] -= c.out.stats_gradients[i];
    }
    fclose(golden);
    ck_assert_msg(same, "the curve of this build:\n%s", seen);
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss, 0, 4);
    tcase_add_loop_test(t, gradient_holds_with_norm_dropout_l2_and_every_activation, 0, 3);
    tcase_add_loop_test(t, gradient_holds_over_several_ranges, 0, 2);
    tcase_add_test(t, gradient_check_notices_a_wrong_gradient);
    tcase_add_test(t, same_step_gives_the_same_bits);
    tcase_add_test(t, predict_takes_running_statistics_and_drops_nothing);
    tcase_add_test(t, one_example_trains_with_running_statistics);
    tcase_add_test(t, empty_batch_has_no_gradient);
    tcase_add_test(t, not_a_number_is_noticed);
    tcase_add_test(t, probe_counts_each_example_of_a_key_once);
    tcase_add_test(t, loss_curve_is_the_golden_one);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
