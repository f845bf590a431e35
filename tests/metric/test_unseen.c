/* test_unseen.c: which shares of values without a row are notable. */
#include "proto/metric/unseen.h"

#include <check.h>
#include <string.h>

static char text[1024];

/* Makes fields f0, f1.. with 1,000 values each, `absent` of them without a row. */
static struct json *list_of(const int *absent, uint32_t count)
{
    static struct unseen u;
    struct legend names = {.count = {0}};
    u.fields = 0;
    for (uint32_t i = 0; i < count; i++) {
        char name[8] = {'f', (char)('0' + i)};
        ck_assert_int_eq(legend_add(&names, LEGEND_FIELDS, name, "emb", "category", NULL), 0);
        names.name[LEGEND_FIELDS][i].number = 10 + i;
        names.name[LEGEND_FIELDS][i].here = true;
        struct unseen_field of = {10 + i, 1000, (uint64_t)absent[i]};
        unseen_add(&u, &of, 1);
    }
    struct json *list = unseen_json(&u, &names);
    legend_free(&names);
    return list;
}

static void check_note(const int *absent, uint32_t count, const char *fields)
{
    struct json *list = list_of(absent, count);
    unseen_note(list, "data.valid", text, sizeof text);
    json_free(list);
    ck_assert_msg(fields[0] == '\0' ? text[0] == '\0' : strstr(text, fields) != NULL, "\"%s\"",
                  text);
}

START_TEST(unseen_field_stands_out_by_its_share)
{
    check_note((const int[]){20, 1000, 10, 0}, 4, "have no row: f1 100 %;");
    check_note((const int[]){1000, 999, 1000}, 3, "f0 100 %, f2 100 %, f1 100 %;");
    check_note((const int[]){20, 120, 10, 0}, 4, "have no row: f1 12 %;");
    check_note((const int[]){400, 0, 0, 0, 126, 3, 0, 0, 0, 0}, 10, "no row: f0 40 %, f4 13 %;");
    check_note((const int[]){501}, 1, "f0 50 %;");
    ck_assert_ptr_nonnull(strstr(text, "data.valid: "));
}
END_TEST

/* Rare values in every field, or in four of ten; less than a tenth; a single field. */
START_TEST(unseen_fields_alike_do_not_stand_out)
{
    check_note((const int[]){0, 0, 0}, 3, "");
    check_note((const int[]){0, 99, 0}, 3, "");
    check_note((const int[]){300, 250, 240, 260}, 4, "");
    check_note((const int[]){60, 290, 70}, 3, "");
    check_note((const int[]){400}, 1, "");
    check_note((const int[]){127, 126, 104, 96, 0, 0, 0, 0, 0, 0}, 10, "");
}
END_TEST

START_TEST(unseen_of_few_values_says_nothing)
{
    struct legend names = {.count = {0}};
    struct unseen u = {.fields = 0};
    ck_assert_ptr_null(unseen_json(&u, &names));
    unseen_add(&u, &(struct unseen_field){7, 49, 49}, 1);
    struct json *list = unseen_json(&u, &names);
    unseen_note(list, "data.test", text, sizeof text);
    ck_assert_str_eq(text, "");
    ck_assert_str_eq(json_as_string(json_get(list, "0.name"), ""), "7");
    json_free(list);
}
END_TEST

START_TEST(unseen_figures_add_up_by_number)
{
    struct unseen u = {.fields = 0};
    struct legend names = {.count = {0}};
    unseen_add(&u, (const struct unseen_field[]){{3, 10, 1}, {1, 20, 2}}, 2);
    unseen_add(&u, (const struct unseen_field[]){{1, 20, 3}, {5, 4, 4}}, 2);
    ck_assert_uint_eq(u.fields, 3);
    ck_assert(u.of[0].values == 10 && u.of[1].values == 40 && u.of[1].absent == 5);
    struct json *list = unseen_json(&u, &names), *other = unseen_json(&u, &names);
    unseen_json_add(list, other);
    ck_assert_int_eq(json_as_int(json_get(list, "1.values"), 0), 80);
    ck_assert_int_eq(json_as_int(json_get(list, "2.absent"), 0), 8);
    ck_assert(json_as_number(json_get(list, "1.share"), 0) == 0.125);
    unseen_text(list, text, sizeof text);
    ck_assert_str_eq(text, "5 100 %, 1 12 %, 3 10 %");
    json_free(list);
    json_free(other);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("unseen");
    TCase *t = tcase_create("unseen");
    tcase_add_test(t, unseen_field_stands_out_by_its_share);
    tcase_add_test(t, unseen_fields_alike_do_not_stand_out);
    tcase_add_test(t, unseen_of_few_values_says_nothing);
    tcase_add_test(t, unseen_figures_add_up_by_number);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
