/* test_tier_room.c: making room in memory when most rows may not leave: a table whose rows stay (it
 * has a capacity) beside one whose rows may leave. */
#include "embedding/engine/engine_state.h"
#include "embedding/engine/flush.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "tests/lib/embedding_rig.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STAYS 0u
#define GOES 1u
#define WIDE 2u
#define MEMORY (8ull << 20)
#define KEYS 2048u
#define FLOATS (16u + 2u) /* in a row, except in wide ones: a push has 16 of those */
#define GOES_ROWS (8 * KEYS)

static struct push {
    struct push_record record;
    uint64_t keys[KEYS];
    float gradients[KEYS * FLOATS];
} p;
static char dir[LIMIT_PATH];
static struct rig s;
static uint64_t batches[3];

static void setup_table(uint32_t number, uint32_t bits)
{
    struct table_schema schema = rig_schema(number);
    struct err e = {0};
    schema.width = 16;
    schema.tablet_bits = bits;
    schema.tablet_first = 64 * number;
    if (number == STAYS) {
        schema.rules.stats = 1;
        schema.rules.age_capacity = 1u << 20;
    }
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
}

static void on_fatal(void *context, const struct err *e)
{
    (void)context;
    ck_abort_msg("fatal: %s", e->text);
}

static void setup(void)
{
    struct err e = {0};
    uint64_t mark;
    log_set_level(LOG_LEVEL_ERROR);
    memset(&s, 0, sizeof s);
    memset(batches, 0, sizeof batches);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.dir = rig_dir(dir),
                                        .durability = DURABLE_JOURNAL,
                                        .memory = MEMORY,
                                        .journal_max = 64u << 20,
                                        .segment_bytes = 8u << 20,
                                        .disk_watermark = 1,
                                        .on_fatal = on_fatal};
    ck_assert_msg(engine_open(&s.options, &s.env.env, &s.g, &e) == 0, "%s", e.text);
    rig_lead(&s);
    setup_table(STAYS, 4);
    setup_table(GOES, 1);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, RUN_SSP, &e), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, &e), 0);
}

static void teardown(void)
{
    rig_close(&s, false);
    rig_remove_dir(dir);
}

static void keys_from(uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        p.keys[i] = key_make(1, first + i);
    qsort(p.keys, count, sizeof p.keys[0], key_by_mixed);
}

/* Pushes `count` keys from `first` on. Returns the status of the admission. No flush step
 * follows. */
static int push(uint32_t table, uint64_t first, uint32_t count)
{
    uint32_t floats = table == STAYS ? FLOATS : table == WIDE ? 1024 : 16;
    struct push_plan plan;
    struct err e = {0};
    keys_from(first, count);
    for (uint32_t i = 0; i < count * floats; i++)
        p.gradients[i] = table == STAYS && i % floats >= 16 ? 1 : 0.25f;
    p.record = (struct push_record){.run = 1,
                                    .generation = 1,
                                    .from = batches[table],
                                    .to = batches[table] + 1,
                                    .table = table,
                                    .tablet_count = 1u << (table == STAYS  ? 4
                                                           : table == WIDE ? 2
                                                                           : 1),
                                    .lr_scale = 1,
                                    .key_count = count,
                                    .keys = p.keys,
                                    .gradients = p.gradients};
    int rc = engine_admit_push(s.g, &p.record, &plan, &e);
    if (rc != 0)
        return rc;
    batches[table]++;
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    return 0;
}

/* Creates rows in the table that stays, until `share`/16 of the rows' memory is in use. */
static void fill(uint32_t share)
{
    for (uint64_t first = 0; tier_used(s.g) < s.g->tier.rows_max / 16 * share; first += 256) {
        ck_assert_int_eq(push(STAYS, first, 256), 0);
        ck_assert_uint_lt(first, 1u << 20);
    }
}

/* Every row that is asked for while a batch is being written was in the store before it. */
START_TEST(no_row_goes_before_its_batch_is_written)
{
    push(GOES, 0, 512);
    fill(16);
    engine_flush_step(s.g);
    ck_assert(s.g->flush.busy);
    ck_assert_uint_eq(table_cold_rows(engine_table(s.g, GOES)), 0);
    keys_from(0, 512);
    (void)engine_warm(s.g, GOES, p.keys, 512);
    embedding_env_run_newest(&s.env, 0);
}
END_TEST

