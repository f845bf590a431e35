/* test_events.c: parsed rows come back from an event file unchanged; a damaged file is refused, and
 * so is a job that it does not fit. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/worker_log.h"
#include "worker/data/convert.h"
#include "worker/data/events_inner.h"

#include <check.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct job job, other;
static struct dataset *d, *of_events;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    d = of_events = NULL;
    memset(&job, 0, sizeof job);
    memset(&other, 0, sizeof other);
}

static void teardown(void)
{
    dataset_close(d);
    dataset_close(of_events);
    job_free(&job);
    job_free(&other);
    worker_folder_remove();
}

static const char *convert(const char *name)
{
    struct convert_sums sums;
    const char *path = worker_path(name);
    ck_assert_msg(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e) == 0, "%s", e.text);
    return path;
}

/* A job with only the path of its examples. */
static void plain_job(const char *path)
{
    job_free(&other);
    worker_job(&other, DATA_EVENTS, path);
}

static void check_same(uint32_t rows, bool multi, bool weighted)
{
    if (weighted)
        worker_log_job_weighted(&job, rows);
    else
        worker_log_job(&job, rows, multi);
    plain_job(convert("log.events"));
    strcpy(other.data.weight, "w");
    strcpy(other.data.time, "ts");
    strcpy(other.evaluate.group, "cat");
    ck_assert_int_eq(config_list_add(&other.evaluate.by, "cat"), 0);
    job.data.negatives = other.data.negatives = 0.5;
    job.data.shuffle_within = other.data.shuffle_within = multi ? 3600 : 0;
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_open(&other, WIRE_TRAIN, &of_events, &e) == 0, "%s", e.text);
    worker_log_same(d, of_events, 1000);
}

START_TEST(events_give_the_batches_of_their_log)
{
    check_same(20000, false, false);
}
END_TEST

START_TEST(events_give_the_batches_of_their_log_with_several_values)
{
    check_same(20000, true, false);
}
END_TEST

START_TEST(events_give_the_weights_of_their_log)
{
    struct json *j;
    check_same(20000, true, true);
    ck_assert_int_eq(convert_check(worker_path("log.events"), &j, &e), 0);
    ck_assert_str_eq(json_as_string(json_array_at(json_get(j, "columns"), 7), ""),
                     "field multi 2 last 3 weighted\ttags");
    json_free(j);
    /* a job that knows of no weights would learn the values without them */
    plain_job(worker_path("log.events"));
    worker_job_column(&other, "tags", COLUMN_MULTI);
    other.data.column[0].weighted_said = true;
    dataset_close(of_events);
    of_events = NULL;
    ck_assert_int_eq(dataset_open(&other, WIRE_TRAIN, &of_events, &e), SHOAL_E_CONFIG);
    ck_assert_msg(strstr(e.text, "\"tags\" has weights of values") != NULL, "%s", e.text);
}
END_TEST

START_TEST(events_of_a_sample_are_those_of_their_log)
{
    worker_log_job(&job, 20000, _i >= 2);
    job.data.sample = 0.4;
    if (_i % 2 == 1)
        strcpy(job.data.sample_by, "item");
    plain_job(convert("log.events"));
    other.data.sample = 0.4;
    strcpy(other.data.sample_by, job.data.sample_by);
    strcpy(other.data.weight, "w");
    strcpy(other.data.time, "ts");
    strcpy(other.evaluate.group, "cat");
    ck_assert_int_eq(config_list_add(&other.evaluate.by, "cat"), 0);
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    ck_assert_msg(dataset_open(&other, WIRE_TRAIN, &of_events, &e) == 0, "%s", e.text);
    worker_log_same(d, of_events, 1000);
}
END_TEST

START_TEST(events_without_the_column_of_a_sample_are_refused)
{
    worker_log_job(&job, 500, false);
    plain_job(convert("log.events"));
    other.data.sample = 0.4;
    strcpy(other.data.sample_by, "item"); /* a field of the file, which has no hash of its cells */
    ck_assert_int_eq(dataset_open(&other, WIRE_TRAIN, &of_events, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "\"item\" as \"hash\""));
    ck_assert_ptr_nonnull(strstr(e.text, "convert"));
}
END_TEST

