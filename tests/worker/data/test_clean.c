/* test_clean.c: cells as other programs write them become the cells that features read. */
#include "proto/job/config.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/data/feature.h"
#include "worker/data/lines.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct job job;
static struct features f;
static struct cell cell[CELLS_MAX];
static char text[1024], reason[REASON_BYTES];
static struct err e;

static void setup(void)
{
    worker_job(&job, DATA_CSV, NULL);
    strcpy(job.data.label[0], "click");
    strcpy(job.data.delimiter, ";");
    worker_job_column(&job, "price", COLUMN_NUMBER);
    worker_job_column(&job, "user", COLUMN_CATEGORY);
    worker_job_column(&job, "item", COLUMN_CATEGORY);
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
}

static void features_take(void)
{
    const char *head = "click;price;user;item;city";
    features_free(&f);
    ck_assert_msg(features_make(&job, "a.csv", head, strlen(head), &f, &e) == 0, "%s", e.text);
}

/* Cuts and cleans a line. */
static int clean(const char *line)
{
    strcpy(text, line);
    reason[0] = '\0';
    return clean_line(&f,
                      &(struct line){.text = text, .bytes = (uint32_t)strlen(text), .number = 2},
                      cell, reason);
}

static void is_cell(uint32_t i, const char *expected)
{
    ck_assert_msg(cell[i].bytes == strlen(expected) &&
                      memcmp(cell[i].text, expected, cell[i].bytes) == 0,
                  "cell %u is \"%.*s\", not \"%s\"", i, (int)cell[i].bytes, cell[i].text, expected);
}

START_TEST(clean_nothing_is_changed_without_keys)
{
    features_take();
    ck_assert(!f.clean.any);
    ck_assert_uint_eq(f.clean.hash, 0);
    ck_assert_int_eq(clean("yes;1,5;34.0;NA;\\N"), 0);
    is_cell(0, "yes");
    is_cell(1, "1,5");
    is_cell(2, "34.0");
    is_cell(3, "NA");
    is_cell(4, "\\N");
}
END_TEST

START_TEST(clean_missing_words_are_empty_cells)
{
    config_list_add(&job.data.missing, "NA");
    config_list_add(&job.data.missing, "\\N");
    config_list_add(&job.data.missing, "nan");
    features_take();
    ck_assert_int_eq(clean("NA;nan;\\N;NA;NAN"), 0);
    is_cell(0, "");
    is_cell(1, "");
    is_cell(2, "");
    is_cell(3, "");
    is_cell(4, "NAN");
}
END_TEST

START_TEST(clean_missing_words_of_a_line_without_labels)
{
    config_list_add(&job.data.missing, "NA");
    features_take();
    f.header = false;
    f.unlabelled = true;
    f.columns -= f.shape.tasks;
    ck_assert_msg(clean("NA;NA;i1;NA") == 0, "%s", reason);
    f.columns += f.shape.tasks;
    is_cell(1, "");
    is_cell(2, "");
    is_cell(3, "i1");
    is_cell(4, "");
}
END_TEST

START_TEST(clean_whole_numbers_lose_their_fraction)
{
    job.data.column[1].whole = true;
    job.data.column[2].id = true;
    features_take();
    ck_assert_int_eq(clean("1;2.0;34.0;35.00;36.0"), 0);
    is_cell(1, "2.0");
    is_cell(2, "34");
    is_cell(3, "35");
    is_cell(4, "36.0");
    ck_assert_int_eq(clean("1;;-3.0;.0;"), 0);
    is_cell(2, "-3");
    is_cell(3, ".0");
    ck_assert_int_eq(clean("1;;3.50;10;"), 0);
    is_cell(2, "3.50");
    is_cell(3, "10");
    ck_assert_int_eq(clean("1;;a.0;1.2.0;"), 0);
    is_cell(2, "a.0");
    is_cell(3, "1.2.0");
}
END_TEST

