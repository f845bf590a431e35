/* test_journal.c: segments: appending, reading back, tearing, damaging, trimming, reusing. */
#include "embedding/journal/cursor.h"
#include "tests/lib/rig_dir.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SEGMENT = 65536, PAYLOAD = 5000 };

/* The kernel may interrupt a write, and may take only a part: once a call each. */
static uint32_t writes, most_of_a_write;
static bool none_taken;

ssize_t __real_pwritev(int fd, const struct iovec *piece, int count, off_t at);
ssize_t __wrap_pwritev(int fd, const struct iovec *piece, int count, off_t at);

ssize_t __wrap_pwritev(int fd, const struct iovec *piece, int count, off_t at)
{
    if (most_of_a_write == 0)
        return __real_pwritev(fd, piece, count, at);
    if (writes++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    size_t bytes = piece->iov_len < most_of_a_write ? piece->iov_len : most_of_a_write;
    return none_taken ? 0 : pwrite(fd, piece->iov_base, bytes, at);
}

static char dir[LIMIT_PATH];
static char payload_bytes[PAYLOAD];

static void setup(void)
{
    rig_dir(dir);
    memset(payload_bytes, 'p', sizeof payload_bytes);
}

static void teardown(void)
{
    rig_remove_dir(dir);
}

struct seen {
    uint64_t count, next;
    bool ordered;
};

static void see(struct seen *s, const struct journal_record *r)
{
    s->ordered &= (s->next == 0 || r->head->sequence == s->next) &&
                  r->head->payload_bytes == PAYLOAD &&
                  memcmp(r->payload, payload_bytes, PAYLOAD) == 0;
    s->next = r->head->sequence + 1;
    s->count++;
}

static uint64_t elsewhere; /* records up to it are on disk elsewhere */
static uint32_t segment_bytes = SEGMENT;

static struct journal *opened(struct seen *seen, uint64_t *last, int *rc, struct err *e)
{
    struct journal *j;
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record r;
    *seen = (struct seen){.ordered = true};
    *last = 0;
    ck_assert_int_eq(journal_open(dir, segment_bytes, &j, e), 0);
    ck_assert_int_eq(cursor_gather(NULL, j, &files, e), 0);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_WHOLE);
    c.floor = elsewhere;
    while ((*rc = cursor_next(&c, &r, e)) == 0) {
        see(seen, &r);
        *last = r.head->sequence;
    }
    *last = *last < elsewhere ? elsewhere : *last;
    if (*rc == SHOAL_E_END) {
        journal_take_end(j, &c);
        ck_assert_int_eq(*rc = journal_start(j, *last + 1, e), 0);
    }
    cursor_close(&c);
    cursor_files_free(&files);
    return j;
}

static struct journal *open_good(uint64_t expected)
{
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    struct journal *j = opened(&seen, &last, &rc, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert(seen.ordered);
    ck_assert_uint_eq(last, expected);
    return j;
}

static void append(struct journal *j, int count)
{
    for (int i = 0; i < count; i++) {
        struct record_header h = {.kind = RECORD_RUN_DROP};
        struct record_payload p = {{payload_bytes, NULL}, {PAYLOAD, 0}};
        ck_assert_int_eq(journal_append(j, &h, &p, NULL), 0);
    }
    ck_assert_int_eq(journal_commit(j, NULL), 0);
}

static void sync_all(struct journal *j)
{
    struct journal_sync s;
    while (journal_sync_begin(j, &s)) {
        journal_sync_run(&s);
        ck_assert_int_eq(journal_sync_end(j, &s, NULL), 0);
    }
    ck_assert_uint_eq(journal_synced(j), journal_committed(j));
}

/* Counts the files whose name begins with `prefix`; *name: the first of them in order. */
static int files(const char *prefix, char *name)
{
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort), count = 0;
    for (int i = 0; i < n; i++) {
        if (strncmp(list[i]->d_name, prefix, strlen(prefix)) == 0 && count++ == 0 && name != NULL)
            snprintf(name, LIMIT_PATH, "%.700s/%s", dir, list[i]->d_name);
        free(list[i]);
    }
    free(list);
    return count;
}

