/* test_model_interact_formula.c: scores of fwfm, ipnn, dcnv2, dlrm and xdeepfm against their
 * formulas, written out example by example without a plan. */
#include "dense/model.h"
#include "tests/lib/dense_check.h"

#include <string.h>

enum { FIELDS = 3, DIM = 3, NUMERICS = 2, FIRST = 5, SECOND = 4 }; /* the shape of dense_case_job */

/* Takes dense parameters one after the other, each from a block of its own. */
struct taker {
    const float *at;
};

static const float *take(struct taker *t, size_t count)
{
    const float *p = t->at;
    t->at += (count + BLOCK_FLOATS - 1) / BLOCK_FLOATS * BLOCK_FLOATS;
    return p;
}

static double dot(const float *w, const double *x, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < n; k++)
        sum += (double)w[k] * x[k];
    return sum;
}

/* y (out) = tanh(w x + b), the two tensors next in order. */
static void layer(struct taker *t, const double *x, uint32_t in, double *y, uint32_t out)
{
    const float *w = take(t, (size_t)out * in), *b = take(t, out);
    for (uint32_t j = 0; j < out; j++)
        y[j] = tanh(dot(w + j * in, x, in) + (double)b[j]);
}

/* The network of 5 and 4 over x. */
static void network(struct taker *t, const double *x, uint32_t in, double y[SECOND])
{
    double first[FIRST];
    layer(t, x, in, first, FIRST);
    layer(t, first, FIRST, y, SECOND);
}

/* One example: its vectors, the numbers after them, and its first-order weights. */
struct example {
    double x[FIELDS * DIM + NUMERICS], first_order;
};

static double inner(const double *x, uint32_t i, uint32_t j)
{
    double sum = 0;
    for (uint32_t d = 0; d < DIM; d++)
        sum += x[i * DIM + d] * x[j * DIM + d];
    return sum;
}

/* Vectors i and j < i of x, in the order 1 0, 2 0, 2 1, 3 0 .. */
static uint32_t pairs(const double *x, uint32_t vectors, double *y)
{
    uint32_t n = 0;
    for (uint32_t i = 1; i < vectors; i++)
        for (uint32_t j = 0; j < i; j++)
            y[n++] = inner(x, i, j);
    return n;
}

static double fwfm(struct taker *t, const struct example *e)
{
    double y[3], z = e->first_order + (double)*take(t, 1);
    z += dot(take(t, NUMERICS), e->x + FIELDS * DIM, NUMERICS);
    pairs(e->x, FIELDS, y);
    return z + dot(take(t, 3), y, 3);
}

static double ipnn(struct taker *t, const struct example *e)
{
    double x[FIELDS * DIM + NUMERICS + 3], y[SECOND], z = (double)*take(t, 1);
    memcpy(x, e->x, sizeof e->x);
    pairs(e->x, FIELDS, x + FIELDS * DIM + NUMERICS);
    network(t, x, FIELDS * DIM + NUMERICS + 3, y);
    return z + dot(take(t, SECOND), y, SECOND);
}

static double dcnv2(struct taker *t, const struct example *e)
{
    enum { IN = FIELDS * DIM + NUMERICS };
    double both[IN + SECOND], next[IN], z = (double)*take(t, 1);
    network(t, e->x, IN, both + IN);
    memcpy(both, e->x, sizeof e->x);
    for (uint32_t l = 0; l < 2; l++) {
        const float *w = take(t, IN * IN), *b = take(t, IN);
        for (uint32_t j = 0; j < IN; j++)
            next[j] = e->x[j] * (dot(w + j * IN, both, IN) + (double)b[j]) + both[j];
        memcpy(both, next, sizeof next);
    }
    return z + dot(take(t, IN + SECOND), both, IN + SECOND);
}

static double dlrm(struct taker *t, const struct example *e)
{
    double v[(FIELDS + 1) * DIM], bottom[4], top[DIM + 6], y[SECOND], z = (double)*take(t, 1);
    memcpy(v, e->x, FIELDS * DIM * sizeof *v);
    layer(t, e->x + FIELDS * DIM, NUMERICS, bottom, 4);
    layer(t, bottom, 4, v + FIELDS * DIM, DIM);
    memcpy(top, v + FIELDS * DIM, DIM * sizeof *v);
    ck_assert_uint_eq(pairs(v, FIELDS + 1, top + DIM), 6);
    network(t, top, DIM + 6, y);
    return z + dot(take(t, SECOND), y, SECOND);
}

