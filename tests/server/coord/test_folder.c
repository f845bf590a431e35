/* test_folder.c: folders of checkpoints on disk, and the publish command. */
#include "proto/base/file.h"
#include "proto/job/reading.h"
#include "server/coord/fleet/folder.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char root[64];
static const struct coord_folder_ops *ops = &coord_folder_disk;

static const char *at(const char *name)
{
    static char path[4][LIMIT_PATH];
    static unsigned next;
    char *out = path[next++ % 4];
    (void)snprintf(out, LIMIT_PATH, "%s/%s", root, name);
    return out;
}

static bool there(const char *name)
{
    return access(at(name), F_OK) == 0;
}

static void make(const char *tmp, const char *name)
{
    int hold = COORD_FOLDER_NONE;
    ck_assert_int_eq(ops->begin(at(tmp), &hold, NULL), 0);
    ck_assert_int_eq(ops->put(at(tmp), "manifest.json", "{}", 2, NULL), 0);
    ck_assert_int_eq(ops->publish(at(tmp), at(name), NULL), 0);
    ops->let_go(&hold);
}

static void name_count(void *context, const char *name)
{
    ck_assert_ptr_null(strstr(name, ".tmp"));
    ++*(uint32_t *)context;
}

START_TEST(folder_has_its_name_when_it_is_whole)
{
    void *bytes;
    size_t count;
    uint32_t names = 0;
    make("a.1.tmp", "a");
    ck_assert(there("a") && !there("a.1.tmp"));
    ck_assert_int_eq(ops->get(at("a"), "manifest.json", 10, &bytes, &count, NULL), 0);
    ck_assert(count == 2 && strcmp(bytes, "{}") == 0);
    free(bytes);
    ck_assert_int_eq(ops->get(at("a"), "manifest.json", 1, &bytes, &count, NULL), SHOAL_E_TOO_BIG);
    ck_assert_int_eq(ops->get(at("a"), "other", 10, &bytes, &count, NULL), SHOAL_E_NOINPUT);
    ck_assert_int_eq(mkdir(at("no-manifest"), 0700), 0);
    ck_assert_int_eq(ops->list(root, name_count, &names, NULL), 0);
    ck_assert_uint_eq(names, 1);
}
END_TEST

START_TEST(folder_is_never_taken_for_another)
{
    int hold = COORD_FOLDER_NONE;
    struct err e = {0};
    make("a.1.tmp", "a");
    ck_assert_int_eq(ops->begin(at("a.2.tmp"), &hold, NULL), 0);
    ck_assert_int_eq(ops->publish(at("a.2.tmp"), at("a"), &e), SHOAL_E_EXISTS);
    ck_assert_ptr_nonnull(strstr(e.text, "exists already"));
    ops->let_go(&hold);
    ck_assert_int_eq(ops->begin(at("a.2.tmp"), &hold, NULL), SHOAL_E_EXISTS);
    ck_assert_int_eq(ops->put(at("a"), "manifest.json", "x", 1, NULL), SHOAL_E_EXISTS);
}
END_TEST

START_TEST(folder_that_is_held_is_not_removed)
{
    int hold = COORD_FOLDER_NONE;
    make("a.1.tmp", "a");
    ck_assert_int_eq(ops->hold(at("a"), &hold, NULL), 0);
    ck_assert_int_eq(ops->remove(at("a"), NULL), SHOAL_E_BUSY);
    ck_assert(there("a"));
    ops->let_go(&hold);
    ck_assert_int_eq(ops->remove(at("a"), NULL), 0);
    ck_assert(!there("a"));
    ck_assert_int_eq(ops->hold(at("a"), &hold, NULL), SHOAL_E_NOINPUT);
    ops->let_go(&hold); /* nothing is held */
}
END_TEST

/* The reader is another process, which dies. */
START_TEST(folder_that_is_read_is_not_removed)
{
    char c;
    int hold, ready[2], mine = COORD_FOLDER_NONE;
    make("a.1.tmp", "a");
    ck_assert_int_eq(pipe(ready), 0);
    pid_t reader = fork();
    if (reader == 0) {
        c = reading_begin(at("a"), &hold, NULL) == 0 ? 'r' : 'x';
        _exit(write(ready[1], &c, 1) == 1 && pause());
    }
    ck_assert(read(ready[0], &c, 1) == 1 && c == 'r');
    ck_assert_int_eq(reading_begin(at("a"), &mine, NULL), 0); /* readers share the lock */
    reading_end(&mine);
    struct err e = {0};
    ck_assert_int_eq(ops->remove(at("a"), &e), SHOAL_E_BUSY);
    ck_assert_ptr_nonnull(strstr(e.text, "is being read"));
    ck_assert(there("a/manifest.json") && !there("a/" COORD_FOLDER_MARK));
    ck_assert_int_eq(kill(reader, SIGKILL), 0);
    ck_assert_int_eq(waitpid(reader, NULL, 0), reader);
    ck_assert_int_eq(ops->remove(at("a"), NULL), 0);
    ck_assert(!there("a"));
    close(ready[0]);
    close(ready[1]);
}
END_TEST

