/* test_cursor.c: the only reader of records: from a sequence on, beside appends and trims, through
 * the archive, by heads alone; and records of a later Shoal. */
#include "embedding/journal/cursor.h"
#include "tests/lib/rig_dir.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT = 65536, PAYLOAD = 5000, RECORD = 5120, EACH = 12 }; /* EACH: records in a segment */

static char dir[LIMIT_PATH];
static char bytes[PAYLOAD];
static struct journal *j;
static struct archive *archive;

static void setup(void)
{
    char path[LIMIT_PATH + 16];
    rig_dir(dir);
    memset(bytes, 'p', sizeof bytes);
    snprintf(path, sizeof path, "%s/archive", dir);
    ck_assert_int_eq(archive_open(path, 1u << 30, &archive, NULL), 0);
    snprintf(path, sizeof path, "%s/journal", dir);
    ck_assert_int_eq(journal_open(path, SEGMENT, &j, NULL), 0);
    ck_assert_int_eq(journal_start(j, 1, NULL), 0);
}

static void teardown(void)
{
    journal_close(j);
    archive_close(archive);
    rig_remove_dir(dir);
}

static void append_kind(int count, uint16_t kind)
{
    for (int i = 0; i < count; i++) {
        struct record_header h = {.kind = kind};
        struct record_payload p = {{bytes, NULL}, {PAYLOAD, 0}};
        ck_assert_int_eq(journal_append(j, &h, &p, NULL), 0);
    }
    ck_assert_int_eq(journal_commit(j, NULL), 0);
}

static void append(int count)
{
    append_kind(count, RECORD_RUN_DROP);
}

static void reopen(void)
{
    char path[LIMIT_PATH + 16];
    snprintf(path, sizeof path, "%s/journal", dir);
    journal_close(j);
    ck_assert_int_eq(journal_open(path, SEGMENT, &j, NULL), 0);
}

struct seen {
    uint64_t first, last, count;
    bool ordered;
    int rc;
    struct err err;
};

static struct seen read_files(struct journal_files *files, uint64_t from, uint64_t until,
                              enum cursor_reads reads)
{
    struct seen s = {.ordered = true};
    struct journal_cursor c;
    struct journal_record r;
    cursor_open(&c, files, from, until, reads);
    while ((s.rc = cursor_next(&c, &r, &s.err)) == 0) {
        s.ordered &=
            (s.count == 0 || r.head->sequence == s.last + 1) &&
            (reads == CURSOR_HEADS ? r.payload == NULL : memcmp(r.payload, bytes, PAYLOAD) == 0);
        s.first = s.count == 0 ? r.head->sequence : s.first;
        s.last = r.head->sequence;
        s.count++;
    }
    ck_assert_int_eq(cursor_next(&c, &r, NULL), SHOAL_E_END); /* the end stays */
    cursor_close(&c);
    return s;
}

static struct seen read_all(const struct archive *a, uint64_t from, uint64_t until,
                            enum cursor_reads reads)
{
    struct journal_files files;
    ck_assert_int_eq(cursor_gather(a, j, &files, NULL), 0);
    struct seen s = read_files(&files, from, until, reads);
    cursor_files_free(&files);
    return s;
}

static void check_seen(struct seen s, uint64_t first, uint64_t last)
{
    ck_assert_int_eq(s.rc, SHOAL_E_END);
    ck_assert(s.ordered);
    ck_assert_uint_eq(s.first, first);
    ck_assert_uint_eq(s.last, last);
    ck_assert_uint_eq(s.count, last - first + 1);
}

static void change(uint64_t generation, const void *with, size_t count, off_t at)
{
    char path[LIMIT_PATH + 64];
    snprintf(path, sizeof path, "%s/journal/seg-%016x", dir, (unsigned)generation);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pwrite(fd, with, count, at), (ssize_t)count);
    close(fd);
}

START_TEST(it_opens_at_a_sequence)
{
    append(40);
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE), 1, 40);
    check_seen(read_all(NULL, 1, 5, CURSOR_WHOLE), 1, 5);
    check_seen(read_all(NULL, EACH, EACH + 1, CURSOR_WHOLE), EACH, EACH + 1);
    check_seen(read_all(NULL, EACH + 1, 30, CURSOR_WHOLE), EACH + 1, 30);
    check_seen(read_all(NULL, 40, UINT64_MAX, CURSOR_WHOLE), 40, 40);
    ck_assert_uint_eq(read_all(NULL, 41, UINT64_MAX, CURSOR_WHOLE).count, 0);
    reopen();
    check_seen(read_all(NULL, 17, UINT64_MAX, CURSOR_WHOLE), 17, 40);
}
END_TEST

