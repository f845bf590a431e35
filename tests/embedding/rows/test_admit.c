/* test_admit.c: which keys get a row, and what the others get instead. */
#include "embedding/rows/init.h"
#include "proto/base/isa.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#define KEY 77u

static const struct stats_batch noon = {.time = FIRST_DAY + DAY / 2};

static struct table_schema admit(enum admit_kind kind, float threshold)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 2);
    s.rules.admit_kind = kind;
    s.rules.admit_threshold = threshold;
    return s;
}

static struct table_counts counts_of(const struct rows *r)
{
    struct table_counts c;
    table_counts_get(r->table, &c);
    return c;
}

/* Shows count, with a sketch and without. The push that reaches the threshold creates the row,
 * which takes its gradient. */
START_TEST(row_is_made_at_its_count)
{
    struct table_schema s = admit(ADMIT_COUNT, 20), all = admit(ADMIT_ALL, 0);
    s.rules.admit_sketch = _i == 0 ? 0 : 4096;
    struct rows r = rows_open(&s), once = rows_open(&all);
    stats_push(&r, KEY, 0.5f, 12, 3, noon);
    stats_push(&r, KEY, 0.5f, 7, 0, noon);
    ck_assert(!stats_has(&r, KEY));
    ck_assert_uint_eq(counts_of(&r).not_admitted, 2);
    ck_assert_uint_eq(counts_of(&r).waiting, 1);
    ck_assert_uint_gt(counts_of(&r).beside_bytes, 0);
    stats_push(&r, KEY, 0.25f, 1, 1, noon);
    stats_push(&once, KEY, 0.25f, 1, 1, noon);
    ck_assert(stats_has(&r, KEY));
    ck_assert_uint_eq(counts_of(&r).admitted, 1);
    /* statistics of its own pushes only */
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(once.table));
    if (_i == 0)
        ck_assert_uint_eq(counts_of(&r).waiting, 0);
    rows_close(&r);
    rows_close(&once);
}
END_TEST

/* A sketch counts shows rounded to whole numbers. */
START_TEST(a_sketch_counts_to_the_nearest)
{
    static const struct {
        float show;
        bool in;
    } shows[] = {{1.4f, false}, {1.5f, true}, {2.4f, true}, {0.4f, false}};
    for (size_t i = 0; i < sizeof shows / sizeof shows[0]; i++) {
        struct table_schema s = admit(ADMIT_COUNT, 2);
        s.rules.admit_sketch = 4096;
        struct rows r = rows_open(&s);
        stats_push(&r, KEY, 0.5f, shows[i].show, 0, noon);
        ck_assert_int_eq(stats_has(&r, KEY), shows[i].in);
        rows_close(&r);
    }
}
END_TEST

START_TEST(an_appearance_is_a_batch_without_statistics)
{
    struct table_schema s = rows_schema(OPT_SGD, 3, 0);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    struct rows r = rows_open(&s);
    for (int i = 0; i < 3; i++) {
        ck_assert(!stats_has(&r, KEY));
        stats_push(&r, KEY, 1, 0, 0, (struct stats_batch){0});
    }
    ck_assert(stats_has(&r, KEY));
    rows_close(&r);
}
END_TEST

START_TEST(row_begins_with_the_statistics_that_its_score_came_from)
{
    struct table_schema s = admit(ADMIT_SCORE, 2);
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.5f, 8, 0, noon); /* 0.8 */
    stats_push(&r, KEY, 0.5f, 3, 0, noon); /* 1.1 */
    ck_assert(!stats_has(&r, KEY));
    stats_push(&r, KEY, 0.5f, 1, 1, noon); /* 2.1 */
    struct row_stats found = stats_of(&r, KEY);
    ck_assert(found.show == 12 && found.click == 1);
    ck_assert_float_eq_tol(found.delta_score, 2.1f, 1e-6f);
    rows_close(&r);
}
END_TEST

