/* test_cold_restore.c: a cut whose rows lie in memory and in the store, or do not fit into memory at all, as a table's state again; and
 * kills on the way. SHOAL_KILL_POINTS (5) says how many points are tried; 0: all. The process that forks never opens a store. */
#include "embedding/cold.h"
#include "embedding/engine_state.h"
#include "embedding/stored.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/kill_step.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

static char dir[LIMIT_PATH];
static struct rig s;
static struct shared {
    uint64_t at_cut, at_end, fetched;
    long steps;
    int restored; /* 1: the restore has been answered */
} * shared;

static void setup(void)
{
    log_set_level(LOG_LEVEL_ERROR);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    memset(shared, 0, sizeof *shared);
    rig_dir(dir);
}

static void teardown(void)
{
    munmap(shared, sizeof *shared);
    rig_remove_dir(dir);
}

static void restore(uint64_t cut, uint64_t run)
{
    struct err e = {0};
    int rc = engine_restore(s.g, cut, run, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
}

static uint64_t pairs, stale_pairs;

static int count_pair(void *context, const void *key, size_t key_bytes, const void *value, size_t value_bytes, struct err *e)
{
    uint32_t table, tablet, epoch;
    uint64_t row;
    (void)context, (void)value, (void)value_bytes, (void)e;
    if (stored_is_row(key, key_bytes, &table, &tablet, &epoch, &row)) {
        pairs++;
        stale_pairs += epoch != table_cold_epoch(engine_table(s.g, table), tablet);
    }
    return 0;
}

static void count_pairs(void)
{
    struct err e = {0};
    pairs = stale_pairs = 0;
    ck_assert_int_eq(store_scan(s.g->store, count_pair, NULL, &e), 0);
}

static uint64_t cold(void)
{
    return table_cold_rows(engine_table(s.g, 0));
}

/* What the rows are after so many batches, in an engine without a bound. */
static uint64_t digest_without_bound(uint64_t batches, bool ages)
{
    char other[LIMIT_PATH];
    struct rig r;
    thin_open(&r, rig_dir(other), 0);
    thin_begin(&r, ages);
    thin_train(&r, 1, 0, batches, ages);
    uint64_t digest = thin_digest(&r);
    rig_close(&r, false);
    rig_remove_dir(other);
    return digest;
}

static void back_and_forth(bool ages)
{
    thin_open(&s, dir, THIN_MEMORY);
    thin_begin(&s, ages);
    thin_train(&s, 1, 0, 120, ages);
    ck_assert_uint_gt(cold(), 10000);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 200, ages);
    uint64_t at_end = thin_digest(&s);
    restore(5, 2);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_gt(cold(), 10000);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    thin_fence(&s, 2);
    thin_train(&s, 2, 120, 200, ages);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_end);
    ck_assert_uint_eq(at_end, digest_without_bound(200, ages));
    rig_close(&s, true);
    thin_open(&s, dir, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&s), at_end);
    rig_close(&s, false);
}

START_TEST(a_cut_with_cold_rows_is_the_table_again)
{
    back_and_forth(_i == 1);
}
END_TEST

START_TEST(a_cut_larger_than_memory_is_restored_within_it)
{
    thin_open(&s, dir, 0);
    thin_begin(&s, false);
    thin_train(&s, 1, 0, 150, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5); /* half in images, half in records */
    thin_train(&s, 1, 150, 160, false);
    uint64_t later = thin_digest(&s);
    rig_close(&s, _i == 1);
    thin_open(&s, dir, THIN_MEMORY); /* so is what recovery finds */
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), later);
    restore(5, 2);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    ck_assert_uint_gt(cold(), 30000);
    rig_close(&s, false);
    thin_open(&s, dir, THIN_MEMORY); /* the record again */
    ck_assert_uint_gt(s.g->replayed, 0);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
    thin_open(&s, dir, 0); /* and without a bound */
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

START_TEST(pairs_of_before_a_restore_go_once_its_images_are_written)
{
    thin_open(&s, dir, THIN_MEMORY);
    thin_begin(&s, false);
    thin_train(&s, 1, 0, 120, false);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 150, false);
    restore(5, 2);
    count_pairs();
    ck_assert_uint_gt(stale_pairs, 10000);
    for (int i = 0; i < 20; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    count_pairs();
    ck_assert_uint_eq(stale_pairs, 0);
    ck_assert_uint_ge(pairs, cold());
    rig_close(&s, false);
}
END_TEST

