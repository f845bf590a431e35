/* test_feature_table.c: the table that each field's rows lie in, and errors in it. */
#include "tests/lib/worker_files.h"
#include "worker/data/feature_inner.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct job job;
static struct features f;
static struct err e;

/* Makes columns label, user, item, history (which shares item's rows), weekday, city, with these
 * tables. */
static int make(const char *tables)
{
    static const char head[] = "label,user,item,history,weekday,city";
    char text[1024];
    job_free(&job);
    features_free(&f);
    snprintf(
        text, sizeof text,
        "data: {format: csv, train: [a.csv], label: label, columns: [{name: label, type: label}, "
        "{name: history, type: multi, share: item}, {name: user}, {name: item}, {name: weekday}, "
        "{name: city}]}\n"
        "tables:\n%s",
        tables);
    int rc = job_parse(text, strlen(text), "test", NULL, &job, &e);
    return rc != 0 ? rc : features_make(&job, "a.csv", head, sizeof head - 1, &f, &e);
}

static void check_tables(const char *tables, const char *expected)
{
    ck_assert_msg(make(tables) == 0, "%s", e.text);
    ck_assert_uint_eq(f.shape.fields, 5);
    ck_assert_uint_eq(f.tables, (uint32_t)job.table_count);
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_msg(f.shape.table[i] == (uint8_t)(expected[i] - '0'), "field %u is in table %u",
                      i, f.shape.table[i]);
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

START_TEST(feature_tables_one_table_has_all_fields)
{
    check_tables("  - {name: emb}\n", "00000");
    check_tables("  - {name: emb, fields: [user, item, weekday, city]}\n", "00000");
}
END_TEST

/* Fields are user, item, history, weekday, city. */
START_TEST(feature_tables_have_the_fields_that_they_name)
{
    check_tables("  - {name: wide, fields: [user, item]}\n  - {name: rest}\n", "00011");
    check_tables("  - {name: rest}\n  - {name: wide, fields: [user, item]}\n", "11100");
    check_tables("  - {name: a, fields: [city, user]}\n  - {name: b, fields: [weekday]}\n  - "
                 "{name: c, fields: [item]}\n",
                 "02210");
    /* by position */
    check_tables("  - {name: a, fields: [\"1\", \"2\"]}\n  - {name: b}\n", "00011");
    /* a shared field may be named */
    check_tables("  - {name: a, fields: [item, history]}\n  - {name: b}\n", "10011");
}
END_TEST

START_TEST(feature_tables_that_do_not_fit_are_refused)
{
    static const struct {
        const char *tables, *said;
    } wrong[] = {
        {"  - {name: a, fields: [usr]}\n  - {name: b}\n",
         "line 3: tables[0].fields names column \"usr\""},
        {"  - {name: b}\n  - {name: a, fields: [usr]}\n", "did you mean \"user\""},
        {"  - {name: a, fields: [label]}\n  - {name: b}\n", "which is no field"},
        {"  - {name: a, fields: [user, \"1\"]}\n  - {name: b}\n", "a field that is named before"},
        {"  - {name: a, fields: [user]}\n  - {name: b, fields: [\"1\", item, weekday, city]}\n",
         "line 4: tables[1].fields"},
        {"  - {name: a, fields: [user]}\n  - {name: b, fields: [item, city]}\n",
         "field \"weekday\" is in none"},
        {"  - {name: a, fields: [user, item, weekday, city]}\n  - {name: b}\n",
         "line 4: tables[1]: table b has no field"},
        {"  - {name: a, fields: [history]}\n  - {name: b}\n",
         "shares the rows of \"item\": those lie in table b"},
        {"  - {name: a, fields: [user], rules: [{field: item, ttl_days: 0, admit: {none: "
         "true}}]}\n  - {name: b}\n",
         "tables[0].rules names \"item\", whose rows lie in table b"},
        {"  - {name: a, rules: [{field: user, admit: {none: true}}, {field: \"1\", admit: {none: "
         "true}}]}\n",
         "there is a rule for \"1\" already"},
    };
    ck_assert_int_eq(make(wrong[_i].tables), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, wrong[_i].said) != NULL, "%s", e.text);
}
END_TEST

/* In the order of tables and their rules, each with the number of its field. */
START_TEST(feature_tables_rules_find_their_fields)
{
    ck_assert_msg(
        make("  - {name: a, fields: [city, user], rules: [{field: city, admit: {none: true}}, "
             "{field: user, admit: {min_count: 3}}]}\n"
             "  - {name: b, rules: [{field: weekday, admit: {none: true}}]}\n") == 0,
        "%s", e.text);
    ck_assert_uint_eq(f.shape.rule_field[0], 4);
    ck_assert_uint_eq(f.shape.rule_field[1], 0);
    ck_assert_uint_eq(f.shape.rule_field[2], 3);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("feature_table");
    TCase *t = tcase_create("feature_table");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, feature_tables_one_table_has_all_fields);
    tcase_add_test(t, feature_tables_have_the_fields_that_they_name);
    tcase_add_loop_test(t, feature_tables_that_do_not_fit_are_refused, 0, 10);
    tcase_add_test(t, feature_tables_rules_find_their_fields);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