START_TEST(it_reads_beside_appends_and_trims)
{
    struct journal_files files;
    append(30);
    ck_assert_int_eq(cursor_gather(NULL, j, &files, NULL), 0);
    journal_pin(j, true);
    append(30);
    journal_trim(j, 50, 4); /* their files go */
    check_seen(read_files(&files, 0, UINT64_MAX, CURSOR_WHOLE), 1, 30);
    cursor_files_free(&files);
    journal_pin(j, false);
    /* A later reader finds the older records gone; one that is past them reads on. */
    ck_assert_uint_gt(read_all(NULL, 1, UINT64_MAX, CURSOR_WHOLE).first, 1);
    check_seen(read_all(NULL, 55, UINT64_MAX, CURSOR_WHOLE), 55, 60);
}
END_TEST

START_TEST(it_goes_through_the_archive_into_the_journal)
{
    journal_archive(j, archive);
    append(60);
    journal_trim(j, 40, 4);
    ck_assert_uint_gt(archive_count(archive), 1);
    check_seen(read_all(archive, 0, UINT64_MAX, CURSOR_WHOLE), 1, 60);
    check_seen(read_all(archive, 7, 50, CURSOR_WHOLE), 7, 50);
    check_seen(read_all(archive, 0, UINT64_MAX, CURSOR_HEADS), 1, 60);
}
END_TEST

/* A committed record of a running journal cannot be a torn tail. */
START_TEST(damage_in_a_running_journal_is_found_without_a_sync)
{
    append(20);
    change(1, "x", 1, SEGMENT_HEADER_BYTES + 4 * RECORD + 200);
    struct seen s = read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE);
    ck_assert_int_eq(s.rc, SHOAL_E_CORRUPT);
    ck_assert_uint_eq(s.last, 4);
    ck_assert_ptr_nonnull(strstr(s.err.text, "seg-0000000000000001"));
    ck_assert_ptr_nonnull(strstr(s.err.text, "offset 20544"));
    /* A reader of heads alone passes it. */
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_HEADS), 1, 20);
    /* The same file after a restart: no record proves that this one was on disk. */
    reopen();
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE), 1, 4);
}
END_TEST

/* A record is valid at any place; one that moved up has a number that does not follow. _i: in a
 * running journal; after a restart the record itself says that the one before was on disk. */
START_TEST(a_record_taken_out_is_damage)
{
    static char third[RECORD];
    char path[LIMIT_PATH + 64];
    struct journal_sync sync;
    append(2);
    ck_assert(journal_sync_begin(j, &sync));
    journal_sync_run(&sync);
    ck_assert_int_eq(journal_sync_end(j, &sync, NULL), 0);
    append(1);
    snprintf(path, sizeof path, "%s/journal/seg-%016x", dir, 1u);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(pread(fd, third, RECORD, SEGMENT_HEADER_BYTES + 2 * RECORD), RECORD);
    close(fd);
    change(1, third, RECORD, SEGMENT_HEADER_BYTES + RECORD);
    memset(third, 0, RECORD);
    change(1, third, RECORD, SEGMENT_HEADER_BYTES + 2 * RECORD);
    if (_i == 1)
        reopen();
    struct seen s = read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE);
    ck_assert_int_eq(s.rc, SHOAL_E_CORRUPT);
    ck_assert_uint_eq(s.last, 1);
}
END_TEST

