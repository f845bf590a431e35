/* test_share.c: shares of the memory. Tables 0 and 1 are a greedy space's, the second one with rows
 * that stay (it has a capacity); table 2 is a small space's. */
#include "embedding/engine/share.h"

#include "embedding/engine/flush.h"
#include "embedding/engine/tier.h"
#include "embedding/rows/table_cold.h"
#include "proto/base/key.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "tests/lib/embedding_rig.h"
#include "tests/lib/table_sets.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GREEDY, STAYS, SMALL, TABLES };
#define MEMORY (8ull << 20)
#define KEYS 1024u
#define TABLET_BITS 4u
#define MOST_KEYS 40000u
#define FLOATS (16u + 2u)

static struct push {
    struct push_record record;
    uint64_t keys[KEYS];
    float gradients[KEYS * FLOATS];
} p;
static char dir[LIMIT_PATH];
static struct rig s;
static uint64_t batches[TABLES], next_key[TABLES];

static void table_make(uint32_t number)
{
    struct table_schema schema = rig_schema(number);
    struct err e = {0};
    schema.width = 16;
    schema.tablet_bits = TABLET_BITS;
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

static void open_in(const char *where, enum durability durability)
{
    struct err e = {0};
    uint64_t mark;
    log_set_level(LOG_LEVEL_ERROR);
    memset(&s, 0, sizeof s);
    memset(batches, 0, sizeof batches);
    memset(next_key, 0, sizeof next_key);
    embedding_env_init(&s.env);
    s.options = (struct engine_options){.dir = where,
                                        .durability = durability,
                                        .memory = MEMORY,
                                        .journal_max = 64u << 20,
                                        .segment_bytes = 8u << 20,
                                        .disk_watermark = 1,
                                        .on_fatal = on_fatal};
    ck_assert_msg(engine_open(&s.options, &s.env.env, &s.g, &e) == 0, "%s", e.text);
    rig_lead(&s);
    for (uint32_t i = 0; i < TABLES; i++)
        table_make(i);
    ck_assert_int_eq(engine_run_open(s.g, 1, 1, RUN_SSP, &e), 0);
    ck_assert_int_eq(engine_fence(s.g, 1, 0, 1, true, NULL, &mark, &e), 0);
}

static void setup(void)
{
    open_in(rig_dir(dir), DURABLE_JOURNAL);
}

static void setup_memory(void)
{
    dir[0] = 0;
    open_in(NULL, DURABLE_MEMORY);
}

static void teardown(void)
{
    rig_close(&s, false);
    if (dir[0] != 0)
        rig_remove_dir(dir);
}

static struct engine_share share_of_tables(const char *name, uint64_t tables, uint32_t parts)
{
    struct engine_share share = {.tables = set_of(tables), .parts = parts};
    snprintf(share.name, sizeof share.name, "%s", name);
    return share;
}

/* The two spaces: the greedy one gets `parts` of the memory, the small one the rest. */
static void shares_set(uint32_t parts)
{
    const struct engine_share list[2] = {
        share_of_tables("greedy", 1u << GREEDY | 1u << STAYS, parts),
        share_of_tables("small", 1u << SMALL, ENGINE_PARTS - parts)};
    struct err e = {0};
    ck_assert_msg(engine_shares_set(s.g, list, 2, &e) == 0, "%s", e.text);
    embedding_env_run(&s.env);
}

static void keys_from(uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        p.keys[i] = key_make(1, first + i);
    qsort(p.keys, count, sizeof p.keys[0], key_by_mixed);
}

/* Pushes `count` keys from `first` on. Returns the status of the admission. */
static int push_keys(uint32_t table, uint64_t first, uint32_t count, struct err *e)
{
    uint32_t floats = table == STAYS ? FLOATS : 16;
    struct push_plan plan;
    keys_from(first, count);
    for (uint32_t i = 0; i < count * floats; i++)
        p.gradients[i] = table == STAYS && i % floats >= 16 ? 1 : 0.25f;
    p.record = (struct push_record){.run = 1,
                                    .generation = 1,
                                    .from = batches[table],
                                    .to = batches[table] + 1,
                                    .table = table,
                                    .tablet_count = 1u << TABLET_BITS,
                                    .lr_scale = 1,
                                    .key_count = count,
                                    .keys = p.keys,
                                    .gradients = p.gradients};
    int rc = engine_admit_push(s.g, &p.record, &plan, e);
    if (rc != 0)
        return rc;
    batches[table]++;
    ck_assert_int_eq(engine_commit(s.g), 0);
    ck_assert_int_eq(engine_apply_push(s.g, &p.record, &plan), 0);
    return 0;
}

/* Pushes keys that were never there. */
static int push_new(uint32_t table)
{
    struct err e = {0};
    int rc = push_keys(table, next_key[table], 256, &e);
    if (rc == 0)
        next_key[table] += 256;
    return rc;
}

/* Pushes new keys until the group has so many bytes; work runs while it has to wait. Returns how
 * many pieces of work a push waited for at most. */
static uint32_t fill(uint32_t table, uint64_t bytes)
{
    uint32_t most = 0, waited = 0;
    while (share_used(s.g, share_of(s.g, table)) < bytes) {
        int rc = push_new(table);
        ck_assert(rc == 0 || rc == SHOAL_E_BUSY);
        waited = rc == 0 ? 0 : waited + 1;
        most = waited > most ? waited : most;
        ck_assert_uint_lt(waited, 1000);
        engine_flush_step(s.g);
        if (rc != 0)
            (void)embedding_env_step(&s.env);
    }
    return most;
}

/* So many pushes of new keys, each with all the work that it causes. */
static void push_many(uint32_t table, uint32_t pushes)
{
    for (uint32_t i = 0; i < pushes; i++) {
        while (push_new(table) != 0)
            ck_assert(embedding_env_step(&s.env));
        engine_flush_step(s.g);
        embedding_env_run(&s.env);
    }
}

static uint64_t cold(uint32_t table)
{
    return table_cold_rows(engine_table(s.g, table));
}

/* ---- the list ---- */

START_TEST(shares_that_cannot_be_are_refused)
{
    struct engine_share list[3] = {share_of_tables("a", 1, 100), share_of_tables("b", 2, 100),
                                   share_of_tables("c", 4, 100)};
    struct err e = {0};
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), 0);
    list[1].tables = set_of(3); /* table 0 has two shares */
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), SHOAL_E_MALFORMED);
    list[1].tables = TABLE_SET_NONE;
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), SHOAL_E_MALFORMED);
    list[1] = share_of_tables("b", 2, 0);
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), SHOAL_E_MALFORMED);
    list[1].parts = ENGINE_PARTS - 199; /* one too many together */
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), SHOAL_E_MALFORMED);
    list[1].parts = 100;
    memset(list[1].name, 'x', sizeof list[1].name);
    ck_assert_int_eq(engine_shares_set(s.g, list, 3, &e), SHOAL_E_MALFORMED);
    ck_assert_uint_eq(s.g->tier.groups, 4); /* the first list stays */
}
END_TEST

