/* test_score_file.c: predictions as a file: one line a row, in order, malformed rows included. */
#include "proto/base/file.h"
#include "worker/train/score_file.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/shoal-test-XXXXXX", path[64];
static struct job job;
static struct scores s;

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/scores", folder);
    memset(&job, 0, sizeof job);
    job.predict.on = true;
    job.data.label_count = 1;
    evaluate_scores_init(&s);
}

static void teardown(void)
{
    evaluate_scores_close(&s);
    (void)file_remove_tree(folder);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
}

/* Rows 0 and 2 of three are valid; `columns` cells of each row: its number, and text that needs
 * quotes. */
static void scores_make(uint32_t columns)
{
    static const char *const text[3][2] = {{"0\r", "a,b"}, {"", ""}, {"2", "say \"x\"\tor y"}};
    float score[] = {0.25f, 0.1f}, label[] = {0, 0};
    uint32_t row[] = {0, 2};
    struct err e;
    struct batch b = {.examples = 2, .bad_lines = 1, .tasks = 1, .label = label, .row = row};
    for (int r = 0; r < 3; r++)
        for (uint32_t c = 0; c < columns; c++) {
            struct cell cell = {text[r][c], (uint32_t)strlen(text[r][c])};
            ck_assert_int_eq(passed_add(&b.passed, &cell), 0);
        }
    ck_assert_int_eq(evaluate_scores_reset(&s, &job, 3, &e), 0);
    ck_assert_int_eq(evaluate_scores_add(&s, score, &b), 0);
    passed_free(&b.passed);
}

static size_t written(enum score_format format, bool head, char out[512])
{
    struct score_file *f;
    struct err e = {0};
    ck_assert_msg(score_file_open(path, format, &job, head, &f, &e) == 0, "%s", e.text);
    ck_assert_msg(score_file_add(f, &s, 3, &e) == 0, "%s", e.text);
    ck_assert_int_ne(access(path, F_OK), 0); /* not before it is complete */
    ck_assert_msg(score_file_finish(f, 3, &e) == 0, "%s", e.text);
    score_file_free(f);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t n = fread(out, 1, 511, file);
    out[n] = '\0';
    fclose(file);
    ck_assert_int_eq(unlink(path), 0);
    return n;
}

static void columns_set(char **name, uint32_t count)
{
    job.predict.columns = (struct string_list){name, count};
    scores_make(count);
}

START_TEST(csv_has_a_line_for_each_row)
{
    char *name[] = {(char[]){"row"}, (char[]){"words"}}, text[512];
    columns_set(name, 2);
    (void)written(SCORE_CSV, true, text);
    ck_assert_str_eq(text, "row,words,score\n\"0\r\",\"a,b\",0.25\n,,\n2,\"say \"\"x\"\"\tor y\","
                           "0.100000001\n");
    (void)written(SCORE_CSV, false, text);
    ck_assert_str_eq(text, "\"0\r\",\"a,b\",0.25\n,,\n2,\"say \"\"x\"\"\tor y\",0.100000001\n");
    (void)written(SCORE_TSV, true, text);
    ck_assert_str_eq(text, "row\twords\tscore\n\"0\r\"\ta,b\t0.25\n\t\t\n2\t\"say \"\"x\"\"\tor "
                           "y\"\t0.100000001\n");
}
END_TEST

/* A reader would skip an empty line, and with it the row. */
START_TEST(malformed_row_is_no_empty_line)
{
    char text[512];
    columns_set(NULL, 0);
    (void)written(SCORE_CSV, true, text);
    ck_assert_str_eq(text, "score\n0.25\n\"\"\n0.100000001\n");
    (void)written(SCORE_TSV, false, text);
    ck_assert_str_eq(text, "0.25\n\"\"\n0.100000001\n");
}
END_TEST