/* A folder that is being removed is waited for, but not for ever. */
START_TEST(folder_that_is_removed_is_not_read)
{
    int shut, hold;
    struct err e = {0};
    make("a.1.tmp", "a");
    ck_assert_int_eq(reading_shut(at("a"), &shut, NULL), 0);
    ck_assert_int_eq(reading_begin(at("a"), &hold, &e), SHOAL_E_BUSY);
    ck_assert_int_eq(hold, READING_NONE);
    ck_assert_ptr_nonnull(strstr(e.text, "is being removed"));
    reading_end(&shut);
    ck_assert_int_eq(ops->remove(at("a"), NULL), 0);
    ck_assert_int_eq(reading_begin(at("a"), &hold, NULL), SHOAL_E_NOINPUT);
}
END_TEST

/* Old checkpoints are counted by the job's name: two coordinators would remove each other's. */
START_TEST(folder_of_a_job_is_of_one_that_removes)
{
    struct coord_folder_claim one = {.fd = 0}, two = one, three = one;
    struct err e = {0};
    ck_assert_int_eq(ops->claim(root, "ctr", true, &one, NULL), 0);
    /* coordinators of all releases look for this name */
    ck_assert_ptr_nonnull(strstr(one.path, "/.job-d1225817a458106e.lock"));
    for (int alone = 0; alone < 2; alone++)
        ck_assert_int_eq(ops->claim(root, "ctr", alone, &two, &e), SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(strstr(e.text, "another coordinator trains a job named ctr"));
    ops->disclaim(&two); /* nothing is claimed */
    ck_assert_int_eq(ops->claim(root, "ctr/2", true, &two, NULL), 0);
    ops->disclaim(&two);
    ops->disclaim(&one);
    ck_assert_int_eq(ops->claim(root, "ctr", false, &one, NULL), 0);
    ck_assert_int_eq(ops->claim(root, "ctr", false, &two, NULL), 0);
    ops->disclaim(&one); /* the other claim stays */
    ck_assert_int_eq(ops->claim(root, "ctr", true, &three, NULL), SHOAL_E_CANTCREATE);
    ops->disclaim(&two);
    ck_assert_int_eq(ops->claim(root, "ctr", true, &three, NULL), 0);
    ops->disclaim(&three);
    ck_assert_int_eq(rmdir(root), 0); /* the folder is empty */
    ck_assert_int_eq(mkdir(root, 0700), 0);
}
END_TEST

/* A lock on a file that its holder has meanwhile removed is no lock. */
static void *give_back(void *claim)
{
    const struct timespec moment = {.tv_nsec = 200000000};
    (void)nanosleep(&moment, NULL);
    ops->disclaim(claim);
    return NULL;
}

/* A coordinator reports that its job is over, and releases the folder a moment later. */
START_TEST(folder_of_a_job_that_is_over_is_waited_for)
{
    struct coord_folder_claim one = {.fd = 0}, two = one;
    pthread_t other;
    ck_assert_int_eq(ops->claim(root, "ctr", true, &one, NULL), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, give_back, &one), 0);
    ck_assert_int_eq(ops->claim(root, "ctr", true, &two, NULL), 0);
    ck_assert_int_eq(pthread_join(other, NULL), 0);
    ops->disclaim(&two);
}
END_TEST

static struct coord_folder_claim rival;

static int rival_open(const char *path, int flags, mode_t mode)
{
    int fd = open(path, flags | O_CLOEXEC, mode);
    ops->disclaim(&rival);
    return fd;
}