static uint32_t made(float p, float show, uint32_t lane, uint64_t batch, uint64_t seed)
{
    struct table_schema s = admit(ADMIT_PROBABILITY, p);
    uint32_t rows = 0;
    s.seed = seed;
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < 10000; i++)
        stats_push(&r, rows_key(i), 0.5f, show, 0,
                   (struct stats_batch){.lane = lane, .batch = batch});
    rows = (uint32_t)table_rows(r.table);
    rows_close(&r);
    return rows;
}

/* About `chance` of 10,000 keys are admitted (within five deviations), drawn anew for each lane,
 * batch and table. */
START_TEST(chance_is_drawn_by_appearance)
{
    ck_assert_uint_eq(made(0, 1, 0, 1, 1), 0);
    ck_assert_uint_eq(made(1, 1, 0, 1, 1), 10000);
    uint32_t found = made(0.3f, 1, 0, 1, 1);
    ck_assert_uint_eq(found, 2983); /* the same in every release */
    ck_assert(found > 2770 && found < 3230);
    ck_assert_uint_eq(found, made(0.3f, 1, 0, 1, 1));
    uint32_t more = made(0.3f, 3, 0, 1, 1); /* 1 - 0.7^3 = 0.657 */
    ck_assert(more > 6330 && more < 6810);
    ck_assert(made(0.3f, 1, 1, 1, 1) != found || made(0.3f, 1, 2, 1, 1) != found);
    ck_assert(made(0.3f, 1, 0, 2, 1) != found || made(0.3f, 1, 0, 3, 1) != found);
    ck_assert(made(0.3f, 1, 0, 1, 2) != found || made(0.3f, 1, 0, 1, 3) != found);
}
END_TEST

START_TEST(fields_have_rules_of_their_own)
{
    struct table_schema s = admit(ADMIT_COUNT, 2);
    s.field_rule_count = 2;
    s.field_rule[0] =
        (struct field_rule){.field = 3, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_ALL};
    s.field_rule[1] =
        (struct field_rule){.field = 4, .has = FIELD_HAS_ADMIT, .admit_kind = ADMIT_NONE};
    struct rows r = rows_open(&s);
    uint64_t key[3] = {key_make(2, 1), key_make(3, 1), key_make(4, 1)};
    float expected[3];
    for (int k = 0; k < 3; k++) {
        for (uint32_t i = 0; i < 3; i++)
            expected[i] = 0;
        if (k == 1)
            init_weights(&s, key[k], expected);
        ck_assert_float_eq(stats_weight(&r, key[k], 1), expected[1]); /* absent */
        stats_push(&r, key[k], 0.5f, 1, 0, noon);
        ck_assert(stats_has(&r, key[k]) == (k == 1));
    }
    stats_push(&r, key[0], 0.5f, 1, 0, noon);
    ck_assert(stats_has(&r, key[0]));
    for (int i = 0; i < 1000; i++)
        stats_push(&r, key[2], 0.5f, 50, 50, noon);
    ck_assert(!stats_has(&r, key[2]));
    rows_close(&r);
}
END_TEST

/* A row that was evicted does not come back because of an old count. */
START_TEST(a_row_leaves_no_count_behind)
{
    struct table_schema s = admit(ADMIT_COUNT, 3);
    s.rules.age_every = 7 * DAY;
    s.rules.age_score = 1000;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.5f, 2, 0, noon);
    stats_push(&r, KEY, 0.5f, 1, 0, noon);
    ck_assert(stats_has(&r, KEY));
    for (uint32_t day = 1; day < 9; day++)
        stats_tick(&r, noon.time + day * DAY);
    ck_assert(!stats_has(&r, KEY));
    ck_assert_uint_eq(counts_of(&r).aged, 1);
    stats_push(&r, KEY, 0.5f, 2, 0, (struct stats_batch){.time = noon.time + 8 * DAY});
    ck_assert(!stats_has(&r, KEY));
    rows_close(&r);
}
END_TEST

/* A tablet that ages daily forgets a key that is seen once a week, and not one that is seen
 * daily. */
