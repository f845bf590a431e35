/* test_reload.c: tablets that are recovered in steps: their order, the operations that are allowed
 * meanwhile, and the state after a kill in between. That all is the same afterwards:
 * test_recover.c, test_tier_random.c. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/reload.h"
#include "embedding/rows/cold.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/embedding_thin.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BATCHES 400u /* 512 new keys each: 205,000 rows in 16 tablets, so several steps */
#define TABLETS (1u << SHARD_TABLET_BITS)

static char dir[LIMIT_PATH];
static struct rig s;
static struct rig_push p;

static void setup(void)
{
    rig_dir(dir);
    rig_in_steps = true;
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

/* Pushes batches (from, to] of table `table`, each with its own keys. */
static void fill(uint32_t table, uint64_t from, uint64_t to)
{
    for (uint64_t batch = from; batch < to; batch++) {
        struct push_plan plan;
        rig_push_make(&p, 1, table, 0, 0, batch, batch + 1);
        for (uint32_t i = 0; i < SHARD_KEYS; i++)
            p.keys[i] = key_make(2, batch * SHARD_KEYS + i);
        qsort(p.keys, SHARD_KEYS, sizeof p.keys[0], key_by_mixed);
        int rc = rig_push(&s, &p, &plan);
        while (rc == SHOAL_E_BUSY) {
            embedding_env_run(&s.env);
            rc = rig_push(&s, &p, &plan);
        }
        ck_assert_int_eq(rc, 0);
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
}

static void *shared_word(void)
{
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(ftruncate(fileno(f), 4096), 0);
    void *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(f), 0);
    ck_assert_ptr_ne(word, MAP_FAILED);
    fclose(f);
    return word;
}

/* Two tables, one large and one small: all is stored, and nothing is left to replay. */
static uint64_t stored_as(uint32_t large)
{
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    rig_table(&s, 1);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, NULL), 0);
    fill(large, 0, BATCHES);
    fill(1 - large, 0, 4);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, true);
    return digest;
}

static uint64_t stored(void)
{
    return stored_as(0);
}

/* In a child: the process that forks opens no store, because RocksDB's threads would be missing in
 * its children. */
static void stored_child(void *context)
{
    *(uint64_t *)context = stored();
}

/* Opens the engine, and no tablet has been recovered by itself. */
static void open_away(void)
{
    struct err e = {0};
    ck_assert_msg(rig_try_open(&s, dir, DURABLE_JOURNAL, &e) == 0, "%s", e.text);
    ck_assert(!engine_back(s.g));
    rig_lead(&s);
}

/* Returns a key of table 0 that lies in the tablet. */
static uint64_t key_in(uint32_t tablet)
{
    for (uint64_t i = 0;; i++)
        if (key_tablet(key_mix(key_make(2, i)), SHARD_TABLET_BITS) == tablet)
            return key_make(2, i);
}

/* The tablet of each key is recovered before the record: recovered after it, it would have the
 * erased row again. */
START_TEST(keys_by_name_bring_their_tablets_back)
{
    const uint64_t keys[] = {key_in(3), key_in(9)};
    uint64_t changed;
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, NULL), 0);
    fill(0, 0, 4);
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_int_eq(engine_keys(s.g, 0, KEY_ERASE, keys, 2, &changed, NULL), 0);
    ck_assert_uint_eq(changed, 2);
    uint64_t digest = rig_digest(&s);
    rig_close(&s, false);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* Older images contain a run that was dropped: it appears again, and ends once all tablets are
 * recovered. */
START_TEST(a_run_that_images_bring_back_ends)
{
    struct push_plan plan;
    struct err e = {0};
    uint32_t mode, lanes;
    rig_open(&s, dir, DURABLE_JOURNAL);
    rig_table(&s, 0);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, NULL), 0);
    fill(0, 0, 4);
    rig_close(&s, true);
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_msg(engine_run_drop(s.g, 1, &e) == 0, "%s", e.text);
    rig_close(&s, true);
    open_away();
    rig_come_back(&s);
    ck_assert_uint_eq(s.recovered, 1);
    ck_assert_uint_eq(s.g->runs.count, 0);
    ck_assert_int_eq(engine_run_mode(s.g, 1, &mode, &lanes), SHOAL_E_NOT_FOUND);
    rig_push_make(&p, 1, 0, 0, 0, 4, 5);
    ck_assert_int_eq(rig_push(&s, &p, &plan), SHOAL_E_OLD_RUN);
    rig_close(&s, false);
}
END_TEST