START_TEST(shares_make_the_whole)
{
    const struct engine_share list[2] = {share_of_tables("a", 1, 1000),
                                         share_of_tables("b", 4, 2000)};
    struct err e = {0};
    uint64_t all = 0;
    ck_assert_int_eq(engine_shares_set(s.g, list, 2, &e), 0);
    ck_assert_uint_eq(s.g->tier.group[0].is.parts, ENGINE_PARTS - 3000);
    ck_assert(
        table_set_equal(s.g->tier.group[0].is.tables, table_set_less(TABLE_SET_ALL, set_of(5))));
    for (uint32_t i = 0; i < 3; i++)
        all += share_limit(s.g, &s.g->tier.group[i], 16);
    (void)tier_used(s.g);
    ck_assert_uint_le(all, s.g->tier.rows_max / 16 * 16 - share_rest(s.g));
    ck_assert_uint_ge(all + 3, s.g->tier.rows_max / 16 * 16 - share_rest(s.g));
    ck_assert_int_eq(engine_shares_set(s.g, NULL, 0, &e), 0);
    ck_assert_uint_eq(s.g->tier.groups, 1);
    ck_assert(set_is(s.g->tier.group[0].is.tables, UINT64_MAX));
    ck_assert_uint_eq(s.g->tier.group[0].is.parts, ENGINE_PARTS);
}
END_TEST

