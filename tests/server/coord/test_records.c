/* test_records.c: state.log of release 0.2.0, whole, torn and damaged, and its takeover into the
 * store. */
#include "proto/base/file.h"
#include "server/coord/store/old_log.h"
#include "server/coord/store/store.h"
#include "tests/lib/coord_log.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static unsigned char raw[4096];
static char said[4096];

static size_t put(size_t at, const char *key, const char *value)
{
    return at + coord_log_put(raw + at, key, value, value == NULL ? 0 : strlen(value));
}

static int say(void *context, const char *key, const void *value, size_t bytes)
{
    size_t at = strlen(said);
    (void)context;
    ck_assert_uint_lt(at + bytes + strlen(key) + 3, sizeof said);
    (void)snprintf(said + at, sizeof said - at, "%s=%.*s ", key, (int)bytes, (const char *)value);
    return 0;
}

/* Reads the first bytes of the log into a store and lists its values; whole: how many bytes were
 * read. */
static int reads(size_t bytes, uint64_t *whole, struct err *e)
{
    said[0] = '\0';
    unsigned char *exact = malloc(bytes == 0 ? 1 : bytes); /* for the sanitizer */
    struct coord_store *s = coord_store_memory();
    ck_assert(exact != NULL && s != NULL);
    memcpy(exact, raw, bytes);
    int rc = coord_old_log_read("state.log", exact, bytes, s, whole, e);
    (void)coord_store_visit(s, say, NULL);
    coord_store_close(s);
    free(exact);
    return rc;
}

static void expect_read(size_t bytes, size_t must, const char *must_say)
{
    struct err e = {0};
    uint64_t whole;
    ck_assert_msg(reads(bytes, &whole, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(whole, must);
    ck_assert_str_eq(said, must_say);
}

static void expect_refused(size_t bytes, int status, const char *words)
{
    struct err e = {0};
    uint64_t whole;
    ck_assert_int_eq(reads(bytes, &whole, &e), status);
    ck_assert_msg(strstr(e.text, words) != NULL && strstr(e.text, "state.log") != NULL, "%s",
                  e.text);
}

START_TEST(coord_records_come_back_in_order)
{
    size_t end = put(put(put(put(0, "a", "1"), "b", ""), "c", "3"), "a", NULL);
    expect_read(end, end, "b= c=3 ");
    end = put(end, "a", "2");
    expect_read(end, end, "a=2 b= c=3 ");
}
END_TEST

/* A log that ends where a record ends is whole; one byte more or less makes a torn record. */
START_TEST(coord_records_cut_anywhere_are_a_torn_tail)
{
    size_t end[4] = {0};
    const char *says[] = {"", "a=one ", "a=one b=two ", "b=two "};
    end[1] = put(0, "a", "one");
    end[2] = put(end[1], "b", "two");
    end[3] = put(end[2], "a", NULL);
    for (size_t i = 0; i < 3; i++)
        for (size_t bytes = end[i]; bytes < end[i + 1]; bytes++)
            expect_read(bytes, end[i], says[i]);
    expect_read(end[3], end[3], says[3]);
}
END_TEST

START_TEST(coord_records_that_no_version_writes)
{
    static const char body[128] = "keyvalue";
    size_t at = put(0, "a", "one");
    struct {
        struct coord_log_record r;
        size_t body;
        int status;
    } cases[] = {
        {{.key_bytes = 3, .value_bytes = 5}, 8, 0},
        {{.key_bytes = COORD_KEY_MAX}, COORD_KEY_MAX, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = COORD_VALUE_MAX}, 8, 0}, /* torn */
        {{.key_bytes = 3, .value_bytes = COORD_VALUE_MAX + 1}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = UINT32_MAX - 1}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = UINT32_MAX}, 3, 0},
        {{.key_bytes = 9, .value_bytes = 1}, 10, SHOAL_E_CORRUPT}, /* a NUL in its key */
        {{.key_bytes = 0, .value_bytes = 0}, 0, SHOAL_E_CORRUPT},
        {{.key_bytes = 0, .value_bytes = 1}, 1, SHOAL_E_CORRUPT},
        {{.key_bytes = 0, .value_bytes = UINT32_MAX}, 0, SHOAL_E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        uint64_t whole;
        memcpy(raw + at, &cases[i].r, sizeof cases[i].r);
        memcpy(raw + at + sizeof cases[i].r, body, cases[i].body);
        coord_log_mend(raw + at, cases[i].body);
        int rc = reads(at + sizeof cases[i].r + cases[i].body, &whole, &e);
        ck_assert_msg(rc == cases[i].status, "case %zu: %d: %s", i, rc, e.text);
    }
}
END_TEST

