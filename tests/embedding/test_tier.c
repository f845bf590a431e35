/* test_tier.c: an engine with less memory than its rows take: the same rows, the same digests, whatever was where. */
#include "embedding/cold.h"
#include "embedding/engine_state.h"
#include "embedding/stored.h"
#include "tests/lib/embedding_rig.h"

#include "proto/base/hash.h"
#include "proto/base/rng.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WIDTH 16u
#define BITS 6u
#define BATCH_KEYS 2048u
#define SPAN 120000u /* keys: 17 MB of rows */
#define SMALL (6ull << 20)
#define MOST (SMALL + 2 * (2ull << 20)) /* the arena's chunks are of 2 MiB */

struct batch {
    struct push_record record;
    uint64_t keys[BATCH_KEYS];
    float gradients[BATCH_KEYS * (WIDTH + 2)];
};

static struct table_schema schema_of(bool ages)
{
    struct table_schema s = rig_schema(0);
    s.width = WIDTH;
    s.tablet_bits = BITS;
    if (ages) {
        s.rules.stats = 1;
        s.rules.score_show = 0.1f;
        s.rules.score_click = 1;
        s.rules.age_every = 86400;
        s.rules.age_decay = 0.9f;
        s.rules.age_ttl = 5 * 86400;
    }
    return s;
}

static int by_mix(const void *a, const void *b)
{
    uint64_t x = key_mix(*(const uint64_t *)a), y = key_mix(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

/* Keys of a batch: most of them often, some of the whole span. */
static void make(struct batch *b, uint64_t to, bool ages)
{
    struct rng r = rng_of(3, 1, to);
    uint32_t floats = WIDTH + (ages ? 2 : 0), n = 0;
    for (uint32_t i = 0; i < BATCH_KEYS; i++) {
        uint64_t value = rng_below(&r, 4) == 0 ? rng_below(&r, SPAN) : rng_below(&r, SPAN / 16);
        b->keys[i] = key_make(1, value);
    }
    qsort(b->keys, BATCH_KEYS, sizeof b->keys[0], by_mix);
    for (uint32_t i = 0; i < BATCH_KEYS; i++)
        if (n == 0 || b->keys[n - 1] != b->keys[i])
            b->keys[n++] = b->keys[i];
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < WIDTH; k++)
            b->gradients[i * floats + k] = rng_float(&r) - 0.5f;
        if (ages) {
            b->gradients[i * floats + WIDTH] = 1;
            b->gradients[i * floats + WIDTH + 1] = 0;
        }
    }
    b->record = (struct push_record){.run = 1,
                                     .generation = 1,
                                     .from = to - 1,
                                     .to = to,
                                     .table = 0,
                                     .tablet_count = 1u << BITS,
                                     .lr_scale = 1,
                                     .key_count = n,
                                     .event_time = ages ? (uint32_t)(1700006400 + to * 7200) : 0,
                                     .keys = b->keys,
                                     .gradients = b->gradients};
}

static void open_rig(struct rig *s, const char *dir, uint64_t memory)
{
    struct err e = {0};
    memset(s, 0, sizeof *s);
    embedding_env_init(&s->env);
    s->options = (struct engine_options){
        .dir = dir, .durability = DURABLE_JOURNAL, .memory = memory, .journal_max = 64u << 20, .segment_bytes = 8u << 20, .disk_watermark = 1};
    ck_assert_msg(engine_open(&s->options, &s->env.env, &s->g, &e) == 0, "%s", e.text);
    rig_lead(s);
}

static void begin(struct rig *s, bool ages)
{
    struct err e = {0};
    struct table_schema schema = schema_of(ages);
    uint64_t mark;
    ck_assert_msg(engine_table_create(s->g, &schema, &e) == 0, "%s", e.text);
    ck_assert_msg(engine_run_open(s->g, 1, 1, 1 /* ssp */, &e) == 0, "%s", e.text);
    ck_assert_msg(engine_fence(s->g, 1, 0, 1, true, &mark, &e) == 0, "%s", e.text);
}

