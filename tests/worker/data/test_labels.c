/* test_labels.c: labels that are numbers, and labels that are missing: text, kept rows and event
 * files give the same ones. */
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_log.h"
#include "worker/data/convert.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS 3000u

static struct job job, other;
static struct dataset *d, *same;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    d = same = NULL;
    memset(&job, 0, sizeof job);
    memset(&other, 0, sizeof other);
}

static void teardown(void)
{
    dataset_close(d);
    dataset_close(same);
    job_free(&job);
    job_free(&other);
    worker_folder_remove();
}

/* Row i lacks `click` where i % 3 is 1, `watch` where i % 4 is 2, both and so every label where
 * both are true, and is malformed where i % 17 is 5. */
static void log_write(void)
{
    char *text = malloc(64 + 64 * (size_t)ROWS);
    ck_assert_ptr_nonnull(text);
    size_t at = (size_t)sprintf(text, "watch,click,a,b,cat\n");
    for (uint32_t i = 0; i < ROWS; i++) {
        if (i % 17 == 5) {
            at += (size_t)sprintf(text + at, "what,%u\n", i);
            continue;
        }
        if (i % 4 != 2)
            at += (size_t)sprintf(text + at, "%.2f", (double)i / 4 - 100);
        at += (size_t)sprintf(text + at, i % 3 == 1 ? "," : ",%u", i % 5 == 0);
        at += (size_t)sprintf(text + at, ",%u,%u,c%u\n", i % 90, i % 7, i % 37);
    }
    worker_write("log.csv", text, at);
    free(text);
}

static bool row_good(uint32_t i)
{
    return i % 17 != 5 && (i % 3 != 1 || i % 4 != 2);
}

/* A number and a label of 0 and 1, in this order. */
static void two_labels(struct job *j, enum data_format format, const char *path)
{
    worker_job(j, format, path);
    strcpy(j->data.label[0], "watch");
    strcpy(j->data.label[1], "click");
    j->data.label_count = 2;
    j->model.loss[0] = LOSS_HUBER;
    if (format == DATA_CSV) {
        worker_job_column(j, "a", COLUMN_NUMBER);
        worker_job_column(j, "b", COLUMN_NUMBER);
    }
    strcpy(j->evaluate.group, "cat");
    ck_assert_int_eq(config_list_add(&j->evaluate.by, "cat"), 0);
}

static void open_one(struct job *j, struct dataset **out)
{
    ck_assert_msg(dataset_open(j, WIRE_TRAIN, out, &e) == 0, "%s", e.text);
}

static const char *convert(void)
{
    struct convert_sums sums;
    const char *path = worker_path("log.events");
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e) == 0, "%s", e.text);
    return path;
}

START_TEST(labels_of_text_are_numbers_bits_or_missing)
{
    struct batch b;
    uint32_t n = 0;
    log_write();
    two_labels(&job, DATA_CSV, worker_path("log.csv"));
    open_one(&job, &d);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 0, 0, ROWS, &b, &e), 0);
    for (uint32_t i = 0; i < ROWS; i++) {
        if (!row_good(i))
            continue;
        float watch = b.label[2 * n], click = b.label[2 * n + 1];
        ck_assert_int_eq(isnan(watch), i % 4 == 2);
        ck_assert_int_eq(isnan(click), i % 3 == 1);
        ck_assert(isnan(watch) || watch == (float)((double)i / 4 - 100));
        ck_assert(isnan(click) || click == (float)(i % 5 == 0));
        n++;
    }
    ck_assert_uint_eq(b.examples, n);
    ck_assert_uint_eq(b.bad_lines, ROWS - n);
    batch_free(&b);
}
END_TEST

START_TEST(labels_of_kept_rows_are_those_of_their_log)
{
    log_write();
    two_labels(&job, DATA_CSV, worker_path("log.csv"));
    two_labels(&other, DATA_CSV, worker_path("log.csv"));
    other.data.cache_max = 1u << 30;
    open_one(&job, &d);
    open_one(&other, &same);
    ck_assert_int_gt(worker_count_files("cache", ".rows"), 0);
    worker_log_same(d, same, 700);
}
END_TEST