static void flip(const char *path, off_t at)
{
    char c;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 1;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    close(fd);
}

/* The pieces have any length; 0: they end where a piece of the record ends. */
START_TEST(a_record_is_written_after_interruptions)
{
    static const uint32_t most[] = {UINT32_MAX, 1, 7, 4096, PAYLOAD - 1};
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    struct journal *j = open_good(0);
    most_of_a_write = most[_i];
    append(j, 2);
    append(j, 1);
    ck_assert_uint_gt(writes, 2);
    most_of_a_write = 0;
    journal_close(j);
    j = opened(&seen, &last, &rc, &e);
    ck_assert_msg(rc == 0 && seen.ordered && last == 3, "%s", e.text);
    journal_close(j);
}
END_TEST

/* A kernel that takes no byte must not cause an endless loop. */
START_TEST(a_write_of_nothing_is_a_failure)
{
    struct err e = {0};
    struct journal *j = open_good(0);
    struct record_header h = {.kind = RECORD_RUN_DROP};
    struct record_payload p = {{payload_bytes, NULL}, {PAYLOAD, 0}};
    most_of_a_write = 1;
    none_taken = true;
    int rc = journal_append(j, &h, &p, &e);
    ck_assert_int_ne(rc == 0 ? journal_commit(j, &e) : rc, 0);
    most_of_a_write = 0;
    journal_close(j);
}
END_TEST

START_TEST(records_come_back_in_order_over_segments)
{
    struct journal *j = open_good(0);
    append(j, 5);
    append(j, 300);
    ck_assert_uint_eq(journal_committed(j), 305);
    ck_assert_uint_ge(journal_segment_count(j), 25);
    journal_close(j);
    j = open_good(305);
    append(j, 1);
    ck_assert_uint_eq(journal_committed(j), 306);
    journal_close(j);
    journal_close(open_good(306));
}
END_TEST

START_TEST(a_torn_tail_ends_the_journal)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 5);
    journal_close(j);
    ck_assert_int_eq(files("seg-", path), 1);
    flip(path, 64 + 4 * (120 + PAYLOAD) + 200);
    j = open_good(4);
    append(j, 2); /* numbers 5 and 6, in a segment of their own */
    journal_close(j);
    journal_close(open_good(6));
}
END_TEST

START_TEST(what_follows_a_torn_record_is_never_taken_up_again)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 5);
    journal_close(j);
    files("seg-", path);
    /* record 3; none was synced: a tail that the power took */
    flip(path, 64 + 2 * (120 + PAYLOAD) + 200);
    j = open_good(2);
    append(j, 1); /* a new record 3; the old 4 must not follow it */
    journal_close(j);
    journal_close(open_good(3));
}
END_TEST

START_TEST(damage_to_synced_records_is_refused)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 5);
    sync_all(j);
    append(j, 2);
    journal_close(j);
    files("seg-", path);
    flip(path, 64 + 2 * (120 + PAYLOAD) + 200);
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    j = opened(&seen, &last, &rc, &e);
    ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, path));
    ck_assert_ptr_nonnull(strstr(e.text, "10304")); /* 64 + 2 * 5120 */
    journal_close(j);
}
END_TEST

/* The only record that says so lies behind more zeros than the reader has in memory. */
START_TEST(damage_before_many_zeros_is_refused)
{
    static const char zeros[300 * (120 + PAYLOAD)];
    char path[LIMIT_PATH];
    segment_bytes = 4u << 20;
    struct journal *j = open_good(0);
    append(j, 300);
    sync_all(j);
    append(j, 1);
    journal_close(j);
    ck_assert_int_eq(files("seg-", path), 1);
    int fd = open(path, O_WRONLY);
    size_t bytes = 299 * (120 + PAYLOAD);
    ck_assert_int_eq(pwrite(fd, zeros, bytes, 64 + 120 + PAYLOAD), (ssize_t)bytes);
    close(fd);
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    j = opened(&seen, &last, &rc, &e);
    ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
    ck_assert_uint_eq(last, 1);
    journal_close(j);
}
END_TEST