START_TEST(heads_alone_read_keys_and_whole_records_when_asked)
{
    uint64_t keys[4] = {4, 3, 2, 1}, changed[2] = {7, 7};
    float floats[4] = {1, 2, 3, 4};
    struct push_record push = {
        .run = 1, .to = 1, .key_count = 4, .keys = keys, .gradients = floats};
    struct record_header h;
    struct record_payload p;
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record r;
    const uint64_t *read;
    void *payload;
    append(2);
    record_of_push(&push, 4, 0, &h, &p);
    ck_assert_int_eq(journal_append(j, &h, &p, NULL), 0);
    ck_assert_int_eq(journal_commit(j, NULL), 0);
    append(1);
    ck_assert_int_eq(cursor_gather(NULL, j, &files, NULL), 0);
    files.file[0].fd = open(files.file[0].path, O_RDWR);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_HEADS);
    ck_assert_int_eq(cursor_next(&c, &r, NULL), 0);
    ck_assert_int_eq(cursor_keys(&c, &read, NULL), SHOAL_E_END); /* no push */
    ck_assert_int_eq(cursor_next(&c, &r, NULL), 0);
    ck_assert_int_eq(cursor_next(&c, &r, NULL), 0);
    ck_assert_uint_eq(r.head->sequence, 3);
    ck_assert_int_eq(cursor_keys(&c, &read, NULL), 0);
    ck_assert_mem_eq(read, keys, sizeof keys);
    ck_assert_int_eq(cursor_whole(&c, &payload, NULL), 0);
    ck_assert_mem_eq((char *)payload + sizeof keys, floats, sizeof floats);
    memcpy(payload, changed, sizeof changed);
    ck_assert_int_eq(cursor_rewrite(&c, NULL), 0);
    ck_assert_int_eq(cursor_next(&c, &r, NULL), 0);
    ck_assert_uint_eq(r.head->sequence, 4);
    cursor_close(&c);
    cursor_open(&c, &files, 3, UINT64_MAX, CURSOR_WHOLE); /* the change is valid */
    ck_assert_int_eq(cursor_next(&c, &r, NULL), 0);
    ck_assert_mem_eq(r.payload, changed, sizeof changed);
    cursor_close(&c);
    cursor_files_free(&files);
}
END_TEST

/* Rewrites segment 1 as release 0.2.0 would have written its records. */
static void segment_of_0_2_0(void)
{
    static char old[SEGMENT], new[SEGMENT];
    char path[LIMIT_PATH + 64];
    struct segment_header h;
    const uint32_t magic = RECORD_MAGIC_0_2_0;
    const size_t head = offsetof(struct record_header, clock);
    char *to = old + sizeof h;
    snprintf(path, sizeof path, "%s/journal/seg-%016x", dir, 1u);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, new, SEGMENT, 0), SEGMENT);
    for (const char *from = new + sizeof h; to < old + sizeof h + EACH *(head + PAYLOAD);
         from += RECORD, to += head + PAYLOAD) {
        memcpy(to, from, head);
        memcpy(to, &magic, sizeof magic);
        memcpy(to + head, from + sizeof(struct record_header), PAYLOAD);
        record_reseal(to);
    }
    memcpy(&h, new, sizeof h);
    h.version = JOURNAL_VERSION_LEAST;
    h.checksum = record_segment_checksum(&h);
    memcpy(old, &h, sizeof h);
    ck_assert_int_eq(pwrite(fd, old, SEGMENT, 0), SEGMENT);
    ck_assert_int_eq(ftruncate(fd, to - old), 0);
    close(fd);
}

START_TEST(a_segment_of_0_2_0_is_read)
{
    append(20);
    segment_of_0_2_0();
    reopen();
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE), 1, 20);
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_HEADS), 1, 20);
    /* Its damage is found, too. */
    change(1, "x", 1, SEGMENT_HEADER_BYTES + 4 * RECORD);
    ck_assert_uint_eq(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE).last, 4);
}
END_TEST

/* Segment 1 holds 12 records; the version of segment 2 becomes `version`. */
static void segment_version(uint32_t version)
{
    char path[LIMIT_PATH + 64];
    struct segment_header h;
    snprintf(path, sizeof path, "%s/journal/seg-%016x", dir, 2u);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &h, sizeof h, 0), sizeof h);
    ck_assert_uint_eq(h.version, JOURNAL_VERSION);
    h.version = version;
    h.checksum = record_segment_checksum(&h);
    ck_assert_int_eq(pwrite(fd, &h, sizeof h, 0), sizeof h);
    close(fd);
}

START_TEST(a_segment_of_an_earlier_version_is_an_error_that_names_it)
{
    append(20);
    segment_version(JOURNAL_VERSION_LEAST - 1);
    struct seen s = read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE);
    ck_assert_int_eq(s.rc, SHOAL_E_VERSION);
    ck_assert_uint_eq(s.last, EACH);
    ck_assert_ptr_nonnull(strstr(s.err.text,
                                 "has version 1, this Shoal reads 2 to 3: it was written "
                                 "by a release before 0.2.0; start that one"));
}
END_TEST

