/* test_undo.c: rows as they were before a clock. */
#include "embedding/rows/undo.h"
#include "tests/lib/crafted.h"
#include "tests/lib/embedding_pull.h"
#include "tests/lib/embedding_rows.h"

#define WIDTH 5

static void pull_one(const struct rows *r, uint64_t key, uint64_t before, float *out)
{
    if (before == 0)
        table_pull(r->table, &key, 1, out);
    else
        pull_before(r->table, &key, 1, before, out);
}

static void assert_same(const struct rows *r, uint64_t key, uint64_t before, const float *expected)
{
    float got[WIDTH];
    pull_one(r, key, before, got);
    ck_assert_mem_eq(got, expected, sizeof got);
}

/* Images contain these clocks; other releases have to read them. */
START_TEST(undo_clocks_are_called_as_in_every_release)
{
    ck_assert_uint_eq(table_undo_clock(1, 0), 0xb456bcfc34c2cb2c);
    ck_assert_uint_eq(table_undo_clock(1, 7), 0xb456bcfc34c2cb33);
}
END_TEST

START_TEST(undo_keeps_the_first_of_a_clock)
{
    struct undo *u = undo_new(2);
    float a[2] = {1, 2}, b[2] = {3, 4};
    ck_assert_ptr_null(undo_find(u, 9));
    undo_begin(u, 4, 0);
    ck_assert_int_eq(undo_save(u, 9, a), 0);
    ck_assert_int_eq(undo_save(u, 9, b), 0);
    ck_assert_uint_eq(u->count, 1);
    ck_assert_mem_eq(undo_find(u, 9), a, sizeof a);
    undo_begin(u, 4, 0);
    ck_assert_uint_eq(u->count, 1);
    undo_begin(u, 5, 0);
    ck_assert_ptr_null(undo_find(u, 9));
    undo_free(u);
}
END_TEST

START_TEST(undo_holds_many_and_reuses_its_buffers)
{
    struct undo *u = undo_new(1);
    const void *keys = NULL;
    for (uint64_t clock = 1; clock < 5; clock++) {
        undo_begin(u, clock, 0);
        for (uint64_t i = 0; i < 5000; i++) {
            float w = (float)(i + clock);
            ck_assert_int_eq(undo_save(u, rows_key(i), &w), 0);
        }
        for (uint64_t i = 0; i < 5000; i++)
            ck_assert(*undo_find(u, rows_key(i)) == (float)(i + clock));
        ck_assert_ptr_null(undo_find(u, rows_key(5000)));
        ck_assert(keys == NULL || keys == u->keys);
        keys = u->keys;
    }
    undo_free(u);
}
END_TEST

START_TEST(undo_of_crafted_keys_is_found_soon)
{
    enum { KEYS = 5000 };
    struct undo *u = undo_new(1);
    struct crafted_run run = {0};
    undo_begin(u, 1, 0);
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert_int_eq(undo_save(u, crafted_key(i), &(float){(float)i}), 0);
    for (uint64_t i = 0; i < KEYS; i++)
        ck_assert(*undo_find(u, crafted_key(i)) == (float)i && u->keys[i] == crafted_key(i));
    for (uint32_t i = 0; i <= u->slot_mask; i++)
        crafted_place(&run, u->slots[i] != 0);
    ck_assert_uint_lt(run.most, 200);
    undo_free(u);
}
END_TEST

START_TEST(pull_before_sees_through_all_pushes_of_its_clock)
{
    struct table_schema s = rows_schema(OPT_ADAGRAD, WIDTH, 2);
    struct rows r = rows_open(&s);
    float initial[WIDTH], first[WIDTH], second[WIDTH];
    pull_one(&r, 11, 0, initial);
    rows_push_one(&r, 11, 1, 1);
    pull_one(&r, 11, 0, first);
    ck_assert_mem_ne(initial, first, sizeof first);
    assert_same(&r, 11, 1, initial); /* created in that clock */
    rows_push_one(&r, 11, 1, 2);     /* lane 0 */
    rows_push_one(&r, 12, 1, 2);     /* another row */
    rows_push_one(&r, 11, 2, 2);     /* lane 1 */
    pull_one(&r, 11, 0, second);
    ck_assert_mem_ne(second, first, sizeof first);
    assert_same(&r, 11, 2, first);
    assert_same(&r, 11, 3, second); /* no push of clock 3 is here yet */
    assert_same(&r, 11, 1, second); /* clock 1 is gone: only the last is kept */
    rows_close(&r);
}
END_TEST

