/* test_scaled.c: transforms, missing numbers, indicators, ranges and crosses of a job's columns,
 * line by line; figures of a sample, which stay with the tables and with event files. */
#include "proto/base/hash.h"
#include "proto/base/key.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_files.h"
#include "tests/lib/worker_reader.h"
#include "worker/data/columns.h"
#include "worker/data/convert.h"
#include "worker/data/dataset.h"
#include "worker/data/feature_inner.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static struct job job;
static struct features f;
static struct read_line r;
static struct err e;

static void setup(void)
{
    worker_folder_make();
}

static void teardown(void)
{
    features_free(&f);
    job_free(&job);
    worker_folder_remove();
}

/* Parses a job over FOLDER/log.csv; `more`: further YAML, of `data` first. */
static void job_of(const char *columns, const char *more)
{
    static char text[4096];
    snprintf(text, sizeof text,
             "data: {format: csv, label: y, train: [%s], cache: %s%s%s%s}\n"
             "tables: [{name: emb, dim: 2}]\nmodel: {kind: fm}\n%s",
             worker_path("log.csv"), worker_path("cache"), columns[0] != 0 ? ", columns: [" : "",
             columns, columns[0] != 0 ? "]" : "", more);
    struct legend kept = job.legend;
    memset(&job.legend, 0, sizeof job.legend);
    job_free(&job);
    ck_assert_msg(job_parse(text, strlen(text), "job.yaml", NULL, &job, &e) == 0, "%s", e.text);
    job.legend = kept;
}

static void made(const char *head)
{
    features_free(&f);
    ck_assert_msg(features_make(&job, "log.csv", head, strlen(head), &f, &e) == 0, "%s", e.text);
}

static void check_refused(const char *head, const char *text)
{
    features_free(&f);
    ck_assert_int_eq(features_make(&job, "log.csv", head, strlen(head), &f, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" does not say \"%s\"", e.text, text);
}

static void line_of(const char *text)
{
    ck_assert_msg(read_line_text(&r, format_csv.line, &f, text) == 0, "%s", r.reason);
}

static uint64_t key_of(uint32_t field, const char *value)
{
    return key_of_value(field, value, strlen(value));
}

/* ---- line by line ---------------------------------------------------------------------------- */

START_TEST(scaled_numbers_have_transforms_of_their_own)
{
    job_of("{name: a, type: number}, {name: b, type: number, transform: none}, "
           "{name: c, type: number, transform: bucket, borders: [0, 1.5, 10]}, "
           "{name: d, type: number, transform: bucket}",
           "features: {number: log1p}\n");
    made("y,a,b,c,d");
    ck_assert_uint_eq(f.shape.numerics, 2);
    ck_assert_uint_eq(f.shape.fields, 2);
    line_of("1,7,7,1.5,7");
    ck_assert(r.numeric[0] == feature_log1p(7) && r.numeric[1] == 7);
    ck_assert_uint_eq(r.key[0], key_of(0, "2"));
    ck_assert_uint_eq(r.key[1], key_of(1, "+2"));
    line_of("1,,,,");
    ck_assert(r.numeric[0] == 0 && r.numeric[1] == 0);
    ck_assert_uint_eq(r.key[0], key_of(0, ""));
    line_of("0,-1,2e3,-0.1,0");
    ck_assert_uint_eq(r.key[0], key_of(0, "0"));
    line_of("0,-1,2e3,10,0");
    ck_assert_uint_eq(r.key[0], key_of(0, "3"));
    ck_assert_int_eq(read_line_text(&r, format_csv.line, &f, "0,1,1,x,0"), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(r.reason, "column \"c\" has \"x\""));
}
END_TEST

START_TEST(scaled_missing_numbers_are_filled_and_told)
{
    job_of("{name: a, type: number, fill: -1, indicator: true}, "
           "{name: b, type: number, transform: log1p, fill: 7}, "
           "{name: c, type: number, transform: bucket, borders: [5], fill: 9}",
           "");
    made("y,a,b,c");
    ck_assert_uint_eq(f.shape.numerics, 3);
    line_of("1,4,4,4");
    ck_assert(r.numeric[0] == 4 && r.numeric[1] == feature_log1p(4) && r.numeric[2] == 0);
    line_of("1,,,");
    ck_assert(r.numeric[0] == -1 && r.numeric[1] == feature_log1p(7) && r.numeric[2] == 1);
    ck_assert_uint_eq(r.key[0], key_of(0, "1"));
    struct legend n = {0};
    ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][0].what, "number none, fill -1");
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][1].what, "number log1p, fill 7");
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][2].name, "missing a");
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][2].what, "number missing");
    ck_assert_str_eq(n.name[LEGEND_FIELDS][0].what, "bucket at 5, fill 9");
    ck_assert_str_eq(n.input, "c 2, a none, fill -1, b log1p, fill 7, missing a missing");
    legend_free(&n);
}
END_TEST

