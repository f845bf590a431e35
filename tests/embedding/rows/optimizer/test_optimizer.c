/* test_optimizer.c: each optimizer against its paper in double precision, and the same bits at
 * every vector level. */
#include "embedding/rows/optimizer/optimizer.h"
#include "proto/base/isa.h"
#include "tests/lib/embedding_rows.h"

#include <math.h>

#define ROW_MAX (3 * 300 + 2)

static const enum optimizer_kind kinds[] = {OPT_SGD,  OPT_ADAGRAD, OPT_ROW_ADAGRAD,
                                            OPT_ADAM, OPT_FTRL,    OPT_CTR_ADAGRAD};
#define KINDS 6

static void row_start(const struct table_schema *s, const struct optimizer *o, float *row,
                      uint64_t seed)
{
    rows_gradients(row, s->width, seed);
    o->start(row, s);
}

/* The papers' formulas, in double precision, over the same layout. */
static void oracle(const struct table_schema *s, double *row, const double *g, double scale)
{
    const struct optimizer_spec *o = &s->optimizer;
    double lr = (double)o->lr * (o->fixed_lr ? 1.0 : scale);
    uint32_t n = s->width;
    double mean = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += g[i] * g[i] / n;
    switch (o->kind) {
    case OPT_SGD:
        for (uint32_t i = 0; i < n; i++)
            row[i] -= lr * g[i];
        break;
    case OPT_ADAGRAD:
        for (uint32_t i = 0; i < n; i++) {
            row[n + i] = row[n + i] * (o->decay > 0 ? (double)o->decay : 1) + g[i] * g[i];
            row[i] -= lr * g[i] / (sqrt(row[n + i]) + (double)o->eps);
        }
        break;
    case OPT_ROW_ADAGRAD:
        row[n] = row[n] * (o->decay > 0 ? (double)o->decay : 1) + mean;
        for (uint32_t i = 0; i < n; i++)
            row[i] -= lr * g[i] / (sqrt(row[n]) + (double)o->eps);
        break;
    case OPT_ADAM:
        row[3 * n] *= (double)o->beta1;
        row[3 * n + 1] *= (double)o->beta2;
        for (uint32_t i = 0; i < n; i++) {
            row[n + i] = (double)o->beta1 * row[n + i] + (1 - (double)o->beta1) * g[i];
            row[2 * n + i] =
                (double)o->beta2 * row[2 * n + i] + (1 - (double)o->beta2) * g[i] * g[i];
            row[i] -= lr * (row[n + i] / (1 - row[3 * n])) /
                      (sqrt(row[2 * n + i] / (1 - row[3 * n + 1])) + (double)o->eps);
        }
        break;
    case OPT_CTR_ADAGRAD: {
        double sum = row[n + 1];
        for (uint32_t i = s->zero_first; i < n; i++) {
            row[i] -= lr * g[i] * sqrt((double)o->initial / ((double)o->initial + sum));
            row[n + 1] += g[i] * g[i] / (n - s->zero_first);
        }
        if (s->zero_first == 1) {
            row[0] -= lr * g[0] * sqrt((double)o->initial / ((double)o->initial + row[n]));
            row[n] += g[0] * g[0];
        }
        break;
    }
    case OPT_FTRL:
        for (uint32_t i = 0; i < n; i++) {
            double *z = &row[n + i], *sum = &row[2 * n + i];
            double alpha = (double)o->lr, sigma = (sqrt(*sum + g[i] * g[i]) - sqrt(*sum)) / alpha;
            *z += lr / alpha * g[i] - sigma * row[i];
            *sum += g[i] * g[i];
            double sign = *z < 0 ? -1 : 1;
            row[i] = fabs(*z) <= (double)o->l1
                         ? 0
                         : -(*z - sign * (double)o->l1) /
                               (((double)o->beta + sqrt(*sum)) / alpha + (double)o->l2);
        }
        break;
    }
}

