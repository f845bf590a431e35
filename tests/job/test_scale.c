/* test_scale.c: texts of scales come back, figures are those of the numbers, and other rules take
 * no figures. */
#include "proto/job/scale.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static struct scale parsed(const char *text)
{
    struct scale s = {0};
    ck_assert_msg(scale_parse(text, &s), "%s", text);
    return s;
}

START_TEST(scale_texts_come_back)
{
    static const char *const texts[] = {"none",
                                        "log1p",
                                        "log1p, fill -1",
                                        "standard",
                                        "standard 38.2 12.1",
                                        "standard -1e-09 1e+30, fill 0.1",
                                        "bucket",
                                        "bucket, fill 3",
                                        "bucket at 1 2.5 1e+06",
                                        "bucket of 4",
                                        "bucket of 4 at",
                                        "bucket of 4 at -1 0 1, fill 0"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct scale s = parsed(texts[i]);
        char text[SCALE_TEXT];
        scale_text(&s, text);
        ck_assert_str_eq(text, texts[i]);
    }
}
END_TEST

START_TEST(scale_texts_of_other_forms_are_refused)
{
    static const char *const texts[] = {"",
                                        "nonesuch",
                                        "none ",
                                        "none 1",
                                        "standard 1",
                                        "standard 1 0",
                                        "standard 1 -1",
                                        "standard 1 nan",
                                        "standard inf 1",
                                        "standard 1 2 3",
                                        "bucket at",
                                        "bucket at 2 1",
                                        "bucket at 1 1",
                                        "bucket at 1  2",
                                        "bucket of 1",
                                        "bucket of 51",
                                        "bucket of 2.5",
                                        "log1p, fill",
                                        "log1p, fill x",
                                        "log1p,fill 1"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct scale s = {.borders = 77};
        ck_assert_msg(!scale_parse(texts[i], &s), "%s", texts[i]);
        ck_assert_uint_eq(s.borders, 77);
    }
}
END_TEST

START_TEST(scale_has_room_for_the_most_borders_of_quantiles)
{
    struct scale s = {.transform = NUMBER_BUCKET, .quantiles = SCALE_BORDERS + 1};
    double number[SCALE_BORDERS + 1];
    char text[SCALE_TEXT];
    for (uint32_t i = 0; i <= SCALE_BORDERS; i++)
        number[i] = -1.234567e-300 * (double)(SCALE_BORDERS + 1 - i);
    scale_learn(&s, number, SCALE_BORDERS + 1);
    ck_assert_uint_eq(s.borders, SCALE_BORDERS);
    s.filled = true;
    s.fill = -1.2345678901234567e-300;
    ck_assert(scale_borders_fit(&s));
    scale_text(&s, text);
    struct scale again = parsed(text);
    ck_assert_mem_eq(again.border, s.border, sizeof s.border);
    ck_assert(again.fill == s.fill);
}
END_TEST

START_TEST(scale_figures_are_those_of_the_numbers)
{
    struct scale s = {.transform = NUMBER_STANDARD};
    double number[] = {4, 2, 8, 6};
    scale_learn(&s, number, 4);
    ck_assert(s.known && s.mean == 5 && fabs(s.deviation - sqrt(5)) < 1e-8);
    ck_assert(fabs(scale_standard(&s, 5 + s.deviation) - 1) < 1e-15);
    double same[] = {3, 3};
    scale_learn(&s, same, 2);
    ck_assert(s.mean == 3 && s.deviation == 1);
    scale_learn(&s, NULL, 0);
    ck_assert(s.mean == 0 && s.deviation == 1);
}
END_TEST

START_TEST(scale_quantiles_part_the_numbers_evenly)
{
    struct scale s = {.transform = NUMBER_BUCKET, .quantiles = 4};
    double number[] = {7, 1, 5, 3, 8, 2, 6, 4};
    scale_learn(&s, number, 8);
    ck_assert_uint_eq(s.borders, 3);
    ck_assert(s.border[0] == 3 && s.border[1] == 5 && s.border[2] == 7);
    for (uint32_t x = 1; x <= 8; x++)
        ck_assert_uint_eq(scale_bucket(&s, x), (x - 1) / 2);
    double ties[] = {0, 0, 0, 0, 0, 0, 9, 9};
    scale_learn(&s, ties, 8);
    ck_assert_uint_eq(s.borders, 1); /* equal numbers stay together */
    ck_assert_uint_eq(scale_bucket(&s, 0), 0);
    ck_assert_uint_eq(scale_bucket(&s, 9), 1);
    double one[] = {5, 5, 5};
    scale_learn(&s, one, 3);
    ck_assert_uint_eq(s.borders, 0);
    ck_assert(s.known);
}
END_TEST

START_TEST(scale_takes_figures_of_its_own_rule_alone)
{
    static const struct {
        const char *is, *kept;
        bool taken;
    } one[] = {{"standard", "standard 3 2", true},
               {"standard", "standard", false},
               {"standard, fill 1", "standard 3 2", false},
               {"bucket of 4", "bucket of 4 at 1 2 3", true},
               {"bucket of 5", "bucket of 4 at 1 2 3", false},
               {"bucket of 4", "bucket at 1 2 3", false},
               {"log1p", "standard 3 2", false}};
    for (size_t i = 0; i < sizeof one / sizeof one[0]; i++) {
        struct scale s = parsed(one[i].is), kept = parsed(one[i].kept);
        char text[SCALE_TEXT];
        ck_assert_msg(scale_take(&s, &kept) == one[i].taken, "%zu", i);
        scale_text(&s, text);
        ck_assert_str_eq(text, one[i].taken ? one[i].kept : one[i].is);
    }
}
END_TEST

START_TEST(scale_rules_of_many_borders_are_told_apart)
{
    struct scale a = {.transform = NUMBER_BUCKET, .known = true, .borders = 30}, b;
    char one[SCALE_RULE_TEXT], other[SCALE_RULE_TEXT];
    for (uint32_t i = 0; i < a.borders; i++)
        a.border[i] = i * 1000.5;
    b = a;
    scale_rule(&a, one);
    ck_assert_ptr_nonnull(strstr(one, "bucket at 30 borders ~"));
    b.border[29] += 1;
    scale_rule(&b, other);
    ck_assert_str_ne(one, other);
    b.borders = 3;
    scale_rule(&b, other);
    ck_assert_str_eq(other, "bucket at 0 1000.5 2001");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scale");
    TCase *cases = tcase_create("scale");
    tcase_add_test(cases, scale_texts_come_back);
    tcase_add_test(cases, scale_texts_of_other_forms_are_refused);
    tcase_add_test(cases, scale_has_room_for_the_most_borders_of_quantiles);
    tcase_add_test(cases, scale_figures_are_those_of_the_numbers);
    tcase_add_test(cases, scale_quantiles_part_the_numbers_evenly);
    tcase_add_test(cases, scale_takes_figures_of_its_own_rule_alone);
    tcase_add_test(cases, scale_rules_of_many_borders_are_told_apart);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
