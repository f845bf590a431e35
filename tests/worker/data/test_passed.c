/* test_passed.c: texts one after the other. */
#include "worker/data/passed.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static void add(struct passed *p, const char *text)
{
    struct cell cell = {text, (uint32_t)strlen(text)};
    ck_assert_int_eq(passed_add(p, &cell), 0);
}

static void expect(const struct passed *p, size_t i, const char *text)
{
    struct cell cell = passed_at(p, i);
    ck_assert_uint_eq(cell.bytes, strlen(text));
    ck_assert(cell.bytes == 0 || memcmp(cell.text, text, cell.bytes) == 0);
}

START_TEST(texts_come_back_as_they_stood)
{
    struct passed p = {0}, q = {0};
    char text[16];
    add(&p, "");
    add(&p, "a");
    add(&p, "");
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(text, sizeof text, "%d", i * i);
        add(&q, text);
    }
    ck_assert_int_eq(passed_append(&p, &q), 0);
    ck_assert_uint_eq(p.count, 1003);
    expect(&p, 0, "");
    expect(&p, 1, "a");
    expect(&p, 2, "");
    expect(&p, 3, "0");
    expect(&p, 1002, "998001");
    passed_clear(&p);
    add(&p, "anew");
    ck_assert_uint_eq(p.count, 1);
    expect(&p, 0, "anew");
    passed_free(&p);
    passed_free(&q);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("passed");
    TCase *t = tcase_create("passed");
    tcase_add_test(t, texts_come_back_as_they_stood);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
