/* test_norm.c: statistics of batch norm, forward and back, against double; its running
 * statistics. */
#include "dense/layer/plan.h"
#include "dense/model.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <string.h>

enum { N = 150, FIELDS = 5, DIM = 4, WIDTH = FIELDS * DIM, ROWS = 40 };

/* Only the pooled vectors are normed. */
static void norm_only(struct plan *p)
{
    struct view x = plan_input(p, false, 0), y = plan_tensor(p, x.width);
    p->by_batch = true;
    plan_batch_norm(p, x, y);
    plan_head(p, y, 0);
}

struct fixture {
    struct dense_case c;
    float x[N * WIDTH], y[N * WIDTH], state[2 * 2 * WIDTH + 6 * WIDTH];
    double mean[WIDTH], variance[WIDTH]; /* the batch's */
};

static struct view view_of(const struct fixture *f, bool y)
{
    for (uint32_t i = 0; i < f->c.plan.layer_count; i++)
        if (f->c.plan.layer[i].ops == &layer_batch_norm)
            return y ? f->c.plan.layer[i].y : f->c.plan.layer[i].x;
    ck_abort();
}

/* Uses one lane, as a single process would train. */
static void fixture_begin(struct fixture *f)
{
    static const struct plan_kind kind = {
        .name = "norm_only", .build = norm_only, .vectors = true, .network = true};
    memset(f, 0, sizeof *f);
    dense_case_job(&f->c, MODEL_DEEPFM);
    f->c.kind = &kind;
    f->c.range = 70;
    f->c.job.model.norm = NORM_BATCH; /* tensors hold the whole batch */
    f->c.table.dim = DIM;
    f->c.shape.fields = FIELDS;
    f->c.shape.numerics = 0;
    f->c.job.train.lanes = 1;
}

static void fixture_make(struct fixture *f, uint32_t examples, float shift)
{
    fixture_begin(f);
    dense_case_batch(&f->c, examples, ROWS, false);
    for (uint32_t i = 0; i < ROWS * DIM; i++)
        f->c.rows[i] = f->c.rows[i] * (float)(i % DIM + 1) + shift;
}

/* Reads the statistics after a pass over N examples. */
static void fixture_read(struct fixture *f)
{
    dense_case_tensor(&f->c, view_of(f, false).tensor, f->x);
    dense_case_tensor(&f->c, view_of(f, true).tensor, f->y);
    memset(f->mean, 0, sizeof f->mean);
    memset(f->variance, 0, sizeof f->variance);
    for (uint32_t i = 0; i < N * WIDTH; i++)
        f->mean[i % WIDTH] += (double)f->x[i] / N;
    for (uint32_t i = 0; i < N * WIDTH; i++)
        f->variance[i % WIDTH] += pow((double)f->x[i] - f->mean[i % WIDTH], 2) / N;
}

/* Returns a parameter. Tensors: bias, gamma, beta, head; running mean, running variance. */
static double parameter(const struct fixture *f, uint32_t tensor, uint32_t at)
{
    return (double)f->c.dense[f->c.plan.dense.tensor[tensor].first + at];
}

START_TEST(norm_gives_mean_0_and_deviation_1)
{
    struct fixture f;
    /* also far from 0, where plain sums of squares would lose the variance */
    fixture_make(&f, N, _i ? 300.0f : 0.0f);
    dense_case_train(&f.c, 1);
    fixture_read(&f);
    for (uint32_t i = 0; i < N * WIDTH; i++) {
        uint32_t j = i % WIDTH;
        double h = ((double)f.x[i] - f.mean[j]) / sqrt(f.variance[j] + 1e-5);
        ck_assert_double_eq_tol((double)f.y[i], h * parameter(&f, 1, j) + parameter(&f, 2, j),
                                _i ? 2e-4 : 2e-6);
    }
    dense_case_free(&f.c);
}
END_TEST

START_TEST(norm_pushes_a_tenth_of_the_way_to_the_batch)
{
    struct fixture f;
    fixture_make(&f, N, 1.0f);
    dense_case_train(&f.c, 1);
    fixture_read(&f);
    const float *stats = f.c.stats, *push = f.c.out.stats_gradients;
    for (uint32_t j = 0; j < WIDTH; j++) {
        uint32_t v = BLOCK_FLOATS + j;
        double mean = 0.9 * (double)stats[j] + 0.1 * f.mean[j];
        double variance = 0.9 * (double)stats[v] + 0.1 * f.variance[j] * N / (N - 1);
        ck_assert_double_eq_tol((double)(stats[j] - push[j]), mean, 1e-6);
        ck_assert_double_eq_tol((double)(stats[v] - push[v]), variance, 1e-5);
    }
    dense_case_free(&f.c);
}
END_TEST

/* The gradients of gamma, beta and, through the statistics, of the rows. */
START_TEST(norm_gradient_goes_through_the_statistics)
{
    struct fixture f;
    fixture_make(&f, N, 0.5f);
    dense_double_check(&f.c, 4e-6);
    dense_case_free(&f.c);
}
END_TEST

START_TEST(norm_of_one_example_takes_the_running_statistics)
{
    struct fixture f;
    fixture_make(&f, 1, 0.5f);
    dense_double_check(&f.c, 4e-6);
    for (uint32_t i = 0; i < 2 * BLOCK_FLOATS; i++)
        ck_assert_float_eq(f.c.out.stats_gradients[i], 0.0f);
    dense_double_check_predict(&f.c, 4e-6);
    dense_case_free(&f.c);
}
END_TEST

