/* test_sizes.c: batches of changing sizes, as bad lines, data.negatives and ends of files make
 * them: recorded at few sizes, without new choices in between, and with the same curve as on the
 * CPU. */
#include "tests/lib/cuda_case.h"

#include "dense/model/run.h"

#include <inttypes.h>
#include <stdio.h>

enum { LINES = 4096, ROWS = 400, STEPS = 500 };

/* Returns the size of a batch of 4,096 lines: a quarter are positive, one in ten of the others is
 * kept; now and then a file ends. */
static uint32_t draw_size(struct rng *r, uint32_t step)
{
    uint32_t lines = step % 10 == 9 ? 1 + (uint32_t)rng_below(r, LINES) : LINES, kept = 0;
    for (uint32_t i = 0; i < lines; i++)
        kept += rng_below(r, 4) == 0 || rng_below(r, 10) == 0;
    return kept > 0 ? kept : 1;
}

/* A quarter of the sizes, so that it takes seconds; the checks do not depend on it. */
enum { SHARE = 4, MOST = LINES / SHARE };

static void case_open(struct dense_case *c, enum model_kind kind, struct backend *backend)
{
    dense_case_job(c, kind);
    c->backend = backend;
    c->shape.fields = 4;
    c->table.dim = 5;
    c->job.model.hidden = (struct widths){.at = {12, 8}, .count = 2};
    c->job.model.norm = kind == MODEL_DEEPFM ? NORM_BATCH : NORM_NONE;
    c->job.model.dropout = 0.1;
    if (kind == MODEL_PLE)
        c->shape.tasks = c->job.data.label_count = 2;
    if (kind == MODEL_DIN) {
        c->shape.pooling[2] = POOL_ATTENTION;
        c->shape.most[2] = 3;
    }
    dense_case_batch(c, MOST, ROWS, true);
}

/* Draws other examples; their number depends on the seed. Both cases draw the same. */
static void case_draw(struct dense_case *c, uint32_t step)
{
    struct rng r = rng_of(5, step, 1);
    uint32_t examples = (draw_size(&r, step) + SHARE - 1) / SHARE,
             slots = examples * c->shape.fields, values = 0;
    c->in.examples = examples;
    c->in.row_count = ROWS / 2 + (uint32_t)rng_below(&r, ROWS / 2 + 1);
    c->table_rows[0] = c->in.row_count;
    for (uint32_t s = 0; s < slots; s++) {
        c->offset[s] = values;
        values += (uint32_t)rng_below(&r, 3);
    }
    c->offset[slots] = values;
    for (uint32_t v = 0; v < values; v++)
        c->index[v] = (uint32_t)rng_below(&r, c->in.row_count);
    for (uint32_t i = 0; i < examples * c->shape.tasks; i++)
        c->label[i] = (float)(rng_below(&r, 2 + i % c->shape.tasks) == 0);
    dense_fill(&r, c->numeric, (size_t)examples * c->shape.numerics);
}

static void descend(float *x, const float *gradient, size_t count, float rate)
{
    for (size_t i = 0; i < count; i++)
        x[i] -= rate * gradient[i];
}

static double step_take(struct dense_case *c, uint32_t step)
{
    case_draw(c, step);
    dense_case_train(c, step);
    descend(c->rows, c->out.row_gradients, dense_case_row(c, c->in.row_count, NULL), 0.05f);
    descend(c->dense, c->out.dense_gradients, model_dense_floats(c->model), 0.05f);
    descend(c->stats, c->out.stats_gradients, model_stats_floats(c->model), 1.0f);
    return c->out.loss_sum / c->out.weight_sum;
}

START_TEST(sizes_of_a_job_are_recorded_once_and_learn_with_the_cpu)
{
    static const enum model_kind kinds[] = {MODEL_DEEPFM, MODEL_DCNV2, MODEL_DIN, MODEL_PLE};
    static bool seen[MOST + 1];
    struct dense_case cpu, device;
    struct cuda_counters before = cuda_counted();
    uint32_t sizes = 0, filled = 0, last = 0;
    double apart = 0.0;
    memset(seen, 0, sizeof seen);
    case_open(&cpu, kinds[_i], dense_backend_named("cpu"));
    case_open(&device, kinds[_i], cuda_backend());
    for (uint32_t step = 1; step <= STEPS; step++) {
        double expected = step_take(&cpu, step), found = step_take(&device, step);
        apart = fmax(apart, fabs(found - expected) / fabs(expected));
        sizes += device.in.examples != last;
        last = device.in.examples;
        uint32_t at = (last + 127) / 128 * 128;
        filled += !seen[at < MOST ? at : MOST];
        seen[at < MOST ? at : MOST] = true;
    }
    struct cuda_counters after = cuda_counted();
    uint64_t recordings = after.recordings - before.recordings, plays = after.plays - before.plays;
    printf("model %d: %u changes of size, %u filled sizes, %" PRIu64 " recordings, %" PRIu64
           " plays, %" PRIu64 " "
           "choices, none recorded, "
           "%.1e from the CPU\n",
           (int)kinds[_i], sizes, filled, recordings, plays, after.choices - before.choices, apart);
    ck_assert_uint_gt(sizes, STEPS / 2);
    ck_assert_uint_gt(filled, 1);
    ck_assert_uint_eq(after.choices_recording, before.choices_recording);
    ck_assert_uint_eq(after.spoiled, before.spoiled);
    ck_assert_uint_le(recordings, 2 * filled);
    ck_assert_uint_ge(plays, STEPS - 2 * filled);
    ck_assert_double_le(apart, 1e-4);
    dense_case_free(&cpu);
    dense_case_free(&device);
}
END_TEST