static void most_memory(struct rig *s, uint64_t *most)
{
    struct engine_stats stats;
    engine_stats_get(s->g, &stats);
    if (stats.memory_bytes > *most)
        *most = stats.memory_bytes;
}

/* Pushes of (from, to], each once its rows are in memory and there is room. */
static uint64_t train(struct rig *s, uint64_t from, uint64_t to, bool ages)
{
    static struct batch b;
    uint64_t most = 0;
    for (uint64_t batch = from + 1; batch <= to; batch++) {
        struct push_plan plan;
        struct err e = {0};
        make(&b, batch, ages);
        int rc = SHOAL_E_BUSY;
        for (int tries = 0; rc == SHOAL_E_BUSY; tries++) {
            ck_assert_int_lt(tries, 100);
            bool warm = engine_warm(s->g, 0, b.keys, b.record.key_count);
            rc = warm ? engine_admit_push(s->g, &b.record, &plan, &e) : SHOAL_E_BUSY;
            if (rc == SHOAL_E_BUSY)
                embedding_env_run(&s->env);
        }
        ck_assert_msg(rc == 0, "batch %llu: %s", (unsigned long long)batch, e.text);
        ck_assert_int_eq(engine_commit(s->g), 0);
        ck_assert_int_eq(engine_apply_push(s->g, &b.record, &plan), 0);
        most_memory(s, &most);
        engine_flush_step(s->g);
        if (batch % 3 == 0) /* work lags behind */
            embedding_env_run(&s->env);
    }
    embedding_env_run(&s->env);
    most_memory(s, &most);
    return most;
}

/* Of all rows, those in the store brought in. */
static uint64_t digest_whole(struct rig *s)
{
    struct table *t = engine_table(s->g, 0);
    struct err e = {0};
    uint64_t sum = 0;
    for (uint32_t k = 0; k < 1u << BITS; k++) {
        uint64_t digest, *keys = malloc((table_tablet_cold(t, k) + 1) * sizeof *keys);
        uint32_t n = table_tablet_cold(t, k);
        table_cold_keys(t, k, keys);
        ck_assert_msg(engine_fetch_now(s->g, 0, keys, n, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(table_tablet_cold(t, k), 0);
        ck_assert_int_eq(table_digest(t, k, &digest), 0);
        sum = hash_bytes(&digest, sizeof digest, sum);
        free(keys);
    }
    return sum;
}

static uint64_t digest_without_bound(uint64_t batches, bool ages)
{
    struct rig s;
    char dir[LIMIT_PATH];
    open_rig(&s, rig_dir(dir), 0);
    begin(&s, ages);
    train(&s, 0, batches, ages);
    uint64_t digest = digest_whole(&s);
    rig_close(&s, false);
    rig_remove_dir(dir);
    return digest;
}

static void within_budget(bool ages)
{
    struct rig s;
    char dir[LIMIT_PATH];
    struct engine_stats stats;
    open_rig(&s, rig_dir(dir), SMALL);
    begin(&s, ages);
    uint64_t most = train(&s, 0, 200, ages);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.fetched, 1000);
    ck_assert_uint_gt(stats.cold_rows, stats.rows / 2);
    ck_assert_uint_lt(most, MOST);
    ck_assert_uint_eq(digest_whole(&s), digest_without_bound(200, ages));
    rig_close(&s, false);
    rig_remove_dir(dir);
}

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
    open_rig(&s, k->dir, SMALL);
    if (k->fresh)
        begin(&s, k->ages);
    train(&s, k->from, k->to, k->ages);
    if (k->flush)
        rig_close(&s, true);
}

