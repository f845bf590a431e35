/* test_groups.c: an epoch of event files by groups of their blocks: each row once, in the same
 * order everywhere, each block read once, in bounded memory, for any number of readers. */
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_log.h"
#include "worker/data/convert.h"
#include "worker/data/dataset_inner.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIRST_TIME 1700000000u /* time of row 0 in tests/lib/worker_log.c: 3 s a row */

static struct job job, text;
static struct dataset *d;
static struct groups *g;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    d = NULL;
    g = NULL;
    memset(&job, 0, sizeof job);
    memset(&text, 0, sizeof text);
}

static void teardown(void)
{
    groups_close(g);
    dataset_close(d);
    job_free(&job);
    job_free(&text);
    worker_folder_remove();
}

/* Makes a file with `rows` rows. */
static void file_make(uint32_t number, uint32_t rows, bool multi)
{
    struct convert_sums sums;
    char name[32];
    job_free(&text);
    worker_log_job(&text, rows, multi);
    snprintf(name, sizeof name, "%03u.events", number);
    ck_assert_msg(convert_split(&text, WIRE_TRAIN, worker_path(name), NULL, NULL, &sums, &e) == 0,
                  "%s", e.text);
}

/* Opens the files as a log, with its job. */
static void log_open(void)
{
    worker_job(&job, DATA_EVENTS, worker_path("*.events"));
    strcpy(job.data.time, "ts");
    strcpy(job.data.weight, "w");
    job.train.batch = 512;
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
}

static void groups_make(uint32_t rows, uint32_t held)
{
    struct groups_wish w = {.drawn = true, .near = 1, .readers = 1, .rows = rows, .held = held};
    ck_assert_msg(groups_open(&d->source, &d->features, &w, &g, &e) == 0, "%s", e.text);
}

/* Returns the number of the row at a position; its text is that of the number within its file. */
static uint64_t row_read(uint64_t seed, uint32_t epoch, uint64_t position)
{
    struct groups_hold h;
    const struct slice *rows;
    uint64_t number;
    uint32_t row;
    ck_assert_msg(groups_take(g, seed, epoch, position, NULL, &h, &e) == 0, "%s", e.text);
    groups_row(g, &h, position, &rows, &row, &number);
    uint32_t time = slice_time(rows, row);
    groups_give(g, &h, position + 1);
    ck_assert(time == 0 || (time - FIRST_TIME) % 3 == 0);
    return number;
}

static void order_read(uint64_t seed, uint32_t epoch, uint64_t *out)
{
    for (uint64_t i = 0; i < groups_rows(g); i++)
        out[i] = row_read(seed, epoch, i);
}

static void each_once(const uint64_t *order, uint64_t rows)
{
    bool *seen = calloc(rows, sizeof *seen);
    for (uint64_t i = 0; i < rows; i++) {
        ck_assert_msg(order[i] < rows && !seen[order[i]], "row %lu at %lu", order[i], i);
        seen[order[i]] = true;
    }
    free(seen);
}

/* _i: rows around the bounds of a block (8,192) and of a group (two blocks). */
START_TEST(groups_visit_each_row_once)
{
    static const uint32_t sizes[] = {1, 8191, 8192, 8193, 16383, 16384, 16385, 32768, 33001};
    uint32_t rows = sizes[_i];
    uint64_t *order = malloc(sizeof *order * rows);
    file_make(1, rows, false);
    log_open();
    groups_make(16384, 0);
    ck_assert_uint_eq(groups_count(g), (rows + 16383) / 16384);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        order_read(7, epoch, order);
        each_once(order, rows);
        for (uint32_t i = 0; i < rows && epoch == 0; i++)
            ck_assert_uint_eq(order[i], i);
    }
    free(order);
}
END_TEST

/* Ten files of one block each: 100, 110, .. rows. */
#define SMALL_ROWS 1450u
static void small_open(bool multi)
{
    for (uint32_t i = 0; i < 10; i++)
        file_make(i, 100 + 10 * i, multi);
    log_open();
}

START_TEST(groups_of_blocks_of_any_size_visit_each_row_once)
{
    uint64_t order[SMALL_ROWS];
    small_open(_i == 1);
    static const uint32_t sizes[] = {1, 99, 150, 400, 1449, 1450, 5000};
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
        groups_make(sizes[k], 0);
        ck_assert_uint_eq(groups_rows(g), SMALL_ROWS);
        order_read(1, 4, order);
        each_once(order, SMALL_ROWS);
        groups_close(g);
        g = NULL;
    }
}
END_TEST

/* A job that resumes on another machine or release must find the same rows. */
START_TEST(groups_are_fixed_for_ever)
{
    static const uint64_t expected[] = {439, 1216, 158,  1176, 198, 1368,
                                        974, 1298, 1353, 562,  498, 228};
    small_open(false);
    groups_make(400, 0);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_uint_eq(row_read(2026, 1, i * 90), expected[i]);
}
END_TEST

