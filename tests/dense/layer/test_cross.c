/* test_cross.c: the element-wise step of cross layers against its formula, the whole layers against
 * finite differences, the same bits at every vector width. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <string.h>

enum { N = 70, GAP = 2, WIDTH_MAX = 37, LD_MAX = WIDTH_MAX + GAP };

static const struct {
    uint32_t width, wanted; /* wanted: leading columns of x0 that have a gradient */
    bool add, first;
} shapes[] = {
    {1, 1, false, false},  {7, 7, true, false},   {16, 16, false, true}, {21, 16, true, true},
    {37, 20, true, false}, {37, 5, false, false}, {37, 37, true, true},  {29, 0, false, true},
};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* The arrays of one call on the host; rows have a gap behind them, except those of u. */
struct cross {
    uint32_t width, wanted, ld;
    bool add, first;
    float x0[N * LD_MAX], x[N * LD_MAX], u[N * WIDTH_MAX], y[N * LD_MAX], dy[N * LD_MAX],
        dx0[N * LD_MAX];
    float bias[WIDTH_MAX], dbias[WIDTH_MAX];
};

static void cross_draw(struct cross *c, int shape)
{
    struct rng r = rng_of(22, (uint64_t)shape, 0);
    float *all[] = {c->x0, c->x, c->y, c->dy, c->dx0};
    memset(c, 0, sizeof *c);
    c->width = shapes[shape].width;
    c->wanted = shapes[shape].wanted;
    c->add = shapes[shape].add;
    c->first = shapes[shape].first;
    c->ld = c->width + GAP;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dense_fill(&r, all[i], N * c->ld);
    dense_fill(&r, c->u, N * c->width);
    dense_fill(&r, c->bias, c->width);
    dense_fill(&r, c->dbias, c->width);
    if (c->first)
        memcpy(c->x, c->x0, sizeof c->x);
}

static struct cross_args cross_args_of(const struct cross *c)
{
    return (struct cross_args){.count = N,
                               .width = c->width,
                               .ldx0 = c->ld,
                               .ldx = c->ld,
                               .ldy = c->ld,
                               .lddy = c->ld,
                               .lddx0 = c->ld,
                               .ldu = c->width,
                               .dx0_width = c->wanted,
                               .add = c->add,
                               .first = c->first};
}

static void cross_run(struct cross *c)
{
    struct dense_device d;
    struct cross_args a = cross_args_of(c);
    size_t bytes = N * c->ld * sizeof(float), row = c->width * sizeof(float);
    dense_device_open(&d);
    a.x0 = dense_up(&d, c->x0, bytes);
    a.x = c->first ? a.x0 : dense_up(&d, c->x, bytes);
    a.bias = dense_up(&d, c->bias, row);
    a.u = dense_up(&d, c->u, N * row);
    a.y = dense_up(&d, c->y, bytes);
    a.dy = dense_up(&d, c->dy, bytes);
    a.dbias = dense_up(&d, c->dbias, row);
    a.dx0 = c->wanted > 0 ? dense_up(&d, c->dx0, bytes) : NULL;
    d.k->interact.cross_forward(d.s, &a);
    d.k->interact.cross_backward(d.s, &a);
    dense_down(&d, a.y, c->y, bytes);
    dense_down(&d, a.u, c->u, N * row);
    dense_down(&d, a.dbias, c->dbias, row);
    if (c->wanted > 0)
        dense_down(&d, a.dx0, c->dx0, bytes);
    dense_device_close(&d);
}

/* Columns that the operation must not write are unchanged. */
static void gaps_check(const struct cross *c, const struct cross *found)
{
    for (uint32_t i = 0; i < N; i++) {
        const float *was = c->dx0 + i * c->ld + c->wanted, *is = found->dx0 + i * c->ld + c->wanted;
        ck_assert_mem_eq(was, is, (c->ld - c->wanted) * sizeof(float));
        ck_assert_mem_eq(c->y + i * c->ld + c->width, found->y + i * c->ld + c->width,
                         GAP * sizeof(float));
    }
}

static double cross_worst(const struct cross *c, const struct cross *found)
{
    double worst = 0;
    for (uint32_t j = 0; j < c->width; j++) {
        double bias = (double)c->dbias[j];
        for (uint32_t i = 0; i < N; i++) {
            uint32_t at = i * c->ld + j;
            double x0 = (double)c->x0[at], u = (double)c->u[i * c->width + j] + (double)c->bias[j],
                   dy = (double)c->dy[at];
            double y = x0 * u + (double)c->x[at], du = dy * x0;
            double dx0 = dy * u + (c->first ? dy : 0.0) + (c->add ? (double)c->dx0[at] : 0.0);
            bias += du;
            worst = fmax(worst, dense_check_worst(found->y + at, &y, 1));
            worst = fmax(worst, dense_check_worst(found->u + i * c->width + j, &du, 1));
            worst =
                j < c->wanted ? fmax(worst, dense_check_worst(found->dx0 + at, &dx0, 1)) : worst;
        }
        worst = fmax(worst, dense_check_worst(found->dbias + j, &bias, 1));
    }
    return worst;
}

