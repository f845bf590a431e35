/* test_sites.c: models at several sites (dense/layer/plan_sites.h) learn what the model at one site
 * learns: every kind of model, split and in stages, in micro-batches. */
#include "tests/lib/dense_check.h"

#include "dense/model/models.h"
#include "dense/model/run.h"

#include <stdio.h>
#include <string.h>

enum { EXAMPLES = 37, ROWS = 20 };

/* The 2-norm of an array's difference is at most so many times that of the array: sums in another
 * order round differently, and by how much depends on the processor's kernels: without batch norm
 * at most 8.1e-7 on one machine, and 2.4e-6 with the kernels for Haswell. Batch norm divides by
 * deviations that may be small, which enlarges that rounding. */
static double tolerance(enum norm_kind norm)
{
    if (norm == NORM_BATCH)
        return 1e-5;
    return 5e-6;
}

/* The largest difference of the case so far, without and with batch norm. */
static double worst[2];

static void worst_print(enum model_kind kind, const char *form)
{
    printf("%s, %s: at most %.1e from the whole, with batch norm %.1e\n", job_model_name(kind),
           form, worst[0], worst[1]);
    fflush(stdout);
    worst[0] = worst[1] = 0.0;
}

struct sites {
    uint32_t stages, split, micro_batches;
};

static void sites_set(struct job *job, struct sites s)
{
    job->model.stages = s.stages;
    job->model.split = s.split;
    job->model.split_above = 9;
    job->train.micro_batches = s.micro_batches;
}

static void case_job(struct dense_case *c, enum model_kind kind, enum norm_kind norm)
{
    dense_case_job(c, kind);
    c->weighted = true;
    c->job.model.hidden = c->job.model.hidden2 = (struct widths){{22, 17, 14}, 3};
    c->job.model.tower = (struct widths){{12, 10}, 2};
    c->job.model.bottom = (struct widths){{13}, 1};
    c->job.model.gate_hidden = (struct widths){{11}, 1};
    c->job.model.norm = norm;
    c->job.model.l2 = c->job.model.l2_dense = 1e-3;
    c->job.train.clip_dense = 0.5;
    if (kind == MODEL_MMOE || kind == MODEL_PLE) {
        c->shape.tasks = 2;
        c->job.data.label_count = 2;
        c->job.model.levels = 1 + (kind == MODEL_PLE);
        c->job.model.experts = 2;
    }
    if (kind == MODEL_DIN) {
        c->shape.pooling[1] = POOL_ATTENTION;
        c->shape.attend[1] = 0;
        c->shape.most[0] = 1;
    }
}

static double apart(const float *a, const float *b, size_t count)
{
    double all = 0.0, off = 0.0;
    for (size_t i = 0; i < count; i++) {
        ck_assert(isfinite(a[i]) && isfinite(b[i]));
        all += (double)a[i] * (double)a[i];
        off += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    }
    if (all > 0.0)
        return sqrt(off / all);
    return sqrt(off);
}

static void compare(const struct dense_case *whole, const struct dense_case *c, const char *what)
{
    const struct {
        const char *name;
        const float *a, *b;
        size_t count;
    } array[] = {
        {"row gradients", whole->out.row_gradients, c->out.row_gradients,
         dense_case_row(whole, ROWS, NULL)},
        {"dense gradients", whole->out.dense_gradients, c->out.dense_gradients,
         model_dense_floats(whole->model)},
        {"statistics", whole->out.stats_gradients, c->out.stats_gradients,
         model_stats_floats(whole->model)},
        {"scores", whole->out.scores, c->out.scores, (size_t)EXAMPLES * whole->plan.tasks}};
    for (size_t i = 0; i < sizeof array / sizeof *array; i++) {
        double off = apart(array[i].a, array[i].b, array[i].count);
        double *most = &worst[c->job.model.norm == NORM_BATCH];
        *most = fmax(*most, off);
        ck_assert_msg(off <= tolerance(c->job.model.norm), "%s: %s are %.3g apart", what,
                      array[i].name, off);
    }
    ck_assert_double_eq_tol(whole->out.loss_sum, c->out.loss_sum, 1e-6 * whole->out.loss_sum);
    ck_assert_double_eq_tol(whole->out.dense_norm, c->out.dense_norm, 1e-6 * whole->out.dense_norm);
}

