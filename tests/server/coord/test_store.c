/* test_coord_store.c: what is put is there after a restart; what is damaged is found. */
#include "proto/base/hash.h"
#include "server/coord/store.h"

#include <check.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    (void)snprintf(dir, sizeof dir, "/tmp/shoal-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct coord_store *store_open(void)
{
    struct coord_store *s;
    struct err e = {0};
    ck_assert_msg(coord_store_open(dir, &s, &e) == 0, "%s", e.text);
    return s;
}

static void has(struct coord_store *s, const char *key, const char *value)
{
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_store_get(s, key, &got, &bytes, NULL), 0);
    ck_assert_uint_eq(bytes, strlen(value));
    ck_assert_int_eq(memcmp(got, value, bytes), 0);
    free(got);
}

static off_t log_size(void)
{
    char path[96];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    return st.st_size;
}

static void log_edit(off_t at, const void *bytes, size_t count, off_t cut)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    if (count > 0)
        ck_assert_int_eq(pwrite(fd, bytes, count, at), (ssize_t)count);
    if (cut >= 0)
        ck_assert_int_eq(ftruncate(fd, cut), 0);
    close(fd);
}

START_TEST(coord_store_keeps_over_a_restart)
{
    struct coord_store *s = store_open();
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_store_put(s, "b", "two", 3, NULL), 0);
    ck_assert_int_eq(coord_store_put(s, "a", "three", 5, NULL), 0);
    ck_assert_int_eq(coord_store_remove(s, "b", NULL), 0);
    ck_assert_int_eq(coord_store_put(s, "c", "", 0, NULL), 0);
    for (int restart = 0; restart < 3; restart++) {
        has(s, "a", "three");
        has(s, "c", "");
        ck_assert_int_eq(coord_store_get(s, "b", &got, &bytes, NULL), SHOAL_E_NOT_FOUND);
        coord_store_close(s);
        s = store_open();
    }
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_is_rewritten_and_stays_small)
{
    struct coord_store *s = store_open();
    static char value[100000];
    for (int i = 0; i < 300; i++) {
        value[0] = (char)i;
        ck_assert_int_eq(coord_store_put(s, "big", value, sizeof value, NULL), 0);
    }
    ck_assert_int_lt(log_size(), 10 << 20);
    coord_store_close(s);
    s = store_open();
    ck_assert_int_lt(log_size(), 200000);
    char got[100000];
    ck_assert_int_eq(coord_store_get_fixed(s, "big", got, sizeof got, NULL), 0);
    ck_assert_int_eq(got[0], (char)299);
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_torn_end_is_cut_off)
{
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    off_t good = log_size();
    ck_assert_int_eq(coord_store_put(s, "b", "two", 3, NULL), 0);
    off_t all = log_size();
    coord_store_close(s);
    log_edit(0, NULL, 0, good + (all - good) * _i / 10);
    s = store_open();
    has(s, "a", "one");
    ck_assert_int_eq(coord_store_get_fixed(s, "b", NULL, 0, NULL), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(coord_store_put(s, "b", "new", 3, NULL), 0);
    coord_store_close(s);
    s = store_open();
    has(s, "b", "new");
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_damage_before_the_end_is_found)
{
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    off_t first = log_size();
    ck_assert_int_eq(coord_store_put(s, "b", "two", 3, NULL), 0);
    coord_store_close(s);
    log_edit(first - 1, "X", 1, -1);
    ck_assert_int_eq(coord_store_open(dir, &s, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "state.log"));
}
END_TEST

START_TEST(coord_store_key_with_a_nul_is_damage)
{
    /* Found by fuzzing: such a record was read as a key that the store then wrote but could not
     * read. */
    struct {
        uint32_t magic, key_bytes, value_bytes, zero;
        uint64_t checksum;
        char body[24];
    } record = {0x53434f52u, 2, 1, 0, 0, "\0av"};
    struct coord_store *s = store_open();
    struct err e = {0};

    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    off_t end = log_size();
    coord_store_close(s);
    record.checksum = hash_bytes(
        record.body, 3, ((uint64_t)record.key_bytes << 32 | record.value_bytes) ^ record.magic);
    log_edit(end, &record, sizeof record, -1);
    ck_assert_int_eq(coord_store_open(dir, &s, &e), SHOAL_E_CORRUPT);
}
END_TEST

START_TEST(coord_store_is_not_shared)
{
    struct coord_store *s = store_open(), *second;
    struct err e = {0};
    ck_assert_int_eq(coord_store_open(dir, &second, &e), SHOAL_E_UNAVAILABLE);
    coord_store_close(s);
}
END_TEST

/* Whoever removes the folder of one that runs is not told "kept" by what is then nobody's. */
START_TEST(coord_store_whose_log_was_removed_keeps_nothing)
{
    struct coord_store *s = store_open();
    struct err e = {0};
    char path[96];
    ck_assert_int_eq(coord_store_put(s, "a", "1", 1, &e), 0);
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(coord_store_put(s, "a", "2", 1, &e), SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "was removed while the coordinator runs"));
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_value_of_another_size_is_corrupt)
{
    struct coord_store *s = coord_store_memory();
    struct err e = {0};
    uint64_t value;
    ck_assert_int_eq(coord_store_put(s, "n", "1234", 4, NULL), 0);
    ck_assert_int_eq(coord_store_get_fixed(s, "n", &value, sizeof value, &e), SHOAL_E_CORRUPT);
    coord_store_close(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_store");
    TCase *c = tcase_create("store");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, coord_store_keeps_over_a_restart);
    tcase_add_test(c, coord_store_is_rewritten_and_stays_small);
    tcase_add_loop_test(c, coord_store_torn_end_is_cut_off, 0, 10);
    tcase_add_test(c, coord_store_damage_before_the_end_is_found);
    tcase_add_test(c, coord_store_key_with_a_nul_is_damage);
    tcase_add_test(c, coord_store_is_not_shared);
    tcase_add_test(c, coord_store_whose_log_was_removed_keeps_nothing);
    tcase_add_test(c, coord_store_value_of_another_size_is_corrupt);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
