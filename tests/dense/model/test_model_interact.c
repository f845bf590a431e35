/* test_model_interact.c: the models with products of field vectors (fwfm, ipnn, dcnv2, dlrm,
 * xdeepfm): gradients against finite differences, the same bits, other backends, refused jobs.
 * Their formulas: test_model_interact_formula.c. */
#include "dense/model.h"
#include "dense/model/models.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <stdio.h>
#include <string.h>

/* An interaction case: small weights, so that the polynomials leave the loss its digits. */
static void case_batch(struct dense_case *c, uint32_t examples, uint32_t rows, bool many)
{
    dense_case_batch(c, examples, rows, many);
    for (size_t i = 0; i < c->plan.dense.floats; i++)
        c->dense[i] *= 0.5f;
}

static void case_job(struct dense_case *c, enum model_kind kind)
{
    dense_case_job(c, kind);
    c->job.train.batch = 16;
}

/* ---- gradients ------------------------------------------------------------------------------- */

static const struct {
    enum model_kind kind;
    enum norm_kind norm;
    uint32_t numerics, dim;
    enum interaction interaction;
} cases[] = {
    {MODEL_FWFM, NORM_NONE, 2, 3, INTERACT_DOT},    {MODEL_FWFM, NORM_NONE, 0, 17, INTERACT_DOT},
    {MODEL_IPNN, NORM_NONE, 2, 3, INTERACT_DOT},    {MODEL_IPNN, NORM_BATCH, 0, 3, INTERACT_DOT},
    {MODEL_IPNN, NORM_BATCH, 2, 4, INTERACT_DOT},   {MODEL_DCNV2, NORM_NONE, 2, 3, INTERACT_DOT},
    {MODEL_DCNV2, NORM_BATCH, 2, 3, INTERACT_DOT},  {MODEL_DCNV2, NORM_BATCH, 0, 3, INTERACT_DOT},
    {MODEL_DLRM, NORM_NONE, 2, 3, INTERACT_DOT},    {MODEL_DLRM, NORM_NONE, 0, 3, INTERACT_DOT},
    {MODEL_DLRM, NORM_NONE, 2, 3, INTERACT_CAT},    {MODEL_DLRM, NORM_BATCH, 2, 3, INTERACT_DOT},
    {MODEL_DLRM, NORM_BATCH, 0, 3, INTERACT_CAT},   {MODEL_DLRM, NORM_BATCH, 2, 16, INTERACT_CAT},
    {MODEL_XDEEPFM, NORM_NONE, 2, 3, INTERACT_DOT}, {MODEL_XDEEPFM, NORM_BATCH, 0, 4, INTERACT_DOT},
    {MODEL_DCNV2, NORM_LAYER, 2, 3, INTERACT_DOT},  {MODEL_DLRM, NORM_LAYER, 2, 3, INTERACT_DOT},
};
#define CASES ((int)(sizeof cases / sizeof *cases))

static void case_of(struct dense_case *c, int i)
{
    case_job(c, cases[i].kind);
    c->job.model.norm = cases[i].norm;
    c->job.model.interaction = cases[i].interaction;
    c->shape.numerics = cases[i].numerics;
    c->table.dim = cases[i].dim;
}

