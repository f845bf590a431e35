/* test_mix.c: the kernels of gates and mixtures against their formula, gradients against finite
 * differences, and the selection of experts. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include "dense/ops_mix.h"

#include <string.h>

enum { N = 6, FLOATS = N * 600 };

/* The arrays of one call on the host. */
struct mix {
    uint32_t tasks, shared, own, width, top_k;
    float x[FLOATS], gate[FLOATS], share[FLOATS], y[FLOATS], dy[FLOATS], dx[FLOATS], dgate[FLOATS];
};

static uint32_t choices(const struct mix *m)
{
    return m->shared + m->own;
}

static uint32_t experts(const struct mix *m)
{
    return m->shared + m->tasks * m->own;
}

static void mix_draw(struct mix *m, uint32_t tasks, uint32_t shared, uint32_t own, uint32_t width,
                     uint32_t top_k)
{
    struct rng r = rng_of(5, width, tasks);
    *m = (struct mix){.tasks = tasks, .shared = shared, .own = own, .width = width, .top_k = top_k};
    ck_assert_uint_le((size_t)N * experts(m) * width, FLOATS);
    ck_assert_uint_le((size_t)N * tasks * width, FLOATS);
    dense_fill(&r, m->x, N * experts(m) * width);
    dense_fill(&r, m->gate, N * tasks * choices(m));
    dense_fill(&r, m->dy, N * tasks * width);
    dense_fill(&r, m->dx, N * experts(m) * width);
    dense_fill(&r, m->dgate, N * tasks * choices(m));
}

static struct mix_args args_of(const struct mix *m)
{
    return (struct mix_args){.count = N,
                             .tasks = m->tasks,
                             .shared = m->shared,
                             .own = m->own,
                             .width = m->width,
                             .top_k = m->top_k,
                             .ldx = experts(m) * m->width,
                             .ldgate = m->tasks * choices(m),
                             .ldy = m->tasks * m->width,
                             .lddy = m->tasks * m->width,
                             .lddx = experts(m) * m->width,
                             .lddgate = m->tasks * choices(m)};
}

/* Runs forward and backward on the backend. */
static void mix_run(struct mix *m, bool add)
{
    struct dense_device d;
    struct mix_args a = args_of(m);
    float *share, *y, *dx, *dgate;
    dense_device_open(&d);
    a.x = dense_up(&d, m->x, sizeof m->x);
    a.gate = dense_up(&d, m->gate, sizeof m->gate);
    a.dy = dense_up(&d, m->dy, sizeof m->dy);
    a.share = share = dense_up(&d, m->share, sizeof m->share);
    a.y = y = dense_up(&d, m->y, sizeof m->y);
    a.dx = dx = dense_up(&d, m->dx, sizeof m->dx);
    a.dgate = dgate = dense_up(&d, m->dgate, sizeof m->dgate);
    a.add = a.add_gate = add;
    d.k->mix.forward(d.s, &a);
    d.k->mix.backward(d.s, &a);
    dense_down(&d, share, m->share, sizeof m->share);
    dense_down(&d, y, m->y, sizeof m->y);
    dense_down(&d, dx, m->dx, sizeof m->dx);
    dense_down(&d, dgate, m->dgate, sizeof m->dgate);
    dense_device_close(&d);
}

/* ---- the formula ----------------------------------------------------------------------------- */

struct formula {
    const struct mix *m;
    double x[FLOATS], gate[FLOATS], y[FLOATS];
};

static void formula_take(struct formula *f, const struct mix *m)
{
    f->m = m;
    for (size_t i = 0; i < FLOATS; i++) {
        f->x[i] = (double)m->x[i];
        f->gate[i] = (double)m->gate[i];
    }
}

static uint32_t larger(const double *gate, uint32_t count, uint32_t e)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < count; k++)
        n += gate[k] > gate[e];
    return n;
}

