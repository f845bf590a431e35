/* test_plan.c: the places of gradients (dense/layer/plan_settle.c): random plans of linear layers,
 * activations, norms, heads, products and pairs over shared, overlapping and unread views agree
 * with finite differences; and the expected results of single plans. */
#include "dense/layer/lower.h"
#include "dense/model/models.h"
#include "dense/model/run.h"
#include "tests/lib/dense_check.h"
#include "tests/lib/dense_double.h"

#include <inttypes.h>
#include <signal.h>
#include <string.h>

/* ---- random plans ---------------------------------------------------------------------------- */

static struct rng draws;

static uint32_t below(uint32_t n)
{
    return (uint32_t)rng_below(&draws, n);
}

/* Views that later layers may read. */
struct views {
    struct view at[64];
    uint32_t count;
};

static void offer(struct views *v, struct view one)
{
    if (v->count < 64)
        v->at[v->count++] = one;
}

/* Returns all of a view, or some of its columns. */
static struct view any(const struct views *v)
{
    struct view whole = v->at[below(v->count)];
    uint32_t at = below(2) ? below(whole.width) : 0,
             width = below(2) ? 1 + below(whole.width - at) : whole.width - at;
    return plan_columns(whole, at, width);
}

/* Without relu, whose corner the double reference may pass on the other side. */
static enum activation any_act(void)
{
    static const enum activation acts[] = {ACT_TANH, ACT_SIGMOID, ACT_NONE};
    return acts[below(3)];
}

static enum norm_kind any_norm(const struct plan *p)
{
    return p->by_batch && below(3) == 0 ? NORM_BATCH : below(6) == 0 ? NORM_LAYER : NORM_NONE;
}

/* plain: without activation and dropout, which then work in place. */
static struct view random_linear(struct plan *p, const struct views *v, uint32_t width, bool plain,
                                 struct view y)
{
    double dropout = !plain && below(3) == 0 ? 0.3 : 0.0;
    return plan_linear(p, any(v), width, plain ? ACT_NONE : any_act(), dropout, any_norm(p), y);
}

/* Several layers write columns of one tensor, the last ones first or the first ones first. */
static struct view random_concat(struct plan *p, const struct views *v, bool plain)
{
    uint32_t parts = 2 + below(2), widths[3], total = 0;
    bool backwards = below(2);
    for (uint32_t i = 0; i < parts; i++)
        total += widths[i] = 1 + below(4);
    struct view all = plan_tensor(p, total);
    for (uint32_t i = 0, done = 0; i < parts; i++) {
        uint32_t at = backwards ? total - done - widths[i] : done;
        random_linear(p, v, widths[i], plain, plan_columns(all, at, widths[i]));
        done += widths[i];
    }
    return all;
}

/* Activates in place some columns that no layer has read yet. */
static void random_in_place(struct plan *p, struct view fresh)
{
    struct views one = {{fresh}, 1};
    struct view v = any(&one);
    struct layer *l = plan_layer(p, &layer_act, v, v);
    l->act = any_act();
    l->dropout = below(2) ? 0.2 : 0.0;
}

/* y = x * z element by element: a layer with two inputs, which may be the same. For backends in
 * host memory. */
static void product_forward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        for (uint32_t j = 0; j < l->y.width; j++)
            pass_at(p, l->y, i)[j] = pass_at(p, l->x, i)[j] * pass_at(p, l->z, i)[j];
}

/* Gradient of one input: dy times the other. By convention that of z comes first. */
static void product_back(const struct layer *l, struct pass *p, uint32_t i, struct view to,
                         struct view other, bool add)
{
    for (uint32_t j = 0; j < pass_wanted(p, to); j++) {
        float *at = pass_gradient_at(p, to, i) + j,
              d = pass_gradient_at(p, l->y, i)[j] * pass_at(p, other, i)[j];
        *at = add ? *at + d : d;
    }
}

static void product_backward(const struct layer *l, struct pass *p, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++) {
        product_back(l, p, i, l->z, l->x, l->add_z);
        product_back(l, p, i, l->x, l->z, l->add);
    }
}

static void product_lower(const struct layer *l, struct lower *w)
{
    uint32_t x = lower_read(w, l->x), z = lower_read(w, l->z);
    lower_write(w, l->y, graph_binary(lower_graph(w), "Mul", x, z));
}

