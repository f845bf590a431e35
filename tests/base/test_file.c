/* test_file.c: whole files whatever the disk does, folders made and removed, names visited. */
#include "proto/base/file.h"
#include "tests/lib/file_fault.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/shoal-file-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    file_fault_set(NULL);
    ck_assert_int_eq(file_remove_tree(folder), 0);
    ck_assert_int_eq(access(folder, F_OK), -1);
}

static const char *in(const char *name)
{
    static char path[8][128];
    static int turn;
    turn = (turn + 1) % 8;
    snprintf(path[turn], sizeof path[turn], "%s/%s", folder, name);
    return path[turn];
}

static void holds(const char *path, const char *want)
{
    char *text;
    size_t bytes;
    ck_assert_int_eq(file_read_whole(path, 1 << 20, &text, &bytes), 0);
    ck_assert_uint_eq(bytes, strlen(want));
    ck_assert_str_eq(text, want);
    free(text);
}

static void put(const char *path, const char *text, enum file_lasts lasts)
{
    ck_assert_int_eq(file_write_whole(path, in("a.tmp"), text, strlen(text), 0600, lasts), 0);
}

static const char before[] = "the old content", after[] = "the new one, which is longer";

/* Every step fails once, with each cause, alone or with all later ones. */
START_TEST(a_whole_file_is_the_old_or_the_new)
{
    static const int cause[] = {EIO, ENOSPC};
    file_fault_set(&(struct file_fault){0});
    put(in("a"), before, FILE_LASTS_ALL);
    uint64_t steps = file_fault_calls();
    ck_assert_uint_eq(steps, 6); /* open, write, sync, rename; open and sync of the folder */
    for (uint64_t n = 1; n <= steps; n++)
        for (int c = 0; c < 2; c++)
            for (int dead = 0; dead < 2; dead++) {
                file_fault_set(NULL);
                put(in("a"), before, FILE_LASTS_ALL);
                file_fault_set(&(struct file_fault){n, cause[c], dead != 0});
                ck_assert_int_eq(file_write_whole(in("a"), in("a.tmp"), after, sizeof after - 1,
                                                  0600, FILE_LASTS_ALL),
                                 -1);
                ck_assert_int_eq(errno, cause[c]);
                holds(in("a"), n <= 4 ? before : after);
                if (dead == 0)
                    ck_assert_int_eq(access(in("a.tmp"), F_OK), -1);
            }
    file_fault_set(&(struct file_fault){steps + 1, EIO, true});
    put(in("a"), after, FILE_LASTS_ALL);
    holds(in("a"), after);
}
END_TEST

static uint32_t writes;

/* Every other call is interrupted, the rest write a byte. */
static ssize_t write_bit_by_bit(int fd, const void *data, size_t bytes)
{
    errno = EINTR;
    return writes++ % 2 == 0 ? -1 : write(fd, data, bytes > 0 ? 1 : 0);
}

START_TEST(a_write_goes_on_after_interruptions)
{
    const struct file_ops ops = {.write = write_bit_by_bit};
    int fd = open(in("a"), O_WRONLY | O_CREAT, 0600);
    file_ops_set(&ops);
    ck_assert_int_eq(file_write_all(fd, after, sizeof after - 1), 0);
    file_ops_set(NULL);
    ck_assert_uint_eq(writes, 2 * (sizeof after - 1));
    close(fd);
    holds(in("a"), after);
}
END_TEST

START_TEST(what_need_not_last_is_not_synced)
{
    file_fault_set(&(struct file_fault){0});
    put(in("a"), after, FILE_LASTS_PROCESS);
    ck_assert_uint_eq(file_fault_calls(), 3);
    put(in("a"), after, FILE_LASTS_CRASH);
    ck_assert_uint_eq(file_fault_calls(), 7);
}
END_TEST

