/* test_profile.c: the notes that a profile gives for different data. */
#include "proto/base/json.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/records.h"
#include "tests/lib/worker_files.h"
#include "worker/data/convert.h"
#include "worker/data/dataset.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROWS = 400, LINE = 128 };

static struct job job;
static struct dataset *d;
static struct json *profile;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    worker_job(&job, DATA_CSV, NULL);
    strcpy(job.data.label[0], "click");
    e = (struct err){0};
}

static void forget(void)
{
    dataset_close(d);
    json_free(profile);
    config_list_free(&job.data.train);
    d = NULL;
    profile = NULL;
}

static void teardown(void)
{
    forget();
    job_free(&job);
    worker_folder_remove();
}

/* `head`, then the lines that `row` writes for 0, 1, ... */
static const char *log_write(const char *name, const char *head, void (*row)(int i, char *line))
{
    char *text = malloc((ROWS + 1) * LINE), line[LINE];
    size_t at = (size_t)sprintf(text, "%s", head);
    for (int i = 0; i < ROWS; i++) {
        row(i, line);
        at += (size_t)sprintf(text + at, "%s\n", line);
    }
    const char *path = worker_write(name, text, at);
    free(text);
    return path;
}

static int profile_of(const char *path)
{
    forget();
    ck_assert_int_eq(config_list_add(&job.data.train, path), 0);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    return dataset_profile(d, &job, &profile, &e);
}

/* Returns the only note, "" if there is none. */
static const char *note(void)
{
    const struct json *notes = json_get(profile, "notes");
    ck_assert_msg(json_count(notes) <= 1, "%s", json_text(profile, 0));
    return json_as_string(json_array_at(notes, 0), "");
}

static void check_note(const char *head, void (*row)(int i, char *line), const char *says)
{
    int rc = profile_of(log_write("a.csv", head, row));
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_msg(says[0] == '\0' ? note()[0] == '\0' : strstr(note(), says) != NULL, "\"%s\": %s",
                  note(), says);
}

static int click(int i)
{
    uint32_t mixed = (uint32_t)i * 2654435761u; /* independent of i's divisors */
    return (mixed ^ mixed >> 15) % 10 < 3;
}

static void row_plain(int i, char *line)
{
    sprintf(line, "%d,u%d,%d,%d", click(i), i % 50, i * 31 % 97, i % 9);
}

static void row_index(int i, char *line)
{
    sprintf(line, "%d,%d,u%d", i, click(i), i % 50);
}

static void row_leak(int i, char *line)
{
    sprintf(line, "%d,u%d,%s", click(i), i % 50, click(i) ? "yes" : "no");
}

/* Known for positives only, and different each time. */
static void row_leak_rare(int i, char *line)
{
    if (click(i))
        sprintf(line, "1,u%d,at%d", i % 50, i);
    else
        sprintf(line, "0,u%d,", i % 50);
}

static void row_leak_number(int i, char *line)
{
    sprintf(line, "%d,u%d,%g", click(i), i % 50, click(i) ? 1 + i * 1e-3 : -i * 1e-3);
}

static void row_prices(int i, char *line)
{
    sprintf(line, "%d,u%d,%d.%d", click(i), i % 50, i * 13 % 70, i % 10);
}

static void row_floats(int i, char *line)
{
    sprintf(line, "%d,%d.0,c%d", click(i), i % 50, i % 3);
}

static void row_large(int i, char *line)
{
    sprintf(line, "%d,u%d,%d,%d", click(i), i % 50, i % 9, i * 1000003 % 100000);
}

static void row_alike(int i, char *line)
{
    sprintf(line, "%d,u%d,%d,%d", click(i), i % 50, i % 88, i % 88);
}

static void row_small(int i, char *line)
{
    sprintf(line, "%d,u%d,0.%d,%d", click(i), i % 50, i * 7 % 10, i % 9);
}

static void row_one_label(int i, char *line)
{
    sprintf(line, "%d,u%d,%d", i == 7, i % 50, i % 2);
}

