/* test_coord_store.c: what is put is there after a restart; what is damaged is found. */
#include "server/coord/store.h"
#include "tests/lib/file_fault.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
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
    ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "%s", e.text);
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

static bool is(struct coord_store *s, const char *key, const char *value)
{
    void *got;
    size_t bytes;
    if (coord_store_get(s, key, &got, &bytes, NULL) != 0)
        return false;
    bool same = bytes == strlen(value) && memcmp(got, value, bytes) == 0;
    free(got);
    return same;
}

static off_t log_size(void)
{
    char path[96];
    struct stat st;
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    ck_assert_int_eq(stat(path, &st), 0);
    return st.st_size;
}

static int log_open(int flags)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    int fd = open(path, flags, 0600);
    ck_assert_int_ge(fd, 0);
    return fd;
}

static size_t log_read(char *to, size_t room)
{
    int fd = log_open(O_RDONLY);
    ssize_t n = read(fd, to, room);
    close(fd);
    ck_assert(n > 0 && (size_t)n < room);
    return (size_t)n;
}

static void log_write(const char *from, size_t bytes)
{
    int fd = log_open(O_WRONLY | O_CREAT | O_TRUNC);
    ck_assert_int_eq(write(fd, from, bytes), (ssize_t)bytes);
    close(fd);
}

static const char *strstr_bytes(const char *in, size_t bytes, const char *text)
{
    const char *at = memmem(in, bytes, text, strlen(text));
    ck_assert_ptr_nonnull(at);
    return at;
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
    ck_assert_int_eq(coord_store_put(s, "d", NULL, 0, NULL), 0);
    for (int restart = 0; restart < 3; restart++) {
        has(s, "a", "three");
        has(s, "c", "");
        has(s, "d", "");
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
    char path[96];
    (void)snprintf(path, sizeof path, "%s/state.log", dir);
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    off_t good = log_size();
    ck_assert_int_eq(coord_store_note(s, "b", "two", 3, NULL), 0);
    off_t all = log_size();
    coord_store_close(s);
    ck_assert_int_eq(truncate(path, good + (all - good) * _i / 10), 0);
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

/* One bit anywhere: every value is there, or the log is refused by name; nothing is forgotten. */
START_TEST(coord_store_any_flipped_bit_is_found)
{
    static char log[4096];
    struct coord_store *s = store_open();
    char key[16], value[16];
    for (int i = 0; i < 12; i++) {
        (void)snprintf(key, sizeof key, "key/%d", i % 9);
        (void)snprintf(value, sizeof value, "v%d", i);
        ck_assert_int_eq(coord_store_put(s, key, value, strlen(value), NULL), 0);
    }
    coord_store_close(s);
    size_t bytes = log_read(log, sizeof log), refused = 0;
    for (size_t bit = 0; bit < bytes * 8; bit++) {
        struct err e = {0};
        log[bit / 8] ^= (char)(1 << bit % 8);
        log_write(log, bytes);
        log[bit / 8] ^= (char)(1 << bit % 8);
        int rc = coord_store_open(dir, 0, &s, &e);
        if (rc != 0) {
            ck_assert_msg(rc == SHOAL_E_CORRUPT, "bit %zu: %s", bit, e.text);
            ck_assert_msg(strstr(e.text, "state.log") != NULL, "%s", e.text);
            refused++;
            continue;
        }
        for (int i = 3; i < 12; i++) {
            (void)snprintf(key, sizeof key, "key/%d", i % 9);
            (void)snprintf(value, sizeof value, "v%d", i);
            ck_assert_msg(is(s, key, value), "bit %zu of %zu: %s is forgotten", bit, bytes * 8,
                          key);
        }
        coord_store_close(s);
    }
    ck_assert_uint_ge(refused, bytes * 8 * 9 / 10);
}
END_TEST

/* After one value that is synced five that are not, over eight pages, of which power leaves any:
 * in any order, and the file's end anywhere. */
START_TEST(coord_store_torn_in_any_order_is_cut_off)
{
    static char log[1 << 16], torn[1 << 16], value[6000];
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_store_put(s, "kept", "one", 3, NULL), 0);
    size_t synced = (size_t)log_size();
    char key[16];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof key, "n/%d", i);
        memset(value, 'a' + i, sizeof value);
        ck_assert_int_eq(coord_store_note(s, key, value, sizeof value, NULL), 0);
    }
    coord_store_close(s);
    size_t bytes = log_read(log, sizeof log), pages = (bytes + 4095) / 4096;
    ck_assert_uint_eq(pages, 8);
    for (uint32_t kept = 0; kept < 256; kept++) {
        size_t end = kept % 3 == 0 ? bytes : synced + (kept * 977) % (bytes - synced);
        memcpy(torn, log, bytes);
        for (size_t at = synced; at < bytes; at++)
            if ((kept >> at / 4096 & 1) == 0)
                torn[at] = 0;
        log_write(torn, end);
        s = store_open();
        ck_assert(is(s, "kept", "one"));
        bool there = true;
        for (int i = 0; i < 5; i++) { /* no later one without those before */
            (void)snprintf(key, sizeof key, "n/%d", i);
            bool now = coord_store_get_fixed(s, key, value, sizeof value, NULL) == 0;
            ck_assert(there || !now);
            ck_assert(!now || value[5999] == 'a' + i);
            there = now;
        }
        ck_assert(there == (kept == 255 && end == bytes));
        ck_assert_int_eq(coord_store_put(s, "new", "two", 3, NULL), 0);
        coord_store_close(s);
        s = store_open();
        ck_assert(is(s, "kept", "one") && is(s, "new", "two"));
        coord_store_close(s);
    }
}
END_TEST