START_TEST(cross_step_is_the_formula)
{
    static struct cross c, found;
    cross_draw(&c, _i);
    found = c;
    cross_run(&found);
    gaps_check(&c, &found);
    ck_assert_double_lt(cross_worst(&c, &found), 1e-5);
}
END_TEST

START_TEST(cross_check_notices_a_bias_that_was_forgotten)
{
    static struct cross c, found;
    cross_draw(&c, 3);
    found = c;
    memset(found.bias, 0, sizeof found.bias);
    cross_run(&found);
    ck_assert_double_gt(cross_worst(&c, &found), 1e-2);
}
END_TEST

static void width_run(const struct backend_ops *k, struct cross *c)
{
    struct cross_args a = cross_args_of(c);
    a.x0 = c->x0;
    a.x = c->x;
    a.bias = c->bias;
    a.u = c->u;
    a.y = c->y;
    a.dy = c->dy;
    a.dbias = c->dbias;
    a.dx0 = c->wanted > 0 ? c->dx0 : NULL;
    k->interact.cross_forward(NULL, &a);
    k->interact.cross_backward(NULL, &a);
}

START_TEST(cross_step_has_the_same_bits_at_every_width)
{
    static struct cross base, other;
    cross_draw(&base, _i);
    width_run(dense_width(0), &base);
    for (int w = 1; w < DENSE_WIDTHS && dense_width(w) != NULL; w++) {
        cross_draw(&other, _i);
        width_run(dense_width(w), &other);
        ck_assert_msg(memcmp(&base, &other, sizeof base) == 0, "%s", dense_width_name[w]);
    }
}
END_TEST

/* ---- whole layers, in plans of their own ----------------------------------------------------- */

static void plan_three(struct plan *p)
{
    struct view x = plan_input(p, true, 0), y = plan_tensor(p, x.width);
    plan_cross(p, x, 3, y);
    plan_head(p, y, 0);
}

static void plan_one(struct plan *p)
{
    struct view x = plan_input(p, true, 0), y = plan_tensor(p, 2 * x.width);
    plan_cross(p, x, 1, plan_columns(y, x.width, x.width));
    plan_cross(p, x, 1, plan_columns(y, 0, x.width));
    plan_head(p, y, 0);
}

/* Between the layers of a cross there is a tensor of their width whose gradient is read and
 * released before the cross is done: it must not take the place of the gradients of the cross
 * layers. */
static void plan_between(struct plan *p)
{
    struct view x0 = plan_input(p, true, 0), x = x0, side = VIEW_NONE;
    for (uint32_t i = 0; i < 3; i++) {
        struct view y = plan_tensor(p, x0.width);
        struct layer *l = plan_layer(p, i == 0 ? &layer_cross_first : &layer_cross, x, y);
        l->z = x0;
        l->parameter[0] = plan_weights(p, x0.width, x0);
        l->parameter[1] = plan_zeros(p, "bias", x0.width);
        l->state[0] = plan_state(p, plan_stride(x0.width, false));
        if (i == 0) {
            side = plan_linear(p, x0, x0.width, ACT_TANH, 0, NORM_NONE, VIEW_NONE);
            plan_head(p, side, 0);
        }
        x = y;
    }
    plan_head(p, x, 0);
}

START_TEST(cross_layers_have_the_gradient_of_the_formula)
{
    void (*const build[])(struct plan *) = {plan_three, plan_one, plan_between};
    struct plan_kind kind = {.name = "cross", .build = build[_i], .vectors = true};
    struct dense_case c;
    dense_case_job(&c, MODEL_FM);
    c.kind = &kind;
    c.range = 4;
    dense_case_batch(&c, 9, 5, true);
    for (size_t i = 0; i < c.plan.dense.floats; i++)
        c.dense[i] *= 0.3f; /* a polynomial: large logits leave the loss no digits */
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cross");
    TCase *t = tcase_create("cross");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, cross_step_is_the_formula, 0, SHAPES);
    tcase_add_test(t, cross_check_notices_a_bias_that_was_forgotten);
    tcase_add_loop_test(t, cross_step_has_the_same_bits_at_every_width, 0, SHAPES);
    tcase_add_loop_test(t, cross_layers_have_the_gradient_of_the_formula, 0, 3);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
