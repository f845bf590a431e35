/* test_store.c: stored values are there after a restart; damage is found. */
#include "server/coord/store/store.h"
#include "tests/lib/coord_put.h"
#include "tests/lib/disk.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    const char *shm = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(dir, sizeof dir, "%s/shoal-store-XXXXXX", shm);
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", dir);
    ck_assert_int_eq(system(command), 0);
}

static struct coord_store *store_open(void)
{
    struct coord_store *s;
    struct err e = {0};
    ck_assert_msg(coord_store_open(dir, 0, &s, &e) == 0, "%s", e.text);
    return s;
}

static void has(struct coord_store *s, const char *key, const char *value)
{
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_store_get(s, key, &got, &bytes, NULL), 0);
    ck_assert_uint_eq(bytes, strlen(value));
    ck_assert_int_eq(memcmp(got, value, bytes), 0);
    free(got);
}

static bool is(struct coord_store *s, const char *key, const char *value)
{
    void *got;
    size_t bytes;
    if (coord_store_get(s, key, &got, &bytes, NULL) != 0)
        return false;
    bool same = bytes == strlen(value) && memcmp(got, value, bytes) == 0;
    free(got);
    return same;
}

/* The files of a store, as a kill leaves them. */
struct files {
    struct {
        char name[32], *data;
        size_t bytes;
    } file[64];
    size_t count;
    size_t wal; /* the index of RocksDB's current log */
};

/* Returns the file, or -1 where RocksDB has deleted it since its name was read. */
static int files_open(const char *name, int flags)
{
    char path[160];
    (void)snprintf(path, sizeof path, "%s/store/%s", dir, name);
    int fd = open(path, flags, 0600);
    ck_assert(fd >= 0 || (errno == ENOENT && (flags & O_CREAT) == 0));
    return fd;
}

static void files_forget(struct files *f)
{
    while (f->count > 0)
        free(f->file[--f->count].data);
}

static void files_each(void (*visit)(struct files *f, const char *name), struct files *f)
{
    char path[96];
    (void)snprintf(path, sizeof path, "%s/store", dir);
    DIR *d = opendir(path);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *at = readdir(d); at != NULL; at = readdir(d))
        if (at->d_name[0] != '.' && strncmp(at->d_name, "LOG", 3) != 0)
            visit(f, at->d_name);
    closedir(d);
}

static void file_take(struct files *f, const char *name)
{
    struct stat st;
    int fd = files_open(name, O_RDONLY);
    if (fd < 0)
        return;
    ck_assert_uint_lt(f->count, 64);
    ck_assert_int_eq(fstat(fd, &st), 0);
    size_t bytes = (size_t)st.st_size, i = f->count++;
    (void)snprintf(f->file[i].name, sizeof f->file[i].name, "%.31s", name);
    f->file[i].bytes = bytes;
    f->file[i].data = malloc(bytes + 1);
    ck_assert_int_eq(read(fd, f->file[i].data, bytes), (ssize_t)bytes);
    close(fd);
    const char *end = strrchr(name, '.');
    if (end != NULL && strcmp(end, ".log") == 0 &&
        (strstr(f->file[f->wal].name, ".log") == NULL || strcmp(f->file[f->wal].name, name) < 0))
        f->wal = i;
}

static void files_take(struct files *f)
{
    f->wal = 0;
    files_forget(f);
    files_each(file_take, f);
    ck_assert_ptr_nonnull(strstr(f->file[f->wal].name, ".log"));
}

static void file_remove(struct files *f, const char *name)
{
    char path[400];
    (void)f;
    (void)snprintf(path, sizeof path, "%s/store/%s", dir, name);
    ck_assert_int_eq(unlink(path), 0);
}

static void file_put(const struct files *f, size_t i)
{
    int fd = files_open(f->file[i].name, O_WRONLY | O_CREAT | O_TRUNC);
    ck_assert_int_eq(write(fd, f->file[i].data, f->file[i].bytes), (ssize_t)f->file[i].bytes);
    close(fd);
}