/* With and without vectors, and wherever in a group of eight they stand. */
START_TEST(scaled_numbers_stand_among_plain_ones)
{
    job_of("{name: n1..n20, type: number, transform: log1p}, {name: s1..s3, type: number, "
           "transform: log1p, fill: 5, indicator: true}",
           "");
    made("y,n1,n2,n3,s1,n4,n5,n6,n7,n8,n9,s2,n10,n11,n12,n13,n14,n15,n16,n17,n18,n19,s3,n20");
    ck_assert_uint_eq(f.shape.numerics, 26);
    for (int wide = 0; wide < 2; wide++) {
        f.wide = f.wide && wide == 0;
        line_of("1,1,2,3,,4,5,6,7,8,9,70000,10,11,12,13,14,15,16,17,18,19,,20");
        ck_assert(r.numeric[3] == feature_log1p(5) && r.numeric[10] == feature_log1p(70000));
        ck_assert(r.numeric[21] == feature_log1p(5) && r.numeric[22] == feature_log1p(20));
        ck_assert(r.numeric[23] == 1 && r.numeric[24] == 0 && r.numeric[25] == 1);
        ck_assert(r.numeric[2] == feature_log1p(3) && r.numeric[4] == feature_log1p(4));
    }
}
END_TEST

START_TEST(scaled_crosses_are_fields_of_their_columns)
{
    job_of("{name: hour, type: number, transform: bucket, borders: [6, 18]}",
           "features: {fields: [user], crosses: [[site, hour], [user, site, ad]]}\n");
    made("y,user,site,hour,ad");
    ck_assert_uint_eq(f.shape.fields, 3);
    line_of("1,u,s,7,");
    uint64_t two[] = {hash_bytes("s", 1, 0), hash_bytes("1", 1, 0)};
    uint64_t three[] = {hash_bytes("u", 1, 0), two[0], hash_bytes("", 0, 0)};
    ck_assert_uint_eq(r.key[0], key_of(0, "u"));
    ck_assert_uint_eq(r.key[1], key_of_value(1, two, 16));
    ck_assert_uint_eq(r.key[2], key_of_value(2, three, 24));
    uint64_t key;
    ck_assert_int_eq(feature_field_key(&f, 1, "s x 7", &key, &e), 0);
    ck_assert_uint_eq(key, r.key[1]);
    ck_assert_int_eq(feature_field_key(&f, 1, "s", &key, &e), SHOAL_E_DATA);
    struct legend n = {0};
    ck_assert_int_eq(feature_legend(&f, &job, &n, &e), 0);
    ck_assert_str_eq(n.name[LEGEND_FIELDS][1].name, "site x hour");
    ck_assert_ptr_nonnull(strstr(n.name[LEGEND_FIELDS][1].what, "cross ~"));
    ck_assert_str_eq(n.name[LEGEND_FIELDS][2].name, "user x site x ad");
    ck_assert_str_eq(n.name[LEGEND_FIELDS][2].what, "cross");
    legend_free(&n);
    const char other[] = "ad,hour,y,site,user";
    ck_assert_int_eq(features_bind(&f, "b.csv", other, strlen(other), &e), 0);
    uint64_t before = r.key[1];
    line_of(",7,1,s,u");
    ck_assert_uint_eq(r.key[1], before);
}
END_TEST

