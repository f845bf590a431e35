/* test_pool.c: rows -> input and gradients -> rows, against plain loops: sums and means, empty
 * fields, repeated keys, rows with and without a first-order weight, fields that another layer
 * pools. */
#include "tests/lib/dense_check.h"

#include <string.h>

enum {
    N = 13,
    FIELDS = 4,
    NUMERICS = 3,
    ROWS = 20,
    DIM_MAX = 40,
    TASKS = 2,
    WIDTH_MAX = DIM_MAX + 1,
    SPARE = 5
};

struct fixture {
    uint32_t dim, first_order, values, index[N * FIELDS * 4], offset[N * FIELDS + 1];
    bool many, factored;
    float factor[N * FIELDS * 4];
    uint8_t pooling[FIELDS];
    float rows[ROWS * WIDTH_MAX], numeric[N * NUMERICS], gradients[ROWS * WIDTH_MAX];
    float dx[N * FIELDS * DIM_MAX], dlogit[N * TASKS];
    float x[N * (FIELDS * DIM_MAX + NUMERICS + SPARE)], logit[N * TASKS]; /* before and after */
};

static uint32_t row_width(const struct fixture *f)
{
    return f->first_order + f->dim;
}

/* The input has columns beside the pool's. */
static uint32_t input_width(const struct fixture *f)
{
    return FIELDS * f->dim + NUMERICS + SPARE;
}

static void fixture_make(struct fixture *f, uint32_t dim, uint32_t first_order, bool many,
                         bool factored)
{
    struct rng r = rng_of(4, dim, many);
    memset(f, 0, sizeof *f);
    f->dim = dim;
    f->first_order = first_order;
    f->many = many;
    f->factored = factored;
    f->pooling[1] = POOL_MEAN;
    f->pooling[3] = many ? POOL_ATTENTION : POOL_SUM;
    for (uint32_t s = 0; s < N * FIELDS; s++) {
        f->offset[s] = f->values;
        for (uint64_t left = many ? rng_below(&r, 5) : 1; left > 0; left--)
            f->index[f->values++] = (uint32_t)rng_below(&r, ROWS);
    }
    f->offset[N * FIELDS] = f->values;
    dense_fill(&r, f->rows, ROWS * WIDTH_MAX);
    dense_fill(&r, f->gradients, ROWS * WIDTH_MAX);
    dense_fill(&r, f->numeric, N * NUMERICS);
    dense_fill(&r, f->dx, N * FIELDS * DIM_MAX);
    dense_fill(&r, f->dlogit, N * TASKS);
    dense_fill(&r, f->x, N * input_width(f));
    dense_fill(&r, f->logit, N * TASKS);
    dense_fill(&r, f->factor, N * FIELDS * 4);
    for (uint32_t v = 0; v < f->values; v += 3)
        f->factor[v] = 0;
}

static void expect(const struct fixture *f, double *x, double *logit, double *gradients)
{
    uint32_t dim = f->dim, width = row_width(f), in = input_width(f);
    for (uint32_t i = 0; i < ROWS * width; i++)
        gradients[i] = (double)f->gradients[i];
    for (uint32_t i = 0; i < N * TASKS; i++)
        logit[i] = (double)f->logit[i];
    for (uint32_t i = 0; i < N * in; i++)
        x[i] = (double)f->x[i];
    for (uint32_t s = 0; s < N * FIELDS; s++) {
        uint32_t i = s / FIELDS, field = s % FIELDS, count = f->offset[s + 1] - f->offset[s];
        double share = f->pooling[field] != POOL_SUM && count > 0 ? 1.0 / count : 1.0;
        bool vectors = f->pooling[field] != POOL_ATTENTION; /* otherwise x is unchanged */
        for (uint32_t d = 0; vectors && d < dim; d++)
            x[i * in + field * dim + d] = 0;
        for (uint32_t v = f->offset[s]; v < f->offset[s + 1]; v++) {
            const float *row = f->rows + f->index[v] * width;
            double *gradient = gradients + f->index[v] * width;
            if (f->factored)
                share = (double)f->factor[v];
            logit[i * TASKS] += f->first_order ? share * (double)row[0] : 0;
            gradient[0] += f->first_order ? share * (double)f->dlogit[i * TASKS] : 0;
            for (uint32_t d = 0; vectors && d < dim; d++) {
                x[i * in + field * dim + d] += share * (double)row[f->first_order + d];
                gradient[f->first_order + d] += share * (double)f->dx[s * dim + d];
            }
        }
    }
    for (uint32_t i = 0; i < N && dim > 0; i++)
        for (uint32_t n = 0; n < NUMERICS; n++)
            x[i * in + FIELDS * dim + n] = (double)f->numeric[i * NUMERICS + n];
}

