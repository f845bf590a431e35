/* test_read_csv.c: cells of csv lines, quotes included. */
#include "proto/base/key.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"

#include <check.h>
#include <stdlib.h>

static struct cell cell[CELLS_MAX];
static char line[1 << 16];
static char reason[REASON_BYTES];

/* Returns the cells of a line, joined by | for comparing; NULL when the line is refused. */
static const char *cells(char delimiter, const char *text)
{
    static char joined[1 << 16];
    uint32_t count;
    size_t at = 0;
    const struct features f = {.delimiter = {delimiter}};
    strcpy(line, text);
    if (format_csv.head(&f, line, strlen(text), cell, &count, reason) != 0)
        return NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (i > 0)
            joined[at++] = '|';
        memcpy(joined + at, cell[i].text, cell[i].bytes);
        at += cell[i].bytes;
    }
    joined[at] = '\0';
    return joined;
}

START_TEST(csv_cells_stand_between_delimiters)
{
    ck_assert_str_eq(cells(',', "a,b,c"), "a|b|c");
    ck_assert_str_eq(cells(',', ",,"), "||");
    ck_assert_str_eq(cells(',', ""), "");
    ck_assert_str_eq(cells(',', "a\tb"), "a\tb");
    ck_assert_str_eq(cells('\t', "a\tb,c\t"), "a|b,c|");
    ck_assert_str_eq(cells(',', "0123456789abcde,0123456789abcdef,0123456789abcdef0,"),
                     "0123456789abcde|0123456789abcdef|0123456789abcdef0|");
}
END_TEST

START_TEST(csv_quoted_cells_hold_delimiters_and_quotes)
{
    ck_assert_str_eq(cells(',', "\"a,b\",c"), "a,b|c");
    ck_assert_str_eq(cells(',', "\"say \"\"hi\"\"\",c"), "say \"hi\"|c");
    ck_assert_str_eq(cells(',', "\"\",\"\""), "|");
    ck_assert_str_eq(cells(',', "\"\"\"\""), "\"");
    ck_assert_str_eq(cells(',', "a,\"b\","), "a|b|");
    /* a quote within a plain cell is a character */
    ck_assert_str_eq(cells(',', "a,b\"c,d"), "a|b\"c|d");
    ck_assert_str_eq(cells(',', "a\"b,\"c\"\"d\",\"ef\""), "a\"b|c\"d|ef");
}
END_TEST

START_TEST(csv_bad_quotes_are_refused)
{
    ck_assert_ptr_null(cells(',', "a,\"b"));
    ck_assert_ptr_nonnull(strstr(reason, "column 2"));
    ck_assert_ptr_null(cells(',', "\"a\"b,c"));
    ck_assert_ptr_nonnull(strstr(reason, "closing quote"));
    ck_assert_ptr_null(cells(',', "\""));
    ck_assert_ptr_null(cells(',', "0,\"say \\\"x\\\", ok\""));
    ck_assert_ptr_nonnull(strstr(reason, "sed 's/\\\\\"/\"\"/g'"));
    ck_assert_ptr_null(cells(',', "0,\"two"));
    ck_assert_ptr_nonnull(strstr(reason, "opened and not closed"));
}
END_TEST

START_TEST(csv_too_many_columns_are_refused)
{
    char *text = malloc(CELLS_MAX + 3);
    memset(text, ',', CELLS_MAX + 2);
    text[CELLS_MAX - 1] = '\0';
    ck_assert_ptr_nonnull(cells(',', text)); /* CELLS_MAX cells */
    text[CELLS_MAX - 1] = ',';
    text[CELLS_MAX] = '\0';
    ck_assert_ptr_null(cells(',', text));
    text[CELLS_MAX] = '"'; /* the same on the slow path */
    text[CELLS_MAX + 1] = '\0';
    ck_assert_ptr_null(cells(',', text));
    text[0] = 'x';
    text[CELLS_MAX - 1] = '"';
    text[CELLS_MAX] = '\0';
    ck_assert_ptr_null(cells(',', text));
    memset(text, ',', CELLS_MAX + 2);
    memcpy(text, "\"x\"", 3);
    text[CELLS_MAX + 2] = '\0';
    ck_assert_ptr_nonnull(cells(',', text)); /* CELLS_MAX again */
    free(text);
}
END_TEST

START_TEST(csv_line_needs_the_columns_of_the_header)
{
    struct job job;
    struct features f;
    struct err e = {0};
    static struct read_line r;
    worker_job(&job, DATA_CSV, NULL);
    ck_assert_int_eq(features_make(&job, "a.csv", "label,user,item", 15, &f, &e), 0);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,\"u,1\",i"), 0);
    ck_assert_uint_eq(r.example.keys, 2);
    ck_assert_uint_eq(r.key[0], key_of_value(0, "u,1", 3));
    ck_assert_uint_eq(r.key[1], key_of_value(1, "i", 1));
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,u"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(r.reason, "2 columns, not 3 as in the header"));
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "1,u,i,x"), SHOAL_E_DATA);
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "x,u,i"), SHOAL_E_DATA);
    features_free(&f);
    job_free(&job);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("read_csv");
    TCase *t = tcase_create("read_csv");
    tcase_add_test(t, csv_cells_stand_between_delimiters);
    tcase_add_test(t, csv_quoted_cells_hold_delimiters_and_quotes);
    tcase_add_test(t, csv_bad_quotes_are_refused);
    tcase_add_test(t, csv_too_many_columns_are_refused);
    tcase_add_test(t, csv_line_needs_the_columns_of_the_header);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
