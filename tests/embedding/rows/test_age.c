/* test_age.c: clocks, boundaries, and the rows that go or stay. */
#include "embedding/rows/age.h"
#include "embedding/rows/table_inner.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

#define KEY 77u
#define NOON (FIRST_DAY + DAY / 2)

static struct table_schema ageing(uint32_t tablet_bits)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, tablet_bits);
    s.rules.age_every = DAY;
    return s;
}

static void push_at(struct rows *r, uint64_t key, float show, uint32_t time)
{
    stats_push(r, key, 0.5f, show, 0, (struct stats_batch){.time = time});
}

/* Lets days pass one by one, as in a log. */
static void days_pass(struct rows *r, uint32_t from, uint32_t days)
{
    for (uint32_t i = 1; i <= days; i++)
        stats_tick(r, from + i * DAY);
}

static struct table_counts counts_of(const struct rows *r)
{
    struct table_counts c;
    table_counts_get(r->table, &c);
    return c;
}

START_TEST(each_boundary_decays_once)
{
    struct table_schema s = ageing(0);
    s.rules.age_decay = 0.5f;
    struct rows r = rows_open(&s);
    stats_push(&r, KEY, 0.5f, 64, 32, (struct stats_batch){.time = NOON});
    stats_tick(&r, NOON + DAY / 2 - 1);
    ck_assert(stats_of(&r, KEY).show == 64);
    stats_tick(&r, NOON + DAY / 2); /* midnight */
    ck_assert(stats_of(&r, KEY).show == 32 && stats_of(&r, KEY).click == 16);
    stats_tick(&r, NOON + DAY);
    ck_assert(stats_of(&r, KEY).show == 32);
    days_pass(&r, NOON + DAY, 3);
    ck_assert(stats_of(&r, KEY).show == 4);
    /* A push ages the row before it adds. */
    push_at(&r, KEY, 1, NOON + 5 * DAY);
    ck_assert(stats_of(&r, KEY).show == 3);
    rows_close(&r);
}
END_TEST

/* Several boundaries at once give the same result as one by one; beyond 64, nearly the same. */
START_TEST(boundaries_at_once_are_as_one_by_one)
{
    struct table_schema s = ageing(2);
    s.rules.age_every = 600;
    s.rules.age_decay = 0.99f;
    s.rules.age_score = 0.5f;
    struct rows a = rows_open(&s), b = rows_open(&s);
    for (uint64_t i = 0; i < 400; i++) {
        push_at(&a, rows_key(i), (float)i / 4, NOON);
        push_at(&b, rows_key(i), (float)i / 4, NOON);
    }
    stats_tick(&a, NOON + 6 * 3600); /* 36 */
    for (uint32_t i = 1; i <= 36; i++)
        stats_tick(&b, NOON + i * 600);
    ck_assert_uint_eq(rows_digest(a.table), rows_digest(b.table));
    ck_assert(table_rows(a.table) > 0 && table_rows(a.table) < 400);
    uint64_t key = rows_key(399);
    stats_tick(&a, NOON + 18 * 3600); /* 72 more */
    for (uint32_t i = 1; i <= 72; i++)
        stats_tick(&b, NOON + 6 * 3600 + i * 600);
    ck_assert_float_eq_tol(stats_of(&a, key).show, stats_of(&b, key).show, 1e-4f);
    rows_close(&a);
    rows_close(&b);
}
END_TEST

START_TEST(tablets_age_one_after_the_other)
{
    struct table_schema s = ageing(3);
    s.rules.age_decay = 0.5f;
    struct rows r = rows_open(&s);
    uint64_t key[8];
    for (uint64_t i = 0, found = 0; found < 8; i++) {
        uint32_t tablet = key_tablet(key_mix(rows_key(i)), 3);
        if (tablet == found)
            key[found++] = rows_key(i);
    }
    for (int i = 0; i < 8; i++)
        push_at(&r, key[i], 8, FIRST_DAY + 1);
    for (uint32_t hour = 1; hour <= 24; hour++) {
        stats_tick(&r, FIRST_DAY + 1 + hour * 3600);
        uint32_t aged = 0;
        for (int i = 0; i < 8; i++)
            aged += stats_of(&r, key[i]).show == 4;
        ck_assert_uint_eq(aged, hour / 3);
    }
    rows_close(&r);
}
END_TEST