static void files_put(const struct files *f)
{
    files_each(file_remove, NULL);
    for (size_t i = 0; i < f->count; i++)
        file_put(f, i);
}

static size_t files_bytes(void)
{
    static struct files f;
    size_t all = 0;
    files_take(&f);
    for (size_t i = 0; i < f.count; i++)
        all += f.file[i].bytes;
    return all;
}

/* Returns the bytes of RocksDB's log. */
static size_t wal_bytes(void)
{
    static struct files f;
    files_take(&f);
    return f.file[f.wal].bytes;
}

START_TEST(coord_store_keeps_over_a_restart)
{
    struct coord_store *s = store_open();
    void *got;
    size_t bytes;
    ck_assert_int_eq(coord_put_now(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "b", "two", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "a", "three", 5, NULL), 0);
    ck_assert_int_eq(coord_remove_now(s, "b", NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "c", "", 0, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "d", NULL, 0, NULL), 0);
    for (int restart = 0; restart < 3; restart++) {
        has(s, "a", "three");
        has(s, "c", "");
        has(s, "d", "");
        ck_assert_int_eq(coord_store_get(s, "b", &got, &bytes, NULL), SHOAL_E_NOT_FOUND);
        coord_store_close(s);
        s = store_open();
    }
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_tells_its_bytes)
{
    struct coord_store *s = store_open();
    uint64_t kept, before = coord_store_bytes(s, &kept);
    ck_assert_int_eq(coord_put_now(s, "ab", "1234567", 7, NULL), 0);
    ck_assert_uint_eq(coord_store_bytes(s, &kept), before + 9);
    ck_assert_uint_gt(kept, 0);
    ck_assert_int_eq(coord_put_now(s, "ab", "123", 3, NULL), 0);
    ck_assert_uint_eq(coord_store_bytes(s, &kept), before + 5);
    coord_store_close(s);
    s = store_open();
    ck_assert_uint_eq(coord_store_bytes(s, &kept), before + 5);
    ck_assert_int_eq(coord_remove_now(s, "ab", NULL), 0);
    ck_assert_uint_eq(coord_store_bytes(s, &kept), before);
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_is_rewritten_and_stays_small)
{
    struct coord_store *s = store_open();
    static char value[100000];
    for (int i = 0; i < 300; i++) {
        value[0] = (char)i;
        ck_assert_int_eq(coord_put_now(s, "big", value, sizeof value, NULL), 0);
    }
    ck_assert_uint_lt(files_bytes(), 10 << 20);
    coord_store_close(s);
    s = store_open();
    ck_assert_uint_lt(files_bytes(), 200000);
    char got[100000];
    ck_assert_int_eq(coord_store_get_fixed(s, "big", got, sizeof got, NULL), 0);
    ck_assert_int_eq(got[0], (char)299);
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_torn_end_is_cut_off)
{
    static struct files f;
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_put_now(s, "a", "one", 3, NULL), 0);
    size_t good = wal_bytes();
    ck_assert_int_eq(coord_note_now(s, "b", "two", 3, NULL), 0);
    files_take(&f);
    coord_store_close(s);
    f.file[f.wal].bytes = good + (f.file[f.wal].bytes - good) * (size_t)_i / 10;
    files_put(&f);
    s = store_open();
    has(s, "a", "one");
    ck_assert_int_eq(coord_store_get_fixed(s, "b", NULL, 0, NULL), SHOAL_E_NOT_FOUND);
    ck_assert_int_eq(coord_put_now(s, "b", "new", 3, NULL), 0);
    coord_store_close(s);
    s = store_open();
    has(s, "b", "new");
    coord_store_close(s);
}
END_TEST

static void twelve_put(struct coord_store *s)
{
    char key[16], value[16];
    for (int i = 0; i < 12; i++) {
        (void)snprintf(key, sizeof key, "key/%d", i % 9);
        (void)snprintf(value, sizeof value, "v%d", i);
        ck_assert_int_eq(coord_put_now(s, key, value, strlen(value), NULL), 0);
    }
}