/* Several lanes change it at the same time, and may overshoot. */
START_TEST(norm_survives_a_negative_running_variance)
{
    struct fixture f;
    fixture_make(&f, N, 0.0f);
    f.c.stats[BLOCK_FLOATS] = -1.0f;
    f.c.rows[0] = 0.01f;
    dense_double_check_predict(&f.c, 1e-3); /* finite, though large: 316 is the largest factor */
    dense_case_free(&f.c);
}
END_TEST

/* Many lanes in turn; under bsp all pushes of a clock come from one state. */
static const struct {
    uint32_t mode, lanes, window; /* mode: enum wire_mode */
    double momentum;
} paces[] = {{0, 1, 1, 0.1},       {0, 2, 1, 0.05},      {0, 0, 1, 0.05},
             {0, 8, 1, 0.1 / 8},   {0, 16, 1, 0.1 / 16}, {1, 4, 1, 0.1 / 4},
             {2, 24, 1, 0.1 / 24}, {2, 1, 4, 0.1 / 4},   {1, 2, 8, 0.1 / 16}};

START_TEST(norm_momentum_is_shared_by_the_lanes)
{
    struct job job = {.train = {.mode = paces[_i].mode,
                                .lanes = paces[_i].lanes,
                                .window = paces[_i].window,
                                .prefetch = 5}};
    ck_assert_double_eq_tol(layer_norm_momentum(&job), paces[_i].momentum, 1e-15);
}
END_TEST

/* Trains 200 batches of each lane with the running statistics of the servers; together: all pushes
 * of a clock come from one state. Returns how far the statistics were from the last batch's,
 * relative to the first batch. */
static double settle_apart(struct fixture *f, uint32_t lanes, bool together)
{
    uint32_t delay = lanes, steps = 200 * lanes;
    size_t n = model_stats_floats(f->c.model), bytes = n * sizeof(float);
    float *now = malloc(bytes), *pulled = malloc(bytes * delay);
    double first = 0, last = 0;
    memcpy(now, f->c.stats, bytes);
    for (uint32_t i = 0; i < delay; i++)
        memcpy(pulled + i * n, now, bytes);
    for (uint32_t s = 0; s < steps; s++) {
        float *mine = pulled + s % delay * n;
        memcpy(f->c.stats, mine, bytes);
        dense_case_train(&f->c, s);
        last = 0;
        for (size_t i = 0; i < n; i++) {
            last = fmax(last, fabs((double)f->c.out.stats_gradients[i]));
            now[i] -= f->c.out.stats_gradients[i];
        }
        first = s == 0 ? last : first;
        if (!together)
            memcpy(mine, now, bytes);
        for (uint32_t i = 0; together && s % lanes == lanes - 1 && i < delay; i++)
            memcpy(pulled + i * n, now, bytes);
    }
    free(now);
    free(pulled);
    return last / first;
}

START_TEST(norm_statistics_settle_however_many_lanes)
{
    struct fixture f;
    uint32_t lanes = paces[_i].lanes > 0 ? paces[_i].lanes : 2;
    fixture_begin(&f);
    f.c.job.train.mode = paces[_i].mode;
    f.c.job.train.lanes = paces[_i].lanes;
    dense_case_batch(&f.c, 30, ROWS, false);
    ck_assert_double_lt(settle_apart(&f, lanes, paces[_i].mode == 2), 0.02);
    dense_case_free(&f.c);
}
END_TEST

/* Two norms into columns of one tensor, and one after another: their gradients share the place of
 * the last. */
static void norms_side_by_side(struct plan *p)
{
    p->by_batch = true;
    struct view x = plan_input(p, true, 0), both = plan_tensor(p, 9);
    plan_linear(p, x, 4, ACT_TANH, 0.0, NORM_BATCH, plan_columns(both, 5, 4));
    plan_linear(p, x, 5, ACT_NONE, 0.0, NORM_BATCH, plan_columns(both, 0, 5));
    struct view again = plan_tensor(p, 9), last = plan_tensor(p, 9);
    plan_batch_norm(p, both, again);
    plan_batch_norm(p, again, last);
    plan_head(p, last, 0);
}

START_TEST(norm_into_columns_has_its_gradient_there)
{
    static const struct plan_kind kind = {
        .name = "norms", .build = norms_side_by_side, .vectors = true, .network = true};
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.norm = NORM_BATCH;
    c.kind = &kind;
    c.range = 8;
    dense_case_batch(&c, 21, 9, true);
    dense_double_check(&c, 2e-5);
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("norm");
    TCase *t = tcase_create("norm");
    tcase_add_loop_test(t, norm_gives_mean_0_and_deviation_1, 0, 2);
    tcase_add_test(t, norm_pushes_a_tenth_of_the_way_to_the_batch);
    tcase_add_test(t, norm_gradient_goes_through_the_statistics);
    tcase_add_test(t, norm_of_one_example_takes_the_running_statistics);
    tcase_add_test(t, norm_survives_a_negative_running_variance);
    tcase_add_loop_test(t, norm_momentum_is_shared_by_the_lanes, 0, sizeof paces / sizeof paces[0]);
    tcase_add_loop_test(t, norm_statistics_settle_however_many_lanes, 0,
                        sizeof paces / sizeof paces[0]);
    tcase_add_test(t, norm_into_columns_has_its_gradient_there);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
