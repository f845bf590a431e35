/* test_manifest.c: a manifest survives its text; every change in it is found. */
#include "proto/base/hash.h"
#include "proto/job/manifest.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct json *file_json(const char *name, const char *content)
{
    struct json *f = json_new_object();
    json_set_string(f, "file", name);
    json_set_int(f, "bytes", (int64_t)strlen(content));
    json_set_hex(f, "xxh3", hash_bytes(content, strlen(content), 0));
    return f;
}

static struct json *manifest_new(int64_t format)
{
    struct json *m = json_new_object(), *parts = json_new_array(), *lanes = json_new_array(),
                *files = json_new_array();
    json_set_int(m, "format", format);
    json_set_string(m, "name", "000001");
    json_set_string(m, "job", "t");
    json_set_int(m, "run", 12);
    json_set_int(m, "epoch", 1);
    json_set_int(m, "examples", 100);
    json_set_int(m, "rows", 7);
    json_set_int(m, "bytes", 700);
    for (int i = 0; i < 2; i++) {
        struct json *p = json_new_object();
        char folder[24];
        (void)snprintf(folder, sizeof folder, "part-%04d", i);
        json_set_string(p, "folder", folder);
        json_set_int(p, "rows", 3 + i);
        json_set_int(p, "bytes", 350);
        json_set_hex(p, "manifest", 0xfedcba9876543210ull + (uint64_t)i);
        json_append(parts, p);
    }
    json_append(lanes, json_new_object());
    json_append(files, file_json(MANIFEST_STATE_FILE, "state"));
    json_append(files, file_json(MANIFEST_JOB_FILE, "job: t\n"));
    json_set(m, "parts", parts);
    json_set(m, "lanes", lanes);
    json_set(m, "files", files);
    return m;
}

static char *text_of(struct json *m)
{
    char *text = manifest_text(m);
    ck_assert_ptr_nonnull(text);
    json_free(m);
    return text;
}

START_TEST(manifest_survives_its_text)
{
    char *text = text_of(manifest_new(MANIFEST_FORMAT));
    struct json *m;
    struct err e = {0};
    uint64_t sum;
    ck_assert_msg(manifest_parse(text, strlen(text), &m, &e) == 0, "%s\n%s", e.text, text);
    ck_assert_int_eq(json_as_int(json_get(m, "run"), 0), 12);
    ck_assert(manifest_hex(json_get(m, "parts.1.manifest"), &sum) && sum == 0xfedcba9876543211ull);
    ck_assert_int_eq(manifest_file_check(m, MANIFEST_JOB_FILE, "job: t\n", 7, &e), 0);
    ck_assert_int_eq(manifest_file_check(m, MANIFEST_JOB_FILE, "job: u\n", 7, &e),
                     SHOAL_E_CHECKSUM);
    ck_assert_ptr_nonnull(strstr(e.text, "job.yaml"));
    ck_assert_int_eq(manifest_file_check(m, MANIFEST_JOB_FILE, "job: t", 6, &e), SHOAL_E_CHECKSUM);
    ck_assert_int_eq(manifest_file_check(m, "other", "", 0, &e), SHOAL_E_CORRUPT);
    json_free(m);
    free(text);
}
END_TEST

START_TEST(manifest_changed_bit_is_found)
{
    char *text = text_of(manifest_new(MANIFEST_FORMAT));
    size_t bytes = strlen(text);
    struct json *m;
    for (size_t bit = 0; bit < 8 * bytes; bit++) {
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
        ck_assert_msg(manifest_parse(text, bytes, &m, NULL) == SHOAL_E_CHECKSUM, "bit %zu", bit);
        text[bit / 8] = (char)(text[bit / 8] ^ (1 << bit % 8));
    }
    for (size_t n = 0; n < bytes; n++)
        ck_assert_int_eq(manifest_parse(text, n, &m, NULL), SHOAL_E_CHECKSUM);
    free(text);
}
END_TEST

START_TEST(manifest_newer_format_is_refused_by_name)
{
    char *text = text_of(manifest_new(MANIFEST_FORMAT + 1));
    struct json *m;
    struct err e = {0};
    ck_assert_int_eq(manifest_parse(text, strlen(text), &m, &e), SHOAL_E_VERSION);
    ck_assert_ptr_nonnull(strstr(e.text, "take the release that wrote it"));
    free(text);
}
END_TEST

/* A valid checksum does not make the content valid. */
START_TEST(manifest_without_a_member_is_refused)
{
    static const char *const members[] = {"format", "name",  "run",  "rows",
                                          "parts",  "lanes", "files"};
    struct json *m;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        struct json *without = manifest_new(MANIFEST_FORMAT);
        json_set_null(without, members[i]);
        char *text = text_of(without);
        ck_assert_msg(manifest_parse(text, strlen(text), &m, NULL) == SHOAL_E_CORRUPT, "%s",
                      members[i]);
        free(text);
    }
}
END_TEST