static void twelve_there(struct coord_store *s, const char *name, size_t bit)
{
    char key[16], value[16];
    for (int i = 3; i < 12; i++) {
        (void)snprintf(key, sizeof key, "key/%d", i % 9);
        (void)snprintf(value, sizeof value, "v%d", i);
        ck_assert_msg(is(s, key, value), "%s, bit %zu: %s is forgotten", name, bit, key);
    }
}

/* Returns true if the store is refused by name, false if every value is there. Writing to it must
 * do no harm. */
static bool refused_or_whole(const char *name, size_t bit)
{
    struct coord_store *s;
    struct err e = {0};
    int rc = coord_store_open(dir, 0, &s, &e);
    if (rc != 0) {
        ck_assert_msg(rc == SHOAL_E_CORRUPT, "%s, bit %zu: %d: %s", name, bit, rc, e.text);
        ck_assert_msg(strstr(e.text, "/store is damaged: ") != NULL, "%s", e.text);
        return true;
    }
    twelve_there(s, name, bit);
    ck_assert_int_eq(coord_put_now(s, "more", "1", 1, NULL), 0);
    coord_store_close(s);
    s = store_open();
    twelve_there(s, name, bit);
    coord_store_close(s);
    return false;
}

/* Flips bits of one file, one in `step`. Returns the share of them that is refused, in per cent. */
static size_t flips(struct files *f, size_t i, size_t step)
{
    size_t tried = 0, refused = 0;
    for (size_t bit = 0; bit < f->file[i].bytes * 8; bit += step) {
        f->file[i].data[bit / 8] ^= (char)(1 << bit % 8);
        files_put(f);
        f->file[i].data[bit / 8] ^= (char)(1 << bit % 8);
        tried++;
        refused += refused_or_whole(f->file[i].name, bit);
    }
    return tried == 0 ? 100 : 100 * refused / tried;
}

/* One bit is flipped anywhere: every value is there, or the store is refused by name; no value is
 * silently lost. Values are in RocksDB's log, and a flip of any of its bits is noticed. */
START_TEST(coord_store_any_flipped_bit_is_found)
{
    static struct files f;
    struct coord_store *s = store_open();
    twelve_put(s);
    files_take(&f);
    coord_store_close(s);
    ck_assert_uint_ge(flips(&f, f.wal, 1), 90);
}
END_TEST

/* After a second start the values are in a table file. Its properties, RocksDB's options and its
 * identity are not read. */
START_TEST(coord_store_any_flipped_bit_of_a_table_is_found)
{
    static struct files f;
    struct coord_store *s = store_open();
    twelve_put(s);
    coord_store_close(s);
    s = store_open();
    files_take(&f);
    coord_store_close(s);
    for (size_t i = 0; i < f.count; i++)
        (void)flips(&f, i, strncmp(f.file[i].name, "OPTIONS", 7) == 0 ? 1009 : 37);
}
END_TEST

/* One value is synced, then five are not, over eight pages. A power cut keeps any of these pages,
 * in any order, and may put the file's end anywhere. */
