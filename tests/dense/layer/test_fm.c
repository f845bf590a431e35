/* test_fm.c: pairwise products against the sum over all pairs, gradients against finite
 * differences. */
#include "tests/lib/dense_check.h"

#include <string.h>

enum { N = 5, FIELDS = 4, DIM_MAX = 20, EXTRA = 2, TASKS = 2 };

struct pairs {
    uint32_t dim, in;
    double x[N * (FIELDS * DIM_MAX + EXTRA)];
    double dlogit[N];
};

static double pairs_sum(void *context)
{
    const struct pairs *p = context;
    double sum = 0;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t f = 0; f < FIELDS; f++)
            for (uint32_t g = f + 1; g < FIELDS; g++)
                for (uint32_t k = 0; k < p->dim; k++)
                    sum += p->dlogit[i] * p->x[i * p->in + f * p->dim + k] *
                           p->x[i * p->in + g * p->dim + k];
    return sum;
}

/* Runs both directions; logit (N, TASKS) is the second task's. */
static void pairs_run(const struct pairs *p, bool add, float *logit, float *dx)
{
    struct dense_device d;
    float x[N * (FIELDS * DIM_MAX + EXTRA)], dlogit[N * TASKS] = {0};
    uint32_t width = FIELDS * p->dim;
    for (uint32_t i = 0; i < N * p->in; i++)
        x[i] = (float)p->x[i];
    for (uint32_t i = 0; i < N; i++)
        dlogit[i * TASKS + 1] = (float)p->dlogit[i];
    dense_device_open(&d);
    float *x_there = dense_up(&d, x, N * p->in * sizeof *x),
          *sums = dense_up(&d, NULL, N * p->dim * sizeof *x);
    float *logit_there = dense_up(&d, NULL, N * TASKS * sizeof *x),
          *dlogit_there = dense_up(&d, dlogit, sizeof dlogit);
    float *dx_there = dense_up(&d, dx, N * width * sizeof *dx);
    d.k->fm_forward(d.s, N, FIELDS, p->dim, x_there, p->in, sums, logit_there + 1, TASKS);
    d.k->fm_backward(d.s, N, FIELDS, p->dim, x_there, p->in, sums, dlogit_there + 1, TASKS, add,
                     dx_there, width);
    dense_down(&d, logit_there, logit, N * TASKS * sizeof *logit);
    dense_down(&d, dx_there, dx, N * width * sizeof *dx);
    dense_device_close(&d);
}

START_TEST(fm_is_the_sum_over_pairs_and_its_gradient)
{
    static const uint32_t dims[] = {1, 10, 16, 20};
    for (int add = 0; add < 2; add++) {
        struct pairs p = {.dim = dims[_i], .in = FIELDS * dims[_i] + EXTRA};
        struct rng r = rng_of(9, p.dim, 0);
        uint32_t width = FIELDS * p.dim;
        float logit[N * TASKS], dx[N * FIELDS * DIM_MAX];
        for (uint32_t i = 0; i < N * p.in; i++)
            p.x[i] = (double)(2.0f * rng_float(&r) - 1.0f);
        for (uint32_t i = 0; i < N; i++)
            p.dlogit[i] = (double)(2.0f * rng_float(&r) - 1.0f);
        for (uint32_t i = 0; i < N * width; i++)
            dx[i] = 3.0f;
        pairs_run(&p, add, logit, dx);
        double sum = 0;
        for (uint32_t i = 0; i < N; i++) {
            ck_assert_float_eq(logit[i * TASKS], 0.0f);
            sum += p.dlogit[i] * (double)logit[i * TASKS + 1];
        }
        ck_assert_double_eq_tol(sum, pairs_sum(&p), 1e-5);
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t k = 0; k < width; k++) {
                double slope =
                    dense_check_slope(pairs_sum, &p, &p.x[i * p.in + k]) + (add ? 3.0 : 0.0);
                ck_assert_double_eq_tol((double)dx[i * width + k], slope, 1e-5);
            }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fm");
    TCase *t = tcase_create("fm");
    tcase_add_loop_test(t, fm_is_the_sum_over_pairs_and_its_gradient, 0, 4);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
