/* test_schema.c: valid tables, and the errors of invalid ones. */
#include "proto/job/gradient.h"
#include "proto/job/schema.h"

#include <check.h>
#include <math.h>
#include <string.h>

START_TEST(schema_out_of_range_is_refused)
{
    struct table_schema s = {.name = "t",
                             .width = 16,
                             .tablet_bits = 4,
                             .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f}},
                        other;
    ck_assert_int_eq(schema_check(&s, NULL), 0);
    other = s;
    ck_assert(schema_equal(&s, &other));
    other.optimizer.lr = NAN;
    ck_assert_int_eq(schema_check(&other, NULL), SHOAL_E_SCHEMA);
    ck_assert(!schema_equal(&s, &other));
    other = s;
    other.width = LIMIT_WIDTH + 1;
    ck_assert_int_eq(schema_check(&other, NULL), SHOAL_E_SCHEMA);
    ck_assert_uint_eq(schema_state_floats(&s), 16);
}
END_TEST

START_TEST(schema_of_16_bits_has_half_the_weights)
{
    struct table_schema s = {.name = "t",
                             .width = 17,
                             .tablet_bits = 4,
                             .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f}},
                        other;
    char text[SCHEMA_DIFFERENCE_MAX];
    ck_assert_uint_eq(schema_row_floats(&s), 34);
    for (s.values = VALUES_FP16; s.values <= VALUES_BF16; s.values++) {
        ck_assert_int_eq(schema_check(&s, NULL), 0);
        ck_assert_uint_eq(schema_weight_floats(&s), 9);
        ck_assert_uint_eq(schema_row_floats(&s), 9 + 17);
        ck_assert_uint_eq(schema_push_floats(&s), 17);
    }
    ck_assert_int_eq(schema_check(&s, NULL), SHOAL_E_SCHEMA); /* no such values */
    s.values = VALUES_FP16;
    s.rules.weight_max = 1e-8f;
    ck_assert_int_eq(schema_check(&s, NULL), SHOAL_E_SCHEMA);
    s.values = VALUES_BF16;
    ck_assert_int_eq(schema_check(&s, NULL), 0);
    s.rules.weight_max = 0;
    s.dense = 1;
    ck_assert_int_eq(schema_check(&s, NULL), SHOAL_E_SCHEMA);
    other = s;
    other.values = VALUES_FP32;
    ck_assert_int_eq(schema_check(&other, NULL), 0);
    ck_assert_str_eq(schema_difference(&s, &other, text), "values is bf16, not fp32");
}
END_TEST

/* Each rule out of its range, or without its condition; and the same rules within. */
START_TEST(schema_rules_out_of_range_are_refused)
{
    const struct table_schema plain = {
        .name = "t", .width = 4, .tablet_bits = 2, .optimizer = {.kind = OPT_SGD, .lr = 0.1f}};
    struct table_schema good = plain, s;
    good.rules = (struct row_rules){.stats = 1,
                                    .score_show = 0.1f,
                                    .score_click = 1,
                                    .admit_kind = ADMIT_COUNT,
                                    .admit_threshold = 65535,
                                    .admit_sketch = 64,
                                    .age_every = 86400,
                                    .age_decay = 0.98f,
                                    .age_score = 0.8f,
                                    .age_ttl = 86400,
                                    .age_capacity = 10,
                                    .vector_score = 10,
                                    .weight_max = 10,
                                    .by_shows = 1,
                                    .norm_max = 5};
    ck_assert_int_eq(schema_check(&good, NULL), 0);
#define REFUSED(change)                                                                            \
    do {                                                                                           \
        s = good;                                                                                  \
        change;                                                                                    \
        ck_assert_int_eq(schema_check(&s, NULL), SHOAL_E_SCHEMA);                                  \
    } while (0)
    REFUSED(s.rules.admit_threshold = 65536);
    REFUSED(s.rules.admit_sketch = 100);
    REFUSED(s.rules.admit_sketch = 2);
    REFUSED(s.rules.admit_kind = ADMIT_NONE + 1);
    REFUSED(s.rules.stats = 0);
    REFUSED(s.rules.age_every = 0);
    REFUSED(s.rules.age_decay = 1.5f);
    REFUSED(s.rules.age_score = NAN);
    REFUSED(s.rules.age_by = 2);
    REFUSED(s.dense = 1);
    s = good, s.rules.admit_sketch = 0, s.rules.admit_threshold = 65536;
    ck_assert_int_eq(schema_check(&s, NULL), 0);
    s = plain, s.field_rule_count = 1;
    s.field_rule[0] = (struct field_rule){.field = 1, .has = FIELD_HAS_TTL, .ttl = 5};
    s.rules.stats = 1;
    ck_assert_int_eq(schema_check(&s, NULL), SHOAL_E_SCHEMA);
    s.rules.age_every = 60;
    ck_assert_int_eq(schema_check(&s, NULL), 0);
    for (uint32_t second = 0; second < 3; second++) { /* one rule a field, in order */
        s.field_rule_count = 2;
        s.field_rule[1] = (struct field_rule){.field = second};
        ck_assert_int_eq(schema_check(&s, NULL), second == 2 ? 0 : SHOAL_E_SCHEMA);
    }
}
END_TEST