START_TEST(events_of_several_files_are_one_log)
{
    worker_log_job(&job, 3000, false);
    convert("1.events");
    convert("2.events");
    plain_job(worker_path("[12].events"));
    ck_assert_msg(dataset_open(&other, WIRE_TRAIN, &of_events, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(dataset_rows(of_events), 6000);
    uint64_t digest = dataset_digest(of_events);
    plain_job(worker_path("1.events"));
    dataset_close(of_events);
    ck_assert_msg(dataset_open(&other, WIRE_TRAIN, &of_events, &e) == 0, "%s", e.text);
    ck_assert_uint_ne(dataset_digest(of_events), digest);
}
END_TEST

START_TEST(events_tell_their_times_and_columns)
{
    struct json *j;
    worker_log_job(&job, 9000, true);
    ck_assert_msg(convert_check(convert("log.events"), &j, &e) == 0, "%s", e.text);
    ck_assert_int_eq(json_as_int(json_get(j, "rows"), 0), 9000);
    ck_assert_int_eq(json_as_int(json_get(j, "blocks"), 0), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "malformed"), 0), 530);
    ck_assert_int_eq(json_as_int(json_get(j, "first"), 0), 1700000000);
    ck_assert_int_eq(json_as_int(json_get(j, "last"), 0), 1700000000 + 8999 * 3);
    const struct json *columns = json_get(j, "columns");
    static const char *const lines[] = {"label above 0\tclick",
                                        "weight\tw",
                                        "time\tts",
                                        "number log1p\ta",
                                        "number log1p\tb",
                                        "field category 0\tcat",
                                        "field id 1\titem",
                                        "field multi 2 last 3\ttags",
                                        "hash\tcat",
                                        "hash\tcat"};
    ck_assert_uint_eq(json_count(columns), 10);
    for (size_t i = 0; i < 10; i++)
        ck_assert_str_eq(json_as_string(json_array_at(columns, i), ""), lines[i]);
    json_free(j);
}
END_TEST

/* ---- refusals ---- */

static void refused(int rc, const char *words)
{
    dataset_close(of_events);
    of_events = NULL;
    e.text[0] = '\0';
    ck_assert_int_eq(dataset_open(&other, WIRE_TRAIN, &of_events, &e), rc);
    ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
}

START_TEST(events_refuse_a_job_in_words)
{
    worker_log_job(&job, 50, false);
    const char *path = convert("log.events");
    plain_job(path);
    strcpy(other.data.weight, "a");
    refused(SHOAL_E_CONFIG, "has no column \"a\" as \"weight\"");
    plain_job(path);
    strcpy(other.evaluate.group, "item");
    refused(SHOAL_E_CONFIG, "has no column \"item\" as \"hash\"");
    plain_job(path);
    other.data.label_above = 2;
    refused(SHOAL_E_CONFIG, "column \"click\" is \"label above 2\" in this job");
    plain_job(path);
    config_list_add(&other.features.fields, "item");
    other.features.fields_auto = false;
    refused(SHOAL_E_CONFIG, "column \"item\" is \"field id 0\" in this job");
    plain_job(path);
    config_list_add(&other.features.fields, "nobody");
    other.features.fields_auto = false;
    refused(SHOAL_E_CONFIG, "nobody");
    plain_job(path);
    worker_job_column(&other, "nobody", COLUMN_NUMBER);
    refused(SHOAL_E_CONFIG, "which ");
    plain_job(path);
    other.predict.on = true;
    refused(SHOAL_E_CONFIG, "a prediction reads text");
    plain_job(worker_path("log.csv"));
    refused(SHOAL_E_DATA, "log.csv: no event file");
}
END_TEST

START_TEST(events_write_overwrites_nothing)
{
    struct convert_sums sums;
    worker_log_job(&job, 50, false);
    const char *path = worker_text("log.events", "mine");
    ck_assert_int_eq(convert_split(&job, WIRE_TRAIN, path, NULL, NULL, &sums, &e), SHOAL_E_EXISTS);
    ck_assert_int_eq(worker_count_files(".", "log.events"), 1);
    ck_assert_int_eq(convert_split(&job, WIRE_TRAIN, worker_path("no/x"), NULL, NULL, &sums, &e),
                     SHOAL_E_CANTCREATE);
}
END_TEST

static int seen_files;

static void look_at_folder(void *context, uint64_t rows)
{
    (void)context;
    (void)rows;
    seen_files += access(worker_path("log.events"), F_OK) == 0;
    seen_files += worker_count_files(".", "log.events.tmp-") != 0; /* a kill leaves no file */
}