/* Trains and predicts with both; the second step of training finds the memory as the first left
 * it. Returns false where the job is refused. */
static bool together(enum model_kind kind, enum norm_kind norm, struct sites s, double dropout)
{
    struct dense_case whole, c;
    char what[128];
    static struct plan p;
    struct err e = {0};
    case_job(&whole, kind, norm);
    case_job(&c, kind, norm);
    whole.job.model.dropout = c.job.model.dropout = dropout;
    sites_set(&c.job, s);
    snprintf(what, sizeof what, "%s, norm %d, %u stages, split %u, %u micro-batches",
             job_model_name(kind), (int)norm, s.stages, s.split, s.micro_batches);
    if (models_plan(&c.job, &c.shape, &p, &e) != 0) {
        ck_assert_msg(e.code == SHOAL_E_CONFIG && strstr(e.text, "model.") != NULL, "%s: %s", what,
                      e.text);
        return false;
    }
    ck_assert_uint_eq(p.sites, s.stages * s.split);
    dense_case_batch(&whole, EXAMPLES, ROWS, true);
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    for (uint32_t batch = 16; batch <= 32; batch += 16) {
        dense_case_train(&whole, batch);
        dense_case_train(&c, batch);
        compare(&whole, &c, what);
    }
    ck_assert_int_eq(model_predict(whole.model, whole.run, &whole.in, &whole.out), 0);
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    double off = apart(whole.out.scores, c.out.scores, (size_t)EXAMPLES * whole.plan.tasks);
    ck_assert_msg(off <= tolerance(norm), "%s: predictions are %.3g apart", what, off);
    dense_case_free(&whole);
    dense_case_free(&c);
    return true;
}

static const enum model_kind deep[] = {
    MODEL_WIDE_DEEP, MODEL_DEEPFM,   MODEL_IPNN, MODEL_DCNV2, MODEL_DLRM, MODEL_XDEEPFM,
    MODEL_AUTOINT,   MODEL_FINALMLP, MODEL_DIN,  MODEL_MMOE,  MODEL_PLE};
#define DEEP ((int)(sizeof deep / sizeof *deep))

START_TEST(split_model_has_the_gradients_of_the_whole)
{
    static const enum norm_kind norm[] = {NORM_NONE, NORM_LAYER, NORM_BATCH};
    for (size_t n = 0; n < sizeof norm / sizeof *norm; n++) {
        ck_assert(together(deep[_i], norm[n], (struct sites){1, 2, 1}, 0.0));
        ck_assert(together(deep[_i], norm[n], (struct sites){1, 4, 3}, 0.0));
    }
    worst_print(deep[_i], "split in 2 and 4");
}
END_TEST

/* Stages keep the masks of dropout, too. */
START_TEST(staged_model_has_the_gradients_of_the_whole)
{
    static const enum norm_kind norm[] = {NORM_NONE, NORM_LAYER, NORM_BATCH};
    for (size_t n = 0; n < sizeof norm / sizeof *norm; n++) {
        ck_assert(together(deep[_i], norm[n], (struct sites){2, 1, 1}, 0.2));
        ck_assert(together(deep[_i], norm[n], (struct sites){2, 1, 4}, 0.2));
        (void)together(deep[_i], norm[n], (struct sites){4, 1, 5}, 0.2);
    }
    worst_print(deep[_i], "2 stages and, where they fill them, 4");
}
END_TEST