/* The largest value that may be pushed is accepted, also with a minus sign; the next one is not. */
START_TEST(gradients_are_within_the_limit)
{
    const struct table_schema s = {
        .name = "t", .width = 3, .tablet_bits = 2, .optimizer = {.kind = OPT_SGD, .lr = 0.1f}};
    struct gradient_fault f;
    for (uint32_t i = 0; i < 6; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            float values[6] = {0};
            values[i] = (float)sign * LIMIT_GRADIENT;
            ck_assert(!gradient_fault_find(&s, values, 2, &f));
            values[i] = nextafterf(values[i], (float)sign * INFINITY);
            ck_assert(gradient_fault_find(&s, values, 2, &f));
            ck_assert(f.why == GRADIENT_TOO_LARGE && f.rows == 1);
            ck_assert(f.key == i / 3 && f.place == i % 3);
        }
}
END_TEST

/* Each member by itself: every difference that equality sees is reported by name, with both
 * values. */
START_TEST(schema_difference_names_what_differs)
{
    static struct table_schema s, other;
    char text[SCHEMA_DIFFERENCE_MAX];
#define CHANGE_RULE(n) {&other.rules.n, #n},
    struct {
        void *at;
        const char *word;
    } change[] = {{&other.name, "the name"},
                  {&other.table, "number"},
                  {&other.dense, "dense"},
                  {&other.width, "width"},
                  {&other.zero_first, "zero_first"},
                  {&other.tablet_bits, "tablet_bits"},
                  {&other.tablet_first, "tablet_first"},
                  {&other.seed, "seed"},
                  {&other.init.kind, "init"},
                  {&other.init.scale, "init.scale"},
                  {&other.optimizer.kind, "the optimizer"},
                  {&other.optimizer.lr, "optimizer.lr"},
                  {&other.optimizer.beta1, "optimizer.beta1"},
                  {&other.optimizer.beta2, "optimizer.beta2"},
                  {&other.optimizer.eps, "optimizer.eps"},
                  {&other.optimizer.initial, "optimizer.initial"},
                  {&other.optimizer.l1, "optimizer.l1"},
                  {&other.optimizer.beta, "optimizer.beta"},
                  {&other.optimizer.decay, "optimizer.decay"},
                  {&other.optimizer.l2, "optimizer.l2"},
                  {&other.optimizer.fixed_lr, "optimizer.fixed_lr"},
                  {&other.field_rule[0].field, "field"},
                  {&other.field_rule[0].has, "field"},
                  {&other.field_rule[0].kind, "field"},
                  {&other.field_rule[0].scale, "field"},
                  {&other.field_rule[0].admit_kind, "field"},
                  {&other.field_rule[0].admit_threshold, "field"},
                  {&other.field_rule[0].ttl, "field"},
                  {&other.field_rule_count, "field"},
                  {&other.values, "values"},
                  ROW_RULES(CHANGE_RULE, CHANGE_RULE)};

    s = (struct table_schema){.name = "t",
                              .width = 16,
                              .tablet_bits = 4,
                              .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f},
                              .field_rule_count = 1};
    other = s;
    ck_assert_str_eq(schema_difference(&s, &other, text), "");
    for (size_t i = 0; i < sizeof change / sizeof change[0]; i++) {
        other = s;
        *(unsigned char *)change[i].at ^= 1;
        ck_assert(!schema_equal(&s, &other));
        ck_assert_msg(strstr(schema_difference(&s, &other, text), change[i].word) != NULL,
                      "%s: '%s'", change[i].word, text);
    }
    other = s;
    other.optimizer.lr = 0.25f;
    ck_assert_str_eq(schema_difference(&s, &other, text), "optimizer.lr is 0.1, not 0.25");
}
END_TEST

/* By member: which changes a table with rows accepts from another job. Members that rows, names and
 * places depend on stay. The rules are not listed here: each must define it, or schema_field.c does
 * not compile. */
