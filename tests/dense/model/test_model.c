/* test_model.c: LR, FM, Wide & Deep and DeepFM: gradients against finite differences, each once
 * against its formula written out by hand; determinism, prediction, the probe, a golden loss
 * curve. */
#include "dense/model.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <stdio.h>
#include <string.h>

static const enum model_kind kinds[] = {MODEL_LR, MODEL_FM, MODEL_WIDE_DEEP, MODEL_DEEPFM};

START_TEST(gradient_is_that_of_the_loss)
{
    for (int many = 0; many < 2; many++) {
        struct dense_case c;
        dense_case_job(&c, kinds[_i]);
        c.weighted = many;
        dense_case_batch(&c, 7, 9, many);
        dense_double_check(&c, 2e-6);
        dense_double_check_predict(&c, 2e-6);
        dense_case_free(&c);
    }
}
END_TEST

/* Values with factors of their own, one a field and many; a row of a field has several of them. */
START_TEST(gradient_holds_with_factors_of_values)
{
    for (int many = 0; many < 2; many++) {
        struct dense_case c;
        dense_case_job(&c, kinds[_i]);
        c.factored = true;
        dense_case_batch(&c, 7, 9, many);
        dense_double_check(&c, 2e-6);
        dense_double_check_predict(&c, 2e-6);
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
        c.range = 4;
        dense_case_batch(&c, 11, 9, true);
        dense_double_check(&c, 4e-6);
        dense_case_free(&c);
    }
}
END_TEST

/* More examples than a range of the backend: the parts must add up, with and without batch norm. */
START_TEST(gradient_holds_over_several_ranges)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = _i ? NORM_BATCH : NORM_NONE;
    c.job.model.dropout = 0.2;
    dense_case_batch(&c, 1300, 9, false);
    dense_double_check(&c, 2e-6);
    dense_case_free(&c);
}
END_TEST

/* The score rounds to 1: the log of the rest would have no digits. */
START_TEST(gradient_holds_at_far_logits)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_LR);
    dense_case_batch(&c, 12, 9, true);
    for (uint32_t i = 0; i < 9; i++)
        c.rows[i] *= 100.0f;
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_check_notices_a_wrong_gradient)
{
    struct dense_case c;
    char where[128];
    dense_case_job(&c, MODEL_FM);
    c.job.model.l2 = 0.01;
    dense_case_batch(&c, 7, 9, false);
    ck_assert_double_le(dense_double_worst(&c, where), 2e-6);
    c.job.model.l2 = 0.0101; /* the model has 0.01 */
    ck_assert_double_gt(dense_double_worst(&c, where), 2e-6);
    ck_assert_ptr_nonnull(strstr(where, "row "));
    dense_case_free(&c);
}
END_TEST

/* ---- the formulas, without the plan ---------------------------------------------------------- */

