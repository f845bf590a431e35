/* test_table_set.c: sets of tables: each operation on both sides of each word's end. */
#include "proto/base/table_set.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t edge[] = {0, 1, 63, 64, 65, 127, 128, 191, 192, 254, 255};
#define EDGES (sizeof edge / sizeof edge[0])

static struct table_set edges(void)
{
    struct table_set s = TABLE_SET_NONE;
    for (size_t i = 0; i < EDGES; i++)
        table_set_add(&s, edge[i]);
    return s;
}

START_TEST(sets_have_what_was_added_and_nothing_else)
{
    struct table_set s = TABLE_SET_NONE;
    ck_assert(!table_set_any(s) && table_set_count(s) == 0);
    for (size_t i = 0; i < EDGES; i++) {
        table_set_add(&s, edge[i]);
        ck_assert_uint_eq(table_set_count(s), i + 1);
        for (size_t k = 0; k < EDGES; k++)
            ck_assert_int_eq(table_set_has(&s, edge[k]), k <= i);
    }
    ck_assert(!table_set_has(&s, LIMIT_TABLES) && !table_set_has(&s, LIMIT_TABLES + 64) &&
              !table_set_has(&s, UINT32_MAX));
    const struct table_set all = TABLE_SET_ALL;
    ck_assert(table_set_has(&all, LIMIT_TABLES - 1) && !table_set_has(&all, LIMIT_TABLES));
    for (size_t i = 0; i < EDGES; i++) {
        table_set_remove(&s, edge[i]);
        ck_assert(!table_set_has(&s, edge[i]));
        ck_assert_uint_eq(table_set_count(s), EDGES - 1 - i);
    }
}
END_TEST

START_TEST(sets_are_compared_over_all_words)
{
    for (size_t i = 0; i < EDGES; i++) {
        const struct table_set one = table_set_one(edge[i]), all = edges(),
                               others = table_set_less(all, one);
        ck_assert(table_set_any(one) && table_set_lowest(one) == edge[i]);
        ck_assert_int_eq(table_set_is_word(one), edge[i] < 64);
        ck_assert(table_set_meet(one, all) && !table_set_meet(one, others));
        ck_assert(table_set_within(one, all) && !table_set_within(one, others) &&
                  !table_set_within(all, one));
        ck_assert(table_set_equal(table_set_or(others, one), all));
        ck_assert(table_set_equal(table_set_and(all, one), one));
        ck_assert(!table_set_equal(others, all) && table_set_equal(one, one));
    }
    ck_assert(table_set_equal(table_set_or_all(TABLE_SET_NONE), TABLE_SET_ALL));
    ck_assert(table_set_equal(table_set_or_all(table_set_one(200)), table_set_one(200)));
}
END_TEST

START_TEST(sets_are_walked_in_order)
{
    const struct table_set s = edges();
    size_t at = 0;
    TABLE_SET_EACH (t, &s) {
        ck_assert_uint_lt(at, EDGES);
        ck_assert_uint_eq(t, edge[at]);
        ck_assert_uint_eq(table_set_nth(s, (uint32_t)at), t);
        at++;
    }
    ck_assert_uint_eq(at, EDGES);
    ck_assert_uint_eq(table_set_nth(s, EDGES), LIMIT_TABLES);
    const struct table_set none = TABLE_SET_NONE;
    TABLE_SET_EACH (t, &none)
        ck_abort_msg("%u", t);
    ck_assert_uint_eq(table_set_lowest(none), LIMIT_TABLES);
    for (size_t i = 0; i < EDGES; i++)
        ck_assert_uint_eq(table_set_round(&s, edge[i]), edge[(i + 1) % EDGES]);
    ck_assert_uint_eq(table_set_round(&s, 66), 127);
    ck_assert_uint_eq(table_set_round(&none, 9), 9);
}
END_TEST

START_TEST(first_numbers_have_no_gap)
{
    static const uint32_t counts[] = {0, 1, 63, 64, 65, 255, 256};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        const struct table_set s = table_set_first(counts[i]);
        ck_assert_uint_eq(table_set_count(s), counts[i]);
        ck_assert(table_set_is_first(s));
        for (uint32_t t = 0; t < LIMIT_TABLES; t++)
            ck_assert_int_eq(table_set_has(&s, t), t < counts[i]);
    }
    ck_assert(!table_set_is_first(table_set_one(64)));
    ck_assert(!table_set_is_first(edges()));
}
END_TEST

/* Numbers below 64 alone have the text of older releases. */
START_TEST(sets_come_back_from_their_text)
{
    char text[TABLE_SET_TEXT];
    struct table_set back;
    table_set_text(table_set_word(0x70), text);
    ck_assert_str_eq(text, "0x0000000000000070");
    table_set_text(TABLE_SET_NONE, text);
    ck_assert_str_eq(text, "0x0000000000000000");
    table_set_text(table_set_or(table_set_one(64), table_set_one(255)), text);
    ck_assert_str_eq(text, "0x8000000000000000"
                           "00000000000000000000000000000001"
                           "0000000000000000");
    for (size_t i = 0; i < EDGES; i++) {
        table_set_text(table_set_one(edge[i]), text);
        ck_assert(table_set_parse(text, &back) && table_set_equal(back, table_set_one(edge[i])));
    }
    table_set_text(edges(), text);
    ck_assert(table_set_parse(text, &back) && table_set_equal(back, edges()));
}
END_TEST

START_TEST(other_texts_are_no_sets)
{
    static const char *const bad[] = {
        "",
        "0x",
        "0x70",
        "7",
        "0X0000000000000070",
        "0x000000000000007G",
        "0x000000000000007A",
        "0x00000000000000070",
        "0x 000000000000070",
        "-x0000000000000070",
        "0x000000000000000000000000000000000000000000000000000000000000000",
        "0x00000000000000000000000000000000000000000000000000000000000000000"};
    struct table_set s;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(!table_set_parse(bad[i], &s), "%s", bad[i]);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("table_set");
    tcase_add_test(t, sets_have_what_was_added_and_nothing_else);
    tcase_add_test(t, sets_are_compared_over_all_words);
    tcase_add_test(t, sets_are_walked_in_order);
    tcase_add_test(t, first_numbers_have_no_gap);
    tcase_add_test(t, sets_come_back_from_their_text);
    tcase_add_test(t, other_texts_are_no_sets);
    Suite *suite = suite_create("table_set");
    suite_add_tcase(suite, t);
    SRunner *run = srunner_create(suite);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