START_TEST(ageing_forgets_those_that_wait)
{
    struct table_schema s = admit(ADMIT_COUNT, 4);
    s.rules.admit_sketch = _i == 0 ? 0 : 4096;
    s.rules.age_every = DAY;
    struct rows r = rows_open(&s);
    for (uint32_t day = 0; day < 40; day++) {
        if (day % 7 == 0)
            stats_push(&r, 1, 0.5f, 1, 0, (struct stats_batch){.time = noon.time + day * DAY});
        if (day < 4)
            stats_push(&r, 2, 0.5f, 1, 0, (struct stats_batch){.time = noon.time + day * DAY});
        stats_tick(&r, noon.time + day * DAY);
    }
    ck_assert(!stats_has(&r, 1));
    ck_assert(stats_has(&r, 2));
    rows_close(&r);
}
END_TEST

/* 50,000 keys are seen once: memory stays bounded. */
START_TEST(those_that_wait_are_bounded)
{
    struct table_schema s = admit(ADMIT_COUNT, 4);
    s.rules.admit_sketch = _i == 0 ? 0 : 1024;
    s.rules.admit_waiting = _i == 0 ? 1000 : 0;
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < 50000; i++)
        stats_push(&r, rows_key(i), 0.5f, 1, 0, noon);
    ck_assert_uint_le(counts_of(&r).waiting, 4 * 1000);
    ck_assert_uint_le(counts_of(&r).beside_bytes, 4 * (2 * 1024 * 16 + 4096));
    ck_assert_uint_le(table_rows(r.table), _i == 0 ? 0 : 50);
    rows_close(&r);
}
END_TEST

/* bsp computes a batch again from the rows before its clock: zeros for a key that was admitted in
 * this clock. */
START_TEST(undo_of_a_new_row_is_zeros)
{
    struct table_schema s = admit(ADMIT_COUNT, 2);
    struct rows r = rows_open(&s);
    const uint64_t key = KEY;
    float before[3];
    stats_push(&r, KEY, 0.5f, 1, 0, (struct stats_batch){.undo_clock = 4});
    stats_push(&r, KEY, 0.5f, 1, 0, (struct stats_batch){.undo_clock = 5});
    stats_push(&r, KEY, 0.5f, 1, 0, (struct stats_batch){.undo_clock = 5});
    ck_assert(stats_weight(&r, KEY, 0) != 0);
    pull_before(r.table, &key, 1, 5, before);
    for (int i = 0; i < 3; i++)
        ck_assert(before[i] == 0);
    rows_close(&r);
}
END_TEST

/* At every vector level, and among keys that have rows. */
START_TEST(pull_gives_zeros_to_those_that_wait)
{
    struct table_schema s = admit(ADMIT_COUNT, 2);
    isa_limit((enum isa)_i);
    struct rows r = rows_open(&s);
    uint64_t keys[300];
    float rows[900];
    for (uint64_t i = 0; i < 300; i++) {
        keys[i] = rows_key(i);
        stats_push(&r, keys[i], 0.5f, i % 3 == 0 ? 2 : 1, 0, noon);
    }
    table_pull(r.table, keys, 300, rows);
    for (uint64_t i = 0; i < 300; i++)
        for (int k = 0; k < 3; k++)
            ck_assert((rows[3 * i + (uint64_t)k] != 0) == (i % 3 == 0));
    rows_close(&r);
    isa_limit(ISA_AVX512);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("admit");
    TCase *c = tcase_create("admit");
    tcase_add_loop_test(c, row_is_made_at_its_count, 0, 2);
    tcase_add_test(c, a_sketch_counts_to_the_nearest);
    tcase_add_test(c, an_appearance_is_a_batch_without_statistics);
    tcase_add_test(c, row_begins_with_the_statistics_that_its_score_came_from);
    tcase_add_test(c, chance_is_drawn_by_appearance);
    tcase_add_test(c, fields_have_rules_of_their_own);
    tcase_add_test(c, a_row_leaves_no_count_behind);
    tcase_add_loop_test(c, ageing_forgets_those_that_wait, 0, 2);
    tcase_add_loop_test(c, those_that_wait_are_bounded, 0, 2);
    tcase_add_test(c, undo_of_a_new_row_is_zeros);
    tcase_add_loop_test(c, pull_gives_zeros_to_those_that_wait, 0, 3);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
