/* test_power.c: a journal on a disk that loses power or fails at any call. */
#include "embedding/journal/cursor.h"
#include "embedding/journal/journal.h"
#include "proto/base/log.h"
#include "proto/base/rng.h"
#include "proto/base/time.h"
#include "tests/lib/disk.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEGMENT = 65536, PAYLOAD = 5000, RECORD = 5120, EACH = 12 }; /* EACH: records in a segment */

static char root[LIMIT_PATH], dir[LIMIT_PATH];
static struct disk *disk;
static char bytes[PAYLOAD];

static void setup(void)
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    log_set_level(LOG_LEVEL_ERROR);
    snprintf(root, sizeof root, "%s/shoal-journal-XXXXXX", shm);
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(dir, sizeof dir, "%.900s/journal", root);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    disk = disk_watch(root);
}

static void teardown(void)
{
    disk_free(disk);
    rig_remove_dir(root);
}

/* A record contains its number. */
static void fill(uint64_t sequence)
{
    memset(bytes, 'p', sizeof bytes);
    memcpy(bytes, &sequence, sizeof sequence);
}

static struct journal *try_open(uint64_t floor, uint64_t *last, int *rc, struct err *e)
{
    struct journal *j = NULL;
    struct journal_files files;
    struct journal_cursor c;
    struct journal_record r;
    uint64_t before = 0;
    *last = 0;
    *rc = journal_open(dir, SEGMENT, &j, e);
    if (*rc != 0)
        return NULL;
    ck_assert_int_eq(cursor_gather(NULL, j, &files, e), 0);
    cursor_open(&c, &files, 0, UINT64_MAX, CURSOR_WHOLE);
    c.floor = floor;
    while ((*rc = cursor_next(&c, &r, e)) == 0) {
        fill(r.head->sequence);
        ck_assert(memcmp(r.payload, bytes, r.head->payload_bytes) == 0);
        ck_assert_uint_gt(r.head->sequence, before);
        ck_assert(r.head->sequence == before + 1 || r.head->sequence <= floor + 1);
        before = *last = r.head->sequence;
    }
    if (*rc == SHOAL_E_END) {
        journal_take_end(j, &c);
        *last = *last < floor ? floor : *last;
        *rc = journal_start(j, *last + 1, e);
    }
    cursor_close(&c);
    cursor_files_free(&files);
    return j;
}

static struct journal *open_good(uint64_t expected)
{
    uint64_t last;
    struct err e = {0};
    int rc;
    struct journal *j = try_open(0, &last, &rc, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(last, expected);
    return j;
}

static int try_append(struct journal *j, size_t payload)
{
    struct record_header h = {.kind = RECORD_RUN_DROP};
    struct record_payload p = {{bytes, NULL}, {payload, 0}};
    fill(journal_next(j));
    int rc = journal_append(j, &h, &p, NULL);
    return rc == 0 ? journal_commit(j, NULL) : rc;
}

static void append(struct journal *j, int count)
{
    for (int i = 0; i < count; i++)
        ck_assert_int_eq(try_append(j, PAYLOAD), 0);
}

static int try_sync(struct journal *j)
{
    struct journal_sync s;
    if (!journal_sync_begin(j, &s))
        return 0;
    journal_sync_run(&s);
    return journal_sync_end(j, &s, NULL);
}

static void sync_all(struct journal *j)
{
    ck_assert_int_eq(try_sync(j), 0);
    ck_assert_uint_eq(journal_synced(j), journal_committed(j));
}

static int peek(struct journal *j)
{
    struct journal_sync s;
    journal_sync_peek(j, &s);
    journal_sync_run(&s);
    return journal_sync_end(j, &s, NULL);
}

static void power_cut(struct journal *j, uint64_t seed)
{
    disk_off(disk, seed);
    journal_close(j);
    disk_on(disk);
}

static bool there(const char *name)
{
    char path[LIMIT_PATH + 64];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return access(path, F_OK) == 0;
}

/* ---- what a disk keeps ---- */

static uint64_t found(const char *name)
{
    char path[LIMIT_PATH + 64];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", root, name);
    return stat(path, &st) == 0 ? (uint64_t)st.st_size + 1 : 0;
}

static int folder(void)
{
    return open(root, O_RDONLY | O_DIRECTORY);
}

/* Among the seeds, unsynced names and pages are found both kept and lost. */
START_TEST(a_disk_keeps_what_was_synced)
{
    char path[LIMIT_PATH + 64], page[4096], seen[4096];
    unsigned names = 0, pages = 0, lengths = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        snprintf(path, sizeof path, "%s/a", root);
        int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        memset(page, 'a', sizeof page);
        ck_assert_int_eq(pwrite(fd, page, sizeof page, 0), sizeof page);
        ck_assert_int_eq(fsync(fd), 0);
        int top = folder();
        ck_assert_int_eq(fsync(top), 0);
        close(top);
        memset(page, 'b', sizeof page);
        ck_assert_int_eq(pwrite(fd, page, sizeof page, 0), sizeof page);
        ck_assert_int_eq(pwrite(fd, page, sizeof page, sizeof page), sizeof page);
        close(fd);
        snprintf(path, sizeof path, "%s/b", root);
        close(open(path, O_RDWR | O_CREAT, 0600));
        disk_off(disk, seed);
        disk_on(disk);
        ck_assert_uint_ge(found("a"), 4097);
        lengths += found("a") > 4097;
        names += found("b") != 0;
        snprintf(path, sizeof path, "%s/a", root);
        fd = open(path, O_RDONLY);
        ck_assert_int_eq(read(fd, seen, sizeof seen), sizeof seen);
        close(fd);
        pages += seen[0] == 'b';
        ck_assert(seen[0] == 'a' || seen[0] == 'b');
        snprintf(path, sizeof path, "%s/b", root);
        unlink(path);
    }
    ck_assert(names > 0 && names < 40);
    ck_assert(pages > 0 && pages < 40);
    ck_assert(lengths > 0 && lengths < 40);
}
END_TEST