START_TEST(low_scores_go_and_others_stay_as_they_were)
{
    struct table_schema s = ageing(2);
    s.rules.age_score = 5;
    struct rows r = rows_open(&s), expected = rows_open(&s);
    for (uint64_t i = 0; i < 2000; i++) {
        push_at(&r, rows_key(i), i % 2 ? 60 : 40, NOON);
        if (i % 2)
            push_at(&expected, rows_key(i), 60, NOON);
    }
    stats_tick(&r, NOON + DAY);
    ck_assert_uint_eq(table_rows(r.table), 1000);
    ck_assert_uint_eq(counts_of(&r).aged, 1000);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(expected.table));
    push_at(&r, rows_key(0), 1, NOON + DAY); /* a new life */
    ck_assert(stats_of(&r, rows_key(0)).show == 1);
    rows_close(&r);
    rows_close(&expected);
}
END_TEST

/* A row with exactly the score stays. */
START_TEST(the_score_itself_is_enough)
{
    struct table_schema s = ageing(0);
    s.rules.age_score = 5;
    s.rules.score_show = 0.5f;
    struct rows r = rows_open(&s);
    push_at(&r, rows_key(0), 10, NOON);
    push_at(&r, rows_key(1), nextafterf(10, 0), NOON);
    stats_tick(&r, NOON + DAY);
    ck_assert(stats_has(&r, rows_key(0)) && !stats_has(&r, rows_key(1)));
    rows_close(&r);
}
END_TEST

/* A waiting key is forgotten at the second boundary, even if one push passes both. */
START_TEST(who_waits_is_forgotten_after_two_boundaries)
{
    for (uint32_t sketch = 0; sketch < 2; sketch++)
        for (uint32_t turns = 1; turns <= 3; turns++) {
            struct table_schema s = ageing(0);
            s.rules.age_every = 600;
            s.rules.admit_kind = ADMIT_COUNT;
            s.rules.admit_threshold = 3;
            s.rules.admit_sketch = sketch * 4096;
            struct rows r = rows_open(&s);
            push_at(&r, KEY, 2, NOON);
            push_at(&r, KEY, 1, NOON + turns * 600);
            ck_assert_int_eq(stats_has(&r, KEY), turns == 1);
            rows_close(&r);
        }
}
END_TEST

/* The tablet's count of batches, which l2 uses, stays when rows go. */
START_TEST(a_tablet_counts_its_batches_over_ageing)
{
    struct table_schema s = ageing(0);
    s.rules.age_score = 5;
    s.optimizer.l2 = 0.01f;
    struct rows r = rows_open(&s);
    push_at(&r, rows_key(0), 100, NOON);
    push_at(&r, rows_key(1), 1, NOON);
    stats_tick(&r, NOON + DAY);
    ck_assert(stats_has(&r, rows_key(0)) && !stats_has(&r, rows_key(1)));
    ck_assert_uint_eq(r.table->tablets[0].batches, 3);
    rows_close(&r);
}
END_TEST

/* Rows that were evicted in a clock have undo: the image of a table that only evicts has more undo
 * than rows. */
START_TEST(undo_of_evicted_rows_is_in_the_image)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 3, 0);
    s.rules.age_capacity = 8;
    s.rules.age_by = EVICT_LRU;
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < 30; i++)
        stats_push(&r, rows_key(i), 0.5f, 1, 0,
                   (struct stats_batch){.time = NOON + (uint32_t)i, .undo_clock = 9});
    ck_assert_uint_le(table_rows(r.table), 8);
    ck_assert_uint_gt(r.table->tablets[0].undo->count, 8);
    struct rows again = stats_through_images(&r);
    ck_assert_uint_eq(rows_digest(again.table), rows_digest(r.table));
    rows_close(&again);
    rows_close(&r);
}
END_TEST

/* The memory of evicted rows is reused. */
START_TEST(rows_that_went_leave_no_trace)
{
    struct table_schema s = ageing(1);
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    uint64_t bytes = 0;
    for (uint32_t week = 0; week < 20; week++) {
        for (uint64_t i = 0; i < 20000; i++)
            push_at(&r, rows_key(week * 20000 + i), 1, NOON + week * 7 * DAY);
        days_pass(&r, NOON + week * 7 * DAY, 6);
        ck_assert_uint_eq(table_rows(r.table), 0);
        if (week == 1)
            bytes = arena_bytes(r.arena);
    }
    ck_assert_uint_eq(arena_bytes(r.arena), bytes);
    ck_assert_uint_eq(counts_of(&r).expired, 20 * 20000);
    rows_close(&r);
}
END_TEST

