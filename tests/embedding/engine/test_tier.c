/* test_tier.c: an engine with less memory than its rows take: the same rows and digests, wherever a
 * row is. */
#include "embedding/checkpoint/load.h"
#include "embedding/engine/engine_state.h"
#include "embedding/engine/fetch.h"
#include "embedding/engine/flush.h"
#include "embedding/rows/arena_inner.h"
#include "embedding/rows/table_cold.h"
#include "embedding/store/stored.h"
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "tests/lib/crafted.h"
#include "tests/lib/embedding_cool.h"
#include "tests/lib/embedding_thin.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the digest of all rows, after fetching those in the store. */
static uint64_t digest_whole(struct rig *s)
{
    const struct table *t = engine_table(s->g, 0);
    struct err e = {0};
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 1u << THIN_BITS; k++) {
        uint32_t n;
        uint64_t digest, *keys = cool_keys(s, 0, k, &n);
        ck_assert_msg(fetch_now(engine_table(s->g, 0), s->g->store, keys, n, &e) == 0, "%s",
                      e.text);
        ck_assert_uint_eq(table_cold_tablet(t, k), 0);
        ck_assert_int_eq(table_digest(t, k, &digest), 0);
        sum = hash_bytes(&digest, sizeof digest, sum);
        free(keys);
    }
    return sum;
}

static void within_budget(bool ages)
{
    struct rig s;
    char dir[LIMIT_PATH];
    struct engine_stats stats;
    thin_open(&s, rig_dir(dir), THIN_MEMORY);
    thin_begin(&s, ages);
    uint64_t most = thin_train(&s, 1, 0, 200, ages);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.fetched, 1000);
    ck_assert_uint_gt(stats.cold_rows, stats.rows / 2);
    ck_assert_uint_lt(most, THIN_MOST);
    ck_assert_uint_eq(digest_whole(&s), thin_digest_without_bound(200, ages));
    rig_close(&s, false);
    rig_remove_dir(dir);
}