START_TEST(the_tablet_that_is_asked_for_comes_first)
{
    struct engine_stats stats;
    uint64_t digest = stored(), key = key_in(TABLETS - 1);
    float row[SHARD_WIDTH], after[SHARD_WIDTH];
    open_away();
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.tablets_away, 2 * TABLETS);
    ck_assert_uint_eq(stats.rows, 0);
    ck_assert(!engine_warm(s.g, 0, &key, 1));
    ck_assert(!engine_warm(s.g, 0, &key, 1)); /* it was asked for once */
    ck_assert(embedding_env_step(&s.env));
    ck_assert_uint_eq(s.fetched, 1);
    ck_assert(engine_warm(s.g, 0, &key, 1));
    ck_assert(!engine_back(s.g));
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.tablets_away, TABLETS);
    table_pull(engine_table(s.g, 0), &key, 1, row);
    rig_come_back(&s);
    ck_assert_uint_eq(s.recovered, 1);
    ck_assert_uint_eq(s.fetched, 1); /* no question, no notice */
    table_pull(engine_table(s.g, 0), &key, 1, after);
    ck_assert_mem_eq(row, after, sizeof row);
    ck_assert_uint_eq(rig_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

static void other_child(void *context)
{
    (void)context;
    rig_open(&s, dir, DURABLE_JOURNAL);
    fill(1, 4, 6);
    *(uint64_t *)context = rig_digest(&s);
}

/* When the engine opens, the tablets that the journal's records change are there, and no others. */
START_TEST(killed_it_has_at_once_what_was_being_trained)
{
    uint64_t *digest = shared_word();
    rig_in_child(stored_child, digest);
    rig_in_child(other_child, digest);
    open_away();
    for (uint32_t k = 0; k < TABLETS; k++) {
        ck_assert(reload_is_away(s.g, 0, k));
        ck_assert(!reload_is_away(s.g, 1, k));
    }
    ck_assert_uint_eq(table_rows(engine_table(s.g, 1)), 6 * SHARD_KEYS);
    rig_come_back(&s);
    ck_assert_uint_eq(rig_digest(&s), *digest);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 1), 6);
    ck_assert_uint_eq(engine_mark(s.g, 1, 0, 0), BATCHES); /* marks come with their tablets */
    rig_close(&s, false);
}
END_TEST

static void half_back_child(void *context)
{
    struct engine_stats stats;
    (void)context;
    open_away();
    ck_assert(embedding_env_step(&s.env));
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.rows, 0);
    ck_assert(!engine_back(s.g));
}

START_TEST(killed_or_stopped_on_the_way_it_has_lost_nothing)
{
    uint64_t *digest = shared_word();
    rig_in_child(stored_child, digest);
    rig_in_child(half_back_child, NULL);
    for (int flush = 0; flush < 2; flush++) {
        half_back_child(NULL);
        engine_flush_step(s.g); /* nothing to do, though most stored rows are not in memory */
        rig_close(&s, flush == 1);
    }
    rig_open(&s, dir, DURABLE_JOURNAL);
    ck_assert_uint_eq(rig_digest(&s), *digest);
    fill(0, BATCHES, BATCHES + 1);
    rig_close(&s, true);
}
END_TEST

START_TEST(one_row_is_read_at_once)
{
    struct err e = {0};
    struct engine_stats stats;
    uint64_t key = key_in(3);
    bool cold;
    (void)stored();
    open_away();
    const struct table *t = engine_row(s.g, 0, key, &cold, &e);
    ck_assert_ptr_nonnull(t);
    ck_assert_ptr_nonnull(table_row(t, key));
    engine_stats_get(s.g, &stats);
    ck_assert_uint_eq(stats.tablets_away, 2 * TABLETS - 1);
    rig_come_back(&s);
    rig_close(&s, false);
}
END_TEST

/* Otherwise the request would wait for ever: the next step has nothing to recover. */
START_TEST(who_asked_is_told_though_another_brought_it)
{
    struct err e = {0};
    uint64_t key = key_in(TABLETS - 1);
    bool cold;
    (void)stored();
    open_away();
    ck_assert_int_eq(reload_bring(s.g, 1, 0, TABLETS, &e), 0);
    ck_assert_int_eq(reload_bring(s.g, 0, 0, TABLETS - 1, &e), 0);
    ck_assert(!engine_warm(s.g, 0, &key, 1));
    ck_assert_ptr_nonnull(engine_row(s.g, 0, key, &cold, &e));
    ck_assert_uint_eq(reload_left(s.g), 0);
    rig_come_back(&s);
    ck_assert_uint_eq(s.fetched, 1);
    ck_assert(engine_warm(s.g, 0, &key, 1));
    rig_close(&s, false);
}
END_TEST

/* The number of tablets in a step is learned from the steps before: those of the next table may be
 * a hundred times as large. */
START_TEST(a_step_stays_short_where_large_tablets_follow_small_ones)
{
    struct engine_stats stats;
    uint64_t rows = 0, most = 0;
    (void)stored_as(1);
    open_away();
    s.g->reload_rows = 2000;
    while (!engine_back(s.g)) {
        ck_assert(embedding_env_step(&s.env));
        engine_stats_get(s.g, &stats);
        most = stats.rows - rows > most ? stats.rows - rows : most;
        rows = stats.rows;
    }
    ck_assert_uint_lt(most, 2000 + 2 * BATCHES * SHARD_KEYS / TABLETS);
    rig_close(&s, false);
}
END_TEST