START_TEST(bytes_of_all_groups_are_the_memory)
{
    shares_set(ENGINE_PARTS / 2);
    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t table = 0; table < TABLES; table++) {
            ck_assert_int_eq(push_new(table), 0);
            s.g->tier.looks = 0; /* it looks again */
            uint64_t used = tier_used(s.g), sum = share_rest(s.g);
            for (uint32_t k = 0; k < s.g->tier.groups; k++)
                sum += share_used(s.g, &s.g->tier.group[k]);
            ck_assert_uint_eq(sum, used);
        }
}
END_TEST

START_TEST(figures_are_by_share)
{
    struct engine_share_use use[LIMIT_SPACES];
    shares_set(ENGINE_PARTS / 4);
    ck_assert_int_eq(push_new(GREEDY), 0);
    ck_assert_int_eq(push_new(SMALL), 0);
    ck_assert_int_eq(push_new(SMALL), 0);
    ck_assert_uint_eq(engine_shares(s.g, use), 2);
    ck_assert_str_eq(use[0].share.name, "greedy");
    ck_assert_uint_eq(use[0].rows, 256);
    ck_assert_uint_eq(use[1].rows, 512);
    ck_assert_uint_eq(use[1].cold_rows, 0);
    ck_assert_uint_gt(use[1].bytes, use[0].bytes);
    ck_assert_uint_gt(use[1].limit, 2 * use[0].limit);
    ck_assert(use[0].waits == 0 && use[0].refused == 0);
}
END_TEST

/* ---- rows that leave ---- */

START_TEST(a_group_within_its_share_keeps_its_rows)
{
    shares_set(ENGINE_PARTS / 2);
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 13));
    push_many(GREEDY, 400);
    ck_assert_uint_gt(cold(GREEDY), 50000);
    ck_assert_uint_eq(cold(SMALL), 0);
    ck_assert_uint_le(tier_used(s.g), s.g->tier.rows_max);
}
END_TEST

/* Both have more than their shares leave them: by their shares, not by their bytes. */
START_TEST(the_group_furthest_over_its_share_gives)
{
    shares_set(ENGINE_PARTS / 4);
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 15));
    fill(GREEDY, share_limit(s.g, share_of(s.g, GREEDY), 16));
    ck_assert_uint_gt(share_used(s.g, share_of(s.g, SMALL)),
                      share_used(s.g, share_of(s.g, GREEDY)));
    ck_assert_ptr_eq(share_giver(s.g), share_of(s.g, GREEDY));
    share_of(s.g, GREEDY)->leaving = share_used(s.g, share_of(s.g, GREEDY)) / 4; /* on their way */
    ck_assert_ptr_eq(share_giver(s.g), share_of(s.g, SMALL));
    share_of(s.g, SMALL)->leaving = share_used(s.g, share_of(s.g, SMALL)) / 4;
    ck_assert_ptr_null(share_giver(s.g));
    ck_assert(share_gives(s.g));
    tier_stay(s.g);
}
END_TEST

/* Without shares the same push each other out. */
START_TEST(without_shares_rows_of_all_tables_leave)
{
    fill(SMALL, s.g->tier.rows_max / 32 * 13);
    push_many(GREEDY, 400);
    ck_assert_uint_gt(cold(SMALL), 0);
}
END_TEST

START_TEST(free_memory_may_be_borrowed)
{
    shares_set(ENGINE_PARTS / 4);
    fill(GREEDY, s.g->tier.rows_max / 16 * 13);
    ck_assert_uint_eq(cold(GREEDY), 0);
}
END_TEST

/* The small space comes when the greedy one has all the memory. */
START_TEST(a_borrower_gives_back_first)
{
    shares_set(ENGINE_PARTS / 4);
    push_many(GREEDY, 300);
    ck_assert_uint_gt(share_used(s.g, share_of(s.g, GREEDY)), s.g->tier.rows_max / 16 * 12);
    uint64_t most = share_limit(s.g, share_of(s.g, SMALL), 13);
    fill(SMALL, most);
    ck_assert_uint_eq(cold(SMALL), 0);
    ck_assert_uint_lt(share_used(s.g, share_of(s.g, GREEDY)), s.g->tier.rows_max - most);
}
END_TEST

START_TEST(a_group_within_its_share_waits_for_one_batch_at_most)
{
    shares_set(ENGINE_PARTS / 4);
    push_many(GREEDY, 300);
    /* a batch is written by one piece of work, which may have begun, and its tablets leave */
    ck_assert_uint_le(fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 13)), 2);
}
END_TEST

