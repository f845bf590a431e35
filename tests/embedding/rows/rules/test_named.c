/* test_named.c: named keys, against a plain array. */
#include "embedding/rows/rules/named.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rows.h"

START_TEST(names_equal_a_plain_array)
{
    enum { SPACE = 500 };
    static enum name_kind plain[SPACE];
    struct named n = {0};
    struct rng r = rng_of(1, 1, 1);
    memset(plain, 0, sizeof plain);
    for (int round = 0; round < 300; round++) {
        uint64_t keys[40], changed, expected = 0;
        size_t count = 0;
        enum name_kind kind = (enum name_kind)rng_below(&r, 4);
        for (uint64_t at = rng_below(&r, 20); at < SPACE && count < 40;
             at += 1 + rng_below(&r, 20)) {
            keys[count++] = at;
            expected += plain[at] != kind;
            plain[at] = kind;
        }
        qsort(keys, count, sizeof keys[0], key_by_mixed);
        ck_assert_int_eq(named_set(&n, keys, count, kind, &changed), 0);
        ck_assert_uint_eq(changed, expected);
        uint32_t named = 0;
        for (uint64_t i = 0; i < SPACE; i++) {
            ck_assert_int_eq((int)named_find(&n, i), (int)plain[i]);
            ck_assert(named_blocked(&n, i) ==
                      (plain[i] == NAME_ERASED || plain[i] == NAME_BLOCKED));
            named += plain[i] != NAME_NONE;
        }
        ck_assert_uint_eq(n.count, named);
    }
    named_clear(&n);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("named");
    TCase *c = tcase_create("named");
    tcase_add_test(c, names_equal_a_plain_array);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
