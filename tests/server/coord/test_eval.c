/* test_eval.c: leased evaluation, whose results are added in the order of tasks. */
#include "proto/base/rng.h"
#include "server/coord/work/eval.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)
#define ROWS 1000u

static float score[2 * ROWS], label[2 * ROWS]; /* room for two labels */
static uint64_t group[ROWS], by[ROWS];
static struct job job;
static const struct coord_eval_objects no_objects; /* a split without objects */

static void setup(void)
{
    struct rng g = rng_of(3, 0, 0);
    for (uint32_t i = 0; i < 2 * ROWS; i++) {
        label[i] = (float)(rng_below(&g, 3) == 0);
        score[i] = (float)rng_below(&g, 50) / 100.0f + 0.2f * label[i];
    }
    for (uint32_t i = 0; i < ROWS; i++) {
        group[i] = rng_below(&g, 40);
        by[i] = rng_below(&g, 5);
    }
    memset(&job, 0, sizeof job);
    job.train.batch = 16;
}

static void open_rows(struct coord_eval *v, uint64_t rows)
{
    struct err e = {0};
    ck_assert_msg(coord_eval_open(v, 9, 1, rows, &no_objects, &job, &e) == 0, "%s", e.text);
}

static void open_leased(struct coord_eval *v, uint64_t rows)
{
    open_rows(v, rows);
    while (coord_eval_lease(v, 1, 0) != COORD_NO_EVAL)
        continue;
}

static bool no_memory; /* for the measures */

int __real_measure_add(struct measure *m, const float *s, const float *l, const uint64_t *g,
                       const uint64_t *b, uint32_t rows, struct err *e);
int __wrap_measure_add(struct measure *m, const float *s, const float *l, const uint64_t *g,
                       const uint64_t *b, uint32_t rows, struct err *e);
int __wrap_measure_add(struct measure *m, const float *s, const float *l, const uint64_t *g,
                       const uint64_t *b, uint32_t rows, struct err *e)
{
    return no_memory ? err_set(e, SHOAL_E_NOMEM, "no memory")
                     : __real_measure_add(m, s, l, g, b, rows, e);
}

/* Gives the frames of rows [position, position + count) as a worker sends them. */
static int give_part(struct coord_eval *v, uint64_t task, uint64_t position, uint32_t count,
                     uint64_t bad, struct err *e)
{
    const struct measure_options *o = &v->measure.options;
    static float scores[4 * ROWS];
    static uint64_t context[2 * ROWS];
    struct wire_EVAL_DONE q = {.task = task,
                               .examples = count,
                               .bad_lines = bad,
                               .tasks = o->tasks,
                               .grouped = o->group,
                               .by_count = o->by_count};
    memcpy(scores, score + position * o->tasks, 4ull * count * o->tasks);
    memcpy(scores + count * o->tasks, label + position * o->tasks, 4ull * count * o->tasks);
    memcpy(context, group + position, 8ull * count);
    memcpy(context + (o->group ? count : 0), by + position, o->by_count > 0 ? 8ull * count : 0);
    return coord_eval_done(v, &q, scores, context, e);
}

static int give(struct coord_eval *v, uint32_t index)
{
    struct err e;
    const struct coord_eval_task *t = &v->task[index];
    return give_part(v, coord_eval_task_number(v, index), t->position, (uint32_t)t->rows, 0, &e);
}

/* Measures all rows at once, in order. */
static void whole(struct measure *m, uint32_t rows)
{
    struct measure_options o = measure_options_of(&job, rows);
    struct err e;
    ck_assert_int_eq(measure_open(m, &o, &e), 0);
    ck_assert_int_eq(measure_add(m, score, label, group, by, rows, &e), 0);
    ck_assert_int_eq(measure_finish(m, &e), 0);
}