static const struct layer_ops product_layer = {.name = "product",
                                               .forward = product_forward,
                                               .backward = product_backward,
                                               .lower = product_lower};

static void product_double(const struct layer *l, struct double_pass *p)
{
    for (uint32_t i = 0; i < p->c->in.examples; i++)
        for (uint32_t j = 0; j < l->y.width; j++)
            double_at(p, l->y, i)[j] = double_at(p, l->x, i)[j] * double_at(p, l->z, i)[j];
}

static const struct double_layer product_table[] = {{&product_layer, product_double}, {NULL, NULL}};

static struct view random_product(struct plan *p, const struct views *v)
{
    struct view x = any(v), z = any(v);
    uint32_t width = x.width < z.width ? x.width : z.width;
    struct view y = plan_tensor(p, width);
    plan_layer(p, &product_layer, plan_columns(x, below(x.width - width + 1), width), y)->z =
        plan_columns(z, below(z.width - width + 1), width);
    return y;
}

/* A tensor that only a norm reads, written by a layer that is not linear. */
static struct view random_norm(struct plan *p, const struct views *v)
{
    struct view x = random_concat(p, v, false), y = plan_tensor(p, x.width);
    plan_batch_norm(p, x, y);
    return y;
}

static void random_step(struct plan *p, struct views *v, bool host)
{
    struct view fresh;
    bool in_place = below(3) == 0;
    switch (below(7)) {
    case 0:
    case 1:
        fresh = random_linear(p, v, 1 + below(6), in_place, VIEW_NONE);
        break;
    case 2:
    case 3:
        fresh = random_concat(p, v, in_place);
        break;
    case 4:
        fresh = p->by_batch ? random_norm(p, v) : random_concat(p, v, in_place);
        break;
    case 5:
        plan_head(p, any(v), below(p->tasks));
        return;
    default:
        if (!host)
            return;
        fresh = random_product(p, v);
    }
    if (in_place)
        random_in_place(p, fresh);
    offer(v, fresh);
}

static bool on_host;

static void random_plan(struct plan *p)
{
    struct views v = {.count = 0};
    uint32_t extra = below(2) ? below(4) : 0, steps = 1 + below(9);
    struct view input = plan_input(p, below(2), extra), vectors = plan_vectors(p, input);
    if (below(2))
        plan_pairs(p, vectors);
    if (extra > 0) { /* columns of the input that a layer fills, like the bottom network of DLRM */
        struct views from = {{vectors, {TENSOR_NUMERIC, 0, p->shape.numerics}},
                             p->shape.numerics > 0 ? 2 : 1};
        random_linear(p, &from, extra, false, plan_columns(input, input.width - extra, extra));
    }
    offer(&v, input);
    if (p->shape.numerics > 0)
        offer(&v, (struct view){TENSOR_NUMERIC, 0, p->shape.numerics});
    for (uint32_t i = 0; i < steps; i++)
        random_step(p, &v, on_host);
    /* the last one certainly has a gradient; others may have none */
    plan_head(p, v.at[v.count - 1], below(p->tasks));
}

static void random_case(struct dense_case *c, uint64_t seed, enum precision precision)
{
    static struct plan_kind kind;
    draws = rng_of(seed, 77, 0);
    dense_double_add(product_table);
    dense_case_job(c, MODEL_DEEPFM);
    kind = (struct plan_kind){.name = "random",
                              .build = random_plan,
                              .vectors = true,
                              .network = true,
                              .multi = true,
                              .first_order = below(2)};
    c->kind = &kind;
    on_host = backend_ops_of(dense_backend())->host ||
              strcmp(backend_name(dense_backend()), "cudahost") == 0;
    c->job.train.precision = precision;
    c->job.model.norm = below(2) ? NORM_BATCH : NORM_NONE;
    c->job.model.l2_dense = below(2) ? 0.01 : 0.0;
    c->table.dim = 1 + below(4);
    c->shape.numerics = below(3);
    c->shape.tasks = 1 + below(2);
    c->job.model.task_weight[1] = 0.5;
    c->range = below(2) ? 4 : 0;
    c->weighted = below(2);
    dense_case_batch(c, 6 + below(8), 7, below(2));
}

enum { PLANS = 400, BATCHES = 20 };

