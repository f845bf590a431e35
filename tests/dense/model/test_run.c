/* test_run.c: the steps around a batch's pass (dense/model/run.c, run_input.c): weights, tasks,
 * L2, measuring and clipping of gradients, the correction for left out negatives. */
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include "dense/model/run.h"

#include <string.h>

enum { EXAMPLES = 30, ROWS = 9, WIDTH = 4 };

static void small_case(struct dense_case *c)
{
    dense_case_job(c, MODEL_DEEPFM);
    dense_case_batch(c, EXAMPLES, ROWS, true);
}

static double norm_of(const float *x, size_t count)
{
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* ---- weights and tasks ----------------------------------------------------------------------- */

/* An example of weight 0 counts as absent, one of weight 2 as two. */
START_TEST(weights_are_like_so_many_examples)
{
    struct dense_case c;
    static const float weight[EXAMPLES] = {2, 0, 1, 1, 0, 2};
    dense_case_job(&c, MODEL_DEEPFM);
    dense_case_batch(&c, EXAMPLES, ROWS, false);
    c.in.weight = weight;
    dense_double_check(&c, 2e-6);
    float rows[ROWS * WIDTH];
    double loss = c.out.loss_sum;
    memcpy(rows, c.out.row_gradients, sizeof rows);
    ck_assert_double_eq(c.out.weight_sum, 6.0);

    static const uint32_t again[6] = {0, 0, 2, 3, 5, 5};
    for (uint32_t i = 0; i < 6; i++) {
        memcpy(c.index + i * 3, c.index + again[i] * 3, 3 * sizeof *c.index);
        memcpy(c.numeric + i * 2, c.numeric + again[i] * 2, 2 * sizeof *c.numeric);
        c.label[i] = c.label[again[i]];
    }
    c.in.weight = NULL;
    c.in.examples = 6;
    dense_case_train(&c, DENSE_BATCH);
    ck_assert_double_eq_tol(c.out.loss_sum, loss, 1e-6);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        ck_assert_double_eq_tol((double)c.out.row_gradients[i], (double)rows[i], 1e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(weights_that_are_all_0_leave_only_l2)
{
    struct dense_case c;
    static const float weight[EXAMPLES] = {0};
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.l2 = 0.5;
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    c.in.weight = weight;
    dense_case_train(&c, DENSE_BATCH);
    ck_assert_double_eq(c.out.loss_sum, 0.0);
    ck_assert_double_eq(c.out.weight_sum, 0.0);
    for (uint32_t i = 0; i < ROWS * WIDTH; i++)
        ck_assert_double_eq_tol((double)c.out.row_gradients[i], 0.5 * (double)c.rows[i], 1e-7);
    for (size_t i = 0; i < model_dense_floats(c.model); i++)
        ck_assert_float_eq(c.out.dense_gradients[i], 0.0f);
    dense_case_free(&c);
}
END_TEST

/* A network that all tasks share, and a head for each task. */
static void shared_bottom(struct plan *p)
{
    struct view x = plan_network(p, plan_input(p, true, 0), &p->job->model.hidden);
    for (uint32_t t = 0; t < p->tasks; t++)
        plan_head(p, x, t);
}

START_TEST(tasks_add_up_by_their_weights)
{
    static const struct plan_kind kind = {.name = "shared_bottom",
                                          .build = shared_bottom,
                                          .vectors = true,
                                          .first_order = true,
                                          .network = true,
                                          .multi = true};
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.kind = &kind;
    c.shape.tasks = 3;
    c.job.model.task_weight[1] = 0.25;
    c.job.model.task_weight[2] = 0.0;
    c.weighted = true;
    c.range = _i ? 8 : 0;
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    dense_double_check(&c, 2e-6);
    dense_double_check_predict(&c, 2e-6);
    ck_assert_double_gt(c.out.loss_task[2], 0.0);
    ck_assert_double_eq_tol(c.out.loss_sum, c.out.loss_task[0] + 0.25 * c.out.loss_task[1], 1e-9);
    dense_case_free(&c);
}
END_TEST

/* ---- whole gradients ------------------------------------------------------------------------- */

START_TEST(norms_are_measured_now_and_then)
{
    struct dense_case c;
    small_case(&c);
    dense_case_train(&c, 16);
    ck_assert_double_eq_tol(c.out.row_norm, norm_of(c.out.row_gradients, ROWS * WIDTH), 1e-6);
    ck_assert_double_eq_tol(c.out.dense_norm,
                            norm_of(c.out.dense_gradients, model_dense_floats(c.model)), 1e-6);
    ck_assert_double_gt(c.out.dense_norm, 0.0);
    dense_case_train(&c, 17);
    ck_assert_double_eq(c.out.row_norm, 0.0); /* 0: not measured */
    ck_assert_double_eq(c.out.dense_norm, 0.0);
    dense_case_free(&c);
}
END_TEST

START_TEST(clip_dense_scales_the_dense_gradients_together)
{
    struct dense_case plain, clipped;
    small_case(&plain);
    dense_case_train(&plain, 16);
    size_t count = model_dense_floats(plain.model);
    double limit = _i ? plain.out.dense_norm * 1.001 : plain.out.dense_norm / 3,
           factor = _i ? 1.0 : 1.0 / 3;
    dense_case_job(&clipped, MODEL_DEEPFM);
    clipped.job.train.clip_dense = limit;
    dense_case_batch(&clipped, EXAMPLES, ROWS, true);
    dense_case_train(&clipped, 17); /* measured at each batch */
    /* before clipping */
    ck_assert_double_eq_tol(clipped.out.dense_norm, plain.out.dense_norm, 1e-6);
    for (size_t i = 0; i < count; i++)
        ck_assert_double_eq_tol((double)clipped.out.dense_gradients[i],
                                factor * (double)plain.out.dense_gradients[i], 1e-6);
    ck_assert_mem_eq(clipped.out.row_gradients, plain.out.row_gradients,
                     ROWS * WIDTH * sizeof(float));
    dense_case_free(&plain);
    dense_case_free(&clipped);
}
END_TEST

START_TEST(clip_row_scales_each_row_by_itself)
{
    struct dense_case plain, clipped;
    small_case(&plain);
    dense_case_train(&plain, 16);
    double limit = plain.out.row_norm / 4;
    dense_case_job(&clipped, MODEL_DEEPFM);
    clipped.job.train.clip_row = limit;
    dense_case_batch(&clipped, EXAMPLES, ROWS, true);
    dense_case_train(&clipped, 16);
    uint32_t cut = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        double norm = norm_of(plain.out.row_gradients + r * WIDTH, WIDTH),
               factor = norm > limit ? limit / norm : 1.0;
        cut += norm > limit;
        for (uint32_t i = r * WIDTH; i < (r + 1) * WIDTH; i++)
            ck_assert_double_eq_tol((double)clipped.out.row_gradients[i],
                                    factor * (double)plain.out.row_gradients[i], 1e-6);
    }
    ck_assert(cut > 0 && cut < ROWS);
    ck_assert_double_eq_tol(clipped.out.row_norm, plain.out.row_norm, 1e-9);
    dense_case_free(&plain);
    dense_case_free(&clipped);
}
END_TEST

/* L2 applies to matrices and linear weights, not to biases, gamma and beta. */
START_TEST(l2_dense_is_not_on_biases)
{
    struct dense_case c;
    static const float weight[EXAMPLES] = {0}; /* only L2 is left */
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = _i ? NORM_BATCH : NORM_NONE;
    c.job.model.l2_dense = 0.25;
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    c.in.weight = weight;
    dense_case_train(&c, 1);
    /* bias, numbers, twice (matrix, bias or gamma and beta), head */
    const struct block_layout *d = &c.plan.dense;
    ck_assert_uint_eq(d->tensor_count, _i ? 9 : 7);
    for (uint32_t t = 0; t < d->tensor_count; t++) {
        bool one_of = t == 0 || (_i ? t == 3 || t == 4 || t == 6 || t == 7 : t == 3 || t == 5);
        for (size_t i = d->tensor[t].first; i < d->tensor[t].first + d->tensor[t].count; i++)
            ck_assert_double_eq_tol((double)c.out.dense_gradients[i],
                                    one_of ? 0.0 : 0.25 * (double)c.dense[i], 1e-7);
    }
    dense_case_free(&c);
}
END_TEST

/* Values behind a tensor's end in its last block have no effect, even NaN. */
START_TEST(padding_is_of_no_meaning)
{
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = NORM_BATCH;
    c.job.model.l2_dense = 0.25;
    c.job.train.clip_dense = 1e-3;
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    dense_case_train(&c, 16);
    size_t dense = model_dense_floats(c.model);
    float *before = malloc(dense * sizeof *before);
    ck_assert_ptr_nonnull(before);
    memcpy(before, c.out.dense_gradients, dense * sizeof *before);
    for (uint32_t t = 0; t < c.plan.dense.tensor_count; t++)
        for (size_t i = c.plan.dense.tensor[t].count; i % BLOCK_FLOATS > 0; i++)
            c.dense[c.plan.dense.tensor[t].first + i] = NAN;
    for (uint32_t t = 0; t < c.plan.stats.tensor_count; t++)
        for (size_t i = c.plan.stats.tensor[t].count; i % BLOCK_FLOATS > 0; i++)
            c.stats[c.plan.stats.tensor[t].first + i] = NAN;
    memset(c.out.dense_gradients, 0xff, dense * sizeof(float));
    dense_case_train(&c, 16);
    ck_assert_mem_eq(c.out.dense_gradients, before, dense * sizeof *before);
    free(before);
    dense_case_free(&c);
}
END_TEST

/* ---- prediction ------------------------------------------------------------------------------ */

/* After training with a share w of the negatives, odds are too high by 1 / w. */
START_TEST(predictions_are_corrected_for_left_out_negatives)
{
    struct dense_case plain, sampled;
    small_case(&plain);
    dense_case_job(&sampled, MODEL_DEEPFM);
    sampled.job.data.negatives = 0.1;
    dense_case_batch(&sampled, EXAMPLES, ROWS, true);
    ck_assert_int_eq(model_predict(plain.model, plain.run, &plain.in, &plain.out), 0);
    dense_double_check_predict(&sampled, 1e-6);
    for (uint32_t i = 0; i < EXAMPLES; i++) {
        double p = (double)plain.out.scores[i], q = p / (p + (1 - p) / 0.1);
        ck_assert_double_eq_tol((double)sampled.out.scores[i], q, 1e-6);
    }
    dense_case_train(&plain, 1);
    dense_case_train(&sampled, 1); /* training is not corrected */
    ck_assert_mem_eq(plain.out.scores, sampled.out.scores, EXAMPLES * sizeof(float));
    dense_case_free(&plain);
    dense_case_free(&sampled);
}
END_TEST

/* ---- sizes ----------------------------------------------------------------------------------- */

/* A device plays its recording of a batch of the same size again; arrays grow in between. */
START_TEST(batches_of_changing_sizes_train_like_each_alone)
{
    static const uint32_t sizes[] = {5, 5, 5, 30, 30, 30, 5, 30, 17, 5, 5};
    struct dense_case c;
    small_case(&c);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct model_run *alone;
        float rows[ROWS * WIDTH];
        c.in.examples = sizes[i];
        c.label[0] = (float)(i % 2);
        ck_assert_int_eq(model_run_new(c.model, EXAMPLES, &alone, NULL), 0);
        ck_assert_int_eq(model_train(c.model, alone, &c.in, DENSE_SEED, DENSE_LANE, i, &c.out), 0);
        double loss = c.out.loss_sum;
        memcpy(rows, c.out.row_gradients, sizeof rows);
        dense_case_train(&c, i);
        ck_assert_mem_eq(&c.out.loss_sum, &loss, sizeof loss);
        ck_assert_mem_eq(c.out.row_gradients, rows, sizeof rows);
        model_run_free(alone);
    }
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("run");
    TCase *t = tcase_create("run");
    tcase_add_test(t, weights_are_like_so_many_examples);
    tcase_add_test(t, weights_that_are_all_0_leave_only_l2);
    tcase_add_loop_test(t, tasks_add_up_by_their_weights, 0, 2);
    tcase_add_test(t, norms_are_measured_now_and_then);
    tcase_add_loop_test(t, clip_dense_scales_the_dense_gradients_together, 0, 2);
    tcase_add_test(t, clip_row_scales_each_row_by_itself);
    tcase_add_loop_test(t, l2_dense_is_not_on_biases, 0, 2);
    tcase_add_test(t, padding_is_of_no_meaning);
    tcase_add_test(t, predictions_are_corrected_for_left_out_negatives);
    tcase_add_test(t, batches_of_changing_sizes_train_like_each_alone);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
