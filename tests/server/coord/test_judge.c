/* test_judge.c: when training stops for an evaluation. */
#include "proto/wire/wire.h"
#include "server/coord/figures/judge.h"
#include "server/coord/job/slot.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct coord c;

/* Plans 100 tasks of one batch of ten rows, in the first of `epochs` epochs. */
static void plan(uint32_t epochs, uint64_t every)
{
    struct coord_job *j = &c.slot[0];
    struct err e = {0};
    c = (struct coord){.slots = 1};
    coord_slot_wire(&c);
    j->at.epoch = 1;
    j->at.split[WIRE_TRAIN].rows = 1000;
    j->at.split[WIRE_VALID].used = 1;
    j->spec.train.batch = 10;
    j->spec.train.epochs = epochs;
    j->spec.evaluate.every_batches = every;
    ck_assert_int_eq(coord_task_open(j->tasks, 2, WIRE_ASYNC, &e), 0);
    ck_assert_int_eq(
        coord_task_plan(j->tasks, 1, &(struct coord_segment){.rows = 1000}, 1, 10, 1, 0, &e), 0);
    ck_assert_uint_eq(j->tasks->tasks, 100);
}

START_TEST(judge_stops_where_an_evaluation_is_due)
{
    plan(1, 30);
    coord_judge_stop(&c.slot[0]);
    ck_assert_uint_eq(c.slot[0].tasks->stop, 30);
    coord_task_close(c.slot[0].tasks);
    plan(1, 0);
    coord_judge_stop(&c.slot[0]);
    ck_assert_uint_eq(c.slot[0].tasks->stop, 100);
    coord_task_close(c.slot[0].tasks);
}
END_TEST

