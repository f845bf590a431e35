/* test_products.c: inner products of all pairs against the formula, gradients against finite
 * differences, the same bits at every vector width. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include <string.h>

enum { N = 5, GAP = 3, X_MAX = 27 * 20 + GAP, Y_MAX = 27 * 26 / 2 + 20 + GAP, WORK_MAX = 32 * 40 };

static const struct {
    uint32_t vectors, dim;
    bool keep, add;
} shapes[] = {
    {2, 1, false, false},  {2, 3, true, false},   {3, 10, false, true},   {4, 16, true, true},
    {5, 40, false, false}, {8, 17, true, true},   {17, 16, false, false}, {18, 4, true, false},
    {27, 16, true, true},  {27, 20, false, true},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* The arrays of one call on the host; rows have a gap behind them. */
struct products {
    uint32_t vectors, dim, ldx, ldy, pairs;
    bool keep, add;
    float x[N * X_MAX], y[N * Y_MAX], dy[N * Y_MAX], dx[N * X_MAX];
};

static void products_draw(struct products *p, int shape)
{
    struct rng r = rng_of(21, (uint64_t)shape, 0);
    memset(p, 0, sizeof *p);
    p->vectors = shapes[shape].vectors;
    p->dim = shapes[shape].dim;
    p->keep = shapes[shape].keep;
    p->add = shapes[shape].add;
    p->pairs = p->vectors * (p->vectors - 1) / 2;
    p->ldx = p->vectors * p->dim + GAP;
    p->ldy = plan_products_width(p->vectors, p->dim, p->keep) + GAP;
    dense_fill(&r, p->x, N * p->ldx);
    dense_fill(&r, p->y, N * p->ldy);
    dense_fill(&r, p->dy, N * p->ldy);
    dense_fill(&r, p->dx, N * p->ldx);
}

static struct products_args products_args_of(const struct products *p)
{
    return (struct products_args){.count = N,
                                  .vectors = p->vectors,
                                  .dim = p->dim,
                                  .keep = p->keep,
                                  .ldx = p->ldx,
                                  .ldy = p->ldy,
                                  .lddy = p->ldy,
                                  .lddx = p->ldx,
                                  .add = p->add};
}

/* Runs forward and backward on the backend. */
static void products_run(struct products *p)
{
    struct dense_device d;
    struct products_args a = products_args_of(p);
    dense_device_open(&d);
    a.x = dense_up(&d, p->x, N * p->ldx * sizeof(float));
    a.y = dense_up(&d, p->y, N * p->ldy * sizeof(float));
    a.dy = dense_up(&d, p->dy, N * p->ldy * sizeof(float));
    a.dx = dense_up(&d, p->dx, N * p->ldx * sizeof(float));
    a.work = dense_up(&d, NULL, products_work_floats(p->vectors, p->dim) * sizeof(float));
    d.k->interact.products_forward(d.s, &a);
    d.k->interact.products_backward(d.s, &a);
    dense_down(&d, a.y, p->y, N * p->ldy * sizeof(float));
    dense_down(&d, a.dx, p->dx, N * p->ldx * sizeof(float));
    dense_device_close(&d);
}

/* Computes an example of y by the formula. */
static void formula(const struct products *p, const double *x, double *y)
{
    for (uint32_t d = 0; d < p->dim && p->keep; d++)
        *y++ = x[(p->vectors - 1) * p->dim + d];
    for (uint32_t i = 1; i < p->vectors; i++)
        for (uint32_t j = 0; j < i; j++, y++) {
            *y = 0;
            for (uint32_t d = 0; d < p->dim; d++)
                *y += x[i * p->dim + d] * x[j * p->dim + d];
        }
}

struct example {
    const struct products *p;
    const float *dy;
    double x[X_MAX];
};

static double gradient_sum(void *context)
{
    const struct example *e = context;
    double y[Y_MAX], sum = 0;
    formula(e->p, e->x, y);
    for (uint32_t k = 0; k < e->p->ldy - GAP; k++)
        sum += (double)e->dy[k] * y[k];
    return sum;
}

