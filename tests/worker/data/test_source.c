/* test_source.c: plain, packed and streamed input becomes text that is read by position. */
#include "proto/job/config.h"
#include "tests/lib/worker_files.h"
#include "worker/data/lines.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* zstd's own packing of "one\ntwo\n", and of 256 KiB of x. */
static const unsigned char zstd_two_lines[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x41,
                                               0x00, 0x00, 0x6f, 0x6e, 0x65, 0x0a, 0x74,
                                               0x77, 0x6f, 0x0a, 0xe6, 0xa6, 0x0e, 0x40};
static const unsigned char zstd_block[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x54, 0x00, 0x00,
                                           0x10, 0x78, 0x78, 0x01, 0x00, 0xfb, 0xff, 0x39, 0xc0,
                                           0x02, 0x03, 0x00, 0x10, 0x78, 0x54, 0xb3, 0x31, 0x72};

static struct cache cache;
static struct string_list list;
static struct err e;

static void setup(void)
{
    worker_folder_make();
    e = (struct err){0};
    list = (struct string_list){0};
    ck_assert_int_eq(cache_init(&cache, worker_path("cache"), &e), 0);
}

static void teardown(void)
{
    config_list_free(&list);
    worker_folder_remove();
}

/* Runs a shell command in which %s is a path. */
static void shell(const char *format, const char *path)
{
    char command[2048];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, format, path, path);
#pragma GCC diagnostic pop
    ck_assert_int_eq(system(command), 0);
}

/* Checks the whole text of the list, joined. */
static void check_text(const char *expected)
{
    struct source s;
    static char text[65536];
    size_t at = 0;
    ck_assert_msg(source_open(&list, "data.train", &cache, &s, &e) == 0, "%s", e.text);
    for (uint32_t i = 0; i < s.count; i++) {
        ck_assert_uint_eq(s.file[i].base, at);
        ck_assert_int_eq(pread(s.file[i].fd, text + at, sizeof text - at, 0),
                         (ssize_t)s.file[i].bytes);
        at += s.file[i].bytes;
    }
    ck_assert_uint_eq(at, strlen(expected));
    ck_assert_uint_eq(s.bytes, at);
    ck_assert_int_eq(memcmp(text, expected, at), 0);
    source_close(&s);
}

static int fails(void)
{
    struct source s;
    int rc = source_open(&list, "data.train", &cache, &s, &e);
    ck_assert_int_lt(rc, 0);
    ck_assert_int_eq(rc, e.code);
    return rc;
}

START_TEST(source_uses_plain_files_in_place)
{
    config_list_add(&list, worker_text("a.txt", "one\ntwo\n"));
    check_text("one\ntwo\n");
    ck_assert_int_eq(access(cache.folder, F_OK), -1); /* nothing to keep, so no folder */
}
END_TEST

START_TEST(source_sorts_globs_and_keeps_the_list_order)
{
    config_list_add(&list, worker_text("z.txt", "z\n"));
    worker_text("b2.log", "b2\n");
    worker_text("b10.log", "b10\n");
    config_list_add(&list, worker_path("b*.log"));
    check_text("z\nb10\nb2\n");
}
END_TEST

START_TEST(source_decodes_gzip_once)
{
    config_list_add(&list, worker_text("a.txt", "one\ntwo\n"));
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    config_list_free(&list);
    config_list_add(&list, worker_path("a.txt.gz"));
    check_text("one\ntwo\n");
    ck_assert_int_eq(worker_count_files("cache", ".text"), 1);
    /* The second time the text comes from the cache: the test finds the text that it wrote
     * there. */
    shell("for f in %s/*.text; do printf 'ONE\\ntwo\\n' > $f; done", cache.folder);
    check_text("ONE\ntwo\n");
    struct stat st;
    ck_assert_int_eq(stat(cache.folder, &st), 0);
    ck_assert_int_eq(st.st_mode & 0777, 0700);
}
END_TEST