START_TEST(profile_says_what_looks_like_a_mistake)
{
    worker_job_column(&job, "0", COLUMN_CATEGORY);
    check_note(",click,user\n", row_index,
               "a value of its own in every row looked at: column \"0\" (400 in 400)");
    ck_assert_ptr_nonnull(strstr(note(), "[{name: \"0\", type: skip}]"));
    job.data.column_count = 0;
    check_note("click,user,clicked\n", row_leak,
               "column \"clicked\" (yes) alone tells the label \"click\" in all 400 rows");
    ck_assert_str_eq(json_as_string(json_get(profile, "tells"), ""), "clicked");
    check_note("click,user,when\n", row_leak_rare, "column \"when\" (at0) alone tells the label");
    check_note("click,user,price\n", row_prices,
               "category of its own: column \"price\" (0.0): data.columns");
    check_note("click,user,city\n", row_floats, "end in \".0\", as pandas");
}
END_TEST

START_TEST(profile_says_which_numbers_are_large)
{
    worker_job_column(&job, "n", COLUMN_NUMBER);
    worker_job_column(&job, "m", COLUMN_NUMBER);
    check_note("click,user,n,m\n", row_large,
               "drown the rest of the input: column \"m\" (up to 1197)");
    ck_assert_ptr_nonnull(strstr(note(), "features.number: log1p"));
    check_note("click,user,n,m\n", row_alike, "columns \"n\" (up to 87), \"m\" (up to 87); scale");
    check_note("click,user,n,m\n", row_small, "");
    job.features.number = NUMBER_LOG1P;
    check_note("click,user,n,m\n", row_large, "");
    job.data.column_count = 1;
    check_note("click,user,n\n", row_leak_number, "column \"n\" (");
}
END_TEST

/* An index that the job leaves out, few values of each kind, a label that is very rare. */
START_TEST(profile_of_ordinary_data_says_nothing)
{
    check_note("click,user,item,hour\n", row_plain, "");
    check_note("click,user,ad\n", row_one_label, "");
    worker_job_column(&job, "0", COLUMN_SKIP);
    check_note(",click,user\n", row_index, "");
    ck_assert(json_get(profile, "tells") == NULL &&
              !json_as_bool(json_get(profile, "shared"), true));
}
END_TEST

START_TEST(profile_tells_each_field)
{
    worker_job_column(&job, "hour", COLUMN_NUMBER);
    check_note("click,user,item,hour\n", row_plain, "");
    ck_assert_int_eq(json_as_int(json_get(profile, "rows"), 0), ROWS);
    ck_assert(json_as_bool(json_get(profile, "whole"), false));
    ck_assert_uint_eq(json_count(json_get(profile, "fields")), 3);
    ck_assert_str_eq(json_as_string(json_get(profile, "fields.0.name"), ""), "user");
    ck_assert_str_eq(json_as_string(json_get(profile, "fields.0.kind"), ""), "category");
    ck_assert_int_eq(json_as_int(json_get(profile, "fields.0.values"), 0), 50);
    ck_assert_str_eq(json_as_string(json_get(profile, "fields.0.examples.1"), ""), "u1");
    ck_assert_str_eq(json_as_string(json_get(profile, "fields.2.kind"), ""), "number");
    ck_assert(json_as_number(json_get(profile, "fields.2.most"), 0) == 8);
}
END_TEST

START_TEST(profile_counts_empty_cells)
{
    worker_job_column(&job, "n", COLUMN_NUMBER);
    ck_assert_int_eq(profile_of(worker_text("a.csv", "click,n,u\n1,,a\n0,3,\n0,,b\n1,,c\n")), 0);
    ck_assert(json_as_number(json_get(profile, "fields.0.empty"), 0) == 0.75);
    ck_assert(json_as_number(json_get(profile, "fields.1.empty"), 0) == 0.25);
    ck_assert_int_eq(json_as_int(json_get(profile, "fields.1.values"), 0), 3);
}
END_TEST

static void row_weights(int i, char *line)
{
    sprintf(line, "%d,%d:0.5|%d:1.5", click(i), i % 50, i % 7);
}

