/* test_attention.c: the kernels of attention over fields. Gradients and formula:
 * test_model_attention.c. */
#include "tests/lib/dense_case.h"
#include "tests/lib/dense_check.h"

#include <string.h>

/* More fields than lanes, and heads whose size is no multiple of a vector. */
enum { N = 5, FIELDS = 19, HEADS = 3, PART = 7, WIDTH = HEADS * PART, ROW = 4 * WIDTH };
enum {
    MAPS = N * FIELDS * ROW,
    OUT = N * FIELDS * WIDTH,
    APART = FIELDS * WIDTH + 5, /* from an example's residual to the next's */
    SHARES = N * HEADS * FIELDS * 32,
    WORK = (16 + 2 * FIELDS) * 32
};

/* The arrays of one call on the host. With three parts the rows of x and dx have length 3 *
 * WIDTH. */
struct attended {
    float x[MAPS], residual[N * APART], y[OUT], dy[OUT], dx[MAPS], dresidual[N * APART],
        share[SHARES], work[WORK];
};

static void attended_draw(struct attended *t)
{
    struct rng r = rng_of(3, 2, 1);
    ck_assert_uint_eq(attend_share_floats(FIELDS, HEADS) * N, SHARES);
    ck_assert_uint_eq(attend_work_floats(FIELDS, PART), WORK);
    memset(t, 0, sizeof *t);
    dense_fill(&r, t->x, MAPS);
    dense_fill(&r, t->residual, N * APART);
    dense_fill(&r, t->dy, OUT);
    dense_fill(&r, t->dresidual, N * APART);
}

static struct attend_args args_of(uint32_t parts, bool add, const struct dropout_mask *mask)
{
    return (struct attend_args){.first = 4,
                                .count = N,
                                .fields = FIELDS,
                                .heads = HEADS,
                                .width = WIDTH,
                                .parts = parts,
                                .mask = mask,
                                .ldresidual = APART,
                                .lddresidual = APART,
                                .add = add};
}

/* Runs forward and backward on the backend. rate: that of the dropout. */
static void attended_run(struct attended *t, uint32_t parts, bool add, double rate)
{
    struct dense_device d;
    uint32_t key[2] = {12345, 67890};
    dense_device_open(&d);
    struct dropout_mask mask = {dense_up(&d, key, sizeof key), (uint32_t)(rate * 0x1p24),
                                (float)(1 / (1 - rate)), NULL, NULL};
    struct attend_args a = args_of(parts, add, &mask);
    a.x = dense_up(&d, t->x, sizeof t->x);
    a.residual = parts == 3 ? dense_up(&d, t->residual, sizeof t->residual) : NULL;
    a.y = dense_up(&d, NULL, sizeof t->y);
    a.share = dense_up(&d, NULL, sizeof t->share);
    a.work = dense_up(&d, NULL, sizeof t->work);
    a.dy = dense_up(&d, t->dy, sizeof t->dy);
    a.dx = dense_up(&d, NULL, sizeof t->dx);
    a.dresidual = parts == 3 ? dense_up(&d, t->dresidual, sizeof t->dresidual) : NULL;
    d.k->attention.attend_forward(d.s, &a);
    d.k->attention.attend_backward(d.s, &a);
    dense_down(&d, a.y, t->y, sizeof t->y);
    dense_down(&d, a.dx, t->dx, sizeof t->dx);
    if (parts == 3)
        dense_down(&d, a.dresidual, t->dresidual, sizeof t->dresidual);
    dense_device_close(&d);
}

/* Returns where map `part` (query, key, value, residual) of a field begins. */
static uint32_t map_at(uint32_t example, uint32_t field, uint32_t parts, uint32_t part)
{
    return (example * FIELDS + field) * parts * WIDTH + part * WIDTH;
}

START_TEST(equal_keys_have_equal_shares)
{
    static struct attended t;
    attended_draw(&t);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t f = 1; f < FIELDS; f++)
            memcpy(t.x + map_at(i, f, 4, 1), t.x + map_at(i, 0, 4, 1), WIDTH * sizeof(float));
    attended_run(&t, 4, false, 0);
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t j = 0; j < WIDTH; j++) {
            double mean = 0;
            for (uint32_t f = 0; f < FIELDS; f++)
                mean += (double)t.x[map_at(i, f, 4, 2) + j] / FIELDS;
            for (uint32_t f = 0; f < FIELDS; f++)
                ck_assert_double_eq_tol((double)t.y[(i * FIELDS + f) * WIDTH + j],
                                        mean + (double)t.x[map_at(i, f, 4, 3) + j], 1e-6);
        }
}
END_TEST

/* A key that matches the query far better than all others gets the whole share: e^x must not
 * overflow. */
START_TEST(large_score_takes_all)
{
    static struct attended t;
    attended_draw(&t);
    for (uint32_t h = 0; h < HEADS; h++) {
        t.x[map_at(1, 2, 4, 0) + h * PART] = 1e4f;
        t.x[map_at(1, 17, 4, 1) + h * PART] = 1e4f;
    }
    attended_run(&t, 4, false, 0);
    for (uint32_t j = 0; j < WIDTH; j++)
        ck_assert_float_eq_tol(t.y[(FIELDS + 2) * WIDTH + j],
                               t.x[map_at(1, 17, 4, 2) + j] + t.x[map_at(1, 2, 4, 3) + j], 1e-5f);
    for (uint32_t i = 0; i < MAPS; i++)
        ck_assert(isfinite(t.dx[i]));
}
END_TEST

