/* test_framing.c: csv rows over several lines, and records: what is a row, from the file's begin
 * and from any row on. */
#include "proto/job/config.h"
#include "tests/lib/records.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/data/index.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct cache cache;
static struct string_list list;
static struct source source;
static struct index x;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    list = (struct string_list){0};
    e = (struct err){0};
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
}

static void teardown(void)
{
    index_close(&x);
    source_close(&source);
    config_list_free(&list);
    worker_folder_remove();
}

static const struct row_form csv = {.framing = FRAMING_CSV, .delimiter = ",", .columns = 2};
static const struct row_form records = {.framing = FRAMING_TFRECORD};

static int open_bytes(const void *data, size_t bytes, const struct row_form *form)
{
    config_list_free(&list);
    index_close(&x);
    source_close(&source);
    config_list_add(&list, worker_write("a", data, bytes));
    ck_assert_msg(source_open(&list, "data.train", &cache, &source, &e) == 0, "%s", e.text);
    return index_open(&source, form, NULL, &cache, &x, &e);
}

/* The rows from row `from` on, in brackets behind the numbers of their lines. */
static const char *rows_from(const struct row_form *form, uint64_t from, uint64_t to)
{
    static char text[65536];
    struct lines lines;
    struct line line;
    size_t at = 0;
    ck_assert_int_eq(lines_init(&lines, &e), 0);
    uint64_t end = to < x.rows ? x.chunk[to].at : source.bytes;
    lines_start(&lines, &source, *form, x.chunk[from].at, end, x.chunk[from].number);
    text[0] = '\0';
    while (lines_next(&lines, &line, &e) == 0)
        at += (size_t)sprintf(text + at, "%d[%.*s]", (int)line.number, (int)line.bytes, line.text);
    lines_free(&lines);
    return text;
}

static const char *csv_rows(const char *text)
{
    ck_assert_int_eq(open_bytes(text, strlen(text), &csv), 0);
    return rows_from(&csv, 0, x.rows);
}

START_TEST(lines_of_a_quoted_cell_are_one_row)
{
    ck_assert_str_eq(csv_rows("1,a\n2,\"b\nc\"\n3,d\n"), "1[1,a]2[2,\"b\nc\"]4[3,d]");
    ck_assert_str_eq(csv_rows("\"a\r\n\nb\",\"c\nd\"\r\n1,2"), "1[\"a\r\n\nb\",\"c\nd\"]5[1,2]");
    ck_assert_str_eq(csv_rows("1,\"a\n\"\"b\""), "1[1,\"a\n\"\"b\"]");
    ck_assert_uint_eq(x.rows, 1);
}
END_TEST

START_TEST(lines_a_stray_quote_costs_one_line)
{
    /* never closed */
    ck_assert_str_eq(csv_rows("1,\"a\n2,b\n3,c\n"), "1[1,\"a]2[2,b]3[3,c]");
    ck_assert_str_eq(csv_rows("1,\"a\n2,b"), "1[1,\"a]2[2,b]");
    /* closed by the opening quote of another row, with text behind it */
    ck_assert_str_eq(csv_rows("1,\"a\n2,b\n3,\"c\"\n4,d\n"), "1[1,\"a]2[2,b]3[3,\"c\"]4[4,d]");
    /* closed rightly by another stray quote, and the row has too many cells */
    ck_assert_str_eq(csv_rows("1,\"a\n2,b\nc\",d\n4,e\n"), "1[1,\"a]2[2,b]3[c\",d]4[4,e]");
    /* a quote within a plain cell opens nothing */
    ck_assert_str_eq(csv_rows("1,5\" pipe\n2,6\" pipe\n"), "1[1,5\" pipe]2[2,6\" pipe]");
}
END_TEST

START_TEST(lines_between_stray_quotes_are_rows)
{
    /* the quotes close rightly, and the row would have two cells */
    ck_assert_str_eq(csv_rows("1,\"a\n2,b\n3,c\nd\"\n4,e\n"), "1[1,\"a]2[2,b]3[3,c]4[d\"]5[4,e]");
    /* a text with other numbers of cells between is one cell still */
    ck_assert_str_eq(csv_rows("1,\"a\n\nb, c, d\ne\nf, g\"\n4,e\n"),
                     "1[1,\"a\n\nb, c, d\ne\nf, g\"]6[4,e]");
}
END_TEST

static const char *rows_of(const struct row_form *form, const char *text)
{
    ck_assert_int_eq(open_bytes(text, strlen(text), form), 0);
    return rows_from(form, 0, x.rows);
}

