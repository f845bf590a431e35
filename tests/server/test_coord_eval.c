/* test_coord_eval.c: leased evaluation, merged in task order. */
#include "proto/base/rng.h"
#include "server/coord_eval.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

static float score[1000], label[1000];

static void setup(void)
{
    struct rng g = rng_of(3, 0, 0);

    for (int i = 0; i < 1000; i++) {
        label[i] = (float)(rng_below(&g, 3) == 0);
        score[i] = (float)rng_below(&g, 50) / 100.0f + 0.2f * label[i];
    }
}

static int give(struct coord_eval *v, uint32_t index)
{
    struct err e;
    const struct coord_eval_task *t = &v->task[index];

    return coord_eval_done(v, coord_eval_task_number(v, index), (uint32_t)t->rows, 0, score + t->position,
                           label + t->position, &e);
}

START_TEST(coord_eval_merges_in_task_order_whoever_comes_first)
{
    struct coord_eval v;
    struct metric got, whole;
    struct err e;

    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 1000, 16, &e), 0);
    ck_assert_uint_eq(v.tasks, 16);
    ck_assert_uint_eq(v.task[15].rows, 40);
    for (uint32_t i = v.tasks; i-- > 0;) {
        ck_assert(!coord_eval_complete(&v));
        ck_assert_int_eq(give(&v, i), 0);
    }
    ck_assert(coord_eval_complete(&v));
    ck_assert_int_eq(coord_eval_metric(&v, &got, &e), 0);
    ck_assert_int_eq(metric_compute(score, label, 1000, &whole), 0);
    ck_assert(got.auc == whole.auc && got.logloss == whole.logloss && got.calibration == whole.calibration);
    ck_assert_uint_eq(got.examples, 1000);
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_first_result_counts)
{
    struct coord_eval v;
    struct metric got;
    struct err e;
    float wrong[64] = {0};

    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 64, 16, &e), 0);
    ck_assert_int_eq(coord_eval_done(&v, coord_eval_task_number(&v, 0) + (1ull << 32), 64, 0, wrong, label, &e),
                     0); /* of another one */
    ck_assert_uint_eq(v.done, 0);
    ck_assert_int_eq(give(&v, 0), 0);
    ck_assert_int_eq(coord_eval_done(&v, coord_eval_task_number(&v, 0), 64, 0, wrong, label, &e), 0);
    ck_assert_int_eq(coord_eval_metric(&v, &got, &e), 0);
    struct metric right;
    ck_assert_int_eq(metric_compute(score, label, 64, &right), 0);
    ck_assert(got.auc == right.auc);
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_tasks_of_the_dead_and_the_silent_go_out_again)
{
    struct coord_eval v;
    struct err e;

    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 128, 16, &e), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 2, 0), 1);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 0), COORD_NO_EVAL);
    coord_eval_worker_gone(&v, 2);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, SECOND), 1);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 2 * SECOND), COORD_NO_EVAL);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 3 * SECOND), 0); /* worker 1 has had it for three seconds */
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_refuses_what_cannot_be)
{
    struct coord_eval v;
    struct err e;
    float bad = 1.5f, one = 1.0f, two = 2.0f, half = 0.5f;

    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 0, 16, &e), SHOAL_E_DATA);
    ck_assert_int_eq(coord_eval_open(&v, 9, 1, COORD_EVAL_ROWS_MAX + 1, 16, &e), SHOAL_E_TOO_BIG);
    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 64, 16, &e), 0);
    uint64_t number = coord_eval_task_number(&v, 0);
    ck_assert_int_eq(coord_eval_done(&v, number, 65, 0, score, label, &e), SHOAL_E_MALFORMED);
    ck_assert_int_eq(coord_eval_done(&v, number, 60, 5, score, label, &e), SHOAL_E_MALFORMED);
    ck_assert_int_eq(coord_eval_done(&v, number, 1, 0, &bad, &one, &e), SHOAL_E_DATA);
    ck_assert_int_eq(coord_eval_done(&v, number, 1, 0, &half, &two, &e), SHOAL_E_DATA);
    ck_assert_uint_eq(v.done, 0);
    coord_eval_close(&v);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_eval");
    TCase *c = tcase_create("eval");

    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, coord_eval_merges_in_task_order_whoever_comes_first);
    tcase_add_test(c, coord_eval_first_result_counts);
    tcase_add_test(c, coord_eval_tasks_of_the_dead_and_the_silent_go_out_again);
    tcase_add_test(c, coord_eval_refuses_what_cannot_be);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