START_TEST(schema_change_says_what_may)
{
    static struct table_schema s, is;
    char text[SCHEMA_DIFFERENCE_MAX];
    struct {
        void *at;
        enum schema_change change;
    } of[] = {{&is.name, SCHEMA_STAYS},
              {&is.dense, SCHEMA_STAYS},
              {&is.width, SCHEMA_STAYS},
              {&is.zero_first, SCHEMA_STAYS},
              {&is.tablet_bits, SCHEMA_STAYS},
              {&is.tablet_first, SCHEMA_STAYS},
              {&is.seed, SCHEMA_STAYS},
              {&is.values, SCHEMA_STAYS},
              {&is.optimizer.kind, SCHEMA_STAYS},
              {&is.rules.stats, SCHEMA_STAYS},
              {&is.init.kind, SCHEMA_TURNS},
              {&is.init.scale, SCHEMA_TURNS},
              {&is.optimizer.lr, SCHEMA_TURNS},
              {&is.optimizer.eps, SCHEMA_TURNS},
              {&is.optimizer.decay, SCHEMA_TURNS},
              {&is.optimizer.fixed_lr, SCHEMA_TURNS},
              {&is.rules.admit_kind, SCHEMA_TURNS},
              {&is.rules.admit_sketch, SCHEMA_TURNS},
              {&is.rules.vector_score, SCHEMA_TURNS},
              {&is.rules.weight_max, SCHEMA_TURNS},
              {&is.rules.age_ttl, SCHEMA_AGES},
              {&is.rules.age_every, SCHEMA_AGES},
              {&is.rules.age_capacity, SCHEMA_AGES},
              {&is.rules.score_show, SCHEMA_AGES},
              {&is.field_rule[0].scale, SCHEMA_TURNS},
              {&is.field_rule[0].ttl, SCHEMA_AGES},
              {&is.field_rule_count, SCHEMA_AGES}};
    s = (struct table_schema){.name = "t",
                              .width = 16,
                              .tablet_bits = 4,
                              .optimizer = {.kind = OPT_ADAGRAD, .lr = 0.1f},
                              .field_rule_count = 1};
    is = s;
    ck_assert_int_eq(schema_change(&s, &is, text), SCHEMA_SAME);
    ck_assert_str_eq(text, "");
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        is = s;
        *(unsigned char *)of[i].at ^= 1;
        enum schema_change change = schema_change(&s, &is, text);
        ck_assert_msg(change == of[i].change, "%s: %d", text, (int)change);
        /* beside a member that may change at any time, the other one is reported */
        is.optimizer.beta1 = 0.5f;
        ck_assert_int_eq(schema_change(&s, &is, text), of[i].change);
        ck_assert(of[i].change == SCHEMA_TURNS || strstr(text, "beta1") == NULL);
    }
}
END_TEST

START_TEST(schema_change_keeps_rows_as_they_are)
{
    static struct table_schema s, is;
    char text[SCHEMA_DIFFERENCE_MAX];
    s = (struct table_schema){.name = "t", .width = 16, .optimizer = {.kind = OPT_SGD, .lr = 0.1f}};
    is = s, is.optimizer.l2 = 0.5f; /* rows get a place for it */
    ck_assert_int_eq(schema_change(&s, &is, text), SCHEMA_STAYS);
    ck_assert_str_eq(text, "optimizer.l2 is 0, not 0.5");
    s.optimizer.l2 = 0.25f;
    ck_assert_int_eq(schema_change(&s, &is, text), SCHEMA_TURNS);
    s.optimizer.kind = OPT_FTRL, is = s; /* its weights are computed with them */
    float *of_weights[] = {&is.optimizer.lr, &is.optimizer.beta, &is.optimizer.l1,
                           &is.optimizer.l2};
    for (int i = 0; i < 4; i++) {
        is = s;
        *of_weights[i] += 0.5f;
        ck_assert_int_eq(schema_change(&s, &is, text), SCHEMA_STAYS);
    }
    is = s, is.optimizer.initial = 0.5f;
    ck_assert_int_eq(schema_change(&s, &is, text), SCHEMA_TURNS);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("schema");
    TCase *t = tcase_create("schema");
    tcase_add_test(t, schema_out_of_range_is_refused);
    tcase_add_test(t, schema_of_16_bits_has_half_the_weights);
    tcase_add_test(t, schema_rules_out_of_range_are_refused);
    tcase_add_test(t, gradients_are_within_the_limit);
    tcase_add_test(t, schema_difference_names_what_differs);
    tcase_add_test(t, schema_change_says_what_may);
    tcase_add_test(t, schema_change_keeps_rows_as_they_are);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
