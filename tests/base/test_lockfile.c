/* test_lockfile.c: one process has a folder's lock; the next one waits for its end, up to a
 * limit. */
#include "proto/base/file.h"
#include "proto/base/lockfile.h"
#include "proto/base/time.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[64];

static void setup(void)
{
    strcpy(folder, "/tmp/shoal-lockfile-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void teardown(void)
{
    ck_assert_int_eq(file_remove_tree(folder), 0);
}

/* Another process takes the lock, and lives for `ms`. */
static pid_t held_for(unsigned ms)
{
    int ready[2];
    char byte = 0;
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (lockfile_take(folder, 0) < 0 || write(ready[1], &byte, 1) != 1)
            _exit(1);
        usleep(ms * 1000);
        _exit(0);
    }
    close(ready[1]);
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    return pid;
}

static void ended(pid_t pid)
{
    int status;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(one_at_a_time_has_it)
{
    int fd = lockfile_take(folder, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(lockfile_take(folder, 0), -1);
    ck_assert_int_eq(errno, EWOULDBLOCK);
    close(fd);
    fd = lockfile_take(folder, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, F_GETFD), FD_CLOEXEC);
    close(fd);
}
END_TEST

START_TEST(where_no_lock_can_be_it_is_said)
{
    char missing[80];
    (void)snprintf(missing, sizeof missing, "%s/none", folder);
    ck_assert_int_eq(lockfile_take(missing, 5000), -1);
    ck_assert_int_eq(errno, ENOENT);
}
END_TEST

START_TEST(the_end_of_who_has_it_is_waited_for)
{
    pid_t pid = held_for(300);
    uint64_t begun = time_monotonic_ns();
    int fd = lockfile_take(folder, 60000);
    ck_assert_int_ge(fd, 0);
    ck_assert_uint_ge(time_monotonic_ns() - begun, 100000000u);
    close(fd);
    ended(pid);
}
END_TEST

START_TEST(who_stays_is_waited_for_no_longer_than_asked)
{
    pid_t pid = held_for(3000);
    uint64_t begun = time_monotonic_ns();
    ck_assert_int_eq(lockfile_take(folder, 200), -1);
    ck_assert_int_eq(errno, EWOULDBLOCK);
    ck_assert_uint_ge(time_monotonic_ns() - begun, 200000000u);
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static void caught(int signo)
{
    (void)signo;
}

/* The signal is blocked (0: TERM, 1: INT), as in daemons, or caught (2). Another blocked signal
 * does not end the wait (3). */
START_TEST(a_signal_ends_the_waiting)
{
    const int number[] = {SIGTERM, SIGINT, SIGALRM, SIGHUP};
    sigset_t blocked;
    pid_t pid = held_for(1500);
    uint64_t begun = time_monotonic_ns();
    sigemptyset(&blocked);
    sigaddset(&blocked, number[_i]);
    if (_i == 2) {
        ck_assert_int_eq(sigaction(SIGALRM, &(struct sigaction){.sa_handler = caught}, NULL), 0);
        /* again and again: the first may come before the wait has begun */
        ck_assert_int_eq(ualarm(200000, 200000), 0);
    } else {
        ck_assert_int_eq(sigprocmask(SIG_BLOCK, &blocked, NULL), 0);
        ck_assert_int_eq(raise(number[_i]), 0);
    }
    int fd = lockfile_take(folder, 60000), saved = errno;
    if (_i == 2)
        (void)ualarm(0, 0);
    ck_assert_int_eq(fd >= 0, _i == 3);
    ck_assert(_i == 3 || (saved == EINTR && time_monotonic_ns() - begun < 1400000000u));
    ended(pid);
}
END_TEST

/* The error names the program that holds the folder, and what to do; a wait that succeeds leaves no
 * error. */
START_TEST(a_daemon_is_told_who_has_its_folder)
{
    struct err e = {0};
    int fd;
    pid_t pid = held_for(1000);
    ck_assert_int_eq(lockfile_take_data(folder, 0, "shoal-x", &fd, &e), SHOAL_E_CANTCREATE);
    ck_assert_int_eq(fd, -1);
    ck_assert_ptr_nonnull(strstr(e.text, "in use by another shoal-x; stop it"));
    ck_assert_int_eq(lockfile_take_data("/dev/null", 0, "shoal-x", &fd, &e), SHOAL_E_CANTCREATE);
    ck_assert_ptr_nonnull(strstr(e.text, "/dev/null/lock"));
    ck_assert_int_eq(lockfile_take_data(folder, 60000, "shoal-x", &fd, &e), 0);
    ended(pid);
    close(fd);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("lockfile");
    TCase *t = tcase_create("folder");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_at_a_time_has_it);
    tcase_add_test(t, where_no_lock_can_be_it_is_said);
    tcase_add_test(t, the_end_of_who_has_it_is_waited_for);
    tcase_add_test(t, who_stays_is_waited_for_no_longer_than_asked);
    tcase_add_loop_test(t, a_signal_ends_the_waiting, 0, 4);
    tcase_add_test(t, a_daemon_is_told_who_has_its_folder);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
