/* test_ahead.c: the division of a batch's keys between its pull and the pushes of earlier batches,
 * against an oracle that looks at every key of every batch. */
#include "proto/base/key.h"
#include "proto/base/rng.h"
#include "tests/lib/suite.h"
#include "worker/train/ahead.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

enum { TABLES = 3, KEYS = 300, WINDOW = 6 };

/* A batch as the oracle has it. */
struct batch {
    struct ahead ahead;
    uint64_t number;
    uint64_t key[TABLES][KEYS];
    uint32_t count[TABLES];
};

static struct batch batch[WINDOW];
static struct rng rng;

static struct batch *batch_of(uint64_t number)
{
    return &batch[number % WINDOW];
}

static struct ahead_keys keys_of(const struct batch *b, uint32_t table)
{
    return (struct ahead_keys){b->key[table], b->count[table]};
}

/* Each key of a small world is in a batch with a chance that differs by table: hot ones and cold
 * ones; the last table is dense. */
static struct batch *draw(uint64_t number)
{
    static const uint32_t chance[TABLES] = {50, 7, 100};
    struct batch *b = batch_of(number);
    b->number = number;
    for (uint32_t t = 0; t < TABLES; t++) {
        uint32_t world = t + 1 == TABLES ? 13 : KEYS;
        b->count[t] = 0;
        for (uint64_t key = 0; key < world; key++)
            if (rng_below(&rng, 100) < chance[t])
                b->key[t][b->count[t]++] = key << 7 | t;
        qsort(b->key[t], b->count[t], sizeof b->key[t][0], key_by_mixed);
    }
    return b;
}

/* The place of a key; UINT32_MAX: the batch lacks it. */
static uint32_t place_of(const struct batch *b, uint32_t table, uint64_t key)
{
    for (uint32_t i = 0; i < b->count[table]; i++)
        if (b->key[table][i] == key)
            return i;
    return UINT32_MAX;
}

static bool awaited(const struct batch *b, uint32_t table, uint32_t place)
{
    return ahead_next(&b->ahead, table, place, place + 1) == place;
}

/* Divides the keys of a batch whose `unpushed` batches before it are not pushed. */
static void divide(struct batch *b, uint32_t unpushed)
{
    ck_assert_int_eq(ahead_begin(&b->ahead, b->count, TABLES, true), 0);
    for (uint32_t d = 1; d <= unpushed; d++)
        for (uint32_t t = 0; t < TABLES; t++) {
            struct batch *earlier = batch_of(b->number - d);
            ahead_divide(&b->ahead, t, keys_of(b, t), &earlier->ahead, keys_of(earlier, t),
                         (uint8_t)d);
        }
}

/* Each key is pulled, or awaited from the latest unpushed batch that has it. */
static uint32_t divided_check(struct batch *b, uint32_t unpushed)
{
    uint32_t waits = 0;
    for (uint32_t t = 0; t < TABLES; t++) {
        uint64_t key[KEYS];
        uint32_t place[KEYS], next = 0,
                              listed = ahead_list(&b->ahead, t, keys_of(b, t), key, place);
        for (uint32_t i = 0; i < b->count[t]; i++) {
            uint32_t at = UINT32_MAX, d = 0;
            while (at == UINT32_MAX && d++ < unpushed)
                at = place_of(batch_of(b->number - d), t, b->key[t][i]);
            if (at == UINT32_MAX) {
                ck_assert_uint_lt(next, listed);
                ck_assert_uint_eq(key[next], b->key[t][i]);
                ck_assert_uint_eq(place[next++], i);
                continue;
            }
            const struct ahead *from = &batch_of(b->number - d)->ahead;
            waits++;
            ck_assert(awaited(batch_of(b->number - d), t, at));
            ck_assert_uint_eq(from->batches[from->first[t] + at], d);
            ck_assert_uint_eq(from->place[from->first[t] + at], i);
        }
        ck_assert_uint_eq(next, listed);
        ck_assert_uint_eq(ahead_list(&b->ahead, t, keys_of(b, t), key, place), 0);
    }
    ck_assert_uint_eq(b->ahead.waits, waits);
    return waits;
}

/* The push of a batch is answered: its echoes come, or some do not. Checks that each is one of a
 * batch not later than `last`, and makes the missing ones due there. */
static uint32_t answer(struct batch *b, uint64_t last, bool come)
{
    uint32_t settled = 0;
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t k = ahead_next(&b->ahead, t, 0, b->count[t]); k < b->count[t];
             k = ahead_next(&b->ahead, t, k + 1, b->count[t])) {
            uint64_t later = b->number + b->ahead.batches[b->ahead.first[t] + k];
            uint32_t place = b->ahead.place[b->ahead.first[t] + k];
            ck_assert_uint_le(later, last);
            ck_assert_uint_eq(batch_of(later)->key[t][place], b->key[t][k]);
            ahead_settle(&b->ahead, t, k, &batch_of(later)->ahead, come);
            settled++;
        }
    return settled;
}

static void setup(void)
{
    memset(batch, 0, sizeof batch);
    rng = rng_of(1, 2, 3);
}

static void teardown(void)
{
    for (uint32_t i = 0; i < WINDOW; i++)
        ahead_close(&batch[i].ahead);
}

/* ---- cases ----------------------------------------------------------------------------------- */

