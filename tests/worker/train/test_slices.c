/* test_slices.c: a batch computed in slices, compared with batches of the same rows computed alone,
 * bit for bit. The threads end in an order that the simulator draws. */
#include "worker/train/slices.h"

#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_files.h"
#include "tests/sim/sim.h"
#include "worker/data/batch_inner.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EACH = 16, WINDOW = 4, ROWS = EACH * WINDOW, FLOATS = 1 << 16, LANE = 3 };
#define SECOND UINT64_C(1000000000)

static struct job job;
static struct features features;
static struct backend *backend;
static struct model *model;
static struct table_schema schema[MODEL_TABLES_MAX];
static struct sim *sim;
static struct turns turns;
static struct slices *slices;
static uint32_t ends, besides;
static struct err e;

/* A batch with its rows, and arrays for its results. */
struct whole {
    struct batch batch;
    uint32_t table_rows[LIMIT_JOB_TABLES];
    struct model_input in;
    struct model_output out;
    float rows[FLOATS], gradients[FLOATS], dense[FLOATS], stats[FLOATS], scores[ROWS];
};
static struct whole whole, alone;
static float dense[FLOATS], stats[FLOATS]; /* the parameters */
static float sum[FLOATS], dense_sum[FLOATS], stats_sum[FLOATS];

static const struct {
    const char *tables, *model;
} cases[] = {
    {"  - {name: x, dim: 3, tablets: 16, fields: [a, c]}\n  - {name: y, dim: 2, tablets: 16}\n"
     "  - {name: z, dim: 5, tablets: 16, fields: [d]}\n",
     "model: {kind: wide_deep, hidden: [4], dropout: 0.3, l2: 0.01}\n"},
    {"  - {name: x, dim: 4, tablets: 16}\n",
     "model: {kind: deepfm, hidden: [5, 4], norm: batch, dropout: 0.2, l2: 0.02, l2_dense: "
     "0.01}\n"},
    {"  - {name: x, dim: 1, tablets: 16}\n", "model: {kind: probe}\n"},
};

/* ---- what is computed ------------------------------------------------------------------------ */

static void beside(void *owner)
{
    (void)owner;
    besides++;
}

static void done(void *owner)
{
    (void)owner;
    ends++;
}

static bool has_ended(void *context)
{
    (void)context;
    return ends > 0;
}

static void on_message(void *core, peer_t from, struct msg *m)
{
    (void)core;
    (void)from;
    msg_free(m);
}

static void on_drained(void *core)
{
    (void)core;
}

static const struct env_handler handler = {.on_message = on_message, .on_drained = on_drained};

static void open_case(int number, uint64_t seed)
{
    static const char head[] = "label,a,b,c,d,e,n,w";
    const struct sim_options options = {.seed = seed, .work_min_ns = 1000, .work_max_ns = 9000};
    char text[1536];
    uint32_t count;
    snprintf(text, sizeof text,
             "data: {format: csv, train: [none.csv], label: label, weight: w, columns: [\n"
             "  {name: a}, {name: b}, {name: c}, {name: d, type: multi, weighted: true}, {name: "
             "e}, {name: n, type: "
             "number}]}\n"
             "tables:\n%s%s"
             "train: {batch: %u, window: %u, clip_dense: 0.05, clip_row: 0.002, seed: 5}\n",
             cases[number].tables, cases[number].model, EACH, WINDOW);
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    ck_assert_msg(features_make(&job, "none.csv", head, sizeof head - 1, &features, &e) == 0, "%s",
                  e.text);
    ck_assert_msg(model_schemas(&job, &features.shape, schema, &count, &e) == 0, "%s", e.text);
    backend = dense_backend();
    ck_assert_int_eq(model_new(&job, &features.shape, backend, &model, &e), 0);
    ck_assert_uint_le(model_dense_floats(model), FLOATS);
    struct rng r = rng_of(9, 0, 0);
    dense_fill(&r, dense, model_dense_floats(model));
    dense_fill(&r, stats, model_stats_floats(model));
    for (size_t i = 0; i < model_stats_floats(model); i++)
        stats[i] = 1.5f + stats[i]; /* variances are above 0 */
    sim = sim_new(&options);
    turns_init(&turns, sim_node_env(sim_node_new(sim, "lane", &handler, NULL)), WINDOW);
    struct slices_options o = {.turns = &turns,
                               .model = model,
                               .backend = backend,
                               .schema = schema,
                               .window = job_window(&job),
                               .examples = job.train.batch,
                               .beside = beside,
                               .done = done};
    ck_assert_msg(slices_new(&o, &slices, &e) == 0, "%s", e.text);
    batch_init(&whole.batch);
    batch_init(&alone.batch);
    whole.batch.backend = alone.batch.backend = backend;
}

static void close_case(void)
{
    slices_free(slices);
    batch_free(&whole.batch);
    batch_free(&alone.batch);
    sim_free(sim);
    model_free(model);
    features_free(&features);
    job_free(&job);
}

