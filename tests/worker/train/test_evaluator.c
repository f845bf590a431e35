/* test_evaluator.c: `shoal-worker eval` in the simulator: every valid line of a split is scored
 * once, in file order, whatever the network does. */
#include "dense/model.h"
#include "tests/lib/dense_case.h"
#include "tests/lib/worker_fake.h"
#include "tests/lib/worker_files.h"

#include "proto/base/key.h"
#include "worker/data/dataset.h"
#include "worker/train/evaluator.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

static struct fake fake;
static struct job job;
static char text[2048];
static struct backend *backend;
static struct evaluator *evaluator;
static struct sim_node *node;

static void open_job(const struct sim_options *options)
{
    struct err e = {0};
    struct model_shape shape;
    uint32_t count;
    ck_assert_msg(job_parse(text, strlen(text), "test", NULL, &job, &e) == 0, "%s", e.text);
    backend = dense_backend();
    fake_open(&fake, options, text, 3, 1);
    ck_assert_int_eq(dataset_shape(&job, &shape, &e), 0);
    static struct table_schema schema[MODEL_TABLES_MAX];
    ck_assert_int_eq(model_schemas(&job, &shape, schema, &count, &e), 0);
    for (uint32_t t = 0; t < count; t++) {
        fake.schema[t] = schema[t];
        fake.declared[t] = true;
    }
    fake.tables = count;
}

static void open_with(const struct sim_options *options, uint32_t rows)
{
    static char data[1 << 16];
    size_t at = 0;
    for (uint32_t i = 0; i < rows; i++) /* one bad line in fifty; the first field gives the label */
        at += (size_t)snprintf(data + at, sizeof data - at, i % 50 == 7 ? "broken\n" : "%u %u:1\n",
                               i % 2, 1 + i % 2);
    snprintf(
        text, sizeof text,
        "job: eval\ndata: {format: libsvm, train: [%s], test: [%s], cache: %s, max_bad: 0.5}\n"
        "tables:\n  - {name: emb, dim: 2, tablets: 64, init: {kind: zero}, optimizer: {kind: sgd, "
        "lr: 1}}\n"
        "model: {kind: lr}\ntrain: {batch: 8, prefetch: 1, backend: cpu}\nnet: {resend: 200ms}\n",
        worker_write("test.libsvm", data, at), worker_path("test.libsvm"), worker_path("cache"));
    open_job(options);
}

/* Users 0..9 in turn, one hour for each third of the rows; one line in sixty is malformed. */
static void open_csv(const struct sim_options *options, uint32_t rows)
{
    static char data[1 << 16];
    size_t at = (size_t)snprintf(data, sizeof data, "click,user,hour\n");
    for (uint32_t i = 0; i < rows; i++)
        at +=
            (size_t)snprintf(data + at, sizeof data - at, i % 60 == 7 ? "broken\n" : "%u,u%u,h%u\n",
                             i % 4 == 0, i % 10, 3 * i / rows);
    snprintf(
        text, sizeof text,
        "job: eval\ndata: {format: csv, label: click, train: [%s], test: [%s], cache: %s, max_bad: "
        "0.5}\n"
        "tables:\n  - {name: emb, dim: 2, tablets: 64, init: {kind: zero}, optimizer: {kind: sgd, "
        "lr: 1}}\n"
        "model: {kind: lr}\ntrain: {batch: 8, prefetch: 1, backend: cpu}\nnet: {resend: 200ms}\n"
        "evaluate: {group: user, by: [hour, user]}\n",
        worker_write("test.csv", data, at), worker_path("test.csv"), worker_path("cache"));
    open_job(options);
}

static bool stopped(void *context)
{
    (void)context;
    return sim_stopped(node);
}

static void run(void)
{
    struct err e = {0};
    struct evaluator_options options = {.coordinator = FAKE_COORDINATOR,
                                        .job = &job,
                                        .split = WIRE_TEST,
                                        .lanes = 3,
                                        .backend = backend,
                                        .wait_ms = 5000};
    node = sim_node_new(fake.sim, "eval", evaluator_handler(), NULL);
    ck_assert_int_eq(evaluator_new(sim_node_env(node), &options, &evaluator, &e), 0);
    sim_node_set_handler(node, evaluator_handler(), evaluator);
    ck_assert(sim_run(fake.sim, 300 * SECOND, stopped, NULL));
}

static void setup(void)
{
    worker_folder_make();
}

static void teardown(void)
{
    evaluator_free(evaluator);
    fake_close(&fake);
    job_free(&job);
    worker_folder_remove();
}

static const struct sim_options calm = {.seed = 1,
                                        .delay_min_ns = 50000,
                                        .delay_max_ns = 200000,
                                        .work_min_ns = 100000,
                                        .work_max_ns = 3000000};

START_TEST(evaluator_scores_every_good_line)
{
    struct sim_options options = calm;
    const struct measure *m;
    struct err e = {0};
    if (_i == 1) {
        options.drop = 0.1;
        options.duplicate = 0.1;
        options.reorder = true;
        options.delay_max_ns = 30000000;
    }
    open_with(&options, 500);
    run();
    ck_assert_msg(evaluator_result(evaluator, &m, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(m->metric[0].examples, 490);
    ck_assert_uint_eq(evaluator_bad_lines(evaluator), 10);
    /* all weights are zero: every score is 1/2 */
    ck_assert_double_eq_tol(m->metric[0].logloss, log(2), 1e-6);
    ck_assert_double_eq_tol(m->metric[0].auc, 0.5, 1e-9);
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_PUSH], 0);
    ck_assert_uint_eq(fake.seen[WIRE_TYPE_WORKER_JOIN], 0);
}
END_TEST