START_TEST(source_decodes_anew_when_the_file_changes)
{
    worker_text("a.txt", "one\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    check_text("one\n");
    worker_text("a.txt", "something else\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    check_text("something else\n");
    ck_assert_int_eq(worker_count_files("cache", ".text"), 1); /* one generation is kept */
}
END_TEST

START_TEST(source_decodes_joined_gzip_members)
{
    worker_text("a.txt", "one\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    shell("cd $(dirname %s) && cat a.txt.gz a.txt.gz a.txt.gz > b.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("b.gz"));
    check_text("one\none\none\n");
}
END_TEST

/* Like gunzip: tapes and tar fill their last block. */
START_TEST(source_passes_over_zeros_behind_gzip)
{
    worker_text("a.txt", "one\n");
    shell("(gzip -c %s; head -c 600000 /dev/zero) > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    check_text("one\n");
}
END_TEST

START_TEST(source_refuses_other_bytes_behind_gzip)
{
    worker_text("a.txt", "one\n");
    shell("(gzip -c %s; head -c 600000 /dev/zero; echo x) > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "other bytes follow the end of its gzip data"));
}
END_TEST

/* As zstd, bzip2 and xz write them, in two members, with zeros behind them as tapes have. */
START_TEST(source_decodes_the_other_packings)
{
    static const char *const packers[] = {"zstd -q", "bzip2", "xz"};
    const char *packer = packers[_i];
    worker_text("a.txt", "one\n");
    char command[2048];
    (void)snprintf(command, sizeof command, "(%s -c %s; %s -c %s; head -c 600000 /dev/zero) > %s",
                   packer, worker_path("a.txt"), packer, worker_path("a.txt"),
                   worker_path("a.packed"));
    ck_assert_int_eq(system(command), 0);
    config_list_add(&list, worker_path("a.packed"));
    check_text("one\none\n");
    ck_assert_int_eq(worker_count_files("cache", ".text"), 1);
}
END_TEST

START_TEST(source_names_the_byte_where_packed_data_end)
{
    static const char *const packers[] = {"gzip", "zstd -q", "bzip2", "xz"};
    static const char *const names[] = {"gzip", "zstd", "bzip2", "xz"};
    char command[2048], says[64];
    (void)snprintf(command, sizeof command, "seq 3000 | %s -c | head -c 500 > %s", packers[_i],
                   worker_path("a.packed"));
    ck_assert_int_eq(system(command), 0);
    config_list_add(&list, worker_path("a.packed"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    (void)snprintf(says, sizeof says, "%s data ends too early, at byte 500", names[_i]);
    ck_assert_msg(strstr(e.text, says) != NULL, "\"%s\" is not in \"%s\"", says, e.text);
}
END_TEST

START_TEST(source_names_damage_in_packed_data)
{
    static const char *const packers[] = {"gzip", "zstd -q", "bzip2", "xz"};
    char command[2048];
    (void)snprintf(command, sizeof command,
                   "seq 3000 | %s -c > %s; printf 'damage, and more' | dd of=%s bs=1 seek=2000 "
                   "conv=notrunc 2>/dev/null",
                   packers[_i], worker_path("a.packed"), worker_path("a.packed"));
    ck_assert_int_eq(system(command), 0);
    config_list_add(&list, worker_path("a.packed"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_msg(strstr(e.text, "damaged") != NULL, "%s", e.text);
    ck_assert_int_eq(worker_count_files("cache", ".text"), 0);
}
END_TEST

START_TEST(source_recodes_utf16)
{
    worker_text("a.txt", "click,city\n1,M\xc3\xbcnchen\n0,\xf0\x9f\x90\x9f\n");
    static const char *const to[] = {"UTF-16", "UTF-16LE", "UTF-16BE"};
    char command[2048];
    (void)snprintf(command, sizeof command, "iconv -f UTF-8 -t %s %s > %s", to[_i],
                   worker_path("a.txt"), worker_path("w.txt"));
    ck_assert_int_eq(system(command), 0);
    config_list_add(&list, worker_path("w.txt"));
    if (_i == 2) { /* without a mark, only little-endian text is known: its bytes are no row */
        (void)snprintf(command, sizeof command, "(printf '\\376\\377'; cat %s) > %s",
                       worker_path("w.txt"), worker_path("m.txt"));
        ck_assert_int_eq(system(command), 0);
        config_list_free(&list);
        config_list_add(&list, worker_path("m.txt"));
    }
    check_text("click,city\n1,M\xc3\xbcnchen\n0,\xf0\x9f\x90\x9f\n");
}
END_TEST

START_TEST(source_refuses_half_characters)
{
    worker_write("a.txt",
                 "\xff\xfe"
                 "a\0\x00\xd8"
                 "b\0",
                 8);
    config_list_add(&list, worker_path("a.txt"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "byte 6: half a character of UTF-16"));
    config_list_free(&list);
    worker_write("b.txt",
                 "\xff\xfe"
                 "a\0b",
                 5);
    config_list_add(&list, worker_path("b.txt"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "ends within a character of UTF-16"));
}
END_TEST

START_TEST(source_ends_lines_that_end_in_cr)
{
    config_list_add(&list, worker_text("a.txt", "a,b\r1,2\r\r3,4\r"));
    check_text("a,b\n1,2\n\n3,4\n");
    config_list_free(&list);
    config_list_add(&list, worker_text("b.txt", "a,b\r\n1,2\r\n"));
    check_text("a,b\r\n1,2\r\n");
}
END_TEST

START_TEST(source_names_a_file_that_no_format_reads)
{
    worker_write("a.csv", "PK\x03\x04......", 10);
    config_list_add(&list, worker_path("a.csv"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a.csv is a zip archive"));
    ck_assert_int_eq(source_check(&list, "data.train", &e), SHOAL_E_DATA);
    shell("gzip -c %s > %s.gz", worker_path("a.csv")); /* text that is packed in gzip, too */
    config_list_free(&list);
    config_list_add(&list, worker_path("a.csv.gz"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a.csv.gz is a zip archive"));
    ck_assert_int_eq(worker_count_files("cache", ".text"), 0);
}
END_TEST

START_TEST(source_decodes_output_of_exactly_one_block)
{
    /* The last member fills the decoder's output block exactly. */
    size_t bytes = 256u << 10;
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    worker_write("a.txt", text, bytes);
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    worker_write("a.txt.zst", zstd_block, sizeof zstd_block);
    for (int i = 0; i < 2; i++) {
        struct source s;
        config_list_free(&list);
        config_list_add(&list, worker_path(i == 0 ? "a.txt.gz" : "a.txt.zst"));
        ck_assert_msg(source_open(&list, "data.train", &cache, &s, &e) == 0, "%s", e.text);
        ck_assert_uint_eq(s.bytes, bytes);
        source_close(&s);
    }
    free(text);
}
END_TEST

START_TEST(source_decodes_zstd)
{
    config_list_add(&list, worker_write("a.txt.zst", zstd_two_lines, sizeof zstd_two_lines));
    check_text("one\ntwo\n");
}
END_TEST

START_TEST(source_refuses_damaged_gzip)
{
    worker_text("a.txt", "one\ntwo\nthree\nfour\nfive\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    shell("printf 'XXXX' | dd of=%s bs=1 seek=24 conv=notrunc 2>/dev/null",
          worker_path("a.txt.gz"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "a.txt.gz"));
    ck_assert_int_eq(worker_count_files("cache", ""), 0); /* no half text, no temporary */
}
END_TEST

/* The last eight bytes are the checksum and the length of the packed text. */
START_TEST(source_refuses_gzip_with_another_sum)
{
    char *packed = NULL, name[16];
    worker_text("a.txt", "one\ntwo\nthree\nfour\nfive\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    FILE *f = fopen(worker_path("a.txt.gz"), "rb");
    packed = malloc(4096);
    size_t bytes = fread(packed, 1, 4096, f);
    fclose(f);
    for (size_t i = 1; i <= 8; i++) {
        packed[bytes - i] ^= 1;
        snprintf(name, sizeof name, "%zu.gz", i);
        worker_write(name, packed, bytes);
        config_list_free(&list);
        config_list_add(&list, worker_path(name));
        ck_assert_int_eq(fails(), SHOAL_E_DATA);
        packed[bytes - i] ^= 1;
    }
    free(packed);
}
END_TEST

START_TEST(source_refuses_packed_files_cut_short)
{
    char *text = malloc(100000);
    for (int i = 0; i < 100000; i++)
        text[i] = (char)('a' + (i * 7919 >> 3) % 26);
    worker_write("a.txt", text, 100000);
    free(text);
    shell("gzip -c %s | head -c 200 > %s.gz", worker_path("a.txt"));
    worker_write("a.txt.zst", zstd_block, sizeof zstd_block - 4);
    config_list_add(&list, worker_path("a.txt.gz"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "too early"));
    config_list_free(&list);
    config_list_add(&list, worker_path("a.txt.zst"));
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_int_eq(worker_count_files("cache", ""), 0);
}
END_TEST

START_TEST(source_refuses_missing_input)
{
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT); /* an empty list */
    config_list_add(&list, worker_path("none.txt"));
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "none.txt"));
    config_list_free(&list);
    config_list_add(&list, worker_path("none*.txt"));
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "no file matches"));
    config_list_free(&list);
    config_list_add(&list, worker_path(""));
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "is a folder"));
}
END_TEST

START_TEST(source_runs_commands_once_a_job)
{
    char command[2048];
    snprintf(command, sizeof command, "cmd:echo ran >> %s; printf 'one\\ntwo\\n' | gzip -c",
             worker_path("runs"));
    config_list_add(&list, command);
    check_text("one\ntwo\n");
    check_text("one\ntwo\n");
    struct stat st;
    ck_assert_int_eq(stat(worker_path("runs"), &st), 0);
    ck_assert_int_eq(st.st_size, 4);
    ck_assert_int_eq(worker_count_files("cache", ""), 0); /* the spool has no name */
}
END_TEST

START_TEST(source_refuses_failed_commands)
{
    config_list_add(&list, "cmd:echo one");
    config_list_add(&list, "cmd:echo s3cret; exit 3");
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "command 2 of "));
    ck_assert_ptr_null(strstr(e.text, "s3cret"));
    ck_assert_ptr_nonnull(strstr(e.text, "ended with status 3"));
}
END_TEST

START_TEST(source_reads_standard_input_once_and_keeps_it)
{
    int end[2];
    ck_assert_int_eq(pipe(end), 0);
    ck_assert_int_eq(write(end[1], "one\ntwo\n", 8), 8);
    close(end[1]);
    ck_assert_int_eq(dup2(end[0], STDIN_FILENO), STDIN_FILENO);
    config_list_add(&list, "-");
    char *name, *line;
    size_t bytes;
    ck_assert_int_eq(
        source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e), 0);
    ck_assert_str_eq(line, "one");
    free(name);
    free(line);
    check_text("one\ntwo\n");
    check_text("one\ntwo\n");
}
END_TEST

/* The next job opens its streams again; open ones stay. */
START_TEST(source_streams_are_of_one_job)
{
    char command[600];
    struct source s;
    snprintf(command, sizeof command, "cmd:cat %s", worker_text("day", "one\n"));
    config_list_add(&list, command);
    ck_assert_int_eq(source_open(&list, "data.train", &cache, &s, &e), 0);
    worker_text("day", "two!\n");
    check_text("one\n");
    source_streams_forget();
    check_text("two!\n");
    ck_assert_int_eq(pread(s.file[0].fd, command, sizeof command, 0), 4);
    source_close(&s);
}
END_TEST

/* A stream that was given up is not read again. */
START_TEST(source_streams_that_cannot_be_spooled_leave_nothing)
{
    struct cache none;
    config_list_add(&list, "cmd:echo one");
    check_text("one\n");
    source_streams_forget();
    ck_assert_int_eq(cache_init(&none, worker_path("none"), &e), 0);
    worker_text("none", "no folder");
    struct source s;
    for (int i = 0; i < 2; i++)
        ck_assert_int_lt(source_open(&list, "data.train", &none, &s, &e), 0);
    source_streams_forget();
    source_streams_forget();
    check_text("one\n");
}
END_TEST

START_TEST(source_standard_input_is_of_one_job)
{
    shell("printf 'one\ntwo\n' > %s", worker_path("in"));
    ck_assert_ptr_nonnull(freopen(worker_path("in"), "r", stdin));
    config_list_add(&list, "-");
    check_text("one\ntwo\n");
    check_text("one\ntwo\n");
    source_streams_forget();
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "has been read"));
}
END_TEST

/* The rest of a failed pipe is not taken for the whole. */
START_TEST(source_pipe_that_failed_half_way_is_not_read_again)
{
    shell("printf 'one\\ntwo\\n' | gzip -c | head -c 20 > %s", worker_path("cut"));
    ck_assert_ptr_nonnull(freopen(worker_path("cut"), "r", stdin));
    config_list_add(&list, "-");
    ck_assert_int_eq(fails(), SHOAL_E_DATA);
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT);
    ck_assert_ptr_nonnull(strstr(e.text, "has been read"));
    config_list_free(&list);
    config_list_add(&list, worker_path("fifo"));
    ck_assert_int_eq(mkfifo(worker_path("fifo"), 0600), 0);
    shell("(printf 'one\\n' > %s &)", worker_path("fifo"));
    check_text("one\n");
    source_streams_forget();
    ck_assert_int_eq(fails(), SHOAL_E_NOINPUT); /* without waiting for a writer */
}
END_TEST