START_TEST(scaled_crosses_of_what_has_no_value_are_refused)
{
    static const char *const bad[][3] = {
        {"[site, y]", "{name: n, type: number}", "which is the label"},
        {"[site, n]", "{name: n, type: number}", "give it transform: bucket"},
        {"[site, t]", "{name: t, type: multi}", "with several values"},
        {"[site, t]", "{name: t, type: skip}", "which is skipped"},
        {"[site, nay]", "{name: t, type: skip}", "features.crosses names column \"nay\""}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char more[128];
        snprintf(more, sizeof more, "features: {crosses: [%s]}\n", bad[i][0]);
        job_of(bad[i][1], more);
        check_refused("y,site,n,t", bad[i][2]);
    }
}
END_TEST

START_TEST(scaled_star_is_for_the_columns_without_an_entry)
{
    job_of("{name: \"*\", type: number, transform: log1p}, {name: user}", "");
    made("y,a,user,b");
    ck_assert_uint_eq(f.shape.numerics, 2);
    ck_assert_uint_eq(f.shape.fields, 1);
    line_of("1,3,u,5");
    ck_assert(r.numeric[0] == feature_log1p(3) && r.numeric[1] == feature_log1p(5));
}
END_TEST

/* ---- figures --------------------------------------------------------------------------------- */

#define ROWS 1000u

static void log_write(const char *name, double factor)
{
    static char text[65536];
    size_t n = (size_t)snprintf(text, sizeof text, "y,age,price,site\n");
    for (uint32_t i = 0; i < ROWS; i++) {
        double age = 18 + (i * 7) % 50;
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%g,%g,s%u\n", i % 3 == 0, age * factor,
                              (i * 13) % 100 * factor, i % 5);
    }
    worker_text(name, text);
}

static const char standard[] = "{name: age, type: number, transform: standard}, "
                               "{name: price, type: number, transform: bucket, quantiles: 4}";

static void open_close(const char *text)
{
    struct dataset *d;
    int rc = dataset_open(&job, WIRE_TRAIN, &d, &e);
    if (text == NULL)
        ck_assert_msg(rc == 0, "%s", e.text);
    else
        ck_assert_msg(rc != 0 && strstr(e.text, text) != NULL, "\"%s\" does not say \"%s\"", e.text,
                      text);
    if (rc == 0)
        dataset_close(d);
}

/* The names that a first job over the log gives its tables. */
static struct legend first_names(void)
{
    struct legend nothing = {0}, n = {0};
    ck_assert_msg(dataset_legend(&job, &n, &e) == 0, "%s", e.text);
    ck_assert_int_eq(legend_match(&nothing, &n, NULL, 0, false, &e), 0);
    return n;
}

START_TEST(scaled_figures_are_those_of_the_log)
{
    log_write("log.csv", 1);
    job_of(standard, "");
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < ROWS; i++)
        sum += 18 + (i * 7) % 50;
    for (uint32_t i = 0; i < ROWS; i++)
        squares += pow(18 + (i * 7) % 50 - sum / ROWS, 2);
    struct legend n = first_names();
    char wanted[SCALE_TEXT];
    snprintf(wanted, sizeof wanted, "standard %.9g %.9g", sum / ROWS, sqrt(squares / ROWS));
    ck_assert_str_eq(legend_figures_of(&n, "age"), wanted);
    ck_assert_str_eq(legend_figures_of(&n, "price"), "bucket of 4 at 25 50 75");
    ck_assert_str_eq(n.name[LEGEND_NUMBERS][0].what, "number standard");
    ck_assert_str_eq(n.name[LEGEND_FIELDS][0].what, "bucket of 4");
    legend_free(&n);
    open_close(NULL);
}
END_TEST