/* Fills the memory above 15/16 without a flush step. */
static void press(void)
{
    push_many(GREEDY, 300);
    while (tier_used(s.g) <= s.g->tier.rows_max / 16 * 15)
        ck_assert_int_eq(push_new(GREEDY), 0);
}

START_TEST(a_borrower_waits_while_others_do_not)
{
    struct engine_share_use use[LIMIT_SPACES];
    shares_set(ENGINE_PARTS / 4);
    press();
    ck_assert_int_eq(push_new(GREEDY), SHOAL_E_BUSY);
    ck_assert_uint_eq(engine_short_tables(s.g).word[0], 1u << GREEDY | 1u << STAYS);
    ck_assert_uint_eq(engine_held_tables(s.g).word[0], 1u << GREEDY | 1u << STAYS);
    ck_assert_int_eq(push_new(SMALL), 0);
    (void)engine_shares(s.g, use);
    ck_assert_uint_eq(use[0].waits, 1);
    ck_assert_uint_eq(use[1].waits, 0);
}
END_TEST

START_TEST(above_the_limit_all_wait)
{
    shares_set(ENGINE_PARTS / 4);
    press();
    s.g->tier.rows_max = tier_used(s.g) - 1;
    ck_assert_int_eq(push_new(SMALL), SHOAL_E_BUSY);
    ck_assert(set_is(engine_short_tables(s.g), UINT64_MAX));
}
END_TEST

START_TEST(a_group_that_is_held_asks_for_no_rows)
{
    shares_set(ENGINE_PARTS / 4);
    press();
    ck_assert_uint_gt(cold(GREEDY), 0);
    keys_from(0, KEYS);
    ck_assert(!engine_warm(s.g, GREEDY, p.keys, KEYS));
    ck_assert_uint_eq(s.g->tier.wanted_count, 0);
    /* until there is room */
    for (uint32_t tries = 0; !engine_warm(s.g, GREEDY, p.keys, KEYS); tries++) {
        ck_assert_uint_lt(tries, 1000);
        engine_flush_step(s.g);
        (void)embedding_env_step(&s.env);
    }
}
END_TEST

/* Fetches are in flight when the group becomes held. */
START_TEST(keys_of_a_group_that_is_held_take_no_places)
{
    shares_set(ENGINE_PARTS / 4);
    push_many(GREEDY, 300);
    while (tier_used(s.g) <= s.g->tier.rows_max / 16 * 14)
        ck_assert_int_eq(push_new(GREEDY), 0);
    for (uint32_t i = 0; i < 3; i++) {
        keys_from(i * KEYS, KEYS);
        (void)engine_warm(s.g, GREEDY, p.keys, KEYS);
    }
    ck_assert_uint_gt(s.g->tier.wanted_count, 0); /* two fetches are in flight */
    while (tier_used(s.g) <= s.g->tier.rows_max / 16 * 15)
        ck_assert_int_eq(push_new(SMALL), 0);
    ck_assert_uint_eq(engine_held_tables(s.g).word[0], 1u << GREEDY | 1u << STAYS);
    (void)embedding_env_step(&s.env); /* one of them ends, and no other one begins */
    ck_assert_uint_eq(s.g->tier.wanted_count, 0);
    ck_assert((s.g->tier.fetch[0] == NULL) != (s.g->tier.fetch[1] == NULL));
    ck_assert_uint_eq(engine_held_tables(s.g).word[0], 0); /* rows that have come are used first */
}
END_TEST

/* A share that is hardly larger than a fetch: pushes of old keys get on. */
START_TEST(a_small_share_gets_on)
{
    struct err e = {0};
    shares_set(ENGINE_PARTS / 64);
    push_many(GREEDY, 100);
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 13));
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t tries = 0;
        for (;;) {
            keys_from(i % 20 * KEYS, KEYS);
            if (engine_warm(s.g, GREEDY, p.keys, KEYS) &&
                push_keys(GREEDY, i % 20 * KEYS, KEYS, &e) == 0)
                break;
            ck_assert_uint_lt(++tries, 1000);
            engine_flush_step(s.g);
            (void)embedding_env_step(&s.env);
        }
        engine_flush_step(s.g);
    }
    ck_assert_uint_eq(cold(SMALL), 0);
}
END_TEST