START_TEST(ttl_counts_from_the_last_push_and_by_field)
{
    struct table_schema s = ageing(0);
    s.rules.age_ttl = 3 * DAY;
    s.field_rule_count = 2;
    s.field_rule[0] = (struct field_rule){.field = 3, .has = FIELD_HAS_TTL, .ttl = DAY};
    s.field_rule[1] = (struct field_rule){.field = 4, .has = FIELD_HAS_TTL, .ttl = 0};
    struct rows r = rows_open(&s);
    uint64_t key[4] = {key_make(2, 1), key_make(3, 1), key_make(4, 1), key_make(2, 2)};
    for (int i = 0; i < 4; i++)
        push_at(&r, key[i], 1, NOON);
    static const bool there[][4] = {{1, 1, 1, 1}, {1, 0, 1, 1}, {1, 0, 1, 1}, {0, 0, 1, 1},
                                    {0, 0, 1, 1}, {0, 0, 1, 0}, {0, 0, 1, 0}};
    for (uint32_t day = 0; day < 7; day++) {
        if (day == 2)
            push_at(&r, key[3], 1, NOON + 2 * DAY + DAY / 4);
        stats_tick(&r, NOON + (day + 1) * DAY); /* past a midnight */
        for (int i = 0; i < 4; i++)
            ck_assert_msg(stats_has(&r, key[i]) == there[day][i], "day %u key %d", day, i);
    }
    rows_close(&r);
}
END_TEST

/* Exact to the second, and as of the boundary, not of the push that passed it: a row in the store
 * does not know the push. */
START_TEST(ttl_ends_behind_its_last_second)
{
    const uint32_t midnight = NOON + DAY / 2;
    struct table_schema s = ageing(0);
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    push_at(&r, 5, 1, midnight - 1);
    push_at(&r, KEY, 1, midnight);
    stats_tick(&r, midnight + DAY / 2);
    stats_tick(&r, midnight + DAY + 100);
    ck_assert(!stats_has(&r, 5));
    ck_assert(stats_has(&r, KEY));
    rows_close(&r);
}
END_TEST

/* A stamp from the future advances the clock by a day, then the clock waits until time catches up.
 * A stamp from the past has no effect. */
START_TEST(a_stamp_in_the_future_does_not_poison)
{
    struct table_schema s = ageing(0);
    s.rules.age_ttl = 3 * DAY;
    struct rows r = rows_open(&s);
    push_at(&r, KEY, 1, NOON);
    push_at(&r, 5, 1, 4000000000u);
    ck_assert_uint_eq(stats_of(&r, 5).time, NOON + DAY);
    ck_assert(stats_has(&r, KEY));
    push_at(&r, KEY, 1, NOON + 60);
    ck_assert_uint_eq(stats_of(&r, KEY).time, NOON + DAY);
    push_at(&r, KEY, 1, 1000);
    ck_assert_uint_eq(stats_of(&r, KEY).time, NOON + DAY);
    push_at(&r, KEY, 1, NOON + 2 * DAY);
    ck_assert_uint_eq(stats_of(&r, KEY).time, NOON + 2 * DAY);
    rows_close(&r);
}
END_TEST

START_TEST(rows_of_no_time_do_not_expire)
{
    struct table_schema s = ageing(0);
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    push_at(&r, KEY, 1, 0);
    days_pass(&r, NOON, 10);
    ck_assert(stats_has(&r, KEY));
    rows_close(&r);
}
END_TEST

/* A push advances only the tablets that it covers. */
START_TEST(a_tablet_that_skips_a_push_does_not_age)
{
    struct table_schema s = ageing(1);
    s.rules.age_decay = 0.5f;
    struct rows r = rows_open(&s);
    uint64_t key[2] = {0, 0};
    for (uint64_t i = 0; key[0] == 0 || key[1] == 0; i++)
        key[key_tablet(key_mix(rows_key(i)), 1)] = rows_key(i);
    const uint8_t take[2] = {0, 1};
    push_at(&r, key[0], 8, FIRST_DAY + 1);
    push_at(&r, key[1], 8, FIRST_DAY + 1);
    struct push_args args = stats_args(&s, (struct stats_batch){.time = FIRST_DAY + 1 + DAY});
    args.take = take;
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &args), 0);
    ck_assert(stats_of(&r, key[0]).show == 8 && stats_of(&r, key[1]).show == 4);
    args.take = NULL;
    args.tablet_count = 1; /* only the first */
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &args), 0);
    ck_assert(stats_of(&r, key[0]).show == 4 && stats_of(&r, key[1]).show == 4);
    rows_close(&r);
}
END_TEST

/* ---- room ---- */

