/* test_judge.c: when training stops for an evaluation. */
#include "proto/wire/wire.h"
#include "server/coord/core.h"
#include "server/coord/judge.h"

#include <check.h>
#include <math.h>
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
    ck_assert_int_eq(
        coord_task_plan(&j->tasks, 1, &(struct coord_segment){.rows = 1000}, 1, 10, 1, 0, &e), 0);
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

/* Early stopping by `metric`, of three evaluations in which it is `value`. */
static void judge_thrice(enum early_metric metric, double value, double logloss)
{
    struct coord_job *j = &c.job;
    static struct coord_evaluation of[3];
    c = (struct coord){.fatal = 0};
    j->spec.data.label_count = 1;
    j->spec.train.early_stop.patience = 2;
    j->spec.train.early_stop.lr_patience = 1;
    j->spec.train.early_stop.lr_decay = 0.5;
    j->spec.train.early_stop.metric = metric;
    j->at.lr_scale = 1;
    j->valid.item = of;
    for (uint32_t n = 1; n <= 3; n++) {
        of[n - 1].of[0] = (struct metric){
            .examples = 10, .logloss = logloss, .auc = value, .gauc = value, .positives = 0};
        j->valid.count = n;
        (void)coord_judge_keeps(j);
    }
}

START_TEST(judge_misses_nothing_where_there_is_no_metric)
{
    struct coord_job *j = &c.job;
    judge_thrice(METRIC_AUC, (double)NAN, 0.5);
    ck_assert_uint_eq(j->at.misses, 0);
    ck_assert(j->at.lr_scale == 1);
    ck_assert_uint_eq(coord_judge_final(j), 3);
    judge_thrice(METRIC_GAUC, (double)NAN, 0.5);
    ck_assert_uint_eq(j->at.misses, 0);
    judge_thrice(METRIC_AUC, 0.5, 0.5); /* the first is a gain */
    ck_assert_uint_eq(j->at.misses, 2);
    ck_assert(j->at.lr_scale == 0.25);
    judge_thrice(METRIC_LOGLOSS, 0.5, (double)NAN); /* a model that has gone astray */
    ck_assert_uint_eq(j->at.misses, 3);
    judge_thrice(METRIC_AUC, (double)NAN, (double)NAN);
    ck_assert_uint_eq(j->at.misses, 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("judge");
    TCase *cases = tcase_create("judge");
    tcase_add_test(cases, judge_stops_where_an_evaluation_is_due);
    tcase_add_test(cases, judge_leaves_room_for_the_ends_of_epochs);
    tcase_add_test(cases, judge_misses_nothing_where_there_is_no_metric);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
