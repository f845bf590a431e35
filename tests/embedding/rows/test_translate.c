/* test_translate.c: what tablets keep beside their rows goes along into a table of another schema.
 * Rows themselves: test_checkpoint.c. */
#include "embedding/rows/table_inner.h"
#include "embedding/rows/translate.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

static const uint64_t nothing[LIMIT_FIELDS / 64]; /* is left out */

#define NOON (FIRST_DAY + DAY / 2)

static const uint8_t all[16] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};

static struct table_schema counting(uint32_t tablet_bits, uint32_t sketch)
{
    struct table_schema s = stats_schema(OPT_SGD, 3, tablet_bits);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.admit_sketch = sketch;
    s.rules.age_every = DAY;
    return s;
}

static void translate(struct rows *from, struct rows *to, uint32_t tablet_bits)
{
    for (uint32_t i = 0; i < 1u << tablet_bits; i++)
        ck_assert_int_eq(translate_rows(from->table, i, to->table, all, nothing), 0);
}

/* More tablets, fewer, as many; another optimizer: keys go on with two appearances of three, and
 * blocked ones stay blocked. */
START_TEST(counts_names_and_clock_go_along)
{
    static const uint32_t bits[][2] = {{2, 2}, {1, 4}, {4, 1}};
    const uint32_t sketch = _i < 3 ? 0 : 4096, *b = bits[_i % 3];
    struct table_schema s = counting(b[0], sketch), t = counting(b[1], sketch);
    struct table_counts counts;
    uint64_t named[3][10], changed;
    t.optimizer.kind = OPT_ADAGRAD;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 200; i++)
        stats_push(&from, rows_key(i), 0.5f, i < 100 ? 2 : 5, 0,
                   (struct stats_batch){.time = NOON});
    for (int k = 0; k < 3; k++) {
        for (uint64_t i = 0; i < 10; i++)
            named[k][i] = rows_key((uint64_t)(100 + 30 * k) + 3 * i);
        ck_assert_int_eq(table_keys(from.table, (enum key_action)k, named[k], 10, NULL, &changed),
                         0);
    }
    translate(&from, &to, b[0]);
    ck_assert_uint_eq(table_rows(to.table), 90);
    table_counts_get(to.table, &counts);
    if (sketch == 0)
        ck_assert_uint_eq(counts.waiting, 100);
    for (uint64_t i = 0; i < 100; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = 0});
        ck_assert(stats_has(&to, rows_key(i)));
    }
    ck_assert_uint_eq(stats_of(&to, rows_key(1)).time, NOON);
    for (int i = 0; i < 10; i++)
        stats_push(&to, named[0][i], 0.5f, 9, 0, (struct stats_batch){.time = 0});
    ck_assert_uint_eq(table_rows(to.table), 190);
    for (int k = 0; k < 3; k++) {
        ck_assert_int_eq(table_keys(to.table, (enum key_action)k, named[k], 10, NULL, &changed), 0);
        ck_assert_uint_eq(changed, 0); /* each had its name already */
    }
    struct rows copy = stats_through_images(&to); /* and it is a life that can be */
    rows_close(&copy);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

START_TEST(a_plain_table_takes_names_alone)
{
    struct table_schema s = counting(2, 0), t = rows_schema(OPT_SGD, 3, 2);
    struct table_counts counts;
    uint64_t key = rows_key(1), changed;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 50; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_int_eq(table_keys(from.table, KEY_BLOCK, &key, 1, NULL, &changed), 0);
    translate(&from, &to, 2);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 0);
    stats_push(&to, key, 0.5f, 0, 0, (struct stats_batch){0});
    ck_assert(!stats_has(&to, key));
    struct rows copy = stats_through_images(&to);
    rows_close(&copy);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* A field that begins anew is not half let in. */
START_TEST(counts_of_fields_that_are_left_out_stay_behind)
{
    struct table_schema s = counting(0, 0), t = counting(1, 0);
    const uint64_t without[LIMIT_FIELDS / 64] = {1u << 5};
    struct table_counts counts;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 40; i++)
        stats_push(&from, key_make(5 + (uint32_t)(i % 2), i), 0.5f, 1, 0,
                   (struct stats_batch){.time = NOON});
    ck_assert_int_eq(translate_rows(from.table, 0, to.table, all, without), 0);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 20);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

