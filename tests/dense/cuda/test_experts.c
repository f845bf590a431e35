/* test_experts.c: experts that compute only the examples that chose them (model.top_k), on a
 * device: products of fewer rows, and what the CPU learns. */
#include "tests/lib/cuda_case.h"

#include "dense/model.h"

#include <inttypes.h>
#include <stdio.h>

enum { MOST = 2048, ROWS = 300, SHARED = 6, OWN = 2, TASKS = 2 };

static void case_open(struct dense_case *c, struct backend *backend, uint32_t top_k)
{
    dense_case_job(c, MODEL_PLE);
    c->backend = backend;
    c->shape.tasks = c->job.data.label_count = TASKS;
    c->job.model.hidden = (struct widths){.at = {48, 32}, .count = 2};
    c->job.model.experts = SHARED;
    c->job.model.own_experts = OWN;
    c->job.model.levels = 2;
    c->job.model.top_k = top_k;
    c->job.model.dropout = 0.1;
    dense_case_batch(c, MOST, ROWS, true);
}

/* Multiplications of a step that is queued. */
static uint64_t multiplications(uint32_t top_k)
{
    struct dense_case c;
    case_open(&c, cuda_backend(), top_k);
    uint64_t before = cuda_counted().multiplications;
    dense_case_train(&c, 1);
    uint64_t of_step = cuda_counted().multiplications - before;
    dense_case_free(&c);
    return of_step;
}

/* Each gate chooses 2 of 8 experts. */
START_TEST(chosen_experts_save_products)
{
    uint64_t all = multiplications(0), chosen = multiplications(2);
    printf("a step of two levels of %u experts and 2 of each of %u tasks: %.1f million "
           "multiplications, with top_k 2 %.1f: %.2f\n",
           SHARED, TASKS, (double)all * 1e-6, (double)chosen * 1e-6, (double)chosen / (double)all);
    ck_assert_uint_gt(chosen, 0);
    ck_assert_double_lt((double)chosen, 0.5 * (double)all);
}
END_TEST

static void examples_draw(struct dense_case *c, struct rng *r)
{
    c->in.examples = 1 + (uint32_t)rng_below(r, MOST);
    dense_fill(r, c->numeric, (size_t)c->in.examples * c->shape.numerics);
}

static void descend(float *x, const float *gradient, size_t count)
{
    for (size_t i = 0; i < count; i++)
        x[i] -= 0.1f * gradient[i];
}

/* Batches of many sizes, and experts with other examples in each: products have few shapes. */
START_TEST(chosen_experts_learn_with_the_cpu_at_every_size)
{
    enum { STEPS = 60 };
    struct dense_case of[2];
    struct cuda_counters before = cuda_counted(), middle = before;
    double apart = 0.0, moved = 0.0;
    case_open(&of[0], dense_backend_named("cpu"), 2);
    case_open(&of[1], cuda_backend(), 2);
    for (uint32_t step = 1; step <= STEPS; step++) {
        double loss[2];
        if (step == STEPS / 2)
            middle = cuda_counted();
        for (int i = 0; i < 2; i++) {
            struct rng r = rng_of(7, step, 1);
            examples_draw(&of[i], &r);
            dense_case_train(&of[i], step);
            descend(of[i].dense, of[i].out.dense_gradients, model_dense_floats(of[i].model));
            loss[i] = of[i].out.loss_sum / of[i].out.weight_sum;
        }
        for (uint32_t k = 0; k < model_loads(of[0].model); k++)
            moved += fabs((double)of[0].out.load[k] - (double)of[1].out.load[k]);
        apart = fmax(apart, fabs(loss[0] - loss[1]) / loss[0]);
    }
    struct cuda_counters after = cuda_counted();
    uint64_t first = middle.choices - before.choices, second = after.choices - middle.choices;
    printf("%u batches: %.1e from the CPU, %" PRIu64 " and then %" PRIu64 " choices of products\n",
           (unsigned)STEPS, apart, first, second);
    ck_assert_double_le(apart, 1e-4);
    /* a gate to which two experts are nearly alike chooses by the last bit of their products */
    ck_assert_double_le(moved, 8.0);
    ck_assert_uint_lt(second, first / 2);
    ck_assert_uint_eq(after.recordings, before.recordings);
    ck_assert_uint_eq(after.spoiled, before.spoiled);
    dense_case_free(&of[0]);
    dense_case_free(&of[1]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("experts");
    TCase *t = tcase_create("experts");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, chosen_experts_save_products);
    tcase_add_test(t, chosen_experts_learn_with_the_cpu_at_every_size);
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
