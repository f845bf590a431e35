/* test_windows.c: an epoch drawn within windows of event time: window after window, each row once,
 * drawn within its window; times are kept with the index. */
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"
#include "worker/data/order.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR 3600u
#define DAY_1 1700006400u /* a full hour */

static struct job job;
static struct dataset *d;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    d = NULL;
    worker_job(&job, DATA_CSV, NULL);
    strcpy(job.data.time, "when");
    job.data.shuffle_within = HOUR;
}

static void teardown(void)
{
    dataset_close(d);
    job_free(&job);
    worker_folder_remove();
}

static void open_rows(const char *text, size_t bytes)
{
    ck_assert_int_eq(config_list_add(&job.data.train, worker_write("train.csv", text, bytes)), 0);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
}

static bool future; /* the first row's year is 2100 */

/* Row i has minute (i * step) % rows: with step 1 the log is in order of time. alike: all labels
 * are 1. */
static void open_log(uint32_t rows, uint32_t step, bool alike)
{
    char *text = malloc(32 + 40 * (size_t)rows);
    size_t at = (size_t)sprintf(text, "label,when,row\n");
    for (uint32_t i = 0; i < rows; i++)
        at += (size_t)sprintf(
            text + at, "%u,%u,r%u\n", alike ? 1 : i & 1,
            future && i == 0 ? 4102444800u : DAY_1 + 60 * (uint32_t)((uint64_t)i * step % rows), i);
    open_rows(text, at);
    free(text);
}

