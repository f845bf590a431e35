/* test_dated.c: event times from the names of files: for text, for parsed rows, and for event files
 * made from them; rows outside their partition. */
#include "worker/data/dated.h"

#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "worker/data/convert.h"
#include "worker/data/dataset.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define HOUR 3600u
#define MARCH_4 1772582400u /* 2026-03-04T00:00:00Z */

static struct job job;
static struct dataset *d;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    d = NULL;
    e = (struct err){0};
    worker_job(&job, DATA_CSV, NULL);
    job.data.shuffle = false;
    ck_assert_int_eq(partition_parse("{date}-{hour}.csv", &job.data.partition, &e), 0);
}

static void teardown(void)
{
    dataset_close(d);
    job_free(&job);
    worker_folder_remove();
}

static void file_add(const char *name, const char *text)
{
    ck_assert_int_eq(config_list_add(&job.data.train, worker_text(name, text)), 0);
}

static void open_it(void)
{
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
}

static uint32_t time_of(uint64_t row)
{
    struct batch b;
    batch_init(&b);
    ck_assert_msg(batch_read(d, 1, 1, row, 1, &b, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(b.examples, 1);
    ck_assert_uint_eq(b.outside, 0);
    uint32_t time = b.event_time;
    batch_free(&b);
    return time;
}

/* _i 1: with parsed rows in the cache folder. In a replay rows are ordered by these times, and the
 * rows of one file as they lie. */
START_TEST(rows_are_of_the_time_that_their_files_name_says)
{
    job.data.cache_max = _i << 20;
    job.replay.on = true;
    job.replay.window = HOUR;
    file_add("2026-03-04-05.csv", "label,row\n1,a\n0,b\n");
    file_add("2026-03-04-03.csv", "label,row\nbroken\n0,d\n1,e\n");
    file_add("2026-03-04-04.csv", "label,row\n");
    for (int again = 0; again < 2; again++) {
        uint32_t number, first;
        open_it();
        ck_assert_uint_eq(dataset_windows(d), 2);
        ck_assert_uint_eq(dataset_window(d, 0, &number, &first), 3);
        ck_assert(number == MARCH_4 / HOUR + 3 && first == MARCH_4 + 3 * HOUR);
        ck_assert_uint_eq(dataset_window(d, 1, &number, &first), 2);
        ck_assert_uint_eq(time_of(1), MARCH_4 + 3 * HOUR);
        ck_assert_uint_eq(time_of(3), MARCH_4 + 5 * HOUR);
        dataset_close(d);
        d = NULL;
    }
    /* the same files with other clocks: the kept rows have another time */
    ck_assert_int_eq(zone_parse("0+3600", &job.data.zone), 0);
    open_it();
    ck_assert_uint_eq(time_of(1), MARCH_4 + 2 * HOUR);
}
END_TEST

START_TEST(rows_outside_of_their_partition_are_counted_and_keep_their_times)
{
    char text[256];
    struct batch b;
    snprintf(job.data.time, sizeof job.data.time, "at");
    job.data.cache_max = _i << 20;
    snprintf(text, sizeof text, "label,at,row\n1,%u,a\n0,%u,b\n1,%u,c\n", MARCH_4 + 5 * HOUR,
             MARCH_4 + 6 * HOUR - 1, MARCH_4 + 6 * HOUR);
    file_add("2026-03-04-05.csv", text);
    snprintf(text, sizeof text, "label,at,row\n1,%u,a\n0,never,b\n", MARCH_4 + 5 * HOUR);
    file_add("2026-03-04-06.csv", text);
    open_it();
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 1, 0, 5, &b, &e), 0);
    ck_assert_uint_eq(b.outside, 2);
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_int_eq(batch_read(d, 1, 1, 2, 1, &b, &e), 0);
    ck_assert_uint_eq(b.outside, 1);
    ck_assert_uint_eq(b.event_time, MARCH_4 + 6 * HOUR);
    batch_free(&b);
}
END_TEST

START_TEST(names_that_do_not_match_are_named)
{
    static const char *const what[] = {"2026-03-04-24.csv", "2026-03-04-05.csv.gz", "x.csv"};
    file_add("2026-03-04-05.csv", "label,row\n1,a\n");
    file_add(what[_i], "label,row\n1,a\n");
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, what[_i]) != NULL && strstr(e.text, "{date}-{hour}.csv") != NULL,
                  "%s", e.text);
    e = (struct err){0};
    ck_assert_int_eq(dataset_check(&job, &e), SHOAL_E_CONFIG);
    /* evaluated files have no times, and any name */
    ck_assert_int_eq(config_list_add(&job.data.valid, worker_path(what[_i])), 0);
    ck_assert_msg(dataset_open(&job, WIRE_VALID, &d, &e) == 0, "%s", e.text);
}
END_TEST

/* An event file made from them has the times, and gives them to the same job. */
START_TEST(event_files_of_them_keep_the_times)
{
    file_add("2026-03-04-05.csv", "label,row\n1,a\n0,b\n");
    file_add("2026-03-04-03.csv", "label,row\n0,d\n");
    const char *out = worker_path("log.events");
    struct convert_sums made;
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, out, NULL, NULL, &made, &e) == 0, "%s", e.text);
    config_list_free(&job.data.train);
    ck_assert_int_eq(config_list_add(&job.data.train, out), 0);
    job.data.format = DATA_EVENTS;
    open_it();
    ck_assert_uint_eq(time_of(0), MARCH_4 + 5 * HOUR);
    ck_assert_uint_eq(time_of(2), MARCH_4 + 3 * HOUR);
}
END_TEST

START_TEST(event_files_without_times_are_refused)
{
    struct partition is = job.data.partition;
    struct convert_sums made;
    const char *out = worker_path("log.events");
    job.data.partition = (struct partition){.step = 0};
    file_add("2026-03-04-05.csv", "label,row\n1,a\n0,b\n");
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, out, NULL, NULL, &made, &e) == 0, "%s", e.text);
    config_list_free(&job.data.train);
    ck_assert_int_eq(config_list_add(&job.data.train, out), 0);
    job.data.format = DATA_EVENTS;
    job.data.partition = is;
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "without event times"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("dated");
    TCase *t = tcase_create("dated");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, rows_are_of_the_time_that_their_files_name_says, 0, 2);
    tcase_add_loop_test(t, rows_outside_of_their_partition_are_counted_and_keep_their_times, 0, 2);
    tcase_add_loop_test(t, names_that_do_not_match_are_named, 0, 3);
    tcase_add_test(t, event_files_of_them_keep_the_times);
    tcase_add_test(t, event_files_without_times_are_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
