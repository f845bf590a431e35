/* test_keys.c: eight keys at a time equal keys made one at a time. */
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "worker/data/numbers.h"
#include "worker/data/short_keys.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 200000 };

/* Each value has a buffer of its size, so that a sanitizer sees reads past it. */
START_TEST(keys_are_those_of_one_at_a_time)
{
    struct rng rng = rng_of(4, 5, 6);
    if (!numbers_wide())
        return;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        struct cell cells[KEYS_GROUP];
        struct feature_use use[KEYS_GROUP] = {{.column = 0}};
        uint64_t key[KEYS_GROUP + 1];
        uint32_t count = 1 + (uint32_t)rng_below(&rng, KEYS_GROUP);
        key[count] = 77;
        for (uint32_t i = 0; i < count; i++) {
            uint32_t bytes = (uint32_t)rng_below(&rng, 12);
            char *text = malloc(bytes);
            ck_assert(text != NULL || bytes == 0);
            for (uint32_t j = 0; j < bytes; j++)
                text[j] = (char)rng_next(&rng);
            cells[i] = (struct cell){text, bytes};
            use[i].column = (uint16_t)(count - 1 - i);
            use[i].key_field = (uint16_t)(rng_next(&rng) >> (rng_below(&rng, 2) ? 48 : 59));
            use[i].type = rng_below(&rng, 8) == 0 ? COLUMN_NUMBER : COLUMN_CATEGORY;
            use[i].id = rng_below(&rng, 8) == 0;
        }
        uint32_t other = short_keys_read(cells, use, count, key);
        ck_assert_uint_eq(other >> count, 0);
        ck_assert_uint_eq(key[count], 77);
        for (uint32_t i = 0; i < count; i++) {
            const struct cell *c = &cells[use[i].column];
            bool is = use[i].type == COLUMN_CATEGORY && !use[i].id &&
                      (c->bytes == 0 || (c->bytes >= 4 && c->bytes <= 8));
            ck_assert_uint_eq(other >> i & 1, !is);
            if (is)
                ck_assert_uint_eq(key[i], key_of_value(use[i].key_field, c->text, c->bytes));
        }
        for (uint32_t i = 0; i < count; i++)
            free((char *)(uintptr_t)cells[i].text);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("keys");
    TCase *t = tcase_create("keys");
    tcase_add_test(t, keys_are_those_of_one_at_a_time);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