/* The next day's log is of other numbers, and read as the first day's. */
START_TEST(scaled_figures_of_the_tables_stay)
{
    log_write("log.csv", 1);
    job_of(standard, "features: {crosses: [[price, site]]}\n");
    job.legend = first_names();
    log_write("log.csv", 100);
    struct legend is = {0};
    ck_assert_msg(dataset_legend(&job, &is, &e) == 0, "%s", e.text);
    ck_assert_str_eq(legend_figures_of(&is, "price"), "bucket of 4 at 25 50 75");
    ck_assert_msg(legend_match(&job.legend, &is, NULL, 0, false, &e) == 0, "%s", e.text);
    legend_free(&is);
    job_of("{name: age, type: number, transform: standard}, {name: price, type: number, "
           "transform: bucket, quantiles: 5}",
           "features: {crosses: [[price, site]]}\n");
    ck_assert_int_eq(dataset_legend(&job, &is, &e), 0);
    ck_assert_int_eq(legend_match(&job.legend, &is, NULL, 0, false, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "field price is bucket of 5, it was bucket of 4") != NULL, "%s",
                  e.text);
    /* a cross of other borders has other keys */
    ck_assert_msg(strstr(e.text, "field price x site is cross ~") != NULL, "%s", e.text);
    ck_assert_ptr_nonnull(strstr(e.text, "fresh: [price, price x site]"));
    legend_free(&is);
}
END_TEST

START_TEST(scaled_prediction_takes_no_figures_of_its_own)
{
    log_write("log.csv", 1);
    job_of(standard, "");
    job.predict.on = true;
    config_list_add(&job.data.test, job.data.train.item[0]);
    struct dataset *d;
    ck_assert_int_eq(dataset_open(&job, WIRE_TEST, &d, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "these tables do not have") != NULL, "%s", e.text);
}
END_TEST

START_TEST(scaled_event_files_keep_their_figures)
{
    static struct convert_sums sums;
    log_write("log.csv", 1);
    const char *crosses = "features: {crosses: [[price, site]]}\n";
    job_of("{name: age, type: number, transform: standard, indicator: true}, {name: price, type: "
           "number, transform: bucket, quantiles: 4}",
           crosses);
    struct legend of_text = first_names();
    const char *path = worker_path("log.events");
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e) == 0, "%s", e.text);
    /* a job that leaves the transforms open takes the file's */
    job_of("", "");
    job.data.format = DATA_EVENTS;
    free(job.data.train.item[0]);
    job.data.train.item[0] = strdup(path);
    struct legend of_events = first_names();
    ck_assert_str_eq(of_events.input, of_text.input);
    for (uint32_t l = 0; l <= LEGEND_NUMBERS; l++) {
        ck_assert_uint_eq(of_events.count[l], of_text.count[l]);
        for (uint32_t i = 0; i < of_text.count[l]; i++) {
            ck_assert_str_eq(of_events.name[l][i].name, of_text.name[l][i].name);
            ck_assert_str_eq(of_events.name[l][i].what, of_text.name[l][i].what);
        }
    }
    ck_assert_str_eq(legend_figures_of(&of_events, "age"), legend_figures_of(&of_text, "age"));
    ck_assert_str_eq(legend_figures_of(&of_events, "price"), legend_figures_of(&of_text, "price"));
    open_close(NULL);
    /* of the tables that the text made, too */
    job.legend = of_text;
    open_close(NULL);
    legend_free(&of_events);
    /* another transform is refused by name */
    legend_free(&job.legend);
    job.data.column = calloc(1, sizeof *job.data.column);
    job.data.column_count = 1;
    snprintf(job.data.column[0].name, LIMIT_NAME, "age");
    job.data.column[0].type = COLUMN_NUMBER;
    job.data.column[0].scaled = true;
    ck_assert(scale_parse("log1p", &job.data.column[0].scale));
    open_close("column \"age\" is \"number log1p\" in this job");
}
END_TEST