/* The last byte that was synced, and the first that was not. */
START_TEST(coord_store_damage_begins_where_the_sync_ended)
{
    static char log[4096];
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_store_note(s, "b", "two", 3, NULL), 0);
    size_t before = (size_t)log_size();
    ck_assert_int_eq(coord_store_put(s, "c", "xyz", 3, NULL), 0);
    size_t synced = (size_t)(strstr_bytes(log, log_read(log, sizeof log), "xyz") - log) + 3;
    ck_assert_int_eq(coord_store_note(s, "d", "four", 4, NULL), 0);
    coord_store_close(s);
    ck_assert_uint_gt(synced, before);
    size_t bytes = log_read(log, sizeof log);
    for (size_t at = 0; at < bytes; at++) {
        log[at] ^= 4;
        log_write(log, bytes);
        log[at] ^= 4;
        int rc = coord_store_open(dir, 0, &s, &e);
        ck_assert_msg(rc == (at < synced ? SHOAL_E_CORRUPT : 0), "byte %zu of %zu, %zu: %d", at,
                      synced, bytes, rc);
        if (rc != 0)
            continue;
        ck_assert(is(s, "a", "one") && is(s, "b", "two") && is(s, "c", "xyz"));
        coord_store_close(s);
    }
    for (size_t end = 1; end < bytes; end++) { /* what says that it was there is gone as well */
        log_write(log, end);
        int rc = coord_store_open(dir, 0, &s, &e);
        ck_assert_msg(rc == 0 || (rc == SHOAL_E_CORRUPT && end < before), "end %zu: %d", end, rc);
        if (rc == 0)
            coord_store_close(s);
    }
}
END_TEST

/* Every call to the disk fails, once or with all after it, at a start with values too: what was
 * answered is there. */
/* What a start has written is on disk before it has its name: none of it is a torn end. */
START_TEST(coord_store_rewritten_has_no_torn_end)
{
    static char whole[4096];
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_store_put(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_store_put(s, "b", "two", 3, NULL), 0);
    coord_store_close(s);
    coord_store_close(store_open());
    size_t bytes = log_read(whole, sizeof whole);
    size_t at = (size_t)(strstr_bytes(whole, bytes, "two") - whole);
    whole[at] ^= 1;
    log_write(whole, bytes);
    ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), SHOAL_E_CORRUPT);
    whole[at] ^= 1;
    log_write(whole, bytes);
    coord_store_close(store_open());
}
END_TEST