/* A fetch that began before the restore brings a row of before it. */
START_TEST(a_fetch_under_way_is_not_believed_after_a_restore)
{
    thin_open(&s, dir, THIN_MEMORY);
    thin_begin(&s, false);
    thin_train(&s, 1, 0, 120, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 180, false);
    rig_close(&s, true);
    thin_open(&s, dir, THIN_MEMORY); /* so that counts of drops begin at 0 */
    struct table *t = engine_table(s.g, 0);
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        uint32_t count = table_tablet_cold(t, k);
        uint64_t *keys = malloc((count + 1) * sizeof *keys);
        table_cold_keys(t, k, keys);
        ck_assert(count == 0 || !engine_warm(s.g, 0, keys, count < 200 ? count : 200));
        free(keys);
    }
    ck_assert_uint_gt(s.env.count, 0);
    struct env_work *fetch = s.env.work[0];
    fetch->run(fetch); /* it has read */
    restore(5, 2);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* A batch of rows on their way when the restore comes. */
START_TEST(rows_on_their_way_out_do_not_disturb_a_restore)
{
    thin_open(&s, dir, THIN_MEMORY);
    thin_begin(&s, false);
    thin_train(&s, 1, 0, 120, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 150, false);
    s.g->tier.rows_max /= 2; /* room is wanted at once */
    engine_flush_step(s.g);
    s.g->tier.rows_max *= 2;
    ck_assert(s.g->flush.busy);
    ck_assert_uint_gt(s.g->tier.leaving_count, 0);
    if (_i == 1)
        s.g->flush.under_way->env.run(&s.g->flush.under_way->env); /* written, but not told */
    restore(5, 2);
    ck_assert(!s.g->flush.busy);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
    thin_open(&s, dir, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* ---- kills ---- */

static void prepare_child(void *context)
{
    (void)context;
    thin_open(&s, dir, THIN_MEMORY);
    thin_begin(&s, true);
    thin_train(&s, 1, 0, 70, true);
    shared->at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 70, 90, true);
    shared->at_end = thin_digest(&s);
}

static void restore_child(void *context)
{
    thin_open(&s, dir, THIN_MEMORY);
    kill_begin(*(long *)context, 0);
    restore(5, 2);
    shared->restored = 1;
    for (int i = 0; i < 6; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    shared->steps = kill_end();
    _exit(0);
}

static void check_child(void *context)
{
    uint32_t mode, lanes;
    (void)context;
    thin_open(&s, dir, THIN_MEMORY);
    bool there = engine_run_mode(s.g, 2, &mode, &lanes) == 0;
    ck_assert(there || shared->restored == 0);
    ck_assert_uint_eq(thin_digest(&s), there ? shared->at_cut : shared->at_end);
    thin_within(&s, THIN_MOST);
    restore(5, 2);
    ck_assert_uint_eq(thin_digest(&s), shared->at_cut);
    thin_fence(&s, 2);
    thin_train(&s, 2, 70, 90, true);
    ck_assert_uint_eq(thin_digest(&s), shared->at_end);
    _exit(0);
}

static void copy_dir(const char *from, const char *to)
{
    char command[2 * LIMIT_PATH + 64];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -a '%s' '%s'", to, from, to);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(killed_in_a_restore_it_is_all_there_or_not_at_all)
{
    char kept[LIMIT_PATH + 8];
    const char *text = getenv("SHOAL_KILL_POINTS");
    long points = text != NULL ? strtol(text, NULL, 10) : 5, at = 0;
    rig_in_child(prepare_child, NULL);
    snprintf(kept, sizeof kept, "%s.kept", dir);
    copy_dir(dir, kept);
    rig_in_child(restore_child, &at);
    long steps = shared->steps;
    ck_assert_int_gt(steps, 20);
    long stride = points == 0 || points > steps ? 1 : steps / points;
    for (at = 1; at <= steps; at += stride) {
        copy_dir(kept, dir);
        shared->restored = 0;
        rig_in_child(restore_child, &at);
        rig_in_child(check_child, &at);
    }
    rig_remove_dir(kept);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cold_restore");
    TCase *c = tcase_create("cold_restore");
    tcase_set_timeout(c, 280);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, a_cut_with_cold_rows_is_the_table_again, 0, 2);
    tcase_add_loop_test(c, a_cut_larger_than_memory_is_restored_within_it, 0, 2);
    tcase_add_test(c, pairs_of_before_a_restore_go_once_its_images_are_written);
    tcase_add_test(c, a_fetch_under_way_is_not_believed_after_a_restore);
    tcase_add_loop_test(c, rows_on_their_way_out_do_not_disturb_a_restore, 0, 2);
    suite_add_tcase(suite, c);
    c = tcase_create("kills");
    tcase_set_timeout(c, 280);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, killed_in_a_restore_it_is_all_there_or_not_at_all);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