static void row_weights_whole(int i, char *line)
{
    sprintf(line, "%d,user:%d|item:%d", click(i), i % 50, i % 7);
}

static void row_list(int i, char *line)
{
    sprintf(line, "%d,\"[%d, %d]\"", click(i), i % 50, i % 7);
}

START_TEST(profile_refuses_what_multi_would_read_wrongly)
{
    worker_job_column(&job, "city", COLUMN_MULTI);
    ck_assert_int_eq(profile_of(log_write("a.csv", "click,city\n", row_weights)), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "column \"city\" has weights of values (\"0:0.5\")") != NULL &&
                      strstr(e.text, "weighted: true}") != NULL,
                  "%s", e.text);
    job.data.column[0].weighted_said = true;
    check_note("click,city\n", row_weights, "");
    job.data.column[0].weighted = true;
    check_note("click,city\n", row_weights, "");
    job.data.column[0].weighted = job.data.column[0].weighted_said = false;
    ck_assert_int_eq(profile_of(log_write("a.csv", "click,city\n", row_list)), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "lists as Python writes them") != NULL, "%s", e.text);
    check_note("click,city\n", row_weights_whole, "");
}
END_TEST

static void row_sorted(int i, char *line)
{
    sprintf(line, "%d %d:1 %d:1", click(i), 1 + i % 50, 100 + i % 70);
}

static void row_unsorted(int i, char *line)
{
    if (i % 2 == 0)
        row_sorted(i / 2, line);
    else
        sprintf(line, "%d %d:1 %d:1", click(i), 100 + i / 2 % 70, 1 + i / 2 % 50);
}

START_TEST(profile_says_that_libsvm_is_unsorted)
{
    job_free(&job);
    worker_job(&job, DATA_LIBSVM, NULL);
    check_note("", row_sorted, "");
    check_note("", row_unsorted, "stand at several places, one at 1 and 2");
}
END_TEST

/* One row of 400 has a line end: likely two stray quotes. */
static void row_joined(int i, char *line)
{
    sprintf(line, i == 77 ? "%d,\"u%d\nu2\",%d,%d" : "%d,u%d,%d,%d", click(i), i % 50, i * 31 % 97,
            i % 9);
}

static void row_texts(int i, char *line)
{
    sprintf(line, i % 4 == 0 ? "%d,\"u%d\nu2\",%d,%d" : "%d,u%d,%d,%d", click(i), i % 50,
            i * 31 % 97, i % 9);
}

START_TEST(profile_tells_rows_over_several_lines)
{
    check_note(
        "click,user,item,hour\n", row_joined,
        "1 of 400 rows looked at go over several lines, because a quoted cell has line ends, "
        "as in column \"user\"");
    ck_assert_int_eq(json_as_int(json_get(profile, "over_lines"), -1), 1);
    check_note("click,user,item,hour\n", row_texts, "");
    ck_assert_int_eq(json_as_int(json_get(profile, "over_lines"), -1), 100);
    check_note("click,user,item,hour\n", row_plain, "");
    ck_assert_int_eq(json_as_int(json_get(profile, "over_lines"), -1), 0);
}
END_TEST

static const char *records_write(void)
{
    static struct record r;
    static uint8_t file[1 << 16], example[1 << 10];
    size_t n = 0;
    for (int i = 0; i < ROWS; i++) {
        const int64_t label = click(i), price = i * 31 % 97;
        char text[8];
        const char *user = text;
        sprintf(text, "u%d", i % 50);
        r.bytes = 0;
        record_integers(&r, "click", &label, 1);
        record_integers(&r, "price", &price, 1);
        record_texts(&r, "user", &user, 1);
        n += record_frame(file + n, example, record_example(&r, example));
    }
    return worker_write("a.tfrecord", file, n);
}