START_TEST(a_smaller_share_counts_at_once)
{
    shares_set(ENGINE_PARTS / 8 * 7);
    push_many(GREEDY, 150);
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 13));
    shares_set(ENGINE_PARTS / 4);
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 13));
    ck_assert_uint_eq(cold(SMALL), 0);
}
END_TEST

/* ---- rows that stay ---- */

START_TEST(rows_that_stay_do_not_borrow)
{
    struct err e = {0};
    shares_set(ENGINE_PARTS / 4);
    int rc = 0;
    while (rc == 0) {
        rc = push_keys(STAYS, next_key[STAYS], 256, &e);
        next_key[STAYS] += 256;
        ck_assert_uint_lt(next_key[STAYS], 1u << 20);
    }
    ck_assert_int_eq(rc, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "space greedy"));
    ck_assert_ptr_nonnull(strstr(e.text, "coordinator.yaml"));
    ck_assert_uint_lt(tier_used(s.g), s.g->tier.rows_max / 16 * 6);
    ck_assert_int_eq(push_new(SMALL), 0);
    /* the group's other rows may leave, so they borrow */
    ck_assert_int_eq(push_new(GREEDY), 0);
}
END_TEST

START_TEST(without_a_store_a_share_is_a_bound)
{
    struct engine_share_use use[LIMIT_SPACES];
    struct err e = {0};
    shares_set(ENGINE_PARTS / 4);
    int rc = 0;
    while (rc == 0) {
        rc = push_keys(GREEDY, next_key[GREEDY], 256, &e);
        next_key[GREEDY] += 256;
        ck_assert_uint_lt(next_key[GREEDY], 1u << 20);
    }
    ck_assert_int_eq(rc, SHOAL_E_NO_SPACE);
    ck_assert_ptr_nonnull(strstr(e.text, "space greedy"));
    uint64_t limit = share_limit(s.g, share_of(s.g, GREEDY), 16),
             used = share_used(s.g, share_of(s.g, GREEDY));
    ck_assert_uint_gt(used, limit);
    ck_assert_uint_lt(used, limit + (256u << 10));
    fill(SMALL, share_limit(s.g, share_of(s.g, SMALL), 15)); /* it has all of its own */
    (void)engine_shares(s.g, use);
    ck_assert_uint_eq(use[0].refused, 1);
    ck_assert_uint_eq(use[1].refused, 0);
    struct engine_stats stats;
    engine_stats_get(s.g, &stats);
    ck_assert(stats.memory_short);
}
END_TEST

/* A list that lacks a space, because it is new, does not stop it. */
START_TEST(without_a_store_tables_of_no_share_are_not_held)
{
    const struct engine_share list[1] = {share_of_tables("greedy", 1u << GREEDY, ENGINE_PARTS)};
    struct err e = {0};
    ck_assert_int_eq(engine_shares_set(s.g, list, 1, &e), 0);
    for (uint32_t i = 0; i < 8; i++)
        ck_assert_int_eq(push_new(SMALL), 0);
}
END_TEST

/* ---- the disk ---- */

START_TEST(the_space_that_grew_most_is_told)
{
    char text[SHARE_GROWN];
    share_grown(s.g, text, sizeof text);
    ck_assert_str_eq(text, "");
    shares_set(ENGINE_PARTS / 2);
    push_many(SMALL, 3);
    share_stored(s.g);
    push_many(SMALL, 1);
    push_many(GREEDY, 2);
    share_grown(s.g, text, sizeof text);
    ck_assert_ptr_nonnull(strstr(text, "space greedy"));
}
END_TEST

/* ---- at random, beside a model ---- */

/* The rows of each table in the store when they were last looked at; and whether its group had more
 * than 14/16 of its share at some time since none of its rows was on its way to the store. */
static struct known {
    uint64_t cold;
    bool over;
} known[TABLES];

static void look(void)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        const struct tier_group *group = share_of(s.g, i);
        known[i].cold = cold(i);
        known[i].over |= share_used(s.g, group) > share_limit(s.g, group, 14);
    }
}

/* The rule: rows of a group are chosen only while it has more than 14/16 of its share. */
static void judge(void)
{
    for (uint32_t i = 0; i < TABLES; i++) {
        const struct tier_group *group = share_of(s.g, i);
        ck_assert_msg(known[i].over || cold(i) <= known[i].cold,
                      "rows of table %u left with %" PRIu64 " bytes, of %" PRIu64, i,
                      share_used(s.g, group), share_limit(s.g, group, 14));
        if (s.g->tier.leaving_count == 0)
            known[i].over = false;
    }
}