START_TEST(coord_store_torn_in_any_order_is_cut_off)
{
    static struct files f;
    static char value[6000];
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_put_now(s, "kept", "one", 3, NULL), 0);
    size_t synced = wal_bytes();
    char key[16];
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof key, "n/%d", i);
        memset(value, 'a' + i, sizeof value);
        ck_assert_int_eq(coord_note_now(s, key, value, sizeof value, NULL), 0);
    }
    files_take(&f);
    coord_store_close(s);
    char *log = f.file[f.wal].data;
    size_t bytes = f.file[f.wal].bytes, pages = (bytes + 4095) / 4096;
    ck_assert_uint_eq(pages, 8);
    char *torn = f.file[f.wal].data = malloc(bytes);
    for (uint32_t kept = 0; kept < 256; kept++) {
        size_t end = kept % 3 == 0 ? bytes : synced + (kept * 977) % (bytes - synced);
        memcpy(torn, log, bytes);
        for (size_t at = synced; at < bytes; at++)
            if ((kept >> at / 4096 & 1) == 0)
                torn[at] = 0;
        f.file[f.wal].bytes = end;
        files_put(&f);
        s = store_open();
        ck_assert(is(s, "kept", "one"));
        bool there = true;
        for (int i = 0; i < 5; i++) { /* no later value without those before */
            (void)snprintf(key, sizeof key, "n/%d", i);
            bool now = coord_store_get_fixed(s, key, value, sizeof value, NULL) == 0;
            ck_assert(there || !now);
            ck_assert(!now || value[5999] == 'a' + i);
            there = now;
        }
        ck_assert(there == (kept == 255 && end == bytes));
        ck_assert_int_eq(coord_put_now(s, "new", "two", 3, NULL), 0);
        coord_store_close(s);
        s = store_open();
        ck_assert(is(s, "kept", "one") && is(s, "new", "two"));
        coord_store_close(s);
    }
    free(log);
}
END_TEST

/* Damage of the last byte that was synced, and of the first that was not. */
START_TEST(coord_store_damage_begins_where_the_sync_ended)
{
    static struct files f;
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_put_now(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_note_now(s, "b", "two", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "c", "xyz", 3, NULL), 0);
    size_t synced = wal_bytes();
    ck_assert_int_eq(coord_note_now(s, "d", "four", 4, NULL), 0);
    files_take(&f);
    coord_store_close(s);
    char *log = f.file[f.wal].data;
    size_t bytes = f.file[f.wal].bytes;
    ck_assert_uint_gt(bytes, synced);
    for (size_t at = 0; at < bytes; at++) {
        log[at] ^= 4;
        files_put(&f);
        log[at] ^= 4;
        int rc = coord_store_open(dir, 0, &s, &e);
        ck_assert_msg(rc == (at < synced ? SHOAL_E_CORRUPT : 0), "byte %zu of %zu, %zu: %d", at,
                      synced, bytes, rc);
        if (rc != 0)
            continue;
        ck_assert(is(s, "a", "one") && is(s, "b", "two") && is(s, "c", "xyz"));
        coord_store_close(s);
    }
    for (size_t end = 0; end < bytes; end++) {
        f.file[f.wal].bytes = end;
        files_put(&f);
        int rc = coord_store_open(dir, 0, &s, &e);
        ck_assert_msg(rc == (end < synced ? SHOAL_E_CORRUPT : 0), "end %zu: %d", end, rc);
        if (rc == 0)
            coord_store_close(s);
    }
}
END_TEST

/* A start that refuses a store does not change it: the next try, or a copy, has all of it. */
START_TEST(coord_store_that_is_refused_stays_as_it_was)
{
    static struct files f, after;
    struct coord_store *s = store_open(), *none;
    struct err e = {0};
    twelve_put(s);
    files_take(&f);
    coord_store_close(s);
    char *middle = f.file[f.wal].data + f.file[f.wal].bytes / 2;
    *middle ^= 1;
    files_put(&f);
    ck_assert_int_eq(coord_store_open(dir, 0, &none, &e), SHOAL_E_CORRUPT);
    ck_assert_ptr_nonnull(strstr(e.text, "changes are missing that had been on disk"));
    files_take(&after);
    ck_assert_uint_eq(f.count, after.count);
    for (size_t i = 0; i < f.count; i++)
        for (size_t j = 0; j < f.count; j++)
            ck_assert(strcmp(f.file[i].name, after.file[j].name) != 0 ||
                      (f.file[i].bytes == after.file[j].bytes &&
                       memcmp(f.file[i].data, after.file[j].data, f.file[i].bytes) == 0));
    *middle ^= 1;
    files_put(&f);
    ck_assert(!refused_or_whole("log", 0));
}
END_TEST