START_TEST(coord_store_fails_at_any_call)
{
    bool met = true;
    for (uint64_t at = 1; met; at++) {
        struct coord_store *s = store_open();
        struct err e = {0};
        char key[16];
        int answered = 0;
        ck_assert_int_eq(coord_store_put(s, "k0", "first", 5, &e), 0);
        coord_store_close(s);
        file_fault_set(
            &(struct file_fault){.at = at, .why = at % 2 == 0 ? EIO : ENOSPC, .dead = _i == 1});
        if (coord_store_open(dir, 0, &s, &e) == 0) {
            for (bool failed = false; answered < 4 && !failed; answered += !failed) {
                (void)snprintf(key, sizeof key, "k%d", answered + 1);
                failed = coord_store_put(s, key, key, 2, &e) != 0;
                ck_assert(!failed || coord_store_put(s, key, key, 2, &e) != 0);
            }
            coord_store_close(s);
        }
        met = file_fault_calls() >= at;
        file_fault_set(NULL);
        s = store_open();
        ck_assert(is(s, "k0", "first"));
        for (int i = 1; i <= answered; i++) {
            (void)snprintf(key, sizeof key, "k%d", i);
            ck_assert(is(s, key, key));
        }
        ck_assert(met || answered == 4);
        coord_store_close(s);
        teardown();
        setup();
    }
}
END_TEST

START_TEST(coord_store_that_failed_takes_no_more)
{
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_store_put(s, "a", "1", 1, &e), 0);
    file_fault_set(&(struct file_fault){.at = 1, .why = EIO}); /* half of a record */
    ck_assert_int_eq(coord_store_note(s, "b", "2", 1, &e), SHOAL_E_IO);
    ck_assert_int_eq(coord_store_put(s, "c", "3", 1, &e), SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "state.log"));
    ck_assert_uint_eq(file_fault_calls(), 1);
    file_fault_set(NULL);
    coord_store_close(s);
    s = store_open();
    ck_assert(is(s, "a", "1"));
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_is_not_shared)
{
    struct coord_store *s = store_open(), *second;
    struct err e = {0};
    ck_assert_int_eq(coord_store_open(dir, 0, &second, &e), SHOAL_E_CANTCREATE);
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

/* And more than a log has before it is rewritten. */
START_TEST(coord_store_greatest_value_under_the_longest_key_comes_back)
{
    char key[COORD_KEY_MAX] = {0};
    char *value = malloc(COORD_VALUE_MAX + 1);
    void *got;
    size_t bytes;
    struct err e = {0};
    memset(key, 'k', sizeof key - 1);
    memset(value, 'v', COORD_VALUE_MAX + 1);
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_store_put(s, key, value, COORD_VALUE_MAX + 1, &e), SHOAL_E_TOO_BIG);
    ck_assert_msg(coord_store_put(s, key, value, COORD_VALUE_MAX, &e) == 0, "%s", e.text);
    ck_assert_int_eq(coord_store_put(s, "next", "1", 1, &e), 0);
    coord_store_close(s);
    s = store_open();
    has(s, "next", "1");
    ck_assert_int_eq(coord_store_get(s, key, &got, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, COORD_VALUE_MAX);
    ck_assert_int_eq(memcmp(got, value, bytes), 0);
    coord_store_close(s);
    free(got);
    free(value);
}
END_TEST

START_TEST(coord_store_value_of_another_size_is_corrupt)
{
    struct coord_store *s = coord_store_memory();
    struct err e = {0};
    uint64_t value;
    for (size_t bytes = 7; bytes < 10; bytes++) {
        ck_assert_int_eq(coord_store_put(s, "n", "123456789", bytes, NULL), 0);
        ck_assert_int_eq(coord_store_get_fixed(s, "n", &value, sizeof value, &e),
                         bytes == sizeof value ? 0 : SHOAL_E_CORRUPT);
    }
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
    tcase_add_test(c, coord_store_any_flipped_bit_is_found);
    tcase_add_test(c, coord_store_torn_in_any_order_is_cut_off);
    tcase_add_test(c, coord_store_damage_begins_where_the_sync_ended);
    tcase_add_test(c, coord_store_rewritten_has_no_torn_end);
    tcase_add_loop_test(c, coord_store_fails_at_any_call, 0, 2);
    tcase_add_test(c, coord_store_that_failed_takes_no_more);
    tcase_add_test(c, coord_store_is_not_shared);
    tcase_add_test(c, coord_store_whose_log_was_removed_keeps_nothing);
    tcase_add_test(c, coord_store_greatest_value_under_the_longest_key_comes_back);
    tcase_add_test(c, coord_store_value_of_another_size_is_corrupt);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
