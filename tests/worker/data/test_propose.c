/* test_propose.c: one fact a column: what a survey of a small file proposes. */
#include "worker/data/propose.h"

#include "proto/job/config.h"
#include "tests/lib/worker_files.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 400 };

static struct survey s;
static struct proposal p;
static struct string_list words;
static char *made;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
}

static void forget(void)
{
    propose_free(&p);
    survey_free(&s);
    config_list_free(&words);
    free(made);
    made = NULL;
}

static void teardown(void)
{
    forget();
    worker_folder_remove();
}

static int click(int i)
{
    uint32_t mixed = (uint32_t)i * 2654435761u; /* independent of i's divisors */
    return (mixed ^ mixed >> 15) % 10 < 3;
}

/* Writes a file of ROWS lines behind `head`, and adds it to the words of the command. */
static void log_write(const char *name, const char *head, void (*row)(int i, char *line))
{
    char *text = malloc(ROWS * 160), line[128];
    size_t at = (size_t)sprintf(text, "%s", head);
    for (int i = 0; i < ROWS; i++) {
        row(i, line);
        at += (size_t)sprintf(text + at, "%s\n", line);
    }
    worker_write(name, text, at);
    free(text);
    ck_assert_int_eq(config_list_add(&words, worker_path(name)), 0);
}

static int look(const char *label, uint64_t rows)
{
    const struct survey_label none = {.column = FEATURE_NO_COLUMN};
    int rc = survey_files(&s, &words, worker_path("cache"), rows, &e);
    if (rc == 0)
        rc = survey_walk(&s, &none, &e);
    if (rc == 0)
        rc = propose_label(&s, label, &p, &e);
    if (rc == 0)
        rc = survey_walk(&s, &p.label, &e);
    if (rc == 0)
        rc = propose_columns(&s, &p, &e);
    if (rc == 0)
        made = propose_job(&s, &p, true);
    return rc;
}

/* The proposal is a job that the files fit. */
static void taken(void)
{
    struct job job;
    ck_assert_msg(look(NULL, 0) == 0, "%s", e.text);
    ck_assert_msg(job_parse(made, strlen(made), "job", NULL, &job, &e) == 0, "%s\n%s", e.text,
                  made);
    ck_assert_msg(survey_try(&s, &job, &e) == 0, "%s\n%s", e.text, made);
    job_free(&job);
}

static void check_column(const char *name, const char *as)
{
    for (uint32_t i = 0; i < s.columns; i++)
        if (strcmp(s.column[i].name, name) == 0) {
            ck_assert_msg(strcmp(propose_use_name(&p.column[i]), as) == 0, "%s is %s (%s), not %s",
                          name, propose_use_name(&p.column[i]), p.column[i].why, as);
            return;
        }
    ck_abort_msg("no column %s", name);
}

static void check_says(const char *part)
{
    ck_assert_msg(strstr(made, part) != NULL, "no \"%s\" in\n%s", part, made);
}

static void row_plain(int i, char *line)
{
    sprintf(line, "%d,%d,u%d,%d,%g,%d,%d", i, click(i), i % 50, i % 90, (i % 40) * 0.5 - 3,
            1767225600 + i * 60, i * 37 % 100);
}
#define PLAIN ",click,user,item,price,time,age\n"

START_TEST(propose_columns_of_a_log_of_pandas)
{
    log_write("a.csv", PLAIN, row_plain);
    taken();
    check_column("0", "skip");
    check_column("click", "label");
    check_column("user", "category");
    check_column("item", "category");
    check_column("price", "number standard");
    check_column("age", "number standard");
    check_column("time", "time");
    ck_assert(p.label_sure && p.ordered);
    check_says("evaluate: {group: user}");
    check_says("NR <= 361");
    check_says("NR > 361");
}
END_TEST

static void row_words(int i, char *line)
{
    sprintf(line, "%s;7.0;%d,5;NA;a|b:%d", click(i) ? "click" : "view", i % 9, i % 3);
}

START_TEST(propose_words_commas_and_missing_ones)
{
    log_write("a.csv", "Result;User;Price;Empty;Tags\n", row_words);
    taken();
    check_column("Result", "label");
    check_column("User", "skip"); /* the same in all rows */
    check_column("Price", "number standard");
    check_column("Empty", "skip");
    check_column("Tags", "multi");
    check_says("label_positive: [click]");
    check_says("decimal: comma");
}
END_TEST