/* Creates rows that may leave, then rows that stay, until no more room can be made. */
static void fill_up(void)
{
    struct engine_stats stats;
    for (uint64_t first = 0; first < GOES_ROWS; first += KEYS)
        ck_assert_int_eq(push(GOES, first, KEYS), 0);
    engine_stats_get(s.g, &stats);
    ck_assert(!stats.memory_short);
    for (uint64_t first = 0; first < 1u << 20; first += 256) {
        int rc = push(STAYS, first, 256);
        embedding_env_run(&s.env);
        if (rc == SHOAL_E_NO_SPACE)
            break;
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    ck_assert_int_eq(push(STAYS, 0, 1), SHOAL_E_NO_SPACE);
    engine_stats_get(s.g, &stats);
    ck_assert(stats.memory_short);
}

/* Rows that were fetched when no other row could leave are the next to leave. */
START_TEST(rows_that_were_read_go_again)
{
    uint64_t most = 0;
    fill_up();
    for (uint64_t turn = 0; turn < 3; turn++)
        for (uint64_t first = 0; first < GOES_ROWS; first += 512) {
            keys_from(first, 512);
            for (uint32_t tries = 0; !engine_warm(s.g, GOES, p.keys, 512); tries++) {
                ck_assert_uint_lt(tries, 1000);
                embedding_env_step(&s.env);
            }
            uint64_t used = tier_used(s.g);
            most = used > most ? used : most;
            engine_flush_step(s.g);
            embedding_env_run(&s.env);
        }
    ck_assert_msg(most < s.g->tier.rows_max + (768u << 10), "%" PRIu64 " bytes of %" PRIu64, most,
                  s.g->tier.rows_max);
}
END_TEST

/* Two requests repeat, each for more rows than can be fetched at a time while none can leave. */
START_TEST(who_asks_for_more_than_there_is_room_for_gets_it_once)
{
    static uint64_t keys[2][4 * KEYS];
    bool answered[2] = {false};
    uint64_t most = 0;
    fill_up();
    for (uint32_t i = 0; i < 8; i++) {
        keys_from(i * KEYS, KEYS);
        memcpy(keys[i / 4] + i % 4 * KEYS, p.keys, sizeof p.keys);
    }
    for (uint32_t tries = 0; !answered[0] || !answered[1]; tries++) {
        ck_assert_uint_lt(tries, 1000);
        for (uint32_t i = 0; i < 2; i++)
            answered[i] = answered[i] || engine_warm(s.g, GOES, keys[i], 4 * KEYS);
        uint64_t used = tier_used(s.g);
        most = used > most ? used : most;
        engine_flush_step(s.g);
        embedding_env_step(&s.env);
    }
    ck_assert_msg(most < s.g->tier.rows_max + (2u << 20), "%" PRIu64 " bytes of %" PRIu64, most,
                  s.g->tier.rows_max);
}
END_TEST

/* Rows are fetched for requests that are not repeated. */
START_TEST(rows_that_come_in_vain_are_told)
{
    fill_up();
    ck_assert_uint_eq(s.g->tier.in_vain, 0);
    for (uint64_t turn = 0; s.g->tier.in_vain == 0; turn++) {
        ck_assert_uint_lt(turn, 5000);
        keys_from(turn % 8 * KEYS, KEYS);
        (void)engine_warm(s.g, GOES, p.keys, _i == 1 ? KEYS : KEYS - 1);
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
        if (_i == 1 && s.g->tier.fetched > 600000)
            break;
        for (uint32_t tries = 0; _i == 1 && !engine_warm(s.g, GOES, p.keys, KEYS); tries++)
            embedding_env_step(&s.env);
    }
    ck_assert_uint_eq(s.g->tier.in_vain, _i == 0);
}
END_TEST

static uint32_t cold_keys(uint32_t table, uint64_t *keys, uint32_t most)
{
    const struct table *t = engine_table(s.g, table);
    uint32_t n = 0;
    for (uint64_t i = 0; i < GOES_ROWS && n < most; i++)
        if (table_cold_has(t, key_make(1, i)))
            keys[n++] = key_make(1, i);
    return n;
}

/* However long its rows are, and even if another table asks for more than one fetch takes. */
START_TEST(a_fetch_takes_its_bytes_from_every_table)
{
    static uint64_t wide[256], narrow[256];
    struct table_schema schema = rig_schema(WIDE);
    struct err e = {0};
    schema.width = 1024;
    schema.tablet_bits = 2;
    schema.tablet_first = 64 * WIDE;
    ck_assert_msg(engine_table_create(s.g, &schema, &e) == 0, "%s", e.text);
    ck_assert_int_eq(push(GOES, 0, KEYS), 0);
    for (uint64_t first = 0; first < 1600; first += 16) {
        while (push(WIDE, first, 16) != 0)
            embedding_env_step(&s.env);
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
    uint32_t wides = cold_keys(WIDE, wide, 256), narrows = cold_keys(GOES, narrow, 256);
    ck_assert(wides == 256 && narrows == 256);
    ck_assert(!engine_warm(s.g, WIDE, wide, 1));
    ck_assert(!engine_warm(s.g, WIDE, wide, wides) && !engine_warm(s.g, GOES, narrow, narrows));
    uint64_t before = s.g->tier.fetched, cold = table_cold_rows(engine_table(s.g, GOES));
    embedding_env_step(&s.env); /* only the first request */
    ck_assert_uint_eq(s.g->tier.fetched - before, 1);
    embedding_env_step(&s.env); /* as many of the other requests as fit */
    ck_assert_uint_gt(s.g->tier.fetched - before, 1);
    ck_assert_uint_le((s.g->tier.fetched - before - 1) * 8192, flush_batch_bytes(s.g));
    before = s.g->tier.fetched;
    embedding_env_step(&s.env); /* both tables */
    uint64_t come = cold - table_cold_rows(engine_table(s.g, GOES)),
             rows = s.g->tier.fetched - before;
    ck_assert_uint_eq(come, 256);
    ck_assert_uint_gt(rows, come);
    ck_assert_uint_le((rows - come) * 8192, flush_batch_bytes(s.g));
    for (uint32_t tries = 0; !engine_warm(s.g, WIDE, wide, wides); tries++) {
        ck_assert_uint_lt(tries, 1000);
        embedding_env_step(&s.env);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("tier_room");
    TCase *c = tcase_create("tier_room");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, no_row_goes_before_its_batch_is_written);
    tcase_add_test(c, rows_that_were_read_go_again);
    tcase_add_test(c, who_asks_for_more_than_there_is_room_for_gets_it_once);
    tcase_add_loop_test(c, rows_that_come_in_vain_are_told, 0, 2);
    tcase_add_test(c, a_fetch_takes_its_bytes_from_every_table);
    suite_add_tcase(suite, c);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
