/* test_array.c: arrays grow by doubling or to the exact size, and stay unchanged if they cannot. */
#include "proto/base/array.h"
#include "proto/base/err.h"

#include <check.h>
#include <stdlib.h>

START_TEST(it_doubles_and_keeps_what_it_holds)
{
    uint64_t *item = NULL;
    uint32_t capacity = 0, moves = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        uint32_t before = capacity;
        ck_assert_int_eq(array_room(&item, i, &capacity, 3), 0);
        ck_assert(capacity == before || capacity == (before == 0 ? 3 : 2 * before));
        moves += capacity != before;
        item[i] = i * i;
    }
    ck_assert_uint_eq(moves, 10);
    for (uint64_t i = 0; i < 1000; i++)
        ck_assert_uint_eq(item[i], i * i);
    free(item);
}
END_TEST

START_TEST(it_takes_what_is_wanted_and_no_more)
{
    char *text = NULL;
    size_t capacity = 0, none = 0;
    ck_assert_int_eq(array_reserve(&text, none, &capacity), 0);
    ck_assert_ptr_null(text);
    ck_assert_int_eq(array_reserve(&text, 7, &capacity), 0);
    ck_assert_uint_eq(capacity, 7);
    ck_assert_int_eq(array_reserve(&text, 5, &capacity), 0);
    ck_assert_uint_eq(capacity, 7);
    free(text);
}
END_TEST

/* No product may wrap around: the array and its capacity stay unchanged. */
START_TEST(too_much_is_refused)
{
    struct big {
        char bytes[4096];
    } *big = malloc(sizeof *big), *before = big;
    size_t wide = SIZE_MAX / 4096 / 2;
    uint32_t narrow = UINT32_MAX / 2 + 1;
    ck_assert_int_eq(array_room(&big, wide, &wide, 1), SHOAL_E_NOMEM);
    ck_assert_uint_eq(wide, SIZE_MAX / 4096 / 2);
    wide = SIZE_MAX / 2 + 1;
    ck_assert_int_eq(array_room(&big, wide, &wide, 1), SHOAL_E_NOMEM);
    wide = 1;
    ck_assert_int_eq(array_reserve(&big, SIZE_MAX / 8, &wide), SHOAL_E_NOMEM);
    ck_assert_uint_eq(wide, 1);
    ck_assert_int_eq(array_room(&big, narrow, &narrow, 1), SHOAL_E_NOMEM);
    ck_assert_uint_eq(narrow, UINT32_MAX / 2 + 1);
    narrow = 1;
    wide = (size_t)UINT32_MAX + 1;
    ck_assert_int_eq(array_reserve(&big, wide, &narrow), SHOAL_E_NOMEM);
    ck_assert_uint_eq(narrow, 1);
    ck_assert_ptr_eq(big, before);
    free(big);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("array");
    TCase *t = tcase_create("array");
    tcase_add_test(t, it_doubles_and_keeps_what_it_holds);
    tcase_add_test(t, it_takes_what_is_wanted_and_no_more);
    tcase_add_test(t, too_much_is_refused);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
