/* test_nameset.c: a set holds each name once, in the order of arrival, and drops the names that it
 * is told to drop. */
#include "proto/base/err.h"
#include "proto/base/nameset.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct nameset s;

static struct nameset_item name(uint32_t n)
{
    char text[32];
    int bytes = snprintf(text, sizeof text, "part-%u", n);
    return nameset_item(text, (size_t)bytes);
}

static void fill(uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        ck_assert_int_eq(nameset_add(&s, name(i)), 0);
}

START_TEST(nameset_knows_what_came_and_once)
{
    ck_assert(!nameset_has(&s, name(1)));
    fill(0, 5000);
    fill(100, 200);
    ck_assert_uint_eq(s.count, 5000);
    ck_assert(nameset_has(&s, name(0)) && nameset_has(&s, name(4999)));
    ck_assert(!nameset_has(&s, name(5000)));
    nameset_close(&s);
}
END_TEST

/* A name that is a part of another one is a different name. */
START_TEST(nameset_goes_by_the_bytes_of_a_name)
{
    ck_assert_int_eq(nameset_add(&s, nameset_item("part-1\t20", 6)), 0);
    ck_assert(nameset_has(&s, nameset_item("part-1", 6)));
    ck_assert(!nameset_has(&s, nameset_item("part-1\t20", 9)));
    ck_assert(!nameset_has(&s, nameset_item("", 0)));
    nameset_close(&s);
}
END_TEST

START_TEST(nameset_takes_another_ones_items)
{
    struct nameset other = {.count = 0};
    fill(0, 300);
    uint64_t digest = nameset_digest(&s);
    ck_assert_int_eq(nameset_add_all(&other, s.item, s.count), 0);
    ck_assert_uint_eq(nameset_digest(&other), digest);
    ck_assert_int_eq(nameset_add_all(&other, s.item, s.count), 0);
    ck_assert_uint_eq(other.count, 300);
    nameset_drop_last(&other, 1);
    ck_assert_uint_ne(nameset_digest(&other), digest);
    nameset_close(&other);
    nameset_close(&s);
}
END_TEST

START_TEST(nameset_forgets_the_last)
{
    nameset_drop_last(&s, 0);
    fill(0, 1000);
    nameset_drop_last(&s, 400);
    ck_assert_uint_eq(s.count, 600);
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(nameset_has(&s, name(i)), i < 600);
    fill(600, 700);
    ck_assert(nameset_has(&s, name(699)));
    nameset_close(&s);
}
END_TEST

/* Drops the ten oldest of every third name. */
START_TEST(nameset_forgets_the_oldest_of_some)
{
    uint8_t bits[8] = {0};
    for (uint32_t i = 0; i < 60; i += 3)
        bits[i / 8] |= (uint8_t)(1u << (i % 8));
    fill(0, 100);
    ck_assert_uint_eq(nameset_drop(&s, bits, 60, 10), 10);
    ck_assert_uint_eq(s.count, 90);
    for (uint32_t i = 0; i < 100; i++)
        ck_assert_int_eq(nameset_has(&s, name(i)), i % 3 != 0 || i >= 30);
    ck_assert_uint_eq(nameset_drop(&s, bits, 0, 10), 0);
    nameset_close(&s);
}
END_TEST

START_TEST(nameset_is_bounded)
{
    fill(0, NAMESET_MAX);
    ck_assert_int_eq(nameset_add(&s, name(NAMESET_MAX)), SHOAL_E_TOO_BIG);
    ck_assert_int_eq(nameset_add(&s, name(7)), 0); /* it is there */
    ck_assert_uint_eq(s.count, NAMESET_MAX);
    ck_assert(!nameset_has(&s, name(NAMESET_MAX)));
    nameset_close(&s);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("nameset");
    tcase_add_test(t, nameset_knows_what_came_and_once);
    tcase_add_test(t, nameset_goes_by_the_bytes_of_a_name);
    tcase_add_test(t, nameset_takes_another_ones_items);
    tcase_add_test(t, nameset_forgets_the_last);
    tcase_add_test(t, nameset_forgets_the_oldest_of_some);
    tcase_add_test(t, nameset_is_bounded);
    Suite *suite = suite_create("nameset");
    suite_add_tcase(suite, t);
    SRunner *run = srunner_create(suite);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
