/* test_sketch.c: counts in cells: never too low, seldom too high, bounded, forgotten by
 * generation. */
#include "embedding/rows/rules/sketch.h"
#include "tests/lib/embedding_rows.h"

#define CELLS_HASH 0x8298ec83b32577ecull

static uint32_t add(struct sketch *s, uint64_t key, uint32_t times)
{
    uint32_t count = 0;
    ck_assert_int_eq(sketch_add(s, 1024, 1024, key, times, &count), 0);
    return count;
}

START_TEST(one_key_is_counted_exactly)
{
    struct sketch s = {0};
    for (uint32_t i = 1; i <= 1000; i++)
        ck_assert_uint_eq(add(&s, 5, 1), i);
    ck_assert_uint_eq(add(&s, 5, 7), 1007);
    ck_assert_uint_eq(add(&s, 5, 0), 1007);
    sketch_clear(&s);
}
END_TEST

/* Images contain the cells: another release has to find a key's cells where this one has
 * counted. */
START_TEST(a_key_has_its_cells_in_every_release)
{
    struct sketch s = {0};
    add(&s, 5, 3);
    add(&s, UINT64_MAX, 1);
    ck_assert_uint_eq(hash_bytes(s.cell, sketch_bytes(&s), 0), CELLS_HASH);
    sketch_clear(&s);
}
END_TEST

START_TEST(counts_stay_at_the_top)
{
    struct sketch s = {0};
    ck_assert_uint_eq(add(&s, 5, SKETCH_MAX - 1), SKETCH_MAX - 1);
    ck_assert_uint_eq(add(&s, 5, SKETCH_MAX), SKETCH_MAX);
    sketch_turn(&s);
    ck_assert_uint_eq(add(&s, 5, SKETCH_MAX), SKETCH_MAX);
    sketch_clear(&s);
}
END_TEST

/* 100 keys in 256 columns: none is counted too low, at most one in a hundred too high. */
START_TEST(counts_are_never_too_low_and_seldom_too_high)
{
    struct sketch s = {0};
    static uint32_t seen[100];
    struct rng r = rng_of(3, 3, 3);
    uint32_t high = 0;
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < 20000; i++) {
        uint64_t n = rng_below(&r, 100);
        uint32_t count = add(&s, rows_key(n), 1);
        ck_assert_uint_ge(count, ++seen[n]);
        high += count > seen[n];
    }
    ck_assert_uint_le(high, 200);
    sketch_clear(&s);
}
END_TEST

START_TEST(two_turns_forget)
{
    struct sketch s = {0};
    add(&s, 5, 3);
    sketch_turn(&s);
    ck_assert_uint_eq(add(&s, 5, 1), 4);
    sketch_turn(&s);
    ck_assert_uint_eq(add(&s, 5, 1), 5);
    sketch_turn(&s);
    sketch_turn(&s);
    ck_assert_uint_eq(add(&s, 5, 1), 1);
    sketch_clear(&s);
}
END_TEST

/* An endless stream of new keys does not fill the sketch: a key seen once is not taken for a
 * frequent one. */
START_TEST(sketch_turns_before_it_is_full)
{
    struct sketch s = {0};
    uint32_t let_in = 0;
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t count = 0;
        ck_assert_int_eq(sketch_add(&s, 1024, 256, rows_key(i), 1, &count), 0);
        let_in += count >= 3;
        ck_assert_uint_le(s.keys[0] + s.keys[1], 256);
    }
    ck_assert_uint_le(let_in, 200); /* one in a thousand */
    sketch_clear(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sketch");
    TCase *c = tcase_create("sketch");
    tcase_add_test(c, one_key_is_counted_exactly);
    tcase_add_test(c, a_key_has_its_cells_in_every_release);
    tcase_add_test(c, counts_stay_at_the_top);
    tcase_add_test(c, counts_are_never_too_low_and_seldom_too_high);
    tcase_add_test(c, two_turns_forget);
    tcase_add_test(c, sketch_turns_before_it_is_full);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
