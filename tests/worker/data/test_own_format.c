/* test_own_format.c: the example in worker/data/README.md, "a format of your own": its file and its
 * row are compiled into the rooms proto/job and worker/data, and used from a job file to batches.
 * The README must quote both literally. */
#include "proto/base/key.h"
#include "proto/wire/wire.h"
#include "tests/lib/suite.h"
#include "tests/lib/worker_files.h"
#include "worker/data/dataset.h"
#include "worker/data/feature.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static struct err e;

static int job_with(const char *format, const char *path, struct job *j)
{
    char text[2048];
    int n = snprintf(text, sizeof text, "data: {format: %s, train: [%s], cache: %s}\n", format,
                     path, worker_path("cache"));
    return job_parse(text, (size_t)n, "own.yaml", NULL, j, &e);
}

START_TEST(its_lines_become_batches)
{
    struct job j;
    struct dataset *d = NULL;
    struct batch b;
    worker_folder_make();
    const char *path = worker_text("log", "1 ann red\n0 bob\n0 bob red\nx ann red\n");
    ck_assert_msg(job_with("words", path, &j) == 0, "%s", e.text);
    ck_assert(j.data.format == DATA_WORDS && j.features.number == NUMBER_NONE);
    ck_assert_msg(dataset_open(&j, WIRE_TRAIN, &d, &e) == 0, "%s", e.text);
    batch_init(&b);
    ck_assert_msg(batch_read(d, 1, 0, 0, 4, &b, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(b.examples, 2);
    ck_assert_uint_eq(b.bad_lines, 2);
    ck_assert_ptr_nonnull(strstr(b.bad_where, "log:2: 2 words, not 3 as on the first line"));
    ck_assert(b.label[0] == 1 && b.label[1] == 0);
    ck_assert_uint_eq(b.keys[b.index[0]], key_of_value(0, "ann", 3));
    ck_assert_uint_eq(b.keys[b.index[2]], key_of_value(0, "bob", 3));
    ck_assert_uint_eq(b.keys[b.index[3]], key_of_value(1, "red", 3));
    batch_free(&b);
    dataset_close(d);
    job_free(&j);
    worker_folder_remove();
}
END_TEST

START_TEST(what_is_refused_names_it)
{
    struct job j;
    struct features f;
    worker_folder_make();
    ck_assert_int_eq(job_with("word", "x", &j), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "libffm|words"));
    ck_assert_int_eq(job_with("words", "x", &j), 0);
    j.data.label_count = 2;
    ck_assert_int_eq(features_make(&j, "log", "1 ann", 5, &f, &e), SHOAL_E_CONFIG);
    ck_assert_ptr_nonnull(strstr(e.text, "a line of words has one"));
    j.data.label_count = 1;
    ck_assert_int_eq(features_make(&j, "log", "1", 1, &f, &e), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "1 words, not 2 to"));
    job_free(&j);
    worker_folder_remove();
}
END_TEST

static char *text_of(const char *path)
{
    static char text[3][1 << 15];
    static int used;
    char *to = text[used++ % 3];
    FILE *file = fopen(path, "r");
    ck_assert_msg(file != NULL, "%s does not open; run the test from the root of the source tree",
                  path);
    to[fread(to, 1, sizeof text[0] - 1, file)] = '\0';
    fclose(file);
    return to;
}

START_TEST(readme_quotes_both_to_the_letter)
{
    const char *readme = text_of("worker/data/README.md"),
               *file = text_of("tests/worker/data/own_format.c"),
               *row = strstr(text_of("tests/worker/data/own_format_row.h"), "X(WORDS");
    ck_assert_ptr_nonnull(row);
    ck_assert_uint_gt(strlen(file), 500);
    ck_assert_msg(strstr(readme, file) != NULL, "own_format.c is not quoted as it is");
    ck_assert_msg(strstr(readme, row) != NULL, "the row is not quoted as it is");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("own_format");
    TCase *c = tcase_create("own_format");
    tcase_add_test(c, its_lines_become_batches);
    tcase_add_test(c, what_is_refused_names_it);
    tcase_add_test(c, readme_quotes_both_to_the_letter);
    suite_add_tcase(s, c);
    return suite_main(s);
}