/* Killed with rows in the store, in memory and on their way; then the rest of the journal over it, within the same memory. */
static void kill_and_recover(bool ages)
{
    char dir[LIMIT_PATH];
    rig_dir(dir);
    rig_in_child(train_in_child, &(struct killed){dir, 0, 90, ages, .fresh = true});
    rig_in_child(train_in_child, &(struct killed){.dir = dir, .from = 90, .to = 130, .ages = ages});
    rig_in_child(train_in_child, &(struct killed){dir, 130, 160, ages, .flush = true});
    rig_in_child(train_in_child, &(struct killed){.dir = dir, .from = 160, .to = 200, .ages = ages});
    struct rig s;
    struct engine_stats stats;
    open_rig(&s, dir, SMALL);
    engine_stats_get(s.g, &stats);
    ck_assert_uint_gt(stats.replayed, 0);
    ck_assert_uint_lt(stats.memory_bytes, MOST);
    ck_assert_uint_gt(stats.cold_rows, 0);
    ck_assert_uint_eq(digest_whole(&s), digest_without_bound(200, ages));
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
    open_rig(&s, rig_dir(dir), SMALL);
    begin(&s, false);
    train(&s, 0, 200, false);
    struct table *t = engine_table(s.g, 0);
    uint64_t *keys = malloc((table_tablet_cold(t, 5) + 1) * sizeof *keys);
    uint32_t n = table_tablet_cold(t, 5) < 500 ? table_tablet_cold(t, 5) : 500;
    ck_assert_uint_gt(n, 100);
    table_cold_keys(t, 5, keys);
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

/* Where rows cannot move, pushes are refused by name. */
START_TEST(an_engine_without_a_store_refuses_when_it_is_full)
{
    struct rig s;
    struct batch *b = malloc(sizeof *b);
    struct err e = {0};
    memset(&s, 0, sizeof s);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.durability = DURABLE_MEMORY, .memory = SMALL};
    ck_assert_int_eq(engine_open(&s.options, &s.env.env, &s.g, &e), 0);
    rig_lead(&s);
    begin(&s, false);
    int rc = 0;
    for (uint64_t batch = 1; rc == 0 && batch < 400; batch++) {
        struct push_plan plan;
        make(b, batch, false);
        rc = engine_admit_push(s.g, &b->record, &plan, &e);
        if (rc == 0) {
            ck_assert_int_eq(engine_commit(s.g), 0);
            ck_assert_int_eq(engine_apply_push(s.g, &b->record, &plan), 0);
        }
    }
    ck_assert_int_eq(rc, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "memory"));
    free(b);
    rig_close(&s, false);
}
END_TEST

/* The control: a row of another instant in the store, and the digest tells. */
START_TEST(a_pair_that_is_not_the_rows_changes_the_digest)
{
    struct rig s;
    char dir[LIMIT_PATH];
    open_rig(&s, rig_dir(dir), SMALL);
    begin(&s, false);
    train(&s, 0, 200, false);
    struct table *t = engine_table(s.g, 0);
    uint64_t keys[2], *all = malloc((table_tablet_cold(t, 5) + 1) * sizeof *all);
    table_cold_keys(t, 5, all);
    memcpy(keys, all, sizeof keys);
    char value[2][WIDTH * 8 + 4];
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
    ck_assert_uint_ne(digest_whole(&s), digest_without_bound(200, false));
    free(all);
    rig_close(&s, false);
    rig_remove_dir(dir);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tier");
    TCase *c = tcase_create("tier");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, rows_beyond_the_budget_are_the_same_rows);
    tcase_add_test(c, rows_that_age_in_the_store_are_the_same_rows);
    tcase_add_test(c, a_killed_engine_finds_its_rows_in_both_places);
    tcase_add_test(c, a_killed_engine_ages_rows_in_both_places);
    tcase_add_test(c, a_fetch_brings_all_that_was_asked_for_and_says_so_once);
    tcase_add_test(c, an_engine_without_a_store_refuses_when_it_is_full);
    tcase_add_test(c, a_pair_that_is_not_the_rows_changes_the_digest);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