/* With a weight on the key of odd lines, scores and labels must match row by row. */
START_TEST(evaluator_keeps_scores_and_labels_together)
{
    const struct measure *m;
    struct err e = {0};
    struct dataset *d;
    struct batch b;
    open_with(&calm, 500);
    ck_assert_int_eq(dataset_open(&job, WIRE_TEST, &d, &e), 0);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 0, 0, 1, 1, &b, &e), 0); /* the second line: label 1 */
    ck_assert_uint_eq(b.key_count, 1);
    for (uint32_t i = 0; i < 1u << 13; i++)
        if (i == (uint32_t)key_mix(b.keys[0]) % (1u << 13)) {
            fake.row[0][i].used = true;
            fake.row[0][i].key = b.keys[0];
            fake.row[0][i].value[0] = 3.0f;
        }
    batch_free(&b);
    dataset_close(d);
    run();
    ck_assert_int_eq(evaluator_result(evaluator, &m, &e), 0);
    ck_assert_double_eq_tol(m->metric[0].auc, 1.0, 1e-9);
}
END_TEST

/* A row's groups come with the row, and parts are measured in the order of the file, in whatever
 * order they arrive. */
START_TEST(evaluator_measures_by_group_and_value)
{
    struct sim_options options = calm;
    const struct measure *m;
    struct err e = {0};
    options.seed = 1 + (uint64_t)_i;
    options.work_max_ns = 30000000;
    open_csv(&options, 1200);
    run();
    ck_assert_msg(evaluator_result(evaluator, &m, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(m->metric[0].examples, 1180);
    ck_assert_uint_eq(m->metric[0].groups, 5); /* users 1, 3, .. have no click */
    ck_assert_double_eq_tol(m->metric[0].gauc, 0.5, 1e-9);
    ck_assert_uint_eq(m->by[0].count, 3);
    ck_assert_uint_eq(m->by[1].count, 10);
    uint64_t examples = 0;
    for (uint32_t i = 0; i < 3; i++)
        examples += m->by[0].value[i].examples;
    ck_assert_uint_eq(examples, 1180);
    ck_assert_uint_eq(m->by[0].value[0].examples, 394); /* 6 or 7 of 400 lines are bad */
    ck_assert_uint_eq(m->by[0].value[2].examples, 393);
}
END_TEST

START_TEST(evaluator_says_why_it_failed)
{
    const struct measure *m;
    struct err e = {0};
    open_with(&calm, 20);
    if (_i == 0)
        ck_assert_int_eq(remove(worker_path("test.libsvm")), 0);
    else
        sim_kill(fake.node[FAKE_SHARDS].node);
    run();
    ck_assert_int_eq(evaluator_result(evaluator, &m, &e),
                     _i == 0 ? SHOAL_E_NOINPUT : SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, _i == 0 ? "test.libsvm" : FAKE_COORDINATOR));
}
END_TEST

/* More malformed lines than data.max_bad allows are an error, which names the first one; the rest
 * is not measured. */
START_TEST(evaluator_refuses_too_many_bad_lines)
{
    const struct measure *m;
    struct err e = {0};
    open_with(&calm, 500); /* 10 of them are malformed */
    job.data.max_bad = _i == 0 ? 0.02 : 0.019;
    run();
    ck_assert_int_eq(evaluator_result(evaluator, &m, &e), _i == 0 ? 0 : SHOAL_E_DATA);
    ck_assert_uint_eq(evaluator_bad_lines(evaluator), 10);
    if (_i == 0)
        return;
    ck_assert_int_eq(err_exit_status(e.code), 65);
    ck_assert_msg(strstr(e.text, "10 of 500") != NULL && strstr(e.text, "max_bad") != NULL, "%s",
                  e.text);
    ck_assert_msg(strstr(e.text, "test.libsvm:8: ") != NULL, "%s", e.text);
}
END_TEST

/* The wait for the map ends while the input is still being read: the evaluation must end, too. */
START_TEST(evaluator_ends_when_the_wait_ends_before_the_input_is_known)
{
    struct sim_options slow = calm;
    const struct measure *m;
    struct err e = {0};
    slow.work_min_ns = slow.work_max_ns = 10 * SECOND;
    open_with(&slow, 20);
    sim_kill(fake.node[FAKE_SHARDS].node);
    run();
    ck_assert_int_eq(evaluator_result(evaluator, &m, &e), SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, FAKE_COORDINATOR));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("evaluator");
    TCase *c = tcase_create("evaluator");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, evaluator_scores_every_good_line, 0, 2);
    tcase_add_test(c, evaluator_keeps_scores_and_labels_together);
    tcase_add_loop_test(c, evaluator_measures_by_group_and_value, 0, 5);
    tcase_add_loop_test(c, evaluator_says_why_it_failed, 0, 2);
    tcase_add_loop_test(c, evaluator_refuses_too_many_bad_lines, 0, 2);
    tcase_add_test(c, evaluator_ends_when_the_wait_ends_before_the_input_is_known);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
