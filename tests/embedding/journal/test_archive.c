/* test_archive.c: the files of an archive, and what is found and blanked in them. */
#include "embedding/journal/archive.h"

#include "embedding/journal/cursor.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/rig_dir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT = 65536, WIDTH = 2, KEYS = 4 };
static const uint64_t keys[KEYS] = {5, 6, 7, 9};
static const atomic_bool go_on;

static char dir[LIMIT_PATH];
static struct journal *j;
static struct err e;

static void setup(void)
{
    rig_dir(dir);
    ck_assert_int_eq(journal_open(dir, SEGMENT, &j, &e), 0);
    ck_assert_int_eq(journal_start(j, 1, &e), 0);
}

static void teardown(void)
{
    file_fault_set(NULL);
    journal_close(j);
    rig_remove_dir(dir);
}

/* Pushes batch `to` of a lane, with a gradient of `floats` values for each key. */
static void push(uint32_t lane, uint64_t to, uint32_t floats)
{
    float gradients[KEYS * (WIDTH + 2)];
    struct record_header h;
    struct record_payload payload;
    for (uint32_t i = 0; i < KEYS; i++) {
        float own[WIDTH + 2] = {3.0f * (float)to, 4.0f * (float)to, 8, (float)(i + 1)};
        memcpy(gradients + i * floats, own, floats * sizeof own[0]);
    }
    struct push_record r = {.run = 1,
                            .generation = 2,
                            .from = to - 1,
                            .to = to,
                            .lane = lane,
                            .tablet_count = 1,
                            .lr_scale = 1,
                            .key_count = KEYS,
                            .event_time = 77,
                            .keys = keys,
                            .gradients = gradients};
    record_of_push(&r, floats * 4, 0, &h, &payload);
    ck_assert_int_eq(journal_append(j, &h, &payload, &e), 0);
    ck_assert_int_eq(journal_commit(j, &e), 0);
}

static struct archive_wish wish_of(const uint64_t *wished, uint32_t count, uint32_t floats,
                                   uint64_t above)
{
    return (struct archive_wish){.floats = floats,
                                 .width = WIDTH,
                                 .keys = wished,
                                 .count = count,
                                 .above = above,
                                 .stop = &go_on};
}

static struct blame_entry seen[64];
static bool complete;

static uint32_t blame(uint64_t key, uint32_t limit, uint64_t above, uint32_t floats)
{
    struct archive_wish wish = wish_of(&key, 1, floats, above);
    struct journal_files f;
    uint32_t count;
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    ck_assert_int_eq(archive_blame(&f, &wish, seen, limit, &count, &complete, &e), 0);
    cursor_files_free(&f);
    return count;
}

START_TEST(blame_is_of_records_above_the_floor)
{
    for (uint64_t to = 1; to <= 6; to++)
        push(0, to, WIDTH);
    for (uint64_t above = 0; above <= 6; above++) {
        ck_assert_uint_eq(blame(7, 64, above, WIDTH), 6 - above);
        ck_assert(complete);
        for (uint64_t i = 0; i < 6 - above; i++)
            ck_assert_uint_eq(seen[i].sequence, 6 - i);
    }
    ck_assert_uint_eq(blame(8, 64, 0, WIDTH), 0);
}
END_TEST

/* Once records above the floor have been trimmed, the answer is incomplete. */
START_TEST(blame_is_complete_from_the_first_record_on)
{
    for (uint64_t to = 1; to <= 6; to++) {
        push(0, to, WIDTH);
        if (to == 3)
            ck_assert_int_eq(journal_roll(j, &e), 0);
    }
    journal_trim(j, 3, 0);
    for (uint64_t above = 0; above <= 4; above++) {
        ck_assert_uint_eq(blame(7, 64, above, WIDTH), above < 3 ? 3 : 6 - above);
        ck_assert_int_eq(complete, above >= 3);
    }
}
END_TEST

