/* test_json.c: values that are set are read back; text that is not JSON is refused with its
 * place. */
#include "proto/base/json.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

START_TEST(json_builds_and_reads_back)
{
    struct json *j = json_new_object();
    struct json *list = json_new_array();
    ck_assert_int_eq(json_append_number(list, 0.1), 0);
    ck_assert_int_eq(json_append_string(list, "two"), 0);
    json_set(j, "list", list);
    json_set_string(j, "name", "emb");
    json_set_int(j, "rows", INT64_MAX);
    json_set_bool(j, "yes", true);
    json_set_hex(j, "key", UINT64_MAX);
    char *text = json_text(j, 0);
    ck_assert_str_eq(text, "{\"list\": [0.10000000000000001, \"two\"], \"name\": \"emb\", "
                           "\"rows\": 9223372036854775807, "
                           "\"yes\": true, \"key\": \"0xffffffffffffffff\"}");
    struct json *back;
    struct err e;
    ck_assert_int_eq(json_parse(text, strlen(text), &back, &e), 0);
    ck_assert(json_get_number(back, "list.0", 0) == 0.1);
    ck_assert_str_eq(json_get_string(back, "list.1", ""), "two");
    ck_assert_int_eq(json_get_int(back, "rows", 0), INT64_MAX);
    ck_assert(json_get_bool(back, "yes", false));
    ck_assert_int_eq(json_get_int(back, "columns", -7), -7);
    ck_assert_uint_eq(json_count(json_get(back, "list")), 2);
    ck_assert(json_absent(json_get(back, "list.2")));
    free(text);
    json_free(j);
    json_free(back);
}
END_TEST

START_TEST(json_writes_null_for_nan)
{
    struct json *j = json_new_object();
    json_set_number(j, "auc", NAN);
    char *text = json_text(j, 0);
    ck_assert_str_eq(text, "{\"auc\": null}");
    free(text);
    json_free(j);
}
END_TEST

START_TEST(json_replaces_bytes_that_are_not_utf8)
{
    struct json *j = json_new_string("a\xff"
                                     "b");
    ck_assert_str_eq(json_as_string(j, ""), "a?b");
    json_free(j);
}
END_TEST

START_TEST(json_refuses_damaged_text_with_its_line)
{
    const char *text = "{\"a\": 1,\n \"b\": }";
    struct json *j;
    struct err e;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, &e), SHOAL_E_DATA);
    ck_assert_ptr_null(j);
    ck_assert_ptr_nonnull(strstr(e.text, "line 2"));
    ck_assert_int_eq(json_parse("{\"a\":1,\"a\":2}", 13, &j, &e), SHOAL_E_DATA);
}
END_TEST

START_TEST(json_takes_null_values)
{
    ck_assert_int_eq(json_set_int(NULL, "x", 1), SHOAL_E_NOMEM);
    ck_assert_int_eq(json_append_number(NULL, 1), SHOAL_E_NOMEM);
    ck_assert_ptr_null(json_text(NULL, 0));
    ck_assert_ptr_null(json_get(NULL, "a.b"));
    ck_assert(json_as_number(NULL, 7) == 7);
    json_free(NULL);
}
END_TEST

START_TEST(json_number_beyond_63_bits_is_the_fallback)
{
    struct json *j;
    ck_assert_int_eq(json_parse("[1e300, -1e300, 2.9]", 20, &j, NULL), 0);
    ck_assert_int_eq(json_as_int(json_array_at(j, 0), 7), 7);
    ck_assert_int_eq(json_as_int(json_array_at(j, 1), 7), 7);
    ck_assert_int_eq(json_as_int(json_array_at(j, 2), 7), 2);
    json_free(j);
}
END_TEST

START_TEST(json_to_print_has_no_word_for_a_terminal)
{
    const char *text = "{\"a\\u001b\":[\"x\\ny\",{\"\\u009b\":\"\\u007f\\u20ac\"},1.5,true,null]}";
    struct json *j, *shown;
    ck_assert_int_eq(json_parse(text, strlen(text), &j, NULL), 0);
    ck_assert_ptr_nonnull(shown = json_printable(j));
    char *out = json_text(shown, 0), *same = json_text(j, 0);
    ck_assert_str_eq(out, "{\"a?\": [\"x?y\", {\"??\": \"?\u20ac\"}, 1.5, true, null]}");
    ck_assert_ptr_nonnull(strstr(same, "\\u001B")); /* unchanged */
    free(out);
    free(same);
    json_free(shown);
    json_free(j);
    ck_assert_ptr_null(json_printable(NULL));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("json");
    TCase *c = tcase_create("json");
    tcase_add_test(c, json_builds_and_reads_back);
    tcase_add_test(c, json_writes_null_for_nan);
    tcase_add_test(c, json_replaces_bytes_that_are_not_utf8);
    tcase_add_test(c, json_refuses_damaged_text_with_its_line);
    tcase_add_test(c, json_takes_null_values);
    tcase_add_test(c, json_to_print_has_no_word_for_a_terminal);
    tcase_add_test(c, json_number_beyond_63_bits_is_the_fallback);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
