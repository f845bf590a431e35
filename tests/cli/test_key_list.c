/* test_key_list.c: lists of keys and of values are taken exactly as they are written, and refused
 * by the number of the line. */
#include "deploy/cli/key_list.h"
#include "proto/base/key.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct key_place place;

static void field_add(const char *name, const char *table, const char *what, uint32_t number)
{
    struct err e;
    ck_assert_int_eq(legend_add(&place.names, LEGEND_FIELDS, name, table, what, &e), 0);
    place.names.name[LEGEND_FIELDS][place.names.count[LEGEND_FIELDS] - 1].number = number;
}

/* Fields user and item of the table emb; an id and a bucket; one of another table. */
static void setup(void)
{
    place = (struct key_place){.table = "emb"};
    place.names.input = strdup("");
    field_add("user", "emb", "category", 3);
    field_add("item", "emb", "multi", 5);
    field_add("page", "emb", "id", 7);
    field_add("age", "emb", "bucket", 9);
    field_add("city", "rest", "category", 4);
}

static void teardown(void)
{
    key_place_close(&place);
}

/* Reads a text of keys, or with field of values; at most `most`. */
static int read_as(const void *text, size_t bytes, const char *field, size_t most,
                   struct key_list *out, struct err *e)
{
    FILE *f = tmpfile();
    *out = (struct key_list){0};
    ck_assert(f != NULL && fwrite(text, 1, bytes, f) == bytes);
    rewind(f);
    int rc = key_list_read(f, "list", &place, field, most, out, e);
    fclose(f);
    return rc;
}

static int read_text(const char *text, const char *field, struct key_list *out, struct err *e)
{
    return read_as(text, strlen(text), field, 1000, out, e);
}

START_TEST(keys_are_numbers_and_named_values)
{
    struct key_list k;
    struct err e = {0};
    ck_assert_msg(read_text("0x1F\n31\r\n\nuser:a:b\n5:x y\npage:17", NULL, &k, &e) == 0, "%s",
                  e.text);
    const uint64_t expected[] = {31, 31, key_of_value(3, "a:b", 3), key_of_value(5, "x y", 3),
                                 key_make(7, 17)};
    ck_assert_uint_eq(k.count, 5);
    ck_assert_mem_eq(k.key, expected, sizeof expected);
    key_list_free(&k);
}
END_TEST

START_TEST(values_are_whole_lines)
{
    struct key_list k;
    struct err e = {0};
    ck_assert_int_eq(read_text("a\n 17\t\r\n\n0x1f\nuser:a", "user", &k, &e), 0);
    const uint64_t expected[] = {key_of_value(3, "a", 1), key_of_value(3, " 17\t", 4),
                                 key_of_value(3, "0x1f", 4), key_of_value(3, "user:a", 6)};
    ck_assert_uint_eq(k.count, 4);
    ck_assert_mem_eq(k.key, expected, sizeof expected);
    key_list_free(&k);
}
END_TEST

static const struct {
    const char *text, *field;
    int code;
    const char *says;
} wrong[] = {
    {"1\nx\n", NULL, SHOAL_E_USAGE, "list:2: x is neither"},
    {"1\n2\n-3\n", NULL, SHOAL_E_USAGE, "list:3: "},
    {"nothing:1\n", NULL, SHOAL_E_NOT_FOUND, "list:1: the tables have no field nothing"},
    {"a\n", "nothing", SHOAL_E_NOT_FOUND, "list:1: the tables have no field nothing"},
    {"user:1\ncity:oslo\n", NULL, SHOAL_E_NOT_FOUND,
     "list:2: the rows of field city are in table rest, not in emb"},
    {"17\n018\n", "page", SHOAL_E_DATA, "list:2: field page has ids, and 018 is none"},
    {"18446744073709551616\n", NULL, SHOAL_E_USAGE, "list:1: "},
};

START_TEST(a_wrong_line_is_refused_by_its_number)
{
    struct key_list k;
    struct err e = {0};
    ck_assert_int_eq(read_text(wrong[_i].text, wrong[_i].field, &k, &e), wrong[_i].code);
    ck_assert_msg(strncmp(e.text, wrong[_i].says, strlen(wrong[_i].says)) == 0, "%s", e.text);
    key_list_free(&k);
}
END_TEST

START_TEST(text_with_a_nul_is_none)
{
    struct key_list k;
    struct err e = {0};
    ck_assert_int_eq(read_as("1\nuser:a\0b\n", 11, NULL, 1000, &k, &e), SHOAL_E_DATA);
    ck_assert_msg(strncmp(e.text, "list:2: a NUL", 13) == 0, "%s", e.text);
    key_list_free(&k);
}
END_TEST

/* A line of LIMIT_LINE_BYTES is one value; with another byte it is none. No more is read. */
START_TEST(a_line_is_as_long_as_one_of_an_input)
{
    struct key_list k;
    struct err e = {0};
    char *text = malloc(LIMIT_LINE_BYTES + 2);
    memset(text, 'a', LIMIT_LINE_BYTES + 2);
    text[LIMIT_LINE_BYTES] = '\n';
    ck_assert_int_eq(read_as(text, LIMIT_LINE_BYTES + 1, "user", 1000, &k, &e), 0);
    ck_assert_uint_eq(k.count, 1);
    ck_assert_uint_eq(k.key[0], key_of_value(3, text, LIMIT_LINE_BYTES));
    key_list_free(&k);
    text[LIMIT_LINE_BYTES] = 'a';
    ck_assert_int_eq(read_as(text, LIMIT_LINE_BYTES + 2, "user", 1000, &k, &e), SHOAL_E_DATA);
    ck_assert_msg(strncmp(e.text, "list:1: longer than", 19) == 0, "%s", e.text);
    key_list_free(&k);
    free(text);
}
END_TEST

START_TEST(a_list_has_a_bound)
{
    struct key_list k;
    struct err e = {0};
    ck_assert_int_eq(read_as("1\n2\n3\n", 6, NULL, 3, &k, &e), 0);
    key_list_free(&k);
    ck_assert_int_eq(read_as("1\n2\n3\n", 6, NULL, 2, &k, &e), SHOAL_E_TOO_BIG);
    ck_assert_msg(strncmp(e.text, "list:3: more than 2 keys", 24) == 0, "%s", e.text);
    key_list_free(&k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("key_list");
    TCase *t = tcase_create("key_list");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, keys_are_numbers_and_named_values);
    tcase_add_test(t, values_are_whole_lines);
    tcase_add_loop_test(t, a_wrong_line_is_refused_by_its_number, 0,
                        (int)(sizeof wrong / sizeof wrong[0]));
    tcase_add_test(t, text_with_a_nul_is_none);
    tcase_add_test(t, a_line_is_as_long_as_one_of_an_input);
    tcase_add_test(t, a_list_has_a_bound);
    suite_add_tcase(s, t);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