/* The gap behind a tensor's columns is zero, also after a step: products read it (pass_padded). */
static void gaps_check(const struct dense_case *c, uint64_t seed)
{
    const struct model_run *r = c->run;
    for (uint32_t t = TENSOR_FIRST_FREE; t < c->plan.tensor_count; t++) {
        const struct tensor *of = &c->plan.tensor[t];
        size_t rows = of->state ? 0 : of->whole ? r->max_examples : r->range;
        float *all = malloc((rows * of->ld + 1) * sizeof *all);
        ck_assert_uint_ge(of->ld, of->width);
        ck_assert(of->packed || of->ld % TENSOR_ROUND == 0);
        c->model->k->download(r->site[0].stream, all, r->data[t], rows * of->ld * sizeof *all);
        ck_assert_int_eq(c->model->k->stream_finish(r->site[0].stream, NULL), 0);
        for (size_t i = 0; i < rows * of->ld; i++)
            ck_assert_msg(i % of->ld < of->width || all[i] == 0.0f,
                          "plan of seed %" PRIu64 ": tensor %u", seed, t);
        free(all);
    }
}

START_TEST(random_plan_has_the_gradients_of_its_loss)
{
    for (uint64_t seed = (uint64_t)_i * (PLANS / BATCHES);
         seed < (uint64_t)(_i + 1) * (PLANS / BATCHES); seed++) {
        struct dense_case c;
        char where[128];
        random_case(&c, seed, PRECISION_FP32);
        double worst = dense_double_worst(&c, where);
        /* A norm after a norm enlarges rounding errors; a missing gradient is far larger. */
        ck_assert_msg(worst < 2e-4, "plan of seed %" PRIu64 ": %g off: %s", seed, worst, where);
        gaps_check(&c, seed);
        dense_case_free(&c);
    }
}
END_TEST

/* 16-bit operands are kept from one op of a section to the next (dense/cuda/product.c): an outdated
 * one would give a clear difference. */
START_TEST(random_plan_in_16_bits_has_nearly_the_gradients_of_its_loss)
{
    for (uint64_t seed = (uint64_t)_i * (PLANS / BATCHES);
         seed < (uint64_t)(_i + 1) * (PLANS / BATCHES); seed++) {
        struct dense_case c;
        char where[128];
        random_case(&c, seed, PRECISION_BF16);
        double worst = c.job.model.norm == NORM_NONE ? dense_double_worst(&c, where) : 0.0;
        ck_assert_msg(worst < 0.05, "plan of seed %" PRIu64 ": %g off: %s", seed, worst, where);
        dense_case_free(&c);
    }
}
END_TEST

/* ---- single plans ---------------------------------------------------------------------------- */

static const struct layer *layer_named(const struct plan *p, const char *name, uint32_t which)
{
    for (uint32_t i = 0; i < p->layer_count; i++)
        if (strcmp(p->layer[i].ops->name, name) == 0 && which-- == 0)
            return &p->layer[i];
    ck_abort();
}

static void built(struct dense_case *c, struct plan *p, void (*build)(struct plan *p))
{
    struct plan_kind kind = {
        .name = "made by hand", .build = build, .vectors = true, .network = true};
    struct err e = {0};
    ck_assert_msg(plan_build_kind(&c->job, &c->shape, &kind, p, &e) == 0, "%s", e.text);
}

START_TEST(deepfm_sets_in_the_network_and_adds_in_the_pairs)
{
    static struct plan p;
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    ck_assert_int_eq(models_plan(&c.job, &c.shape, &p, NULL), 0);
    const struct layer *fm = layer_named(&p, "fm", 0), *fc = layer_named(&p, "fc", 0);
    const struct tensor *input = &p.tensor[fc->x.tensor];
    ck_assert(fm->add && !fc->add && !input->zero);
    ck_assert_uint_eq(input->width, 3 * 3 + 2);
    ck_assert_uint_eq(input->wanted, 3 * 3);
    ck_assert_uint_eq(p.tensor[input->gradient].width, 3 * 3);
    ck_assert_uint_eq(fm->x.tensor, fc->x.tensor);
}
END_TEST

