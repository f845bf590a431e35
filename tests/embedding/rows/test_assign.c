/* test_assign.c: rows that are assigned by key: what a row is afterwards, what counts, and what
 * cannot be stored. */
#include "embedding/rows/optimizer/optimizer.h"
#include "embedding/rows/table_inner.h"
#include "tests/lib/embedding_stats.h"

#include <math.h>

enum { ROWS = 3000, FLOATS = 64 };

static float number(uint64_t key, uint32_t i)
{
    struct rng r = rng_of(key, i, 3);
    return rng_float(&r) * 2 - 1;
}

/* Rows of keys (count) with these parts; state and statistics are of the same numbers. */
static float *rows_make(const struct table_schema *s, const uint64_t *keys, size_t count,
                        uint32_t parts)
{
    const uint32_t floats = table_assign_floats(s, parts);
    float *rows = calloc(count + 1, floats * sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    for (size_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < floats; k++)
            rows[i * floats + k] = number(keys[i], k);
    for (size_t i = 0; i < count && (parts & ASSIGN_STATS) != 0; i++) {
        const struct row_stats x = {.show = 7, .click = 2, .delta_score = 3, .time = 9, .flags = 1};
        stats_write(rows + i * floats + floats - 5, &x);
    }
    return rows;
}

static struct assign_counts assign(struct rows *r, const uint64_t *keys, size_t count,
                                   uint32_t parts)
{
    const struct table_schema *s = table_schema_of(r->table);
    const struct assign_args args = {.parts = parts, .tablet_count = 1u << s->tablet_bits};
    struct assign_counts c = {.made = 0};
    size_t bad;
    const char *why = "";
    float *rows = rows_make(s, keys, count, parts);
    ck_assert_msg(table_assign_ok(s, parts, rows, count, &bad, &why), "%zu: %s", bad, why);
    ck_assert_int_eq(table_assign(r->table, keys, rows, count, &args, &c), 0);
    free(rows);
    return c;
}

static void keys_make(uint64_t *keys, size_t count)
{
    for (size_t i = 0; i < count; i++)
        keys[i] = rows_key(i);
}

/* All optimizers, all kinds of values: weights and state are as given; without a state it is that
 * of a new row with these weights. */
START_TEST(a_row_has_the_numbers_that_were_given)
{
    static const enum value_kind kinds[] = {VALUES_FP32, VALUES_FP16, VALUES_BF16};
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema((enum optimizer_kind)(_i / 6), 9, 4);
    s.values = kinds[_i % 3];
    s.zero_first = 1;
    const uint32_t parts = _i / 3 % 2 == 0 ? 0 : ASSIGN_STATE, state = schema_state_floats(&s);
    struct rows r = rows_open(&s);
    keys_make(keys, ROWS);
    const struct assign_counts c = assign(&r, keys, ROWS, parts);
    ck_assert(c.made == ROWS && c.replaced == 0 && c.kept == 0 && c.blocked == 0);
    ck_assert_uint_eq(table_rows(r.table), ROWS);
    const struct optimizer o = optimizer_of(&s, ISA_BASE);
    for (size_t i = 0; i < ROWS; i++) {
        float expected[FLOATS], weights[9];
        const char *row = table_row(r.table, keys[i]);
        ck_assert_ptr_nonnull(row);
        for (uint32_t k = 0; k < 9 + state; k++)
            expected[k] = number(keys[i], k);
        if (parts == 0)
            o.start(expected, &s);
        half_nearest((enum value_kind)s.values, expected, 9);
        table_row_weights(&s, row, weights);
        ck_assert_mem_eq(weights, expected, sizeof weights);
        ck_assert_mem_eq(table_row_state(&s, row), expected + 9, state * sizeof(float));
    }
    rows_close(&r);
}
END_TEST

/* The same rows again change nothing, whatever was there before. */
START_TEST(an_assignment_may_be_repeated)
{
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema(OPT_ADAM, 8, 3);
    struct rows r = rows_open(&s), other = rows_open(&s);
    keys_make(keys, ROWS);
    for (size_t i = 0; i < ROWS; i += 2)
        rows_push_one(&r, keys[i], (float)i, 0);
    const struct assign_counts first = assign(&r, keys, ROWS, 0);
    ck_assert(first.made == ROWS / 2 && first.replaced == ROWS / 2);
    (void)assign(&other, keys, ROWS, 0);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(other.table));
    const struct assign_counts again = assign(&r, keys, ROWS, 0);
    ck_assert(again.made == 0 && again.replaced == ROWS);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(other.table));
    rows_close(&other);
    rows_close(&r);
}
END_TEST

