/* test_cache_names.c: names and contents of the files in the cache folder are the same in every
 * release: otherwise each release would parse, join and unpack everything again, beside the files
 * of the last one. Indexes and parsed rows of csv took other names once, in place of the former
 * ones, when a row could go over several lines. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_log.h"
#include "worker/data/object.h"

#include <check.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINES_BYTES = 1024 };

static struct job job;
static struct dataset *d;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    memset(&job, 0, sizeof job);
    d = NULL;
    e = (struct err){0};
}

static void teardown(void)
{
    dataset_close(d);
    job_free(&job);
    worker_folder_remove();
}

/* Replaces libc's: names contain the hash of a file's path, and the test's folder has a new path
 * each time. */
char *realpath(const char *restrict path, char *restrict resolved)
{
    char copy[4096], name[4200];
    (void)resolved;
    if (access(path, F_OK) != 0)
        return NULL;
    snprintf(copy, sizeof copy, "%s", path);
    snprintf(name, sizeof name, "/golden/%s", basename(copy));
    return strdup(name);
}

/* Names contain a file's time, too: sets a fixed one. */
static const char *dated(const char *path)
{
    const struct timespec time[2] = {{1700000000, 5}, {1700000000, 5}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, time, 0), 0);
    return path;
}

/* Checks the lines NAME BYTES HASH of all files in the cache folder, ordered by name. */
static void expect(const char *lines)
{
    char found[LINES_BYTES] = "";
    glob_t files;
    ck_assert_int_eq(glob(worker_path("cache/*-*"), 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++) {
        const char *name = strrchr(files.gl_pathv[i], '/') + 1;
        if (strstr(name, ".tmp-") != NULL) /* a lock */
            continue;
        size_t bytes, at = strlen(found);
        uint8_t *data = worker_only_file("cache", name, &bytes);
        snprintf(found + at, sizeof found - at, "%s %zu %016" PRIx64 "\n", name, bytes,
                 hash_bytes(data, bytes, 0));
        free(data);
    }
    globfree(&files);
    ck_assert_msg(strcmp(found, lines) == 0, "the cache has\n%snot\n%s", found, lines);
}

static void open_all(void)
{
    ck_assert_msg(dataset_open(&job, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
}

/* _i: with a field of several values, in order of time. */
START_TEST(index_and_parsed_rows_of_a_log)
{
    worker_log_job(&job, 200, _i == 1);
    ck_assert_int_eq(chdir(worker_path("")), 0); /* malformed lines are kept with its name */
    config_list_free(&job.data.train);
    ck_assert_int_eq(config_list_add(&job.data.train, dated("log.csv")), 0);
    job.data.cache_max = 1u << 30;
    job.data.shuffle_within = _i == 1 ? 3600 : 0;
    open_all();
    expect(_i == 1 ? "5deb7ae62af17d47-46d0835ef4d4dc44.rows 19376 149419e9c3b8285f\n"
                     "ad9e14093a737138-7959cf6cc65775b3.index 5656 4661facf7f3e2ac6\n"
                   : "19510e473a7cca2d-071e0dc01a2e60cb.index 4856 d70499f05c97edfb\n"
                     "bed0b9c5303bc69d-13f3f04d064181bd.rows 12016 db505384369a4dc9\n");
}
END_TEST

/* Names contain the positions of its columns: files of former releases are not found. */
START_TEST(parsed_rows_of_a_log_without_a_header)
{
    worker_job(&job, DATA_CSV, dated(worker_text("log.csv", "1,a,2\n0,b,3\n")));
    job.data.header = false;
    job.data.cache_max = 1u << 30;
    worker_job_column(&job, "click", COLUMN_LABEL);
    worker_job_column(&job, "x", COLUMN_CATEGORY);
    worker_job_column(&job, "n", COLUMN_NUMBER);
    open_all();
    expect("19510e473a7cca2d-5f4c84848655ea34.index 104 46e9412bd11e48a5\n"
           "7c617d52f5898599-a3462726706ed535.rows 248 b61135c90b047fbc\n");
}
END_TEST

START_TEST(text_of_a_packed_log)
{
    static const uint8_t packed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                     0x03, 0x4b, 0xce, 0xc9, 0x4c, 0xce, 0xd6, 0xa9, 0xe0,
                                     0x32, 0xd4, 0x31, 0xe2, 0x32, 0xd0, 0x31, 0xe6, 0x02,
                                     0x00, 0x3d, 0xb7, 0x07, 0x58, 0x10, 0x00, 0x00, 0x00};
    worker_job(&job, DATA_CSV, dated(worker_write("log.csv.gz", packed, sizeof packed)));
    strcpy(job.data.label[0], "click");
    job.data.label_count = 1;
    open_all();
    ck_assert_uint_eq(dataset_rows(d), 2);
    expect("d53caacc334f13a4-cc67eb6e1706aa13.index 104 3295dd728bcfe597\n"
           "ee147de0533bbdb3-de8c24b1b96208fb.text 16 248a57e481bd782c\n");
}
END_TEST

START_TEST(joined_text_of_impressions_and_clicks)
{
    char text[1024];
    struct string_list set = {0};
    dated(worker_text("show", "id,x,when\na,1,1760000000\nb,2,1760000001\na,3,1760000002\n"));
    dated(worker_text("clicks", "id,when\nb,1760000005\nz,1760000005\n"));
    int bytes = snprintf(text, sizeof text,
                         "data: {format: csv, train: '%s', label: click, time: when, cache: %s, "
                         "join: {clicks: '%s', id: id, window: 10s, keep: 5s, disorder: 3s}}\n",
                         worker_path("show"), worker_path("cache"), worker_path("clicks"));
    ck_assert_msg(job_parse(text, (size_t)bytes, "job.yaml", &set, &job, &e) == 0, "%s", e.text);
    open_all();
    expect("2d9b3e246901471c-cc074dbbcd85f7b7.counts 144 dea6cd4150d9528c\n"
           "2d9b3e246901471c-cc074dbbcd85f7b7.joined 50 eccd1517368f3c29\n"
           "5ec93bd8ab0da21e-206c1f6d94ed340c.rows 232 9631f0701ed3b0c1\n"
           "b0ede5c2d630729a-58d3e590cd145497.index 104 bb22dba97b0b3f12\n");
}
END_TEST

START_TEST(files_dated_by_their_names)
{
    worker_job(&job, DATA_CSV, dated(worker_text("2026-03-04-05.csv", "label,row\n1,a\n0,b\n")));
    ck_assert_int_eq(partition_parse("{date}-{hour}.csv", &job.data.partition, &e), 0);
    job.data.shuffle = false;
    job.data.cache_max = 1u << 30;
    job.replay.on = true;
    job.replay.window = 3600;
    open_all();
    expect("9bac1f6dfd286128-abab076df250ebb9.rows 240 24bbb7d3a1417633\n"
           "d1eb06b7fcb0c27b-3b173b46503e15a8.index 112 fa1abf86629d0474\n");
}
END_TEST

START_TEST(object_that_was_copied)
{
    const char *opens = "printf '%s\\n1\\n' \"$1\"";
    struct cache cache;
    struct source s;
    job.data.objects.of[WIRE_TRAIN].on = true;
    job.data.objects.of[WIRE_TRAIN].open = strdup(opens);
    job.data.objects.tries = 1;
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
    ck_assert_msg(object_open(&job, WIRE_TRAIN, "bucket/day-1\t15", &cache, &s, &e) == 0, "%s",
                  e.text);
    source_close(&s);
    expect("642b615f9f260593-c6491123d1509bfc.object 15 1b0745c0b36844e7\n");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cache_names");
    TCase *t = suite_case(s, "cache_names", 60, setup, teardown);
    tcase_add_loop_test(t, index_and_parsed_rows_of_a_log, 0, 2);
    tcase_add_test(t, parsed_rows_of_a_log_without_a_header);
    tcase_add_test(t, text_of_a_packed_log);
    tcase_add_test(t, joined_text_of_impressions_and_clicks);
    tcase_add_test(t, files_dated_by_their_names);
    tcase_add_test(t, object_that_was_copied);
    return suite_main(s);
}