START_TEST(damage_in_an_earlier_segment_is_refused)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 20);
    sync_all(j);
    append(j, 20);
    journal_close(j);
    ck_assert_int_gt(files("seg-", path), 2);
    flip(path, 64 + 5 * (120 + PAYLOAD) + 200);
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    j = opened(&seen, &last, &rc, &e);
    ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, path));
    journal_close(j);
}
END_TEST

START_TEST(a_missing_segment_is_refused)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 20);
    sync_all(j);
    append(j, 20);
    journal_close(j);
    files("seg-", path);
    path[strlen(path) - 1] = '2';
    ck_assert_int_eq(unlink(path), 0);
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    j = opened(&seen, &last, &rc, &e);
    ck_assert_int_eq(rc, SHOAL_E_CORRUPT);
    journal_close(j);
}
END_TEST

START_TEST(an_unsynced_gap_is_given_up_with_what_follows)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 40);
    journal_close(j);
    files("seg-", path);
    flip(path, 64 + 5 * (120 + PAYLOAD) + 200);
    j = open_good(5);
    append(j, 3);
    journal_close(j);
    journal_close(open_good(8));
}
END_TEST

START_TEST(trimmed_segments_are_used_again)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 100);
    int before = files("seg-", NULL);
    ck_assert_int_eq(files("free-", NULL), 0);
    journal_trim(j, 50, 3);
    ck_assert_int_eq(files("free-", path), 3); /* no more than the limit */
    ck_assert_int_lt(files("seg-", NULL), before);
    struct stat st, again;
    ck_assert_int_eq(stat(path, &st), 0);
    append(j, 12); /* a segment of its own: none of those has its name on disk */
    ck_assert_int_eq(files("free-", NULL), 3);
    sync_all(j);
    append(j, 28);
    ck_assert_int_lt(files("free-", NULL), 3);
    journal_close(j);
    ck_assert_int_gt(files("seg-", path), 0);
    ck_assert_int_eq(stat(path, &again), 0);
    ck_assert_int_eq(again.st_size, st.st_size);
    struct seen seen;
    struct err e = {0};
    uint64_t last;
    int rc;
    j = opened(&seen, &last, &rc, &e);
    ck_assert_int_eq(rc, 0);
    ck_assert(seen.ordered);
    ck_assert_uint_eq(last, 140);
    ck_assert_uint_le(seen.count, 100);
    journal_close(j);
}
END_TEST

/* A segment that is given up during a sync of the folder has its old name on disk: only the next
 * sync counts for it. */
START_TEST(a_name_given_up_beside_a_sync_waits_for_the_next)
{
    struct journal *j = open_good(0);
    struct journal_sync s;
    append(j, 40);
    journal_trim(j, 12, 8);
    ck_assert(journal_sync_begin(j, &s));
    journal_trim(j, 24, 8);
    ck_assert_int_eq(files("free-", NULL), 2);
    journal_sync_run(&s);
    ck_assert_int_eq(journal_sync_end(j, &s, NULL), 0);
    append(j, 24); /* two segments of their own */
    ck_assert_int_eq(files("free-", NULL), 1);
    sync_all(j);
    append(j, 12);
    ck_assert_int_eq(files("free-", NULL), 0);
    journal_close(j);
}
END_TEST

/* A sync that the store only peeked at, and did not begin, must not change the synced sequence. */
START_TEST(a_peek_takes_nothing_back)
{
    struct journal *j = open_good(0);
    struct journal_sync s;
    append(j, 20);
    sync_all(j);
    append(j, 1);
    journal_sync_peek(j, &s);
    journal_sync_run(&s);
    ck_assert_int_eq(journal_sync_end(j, &s, NULL), 0);
    ck_assert_uint_eq(journal_synced(j), 20);
    journal_close(j);
}
END_TEST

