/* test_index.c: the index of rows is found, checked and kept, and used only if its checksums
 * fit. */
#include "proto/base/hash.h"
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "worker/data/index.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Digest of three rows, the same in every release: checkpoints contain the digest of their
 * input. */
#define INDEX_DIGEST 0xa0bc164d6e97ee2cull

static struct cache cache;
static struct string_list list;
static struct source source;
static struct index x;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    list = (struct string_list){0};
    e = (struct err){0};
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
}

static void teardown(void)
{
    index_close(&x);
    source_close(&source);
    config_list_free(&list);
    worker_folder_remove();
}

static void open_all(bool header)
{
    index_close(&x);
    source_close(&source);
    ck_assert_msg(source_open(&list, "data.train", &cache, &source, &e) == 0, "%s", e.text);
    ck_assert_msg(index_open(&source, &(struct row_form){.header = header}, NULL, &cache, &x, &e) ==
                      0,
                  "%s", e.text);
}

static void open_one(const char *text, bool header)
{
    config_list_free(&list);
    config_list_add(&list, worker_text("a.txt", text));
    open_all(header);
}

START_TEST(index_counts_lines_that_are_not_empty)
{
    open_one("a\n\nbb\r\n\r\nccc", false);
    ck_assert_uint_eq(x.rows, 3);
    ck_assert_uint_eq(x.chunks, 3);
    ck_assert_uint_eq(x.chunk[1].at, 3);
    ck_assert_uint_eq(x.chunk[1].number, 2);
    ck_assert_uint_eq(x.chunk[2].at, 9);
    ck_assert_uint_eq(x.chunk[2].number, 4);
}
END_TEST

START_TEST(index_leaves_out_the_header_of_each_file)
{
    worker_text("b.txt", "head\nb1\n");
    worker_text("c.txt", "");
    worker_text("d.txt", "\nhead\nd1\nd2\n");
    config_list_add(&list, worker_path("[bcd].txt"));
    open_all(true);
    ck_assert_uint_eq(x.rows, 3);
    ck_assert_uint_eq(x.chunk[1].number, 2);
    open_all(false);
    ck_assert_uint_eq(x.rows, 5);
}
END_TEST

START_TEST(index_digest_is_of_content_alone)
{
    open_one("a\nb\nc\n", false);
    uint64_t digest = x.digest;
    ck_assert_uint_eq(digest, INDEX_DIGEST);
    open_one("\na\r\nb\r\n\r\nc", false);
    ck_assert_uint_eq(x.digest, digest);
    config_list_free(&list);
    worker_text("p1", "a\n");
    worker_text("p2", "b\nc\n");
    config_list_add(&list, worker_path("p*"));
    open_all(false);
    ck_assert_uint_eq(x.digest, digest);
    open_one("a\nc\nb\n", false);
    ck_assert_uint_ne(x.digest, digest);
    open_one("a\nb\n", false);
    ck_assert_uint_ne(x.digest, digest);
    open_one("a\nb\nd\n", false);
    ck_assert_uint_ne(x.digest, digest);
}
END_TEST