/* Returns the largest difference of outputs and gradients; the gaps must be unchanged. */
static double products_worst(struct products *p, const struct products *found)
{
    double worst = 0, y[Y_MAX];
    for (uint32_t i = 0; i < N; i++) {
        struct example e = {.p = p, .dy = p->dy + i * p->ldy};
        for (uint32_t k = 0; k < p->ldx; k++)
            e.x[k] = (double)p->x[i * p->ldx + k];
        formula(p, e.x, y);
        worst = fmax(worst, dense_check_worst(found->y + i * p->ldy, y, p->ldy - GAP));
        for (uint32_t k = 0; k < p->ldx - GAP; k++) {
            double was = p->add ? (double)p->dx[i * p->ldx + k] : 0.0;
            double expected = was + dense_check_slope(gradient_sum, &e, &e.x[k]);
            worst = fmax(worst, dense_check_worst(found->dx + i * p->ldx + k, &expected, 1));
        }
        ck_assert_mem_eq(found->y + (i + 1) * p->ldy - GAP, p->y + (i + 1) * p->ldy - GAP,
                         GAP * sizeof(float));
        ck_assert_mem_eq(found->dx + (i + 1) * p->ldx - GAP, p->dx + (i + 1) * p->ldx - GAP,
                         GAP * sizeof(float));
    }
    return worst;
}

START_TEST(products_and_their_gradient_are_the_formula)
{
    static struct products p, found;
    products_draw(&p, _i);
    found = p;
    products_run(&found);
    ck_assert_double_lt(products_worst(&p, &found), 2e-5);
}
END_TEST

START_TEST(products_check_notices_two_pairs_in_each_other_s_place)
{
    static struct products p, found;
    products_draw(&p, 2);
    found = p;
    products_run(&found);
    float first = found.y[0];
    found.y[0] = found.y[1];
    found.y[1] = first;
    ck_assert_double_gt(products_worst(&p, &found), 1e-2);
}
END_TEST

/* The product of a field with itself is no pair: its gradient must not be added, whatever its
 * block. */
START_TEST(products_without_gradient_give_none)
{
    static struct products p;
    products_draw(&p, 8);
    memset(p.dy, 0, sizeof p.dy);
    memset(p.dx, 0, sizeof p.dx);
    products_run(&p);
    for (uint32_t k = 0; k < N * p.ldx; k++)
        ck_assert_float_eq(p.dx[k], 0.0f);
}
END_TEST

static void width_run(const struct backend_ops *k, struct products *p)
{
    static _Alignas(64) float work[WORK_MAX];
    struct products_args a = products_args_of(p);
    a.x = p->x;
    a.y = p->y;
    a.dy = p->dy;
    a.dx = p->dx;
    a.work = work;
    k->interact.products_forward(NULL, &a);
    k->interact.products_backward(NULL, &a);
}

START_TEST(products_have_the_same_bits_at_every_width)
{
    static struct products base, other;
    products_draw(&base, _i);
    width_run(dense_width(0), &base);
    for (int w = 1; w < DENSE_WIDTHS && dense_width(w) != NULL; w++) {
        products_draw(&other, _i);
        width_run(dense_width(w), &other);
        ck_assert_msg(memcmp(&base, &other, sizeof base) == 0, "%s", dense_width_name[w]);
    }
}
END_TEST

START_TEST(products_of_one_vector_are_refused)
{
    struct err e = {0};
    ck_assert_int_eq(plan_products_check(2, &e), 0);
    ck_assert_int_eq(plan_products_check(1, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "the input gives 1 vectors"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("products");
    TCase *t = tcase_create("products");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, products_and_their_gradient_are_the_formula, 0, SHAPES);
    tcase_add_test(t, products_check_notices_two_pairs_in_each_other_s_place);
    tcase_add_test(t, products_without_gradient_give_none);
    tcase_add_loop_test(t, products_have_the_same_bits_at_every_width, 0, SHAPES);
    tcase_add_test(t, products_of_one_vector_are_refused);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