/* The control case: without padding hardly any step is played, and there are hundreds of
 * choices. */
START_TEST(sizes_that_are_not_filled_up_are_hardly_played)
{
    struct dense_case c;
    struct cuda_counters before = cuda_counted();
    case_open(&c, MODEL_DEEPFM, cuda_backend());
    c.ops = *backend_ops_of(c.backend);
    c.ops.granule = 0;
    c.model->k = &c.ops;
    for (uint32_t step = 1; step <= STEPS / 4; step++)
        step_take(&c, step);
    uint64_t plays = cuda_counted().plays - before.plays,
             choices = cuda_counted().choices - before.choices;
    printf("without filling up: %" PRIu64 " plays of %u steps, %" PRIu64 " choices\n", plays,
           STEPS / 4, choices);
    ck_assert_uint_lt(plays, STEPS / 8);
    ck_assert_uint_gt(choices, 200);
    dense_case_free(&c);
}
END_TEST

/* A card's library may sum a product in another order for another number of rows. The stand-in does
 * not, so its bits are equal wherever a product has no sum over examples. */
static void same_floats(const char *what, const float *found, const float *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double off = fabs((double)found[i] - (double)expected[i]),
               size = fabs((double)expected[i]) + 1e-2;
        ck_assert_msg(cuda_is_host() ? found[i] == expected[i] : off <= 1e-5 * size,
                      "%s %zu: %.9g, not %.9g", what, i, (double)found[i], (double)expected[i]);
    }
}

/* The padding of a batch has no effect: for every n, a batch of n examples gives the result of a
 * run made for n, which needs no padding. */
START_TEST(filling_up_contributes_nothing)
{
    static const enum model_kind kinds[] = {
        MODEL_LR,   MODEL_FM,      MODEL_DEEPFM,   MODEL_DCNV2, MODEL_DLRM, MODEL_XDEEPFM,
        MODEL_IPNN, MODEL_AUTOINT, MODEL_FINALMLP, MODEL_DIN,   MODEL_PLE};
    static const uint32_t size[] = {1, 2, 60, 128, 129, 300, 511, 1024};
    enum model_kind kind = kinds[_i];
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct dense_case large, exact;
        struct model_run *run;
        struct err e = {0};
        case_open(&large, kind, cuda_backend());
        case_open(&exact, kind, cuda_backend());
        ck_assert_int_eq(model_run_new(exact.model, size[i], &run, &e), 0);
        model_run_free(exact.run);
        exact.run = run;
        for (uint32_t step = 1; step <= 3; step++) {
            /* queued, recorded, played; a larger batch before leaves its numbers */
            dense_case_train(&large, 99);
            large.in.examples = exact.in.examples = size[i];
            dense_case_train(&large, 16 * step);
            dense_case_train(&exact, 16 * step);
            large.in.examples = MOST;
            double of[] = {large.out.loss_sum, large.out.dense_norm, large.out.row_norm};
            double other[] = {exact.out.loss_sum, exact.out.dense_norm, exact.out.row_norm};
            for (int j = 0; j < 3; j++)
                ck_assert_msg(fabs(of[j] - other[j]) <=
                                  (cuda_is_host() ? 2e-6 : 1e-4) * fabs(other[j]),
                              "model %d, %u examples, step %u: %.9g, not %.9g", (int)kind, size[i],
                              step, of[j], other[j]);
            same_floats("score", large.out.scores, exact.out.scores, size[i] * large.shape.tasks);
            for (size_t j = 0; j < model_dense_floats(large.model); j++) {
                float a = large.out.dense_gradients[j], b = exact.out.dense_gradients[j];
                ck_assert_msg(fabsf(a - b) <= (cuda_is_host() ? 1e-5f : 1e-4f) * (fabsf(b) + 1e-2f),
                              "model %d, %u examples: dense %zu: %g, not %g", (int)kind, size[i], j,
                              (double)a, (double)b);
            }
            same_floats("statistic", large.out.stats_gradients, exact.out.stats_gradients,
                        model_stats_floats(large.model));
        }
        dense_case_free(&large);
        dense_case_free(&exact);
    }
}
END_TEST

/* The padding repeats the first example. A NaN in it must show in the result, as it would without
 * padding; so must one in a later example. */