/* A lane that looks _i batches ahead, with pushes that come sooner or later. */
START_TEST(each_key_is_pulled_or_comes_with_the_latest_push_that_has_it)
{
    uint64_t pushed = 0;
    uint32_t waits = 0, settled = 0;
    for (uint64_t n = 1; n <= 60; n++) {
        while (n - pushed - 1 > (uint64_t)_i || (pushed + 1 < n && rng_below(&rng, 3) == 0))
            settled += answer(batch_of(++pushed), n - 1, true);
        struct batch *b = draw(n);
        uint32_t unpushed = (uint32_t)(n - pushed - 1);
        divide(b, unpushed);
        waits += divided_check(b, unpushed);
    }
    while (pushed < 60)
        settled += answer(batch_of(++pushed), 60, true);
    ck_assert_uint_eq(waits, settled);
    ck_assert_uint_eq(waits > 0, _i > 0);
    for (uint32_t i = 0; i < WINDOW; i++)
        ck_assert_uint_eq(batch[i].ahead.waits, 0);
}
END_TEST

/* Rows that do not come are due again, each at its place and no other. */
START_TEST(keys_whose_rows_do_not_come_are_due_again)
{
    divide(draw(1), 0);
    divide(draw(2), 1);
    struct batch *b = draw(3);
    divide(b, 2);
    uint32_t waits = divided_check(b, 2), of_two = 0;
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t i = 0; i < b->count[t]; i++)
            of_two += place_of(batch_of(2), t, b->key[t][i]) != UINT32_MAX;
    (void)answer(batch_of(1), 3, true);
    ck_assert_uint_eq(b->ahead.waits, of_two);
    ck_assert_uint_lt(of_two, waits);
    (void)answer(batch_of(2), 3, false);
    ck_assert_uint_eq(b->ahead.waits, 0);
    ck_assert_uint_eq(b->ahead.missed, of_two);
    for (uint32_t t = 0; t < TABLES; t++) {
        uint64_t key[KEYS];
        uint32_t place[KEYS], listed = ahead_list(&b->ahead, t, keys_of(b, t), key, place);
        for (uint32_t i = 0; i < listed; i++) {
            ck_assert_uint_eq(key[i], b->key[t][place[i]]);
            ck_assert_uint_ne(place_of(batch_of(2), t, key[i]), UINT32_MAX);
        }
        of_two -= listed;
    }
    ck_assert_uint_eq(of_two, 0);
}
END_TEST

/* A part of a push has any stretch of the keys; its bitmap begins with its own first key. */
START_TEST(bitmap_of_a_part_is_of_its_own_keys)
{
    struct batch *b = draw(1);
    divide(b, 0);
    divide(draw(2), 1);
    for (uint32_t t = 0; t < TABLES; t++)
        for (uint32_t key = 0; key <= b->count[t]; key++)
            for (uint32_t count = 0; key + count <= b->count[t]; count += 1 + count / 3) {
                uint8_t bits[KEYS / 8 + 2];
                uint32_t set = 0;
                memset(bits, 0xee, sizeof bits);
                ahead_bitmap(&b->ahead, t, key, count, bits);
                for (uint32_t i = 0; i < (count + 7) / 8 * 8; i++) {
                    bool is = bits[i / 8] >> i % 8 & 1;
                    set += is;
                    ck_assert_uint_eq(is, i < count && awaited(b, t, key + i));
                }
                ck_assert_uint_eq(bits[(count + 7) / 8], 0xee);
                ck_assert_uint_eq(ahead_echoes(&b->ahead, t, key, count), set);
            }
}
END_TEST

/* A batch without a key in some table, or in none. */
START_TEST(batches_without_keys_are_divided_too)
{
    uint32_t none[TABLES] = {0};
    struct batch *b = batch_of(1);
    ck_assert_int_eq(ahead_begin(&b->ahead, none, TABLES, true), 0);
    struct batch *later = draw(2);
    divide(later, 1);
    ck_assert_uint_eq(divided_check(later, 1), 0);
    ck_assert_int_eq(ahead_begin(&batch_of(3)->ahead, none, TABLES, true), 0);
    batch_of(3)->number = 3;
    memset(batch_of(3)->count, 0, sizeof none);
    ahead_divide(&batch_of(3)->ahead, 0, keys_of(batch_of(3), 0), &later->ahead, keys_of(later, 0),
                 1);
    ck_assert_uint_eq(batch_of(3)->ahead.waits, 0);
    /* what is all pulled is not due again */
    ck_assert_int_eq(ahead_begin(&later->ahead, later->count, TABLES, false), 0);
    uint64_t key[KEYS];
    uint32_t place[KEYS];
    ck_assert_uint_eq(ahead_list(&later->ahead, 0, keys_of(later, 0), key, place), 0);
}
END_TEST

/* A pull of the later batch would wait until the slowest lane is at its clock - staleness - 1. */
START_TEST(rows_of_a_push_serve_within_the_bound)
{
    static const struct {
        uint64_t clock, low;
        uint32_t batches;
        uint64_t staleness;
        bool serves;
    } cases[] = {{10, 10, 1, 0, true},  {10, 9, 1, 0, false},         {10, 8, 1, 2, true},
                 {10, 7, 1, 2, false},  {10, 9, 2, 2, true},          {10, 8, 2, 2, false},
                 {10, 10, 5, 2, false}, {1, 0, 1, 2, true},           {1, 0, 2, 2, true},
                 {1, 0, 3, 2, false},   {10, UINT64_MAX, 64, 0, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(ahead_serves(cases[i].clock, cases[i].low, cases[i].batches,
                                   cases[i].staleness) == cases[i].serves,
                      "case %zu", i);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("ahead");
    TCase *c = suite_case(s, "ahead", 60, setup, teardown);
    tcase_add_loop_test(c, each_key_is_pulled_or_comes_with_the_latest_push_that_has_it, 0, 6);
    tcase_add_test(c, keys_whose_rows_do_not_come_are_due_again);
    tcase_add_test(c, bitmap_of_a_part_is_of_its_own_keys);
    tcase_add_test(c, batches_without_keys_are_divided_too);
    tcase_add_test(c, rows_of_a_push_serve_within_the_bound);
    return suite_main(s);
}
