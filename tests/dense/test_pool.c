/* test_pool.c: rows -> input and gradients -> rows, against plain loops; sums and means, empty fields, repeated keys.
 */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/pool.h"

#include <string.h>

enum { N = 13, FIELDS = 4, NUMERICS = 3, ROWS = 20, DIM_MAX = 40 };

struct fixture {
    struct dense_pass d;
    struct layer layer;
    uint32_t dim, index[N * FIELDS * 4], offset[N * FIELDS + 1];
    float rows[ROWS * (DIM_MAX + 1)], numeric[N * NUMERICS], gradients[ROWS * (DIM_MAX + 1)], bias, bias_gradient;
};

static void fixture_make(struct fixture *f, uint32_t dim, bool many)
{
    struct rng r = rng_of(4, dim, many);
    memset(f, 0, sizeof *f);
    dense_pass_init(&f->d, N);
    f->dim = f->d.pass.dim = dim;
    f->d.shape = (struct model_shape){.fields = FIELDS, .numerics = NUMERICS, .pooling = {[1] = POOL_MEAN}};
    f->layer = (struct layer){.out = FIELDS * dim + NUMERICS, .y = TENSOR_NONE, .dy = TENSOR_NONE};
    if (dim > 0) {
        f->layer.y = dense_pass_tensor(&f->d, f->layer.out, false);
        f->layer.dy = dense_pass_tensor(&f->d, FIELDS * dim, false);
        dense_fill(&r, f->d.data[f->layer.dy], N * FIELDS * dim);
    }
    dense_fill(&r, f->d.data[TENSOR_LOGIT_GRADIENT], N);
    dense_fill(&r, f->rows, ROWS * (dim + 1));
    dense_fill(&r, f->gradients, ROWS * (dim + 1));
    dense_fill(&r, f->numeric, N * NUMERICS);
    uint32_t values = 0;
    for (uint32_t s = 0; s < N * FIELDS; s++) {
        f->offset[s] = values;
        for (uint64_t left = many ? rng_below(&r, 5) : 1; left > 0; left--)
            f->index[values++] = (uint32_t)rng_below(&r, ROWS);
    }
    f->offset[N * FIELDS] = values;
    f->bias = 0.25f;
    f->d.in.index = f->index;
    f->d.in.offset = many ? f->offset : NULL;
    f->d.in.rows = f->rows;
    f->d.in.numeric = f->numeric;
    f->d.in.dense = &f->bias;
    f->d.out.row_gradients = f->gradients;
    f->d.out.dense_gradients = &f->bias_gradient;
}

static void expect(const struct fixture *f, double *x, double *logit, double *gradients)
{
    const float *dlogit = f->d.data[TENSOR_LOGIT_GRADIENT];
    uint32_t dim = f->dim;
    for (uint32_t i = 0; i < ROWS * (dim + 1); i++)
        gradients[i] = (double)f->gradients[i];
    for (uint32_t i = 0; i < N; i++) {
        logit[i] = 0.25;
        for (uint32_t s = i * FIELDS; s < (i + 1) * FIELDS; s++) {
            uint32_t count = f->offset[s + 1] - f->offset[s];
            double share = s % FIELDS == 1 && count > 0 ? 1.0 / count : 1.0;
            for (uint32_t v = f->offset[s]; v < f->offset[s + 1]; v++) {
                const float *row = f->rows + f->index[v] * (dim + 1);
                double *gradient = gradients + f->index[v] * (dim + 1);
                logit[i] += share * (double)row[0];
                gradient[0] += share * (double)dlogit[i];
                for (uint32_t d = 0; d < dim; d++) {
                    x[i * f->layer.out + s % FIELDS * dim + d] += share * (double)row[1 + d];
                    gradient[1 + d] += share * (double)f->d.data[f->layer.dy][s * dim + d];
                }
            }
        }
        for (uint32_t n = 0; n < NUMERICS; n++)
            x[i * f->layer.out + FIELDS * dim + n] = (double)f->numeric[i * NUMERICS + n];
    }
}

static const uint32_t dims[] = {0, 1, 8, 10, 16, 32, 40};

static void check(uint32_t dim, bool many)
{
    static struct fixture f;
    static double x[N * (FIELDS * DIM_MAX + NUMERICS)], logit[N], gradients[ROWS * (DIM_MAX + 1)];
    fixture_make(&f, dim, many);
    memset(x, 0, sizeof x);
    expect(&f, x, logit, gradients);
    double bias_gradient = 0;
    for (uint32_t i = 0; i < N; i++)
        bias_gradient += (double)f.d.data[TENSOR_LOGIT_GRADIENT][i];
    if (dim > 0)
        memset(f.d.data[f.layer.y], 0xff, N * f.layer.out * sizeof(float)); /* an empty field is written too */
    for (uint32_t first = 0; first < N; first += 5) {
        uint32_t count = N - first < 5 ? N - first : 5;
        pool_layer.forward(&f.layer, &f.d.pass, first, count);
        pool_layer.backward(&f.layer, &f.d.pass, first, count);
    }
    if (dim > 0)
        ck_assert_double_lt(dense_check_worst(f.d.data[f.layer.y], x, N * f.layer.out), 1e-6);
    ck_assert_double_lt(dense_check_worst(f.d.data[TENSOR_LOGIT], logit, N), 2e-6);
    ck_assert_double_lt(dense_check_worst(f.gradients, gradients, ROWS * (dim + 1)), 4e-6);
    ck_assert_double_eq_tol((double)f.bias_gradient, bias_gradient, 1e-6);
    dense_pass_free(&f.d);
}

START_TEST(pool_of_one_value_a_field_is_a_copy)
{
    check(dims[_i], false);
}
END_TEST

START_TEST(pool_sums_or_averages_many_values)
{
    check(dims[_i], true);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_loop_test(t, pool_of_one_value_a_field_is_a_copy, 0, 7);
    tcase_add_loop_test(t, pool_sums_or_averages_many_values, 0, 7);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