static void row_floats(int i, char *line)
{
    sprintf(line, "%d,%d.0,%d:0.5|%d:1.5,%s,x%d", click(i), i % 50, i % 7, i % 5,
            i % 9 == 0 ? "NA"
            : i % 2    ? "1.5"
                       : "2.25",
            i % 7);
}

START_TEST(propose_whole_ids_weights_and_missing_words)
{
    log_write("a.csv", "click,user,tags,ctr,site\n", row_floats);
    taken();
    check_column("user", "category whole");
    check_column("tags", "multi weighted");
    check_column("ctr", "number standard");
    check_says("missing: ['NA']");
}
END_TEST

static void row_leaks(int i, char *line)
{
    sprintf(line, "%d,u%d,%d,%s,%d,%d", click(i), i % 50, click(i), click(i) ? "yes" : "no", i % 2,
            i);
}

START_TEST(propose_leaks_ids_and_other_labels_are_left_out)
{
    log_write("a.csv", "click,user,clicked,told,buy,id\n", row_leaks);
    taken();
    check_column("clicked", "skip");
    check_column("told", "skip");
    check_column("buy", "skip");
    check_column("id", "skip");
    check_says("two tasks: label: [click, buy]");
}
END_TEST

static void row_grade(int i, char *line)
{
    sprintf(line, "%d::%d::%d", i % 50, i % 31, 1 + i * 7 % 5);
}

START_TEST(propose_a_grade_is_parted_and_names_are_made)
{
    log_write("a.dat", "", row_grade);
    ck_assert_int_eq(look("c2", 0), 0);
    check_says("header: false");
    check_says("{name: c2, type: label}");
    check_says("label_above: ");
}
END_TEST

static void row_unnamed(int i, char *line)
{
    sprintf(line, "%d,u%d,%d", i % 2, i % 50, click(i));
}

START_TEST(propose_several_labels_are_told)
{
    log_write("a.csv", "first,user,second\n", row_unnamed);
    taken();
    ck_assert(!p.label_sure);
    ck_assert_uint_eq(p.candidates, 1);
    check_says("Others that may be it: second");
}
END_TEST

static void row_none(int i, char *line)
{
    sprintf(line, "u%d,s%d", i % 50, i % 7);
}

START_TEST(propose_no_label_is_said_with_the_columns)
{
    log_write("a.csv", "user,site\n", row_none);
    ck_assert_int_eq(look(NULL, 0), SHOAL_E_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(e.text, "user, site"));
    ck_assert_ptr_nonnull(strstr(e.text, "--label NAME"));
}
END_TEST

