/* test_cold_cut.c: cuts while rows are in the store, on their way to it, and while a restore is not
 * written yet: the cut is the table of its instant. Also erasing, ageing and undo of cold rows. */
#include "embedding/engine/cut.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/fetch.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char dir[LIMIT_PATH];
static struct rig s;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    rig_dir(dir);
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

static void on_gone(void *context, int status, uint64_t rows, uint64_t bytes)
{
    (void)rows, (void)bytes;
    *(int *)context = status;
}

/* At HOLD a flush with leaving rows is in flight: it was cancelled, is written, or is still to
 * come. */
START_TEST(a_cut_while_rows_leave_is_its_instant)
{
    uint64_t sequence;
    int status = 1;
    thin_open_trained(&s, dir, THIN_MEMORY, 80, false);
    s.g->tier.rows_max /= 2; /* the memory limit falls at once */
    engine_flush_step(s.g);
    ck_assert(s.g->flush.busy);
    ck_assert_uint_gt(s.g->tier.leaving_count, 0);
    uint64_t at_cut = thin_digest(&s);
    ck_assert_int_eq(engine_hold(s.g, 5, engine_newest_run(s.g), &sequence), 0);
    if (_i == 1)
        embedding_env_run(&s.env); /* they leave between HOLD and GO */
    ck_assert_int_eq(engine_go(s.g, 5, on_gone, &status), 0);
    thin_train(&s, 1, 80, 81, false); /* pushes go on while it is made, and rows come and leave */
    embedding_env_run(&s.env);
    s.g->tier.rows_max *= 2;
    ck_assert_int_eq(status, 0);
    thin_train(&s, 1, 81, 110, false);
    thin_restore(&s, 5, 2);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* While the record of a restore is still needed, a cut copies the images and the pairs that these
 * list. */
START_TEST(a_cut_that_is_a_copy_has_the_cold_rows)
{
    thin_open_trained(&s, dir, THIN_MEMORY, 80, false);
    thin_cut(&s, 5);
    thin_train(&s, 1, 80, 90, false);
    thin_restore(&s, 5, 2);
    ck_assert_uint_gt(table_cold_rows(engine_table(s.g, 0)), 5000);
    ck_assert_uint_gt(s.g->ref_count, 0); /* so it cannot link the journal */
    thin_cut(&s, 6);
    uint64_t at_cut = thin_digest(&s);
    ck_assert_int_eq(engine_cut_drop(s.g, 5), 0);
    thin_fence(&s, 2);
    thin_train(&s, 2, 80, 110, false);
    thin_restore(&s, 6, 3);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    thin_within(&s, THIN_MOST);
    rig_close(&s, false);
    thin_open(&s, dir, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* ---- keys by name ---- */

/* Returns a cold key of the first tablet from `tablet` on that has one: which rows have left memory
 * by now is not specified. */
static uint64_t some_cold_key(uint32_t tablet)
{
    const struct table *t = engine_table(s.g, 0);
    uint32_t all = 1u << table_schema_of(t)->tablet_bits;
    for (uint32_t i = 0; i < all && table_cold_tablet(t, tablet) == 0; i++)
        tablet = (tablet + 1) % all;
    return cool_key(&s, 0, tablet);
}

static void scrubbed(void *context, int status, const char *text, uint64_t sequence)
{
    (void)text, (void)sequence;
    *(int *)context = status;
}

static void scrub(const uint64_t *keys, uint32_t count)
{
    struct err e = {0};
    int status = 1;
    ck_assert_int_eq(engine_scrub(s.g, 0, keys, count, scrubbed, &status, &e), 0);
    for (int i = 0; i < 50 && status == 1; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    ck_assert_int_eq(status, 0);
}

/* Three keys: one in the store, one that was fetched and left its pair behind, and one only in
 * memory. All are erased, also after a restart. */
START_TEST(an_erased_key_leaves_memory_set_and_store)
{
    struct err e = {0};
    uint64_t changed, keys[2];
    thin_open_trained(&s, dir, THIN_MEMORY, 80, false);
    struct table *t = engine_table(s.g, 0);
    keys[0] = some_cold_key(3);
    keys[1] = some_cold_key(40);
    ck_assert_int_eq(fetch_now(engine_table(s.g, 0), s.g->store, &keys[1], 1, &e), 0);
    ck_assert(table_cold_has(t, keys[0]) && !table_cold_has(t, keys[1]));
    ck_assert_uint_eq(thin_stored(&s, keys[0]).of_key + thin_stored(&s, keys[1]).of_key, 2);
    uint64_t rows = table_rows(t);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, keys, 2, &changed, &e), 0);
    ck_assert_uint_eq(changed, 2);
    ck_assert(!table_cold_has(t, keys[0]));
    ck_assert_uint_eq(table_rows(t), rows - 2);
    scrub(keys, 2);
    ck_assert_uint_eq(thin_stored(&s, keys[0]).of_key + thin_stored(&s, keys[1]).of_key, 0);
    uint64_t digest = thin_digest(&s);
    rig_close(&s, false);
    thin_open(&s, dir, THIN_MEMORY);
    t = engine_table(s.g, 0);
    ck_assert(!table_cold_has(t, keys[0]) && table_row(t, keys[1]) == NULL);
    ck_assert_uint_eq(thin_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* A restart does not know of the pair that a fetched row left behind, because all rows of its
 * tablet are in memory. */
START_TEST(a_pair_left_behind_before_a_restart_goes_with_the_erasing)
{
    struct err e = {0};
    uint64_t changed, key;
    thin_open_trained(&s, dir, THIN_MEMORY, 80, false);
    key = some_cold_key(7);
    rig_close(&s, true);
    thin_open(&s, dir, 0);
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        uint32_t count;
        uint64_t *keys = cool_keys(&s, 0, k, &count);
        ck_assert_int_eq(fetch_now(engine_table(s.g, 0), s.g->store, keys, count, &e), 0);
        free(keys);
    }
    thin_fence(&s, 1);
    thin_train(&s, 1, 80, 81, false); /* every tablet changes and is written with all its rows */
    rig_close(&s, true);
    thin_open(&s, dir, 0);
    ck_assert_uint_eq(thin_stored(&s, key).of_key, 1);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, &key, 1, &changed, &e), 0);
    scrub(&key, 1);
    ck_assert_uint_eq(thin_stored(&s, key).of_key, 0);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cold_cut");
    TCase *c = suite_case(suite, "cuts", 200, setup, teardown);
    tcase_add_loop_test(c, a_cut_while_rows_leave_is_its_instant, 0, 2);
    tcase_add_test(c, a_cut_that_is_a_copy_has_the_cold_rows);
    c = suite_case(suite, "keys", 200, setup, teardown);
    tcase_add_test(c, an_erased_key_leaves_memory_set_and_store);
    tcase_add_test(c, a_pair_left_behind_before_a_restart_goes_with_the_erasing);
    return suite_main(suite);
}