START_TEST(stages_that_are_split_have_the_gradients_of_the_whole)
{
    ck_assert(together(deep[_i], NORM_NONE, (struct sites){2, 2, 1}, 0.0));
    ck_assert(together(deep[_i], NORM_NONE, (struct sites){2, 4, 3}, 0.0));
}
END_TEST

/* A tensor of which two wide layers read: the one before all of its columns are written. */
static void late_plan(struct plan *p)
{
    struct view x = plan_input(p, true, 0), t = plan_tensor(p, 16);
    struct view first = plan_columns(t, 0, 8), last = plan_columns(t, 8, 8);
    plan_linear(p, x, 8, ACT_TANH, 0.0, NORM_NONE, first);
    plan_head(p, plan_linear(p, first, 24, ACT_TANH, 0.0, NORM_NONE, VIEW_NONE), 0);
    plan_linear(p, x, 8, ACT_TANH, 0.0, NORM_NONE, last);
    plan_head(p, plan_linear(p, t, 24, ACT_TANH, 0.0, NORM_NONE, VIEW_NONE), 0);
}

START_TEST(tensor_that_is_written_again_is_copied_again)
{
    static const struct plan_kind kind = {
        .name = "late", .build = late_plan, .vectors = true, .network = true};
    struct dense_case whole, c;
    case_job(&whole, MODEL_WIDE_DEEP, NORM_NONE);
    case_job(&c, MODEL_WIDE_DEEP, NORM_NONE);
    whole.kind = c.kind = &kind;
    sites_set(&c.job, (struct sites){1, 2, 1});
    dense_case_batch(&whole, EXAMPLES, ROWS, true);
    dense_case_batch(&c, EXAMPLES, ROWS, true);
    dense_case_train(&whole, 16);
    dense_case_train(&c, 16);
    compare(&whole, &c, "late");
    dense_case_free(&whole);
    dense_case_free(&c);
}
END_TEST

/* ---- tables ---------------------------------------------------------------------------------- */

START_TEST(sites_leave_the_tables_as_they_are)
{
    static struct table_schema one[MODEL_TABLES_MAX], other[MODEL_TABLES_MAX];
    struct dense_case whole, c;
    uint32_t tables, again;
    case_job(&whole, deep[_i], NORM_BATCH);
    case_job(&c, deep[_i], NORM_BATCH);
    sites_set(&c.job, (struct sites){2, 2, 4});
    ck_assert_int_eq(model_schemas(&whole.job, &whole.shape, one, &tables, NULL), 0);
    ck_assert_int_eq(model_schemas(&c.job, &c.shape, other, &again, NULL), 0);
    ck_assert_uint_eq(tables, again);
    ck_assert_int_eq(memcmp(one, other, sizeof one), 0);
}
END_TEST

/* ---- plans ----------------------------------------------------------------------------------- */

static const char *refused(struct dense_case *c, struct err *e)
{
    static struct plan p;
    memset(e, 0, sizeof *e);
    ck_assert_int_eq(models_plan(&c->job, &c->shape, &p, e), SHOAL_E_CONFIG);
    return e->text;
}

START_TEST(what_cannot_be_dealt_is_refused)
{
    struct dense_case c;
    struct err e;
    case_job(&c, MODEL_DEEPFM, NORM_NONE);
    sites_set(&c.job, (struct sites){4, 8, 1});
    ck_assert_ptr_nonnull(strstr(refused(&c, &e), "more than 16 devices"));
    sites_set(&c.job, (struct sites){16, 1, 1});
    ck_assert_ptr_nonnull(strstr(refused(&c, &e), "model.stages is 16, but"));
    sites_set(&c.job, (struct sites){1, 2, 1});
    c.job.model.split_above = 22;
    ck_assert_ptr_nonnull(
        strstr(refused(&c, &e), "more than 22 outputs (model.split_above), the widest has 22"));
    case_job(&c, MODEL_FM, NORM_NONE);
    sites_set(&c.job, (struct sites){1, 2, 1});
    ck_assert_ptr_nonnull(strstr(refused(&c, &e), "no linear layer"));
    case_job(&c, MODEL_PLE, NORM_NONE);
    c.job.model.top_k = 1;
    sites_set(&c.job, (struct sites){1, 2, 1});
    ck_assert_ptr_nonnull(strstr(refused(&c, &e), "model.top_k is 1"));
}
END_TEST