START_TEST(source_head_is_the_first_line)
{
    char *name, *line;
    size_t bytes;
    worker_text("a.txt", "\r\n\nthe head\r\nrest\n");
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    ck_assert_int_eq(
        source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e), 0);
    ck_assert_str_eq(line, "the head");
    ck_assert_uint_eq(bytes, 8);
    ck_assert_str_eq(name, worker_path("a.txt.gz"));
    ck_assert_int_eq(worker_count_files("cache", ""), 0); /* nothing else is decoded */
    free(name);
    free(line);
    config_list_free(&list);
    config_list_add(&list, worker_text("b.txt", "\n\n"));
    ck_assert_int_eq(
        source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e),
        SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "b.txt: there is no line in it"));
}
END_TEST

/* Like a part of a log that got no row. */
START_TEST(source_head_is_of_the_first_file_that_has_a_line)
{
    char *name, *line;
    size_t bytes;
    config_list_add(&list, worker_text("0.txt", ""));
    config_list_add(&list, worker_text("1.txt", "\n"));
    config_list_add(&list, "cmd::");
    config_list_add(&list, worker_text("2.txt", "the head\n"));
    ck_assert_msg(
        source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e) == 0,
        "%s", e.text);
    ck_assert_str_eq(line, "the head");
    ck_assert_str_eq(name, worker_path("2.txt"));
    free(name);
    free(line);
}
END_TEST