START_TEST(gradient_is_that_of_the_loss)
{
    struct dense_case c;
    case_of(&c, _i);
    case_batch(&c, 9, 6, true);
    dense_double_check(&c, 1e-5);
    dense_double_check_predict(&c, 2e-6);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_holds_with_ranges_weights_dropout_and_l2)
{
    struct dense_case c;
    case_of(&c, _i);
    c.range = 4;
    c.weighted = true;
    c.job.model.dropout = 0.3;
    c.job.model.l2 = 0.02;
    c.job.model.l2_dense = 0.03;
    case_batch(&c, 11, 6, true);
    dense_double_check(&c, 2e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_holds_for_other_depths)
{
    static const enum model_kind kind[] = {MODEL_DCNV2, MODEL_DCNV2, MODEL_DLRM, MODEL_XDEEPFM};
    struct dense_case c;
    case_job(&c, kind[_i]);
    c.job.model.cross_layers = _i == 0 ? 1 : 4;
    /* as wide as input and head */
    c.job.model.hidden = (struct widths){.at = {11, 15}, .count = _i == 1 ? 2 : 1};
    c.job.model.bottom.count = 0;
    c.job.model.cin = (struct widths){.at = {4}, .count = 1};
    case_batch(&c, 9, 6, false);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(gradient_check_notices_a_cross_layer_that_multiplies_by_another_input)
{
    struct dense_case c;
    char where[128];
    case_job(&c, MODEL_DCNV2);
    case_batch(&c, 9, 6, false);
    for (uint32_t i = 0; i < c.plan.layer_count; i++)
        if (c.plan.layer[i].ops == &layer_cross)
            c.plan.layer[i].z = c.plan.layer[i].x; /* in the reference's plan, not the model's */
    ck_assert_double_gt(dense_double_worst(&c, where), 1e-3);
    dense_case_free(&c);
}
END_TEST

/* ---- bits, and other backends ---------------------------------------------------------------- */

START_TEST(same_step_gives_the_same_bits)
{
    struct dense_case one, two;
    case_of(&one, _i);
    case_of(&two, _i);
    one.job.model.dropout = two.job.model.dropout = 0.2;
    case_batch(&one, 700, 9, true);
    case_batch(&two, 700, 9, true);
    dense_case_train(&one, 1);
    dense_case_train(&two, 1);
    ck_assert_mem_eq(one.out.row_gradients, two.out.row_gradients,
                     9 * model_row_width(one.model) * sizeof(float));
    ck_assert_mem_eq(one.out.dense_gradients, two.out.dense_gradients,
                     model_dense_floats(one.model) * sizeof(float));
    dense_case_free(&one);
    dense_case_free(&two);
}
END_TEST

START_TEST(curves_of_the_backends_go_together)
{
    struct dense_case cpu, other;
    struct backend *b = dense_backend_named("cudahost");
    if (b == NULL)
        return;
    case_of(&cpu, _i);
    case_of(&other, _i);
    cpu.backend = dense_backend_named("cpu");
    other.backend = b;
    case_batch(&cpu, 60, 9, true);
    case_batch(&other, 60, 9, true);
    ck_assert_double_lt(dense_case_apart(&cpu, &other, 20, 0.1f), 1e-4);
    dense_case_free(&cpu);
    dense_case_free(&other);
}
END_TEST

/* ---- shapes, and what is refused ------------------------------------------------------------- */

START_TEST(rows_have_first_order_weights_where_the_model_is_linear_too)
{
    static const enum model_kind with[] = {MODEL_FWFM, MODEL_XDEEPFM},
                                 without[] = {MODEL_IPNN, MODEL_DCNV2, MODEL_DLRM};
    struct dense_case c;
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        case_job(&c, with[i]);
        dense_case_batch(&c, 1, 1, false);
        ck_assert_uint_eq(model_row_width(c.model), 1 + 3);
        dense_case_free(&c);
    }
    for (size_t i = 0; i < sizeof without / sizeof *without; i++) {
        case_job(&c, without[i]);
        dense_case_batch(&c, 1, 1, false);
        ck_assert_uint_eq(model_row_width(c.model), 3);
        dense_case_free(&c);
    }
}
END_TEST

static void refused(const struct dense_case *c, const char *sentence)
{
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    ck_assert_ptr_nonnull(p);
    ck_assert_int_eq(models_plan(&c->job, &c->shape, p, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, sentence) != NULL, "%s", e.text);
    free(p);
}

static void built(const struct dense_case *c)
{
    struct plan *p = malloc(sizeof *p);
    struct err e = {0};
    ck_assert_ptr_nonnull(p);
    ck_assert_msg(models_plan(&c->job, &c->shape, p, &e) == 0, "%s", e.text);
    free(p);
}

START_TEST(products_of_fewer_than_two_vectors_are_refused)
{
    static const enum model_kind kind[] = {MODEL_FWFM, MODEL_IPNN, MODEL_DLRM};
    struct dense_case c;
    for (size_t i = 0; i < sizeof kind / sizeof *kind; i++) {
        case_job(&c, kind[i]);
        c.shape.fields = 1;
        c.shape.numerics = 0;
        refused(&c, "the input gives 1 vectors");
        c.shape.fields = 2;
        built(&c);
    }
    c.shape.fields = 1;
    c.shape.numerics = 1; /* the numbers of dlrm make a vector, too */
    built(&c);
    c.job.model.interaction = INTERACT_CAT;
    c.shape.numerics = 0;
    built(&c);
}
END_TEST

START_TEST(layers_that_are_missing_or_too_large_are_refused)
{
    struct dense_case c;
    case_job(&c, MODEL_DCNV2);
    c.job.model.cross_layers = 0;
    refused(&c, "model.cross_layers is 0");
    c.job.model.cross_layers = 16;
    c.shape.fields = 512;
    c.table.dim = 16;
    refused(&c, "model.cross_layers: 16 layers over 8194 inputs make");
    case_job(&c, MODEL_XDEEPFM);
    c.job.model.cin.count = 0;
    refused(&c, "model.cin names 0 layers");
    c.job.model.cin = (struct widths){.at = {4096, 4096}, .count = 2};
    c.shape.fields = 26;
    refused(&c, "model.cin makes");
    c.shape.fields = 0;
    refused(&c, "at least one categorical field");
    case_job(&c, MODEL_DLRM);
    c.job.model.bottom = (struct widths){.at = {16384, 16384, 16384}, .count = 3};
    refused(&c, "model.bottom makes");
    c.shape.numerics = 0; /* then there is none */
    built(&c);
}
END_TEST

START_TEST(jobs_that_ship_are_built)
{
    static const struct {
        const char *file;
        enum model_kind kind;
        uint32_t fields, numerics;
    } ship[] = {
        {"frappe-fwfm", MODEL_FWFM, 10, 0},       {"frappe-ipnn", MODEL_IPNN, 10, 0},
        {"frappe-dcnv2", MODEL_DCNV2, 10, 0},     {"frappe-dlrm", MODEL_DLRM, 10, 0},
        {"frappe-xdeepfm", MODEL_XDEEPFM, 10, 0}, {"frappe-wide_deep", MODEL_WIDE_DEEP, 10, 0},
        {"ml1m-dcnv2", MODEL_DCNV2, 7, 0},        {"criteo-dcnv2", MODEL_DCNV2, 26, 13},
        {"criteo-dlrm", MODEL_DLRM, 26, 13}};
    for (size_t i = 0; i < sizeof ship / sizeof *ship; i++) {
        struct dense_case c;
        struct err e = {0};
        char path[128];
        snprintf(path, sizeof path, "deploy/jobs/%s.yaml", ship[i].file);
        dense_case_job(&c, MODEL_LR);
        ck_assert_msg(job_load(path, NULL, &c.job, &e) == 0, "%s: %s", path, e.text);
        ck_assert_int_eq(c.job.model.kind, ship[i].kind);
        c.shape.fields = ship[i].fields;
        c.shape.numerics = ship[i].numerics;
        built(&c);
        job_free(&c.job);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_interact");
    TCase *t = tcase_create("model_interact");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, gradient_is_that_of_the_loss, 0, CASES);
    tcase_add_loop_test(t, gradient_holds_with_ranges_weights_dropout_and_l2, 0, CASES);
    tcase_add_loop_test(t, gradient_holds_for_other_depths, 0, 4);
    tcase_add_test(t, gradient_check_notices_a_cross_layer_that_multiplies_by_another_input);
    tcase_add_loop_test(t, same_step_gives_the_same_bits, 0, CASES);
    tcase_add_loop_test(t, curves_of_the_backends_go_together, 0, CASES);
    tcase_add_test(t, rows_have_first_order_weights_where_the_model_is_linear_too);
    tcase_add_test(t, products_of_fewer_than_two_vectors_are_refused);
    tcase_add_test(t, layers_that_are_missing_or_too_large_are_refused);
    tcase_add_test(t, jobs_that_ship_are_built);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
