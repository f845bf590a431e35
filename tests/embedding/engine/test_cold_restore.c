/* test_cold_restore.c: restores of a cut whose rows lie in memory and in the store, or do not fit
 * into memory at all; and kills during them. SHOAL_KILL_POINTS (5) is the number of points that are
 * tried; 0: all. The process that forks never opens a store. */
#include "embedding/engine/engine_state.h"
#include "embedding/rows/cold.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/kill_step.h"
#include "tests/lib/suite.h"

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

static uint64_t cold(void)
{
    return table_cold_rows(engine_table(s.g, 0));
}

static void back_and_forth(bool ages)
{
    thin_open_trained(&s, dir, THIN_MEMORY, 120, ages);
    ck_assert_uint_gt(cold(), 10000);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 200, ages);
    uint64_t at_end = thin_digest(&s);
    thin_restore(&s, 5, 2);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_gt(cold(), 10000);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    thin_fence(&s, 2);
    thin_train(&s, 2, 120, 200, ages);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_end);
    ck_assert_uint_eq(at_end, thin_digest_without_bound(200, ages));
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
    thin_open_trained(&s, dir, 0, 150, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5); /* half in images, half in records */
    thin_train(&s, 1, 150, 160, false);
    uint64_t later = thin_digest(&s);
    rig_close(&s, _i == 1);
    thin_open(&s, dir, THIN_MEMORY); /* recovery finds the same */
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), later);
    thin_restore(&s, 5, 2);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    ck_assert_uint_gt(cold(), 30000);
    rig_close(&s, false);
    thin_open(&s, dir, THIN_MEMORY); /* the record once more */
    ck_assert_uint_gt(s.g->replayed, 0);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
    thin_open(&s, dir, 0); /* and without a limit */
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

START_TEST(pairs_of_before_a_restore_go_once_its_images_are_written)
{
    thin_open_trained(&s, dir, THIN_MEMORY, 120, false);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 150, false);
    thin_restore(&s, 5, 2);
    ck_assert_uint_gt(thin_stored(&s, 0).stale_pairs, 10000);
    for (int i = 0; i < 20; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    struct thin_stored stored = thin_stored(&s, 0);
    ck_assert_uint_eq(stored.stale_pairs, 0);
    ck_assert_uint_ge(stored.pairs, cold());
    rig_close(&s, false);
}
END_TEST

/* A fetch that began before the restore returns a row from before it. */
START_TEST(a_fetch_under_way_is_not_believed_after_a_restore)
{
    thin_open_trained(&s, dir, THIN_MEMORY, 120, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 180, false);
    rig_close(&s, true);
    thin_open(&s, dir, THIN_MEMORY); /* so that counts of drops begin at 0 */
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        uint32_t count;
        uint64_t *keys = cool_keys(&s, 0, k, &count);
        ck_assert(count == 0 || !engine_warm(s.g, 0, keys, count < 200 ? count : 200));
        free(keys);
    }
    ck_assert_uint_gt(s.env.count, 0);
    struct env_work *fetch = s.env.work[0];
    fetch->run(fetch); /* it has read the row */
    thin_restore(&s, 5, 2);
    embedding_env_run(&s.env);
    ck_assert_uint_eq(thin_digest(&s), at_cut);
    rig_close(&s, false);
}
END_TEST

/* A batch of rows is leaving when the restore comes. */
START_TEST(rows_on_their_way_out_do_not_disturb_a_restore)
{
    thin_open_trained(&s, dir, THIN_MEMORY, 120, false);
    uint64_t at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 120, 150, false);
    s.g->tier.rows_max /= 2; /* the memory limit falls at once */
    engine_flush_step(s.g);
    s.g->tier.rows_max *= 2;
    ck_assert(s.g->flush.busy);
    ck_assert_uint_gt(s.g->tier.leaving_count, 0);
    if (_i == 1)
        s.g->flush.under_way->env.run(&s.g->flush.under_way->env); /* written, but not reported */
    thin_restore(&s, 5, 2);
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
    thin_open_trained(&s, dir, THIN_MEMORY, 70, true);
    shared->at_cut = thin_digest(&s);
    thin_cut(&s, 5);
    thin_train(&s, 1, 70, 90, true);
    shared->at_end = thin_digest(&s);
}

static void restore_child(void *context)
{
    thin_open(&s, dir, THIN_MEMORY);
    kill_begin(*(long *)context, 0);
    thin_restore(&s, 5, 2);
    shared->restored = 1;
    for (int i = 0; i < 6; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    thin_fence(&s, 2);
    thin_train(&s, 2, 70, 80, true);
    shared->steps = kill_end();
    _exit(0);
}

/* A recovery that dies at once: its writes must not harm the next one. */
static void die_child(void *context)
{
    (void)context;
    thin_open(&s, dir, THIN_MEMORY);
    for (int i = 0; i < 2; i++) {
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    _exit(0);
}

static void check_child(void *context)
{
    uint32_t mode, lanes;
    (void)context;
    thin_open(&s, dir, THIN_MEMORY);
    bool there = engine_run_mode(s.g, 2, &mode, &lanes) == 0;
    ck_assert(there || shared->restored == 0);
    thin_within(&s, THIN_MOST);
    if (!there) {
        ck_assert_uint_eq(thin_digest(&s), shared->at_end);
        thin_restore(&s, 5, 2);
        ck_assert_uint_eq(thin_digest(&s), shared->at_cut);
    }
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
    long at = 0;
    rig_in_child(prepare_child, NULL);
    snprintf(kept, sizeof kept, "%s.kept", dir);
    copy_dir(dir, kept);
    rig_in_child(restore_child, &at);
    long steps = shared->steps, stride = kill_stride(steps, 5);
    ck_assert_int_gt(steps, 20);
    for (at = 1; at <= steps; at += stride) {
        copy_dir(kept, dir);
        shared->restored = 0;
        rig_in_child(restore_child, &at);
        rig_in_child(die_child, &at);
        rig_in_child(check_child, &at);
    }
    rig_remove_dir(kept);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cold_restore");
    TCase *c = suite_case(suite, "cold_restore", 280, setup, teardown);
    tcase_add_loop_test(c, a_cut_with_cold_rows_is_the_table_again, 0, 2);
    tcase_add_loop_test(c, a_cut_larger_than_memory_is_restored_within_it, 0, 2);
    tcase_add_test(c, pairs_of_before_a_restore_go_once_its_images_are_written);
    tcase_add_test(c, a_fetch_under_way_is_not_believed_after_a_restore);
    tcase_add_loop_test(c, rows_on_their_way_out_do_not_disturb_a_restore, 0, 2);
    c = suite_case(suite, "kills", 280, setup, teardown);
    tcase_add_test(c, killed_in_a_restore_it_is_all_there_or_not_at_all);
    return suite_main(suite);
}
