/* test_map.c: the map of tablets to shards. */
#include "server/coord/fleet/map.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct table_schema table[2];

static void setup(void)
{
    memset(table, 0, sizeof table);
    for (uint32_t t = 0; t < 2; t++) {
        (void)snprintf(table[t].name, LIMIT_NAME, "t%u", t);
        table[t].table = t;
        table[t].dense = t;
        table[t].width = 4;
        table[t].optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.1f};
    }
    table[0].tablet_bits = 6;
    table[1].tablet_bits = 2;
    table[1].tablet_first = 64;
}

/* Returns members with so many shards. */
static struct coord_members *members(uint32_t shards)
{
    static struct coord_shard shard[5];
    static struct coord_members m;
    memset(shard, 0, sizeof shard);
    m = (struct coord_members){.shard = shard, .shards = shards};
    return &m;
}

START_TEST(coord_map_deals_contiguous_ranges_that_differ_by_one)
{
    uint16_t shard_of[68];
    struct err e;
    ck_assert_int_eq(coord_map_check(table, 2, &e), 0);
    ck_assert_uint_eq(coord_map_tablets(table, 2), 68);
    ck_assert_int_eq(coord_map_make(table, 2, members(3), shard_of, &e), 0);
    uint32_t count[3] = {0};
    for (uint32_t i = 0; i < 64; i++) {
        count[shard_of[i]]++;
        ck_assert(i == 0 || shard_of[i] == shard_of[i - 1] || shard_of[i] == shard_of[i - 1] + 1);
    }
    for (int s = 0; s < 3; s++)
        ck_assert(count[s] == 21 || count[s] == 22);
    ck_assert_uint_eq(shard_of[64], 0); /* each table is dealt separately */
    ck_assert_uint_eq(shard_of[67], 2);
}
END_TEST

START_TEST(coord_map_too_few_tablets_a_shard_are_refused)
{
    uint16_t shard_of[68];
    struct err e;
    /* 16 each; the dense table may have one */
    ck_assert_int_eq(coord_map_make(table, 2, members(4), shard_of, &e), 0);
    ck_assert_int_eq(coord_map_make(table, 2, members(5), shard_of, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "t0 has 64 tablets for 5 shards"));
}
END_TEST

START_TEST(coord_map_gives_a_retired_shard_no_tablet)
{
    uint16_t shard_of[68];
    struct coord_members *m = members(4);
    struct err e;
    m->shard[1].retired = true;
    ck_assert_int_eq(coord_map_make(table, 2, m, shard_of, &e), 0);
    uint32_t count[4] = {0};
    for (uint32_t i = 0; i < 64; i++)
        count[shard_of[i]]++;
    ck_assert_uint_eq(count[1], 0);
    ck_assert(count[0] >= 21 && count[2] >= 21 && count[3] >= 21);
    ck_assert_uint_eq(shard_of[67], 3);
}
END_TEST

START_TEST(coord_map_gaps_and_equal_names_are_refused)
{
    struct err e;
    table[1].tablet_first = 63;
    ck_assert_int_eq(coord_map_check(table, 2, &e), SHOAL_E_SCHEMA);
    table[1].tablet_first = 64;
    memcpy(table[1].name, table[0].name, LIMIT_NAME);
    ck_assert_int_eq(coord_map_check(table, 2, &e), SHOAL_E_SCHEMA);
    table[0].width = 0;
    ck_assert_int_eq(coord_map_check(table, 2, &e), SHOAL_E_SCHEMA);
    ck_assert_int_eq(coord_map_check(table, 0, &e), SHOAL_E_SCHEMA);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_map");
    TCase *c = tcase_create("map");
    tcase_add_checked_fixture(c, setup, NULL);
    tcase_add_test(c, coord_map_deals_contiguous_ranges_that_differ_by_one);
    tcase_add_test(c, coord_map_too_few_tablets_a_shard_are_refused);
    tcase_add_test(c, coord_map_gives_a_retired_shard_no_tablet);
    tcase_add_test(c, coord_map_gaps_and_equal_names_are_refused);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