/* Returns the sum of dy * y; no two values of a gate are equal. */
static double formula_sum(void *context)
{
    struct formula *f = context;
    const struct mix *m = f->m;
    double all = 0;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t t = 0; t < m->tasks; t++) {
            const double *gate = f->gate + (i * m->tasks + t) * choices(m);
            double sum = 0, *y = f->y + (i * m->tasks + t) * m->width;
            memset(y, 0, m->width * sizeof *y);
            for (uint32_t e = 0; e < choices(m); e++)
                if (m->top_k == 0 || larger(gate, choices(m), e) < m->top_k)
                    sum += exp(gate[e]);
            for (uint32_t e = 0; e < choices(m); e++) {
                uint32_t block = e < m->shared ? e : m->shared + t * m->own + e - m->shared;
                if (m->top_k != 0 && larger(gate, choices(m), e) >= m->top_k)
                    continue;
                for (uint32_t j = 0; j < m->width; j++)
                    y[j] += exp(gate[e]) / sum * f->x[(i * experts(m) + block) * m->width + j];
            }
            for (uint32_t j = 0; j < m->width; j++)
                all += y[j] * (double)m->dy[(i * m->tasks + t) * m->width + j];
        }
    return all;
}

static const struct {
    uint32_t tasks, shared, own, width, top_k;
} shapes[] = {{1, 1, 0, 4, 0}, {2, 4, 0, 16, 0},   {2, 4, 0, 37, 1},  {3, 2, 3, 9, 0},
              {3, 2, 3, 9, 2}, {2, 20, 0, 5, 0},   {2, 20, 0, 5, 3},  {2, 0, 3, 17, 2},
              {8, 1, 1, 2, 1}, {1, 30, 10, 3, 17}, {1, 64, 36, 1, 99}};

START_TEST(mix_is_the_formula_and_its_gradient)
{
    for (int add = 0; add < 2; add++) {
        static struct mix m, before;
        static struct formula f;
        mix_draw(&m, shapes[_i].tasks, shapes[_i].shared, shapes[_i].own, shapes[_i].width,
                 shapes[_i].top_k);
        before = m;
        mix_run(&m, add);
        formula_take(&f, &m);
        formula_sum(&f);
        ck_assert_double_lt(dense_check_worst(m.y, f.y, N * m.tasks * m.width), 1e-6);
        for (uint32_t i = 0; i < N * experts(&m) * m.width; i++)
            ck_assert_double_eq_tol((double)m.dx[i],
                                    dense_check_slope(formula_sum, &f, &f.x[i]) +
                                        (add ? (double)before.dx[i] : 0),
                                    2e-6);
        for (uint32_t i = 0; i < N * m.tasks * choices(&m); i++)
            ck_assert_double_eq_tol((double)m.dgate[i],
                                    dense_check_slope(formula_sum, &f, &f.gate[i]) +
                                        (add ? (double)before.dgate[i] : 0),
                                    2e-6);
    }
}
END_TEST

/* ---- the selection of experts ---------------------------------------------------------------- */

START_TEST(mix_takes_the_first_of_equal_gates)
{
    static struct mix m;
    mix_draw(&m, 2, 3, 2, 4, 2);
    for (uint32_t i = 0; i < N * m.tasks * choices(&m); i++)
        /* the first value of each gate is smallest, the others are equal */
        m.gate[i] = i % 5 == 0 ? -1.0f : 0.25f;
    mix_run(&m, false);
    for (uint32_t i = 0; i < N * m.tasks * choices(&m); i++)
        ck_assert_float_eq(m.share[i], i % 5 == 1 || i % 5 == 2 ? 0.5f : 0.0f);
}
END_TEST

/* Returns a block of dx, and the output that it is the gradient of. */
static const float *block_of(const struct mix *m, const float *x, uint32_t i, uint32_t t,
                             uint32_t e)
{
    return x + ((size_t)i * experts(m) + (e < m->shared ? e : e + t * m->own)) * m->width;
}

START_TEST(mix_of_one_is_its_output)
{
    static struct mix m;
    mix_draw(&m, 2, 3, 2, 19, 1);
    mix_run(&m, false);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t t = 0; t < m.tasks; t++) {
            const float *share = m.share + (i * m.tasks + t) * choices(&m),
                        *gate = m.gate + (i * m.tasks + t) * choices(&m);
            uint32_t most = 0;
            for (uint32_t e = 0; e < choices(&m); e++) {
                most = gate[e] > gate[most] ? e : most;
                ck_assert_float_eq(m.dgate[(i * m.tasks + t) * choices(&m) + e], 0.0f);
            }
            ck_assert_float_eq(share[most], 1.0f);
            ck_assert_mem_eq(m.y + (i * m.tasks + t) * m.width, block_of(&m, m.x, i, t, most),
                             m.width * sizeof(float));
        }
}
END_TEST