static void same(struct coord_eval *v, uint32_t rows)
{
    const struct measure *got;
    struct measure all;
    struct err e;
    ck_assert(coord_eval_complete(v));
    ck_assert_int_eq(coord_eval_finish(v, &got, &e), 0);
    whole(&all, rows);
    ck_assert_mem_eq(got->metric, all.metric, all.options.tasks * sizeof all.metric[0]);
    ck_assert_uint_eq(got->metric[0].examples, rows);
    if (all.options.by_count > 0) {
        ck_assert_uint_eq(got->by[0].count, all.by[0].count);
        ck_assert_mem_eq(metric_by_sums(&got->by[0], &got->by[0].value[0]),
                         metric_by_sums(&all.by[0], &all.by[0].value[0]),
                         all.options.tasks * sizeof(struct metric_by_task));
    }
    measure_close(&all);
}

START_TEST(coord_eval_measures_in_task_order_whoever_comes_first)
{
    static char *field[] = {(char *)(uintptr_t) "hour"};
    struct coord_eval v;
    if (_i > 0) {
        job.data.label_count = 2;
        job.evaluate.group[0] = 'u';
        job.evaluate.by = (struct string_list){field, 1};
    }
    if (_i == 2)
        job.evaluate.exact = 300; /* above: cells and a sample of the groups, in the same order */
    open_leased(&v, ROWS);
    ck_assert_uint_eq(v.tasks, 16);
    ck_assert_uint_eq(v.task[15].rows, 40);
    for (uint32_t i = v.tasks; i-- > 0;) {
        ck_assert(!coord_eval_complete(&v));
        ck_assert_int_eq(give(&v, i), 0);
    }
    same(&v, ROWS);
    ck_assert((v.measure.metric[0].auc_error > 0) == (_i == 2));
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_first_result_counts)
{
    struct coord_eval v;
    struct err e;
    open_leased(&v, 64);
    uint64_t number = coord_eval_task_number(&v, 0);
    ck_assert_int_eq(give_part(&v, number + (1ull << 32), 500, 64, 0, &e), 0); /* another
                                                                                * evaluation's
                                                                                * number */
    ck_assert_uint_eq(v.measured, 0);
    ck_assert_int_eq(give(&v, 0), 0);
    ck_assert_int_eq(give_part(&v, number, 500, 64, 0, &e), 0);
    same(&v, 64);
    coord_eval_close(&v);
}
END_TEST

/* A repeated result counts once, and the result of another evaluation does not count. */
START_TEST(coord_eval_adds_up_values_without_a_row)
{
    struct coord_eval v;
    struct err e;
    static const float scores[2] = {0.5f, 1};
    static const struct wire_unseen context[] = {{4, 10, 3}, {6, 20, 0}};
    open_leased(&v, 128);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t task = coord_eval_task_number(&v, i % 2) + (i == 3 ? 1ull << 32 : 0);
        struct wire_EVAL_DONE q = {.task = task, .examples = 1, .tasks = 1, .fields = 2};
        ck_assert_int_eq(coord_eval_done(&v, &q, scores, context, &e), 0);
    }
    ck_assert_uint_eq(v.measure.unseen.fields, 2);
    ck_assert_uint_eq(v.measure.unseen.of[0].field, 4);
    ck_assert_uint_eq(v.measure.unseen.of[0].absent, 6);
    ck_assert_uint_eq(v.measure.unseen.of[1].values, 40);
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_tasks_of_the_dead_and_the_silent_go_out_again)
{
    struct coord_eval v;
    open_rows(&v, 128);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 2, 0), 1);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 0), COORD_NO_EVAL);
    coord_eval_worker_gone(&v, 2);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, SECOND), 1);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 2 * SECOND), COORD_NO_EVAL);
    /* worker 1 has had it for three seconds */
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 3 * SECOND), 0);
    coord_eval_close(&v);
}
END_TEST

/* A result that comes before its turn waits, so the number of leased tasks is limited by the
 * window: memory does not grow with the split. */