START_TEST(optimizer_follows_its_paper)
{
    struct table_schema s = rows_schema(kinds[_i], 21, 0);
    struct optimizer o = optimizer_of(&s, isa_best());
    uint32_t floats = s.width + schema_state_floats(&s);
    float row[ROW_MAX], g[300];
    double exact[ROW_MAX], exact_g[300];
    row_start(&s, &o, row, 3);
    for (uint32_t i = 0; i < floats; i++)
        exact[i] = (double)row[i];
    for (uint64_t t = 0; t < 50; t++) {
        float scale = t < 25 ? 1.0f : 0.5f;
        struct opt_step step;
        optimizer_step(&s, scale, &step);
        rows_gradients(g, s.width, 100 + t);
        for (uint32_t i = 0; i < s.width; i++)
            exact_g[i] = (double)g[i];
        o.update(row, g, &step);
        oracle(&s, exact, exact_g, (double)scale);
    }
    for (uint32_t i = 0; i < floats; i++)
        ck_assert_msg(fabs((double)row[i] - exact[i]) <= 2e-4 * (1 + fabs(exact[i])),
                      "kind %d float %u: %g, exact %g", _i, i, (double)row[i], exact[i]);
}
END_TEST

/* The control case: an oracle with another lr must not give an equal result. */
START_TEST(optimizer_oracle_sees_a_wrong_lr)
{
    struct table_schema s = rows_schema(kinds[_i], 21, 0), wrong = s;
    wrong.optimizer.lr *= 1.05f;
    struct optimizer o = optimizer_of(&s, isa_best());
    struct opt_step step;
    float row[ROW_MAX], g[300];
    double exact[ROW_MAX], exact_g[300], worst = 0;
    row_start(&s, &o, row, 3);
    for (uint32_t i = 0; i < s.width + schema_state_floats(&s); i++)
        exact[i] = (double)row[i];
    optimizer_step(&s, 1.0f, &step);
    for (uint64_t t = 0; t < 50; t++) {
        rows_gradients(g, s.width, 100 + t);
        for (uint32_t i = 0; i < s.width; i++)
            exact_g[i] = (double)g[i];
        o.update(row, g, &step);
        oracle(&wrong, exact, exact_g, 1);
    }
    for (uint32_t i = 0; i < s.width; i++)
        worst = fmax(worst, fabs((double)row[i] - exact[i]) / (2e-4 * (1 + fabs(exact[i]))));
    ck_assert(worst > 1);
}
END_TEST

/* Gradients of every size that a push may have: denormals and their products, zeros of both signs,
 * the limit. */
static void hard_gradients(float *g, uint32_t n, uint64_t seed)
{
    struct rng r = rng_of(seed, 9, 9);
    for (uint32_t i = 0; i < n; i++) {
        float x = rng_float(&r) * 2 - 1;
        const float hard[] = {x,     x * 1e-40f, x * 1e-20f, 0.0f,
                              -0.0f, x * 1e15f,  x * 1e-30f, x * 1e4f};
        g[i] = hard[rng_below(&r, 8)];
    }
}

START_TEST(optimizer_gives_the_same_bits_at_every_level)
{
    static const uint32_t widths[] = {1,  3,  4,  7,  8,  10, 11,  15, 16,
                                      17, 24, 31, 32, 33, 64, 100, 300};
    for (uint32_t k = 0; k < sizeof widths / sizeof widths[0]; k++) {
        struct table_schema s = rows_schema(kinds[_i], widths[k], 0);
        float row[ISA_COUNT][ROW_MAX], g[300];
        uint32_t floats = s.width + schema_state_floats(&s);
        for (int level = 0; level <= (int)isa_best(); level++) {
            struct optimizer o = optimizer_of(&s, (enum isa)level);
            struct opt_step step;
            optimizer_step(&s, 0.7f, &step);
            row_start(&s, &o, row[level], k);
            for (uint64_t t = 0; t < 40; t++) {
                hard_gradients(g, s.width, t);
                o.update(row[level], g, &step);
            }
            ck_assert_mem_eq(row[0], row[level], floats * sizeof(float));
        }
    }
}
END_TEST