/* All optimizers, all kinds of values, with and without statistics: what is read can be assigned,
 * and the other table is then the same to the bit. */
START_TEST(rows_with_state_are_read_as_they_are_assigned)
{
    static const enum value_kind kinds[] = {VALUES_FP32, VALUES_FP16, VALUES_BF16};
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema((enum optimizer_kind)(_i / 6), 9, 4);
    s.values = kinds[_i % 3];
    s.rules.stats = (uint32_t)(_i / 3 % 2);
    s.zero_first = 1;
    const uint32_t floats = table_assign_floats(&s, ASSIGN_STATE);
    const struct assign_args args = {.parts = ASSIGN_STATE, .tablet_count = 1u << s.tablet_bits};
    struct rows r = rows_open(&s), other = rows_open(&s);
    struct assign_counts c = {.made = 0};
    float *rows = calloc(ROWS, floats * sizeof *rows);
    ck_assert_ptr_nonnull(rows);
    keys_make(keys, ROWS);
    (void)assign(&r, keys, ROWS - 1, ASSIGN_STATE);
    table_pull_state(r.table, keys, ROWS, rows);
    for (uint32_t k = 0; k < floats; k++) /* the last key has no row */
        ck_assert(rows[(ROWS - 1) * floats + k] == 0 && signbit(rows[(ROWS - 1) * floats + k]));
    ck_assert_int_eq(table_assign(other.table, keys, rows, ROWS - 1, &args, &c), 0);
    ck_assert_uint_eq(rows_digest(r.table), rows_digest(other.table));
    free(rows);
    rows_close(&other);
    rows_close(&r);
}
END_TEST

START_TEST(a_row_is_kept_where_that_was_asked)
{
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema(OPT_ADAGRAD, 8, 3);
    struct rows r = rows_open(&s);
    keys_make(keys, ROWS);
    rows_push_one(&r, keys[5], 1, 0);
    float before[8], after[8];
    table_pull(r.table, &keys[5], 1, before);
    const struct assign_counts c = assign(&r, keys, ROWS, ASSIGN_KEEP);
    ck_assert(c.kept == 1 && c.made == ROWS - 1 && c.replaced == 0);
    table_pull(r.table, &keys[5], 1, after);
    ck_assert_mem_eq(before, after, sizeof before);
    rows_close(&r);
}
END_TEST

START_TEST(a_blocked_key_gets_no_row)
{
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema(OPT_SGD, 4, 3);
    struct rows r = rows_open(&s);
    uint64_t changed;
    keys_make(keys, ROWS);
    (void)assign(&r, keys, 100, 0);
    ck_assert_int_eq(table_keys(r.table, KEY_ERASE, keys, 10, NULL, &changed), 0);
    ck_assert_int_eq(table_keys(r.table, KEY_BLOCK, keys + 10, 10, NULL, &changed), 0);
    const uint64_t digest = rows_digest(r.table);
    const struct assign_counts c = assign(&r, keys, 20, 0);
    ck_assert(c.blocked == 20 && c.made == 0 && c.replaced == 0);
    ck_assert_uint_eq(rows_digest(r.table), digest); /* a blocked key's row stays as it was */
    ck_assert_ptr_null(table_row(r.table, keys[3]));
    ck_assert_int_eq(table_keys(r.table, KEY_RESET, keys, 20, NULL, &changed), 0);
    ck_assert_uint_eq(assign(&r, keys, 20, 0).made, 10);
    rows_close(&r);
}
END_TEST

/* Rows are admitted whatever the rule says, and what the key waited with is forgotten. */
START_TEST(a_row_is_admitted_and_counts_as_pushed_now)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 8, 0);
    s.rules.admit_kind = ADMIT_COUNT;
    s.rules.admit_threshold = 3;
    s.rules.vector_score = 10;
    s.zero_first = 1;
    struct rows r = rows_open(&s);
    struct table_counts counts;
    const uint64_t key = rows_key(1);
    stats_push(&r, key, 1, 1, 0, (struct stats_batch){.time = FIRST_DAY, .batch = 1});
    table_counts_get(r.table, &counts);
    ck_assert_uint_eq(counts.waiting, 1);
    ck_assert_uint_eq(assign(&r, &key, 1, 0).made, 1);
    table_counts_get(r.table, &counts);
    ck_assert_uint_eq(counts.waiting, 0);
    struct row_stats x = stats_of(&r, key);
    ck_assert(x.show == 0 && x.click == 0 && x.time == FIRST_DAY && x.flags == ROW_HAS_VECTOR);
    ck_assert(stats_weight(&r, key, 3) == number(key, 3)); /* its vector is there */
    (void)assign(&r, &key, 1, ASSIGN_STATE | ASSIGN_STATS);
    x = stats_of(&r, key);
    ck_assert(x.show == 7 && x.click == 2 && x.delta_score == 3 && x.time == 9 && x.flags == 1);
    rows_close(&r);
}
END_TEST