START_TEST(folder_of_a_job_is_not_held_by_a_file_that_is_gone)
{
    struct coord_folder_claim one = {.fd = 0}, two = one;
    const struct file_ops late = {.open = rival_open, .unlink = unlink};
    ck_assert_int_eq(ops->claim(root, "ctr", true, &rival, NULL), 0);
    file_ops_set(&late);
    int rc = ops->claim(root, "ctr", true, &one, NULL);
    file_ops_set(NULL);
    ck_assert_int_eq(rc, 0);
    ck_assert_int_eq(ops->claim(root, "ctr", true, &two, NULL), SHOAL_E_CANTCREATE);
    ops->disclaim(&one);
}
END_TEST

/* A folder that is being made stays, the leftovers of a dead coordinator are removed. */
START_TEST(folder_opened_loses_its_leftovers)
{
    char absolute[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    make("a.1.tmp", "a");
    ck_assert_int_eq(mkdir(at("mine.tmp"), 0700), 0);
    ck_assert_int_eq(ops->begin(at("dead.00ff2a.tmp"), &hold, NULL), 0);
    ck_assert_int_eq(ops->put(at("dead.00ff2a.tmp"), "file", "x", 1, NULL), 0);
    ops->let_go(&hold);
    ck_assert_int_eq(mkdir(at("empty.00ee11.tmp"), 0700), 0); /* killed before the mark */
    for (int torn = 0; torn < 3; torn++) { /* while it was written; 2: with another file, too */
        static const char *const name[] = {"torn.00ee22.tmp", "torn.00ee33.tmp", "torn.00ee44.tmp"};
        ck_assert_int_eq(mkdir(at(name[torn]), 0700), 0);
        ck_assert_int_eq(
            ops->put(at(name[torn]), COORD_FOLDER_MARK, "A check", torn == 1 ? 7 : 0, NULL), 0);
        if (torn == 2)
            ck_assert_int_eq(ops->put(at(name[torn]), "file", "x", 1, NULL), 0);
    }
    ck_assert_int_eq(ops->begin(at("alive.00aa33.tmp"), &hold, NULL), 0);
    ck_assert_int_eq(ops->open(root, absolute, NULL), 0);
    ck_assert(there("mine.tmp") && !there("empty.00ee11.tmp")); /* a user's own; an orphan */
    ck_assert(!there("torn.00ee22.tmp") && !there("torn.00ee33.tmp") && there("torn.00ee44.tmp"));
    ck_assert(there("a") && !there("dead.00ff2a.tmp") && there("alive.00aa33.tmp"));
    ops->let_go(&hold);
    ck_assert_int_eq(ops->open(root, absolute, NULL), 0);
    ck_assert(there("a") && !there("alive.00aa33.tmp"));
    ck_assert_int_eq(ops->open(at("new/deep"), absolute, NULL), 0);
    ck_assert(there("new/deep") && absolute[0] == '/');
    ck_assert_int_eq(ops->open(at("a/manifest.json/below"), absolute, NULL), SHOAL_E_CANTCREATE);
}
END_TEST

/* A name like ours is not enough, nor a file with our mark's name: a folder that we did not make
 * stays with all its files. */
START_TEST(folder_of_others_is_never_removed)
{
    static const char *const names[] = {"photos.00ff2a.tmp", "old.gone.tmp", "linked.123456.tmp"};
    char absolute[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    struct err e = {0};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        ck_assert_int_eq(mkdir(at(names[i]), 0700), 0);
    ck_assert_int_eq(ops->put(at(names[0]), "file", "x", 1, NULL), 0);
    ck_assert_int_eq(ops->put(at(names[1]), COORD_FOLDER_MARK, "something else", 14, NULL), 0);
    make("a.1.tmp", "a");
    /* every file of a finished checkpoint has a checksum in its manifest */
    ck_assert(!there("a/" COORD_FOLDER_MARK));
    ck_assert_int_eq(ops->begin(at("c.tmp"), &hold, NULL), 0);
    char path[LIMIT_PATH];
    (void)snprintf(path, sizeof path, "%s/" COORD_FOLDER_MARK, at(names[2]));
    ck_assert_int_eq(symlink(at("c.tmp/" COORD_FOLDER_MARK), path), 0);
    ops->let_go(&hold);
    ck_assert_int_eq(ops->open(root, absolute, NULL), 0);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(there(names[i]), "%s is gone", names[i]);
        ck_assert_int_eq(ops->remove(at(names[i]), &e), SHOAL_E_DENIED);
        ck_assert_ptr_nonnull(strstr(e.text, names[i]));
    }
    ck_assert(there("photos.00ff2a.tmp/file"));
    /* A removal that was interrupted: the mark is removed last, so the rest is found. */
    ck_assert_int_eq(ops->begin(at("b.00aa33.tmp"), &hold, NULL), 0);
    ops->let_go(&hold);
    ck_assert_int_eq(mkdir(at("b.00aa33.tmp/part-0000"), 0700), 0);
    ck_assert_int_eq(ops->put(at("b.00aa33.tmp/part-0000"), "file", "x", 1, NULL), 0);
    ck_assert_int_eq(ops->open(root, absolute, NULL), 0);
    ck_assert(!there("b.00aa33.tmp") && there("a"));
}
END_TEST

/* A finished checkpoint is recognized by its manifest. */
START_TEST(folder_with_a_manifest_can_be_removed)
{
    ck_assert_int_eq(mkdir(at("old"), 0700), 0);
    ck_assert_int_eq(ops->put(at("old"), "manifest.json", "{}", 2, NULL), 0);
    ck_assert_int_eq(ops->remove(at("old"), NULL), 0);
    ck_assert(!there("old") && !there("old.gone.tmp"));
    ck_assert_int_eq(mkdir(at("other"), 0700), 0);
    ck_assert_int_eq(ops->remove(at("other"), NULL), SHOAL_E_DENIED);
    ck_assert(there("other"));
}
END_TEST

/* On a network file system that many files take minutes: each call removes some, and the rest does
 * not have a checkpoint's name. */
START_TEST(folder_with_many_files_goes_bit_by_bit)
{
    char file[LIMIT_NAME];
    uint32_t sweeps = 0;
    make("a.1.tmp", "a");
    ck_assert_int_eq(mkdir(at("a/part-0000"), 0700), 0);
    for (uint32_t i = 0; i < 300; i++) {
        (void)snprintf(file, sizeof file, "%u", i);
        ck_assert_int_eq(ops->put(at("a/part-0000"), file, "x", 1, NULL), 0);
    }
    ck_assert_int_eq(ops->remove(at("a"), NULL), SHOAL_E_AGAIN);
    ck_assert(!there("a") && there("a.gone.tmp"));
    while (ops->sweep(root))
        sweeps++;
    ck_assert_msg(sweeps >= 3 && sweeps < 10, "%u sweeps", sweeps);
    ck_assert(!there("a.gone.tmp"));
}
END_TEST

/* A server that was not told that the checkpoint was given up makes its part at the last moment. */
static int late_unlink(const char *path)
{
    (void)mkdir(at("b.00aa33.tmp/part-0001.tmp"), 0700);
    return unlink(path);
}

START_TEST(folder_given_up_goes_though_a_server_still_writes_into_it)
{
    const struct file_ops late = {.rename = rename, .unlink = late_unlink, .rmdir = rmdir};
    char absolute[LIMIT_PATH];
    int hold = COORD_FOLDER_NONE;
    ck_assert_int_eq(ops->begin(at("b.00aa33.tmp"), &hold, NULL), 0);
    ops->let_go(&hold);
    file_ops_set(&late);
    (void)ops->remove(at("b.00aa33.tmp"), NULL);
    file_ops_set(NULL);
    ck_assert_int_eq(ops->open(root, absolute, NULL), 0);
    ck_assert(!there("b.00aa33.tmp"));
    ck_assert(!there("b.00aa33.tmp.gone.tmp"));
}
END_TEST

static void wait_for(const char *name)
{
    const struct timespec pause = {0, 5000000};
    for (int i = 0; i < 2000 && !there(name); i++)
        (void)nanosleep(&pause, NULL);
    ck_assert_msg(there(name), "%s does not come", name);
}

/* The process is dead, but its parent has not reaped it, as in a container whose first process
 * reaps no children. */
static bool is_zombie(int pid)
{
    char path[64], state = 0;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return true;
    bool read = fscanf(f, "%*d %*s %c", &state) == 1;
    (void)fclose(f);
    return read && state == 'Z';
}

static int hook_ended(struct coord_hook *h)
{
    const struct timespec pause = {0, 5000000};
    int rc = -2;
    for (int i = 0; i < 2000 && !coord_hook_poll(h, &rc); i++)
        (void)nanosleep(&pause, NULL);
    return rc;
}

START_TEST(hook_gets_the_folder_and_tells_its_end)
{
    char *words[] = {"sh", "-c", "test -d \"$0\" && touch \"$0/seen\""},
         *bad[] = {"sh", "-c", "kill -9 $$"}, *none[] = {"/no/such/program"};
    struct coord_hook h = {0};
    struct err e = {0};
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){words, 3}, root, &e), 0);
    ck_assert_int_eq(hook_ended(&h), 0);
    ck_assert(there("seen"));
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){words, 3}, at("nothing"), &e), 0);
    ck_assert_int_eq(hook_ended(&h), 1);
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){bad, 3}, root, &e), 0);
    ck_assert_int_eq(hook_ended(&h), 128 + 9);
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){none, 1}, root, &e),
                     SHOAL_E_UNAVAILABLE);
    ck_assert_ptr_nonnull(strstr(e.text, "checkpoint.publish cannot be started: No such file"));
    ck_assert_ptr_null(strstr(e.text, "/no/such/program")); /* a command may contain a token */
}
END_TEST