/* An erased row leaves nothing in the store once its tablet is written. */
START_TEST(pairs_of_rows_that_went_are_deleted)
{
    struct rig s;
    char dir[LIMIT_PATH];
    struct err e = {0};
    uint64_t changed;
    thin_open_trained(&s, rig_dir(dir), THIN_MEMORY, 60, false);
    embedding_env_run(&s.env);
    uint32_t tablet = 0;
    while (table_cold_tablet(engine_table(s.g, 0), tablet) == 0)
        tablet++;
    uint64_t *keys = malloc(table_cold_tablet(engine_table(s.g, 0), tablet) * sizeof *keys);
    table_cold_keys(engine_table(s.g, 0), tablet, keys);
    ck_assert_uint_eq(thin_stored(&s, keys[0]).of_key, 1);
    ck_assert_msg(engine_keys(s.g, 0, KEY_ERASE, keys, 1, &changed, &e) == 0, "%s", e.text);
    ck_assert_msg(flush_all(s.g, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(thin_stored(&s, keys[0]).of_key, 0);
    ck_assert_uint_gt(thin_stored(&s, keys[0]).pairs, 0);
    free(keys);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

START_TEST(rows_beyond_the_budget_are_the_same_rows)
{
    within_budget(false);
}
END_TEST

START_TEST(rows_that_age_in_the_store_are_the_same_rows)
{
    within_budget(true);
}
END_TEST

struct killed {
    const char *dir;
    uint64_t from, to;
    bool ages, fresh, flush;
};

static void train_in_child(void *context)
{
    const struct killed *k = context;
    struct rig s;
    thin_open(&s, k->dir, THIN_MEMORY);
    if (k->fresh)
        thin_begin(&s, k->ages);
    thin_train(&s, 1, k->from, k->to, k->ages);
    if (k->flush)
        rig_close(&s, true);
}

/* Killed with rows in the store, in memory and on their way; then the rest of the journal is
 * replayed within the same memory. */
static void kill_and_recover(bool ages)
{
    char dir[LIMIT_PATH];
    rig_dir(dir);
    rig_in_child(train_in_child, &(struct killed){dir, 0, 90, ages, .fresh = true});
    rig_in_child(train_in_child, &(struct killed){.dir = dir, .from = 90, .to = 130, .ages = ages});
    rig_in_child(train_in_child, &(struct killed){dir, 130, 160, ages, .flush = true});
    rig_in_child(train_in_child,
                 &(struct killed){.dir = dir, .from = 160, .to = 200, .ages = ages});
    struct rig s;
    struct engine_stats stats;
    thin_open(&s, dir, THIN_MEMORY);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.replayed, 0);
    ck_assert_uint_lt(stats.memory_bytes, THIN_MOST);
    ck_assert_uint_gt(stats.cold_rows, 0);
    ck_assert_uint_eq(digest_whole(&s), thin_digest_without_bound(200, ages));
    rig_close(&s, false);
    rig_remove_dir(dir);
}

START_TEST(a_killed_engine_finds_its_rows_in_both_places)
{
    kill_and_recover(false);
}
END_TEST

START_TEST(a_killed_engine_ages_rows_in_both_places)
{
    kill_and_recover(true);
}
END_TEST

START_TEST(a_fetch_brings_all_that_was_asked_for_and_says_so_once)
{
    struct rig s;
    char dir[LIMIT_PATH];
    struct engine_stats before, after;
    thin_open_trained(&s, rig_dir(dir), THIN_MEMORY, 200, false);
    uint32_t n;
    uint64_t *keys = cool_keys(&s, 0, 5, &n);
    n = n < 500 ? n : 500;
    ck_assert_uint_gt(n, 100);
    engine_stats_get(s.g, &before);
    ck_assert(!engine_warm(s.g, 0, keys, n));
    ck_assert(!engine_warm(s.g, 0, keys, n)); /* asked again: not fetched again */
    embedding_env_run(&s.env);
    engine_stats_get(s.g, &after);
    ck_assert_uint_eq(after.fetched - before.fetched, n);
    ck_assert(engine_warm(s.g, 0, keys, n));
    free(keys);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* A row may have been fetched, changed and moved to the store meanwhile: after any row has left the
 * tablet, an earlier read does not count. */
START_TEST(a_fetch_is_not_believed_once_rows_have_left_its_tablet)
{
    struct rig s;
    char dir[LIMIT_PATH];
    uint32_t count = 0, tablet = 0;
    uint64_t *keys = NULL;
    thin_open_trained(&s, rig_dir(dir), THIN_MEMORY, 120, false);
    const struct table *t = engine_table(s.g, 0);
    for (; count == 0; tablet += count == 0) {
        free(keys);
        keys = cool_keys(&s, 0, tablet, &count);
    }
    ck_assert(!engine_warm(s.g, 0, keys, 1));
    struct env_work *fetch = s.env.work[s.env.count - 1];
    fetch->run(fetch); /* it has read the row; its report is late */
    s.env.count--;
    uint32_t drops = table_cold_drops(t, tablet);
    s.g->tier.rows_max /= 4;
    for (int i = 0; i < 200 && table_cold_drops(t, tablet) == drops; i++) {
        engine_flush_step(s.g);
        (void)embedding_env_step(&s.env);
    }
    ck_assert_uint_gt(table_cold_drops(t, tablet), drops);
    ck_assert(table_cold_has(t, keys[0]));
    fetch->done(fetch);
    ck_assert(table_cold_has(t, keys[0]));
    s.g->tier.rows_max *= 4;
    ck_assert(!engine_warm(s.g, 0, keys, 1));
    embedding_env_run(&s.env);
    ck_assert(engine_warm(s.g, 0, keys, 1)); /* asked for again, it comes */
    free(keys);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* A read does not count either if the tablet has begun another epoch (0), with other pairs, or
 * while its table is being loaded (1). */
START_TEST(a_fetch_is_not_believed_by_another_epoch)
{
    struct rig s;
    char dir[LIMIT_PATH];
    uint32_t count = 0, tablet = 0;
    uint64_t *keys = NULL;
    thin_open_trained(&s, rig_dir(dir), THIN_MEMORY, 120, false);
    struct table *t = engine_table(s.g, 0);
    for (; count == 0; tablet += count == 0) {
        free(keys);
        keys = cool_keys(&s, 0, tablet, &count);
    }
    ck_assert(!engine_warm(s.g, 0, keys, 1));
    struct env_work *fetch = s.env.work[s.env.count - 1];
    fetch->run(fetch);
    s.env.count--;
    uint32_t drops = table_cold_drops(t, tablet);
    if (_i == 0) {
        ck_assert_int_eq(table_cold_begin(t, tablet, table_cold_epoch(t, tablet) + 1), 0);
        ck_assert_int_eq(table_cold_add(t, keys[0]), 0);
    } else {
        table_set_add(&s.g->loading, 0);
    }
    ck_assert_uint_eq(table_cold_drops(t, tablet), drops);
    fetch->done(fetch);
    ck_assert(table_cold_has(t, keys[0]));
    ck_assert_ptr_null(table_row(t, keys[0]));
    free(keys);
    s.g->loading = TABLE_SET_NONE;
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* A tablet whose rows are all in memory belongs to no epoch of the store. */
START_TEST(a_tablet_that_is_whole_is_of_no_epoch)
{
    struct rig s;
    char dir[LIMIT_PATH];
    struct err e = {0};
    rig_open(&s, rig_dir(dir), DURABLE_JOURNAL);
    rig_table(&s, 0);
    struct table *t = engine_table(s.g, 0);
    ck_assert_int_eq(table_cold_begin(t, 3, 5), 0);
    ck_assert(table_cold_stale(t, 3));
    ck_assert_int_eq(fetch_whole(t, 3, s.g->store, &e), 0);
    ck_assert_uint_eq(table_cold_epoch(t, 3), 0);
    ck_assert(!table_cold_stale(t, 3));
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* The pairs of all other epochs of a tablet are deleted, older and newer ones, and those of no
 * other tablet. */
START_TEST(pairs_of_other_epochs_go)
{
    static const uint32_t epochs[] = {0, 6, 7, 8, STORED_EPOCH_MAX - 1, STORED_EPOCH_MAX};
    enum { EPOCHS = sizeof epochs / sizeof epochs[0] };
    struct rig s;
    char dir[LIMIT_PATH];
    struct err e = {0};
    struct stale note = {0, 3, epochs[_i]};
    struct store_item item[3 * EPOCHS];
    char value[3 * EPOCHS];
    size_t bytes[3 * EPOCHS];
    rig_open(&s, rig_dir(dir), DURABLE_JOURNAL);
    rig_table(&s, 0);
    for (uint32_t i = 0; i < 3 * EPOCHS; i++) {
        stored_row_key(0, 2 + i / EPOCHS, epochs[i % EPOCHS], i % 2 == 0 ? key_unmix(0) : 77,
                       &item[i]);
        item[i].value = "x";
        item[i].value_bytes = 1;
    }
    ck_assert_int_eq(store_write(s.g->store, item, 3 * EPOCHS, &e), 0);
    struct flush_state was = s.g->flush;
    s.g->flush.stale = &note;
    s.g->flush.stale_count = 1;
    ck_assert_int_eq(flush_drop_stale(s.g, &e), 0);
    s.g->flush = was;
    ck_assert_int_eq(store_get(s.g->store, item, 3 * EPOCHS, value, 1, bytes, &e), 0);
    for (uint32_t i = 0; i < 3 * EPOCHS; i++)
        ck_assert_uint_eq(bytes[i], i / EPOCHS != 1 || i % EPOCHS == (uint32_t)_i);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* The hashes of these keys, mixed with the table's number, share one place in the set of requested
 * keys. */
START_TEST(crafted_keys_that_are_asked_for_are_found_soon)
{
    enum { KEYS = 2000, SLOTS = 1 << 18 };
    struct rig s;
    char dir[LIMIT_PATH];
    struct err e = {0};
    struct push_plan plan;
    struct crafted_run run = {0};
    struct thin_batch *b = calloc(1, sizeof *b);
    thin_open(&s, rig_dir(dir), 10 * THIN_MEMORY);
    thin_begin(&s, false);
    thin_batch_make(b, 1, 1, false);
    for (uint64_t i = 0; i < KEYS; i++)
        b->keys[i] = crafted_key(i) ^ key_mix(1); /* keys in table 0 */
    qsort(b->keys, KEYS, sizeof b->keys[0], key_by_mixed);
    b->record.key_count = KEYS;
    ck_assert_msg(engine_admit_push(s.g, &b->record, &plan, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &b->record, &plan), 0);
    cool_table(&s, 0, 16);
    ck_assert(!engine_warm(s.g, 0, b->keys, KEYS));
    for (uint32_t i = 0; i < SLOTS; i++)
        crafted_place(&run, s.g->tier.asked[i] != 0);
    ck_assert_uint_ge(run.most, 1);
    ck_assert_uint_lt(run.most, 50);
    embedding_env_run(&s.env);
    ck_assert(engine_warm(s.g, 0, b->keys, KEYS));
    free(b);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

/* Where rows cannot move, pushes are refused with the table's name. */
START_TEST(an_engine_without_a_store_refuses_when_it_is_full)
{
    struct rig s;
    struct thin_batch *b = malloc(sizeof *b);
    struct err e = {0};
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.durability = DURABLE_MEMORY, .memory = THIN_MEMORY};
    ck_assert_int_eq(engine_open(&s.options, &s.env.env, &s.g, &e), 0);
    rig_lead(&s);
    thin_begin(&s, false);
    int rc = 0;
    for (uint64_t batch = 1; rc == 0 && batch < 400; batch++) {
        struct push_plan plan;
        thin_batch_make(b, 1, batch, false);
        rc = engine_admit_push(s.g, &b->record, &plan, &e);
        if (rc == 0) {
            ck_assert_int_eq(engine_commit(s.g), 0);
            ck_assert_int_eq(engine_apply_push(s.g, &b->record, &plan), 0);
        }
    }
    ck_assert_int_eq(rc, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "memory"));
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    ck_assert(stats.memory_short);
    free(b);
    rig_close(&s, false);
}
END_TEST

/* 2^32 rows of 4 bytes have names: 16 GiB of them. */
START_TEST(a_push_whose_rows_would_have_no_names_is_refused)
{
    static struct rig s;
    static struct rig_push p;
    struct push_plan plan;
    struct err e = {0};
    struct table_schema schema = rig_schema(0);
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.durability = DURABLE_MEMORY, .memory = UINT64_C(64) << 30};
    ck_assert_int_eq(engine_open(&s.options, &s.env.env, &s.g, &e), 0);
    rig_lead(&s);
    schema.width = 1;
    schema.optimizer = (struct optimizer_spec){.kind = OPT_SGD, .lr = 0.1f};
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, 1, &e), 0);
    while (arena_bytes(s.g->arena) < UINT64_C(16) << 30) /* never written, so no memory */
        ck_assert_uint_ne(arena_take(s.g->arena, ARENA_CHUNK_UNITS), ARENA_NONE);
    rig_push_make(&p, 1, 0, 0, 0, 0, 1);
    int rc = engine_admit_push(s.g, &p.record, &plan, &e);
    if (rc == 0)
        rc = engine_commit(s.g) != 0 || engine_apply_push(s.g, &p.record, &plan) != 0;
    ck_assert_int_eq(rc, SHOAL_E_NO_SPACE);
    ck_assert_msg(strstr(e.text, "table-0") != NULL && strstr(e.text, "add servers") != NULL, "%s",
                  e.text);
    /* the rows of a new table are refused, too */
    struct table_schema other = rig_schema(1);
    other.width = 1;
    other.optimizer = schema.optimizer;
    ck_assert_msg(engine_table_create(s.g, &other, &e) == 0, "%s", e.text);
    rig_push_make(&p, 1, 1, 0, 0, 0, 1);
    ck_assert_int_eq(engine_admit_push(s.g, &p.record, &plan, &e), SHOAL_E_NO_SPACE);
    ck_assert_msg(strstr(e.text, "table-0") != NULL, "%s", e.text);
    rig_close(&s, false);
}
END_TEST

/* The control case: a row of another instant in the store changes the digest. */
START_TEST(a_pair_that_is_not_the_rows_changes_the_digest)
{
    struct rig s;
    char dir[LIMIT_PATH];
    thin_open_trained(&s, rig_dir(dir), THIN_MEMORY, 200, false);
    struct table *t = engine_table(s.g, 0);
    uint32_t n;
    uint64_t *keys = cool_keys(&s, 0, 5, &n);
    ck_assert_uint_ge(n, 2);
    char value[2][THIN_WIDTH * 8 + 4];
    size_t sizes[2], bytes = table_cold_bytes(t);
    struct store_item item[2];
    struct err e = {0};
    ck_assert_uint_eq(bytes, sizeof value[0]);
    for (int i = 0; i < 2; i++)
        stored_row_key(0, 5, table_cold_epoch(t, 5), keys[i], &item[i]);
    ck_assert_int_eq(store_get(s.g->store, item, 2, value, bytes, sizes, &e), 0);
    item[0].value = value[1];
    item[0].value_bytes = bytes;
    ck_assert_int_eq(store_write(s.g->store, item, 1, &e), 0);
    ck_assert_uint_ne(digest_whole(&s), thin_digest_without_bound(200, false));
    free(keys);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tier");
    TCase *c = suite_case(suite, "tier", 120, NULL, NULL);
    tcase_add_test(c, pairs_of_rows_that_went_are_deleted);
    tcase_add_test(c, rows_beyond_the_budget_are_the_same_rows);
    tcase_add_test(c, rows_that_age_in_the_store_are_the_same_rows);
    tcase_add_test(c, a_killed_engine_finds_its_rows_in_both_places);
    tcase_add_test(c, a_killed_engine_ages_rows_in_both_places);
    tcase_add_test(c, a_fetch_brings_all_that_was_asked_for_and_says_so_once);
    tcase_add_test(c, a_fetch_is_not_believed_once_rows_have_left_its_tablet);
    tcase_add_loop_test(c, a_fetch_is_not_believed_by_another_epoch, 0, 2);
    tcase_add_test(c, a_tablet_that_is_whole_is_of_no_epoch);
    tcase_add_loop_test(c, pairs_of_other_epochs_go, 0, 6);
    tcase_add_test(c, crafted_keys_that_are_asked_for_are_found_soon);
    tcase_add_test(c, an_engine_without_a_store_refuses_when_it_is_full);
    tcase_add_test(c, a_push_whose_rows_would_have_no_names_is_refused);
    tcase_add_test(c, a_pair_that_is_not_the_rows_changes_the_digest);
    return suite_main(suite);
}
