/* test_records.c: what a log that nobody here has written is taken for. */
#include "proto/base/hash.h"
#include "server/coord/records.h"
#include "server/coord/store.h"

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* As in records.c; crafted ones are made of them. */
struct record {
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t synced, body_checksum, checksum;
};
struct record_1 {
    uint32_t magic, key_bytes, value_bytes, zero;
    uint64_t checksum;
};
#define RECORD_MAGIC 0x44524f43u
#define RECORD_MAGIC_1 0x53434f52u
#define HEAD_BYTES 32u

static char path[128];
static unsigned char raw[4096];
static char said[4096];
static struct coord_records l;

static void setup(void)
{
    (void)snprintf(path, sizeof path, "/tmp/shoal-records-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(coord_records_begin(&l, fd), 0);
}

static void teardown(void)
{
    close(l.fd);
    unlink(path);
}

static size_t log_get(void)
{
    ssize_t n = pread(l.fd, raw, sizeof raw, 0);
    ck_assert_int_eq(n, (ssize_t)l.bytes);
    return (size_t)n;
}

static int say(void *context, const char *key, const void *value, size_t bytes, struct err *e)
{
    size_t at = strlen(said);
    (void)context;
    (void)e;
    ck_assert_uint_lt(at + bytes + strlen(key) + 3, sizeof said);
    if (value == NULL)
        (void)snprintf(said + at, sizeof said - at, "-%s ", key);
    else
        (void)snprintf(said + at, sizeof said - at, "%s=%.*s ", key, (int)bytes,
                       (const char *)value);
    return 0;
}

/* What the first bytes of the log say; whole: how many of them. */
static int reads(size_t bytes, uint64_t *whole, struct err *e)
{
    said[0] = '\0';
    unsigned char *exact = malloc(bytes + 1); /* for the sanitizer */
    ck_assert_ptr_nonnull(exact);
    memcpy(exact, raw, bytes);
    unsigned char *end = realloc(exact, bytes == 0 ? 1 : bytes);
    int rc = coord_records_read("state.log", end, bytes, say, NULL, whole, e);
    free(end);
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

static void put(const char *key, const char *value)
{
    ck_assert_int_eq(coord_records_put(&l, key, value, value == NULL ? 0 : strlen(value)), 0);
}

/* Puts a record of any form behind `bytes` of the log; its length. */
static size_t craft(size_t bytes, struct record r, const void *body, size_t body_bytes)
{
    r.magic = RECORD_MAGIC;
    r.body_checksum = hash_bytes(body, body_bytes, 0);
    r.checksum = hash_bytes(&r, offsetof(struct record, checksum), l.salt ^ bytes);
    memcpy(raw + bytes, &r, sizeof r);
    memcpy(raw + bytes + sizeof r, body, body_bytes);
    return sizeof r + body_bytes;
}

static size_t put_1(size_t at, const char *key, const char *value)
{
    struct record_1 r = {RECORD_MAGIC_1, (uint32_t)strlen(key),
                         value == NULL ? UINT32_MAX : (uint32_t)strlen(value), 0, 0};
    size_t bytes = value == NULL ? 0 : strlen(value);
    memcpy(raw + at + sizeof r, key, r.key_bytes);
    memcpy(raw + at + sizeof r + r.key_bytes, value == NULL ? "" : value, bytes);
    r.checksum = hash_bytes(raw + at + sizeof r, r.key_bytes + bytes,
                            ((uint64_t)r.key_bytes << 32 | r.value_bytes) ^ r.magic);
    memcpy(raw + at, &r, sizeof r);
    return at + sizeof r + r.key_bytes + bytes;
}

START_TEST(coord_records_come_back_in_order)
{
    put("a", "1");
    put("b", "");
    ck_assert_int_eq(coord_records_mark(&l), 0);
    put("a", NULL);
    put("a", "2");
    expect_read(log_get(), l.bytes, "a=1 b= -a a=2 ");
}
END_TEST

/* Where each record ends the log ends well; a byte before or after it is a torn one. */
START_TEST(coord_records_cut_anywhere_are_a_torn_tail)
{
    uint64_t end[4] = {l.bytes};
    const char *says[] = {"", "a=one ", "a=one b=two ", "a=one b=two -a "};
    put("a", "one");
    end[1] = l.bytes;
    put("b", "two");
    end[2] = l.bytes;
    put("a", NULL);
    end[3] = l.bytes;
    log_get();
    for (size_t i = 0; i < 3; i++)
        for (size_t bytes = end[i]; bytes < end[i + 1]; bytes++)
            expect_read(bytes, end[i], says[i]);
    expect_read(end[3], end[3], says[3]);
    for (size_t bytes = 1; bytes < HEAD_BYTES; bytes++)
        expect_refused(bytes, SHOAL_E_CORRUPT, "its head is damaged");
    expect_read(0, 0, "");
}
END_TEST

START_TEST(coord_records_torn_before_the_mark_are_damage)
{
    put("a", "one");
    uint64_t a = l.bytes;
    put("b", "two");
    l.synced = a; /* a is on disk, b not */
    put("c", "three");
    size_t bytes = log_get();
    raw[a - 1] ^= 1;
    expect_refused(bytes, SHOAL_E_CORRUPT, "had been on disk");
    raw[a - 1] ^= 1;
    raw[a] ^= 1;
    expect_read(bytes, a, "a=one ");
    raw[a] ^= 1;
    memset(raw + HEAD_BYTES, 0, a - HEAD_BYTES);
    expect_refused(bytes, SHOAL_E_CORRUPT, "at byte 32");
}
END_TEST

/* A header behind the damage whose body is torn still says what was on disk. */
START_TEST(coord_records_header_alone_tells)
{
    put("a", "one");
    l.synced = l.bytes;
    put("b", "a long value that is torn");
    size_t bytes = log_get();
    raw[HEAD_BYTES + 4] ^= 64; /* a's length */
    expect_refused(bytes - 3, SHOAL_E_CORRUPT, "had been on disk");
    expect_refused(l.synced + sizeof(struct record), SHOAL_E_CORRUPT, "had been on disk");
    expect_read(l.synced + sizeof(struct record) - 1, HEAD_BYTES, "");
}
END_TEST

/* Records as they were: of the file before this one, moved, or in somebody's job. */
START_TEST(coord_records_of_another_log_or_place)
{
    static unsigned char other[4096];
    put("a", "one");
    l.synced = l.bytes;
    put("b", "two");
    size_t bytes = log_get(), b = (size_t)l.synced;
    memcpy(other, raw, bytes);
    teardown();
    setup();
    put("a", "one");
    log_get();
    memcpy(raw + b, other + b, bytes - b); /* another's page */
    expect_read(bytes, b, "a=one ");
    raw[HEAD_BYTES] ^= 1; /* it does not witness either */
    expect_read(bytes, HEAD_BYTES, "");
    memcpy(raw, other, bytes);
    memmove(raw + b + 8, raw + b, bytes - b); /* another place */
    memset(raw + b, 0, 8);
    expect_read(bytes + 8, b, "a=one ");
}
END_TEST

START_TEST(coord_records_that_no_version_writes)
{
    static const char body[128] = "keyvalue";
    put("a", "one");
    size_t at = log_get();
    struct {
        struct record r;
        size_t body;
        int status;
    } cases[] = {
        {{.key_bytes = 3, .value_bytes = 5, .synced = at}, 8, 0},
        {{.key_bytes = 3, .value_bytes = 5, .synced = at + 1}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = 5, .synced = UINT64_MAX}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = COORD_KEY_MAX}, COORD_KEY_MAX, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = COORD_VALUE_MAX}, 8, 0}, /* torn */
        {{.key_bytes = 3, .value_bytes = COORD_VALUE_MAX + 1}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = UINT32_MAX - 1}, 8, SHOAL_E_CORRUPT},
        {{.key_bytes = 3, .value_bytes = UINT32_MAX}, 3, 0},
        {{.key_bytes = 9, .value_bytes = 1}, 10, SHOAL_E_CORRUPT}, /* a NUL in its key */
        {{.key_bytes = 0, .value_bytes = 0}, 0, 0},                /* a mark */
        {{.key_bytes = 0, .value_bytes = 1}, 1, SHOAL_E_CORRUPT},
        {{.key_bytes = 0, .value_bytes = UINT32_MAX}, 0, SHOAL_E_CORRUPT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct err e = {0};
        uint64_t whole;
        size_t bytes = at + craft(at, cases[i].r, body, cases[i].body);
        int rc = reads(bytes, &whole, &e);
        ck_assert_msg(rc == cases[i].status, "case %zu: %d: %s", i, rc, e.text);
    }
}
END_TEST