START_TEST(a_file_over_the_limit_is_not_read)
{
    char *text;
    size_t bytes;
    put(in("a"), before, FILE_LASTS_PROCESS);
    ck_assert_int_eq(file_read_whole(in("a"), sizeof before - 2, &text, &bytes), -1);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_uint_eq(bytes, sizeof before - 1);
    ck_assert_int_eq(file_read_whole(in("a"), sizeof before - 1, &text, &bytes), 0);
    ck_assert_uint_eq(bytes, sizeof before - 1);
    free(text);
    ck_assert_int_eq(file_read_whole(folder, SIZE_MAX, &text, &bytes), -1);
    ck_assert_int_eq(errno, EFBIG);
    ck_assert_int_eq(file_read_whole(in("none"), 1, &text, &bytes), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(a_copy_ends_where_it_is_told)
{
    put(in("a"), before, FILE_LASTS_PROCESS);
    for (int i = 0; i < 3; i++) {
        int from = open(in("a"), O_RDONLY), to = file_open(in("b"), O_WRONLY | O_CREAT, 0600);
        uint64_t most = i == 0 ? 7 : i == 1 ? UINT64_MAX : sizeof before;
        ck_assert_int_eq(file_copy(from, to, most), i < 2 ? 0 : -1);
        if (i == 2)
            ck_assert_int_eq(errno, EIO);
        close(from);
        close(to);
        holds(in("b"), i == 0 ? "the old" : before);
    }
}
END_TEST

START_TEST(no_two_temporaries_are_one)
{
    char path[2][128];
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "%s/t-XXXXXX", folder);
        int fd = file_temporary(path[i]);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(file_write_all(fd, "new", 3), 0);
        close(fd);
        holds(path[i], "new");
    }
    ck_assert_str_ne(path[0], path[1]);
    snprintf(path[0], sizeof path[0], "%s/none/t-XXXXXX", folder);
    ck_assert_int_eq(file_temporary(path[0]), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(a_file_without_a_name_gets_one_when_it_is_whole)
{
    char path[128], named[128];
    for (int names = 0; names < 2; names++) {
        snprintf(path, sizeof path, "%s/t-XXXXXX", folder);
        if (names == 1) /* as on NFS: it has a name from the begin */
            file_fault_set(&(struct file_fault){.at = 1, .why = EOPNOTSUPP});
        int fd = file_nameless(path, sizeof path);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(strncmp(path, "/proc/self/fd/", 14) != 0, names);
        ck_assert_int_eq(file_write_all(fd, "new", 3), 0);
        ck_assert_int_eq(file_place(path, in("placed")), 0);
        snprintf(named, sizeof named, "%s", path);
        close(fd);
        ck_assert_int_ne(access(named, F_OK), 0);
        holds(in("placed"), "new");
        snprintf(path, sizeof path, "%s/t-XXXXXX", folder);
        fd = file_nameless(path, sizeof path);
        ck_assert_int_eq(file_place(path, in("placed")), -1);
        ck_assert_int_eq(errno, EEXIST);
        close(fd);
        holds(in("placed"), "new");
        ck_assert_int_eq(unlink(in("placed")), 0);
    }
}
END_TEST

START_TEST(a_name_that_is_taken_stays)
{
    char new[128];
    for (int links = 1; links >= 0; links--) {
        snprintf(new, sizeof new, "%s/t-XXXXXX", folder);
        int fd = file_temporary(new);
        ck_assert_int_eq(file_write_all(fd, "new", 3), 0);
        close(fd);
        if (links == 0) /* as on vfat */
            file_fault_set(&(struct file_fault){.at = 1, .why = EPERM});
        ck_assert_int_eq(file_place(new, in("placed")), 0);
        ck_assert_int_ne(access(new, F_OK), 0);
        holds(in("placed"), "new");
        snprintf(new, sizeof new, "%s/t-XXXXXX", folder);
        fd = file_temporary(new);
        ck_assert_int_eq(file_write_all(fd, "other", 5), 0);
        close(fd);
        if (links == 0)
            file_fault_set(&(struct file_fault){.at = 1, .why = EPERM});
        ck_assert_int_eq(file_place(new, in("placed")), -1);
        ck_assert_int_eq(errno, EEXIST);
        holds(in("placed"), "new");
        holds(new, "other");
        ck_assert_int_eq(unlink(in("placed")), 0);
    }
}
END_TEST

START_TEST(a_stream_empties_or_appends_through_the_door)
{
    for (int i = 0; i < 3; i++) {
        FILE *f = file_stream(in("a"), i == 1);
        ck_assert_ptr_nonnull(f);
        fputs("line\n", f);
        ck_assert_int_eq(fclose(f), 0);
        holds(in("a"), i == 1 ? "line\nline\n" : "line\n");
    }
    file_fault_set(&(struct file_fault){.at = 1, .why = ENOSPC});
    ck_assert_ptr_null(file_stream(in("a"), false));
    ck_assert_int_eq(errno, ENOSPC);
    holds(in("a"), "line\n");
    file_fault_set(&(struct file_fault){.at = 1, .why = EIO});
    ck_assert_int_eq(file_truncate(in("a"), 2), -1);
    ck_assert_int_eq(file_truncate(in("a"), 2), 0);
    holds(in("a"), "li");
}
END_TEST

START_TEST(folders_are_made_down_to_the_last)
{
    char failed[LIMIT_PATH];
    struct stat st;
    ck_assert_int_eq(file_make_folders(in("x/y/z"), 0750, failed), 0);
    ck_assert_int_eq(file_make_folders(in("x/y/z/"), 0750, failed), 0);
    ck_assert_int_eq(stat(in("x/y"), &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0750);
    put(in("x/file"), before, FILE_LASTS_PROCESS);
    ck_assert_int_eq(file_make_folders(in("x/file/y/z"), 0750, failed), -1);
    ck_assert_int_eq(errno, ENOTDIR);
    ck_assert_str_eq(failed, in("x/file/y"));
    ck_assert_int_eq(file_make_folders("", 0750, failed), -1);
}
END_TEST

START_TEST(a_tree_goes_and_what_its_links_name_stays)
{
    char failed[LIMIT_PATH];
    ck_assert_int_eq(file_make_folders(in("kept/inner"), 0700, failed), 0);
    put(in("kept/file"), before, FILE_LASTS_PROCESS);
    ck_assert_int_eq(file_make_folders(in("tree/a/b"), 0700, failed), 0);
    put(in("tree/a/file"), before, FILE_LASTS_PROCESS);
    ck_assert_int_eq(symlink(in("kept"), in("tree/a/link")), 0);
    ck_assert_int_eq(symlink(in("kept"), in("link")), 0);
    ck_assert_int_eq(file_remove_tree(in("tree")), 0);
    ck_assert_int_eq(access(in("tree"), F_OK), -1);
    ck_assert_int_eq(file_remove_tree(in("link")), 0);
    ck_assert_int_eq(file_remove_tree(in("none")), 0);
    holds(in("kept/file"), before);
    ck_assert_int_eq(access(in("kept/inner"), F_OK), 0);
}
END_TEST

START_TEST(what_cannot_be_removed_does_not_keep_the_rest)
{
    char failed[LIMIT_PATH];
    ck_assert_int_eq(file_make_folders(in("tree"), 0700, failed), 0);
    put(in("tree/a"), before, FILE_LASTS_PROCESS);
    put(in("tree/b"), before, FILE_LASTS_PROCESS);
    file_fault_set(&(struct file_fault){2, EACCES, false}); /* 1: the folder is not a file */
    ck_assert_int_eq(file_remove_tree(in("tree")), -1);
    ck_assert_int_eq(errno, EACCES);
    ck_assert(access(in("tree/a"), F_OK) != access(in("tree/b"), F_OK));
}
END_TEST

static int stuck_unlink(const char *path)
{
    if (strstr(path, "/stuck-") == NULL)
        return unlink(path);
    errno = EBUSY;
    return -1;
}

/* In one call, and in many that remove a part each. */
START_TEST(what_cannot_be_removed_keeps_no_later_call)
{
    const struct file_ops stuck = {.unlink = stuck_unlink, .rmdir = rmdir};
    char failed[LIMIT_PATH], name[32];
    uint64_t left;
    int calls = 0, why;
    ck_assert_int_eq(file_make_folders(in("tree"), 0700, failed), 0);
    for (int i = 0; i < 120; i++) {
        snprintf(name, sizeof name, "tree/%s-%d", i % 6 == 0 ? "stuck" : "goes", i);
        put(in(name), before, FILE_LASTS_PROCESS);
    }
    file_ops_set(&stuck);
    do {
        left = 10;
        ck_assert_int_eq(file_remove_some(in("tree"), &left), -1);
        why = errno;
    } while (why == EAGAIN && ++calls < 100);
    file_ops_set(NULL);
    ck_assert_int_eq(why, EBUSY);
    ck_assert_msg(calls >= 9 && calls <= 10, "%d calls", calls);
    ck_assert_int_eq(access(in("tree/goes-119"), F_OK), -1);
    ck_assert_int_eq(access(in("tree/stuck-0"), F_OK), 0);
}
END_TEST

START_TEST(a_walk_tells_every_name_once)
{
    struct file_walk w;
    const char *name;
    int seen = 0;
    put(in("a"), before, FILE_LASTS_PROCESS);
    put(in(".b"), before, FILE_LASTS_PROCESS);
    ck_assert(file_walk_open(&w, folder));
    while ((name = file_walk_next(&w)) != NULL)
        seen += strcmp(name, "a") == 0 ? 1 : strcmp(name, ".b") == 0 ? 10 : 100;
    file_walk_close(&w);
    ck_assert_int_eq(seen, 11);
    ck_assert(!file_walk_open(&w, in("none")));
    ck_assert_int_eq(errno, ENOENT);
    ck_assert_ptr_null(file_walk_next(&w));
    file_walk_close(&w);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

/* Connections have taken every descriptor: some are reserved for files. */
START_TEST(files_have_descriptors_of_their_own)
{
    struct rlimit l, was;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &l), 0);
    was = l;
    l.rlim_cur = 200;
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &l), 0);
    file_reserve_fill();
    while (open("/dev/null", O_RDONLY) >= 0)
        continue;
    int copy = file_dup(0), root = file_folder("/"), file = file_open("/dev/null", O_RDONLY, 0);
    ck_assert(copy >= 0 && root >= 0 && file >= 0);
    uint32_t more = 0;
    while (file_dup(0) >= 0)
        more++;
    ck_assert_uint_ge(more, 16);
    ck_assert_int_eq(errno, EMFILE); /* then the error is EMFILE */
    close(copy);
    close(root);
    file_reserve_fill();
    ck_assert_int_ge(file_dup(0), 0);
    ck_assert_int_ge(file_dup(0), 0);
    ck_assert_int_lt(file_dup(0), 0);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &was), 0);
}
END_TEST