START_TEST(clean_decimal_commas_become_points)
{
    job.data.decimal_comma = true;
    features_take();
    ck_assert_int_eq(clean("1;12,5;1,5;;"), 0);
    is_cell(1, "12.5");
    is_cell(2, "1,5"); /* a category */
    ck_assert_int_eq(clean("1;1.200,5;;;"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(reason, "column \"price\" has \"1.200,5\""));
    ck_assert_int_eq(clean("1;7;;;"), 0);
    is_cell(1, "7");
}
END_TEST

/* A number may be an input, an indicator and a part of a cross: its comma is taken once. */
START_TEST(clean_commas_of_a_number_of_many_uses_become_points)
{
    struct job_cross cross = {.column = {"user", "age"}, .columns = 2};
    job.data.decimal_comma = true;
    job.data.column[0].indicator = true;
    worker_job_column(&job, "age", COLUMN_NUMBER);
    job.data.column[3].scaled = job.data.column[3].indicator = true;
    job.data.column[3].scale = (struct scale){.transform = NUMBER_BUCKET, .known = true};
    job.features.cross = &cross;
    job.features.cross_count = 1;
    const char *head = "click;price;user;item;age";
    ck_assert_msg(features_make(&job, "a.csv", head, strlen(head), &f, &e) == 0, "%s", e.text);
    job.features.cross = NULL;
    job.features.cross_count = 0;
    ck_assert_uint_eq(f.shape.numerics, 3);
    ck_assert_int_eq(clean("1;12,5;a;b;7,25"), 0);
    is_cell(1, "12.5");
    is_cell(4, "7.25");
}
END_TEST

START_TEST(clean_commas_of_weights_become_points)
{
    job.data.decimal_comma = true;
    worker_job_column(&job, "city", COLUMN_MULTI);
    job.data.column[3].separator = '|';
    job.data.column[3].weighted = true;
    features_take();
    ck_assert_int_eq(clean("1;1;a;b;x,y:0,5|z:-1,25|q|p:2"), 0);
    is_cell(4, "x,y:0.5|z:-1.25|q|p:2");
    ck_assert_int_eq(clean("1;1;a;b;x:1|z:1.250,5"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(reason, "a point in a weight, beside data.decimal: comma"));
}
END_TEST

START_TEST(clean_words_of_labels_become_numbers)
{
    config_list_add(&job.data.label_positive, "click");
    config_list_add(&job.data.label_positive, "yes");
    features_take();
    ck_assert_int_eq(clean("yes;1;a;b;c"), 0);
    is_cell(0, "1");
    ck_assert_int_eq(clean("view;1;a;b;c"), 0);
    is_cell(0, "0");
    ck_assert_int_eq(clean(";1;a;b;c"), 0);
    is_cell(0, "");
    config_list_add(&job.data.label_negative, "view");
    features_take();
    ck_assert_int_eq(clean("view;1;a;b;c"), 0);
    is_cell(0, "0");
    ck_assert_int_eq(clean("veiw;1;a;b;c"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(reason, "column \"click\" has \"veiw\""));
}
END_TEST

START_TEST(clean_a_mark_before_the_first_line_is_no_text)
{
    char marked[] = "\xef\xbb\xbf"
                    "1;2;a;b;c";
    features_take();
    struct line line = {.text = marked, .bytes = sizeof marked - 1, .number = 1};
    ck_assert_int_eq(clean_line(&f, &line, cell, reason), 0);
    is_cell(0, "1");
    line.number = 2;
    ck_assert_int_eq(clean_line(&f, &line, cell, reason), 0);
    ck_assert_uint_eq(cell[0].bytes, 4);
}
END_TEST

START_TEST(clean_columns_are_found_again_in_another_header)
{
    const char *head = "item;user;city;price;click";
    job.data.column[1].whole = true;
    features_take();
    ck_assert_msg(features_bind(&f, "b.csv", head, strlen(head), &e) == 0, "%s", e.text);
    ck_assert_int_eq(clean("1.0;2.0;3.0;4;1"), 0);
    is_cell(0, "1.0");
    is_cell(1, "2");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("clean");
    TCase *t = suite_case(s, "clean", 60, setup, teardown);
    tcase_add_test(t, clean_nothing_is_changed_without_keys);
    tcase_add_test(t, clean_missing_words_are_empty_cells);
    tcase_add_test(t, clean_missing_words_of_a_line_without_labels);
    tcase_add_test(t, clean_whole_numbers_lose_their_fraction);
    tcase_add_test(t, clean_decimal_commas_become_points);
    tcase_add_test(t, clean_commas_of_a_number_of_many_uses_become_points);
    tcase_add_test(t, clean_commas_of_weights_become_points);
    tcase_add_test(t, clean_words_of_labels_become_numbers);
    tcase_add_test(t, clean_a_mark_before_the_first_line_is_no_text);
    tcase_add_test(t, clean_columns_are_found_again_in_another_header);
    return suite_main(s);
}