/* Requested neighbours are recovered together, and no others with them. */
START_TEST(all_that_was_asked_for_comes_before_the_rest)
{
    uint64_t key[3] = {key_in(4), key_in(5), key_in(11)};
    (void)stored();
    open_away();
    s.g->reload_rows = 1;
    ck_assert(!engine_warm(s.g, 0, key, 3));
    for (uint32_t left = reload_left(s.g); !engine_warm(s.g, 0, key, 3); left = reload_left(s.g)) {
        ck_assert(embedding_env_step(&s.env));
        ck_assert_uint_lt(reload_left(s.g), left);
    }
    ck_assert_uint_eq(reload_left(s.g), 2 * TABLETS - 3);
    rig_come_back(&s);
    rig_close(&s, false);
}
END_TEST

START_TEST(a_damaged_tablet_ends_it)
{
    char command[LIMIT_PATH + 256];
    (void)stored();
    snprintf(command, sizeof command,
             "f=$(ls -S '%.900s'/rows/*.blob | head -1); printf XXXXXXXX | dd of=\"$f\" bs=1 "
             "seek=20000 conv=notrunc 2>/dev/null",
             dir);
    ck_assert_int_eq(system(command), 0);
    open_away();
    rig_come_back(&s);
    ck_assert_uint_eq(s.fatal, 1);
    ck_assert_uint_eq(s.recovered, 0);
    ck_assert_int_eq(s.fatal_err.code, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(s.fatal_err.text, dir));
    (void)engine_close(s.g, true);
}
END_TEST

/* An image has all rows that were in memory when it was made: together they may not fit into
 * memory. */
START_TEST(rows_leave_on_the_way_where_memory_is_short)
{
    thin_open_trained(&s, dir, 0, 100, false);
    uint64_t digest = thin_digest(&s);
    rig_close(&s, true);
    thin_open(&s, dir, THIN_MEMORY);
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.cold_rows, 0);
    thin_within(&s, THIN_MOST);
    ck_assert_uint_eq(thin_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

/* Pushes batch `to` to the first half of the tablets only. */
static void half_push(uint64_t to)
{
    static struct thin_batch b;
    struct push_plan plan;
    uint32_t count = 0;
    thin_batch_make(&b, 1, to, false);
    for (; count < b.record.key_count &&
           key_tablet(key_mix(b.keys[count]), THIN_BITS) < 1u << (THIN_BITS - 1);
         count++) {
    }
    b.record.key_count = count;
    b.record.tablet_count = 1u << (THIN_BITS - 1);
    int rc = SHOAL_E_BUSY;
    while (rc == SHOAL_E_BUSY) {
        while (!engine_warm(s.g, 0, b.keys, count))
            ck_assert(embedding_env_step(&s.env));
        rc = engine_admit_push(s.g, &b.record, &plan, NULL);
        if (rc == SHOAL_E_BUSY)
            ck_assert(embedding_env_step(&s.env));
    }
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &b.record, &plan), 0);
}

#define HALVES 6u

static void thin_child(void *context)
{
    (void)context;
    thin_open_trained(&s, dir, THIN_MEMORY, 60, false);
    rig_close(&s, true);
}

static void half_child(void *context)
{
    (void)context;
    thin_open(&s, dir, THIN_MEMORY);
    for (uint64_t to = 61; to <= 60 + HALVES; to++)
        half_push(to);
}

static void short_child(void *context)
{
    thin_open(&s, dir, THIN_MEMORY * 3 / 8); /* so little that replayed rows would leave, too */
    (void)context;
}

/* A row that a replayed record has changed must not leave: its pair would be the one of the
 * image. */
START_TEST(rows_that_were_replayed_stay_until_they_are_written)
{
    thin_open_trained(&s, NULL, 0, 60, false);
    for (uint64_t to = 61; to <= 60 + HALVES; to++)
        half_push(to);
    uint64_t digest = thin_digest(&s);
    rig_close(&s, false);
    rig_in_child(thin_child, NULL);
    rig_in_child(half_child, NULL);
    for (int i = 0; i < 3; i++)
        rig_in_child(short_child, NULL);
    thin_open(&s, dir, THIN_MEMORY);
    ck_assert_uint_eq(thin_digest(&s), digest);
    rig_close(&s, false);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("reload");
    TCase *t = tcase_create("reload");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, keys_by_name_bring_their_tablets_back);
    tcase_add_test(t, a_run_that_images_bring_back_ends);
    tcase_add_test(t, the_tablet_that_is_asked_for_comes_first);
    tcase_add_test(t, killed_it_has_at_once_what_was_being_trained);
    tcase_add_test(t, killed_or_stopped_on_the_way_it_has_lost_nothing);
    tcase_add_test(t, one_row_is_read_at_once);
    tcase_add_test(t, who_asked_is_told_though_another_brought_it);
    tcase_add_test(t, a_step_stays_short_where_large_tablets_follow_small_ones);
    tcase_add_test(t, all_that_was_asked_for_comes_before_the_rest);
    tcase_add_test(t, a_damaged_tablet_ends_it);
    tcase_add_test(t, rows_leave_on_the_way_where_memory_is_short);
    tcase_add_test(t, rows_that_were_replayed_stay_until_they_are_written);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