static void below(const char *root, const char *path, int want)
{
    errno = 0;
    int rc = file_below(root, path);
    ck_assert_msg((rc == 0 ? 0 : errno) == want, "%s below %s: %s", path, root, strerror(errno));
}

START_TEST(file_below_follows_no_link_and_leaves_no_root)
{
    ck_assert(file_mkdir(in("root"), 0700) == 0 && file_mkdir(in("root/a"), 0700) == 0);
    ck_assert(file_mkdir(in("other"), 0700) == 0 && symlink(in("root"), in("way")) == 0);
    ck_assert(symlink(in("other"), in("root/link")) == 0 &&
              symlink("../a", in("root/a/self")) == 0);
    put(in("root/a/file"), "x", FILE_LASTS_PROCESS);
    below(in("root"), in("root/a"), 0);
    below(in("root"), in("root/a/file"), 0);
    below(in("root"), in("root//a/not/yet"), 0);
    below(in("way"), in("way/a"), 0); /* the operator may use a link as the root */
    below(in("way"), in("root/a"), 0);
    below("/", in("root/a"), 0);
    below(in("root"), in("root/link"), ELOOP);
    below(in("root"), in("root/link/x/y"), ELOOP);
    below(in("root"), in("root/a/self/x"), ELOOP);
    below(in("root"), in("other"), EXDEV);
    below(in("root"), in("rooted"), EXDEV);
    below(in("root"), in("root"), 0);
    below(in("root"), in("root//"), 0);
    below(in("root"), in("root/../other"), EINVAL);
    below(in("root"), in("root/./a"), EINVAL);
    below("", in("root/a/.."), EINVAL);
    below("", "root/a", EINVAL);
    below("", "", EINVAL);
    below("", "/anywhere/at..all", 0);
    below(in("none"), in("none/a"), ENOENT);
}
END_TEST

