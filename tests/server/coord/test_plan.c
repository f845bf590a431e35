/* test_plan.c: plans that make bytes and load of shards even. */
#include "server/coord/fleet/plan.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <string.h>

#define TABLETS 1000u
#define SHARDS 4u

static uint16_t owner[TABLETS], goal[TABLETS];
static uint64_t bytes[TABLETS], load[TABLETS], sum_bytes[SHARDS], sum_load[SHARDS];
static bool leaves[SHARDS];
static uint32_t moved, stretches; /* stretches: of tablets of one shard beside each other */

static void setup(void)
{
    memset(leaves, 0, sizeof leaves);
    for (uint32_t i = 0; i < TABLETS; i++) {
        owner[i] = (uint16_t)(i * SHARDS / TABLETS);
        bytes[i] = 4000 + i % 7;
        load[i] = 50;
    }
}

static void make(void)
{
    const struct coord_plan p = {owner, bytes, load, leaves, TABLETS, SHARDS};
    ck_assert(coord_plan_make(&p, goal));
    memset(sum_bytes, 0, sizeof sum_bytes);
    memset(sum_load, 0, sizeof sum_load);
    moved = 0;
    stretches = 1;
    for (uint32_t i = 0; i < TABLETS; i++) {
        sum_bytes[goal[i]] += bytes[i];
        sum_load[goal[i]] += load[i];
        moved += goal[i] != owner[i];
        stretches += i > 0 && goal[i] != goal[i - 1];
    }
}

/* All shards that keep tablets have the same bytes, but for 6 %. */
static void bytes_even(uint32_t shards)
{
    uint64_t all = 0;
    for (uint32_t s = 0; s < SHARDS; s++)
        all += sum_bytes[s];
    for (uint32_t s = 0; s < SHARDS; s++)
        if (leaves[s])
            ck_assert_uint_eq(sum_bytes[s], 0);
        else
            ck_assert_double_eq_tol((double)sum_bytes[s] * shards / (double)all, 1, 0.06);
}

START_TEST(plan_of_even_shards_moves_nothing)
{
    make();
    ck_assert_uint_eq(moved, 0);
}
END_TEST

START_TEST(plan_fills_an_empty_shard_with_the_fewest_tablets)
{
    for (uint32_t i = 0; i < TABLETS; i++)
        owner[i] = (uint16_t)(i % 3);
    make();
    bytes_even(4);
    ck_assert_uint_le(moved, TABLETS / 4 + 1);
}
END_TEST

START_TEST(plan_empties_a_shard)
{
    leaves[2] = true;
    make();
    bytes_even(3);
    ck_assert_uint_eq(moved, TABLETS / 4);
}
END_TEST

/* Servers are emptied and filled, again and again: each of the four shards has its tablets in a few
 * stretches, not one by one. */
START_TEST(plan_keeps_tablets_in_few_stretches)
{
    for (uint32_t round = 0; round < 400; round++) {
        memset(leaves, 0, sizeof leaves);
        leaves[round / 2 % SHARDS] = round % 2 == 0;
        make();
        bytes_even(SHARDS - (round % 2 == 0));
        ck_assert_uint_le(stretches, 6 * SHARDS);
        memcpy(owner, goal, sizeof owner);
    }
}
END_TEST

/* A third of the tablets, beside each other, carry four times as much as the others. */
START_TEST(plan_exchanges_stretches_where_many_tablets_are_hot)
{
    for (uint32_t i = 0; i < TABLETS / 3; i++)
        load[i] = 190 + i % 20;
    make();
    uint64_t all = 0;
    for (uint32_t s = 0; s < SHARDS; s++)
        all += sum_load[s];
    for (uint32_t s = 0; s < SHARDS; s++)
        ck_assert_double_le((double)sum_load[s] * SHARDS / (double)all, COORD_PLAN_EVEN + 0.01);
    bytes_even(4);
    ck_assert_uint_le(stretches, 40);
}
END_TEST

START_TEST(plan_counts_bytes_and_not_tablets)
{
    for (uint32_t i = 0; i < TABLETS; i++)
        bytes[i] = owner[i] == 0 ? 10000 : 1000;
    make();
    bytes_even(4);
}
END_TEST

/* One shard has all hot tablets: they change places, and the bytes stay even. */
START_TEST(plan_relieves_a_hot_shard)
{
    for (uint32_t i = 0; i < 60; i++)
        load[i * 4] = 4000 / (i + 1);
    make();
    uint64_t all = 0, most = 0;
    for (uint32_t s = 0; s < SHARDS; s++) {
        all += sum_load[s];
        most = sum_load[s] > most ? sum_load[s] : most;
    }
    ck_assert_double_le((double)most * SHARDS / (double)all, COORD_PLAN_EVEN + 0.01);
    bytes_even(4);
    ck_assert_uint_lt(moved, 120);
}
END_TEST

/* One tablet has nearly all load: no exchange helps, and the plan ends. */
START_TEST(plan_ends_where_one_tablet_is_hot)
{
    load[0] = 1000000000;
    make();
    bytes_even(4);
    ck_assert_uint_lt(moved, TABLETS);
}
END_TEST

START_TEST(plan_deals_out_tablets_without_rows)
{
    memset(bytes, 0, sizeof bytes);
    memset(owner, 0, sizeof owner);
    make();
    ck_assert_uint_ge(moved, 735);
    ck_assert_uint_le(moved, 765);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_plan");
    TCase *t = suite_case(s, "plan", 60, setup, NULL);
    tcase_add_test(t, plan_of_even_shards_moves_nothing);
    tcase_add_test(t, plan_fills_an_empty_shard_with_the_fewest_tablets);
    tcase_add_test(t, plan_empties_a_shard);
    tcase_add_test(t, plan_keeps_tablets_in_few_stretches);
    tcase_add_test(t, plan_exchanges_stretches_where_many_tablets_are_hot);
    tcase_add_test(t, plan_counts_bytes_and_not_tablets);
    tcase_add_test(t, plan_relieves_a_hot_shard);
    tcase_add_test(t, plan_ends_where_one_tablet_is_hot);
    tcase_add_test(t, plan_deals_out_tablets_without_rows);
    return suite_main(s);
}