START_TEST(a_recycled_tail_is_never_read_as_new)
{
    struct journal *j = open_good(0);
    append(j, 24); /* two full segments */
    journal_trim(j, 12, 8);
    ck_assert_int_eq(files("free-", NULL), 1);
    sync_all(j);
    /* a third one, over the first one's bytes: behind record 25 the old records 2.. lie whole */
    append(j, 1);
    ck_assert_int_eq(files("free-", NULL), 0);
    journal_close(j);
    journal_close(open_good(25));
}
END_TEST

START_TEST(a_generation_is_never_used_twice)
{
    char path[LIMIT_PATH], free_file[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 24);
    journal_trim(j, 12, 8);
    journal_close(j);
    /* All segments are removed except a free one of generation 1: the next generation must not be
     * 1. */
    while (files("seg-", path) > 0)
        unlink(path);
    files("free-", free_file);
    j = open_good(0);
    append(j, 1);
    journal_close(j);
    files("seg-", path);
    ck_assert_str_eq(path + strlen(path) - 1, "2");
    journal_close(open_good(1));
}
END_TEST

START_TEST(a_linked_segment_is_never_written_again)
{
    struct journal *j = open_good(0);
    struct journal_link *link_list;
    size_t count;
    append(j, 24);
    ck_assert_int_eq(journal_link(j, &link_list, &count, NULL), 0);
    ck_assert_uint_ge(count, 2);
    char kept[LIMIT_PATH];
    snprintf(kept, sizeof kept, "%.900s/kept", dir);
    ck_assert_int_eq(link(link_list[0].path, kept), 0);
    free(link_list);
    append(j, 24);
    journal_trim(j, 24, 8);
    ck_assert_int_eq(files("free-", NULL), 0);
    ck_assert_int_eq(access(kept, F_OK), 0);
    journal_close(j);
}
END_TEST

START_TEST(a_spare_is_made_once_and_taken)
{
    struct journal *j = open_good(0);
    struct journal_spare s, second;
    ck_assert(journal_spare_begin(j, &s));
    ck_assert(!journal_spare_begin(j, &second));
    journal_spare_run(&s);
    journal_spare_end(j, &s);
    ck_assert(!journal_spare_begin(j, &second));
    ck_assert_int_eq(files("free-", NULL), 1);
    sync_all(j); /* its name is on disk */
    append(j, 1);
    ck_assert_int_eq(files("free-", NULL), 0);
    journal_close(j);
    journal_close(open_good(1));
}
END_TEST

static uint64_t taken(void)
{
    struct dirent **list;
    uint64_t bytes = 0;
    int n = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char path[LIMIT_PATH + 300];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
            bytes += (uint64_t)st.st_blocks * 512;
        free(list[i]);
    }
    free(list);
    return bytes;
}

/* Segments, a spare and free ones: one head stays, and has the next sequence. */
START_TEST(what_is_shed_goes_behind_a_head_on_disk)
{
    char path[LIMIT_PATH], kept[LIMIT_PATH];
    struct journal *j = open_good(0);
    struct journal_spare s;
    struct journal_link *links;
    size_t count;
    append(j, 40);
    journal_trim(j, 12, 8);
    ck_assert(!journal_spare_begin(j, &s));
    ck_assert_int_eq(journal_link(j, &links, &count, NULL), 0);
    snprintf(kept, sizeof kept, "%.900s/kept", dir);
    ck_assert_int_eq(link(links[0].path, kept), 0);
    free(links);
    append(j, 20);
    ck_assert_uint_gt(taken(), 4ull * SEGMENT);
    ck_assert_int_eq(journal_shed(j, NULL), 0);
    ck_assert_int_eq(unlink(kept), 0); /* it was whole: of another folder */
    ck_assert_uint_le(taken(), 8192);
    ck_assert_int_eq(files("seg-", path), 1);
    ck_assert_int_eq(files("free-", NULL), 0);
    ck_assert_str_eq(path + strlen(path) - 1, "6");
    journal_close(j);
    for (int turn = 0; turn < 2; turn++) { /* nothing is appended, so no file is made */
        elsewhere = 60;
        j = open_good(60);
        ck_assert_int_eq(journal_shed(j, NULL), 0);
        ck_assert_int_eq(files("seg-", path), 1);
        ck_assert_str_eq(path + strlen(path) - 1, "6");
        journal_close(j);
    }
    j = open_good(60);
    append(j, 30);
    journal_close(j);
    j = open_good(90);
    journal_trim(j, 60, 8); /* the head's file is never a segment's again */
    sync_all(j);
    append(j, 12);
    journal_close(j);
    journal_close(open_good(102));
}
END_TEST

