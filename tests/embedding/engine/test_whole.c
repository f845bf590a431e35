/* test_whole.c: whole tablets and single rows, with some rows in the store: the result of a read
 * does not depend on where a row is, and reading changes nothing. */
#include "embedding/engine/fetch.h"
#include "proto/base/key.h"

#include "embedding/census.h"
#include "embedding/row_json.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_rows.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>

#define HOUR 3600u
#define NOW 1700000000u

static char dir[LIMIT_PATH];
static struct rig s;

static void setup(void)
{
    rig_dir(dir);
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, NULL), 0);
    rig_train(&s, 1, 0, 0, 0, 30);
}

static void teardown(void)
{
    rig_close(&s, false);
    rig_remove_dir(dir);
}

START_TEST(a_digest_does_not_depend_on_where_rows_lie)
{
    uint64_t before = cool_digest(&s), rows = table_rows(engine_table(s.g, 0));
    ck_assert_uint_eq(before, rig_digest(&s));
    cool_table(&s, 0, 12);
    uint64_t cold = table_cold_rows(engine_table(s.g, 0));
    ck_assert_uint_gt(cold, rows / 2);
    ck_assert_uint_ne(rig_digest(&s), before); /* the rows in memory are only a part */
    ck_assert_uint_eq(cool_digest(&s), before);
    ck_assert_uint_eq(cool_digest(&s), before);
    ck_assert_uint_eq(table_cold_rows(engine_table(s.g, 0)), cold); /* no row was fetched */
    ck_assert_uint_eq(table_rows(engine_table(s.g, 0)), rows);
}
END_TEST

START_TEST(a_tablet_without_cold_rows_is_not_copied)
{
    struct err e;
    ck_assert_ptr_eq(engine_whole(s.g, 0, 3, &e), engine_table(s.g, 0));
    ck_assert_ptr_null(engine_whole(s.g, 9, 3, &e));
    ck_assert_int_eq(e.code, SHOAL_E_NO_TABLE);
    ck_assert_uint_eq(fetch_whole_bytes(s.g), 0);
}
END_TEST

START_TEST(the_copy_goes_with_the_next_step)
{
    struct err e;
    cool_table(&s, 0, 8);
    ck_assert_ptr_ne(engine_whole(s.g, 0, 3, &e), engine_table(s.g, 0));
    struct engine_stats with, without;
    engine_stats_get(s.g, &with);
    ck_assert_uint_gt(fetch_whole_bytes(s.g), 0);
    engine_flush_step(s.g);
    engine_stats_get(s.g, &without);
    ck_assert_uint_eq(fetch_whole_bytes(s.g), 0);
    ck_assert_uint_lt(without.memory_bytes, with.memory_bytes);
}
END_TEST

START_TEST(one_row_is_shown_from_the_store)
{
    struct err e = {0};
    bool stored, found;
    cool_table(&s, 0, 8);
    uint64_t key = cool_key(&s, 0, 2);
    const struct table *t = engine_row(s.g, 0, key, &stored, &e);
    ck_assert_msg(t != NULL, "%s", e.text);
    ck_assert(stored);
    struct json *j = row_json(t, t, key, "x", stored, &found);
    ck_assert(found);
    ck_assert_str_eq(json_as_string(json_get(j, "tier"), ""), "store");
    ck_assert_uint_eq(json_count(json_get(j, "weights")), SHARD_WIDTH);
    json_free(j);
    char row[256];
    memcpy(row, table_row(t, key), table_row_bytes(t));
    ck_assert(table_cold_has(engine_table(s.g, 0), key)); /* its place is unchanged */
    cool_fetch(&s, 0, &key, 1);
    t = engine_row(s.g, 0, key, &stored, &e);
    ck_assert(!stored);
    ck_assert_mem_eq(row, table_row(t, key), table_row_bytes(t));
    t = engine_row(s.g, 0, key_make(9, 12345), &stored, &e); /* a key without a row */
    ck_assert_ptr_eq(t, engine_table(s.g, 0));
    ck_assert(!stored);
}
END_TEST

START_TEST(a_missing_or_short_pair_is_damage)
{
    struct err e = {0};
    struct store_item item;
    bool stored;
    cool_table(&s, 0, 8);
    uint64_t key = cool_key(&s, 0, 5);
    stored_row_key(0, 5, table_cold_epoch(engine_table(s.g, 0), 5), key, &item);
    item.value = "short";
    item.value_bytes = 5;
    ck_assert_int_eq(store_write(s.g->store, &item, 1, &e), 0);
    ck_assert_ptr_null(engine_whole(s.g, 0, 5, &e));
    ck_assert_int_eq(e.code, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "tablet 5 of table table-0"));
    ck_assert_ptr_null(engine_row(s.g, 0, key, &stored, &e));
    ck_assert_ptr_nonnull(strstr(e.text, "another length"));
    item.value = NULL;
    ck_assert_int_eq(store_write(s.g->store, &item, 1, &e), 0);
    ck_assert_ptr_null(engine_whole(s.g, 0, 5, &e));
    ck_assert_int_eq(e.code, SHOAL_E_CORRUPT);
    ck_assert_ptr_null(engine_row(s.g, 0, key, &stored, &e));
    ck_assert_ptr_nonnull(strstr(e.text, "missing"));
    ck_assert_ptr_nonnull(engine_whole(s.g, 0, 4, &e)); /* the other tablets are undamaged */
}
END_TEST