/* At least half of an interval must be left after a stop. */
START_TEST(judge_stops_for_no_short_rest)
{
    static const struct {
        uint64_t every, done;
        uint32_t stop;
    } cases[] = {{67, 0, 67},  {68, 0, 100},  {100, 0, 100}, {101, 0, 100},
                 {20, 60, 80}, {20, 80, 100}, {30, 30, 60},  {30, 60, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct coord_evaluation of = {.batches = cases[i].done};
        plan(1, cases[i].every);
        *c.slot[0].valid = (struct coord_evaluations){.item = &of, .count = cases[i].done > 0};
        coord_judge_stop(&c.slot[0]);
        ck_assert_uint_eq(c.slot[0].tasks->stop, cases[i].stop);
        coord_task_close(c.slot[0].tasks);
    }
}
END_TEST

START_TEST(judge_leaves_room_for_the_ends_of_epochs)
{
    for (uint32_t epochs = 1; epochs <= 1001; epochs += 1000) {
        plan(epochs, 30);
        struct coord_evaluations *v = c.slot[0].valid;
        v->count = v->capacity = COORD_EVALUATIONS_MAX - epochs;
        v->item = calloc(v->count, sizeof *v->item);
        coord_judge_stop(&c.slot[0]);
        ck_assert_uint_eq(c.slot[0].tasks->stop, 100);
        v->count--;
        coord_judge_stop(&c.slot[0]);
        ck_assert_uint_eq(c.slot[0].tasks->stop, 30);
        free(v->item);
        coord_task_close(c.slot[0].tasks);
    }
}
END_TEST

/* Early stopping by `metric`, after three evaluations with `value` each. */
static void judge_thrice(enum early_metric metric, double value, double logloss)
{
    struct coord_job *j = &c.slot[0];
    static struct coord_evaluation of[3];
    c = (struct coord){.slots = 1};
    coord_slot_wire(&c);
    j->spec.data.label_count = 1;
    j->spec.train.early_stop.patience = 2;
    j->spec.train.early_stop.lr_patience = 1;
    j->spec.train.early_stop.lr_decay = 0.5;
    j->spec.train.early_stop.metric = metric;
    j->at.lr_scale = 1;
    j->valid->item = of;
    for (uint32_t n = 1; n <= 3; n++) {
        of[n - 1].of[0] = (struct metric){
            .examples = 10, .logloss = logloss, .auc = value, .gauc = value, .positives = 0};
        j->valid->count = n;
        (void)coord_judge_keeps(j);
    }
}

START_TEST(judge_misses_nothing_where_there_is_no_metric)
{
    struct coord_job *j = &c.slot[0];
    judge_thrice(METRIC_AUC, (double)NAN, 0.5);
    ck_assert_uint_eq(j->at.misses, 0);
    ck_assert(j->at.lr_scale == 1);
    ck_assert_uint_eq(coord_judge_final(j), 3);
    judge_thrice(METRIC_GAUC, (double)NAN, 0.5);
    ck_assert_uint_eq(j->at.misses, 0);
    judge_thrice(METRIC_AUC, 0.5, 0.5); /* the first one is a gain */
    ck_assert_uint_eq(j->at.misses, 2);
    ck_assert(j->at.lr_scale == 0.25);
    judge_thrice(METRIC_LOGLOSS, 0.5, (double)NAN); /* a model that has diverged */
    ck_assert_uint_eq(j->at.misses, 3);
    judge_thrice(METRIC_AUC, (double)NAN, (double)NAN);
    ck_assert_uint_eq(j->at.misses, 3);
}
END_TEST

static struct coord_evaluation of[8];

static void judging(enum early_metric metric, uint32_t lr_patience)
{
    struct coord_job *j = &c.slot[0];
    c = (struct coord){.slots = 1};
    coord_slot_wire(&c);
    memset(of, 0, sizeof of);
    j->spec.data.label_count = 1;
    j->spec.train.early_stop.patience = 3;
    j->spec.train.early_stop.min_delta = 0.25;
    j->spec.train.early_stop.lr_patience = lr_patience;
    j->spec.train.early_stop.lr_decay = 0.5;
    j->spec.train.early_stop.metric = metric;
    j->at.lr_scale = 1;
    j->valid->item = of;
}

/* Judges the next evaluation. */
static bool judge(double value)
{
    of[c.slot[0].valid->count++].of[0] =
        (struct metric){.examples = 10, .logloss = value, .auc = value, .gauc = value};
    return coord_judge_keeps(&c.slot[0]);
}

/* A value is a gain only if it is better by at least min_delta; then the misses are reset. */
START_TEST(judge_goes_by_the_least_gain)
{
    for (int less = 0; less < 2; less++) {
        const double up = less ? -1 : 1;
        judging(less ? METRIC_LOGLOSS : METRIC_AUC, 100);
        ck_assert(judge(2));
        ck_assert(!judge(2 + up * 0.25));
        ck_assert(!judge(2 - up * 0.5));
        ck_assert_uint_eq(c.slot[0].at.misses, 2);
        ck_assert_uint_eq(c.slot[0].at.best, 1);
        ck_assert(judge(2 + up * 0.26));
        ck_assert_uint_eq(c.slot[0].at.misses, 0);
        ck_assert_uint_eq(c.slot[0].at.best, 4);
        ck_assert_uint_eq(coord_judge_final(&c.slot[0]), 4);
        /* evaluated again, because the coordinator died during its cut */
        ck_assert(coord_judge_keeps(&c.slot[0]));
        ck_assert_uint_eq(c.slot[0].at.misses, 0);
        c.slot[0].spec.train.early_stop.patience = 0; /* then the last one, whichever was kept */
        ck_assert(!judge(2));
        ck_assert_uint_eq(coord_judge_final(&c.slot[0]), 5);
    }
}
END_TEST

/* Judges an evaluation of numbers that are all off by so much. */
static bool judge_error(double error)
{
    const struct metric_real real = {.square = 10 * error * error,
                                     .absolute = 10 * error,
                                     .label = 10,
                                     .label_square = 30,
                                     .examples = 10};
    metric_real_figures(&real, &of[c.slot[0].valid->count++].of[0]);
    return coord_judge_keeps(&c.slot[0]);
}

/* A smaller rmse or mae is the better one. */
START_TEST(judge_goes_by_the_error_of_numbers)
{
    judging(_i == 0 ? METRIC_RMSE : METRIC_MAE, 100);
    c.slot[0].spec.model.loss[0] = LOSS_MSE;
    ck_assert(judge_error(2));
    ck_assert(!judge_error(2.5));
    ck_assert(judge_error(1.5));
    ck_assert(!judge_error(1.4)); /* less than min_delta better */
    ck_assert_uint_eq(c.slot[0].at.best, 3);
    ck_assert_uint_eq(c.slot[0].at.misses, 1);
    ck_assert_double_eq_tol(c.slot[0].at.best_value, 1.5, 1e-12);
}
END_TEST

START_TEST(judge_decays_each_so_many_misses)
{
    judging(METRIC_AUC, 2);
    (void)judge(2);
    for (uint32_t misses = 1; misses <= 5; misses++) {
        (void)judge(1);
        ck_assert(c.slot[0].at.lr_scale == (misses < 2 ? 1 : misses < 4 ? 0.5 : 0.25));
    }
}
END_TEST

/* The tables of the best epoch are missing, because the job continued from a later checkpoint: the
 * best of the present ones is kept meanwhile, without counting as a gain. */
START_TEST(judge_keeps_the_best_there_is)
{
    judging(METRIC_AUC, 100);
    c.slot[0].at.best = 1;
    c.slot[0].at.best_value = 4;
    c.slot[0].valid->count = 2;
    ck_assert(judge(2));
    ck_assert_uint_eq(c.slot[0].at.kept, 3);
    ck_assert_uint_eq(c.slot[0].at.best, 1);
    ck_assert_uint_eq(c.slot[0].at.misses, 1);
    ck_assert(!judge(2.125));
    ck_assert(judge(3));
    ck_assert_uint_eq(c.slot[0].at.kept, 5);
    /* its cut fails: the cut before stays */
    c.slot[0].at.cut_of = 3;
    c.slot[0].at.best_cut = 9;
    coord_judge_missed(&c.slot[0], "there is no room");
    ck_assert_uint_eq(c.slot[0].at.kept, 3);
    ck_assert(c.slot[0].at.kept_value == 2);
    ck_assert_uint_eq(coord_judge_final(&c.slot[0]), 3);
}
END_TEST

/* Evaluations within an epoch are not those of its end. */
START_TEST(judge_finds_the_evaluation_of_an_end)
{
    judging(METRIC_AUC, 100);
    for (uint32_t i = 0; i < 6; i++)
        of[i] = (struct coord_evaluation){.epoch = 1 + i / 2, .end = i == 1 || i == 4};
    of[0].end = 0, of[4].epoch = 2, of[5].epoch = 3;
    c.slot[0].valid->count = 6;
    ck_assert_ptr_eq(coord_judge_of_epoch(&c.slot[0], 1), &of[1]);
    ck_assert_ptr_eq(coord_judge_of_epoch(&c.slot[0], 2), &of[4]);
    ck_assert_ptr_null(coord_judge_of_epoch(&c.slot[0], 3));
}
END_TEST

START_TEST(judge_says_what_ended_it)
{
    judging(METRIC_AUC, 100);
    c.slot[0].spec.train.epochs = 3;
    c.slot[0].at.split[WIRE_TRAIN].rows = 100;
    for (uint64_t rows = 299; rows < 302; rows++) {
        c.slot[0].at.train_rows = rows;
        ck_assert_str_eq(coord_judge_ended(&c.slot[0]), rows < 300 ? "max_minutes" : "epochs");
    }
    for (uint32_t misses = 2; misses < 5; misses++) {
        c.slot[0].at.misses = misses;
        ck_assert_str_eq(coord_judge_ended(&c.slot[0]), misses < 3 ? "epochs" : "early_stop");
    }
}
END_TEST

/* The log grows. A job that was resumed at its end is no longer asked to stop. */
START_TEST(judge_says_what_ended_a_log_that_grows)
{
    judging(METRIC_AUC, 100);
    c.slot[0].parsed = true;
    c.slot[0].spec.data.objects.grow_ms = 1000;
    c.slot[0].at.train_ns = UINT64_C(90000000000);
    for (uint32_t asked = 0; asked <= 1; asked++) {
        static const double minutes[] = {0, 1, 1.5, 2};
        c.slot[0].stop.asked = asked == 1;
        for (uint32_t i = 0; i < 4; i++) {
            c.slot[0].spec.train.max_minutes = minutes[i];
            ck_assert_str_eq(coord_judge_ended(&c.slot[0]),
                             asked == 0 && (i == 1 || i == 2) ? "max_minutes" : "stop");
        }
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("judge");
    TCase *cases = tcase_create("judge");
    tcase_add_test(cases, judge_stops_where_an_evaluation_is_due);
    tcase_add_test(cases, judge_leaves_room_for_the_ends_of_epochs);
    tcase_add_test(cases, judge_misses_nothing_where_there_is_no_metric);
    tcase_add_test(cases, judge_stops_for_no_short_rest);
    tcase_add_test(cases, judge_goes_by_the_least_gain);
    tcase_add_loop_test(cases, judge_goes_by_the_error_of_numbers, 0, 2);
    tcase_add_test(cases, judge_decays_each_so_many_misses);
    tcase_add_test(cases, judge_keeps_the_best_there_is);
    tcase_add_test(cases, judge_finds_the_evaluation_of_an_end);
    tcase_add_test(cases, judge_says_what_ended_it);
    tcase_add_test(cases, judge_says_what_ended_a_log_that_grows);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