/* Two quotes that RFC 4180 would take for one cell, and both lines are rows without them. */
START_TEST(lines_of_neighbours_with_stray_quotes_are_rows)
{
    const struct row_form three = {.framing = FRAMING_CSV, .delimiter = ",", .columns = 3},
                          number = {
                              .framing = FRAMING_CSV, .delimiter = ",", .columns = 3, .number = 1};
    const char *text = "1,\"rome,5\n2,paris\",6\n3,oslo,7\n",
               *rows = "1[1,\"rome,5]2[2,paris\",6]3[3,oslo,7]";
    ck_assert_str_eq(rows_of(&three, text), rows);
    ck_assert_str_eq(rows_of(&number, text), rows);
    ck_assert_str_eq(rows_of(&three, "1,\"rome,5\n\n2,paris\",6\n"), "1[1,\"rome,5]3[2,paris\",6]");
    /* a text whose parts have other numbers of cells, or no number where one belongs */
    ck_assert_str_eq(rows_of(&three, "1,\"rome\nand paris\",6\n"), "1[1,\"rome\nand paris\",6]");
    ck_assert_str_eq(rows_of(&number, "1,5,\"rome\nthen, at last, paris\"\n"),
                     "1[1,5,\"rome\nthen, at last, paris\"]");
}
END_TEST

/* A line of a text with as many cells as a row is none where the job has a column of numbers. */
START_TEST(lines_of_a_text_are_no_rows_without_a_number)
{
    struct row_form form = {.framing = FRAMING_CSV, .delimiter = ",", .columns = 3, .number = 3};
    const char *text = "a,\"one\ntwo, three, four\nfive\",1\nb,x,0\n",
               *strays = "a,\"one\nc,three,0\nfive\",1\nb,x,0\n",
               *quoted = "a,\"one\n\"c\",three,\"0\"\nfive\",1\n";
    ck_assert_str_eq(rows_of(&form, text), "1[a,\"one\ntwo, three, four\nfive\",1]4[b,x,0]");
    ck_assert_str_eq(rows_of(&form, strays), "1[a,\"one]2[c,three,0]3[five\",1]4[b,x,0]");
    ck_assert_uint_eq(strlen(rows_of(&form, quoted)),
                      strlen("1[a,\"one]2[\"c\",three,\"0\"]3[five\",1]"));
    static const char *const numbers[] = {"",      "0",    "-1.5",  "+2", ".5",
                                          "\"7\"", "True", "false", " 3"},
                             *const texts[] = {"x", "\"x", "-", "tr"};
    char line[64];
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t n = (size_t)sprintf(line, "c,d,%s", numbers[i]);
        ck_assert_msg(framing_is_row(&form, line, n, false), "%s", line);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        size_t n = (size_t)sprintf(line, "c,d,%s", texts[i]);
        ck_assert_msg(!framing_is_row(&form, line, n, false), "%s", line);
    }
    form.number = 0;
    ck_assert_str_eq(rows_of(&form, text), "1[a,\"one]2[two, three, four]3[five\",1]4[b,x,0]");
}
END_TEST

START_TEST(lines_from_any_row_on_are_the_same_rows)
{
    const char *text = "1,\"a\nb\"\n2,\"c\n3,d\n\"e\n\n\",f\n5,\"g\n6,\"h\"\n7,\"\n\"\n";
    char all[4096];
    strcpy(all, csv_rows(text));
    ck_assert_uint_eq(x.rows, 7);
    for (uint64_t i = 0; i <= x.rows; i++) {
        char two[8192];
        two[0] = '\0';
        if (i > 0)
            strcpy(two, rows_from(&csv, 0, i));
        if (i < x.rows)
            strcat(two, rows_from(&csv, i, x.rows));
        ck_assert_str_eq(two, all);
    }
}
END_TEST

START_TEST(lines_longer_than_the_limit_are_no_row_together)
{
    size_t bytes = LIMIT_LINE_BYTES + 100;
    char *text = malloc(bytes + 16);
    memset(text, 'x', bytes);
    memcpy(text, "1,\"", 3);
    for (size_t i = 1000; i < bytes; i += 1000)
        text[i] = '\n';
    memcpy(text + bytes, "\"\n", 2);
    ck_assert_int_eq(open_bytes(text, bytes + 2, &csv), 0);
    ck_assert_uint_eq(x.rows, bytes / 1000 + 1);
    bytes = 2000;
    memcpy(text + bytes, "\"\n", 2);
    ck_assert_int_eq(open_bytes(text, bytes + 2, &csv), 0);
    ck_assert_uint_eq(x.rows, 1);
    free(text);
}
END_TEST

START_TEST(lines_with_a_delimiter_of_two_bytes)
{
    const struct row_form form = {.framing = FRAMING_CSV, .delimiter = "::", .columns = 2};
    const char *text = "1::\"a\nb\"\n2:\"::c\n3::\"d:\n\"\n";
    ck_assert_int_eq(open_bytes(text, strlen(text), &form), 0);
    ck_assert_str_eq(rows_from(&form, 0, x.rows), "1[1::\"a\nb\"]3[2:\"::c]4[3::\"d:\n\"]");
}
END_TEST