START_TEST(a_failed_sync_leaves_pages_that_no_sync_writes)
{
    char path[LIMIT_PATH + 64], page[4096], seen[4096];
    snprintf(path, sizeof path, "%s/a", root);
    int fd = open(path, O_RDWR | O_CREAT, 0600), top = folder();
    memset(page, 'a', sizeof page);
    ck_assert_int_eq(pwrite(fd, page, sizeof page, 0), sizeof page);
    ck_assert_int_eq(fsync(top), 0);
    disk_fail(disk, &(struct disk_fault){.at = 1, .kind = DISK_ERROR, .why = EIO});
    ck_assert_int_eq(fsync(fd), -1);
    ck_assert_int_eq(fsync(fd), 0);
    ck_assert_int_eq(pread(fd, seen, sizeof seen, 0), sizeof seen);
    ck_assert_int_eq(seen[0], 'a');
    if (_i == 1) { /* written again, it is synced like any other */
        ck_assert_int_eq(pwrite(fd, page, sizeof page, 0), sizeof page);
        ck_assert_int_eq(fsync(fd), 0);
    }
    close(fd);
    close(top);
    disk_off(disk, 8);
    disk_on(disk);
    fd = open(path, O_RDONLY);
    ck_assert_int_eq(read(fd, seen, sizeof seen), sizeof seen);
    ck_assert_int_eq(seen[0], _i == 1 ? 'a' : 0);
    close(fd);
}
END_TEST

/* ---- the journal's own ---- */

START_TEST(a_trimmed_segment_is_used_again_once_its_name_is_on_disk)
{
    uint64_t floor = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        uint64_t last;
        struct err e = {0};
        int rc;
        struct journal *j = try_open(floor, &last, &rc, &e);
        ck_assert_msg(rc == 0, "seed %" PRIu64 ": %s", seed, e.text);
        append(j, 3 * EACH);
        sync_all(j);
        journal_trim(j, last + EACH, 8);
        append(j, 1);
        journal_forget(j);
        append(j, EACH);
        /* its records are on disk, and no name is */
        struct journal_sync s;
        ck_assert(journal_sync_begin(j, &s));
        ck_assert_uint_gt(s.count, 1);
        close(s.fd[--s.count]);
        journal_sync_run(&s);
        (void)journal_sync_end(j, &s, NULL);
        power_cut(j, seed);
        j = try_open(last + EACH, &last, &rc, &e);
        ck_assert_msg(rc == 0, "seed %" PRIu64 ": %s", seed, e.text);
        sync_all(j);
        journal_trim(j, floor = last, 0);
        journal_close(j);
    }
}
END_TEST