/* TERM reaches all processes that the command started, KILL those that ignore TERM, and none of
 * them is left when the command's end is reported. */
START_TEST(hook_is_stopped_with_all_that_it_started)
{
    char *soft[] = {"sh", "-c",
                    "trap 'wait; exit 7' TERM; (trap 'touch \"$0/termed\"; exit' TERM; touch "
                    "\"$0/ready\"; sleep 600 & wait) & wait"};
    char *deaf[] = {"sh", "-c",
                    "trap '' TERM; (touch \"$0/ready\"; sleep 600; touch \"$0/later\") & wait"};
    char *leaves[] = {
        "sh", "-c",
        "(trap '' TERM; touch \"$0/ready\"; exec sleep 600) & echo $! > \"$0/child\"; wait"};
    struct coord_hook h = {0};
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){soft, 3}, root, NULL), 0);
    wait_for("ready");
    coord_hook_stop(&h, false);
    ck_assert_int_eq(hook_ended(&h), 7); /* a command may wait for its children */
    ck_assert(there("termed"));
    ck_assert_int_eq(unlink(at("ready")), 0);
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){deaf, 3}, root, NULL), 0);
    wait_for("ready");
    coord_hook_stop(&h, false);
    int status = -2;
    ck_assert(!coord_hook_poll(&h, &status));
    coord_hook_stop(&h, true);
    ck_assert_int_eq(hook_ended(&h), 128 + 9);
    ck_assert_int_eq(unlink(at("ready")), 0);
    ck_assert_int_eq(coord_hook_start(&h, &(struct string_list){leaves, 3}, root, NULL), 0);
    wait_for("ready");
    wait_for("child");
    coord_hook_stop(&h, false); /* the shell ends; its child must end, too */
    ck_assert_int_eq(hook_ended(&h), 128 + 15);
    int child = 0;
    FILE *f = fopen(at("child"), "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(fscanf(f, "%d", &child), 1);
    (void)fclose(f);
    const struct timespec pause = {0, 5000000};
    for (int i = 0; i < 2000 && kill(child, 0) == 0 && !is_zombie(child); i++)
        (void)nanosleep(&pause, NULL);
    ck_assert(kill(child, 0) != 0 || is_zombie(child));
    coord_hook_stop(&h, true); /* no command runs */
}
END_TEST