START_TEST(coord_records_of_a_newer_version_are_refused_by_name)
{
    size_t bytes = log_get();
    uint32_t version = COORD_RECORDS_VERSION + 1;
    memcpy(raw + 8, &version, sizeof version);
    expect_refused(bytes, SHOAL_E_CORRUPT, "its head is damaged");
    uint64_t checksum = hash_bytes(raw, 24, 0);
    memcpy(raw + 24, &checksum, sizeof checksum);
    expect_refused(bytes, SHOAL_E_VERSION, "has version 3, this Shoal reads up to 2");
    version = 1;
    memcpy(raw + 8, &version, sizeof version);
    checksum = hash_bytes(raw, 24, 0);
    memcpy(raw + 24, &checksum, sizeof checksum);
    expect_refused(bytes, SHOAL_E_CORRUPT, "its head is damaged");
}
END_TEST

START_TEST(coord_records_of_version_1_are_read)
{
    size_t a = put_1(0, "a", "one"), b = put_1(a, "b", "two"), end = put_1(b, "a", NULL);
    expect_read(end, end, "a=one b=two -a ");
    for (size_t bytes = b + 1; bytes < end; bytes++)
        expect_read(bytes, b, "a=one b=two ");
    for (size_t bytes = 1; bytes < a; bytes++)
        expect_read(bytes, 0, "");
    raw[end - 1] ^= 1; /* the last one alone may be torn */
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
    expect_refused(end + sizeof(struct record_1), SHOAL_E_CORRUPT, "damaged");
}
END_TEST

