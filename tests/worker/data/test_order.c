/* test_order.c: the order of an epoch is a permutation, the same everywhere, different in each
 * epoch. */
#include "worker/data/index.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static void check_bijection(uint64_t seed, uint32_t epoch, uint64_t chunks)
{
    unsigned char *seen = calloc(chunks, 1);
    uint64_t wrong = 0;
    ck_assert_ptr_nonnull(seen);
    for (uint64_t i = 0; i < chunks; i++) {
        uint64_t chunk = index_order(seed, epoch, chunks, i);
        wrong += chunk >= chunks || seen[chunk]++ != 0;
    }
    ck_assert_msg(wrong == 0, "%lu of %lu chunks come twice or lie outside", wrong, chunks);
    free(seen);
}

START_TEST(order_is_a_bijection_for_every_small_size)
{
    for (uint64_t chunks = 1; chunks <= 300; chunks++)
        check_bijection(chunks * 7, 1, chunks);
}
END_TEST

START_TEST(order_is_a_bijection_for_large_sizes)
{
    static const uint64_t sizes[] = {4095, 4096, 4097, 65537, 100000, 131071, 262143, 262144};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        check_bijection(2026, 3, sizes[i]);
}
END_TEST

START_TEST(order_is_fixed_for_ever)
{
    /* A job that resumes on another machine or release has to find the same rows. */
    static const uint64_t expected[] = {473, 834, 301, 50, 687, 832, 861, 985};
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
        ck_assert_uint_eq(index_order(2026, 1, 1000, i), expected[i]);
}
END_TEST

static unsigned equal_places(uint64_t seed_a, uint32_t epoch_a, uint64_t seed_b, uint32_t epoch_b)
{
    unsigned equal = 0;
    for (uint64_t i = 0; i < 10000; i++)
        equal += index_order(seed_a, epoch_a, 10000, i) == index_order(seed_b, epoch_b, 10000, i);
    return equal;
}

START_TEST(order_differs_by_seed_and_epoch)
{
    ck_assert_uint_eq(equal_places(1, 1, 1, 1), 10000);
    ck_assert_uint_lt(equal_places(1, 1, 1, 2),
                      12); /* one is expected of two independent permutations */
    ck_assert_uint_lt(equal_places(1, 1, 2, 1), 12);
}
END_TEST

START_TEST(order_mixes)
{
    /* The mean distance of a place from its chunk is a third of the size; neighbours stay
     * neighbours about twice in 10,000. */
    uint64_t distance = 0, neighbours = 0, before = index_order(5, 1, 10000, 0);
    for (uint64_t i = 1; i < 10000; i++) {
        uint64_t chunk = index_order(5, 1, 10000, i);
        distance += chunk > i ? chunk - i : i - chunk;
        neighbours += chunk == before + 1;
        before = chunk;
    }
    ck_assert_uint_gt(distance / 10000, 3100);
    ck_assert_uint_lt(distance / 10000, 3600);
    ck_assert_uint_lt(neighbours, 8);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("order");
    TCase *t = tcase_create("order");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, order_is_a_bijection_for_every_small_size);
    tcase_add_test(t, order_is_a_bijection_for_large_sizes);
    tcase_add_test(t, order_is_fixed_for_ever);
    tcase_add_test(t, order_differs_by_seed_and_epoch);
    tcase_add_test(t, order_mixes);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