START_TEST(events_write_has_its_name_when_whole)
{
    struct convert_sums sums;
    worker_log_job(&job, 50, false);
    seen_files = 0;
    ck_assert_int_eq(
        convert_split(&job, WIRE_TRAIN, worker_path("log.events"), look_at_folder, NULL, &sums, &e),
        0);
    ck_assert_int_eq(seen_files, 0);
    ck_assert_int_eq(worker_count_files(".", "log.events"), 1);
    ck_assert_uint_eq(sums.file.malformed, 3);
    worker_text("log.csv", "click,w,ts,a,b,cat,item\n");
    ck_assert_int_eq(
        convert_split(&job, WIRE_TRAIN, worker_path("none.events"), NULL, NULL, &sums, &e),
        SHOAL_E_DATA);
    ck_assert_int_eq(worker_count_files(".", "none"), 0);
}
END_TEST

/* Checks that a file with these bytes is refused, with its name and the damaged part. */
static void check_damaged(const uint8_t *data, size_t bytes)
{
    struct json *j;
    const char *path = worker_write("bad.events", data, bytes);
    e.text[0] = '\0';
    int rc = convert_check(path, &j, &e);
    ck_assert_msg(rc == SHOAL_E_CORRUPT || rc == SHOAL_E_CHECKSUM || rc == SHOAL_E_DATA, "%d", rc);
    ck_assert_msg(strstr(e.text, "bad.events: ") != NULL, "%s", e.text);
    ck_assert_msg(rc != SHOAL_E_CORRUPT || strstr(e.text, "block 0 of 1") != NULL ||
                      strstr(e.text, "its head") != NULL || strstr(e.text, "its index") != NULL ||
                      strstr(e.text, "its end") != NULL,
                  "%s", e.text);
}

START_TEST(events_read_refuses_every_damaged_byte)
{
    if (_i == 0)
        worker_log_job(&job, 40, true);
    else
        worker_log_job_weighted(&job, 40);
    const char *path = convert("log.events");
    FILE *f = fopen(path, "rb");
    uint8_t data[16384];
    size_t bytes = fread(data, 1, sizeof data, f);
    fclose(f);
    ck_assert_uint_lt(bytes, sizeof data);
    for (size_t i = 0; i < bytes; i++) {
        data[i] ^= 0x41;
        check_damaged(data, bytes);
        data[i] ^= 0x41;
    }
    for (size_t n = 0; n < bytes; n += 1 + n % 7)
        check_damaged(data, n);
    data[bytes] = 0;
    check_damaged(data, bytes + 1);
}
END_TEST

/* Valid checksums over impossible numbers: a file that no Shoal writes is refused. rows: how many
 * more than present the end and the index claim. */
static int crafted(uint8_t *data, size_t bytes, uint32_t end_more, uint32_t index_more)
{
    struct events_head head;
    struct events_end end;
    struct events_entry entry;
    uint8_t copy[16384];
    size_t at = bytes - sizeof end - sizeof entry;
    memcpy(copy, data, bytes);
    memcpy(&head, copy, sizeof head);
    memcpy(&end, copy + bytes - sizeof end, sizeof end);
    memcpy(&entry, copy + at, sizeof entry);
    ck_assert_uint_eq(end.blocks, 1);
    ck_assert_uint_eq(entry.rows, 40);
    entry.rows += index_more;
    end.rows += end_more;
    end.index_sum = hash_bytes(&entry, sizeof entry, head.sum);
    end.sum = hash_bytes(&end, offsetof(struct events_end, sum), 0);
    memcpy(copy + at, &entry, sizeof entry);
    memcpy(copy + bytes - sizeof end, &end, sizeof end);
    struct json *j = NULL;
    int rc = convert_check(worker_write("crafted.events", (const char *)copy, bytes), &j, &e);
    json_free(j);
    return rc;
}

START_TEST(events_read_refuses_numbers_that_do_not_fit)
{
    worker_log_job(&job, 40, true);
    FILE *f = fopen(convert("log.events"), "rb");
    uint8_t data[16384];
    size_t bytes = fread(data, 1, sizeof data, f);
    fclose(f);
    ck_assert_int_eq(crafted(data, bytes, 0, 0), 0);
    ck_assert_int_eq(crafted(data, bytes, 1, 0), SHOAL_E_CORRUPT);
    ck_assert_int_eq(crafted(data, bytes, 0, 1), SHOAL_E_CORRUPT);
    ck_assert_int_eq(crafted(data, bytes, 1, 1), SHOAL_E_CORRUPT); /* the block has fewer */
}
END_TEST