/* A journal without records has no files to make. */
START_TEST(an_empty_journal_sheds_nothing)
{
    struct journal *j = open_good(0);
    ck_assert_int_eq(journal_shed(j, NULL), 0);
    ck_assert_int_eq(files("", NULL), 2); /* . and .. */
    journal_close(j);
}
END_TEST

/* Connections use all descriptors: no sync was tried, so none has failed, and it is done as soon as
 * there is a descriptor. */
START_TEST(a_sync_without_descriptors_comes_later)
{
    struct journal *j = open_good(0);
    struct journal_sync s;
    struct rlimit l;
    int taken[256], count = 0;
    append(j, 20);
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    l.rlim_cur = 100;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
    while (count < 256 && (taken[count] = open("/dev/null", O_RDONLY)) >= 0)
        count++;
    for (int left = 0; left < 2; left++) { /* none; then one, where two are needed */
        ck_assert(!journal_sync_begin(j, &s));
        ck_assert_uint_lt(journal_synced(j), journal_committed(j));
        close(taken[--count]);
    }
    while (count > 0)
        close(taken[--count]);
    sync_all(j);
    journal_close(j);
    journal_close(open_good(20));
}
END_TEST

static void file_put(const char *name, size_t bytes)
{
    char path[LIMIT_PATH];
    snprintf(path, sizeof path, "%.900s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_int_eq(write(fd, payload_bytes, bytes), (ssize_t)bytes);
    close(fd);
}

/* As many segments as one sync takes besides the folder, one more, and many: the rest is left to
 * the next sync, and is not reported as on disk before. */
START_TEST(a_sync_takes_so_many_segments)
{
    static const int segments[] = {JOURNAL_SYNC_MAX - 1, JOURNAL_SYNC_MAX, JOURNAL_SYNC_MAX + 40};
    const uint64_t each = 12, first = each * (JOURNAL_SYNC_MAX - 1);
    struct journal *j = open_good(0);
    struct journal_sync s;
    append(j, segments[_i] * (int)each);
    ck_assert_uint_eq(journal_segment_count(j), segments[_i]);
    ck_assert(journal_sync_begin(j, &s));
    ck_assert_uint_eq(s.sequence, first);
    ck_assert_int_eq(s.count, JOURNAL_SYNC_MAX);
    journal_sync_run(&s);
    ck_assert_int_eq(journal_sync_end(j, &s, NULL), 0);
    ck_assert_uint_eq(journal_synced(j), first);
    sync_all(j);
    journal_close(j);
}
END_TEST

/* A segment with a reader does not become a free file: the reader would get another segment's
 * records. */
START_TEST(a_pinned_segment_is_not_used_again)
{
    struct journal *j = open_good(0);
    append(j, 100);
    journal_pin(j, true);
    int before = files("seg-", NULL);
    journal_trim(j, 50, 3);
    ck_assert_int_lt(files("seg-", NULL), before);
    ck_assert_int_eq(files("free-", NULL), 0);
    journal_pin(j, false);
    journal_trim(j, 90, 3);
    ck_assert_int_eq(files("free-", NULL), 3);
    journal_close(j);
}
END_TEST

/* A free file with another name or another size is not used. */
START_TEST(a_free_file_of_another_or_of_another_size_goes)
{
    char path[LIMIT_PATH], kept[LIMIT_PATH];
    struct stat st;
    uint64_t was[8], is[8];
    struct journal *j = open_good(0);
    append(j, 24);
    journal_trim(j, 12, 8);
    sync_all(j);
    ck_assert_int_eq(files("free-", path), 1);
    snprintf(kept, sizeof kept, "%.900s/kept", dir);
    int fd = open(path, O_RDONLY);
    ck_assert_int_eq(pread(fd, was, sizeof was, 0), sizeof was);
    ck_assert_int_eq(_i == 0 ? link(path, kept) : truncate(path, SEGMENT / 2), 0);
    append(j, 1);
    ck_assert_int_eq(files("free-", NULL), 0);
    ck_assert_int_eq(pread(fd, is, sizeof is, 0), sizeof is);
    ck_assert_mem_eq(was, is, sizeof is);
    close(fd);
    journal_close(j);
    snprintf(path, sizeof path, "%.900s/seg-%016x", dir, 3);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, SEGMENT);
    journal_close(open_good(25));
}
END_TEST