START_TEST(groups_are_the_same_however_they_are_read)
{
    uint64_t one[SMALL_ROWS], other[SMALL_ROWS];
    small_open(false);
    groups_make(300, 3);
    order_read(5, 2, one);
    groups_close(g);
    groups_make(300, 1);
    for (uint64_t i = 0; i < SMALL_ROWS; i++) { /* in no order */
        uint64_t at = i * 641 % SMALL_ROWS;
        other[at] = row_read(5, 2, at);
    }
    ck_assert_mem_eq(one, other, sizeof one);
    for (int k = 0; k < 2; k++) { /* another epoch, another seed */
        uint32_t equal = 0;
        order_read(k == 0 ? 5 : 6, k == 0 ? 3 : 2, other);
        for (uint32_t i = 0; i < SMALL_ROWS; i++)
            equal += one[i] == other[i];
        ck_assert_uint_lt(equal, 30);
    }
}
END_TEST

/* A group has rows of blocks from all over the log, mixed. */
START_TEST(groups_mix)
{
    uint64_t order[SMALL_ROWS], distance = 0, back = 0;
    small_open(false);
    groups_make(400, 0);
    order_read(1, 1, order);
    for (uint32_t i = 1; i < SMALL_ROWS; i++) {
        distance += order[i] > order[i - 1] ? order[i] - order[i - 1] : order[i - 1] - order[i];
        back += order[i] < order[i - 1];
    }
    ck_assert_uint_gt(distance / SMALL_ROWS, 200);
    ck_assert_uint_gt(back, SMALL_ROWS * 4 / 10);
}
END_TEST

static uint64_t file_bytes(void)
{
    uint64_t bytes = 0;
    struct parsed *p;
    ck_assert_int_eq(parsed_open(&d->source, &d->features, true, &p, &e), 0);
    for (uint32_t i = 0; i < parsed_blocks(p); i++)
        bytes += parsed_entry(p, i)->bytes;
    parsed_close(p);
    return bytes;
}

START_TEST(groups_read_each_block_once_an_epoch)
{
    uint64_t order[SMALL_ROWS], packed;
    small_open(false);
    packed = file_bytes();
    groups_make(200, 3);
    ck_assert_uint_ge(groups_count(g), 6);
    for (uint32_t epoch = 1; epoch <= 3; epoch++) {
        order_read(1, epoch, order);
        ck_assert_uint_eq(groups_read(g), epoch * packed);
    }
    order_read(1, 0, order);
    ck_assert_uint_eq(groups_read(g), 4 * packed);
}
END_TEST

/* The memory of an object's groups is released when they are read: many objects are open. */
START_TEST(groups_of_an_object_go_when_they_are_read)
{
    struct groups_wish w = {
        .drawn = true, .object = true, .near = 1, .readers = 1, .rows = 300, .held = 3};
    uint64_t order[SMALL_ROWS], packed;
    small_open(false);
    packed = file_bytes();
    ck_assert_int_eq(groups_open(&d->source, &d->features, &w, &g, &e), 0);
    for (uint32_t epoch = 0; epoch < 3; epoch++) {
        order_read(1, epoch, order);
        each_once(order, SMALL_ROWS);
        ck_assert_uint_eq(groups_read(g), (epoch + 1) * packed);
        ck_assert_uint_eq(groups_memory(g), 0);
    }
}
END_TEST

/* _i: with fields of several values. */
START_TEST(groups_keep_to_their_memory)
{
    uint64_t order[SMALL_ROWS], most = 0;
    small_open(_i == 1);
    groups_make(300, 2);
    struct columns c;
    ck_assert_int_eq(columns_of(&d->features, &c, &e), 0);
    struct slice_layout l = slice_layout_of(&c);
    columns_free(&c);
    uint64_t bytes = _i == 1 ? l.least + 3 * 8 + 16 : l.stride;
    for (uint64_t i = 0; i < SMALL_ROWS; i++) {
        order[i] = row_read(1, 1, i);
        if (groups_memory(g) > most)
            most = groups_memory(g);
    }
    each_once(order, SMALL_ROWS);
    /* two groups of 290 rows, and one more block each; texts of malformed rows */
    ck_assert_uint_gt(most, 290 * bytes);
    ck_assert_uint_lt(most, 2 * (290 + 190) * (bytes + 256 / 17 + 1));
}
END_TEST

/* ---- several readers ---- */

#define THREADS 4
#define TASK 50u
static atomic_uint next_task;
static atomic_uint times_read[SMALL_ROWS];

static void *tasks_read(void *unused)
{
    struct groups_hold h;
    struct err why;
    (void)unused;
    for (uint64_t at; (at = atomic_fetch_add(&next_task, 1) * TASK) < SMALL_ROWS;)
        for (uint64_t end = at + TASK < SMALL_ROWS ? at + TASK : SMALL_ROWS; at < end;) {
            if (groups_take(g, 3, 1, at, NULL, &h, &why) != 0)
                return NULL;
            for (; at < end && at < h.first + h.rows; at++) {
                const struct slice *rows;
                uint64_t number;
                uint32_t row;
                groups_row(g, &h, at, &rows, &row, &number);
                atomic_fetch_add(&times_read[number], slice_time(rows, row) != 1);
            }
            groups_give(g, &h, at);
        }
    return &next_task;
}