START_TEST(blame_tells_what_was_pushed)
{
    push(3, 2, WIDTH + 2);
    ck_assert_uint_eq(blame(7, 64, 0, WIDTH + 2), 1);
    ck_assert(seen[0].norm == 10 && seen[0].show == 8 && seen[0].click == 3);
    ck_assert(seen[0].run == 1 && seen[0].generation == 2 && seen[0].lane == 3);
    ck_assert(seen[0].batch == 2 && seen[0].event_time == 77 && seen[0].lr_scale == 1);
}
END_TEST

/* A repeated batch counts where it came first, within one segment and over two. */
START_TEST(blame_names_a_batch_once)
{
    static const struct {
        uint32_t lane;
        uint64_t to;
    } pushed[] = {{0, 1}, {0, 2}, {1, 2}, {0, 3}, {0, 2}, {0, 4}};
    static const uint64_t expected[] = {6, 4, 3, 2, 1};
    for (size_t i = 0; i < sizeof pushed / sizeof pushed[0]; i++) {
        push(pushed[i].lane, pushed[i].to, WIDTH);
        if (_i == 1 && i == 2)
            ck_assert_int_eq(journal_roll(j, &e), 0);
    }
    ck_assert_uint_eq(blame(9, 64, 0, WIDTH), 5);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_uint_eq(seen[i].sequence, expected[i]);
}
END_TEST

/* All gradients of every wished key are blanked in every record, and no others. When the call
 * returns, the change is on disk. */
START_TEST(wished_keys_are_blanked_and_others_stay)
{
    static const uint64_t wished[] = {5, 7, 9};
    struct archive_wish wish = wish_of(wished, 3, WIDTH + 2, 1);
    struct journal_files f;
    struct journal_cursor c;
    struct journal_record r;
    uint64_t records;
    for (uint64_t to = 1; to <= 4; to++)
        push(0, to, WIDTH + 2);
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    file_fault_set(&(struct file_fault){.at = 1, .why = EIO});
    close(f.file[0].fd);
    ck_assert_int_eq(archive_blank(&f, &wish, &records, &e), SHOAL_E_IO); /* the sync fails */
    ck_assert_uint_eq(file_fault_calls(), 1);
    file_fault_set(NULL);
    cursor_files_free(&f);
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    cursor_open(&c, &f, 0, UINT64_MAX, CURSOR_WHOLE);
    for (uint64_t to = 1; to <= 4; to++) {
        struct push_record p;
        ck_assert_int_eq(cursor_next(&c, &r, &e), 0); /* checks the record, too */
        ck_assert_int_eq(record_to_push(r.head, r.payload, 4 * (WIDTH + 2), &p), 0);
        const float *gradients = p.gradients;
        for (uint32_t i = 0; i < KEYS; i++) {
            bool stays = to == 1 || keys[i] == 6;
            ck_assert_uint_eq(p.keys[i], stays ? keys[i] : 0);
            for (uint32_t k = 0; k < WIDTH + 2; k++)
                ck_assert((gradients[i * (WIDTH + 2) + k] != 0) == stays);
        }
    }
    ck_assert_int_eq(cursor_next(&c, &r, &e), SHOAL_E_END);
    cursor_close(&c);
    cursor_files_free(&f);
}
END_TEST

static void tablet_in(uint32_t table, uint64_t *payload, size_t count)
{
    struct record_header h = {.kind = RECORD_TABLET_IN};
    struct record_tablet_in in = {.magic = RECORD_TABLET_MAGIC, .table = table};
    memset(payload, 0x55, count * sizeof *payload);
    memcpy(payload, &in, sizeof in);
    struct record_payload p = {{payload, NULL}, {count * sizeof *payload, 0}};
    ck_assert_int_eq(journal_append(j, &h, &p, &e), 0);
    ck_assert_int_eq(journal_commit(j, &e), 0);
}

