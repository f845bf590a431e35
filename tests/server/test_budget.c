/* test_budget.c: the division of a server's memory and disk. */
#include "server/server_config.h"

#include "proto/base/limits.h"

#include <check.h>
#include <stdlib.h>

#define MIB (1ull << 20)
#define GIB (1ull << 30)

START_TEST(parts_of_all_shards_are_within_the_whole)
{
    static const uint64_t memory[] = {GIB, 3 * GIB + 12345, 64 * GIB, 1024 * GIB};
    for (int i = 0; i < 4; i++)
        for (uint32_t shards = 1; shards <= 7; shards++) {
            struct budget b;
            server_config_divide(memory[i] * shards, 0, shards, &b);
            ck_assert_uint_le(b.engine + b.waiting + b.replies, memory[i]);
            ck_assert_uint_ge(b.engine, memory[i] / 8 * 7);
            ck_assert_uint_eq(b.disk, 0);
        }
}
END_TEST

START_TEST(small_budgets_leave_room_for_the_longest_messages)
{
    struct budget b;
    server_config_divide(96 * MIB, 10 * GIB, 2, &b);
    ck_assert_uint_eq(b.engine, 42 * MIB);
    ck_assert_uint_ge(b.waiting, 4ull * LIMIT_FRAME_BYTES);
    ck_assert_uint_ge(b.replies, 2ull * LIMIT_FRAME_BYTES);
    ck_assert_uint_eq(b.kept, 3 * MIB);
    ck_assert_uint_eq(b.disk, 5 * GIB);
}
END_TEST

START_TEST(large_budgets_go_to_the_engine)
{
    struct budget b;
    server_config_divide(512 * GIB, 0, 1, &b);
    ck_assert_uint_eq(b.waiting, GIB);
    ck_assert_uint_eq(b.replies, 256 * MIB);
    ck_assert_uint_eq(b.kept, 256 * MIB);
    ck_assert_uint_eq(b.engine, 512 * GIB - GIB - 256 * MIB);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("budget");
    TCase *c = tcase_create("budget");
    tcase_add_test(c, parts_of_all_shards_are_within_the_whole);
    tcase_add_test(c, small_budgets_leave_room_for_the_longest_messages);
    tcase_add_test(c, large_budgets_go_to_the_engine);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
