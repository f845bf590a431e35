/* test_cache.c: which cache folders are accepted, by their owner and mode. */
#include "tests/lib/suite.h"
#include "worker/data/cache.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { STRANGER = 65534 };

static char folder[64], path[96];

static void make(void)
{
    snprintf(folder, sizeof folder, "/tmp/shoal-cache-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/cache", folder);
}

static void clear(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* Keeps one file; returns 0 or the error. On success the file must be found, otherwise not. */
static int keep_one(struct err *e)
{
    struct cache c;
    struct cache_file f;
    int fd = -1, rc = cache_init(&c, path, e);
    ck_assert_int_eq(rc, 0);
    rc = cache_create(&c, 1, 2, "x", &f, e);
    if (rc == 0)
        rc = cache_keep(&f, &fd, e);
    if (fd >= 0)
        close(fd);
    int found = cache_find(&c, 1, 2, "x");
    ck_assert_int_eq(found >= 0, rc == 0);
    if (found >= 0)
        close(found);
    return rc;
}

START_TEST(a_folder_of_ones_own_is_made_and_believed)
{
    struct err e = {0};
    struct stat st;
    ck_assert_msg(keep_one(&e) == 0, "%s", e.text);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
}
END_TEST

START_TEST(a_folder_that_anybody_writes_is_refused)
{
    struct err e = {0};
    ck_assert_int_eq(keep_one(&e), 0);
    ck_assert_int_eq(chmod(path, 0777), 0);
    ck_assert_int_eq(keep_one(&e), SHOAL_E_DENIED);
}
END_TEST

START_TEST(a_folder_of_another_user_is_refused_to_root_too)
{
    struct err e = {0};
    if (geteuid() != 0)
        return; /* only root can give a folder away */
    ck_assert_int_eq(keep_one(&e), 0);
    ck_assert_int_eq(chown(path, STRANGER, STRANGER), 0);
    ck_assert_int_eq(keep_one(&e), SHOAL_E_DENIED);
    ck_assert_ptr_nonnull(strstr(e.text, "belongs to user 65534"));
}
END_TEST

START_TEST(a_link_of_another_user_is_refused)
{
    char own[96];
    struct err e = {0};
    if (geteuid() != 0)
        return;
    snprintf(own, sizeof own, "%s/own", folder);
    ck_assert_int_eq(mkdir(own, 0700), 0);
    ck_assert_int_eq(symlink(own, path), 0);
    ck_assert_msg(keep_one(&e) == 0, "%s", e.text);
    ck_assert_int_eq(lchown(path, STRANGER, STRANGER), 0);
    ck_assert_int_eq(keep_one(&e), SHOAL_E_DENIED);
}
END_TEST

/* A worker that tries again logs only new messages: a repeated failure must have the same text. */
START_TEST(folder_that_takes_no_file_is_told_in_the_same_words)
{
    struct err e[2] = {{0}};
    if (geteuid() != 0)
        return; /* switching to another user and back needs it */
    ck_assert_int_eq(mkdir(path, 0500), 0);
    ck_assert(chmod(folder, 0755) == 0 && chown(path, STRANGER, STRANGER) == 0);
    ck_assert_int_eq(seteuid(STRANGER), 0);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(keep_one(&e[i]), SHOAL_E_CANTCREATE);
    ck_assert_int_eq(seteuid(0), 0);
    ck_assert_str_eq(e[0].text, e[1].text);
    ck_assert_ptr_nonnull(strstr(e[0].text, "let this user write there"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cache");
    TCase *t = suite_case(suite, "cache", 10, make, clear);
    tcase_add_test(t, a_folder_of_ones_own_is_made_and_believed);
    tcase_add_test(t, a_folder_that_anybody_writes_is_refused);
    tcase_add_test(t, a_folder_of_another_user_is_refused_to_root_too);
    tcase_add_test(t, a_link_of_another_user_is_refused);
    tcase_add_test(t, folder_that_takes_no_file_is_told_in_the_same_words);
    return suite_main(suite);
}