START_TEST(propose_a_label_that_is_not_there_is_said_with_the_columns)
{
    log_write("a.csv", PLAIN, row_plain);
    ck_assert_int_eq(look("nothing", 0), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(propose_columns(&s, &p, &e), 0); /* they are shown even so */
    check_column("user", "category");
    check_column("click", "category");
}
END_TEST

START_TEST(propose_parts_are_told_by_names_of_files)
{
    log_write("train.csv", PLAIN, row_plain);
    log_write("valid.csv", PLAIN, row_plain);
    log_write("test.csv", PLAIN, row_plain);
    taken();
    for (uint32_t i = 0; i < GUESS_ROLES; i++)
        ck_assert_uint_eq(s.part[i].names.count, 1);
    ck_assert_int_eq(p.split, PROPOSE_FILES);
}
END_TEST

START_TEST(propose_the_last_of_many_files_validates)
{
    log_write("day_1.csv", PLAIN, row_plain);
    log_write("day_2.csv", PLAIN, row_plain);
    log_write("day_3.csv", PLAIN, row_plain);
    taken();
    ck_assert_uint_eq(s.part[GUESS_TRAIN].names.count, 2);
    ck_assert_ptr_nonnull(strstr(s.part[GUESS_VALID].names.item[0], "day_3"));
    check_says("no file name tells");
}
END_TEST

START_TEST(propose_a_file_of_another_layout_is_left_out)
{
    log_write("train.csv", PLAIN, row_plain);
    log_write("users.dat", "", row_grade);
    taken();
    ck_assert_uint_eq(s.left.count, 1);
    ck_assert_ptr_nonnull(strstr(s.left.item[0], "users.dat: another layout"));
}
END_TEST

START_TEST(propose_a_file_named_twice_is_taken_once)
{
    log_write("a.csv", PLAIN, row_plain);
    ck_assert_int_eq(config_list_add(&words, worker_path("a.csv")), 0);
    taken();
    ck_assert_uint_eq(s.part[GUESS_TRAIN].names.count, 1);
    ck_assert_ptr_nonnull(strstr(s.left.item[0], "the same file again"));
}
END_TEST

START_TEST(propose_reading_stops_at_the_bound)
{
    log_write("a.csv", PLAIN, row_plain);
    ck_assert_int_eq(look(NULL, 100), 0);
    ck_assert_uint_eq(s.part[GUESS_TRAIN].rows, 100);
    ck_assert(!s.part[GUESS_TRAIN].whole);
    ck_assert_msg(s.part[GUESS_TRAIN].all > 350 && s.part[GUESS_TRAIN].all < 450, "%g",
                  s.part[GUESS_TRAIN].all);
}
END_TEST

static void row_svm(int i, char *line)
{
    sprintf(line, "%d %d:1 %d:1", click(i), 1 + i % 50, 60 + i % 9);
}

START_TEST(propose_entries_need_no_columns)
{
    log_write("a.svm", "", row_svm);
    taken();
    check_says("format: libsvm");
    ck_assert_ptr_null(strstr(made, "columns:"));
}
END_TEST

static void row_quote(int i, char *line)
{
    sprintf(line, "%d,\"a\nb%d\",u%d", click(i), i % 3, i % 50);
}

START_TEST(propose_rows_over_several_lines_are_not_split_by_lines)
{
    log_write("a.csv", "click,text,user\n", row_quote);
    taken();
    ck_assert_uint_eq(s.part[GUESS_TRAIN].rows, ROWS);
    ck_assert_int_eq(p.split, PROPOSE_NONE);
    check_says("cells have line ends");
}
END_TEST

START_TEST(propose_text_fits_80_columns)
{
    log_write("a.csv", PLAIN, row_plain);
    taken();
    char *text = propose_text(&s, &p);
    for (const char *line = text; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        bool path =
            strstr(line, worker_path("")) != NULL && strstr(line, worker_path("")) < line + n;
        ck_assert_msg(n < 80 || path, "%.*s", (int)n, line);
        line += n + (line[n] != '\0');
    }
    free(text);
}
END_TEST

static int refused(const char *label, const char *says)
{
    int rc = look(label, 0);
    ck_assert_msg(rc != 0 && strstr(e.text, says) != NULL, "%d: %s, not \"%s\"", rc, e.text, says);
    return rc;
}

static void check_silent(const char *part)
{
    ck_assert_msg(strstr(made, part) == NULL, "\"%s\" in\n%s", part, made);
}

/* ---- commas ---------------------------------------------------------------------------------- */

static void row_thousands(int i, char *line)
{
    if (i % 2 == 0)
        sprintf(line, "%d,u%d,\"%d,%03d\"", click(i), i % 50, 1 + i % 40, i);
    else
        sprintf(line, "%d,u%d,%d", click(i), i % 50, 600 + i % 399);
}

START_TEST(propose_commas_between_thousands_are_no_decimal_commas)
{
    log_write("a.csv", "click,user,price\n", row_thousands);
    taken();
    check_column("price", "skip");
    check_silent("\n  decimal: comma");
    ck_assert(!p.comma);
    ck_assert_ptr_nonnull(strstr(p.column[2].why, "ake the commas between thousands out"));
}
END_TEST

static void row_grams(int i, char *line)
{
    sprintf(line, "%d;u%d;%d,5;%d,%03d", click(i), i % 50, i % 30, 1 + i % 9, i);
}

START_TEST(propose_three_decimals_are_decimals_beside_others)
{
    log_write("a.csv", "click;user;price;kilos\n", row_grams);
    taken();
    check_column("price", "number standard");
    check_column("kilos", "number standard");
    check_says("decimal: comma");
}
END_TEST

static void row_both(int i, char *line)
{
    sprintf(line, "%d;u%d;%d,5;%d.25", click(i), i % 50, i % 30, i % 20);
}

START_TEST(propose_points_beside_decimal_commas_are_left_out)
{
    log_write("a.csv", "click;user;price;ratio\n", row_both);
    taken();
    check_column("price", "number standard");
    check_column("ratio", "skip");
}
END_TEST

/* ---- labels that are numbers ----------------------------------------------------------------- */

static void row_watch(int i, char *line)
{
    sprintf(line, "%g,u%d,i%d", (i * 37 % 101) * 0.25, i % 50, i % 31);
}

START_TEST(propose_a_label_that_is_a_number_has_the_loss_mse)
{
    log_write("a.csv", "watch_time,user,item\n", row_watch);
    ck_assert_int_eq(look("watch_time", 0), 0);
    check_says("loss: mse");
    check_says("metric: rmse");
    check_says("a number to predict");
    check_silent("label_above");
    check_silent("group:");
    forget();
    log_write("a.csv", "watch_time,user,item\n", row_watch);
    refused(NULL, "numbers to predict: watch_time");
}
END_TEST

static void row_stars(int i, char *line)
{
    sprintf(line, "%d,%d;u%d;i%d", i % 5, i * 7 % 10, i % 50, i % 31);
}

START_TEST(propose_a_rating_with_decimal_commas_is_a_number)
{
    log_write("a.csv", "rating;user;item\n", row_stars);
    taken();
    check_says("loss: mse");
    check_says("decimal: comma");
}
END_TEST

static void row_real_svm(int i, char *line)
{
    sprintf(line, "%g %d:1 %d:1", (i * 37 % 101) * 0.25, 1 + i % 50, 60 + i % 9);
}

START_TEST(propose_entries_with_labels_that_are_numbers)
{
    log_write("a.svm", "", row_real_svm);
    taken();
    check_says("loss: mse");
}
END_TEST

static void row_rating(int i, char *line)
{
    sprintf(line, "%d,u%d,i%d", 1 + i * 7 % 5, i % 50, i % 31);
}

START_TEST(propose_a_grade_names_the_other_way)
{
    log_write("a.csv", "rating,user,item\n", row_rating);
    taken();
    check_says("label_above: ");
    check_says("model.loss: mse");
    check_silent(", loss: mse");
}
END_TEST

static void row_counts(int i, char *line)
{
    sprintf(line, "%d,u%d,i%d", i % 3 == 0 ? i % 60 : 0, i % 50, i % 31);
}

START_TEST(propose_a_count_that_is_mostly_0_is_positive_above_0)
{
    log_write("a.csv", "clicks,user,item\n", row_counts);
    taken();
    check_says("a count");
    check_silent(", loss: mse");
}
END_TEST

static void row_three_words(int i, char *line)
{
    static const char *const word[] = {"view", "click", "buy"};
    sprintf(line, "%s,u%d,i%d", word[i % 3], i % 50, i % 31);
}

START_TEST(propose_three_words_are_refused_with_label_positive)
{
    log_write("a.csv", "event,user,item\n", row_three_words);
    refused("event", "data.label_positive");
    ck_assert_uint_eq(p.label.column, FEATURE_NO_COLUMN);
}
END_TEST

START_TEST(propose_json_without_a_label_has_no_job)
{
    log_write("a.csv", "user,site\n", row_none);
    ck_assert_int_eq(look(NULL, 0), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(propose_columns(&s, &p, &e), 0);
    struct json *j = propose_json(&s, &p);
    ck_assert_ptr_null(json_get(j, "label"));
    ck_assert_ptr_null(json_get(j, "job"));
    ck_assert_ptr_nonnull(json_get(j, "columns"));
    json_free(j);
}
END_TEST

/* ---- names that no job can have -------------------------------------------------------------- */

static void row_four(int i, char *line)
{
    sprintf(line, "%d,%d,u%d,v%d", click(i), click(i), i % 50, i % 31);
}

START_TEST(propose_two_columns_of_one_name_are_refused)
{
    log_write("a.csv", "click,click,user,other\n", row_four);
    refused(NULL, "columns 0 and 1 are both called \"click\"");
}
END_TEST

#define LONG "a23456789b123456789c123456789d123456789e123456789f123456789g1234"

START_TEST(propose_a_name_that_is_too_long_for_a_job_is_refused)
{
    log_write("a.csv", "click,more," LONG ",other\n", row_four);
    refused(NULL, "64 bytes");
}
END_TEST

/* ---- commands -------------------------------------------------------------------------------- */

START_TEST(propose_a_relative_path_is_no_assignment_of_awk)
{
    char home[LIMIT_PATH];
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    log_write("day=1.csv", PLAIN, row_plain);
    ck_assert_int_eq(chdir(worker_path("")), 0);
    config_list_free(&words);
    ck_assert_int_eq(config_list_add(&words, "day=1.csv"), 0);
    taken();
    check_says("'./day=1.csv'");
    ck_assert_int_eq(chdir(home), 0);
}
END_TEST

START_TEST(propose_lines_before_the_header_are_no_header)
{
    log_write("a.csv", "\n\r\n" PLAIN, row_plain);
    taken();
    check_says("NR <= 363");
    check_says("NR == 3 || NR > 363");
}
END_TEST

static void row_unlabelled(int i, char *line)
{
    sprintf(line, "%s,u%d,i%d", i % 3 == 0 ? "" : click(i) ? "1" : "0", i % 50, i % 31);
}

START_TEST(propose_rows_without_a_label_are_told)
{
    log_write("a.csv", "click,user,item\n", row_unlabelled);
    taken();
    const char *bad = strstr(made, "max_bad: ");
    ck_assert_ptr_nonnull(bad);
    double share = atof(bad + 9);
    ck_assert_msg(share > 0.34 && share < 0.4, "%g", share);
    check_says("134 of 400 rows have no label");
}
END_TEST

START_TEST(propose_a_record_longer_than_memory_is_refused)
{
    static const char record[] = "\xff\xff\xff\xff\xff\xff\xff\xff\xa6\x7b\x11\x3a" /* 2^64 - 1 */
                                 "0123456789";
    worker_write("a.tfrecord", record, sizeof record - 1);
    ck_assert_int_eq(config_list_add(&words, worker_path("a.tfrecord")), 0);
    ck_assert_int_eq(refused(NULL, "longer than 1 MiB"), SHOAL_E_DATA);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("propose");
    TCase *t = tcase_create("propose");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, propose_columns_of_a_log_of_pandas);
    tcase_add_test(t, propose_words_commas_and_missing_ones);
    tcase_add_test(t, propose_whole_ids_weights_and_missing_words);
    tcase_add_test(t, propose_leaks_ids_and_other_labels_are_left_out);
    tcase_add_test(t, propose_a_grade_is_parted_and_names_are_made);
    tcase_add_test(t, propose_several_labels_are_told);
    tcase_add_test(t, propose_no_label_is_said_with_the_columns);
    tcase_add_test(t, propose_a_label_that_is_not_there_is_said_with_the_columns);
    tcase_add_test(t, propose_parts_are_told_by_names_of_files);
    tcase_add_test(t, propose_the_last_of_many_files_validates);
    tcase_add_test(t, propose_a_file_of_another_layout_is_left_out);
    tcase_add_test(t, propose_a_file_named_twice_is_taken_once);
    tcase_add_test(t, propose_reading_stops_at_the_bound);
    tcase_add_test(t, propose_entries_need_no_columns);
    tcase_add_test(t, propose_rows_over_several_lines_are_not_split_by_lines);
    tcase_add_test(t, propose_text_fits_80_columns);
    tcase_add_test(t, propose_commas_between_thousands_are_no_decimal_commas);
    tcase_add_test(t, propose_three_decimals_are_decimals_beside_others);
    tcase_add_test(t, propose_points_beside_decimal_commas_are_left_out);
    tcase_add_test(t, propose_a_label_that_is_a_number_has_the_loss_mse);
    tcase_add_test(t, propose_a_rating_with_decimal_commas_is_a_number);
    tcase_add_test(t, propose_entries_with_labels_that_are_numbers);
    tcase_add_test(t, propose_a_grade_names_the_other_way);
    tcase_add_test(t, propose_a_count_that_is_mostly_0_is_positive_above_0);
    tcase_add_test(t, propose_three_words_are_refused_with_label_positive);
    tcase_add_test(t, propose_json_without_a_label_has_no_job);
    tcase_add_test(t, propose_two_columns_of_one_name_are_refused);
    tcase_add_test(t, propose_a_name_that_is_too_long_for_a_job_is_refused);
    tcase_add_test(t, propose_a_relative_path_is_no_assignment_of_awk);
    tcase_add_test(t, propose_lines_before_the_header_are_no_header);
    tcase_add_test(t, propose_rows_without_a_label_are_told);
    tcase_add_test(t, propose_a_record_longer_than_memory_is_refused);
    suite_add_tcase(suite, t);
    SRunner *run = srunner_create(suite);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