static double dlrm_cat(struct taker *t, const struct example *e)
{
    double v[(FIELDS + 1) * DIM], bottom[4], y[SECOND], z = (double)*take(t, 1);
    memcpy(v, e->x, FIELDS * DIM * sizeof *v);
    layer(t, e->x + FIELDS * DIM, NUMERICS, bottom, 4);
    layer(t, bottom, 4, v + FIELDS * DIM, DIM);
    network(t, v, (FIELDS + 1) * DIM, y);
    return z + dot(take(t, SECOND), y, SECOND);
}

/* CIN of 3 and 2 maps, map by map: out[h] = sum over m, f of w[h][f, m] (map m * vector f). */
static double xdeepfm(struct taker *t, const struct example *e)
{
    double map[2][3][DIM] = {{{0}}}, sum[5] = {0}, y[SECOND],
           z = e->first_order + (double)*take(t, 1);
    z += dot(take(t, NUMERICS), e->x + FIELDS * DIM, NUMERICS);
    for (uint32_t l = 0; l < 2; l++) {
        const float *w = take(t, (size_t)(l == 0 ? 3 : 2) * FIELDS * 3);
        for (uint32_t h = 0; h < (l == 0 ? 3 : 2); h++)
            for (uint32_t d = 0; d < DIM; d++) {
                for (uint32_t f = 0; f < FIELDS; f++)
                    for (uint32_t m = 0; m < 3; m++)
                        map[l][h][d] += (double)w[(h * FIELDS + f) * 3 + m] * e->x[f * DIM + d] *
                                        (l == 0 ? e->x[m * DIM + d] : map[0][m][d]);
                sum[l * 3 + h] += map[l][h][d];
            }
    }
    z += dot(take(t, 5), sum, 5);
    network(t, e->x, FIELDS * DIM + NUMERICS, y);
    return z + dot(take(t, SECOND), y, SECOND);
}

static const struct {
    enum model_kind kind;
    enum interaction interaction;
    double (*logit)(struct taker *t, const struct example *e);
} formulas[] = {{MODEL_FWFM, INTERACT_DOT, fwfm},     {MODEL_IPNN, INTERACT_DOT, ipnn},
                {MODEL_DCNV2, INTERACT_DOT, dcnv2},   {MODEL_DLRM, INTERACT_DOT, dlrm},
                {MODEL_DLRM, INTERACT_CAT, dlrm_cat}, {MODEL_XDEEPFM, INTERACT_DOT, xdeepfm}};

static struct example example_of(const struct dense_case *c, uint32_t i)
{
    struct example e = {.first_order = 0};
    uint32_t first_order = c->plan.first_order;
    for (uint32_t f = 0; f < FIELDS; f++) {
        const float *row = c->rows + c->index[i * FIELDS + f] * (first_order + DIM);
        e.first_order += first_order ? (double)row[0] : 0.0;
        for (uint32_t d = 0; d < DIM; d++)
            e.x[f * DIM + d] = (double)row[first_order + d];
    }
    for (uint32_t n = 0; n < NUMERICS; n++)
        e.x[FIELDS * DIM + n] = (double)c->numeric[i * NUMERICS + n];
    return e;
}

/* Returns the largest difference between the scores of formula i and those of formula `by`. */
static double formula_worst(int i, int by)
{
    struct dense_case c;
    double worst = 0;
    dense_case_job(&c, formulas[i].kind);
    c.job.train.batch = 16;
    c.job.model.interaction = formulas[i].interaction;
    dense_case_batch(&c, 7, 5, false);
    for (size_t k = 0; k < c.plan.dense.floats; k++)
        c.dense[k] *= 0.5f; /* polynomials grow fast */
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    for (uint32_t e = 0; e < 7; e++) {
        struct taker t = {c.dense};
        struct example example = example_of(&c, e);
        double score = 1 / (1 + exp(-formulas[by].logit(&t, &example)));
        if (i == by) /* every tensor has its place in the formula */
            ck_assert_ptr_eq(t.at, c.dense + c.plan.dense.floats);
        worst = fmax(worst, dense_check_worst(c.out.scores + e, &score, 1));
    }
    dense_case_free(&c);
    return worst;
}

START_TEST(score_is_the_formula_by_hand)
{
    ck_assert_double_lt(formula_worst(_i, _i), 2e-6);
}
END_TEST

START_TEST(formula_check_notices_another_model)
{
    /* dlrm dot and cat: the same tensors, except for one shape */
    ck_assert_double_gt(formula_worst(3, 4), 1e-3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("model_interact_formula");
    TCase *t = tcase_create("model_interact_formula");
    tcase_add_loop_test(t, score_is_the_formula_by_hand, 0, sizeof formulas / sizeof *formulas);
    tcase_add_test(t, formula_check_notices_another_model);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