START_TEST(the_least_go_when_a_tablet_is_full)
{
    struct table_schema s = stats_schema(OPT_SGD, 3, 0);
    s.rules.age_capacity = 1600;
    s.rules.age_by = _i == 0 ? EVICT_LRU : EVICT_SCORE;
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < 1600; i++) { /* falling scores, or rising times */
        uint64_t n = (i * 7) % 1600;
        push_at(&r, rows_key(n), (float)(2000 - (_i == 0 ? 0 : n)),
                _i == 0 ? NOON + (uint32_t)i : 0);
        ck_assert_uint_eq(table_rows(r.table), i + 1);
    }
    push_at(&r, rows_key(5000), 100000, NOON + 1600);
    ck_assert_uint_eq(table_rows(r.table), 1500);
    ck_assert_uint_eq(counts_of(&r).evicted, 101);
    for (uint64_t i = 0; i < 1600; i++) {
        uint64_t n = (i * 7) % 1600;
        ck_assert(stats_has(&r, rows_key(n)) == (_i == 0 ? i >= 101 : n < 1499));
    }
    ck_assert(stats_has(&r, rows_key(5000)));
    rows_close(&r);
}
END_TEST

START_TEST(ties_go_by_mixed_key)
{
    struct table_schema s = stats_schema(OPT_SGD, 3, 0);
    s.rules.age_capacity = 64;
    struct rows r = rows_open(&s);
    uint64_t keys[65];
    for (uint64_t i = 0; i < 65; i++) {
        keys[i] = key_make((uint32_t)(i % 5) + 1, i);
        push_at(&r, keys[i], 1, NOON);
    }
    qsort(keys, 65, sizeof keys[0], key_by_mixed);
    for (int i = 0; i < 65; i++)
        ck_assert(stats_has(&r, keys[i]) == (i >= 5));
    rows_close(&r);
}
END_TEST

START_TEST(room_for_one_row_keeps_one)
{
    struct table_schema s = stats_schema(OPT_SGD, 3, 0);
    s.rules.age_capacity = 1;
    struct rows r = rows_open(&s);
    for (uint32_t i = 0; i < 50; i++) {
        push_at(&r, rows_key(i), 1, NOON + i);
        ck_assert_uint_eq(table_rows(r.table), 1);
        ck_assert(stats_has(&r, rows_key(i)));
    }
    rows_close(&r);
}
END_TEST

/* bsp: the undo of rows that were evicted in a clock is their former value, also through an
 * image. */
START_TEST(undo_knows_rows_that_went)
{
    struct table_schema s = ageing(0);
    s.rules.age_ttl = DAY;
    s.rules.age_capacity = 100;
    struct rows r = rows_open(&s);
    uint64_t keys[101];
    float before[303], found[303];
    for (uint64_t i = 0; i < 100; i++) {
        keys[i] = rows_key(i);
        stats_push(&r, keys[i], 0.5f, 1, 0,
                   (struct stats_batch){.time = NOON + (uint32_t)i, .undo_clock = 3});
    }
    keys[100] = rows_key(100);
    table_pull(r.table, keys, 101, before);
    stats_push(&r, keys[100], 0.5f, 1, 0,
               (struct stats_batch){.time = NOON + 200, .undo_clock = 4});
    ck_assert_uint_eq(table_rows(r.table), 93);
    pull_before(r.table, keys, 101, 4, found);
    ck_assert_mem_eq(before, found, sizeof before);
    struct rows copy = stats_through_images(&r);
    pull_before(copy.table, keys, 101, 4, found);
    ck_assert_mem_eq(before, found, sizeof before);
    table_pull(r.table, keys, 101, before);
    struct push_args tick =
        stats_args(&s, (struct stats_batch){.time = NOON + DAY, .undo_clock = 5});
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &tick), 0);
    tick.event_time = NOON + 2 * DAY; /* the same clock again: all of them go */
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &tick), 0);
    ck_assert_uint_eq(table_rows(r.table), 0);
    pull_before(r.table, keys, 101, 5, found);
    ck_assert_mem_eq(before, found, sizeof before);
    rows_close(&r);
    rows_close(&copy);
}
END_TEST

static uint64_t beside(const struct rows *r)
{
    struct table_counts c;
    table_counts_get(r->table, &c);
    return c.beside_bytes;
}

/* Undo of rows that were evicted under bsp takes memory until the table's next clock, whichever
 * tablet that touches. */