START_TEST(coord_eval_leases_within_a_window)
{
    struct coord_eval v;
    uint32_t out = 0;
    job.train.batch = LIMIT_BATCH;
    open_rows(&v, 100000000);
    ck_assert_uint_eq(v.task[0].rows, LIMIT_BATCH);
    ck_assert_uint_eq(v.window, COORD_EVAL_WAITING_BYTES / (8 * LIMIT_BATCH));
    while (coord_eval_lease(&v, 1, 0) != COORD_NO_EVAL)
        out++;
    ck_assert_uint_eq(out, v.window);
    ck_assert_uint_lt(out, v.tasks);
    v.task[0].rows = 10;
    ck_assert_int_eq(give(&v, 0), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), v.window);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), COORD_NO_EVAL);
    coord_eval_close(&v);
}
END_TEST

/* With wide rows a result still fits its message. */
START_TEST(coord_eval_tasks_fit_their_message)
{
    static char *field[LIMIT_BY];
    struct coord_eval v;
    for (uint32_t i = 0; i < LIMIT_BY; i++)
        field[i] = (char *)(uintptr_t) "f";
    job.train.batch = LIMIT_BATCH;
    job.data.label_count = LIMIT_TASKS;
    job.evaluate.group[0] = 'u';
    job.evaluate.by = (struct string_list){field, LIMIT_BY};
    open_rows(&v, 1000000);
    ck_assert_uint_le(v.task[0].rows * 8 * (LIMIT_TASKS + 1 + LIMIT_BY), COORD_EVAL_TASK_BYTES);
    ck_assert_uint_le(v.window * v.task[0].rows * 8 * (LIMIT_TASKS + 1 + LIMIT_BY),
                      COORD_EVAL_WAITING_BYTES);
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_refuses_what_cannot_be)
{
    struct coord_eval v;
    struct err e;
    float bad[2] = {1.5f, 1.0f}, odd[2] = {0.5f, 2.0f};
    ck_assert_int_eq(coord_eval_open(&v, 9, 1, 0, &no_objects, &job, &e), SHOAL_E_DATA);
    ck_assert_int_eq(coord_eval_open(&v, 9, 1, COORD_EVAL_ROWS_MAX + 1ull, &no_objects, &job, &e),
                     SHOAL_E_TOO_BIG);
    open_leased(&v, 64);
    uint64_t number = coord_eval_task_number(&v, 0);
    ck_assert_int_eq(give_part(&v, number, 0, 65, 0, &e), SHOAL_E_MALFORMED);
    ck_assert_int_eq(give_part(&v, number, 0, 60, 5, &e), SHOAL_E_MALFORMED);
    struct wire_EVAL_DONE q = {.task = number, .examples = 1, .tasks = 1};
    ck_assert_int_eq(coord_eval_done(&v, &q, bad, NULL, &e), SHOAL_E_DATA);
    ck_assert_int_eq(coord_eval_done(&v, &q, odd, NULL, &e), SHOAL_E_DATA);
    q.tasks = 2;
    ck_assert_int_eq(coord_eval_done(&v, &q, score, NULL, &e), SHOAL_E_MALFORMED);
    q.tasks = 1;
    q.grouped = true;
    ck_assert_int_eq(coord_eval_done(&v, &q, score, group, &e), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(v.measured, 0);
    coord_eval_close(&v);
}
END_TEST

/* The result of a task that was never leased would wait outside the window, and would be
 * counted. */
START_TEST(coord_eval_refuses_a_task_that_was_never_leased)
{
    struct coord_eval v;
    open_rows(&v, 128);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), 0);
    ck_assert_int_eq(give(&v, 1), SHOAL_E_MALFORMED);
    ck_assert(!v.task[1].done && v.task[1].result == NULL);
    ck_assert_int_eq(give(&v, 0), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 0), 1);
    ck_assert_int_eq(give(&v, 1), 0);
    same(&v, 128);
    coord_eval_close(&v);
}
END_TEST