static void setup(void)
{
    (void)snprintf(root, sizeof root, "/tmp/shoal-folder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    ck_assert_int_eq(system(command), 0);
}

int main(void)
{
    Suite *s = suite_create("coord_folder");
    TCase *t = tcase_create("coord_folder");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, folder_has_its_name_when_it_is_whole);
    tcase_add_test(t, folder_is_never_taken_for_another);
    tcase_add_test(t, folder_that_is_held_is_not_removed);
    tcase_add_test(t, folder_that_is_read_is_not_removed);
    tcase_add_test(t, folder_that_is_removed_is_not_read);
    tcase_add_test(t, folder_of_a_job_is_of_one_that_removes);
    tcase_add_test(t, folder_of_a_job_that_is_over_is_waited_for);
    tcase_add_test(t, folder_of_a_job_is_not_held_by_a_file_that_is_gone);
    tcase_add_test(t, folder_opened_loses_its_leftovers);
    tcase_add_test(t, folder_of_others_is_never_removed);
    tcase_add_test(t, folder_with_a_manifest_can_be_removed);
    tcase_add_test(t, folder_with_many_files_goes_bit_by_bit);
    tcase_add_test(t, folder_given_up_goes_though_a_server_still_writes_into_it);
    tcase_add_test(t, hook_gets_the_folder_and_tells_its_end);
    tcase_add_test(t, hook_is_stopped_with_all_that_it_started);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