START_TEST(what_is_not_a_number_shows_through_what_fills_up)
{
    struct dense_case c;
    case_open(&c, MODEL_DEEPFM, cuda_backend());
    for (uint32_t at = 0; at < 2; at++) {
        c.in.examples = 100;
        float was = c.numeric[at * 99 * c.shape.numerics];
        c.numeric[at * 99 * c.shape.numerics] = NAN;
        ck_assert_int_eq(model_train(c.model, c.run, &c.in, 1, 2, 3, &c.out), SHOAL_E_NOT_FINITE);
        c.numeric[at * 99 * c.shape.numerics] = was;
        ck_assert_int_eq(model_train(c.model, c.run, &c.in, 1, 2, 3, &c.out), 0);
    }
    dense_case_free(&c);
}
END_TEST

/* With dropout, a copy drops what the first example drops. If a copy kept and scaled a value that
 * the example drops, it could be infinite in 16 bits, and infinity times the copy's dlogit of 0 is
 * NaN. */
START_TEST(copies_overflow_no_sooner_than_the_first_example)
{
    uint32_t finite = 0;
    for (float large = 18000.0f; large <= 30000.0f; large += 4000.0f) {
        /* twice either number is below 65504 */
        struct dense_case filled, exact;
        struct dense_case *both[] = {&filled, &exact};
        int code[2];
        for (int i = 0; i < 2; i++) {
            struct dense_case *c = both[i];
            dense_case_job(c, MODEL_WIDE_DEEP);
            c->backend = cuda_backend();
            c->job.train.precision = PRECISION_FP16;
            c->job.model.activation = ACT_RELU;
            c->job.model.dropout = 0.5;
            c->job.model.hidden = (struct widths){.at = {1, 4}, .count = 2};
            dense_case_batch(c, i == 0 ? 256 : 130, 9, false);
            for (size_t j = 0; j < model_dense_floats(c->model); j++)
                c->dense[j] = 1.0f;
            for (uint32_t j = 0; j < 130 * c->shape.numerics; j++)
                c->numeric[j] = j < c->shape.numerics ? large : 0.01f;
            memset(c->rows, 0, dense_case_row(c, 9, NULL) * sizeof *c->rows);
            for (uint32_t j = 0; j < 130; j++)
                c->label[j] = (float)(j % 2);
            c->label[0] = 1.0f;
            c->in.examples = 130;
        }
        for (uint64_t batch = 1; batch <= 12; batch++) {
            for (int i = 0; i < 2; i++) {
                both[i]->run->scale = 1.0;
                code[i] = model_train(both[i]->model, both[i]->run, &both[i]->in, 1, 2, batch,
                                      &both[i]->out);
            }
            ck_assert_msg(code[0] == code[1],
                          "numbers of %g, batch %" PRIu64 ": %d filled up, %d as it is",
                          (double)large, batch, code[0], code[1]);
            finite += code[0] == 0 && !both[0]->out.skipped;
            ck_assert_int_eq(both[0]->out.skipped, both[1]->out.skipped);
        }
        for (int i = 0; i < 2; i++)
            dense_case_free(both[i]);
    }
    printf("copies: %u of 48 steps finite\n", finite);
    ck_assert(finite > 10 && finite < 40);
}
END_TEST

/* Predictions are recorded, too, and those of a batch do not depend on the batch before. */
START_TEST(predictions_of_many_sizes_are_those_of_one)
{
    static float alone[MOST], found[MOST];
    struct dense_case c;
    case_open(&c, MODEL_DCNV2, cuda_backend());
    ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
    memcpy(alone, c.out.scores, sizeof alone);
    struct cuda_counters before = cuda_counted();
    for (uint32_t n = MOST; n > 0; n -= n > 7 ? 7 : n) {
        c.in.examples = n;
        memset(c.out.scores, 0, MOST * sizeof(float));
        ck_assert_int_eq(model_predict(c.model, c.run, &c.in, &c.out), 0);
        memcpy(found, c.out.scores, sizeof found);
        same_floats("score", found, alone, n);
        ck_assert(n == MOST || found[n] == 0.0f);
    }
    ck_assert_uint_gt(cuda_counted().plays, before.plays + 50);
    dense_case_free(&c);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cuda_sizes");
    TCase *t = tcase_create("cuda_sizes");
    tcase_set_timeout(t, 200);
    tcase_add_loop_test(t, sizes_of_a_job_are_recorded_once_and_learn_with_the_cpu, 0, 4);
    tcase_add_test(t, sizes_that_are_not_filled_up_are_hardly_played);
    tcase_add_loop_test(t, filling_up_contributes_nothing, 0, 11);
    tcase_add_test(t, what_is_not_a_number_shows_through_what_fills_up);
    tcase_add_test(t, copies_overflow_no_sooner_than_the_first_example);
    tcase_add_test(t, predictions_of_many_sizes_are_those_of_one);
    suite_add_tcase(s, t);
    return cuda_check_run(s);
}