/* scikit-learn writes three such lines before the rows. */
START_TEST(lines_that_are_comments_are_no_rows)
{
    const struct row_form form = {.framing = FRAMING_LINES, .comments = true};
    const char *text = "# made by hand\n1 3:1\n#\n0 4:1 # a row\n# end";
    ck_assert_str_eq(rows_of(&form, text), "2[1 3:1]4[0 4:1 # a row]");
    ck_assert_uint_eq(x.rows, 2);
    ck_assert_str_eq(rows_from(&form, 1, 2), "4[0 4:1 # a row]");
    ck_assert_str_eq(rows_of(&ROW_FORM_LINES, "#\n1\n"), "1[#]2[1]");
}
END_TEST

static uint8_t file[8u << 20];

static size_t three(void)
{
    size_t n = record_frame(file, "one", 3);
    n += record_frame(file + n, "", 0);
    return n + record_frame(file + n, "three\nlines\n\n", 13);
}

START_TEST(records_are_rows)
{
    ck_assert_int_eq(open_bytes(file, three(), &records), 0);
    ck_assert_uint_eq(x.rows, 3);
    ck_assert_str_eq(rows_from(&records, 0, 3), "1[one]2[]3[three\nlines\n\n]");
    ck_assert_str_eq(rows_from(&records, 1, 2), "2[]");
    ck_assert_str_eq(rows_from(&records, 2, 3), "3[three\nlines\n\n]");
}
END_TEST

START_TEST(records_of_a_file_that_is_cut_are_refused_with_the_byte)
{
    size_t all = three();
    for (size_t bytes = 1; bytes < all; bytes++) {
        int rc = open_bytes(file, bytes, &records);
        if (bytes == 19 || bytes == 35)
            ck_assert_int_eq(rc, 0); /* between two records */
        else
            ck_assert_int_eq(rc, SHOAL_E_DATA);
    }
    ck_assert_ptr_nonnull(strstr(e.text, "record 3, at byte 35: the file ends within a TFRecord"));
}
END_TEST

START_TEST(records_with_a_wrong_checksum_are_faults)
{
    struct lines lines;
    struct line line;
    size_t all = three();
    file[12] ^= 1; /* the first one's data */
    ck_assert_int_eq(open_bytes(file, all, &records), 0);
    ck_assert_uint_eq(x.rows, 3);
    ck_assert_int_eq(lines_init(&lines, &e), 0);
    lines_start(&lines, &source, records, 0, source.bytes, 0);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_nonnull(strstr(line.fault, "the checksum of the record is wrong"));
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_null(line.fault);
    lines_free(&lines);
    file[12] ^= 1;
    file[19] ^= 1; /* the second one's length */
    ck_assert_int_eq(open_bytes(file, all, &records), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "record 2, at byte 19: no TFRecord begins here"));
}
END_TEST

START_TEST(records_longer_than_the_limit_are_passed_over)
{
    uint8_t *data = calloc(1, 3u << 20);
    size_t n = record_frame(file, data, 3u << 20);
    n += record_frame(file + n, "b", 1);
    size_t limit = n;
    n += record_frame(file + n, data, LIMIT_LINE_BYTES);
    n += record_frame(file + n, "d", 1);
    ck_assert_int_eq(open_bytes(file, n, &records), 0);
    ck_assert_uint_eq(x.rows, 4);
    struct lines lines;
    struct line line;
    ck_assert_int_eq(lines_init(&lines, &e), 0);
    lines_start(&lines, &source, records, 0, source.bytes, 0);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_nonnull(strstr(line.fault, "longer than 1048576 bytes"));
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_int_eq(line.text[0], 'b');
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_null(line.fault);
    ck_assert_uint_eq(line.bytes, LIMIT_LINE_BYTES);
    ck_assert_uint_eq(line.at, limit);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_int_eq(line.text[0], 'd');
    lines_free(&lines);
    free(data);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("framing");
    TCase *t = suite_case(s, "framing", 60, setup, teardown);
    tcase_add_test(t, lines_of_a_quoted_cell_are_one_row);
    tcase_add_test(t, lines_a_stray_quote_costs_one_line);
    tcase_add_test(t, lines_between_stray_quotes_are_rows);
    tcase_add_test(t, lines_of_neighbours_with_stray_quotes_are_rows);
    tcase_add_test(t, lines_of_a_text_are_no_rows_without_a_number);
    tcase_add_test(t, lines_from_any_row_on_are_the_same_rows);
    tcase_add_test(t, lines_longer_than_the_limit_are_no_row_together);
    tcase_add_test(t, lines_that_are_comments_are_no_rows);
    tcase_add_test(t, lines_with_a_delimiter_of_two_bytes);
    tcase_add_test(t, records_are_rows);
    tcase_add_test(t, records_of_a_file_that_is_cut_are_refused_with_the_byte);
    tcase_add_test(t, records_with_a_wrong_checksum_are_faults);
    tcase_add_test(t, records_longer_than_the_limit_are_passed_over);
    return suite_main(s);
}