/* Flips a byte of the cache's only .index file: an overwrite might write the same byte. */
static void damage_index(long offset)
{
    char command[2048], path[2048] = "";
    snprintf(command, sizeof command, "ls %s/*.index", cache.folder);
    FILE *names = popen(command, "r");
    ck_assert_int_eq(fscanf(names, "%2047s", path), 1);
    pclose(names);
    FILE *f = fopen(path, "r+b");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fseek(f, offset, SEEK_SET), 0);
    int byte = fgetc(f);
    ck_assert_int_ge(byte, 0);
    ck_assert_int_eq(fseek(f, offset, SEEK_SET), 0);
    ck_assert_int_ge(fputc(byte ^ 0xff, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Identifies the index file by its number, which a file system may reuse at once, and by its
 * time. */
static uint64_t index_file(void)
{
    char command[2048];
    uint64_t inode = 0, s = 0, ns = 0;
    snprintf(command, sizeof command, "stat -c '%%i %%.9Z' %s/*.index", cache.folder);
    FILE *f = popen(command, "r");
    ck_assert_int_eq(fscanf(f, "%" SCNu64 " %" SCNu64 ".%" SCNu64, &inode, &s, &ns), 3);
    pclose(f);
    return inode * 31 + s * 1000000000 + ns;
}

START_TEST(index_is_kept_and_used_again)
{
    open_one("a\nb\nc\n", false);
    uint64_t digest = x.digest;
    ck_assert_int_eq(worker_count_files("cache", ".index"), 1);
    uint64_t file = index_file();
    open_all(false);
    ck_assert_uint_eq(x.digest, digest);
    ck_assert_uint_eq(x.rows, 3);
    ck_assert(index_file() == file);
}
END_TEST

static uint32_t same_time(void *context, struct line *line)
{
    (void)context, (void)line;
    return 7;
}

/* The checksums in a file are the same in every release; another release would report it as
 * damaged. _i: with times. */
START_TEST(index_has_the_sums_of_every_release)
{
    const struct index_clock clock = {same_time, NULL, 99, INDEX_CHUNKS_MAX};
    const size_t head = 56, chunks = 3 * sizeof(struct index_chunk);
    uint64_t is[7];
    size_t bytes;
    config_list_add(&list, worker_text("a.txt", "a\nb\nc\n"));
    ck_assert_int_eq(source_open(&list, "data.train", &cache, &source, &e), 0);
    ck_assert_int_eq(index_open(&source, &ROW_FORM_LINES, _i == 1 ? &clock : NULL, &cache, &x, &e),
                     0);
    uint8_t *f = worker_only_file("cache", ".index", &bytes);
    ck_assert_uint_eq(bytes, head + chunks + (_i == 1 ? 3 * 4 : 0));
    memcpy(is, f, sizeof is);
    uint64_t times = _i == 1 ? hash_bytes(f + head + chunks, 3 * 4, 0) : 0;
    ck_assert_uint_eq(is[5], hash_bytes(f + head, chunks, times));
    ck_assert_uint_eq(is[6], hash_bytes(f, 48, 0));
    free(f);
}
END_TEST

START_TEST(index_is_made_again_when_the_file_changed)
{
    open_one("a\nb\nc\n", false);
    uint64_t digest = x.digest;
    usleep(20000); /* file times change with the tick */
    open_one("a\nb\nx\n", false);
    ck_assert_uint_ne(x.digest, digest);
    ck_assert_int_eq(worker_count_files("cache", ".index"), 1); /* the old one is gone */
}
END_TEST

START_TEST(index_that_is_damaged_is_made_again)
{
    static const long places[] = {0, 9, 17, 33, 36, 41, 49, 57, 66, 75, 90};
    open_one("a\nb\nc\n", false);
    uint64_t digest = x.digest;
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        damage_index(places[i]);
        uint64_t file = index_file();
        open_all(false);
        ck_assert_uint_eq(x.digest, digest);
        ck_assert_uint_eq(x.rows, 3);
        ck_assert_msg(index_file() != file, "damage at %ld was not seen", places[i]);
    }
}
END_TEST

START_TEST(index_joins_rows_when_there_are_many)
{
    /* 2^18 chunks of one row are the maximum; with one row more, chunks have two. */
    size_t bytes = 0, rows = INDEX_CHUNKS_MAX;
    char *text = malloc(8 * (rows + 3));
    for (size_t i = 0; i < rows; i++)
        bytes += (size_t)sprintf(text + bytes, "%zu\n", i);
    config_list_add(&list, worker_write("a.txt", text, bytes));
    open_all(false);
    ck_assert_uint_eq(x.chunk_rows, 1);
    ck_assert_uint_eq(x.chunks, rows);
    uint64_t sum = x.chunk[100].sum + x.chunk[101].sum, at = x.chunk[100].at;
    bytes += (size_t)sprintf(text + bytes, "last\n");
    worker_write("a.txt", text, bytes);
    open_all(false);
    ck_assert_uint_eq(x.rows, rows + 1);
    ck_assert_uint_eq(x.chunk_rows, 2);
    ck_assert_uint_eq(x.chunks, rows / 2 + 1);
    ck_assert_uint_eq(x.chunk[50].sum, sum);
    ck_assert_uint_eq(x.chunk[50].at, at);
    ck_assert_uint_eq(x.chunk[50].number, 100);
    free(text);
}
END_TEST

START_TEST(lines_hand_out_the_start_of_a_line_that_is_too_long)
{
    size_t length = 3u << 20;
    char *text = malloc(length + 16);
    memset(text, 'x', length);
    memcpy(text, "a\n", 2);
    memcpy(text + length, "\nb\n", 3);
    config_list_add(&list, worker_write("a.txt", text, length + 3));
    open_all(false);
    ck_assert_uint_eq(x.rows, 3);
    struct lines lines;
    struct line line;
    ck_assert_int_eq(lines_init(&lines, &e), 0);
    lines_start(&lines, &source, ROW_FORM_LINES, x.chunk[1].at, source.bytes, x.chunk[1].number);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_nonnull(line.fault);
    ck_assert_uint_eq(line.bytes, LIMIT_LINE_BYTES);
    ck_assert_uint_eq(line.number, 2);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_null(line.fault);
    ck_assert_uint_eq(line.number, 3);
    ck_assert_int_eq(memcmp(line.text, "b", 1), 0);
    ck_assert_int_eq(lines_next(&lines, &line, &e), SHOAL_E_END);
    lines_free(&lines);
    free(text);
}
END_TEST

START_TEST(lines_of_just_the_limit_are_whole)
{
    size_t limit = LIMIT_LINE_BYTES;
    char *text = malloc(2 * limit + 16);
    memset(text, 'x', 2 * limit + 16);
    text[limit] = '\n';                 /* a line of the limit */
    text[limit + 1 + limit + 1] = '\n'; /* and one with a byte more */
    config_list_add(&list, worker_write("a.txt", text, 2 * limit + 3));
    open_all(false);
    ck_assert_uint_eq(x.rows, 2);
    struct lines lines;
    struct line line;
    ck_assert_int_eq(lines_init(&lines, &e), 0);
    lines_start(&lines, &source, ROW_FORM_LINES, 0, source.bytes, 0);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_null(line.fault);
    ck_assert_uint_eq(line.bytes, LIMIT_LINE_BYTES);
    ck_assert_int_eq(lines_next(&lines, &line, &e), 0);
    ck_assert_ptr_nonnull(line.fault);
    lines_free(&lines);
    free(text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("index");
    TCase *t = tcase_create("index");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, index_counts_lines_that_are_not_empty);
    tcase_add_test(t, index_leaves_out_the_header_of_each_file);
    tcase_add_test(t, index_digest_is_of_content_alone);
    tcase_add_test(t, index_is_kept_and_used_again);
    tcase_add_loop_test(t, index_has_the_sums_of_every_release, 0, 2);
    tcase_add_test(t, index_is_made_again_when_the_file_changed);
    tcase_add_test(t, index_that_is_damaged_is_made_again);
    tcase_add_test(t, index_joins_rows_when_there_are_many);
    tcase_add_test(t, lines_hand_out_the_start_of_a_line_that_is_too_long);
    tcase_add_test(t, lines_of_just_the_limit_are_whole);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