/* In ranges, if the backend works in ranges. */
static void fixture_run(struct fixture *f)
{
    struct dense_device d;
    dense_device_open(&d);
    struct fixture *t = dense_up(&d, f, sizeof *f);
    uint32_t in = input_width(f), step = d.k->range == 0 ? N : 5;
    struct pool_args a = {.examples = N,
                          .values = f->values,
                          .row_count = ROWS,
                          .fields = FIELDS,
                          .dim = f->dim,
                          .numerics = f->dim > 0 ? NUMERICS : 0,
                          .first_order = f->first_order,
                          .tasks = TASKS,
                          .pooling = t->pooling,
                          .index = t->index,
                          .offset = f->many ? t->offset : NULL,
                          .factor = f->factored ? t->factor : NULL,
                          .rows = t->rows,
                          .numeric = t->numeric,
                          .count = N};
    d.k->pool_begin(d.s, &a, true);
    for (; a.first < N; a.first += step) {
        a.count = N - a.first < step ? N - a.first : step;
        d.k->pool_forward(d.s, &a, f->dim > 0 ? t->x + a.first * in : NULL, in,
                          t->logit + a.first * TASKS);
        d.k->pool_backward(d.s, &a, f->dim > 0 ? t->dx + a.first * FIELDS * f->dim : NULL,
                           FIELDS * f->dim, t->dlogit + a.first * TASKS, t->gradients);
    }
    dense_down(&d, t, f, sizeof *f);
    dense_device_close(&d);
}

static const uint32_t dims[] = {0, 1, 8, 10, 16, 32, 40};

static void check_with(uint32_t dim, uint32_t first_order, bool many, bool factored)
{
    static struct fixture f;
    static double x[N * (FIELDS * DIM_MAX + NUMERICS + SPARE)], logit[N * TASKS],
        gradients[ROWS * WIDTH_MAX];
    fixture_make(&f, dim, first_order, many, factored);
    expect(&f, x, logit, gradients);
    fixture_run(&f);
    ck_assert_double_lt(dense_check_worst(f.x, x, N * input_width(&f)), 1e-6);
    ck_assert_double_lt(dense_check_worst(f.logit, logit, N * TASKS), 2e-6);
    ck_assert_double_lt(dense_check_worst(f.gradients, gradients, ROWS * row_width(&f)), 4e-6);
}

static void check(uint32_t dim, uint32_t first_order, bool many)
{
    check_with(dim, first_order, many, false);
}

START_TEST(pool_of_one_value_a_field_is_a_copy)
{
    check(dims[_i], 1, false);
    if (dims[_i] > 0)
        check(dims[_i], 0, false);
}
END_TEST

START_TEST(pool_sums_or_averages_many_values)
{
    check(dims[_i], 1, true);
    if (dims[_i] > 0)
        check(dims[_i], 0, true);
}
END_TEST

START_TEST(pool_multiplies_rows_and_gradients_by_factors)
{
    for (int many = 0; many < 2; many++) {
        check_with(dims[_i], 1, many, true);
        if (dims[_i] > 0)
            check_with(dims[_i], 0, many, true);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_loop_test(t, pool_of_one_value_a_field_is_a_copy, 0, 7);
    tcase_add_loop_test(t, pool_sums_or_averages_many_values, 0, 7);
    tcase_add_loop_test(t, pool_multiplies_rows_and_gradients_by_factors, 0, 7);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
