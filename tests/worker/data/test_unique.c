/* test_unique.c: unique keys, in order, for any keys. */
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/crafted.h"
#include "worker/data/unique.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define VALUES_MAX 40000u

static struct unique u;
static uint64_t value[VALUES_MAX], work[VALUES_MAX];
static uint32_t index_[VALUES_MAX];

/* Checks that the result for value[0..values) equals a plain sort's. */
static void check(uint32_t values)
{
    uint32_t count = 0;
    memcpy(work, value, values * sizeof value[0]);
    ck_assert_int_eq(unique_make(&u, work, values, index_), 0);
    for (uint32_t i = 0; i < values; i++) {
        ck_assert_uint_lt(index_[i], u.key_count);
        ck_assert_uint_eq(u.keys[index_[i]], value[i]);
        work[i] = key_mix(value[i]);
    }
    qsort(work, values, sizeof work[0], key_by_value);
    for (uint32_t i = 0; i < values; i++)
        if (i == 0 || work[i] != work[i - 1])
            ck_assert_uint_eq(key_mix(u.keys[count++]), work[i]);
    ck_assert_uint_eq(u.key_count, count);
}

START_TEST(unique_agrees_with_a_plain_sort)
{
    static const uint32_t sizes[] = {1, 2, 7, 100, 682, 683, 5000, VALUES_MAX, 3};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        for (uint64_t kinds = 1; kinds <= 1u << 20; kinds *= 32) {
            /* from all equal to all different */
            struct rng rng = rng_of(s, kinds, 0);
            for (uint32_t i = 0; i < sizes[s]; i++)
                value[i] = key_make((uint32_t)rng_below(&rng, 3), rng_below(&rng, kinds));
            check(sizes[s]);
        }
    }
}
END_TEST

START_TEST(unique_of_nothing_is_nothing)
{
    ck_assert_int_eq(unique_make(&u, work, 0, index_), 0);
    ck_assert_uint_eq(u.key_count, 0);
}
END_TEST

START_TEST(unique_takes_the_key_that_mixes_to_0)
{
    ck_assert_uint_eq(key_mix(0), 0);
    for (uint32_t i = 0; i < 100; i++)
        value[i] = i % 10;
    check(100);
    ck_assert_uint_eq(u.keys[0], 0);
    for (uint32_t i = 0; i < 100; i++)
        value[i] = 0;
    check(100);
    ck_assert_uint_eq(u.key_count, 1);
}
END_TEST

START_TEST(unique_keys_may_crowd_anywhere)
{
    static const uint64_t places[] = {1, 0xffffffffff000000ULL,
                                      /* start, end (they wrap around), middle */
                                      0x8000000000000000ULL};
    static const uint32_t sizes[] = {50, 900, 3000};
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            for (uint32_t i = 0; i < sizes[s]; i++)
                value[i] = key_unmix(places[p] + sizes[s] - i); /* the last comes first in order */
            check(sizes[s]);
            ck_assert_uint_eq(u.key_count, sizes[s]);
        }
    }
}
END_TEST

/* All at one place; in short chains; in a chain that wraps around the table's end, with many others
 * behind it. */
START_TEST(unique_crafted_keys_cost_no_more_than_a_sort)
{
    enum { VALUES = VALUES_MAX, CHAIN = 1000, ROUND = 1400 };
    struct rng rng = rng_of(9, 9, 9);
    for (uint32_t i = 0; i < VALUES; i++)
        value[i] = _i == 0     ? crafted_key(i)
                   : _i == 1   ? key_unmix(((uint64_t)(i / CHAIN) << 58) + CHAIN - i % CHAIN)
                   : i < ROUND ? key_unmix(UINT64_MAX - i)
                               : rng_next(&rng);
    check(VALUES);
    ck_assert_uint_eq(u.key_count, VALUES);
    ck_assert_uint_le(u.steps, 33 * VALUES);
    for (uint32_t i = 0; i < VALUES; i++)
        value[i] = rng_next(&rng);
    check(VALUES);
    ck_assert_uint_le(u.steps, 4 * VALUES);
}
END_TEST

/* Table by table; within a table keys stay in order, and every value finds its key. */
START_TEST(unique_keys_lie_table_by_table)
{
    static const uint8_t table[LIMIT_FIELDS] = {2, 0, 2, 0, 3};
    enum { VALUES = 5000, TABLES = 4 }; /* table 1 is empty */
    struct rng rng = rng_of(5, 5, 5);
    u.table = table;
    u.tables = TABLES;
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t values = round == 0 ? 100 : VALUES; /* buffers grow */
        for (uint32_t i = 0; i < values; i++)
            value[i] = key_make((uint32_t)rng_below(&rng, 5), rng_below(&rng, 300));
        memcpy(work, value, values * sizeof value[0]);
        ck_assert_int_eq(unique_make(&u, work, values, index_), 0);
        for (uint32_t i = 0; i < values; i++)
            ck_assert_uint_eq(u.keys[index_[i]], value[i]);
        ck_assert_uint_eq(u.first[0], 0);
        ck_assert_uint_eq(u.first[TABLES], u.key_count);
        ck_assert_uint_eq(u.first[1], u.first[2]);
        for (uint32_t t = 0; t < TABLES; t++)
            for (uint32_t i = u.first[t]; i < u.first[t + 1]; i++) {
                ck_assert_uint_eq(table[key_field(u.keys[i])], t);
                ck_assert(i == u.first[t] || key_mix(u.keys[i - 1]) < key_mix(u.keys[i]));
            }
    }
}
END_TEST

static void setup(void)
{
    unique_init(&u);
}

static void teardown(void)
{
    unique_free(&u);
}

int main(void)
{
    Suite *s = suite_create("unique");
    TCase *t = tcase_create("unique");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, unique_agrees_with_a_plain_sort);
    tcase_add_test(t, unique_of_nothing_is_nothing);
    tcase_add_test(t, unique_takes_the_key_that_mixes_to_0);
    tcase_add_test(t, unique_keys_may_crowd_anywhere);
    tcase_add_loop_test(t, unique_crafted_keys_cost_no_more_than_a_sort, 0, 3);
    tcase_add_test(t, unique_keys_lie_table_by_table);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