/* Fixed for every compiler: journals of one build are replayed by another. */
START_TEST(optimizer_keeps_its_bits)
{
    static const float scale[] = {0.7f, 1.0f};
    static const uint64_t digests[][KINDS] = {
        {12403780450674625286ULL, 9461483754718911162ULL, 4122951858675561468ULL,
         13037034036551183496ULL, 10396560082043860685ULL, 447384237566007968ULL},
        {4039029797700331871ULL, 4421734188851650404ULL, 12583152092282809304ULL,
         15892388675690323848ULL, 18251999787963980691ULL, 13680960442851806117ULL}};
    struct table_schema s = rows_schema(kinds[_i % KINDS], 43, 0);
    struct optimizer o = optimizer_of(&s, isa_best());
    struct opt_step step;
    float row[ROW_MAX], g[300];
    optimizer_step(&s, scale[_i / KINDS], &step);
    row_start(&s, &o, row, 1);
    for (uint64_t t = 0; t < 40; t++) {
        hard_gradients(g, s.width, t);
        o.update(row, g, &step);
    }
    ck_assert_uint_eq(hash_bytes(row, (s.width + schema_state_floats(&s)) * sizeof(float), 0),
                      digests[_i / KINDS][_i % KINDS]);
}
END_TEST

START_TEST(optimizer_levels_are_really_different_code)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 16, 0);
    for (int level = 1; level <= (int)isa_best(); level++)
        ck_assert(optimizer_of(&s, (enum isa)level).update != optimizer_of(&s, ISA_BASE).update);
}
END_TEST

/* Computed by hand, in the order that square_sum promises. */
START_TEST(optimizer_row_adagrad_sums_in_its_fixed_order)
{
    struct table_schema s = rows_schema(OPT_ROW_ADAGRAD, 37, 0);
    float row[38], g[37], part[16] = {0};
    struct opt_step step;
    struct optimizer o = optimizer_of(&s, isa_best());
    optimizer_step(&s, 1, &step);
    row_start(&s, &o, row, 1);
    rows_gradients(g, 37, 4);
    for (int i = 0; i < 37; i++)
        part[i % 16] += g[i] * g[i];
    for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            part[i] += part[i + half];
    o.update(row, g, &step);
    float expected = 0.1f + part[0] / 37.0f;
    ck_assert_mem_eq(&expected, &row[37], sizeof expected);
}
END_TEST

START_TEST(optimizer_fixed_lr_ignores_the_scale)
{
    struct table_schema s = rows_schema(OPT_SGD, 4, 0);
    struct opt_step step;
    optimizer_step(&s, 0.5f, &step);
    ck_assert(step.lr == 0.025f);
    s.optimizer.fixed_lr = 1;
    optimizer_step(&s, 0.5f, &step);
    ck_assert(step.lr == 0.05f);
}
END_TEST

START_TEST(optimizer_ftrl_keeps_an_initial_weight_and_zero_stays_zero)
{
    struct table_schema s = rows_schema(OPT_FTRL, 4, 0);
    s.optimizer.beta = 0;
    s.optimizer.initial = 0;
    s.optimizer.l2 = 0;
    struct optimizer o = optimizer_of(&s, isa_best());
    struct opt_step step;
    float row[12] = {0}, g[4] = {0};
    optimizer_step(&s, 1, &step);
    o.start(row, &s);
    o.update(row, g, &step);
    for (int i = 0; i < 4; i++)
        ck_assert(row[i] == 0);
    s = rows_schema(OPT_FTRL, 4, 0);
    optimizer_step(&s, 1, &step);
    row_start(&s, &o, row, 5);
    float before[4];
    memcpy(before, row, sizeof before);
    o.update(row, g, &step);
    for (int i = 0; i < 4; i++)
        ck_assert(fabsf(row[i] - before[i]) < 1e-5f);
}
END_TEST