/* Many lines, over files, up to 1 MiB; a line that does not fit is left out. */
START_TEST(source_lines_are_those_of_the_first_files)
{
    char *name, *lines, *text = malloc(LIMIT_LINE_BYTES + 1);
    size_t bytes;
    config_list_add(&list, worker_text("0.txt", "\n"));
    config_list_add(&list, worker_text("1.txt", "one\r\ntwo"));
    worker_text("2.txt", "three\n");
    shell("gzip -c %s > %s.gz", worker_path("2.txt"));
    config_list_add(&list, worker_path("2.txt.gz"));
    ck_assert_msg(source_lines(&list, "data.train", &cache, &name, &lines, &bytes, &e) == 0, "%s",
                  e.text);
    ck_assert_str_eq(lines, "one\r\ntwo\nthree\n");
    ck_assert_uint_eq(bytes, strlen(lines));
    ck_assert_str_eq(name, worker_path("1.txt"));
    free(name);
    free(lines);
    memset(text, 'x', LIMIT_LINE_BYTES + 1);
    text[10] = '\n';
    worker_write("3.txt", text, LIMIT_LINE_BYTES + 1);
    config_list_free(&list);
    config_list_add(&list, worker_path("3.txt"));
    ck_assert_int_eq(source_lines(&list, "data.train", &cache, &name, &lines, &bytes, &e), 0);
    ck_assert_str_eq(lines, "xxxxxxxxxx\n");
    free(name);
    free(lines);
    text[10] = 'x';
    worker_write("3.txt", text, LIMIT_LINE_BYTES + 1);
    ck_assert_int_eq(source_lines(&list, "data.train", &cache, &name, &lines, &bytes, &e),
                     SHOAL_E_DATA);
    ck_assert_ptr_nonnull(strstr(e.text, "longer than 1 MiB"));
    free(text);
}
END_TEST