/* Whichever of the changed names are on disk, one of them has the next sequence. */
START_TEST(a_head_outlasts_what_was_shed)
{
    for (uint64_t seed = 0; seed < 40; seed++) {
        teardown();
        setup();
        struct journal *j = open_good(0);
        append(j, 3 * EACH);
        sync_all(j);
        ck_assert_int_eq(journal_shed(j, NULL), 0);
        power_cut(j, seed);
        uint64_t last;
        struct err e = {0};
        int rc;
        j = try_open(3 * EACH, &last, &rc, &e);
        ck_assert_msg(rc == 0, "seed %" PRIu64 ": %s", seed, e.text);
        ck_assert_uint_eq(last, 3 * EACH);
        append(j, 1);
        ck_assert_msg(there("seg-0000000000000005"), "seed %" PRIu64, seed);
        journal_close(j);
    }
}
END_TEST

static void head_change(const char *name, uint64_t generation)
{
    char path[LIMIT_PATH + 64];
    struct segment_header h;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &h, sizeof h, 0), sizeof h);
    h.generation = generation;
    h.checksum = record_segment_checksum(&h);
    ck_assert_int_eq(pwrite(fd, &h, sizeof h, 0), sizeof h);
    close(fd);
}

/* An earlier Shoal may have left this: a trimmed segment that was begun anew under its old name. */
START_TEST(a_newer_generation_in_an_older_name_is_no_damage)
{
    struct journal *j = open_good(0);
    append(j, 3 * EACH);
    sync_all(j);
    append(j, 1);
    sync_all(j);
    journal_close(j);
    head_change("seg-0000000000000001", 9);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(EACH, &last, &rc, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(last, 3 * EACH + 1);
    append(j, 1);
    ck_assert(!there("seg-0000000000000001"));
    ck_assert(there("seg-000000000000000a")); /* its generation is not used again */
    journal_close(j);
    j = try_open(EACH, &last, &rc, &e);
    ck_assert_uint_eq(last, 3 * EACH + 2);
    journal_close(j);
}
END_TEST

/* The second of segments 1, 2, 3 cannot be read; the floor lies before its last record, at it, or
 * behind it. */
START_TEST(a_gap_below_the_floor_is_no_damage)
{
    char path[LIMIT_PATH + 64];
    struct journal *j = open_good(0);
    append(j, 3 * EACH);
    sync_all(j);
    append(j, 1);
    journal_close(j);
    snprintf(path, sizeof path, "%s/seg-0000000000000002", dir);
    ck_assert_int_eq(truncate(path, SEGMENT_HEADER_BYTES + 3 * RECORD + 50), 0);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(2 * EACH - 1 + (uint64_t)_i, &last, &rc, &e);
    ck_assert_int_eq(rc, _i == 0 ? SHOAL_E_CORRUPT : 0);
    ck_assert(_i == 0 || last == 3 * EACH + 1);
    journal_close(j);
}
END_TEST

/* The page with a segment's head was never synced and is lost; a later page is there and says which
 * records were on disk: in the store lie all of them (the floor), or all but one. */
START_TEST(a_head_that_power_took_is_no_damage_at_the_floor)
{
    char path[LIMIT_PATH + 64];
    static const char none[SEGMENT_HEADER_BYTES + RECORD];
    struct journal *j = open_good(0);
    append(j, 3);
    sync_all(j);
    append(j, 2); /* 4 and 5 say: 3 */
    journal_close(j);
    snprintf(path, sizeof path, "%s/seg-0000000000000001", dir);
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pwrite(fd, none, sizeof none, 0), sizeof none);
    close(fd);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(2 + (uint64_t)_i, &last, &rc, &e);
    ck_assert_msg(rc == (_i == 0 ? SHOAL_E_CORRUPT : 0), "%s", e.text);
    journal_close(j);
}
END_TEST

