/* test_archive.c: the files of an archive, and what is found and blanked in them. */
#include "embedding/journal/archive.h"

#include "embedding/journal/cursor.h"
#include "proto/job/packed.h"
#include "tests/lib/file_fault.h"
#include "tests/lib/rig_dir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT = 65536, WIDTH = 8, KEYS = 4 }; /* of WIDTH every form has another length */
static const uint64_t keys[KEYS] = {5, 6, 7, 9};
static const atomic_bool go_on;
static const enum packed_width widths[] = {PACKED_NOT, PACKED_INT8, PACKED_BF16};

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

static struct table_schema schema_of(uint32_t floats)
{
    return (struct table_schema){.width = WIDTH, .rules.stats = floats > WIDTH};
}

/* Pushes batch `to` of a lane, with a gradient of `floats` values for each key, packed to `width`.
 */
static void push_packed(uint32_t lane, uint64_t to, uint32_t floats, enum packed_width width)
{
    const struct table_schema schema = schema_of(floats);
    float gradients[KEYS * (WIDTH + 2)];
    struct record_header h;
    struct record_payload payload;
    for (uint32_t i = 0; i < KEYS; i++) {
        float own[WIDTH + 2] = {3.0f * (float)to, 4.0f * (float)to};
        own[WIDTH] = 8;
        own[WIDTH + 1] = (float)(i + 1);
        memcpy(gradients + i * floats, own, floats * sizeof own[0]);
    }
    packed_close(&schema, width, lane, to, keys, gradients, KEYS);
    struct push_record r = {.run = 1,
                            .generation = 2,
                            .from = to - 1,
                            .to = to,
                            .lane = lane,
                            .tablet_count = 1,
                            .lr_scale = 1,
                            .key_count = KEYS,
                            .event_time = 77,
                            .width = width,
                            .keys = keys,
                            .gradients = gradients};
    record_of_push(&r, packed_bytes(&schema, width), 0, &h, &payload);
    ck_assert_int_eq(journal_append(j, &h, &payload, &e), 0);
    ck_assert_int_eq(journal_commit(j, &e), 0);
}

static void push(uint32_t lane, uint64_t to, uint32_t floats)
{
    push_packed(lane, to, floats, PACKED_NOT);
}

static struct archive_wish wish_of(const struct table_schema *schema, const uint64_t *wished,
                                   uint32_t count, uint64_t above)
{
    return (struct archive_wish){
        .schema = schema, .keys = wished, .count = count, .above = above, .stop = &go_on};
}

static struct blame_entry seen[64];
static bool complete;

static uint32_t blame(uint64_t key, uint32_t limit, uint64_t above, uint32_t floats)
{
    const struct table_schema schema = schema_of(floats);
    struct archive_wish wish = wish_of(&schema, &key, 1, above);
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
    push_packed(3, 2, WIDTH + 2, widths[_i]);
    ck_assert_uint_eq(blame(7, 64, 0, WIDTH + 2), 1);
    ck_assert_double_eq_tol(seen[0].norm, 10, widths[_i] == PACKED_INT8 ? 0.1 : 1e-9);
    ck_assert(seen[0].show == 8 && seen[0].click == 3);
    ck_assert(seen[0].run == 1 && seen[0].generation == 2 && seen[0].lane == 3);
    ck_assert(seen[0].batch == 2 && seen[0].event_time == 77 && seen[0].lr_scale == 1);
    ck_assert(!seen[0].assigned);
}
END_TEST

