/* test_spill.c: rows that leave memory with only their pairs written, and the pairs of rows that
 * were erased. */
#include "embedding/rows/cold.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/spill.h"
#include "embedding/store/stored.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_stats.h"

#define ROWS 300u

static struct rows r;
static struct store *store;
static uint64_t gone_key;

/* One tablet, with all rows in the store except those of the last hundred keys; the row of one key
 * is erased. */
static void setup(void)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, 4, 0);
    r = rows_open(&s);
    ck_assert_int_eq(store_mem_open(&store), 0);
    for (uint32_t i = 0; i < ROWS - 100; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    cool_tablet(r.table, 0, ROWS, store);
    for (uint32_t i = ROWS - 100; i < ROWS; i++)
        rows_push_one(&r, rows_key(i), (float)i, 0);
    gone_key = rows_key(7);
    ck_assert(table_cold_has(r.table, gone_key));
    ck_assert_int_eq(cold_erase(r.table, gone_key), 0);
}

static void teardown(void)
{
    store_close(store);
    rows_close(&r);
}

static bool has_pair(uint64_t key)
{
    size_t bytes = table_cold_bytes(r.table), size = 0;
    char value[256];
    struct store_item item;
    ck_assert_uint_le(bytes, sizeof value);
    stored_row_key(0, 0, 0, key, &item);
    ck_assert_int_eq(store_get(store, &item, 1, value, bytes, &size, NULL), 0);
    return size == bytes;
}

static uint32_t spill(bool fresh, uint32_t most)
{
    struct spill s;
    struct err e = {0};
    uint32_t count;
    spill_init(&s, store, 0);
    ck_assert_msg(spill_tablet(&s, r.table, 0, fresh, most, &count, &e) == 0, "%s", e.text);
    spill_free(&s);
    return count;
}

START_TEST(rows_are_cold_and_their_pairs_stored)
{
    ck_assert_uint_eq(spill(_i == 1, 60), 60);
    ck_assert_uint_eq(table_cold_tablet(r.table, 0), ROWS - 100 - 1 + 60);
    for (uint32_t i = 0; i < ROWS; i++)
        ck_assert(!table_cold_has(r.table, rows_key(i)) || has_pair(rows_key(i)));
}
END_TEST

/* An image in the store may name the key as cold: a recovery from it that replays records from
 * before the erasure reads the pair. */
START_TEST(a_pair_that_an_image_may_name_stays_until_the_next_image)
{
    const uint64_t *gone;
    spill(false, 60);
    ck_assert(has_pair(gone_key));
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), 1);
    ck_assert_uint_eq(gone[0], gone_key);
}
END_TEST

START_TEST(a_pair_that_no_image_names_goes_before_its_key_has_another)
{
    const uint64_t *gone;
    rows_push_one(&r, gone_key, 1, 0); /* a new row of the same key, which leaves with the others */
    ck_assert_uint_eq(spill(true, 101), 101);
    ck_assert_uint_eq(table_cold_gone(r.table, 0, &gone), 0);
    ck_assert(table_cold_has(r.table, gone_key));
    ck_assert(has_pair(gone_key));
}
END_TEST

START_TEST(a_pair_that_no_image_names_is_deleted)
{
    spill(true, 60);
    ck_assert(!has_pair(gone_key));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("spill");
    TCase *c = tcase_create("spill");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, rows_are_cold_and_their_pairs_stored, 0, 2);
    tcase_add_test(c, a_pair_that_an_image_may_name_stays_until_the_next_image);
    tcase_add_test(c, a_pair_that_no_image_names_goes_before_its_key_has_another);
    tcase_add_test(c, a_pair_that_no_image_names_is_deleted);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