START_TEST(a_full_tablet_drops_the_least_rows)
{
    static uint64_t keys[64];
    struct table_schema s = stats_schema(OPT_SGD, 4, 0);
    s.rules.age_capacity = 32;
    struct rows r = rows_open(&s);
    struct table_counts counts;
    keys_make(keys, 64);
    (void)assign(&r, keys, 64, 0);
    table_counts_get(r.table, &counts);
    ck_assert_uint_eq(table_rows(r.table), 30);
    ck_assert_uint_eq(counts.evicted, 34);
    rows_close(&r);
}
END_TEST

START_TEST(only_the_taken_tablets_change)
{
    static uint64_t keys[ROWS];
    struct table_schema s = rows_schema(OPT_SGD, 4, 2);
    struct rows r = rows_open(&s);
    uint8_t take[4] = {0, 1, 0, 0};
    struct assign_args args = {.tablet_count = 4, .take = take};
    struct assign_counts c = {.made = 0};
    keys_make(keys, ROWS);
    float *rows = rows_make(&s, keys, ROWS, 0);
    ck_assert_int_eq(table_assign(r.table, keys, rows, ROWS, &args, &c), 0);
    ck_assert_uint_eq(c.made, table_tablet_rows(r.table, 1));
    ck_assert_uint_eq(table_rows(r.table), c.made);
    ck_assert_uint_gt(c.made, ROWS / 8);
    free(rows);
    rows_close(&r);
}
END_TEST

/* ---- what cannot be stored ---- */

static void refused(const struct table_schema *s, uint32_t parts, uint32_t at, float value,
                    const char *words)
{
    const uint64_t keys[3] = {1, 2, 3};
    const uint32_t floats = table_assign_floats(s, parts);
    float *rows = rows_make(s, keys, 3, parts);
    const char *why = "";
    size_t bad = 0;
    ck_assert_msg(table_assign_ok(s, parts, rows, 3, &bad, &why), "%s", why);
    rows[2 * floats + at] = value;
    ck_assert(!table_assign_ok(s, parts, rows, 3, &bad, &why));
    ck_assert_uint_eq(bad, 2);
    ck_assert_msg(strstr(why, words) != NULL, "%s", why);
    free(rows);
}

START_TEST(numbers_that_cannot_be_stored_are_found)
{
    struct table_schema s = stats_schema(OPT_ADAGRAD, 8, 0);
    const uint32_t all = ASSIGN_STATE | ASSIGN_STATS;
    refused(&s, 0, 7, NAN, "weight");
    refused(&s, 0, 0, -INFINITY, "weight");
    refused(&s, 0, 0, 2e15f, "weight");
    refused(&s, ASSIGN_STATE, 8, INFINITY, "state");
    refused(&s, all, 16, 1, "statistics"); /* fewer shows than clicks */
    refused(&s, all, 17, -1, "statistics");
    refused(&s, all, 18, NAN, "statistics");
    s.values = VALUES_FP16;
    refused(&s, 0, 3, 65520, "weight");
    s.values = VALUES_FP32;
    s.rules.weight_max = 1.5f;
    refused(&s, 0, 3, -1.51f, "weight_max");
    s.rules = (struct row_rules){.stats = 0};
    size_t bad;
    const char *why;
    float row[32] = {0};
    ck_assert(!table_assign_ok(&s, ASSIGN_STATS, row, 1, &bad, &why));
    ck_assert_msg(strstr(why, "no statistics") != NULL, "%s", why);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("assign");
    TCase *c = suite_case(suite, "assign", 60, NULL, NULL);
    tcase_add_loop_test(c, a_row_has_the_numbers_that_were_given, 0, 36);
    tcase_add_test(c, an_assignment_may_be_repeated);
    tcase_add_loop_test(c, rows_with_state_are_read_as_they_are_assigned, 0, 36);
    tcase_add_test(c, a_row_is_kept_where_that_was_asked);
    tcase_add_test(c, a_blocked_key_gets_no_row);
    tcase_add_test(c, a_row_is_admitted_and_counts_as_pushed_now);
    tcase_add_test(c, a_full_tablet_drops_the_least_rows);
    tcase_add_test(c, only_the_taken_tablets_change);
    tcase_add_test(c, numbers_that_cannot_be_stored_are_found);
    return suite_main(suite);
}