/* Computes ftrl's weights after 100 steps and `more` further ones of `gradient` at `scale`. */
static void ftrl_after(uint32_t more, float gradient, float scale, float *w)
{
    struct table_schema s = rows_schema(OPT_FTRL, 4, 0);
    struct optimizer o = optimizer_of(&s, isa_best());
    struct opt_step step;
    float row[12], g[4] = {0.5f, 0.5f, -0.5f, -0.5f};
    optimizer_step(&s, 1, &step);
    row_start(&s, &o, row, 5);
    for (int t = 0; t < 100; t++)
        o.update(row, g, &step);
    optimizer_step(&s, scale, &step);
    for (int i = 0; i < 4; i++)
        g[i] = gradient;
    while (more-- > 0)
        o.update(row, g, &step);
    memcpy(w, row, 4 * sizeof *w);
}

/* As in the other optimizers, the scale is the length of a step: learned weights stay. */
START_TEST(optimizer_ftrl_takes_the_scale_as_a_step_size)
{
    static const float scale[] = {1, 0.5f, 0.1f, 0, 2};
    float learnt[4], still[4], whole[4], part[4];
    ftrl_after(0, 0, 1, learnt);
    ftrl_after(50, 0, scale[_i], still);
    ftrl_after(1, 0.3f, 1, whole);
    ftrl_after(1, 0.3f, scale[_i], part);
    for (int i = 0; i < 4; i++) {
        ck_assert(fabsf(learnt[i]) > 0.1f && whole[i] < learnt[i]);
        ck_assert_msg(fabsf(still[i] - learnt[i]) < 1e-5f,
                      "at scale %g without a gradient %g, not %g", (double)scale[_i],
                      (double)still[i], (double)learnt[i]);
        ck_assert_float_eq_tol(part[i] - learnt[i], scale[_i] * (whole[i] - learnt[i]), 1e-6f);
    }
}
END_TEST

/* Sums of squares stop growing long before they overflow: the comment of opt_finite relies on
 * it. */
START_TEST(optimizer_sums_stop_before_they_overflow)
{
    static const float near_top[] = {1.7e37f, 2.2e37f, 3e38f};
    for (int level = 0; level <= (int)isa_best(); level++) {
        struct table_schema s = rows_schema(kinds[_i], 17, 1);
        struct optimizer o = optimizer_of(&s, (enum isa)level);
        struct opt_step step;
        float row[ROW_MAX], g[17];
        optimizer_step(&s, 1, &step);
        for (int top = 0; top < 3; top++) {
            row_start(&s, &o, row, 5);
            for (uint32_t i = 0; i < schema_state_floats(&s) && s.optimizer.kind != OPT_ADAM &&
                                 s.optimizer.kind != OPT_FTRL;
                 i++)
                row[17 + i] = near_top[top];
            for (int n = 0; n < 2000; n++) {
                for (int i = 0; i < 17; i++)
                    g[i] = (i + n) % 7 == 0 ? -LIMIT_GRADIENT : LIMIT_GRADIENT;
                o.update(row, g, &step);
            }
            for (uint32_t i = 0; i < 17 + schema_state_floats(&s); i++)
                ck_assert_msg(isfinite(row[i]), "optimizer %d, float %u", (int)s.optimizer.kind, i);
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("optimizer");
    TCase *c = tcase_create("optimizer");
    tcase_add_loop_test(c, optimizer_follows_its_paper, 0, KINDS);
    tcase_add_loop_test(c, optimizer_sums_stop_before_they_overflow, 0, KINDS);
    tcase_add_loop_test(c, optimizer_oracle_sees_a_wrong_lr, 0, KINDS);
    tcase_add_loop_test(c, optimizer_gives_the_same_bits_at_every_level, 0, KINDS);
    tcase_add_loop_test(c, optimizer_keeps_its_bits, 0, 2 * KINDS);
    tcase_add_test(c, optimizer_levels_are_really_different_code);
    tcase_add_test(c, optimizer_row_adagrad_sums_in_its_fixed_order);
    tcase_add_test(c, optimizer_fixed_lr_ignores_the_scale);
    tcase_add_loop_test(c, optimizer_ftrl_takes_the_scale_as_a_step_size, 0, 5);
    tcase_add_test(c, optimizer_ftrl_keeps_an_initial_weight_and_zero_stays_zero);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