/* The dense parameters in their order; each tensor begins at a multiple of BLOCK_FLOATS. */
static const float *take(const float **at, size_t count)
{
    const float *here = *at;
    *at += (count + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
    return here;
}

/* The pooled row of an example's field: first-order weight, then the vector. */
static void pooled(const struct dense_case *c, uint32_t example, uint32_t field, uint32_t width,
                   double *out)
{
    uint32_t slot = example * c->shape.fields + field,
             count = c->offset[slot + 1] - c->offset[slot];
    for (uint32_t k = 0; k < width; k++) {
        out[k] = 0;
        for (uint32_t v = c->offset[slot]; v < c->offset[slot + 1]; v++)
            out[k] += (double)c->rows[c->index[v] * width + k] /
                      (c->shape.pooling[field] == POOL_MEAN ? count : 1);
    }
}

static double network(const struct dense_case *c, const double *input, uint32_t in,
                      const float *dense)
{
    double x[64], y[64];
    memcpy(x, input, in * sizeof *x);
    for (uint32_t l = 0; l < c->job.model.hidden.count; l++) {
        uint32_t out = c->job.model.hidden.at[l];
        const float *w = take(&dense, (size_t)in * out), *bias = take(&dense, out);
        for (uint32_t j = 0; j < out; j++) {
            y[j] = (double)bias[j];
            for (uint32_t k = 0; k < in; k++)
                y[j] += x[k] * (double)w[j * in + k];
        }
        for (uint32_t j = 0; j < out; j++)
            x[j] = tanh(y[j]);
        in = out;
    }
    const float *w = take(&dense, in);
    double sum = 0;
    for (uint32_t k = 0; k < in; k++)
        sum += x[k] * (double)w[k];
    return sum;
}

static double logit_by_hand(const struct dense_case *c, uint32_t example)
{
    enum model_kind kind = c->job.model.kind;
    uint32_t fields = c->shape.fields, numerics = c->shape.numerics,
             dim = kind == MODEL_LR ? 0 : c->table.dim;
    const float *dense = c->dense;
    double row[8][8], input[64], logit = (double)*take(&dense, 1);
    const float *linear = take(&dense, numerics);
    for (uint32_t n = 0; n < numerics; n++) {
        input[fields * dim + n] = (double)c->numeric[example * numerics + n];
        logit += input[fields * dim + n] * (double)linear[n];
    }
    for (uint32_t f = 0; f < fields; f++) {
        pooled(c, example, f, 1 + dim, row[f]);
        memcpy(input + f * dim, row[f] + 1, dim * sizeof *input);
        logit += row[f][0];
    }
    for (uint32_t f = 0; f < fields && (kind == MODEL_FM || kind == MODEL_DEEPFM); f++)
        for (uint32_t g = 0; g < f; g++)
            for (uint32_t d = 1; d <= dim; d++)
                logit += row[f][d] * row[g][d];
    if (kind == MODEL_WIDE_DEEP || kind == MODEL_DEEPFM)
        logit += network(c, input, fields * dim + numerics, dense);
    return logit;
}

START_TEST(score_is_that_of_the_formula)
{
    struct dense_case c;
    dense_case_job(&c, kinds[_i]);
    dense_case_batch(&c, 40, 9, true);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t i = 0; i < 40; i++)
        ck_assert_double_eq_tol((double)c.out.scores[i], 1 / (1 + exp(-logit_by_hand(&c, i))),
                                1e-6);
    dense_case_free(&c);
}
END_TEST

/* ---- steps ----------------------------------------------------------------------------------- */

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
    dense_case_train(&b, 18); /* leaves other values in the scratch */
    dense_case_train(&a, 17);
    ck_assert_double_ne(a.out.loss_sum, b.out.loss_sum);
    dense_case_train(&b, 17);
    ck_assert_mem_eq(&a.out.loss_sum, &b.out.loss_sum, sizeof a.out.loss_sum);
    ck_assert_mem_eq(a.out.row_gradients, b.out.row_gradients, 9 * 4 * sizeof(float));
    ck_assert_mem_eq(a.out.dense_gradients, b.out.dense_gradients,
                     model_dense_floats(a.model) * sizeof(float));
    ck_assert_mem_eq(a.out.stats_gradients, b.out.stats_gradients,
                     model_stats_floats(a.model) * sizeof(float));
    ck_assert_mem_eq(a.out.scores, b.out.scores, 1100 * sizeof(float));
    dense_case_free(&a);
    dense_case_free(&b);
}
END_TEST