/* Returns where the residual of field i, counted over the examples, begins. */
static uint32_t apart(uint32_t i)
{
    return i / FIELDS * APART + i % FIELDS * WIDTH;
}

START_TEST(residual_may_come_from_elsewhere)
{
    static struct attended four, three, begun;
    attended_draw(&four);
    attended_draw(&three);
    attended_draw(&begun);
    for (uint32_t i = 0; i < N * FIELDS; i++) {
        memcpy(three.x + i * 3 * WIDTH, four.x + i * ROW, 3 * WIDTH * sizeof(float));
        memcpy(three.residual + apart(i), four.x + i * ROW + 3 * WIDTH, WIDTH * sizeof(float));
    }
    attended_run(&four, 4, false, 0);
    attended_run(&three, 3, _i == 1, 0);
    ck_assert_mem_eq(four.y, three.y, sizeof four.y);
    for (uint32_t i = 0; i < N * FIELDS; i++)
        for (uint32_t j = 0; j < WIDTH; j++) {
            float was = _i == 1 ? begun.dresidual[apart(i) + j] : 0.0f;
            ck_assert_float_eq(three.dresidual[apart(i) + j],
                               was + four.dx[i * ROW + 3 * WIDTH + j]);
            ck_assert_float_eq(three.dx[i * 3 * WIDTH + j], four.dx[i * ROW + j]);
        }
    for (uint32_t e = 0; e < N; e++) /* the gap must be unchanged */
        for (uint32_t j = FIELDS * WIDTH; j < APART; j++)
            ck_assert_float_eq(three.dresidual[e * APART + j], begun.dresidual[e * APART + j]);
}
END_TEST

START_TEST(what_is_not_a_number_stays_in_its_head)
{
    static struct attended t;
    attended_draw(&t);
    t.x[map_at(2, 3, 4, 1) + PART] = NAN; /* a key of head 1: every query uses it */
    attended_run(&t, 4, false, 0.5);
    for (uint32_t i = 0; i < OUT; i++)
        ck_assert_int_eq(isnan(t.y[i]), i / (FIELDS * WIDTH) == 2 && i % WIDTH / PART == 1);
}
END_TEST

/* With values of 1 and no residual y is the sum of the kept shares, scaled: 1 on average. */
START_TEST(dropout_keeps_the_mean)
{
    static struct attended t;
    double sum = 0, dropped = 0;
    attended_draw(&t);
    for (uint32_t i = 0; i < N * FIELDS; i++)
        for (uint32_t j = 0; j < WIDTH; j++) {
            t.x[i * ROW + 2 * WIDTH + j] = 1.0f;
            t.x[i * ROW + 3 * WIDTH + j] = 0.0f;
        }
    attended_run(&t, 4, false, 0.25);
    for (uint32_t i = 0; i < OUT; i += PART) {
        sum += (double)t.y[i] / (OUT / PART);
        dropped += (t.y[i] < 1.0f) / (double)(OUT / PART);
    }
    ck_assert_double_eq_tol(sum, 1.0, 0.03);
    ck_assert_double_gt(dropped, 0.2); /* it differs between queries */
}
END_TEST

START_TEST(every_width_gives_the_same_bits)
{
    static struct attended of[DENSE_WIDTHS];
    uint32_t key[2] = {12345, 67890};
    struct dropout_mask mask = {key, 1 << 22, 4.0f / 3, NULL, NULL};
    for (int w = 0; w < DENSE_WIDTHS; w++) {
        const struct backend_ops *k = dense_width(w);
        struct attend_args a = args_of(_i == 0 ? 4 : 3, true, &mask);
        struct attended *t = &of[w];
        if (k == NULL)
            continue;
        attended_draw(t);
        a.x = t->x;
        a.residual = _i == 0 ? NULL : t->residual;
        a.y = t->y;
        a.share = t->share;
        a.work = t->work;
        a.dy = t->dy;
        a.dx = t->dx;
        a.dresidual = _i == 0 ? NULL : t->dresidual;
        k->attention.attend_forward(NULL, &a);
        k->attention.attend_backward(NULL, &a);
        ck_assert_msg(memcmp(t->y, of[0].y, sizeof t->y) == 0, "forward, %s", dense_width_name[w]);
        ck_assert_msg(memcmp(t->dx, of[0].dx, sizeof t->dx) == 0, "backward, %s",
                      dense_width_name[w]);
        ck_assert_msg(memcmp(t->dresidual, of[0].dresidual, sizeof t->dresidual) == 0,
                      "residual, %s", dense_width_name[w]);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");
    tcase_add_test(t, equal_keys_have_equal_shares);
    tcase_add_test(t, large_score_takes_all);
    tcase_add_loop_test(t, residual_may_come_from_elsewhere, 0, 2);
    tcase_add_test(t, what_is_not_a_number_stays_in_its_head);
    tcase_add_test(t, dropout_keeps_the_mean);
    tcase_add_loop_test(t, every_width_gives_the_same_bits, 0, 2);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
