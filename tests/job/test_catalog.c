/* test_catalog.c: the list of a fleet's spaces: written, read, and what is refused. */
#include "proto/job/catalog.h"

#include "tests/lib/table_sets.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LAST (LIMIT_TABLES - 1)

#define NAMES "names: {\"fields\":{\"user\":[0,\"emb\",\"category\"]},\"input\":\"user 8\"}"
#define OTHERS "names: {\"fields\":{\"ad\":[3,\"emb\",\"id\"]},\"input\":\"ad 8\"}"

static struct catalog c;
static struct err e;

static int read_text(const char *text)
{
    memset(&e, 0, sizeof e);
    return catalog_read(text, strlen(text), &c, &e);
}

/* Writes c and reads the text back, which the caller frees. */
static char *again(void)
{
    char *text;
    size_t bytes;
    ck_assert_msg(catalog_text(&c, &text, &bytes, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(bytes, strlen(text));
    ck_assert_msg(read_text(text) == 0, "%s", e.text);
    return text;
}

/* The text of a release without spaces is that of one space, and is written as it was. */
START_TEST(catalog_of_one_space_is_its_names)
{
    ck_assert_int_eq(read_text(NAMES), 0);
    ck_assert_uint_eq(c.count, 1);
    ck_assert_uint_eq(c.space[0].number, 0);
    ck_assert_str_eq(c.space[0].name, "");
    ck_assert_uint_eq(c.space[0].bytes, strlen(NAMES));
    strcpy(c.space[0].name, "ads");
    c.space[0].tables = set_of(3);
    ck_assert(c.alone);
    char *text = again();
    ck_assert_str_eq(text, NAMES);
    free(text);
    c = (struct catalog){.count = 0};
    text = again();
    ck_assert_uint_eq(c.count, 0);
    ck_assert_str_eq(text, "none");
    free(text);
}
END_TEST

START_TEST(catalog_comes_back_as_it_was)
{
    c = (struct catalog){.count = 3};
    c.space[0] = (struct catalog_space){.number = 0,
                                        .name = "ads",
                                        .tables = set_of(0x5),
                                        .left = set_of(0x8),
                                        .line = NAMES,
                                        .bytes = strlen(NAMES)};
    c.space[0].bits[0] = 6;
    c.space[0].bits[2] = 10;
    c.space[0].bits[3] = 1;
    c.space[0].first[2] = 512;
    c.space[0].first[3] = 70;
    c.space[1] =
        (struct catalog_space){.number = 2, .tables = set_of(0x2)}; /* its name is not known */
    c.space[2] = (struct catalog_space){.number = 31,
                                        .name = "a \"b\"\n",
                                        .tables = table_set_one(LAST),
                                        .line = OTHERS,
                                        .bytes = strlen(OTHERS)};
    c.space[2].bits[LAST] = 16;
    char *text = again();
    ck_assert_uint_eq(c.count, 3);
    ck_assert_str_eq(c.space[0].name, "ads");
    ck_assert(set_is(c.space[0].tables, 5));
    ck_assert(set_is(c.space[0].left, 8));
    ck_assert(!c.alone && c.space[0].bits[2] == 10 && c.space[0].bits[3] == 1);
    ck_assert(c.space[0].first[2] == 512 && c.space[0].first[3] == 70);
    ck_assert_int_eq(strncmp(c.space[0].line, NAMES, c.space[0].bytes), 0);
    ck_assert_uint_eq(c.space[0].bytes, strlen(NAMES));
    ck_assert(c.space[1].number == 2 && c.space[1].name[0] == 0 && c.space[1].line == NULL);
    ck_assert_str_eq(c.space[2].name, "a \"b\"\n");
    ck_assert(table_set_equal(c.space[2].tables, table_set_one(LAST)));
    ck_assert_uint_eq(c.space[2].bits[LAST], 16);
    ck_assert_int_eq(strncmp(c.space[2].line, OTHERS, c.space[2].bytes), 0);
    free(text);
}
END_TEST

/* Where rows of the only space are missing, the text is not its names alone. */
START_TEST(catalog_says_where_rows_are_missing)
{
    static const char *const state[] = {"\"state\": \"lost\"", "\"state\": \"half\"",
                                        "\"half\": \"emb\""};
    c = (struct catalog){.count = 1};
    c.space[0] = (struct catalog_space){.name = "ads",
                                        .tables = set_of(1),
                                        .line = NAMES,
                                        .bytes = strlen(NAMES),
                                        .state = CATALOG_LOST};
    if (_i > 0)
        c.space[0].state = CATALOG_HALF;
    if (_i == 2)
        strcpy(c.space[0].half, "emb");
    char *text = again();
    ck_assert_msg(strstr(text, state[_i]) != NULL, "%s", text);
    ck_assert_int_eq(c.space[0].state, _i == 0 ? CATALOG_LOST : CATALOG_HALF);
    ck_assert_str_eq(c.space[0].half, _i == 2 ? "emb" : "");
    ck_assert_str_eq(c.space[0].name, "ads");
    free(text);
}
END_TEST

#define PLACED(name, number, tables, left, bits, first)                                            \
    "space: {\"name\":\"" name "\",\"number\":" number ",\"tables\":\"" tables                     \
    "\",\"left\":\"" left "\",\"bits\":" bits ",\"first\":" first "}"
#define SPACE(name, number, tables, bits)                                                          \
    PLACED(name, number, tables, "0x0000000000000000", bits, "[0]")

START_TEST(catalog_refuses_what_cannot_be)
{
    static const char *const bad[] = {
        "",
        "\n",
        "spaces: {}",
        NAMES "\n",
        NAMES "\n" NAMES,
        "space: {",
        "space: 5",
        SPACE("a", "-1", "0x0000000000000001", "[1]"),
        SPACE("a", "32", "0x0000000000000001", "[1]"),
        SPACE("a", "\"0\"", "0x0000000000000001", "[1]"),
        SPACE("a", "0", "1", "[1]"),
        SPACE("a", "0", "0x0000000000000001", "[]"),
        SPACE("a", "0", "0x0000000000000001", "[1, 2]"),
        SPACE("a", "0", "0x0000000000000001", "[17]"),
        SPACE("a", "0", "0x0000000000000001", "[-1]"),
        SPACE("a", "0", "0x0000000000000001", "[33]"),
        SPACE("0123456789012345678901234567890123456789012345678901234567890123", "0",
              "0x0000000000000001", "[1]"),
        SPACE("a", "0", "0x0000000000000001", "[1]") "\n" SPACE("b", "0", "0x0000000000000002",
                                                                "[1]"),
        SPACE("a", "1", "0x0000000000000001", "[1]") "\n" SPACE("b", "0", "0x0000000000000002",
                                                                "[1]"),
        SPACE("a", "0", "0x0000000000000001", "[1]") "\n" SPACE("b", "1", "0x0000000000000001",
                                                                "[1]"),
        SPACE("a", "0", "0x0000000000000001", "[1]") "\n" SPACE("a", "1", "0x0000000000000002",
                                                                "[1]"),
        SPACE("a", "0", "0x0000000000000001", "[1]") "\nnames: {}",
        SPACE("a", "0", "0x0000000000000001", "[1],\"state\":\"gone\""),
        SPACE("a", "0", "0x0000000000000001", "[1],\"half\":\"emb\""),
        SPACE("a", "0", "0x0000000000000001", "[1],\"state\":\"lost\",\"half\":\"emb\""),
        SPACE("a", "0", "0x0000000000000001",
              "[1],\"state\":\"half\",\"half\":"
              "\"0123456789012345678901234567890123456789012345678901234567890123\""),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000001", "[1]", "[0]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000002", "[1]", "[0]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000000", "[1]", "[]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000000", "[1]", "[0, 1]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000000", "[1]", "[-1]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000000", "[1]", "[4194305]"),
        PLACED("a", "0", "0x0000000000000001", "1", "[1]", "[0]"),
        PLACED("a", "0", "0x0000000000000001", "0x0000000000000002", "[1, 1]",
               "[0, 2]") "\n" SPACE("b", "1", "0x0000000000000002", "[1]"),
        "none\n",
        "nones",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(read_text(bad[i]) == SHOAL_E_CONFIG, "%zu: %s", i, bad[i]);
        ck_assert_msg(e.text[0] != 0, "%zu", i);
    }
    ck_assert_int_eq(read_text(SPACE("a", "0", "0x0000000000000001", "[16]")), 0);
    ck_assert_int_eq(read_text(SPACE("a", "0", "0x0000000000000001", "[1]") "\n" NAMES "\n" SPACE(
                         "", "1", "0x0000000000000002", "[0]")),
                     0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("catalog");
    TCase *t = tcase_create("catalog");
    tcase_add_test(t, catalog_of_one_space_is_its_names);
    tcase_add_test(t, catalog_comes_back_as_it_was);
    tcase_add_loop_test(t, catalog_says_where_rows_are_missing, 0, 3);
    tcase_add_test(t, catalog_refuses_what_cannot_be);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