/* All that a start wrote is on disk: damage in it is not taken for a torn end. */
START_TEST(coord_store_rewritten_has_no_torn_end)
{
    static struct files f;
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_put_now(s, "a", "one", 3, NULL), 0);
    ck_assert_int_eq(coord_put_now(s, "b", "two", 3, NULL), 0);
    coord_store_close(s);
    coord_store_close(store_open());
    files_take(&f);
    char *at = NULL;
    for (size_t i = 0; i < f.count && at == NULL; i++)
        at = strstr(f.file[i].name, ".sst") == NULL
                 ? NULL
                 : memmem(f.file[i].data, f.file[i].bytes, "two", 3);
    ck_assert_ptr_nonnull(at);
    *at ^= 1;
    files_put(&f);
    ck_assert_int_eq(coord_store_open(dir, 0, &s, &e), SHOAL_E_CORRUPT);
    *at ^= 1;
    files_put(&f);
    coord_store_close(store_open());
}
END_TEST

/* Every call to the disk fails, once or with all later ones, also at a start with values: every
 * answered value is there. */
START_TEST(coord_store_fails_at_any_call)
{
    bool met = true;
    for (uint64_t at = 1; met; at++) {
        struct coord_store *s = store_open();
        struct err e = {0};
        char key[16];
        int answered = 0;
        ck_assert_int_eq(coord_put_now(s, "k0", "first", 5, &e), 0);
        coord_store_close(s);
        struct disk *d = disk_watch(dir);
        disk_fail(d, &(struct disk_fault){.at = at,
                                          .kind = DISK_ERROR,
                                          .why = at % 2 == 0 ? EIO : ENOSPC,
                                          .last = _i == 1 ? UINT32_MAX : 0});
        if (coord_store_open(dir, 0, &s, &e) == 0) {
            for (bool failed = false; answered < 4 && !failed; answered += !failed) {
                (void)snprintf(key, sizeof key, "k%d", answered + 1);
                failed = coord_put_now(s, key, key, 2, &e) != 0;
                ck_assert(!failed || coord_put_now(s, key, key, 2, &e) != 0);
            }
            coord_store_close(s);
        }
        met = disk_failed(d);
        disk_free(d);
        s = store_open();
        ck_assert(is(s, "k0", "first"));
        for (int i = 1; i <= answered; i++) {
            (void)snprintf(key, sizeof key, "k%d", i);
            ck_assert(is(s, key, key));
        }
        ck_assert(met || answered == 4);
        coord_store_close(s);
        teardown();
        setup();
    }
}
END_TEST

START_TEST(coord_store_that_failed_takes_no_more)
{
    struct coord_store *s = store_open();
    struct err e = {0};
    ck_assert_int_eq(coord_put_now(s, "a", "1", 1, &e), 0);
    struct disk *d = disk_watch(dir);
    int why = _i == 0 ? EIO : ENOSPC;
    disk_fail(d, &(struct disk_fault){.at = 1, .kind = DISK_ERROR, .why = why});
    ck_assert_int_eq(coord_note_now(s, "b", "2", 1, &e),
                     _i == 0 ? SHOAL_E_IO : SHOAL_E_NO_SPACE); /* half of a record */
    ck_assert_msg(strstr(e.text, strerror(why)) != NULL, "%s", e.text);
    uint64_t calls = disk_calls(d);
    ck_assert_int_eq(coord_put_now(s, "c", "3", 1, &e), SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "/store could not be written before"));
    ck_assert_uint_eq(disk_calls(d), calls);
    disk_free(d);
    coord_store_close(s);
    s = store_open();
    ck_assert(is(s, "a", "1"));
    coord_store_close(s);
}
END_TEST

START_TEST(coord_store_is_not_shared)
{
    struct coord_store *s = store_open(), *second;
    struct err e = {0};
    ck_assert_int_eq(coord_store_open(dir, 0, &second, &e), SHOAL_E_CANTCREATE);
    coord_store_close(s);
}
END_TEST