START_TEST(mix_of_all_is_mix_without_top_k)
{
    static struct mix all, none;
    mix_draw(&none, 3, 4, 3, 21, 0);
    all = none;
    all.top_k = choices(&all);
    mix_run(&all, true);
    mix_run(&none, true);
    all.top_k = 0;
    ck_assert_mem_eq(&all, &none, sizeof all);
    all.top_k = 1; /* the comparison must find a difference */
    mix_run(&all, true);
    ck_assert_mem_ne(all.y, none.y, sizeof all.y);
}
END_TEST

START_TEST(mix_leaves_alone_what_did_not_pass)
{
    static struct mix m, before;
    mix_draw(&m, 2, 3, 2, 19, 2);
    before = m;
    mix_run(&m, true);
    uint32_t left = 0;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t e = 0; e < experts(&m); e++) {
            bool passed = false;
            for (uint32_t t = 0; t < m.tasks; t++)
                for (uint32_t c = 0; c < choices(&m); c++)
                    passed = passed ||
                             (block_of(&m, m.x, i, t, c) == m.x + (i * experts(&m) + e) * m.width &&
                              m.share[(i * m.tasks + t) * choices(&m) + c] != 0.0f);
            size_t at = (i * experts(&m) + e) * m.width;
            ck_assert_int_eq(memcmp(m.dx + at, before.dx + at, m.width * sizeof(float)) == 0,
                             !passed);
            left += !passed;
            for (uint32_t j = 0; j < m.width && !passed; j++)
                before.x[at + j] = NAN; /* nor is it read */
        }
    ck_assert_uint_gt(left, 0);
    mix_run(&before, true);
    ck_assert_mem_eq(before.y, m.y, sizeof m.y);
    ck_assert_mem_eq(before.dgate, m.dgate, sizeof m.dgate);
}
END_TEST

START_TEST(mix_shows_a_gate_that_is_not_a_number)
{
    static struct mix m;
    mix_draw(&m, 2, 4, 0, 5, _i == 0 ? 0 : 2);
    m.gate[2] = NAN;
    mix_run(&m, false);
    ck_assert(isnan(m.y[0]));
    ck_assert(isfinite(m.y[m.width]));
}
END_TEST

/* ---- bits ------------------------------------------------------------------------------------ */

START_TEST(mix_gives_the_same_bits_each_time)
{
    static struct mix one, two;
    mix_draw(&one, 3, 4, 2, 23, 3);
    two = one;
    mix_run(&one, true);
    mix_run(&two, true);
    ck_assert_mem_eq(&one, &two, sizeof one);
}
END_TEST

START_TEST(mix_gives_the_same_bits_at_every_width)
{
    static struct mix of[DENSE_WIDTHS];
    for (int width = 0; width < DENSE_WIDTHS; width++) {
        const struct backend_ops *k = dense_width(width);
        struct mix *m = &of[width];
        if (k == NULL)
            continue;
        mix_draw(m, 3, 17, 2, 23, _i == 0 ? 0 : 5);
        struct mix_args a = args_of(m);
        a.x = m->x;
        a.gate = m->gate;
        a.share = m->share;
        a.y = m->y;
        a.dy = m->dy;
        a.dx = m->dx;
        a.dgate = m->dgate;
        k->mix.forward(NULL, &a);
        k->mix.backward(NULL, &a);
        ck_assert_msg(memcmp(m, &of[0], sizeof *m) == 0, "%s", dense_width_name[width]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("mix");
    TCase *t = tcase_create("mix");
    tcase_add_loop_test(t, mix_is_the_formula_and_its_gradient, 0,
                        sizeof shapes / sizeof shapes[0]);
    tcase_add_test(t, mix_takes_the_first_of_equal_gates);
    tcase_add_test(t, mix_of_one_is_its_output);
    tcase_add_test(t, mix_of_all_is_mix_without_top_k);
    tcase_add_test(t, mix_leaves_alone_what_did_not_pass);
    tcase_add_loop_test(t, mix_shows_a_gate_that_is_not_a_number, 0, 2);
    tcase_add_test(t, mix_gives_the_same_bits_each_time);
    tcase_add_loop_test(t, mix_gives_the_same_bits_at_every_width, 0, 2);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
