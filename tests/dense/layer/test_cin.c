/* test_cin.c: the kernels of the compressed interaction network against their formulas; the whole
 * network against finite differences, however its work space divides it; the same bits at every
 * vector width. */
#include "dense/layer/plan.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <string.h>

enum { N = 4, ROWS = 9, GAP = 2, MAPS_MAX = 40, FIELDS_MAX = 19, DIM_MAX = 18 };
enum { VECTORS_MAX = FIELDS_MAX * DIM_MAX + GAP, POOL_MAX = MAPS_MAX * DIM_MAX + GAP };

static const struct {
    uint32_t fields, maps, dim;
    bool add, add0;
} shapes[] = {{1, 1, 1, false, false},
              {3, 16, 4, true, false},
              {19, 5, 18, false, true},
              {10, 40, 16, true, true},
              {16, 17, 7, false, false}};
#define SHAPES ((int)(sizeof shapes / sizeof *shapes))

/* ---- outer products -------------------------------------------------------------------------- */

struct outer {
    float x[ROWS * MAPS_MAX], x0[ROWS * FIELDS_MAX], z[ROWS * MAPS_MAX * FIELDS_MAX],
        dz[ROWS * MAPS_MAX * FIELDS_MAX];
    float dx[ROWS * MAPS_MAX], dx0[ROWS * FIELDS_MAX];
};

static void outer_draw(struct outer *o, int shape)
{
    struct rng r = rng_of(23, (uint64_t)shape, 0);
    dense_fill(&r, (float *)o, sizeof *o / sizeof(float));
}

static struct cin_args cin_args_of(int shape)
{
    return (struct cin_args){.rows = ROWS,
                             .maps = shapes[shape].maps,
                             .fields = shapes[shape].fields,
                             .add = shapes[shape].add,
                             .add0 = shapes[shape].add0};
}

static void outer_run(struct outer *o, int shape)
{
    struct dense_device d;
    struct cin_args a = cin_args_of(shape);
    dense_device_open(&d);
    a.x = dense_up(&d, o->x, sizeof o->x);
    a.x0 = dense_up(&d, o->x0, sizeof o->x0);
    a.z = dense_up(&d, o->z, sizeof o->z);
    a.dz = dense_up(&d, o->dz, sizeof o->dz);
    a.dx = dense_up(&d, o->dx, sizeof o->dx);
    a.dx0 = dense_up(&d, o->dx0, sizeof o->dx0);
    d.k->interact.cin_outer(d.s, &a);
    d.k->interact.cin_outer_backward(d.s, &a);
    dense_down(&d, a.z, o->z, sizeof o->z);
    dense_down(&d, a.dx, o->dx, sizeof o->dx);
    dense_down(&d, a.dx0, o->dx0, sizeof o->dx0);
    dense_device_close(&d);
}

static double outer_worst(const struct outer *o, const struct outer *found, int shape)
{
    uint32_t maps = shapes[shape].maps, fields = shapes[shape].fields;
    double worst = 0;
    for (uint32_t r = 0; r < ROWS; r++) {
        const float *x = o->x + r * maps, *x0 = o->x0 + r * fields, *dz = o->dz + r * fields * maps;
        for (uint32_t f = 0; f < fields; f++) {
            double sum = shapes[shape].add0 ? (double)o->dx0[r * fields + f] : 0.0;
            for (uint32_t m = 0; m < maps; m++) {
                double z = (double)x0[f] * (double)x[m];
                worst =
                    fmax(worst, dense_check_worst(found->z + (r * fields + f) * maps + m, &z, 1));
                sum += (double)dz[f * maps + m] * (double)x[m];
            }
            worst = fmax(worst, dense_check_worst(found->dx0 + r * fields + f, &sum, 1));
        }
        for (uint32_t m = 0; m < maps; m++) {
            double sum = shapes[shape].add ? (double)o->dx[r * maps + m] : 0.0;
            for (uint32_t f = 0; f < fields; f++)
                sum += (double)dz[f * maps + m] * (double)x0[f];
            worst = fmax(worst, dense_check_worst(found->dx + r * maps + m, &sum, 1));
        }
    }
    return worst;
}

START_TEST(outer_products_and_their_gradient_are_the_formula)
{
    static struct outer o, found;
    outer_draw(&o, _i);
    found = o;
    outer_run(&found, _i);
    ck_assert_double_lt(outer_worst(&o, &found, _i), 1e-5);
}
END_TEST

START_TEST(outer_check_notices_maps_and_fields_in_each_other_s_place)
{
    static struct outer o, found;
    outer_draw(&o, 1);
    found = o;
    outer_run(&found, 1);
    float first = found.z[1];
    found.z[1] = found.z[shapes[1].maps];
    found.z[shapes[1].maps] = first;
    ck_assert_double_gt(outer_worst(&o, &found, 1), 1e-2);
}
END_TEST