/* Each row is drawn from its key. */
static void rows_draw(struct whole *w)
{
    float *at = w->rows;
    uint32_t tables = model_tables(model);
    for (uint32_t t = 0; t < tables; t++) {
        uint32_t first = w->batch.table_first[t], end = w->batch.table_first[t + 1];
        w->table_rows[t] = end - first;
        for (uint32_t k = first; k < end; k++, at += schema[t].width) {
            struct rng r = rng_of(w->batch.keys[k], 0, 0);
            dense_fill(&r, at, schema[t].width);
        }
    }
    ck_assert_uint_le((uint32_t)(at - w->rows), FLOATS);
}

/* Example i: a has 7 values, b 5, c as many as there are examples, d none to two of 3, e one. */
static void read_batch(struct whole *w, uint32_t first, uint32_t examples)
{
    char text[128], list[24];
    ck_assert_int_eq(batch_begin(&w->batch, &features, examples, false, &e), 0);
    for (uint32_t i = first; i < first + examples; i++) {
        snprintf(list, sizeof list,
                 i % 3 == 0   ? ""
                 : i % 3 == 1 ? "v%u:1.5"
                              : "v%u:0.5|w:-2",
                 i % 2);
        snprintf(text, sizeof text, "%u,a%u,b%u,c%u,%s,e,%u,%u", i % 4 == 0, i % 7, i / 9, i * 37,
                 list, i % 11, i % 3);
        struct line line = {.text = text, .bytes = (uint32_t)strlen(text), .number = 2};
        ck_assert_int_eq(
            batch_add(&w->batch, &features, &line, "none.csv", &(struct draw){.epoch = 0}, i, &e),
            0);
    }
    ck_assert_uint_eq(w->batch.bad_lines, 0);
    ck_assert_int_eq(batch_end(&w->batch, &e), 0);
    rows_draw(w);
    w->in = (struct model_input){.examples = w->batch.examples,
                                 .label = w->batch.label,
                                 .weight = w->batch.weight,
                                 .numeric = w->batch.numeric,
                                 .index = w->batch.index,
                                 .offset = w->batch.offset,
                                 .factor = w->batch.factor,
                                 .row_count = w->batch.key_count,
                                 .table_rows = w->table_rows,
                                 .rows = w->rows,
                                 .dense = dense,
                                 .stats = stats};
    w->out = (struct model_output){.row_gradients = w->gradients, .scores = w->scores};
    if (model_dense_floats(model) > 0)
        w->out.dense_gradients = w->dense;
    if (model_stats_floats(model) > 0)
        w->out.stats_gradients = w->stats;
}

static void compute(uint32_t rows, uint64_t batch, bool train)
{
    const struct slices_batch b = {.in = &whole.in,
                                   .out = &whole.out,
                                   .rows = rows,
                                   .train = train,
                                   .seed = job.train.seed,
                                   .lane = LANE,
                                   .batch = batch};
    ends = besides = 0;
    slices_start(slices, &b);
    ck_assert(sim_run(sim, sim_now_ns(sim) + SECOND, has_ended, NULL));
    (void)sim_run(sim, sim_now_ns(sim) + SECOND, NULL, NULL);
    ck_assert_uint_eq(ends, 1);
    ck_assert_int_eq(slices_status(slices), 0);
}

/* ---- what is expected ------------------------------------------------------------------------ */

/* The first float of a key's row in the whole batch. */
static size_t place_of(uint64_t key, uint32_t table)
{
    size_t at = 0;
    for (uint32_t t = 0; t <= table; t++)
        for (uint32_t k = whole.batch.table_first[t]; k < whole.batch.table_first[t + 1]; k++) {
            if (t == table && whole.batch.keys[k] == key)
                return at;
            at += schema[t].width;
        }
    ck_abort_msg("the batch lacks a key of a slice");
    return 0;
}

/* Adds a batch that was computed alone. */
static void sum_add(bool first)
{
    const float *from = alone.gradients;
    for (uint32_t t = 0; t < model_tables(model); t++)
        for (uint32_t k = alone.batch.table_first[t]; k < alone.batch.table_first[t + 1]; k++) {
            float *to = sum + place_of(alone.batch.keys[k], t);
            for (uint32_t i = 0; i < schema[t].width; i++)
                *to++ += *from++;
        }
    for (size_t i = 0; i < model_dense_floats(model); i++)
        dense_sum[i] = first ? alone.dense[i] : dense_sum[i] + alone.dense[i];
    for (size_t i = 0; i < model_stats_floats(model); i++)
        stats_sum[i] = first ? alone.stats[i] : stats_sum[i] + alone.stats[i];
}

static void equal(const char *what, const float *got, const float *wanted, size_t floats)
{
    for (size_t i = 0; i < floats; i++)
        ck_assert_msg(got[i] == wanted[i], "%s: float %zu is %.9g, not %.9g", what, i,
                      (double)got[i], (double)wanted[i]);
}

