/* test_fm.c: pairwise products against the sum over all pairs, gradients against finite differences. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/fm.h"

enum { N = 5, FIELDS = 4, DIM_MAX = 20, NUMERICS = 2 };

struct pairs {
    uint32_t dim, in;
    double x[N * (FIELDS * DIM_MAX + NUMERICS)];
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
                    sum += p->dlogit[i] * p->x[i * p->in + f * p->dim + k] * p->x[i * p->in + g * p->dim + k];
    return sum;
}

START_TEST(fm_is_the_sum_over_pairs_and_its_gradient)
{
    static const uint32_t dims[] = {1, 10, 16, 20};
    for (int add = 0; add < 2; add++) {
        struct dense_pass d;
        struct pairs p = {.dim = dims[_i], .in = FIELDS * dims[_i] + NUMERICS};
        struct rng r = rng_of(9, p.dim, 0);
        dense_pass_init(&d, N);
        d.shape.fields = FIELDS;
        d.pass.dim = p.dim;
        struct layer l = {.in = p.in, .dx_width = FIELDS * p.dim, .add = add};
        l.x = dense_pass_tensor(&d, p.in, false);
        l.dx = dense_pass_tensor(&d, l.dx_width, false);
        l.state = dense_pass_tensor(&d, p.dim, false);
        dense_fill(&r, d.data[l.x], N * p.in);
        dense_fill(&r, d.data[TENSOR_LOGIT_GRADIENT], N);
        for (uint32_t i = 0; i < N * l.dx_width; i++)
            d.data[l.dx][i] = 3.0f;
        for (uint32_t i = 0; i < N * p.in; i++)
            p.x[i] = (double)d.data[l.x][i];
        for (uint32_t i = 0; i < N; i++)
            p.dlogit[i] = (double)d.data[TENSOR_LOGIT_GRADIENT][i];

        fm_layer.forward(&l, &d.pass, 0, N);
        fm_layer.backward(&l, &d.pass, 0, N);
        double sum = 0;
        for (uint32_t i = 0; i < N; i++)
            sum += p.dlogit[i] * (double)d.data[TENSOR_LOGIT][i];
        ck_assert_double_eq_tol(sum, pairs_sum(&p), 1e-5);
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t k = 0; k < l.dx_width; k++) {
                double slope = dense_check_slope(pairs_sum, &p, &p.x[i * p.in + k]) + (add ? 3.0 : 0.0);
                ck_assert_double_eq_tol((double)d.data[l.dx][i * l.dx_width + k], slope, 1e-5);
            }
        dense_pass_free(&d);
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