/* A put into files that were removed is not answered. */
START_TEST(coord_store_whose_log_was_removed_keeps_nothing)
{
    struct coord_store *s = store_open();
    struct err e = {0};
    char path[96];
    ck_assert_int_eq(coord_put_now(s, "a", "1", 1, &e), 0);
    (void)snprintf(path, sizeof path, "rm -r '%s/store'", dir);
    ck_assert_int_eq(system(path), 0);
    ck_assert_int_eq(coord_put_now(s, "a", "2", 1, &e), SHOAL_E_IO);
    ck_assert_ptr_nonnull(strstr(e.text, "was removed while the coordinator runs"));
    coord_store_close(s);
}
END_TEST

/* A value of the greatest size is larger than the limit of the log. */
START_TEST(coord_store_greatest_value_under_the_longest_key_comes_back)
{
    char key[COORD_KEY_MAX] = {0};
    char *value = malloc(COORD_VALUE_MAX + 1);
    void *got;
    size_t bytes;
    struct err e = {0};
    memset(key, 'k', sizeof key - 1);
    memset(value, 'v', COORD_VALUE_MAX + 1);
    struct coord_store *s = store_open();
    ck_assert_int_eq(coord_put_now(s, key, value, COORD_VALUE_MAX + 1, &e), SHOAL_E_TOO_BIG);
    ck_assert_msg(coord_put_now(s, key, value, COORD_VALUE_MAX, &e) == 0, "%s", e.text);
    ck_assert_int_eq(coord_put_now(s, "next", "1", 1, &e), 0);
    coord_store_close(s);
    s = store_open();
    has(s, "next", "1");
    ck_assert_int_eq(coord_store_get(s, key, &got, &bytes, &e), 0);
    ck_assert_uint_eq(bytes, COORD_VALUE_MAX);
    ck_assert_int_eq(memcmp(got, value, bytes), 0);
    coord_store_close(s);
    free(got);
    free(value);
}
END_TEST

START_TEST(coord_store_value_of_another_size_is_corrupt)
{
    struct coord_store *s = coord_store_memory();
    struct err e = {0};
    uint64_t value;
    for (size_t bytes = 7; bytes < 10; bytes++) {
        ck_assert_int_eq(coord_put_now(s, "n", "123456789", bytes, NULL), 0);
        ck_assert_int_eq(coord_store_get_fixed(s, "n", &value, sizeof value, &e),
                         bytes == sizeof value ? 0 : SHOAL_E_CORRUPT);
    }
    coord_store_close(s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("coord_store");
    TCase *c = tcase_create("store");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 120);
    tcase_add_test(c, coord_store_keeps_over_a_restart);
    tcase_add_test(c, coord_store_tells_its_bytes);
    tcase_add_test(c, coord_store_is_rewritten_and_stays_small);
    tcase_add_loop_test(c, coord_store_torn_end_is_cut_off, 0, 10);
    tcase_add_test(c, coord_store_any_flipped_bit_is_found);
    tcase_add_test(c, coord_store_any_flipped_bit_of_a_table_is_found);
    tcase_add_test(c, coord_store_that_is_refused_stays_as_it_was);
    tcase_add_test(c, coord_store_torn_in_any_order_is_cut_off);
    tcase_add_test(c, coord_store_damage_begins_where_the_sync_ended);
    tcase_add_test(c, coord_store_rewritten_has_no_torn_end);
    tcase_add_loop_test(c, coord_store_fails_at_any_call, 0, 2);
    tcase_add_loop_test(c, coord_store_that_failed_takes_no_more, 0, 2);
    tcase_add_test(c, coord_store_is_not_shared);
    tcase_add_test(c, coord_store_whose_log_was_removed_keeps_nothing);
    tcase_add_test(c, coord_store_greatest_value_under_the_longest_key_comes_back);
    tcase_add_test(c, coord_store_value_of_another_size_is_corrupt);
    suite_add_tcase(s, c);
    SRunner *runner = srunner_create(s);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? 0 : 1;
}