START_TEST(only_wanted_tablets_take_it)
{
    struct table_schema s = counting(0, 0), t = counting(1, 0);
    static const uint8_t second[2] = {0, 1};
    struct table_counts counts;
    uint64_t keys[50], changed, here = 0;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 50; i++) {
        keys[i] = rows_key(i);
        here += key_tablet(key_mix(keys[i]), 1);
    }
    for (uint64_t i = 50; i < 100; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    ck_assert_int_eq(table_keys(from.table, KEY_BLOCK, keys, 50, NULL, &changed), 0);
    ck_assert_int_eq(translate_rows(from.table, 0, to.table, second, nothing), 0);
    table_counts_get(to.table, &counts);
    ck_assert(counts.waiting > 0 && counts.waiting < 50);
    ck_assert_int_eq(table_keys(to.table, KEY_BLOCK, keys, 50, NULL, &changed), 0);
    ck_assert_uint_eq(changed, 50 - here);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* Keys of both generations wait on: a boundary ago, and since. */
START_TEST(keys_of_both_generations_wait_on)
{
    struct table_schema s = counting(1, 0), t = counting(1, 0);
    struct table_counts counts;
    struct rows from = rows_open(&s), to = rows_open(&t);
    t.optimizer.kind = OPT_ADAGRAD;
    for (uint64_t i = 0; i < 40; i++)
        stats_push(&from, rows_key(i), 0.5f, 2, 0,
                   (struct stats_batch){.time = i < 20 ? NOON : NOON + DAY});
    table_counts_get(from.table, &counts);
    ck_assert_uint_eq(counts.waiting, 40);
    translate(&from, &to, 1);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 40);
    for (uint64_t i = 0; i < 40; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = 0});
        ck_assert(stats_has(&to, rows_key(i)));
    }
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* What l2 counts by goes along, and a row's last push stays as long ago as it was; a table without
 * statistics has whole vectors. */
START_TEST(batches_and_vectors_go_along)
{
    struct table_schema s = rows_schema(OPT_SGD, 3, 1), t = stats_schema(OPT_ADAGRAD, 3, 1);
    uint64_t key = rows_key(1);
    s.optimizer.l2 = t.optimizer.l2 = 0.01f;
    t.rules.vector_score = 10;
    for (uint64_t had = 0; had <= 9; had += 9) {
        struct rows from = rows_open(&s), to = rows_open(&t);
        for (uint64_t i = 0; i < 5; i++)
            stats_push(&from, key, 0.5f, 0, 0, (struct stats_batch){.batch = i});
        float weight = stats_weight(&from, key, 2);
        for (uint32_t k = 0; k < 2; k++)
            to.table->tablets[k].batches = had;
        translate(&from, &to, 1);
        for (uint32_t k = 0; k < 2; k++)
            ck_assert_uint_eq(to.table->tablets[k].batches, had > 5 ? had : 5);
        ck_assert_uint_eq(stats_of(&to, key).flags & ROW_HAS_VECTOR, ROW_HAS_VECTOR);
        ck_assert_float_eq(stats_weight(&to, key, 2), weight);
        const float *row = (const float *)table_row(to.table, key) + 2;
        ck_assert_float_eq(row[to.table->last_at], (float)to.table->tablets[0].batches);
        rows_close(&from);
        rows_close(&to);
    }
}
END_TEST

/* Into a table that lets fewer keys wait: what does not fit begins again, and the next key that
 * waits leaves an image that can be read back. */
START_TEST(fewer_may_wait)
{
    struct table_schema s = counting(1, 0), t = counting(0, 0);
    struct table_counts counts;
    s.rules.admit_threshold = t.rules.admit_threshold = 100;
    s.rules.admit_waiting = 1000;
    t.rules.admit_waiting = 100;
    struct rows from = rows_open(&s), to = rows_open(&t);
    for (uint64_t i = 0; i < 400; i++)
        stats_push(&from, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
    translate(&from, &to, 1);
    table_counts_get(to.table, &counts);
    ck_assert_uint_eq(counts.waiting, 49); /* one less than turns */
    for (uint64_t i = 400; i < 500; i++) {
        stats_push(&to, rows_key(i), 0.5f, 1, 0, (struct stats_batch){.time = NOON});
        struct rows copy = stats_through_images(&to);
        rows_close(&copy);
    }
    rows_close(&from);
    rows_close(&to);
}
END_TEST

/* Where weights are worked out from the state, by the settings: under others it is not kept. */
START_TEST(state_of_other_settings_does_not_move_weights)
{
    const uint64_t key = rows_key(1);
    float before[2], after[2];
    struct table_schema s = rows_schema(OPT_FTRL, 2, 0), t = s;
    t.optimizer.lr *= 4;
    struct rows from = rows_open(&s), to = rows_open(&t);
    rows_push_one(&from, key, 0.5f, 0);
    translate(&from, &to, 0);
    table_pull(to.table, &key, 1, before);
    rows_push_one(&to, key, 0, 0);
    table_pull(to.table, &key, 1, after);
    for (int i = 0; i < 2; i++)
        ck_assert(before[i] != 0 && fabsf(before[i] - after[i]) < 1e-6f);
    rows_close(&from);
    rows_close(&to);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("translate");
    TCase *c = tcase_create("translate");
    tcase_add_loop_test(c, counts_names_and_clock_go_along, 0, 6);
    tcase_add_test(c, a_plain_table_takes_names_alone);
    tcase_add_test(c, counts_of_fields_that_are_left_out_stay_behind);
    tcase_add_test(c, only_wanted_tablets_take_it);
    tcase_add_test(c, keys_of_both_generations_wait_on);
    tcase_add_test(c, batches_and_vectors_go_along);
    tcase_add_test(c, fewer_may_wait);
    tcase_add_test(c, state_of_other_settings_does_not_move_weights);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
