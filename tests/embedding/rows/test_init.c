/* test_init.c: initial weights. */
#include "embedding/rows/init.h"
#include "proto/base/key.h"
#include "tests/lib/embedding_rows.h"

#include <math.h>

START_TEST(init_is_a_function_of_seed_and_key)
{
    struct table_schema s = rows_schema(OPT_SGD, 64, 0);
    float a[64], b[64];
    init_weights(&s, 42, a);
    init_weights(&s, 42, b);
    ck_assert_mem_eq(a, b, sizeof a);
    init_weights(&s, 43, b);
    ck_assert_mem_ne(a, b, sizeof a);
    s.seed++;
    init_weights(&s, 42, b);
    ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

/* The bits are fixed: tables on disk depend on them for ever. */
START_TEST(init_keeps_its_bits)
{
    struct table_schema s = rows_schema(OPT_SGD, 64, 0);
    float w[64];
    init_weights(&s, 42, w);
    uint64_t uniform = hash_bytes(w, sizeof w, 0);
    s.init.kind = INIT_NORMAL;
    init_weights(&s, 42, w);
    uint64_t normal = hash_bytes(w, sizeof w, 0);
    ck_assert_uint_eq(uniform, 7115614211653333409ULL);
    ck_assert_uint_eq(normal, 809775152518033628ULL);
}
END_TEST

START_TEST(init_uniform_fills_its_open_range)
{
    struct table_schema s = rows_schema(OPT_SGD, 1000, 0);
    float w[1000], low = 1, high = -1;
    double sum = 0, squares = 0;
    for (uint64_t key = 0; key < 100; key++) {
        init_weights(&s, key, w);
        for (int i = 0; i < 1000; i++) {
            ck_assert(w[i] > -0.1f && w[i] < 0.1f);
            low = fminf(low, w[i]);
            high = fmaxf(high, w[i]);
            sum += (double)w[i];
            squares += (double)w[i] * (double)w[i];
        }
    }
    ck_assert(low < -0.0999f && high > 0.0999f);
    ck_assert(fabs(sum / 1e5) < 1e-3);
    ck_assert(fabs(squares / 1e5 - 0.01 / 3) < 1e-4);
}
END_TEST

START_TEST(init_normal_has_its_mean_and_deviation)
{
    struct table_schema s = rows_schema(OPT_SGD, 1000, 0);
    s.init = (struct init_spec){INIT_NORMAL, 2.0f};
    float w[1000];
    double sum = 0, squares = 0;
    for (uint64_t key = 0; key < 100; key++) {
        init_weights(&s, key, w);
        for (int i = 0; i < 1000; i++) {
            ck_assert(fabsf(w[i]) < 12.0f);
            sum += (double)w[i];
            squares += (double)w[i] * (double)w[i];
        }
    }
    ck_assert(fabs(sum / 1e5) < 0.03);
    ck_assert(fabs(squares / 1e5 - 4) < 0.08);
}
END_TEST

START_TEST(init_zero_first_leaves_the_others_as_they_are)
{
    struct table_schema s = rows_schema(OPT_SGD, 17, 0);
    float all[17], some[17];
    init_weights(&s, 5, all);
    s.zero_first = 1;
    init_weights(&s, 5, some);
    ck_assert(some[0] == 0 && all[0] != 0);
    ck_assert_mem_eq(all + 1, some + 1, 16 * sizeof(float));
    s.zero_first = 17;
    init_weights(&s, 5, some);
    for (int i = 0; i < 17; i++)
        ck_assert(some[i] == 0);
}
END_TEST

START_TEST(init_by_field_overrides_the_kind)
{
    struct table_schema s = rows_schema(OPT_SGD, 4, 0);
    s.field_rule_count = 3;
    s.field_rule[0] = (struct field_rule){
        .field = 2, .has = FIELD_HAS_INIT, .kind = INIT_CONSTANT, .scale = 1.5f};
    s.field_rule[1] = (struct field_rule){.field = 9, .has = FIELD_HAS_INIT, .kind = INIT_ZERO};
    s.field_rule[2] = (struct field_rule){
        .field = 65535, .has = FIELD_HAS_INIT, .kind = INIT_CONSTANT, .scale = -1.0f};
    const uint32_t fields[] = {0, 1, 2, 3, 9, 10, 65535};
    const float expected[] = {NAN, NAN, 1.5f, NAN, 0, NAN, -1.0f};
    for (int f = 0; f < 7; f++) {
        float w[4];
        init_weights(&s, key_make(fields[f], 77), w);
        for (int i = 0; i < 4; i++)
            ck_assert(isnan(expected[f]) ? w[i] != 0 && fabsf(w[i]) < 0.1f : w[i] == expected[f]);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("init");
    TCase *c = tcase_create("init");
    tcase_add_test(c, init_is_a_function_of_seed_and_key);
    tcase_add_test(c, init_keeps_its_bits);
    tcase_add_test(c, init_uniform_fills_its_open_range);
    tcase_add_test(c, init_normal_has_its_mean_and_deviation);
    tcase_add_test(c, init_zero_first_leaves_the_others_as_they_are);
    tcase_add_test(c, init_by_field_overrides_the_kind);
    suite_add_tcase(suite, c);
    return rows_main(suite);
}
