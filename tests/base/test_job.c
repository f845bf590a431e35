/* test_job.c: job files are read, and what is wrong in them is named with its line. */
#include "proto/base/config.h"
#include "proto/base/job.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const good =
    "job: frappe\n"
    "data:\n"
    "  format: csv\n"
    "  train: [a.csv.gz, {cmd: \"zcat b\"}]\n"
    "  valid: v.csv\n"
    "tables:\n"
    "  - name: emb\n"
    "    dim: 10\n"
    "    optimizer: {kind: adam, lr: 0.002}\n"
    "model: {kind: deepfm, hidden: [400, 200], norm: batch, l2: 1.0e-5}\n"
    "train: {batch: 4096, epochs: 20, early_stop: {metric: auc, patience: 2, lr_decay: 0.1}, consistency: bsp}\n"
    "durability: fsync\n";

static int parse(const char *text, const char *set, struct job *j, struct err *e)
{
    struct string_list l = {0};

    if (set != NULL)
        ck_assert_int_eq(string_list_add(&l, set), 0);
    int status = job_parse(text, strlen(text), "job.yaml", &l, j, e);
    string_list_free(&l);
    return status;
}

START_TEST(job_good_file_is_read)
{
    struct job j;
    struct err e = {0};

    ck_assert_msg(parse(good, NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_str_eq(j.name, "frappe");
    ck_assert_str_eq(j.space, "frappe");
    ck_assert_uint_eq(j.data.train.count, 2);
    ck_assert_str_eq(j.data.train.item[1], "cmd:zcat b");
    ck_assert_uint_eq(j.data.valid.count, 1);
    ck_assert_uint_eq(j.table[0].dim, 10);
    ck_assert(j.table[0].optimizer.kind == OPT_ADAM && j.table[0].optimizer.lr == 0.002f);
    ck_assert_uint_eq(j.model.hidden.count, 2);
    ck_assert_uint_eq(j.model.hidden.at[1], 200);
    ck_assert_uint_eq(j.train.mode, 2);
    ck_assert(j.durability == DURABLE_FSYNC);
    job_free(&j);
}
END_TEST

START_TEST(job_set_replaces_values_and_lists)
{
    struct job j;

    ck_assert_int_eq(parse(good, "data.train=[x, y, z]", &j, NULL), 0);
    ck_assert_uint_eq(j.data.train.count, 3);
    job_free(&j);
    ck_assert_int_eq(parse(good, "tables[0].dim=7", &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].dim, 7);
    job_free(&j);
    ck_assert_int_eq(parse(good, "tables.0.dim=8", &j, NULL), 0);
    ck_assert_uint_eq(j.table[0].dim, 8);
    job_free(&j);
}
END_TEST

static void refused(const char *text, const char *set, const char *part)
{
    struct job j;
    struct err e = {0};

    ck_assert_int_eq(parse(text, set, &j, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, part) != NULL, "\"%s\" is not in \"%s\"", part, e.text);
}

START_TEST(job_numbers_are_read_as_they_were_checked)
{
    struct job j;

    ck_assert_int_eq(parse(good, "train.batch=0x10", &j, NULL), 0);
    ck_assert_uint_eq(j.train.batch, 16);
    job_free(&j);
    ck_assert_int_eq(parse(good, "train.batch=1e3", &j, NULL), 0);
    ck_assert_uint_eq(j.train.batch, 1000);
    job_free(&j);
    ck_assert_int_eq(parse(good, "train.seed=9223372036854775807", &j, NULL), 0);
    ck_assert_uint_eq(j.train.seed, 9223372036854775807u);
    job_free(&j);
}
END_TEST

START_TEST(job_unknown_key_names_line_and_nearest)
{
    refused("job: x\ndata: {train: a}\ntrain:\n  bach: 3\n", NULL, "job.yaml:4: unknown key train.bach; the nearest known key is train.batch");
}
END_TEST

START_TEST(job_wrong_values_are_refused)
{
    refused(good, "train.batch=many", "--set: train.batch: many is not a number");
    refused(good, "train.bacth=3", "--set: unknown key train.bacth; the nearest known key is train.batch");
    refused(good, "train.batch=0", "not between 1 and");
    refused(good, "train.batch=1.5", "not a whole number");
    refused(good, "train.seed=1e300", "not a whole number");
    refused(good, "train.seed=99999999999999999999", "not a whole number");
    refused(good, "journal.max=-1", "not a size");
    refused(good, "train.consistency=eventual", "async|ssp|bsp");
    refused(good, "train=5", "holds further keys");
    refused(good, "model.hidden=[400, x]", "not a number of units");
    refused(good, "tables[0].tablets=1000", "no power of two");
    refused(good, "tables[0].name=dense", "taken");
    refused("job: x\n", NULL, "data.train is missing");
    refused("job: [\n", NULL, "job.yaml:");
    refused("job: x\njob: y\ndata: {train: a}\n", NULL, "stands twice");
    refused("job: x\ndata: {train: a}\ntrain: {early_stop: {patience: 2}}\n", NULL, "needs data.valid");
}
END_TEST

START_TEST(job_text_survives_a_round_trip)
{
    char path[] = "/tmp/shoal-test-job-XXXXXX";
    struct string_list set = {0};
    struct err e = {0};
    struct job j;
    char *text;
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    FILE *f = fdopen(fd, "w");
    fputs(good, f);
    fclose(f);
    string_list_add(&set, "train.seed=7");
    string_list_add(&set, "data.delimiter=\"\\t\"");
    ck_assert_msg(job_text(path, &set, &text, &e) == 0, "%s", e.text);
    ck_assert_msg(job_parse(text, strlen(text), "text", NULL, &j, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(j.train.seed, 7);
    ck_assert_int_eq(j.data.delimiter, '\t');
    ck_assert_str_eq(j.data.train.item[1], "cmd:zcat b");
    job_free(&j);
    free(text);
    string_list_free(&set);
    unlink(path);
}
END_TEST

START_TEST(job_missing_file_is_no_input)
{
    struct job j;

    ck_assert_int_eq(job_load("/nonexistent/job.yaml", NULL, &j, NULL), SHOAL_E_NOINPUT);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job");
    TCase *t = tcase_create("job");

    tcase_add_test(t, job_good_file_is_read);
    tcase_add_test(t, job_set_replaces_values_and_lists);
    tcase_add_test(t, job_numbers_are_read_as_they_were_checked);
    tcase_add_test(t, job_unknown_key_names_line_and_nearest);
    tcase_add_test(t, job_wrong_values_are_refused);
    tcase_add_test(t, job_text_survives_a_round_trip);
    tcase_add_test(t, job_missing_file_is_no_input);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
