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
    d.k->mix.share(d.s, &a);
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

/* ---- packed rows ----------------------------------------------------------------------------- */

/* More examples than a chunk of the device's kernels has. */
enum { MANY = 150 };

/* Shares of 2 tasks' gates over 3 shared experts and 2 own ones, and of a gate over all 7. */
enum { TASKS = 2, SHARED = 3, OWN = 2, CHOICES = SHARED + OWN, EXPERTS = SHARED + TASKS * OWN };

struct chosen {
    float share[MANY * TASKS * CHOICES], all[MANY * EXPERTS];
    bool by[MANY][EXPERTS]; /* what must come out */
    uint32_t rows[MANY * 3 * EXPERTS];
    uint64_t load[EXPERTS];
};

/* Draws shares of which one in four is not zero. No gate chooses expert 1; one share of expert 2 is
 * not a number. */
static void chosen_draw(struct chosen *c, uint32_t count, bool with_all)
{
    struct rng r = rng_of(8, count, with_all);
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t at = 0; at < TASKS * CHOICES; at++) {
            uint32_t e = at % CHOICES, block = e < SHARED ? e : e + at / CHOICES * OWN;
            if (e == 1 || rng_below(&r, 4) > 0)
                continue;
            c->share[i * TASKS * CHOICES + at] = e == 2 && i == 0 ? NAN : 0.25f;
            c->by[i][block] = true;
        }
        for (uint32_t e = 0; e < EXPERTS && with_all; e++)
            if (e != 1 && rng_below(&r, 4) == 0) {
                c->all[i * EXPERTS + e] = 0.5f;
                c->by[i][e] = true;
            }
    }
}

static void chosen_run(struct chosen *c, uint32_t count, bool with_all, uint32_t live)
{
    struct dense_device d;
    dense_device_open(&d);
    uint32_t *rows = dense_up(&d, c->rows, sizeof c->rows);
    struct mix_choose_args a = {.tasks = TASKS,
                                .shared = SHARED,
                                .own = OWN,
                                .share = dense_up(&d, c->share, sizeof c->share),
                                .rows = mix_rows_of(rows, count, EXPERTS),
                                .load = dense_up(&d, c->load, sizeof c->load)};
    uint64_t *load = a.load;
    if (with_all)
        a.all = dense_up(&d, c->all, sizeof c->all);
    if (live < count)
        a.live = dense_up(&d, &live, sizeof live);
    d.k->mix.choose(d.s, &a);
    d.k->mix.choose(d.s, &a); /* the loads are added up, the rows are not */
    dense_down(&d, rows, c->rows, sizeof c->rows);
    dense_down(&d, load, c->load, sizeof c->load);
    dense_device_close(&d);
}

static const uint32_t counts[] = {1, 2, 64, 65, MANY};

START_TEST(rows_are_the_examples_that_chose)
{
    static struct chosen c;
    uint32_t count = counts[_i / 2];
    bool with_all = _i % 2;
    chosen_draw(&c, count, with_all);
    chosen_run(&c, count, with_all, count);
    struct mix_rows r = mix_rows_of(c.rows, count, EXPERTS);
    for (uint32_t e = 0; e < EXPERTS; e++) {
        uint32_t load = 0;
        for (uint32_t i = 0; i < count; i++) {
            ck_assert_uint_eq(r.place[i * EXPERTS + e], c.by[i][e] ? load : MIX_NOWHERE);
            if (c.by[i][e])
                ck_assert_uint_eq(r.row[e * count + load++], i);
        }
        ck_assert_uint_eq(r.load[e], load);
        ck_assert_uint_eq(c.load[e], 2 * load);
    }
    ck_assert_uint_eq(r.load[1], 0);
}
END_TEST