/* A push of another length belongs to a table that had the number before. */
START_TEST(blame_is_of_pushes_to_the_table)
{
    push_packed(0, 1, WIDTH, widths[_i]);
    ck_assert_uint_eq(blame(7, 64, 0, WIDTH + 2), 0);
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

/* out: a record's payload as it must be once keys 5, 7 and 9 are blanked from `first` on. */
static void blanked(const struct journal_record *r, uint64_t first, char *out)
{
    const size_t key_bytes = r->head->payload_bytes / KEYS - sizeof(uint64_t);
    memcpy(out, r->payload, r->head->payload_bytes);
    for (uint32_t i = 0; i < KEYS && r->head->sequence >= first; i++) {
        if (keys[i] == 6)
            continue;
        memset(out + i * sizeof(uint64_t), 0, sizeof(uint64_t));
        memset(out + sizeof keys + i * key_bytes, 0, key_bytes);
    }
}

/* Blanks keys 5, 7 and 9 in the records above the first one, and checks every record. */
static void blank(uint32_t floats)
{
    static const uint64_t wished[] = {5, 7, 9};
    static char expected[4][KEYS * (sizeof(uint64_t) + (WIDTH + 2) * sizeof(float))];
    const struct table_schema schema = schema_of(floats);
    struct archive_wish wish = wish_of(&schema, wished, 3, 1);
    struct journal_files f;
    struct journal_cursor c;
    struct journal_record r;
    uint64_t records;
    for (int after = 0; after < 2; after++) {
        ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
        cursor_open(&c, &f, 0, UINT64_MAX, CURSOR_WHOLE);
        for (uint32_t i = 0; i < 4; i++) {
            ck_assert_int_eq(cursor_next(&c, &r, &e), 0); /* checks the record, too */
            if (after == 0)
                blanked(&r, 2, expected[i]);
            else
                ck_assert_mem_eq(r.payload, expected[i], r.head->payload_bytes);
        }
        ck_assert_int_eq(cursor_next(&c, &r, &e), SHOAL_E_END);
        cursor_close(&c);
        if (after == 0) {
            close(f.file[0].fd);
            ck_assert_int_eq(archive_blank(&f, &wish, &records, &e), 0);
            ck_assert_uint_eq(records, 3);
        }
        cursor_files_free(&f);
    }
}

/* The data of every wished key is blanked in every record, and no others. */
START_TEST(wished_keys_are_blanked_and_others_stay)
{
    for (uint64_t to = 1; to <= 4; to++)
        push_packed(0, to, WIDTH + 2, widths[_i]);
    blank(WIDTH + 2);
    for (uint64_t key = 5; key <= 7; key++)
        ck_assert_uint_eq(blame(key, 64, 1, WIDTH + 2), key == 6 ? 3 : 0);
}
END_TEST

/* A key of a table that had the number before is the same key. */
START_TEST(pushes_of_every_length_are_blanked)
{
    for (uint64_t to = 1; to <= 4; to++)
        push_packed(0, to, to % 2 == 0 ? WIDTH : WIDTH + 2, widths[_i]);
    blank(WIDTH + 2);
}
END_TEST

/* Blanks key 5 in the only segment, as one of an archive, and returns the size of its file. */
static uint64_t blank_archived(const char *bytes, size_t count, uint64_t at)
{
    static const uint64_t wished[] = {5};
    const struct table_schema schema = schema_of(WIDTH);
    struct archive_wish wish = wish_of(&schema, wished, 1, 0);
    struct journal_files f;
    struct stat st;
    uint64_t records;
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    int fd = open(f.file[0].path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, bytes, count, (off_t)at), count);
    close(fd);
    close(f.file[0].fd);
    f.file[0].bytes = 0; /* an archive does not know it */
    ck_assert_int_eq(archive_blank(&f, &wish, &records, &e), 0);
    ck_assert_int_eq(stat(f.file[0].path, &st), 0);
    cursor_files_free(&f);
    return (uint64_t)st.st_size;
}

/* A file that a cut shares is not cut to its records: older ones may lie behind them. */
START_TEST(what_lies_behind_the_records_goes)
{
    push(0, 1, WIDTH);
    const uint64_t end = SEGMENT_HEADER_BYTES + journal_written(j);
    ck_assert_uint_eq(blank_archived("an older use", 12, end + 40), end);
    ck_assert_uint_eq(blame(6, 64, 0, WIDTH), 1);
}
END_TEST

/* Whether a record that does not check has a key cannot be told. */
START_TEST(a_damaged_record_goes_with_what_lies_behind_it)
{
    for (uint64_t to = 1; to <= 4; to++)
        push(0, to, WIDTH);
    const uint64_t each = journal_written(j) / 4, third = SEGMENT_HEADER_BYTES + 2 * each;
    const uint64_t at = _i == 0 ? third : third + each - 1; /* in its head; in its last gradient */
    ck_assert_uint_eq(blank_archived("x", 1, at), third);
    ck_assert_uint_eq(blame(6, 64, 0, WIDTH), 2);
    ck_assert_uint_eq(blame(5, 64, 0, WIDTH), 0);
}
END_TEST

/* When the call returns, the change is on disk: the file is cut, then synced. */
START_TEST(what_is_blanked_is_synced)
{
    static const uint64_t wished[] = {5};
    const struct table_schema schema = schema_of(WIDTH);
    struct archive_wish wish = wish_of(&schema, wished, 1, 0);
    struct journal_files f;
    uint64_t records;
    push(0, 1, WIDTH);
    ck_assert_int_eq(cursor_gather(NULL, j, &f, &e), 0);
    file_fault_set(&(struct file_fault){.at = (unsigned)_i, .why = EIO});
    close(f.file[0].fd);
    ck_assert_int_eq(archive_blank(&f, &wish, &records, &e), SHOAL_E_IO);
    ck_assert_uint_eq(file_fault_calls(), (unsigned)_i);
    file_fault_set(NULL);
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
    const struct table_schema schema = schema_of(WIDTH + 2);
    struct archive_wish wish = wish_of(&schema, wished, 1, 0);
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
    tcase_add_loop_test(t, blame_tells_what_was_pushed, 0, 3);
    tcase_add_loop_test(t, blame_is_of_pushes_to_the_table, 0, 3);
    tcase_add_loop_test(t, blame_names_a_batch_once, 0, 2);
    tcase_add_loop_test(t, wished_keys_are_blanked_and_others_stay, 0, 3);
    tcase_add_loop_test(t, pushes_of_every_length_are_blanked, 0, 3);
    tcase_add_test(t, what_lies_behind_the_records_goes);
    tcase_add_loop_test(t, a_damaged_record_goes_with_what_lies_behind_it, 0, 2);
    tcase_add_loop_test(t, what_is_blanked_is_synced, 1, 3);
    tcase_add_test(t, rows_of_a_tablet_that_came_are_blanked);
    tcase_add_test(t, an_archive_has_rising_generations);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