START_TEST(a_segment_of_a_later_version_is_an_error_that_names_it)
{
    append(20);
    segment_version(JOURNAL_VERSION + 1);
    for (enum cursor_reads reads = CURSOR_WHOLE; reads <= CURSOR_HEADS; reads++) {
        struct seen s = read_all(NULL, 0, UINT64_MAX, reads);
        ck_assert_int_eq(s.rc, SHOAL_E_VERSION);
        ck_assert_uint_eq(s.last, EACH);
        ck_assert_ptr_nonnull(strstr(s.err.text, "seg-0000000000000002 has version 4"));
    }
    reopen();
    ck_assert_int_eq(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE).rc, SHOAL_E_VERSION);
    check_seen(read_all(NULL, 0, EACH, CURSOR_WHOLE), 1, EACH); /* the reader needs not know it */
    /* After a torn tail, an unknown version is no reason to give up either. */
    change(1, "x", 1, SEGMENT_HEADER_BYTES + 4 * RECORD + 200);
    ck_assert_int_eq(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE).rc, SHOAL_E_VERSION);
}
END_TEST

START_TEST(a_record_of_an_unknown_kind_is_an_error_that_names_it)
{
    append(3);
    char where[64];
    (void)snprintf(where, sizeof where, "offset 15424 record 4 of kind %d", RECORD_KINDS);
    append_kind(1, RECORD_KINDS);
    append(3);
    for (int again = 0; again < 2; again++, reopen())
        for (enum cursor_reads reads = CURSOR_WHOLE; reads <= CURSOR_HEADS; reads++) {
            struct seen s = read_all(NULL, 0, UINT64_MAX, reads);
            ck_assert_int_eq(s.rc, SHOAL_E_VERSION);
            ck_assert_uint_eq(s.last, 3);
            ck_assert_ptr_nonnull(strstr(s.err.text, where));
        }
    check_seen(read_all(NULL, 0, 3, CURSOR_WHOLE), 1, 3);
    /* A torn one is a torn tail like any other. */
    change(1, "x", 1, SEGMENT_HEADER_BYTES + 3 * RECORD + 200);
    check_seen(read_all(NULL, 0, UINT64_MAX, CURSOR_WHOLE), 1, 3);
}
END_TEST

/* _i: clock, age, width */
START_TEST(a_record_with_values_of_a_later_release_is_an_error_that_names_them)
{
    static const char *const text[] = {"record 2 of kind 4 (clock 5, age 0, width 0), which",
                                       "record 2 of kind 4 (clock 0, age 5, width 0), which",
                                       "record 2 of kind 4 (clock 0, age 0, width 16), which"};
    struct record_header h = {.kind = RECORD_RUN_DROP,
                              .clock = _i == 0 ? 5 : 0,
                              .age = _i == 1 ? 5 : 0,
                              .width = _i == 2 ? 16 : 0};
    append(1);
    ck_assert_int_eq(journal_append(j, &h, &(struct record_payload){0}, NULL), 0);
    append(1);
    for (enum cursor_reads reads = CURSOR_WHOLE; reads <= CURSOR_HEADS; reads++) {
        struct seen s = read_all(NULL, 0, UINT64_MAX, reads);
        ck_assert_int_eq(s.rc, SHOAL_E_VERSION);
        ck_assert_uint_eq(s.last, 1);
        ck_assert_ptr_nonnull(strstr(s.err.text, text[_i]));
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cursor");
    TCase *t = tcase_create("cursor");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, it_opens_at_a_sequence);
    tcase_add_test(t, it_reads_beside_appends_and_trims);
    tcase_add_test(t, it_goes_through_the_archive_into_the_journal);
    tcase_add_test(t, damage_in_a_running_journal_is_found_without_a_sync);
    tcase_add_loop_test(t, a_record_taken_out_is_damage, 0, 2);
    tcase_add_test(t, heads_alone_read_keys_and_whole_records_when_asked);
    tcase_add_test(t, a_segment_of_0_2_0_is_read);
    tcase_add_test(t, a_segment_of_an_earlier_version_is_an_error_that_names_it);
    tcase_add_test(t, a_segment_of_a_later_version_is_an_error_that_names_it);
    tcase_add_test(t, a_record_of_an_unknown_kind_is_an_error_that_names_it);
    tcase_add_loop_test(t, a_record_with_values_of_a_later_release_is_an_error_that_names_them, 0,
                        3);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