/* Copies that fill a device's batch up choose no expert. */
START_TEST(rows_leave_out_what_fills_the_batch_up)
{
    static struct chosen c, fewer;
    chosen_draw(&c, MANY, true);
    fewer = c;
    chosen_run(&c, MANY, true, 70);
    chosen_run(&fewer, 70, true, 70);
    struct mix_rows r = mix_rows_of(c.rows, MANY, EXPERTS),
                    f = mix_rows_of(fewer.rows, 70, EXPERTS);
    ck_assert_mem_eq(c.load, fewer.load, sizeof c.load);
    ck_assert_mem_eq(r.place, f.place, 70 * EXPERTS * sizeof *r.place);
    for (uint32_t i = 70; i < MANY; i++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            ck_assert_uint_eq(r.place[i * EXPERTS + e], MIX_NOWHERE);
}
END_TEST

/* Moves each expert's rows of x, (N, experts * width), to where `r` has them, or back. Rows behind
 * the last are NAN: not to be read. */
static void rows_pack(const struct mix *m, const struct mix_rows *r, const float *x, float *packed)
{
    for (size_t i = 0; i < (size_t)N * experts(m) * m->width; i++)
        packed[i] = NAN;
    for (uint32_t i = 0; i < N; i++)
        for (uint32_t e = 0; e < experts(m); e++) {
            uint32_t row = r->place[i * experts(m) + e];
            if (row != MIX_NOWHERE)
                memcpy(packed + ((size_t)row * experts(m) + e) * m->width,
                       x + ((size_t)i * experts(m) + e) * m->width, m->width * sizeof *x);
        }
}

/* Runs a mixture over packed rows; dx is unpacked, and rows of no example are 0 in it. */
static void mix_run_packed(struct mix *m)
{
    static float x[FLOATS], dx[FLOATS];
    struct dense_device d;
    struct mix_args a = args_of(m);
    uint32_t rows[3 * N * 128];
    uint64_t load[128] = {0};
    float *y, *device_dx, *dgate;
    dense_device_open(&d);
    a.gate = dense_up(&d, m->gate, sizeof m->gate);
    a.share = dense_up(&d, m->share, sizeof m->share);
    uint32_t *device_rows = dense_up(&d, NULL, sizeof rows);
    a.rows = mix_rows_of(device_rows, N, experts(m));
    struct mix_choose_args choose = {.tasks = m->tasks,
                                     .shared = m->shared,
                                     .own = m->own,
                                     .share = a.share,
                                     .rows = a.rows,
                                     .load = dense_up(&d, load, sizeof load)};
    d.k->mix.share(d.s, &a);
    d.k->mix.choose(d.s, &choose);
    dense_down(&d, device_rows, rows, sizeof rows);
    struct mix_rows r = mix_rows_of(rows, N, experts(m));
    rows_pack(m, &r, m->x, x);
    a.x = dense_up(&d, x, sizeof x);
    a.y = y = dense_up(&d, m->y, sizeof m->y);
    a.dy = dense_up(&d, m->dy, sizeof m->dy);
    a.dx = device_dx = dense_up(&d, x, sizeof x); /* NAN behind the last rows */
    a.dgate = dgate = dense_up(&d, m->dgate, sizeof m->dgate);
    a.add_gate = true;
    d.k->mix.forward(d.s, &a);
    d.k->mix.backward(d.s, &a);
    dense_down(&d, y, m->y, sizeof m->y);
    dense_down(&d, device_dx, dx, sizeof dx);
    dense_down(&d, dgate, m->dgate, sizeof m->dgate);
    memset(m->dx, 0, sizeof m->dx);
    for (uint32_t e = 0; e < experts(m); e++)
        for (uint32_t row = 0; row < N; row++) {
            const float *from = dx + ((size_t)row * experts(m) + e) * m->width;
            if (row < r.load[e])
                memcpy(m->dx + ((size_t)r.row[e * N + row] * experts(m) + e) * m->width, from,
                       m->width * sizeof *from);
            else if (!d.k->host) /* products over all rows must find nothing there */
                for (uint32_t j = 0; j < m->width; j++)
                    ck_assert_float_eq(from[j], 0.0f);
        }
    dense_device_close(&d);
}

START_TEST(packed_rows_change_no_bit)
{
    static struct mix all, packed;
    uint32_t tasks = shapes[_i].tasks, shared = shapes[_i].shared;
    mix_draw(&all, tasks, shared, shapes[_i].own, shapes[_i].width, 2);
    if (choices(&all) <= 2)
        return;
    memset(all.dx, 0, sizeof all.dx); /* no gate chose: 0 either way */
    memset(all.share, 0, sizeof all.share);
    packed = all;
    struct mix before = all;
    mix_run(&all, true);
    mix_run_packed(&packed);
    ck_assert_mem_eq(packed.y, all.y, sizeof all.y);
    ck_assert_mem_eq(packed.dx, all.dx, sizeof all.dx);
    ck_assert_mem_eq(packed.dgate, all.dgate, sizeof all.dgate);
    ck_assert_mem_ne(before.dgate, all.dgate, sizeof all.dgate);
}
END_TEST

/* Gathers the rows of one expert and scatters their gradient. */
START_TEST(rows_are_gathered_and_scattered)
{
    enum { WIDTH = 21, LD = 24, EXPERT = 4 };
    static struct chosen c;
    static float x[MANY * LD], y[MANY * LD], dx[MANY * LD], to[MANY * LD];
    uint32_t count = counts[_i / 2];
    bool add = _i % 2;
    struct rng g = rng_of(3, count, add);
    struct dense_device d;
    dense_fill(&g, x, MANY * LD);
    dense_fill(&g, dx, MANY * LD);
    dense_fill(&g, y, MANY * LD);
    memcpy(to, dx, sizeof to);
    chosen_draw(&c, count, true);
    chosen_run(&c, count, true, count);
    struct mix_rows r = mix_rows_of(c.rows, count, EXPERTS);
    dense_device_open(&d);
    float *device_y = dense_up(&d, y, sizeof y), *device_dx = dense_up(&d, dx, sizeof dx);
    struct mix_gather_args a = {
        .expert = EXPERT,
        .count = d.k->host ? r.load[EXPERT] : count,
        .width = WIDTH,
        .rows = mix_rows_of(dense_up(&d, c.rows, sizeof c.rows), count, EXPERTS),
        .x = dense_up(&d, x, sizeof x),
        .ldx = LD,
        .y = device_y,
        .ldy = LD,
        .dy = device_y,
        .lddy = LD,
        .dx = device_dx,
        .lddx = LD,
        .add = add};
    d.k->mix.gather(d.s, &a);
    d.k->mix.scatter(d.s, &a); /* the gradient of the gathered rows is these rows */
    dense_down(&d, device_y, y, sizeof y);
    dense_down(&d, device_dx, to, sizeof to);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t j = 0; j < LD; j++) {
            float was = add || j >= WIDTH ? dx[i * LD + j] : 0.0f;
            bool of = c.by[i][EXPERT] && j < WIDTH;
            ck_assert_float_eq(to[i * LD + j], was + (of ? x[i * LD + j] : 0.0f));
        }
    for (uint32_t i = 0; i < a.count; i++)
        for (uint32_t j = 0; j < WIDTH; j++)
            ck_assert_float_eq(y[i * LD + j],
                               i < r.load[EXPERT] ? x[r.row[EXPERT * count + i] * LD + j] : 0.0f);
    dense_device_close(&d);
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
        k->mix.share(NULL, &a);
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
    tcase_add_loop_test(t, rows_are_the_examples_that_chose, 0, 10);
    tcase_add_test(t, rows_leave_out_what_fills_the_batch_up);
    tcase_add_loop_test(t, packed_rows_change_no_bit, 0, sizeof shapes / sizeof shapes[0]);
    tcase_add_loop_test(t, rows_are_gathered_and_scattered, 0, 10);
    tcase_add_test(t, mix_gives_the_same_bits_each_time);
    tcase_add_loop_test(t, mix_gives_the_same_bits_at_every_width, 0, 2);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