/* A tablet that came from another shard has rows of erased keys: those of its table go. */
START_TEST(rows_of_a_tablet_that_came_are_blanked)
{
    static const uint64_t wished[] = {5};
    static uint64_t payload[40];
    struct archive_wish wish = wish_of(wished, 1, WIDTH + 2, 0);
    struct journal_files f;
    struct journal_cursor c;
    struct journal_record r;
    uint64_t records;
    tablet_in(0, payload, 40);
    tablet_in(1, payload, 40);
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    close(f.file[0].fd);
    ck_assert_int_eq(archive_blank(&f, &wish, &records, &e), 0);
    ck_assert_uint_eq(records, 1);
    cursor_files_free(&f);
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    cursor_open(&c, &f, 0, UINT64_MAX, CURSOR_WHOLE);
    for (uint32_t table = 0; table < 2; table++) {
        ck_assert_int_eq(cursor_next(&c, &r, &e), 0); /* checks the record, too */
        const uint64_t *at = r.payload;
        for (size_t i = sizeof(struct record_tablet_in) / sizeof *at; i < 40; i++)
            ck_assert_uint_eq(at[i], table == 0 ? 0 : payload[39]);
    }
    cursor_close(&c);
    cursor_files_free(&f);
}
END_TEST

static const char *in(const char *name)
{
    static char path[4][LIMIT_PATH + 64];
    static int turn;
    turn = (turn + 1) % 4;
    snprintf(path[turn], sizeof path[turn], "%s/%s", dir, name);
    return path[turn];
}

static void file_put(const char *name)
{
    int fd = open(in(name), O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, "12345678", 8), 8);
    close(fd);
}

/* Generations rise, a crash's unfinished copy is removed, and as many bytes are kept as the limit
 * says. */
START_TEST(an_archive_has_rising_generations)
{
    struct archive *a;
    char path[LIMIT_PATH];
    uint64_t generation;
    ck_assert_int_eq(mkdir(in("old"), 0700), 0);
    file_put("old/seg-0000000000000003");
    file_put("old/seg-0000000000000004.copy");
    file_put("old/seg-x");
    ck_assert_int_eq(archive_open(in("old"), 20, &a, &e), 0);
    ck_assert_int_eq(access(in("old/seg-0000000000000004.copy"), F_OK), -1);
    ck_assert_int_eq(access(in("old/seg-x"), F_OK), 0);
    ck_assert(archive_count(a) == 1 && archive_bytes(a) == 8);
    for (uint64_t g = 2; g <= 3; g++) {
        file_put("mine");
        ck_assert(!archive_take(a, in("mine"), g, 8, false));
        ck_assert_int_eq(access(in("mine"), F_OK), 0);
    }
    for (uint64_t g = 4; g <= 6; g++) {
        file_put("mine");
        ck_assert(archive_take(a, in("mine"), g, g == 5 ? 4 : 8, g == 6));
        ck_assert_int_eq(access(in("mine"), F_OK), -1);
        archive_path(a, archive_count(a) - 1, path, &generation);
        ck_assert_uint_eq(generation, g);
    }
    ck_assert(archive_count(a) == 3 && archive_bytes(a) == 20); /* 8 + 4 + 8: the first has gone */
    archive_path(a, 0, path, &generation);
    ck_assert_uint_eq(generation, 4);
    archive_close(a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("archive");
    TCase *t = tcase_create("archive");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, blame_is_of_records_above_the_floor);
    tcase_add_test(t, blame_is_complete_from_the_first_record_on);
    tcase_add_test(t, blame_tells_what_was_pushed);
    tcase_add_loop_test(t, blame_names_a_batch_once, 0, 2);
    tcase_add_test(t, wished_keys_are_blanked_and_others_stay);
    tcase_add_test(t, rows_of_a_tablet_that_came_are_blanked);
    tcase_add_test(t, an_archive_has_rising_generations);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