static size_t row_floats(const struct whole *w)
{
    size_t floats = 0;
    for (uint32_t t = 0; t < model_tables(model); t++)
        floats += (size_t)w->table_rows[t] * schema[t].width;
    return floats;
}

/* Compares the whole batch with `count` batches of its examples, computed alone. batch: the number
 * of the whole one. */
static void check_alone(uint32_t examples, uint32_t count, uint64_t batch)
{
    struct model_run *run;
    double loss = 0, weights = 0, norm = 0;
    memset(sum, 0, sizeof sum);
    for (uint32_t s = 0; s < count; s++) {
        uint32_t first = examples * s / count, end = examples * (s + 1) / count;
        read_batch(&alone, first, end - first);
        ck_assert_int_eq(model_run_new(model, EACH, &run, &e), 0);
        ck_assert_int_eq(model_train(model, run, &alone.in, job.train.seed, LANE,
                                     (batch - 1) * WINDOW + s + 1, &alone.out),
                         0);
        model_run_free(run);
        sum_add(s == 0);
        equal("scores", whole.scores + first, alone.scores, end - first);
        loss += alone.out.loss_sum;
        weights += alone.out.weight_sum;
        norm += alone.out.dense_norm;
    }
    equal("row gradients", whole.gradients, sum, row_floats(&whole));
    equal("dense gradients", whole.dense, dense_sum, model_dense_floats(model));
    equal("statistics", whole.stats, stats_sum, model_stats_floats(model));
    ck_assert_double_eq(whole.out.loss_sum, loss);
    ck_assert_double_eq(whole.out.weight_sum, weights);
    if (model_dense_floats(model) > 0)
        ck_assert_double_eq_tol(whole.out.dense_norm, norm / count, 1e-12);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* A whole window; one with an incomplete slice; lines that were left out; a single slice, and
 * fewer examples than slices. */
START_TEST(slices_add_the_bits_of_batches_computed_alone)
{
    static const struct {
        uint32_t rows, examples, count;
    } batches[] = {{ROWS, ROWS, 4},       {ROWS - 9, ROWS - 9, 4}, {ROWS, 21, 4},
                   {2 * EACH + 1, 30, 3}, {EACH, EACH, 1},         {ROWS, 3, 3}};
    for (uint32_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        uint64_t batch = 12 + i;
        open_case(_i, i + 1);
        read_batch(&whole, 0, batches[i].examples);
        compute(batches[i].rows, batch, true);
        ck_assert_uint_eq(besides, 1);
        check_alone(batches[i].examples, batches[i].count, batch);
        close_case();
    }
}
END_TEST

/* Whatever the order in which the threads end, and again on the same memory. */
START_TEST(slices_repeat_their_bits)
{
    static float first[FLOATS];
    for (uint64_t seed = 1; seed <= 8; seed++) {
        open_case(1, seed);
        for (int again = 0; again < 2; again++) {
            read_batch(&whole, 0, ROWS);
            compute(ROWS, 7, true);
            if (seed == 1 && again == 0)
                memcpy(first, whole.gradients, sizeof first);
            equal("row gradients", whole.gradients, first, row_floats(&whole));
        }
        close_case();
    }
}
END_TEST

START_TEST(slices_predict_as_batches_alone)
{
    struct model_run *run;
    open_case(_i, 3);
    read_batch(&whole, 0, ROWS);
    compute(ROWS, 1, false);
    ck_assert_uint_eq(besides, 1);
    for (uint32_t first = 0; first < ROWS; first += EACH) {
        read_batch(&alone, first, EACH);
        ck_assert_int_eq(model_run_new(model, EACH, &run, &e), 0);
        ck_assert_int_eq(model_predict(model, run, &alone.in, &alone.out), 0);
        model_run_free(run);
        equal("scores", whole.scores + first, alone.scores, EACH);
    }
    close_case();
}
END_TEST

/* The threads' times: all of them, and those of the slowest of both steps. */
START_TEST(slices_tell_their_time)
{
    open_case(1, 1);
    read_batch(&whole, 0, ROWS);
    uint64_t begin = sim_now_ns(sim);
    compute(ROWS, 1, true);
    struct slices_time t = slices_time(slices);
    ck_assert_uint_ge(t.busy_ns, 9 * 1000);
    ck_assert_uint_lt(t.path_ns, t.busy_ns);
    ck_assert_uint_ge(t.path_ns, 2 * 1000);
    ck_assert_uint_le(t.path_ns, sim_now_ns(sim) - begin);
    close_case();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("slices");
    TCase *c = tcase_create("slices");
    if (!dense_backend_present())
        return DENSE_SKIP;
    tcase_set_timeout(c, 60);
    tcase_add_loop_test(c, slices_add_the_bits_of_batches_computed_alone, 0, 3);
    tcase_add_test(c, slices_repeat_their_bits);
    tcase_add_loop_test(c, slices_predict_as_batches_alone, 0, 2);
    tcase_add_test(c, slices_tell_their_time);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