/* Damage in the last record that a later one says to be on disk, and in the record after it. */
START_TEST(damage_begins_at_the_last_record_that_was_on_disk)
{
    char path[LIMIT_PATH + 64], c;
    struct journal *j = open_good(0);
    append(j, 4);
    sync_all(j);
    append(j, 2); /* 5 and 6 say: 4 */
    journal_close(j);
    snprintf(path, sizeof path, "%s/seg-0000000000000001", dir);
    int fd = open(path, O_RDWR);
    off_t at = SEGMENT_HEADER_BYTES + (3 + _i) * RECORD + 200;
    ck_assert_int_eq(pread(fd, &c, 1, at), 1);
    c ^= 1;
    ck_assert_int_eq(pwrite(fd, &c, 1, at), 1);
    close(fd);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(0, &last, &rc, &e);
    ck_assert_int_eq(rc, _i == 0 ? SHOAL_E_CORRUPT : 0);
    ck_assert(_i == 0 || last == 4);
    journal_close(j);
}
END_TEST

/* A sync fails and the process ends. The next process reads all records from the page cache and
 * reports them as on disk; then the power fails. */
START_TEST(what_no_sync_has_written_is_written_again)
{
    struct journal *j = open_good(0);
    append(j, 3);
    sync_all(j);
    append(j, _i == 0 ? 2 : 2 * EACH); /* in the same segment, and in others */
    disk_fail(disk, &(struct disk_fault){
                        .at = 1, .last = 9, .kind = DISK_ERROR, .why = EIO, .syncs = true});
    ck_assert_int_eq(try_sync(j), SHOAL_E_IO);
    uint64_t all = journal_committed(j);
    journal_close(j);
    disk_fail(disk, NULL);
    j = open_good(all);
    ck_assert_uint_eq(journal_synced(j), all);
    append(j, 1);
    power_cut(j, 8);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(0, &last, &rc, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_ge(last, all);
    journal_close(j);
}
END_TEST

/* The last process ended before any sync: both its names and its records are synced. */
START_TEST(what_a_start_finds_is_on_disk)
{
    for (uint64_t seed = 0; seed < 20; seed++) {
        uint64_t last;
        struct err e = {0};
        int rc;
        struct journal *j = try_open(0, &last, &rc, &e);
        append(j, 2);
        journal_close(j);
        j = open_good(last + 2);
        power_cut(j, seed);
        journal_close(open_good(last + 2));
    }
}
END_TEST

/* Two syncs share a file, and the system reports its failure to only one of them. */
START_TEST(a_failed_sync_fails_the_one_beside_it)
{
    struct journal *j = open_good(0);
    struct journal_sync group, peeked;
    append(j, 3);
    ck_assert(journal_sync_begin(j, &group));
    journal_sync_peek(j, &peeked);
    disk_fail(disk, &(struct disk_fault){.at = 1, .kind = DISK_ERROR, .why = EIO, .syncs = true});
    journal_sync_run(_i == 0 ? &group : &peeked);
    journal_sync_run(_i == 0 ? &peeked : &group);
    ck_assert_int_eq(journal_sync_end(j, &group, NULL), SHOAL_E_IO);
    ck_assert_int_eq(journal_sync_end(j, &peeked, NULL), SHOAL_E_IO);
    ck_assert_uint_eq(journal_synced(j), 0);
    journal_close(j);
}
END_TEST

/* 62, 63, 64 and 100 full segments are not synced. */
START_TEST(a_peek_syncs_every_segment)
{
    static const int segments[] = {62, 63, 64, 100};
    struct journal *j = open_good(0);
    append(j, segments[_i] * EACH);
    ck_assert_int_eq(peek(j), 0);
    power_cut(j, 8);
    uint64_t last;
    struct err e = {0};
    int rc;
    j = try_open(0, &last, &rc, &e);
    ck_assert_msg(rc == 0, "%s", e.text);
    ck_assert_uint_eq(last, (uint64_t)segments[_i] * EACH);
    journal_close(j);
}
END_TEST

/* ---- histories ---- */

struct life {
    struct journal *j;
    struct rng dice;
    uint64_t on_disk, floor; /* records up to on_disk must be there; those up to floor need not */
};

static bool life_step(struct life *h)
{
    uint64_t dice = rng_below(&h->dice, 16);
    int rc = 0;
    if (dice < 10)
        rc = try_append(h->j, 8 + rng_below(&h->dice, PAYLOAD - 8));
    else if (dice < 12)
        rc = try_sync(h->j);
    else if (dice == 12)
        rc = peek(h->j);
    else if (dice == 13)
        rc = journal_roll(h->j, NULL);
    else if (dice == 15 && rng_below(&h->dice, 4) == 0) {
        if (!disk_is_off(disk))
            h->floor = journal_committed(h->j);
        rc = journal_shed(h->j, NULL);
    } else if (journal_synced(h->j) > 0) {
        uint64_t floor = rng_below(&h->dice, journal_synced(h->j));
        h->floor = floor > h->floor && !disk_is_off(disk) ? floor : h->floor;
        journal_trim(h->j, h->floor, (uint32_t)rng_below(&h->dice, 4));
    }
    if (rc == 0 && !disk_is_off(disk))
        h->on_disk = dice == 12                          ? journal_committed(h->j)
                     : journal_synced(h->j) > h->on_disk ? journal_synced(h->j)
                                                         : h->on_disk;
    return rc == 0;
}

static uint64_t lives(uint64_t seed)
{
    struct life h = {.dice = rng_of(seed, 1, 2)};
    uint64_t last, cuts = 0;
    struct err e = {0};
    int rc;
    for (uint32_t life = 0; life < 12; life++) {
        h.j = try_open(h.floor, &last, &rc, &e);
        ck_assert_msg(rc == 0, "seed %" PRIu64 ", life %u: %s", seed, life, e.text);
        ck_assert_msg(last >= h.on_disk,
                      "seed %" PRIu64 ", life %u: ends at %" PRIu64 " of %" PRIu64, seed, life,
                      last, h.on_disk);
        h.on_disk = last;
        uint64_t how = rng_below(&h.dice, 4);
        disk_fail(disk, &(struct disk_fault){.at = 1 + rng_below(&h.dice, 100),
                                             .kind = how < 3 ? DISK_OFF : DISK_ERROR,
                                             .why = EIO,
                                             .syncs = rng_below(&h.dice, 2) == 0,
                                             .seed = rng_next(&h.dice)});
        uint64_t steps = rng_below(&h.dice, 150);
        for (uint64_t i = 0; i < steps && life_step(&h) && !disk_is_off(disk); i++) {
        }
        if (how < 3 && !disk_is_off(disk))
            disk_off(disk, rng_next(&h.dice));
        journal_close(h.j);
        cuts += disk_is_off(disk);
        if (disk_is_off(disk))
            disk_on(disk);
        disk_fail(disk, NULL);
    }
    return cuts;
}

START_TEST(what_was_synced_is_there)
{
    const char *count = getenv("SHOAL_SEEDS"), *first = getenv("SHOAL_SEED");
    uint64_t n = count == NULL ? 20 : strtoull(count, NULL, 10), cuts = 0;
    uint64_t seed = first == NULL ? 1 : strtoull(first, NULL, 10), began = time_monotonic_ns();
    for (uint64_t i = 0; i < n; i++) {
        cuts += lives(seed + i);
        teardown();
        setup();
    }
    double seconds = (double)(time_monotonic_ns() - began) / 1e9;
    printf("%" PRIu64 " seeds, %" PRIu64 " power cuts, %.0f a second\n", n, cuts,
           (double)cuts / seconds);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("power");
    TCase *t = suite_case(s, "power", 0, setup, teardown);
    tcase_add_test(t, a_disk_keeps_what_was_synced);
    tcase_add_loop_test(t, a_failed_sync_leaves_pages_that_no_sync_writes, 0, 2);
    tcase_add_test(t, a_trimmed_segment_is_used_again_once_its_name_is_on_disk);
    tcase_add_test(t, a_head_outlasts_what_was_shed);
    tcase_add_test(t, a_newer_generation_in_an_older_name_is_no_damage);
    tcase_add_loop_test(t, a_gap_below_the_floor_is_no_damage, 0, 3);
    tcase_add_loop_test(t, a_head_that_power_took_is_no_damage_at_the_floor, 0, 2);
    tcase_add_loop_test(t, damage_begins_at_the_last_record_that_was_on_disk, 0, 2);
    tcase_add_loop_test(t, what_no_sync_has_written_is_written_again, 0, 2);
    tcase_add_test(t, what_a_start_finds_is_on_disk);
    tcase_add_loop_test(t, a_failed_sync_fails_the_one_beside_it, 0, 2);
    tcase_add_loop_test(t, a_peek_syncs_every_segment, 0, 4);
    tcase_add_test(t, what_was_synced_is_there);
    return suite_main(s);
}
