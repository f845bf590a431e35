/* test_waiting.c: waiting keys, against a plain list: which ones are forgotten and which are
 * not. */
#include "embedding/rows/rules/waiting.h"
#include "tests/lib/crafted.h"
#include "tests/lib/embedding_rows.h"

static int by_key(const void *a, const void *b)
{
    uint64_t x = ((const struct waiting_key *)a)->key, y = ((const struct waiting_key *)b)->key;
    return (x > y) - (x < y);
}

START_TEST(sums_go_on_over_generations)
{
    struct waiting w = {0};
    ck_assert_int_eq(waiting_add(&w, 100, 7, 2, 1), 0);
    waiting_turn(&w);
    ck_assert_int_eq(waiting_add(&w, 100, 7, 3, 0), 0);
    struct waiting_key k = waiting_find(&w, 7);
    ck_assert(k.show == 5 && k.click == 1);
    ck_assert_uint_eq(w.young.count, 1);
    ck_assert_uint_eq(w.old.count, 0); /* it is there once */
    waiting_turn(&w);
    waiting_turn(&w);
    ck_assert(waiting_find(&w, 7).show == 0);
    ck_assert_uint_eq(waiting_count(&w), 0);
    waiting_clear(&w);
}
END_TEST

/* A million new keys: never more than the limit; a key that is seen again and again is never
 * forgotten. */
START_TEST(waiting_keys_are_bounded_and_the_unseen_go_first)
{
    struct waiting w = {0};
    int failed = 0;
    uint32_t most = 0;
    for (uint64_t i = 1; i <= 1000000; i++) {
        failed |= waiting_add(&w, 1000, rows_key(i), 1, 0);
        if (i % 100 == 0)
            failed |= waiting_add(&w, 1000, 5, 1, 0);
        most = waiting_count(&w) > most ? waiting_count(&w) : most;
    }
    ck_assert_int_eq(failed, 0);
    ck_assert_uint_le(most, 1000);
    ck_assert(waiting_find(&w, 5).show == 10000);
    ck_assert(waiting_find(&w, rows_key(1000000)).show == 1);
    ck_assert(waiting_find(&w, rows_key(1)).show == 0);
    ck_assert_uint_le(waiting_bytes(&w), 2 * 1024 * sizeof(struct waiting_key));
    waiting_clear(&w);
}
END_TEST

/* Adding and forgetting in every order, among keys that share places. */
START_TEST(forgotten_keys_leave_the_others_findable)
{
    enum { SPACE = 300 };
    static float show[SPACE];
    struct waiting w = {0};
    struct rng r = rng_of(1, 2, 3);
    memset(show, 0, sizeof show);
    for (int i = 0; i < 100000; i++) {
        uint64_t n = rng_below(&r, SPACE);
        if (rng_below(&r, 3) == 0) {
            waiting_forget(&w, n);
            show[n] = 0;
        } else {
            ck_assert_int_eq(waiting_add(&w, 4 * SPACE, n, 1, 0), 0);
            show[n] += 1;
        }
        uint64_t other = rng_below(&r, SPACE);
        ck_assert(waiting_find(&w, other).show == show[other]);
    }
    uint32_t count = 0;
    for (uint64_t n = 0; n < SPACE; n++)
        count += show[n] > 0;
    ck_assert_uint_eq(waiting_count(&w), count);
    waiting_clear(&w);
}
END_TEST

START_TEST(what_is_written_can_be_put_back)
{
    struct waiting w = {0}, back = {0};
    struct waiting_key list[50];
    for (uint64_t i = 0; i < 50; i++)
        ck_assert_int_eq(waiting_add(&w, 1000, i, (float)i + 1, 1), 0);
    waiting_write(&w.young, list);
    for (int i = 0; i < 50; i++)
        ck_assert_int_eq(waiting_put(&back.young, &list[i]), 0);
    for (uint64_t i = 0; i < 50; i++)
        ck_assert(waiting_find(&back, i).show == (float)i + 1);
    ck_assert_uint_eq(waiting_count(&back), 50);
    waiting_clear(&w);
    waiting_clear(&back);
}
END_TEST

/* Two sets with salts of their own write the same keys, except for their order. */
START_TEST(crafted_keys_are_found_soon)
{
    enum { KEYS = 5000 };
    static struct waiting_key list[2][KEYS];
    struct waiting w[2] = {0};
    struct crafted_run run = {0};
    for (int k = 0; k < 2; k++) {
        for (uint64_t i = 0; i < KEYS; i++)
            ck_assert_int_eq(waiting_add(&w[k], 4 * KEYS, crafted_key(i), (float)i + 1, 0), 0);
        for (uint32_t i = 0; i <= w[k].young.mask; i++)
            crafted_place(&run, w[k].young.place[i].show >= 0);
        waiting_write(&w[k].young, list[k]);
        qsort(list[k], KEYS, sizeof list[k][0], by_key);
        waiting_clear(&w[k]);
    }
    ck_assert_uint_lt(run.most, 1000);
    ck_assert_mem_eq(list[0], list[1], sizeof list[0]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("waiting");
    TCase *c = tcase_create("waiting");
    tcase_add_test(c, sums_go_on_over_generations);
    tcase_add_test(c, waiting_keys_are_bounded_and_the_unseen_go_first);
    tcase_add_test(c, forgotten_keys_leave_the_others_findable);
    tcase_add_test(c, what_is_written_can_be_put_back);
    tcase_add_test(c, crafted_keys_are_found_soon);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