START_TEST(npy_has_a_number_for_each_row)
{
    char text[512];
    float value[3];
    columns_set(NULL, 0);
    ck_assert_uint_eq(written(SCORE_NPY, true, text), 128 + sizeof value);
    ck_assert_mem_eq(text, "\x93NUMPY\x01\0\x76\0{'descr': '<f4'", 25);
    ck_assert_ptr_nonnull(strstr(text + 10, "'shape': (3,), }"));
    ck_assert_int_eq(text[127], '\n');
    memcpy(value, text + 128, sizeof value);
    ck_assert(value[0] == 0.25f && isnan(value[1]) && value[2] == 0.1f);
    ck_assert_uint_eq(written(SCORE_NPY, false, text), sizeof value);
}
END_TEST

START_TEST(names_of_several_labels_stand_in_the_first_line)
{
    char text[512];
    struct score_file *f;
    struct err e = {0};
    job.data.label_count = 2;
    (void)snprintf(job.data.label[0], sizeof job.data.label[0], "click");
    (void)snprintf(job.data.label[1], sizeof job.data.label[1], "buy");
    ck_assert_int_eq(score_file_open(path, SCORE_CSV, &job, true, &f, &e), 0);
    ck_assert_int_eq(score_file_finish(f, 0, &e), 0); /* also without any row */
    score_file_free(f);
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(fgets(text, sizeof text, file));
    ck_assert_str_eq(text, "score_click,score_buy\n");
    fclose(file);
}
END_TEST

static uint32_t files(void)
{
    uint32_t count = 0;
    struct file_walk w;
    ck_assert(file_walk_open(&w, folder));
    while (file_walk_next(&w) != NULL)
        count++;
    file_walk_close(&w);
    return count;
}

START_TEST(two_of_one_name_keep_apart)
{
    char text[512];
    struct score_file *f[2];
    struct err e = {0};
    columns_set(NULL, 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(score_file_open(path, SCORE_CSV, &job, i == 0, &f[i], &e), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(score_file_add(f[i], &s, 3, &e), 0);
    ck_assert_int_eq(score_file_finish(f[0], 3, &e), 0);
    ck_assert_int_eq(score_file_finish(f[1], 3, &e), SHOAL_E_EXISTS);
    score_file_free(f[1]);
    score_file_free(f[0]);
    ck_assert_uint_eq(files(), 1);
    FILE *file = fopen(path, "rb");
    text[fread(text, 1, 511, file)] = '\0';
    fclose(file);
    ck_assert_str_eq(text, "score\n0.25\n\"\"\n0.100000001\n");
}
END_TEST

START_TEST(what_is_there_is_not_written_over)
{
    char *name[] = {(char[]){"row"}};
    struct score_file *f;
    struct err e = {0};
    columns_set(name, 1);
    ck_assert_int_eq(score_file_open(path, SCORE_NPY, &job, true, &f, &e), SHOAL_E_USAGE);
    ck_assert_int_eq(score_file_open(path, SCORE_CSV, &job, true, &f, &e), 0);
    ck_assert_uint_eq(files(), 1);
    score_file_free(f); /* not finished: no file is left */
    ck_assert_uint_eq(files(), 0);
    FILE *file = fopen(path, "wb");
    fclose(file);
    ck_assert_int_eq(score_file_open(path, SCORE_CSV, &job, true, &f, &e), SHOAL_E_EXISTS);
    ck_assert_int_eq(score_file_open("/nowhere/x", SCORE_CSV, &job, true, &f, &e),
                     SHOAL_E_CANTCREATE);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("score_file");
    TCase *t = tcase_create("score_file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, csv_has_a_line_for_each_row);
    tcase_add_test(t, malformed_row_is_no_empty_line);
    tcase_add_test(t, npy_has_a_number_for_each_row);
    tcase_add_test(t, names_of_several_labels_stand_in_the_first_line);
    tcase_add_test(t, two_of_one_name_keep_apart);
    tcase_add_test(t, what_is_there_is_not_written_over);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