START_TEST(profile_says_which_features_no_record_has)
{
    job.data.format = DATA_TFRECORD;
    const char *path = records_write();
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_str_eq(note(), "");
    worker_job_column(&job, "pirce", COLUMN_NUMBER);
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_msg(strstr(note(),
                         "none of the 400 records looked at has the feature \"pirce\", which "
                         "the job names: it is read as empty; did you mean \"price\"?") != NULL,
                  "%s", note());
    job.data.column[0].type = COLUMN_SKIP;
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_str_eq(note(), "");
    strcpy(job.evaluate.group, "sessions");
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_ptr_nonnull(
        strstr(note(), "the feature \"sessions\", which the job names: it is read as empty"));
    ck_assert_ptr_null(strstr(note(), "did you mean"));
}
END_TEST

START_TEST(profile_knows_files_again)
{
    const char *path = log_write("a.csv", "click,user,item,hour\n", row_plain),
               *other = log_write("b.csv", "click,user,item,hour\n", row_plain);
    char twin[512];
    snprintf(twin, sizeof twin, "%s.twin", path);
    ck_assert_int_eq(link(path, twin), 0);
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_str_eq(note(), "");
    ck_assert_int_eq(config_list_add(&job.data.valid, other), 0);
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_str_eq(note(), "");
    ck_assert_int_eq(config_list_add(&job.data.valid, twin), 0);
    ck_assert_int_eq(profile_of(path), 0);
    ck_assert_msg(strstr(note(), "data.valid has the file ") != NULL &&
                      strstr(note(), "a.csv.twin, which data.train has too") != NULL,
                  "%s", note());
    ck_assert(json_as_bool(json_get(profile, "shared"), false));
    config_list_free(&job.data.valid);
    forget();
    ck_assert_int_eq(config_list_add(&job.data.train, twin), 0);
    ck_assert_int_eq(config_list_add(&job.data.train, path), 0);
    ck_assert_int_eq(dataset_open(&job, WIRE_TRAIN, &d, &e), 0);
    ck_assert_int_eq(dataset_profile(d, &job, &profile, &e), 0);
    ck_assert_msg(strstr(note(), "data.train has the file ") != NULL &&
                      strstr(note(), " twice: ") != NULL,
                  "%s", note());
}
END_TEST

/* An empty cell of each kind, a malformed row, a large number and one below 0. */
static void row_mixed(int i, char *line)
{
    if (i == 77)
        sprintf(line, "0,not enough");
    else
        sprintf(line, "%d,%s%.0d,%s,%.*d,%d,%d", click(i), i % 4 ? "u" : "", i % 4 ? 1 + i % 50 : 0,
                i % 3 == 0   ? ""
                : i % 3 == 1 ? "a|b"
                             : "c",
                i % 5 ? 1 : 0, i % 5 ? i * 31 % 97 : 0, 1000003 * (i % 9) - 7, i % 13);
}

static struct json *profile_as_events(const char *text, int copies)
{
    struct convert_sums made;
    char out[512];
    enum data_format format = job.data.format;
    struct json *found;
    snprintf(out, sizeof out, "%s", worker_path("log.events"));
    unlink(out);
    config_list_free(&job.data.train);
    ck_assert_int_eq(config_list_add(&job.data.train, text), 0);
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, out, NULL, NULL, &made, &e) == 0, "%s", e.text);
    config_list_free(&job.data.train);
    for (int i = 0; i < copies; i++) {
        char name[32], path[512];
        snprintf(name, sizeof name, "copy-%02d.events", i);
        snprintf(path, sizeof path, "%s", worker_path(name));
        ck_assert_int_eq(link(out, path), 0);
        ck_assert_int_eq(config_list_add(&job.data.train, path), 0);
    }
    if (copies == 0)
        ck_assert_int_eq(config_list_add(&job.data.train, out), 0);
    struct dataset *events;
    job.data.format = DATA_EVENTS;
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &events, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_profile(events, &job, &found, &e) == 0, "%s", e.text);
    dataset_close(events);
    job.data.format = format;
    ck_assert_ptr_nonnull(found);
    return found;
}

static double number(const struct json *j, const char *key)
{
    return json_as_number(json_get(j, key), (double)NAN);
}

/* The field in the text's profile; event files have numbers first. */
static const struct json *field_like(const struct json *b)
{
    const struct json *fields = json_get(profile, "fields");
    const char *name = json_as_string(json_get(b, "name"), "");
    for (size_t i = 0; i < json_count(fields); i++)
        if (strcmp(json_as_string(json_get(json_array_at(fields, i), "name"), ""), name) == 0)
            return json_array_at(fields, i);
    return NULL;
}