/* The tables know by which words cells are read, and which fields lose a fraction. */
START_TEST(scaled_tables_know_how_cells_are_read)
{
    log_write("log.csv", 1);
    job_of("{name: age, type: skip}, {name: price, whole: true}, {name: site}",
           "features: {crosses: [[price, site]]}\n");
    struct legend n = first_names();
    ck_assert(legend_reading_has(&n, LEGEND_WHOLE, "price"));
    ck_assert(legend_reading_has(&n, LEGEND_WHOLE, "price x site"));
    ck_assert(!legend_reading_has(&n, LEGEND_WHOLE, "site"));
    legend_free(&n);
    job_of("{name: age, type: skip}, {name: '*', whole: true}", "");
    n = first_names();
    ck_assert(legend_reading_has(&n, LEGEND_WHOLE, "site"));
    ck_assert_str_eq(n.reading[LEGEND_MISSING], "");
    legend_free(&n);
    config_list_add(&job.data.missing, "NA");
    config_list_add(&job.data.missing, "\\N");
    config_list_add(&job.data.label_positive, "1");
    n = first_names();
    ck_assert_str_eq(n.reading[LEGEND_MISSING], "\"NA\", \"\\N\"");
    ck_assert_str_eq(n.reading[LEGEND_POSITIVE], "\"1\"");
    legend_free(&n);
}
END_TEST

/* A rule of a cross finds the column that the event file has of it, and not the first field. */
START_TEST(scaled_rules_of_crosses_hold_over_event_files)
{
    static struct convert_sums sums;
    const char *columns = "{name: age, type: skip}, {name: price, type: number, transform: bucket, "
                          "borders: [30]}",
               *rule = "features: {crosses: [[price, site]]}\n";
    log_write("log.csv", 1);
    job_of(columns, rule);
    const char *path = worker_path("log.events");
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e) == 0, "%s", e.text);
    job.table[0].rule = calloc(1, sizeof *job.table[0].rule);
    job.table[0].rule_count = 1;
    snprintf(job.table[0].rule[0].field, LIMIT_NAME, "price x site");
    for (int events = 0; events < 2; events++) {
        features_free(&f);
        f = (struct features){0};
        ck_assert_msg(dataset_features(&job, &f, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(f.rules, 1);
        uint32_t field = f.shape.rule_field[0];
        ck_assert_uint_lt(field, f.shape.fields);
        ck_assert_int_eq(f.field[field].type, COLUMN_CROSS);
        job.data.format = DATA_EVENTS;
        free(job.data.train.item[0]);
        job.data.train.item[0] = strdup(path);
    }
}
END_TEST

/* Tables made with other figures than the file's keys. */
START_TEST(scaled_event_files_of_other_figures_are_refused)
{
    static struct convert_sums sums;
    log_write("log.csv", 1);
    job_of(standard, "");
    struct legend monday = first_names();
    log_write("log.csv", 3);
    const char *path = worker_path("log.events");
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e) == 0, "%s", e.text);
    job.legend = monday;
    job.data.format = DATA_EVENTS;
    free(job.data.train.item[0]);
    job.data.train.item[0] = strdup(path);
    open_close("column \"age\" is \"number standard ");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("scaled");
    TCase *cases = tcase_create("scaled");
    tcase_set_timeout(cases, 60);
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_add_test(cases, scaled_numbers_have_transforms_of_their_own);
    tcase_add_test(cases, scaled_missing_numbers_are_filled_and_told);
    tcase_add_test(cases, scaled_numbers_stand_among_plain_ones);
    tcase_add_test(cases, scaled_crosses_are_fields_of_their_columns);
    tcase_add_test(cases, scaled_crosses_of_what_has_no_value_are_refused);
    tcase_add_test(cases, scaled_star_is_for_the_columns_without_an_entry);
    tcase_add_test(cases, scaled_figures_are_those_of_the_log);
    tcase_add_test(cases, scaled_figures_of_the_tables_stay);
    tcase_add_test(cases, scaled_prediction_takes_no_figures_of_its_own);
    tcase_add_test(cases, scaled_event_files_keep_their_figures);
    tcase_add_test(cases, scaled_rules_of_crosses_hold_over_event_files);
    tcase_add_test(cases, scaled_tables_know_how_cells_are_read);
    tcase_add_test(cases, scaled_event_files_of_other_figures_are_refused);
    suite_add_tcase(suite, cases);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