START_TEST(undo_of_rows_that_went_is_memory_for_one_clock)
{
    struct table_schema s = ageing(2);
    uint64_t keys[400], other = 0;
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    for (uint64_t i = 0; i < 400; i++) {
        keys[i] = rows_key(i);
        stats_push(
            &r, keys[i], 0.5f, 1, 0,
            (struct stats_batch){.time = NOON, .undo_clock = table_undo_clock(7, 1 + i / 10)});
    }
    uint64_t steady = beside(&r), rows_bytes = 400 * (sizeof(uint64_t) + s.width * sizeof(float));
    ck_assert_uint_gt(steady, 0); /* the undo of the last clocks counts */
    for (uint32_t day = 1; day <= 3; day++) {
        struct push_args tick =
            stats_args(&s, (struct stats_batch){.time = NOON + day * DAY,
                                                .undo_clock = table_undo_clock(7, 50)});
        ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &tick), 0);
    }
    ck_assert_uint_eq(table_rows(r.table), 0);
    ck_assert_uint_ge(beside(&r), steady + rows_bytes / 2);
    stats_push(&r, keys[other], 0.5f, 1, 0,
               (struct stats_batch){.time = NOON, .undo_clock = table_undo_clock(8, 1)});
    /* another run's clock does not count for this one */
    ck_assert_uint_ge(beside(&r), steady + rows_bytes / 4);
    stats_push(&r, keys[other], 0.5f, 1, 0,
               (struct stats_batch){.time = NOON, .undo_clock = table_undo_clock(7, 51)});
    ck_assert_uint_lt(beside(&r), steady);
    table_undo_drop(r.table, 7);
    struct table_counts c;
    table_counts_get(r.table, &c);
    ck_assert_uint_lt(c.beside_bytes, steady / 4);
    rows_close(&r);
}
END_TEST

/* In a replay, records from before a tablet's image are applied to other tablets. */
START_TEST(undo_of_rows_that_went_outlives_pushes_that_its_tablet_does_not_take)
{
    struct table_schema s = ageing(2);
    uint8_t take[4] = {0};
    float weights[64], before[64];
    s.rules.age_ttl = DAY;
    struct rows r = rows_open(&s);
    uint64_t key = rows_key(1);
    stats_push(&r, key, 0.5f, 1, 0,
               (struct stats_batch){.time = NOON, .undo_clock = table_undo_clock(7, 1)});
    table_pull(r.table, &key, 1, weights);
    for (uint32_t day = 1; day <= 3; day++) {
        struct push_args tick =
            stats_args(&s, (struct stats_batch){.time = NOON + day * DAY,
                                                .undo_clock = table_undo_clock(7, 4)});
        ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &tick), 0);
    }
    ck_assert(!stats_has(&r, key));
    take[(key_tablet(key_mix(key), 2) + 1) % 4] = 1;
    struct push_args late =
        stats_args(&s, (struct stats_batch){.undo_clock = table_undo_clock(7, 9)});
    late.take = take;
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &late), 0);
    pull_before(r.table, &key, 1, table_undo_clock(7, 4), before);
    ck_assert_mem_eq(before, weights, s.width * sizeof *weights);
    late.take = NULL;
    ck_assert_int_eq(table_push(r.table, NULL, NULL, 0, &late), 0);
    pull_before(r.table, &key, 1, table_undo_clock(7, 4), before);
    ck_assert_mem_ne(before, weights, s.width * sizeof *weights);
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("age");
    TCase *c = tcase_create("age");
    tcase_set_timeout(c, 60);
    tcase_add_test(c, each_boundary_decays_once);
    tcase_add_test(c, boundaries_at_once_are_as_one_by_one);
    tcase_add_test(c, tablets_age_one_after_the_other);
    tcase_add_test(c, low_scores_go_and_others_stay_as_they_were);
    tcase_add_test(c, the_score_itself_is_enough);
    tcase_add_test(c, who_waits_is_forgotten_after_two_boundaries);
    tcase_add_test(c, a_tablet_counts_its_batches_over_ageing);
    tcase_add_test(c, undo_of_evicted_rows_is_in_the_image);
    tcase_add_test(c, rows_that_went_leave_no_trace);
    tcase_add_test(c, ttl_counts_from_the_last_push_and_by_field);
    tcase_add_test(c, ttl_ends_behind_its_last_second);
    tcase_add_test(c, a_stamp_in_the_future_does_not_poison);
    tcase_add_test(c, rows_of_no_time_do_not_expire);
    tcase_add_test(c, a_tablet_that_skips_a_push_does_not_age);
    tcase_add_loop_test(c, the_least_go_when_a_tablet_is_full, 0, 2);
    tcase_add_test(c, ties_go_by_mixed_key);
    tcase_add_test(c, room_for_one_row_keeps_one);
    tcase_add_test(c, undo_knows_rows_that_went);
    tcase_add_test(c, undo_of_rows_that_went_is_memory_for_one_clock);
    tcase_add_test(c, undo_of_rows_that_went_outlives_pushes_that_its_tablet_does_not_take);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