START_TEST(coord_records_of_version_1_become_version_2)
{
    char dir[] = "/tmp/shoal-records-XXXXXX", file[64], command[64];
    struct coord_store *s;
    struct err e = {0};
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(file, sizeof file, "%s/state.log", dir);
    for (int start = 0; start < 2; start++) {
        char value[3];
        int fd = open(file, O_RDWR | O_CREAT, 0600);
        if (start == 0) {
            size_t bytes = put_1(put_1(0, "a", "one"), "b", "two");
            ck_assert_int_eq(write(fd, raw, bytes), (ssize_t)bytes);
        }
        ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), 0);
        ck_assert_int_eq(coord_store_get_fixed(s, "b", value, 3, &e), 0);
        ck_assert(memcmp(value, "two", 3) == 0);
        coord_store_close(s);
        close(fd);
        fd = open(file, O_RDONLY);
        ck_assert(pread(fd, raw, 8, 0) == 8 && memcmp(raw, "SHOALLOG", 8) == 0);
        close(fd);
    }
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_records");
    TCase *c = tcase_create("records");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, coord_records_come_back_in_order);
    tcase_add_test(c, coord_records_cut_anywhere_are_a_torn_tail);
    tcase_add_test(c, coord_records_torn_before_the_mark_are_damage);
    tcase_add_test(c, coord_records_header_alone_tells);
    tcase_add_test(c, coord_records_of_another_log_or_place);
    tcase_add_test(c, coord_records_that_no_version_writes);
    tcase_add_test(c, coord_records_of_a_newer_version_are_refused_by_name);
    tcase_add_test(c, coord_records_of_version_1_are_read);
    tcase_add_test(c, coord_records_of_version_1_become_version_2);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
