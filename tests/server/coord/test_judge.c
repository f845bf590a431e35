/* test_judge.c: when training stops for an evaluation. */
#include "proto/wire/wire.h"
#include "server/coord/core.h"
#include "server/coord/judge.h"

#include <check.h>
#include <stdlib.h>

static struct coord c;

/* 100 tasks of one batch of ten rows, in the first of so many epochs. */
static void plan(uint32_t epochs, uint64_t every)
{
    struct coord_job *j = &c.job;
    struct err e = {0};
    c = (struct coord){.fatal = 0};
    j->at.epoch = 1;
    j->at.split[WIRE_TRAIN].rows = 1000;
    j->at.split[WIRE_VALID].used = 1;
    j->spec.train.batch = 10;
    j->spec.train.epochs = epochs;
    j->spec.evaluate.every_batches = every;
    ck_assert_int_eq(coord_task_open(&j->tasks, 2, WIRE_ASYNC, &e), 0);
    ck_assert_int_eq(coord_task_plan(&j->tasks, 1, 1000, 10, 1, 0, &e), 0);
    ck_assert_uint_eq(j->tasks.tasks, 100);
}

START_TEST(judge_stops_where_an_evaluation_is_due)
{
    plan(1, 30);
    coord_judge_stop(&c);
    ck_assert_uint_eq(c.job.tasks.stop, 30);
    coord_task_close(&c.job.tasks);
    plan(1, 0);
    coord_judge_stop(&c);
    ck_assert_uint_eq(c.job.tasks.stop, 100);
    coord_task_close(&c.job.tasks);
}
END_TEST

START_TEST(judge_leaves_room_for_the_ends_of_epochs)
{
    struct coord_evaluations *v = &c.job.valid;
    for (uint32_t epochs = 1; epochs <= 1001; epochs += 1000) {
        plan(epochs, 30);
        v->count = v->capacity = COORD_EVALUATIONS_MAX - epochs;
        v->item = calloc(v->count, sizeof *v->item);
        coord_judge_stop(&c);
        ck_assert_uint_eq(c.job.tasks.stop, 100);
        free(v->item);
        coord_task_close(&c.job.tasks);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("judge");
    TCase *cases = tcase_create("judge");
    tcase_add_test(cases, judge_stops_where_an_evaluation_is_due);
    tcase_add_test(cases, judge_leaves_room_for_the_ends_of_epochs);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
