/* test_model_tables.c: models over several tables: vectors of several dims side by side,
 * clipping; and tables of one dim, which to a model are the same as one table. */
#include "dense/model.h"
#include "dense/model/models.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <math.h>
#include <string.h>

static const enum model_kind kinds[] = {MODEL_WIDE_DEEP, MODEL_DCNV2, MODEL_FINALMLP,
                                        MODEL_DLRM,      MODEL_MMOE,  MODEL_PLE};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

/* Three tables for five fields; dim 2 occurs twice. */
static void case_of(struct dense_case *c, enum model_kind kind)
{
    static const uint32_t dim[] = {5, 2, 17};
    dense_case_job(c, kind);
    c->job.model.interaction = INTERACT_CAT;
    c->shape.fields = 5;
    c->shape.gate_fields = 2;
    c->shape.gate_field[0] = 2;
    c->shape.gate_field[1] = 1;
    c->job.model.gate_hidden =
        kind == MODEL_FINALMLP ? c->job.model.bottom : (struct widths){.count = 0};
    if (kind == MODEL_MMOE || kind == MODEL_PLE) {
        c->shape.tasks = 2;
        c->job.data.label_count = 2;
    }
    dense_case_tables(c, dim, 3);
}

START_TEST(gradient_is_that_of_the_loss_with_several_dims)
{
    for (int many = 0; many < 2; many++) {
        struct dense_case c;
        case_of(&c, kinds[_i]);
        c.job.model.l2 = 0.01;
        c.weighted = many;
        c.range = many ? 4 : 0;
        dense_case_batch(&c, 7, 11, many);
        ck_assert_uint_eq(model_tables(c.model), 3);
        ck_assert_uint_eq(model_row_width(c.model), c.plan.first_order + 17); /* the widest */
        dense_double_check(&c, 5e-6);
        dense_double_check_predict(&c, 5e-6);
        dense_case_free(&c);
    }
}
END_TEST