/* Returns the minutes of an epoch's rows, in order; the caller frees them. */
static uint32_t *minutes_of(uint32_t epoch, uint32_t rows)
{
    uint32_t *minute = malloc(sizeof *minute * rows);
    struct batch b;
    batch_init(&b);
    for (uint32_t i = 0; i < rows; i++) {
        ck_assert_msg(batch_read(d, 2026, epoch, i, 1, &b, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(b.examples, 1);
        minute[i] = (b.event_time - DAY_1) / 60;
    }
    batch_free(&b);
    return minute;
}

/* _i: how far the log is out of order. */
START_TEST(rows_come_window_by_window)
{
    enum { ROWS = 1000 };
    open_log(ROWS, _i == 0 ? 1 : 387, false);
    for (uint32_t epoch = 1; epoch <= 2; epoch++) {
        uint32_t *minute = minutes_of(epoch, ROWS), in_order = 0;
        bool seen[ROWS] = {false};
        for (uint32_t i = 0; i < ROWS; i++) {
            ck_assert(minute[i] < ROWS && !seen[minute[i]]);
            seen[minute[i]] = true;
            ck_assert_msg(i == 0 || minute[i] / 60 >= minute[i - 1] / 60, "row %u of minute %u", i,
                          minute[i]);
            in_order += i > 0 && minute[i] > minute[i - 1];
        }
        ck_assert_uint_lt(in_order, ROWS * 6 / 10); /* half, if each window is drawn */
        free(minute);
    }
}
END_TEST

START_TEST(an_epoch_without_a_draw_is_the_files_order)
{
    job.data.shuffle = false;
    job.data.shuffle_within = 0;
    open_log(300, 7, false);
    uint32_t *minute = minutes_of(1, 300);
    for (uint32_t i = 0; i < 300; i++)
        ck_assert_uint_eq(minute[i], i * 7 % 300);
    free(minute);
}
END_TEST

/* A row without a readable time gets the time of the row before it. */
START_TEST(a_row_without_a_time_stays_where_it_is)
{
    struct batch b;
    char text[256];
    size_t bytes = (size_t)sprintf(text, "label,when,row\n1,%u,a\n0,%u,b\n1,never,c\n0,%u,d\n",
                                   DAY_1, DAY_1 + 5 * HOUR, DAY_1 + 9 * HOUR);
    open_rows(text, bytes);
    batch_init(&b);
    ck_assert_int_eq(batch_read(d, 1, 1, 1, 2, &b, &e), 0);
    ck_assert_uint_eq(b.examples, 1);
    ck_assert_uint_eq(b.bad_lines, 1);
    ck_assert_uint_eq(b.event_time, DAY_1 + 5 * HOUR);
    batch_free(&b);
}
END_TEST

/* ... and the first rows get that of the first row with a time. */
START_TEST(first_rows_without_a_time_are_of_the_first_one_there_is)
{
    char text[256];
    uint32_t number, first;
    size_t bytes = (size_t)sprintf(text, "label,when,row\n1,never,a\n0,,b\n1,%u,c\n0,%u,d\n",
                                   DAY_1 + HOUR, DAY_1 + 9 * HOUR);
    open_rows(text, bytes);
    ck_assert_uint_eq(dataset_windows(d), 2);
    ck_assert_uint_eq(dataset_window(d, 0, &number, &first), 3);
    ck_assert_uint_eq(number, DAY_1 / HOUR + 1);
    ck_assert_uint_eq(first, DAY_1 + HOUR);
}
END_TEST

/* Files without any row are reported, whatever the order. */
START_TEST(a_log_without_rows_has_no_windows)
{
    const char *path = worker_write("train.csv", "label,when,row\n", 15);
    ck_assert_int_eq(config_list_add(&job.data.train, path), 0);
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "no row"));
    ck_assert_msg(dataset_open_object(&job, WIRE_TRAIN, path, &d, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(dataset_rows(d), 0);
    ck_assert_uint_eq(dataset_windows(d), 0);
}
END_TEST

/* _i 0: in order, no note; 1: many rows out of order, noted after the note on labels, which are all
 * 1; 2: the first row's year is 2100, which is no disorder. */
START_TEST(a_large_log_in_no_order_of_time_is_told)
{
    enum { ROWS = INDEX_CHUNKS_MAX + 1000 };
    future = _i == 2;
    open_log(ROWS, _i == 1 ? 100003 : 1, _i == 1);
    future = false;
    const char *warning = dataset_warning(d);
    ck_assert_msg((strstr(warning, "in no order of time") != NULL) == (_i == 1), "%s", warning);
    ck_assert_msg((strstr(warning, "label") != NULL) == (_i == 1), "%s", warning);
}
END_TEST

/* ---- the order itself ---- */

/* Makes chunks of `rows` rows, chunk i of hour[i]; the last one has one row less. */
static struct index index_with(uint32_t *time, struct index_chunk *chunk, const uint32_t *hour,
                               uint32_t chunks, uint32_t rows)
{
    for (uint32_t i = 0; i < chunks; i++)
        time[i] = DAY_1 + hour[i] * HOUR + i % HOUR;
    return (struct index){.rows = (uint64_t)chunks * rows - 1,
                          .chunk_rows = rows,
                          .chunks = chunks,
                          .chunk = chunk,
                          .time = time};
}

START_TEST(an_epoch_in_windows_visits_each_chunk_once)
{
    enum { CHUNKS = 500 };
    uint32_t hour[CHUNKS], time[CHUNKS];
    struct index_chunk chunk[CHUNKS];
    bool seen[CHUNKS] = {false};
    struct order o;
    for (uint32_t i = 0; i < CHUNKS; i++)
        hour[i] = i * i % 17 < 3 ? 40 : i / 100; /* windows of one chunk and of many */
    struct index x = index_with(time, chunk, hour, CHUNKS, 4);
    ck_assert_int_eq(order_open(&o, &x, true, HOUR, &ZONE_UTC, &e), 0);
    ck_assert_uint_eq(o.whole, CHUNKS - 1);
    for (uint32_t i = 0; i < o.whole; i++) {
        uint64_t at = order_chunk(&o, 7, 1, i);
        ck_assert(at < o.whole && !seen[at]);
        seen[at] = true;
    }
    uint64_t rows = 0;
    for (uint32_t w = 0; w < o.windows; w++)
        rows += order_rows(&o, &x, w);
    ck_assert_uint_gt(x.rows, 4ull * o.whole); /* the last chunk is smaller */
    ck_assert_uint_eq(rows, x.rows);
    order_close(&o);
}
END_TEST

START_TEST(a_later_window_changes_nothing_before_it)
{
    enum { CHUNKS = 400, BEFORE = 300 };
    uint32_t hour[CHUNKS], time[CHUNKS];
    struct index_chunk chunk[CHUNKS];
    struct order o, less;
    for (uint32_t i = 0; i < CHUNKS; i++)
        hour[i] = i / 100;
    struct index x = index_with(time, chunk, hour, CHUNKS, 1), y = x;
    y.rows = BEFORE;
    ck_assert_int_eq(order_open(&o, &x, true, HOUR, &ZONE_UTC, &e), 0);
    ck_assert_int_eq(order_open(&less, &y, true, HOUR, &ZONE_UTC, &e), 0);
    uint32_t moved = 0, other = 0;
    for (uint32_t i = 0; i < BEFORE; i++) {
        ck_assert_uint_eq(order_chunk(&o, 7, 1, i), order_chunk(&less, 7, 1, i));
        moved += order_chunk(&o, 7, 1, i) != i;
        other += order_chunk(&o, 7, 1, i) % 100 != order_chunk(&o, 7, 1, (i + 100) % BEFORE) % 100;
    }
    ck_assert_uint_gt(moved, BEFORE * 9 / 10);
    ck_assert_uint_gt(other, BEFORE * 9 / 10); /* each window is drawn separately */
    order_close(&o);
    order_close(&less);
}
END_TEST

/* A log whose oldest windows are gone, or left out, is drawn as before. */
START_TEST(an_earlier_window_changes_nothing_behind_it)
{
    enum { CHUNKS = 400, GONE = 100 };
    uint32_t hour[CHUNKS], time[CHUNKS];
    struct index_chunk chunk[CHUNKS];
    struct order o, less;
    for (uint32_t i = 0; i < CHUNKS; i++)
        hour[i] = i / 100;
    struct index x = index_with(time, chunk, hour, CHUNKS, 1), y = x;
    y.rows -= GONE;
    y.chunks -= GONE;
    y.chunk = chunk + GONE;
    y.time = time + GONE;
    ck_assert_int_eq(order_open(&o, &x, true, HOUR, &ZONE_UTC, &e), 0);
    ck_assert_int_eq(order_open(&less, &y, true, HOUR, &ZONE_UTC, &e), 0);
    for (uint32_t i = 0; i < less.whole; i++)
        ck_assert_uint_eq(order_chunk(&o, 7, 1, GONE + i), GONE + order_chunk(&less, 7, 1, i));
    order_close(&o);
    order_close(&less);
}
END_TEST

/* A chunk may go back by a window; by one second more, it counts as going back. */
START_TEST(a_chunk_goes_back_by_more_than_a_window)
{
    for (uint32_t more = 0; more < 2; more++) {
        uint32_t time[] = {DAY_1, DAY_1 - HOUR - more, DAY_1};
        struct index_chunk chunk[3];
        struct index x = {.rows = 3, .chunk_rows = 1, .chunks = 3, .chunk = chunk, .time = time};
        struct order o;
        ck_assert_int_eq(order_open(&o, &x, true, HOUR, &ZONE_UTC, &e), 0);
        ck_assert_uint_eq(o.going_back, more);
        order_close(&o);
    }
}
END_TEST

/* Days of Berlin over the change in March, a chunk an hour, drawn and not: 24, 23 and 24 chunks,
 * one day after the other. */
START_TEST(windows_of_days_are_those_of_the_zone)
{
    enum { CHUNKS = 71 };
    static const uint32_t hours[] = {24, 23, 24};
    uint32_t time[CHUNKS], midnight = 1774652400, at = 0;
    struct index_chunk chunk[CHUNKS];
    struct zone berlin = ZONE_UTC;
    struct order o;
    ck_assert_int_eq(zone_parse("0+3600 1774746000+7200 1792890000+3600", &berlin), 0);
    for (uint32_t i = 0; i < CHUNKS; i++)
        time[i] = midnight + i * HOUR;
    struct index x = {
        .rows = CHUNKS, .chunk_rows = 1, .chunks = CHUNKS, .chunk = chunk, .time = time};
    ck_assert_int_eq(order_open(&o, &x, _i == 1, 24 * HOUR, &berlin, &e), 0);
    ck_assert_uint_eq(o.windows, 3);
    for (uint32_t w = 0; w < 3; w++) {
        ck_assert_uint_eq(order_rows(&o, &x, w), hours[w]);
        ck_assert_uint_eq(o.window[w], midnight + at * HOUR);
        for (uint32_t i = 0; i < hours[w]; i++) {
            uint64_t place = order_chunk(&o, 3, 1, at + i);
            ck_assert(place >= at && place < at + hours[w]);
        }
        at += hours[w];
    }
    order_close(&o);
    ck_assert_int_eq(order_open(&o, &x, _i == 1, HOUR, &berlin, &e), 0);
    ck_assert_uint_eq(o.windows, CHUNKS);
    order_close(&o);
}
END_TEST

/* ---- times with the index ---- */

static uint32_t asked;

static uint32_t clock_time(void *context, struct line *line)
{
    (void)line;
    return *(const uint32_t *)context + asked++;
}

START_TEST(times_are_kept_with_the_index)
{
    struct cache cache;
    struct source s;
    struct string_list list = {0};
    struct index x;
    uint32_t first = DAY_1;
    struct index_clock clock = {clock_time, &first, 1, 8}, other = {clock_time, &first, 2, 8};
    asked = 0;
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_int_eq(config_list_add(&list, worker_write("x.csv", "a\nb\nc\n", 6)), 0);
    ck_assert_int_eq(source_open(&list, "data.train", &cache, &s, &e), 0);
    for (int again = 0; again < 3; again++) { /* the last time, others have been kept, too */
        ck_assert_int_eq(index_open(&s, &ROW_FORM_LINES, &clock, &cache, &x, &e), 0);
        ck_assert_uint_eq(asked, again < 2 ? 3 : 6);
        ck_assert(x.time[0] == DAY_1 && x.time[2] == DAY_1 + 2);
        index_close(&x);
        if (again != 1)
            continue;
        ck_assert_int_eq(index_open(&s, &ROW_FORM_LINES, NULL, &cache, &x, &e), 0);
        ck_assert_ptr_null(x.time);
        index_close(&x);
        ck_assert_int_eq(index_open(&s, &ROW_FORM_LINES, &other, &cache, &x, &e), 0);
        ck_assert_uint_eq(asked, 6); /* times that are read in another way are others */
        index_close(&x);
    }
    source_close(&s);
    config_list_free(&list);
}
END_TEST

/* The same text is another time in another zone, and windows kept for one zone are not used for
 * another. */
START_TEST(times_of_a_zone_are_not_those_of_another)
{
    static const char text[] = "label,when,row\n1,2026-03-28 23:30:00,a\n0,2026-03-29 00:30:00,b\n"
                               "1,2026-03-29 23:30:00,c\n";
    static const char *const zones[] = {"", "0+3600 1774746000+7200", "0+7200", ""};
    static const uint32_t first[] = {1774740600, 1774737000, 1774733400, 1774740600};
    struct batch b;
    batch_init(&b);
    for (int i = 0; i < 4; i++) {
        job.data.shuffle_within = 24 * HOUR;
        job.data.cache_max = 1u << 20;
        ck_assert_int_eq(zone_parse(zones[i], &job.data.zone), 0);
        if (i == 0) /* once: the kept times are those of this file */
            open_rows(text, sizeof text - 1);
        else
            ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(dataset_windows(d), 2);
        ck_assert_msg(batch_read(d, 1, 1, 0, 1, &b, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(b.event_time, first[i]);
        dataset_close(d);
        d = NULL;
    }
    batch_free(&b);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("windows");
    TCase *t = tcase_create("windows");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, rows_come_window_by_window, 0, 2);
    tcase_add_test(t, an_epoch_without_a_draw_is_the_files_order);
    tcase_add_test(t, a_row_without_a_time_stays_where_it_is);
    tcase_add_test(t, first_rows_without_a_time_are_of_the_first_one_there_is);
    tcase_add_test(t, a_log_without_rows_has_no_windows);
    tcase_add_loop_test(t, a_large_log_in_no_order_of_time_is_told, 0, 3);
    tcase_add_test(t, an_epoch_in_windows_visits_each_chunk_once);
    tcase_add_test(t, a_later_window_changes_nothing_before_it);
    tcase_add_test(t, an_earlier_window_changes_nothing_behind_it);
    tcase_add_test(t, a_chunk_goes_back_by_more_than_a_window);
    tcase_add_loop_test(t, windows_of_days_are_those_of_the_zone, 0, 2);
    tcase_add_test(t, times_are_kept_with_the_index);
    tcase_add_test(t, times_of_a_zone_are_not_those_of_another);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