START_TEST(a_file_system_says_how_full_it_is)
{
    const struct file_room full = {.bytes = 1u << 30, .left = 4096};
    struct file_room found = {0};
    ck_assert_int_eq(file_room(folder, &found), 0);
    ck_assert(found.bytes > 0 && found.left <= found.bytes);
    ck_assert_int_eq(file_room(in("missing"), &found), -1);
    ck_assert_int_eq(errno, ENOENT);

    file_fault_room(&full);
    ck_assert_int_eq(file_room(folder, &found), 0);
    file_fault_room(NULL);
    ck_assert(found.bytes == full.bytes && found.left == full.left);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("file");
    TCase *t = tcase_create("file");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, files_have_descriptors_of_their_own);
    tcase_add_test(t, a_whole_file_is_the_old_or_the_new);
    tcase_add_test(t, a_write_goes_on_after_interruptions);
    tcase_add_test(t, what_need_not_last_is_not_synced);
    tcase_add_test(t, a_file_over_the_limit_is_not_read);
    tcase_add_test(t, a_copy_ends_where_it_is_told);
    tcase_add_test(t, no_two_temporaries_are_one);
    tcase_add_test(t, a_file_without_a_name_gets_one_when_it_is_whole);
    tcase_add_test(t, a_name_that_is_taken_stays);
    tcase_add_test(t, a_stream_empties_or_appends_through_the_door);
    tcase_add_test(t, folders_are_made_down_to_the_last);
    tcase_add_test(t, a_tree_goes_and_what_its_links_name_stays);
    tcase_add_test(t, what_cannot_be_removed_does_not_keep_the_rest);
    tcase_add_test(t, what_cannot_be_removed_keeps_no_later_call);
    tcase_add_test(t, a_file_system_says_how_full_it_is);
    tcase_add_test(t, a_walk_tells_every_name_once);
    tcase_add_test(t, file_below_follows_no_link_and_leaves_no_root);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