START_TEST(labels_of_events_are_those_of_their_log)
{
    log_write();
    two_labels(&job, DATA_CSV, worker_path("log.csv"));
    two_labels(&other, DATA_EVENTS, convert());
    open_one(&job, &d);
    open_one(&other, &same);
    worker_log_same(d, same, 700);
}
END_TEST

/* A job with one of the labels takes the rows that have it; the others are malformed, as in
 * text. */
START_TEST(labels_of_events_may_be_fewer)
{
    struct batch b;
    uint32_t good = 0;
    log_write();
    two_labels(&job, DATA_CSV, worker_path("log.csv"));
    two_labels(&other, DATA_EVENTS, convert());
    strcpy(other.data.label[0], _i == 0 ? "watch" : "click");
    other.data.label_count = 1;
    other.model.loss[0] = _i == 0 ? LOSS_MSE : LOSS_LOGLOSS;
    open_one(&other, &same);
    batch_init(&b);
    ck_assert_int_eq(batch_read(same, 1, 0, 0, ROWS, &b, &e), 0);
    for (uint32_t i = 0; i < ROWS; i++)
        good += i % 17 != 5 && (_i == 0 ? i % 4 != 2 : i % 3 != 1);
    ck_assert_uint_eq(b.examples, good);
    ck_assert_uint_eq(b.bad_lines, ROWS - good);
    for (uint32_t i = 0; i < b.examples; i++)
        ck_assert(!isnan(b.label[i]));
    batch_free(&b);
}
END_TEST

/* A number is not read as 0 or 1, nor the other way round. */
START_TEST(labels_of_events_of_another_loss_are_refused)
{
    log_write();
    two_labels(&job, DATA_CSV, worker_path("log.csv"));
    two_labels(&other, DATA_EVENTS, convert());
    other.model.loss[_i] = _i == 0 ? LOSS_LOGLOSS : LOSS_MSE;
    ck_assert_int_eq(dataset_open(&other, WIRE_TRAIN, &same, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, _i == 0
                                     ? "label \"watch\" is 0 or 1 in this job (model.loss), and "
                                       "a number in"
                                     : "label \"click\" is a number in this job (model.loss), "
                                       "and 0 or 1 in") != NULL,
                  "%s", e.text);
}
END_TEST

static void check_line(const char *line, const char *words)
{
    struct batch b;
    char text[256];
    (void)snprintf(text, sizeof text, "watch,click,a,b,cat\n%s\n", line);
    worker_text("one.csv", text);
    job_free(&job);
    two_labels(&job, DATA_CSV, worker_path("one.csv"));
    dataset_close(d);
    d = NULL;
    open_one(&job, &d);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 0, 0, 1, &b, &e), 0);
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_msg(strstr(b.bad_where, words) != NULL, "%s", b.bad_where);
    batch_free(&b);
}

START_TEST(labels_that_are_none_are_told)
{
    check_line(",,3,4,c", "no label: column \"watch\" has \"\"; and the others are empty too");
    check_line("NA,1,3,4,c", "column \"watch\" has \"NA\"; name the word in data.missing");
    check_line("1e39,1,3,4,c", "a number too large for a float");
    check_line("\"3,5\",1,3,4,c", "data.decimal: comma");
}
END_TEST

/* The job's warning when the input is opened. */
START_TEST(label_that_is_one_number_is_warned_of)
{
    worker_text("one.csv", "watch,click,a,b,cat\n3,1,1,1,c\n3,0,2,1,c\n3.0,1,4,1,d\n");
    two_labels(&job, DATA_CSV, worker_path("one.csv"));
    open_one(&job, &d);
    ck_assert_msg(strstr(dataset_warning(d), "all 3 lines looked at have the number 3") != NULL,
                  "%s", dataset_warning(d));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("labels");
    TCase *t = tcase_create("labels");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, labels_of_text_are_numbers_bits_or_missing);
    tcase_add_test(t, labels_of_kept_rows_are_those_of_their_log);
    tcase_add_test(t, labels_of_events_are_those_of_their_log);
    tcase_add_loop_test(t, labels_of_events_may_be_fewer, 0, 2);
    tcase_add_loop_test(t, labels_of_events_of_another_loss_are_refused, 0, 2);
    tcase_add_test(t, labels_that_are_none_are_told);
    tcase_add_test(t, label_that_is_one_number_is_warned_of);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