/* _i 1: numbers as logarithms. */
START_TEST(profile_of_event_files_is_that_of_their_text)
{
    static const char *const same[] = {"values", "empty", "least", "most"};
    worker_job_column(&job, "tags", COLUMN_MULTI);
    worker_job_column(&job, "n", COLUMN_NUMBER);
    worker_job_column(&job, "m", COLUMN_NUMBER);
    job.features.number = _i == 1 ? NUMBER_LOG1P : NUMBER_NONE;
    const char *text = log_write("a.csv", "click,user,tags,n,m,hour\n", row_mixed);
    ck_assert_int_eq(profile_of(text), 0);
    struct json *found = profile_as_events(text, 0);
    ck_assert_int_eq(json_as_int(json_get(found, "rows"), 0), ROWS - 1);
    ck_assert(json_as_bool(json_get(found, "whole"), false));
    ck_assert_uint_eq(json_count(json_get(found, "fields")), 5);
    for (size_t i = 0; i < 5; i++) {
        const struct json *b = json_array_at(json_get(found, "fields"), i), *a = field_like(b);
        bool numeric = strcmp(json_as_string(json_get(b, "kind"), ""), "number") == 0;
        ck_assert_str_eq(json_as_string(json_get(a, "kind"), "-"),
                         json_as_string(json_get(b, "kind"), ""));
        for (size_t k = 0; k < 4; k++) {
            double x = number(a, same[k]), y = number(b, same[k]);
            if (numeric && k == 1)
                ck_assert_msg(isnan(y), "the share of empty cells is not known");
            else if (!numeric || k > 1 || number(a, "empty") == 0)
                ck_assert_msg((isnan(x) && isnan(y)) || fabs(x - y) <= 2e-6 * fabs(x),
                              "%s of field %zu: %g, not %g", same[k], i, y, x);
        }
        ck_assert_ptr_null(json_get(b, "examples"));
    }
    ck_assert_uint_eq(json_count(json_get(found, "notes")), _i == 1 ? 0 : 1); /* large numbers */
    json_free(found);
}
END_TEST

/* A column that reveals the label is found there, too; with many files the sample comes from some
 * of them. */
START_TEST(profile_of_event_files_says_what_looks_like_a_mistake)
{
    const char *text = log_write("a.csv", "click,user,clicked\n", row_leak);
    struct json *found = profile_as_events(text, 0);
    ck_assert_str_eq(json_as_string(json_get(found, "tells"), ""), "clicked");
    const char *says = json_as_string(json_get(found, "notes.0"), "");
    ck_assert_msg(strstr(says, "column \"clicked\" alone tells the label \"click\" in all 400") !=
                      NULL,
                  "%s", says);
    json_free(found);
    found = profile_as_events(text, 100); /* 40,000 rows */
    ck_assert(!json_as_bool(json_get(found, "whole"), true));
    ck_assert_int_eq(json_as_int(json_get(found, "rows"), 0), 8 * ROWS);
    json_free(found);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("profile");
    TCase *t = tcase_create("profile");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, profile_says_what_looks_like_a_mistake);
    tcase_add_test(t, profile_says_which_numbers_are_large);
    tcase_add_test(t, profile_of_ordinary_data_says_nothing);
    tcase_add_test(t, profile_tells_each_field);
    tcase_add_test(t, profile_counts_empty_cells);
    tcase_add_test(t, profile_refuses_what_multi_would_read_wrongly);
    tcase_add_test(t, profile_says_that_libsvm_is_unsorted);
    tcase_add_test(t, profile_tells_rows_over_several_lines);
    tcase_add_test(t, profile_says_which_features_no_record_has);
    tcase_add_test(t, profile_knows_files_again);
    tcase_add_loop_test(t, profile_of_event_files_is_that_of_their_text, 0, 2);
    tcase_add_test(t, profile_of_event_files_says_what_looks_like_a_mistake);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