START_TEST(coord_eval_counts_no_task_that_was_not_measured)
{
    struct coord_eval v;
    uint32_t first = (uint32_t)_i;
    open_leased(&v, 128);
    for (uint32_t i = 0; i < first; i++)
        ck_assert_int_eq(give(&v, i), 0);
    no_memory = true;
    ck_assert_int_eq(give(&v, first), SHOAL_E_NOMEM);
    no_memory = false;
    ck_assert_uint_eq(v.measured, first);
    ck_assert(!coord_eval_complete(&v));
    for (uint32_t i = first; i < v.tasks; i++)
        ck_assert_int_eq(give(&v, i), 0);
    same(&v, 128);
    coord_eval_close(&v);
}
END_TEST

/* ---- a split of objects ---- */

static uint64_t holder[12];
static struct coord_piece piece[12];

/* Opens a split of objects with these numbers of rows; no worker holds an object yet. */
static void open_objects(struct coord_eval *v, uint32_t count, const uint64_t *rows, bool files)
{
    struct coord_eval_objects o = {
        .piece = piece, .pieces = count, .count = count, .holder = holder, .files = files};
    struct err e;
    uint64_t sum = 0;
    memset(holder, 0, sizeof holder);
    for (uint32_t i = 0; i < count; i++) {
        piece[i] = (struct coord_piece){.rows = rows[i], .object = i};
        sum += rows[i];
    }
    ck_assert_int_eq(coord_eval_open(v, 9, 1, sum, &o, &job, &e), 0);
}

/* The holder of an object works on it while the others work on theirs, however long an object
 * is. */
START_TEST(coord_eval_takes_objects_by_turns)
{
    static const uint64_t rows[] = {100, 30, 70, 64, 64, 64, 64, 64, 128, 1};
    static const struct {
        uint32_t object, position, rows;
    } expected[] = {{0, 0, 64}, {1, 0, 30}, {2, 0, 64}, {3, 0, 64},  {4, 0, 64},
                    {5, 0, 64}, {6, 0, 64}, {7, 0, 64}, {0, 64, 36}, {9, 0, 1},
                    {2, 64, 6}, {8, 0, 64}, {8, 64, 64}};
    struct coord_eval v;
    open_objects(&v, 10, rows, false);
    ck_assert_uint_eq(v.tasks, sizeof expected / sizeof expected[0]);
    for (uint32_t i = 0; i < v.tasks; i++) {
        ck_assert_uint_eq(v.task[i].object, expected[i].object);
        ck_assert_uint_eq(v.task[i].position, expected[i].position);
        ck_assert_uint_eq(v.task[i].rows, expected[i].rows);
    }
    coord_eval_close(&v);
}
END_TEST

static uint32_t leased(struct coord_eval *v, uint64_t worker)
{
    uint32_t task = coord_eval_lease(v, worker, 0);
    return task == COORD_NO_EVAL ? task : v->task[task].object;
}

START_TEST(coord_eval_gives_an_object_to_its_holder)
{
    static const uint64_t rows[] = {128, 128, 64};
    struct coord_eval v;
    open_objects(&v, 3, rows, false);
    holder[0] = 1;
    holder[1] = 2;
    v.fair = 1;
    ck_assert_uint_eq(leased(&v, 2), 1);
    ck_assert_uint_eq(leased(&v, 2), 1);
    ck_assert_uint_eq(leased(&v, 2), 2); /* it had no holder */
    ck_assert_uint_eq(holder[2], 2);
    ck_assert_uint_eq(leased(&v, 2), COORD_NO_EVAL); /* object 0 belongs to worker 1 */
    ck_assert_uint_eq(leased(&v, 3), 0); /* a worker without objects takes one that is not begun */
    ck_assert_uint_eq(holder[0], 3);
    ck_assert_uint_eq(leased(&v, 1), COORD_NO_EVAL);
    ck_assert_uint_eq(coord_eval_lease(&v, 1, 10 * SECOND), COORD_NO_EVAL);
    holder[1] = 0; /* 2 dies */
    coord_eval_worker_gone(&v, 2);
    ck_assert_uint_eq(leased(&v, 1), 1);
    ck_assert_uint_eq(holder[1], 1);
    ck_assert_uint_eq(leased(&v, 1), 1);
    ck_assert_uint_eq(leased(&v, 3), 0);
    ck_assert_uint_eq(coord_eval_lease(&v, 3, 10 * SECOND), 0); /* an answer may be lost */
    coord_eval_close(&v);
}
END_TEST

