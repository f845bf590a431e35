/* test_drop.c: a field is dropped, with rows in memory and in the store: at once, and also after
 * a kill, by the record or by images from after it. Its number is then as if it had never been
 * used. */
#include "proto/base/log.h"
#include "tests/lib/embedding_thin.h"

#include <check.h>
#include <stdio.h>

#define BEFORE 60u
#define AFTER 6u

static char dir[LIMIT_PATH];
static struct rig s;
static uint64_t digest_of[AFTER + 1]; /* after that many batches in a separate engine */

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    rig_dir(dir);
}

static void digests_make(void)
{
    digest_of[0] = thin_digest_without_bound(0, false);
    digest_of[AFTER] = thin_digest_without_bound(AFTER, false);
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

static void killed(bool flush_all)
{
    rig_close(&s, flush_all);
    thin_open(&s, dir, THIN_MEMORY);
}

/* All keys of thin engines have field 1. */
static uint64_t drop(bool names)
{
    const uint64_t fields[LIMIT_FIELDS / 64] = {2};
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        struct err e = {0};
        uint64_t rows;
        int rc = engine_fields_drop(s.g, 0, k, fields, names, &rows, &e);
        ck_assert_msg(rc == 0, "%s", e.text);
        sum += rows;
    }
    return sum;
}

static void check_nothing(void)
{
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert_uint_eq(stats.cold_rows, 0);
    ck_assert_uint_eq(thin_digest(&s), digest_of[0]);
}

enum { ALIVE, KILLED_AT_ONCE, KILLED_WITH_ITS_IMAGES, KILLED_LATER, WAYS };

START_TEST(a_dropped_field_leaves_nothing_in_either_place)
{
    int way = _i % WAYS;
    struct engine_stats stats;
    struct err e = {0};
    digests_make();
    thin_open_trained(&s, dir, THIN_MEMORY, BEFORE, false);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.cold_rows, 0);
    ck_assert_uint_gt(stats.rows, stats.cold_rows);
    ck_assert_uint_eq(drop(_i < WAYS), stats.rows);
    if (way == KILLED_AT_ONCE || way == KILLED_WITH_ITS_IMAGES)
        killed(way == KILLED_WITH_ITS_IMAGES);
    check_nothing();
    ck_assert_msg(engine_run_open(s.g, 2, 1, 1, &e) == 0, "%s", e.text);
    thin_fence(&s, 2);
    thin_train(&s, 2, 0, AFTER, false);
    if (way == KILLED_LATER)
        killed(false);
    ck_assert_uint_eq(thin_digest(&s), digest_of[AFTER]);
    killed(true);
    ck_assert_uint_eq(thin_digest(&s), digest_of[AFTER]);
    rig_close(&s, false);
}
END_TEST

/* A list names tables of this shard and possible fields; other tables are skipped. */
START_TEST(lists_of_fields_are_read)
{
    static const char *const bad[] = {"table-0:512", "table-0:",    "table-0",    ":3",
                                      "table-0:x",   "table-0:3,4", "table-0:-1", "table-0:*x"};
    struct engine_fields f;
    struct err e = {0};
    int rc;
    rig_open(&s, NULL, DURABLE_MEMORY);
    rig_table(&s, 0);
    rig_table(&s, 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ck_assert_msg(engine_fields_take(s.g, bad[i], TABLE_SET_ALL, &f, &e) == SHOAL_E_MALFORMED,
                      "%s", bad[i]);
    ck_assert_int_eq(engine_fields_take(s.g, NULL, TABLE_SET_ALL, &f, &e), 0);
    ck_assert_int_eq(
        engine_fields_take(s.g, "table-0:0 another:7 table-0:511 table-1:*", TABLE_SET_ALL, &f, &e),
        0);
    for (uint32_t i = 0; i < LIMIT_FIELDS / 64; i++) {
        ck_assert_uint_eq(f.of[0][i], i == 0 ? 1 : i == LIMIT_FIELDS / 64 - 1 ? 1ull << 63 : 0);
        ck_assert_uint_eq(f.of[1][i], UINT64_MAX);
        ck_assert_uint_eq(f.of[2][i], 0);
    }
    /* only of the tables that are asked for */
    ck_assert_int_eq(engine_fields_take(s.g, "table-0:* table-1:*", table_set_word(2), &f, &e), 0);
    ck_assert_uint_eq(f.of[0][0], 0);
    ck_assert_uint_eq(f.of[1][0], UINT64_MAX);
    /* a name ends at its number, whatever it contains */
    rc = engine_fields_take(s.g, "a:b:3 my table:4 c::* table-1:1", TABLE_SET_ALL, &f, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(f.of[0][0], 0);
    ck_assert_uint_eq(f.of[1][0], 2);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("drop");
    TCase *t = tcase_create("drop");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 300);
    tcase_add_test(t, lists_of_fields_are_read);
    tcase_add_loop_test(t, a_dropped_field_leaves_nothing_in_either_place, 0, 2 * WAYS);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
