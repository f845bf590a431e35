/* test_evaluate.c: predictions of a task, and the message that reports them: row by row, in the
 * given order. */
#include "worker/train/evaluate.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TASKS = 2, FIELDS = 3 };

static struct job job;
static struct scores s;

static void setup(void)
{
    static char *field[FIELDS] = {(char *)(uintptr_t) "a", (char *)(uintptr_t) "b",
                                  (char *)(uintptr_t) "c"};
    memset(&job, 0, sizeof job);
    job.data.label_count = TASKS;
    job.evaluate.group[0] = 'u';
    job.evaluate.by = (struct string_list){field, FIELDS};
    evaluate_scores_init(&s);
}

static void teardown(void)
{
    evaluate_scores_close(&s);
}

/* Adds rows first .. first + count - 1; every number is made from its row's. */
static void add(uint32_t first, uint32_t count)
{
    static float score[100 * TASKS], label[100 * TASKS];
    static uint64_t group[100], by[100 * FIELDS];
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t t = 0; t < TASKS; t++) {
            score[i * TASKS + t] = (float)(first + i) / 1024.0f + 0.25f * (float)t;
            label[i * TASKS + t] = (float)((first + i + t) % 2);
        }
        group[i] = 1000 + first + i;
        for (uint32_t f = 0; f < FIELDS; f++)
            by[i * FIELDS + f] = 10 * (first + i) + f;
    }
    struct batch b = {.examples = count,
                      .tasks = TASKS,
                      .label = label,
                      .group = group,
                      .by = by,
                      .by_count = FIELDS};
    evaluate_scores_add(&s, score, &b);
}

START_TEST(evaluate_message_holds_every_row_once)
{
    struct wire got;
    struct err e = {0};
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, 150, &e), 0);
    add(0, 100);
    add(100, 0);
    add(100, 30);
    struct msg *m = evaluate_scores_message(&s, 5, 6, 7, 20);
    ck_assert_msg(wire_decode(m, &got, &e) == 0, "%s", e.text);
    const struct wire_EVAL_DONE *q = &got.u.EVAL_DONE;
    ck_assert(q->pass == 6 && q->task == 7 && q->bad_lines == 20 && q->examples == 130);
    ck_assert(q->tasks == TASKS && q->grouped && q->by_count == FIELDS);
    const float *score = m->frame[1].data, *label = score + 130 * TASKS;
    const uint64_t *group = m->frame[2].data, *by = group + 130;
    for (uint32_t i = 0; i < 130; i++) {
        for (uint32_t t = 0; t < TASKS; t++) {
            ck_assert_double_eq((double)score[i * TASKS + t], i / 1024.0 + 0.25 * t);
            ck_assert_double_eq((double)label[i * TASKS + t], (i + t) % 2);
        }
        ck_assert_uint_eq(group[i], 1000 + i);
        for (uint32_t f = 0; f < FIELDS; f++)
            ck_assert_uint_eq(by[i * FIELDS + f], 10 * i + f);
    }
    msg_free(m);
}
END_TEST

START_TEST(evaluate_message_without_groups_is_short)
{
    struct wire got;
    struct err e = {0};
    float score = 0.5f, label = 1;
    struct batch b = {.examples = 1, .tasks = 1, .label = &label};
    memset(&job, 0, sizeof job);
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, 1, &e), 0);
    evaluate_scores_add(&s, &score, &b);
    struct msg *m = evaluate_scores_message(&s, 1, 1, 1, 0);
    ck_assert_int_eq(wire_decode(m, &got, &e), 0);
    ck_assert(got.u.EVAL_DONE.tasks == 1 && !got.u.EVAL_DONE.grouped &&
              got.u.EVAL_DONE.by_count == 0);
    ck_assert_uint_eq(m->frame[1].bytes, 8);
    ck_assert_uint_eq(m->frame[2].bytes, 0);
    msg_free(m);
}
END_TEST

START_TEST(evaluate_copy_is_the_same)
{
    struct scores copy;
    struct err e = {0};
    evaluate_scores_init(&copy);
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, 100, &e), 0);
    add(7, 60);
    ck_assert_int_eq(evaluate_scores_copy(&copy, &s, &job, &e), 0);
    ck_assert_uint_eq(copy.count, 60);
    ck_assert_mem_eq(copy.by, s.by, 60 * FIELDS * sizeof *s.by);
    ck_assert_mem_eq(copy.score, s.score, 60 * TASKS * sizeof *s.score);
    /* an empty one, into existing memory */
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, 100, &e), 0);
    ck_assert_int_eq(evaluate_scores_copy(&copy, &s, &job, &e), 0);
    ck_assert_uint_eq(copy.count, 0);
    evaluate_scores_close(&copy);
}
END_TEST

START_TEST(evaluate_task_that_is_too_long_is_refused)
{
    struct err e = {0};
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, LIMIT_BATCH + 1, &e), SHOAL_E_TOO_BIG);
    ck_assert_ptr_nonnull(strstr(e.text, "65537 rows"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("evaluate");
    TCase *c = tcase_create("evaluate");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, evaluate_message_holds_every_row_once);
    tcase_add_test(c, evaluate_message_without_groups_is_short);
    tcase_add_test(c, evaluate_copy_is_the_same);
    tcase_add_test(c, evaluate_task_that_is_too_long_is_refused);
    suite_add_tcase(suite, c);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