static struct json *many(uint32_t count, bool parts)
{
    struct json *list = json_new_array();
    for (uint32_t i = 0; i < count; i++) {
        struct json *p = json_new_object();
        char folder[24];
        (void)snprintf(folder, sizeof folder, "part-%04u", i);
        if (parts)
            json_set_string(p, "folder", folder);
        json_set_int(p, "rows", 0);
        json_set_int(p, "bytes", 0);
        json_set_hex(p, "manifest", i);
        json_append(list, p);
    }
    return list;
}

/* At least one part for each shard, and one lane; no more than the limits. */
START_TEST(manifest_counts_have_their_bounds)
{
    static const struct {
        const char *member;
        uint32_t count;
        int expected;
    } cases[] = {{"parts", 0, SHOAL_E_CORRUPT},
                 {"parts", 1, 0},
                 {"parts", LIMIT_SHARDS, 0},
                 {"parts", LIMIT_SHARDS + 1, SHOAL_E_CORRUPT},
                 {"lanes", 0, SHOAL_E_CORRUPT},
                 {"lanes", LIMIT_LANES, 0},
                 {"lanes", LIMIT_LANES + 1, SHOAL_E_CORRUPT}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct json *m = manifest_new(MANIFEST_FORMAT), *read;
        bool parts = strcmp(cases[i].member, "parts") == 0;
        json_set(m, cases[i].member, many(cases[i].count, parts));
        char *text = text_of(m);
        int rc = manifest_parse(text, strlen(text), &read, NULL);
        ck_assert_msg(rc == cases[i].expected, "%u %s: %d", cases[i].count, cases[i].member, rc);
        if (rc == 0)
            json_free(read);
        free(text);
    }
}
END_TEST

START_TEST(manifest_names_are_one_folder)
{
    static const char *const good[] = {"a", "000012", "before-black-friday", "v1.2"};
    static const char *const bad[] = {"",     ".",   "..",    ".hidden",  "a/b",
                                      "../x", "a b", "x.tmp", "\xc3\xa9", "a\n"};
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        ck_assert_msg(manifest_name_ok(good[i]), "%s", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!manifest_name_ok(bad[i]), "%s", bad[i]);
    char longest[LIMIT_NAME + 1] = {0};
    memset(longest, 'a', LIMIT_NAME - 1);
    ck_assert(manifest_name_ok(longest));
    longest[LIMIT_NAME - 1] = 'a';
    ck_assert(!manifest_name_ok(longest));
}
END_TEST

static struct json *one(const char *name, int64_t number, int64_t run, int64_t examples,
                        const char *date)
{
    struct json *m = manifest_new(MANIFEST_FORMAT);
    json_set_string(m, "name", name);
    json_set_string(m, "date", date);
    json_set_int(m, "run", run);
    json_set_int(m, "examples", examples);
    if (number != 0)
        json_set_int(m, "number", number);
    return m;
}

/* In the order in which they were made, although their dates are wrong. */
START_TEST(manifest_order_is_no_clocks)
{
    struct json *m[] = {NULL,
                        one("old", 0, 9, 9, "2031-01-01"),
                        one("000001", 0, 9, 9, "2030-01-01"),
                        one("000002", 2, 3, 50, "2029-01-01"),
                        one("monday", 3, 3, 60, "2020-01-01"),
                        one("friday", 3, 3, 70, "2019-01-01"),
                        one("again", 3, 4, 10, "2018-01-01"),
                        one("000003", 3, 4, 20, "2017-01-01"),
                        one("z", 4, 4, 20, "2017-01-01"),
                        one("000010", 10, 1, 1, "1970-01-01")};
    const size_t count = sizeof m / sizeof m[0];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < count; k++) {
            int order = manifest_order(m[i], m[k]);
            ck_assert_msg((order > 0) == (i > k) && (order < 0) == (i < k), "%zu, %zu", i, k);
        }
    for (size_t i = 0; i < count; i++)
        json_free(m[i]);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("manifest");
    TCase *t = tcase_create("manifest");
    tcase_add_test(t, manifest_survives_its_text);
    tcase_add_test(t, manifest_changed_bit_is_found);
    tcase_add_test(t, manifest_newer_format_is_refused_by_name);
    tcase_add_test(t, manifest_without_a_member_is_refused);
    tcase_add_test(t, manifest_counts_have_their_bounds);
    tcase_add_test(t, manifest_names_are_one_folder);
    tcase_add_test(t, manifest_order_is_no_clocks);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
