/* test_block.c: tensors as rows of a dense table. */
#include "tests/lib/dense_check.h"

#include "dense/layer/block.h"
#include "proto/base/key.h"

#include <string.h>

static struct block_layout layout(void)
{
    struct block_layout b = {0};
    ck_assert_uint_eq(block_add(&b, "w", "1", 1, (struct init_spec){INIT_ZERO, 0}, false), 0);
    ck_assert_uint_eq(
        block_add(&b, "w", "1", 3 * BLOCK_FLOATS, (struct init_spec){INIT_UNIFORM, 0.5f}, true),
        BLOCK_FLOATS);
    ck_assert_uint_eq(
        block_add(&b, "w", "1", BLOCK_FLOATS + 1, (struct init_spec){INIT_CONSTANT, 1}, false),
        4 * BLOCK_FLOATS);
    ck_assert_uint_eq(b.floats, 6 * BLOCK_FLOATS);
    ck_assert(!b.tensor[0].decay && b.tensor[1].decay && !b.tensor[2].decay);
    return b;
}

START_TEST(block_keys_are_sorted_as_pulled_and_name_their_place)
{
    struct block_layout b = layout();
    uint64_t *keys;
    uint32_t *block;
    bool seen[6] = {false};
    ck_assert_int_eq(block_keys(&b, &keys, &block), 0);
    for (int i = 0; i < 6; i++) {
        ck_assert(i == 0 || key_mix(keys[i - 1]) < key_mix(keys[i]));
        uint32_t t = key_field(keys[i]);
        ck_assert_uint_lt(t, 3);
        ck_assert_uint_eq(block[i],
                          b.tensor[t].first / BLOCK_FLOATS + (keys[i] & 0xffffffffffffULL));
        seen[block[i]] = true;
    }
    for (int i = 0; i < 6; i++)
        ck_assert(seen[i]);
    free(keys);
    free(block);
}
END_TEST

START_TEST(block_inits_go_by_tensor)
{
    struct block_layout b = layout();
    struct table_schema s;
    memset(&s, 0xff, sizeof s);
    block_inits(&b, &s);
    ck_assert_uint_eq(s.field_rule_count, 2);
    ck_assert_uint_eq(s.field_rule[0].field, 1);
    ck_assert_uint_eq(s.field_rule[0].kind, INIT_UNIFORM);
    ck_assert_uint_eq(s.field_rule[1].field, 2);
    ck_assert_float_eq(s.field_rule[1].scale, 1.0f);
    ck_assert_int_eq(s.init.kind, INIT_ZERO);
}
END_TEST

START_TEST(block_keys_of_nothing_are_none)
{
    struct block_layout b = {0};
    uint64_t *keys;
    uint32_t *block;
    ck_assert_int_eq(block_keys(&b, &keys, &block), 0);
    free(keys);
    free(block);
}
END_TEST

START_TEST(block_says_when_there_are_too_many_tensors)
{
    static struct block_layout b;
    for (uint32_t t = 0; t < BLOCK_TENSORS_MAX; t++)
        block_add(&b, "w", "1", 1, (struct init_spec){INIT_ZERO, 0}, false);
    ck_assert(!b.overflow);
    block_add(&b, "w", "1", 1, (struct init_spec){INIT_ZERO, 0}, false);
    ck_assert(b.overflow);
    ck_assert_uint_eq(b.tensor_count, BLOCK_TENSORS_MAX);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("block");
    TCase *t = tcase_create("block");
    tcase_add_test(t, block_keys_are_sorted_as_pulled_and_name_their_place);
    tcase_add_test(t, block_inits_go_by_tensor);
    tcase_add_test(t, block_keys_of_nothing_are_none);
    tcase_add_test(t, block_says_when_there_are_too_many_tensors);
    suite_add_tcase(s, t);
    return dense_check_run(s);
}