/* The gradients of a long network use two buffers in turn. */
START_TEST(network_uses_the_buffers_of_its_gradients_again)
{
    static struct plan p;
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    c.job.model.hidden = (struct widths){.at = {6, 6, 6, 6, 6, 6}, .count = 6};
    ck_assert_int_eq(models_plan(&c.job, &c.shape, &p, NULL), 0);
    uint32_t last = TENSOR_NONE;
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t gradient = p.tensor[layer_named(&p, "fc", i)->y.tensor].gradient;
        ck_assert_uint_ne(gradient, last);
        last = gradient;
    }
    ck_assert_uint_eq(p.tensor[layer_named(&p, "fc", 0)->y.tensor].gradient,
                      p.tensor[layer_named(&p, "fc", 4)->y.tensor].gradient);
}
END_TEST

static void unread(struct plan *p)
{
    struct view x = plan_input(p, false, 0),
                y = plan_linear(p, x, 4, ACT_TANH, 0.0, NORM_NONE, VIEW_NONE);
    plan_head(p, plan_columns(y, 1, 2), 0);
}

START_TEST(gradient_that_readers_do_not_cover_is_zeroed)
{
    static struct plan p;
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    built(&c, &p, unread);
    const struct layer *fc = layer_named(&p, "fc", 0), *head = layer_named(&p, "head", 0);
    ck_assert(p.tensor[fc->y.tensor].zero && head->add);
    ck_assert(!p.tensor[fc->x.tensor].zero && !fc->add);
}
END_TEST

static void read_before(struct plan *p)
{
    struct view x = plan_linear(p, plan_input(p, false, 0), 4, ACT_NONE, 0.0, NORM_NONE, VIEW_NONE);
    plan_head(p, plan_columns(x, 0, 1), 0);
    plan_layer(p, &layer_act, x, x)->act = ACT_TANH;
    plan_head(p, x, 0);
}

static void activated_twice(struct plan *p)
{
    struct view x = plan_linear(p, plan_input(p, false, 0), 4, ACT_TANH, 0.0, NORM_NONE, VIEW_NONE);
    plan_layer(p, &layer_act, x, x)->act = ACT_TANH;
    plan_head(p, x, 0);
}

static void read_beside_a_norm(struct plan *p)
{
    struct view x = plan_linear(p, plan_input(p, false, 0), 4, ACT_NONE, 0.0, NORM_NONE, VIEW_NONE),
                y = plan_tensor(p, 4);
    plan_batch_norm(p, x, y);
    plan_head(p, x, 0);
    plan_head(p, y, 0);
}

START_TEST(working_in_place_on_what_others_need_is_a_bug)
{
    static struct plan p;
    struct dense_case c;
    dense_case_job(&c, MODEL_DEEPFM);
    static void (*const plans[])(struct plan * p) = {read_before, activated_twice,
                                                     read_beside_a_norm};
    built(&c, &p, plans[_i]);
}
END_TEST

static void endless(struct plan *p)
{
    struct view x = plan_input(p, false, 0);
    for (uint32_t i = 0; i < PLAN_LAYERS_MAX; i++)
        x = plan_linear(p, x, 2, ACT_TANH, 0.0, NORM_NONE, VIEW_NONE);
    plan_head(p, x, 0);
}

START_TEST(plan_of_too_many_layers_is_refused)
{
    static struct plan p;
    struct dense_case c;
    struct err e = {0};
    const struct plan_kind kind = {
        .name = "endless", .build = endless, .vectors = true, .network = true};
    dense_case_job(&c, MODEL_DEEPFM);
    ck_assert_int_eq(plan_build_kind(&c.job, &c.shape, &kind, &p, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "endless"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_set_timeout(t, 100);
    tcase_add_loop_test(t, random_plan_has_the_gradients_of_its_loss, 0, BATCHES);
    tcase_add_loop_test(t, random_plan_in_16_bits_has_nearly_the_gradients_of_its_loss, 0, BATCHES);
    tcase_add_test(t, deepfm_sets_in_the_network_and_adds_in_the_pairs);
    tcase_add_test(t, network_uses_the_buffers_of_its_gradients_again);
    tcase_add_test(t, gradient_that_readers_do_not_cover_is_zeroed);
    tcase_add_loop_test_raise_signal(t, working_in_place_on_what_others_need_is_a_bug, SIGABRT, 0,
                                     3);
    tcase_add_test(t, plan_of_too_many_layers_is_refused);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