/* (22, 17, 14): the first by columns, the second by rows, the third by columns, in two parts. */
START_TEST(wide_layers_are_cut_by_columns_and_the_next_by_rows)
{
    static struct plan p;
    struct dense_case c;
    size_t floats[2] = {0, 0};
    case_job(&c, MODEL_WIDE_DEEP, NORM_NONE);
    sites_set(&c.job, (struct sites){1, 2, 1});
    ck_assert_int_eq(models_plan(&c.job, &c.shape, &p, NULL), 0);
    uint32_t in = p.column[c.shape.fields] + c.shape.numerics, cut = 0;
    for (uint32_t i = 0; i < p.layer_count; i++)
        cut += p.layer[i].ops == &layer_fc;
    ck_assert_uint_eq(cut, 6);
    for (uint32_t i = 0; i < p.pieces.count; i++)
        floats[p.pieces.piece[i].site] += p.pieces.piece[i].rows * p.pieces.piece[i].width;
    /* site 1: 22 - 8 outputs of the first, as many columns of the second, 14 - 4 of the third */
    ck_assert_uint_eq(floats[1], 14 * (in + 1) + 14 * 17 + 10 * (17 + 1));
    size_t all = 0;
    for (uint32_t t = 0; t < p.dense.tensor_count; t++)
        all += p.dense.tensor[t].count;
    ck_assert_uint_eq(floats[0] + floats[1], all);
}
END_TEST

/* No layer reads or writes a tensor of another site, and before the tail no site waits for a later
 * stage. */
START_TEST(layers_stay_at_their_sites)
{
    static struct plan p;
    struct dense_case c;
    case_job(&c, deep[_i], NORM_LAYER);
    sites_set(&c.job, (struct sites){2, 2, 4});
    ck_assert_int_eq(models_plan(&c.job, &c.shape, &p, NULL), 0);
    for (uint32_t i = 0; i < p.layer_count; i++) {
        const struct layer *l = &p.layer[i];
        bool moves = l->ops == &layer_move;
        if (l->x.tensor != TENSOR_NONE && !moves)
            ck_assert_uint_eq(p.tensor[l->x.tensor].site, l->site);
        if (moves && i < p.tail)
            ck_assert_uint_le(l->number_of[MOVE_FROM] / 2, l->site / 2);
        if (l->y.tensor != TENSOR_NONE)
            ck_assert_uint_eq(p.tensor[l->y.tensor].site, l->site);
        if (l->z.tensor != TENSOR_NONE)
            ck_assert_uint_eq(p.tensor[l->z.tensor].site, l->site);
        for (uint32_t s = 0; s < LAYER_STATES && !moves; s++)
            if (l->state[s] != TENSOR_NONE)
                ck_assert_uint_eq(p.tensor[l->state[s]].site, l->site);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("sites");
    TCase *t = tcase_create("sites");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, split_model_has_the_gradients_of_the_whole, 0, DEEP);
    tcase_add_loop_test(t, staged_model_has_the_gradients_of_the_whole, 0, DEEP);
    tcase_add_loop_test(t, stages_that_are_split_have_the_gradients_of_the_whole, 0, DEEP);
    tcase_add_test(t, tensor_that_is_written_again_is_copied_again);
    tcase_add_loop_test(t, sites_leave_the_tables_as_they_are, 0, DEEP);
    tcase_add_test(t, what_cannot_be_dealt_is_refused);
    tcase_add_test(t, wide_layers_are_cut_by_columns_and_the_next_by_rows);
    tcase_add_loop_test(t, layers_stay_at_their_sites, 0, DEEP);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