/* A file with one line, which is as long as allowed, or longer. */
START_TEST(source_head_has_its_limits)
{
    char *name, *line, *text = malloc(LIMIT_LINE_BYTES + 1);
    size_t bytes;
    config_list_add(&list, worker_text("a.txt", "the head\r"));
    ck_assert_int_eq(
        source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e), 0);
    ck_assert_str_eq(line, "the head");
    free(name);
    free(line);
    memset(text, 'x', LIMIT_LINE_BYTES + 1);
    for (size_t more = 0; more < 2; more++) {
        worker_write("b.txt", text, LIMIT_LINE_BYTES + more);
        config_list_free(&list);
        config_list_add(&list, worker_path("b.txt"));
        int rc = source_head(&list, "data.train", FRAMING_LINES, &cache, &name, &line, &bytes, &e);
        ck_assert_int_eq(rc, more == 0 ? 0 : SHOAL_E_DATA);
        if (rc != 0)
            continue;
        ck_assert_uint_eq(bytes, LIMIT_LINE_BYTES);
        free(name);
        free(line);
    }
    free(text);
}
END_TEST

START_TEST(source_says_when_the_disk_is_full)
{
    char text[20000];
    memset(text, 'x', sizeof text);
    worker_write("a.txt", text, sizeof text);
    shell("gzip -c %s > %s.gz", worker_path("a.txt"));
    config_list_add(&list, worker_path("a.txt.gz"));
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {8192, 8192};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    ck_assert_int_eq(fails(), SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(strstr(e.text, "data.cache"));
    ck_assert_int_eq(worker_count_files("cache", ""), 0);
}
END_TEST

START_TEST(cache_removes_temporaries_of_the_dead_only)
{
    struct cache_file f;
    ck_assert_int_eq(cache_create(&cache, 1, 1, "text", &f, &e), 0);
    cache_drop(&f);
    worker_text("cache/dead.text.tmp-abcdef", "x");
    worker_text("cache/live.text.tmp-abcdef", "x");
    worker_text("cache/young.text.tmp-abcdef", "x");
    shell("touch -d '1 hour ago' %s", worker_path("cache/dead.text.tmp-abcdef"));
    shell("touch -d '1 hour ago' %s", worker_path("cache/live.text.tmp-abcdef"));
    int live = open(worker_path("cache/live.text.tmp-abcdef"), O_RDWR);
    ck_assert_int_eq(flock(live, LOCK_EX), 0);
    ck_assert_int_eq(cache_create(&cache, 1, 1, "text", &f, &e), 0);
    cache_drop(&f);
    ck_assert_int_eq(worker_count_files("cache", "dead"), 0);
    ck_assert_int_eq(worker_count_files("cache", "live"), 1);
    ck_assert_int_eq(worker_count_files("cache", "young"), 1);
    close(live);
}
END_TEST

START_TEST(cache_refuses_a_folder_that_anybody_may_write)
{
    struct cache_file f;
    ck_assert_int_eq(mkdir(cache.folder, 0700), 0);
    ck_assert_int_eq(chmod(cache.folder, 0777), 0);
    ck_assert_int_eq(cache_create(&cache, 1, 1, "text", &f, &e), SHOAL_E_DENIED);
    ck_assert_int_eq(cache_find(&cache, 1, 1, "text"), -1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("source");
    TCase *t = tcase_create("source");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, source_uses_plain_files_in_place);
    tcase_add_test(t, source_sorts_globs_and_keeps_the_list_order);
    tcase_add_test(t, source_decodes_gzip_once);
    tcase_add_test(t, source_decodes_anew_when_the_file_changes);
    tcase_add_test(t, source_decodes_joined_gzip_members);
    tcase_add_test(t, source_decodes_output_of_exactly_one_block);
    tcase_add_test(t, source_decodes_zstd);
    tcase_add_test(t, source_passes_over_zeros_behind_gzip);
    tcase_add_test(t, source_refuses_other_bytes_behind_gzip);
    tcase_add_loop_test(t, source_decodes_the_other_packings, 0, 3);
    tcase_add_loop_test(t, source_names_the_byte_where_packed_data_end, 0, 4);
    tcase_add_loop_test(t, source_names_damage_in_packed_data, 0, 4);
    tcase_add_loop_test(t, source_recodes_utf16, 0, 3);
    tcase_add_test(t, source_refuses_half_characters);
    tcase_add_test(t, source_ends_lines_that_end_in_cr);
    tcase_add_test(t, source_names_a_file_that_no_format_reads);
    tcase_add_test(t, source_refuses_damaged_gzip);
    tcase_add_test(t, source_refuses_gzip_with_another_sum);
    tcase_add_test(t, source_refuses_packed_files_cut_short);
    tcase_add_test(t, source_refuses_missing_input);
    tcase_add_test(t, source_runs_commands_once_a_job);
    tcase_add_test(t, source_refuses_failed_commands);
    tcase_add_test(t, source_reads_standard_input_once_and_keeps_it);
    tcase_add_test(t, source_streams_are_of_one_job);
    tcase_add_test(t, source_streams_that_cannot_be_spooled_leave_nothing);
    tcase_add_test(t, source_standard_input_is_of_one_job);
    tcase_add_test(t, source_pipe_that_failed_half_way_is_not_read_again);
    tcase_add_test(t, source_head_is_the_first_line);
    tcase_add_test(t, source_head_is_of_the_first_file_that_has_a_line);
    tcase_add_test(t, source_lines_are_those_of_the_first_files);
    tcase_add_test(t, source_head_has_its_limits);
    tcase_add_test(t, source_says_when_the_disk_is_full);
    tcase_add_test(t, cache_removes_temporaries_of_the_dead_only);
    tcase_add_test(t, cache_refuses_a_folder_that_anybody_may_write);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