/* _i: all groups are held; one: they wait for each other. */
START_TEST(groups_are_decoded_together)
{
    pthread_t thread[THREADS];
    void *good;
    small_open(false);
    groups_make(250, _i == 0 ? 6 : 1);
    memset(times_read, 0, sizeof times_read);
    for (int round = 0; round < 20; round++) {
        next_task = 0;
        for (int i = 0; i < THREADS; i++)
            ck_assert_int_eq(pthread_create(&thread[i], NULL, tasks_read, NULL), 0);
        for (int i = 0; i < THREADS; i++) {
            pthread_join(thread[i], &good);
            ck_assert_ptr_nonnull(good);
        }
        for (uint32_t i = 0; i < SMALL_ROWS; i++)
            ck_assert_uint_eq(times_read[i], (uint32_t)round + 1);
        if (_i == 0)
            ck_assert_uint_eq(groups_read(g), file_bytes()); /* no block is read by two of them */
    }
}
END_TEST

/* ---- damage ---- */

/* Another worker may have a better copy. A disk that fails would affect all objects. */
START_TEST(groups_of_an_object_cut_short_are_its_own_fault)
{
    struct dataset *object = NULL;
    struct string_list lines;
    char *head;
    struct stat st;
    small_open(false);
    job.data.objects.of[WIRE_TRAIN].on = true;
    ck_assert_int_eq(stat(worker_path("000.events"), &st), 0);
    ck_assert_int_eq(truncate(worker_path("000.events"), st.st_size - 1), 0);
    ck_assert_int_eq(dataset_objects(&job, WIRE_TRAIN, &lines, &head, &e), SHOAL_E_DATA);
    job.data.objects.leave_out = true;
    ck_assert_int_eq(dataset_objects(&job, WIRE_TRAIN, &lines, &head, &e), 0);
    ck_assert_uint_eq(lines.count, 10);
    config_list_free(&lines);
    job.data.head = head;
    ck_assert_int_eq(dataset_open_object(&job, WIRE_TRAIN, worker_path("001.events"), &object, &e),
                     0);
    dataset_close(object);
    ck_assert_int_eq(dataset_open_object(&job, WIRE_TRAIN, worker_path("000.events"), &object, &e),
                     SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "its end is damaged"));
}
END_TEST

/* _i 1: all groups are held, including the one that failed. */
START_TEST(groups_name_a_block_that_is_damaged)
{
    struct stat st;
    uint8_t byte;
    uint32_t refused = 0;
    small_open(false);
    groups_make(300, _i == 0 ? 2 : 100);
    int fd = open(worker_path("004.events"), O_RDWR);
    ck_assert(fd >= 0 && fstat(fd, &st) == 0);
    ck_assert_int_eq(pread(fd, &byte, 1, st.st_size / 2), 1);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, st.st_size / 2), 1);
    for (int again = 0; again < 2; again++) /* a refused group stays refused, the others are read */
        for (uint64_t at = 0; at < SMALL_ROWS; at += 20) {
            struct groups_hold h;
            e.text[0] = '\0';
            int rc = groups_take(g, 1, 1, at, NULL, &h, &e);
            if (rc == 0) {
                groups_give(g, &h, at);
                continue;
            }
            ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
            ck_assert_msg(strstr(e.text, "004.events: block 0 of 1 is damaged") != NULL, "%s",
                          e.text);
            refused++;
        }
    ck_assert(refused > 0 && refused < 2 * SMALL_ROWS / 20);
    byte ^= 1;
    ck_assert_int_eq(pwrite(fd, &byte, 1, st.st_size / 2), 1);
    close(fd);
    uint64_t order[SMALL_ROWS]; /* repaired, it is read */
    order_read(1, 1, order);
    each_once(order, SMALL_ROWS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("groups");
    TCase *t = tcase_create("groups");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, groups_visit_each_row_once, 0, 9);
    tcase_add_loop_test(t, groups_of_blocks_of_any_size_visit_each_row_once, 0, 2);
    tcase_add_test(t, groups_are_fixed_for_ever);
    tcase_add_test(t, groups_are_the_same_however_they_are_read);
    tcase_add_test(t, groups_mix);
    tcase_add_test(t, groups_read_each_block_once_an_epoch);
    tcase_add_test(t, groups_of_an_object_go_when_they_are_read);
    tcase_add_loop_test(t, groups_keep_to_their_memory, 0, 2);
    tcase_add_loop_test(t, groups_are_decoded_together, 0, 2);
    tcase_add_test(t, groups_of_an_object_cut_short_are_its_own_fault);
    tcase_add_loop_test(t, groups_name_a_block_that_is_damaged, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