START_TEST(predict_takes_running_statistics_and_drops_nothing)
{
    struct dense_case c;
    norm_case(&c, 600);
    dense_double_check_predict(&c, 2e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(one_example_trains_with_running_statistics)
{
    struct dense_case c;
    norm_case(&c, 1);
    dense_double_check(&c, 4e-6);
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
    c.out.dense_gradients[0] = c.out.row_gradients[0] = c.out.stats_gradients[0] = 5.0f;
    dense_case_train(&c, 1);
    ck_assert_double_eq(c.out.loss_sum, 0.0);
    ck_assert_float_eq(c.out.dense_gradients[0], 0.0f);
    ck_assert_float_eq(c.out.row_gradients[0], 0.0f);
    ck_assert_float_eq(c.out.stats_gradients[0], 0.0f);
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
    ck_assert_int_eq(model_train(c.model, c.run, &c.in, 1, 2, 3, &c.out), SHOAL_E_NOT_FINITE);
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
    dense_case_train(&c, 1);
    ck_assert_uint_eq(model_row_width(c.model), 1);
    ck_assert_uint_eq(model_dense_floats(c.model), 0);
    ck_assert_double_eq(c.out.loss_sum, 0.0);
    ck_assert_mem_eq(c.out.row_gradients, expected, sizeof expected);
    dense_case_free(&c);
}
END_TEST

/* 20 steps of SGD, batch norm and dropout. Another kind of kernels rounds differently, so the curve
 * is compared to 5 digits; a card's to 4, as beside the CPU below. */
START_TEST(loss_curve_is_the_golden_one)
{
    struct dense_case c;
    char seen[2048] = "";
    double loss[20], expected = 0, tolerance = dense_backend_fuses() ? 1e-4 : 1e-5;
    norm_case(&c, 700);
    dense_case_curve(&c, 20, 0.5f, loss);
    FILE *golden = fopen("tests/golden/dense_deepfm.txt", "r");
    bool same = true;
    ck_assert_ptr_nonnull(golden);
    for (uint32_t step = 0; step < 20; step++) {
        snprintf(seen + strlen(seen), sizeof seen - strlen(seen), "%.7f\n", loss[step]);
        same = same && fscanf(golden, "%lf", &expected) == 1 &&
               fabs(loss[step] - expected) < tolerance;
    }
    fclose(golden);
    ck_assert_msg(same, "the curve of this build:\n%s", seen);
    dense_case_free(&c);
}
END_TEST

START_TEST(loss_curves_of_two_backends_stay_together)
{
    struct dense_case c[2];
    struct backend *other = dense_backend_named("cudahost");
    for (int i = 0; i < 2 && other != NULL; i++) {
        dense_case_job(&c[i], kinds[_i]);
        c[i].backend = i == 0 ? dense_backend_named("cpu") : other;
        c[i].job.model.norm = NORM_BATCH;
        c[i].job.model.dropout = 0.3;
        c[i].weighted = true;
        dense_case_batch(&c[i], 200, 9, true);
    }
    if (other != NULL) {
        ck_assert_double_lt(dense_case_apart(&c[0], &c[1], 20, 0.5f), 1e-4);
        dense_case_free(&c[0]);
        dense_case_free(&c[1]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model");
    TCase *t = tcase_create("model");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, gradient_holds_with_factors_of_values, 0, 4);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss, 0, 4);
    tcase_add_test(t, gradient_holds_at_far_logits);
    tcase_add_loop_test(t, gradient_holds_with_norm_dropout_l2_and_every_activation, 0, 4);
    tcase_add_loop_test(t, gradient_holds_over_several_ranges, 0, 2);
    tcase_add_test(t, gradient_check_notices_a_wrong_gradient);
    tcase_add_loop_test(t, score_is_that_of_the_formula, 0, 4);
    tcase_add_test(t, same_step_gives_the_same_bits);
    tcase_add_test(t, predict_takes_running_statistics_and_drops_nothing);
    tcase_add_test(t, one_example_trains_with_running_statistics);
    tcase_add_test(t, empty_batch_has_no_gradient);
    tcase_add_test(t, not_a_number_is_noticed);
    tcase_add_test(t, probe_counts_each_example_of_a_key_once);
    tcase_add_test(t, loss_curve_is_the_golden_one);
    tcase_add_loop_test(t, loss_curves_of_two_backends_stay_together, 0, 4);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
