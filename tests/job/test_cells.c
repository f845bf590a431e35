/* test_cells.c: the keys about the text of cells, and the refusals of what would read it wrong. */
#include "proto/job/job.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct job job;
static struct err e;

static int parse(const char *format, const char *keys)
{
    char text[1024];
    int n =
        snprintf(text, sizeof text, "data: {format: %s, train: a, label: click%s}\n", format, keys);
    e = (struct err){0};
    return job_parse(text, (size_t)n, "job.yaml", NULL, &job, &e);
}

static void refused(const char *format, const char *keys, const char *part)
{
    ck_assert_int_eq(parse(format, keys), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, part) != NULL, "\"%s\" is not in \"%s\"", part, e.text);
}

START_TEST(cells_keys_are_taken)
{
    ck_assert_msg(parse("csv", ", missing: [NA, '\\N'], label_positive: [yes, click], "
                               "label_negative: 'no', decimal: comma, delimiter: '::', "
                               "columns: [{name: user, whole: true}]") == 0,
                  "%s", e.text);
    ck_assert_uint_eq(job.data.missing.count, 2);
    ck_assert_str_eq(job.data.missing.item[1], "\\N");
    ck_assert_uint_eq(job.data.label_positive.count, 2);
    ck_assert_str_eq(job.data.label_negative.item[0], "no");
    ck_assert(job.data.decimal_comma && job.data.column[0].whole);
    ck_assert_str_eq(job.data.delimiter, "::");
    job_free(&job);
    ck_assert_int_eq(parse("tfrecord", ", missing: [NA]"), 0);
    job_free(&job);
}
END_TEST

START_TEST(cells_contradictions_are_refused)
{
    refused("csv", ", label_negative: ['no']", "name the labels that are 1 too");
    refused("csv", ", label_positive: [a], label_above: 2", "keep one");
    refused("csv", ", label_positive: [a, b], label_negative: [b]", "\"b\" is in");
    refused("csv", ", columns: [{name: user, type: number, whole: true}]", "of type category");
    refused("tfrecord", ", decimal: comma", "data.decimal is for csv");
    refused("csv",
            ", decimal: comma, columns: [{name: t, type: multi, weighted: true, separator: ','}]",
            "with data.decimal: comma a weight has a comma, so it cannot be the separator");
    refused("criteo", ", columns: [{name: '*', type: number}]", "is for csv, tfrecord and events");
    refused("libffm", ", columns: [{name: '1', type: multi, weighted: false}]",
            "entries of libsvm and libffm have weights");
}
END_TEST

START_TEST(cells_event_files_hold_what_the_keys_made)
{
    refused("events", ", missing: [NA]", "data.missing is about text");
    refused("events", ", label_positive: [a]", "data.label_positive is about text");
    refused("events", ", columns: [{name: user, whole: true}]", "is about text");
}
END_TEST

START_TEST(cells_of_a_join_have_its_labels)
{
    const char *join = ", time: t, join: {clicks: b, id: i}";
    char keys[256];
    ck_assert_msg(parse("csv", join) == 0, "%s", e.text);
    job_free(&job);
    snprintf(keys, sizeof keys, "%s, label_positive: [a]", join);
    refused("csv", keys, "a join makes labels 0 and 1");
    snprintf(keys, sizeof keys, "%s, delimiter: '::'", join);
    refused("csv", keys, "one character between cells");
    snprintf(keys, sizeof keys, "%s, missing: [NA]", join);
    refused("csv", keys, "a join compares ids as they stand");
}
END_TEST

START_TEST(cells_records_are_no_objects_and_name_their_label)
{
    refused("tfrecord", ", objects: true", "objects are text or event files");
    const char *text = "data: {format: tfrecord, train: a}\n";
    ck_assert_int_eq(job_parse(text, strlen(text), "job.yaml", NULL, &job, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "data.label is missing: name the feature"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cells");
    TCase *t = suite_case(s, "cells", 60, NULL, NULL);
    tcase_add_test(t, cells_keys_are_taken);
    tcase_add_test(t, cells_contradictions_are_refused);
    tcase_add_test(t, cells_event_files_hold_what_the_keys_made);
    tcase_add_test(t, cells_of_a_join_have_its_labels);
    tcase_add_test(t, cells_records_are_no_objects_and_name_their_label);
    return suite_main(s);
}