/* One file and four workers: each worker may open it. The output of a command is read by one
 * worker. */
START_TEST(coord_eval_files_fewer_than_workers_are_anybodys)
{
    static const uint64_t rows[] = {256};
    struct coord_eval v;
    for (int files = 1; files >= 0; files--) {
        open_objects(&v, 1, rows, files == 1);
        holder[0] = 1;
        for (uint64_t worker = 1; worker <= 4; worker++)
            ck_assert_uint_eq(leased(&v, worker), files == 1 || worker == 1 ? 0 : COORD_NO_EVAL);
        ck_assert_uint_eq(holder[0], 1);
        coord_eval_close(&v);
    }
}
END_TEST

/* Scores and labels of numbers, and labels that are missing. */
START_TEST(coord_eval_takes_numbers_and_missing_labels)
{
    struct coord_eval v;
    struct err e;
    const struct {
        float score, label;
        enum loss_kind loss;
        uint32_t labels;
        int rc;
    } c[] = {{-3.5f, 700, LOSS_MSE, 1, 0},
             {-3.5f, 700, LOSS_LOGLOSS, 1, SHOAL_E_DATA},
             {0.5f, 2, LOSS_LOGLOSS, 1, SHOAL_E_DATA},
             {0.5f, NAN, LOSS_LOGLOSS, 1, SHOAL_E_DATA},
             {0.5f, NAN, LOSS_MSE, 1, SHOAL_E_DATA},
             {0.5f, NAN, LOSS_LOGLOSS, 2, 0},
             {0.5f, NAN, LOSS_HUBER, 2, 0},
             {INFINITY, 1, LOSS_HUBER, 2, SHOAL_E_DATA},
             {1, INFINITY, LOSS_MSE, 2, SHOAL_E_DATA},
             {NAN, 1, LOSS_MSE, 1, SHOAL_E_DATA}};
    for (size_t i = 0; i < sizeof c / sizeof c[0]; i++) {
        job.data.label_count = c[i].labels;
        job.model.loss[0] = c[i].loss;
        open_leased(&v, 16);
        score[0] = c[i].score;
        label[0] = c[i].label;
        int rc = give_part(&v, coord_eval_task_number(&v, 0), 0, 16, 0, &e);
        ck_assert_msg(rc == c[i].rc, "case %zu: %d", i, rc);
        if (rc == 0) {
            const struct measure *got;
            ck_assert_int_eq(coord_eval_finish(&v, &got, &e), 0);
            ck_assert_uint_eq(got->metric[0].examples, 16 - (isnan(c[i].label) ? 1 : 0));
            ck_assert(metric_is_real(&got->metric[0]) == (c[i].loss != LOSS_LOGLOSS));
        }
        coord_eval_close(&v);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_eval");
    TCase *c = tcase_create("eval");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_loop_test(c, coord_eval_measures_in_task_order_whoever_comes_first, 0, 3);
    tcase_add_test(c, coord_eval_first_result_counts);
    tcase_add_test(c, coord_eval_takes_numbers_and_missing_labels);
    tcase_add_test(c, coord_eval_adds_up_values_without_a_row);
    tcase_add_test(c, coord_eval_tasks_of_the_dead_and_the_silent_go_out_again);
    tcase_add_test(c, coord_eval_leases_within_a_window);
    tcase_add_test(c, coord_eval_tasks_fit_their_message);
    tcase_add_test(c, coord_eval_refuses_what_cannot_be);
    tcase_add_test(c, coord_eval_refuses_a_task_that_was_never_leased);
    tcase_add_loop_test(c, coord_eval_counts_no_task_that_was_not_measured, 0, 2);
    tcase_add_test(c, coord_eval_takes_objects_by_turns);
    tcase_add_test(c, coord_eval_gives_an_object_to_its_holder);
    tcase_add_test(c, coord_eval_files_fewer_than_workers_are_anybodys);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