static void shares_random(struct rng *r)
{
    struct engine_share list[2];
    struct err e = {0};
    uint32_t parts = ENGINE_PARTS / 4 + (uint32_t)rng_below(r, ENGINE_PARTS / 2);
    list[0] = share_of_tables("greedy", 1u << GREEDY, parts);
    list[1] = share_of_tables("small", 1u << SMALL, ENGINE_PARTS - parts);
    ck_assert_int_eq(engine_shares_set(s.g, list, 2, &e), 0);
}

START_TEST(shares_are_kept_at_random)
{
    static const uint32_t of[2] = {GREEDY, SMALL};
    struct rng r = rng_of((uint64_t)_i + 1, 17, 4);
    struct err e = {0};
    uint32_t waited = 0;
    memset(known, 0, sizeof known);
    shares_random(&r);
    for (uint32_t i = 0; i < 3000; i++) {
        uint32_t table = of[rng_below(&r, 5) == 0];
        /* keys of rows in the store take memory, too */
        bool fresh =
            next_key[table] < MOST_KEYS && (rng_below(&r, 3) != 0 || next_key[table] < 4 * KEYS);
        uint64_t first = fresh ? next_key[table] : rng_below(&r, next_key[table] - KEYS);
        uint32_t count = fresh ? 256 : 64;
        if (rng_below(&r, 400) == 0)
            shares_random(&r);
        keys_from(first, count);
        look();
        int rc = SHOAL_E_BUSY;
        if (engine_warm(s.g, table, p.keys, count))
            rc = push_keys(table, first, count, &e);
        judge();
        ck_assert_msg(rc == 0 || rc == SHOAL_E_BUSY, "%s", e.text);
        if (rc == 0 && fresh)
            next_key[table] += count;
        ck_assert_uint_eq(table_rows(engine_table(s.g, table)), next_key[table]);
        waited = rc == 0 ? 0 : waited + 1;
        ck_assert_uint_lt(waited, 500);
        look();
        engine_flush_step(s.g);
        judge();
        for (uint64_t n = rng_below(&r, 3) + (rc != 0); n > 0; n--) {
            look();
            (void)embedding_env_step(&s.env);
            judge();
        }
        ck_assert_uint_le(tier_used(s.g), s.g->tier.rows_max + (1u << 20));
    }
    ck_assert_uint_gt(cold(GREEDY) + cold(SMALL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("share");
    TCase *c = tcase_create("store"), *m = tcase_create("memory");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, shares_that_cannot_be_are_refused);
    tcase_add_test(c, shares_make_the_whole);
    tcase_add_test(c, bytes_of_all_groups_are_the_memory);
    tcase_add_test(c, figures_are_by_share);
    tcase_add_test(c, a_group_within_its_share_keeps_its_rows);
    tcase_add_test(c, the_group_furthest_over_its_share_gives);
    tcase_add_test(c, without_shares_rows_of_all_tables_leave);
    tcase_add_test(c, free_memory_may_be_borrowed);
    tcase_add_test(c, a_borrower_gives_back_first);
    tcase_add_test(c, a_group_within_its_share_waits_for_one_batch_at_most);
    tcase_add_test(c, a_borrower_waits_while_others_do_not);
    tcase_add_test(c, above_the_limit_all_wait);
    tcase_add_test(c, a_group_that_is_held_asks_for_no_rows);
    tcase_add_test(c, keys_of_a_group_that_is_held_take_no_places);
    tcase_add_test(c, a_small_share_gets_on);
    tcase_add_test(c, a_smaller_share_counts_at_once);
    tcase_add_test(c, rows_that_stay_do_not_borrow);
    tcase_add_test(c, the_space_that_grew_most_is_told);
    tcase_add_loop_test(c, shares_are_kept_at_random, 0, 8);
    suite_add_tcase(suite, c);
    tcase_add_checked_fixture(m, setup_memory, teardown);
    tcase_add_test(m, without_a_store_a_share_is_a_bound);
    tcase_add_test(m, without_a_store_tables_of_no_share_are_not_held);
    suite_add_tcase(suite, m);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
