/* test_own_rule.c: a Shoal with two more rules (own_rule_row.h) stores and reads schemas. */
#include "tests/lib/embedding_schema.h"

static struct table_schema with_own_rules(void)
{
    struct table_schema s = schema_rich();
    s.rules.own_days = 3;
    s.rules.own_share = 0.5f;
    return s;
}

START_TEST(a_new_rule_changes_no_schema_that_has_none)
{
    struct table_schema s = schema_rich();
    struct form f = form_of(&s);
    ck_assert_uint_eq(f.count, RICH_BYTES);
    ck_assert_uint_eq(hash_bytes(f.bytes, f.count, 0), RICH_HASH);
    ck_assert_uint_eq(image_digest(&s), RICH_IMAGE);
}
END_TEST

START_TEST(a_new_rule_is_stored_compared_and_in_the_images_digest)
{
    struct table_schema s = with_own_rules(), without = schema_rich(), back;
    struct form f = form_of(&s);
    char text[SCHEMA_DIFFERENCE_MAX];
    ck_assert_uint_eq(f.count, RICH_BYTES + 2 * (4 + 4) + strlen("own_days") + strlen("own_share"));
    ck_assert_int_eq(record_schema_read(f.bytes, f.count, &back, NULL), 0);
    ck_assert_uint_eq(back.rules.own_days, 3);
    ck_assert_float_eq(back.rules.own_share, 0.5f);
    ck_assert(schema_equal(&s, &back) && !schema_equal(&s, &without));
    ck_assert_str_eq(schema_difference(&s, &without, text), "own_days is 3, not 0");
    ck_assert_uint_ne(image_digest(&s), RICH_IMAGE);
}
END_TEST

/* Each rule changes the digest by its name and by its value, also beside all others. */
START_TEST(the_images_digest_tells_new_rules_apart)
{
    struct table_schema s[6];
    for (int i = 0; i < 6; i++)
        s[i] = schema_rich();
    s[1].rules.own_days = 3;
    s[2].rules.own_days = 4;
    memcpy(&s[3].rules.own_share, &s[1].rules.own_days, sizeof(float)); /* the same bytes */
    s[4] = s[1];
    s[4].seed++;
    s[5] = s[1];
    s[5].rules.own_share = 0.5f;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            ck_assert_msg(image_digest(&s[i]) != image_digest(&s[k]), "%d %d", i, k);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("own_rule");
    TCase *t = tcase_create("own_rule");
    tcase_add_test(t, a_new_rule_changes_no_schema_that_has_none);
    tcase_add_test(t, a_new_rule_is_stored_compared_and_in_the_images_digest);
    tcase_add_test(t, the_images_digest_tells_new_rules_apart);
    suite_add_tcase(s, t);
    return suite_main(s);
}