/* The first layer's x is x0, so both gradients go to x0. */
START_TEST(outer_products_of_x0_with_itself_add_both_gradients)
{
    static struct outer o;
    struct dense_device d;
    struct cin_args a = {.rows = ROWS, .maps = 19, .fields = 19, .add = true, .add0 = false};
    float dx[ROWS * 19];
    outer_draw(&o, 2);
    dense_device_open(&d);
    a.x = a.x0 = dense_up(&d, o.x0, sizeof o.x0);
    a.dz = dense_up(&d, o.dz, sizeof o.dz);
    a.dx = a.dx0 = dense_up(&d, o.dx, sizeof dx);
    d.k->interact.cin_outer_backward(d.s, &a);
    dense_down(&d, a.dx, dx, sizeof dx);
    dense_device_close(&d);
    for (uint32_t r = 0; r < ROWS; r++)
        for (uint32_t f = 0; f < 19; f++) {
            double sum = 0;
            for (uint32_t m = 0; m < 19; m++)
                sum += ((double)o.dz[(r * 19 + f) * 19 + m] + (double)o.dz[(r * 19 + m) * 19 + f]) *
                       (double)o.x0[r * 19 + m];
            ck_assert_double_eq_tol((double)dx[r * 19 + f], sum, 1e-5);
        }
}
END_TEST

/* ---- turning and sums ------------------------------------------------------------------------ */

struct rest {
    float x[N * VECTORS_MAX], turned[N * VECTORS_MAX], back[N * VECTORS_MAX];
    float map[N * POOL_MAX], sum[N * (MAPS_MAX + GAP)], dmap[N * POOL_MAX];
};

static void rest_draw(struct rest *r, int shape)
{
    struct rng g = rng_of(24, (uint64_t)shape, 0);
    dense_fill(&g, (float *)r, sizeof *r / sizeof(float));
}

/* The kernels on arrays at the places that r gives: transposed, and added back; sums, and added
 * back. */
static void rest_kernels(const struct backend_ops *k, struct stream *s, int shape,
                         const struct rest *r, struct rest *to)
{
    uint32_t fields = shapes[shape].fields, maps = shapes[shape].maps, dim = shapes[shape].dim;
    uint32_t vectors = fields * dim + GAP, pooled = maps * dim + GAP;
    bool add = shapes[shape].add;
    k->interact.turn(s, N, fields, dim, r->x, vectors, false, to->turned, vectors);
    k->interact.turn(s, N, dim, fields, to->turned, vectors, add, to->back, vectors);
    k->interact.cin_pool(s, N, dim, maps, r->map, pooled, to->sum, maps + GAP);
    k->interact.cin_pool_backward(s, N, dim, maps, to->sum, maps + GAP, add, to->dmap, pooled);
}

static void rest_run(struct rest *r, int shape)
{
    struct dense_device d;
    dense_device_open(&d);
    struct rest *up = dense_up(&d, r, sizeof *r);
    rest_kernels(d.k, d.s, shape, up, up);
    dense_down(&d, up, r, sizeof *r);
    dense_device_close(&d);
}

START_TEST(vectors_turn_and_turn_back)
{
    static struct rest r, found;
    uint32_t fields = shapes[_i].fields, dim = shapes[_i].dim, ld = fields * dim + GAP;
    rest_draw(&r, _i);
    found = r;
    rest_run(&found, _i);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t f = 0; f < fields; f++)
            for (uint32_t n = 0; n < dim; n++) {
                float x = r.x[i * ld + f * dim + n],
                      was = shapes[_i].add ? r.back[i * ld + f * dim + n] : 0.0f;
                ck_assert_float_eq(found.turned[i * ld + n * fields + f], x);
                ck_assert_float_eq(found.back[i * ld + f * dim + n], was + x);
            }
        ck_assert_mem_eq(&found.turned[(i + 1) * ld - GAP], &r.turned[(i + 1) * ld - GAP],
                         GAP * sizeof(float));
        ck_assert_mem_eq(&found.back[(i + 1) * ld - GAP], &r.back[(i + 1) * ld - GAP],
                         GAP * sizeof(float));
    }
}
END_TEST

