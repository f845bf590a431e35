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

int main(void)
{
    Suite *s = suite_create("measure_json");
    TCase *c = tcase_create("measure_json");
    tcase_add_test(c, measure_of_one_label_has_its_counts);
    tcase_add_test(c, measure_of_two_labels_has_counts_for_each);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