START_TEST(pull_before_reads_rows_without_undo_as_they_are)
{
    struct table_schema s = rows_schema(OPT_SGD, WIDTH, 0);
    struct rows r = rows_open(&s);
    float now[WIDTH], absent[WIDTH];
    rows_push_one(&r, 1, 1, 0);
    pull_one(&r, 1, 0, now);
    pull_one(&r, 2, 0, absent);
    rows_push_one(&r, 3, 1, 7);
    assert_same(&r, 1, 7, now);
    assert_same(&r, 2, 7, absent);
    rows_close(&r);
}
END_TEST

START_TEST(push_without_a_clock_keeps_no_undo)
{
    struct table_schema s = rows_schema(OPT_SGD, WIDTH, 0);
    struct rows r = rows_open(&s);
    float after[WIDTH];
    rows_push_one(&r, 1, 1, 0);
    size_t bytes = table_image_bytes(r.table, 0);
    rows_push_one(&r, 1, 1, 0);
    ck_assert_uint_eq(table_image_bytes(r.table, 0), bytes);
    pull_one(&r, 1, 0, after);
    assert_same(&r, 1, 1, after);
    rows_close(&r);
}
END_TEST

/* A key occurs twice in one push: the undo is the value before the first. */
START_TEST(undo_of_a_repeated_key_is_its_first_value)
{
    struct table_schema s = rows_schema(OPT_SGD, WIDTH, 0);
    struct rows r = rows_open(&s);
    uint64_t keys[80];
    float g[80 * WIDTH], initial[WIDTH];
    for (int i = 0; i < 80; i++)
        keys[i] = 5;
    rows_gradients(g, 80 * WIDTH, 1);
    pull_one(&r, 5, 0, initial);
    rows_push(&r, keys, g, 80, 3);
    assert_same(&r, 5, 3, initial);
    rows_close(&r);
}
END_TEST

/* Against a plain copy of the table before each clock: many keys, several pushes a clock, tablets
 * that skip a clock. */
START_TEST(pull_before_equals_the_table_before)
{
    enum { KEYS = 3000, PUSH = 400 };
    struct table_schema s = rows_schema(OPT_ADAM, WIDTH, 4);
    struct rows r = rows_open(&s);
    static uint64_t all[KEYS], keys[PUSH];
    static float before[KEYS * WIDTH], got[KEYS * WIDTH], g[PUSH * WIDTH];
    struct rng random = rng_of(5, 5, 5);
    for (uint64_t i = 0; i < KEYS; i++)
        all[i] = rows_key(i);
    for (uint64_t clock = 1; clock < 30; clock++) {
        table_pull(r.table, all, KEYS, before);
        for (int lane = 0; lane < 3; lane++) {
            size_t count = rng_below(&random, PUSH);
            for (size_t i = 0; i < count; i++)
                keys[i] = all[rng_below(&random, KEYS)];
            rows_gradients(g, count * WIDTH, clock * 10 + (uint64_t)lane);
            rows_push(&r, keys, g, count, clock);
        }
        pull_before(r.table, all, KEYS, clock, got);
        ck_assert_mem_eq(before, got, sizeof before);
        table_pull(r.table, all, KEYS, got);
        ck_assert_mem_ne(before, got, sizeof before);
    }
    rows_close(&r);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("undo");
    TCase *c = tcase_create("undo");
    tcase_add_test(c, undo_clocks_are_called_as_in_every_release);
    tcase_add_test(c, undo_keeps_the_first_of_a_clock);
    tcase_add_test(c, undo_holds_many_and_reuses_its_buffers);
    tcase_add_test(c, undo_of_crafted_keys_is_found_soon);
    tcase_add_test(c, pull_before_sees_through_all_pushes_of_its_clock);
    tcase_add_test(c, pull_before_reads_rows_without_undo_as_they_are);
    tcase_add_test(c, push_without_a_clock_keeps_no_undo);
    tcase_add_test(c, undo_of_a_repeated_key_is_its_first_value);
    tcase_add_test(c, pull_before_equals_the_table_before);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
