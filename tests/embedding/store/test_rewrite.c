/* test_rewrite.c: a store is rewritten on a disk that fails: the caller must not be told that it
 * was. */
#include "embedding/store.h"
#include "tests/lib/disk.h"
#include "tests/lib/rig_dir.h"
#include "tests/lib/suite.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LARGE 20000u /* it goes to a blob file */

static char root[LIMIT_PATH];

static void put(struct store *s, const char *key, char fill)
{
    static char value[LARGE];
    struct err e = {0};
    struct store_item item = {.key_bytes = strlen(key), .value = value, .value_bytes = LARGE};
    memset(value, fill, sizeof value);
    memcpy(item.key, key, item.key_bytes);
    ck_assert_int_eq(store_write(s, &item, 1, &e), 0);
    ck_assert_msg(store_flush(s, &e) == 0, "%s", e.text);
}

static int has(void *context, const void *key, size_t key_bytes, const void *value,
               size_t value_bytes, struct err *e)
{
    (void)key, (void)key_bytes, (void)e;
    *(unsigned *)context += value_bytes == LARGE && *(const char *)value == 'n';
    return 0;
}

/* Returns the final result of a rewriting. */
static int rewritten(struct store *s, struct err *e)
{
    int rc = store_compact(s, e);
    for (int i = 0; i < 200 && rc == 0 && (rc = store_compacted(s, e)) == SHOAL_E_AGAIN; i++) {
        usleep(5000);
        rc = i == 40 ? store_compact(s, e) : 0;
    }
    return rc == 0 ? store_compacted(s, e) : rc;
}

/* The disk has no room for new value files during the whole rewriting (_i 0); once, and the
 * rewriting is tried again (1); or it has enough room (2). */
START_TEST(a_rewriting_that_failed_is_told)
{
    char dir[LIMIT_PATH];
    struct store *s;
    struct err e = {0};
    unsigned found = 0;
    rig_dir(root);
    struct disk *disk = disk_watch(root);
    snprintf(dir, sizeof dir, "%.900s/rows", root);
    ck_assert_int_eq(store_rocks_open(dir, 0, &s, &e), 0);
    put(s, "a", 'n');
    put(s, "b", 'o');
    put(s, "b", 'n');
    disk_fail(disk, &(struct disk_fault){.at = _i != 2,
                                         .last = _i == 0 ? 1000 : 0,
                                         .kind = DISK_ERROR,
                                         .why = ENOSPC,
                                         .only = ".blob"});
    int rc = rewritten(s, &e);
    if (_i > 0)
        ck_assert_msg(rc == 0, "%s", e.text);
    else
        ck_assert_msg(rc == SHOAL_E_AGAIN && strstr(e.text, ".blob") != NULL, "%d: %s", rc, e.text);
    disk_fail(disk, NULL);
    store_close(s);
    ck_assert_int_eq(store_rocks_open(dir, 0, &s, &e), 0);
    ck_assert_int_eq(store_scan(s, has, &found, &e), 0);
    ck_assert_uint_eq(found, 2);
    ck_assert_msg(rewritten(s, &e) == 0, "%s", e.text);
    store_close(s);
    disk_free(disk);
    rig_remove_dir(root);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("rewrite");
    TCase *t = suite_case(s, "rewrite", 60, NULL, NULL);
    tcase_add_loop_test(t, a_rewriting_that_failed_is_told, 0, 3);
    return suite_main(s);
}