/* More values than a chunk of the device's sums, so that rows continue in the next chunk. */
START_TEST(gradient_holds_for_rows_of_many_values)
{
    struct dense_case c;
    case_of(&c, MODEL_WIDE_DEEP);
    dense_case_batch(&c, 130, 7, true);
    dense_double_check(&c, 5e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_check_notices_rows_in_the_wrong_place)
{
    struct dense_case c;
    char where[128];
    case_of(&c, MODEL_WIDE_DEEP);
    dense_case_batch(&c, 7, 11, false);
    ck_assert_double_le(dense_double_worst(&c, where), 5e-6);
    uint32_t told[3] = {c.table_rows[0] - 1, c.table_rows[1] + 1, c.table_rows[2]};
    c.in.table_rows = told; /* the model gets other tables than the check */
    ck_assert_double_gt(dense_double_worst(&c, where), 1e-3);
    dense_case_free(&c);
}
END_TEST

/* A row's table does not matter: the same bits. */
START_TEST(tables_of_one_dim_are_as_one)
{
    static const uint32_t dim[] = {3, 3};
    static const enum model_kind any[] = {MODEL_LR,   MODEL_FM,      MODEL_DEEPFM,
                                          MODEL_IPNN, MODEL_XDEEPFM, MODEL_AUTOINT};
    struct dense_case one, two;
    dense_case_job(&one, any[_i]);
    dense_case_job(&two, any[_i]);
    dense_case_tables(&two, dim, 2);
    dense_case_batch(&one, 40, 12, true);
    dense_case_batch(&two, 40, 12, true);
    memcpy(one.index, two.index, two.values * sizeof *two.index);
    memcpy(one.offset, two.offset, (40 * 3 + 1) * sizeof *two.offset);
    size_t floats = dense_case_row(&two, 12, NULL);
    ck_assert_uint_eq(floats, 12 * (size_t)model_row_width(one.model));
    memcpy(one.rows, two.rows, floats * sizeof *two.rows);
    memcpy(one.label, two.label, 40 * sizeof *two.label);
    memcpy(one.numeric, two.numeric, 40 * 2 * sizeof *two.numeric);
    memcpy(one.dense, two.dense, model_dense_floats(two.model) * sizeof *two.dense);
    two.in.table_rows = NULL; /* not read */
    dense_case_train(&one, DENSE_BATCH);
    dense_case_train(&two, DENSE_BATCH);
    ck_assert_mem_eq(one.out.row_gradients, two.out.row_gradients, floats * sizeof(float));
    ck_assert_mem_eq(one.out.dense_gradients, two.out.dense_gradients,
                     model_dense_floats(one.model) * sizeof(float));
    dense_case_free(&one);
    dense_case_free(&two);
}
END_TEST

enum { ROWS = 11 };

/* ---- clipping -------------------------------------------------------------------------------- */

START_TEST(each_row_is_clipped_by_itself)
{
    struct dense_case c, clipped;
    double largest = 0;
    case_of(&c, MODEL_WIDE_DEEP);
    dense_case_batch(&c, 20, ROWS, true);
    dense_case_train(&c, 1);
    case_of(&clipped, MODEL_WIDE_DEEP);
    clipped.job.train.clip_row = 0.05;
    dense_case_batch(&clipped, 20, ROWS, true);
    dense_case_train(&clipped, 1);
    for (uint32_t row = 0; row < ROWS; row++) {
        uint32_t width;
        size_t at = dense_case_row(&c, row, &width);
        double square = 0;
        for (uint32_t i = 0; i < width; i++)
            square += (double)c.out.row_gradients[at + i] * (double)c.out.row_gradients[at + i];
        double factor = sqrt(square) > 0.05 ? 0.05 / sqrt(square) : 1;
        largest = fmax(largest, sqrt(square));
        for (uint32_t i = 0; i < width; i++)
            ck_assert_double_eq_tol((double)clipped.out.row_gradients[at + i],
                                    factor * (double)c.out.row_gradients[at + i], 1e-6);
    }
    ck_assert_double_gt(largest, 0.05); /* some are clipped */
    dense_case_free(&c);
    dense_case_free(&clipped);
}
END_TEST

/* ---- what needs one dim ---------------------------------------------------------------------- */

START_TEST(models_that_multiply_vectors_refuse_several_dims)
{
    static const enum model_kind one_dim[] = {
        MODEL_FM, MODEL_FWFM, MODEL_DEEPFM, MODEL_IPNN, MODEL_XDEEPFM, MODEL_AUTOINT, MODEL_DLRM};
    static struct plan plan;
    struct dense_case c;
    struct err e = {0};
    case_of(&c, one_dim[_i]);
    c.job.model.interaction = INTERACT_DOT;
    ck_assert_int_eq(models_plan(&c.job, &c.shape, &plan, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "emb0 has dim 5 and emb1 dim 2") != NULL, "%s", e.text);
    ck_assert_msg(strstr(e.text, job_model_name(one_dim[_i])) != NULL, "%s", e.text);
    const char *instead = one_dim[_i] == MODEL_DLRM ? "or take model.interaction: cat"
                                                    : "side by side, such as dcnv2";
    ck_assert_msg(strstr(e.text, instead) != NULL, "%s", e.text);
    c.several[1].dim = c.several[2].dim = 5;
    ck_assert_msg(models_plan(&c.job, &c.shape, &plan, &e) == 0, "%s", e.text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_tables");
    TCase *t = tcase_create("model_tables");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss_with_several_dims, 0, KINDS);
    tcase_add_test(t, gradient_holds_for_rows_of_many_values);
    tcase_add_test(t, gradient_check_notices_rows_in_the_wrong_place);
    tcase_add_loop_test(t, tables_of_one_dim_are_as_one, 0, 6);
    tcase_add_test(t, each_row_is_clipped_by_itself);
    tcase_add_loop_test(t, models_that_multiply_vectors_refuse_several_dims, 0, 7);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