#define TWO_ROWS 0xed193ea3070ad2aeull /* their digest in every release */

/* Logs with the same columns and number of rows have different digests: a resumed job must not read
 * another log. */
START_TEST(events_of_other_rows_have_another_digest)
{
    uint64_t digest[2];
    for (uint32_t i = 0; i < 2; i++) {
        char text[128];
        int n = snprintf(text, sizeof text, "click,cat\n1,a\n0,%s\n", i == 0 ? "b" : "c");
        job_free(&job);
        worker_job(&job, DATA_CSV, worker_write("two.csv", text, (size_t)n));
        plain_job(convert(i == 0 ? "b.events" : "c.events"));
        ck_assert_msg(dataset_open(&other, WIRE_TRAIN, &of_events, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(dataset_rows(of_events), 2);
        digest[i] = dataset_digest(of_events);
        dataset_close(of_events);
        of_events = NULL;
    }
    ck_assert_uint_ne(digest[0], digest[1]);
    ck_assert_uint_eq(digest[0], TWO_ROWS);
}
END_TEST

/* The second block begins and ends before the first one, and has a malformed line. */
START_TEST(events_tell_the_times_of_all_blocks)
{
    enum { ROWS = 9000, FIRST = 8192, TIME = 1700000000 };
    char *text = malloc(64 * ROWS);
    size_t at = (size_t)sprintf(text, "click,ts,cat\n");
    for (uint32_t i = 0; i < ROWS; i++)
        at += (size_t)sprintf(text + at, "%s,%u,a\n", i == 5 || i == FIRST + 5 ? "x" : "1",
                              TIME + (i < FIRST ? 100000 : 0) + i);
    worker_job(&job, DATA_CSV, worker_write("back.csv", text, at));
    strcpy(job.data.time, "ts");
    job.data.max_bad = 1;
    free(text);
    struct json *j;
    ck_assert_msg(convert_check(convert("back.events"), &j, &e) == 0, "%s", e.text);
    ck_assert_int_eq(json_as_int(json_get(j, "blocks"), 0), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "malformed"), 0), 2);
    ck_assert_int_eq(json_as_int(json_get(j, "first"), 0), TIME + FIRST);
    ck_assert_int_eq(json_as_int(json_get(j, "last"), 0), TIME + 100000 + FIRST - 1);
    json_free(j);
    struct convert_sums sums;
    ck_assert_int_eq(
        convert_split(&job, WIRE_TRAIN, worker_path("again.events"), NULL, NULL, &sums, &e), 0);
    ck_assert_uint_eq(sums.file.malformed, 2);
    ck_assert_uint_eq(sums.file.first, TIME + FIRST);
    ck_assert_uint_eq(sums.file.last, TIME + 100000 + FIRST - 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("events");
    TCase *t = tcase_create("events");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, events_give_the_batches_of_their_log);
    tcase_add_test(t, events_give_the_weights_of_their_log);
    tcase_add_test(t, events_give_the_batches_of_their_log_with_several_values);
    tcase_add_loop_test(t, events_of_a_sample_are_those_of_their_log, 0, 4);
    tcase_add_test(t, events_without_the_column_of_a_sample_are_refused);
    tcase_add_test(t, events_of_several_files_are_one_log);
    tcase_add_test(t, events_tell_their_times_and_columns);
    tcase_add_test(t, events_refuse_a_job_in_words);
    tcase_add_test(t, events_write_overwrites_nothing);
    tcase_add_test(t, events_write_has_its_name_when_whole);
    tcase_add_loop_test(t, events_read_refuses_every_damaged_byte, 0, 2);
    tcase_add_test(t, events_read_refuses_numbers_that_do_not_fit);
    tcase_add_test(t, events_of_other_rows_have_another_digest);
    tcase_add_test(t, events_tell_the_times_of_all_blocks);
    suite_add_tcase(s, t);
    SRunner *run = srunner_create(s);
    srunner_run_all(run, CK_ENV);
    int failed = srunner_ntests_failed(run);
    srunner_free(run);
    return failed != 0;
}