/* Whatever a file contains, its generation is not used again; unfinished files are removed; and a
 * free file's name is not used twice. */
START_TEST(names_that_a_start_finds_are_not_used_again)
{
    char path[LIMIT_PATH];
    struct journal *j = open_good(0);
    append(j, 36);
    journal_trim(j, 12, 8);
    ck_assert_int_eq(files("free-", NULL), 1);
    journal_close(j);
    file_put("new-00000007", 100);
    file_put("seg-0000000000000005", 64); /* its head was not written */
    j = open_good(36);
    ck_assert_int_eq(files("new-", NULL), 0);
    ck_assert_int_eq(files("free-", NULL), 2); /* 1, and the file in place of 5 */
    append(j, 1);
    while (journal_segment_count(j) > 1)
        journal_trim(j, 36, 8);
    ck_assert_int_eq(files("seg-", path), 1);
    ck_assert_str_eq(path + strlen(path) - 2, "06");
    ck_assert_int_eq(files("free-", NULL), 2); /* 2 and 3; the first is 6 */
    journal_close(j);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal");
    TCase *t = tcase_create("journal");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_record_is_written_after_interruptions, 0, 5);
    tcase_add_test(t, a_write_of_nothing_is_a_failure);
    tcase_add_test(t, records_come_back_in_order_over_segments);
    tcase_add_test(t, a_torn_tail_ends_the_journal);
    tcase_add_test(t, what_follows_a_torn_record_is_never_taken_up_again);
    tcase_add_test(t, damage_to_synced_records_is_refused);
    tcase_add_test(t, damage_before_many_zeros_is_refused);
    tcase_add_test(t, damage_in_an_earlier_segment_is_refused);
    tcase_add_test(t, a_missing_segment_is_refused);
    tcase_add_test(t, an_unsynced_gap_is_given_up_with_what_follows);
    tcase_add_test(t, trimmed_segments_are_used_again);
    tcase_add_test(t, a_name_given_up_beside_a_sync_waits_for_the_next);
    tcase_add_test(t, a_peek_takes_nothing_back);
    tcase_add_test(t, a_recycled_tail_is_never_read_as_new);
    tcase_add_test(t, a_generation_is_never_used_twice);
    tcase_add_test(t, a_linked_segment_is_never_written_again);
    tcase_add_test(t, a_spare_is_made_once_and_taken);
    tcase_add_test(t, what_is_shed_goes_behind_a_head_on_disk);
    tcase_add_test(t, an_empty_journal_sheds_nothing);
    tcase_add_test(t, a_sync_without_descriptors_comes_later);
    tcase_add_loop_test(t, a_sync_takes_so_many_segments, 0, 3);
    tcase_add_test(t, a_pinned_segment_is_not_used_again);
    tcase_add_loop_test(t, a_free_file_of_another_or_of_another_size_goes, 0, 2);
    tcase_add_test(t, names_that_a_start_finds_are_not_used_again);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
