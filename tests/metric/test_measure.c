/* test_measure.c: measures as JSON: the members at the top, and those of each label. */
#include "proto/metric/measure.h"

#include <check.h>
#include <string.h>

static struct job job;

static struct json *report_of(uint32_t labels)
{
    struct metric metric[2];
    memset(&job, 0, sizeof job);
    memset(metric, 0, sizeof metric);
    strcpy(job.evaluate.group, "user");
    job.data.label_count = labels;
    for (uint32_t t = 0; t < labels; t++) {
        strcpy(job.data.label[t], t == 0 ? "click" : "buy");
        job.model.task_weight[t] = 3 - 2 * t;
        metric[t].logloss = 0.1 + 0.4 * t;
        metric[t].examples = 100;
        metric[t].positives = 30 - 20 * t;
        metric[t].groups = 7 - t;
        metric[t].auc = 0.5 + 0.2 * t;
    }
    return measure_json_report(metric, &job, NULL, true);
}

START_TEST(measure_of_one_label_has_its_counts)
{
    struct json *j = report_of(1);
    ck_assert_double_eq(json_as_number(json_get(j, "positives"), -1), 30);
    ck_assert_double_eq(json_as_number(json_get(j, "groups"), -1), 7);
    ck_assert_ptr_null(json_get(j, "tasks"));
    json_free(j);
}
END_TEST

/* The positives of two labels have no common count: the first label's would be taken for it. */
START_TEST(measure_of_two_labels_has_counts_for_each)
{
    struct json *j = report_of(2);
    ck_assert_ptr_null(json_get(j, "positives"));
    ck_assert_ptr_null(json_get(j, "groups"));
    ck_assert_double_eq(json_as_number(json_get(j, "examples"), -1), 100);
    ck_assert_double_eq_tol(json_as_number(json_get(j, "auc"), -1), 0.6, 1e-12);
    /* by the tasks' weights */
    ck_assert_double_eq_tol(json_as_number(json_get(j, "logloss"), -1), 0.2, 1e-12);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.0.positives"), -1), 30);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.positives"), -1), 10);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.groups"), -1), 6);
    json_free(j);
}
END_TEST

/* A label that is a number has figures of its own, and the mean is that of the others. */
START_TEST(measure_of_a_number_beside_clicks)
{
    struct metric metric[2] = {{.auc = 0.75, .logloss = 0.5, .gauc_share = 1, .examples = 4}};
    const struct metric_real real = {
        .square = 18, .absolute = 6, .predicted = 6, .label = 3, .label_square = 9, .examples = 2};
    memset(&job, 0, sizeof job);
    job.data.label_count = 2;
    job.model.task_weight[0] = job.model.task_weight[1] = 1;
    job.model.loss[1] = LOSS_MSE;
    strcpy(job.data.label[1], "watch");
    metric_real_figures(&real, &metric[1]);
    struct json *j = measure_json_report(metric, &job, NULL, true);
    ck_assert_double_eq(json_as_number(json_get(j, "auc"), -1), 0.75);
    ck_assert_ptr_null(json_get(j, "rmse"));
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.rmse"), -1), 3);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.mae"), -1), 3);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.calibration"), -1), 2);
    ck_assert_double_eq(json_as_number(json_get(j, "tasks.1.examples"), -1), 2);
    ck_assert_ptr_null(json_get(j, "tasks.1.auc"));
    json_free(j);
}
END_TEST

/* Missing labels count in no figure, and a number has no calibration curve. */
START_TEST(measure_leaves_out_labels_that_are_missing)
{
    const float score[] = {0.75f, 3, 0.25f, 5, 0.875f, 1}, label[] = {1, 4, 0, NAN, NAN, 3};
    const uint64_t group[] = {1, 1, 1}, by[] = {7, 7, 8};
    struct measure m;
    struct measure_options o = {.tasks = 2,
                                .real = 2,
                                .group = true,
                                .by_count = 1,
                                .buckets = 4,
                                .exact = 100,
                                .expected = 3};
    struct err e;
    ck_assert_int_eq(measure_open(&m, &o, &e), 0);
    ck_assert_int_eq(measure_add(&m, score, label, group, by, 3, &e), 0);
    ck_assert_int_eq(measure_finish(&m, &e), 0);
    ck_assert_uint_eq(m.metric[0].examples, 2);
    ck_assert_double_eq(m.metric[0].auc, 1);
    ck_assert_double_eq(m.metric[0].gauc, 1);
    ck_assert_uint_eq(m.metric[1].examples, 2);
    ck_assert_double_eq_tol(m.metric[1].rmse, sqrt((1 + 4) / 2.0), 1e-12);
    ck_assert_uint_eq(m.bucket_count[1], 0);
    ck_assert_uint_eq(m.by[0].value[0].examples, 2);
    ck_assert_uint_eq(metric_by_more(&m.by[0], &m.by[0].value[0])[1].examples, 1);
    measure_close(&m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("measure_json");
    TCase *c = tcase_create("measure_json");
    tcase_add_test(c, measure_of_one_label_has_its_counts);
    tcase_add_test(c, measure_of_two_labels_has_counts_for_each);
    tcase_add_test(c, measure_of_a_number_beside_clicks);
    tcase_add_test(c, measure_leaves_out_labels_that_are_missing);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