START_TEST(leftovers_are_passed_over)
{
    struct err e = {0};
    uint64_t before = cool_digest(&s);
    cool_table(&s, 0, 8);
    uint64_t key = cool_key(&s, 0, 5);
    cool_fetch(&s, 0, &key, 1); /* its pair stays */
    const struct table *t = engine_table(s.g, 0);
    struct store_item item;
    char *value = calloc(1, table_cold_bytes(t));
    stored_row_key(0, 5, table_cold_epoch(t, 5) + 1, key, &item); /* in another epoch */
    item.value = value;
    item.value_bytes = table_cold_bytes(t);
    ck_assert_int_eq(store_write(s.g->store, &item, 1, &e), 0);
    ck_assert_uint_eq(cool_digest(&s), before);
    free(value);
}
END_TEST

START_TEST(a_census_tells_where_rows_lie)
{
    struct census *c, *sum;
    struct err e;
    cool_table(&s, 0, 12);
    const struct table *live = engine_table(s.g, 0);
    ck_assert_int_eq(census_new(table_schema_of(live), &(struct census_ask){0}, &c, &e), 0);
    ck_assert_int_eq(census_new(table_schema_of(live), &(struct census_ask){0}, &sum, &e), 0);
    for (uint32_t k = 0; k < 1u << SHARD_TABLET_BITS; k++)
        ck_assert_int_eq(census_add_tablet(c, engine_whole(s.g, 0, k, &e), k, live), 0);
    ck_assert_uint_eq(census_rows(c), table_rows(live));
    struct json *j = census_json(c);
    ck_assert_int_eq(census_add_json(sum, j, &e), 0);
    json_free(j);
    j = census_json(sum); /* through JSON, as from shards */
    ck_assert_int_eq(json_as_int(json_get(j, "tier.store"), 0), (int64_t)table_cold_rows(live));
    ck_assert_int_eq(json_as_int(json_get(j, "tier.memory"), 0),
                     (int64_t)(table_rows(live) - table_cold_rows(live)));
    const struct json *field = json_array_at(json_get(j, "fields"), 0);
    ck_assert_int_eq(json_as_int(json_get(field, "stored"), 0), (int64_t)table_cold_rows(live));
    json_free(j);
    census_free(c);
    census_free(sum);
}
END_TEST

/* ---- ageing late gives the same result as ageing in time ---- */

static struct table_schema ageing_schema(void)
{
    struct table_schema schema = rows_schema(OPT_ADAGRAD, 4, 1);
    schema.rules = (struct row_rules){.stats = 1,
                                      .score_show = 0.1f,
                                      .score_click = 1,
                                      .age_every = HOUR,
                                      .age_decay = 0.7f,
                                      .age_score = 0.05f,
                                      .age_ttl = 30 * HOUR};
    return schema;
}

static void push_at(struct rows *r, uint64_t first, uint64_t count, uint32_t hour)
{
    float values[6];
    struct push_args args = {
        .lr_scale = 1, .batch = 1, .step = 1, .event_time = NOW + hour * HOUR, .tablet_count = 2};
    for (uint64_t i = first; i < first + count; i++) {
        uint64_t key = rows_key(i);
        rows_gradients(values, 4, i + hour);
        values[4] = (float)(1 + i % 5);
        values[5] = (float)(i % 2);
        ck_assert_int_eq(table_push(r->table, &key, values, 1, &args), 0);
    }
}

START_TEST(thawed_rows_have_aged_as_if_they_had_stayed)
{
    struct table_schema schema = ageing_schema();
    struct rows hot = rows_open(&schema), cold = rows_open(&schema);
    struct store *store;
    ck_assert_int_eq(store_mem_open(&store), 0);
    for (uint32_t hour = 0; hour < 20; hour++) {
        push_at(&hot, hour * 50, 50, hour);
        push_at(&cold, hour * 50, 50, hour);
        for (uint32_t k = 0; k < 2 && hour % 4 == 1; k++)
            cool_tablet(cold.table, k, 60, store);
    }
    struct err e;
    ck_assert_uint_gt(table_cold_rows(cold.table), 0);
    ck_assert_uint_ne(rows_digest(cold.table), rows_digest(hot.table));
    for (uint32_t k = 0; k < 2; k++)
        ck_assert_int_eq(fetch_whole(cold.table, k, store, &e), 0);
    ck_assert_uint_eq(table_cold_rows(cold.table), 0);
    ck_assert_uint_eq(rows_digest(cold.table), rows_digest(hot.table));
    ck_assert_uint_eq(table_rows(cold.table), table_rows(hot.table));
    uint32_t chosen;
    ck_assert_int_eq(table_cold_choose(cold.table, 0, UINT32_MAX, NULL, NULL, &chosen), 0);
    ck_assert_uint_eq(chosen, 0); /* no row counts as stored: the store may be another engine's */
    store_close(store);
    rows_close(&hot);
    rows_close(&cold);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("whole");
    TCase *c = suite_case(suite, "whole", 60, setup, teardown);
    tcase_add_test(c, a_digest_does_not_depend_on_where_rows_lie);
    tcase_add_test(c, a_tablet_without_cold_rows_is_not_copied);
    tcase_add_test(c, the_copy_goes_with_the_next_step);
    tcase_add_test(c, one_row_is_shown_from_the_store);
    tcase_add_test(c, a_missing_or_short_pair_is_damage);
    tcase_add_test(c, leftovers_are_passed_over);
    tcase_add_test(c, a_census_tells_where_rows_lie);
    c = tcase_create("ageing");
    tcase_add_test(c, thawed_rows_have_aged_as_if_they_had_stayed);
    suite_add_tcase(suite, c);
    return suite_main(suite);
}
