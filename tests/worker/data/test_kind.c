/* test_kind.c: input that no format can read is named, with advice; input that a format reads is
 * accepted. */
#include "worker/data/kind.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct err e;

static void check_named(const char *data, size_t bytes, const char *is)
{
    e = (struct err){0};
    ck_assert_int_eq(kind_check("a.csv", data, bytes, &e), SHOAL_E_DATA);
    ck_assert_msg(strncmp(e.text, "a.csv is ", 9) == 0 && strstr(e.text, is) != NULL,
                  "\"%s\" does not say \"%s\"", e.text, is);
}
#define NAMED(text, is) check_named(text, sizeof(text) - 1, is)

static void check_taken(const char *data, size_t bytes)
{
    e = (struct err){0};
    ck_assert_msg(kind_check("a.csv", data, bytes, &e) == 0, "%s", e.text);
}
#define TAKEN(text) check_taken(text, sizeof(text) - 1)

START_TEST(kind_archives_are_named_with_a_command)
{
    char tar[512] = "day/0.csv";
    memcpy(tar + 257, "ustar", 5);
    NAMED("PK\x03\x04....", "a zip archive");
    NAMED("BZh91AY&SY", "packed twice, by bzip2");
    NAMED("\xfd\x37zXZ\0", "packed twice, by xz");
    NAMED("\x1f\x8b\x08", "packed twice");
    check_named(tar, sizeof tar, "a tar archive");
    check_taken(tar, 257 + 4);
}
END_TEST

START_TEST(kind_tables_of_other_tools_are_named)
{
    NAMED("PAR1\x15\x04", "read_parquet(FILE).to_csv");
    NAMED("\x93NUMPY\x01", "an array of NumPy");
    NAMED("<!DOCTYPE html>", "a web page");
    NAMED("version https://git-lfs.github.com/spec/v1\n", "git lfs pull");
}
END_TEST

START_TEST(kind_pictures_are_named)
{
    NAMED("\x89PNG\r\n", "a picture (png)");
    NAMED("\xff\xd8\xff\xe0", "a picture (jpeg)");
    NAMED("%PDF-1.7", "a PDF document");
}
END_TEST

START_TEST(kind_text_that_is_not_utf8_lines_is_named)
{
    NAMED("\xff\xfe\0\0"
          "c\0\0\0",
          "iconv -f UTF-32 ");
}
END_TEST

START_TEST(kind_input_of_a_format_is_taken)
{
    char long_line[2 * KIND_LOOK_BYTES];
    memset(long_line, 'x', sizeof long_line);
    TAKEN("");
    TAKEN("click,user\r\n1,a\r\n");
    TAKEN("\xef\xbb\xbf"
          "click,user\n");
    TAKEN("\xff,caf\xe9\n"); /* latin-1 */
    TAKEN("1,a\r");          /* one line, cut within its end */
    TAKEN("SHOALEV1\r\0\r\0\r\0");
    TAKEN("P\n");
    check_taken(long_line, sizeof long_line);
}
END_TEST

static void check_hint(const char *line, char delimiter, const char *expected)
{
    char hint[KIND_HINT_BYTES];
    kind_hint(line, strlen(line), delimiter, hint);
    ck_assert_msg(expected[0] == '\0' ? hint[0] == '\0' : strstr(hint, expected) != NULL,
                  "%s: \"%s\" does not say \"%s\"", line, hint, expected);
}

START_TEST(kind_of_a_first_line_is_told)
{
    char criteo[64] = "1";
    memset(criteo + 1, '\t', 39);
    check_hint(criteo, ',', "data.format: criteo");
    check_hint("click;user;item", ',', "3 columns are parted by \";\" here");
    check_hint("click\tuser", ',', "data.delimiter: tab");
    check_hint("click\x01user", ',', "data.delimiter: \"\\x01\"");
    check_hint("1 35:1 237:1", ',', "data.format: libsvm");
    check_hint("1 0:35:1 1:237:1", ',', "libffm");
    check_hint("click,user,item", '\t', "data.delimiter: \",\"");
    check_hint("{\"click\": 1, \"user\": 2}", ',', "it is JSON");
    check_hint("sep=,", ',', "sed 1d");
    check_hint("# made by me, today", ',', "grep -v '^#'");
    check_hint("SHOALEV1", ',', "data.format: events");
}
END_TEST

START_TEST(kind_of_a_line_that_fits_is_not_told)
{
    check_hint("click,user;name,item|x", ',', "");
    check_hint("click", ',', "");
    check_hint("#click,user", ',', "");
    check_hint("only three words", '\t', "");
    check_hint("", ',', "");
    check_hint("1 ", ',', "");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kind");
    TCase *t = tcase_create("kind");
    tcase_add_test(t, kind_archives_are_named_with_a_command);
    tcase_add_test(t, kind_tables_of_other_tools_are_named);
    tcase_add_test(t, kind_pictures_are_named);
    tcase_add_test(t, kind_text_that_is_not_utf8_lines_is_named);
    tcase_add_test(t, kind_input_of_a_format_is_taken);
    tcase_add_test(t, kind_of_a_first_line_is_told);
    tcase_add_test(t, kind_of_a_line_that_fits_is_not_told);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
