/* test_gate.c: the kernels of gates and of the products of two streams, against their formulas. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include <string.h>

enum { N = 9, WIDTH = 37, LD = 41, DX_WIDTH = 20, STRIDE = 3 };

struct streams {
    float x[N * LD], g[N * LD], y[N * LD], dy[N * LD], dg[N * LD], dx[N * LD], logit[N * STRIDE];
};

static void streams_draw(struct streams *t)
{
    struct rng r = rng_of(8, 8, 8);
    dense_fill(&r, t->x, sizeof *t / sizeof(float));
}

/* Runs the kernels k, with arrays that k can read. */
static void gate_run(const struct backend_ops *k, struct stream *s, struct streams *t, bool add)
{
    k->attention.gate_forward(s, N, WIDTH, 2.0f, t->x, LD, t->g, LD, t->y, LD);
    k->attention.gate_backward(s, N, WIDTH, 2.0f, t->x, LD, t->g, LD, t->dy, LD, t->dg, LD, t->dx,
                               LD, DX_WIDTH, add);
}

static void dots_run(const struct backend_ops *k, struct stream *s, struct streams *t, bool add)
{
    k->attention.dots_forward(s, N, WIDTH, t->x, LD, t->g, LD, t->logit + 1, STRIDE);
    k->attention.dots_backward(s, N, WIDTH, t->x, LD, t->g, LD, t->logit + 2, STRIDE, t->dx, LD,
                               add);
}

static void on_backend(void (*run)(const struct backend_ops *, struct stream *, struct streams *,
                                   bool),
                       struct streams *t, bool add)
{
    struct dense_device d;
    dense_device_open(&d);
    struct streams *up = dense_up(&d, t, sizeof *t);
    run(d.k, d.s, up, add);
    dense_down(&d, up, t, sizeof *t);
    dense_device_close(&d);
}

START_TEST(gate_is_twice_the_product)
{
    static struct streams was, t;
    bool add = _i == 1;
    streams_draw(&was);
    streams_draw(&t);
    on_backend(gate_run, &t, add);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < LD; j++) {
            uint32_t at = i * LD + j;
            bool in = j < WIDTH, in_dx = j < DX_WIDTH;
            ck_assert_float_eq_tol(t.y[at], in ? 2 * was.x[at] * was.g[at] : was.y[at], 1e-6f);
            ck_assert_float_eq_tol(t.dg[at], in ? 2 * was.x[at] * was.dy[at] : was.dg[at], 1e-6f);
            ck_assert_float_eq_tol(
                t.dx[at], in_dx ? (add ? was.dx[at] : 0) + 2 * was.g[at] * was.dy[at] : was.dx[at],
                1e-6f);
        }
}
END_TEST

START_TEST(dots_are_added_to_the_logit)
{
    static struct streams was, t;
    bool add = _i == 1;
    streams_draw(&was);
    streams_draw(&t);
    on_backend(dots_run, &t, add);
    for (uint32_t i = 0; i < N; i++) {
        double sum = (double)was.logit[i * STRIDE + 1];
        for (uint32_t j = 0; j < WIDTH; j++)
            sum += (double)was.x[i * LD + j] * (double)was.g[i * LD + j];
        ck_assert_double_eq_tol((double)t.logit[i * STRIDE + 1], sum, 1e-5);
        ck_assert_float_eq(t.logit[i * STRIDE], was.logit[i * STRIDE]);
        for (uint32_t j = 0; j < LD; j++) {
            uint32_t at = i * LD + j;
            float d = was.logit[i * STRIDE + 2];
            ck_assert_float_eq_tol(
                t.dx[at], j < WIDTH ? (add ? was.dx[at] : 0) + was.x[at] * d : was.dx[at], 1e-6f);
            ck_assert_float_eq_tol(t.x[at], j < WIDTH ? was.g[at] * d : was.x[at], 1e-6f);
        }
    }
}
END_TEST

START_TEST(every_width_gives_the_same_bits)
{
    static struct streams of[DENSE_WIDTHS];
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        if (k == NULL)
            continue;
        streams_draw(&of[w]);
        gate_run(k, NULL, &of[w], true);
        dots_run(k, NULL, &of[w], false);
        ck_assert_msg(memcmp(&of[w], &of[0], sizeof of[0]) == 0, "%s", dense_width_name[w]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gate");
    TCase *t = tcase_create("gate");
    tcase_add_loop_test(t, gate_is_twice_the_product, 0, 2);
    tcase_add_loop_test(t, dots_are_added_to_the_logit, 0, 2);
    tcase_add_test(t, every_width_gives_the_same_bits);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