START_TEST(coord_records_of_a_newer_version_are_refused_by_name)
{
    memcpy(raw, "SHOALLOG\2\0\0\0\0\0\0\0", 16);
    expect_refused(32, SHOAL_E_VERSION, "written by a build that is no release");
    raw[0] ^= 1;
    expect_refused(32, SHOAL_E_CORRUPT, "is damaged");
}
END_TEST

START_TEST(coord_records_of_version_1_are_read)
{
    size_t a = put(0, "a", "one"), b = put(a, "b", "two"), end = put(b, "a", NULL);
    expect_read(end, end, "b=two ");
    for (size_t bytes = b + 1; bytes < end; bytes++)
        expect_read(bytes, b, "a=one b=two ");
    for (size_t bytes = 1; bytes < a; bytes++)
        expect_read(bytes, 0, "");
    raw[end - 1] ^= 1; /* only the last record may be torn */
    expect_read(end, b, "a=one b=two ");
    raw[end - 1] ^= 1;
    raw[b - 1] ^= 1;
    expect_refused(end, SHOAL_E_CORRUPT, "others follow it");
    raw[b - 1] ^= 1;
    raw[a + 10] ^= 4; /* a length that would reach beyond the end */
    expect_refused(end, SHOAL_E_CORRUPT, "others follow it");
    expect_read(b, a, "a=one ");
    raw[a + 10] ^= 4;
    memset(raw + end, 0, 64);
    expect_refused(end + sizeof(struct coord_log_record), SHOAL_E_CORRUPT, "damaged");
}
END_TEST

static char dir[LIMIT_PATH], file[LIMIT_PATH + 16], away[LIMIT_PATH + 32];

static void log_write(size_t bytes)
{
    FILE *f = fopen(file, "w");
    ck_assert(f != NULL && fwrite(raw, 1, bytes, f) == bytes && fclose(f) == 0);
}

static void names_make(void)
{
    rig_dir(dir);
    (void)snprintf(file, sizeof file, "%s/state.log", dir);
    (void)snprintf(away, sizeof away, "%s.0.2.0", file);
}

static void expect_taken(void)
{
    struct coord_store *s;
    struct err e = {0};
    char value[3];
    ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "%s", e.text);
    ck_assert_int_eq(coord_store_get_fixed(s, "b", value, 3, &e), 0);
    ck_assert(memcmp(value, "two", 3) == 0);
    coord_store_close(s);
    ck_assert(access(file, F_OK) != 0 && access(away, F_OK) == 0);
}

/* The values are in the store, and the log has another name. */
START_TEST(coord_records_are_taken_over)
{
    struct coord_store *s;
    struct err e = {0};
    names_make();
    size_t bytes = put(put(0, "a", "one"), "b", "two");
    log_write(bytes);
    expect_taken();
    expect_taken();
    ck_assert_int_eq(rename(away, file), 0); /* a crash before the renaming */
    expect_taken();
    log_write(bytes - 1); /* an older release ran here since */
    ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(e.text, "an older release ran"));
    rig_remove_dir(dir);
}
END_TEST

/* A log that cannot be read is refused by name, and stays. */
START_TEST(coord_records_that_are_damaged_are_not_taken_over)
{
    struct coord_store *s;
    struct err e = {0};
    names_make();
    size_t bytes = put(put(0, "a", "one"), "b", "two");
    raw[sizeof(struct coord_log_record)] ^= 1;
    log_write(bytes);
    for (int start = 0; start < 2; start++) {
        ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), SHOAL_E_CORRUPT);
        ck_assert_ptr_nonnull(strstr(e.text, "state.log: the record at byte 0 is damaged"));
        ck_assert_int_eq(access(file, F_OK), 0);
    }
    raw[sizeof(struct coord_log_record)] ^= 1;
    log_write(bytes);
    expect_taken();
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_records");
    TCase *c = suite_case(s, "records", 60, NULL, NULL);
    tcase_add_test(c, coord_records_come_back_in_order);
    tcase_add_test(c, coord_records_cut_anywhere_are_a_torn_tail);
    tcase_add_test(c, coord_records_that_no_version_writes);
    tcase_add_test(c, coord_records_of_a_newer_version_are_refused_by_name);
    tcase_add_test(c, coord_records_of_version_1_are_read);
    tcase_add_test(c, coord_records_are_taken_over);
    tcase_add_test(c, coord_records_that_are_damaged_are_not_taken_over);
    return suite_main(s);
}