START_TEST(maps_are_summed_number_by_number)
{
    static struct rest r, found;
    uint32_t maps = shapes[_i].maps, dim = shapes[_i].dim, ld = maps * dim + GAP, ldy = maps + GAP;
    rest_draw(&r, _i);
    found = r;
    rest_run(&found, _i);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t m = 0; m < maps; m++) {
            double sum = 0;
            for (uint32_t n = 0; n < dim; n++)
                sum += (double)r.map[i * ld + n * maps + m];
            ck_assert_double_eq_tol((double)found.sum[i * ldy + m], sum, 1e-5);
            for (uint32_t n = 0; n < dim; n++) {
                float was = shapes[_i].add ? r.dmap[i * ld + n * maps + m] : 0.0f;
                ck_assert_float_eq(found.dmap[i * ld + n * maps + m], was + found.sum[i * ldy + m]);
            }
        }
        ck_assert_mem_eq(&found.sum[(i + 1) * ldy - GAP], &r.sum[(i + 1) * ldy - GAP],
                         GAP * sizeof(float));
        ck_assert_mem_eq(&found.dmap[(i + 1) * ld - GAP], &r.dmap[(i + 1) * ld - GAP],
                         GAP * sizeof(float));
    }
}
END_TEST

/* ---- bits ------------------------------------------------------------------------------------ */

static void width_run(int width, int shape, struct outer *o, struct rest *r)
{
    const struct backend_ops *k = dense_width(width);
    struct cin_args a = cin_args_of(shape);
    outer_draw(o, shape);
    rest_draw(r, shape);
    a.x = o->x;
    a.x0 = o->x0;
    a.z = o->z;
    a.dz = o->dz;
    a.dx = o->dx;
    a.dx0 = o->dx0;
    k->interact.cin_outer(NULL, &a);
    k->interact.cin_outer_backward(NULL, &a);
    rest_kernels(k, NULL, shape, r, r);
}

START_TEST(cin_has_the_same_bits_at_every_width)
{
    static struct outer base, other;
    static struct rest base_rest, other_rest;
    width_run(0, _i, &base, &base_rest);
    for (int w = 1; w < DENSE_WIDTHS && dense_width(w) != NULL; w++) {
        width_run(w, _i, &other, &other_rest);
        ck_assert_msg(memcmp(&base, &other, sizeof base) == 0, "%s", dense_width_name[w]);
        ck_assert_msg(memcmp(&base_rest, &other_rest, sizeof base_rest) == 0, "%s",
                      dense_width_name[w]);
    }
}
END_TEST

/* ---- the whole network ----------------------------------------------------------------------- */

static void plan_network_of_maps(struct plan *p)
{
    struct view x = plan_input(p, false, 0);
    plan_head(p, plan_cin(p, x, &p->job->model.cin), 0);
}

static void cin_case(struct dense_case *c, uint32_t batch)
{
    static const struct plan_kind kind = {
        .name = "cin", .build = plan_network_of_maps, .vectors = true};
    dense_case_job(c, MODEL_FM);
    c->kind = &kind;
    c->job.model.cin = (struct widths){.at = {4, 3, 5}, .count = 3};
    c->job.train.batch = batch;
}

START_TEST(cin_has_the_gradient_of_the_formula)
{
    /* work space for one example: several parts a range; for more than the range */
    static const uint32_t batch[] = {0, 1, 64};
    struct dense_case c;
    cin_case(&c, batch[_i]);
    dense_case_batch(&c, 7, 5, true);
    dense_double_check(&c, 1e-5);
    dense_case_free(&c);
}
END_TEST

START_TEST(cin_work_space_is_for_a_batch_or_bounded)
{
    struct dense_case c;
    for (int i = 0; i < 2; i++) {
        cin_case(&c, i == 0 ? 8 : 65536);
        c.job.model.cin.at[0] = 300;
        dense_case_batch(&c, 1, 1, false);
        const struct layer *l = &c.plan.layer[2];
        ck_assert_ptr_eq(l->ops, &layer_cin);
        ck_assert_uint_eq(c.plan.tensor[l->state[0]].width,
                          i == 0 ? 3 * 300 * 3 * 8 : CIN_WORK_FLOATS);
        dense_case_free(&c);
    }
    ck_assert_double_eq(layer_cin_row_floats(512, &(struct widths){.at = {16384, 8}, .count = 2}),
                        512.0 * 16384.0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cin");
    TCase *t = tcase_create("cin");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, outer_products_and_their_gradient_are_the_formula, 0, SHAPES);
    tcase_add_test(t, outer_check_notices_maps_and_fields_in_each_other_s_place);
    tcase_add_test(t, outer_products_of_x0_with_itself_add_both_gradients);
    tcase_add_loop_test(t, vectors_turn_and_turn_back, 0, SHAPES);
    tcase_add_loop_test(t, maps_are_summed_number_by_number, 0, SHAPES);
    tcase_add_loop_test(t, cin_has_the_same_bits_at_every_width, 0, SHAPES);
    tcase_add_loop_test(t, cin_has_the_gradient_of_the_formula, 0, 3);
    tcase_add_test(t, cin_work_space_is_for_a_batch_or_bounded);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
