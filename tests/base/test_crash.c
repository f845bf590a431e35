/* test_crash.c: a child crashes in a way of its own; its report is read. */
#include "proto/base/crash.h"
#include "proto/base/file.h"
#include "proto/base/log.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];

static void setup(void)
{
    snprintf(dir, sizeof dir, "/tmp/shoal-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    ck_assert_int_eq(file_remove_tree(dir), 0);
}

/* The number of reports; `path` gets one of them. */
static unsigned reports(char path[400])
{
    struct file_walk w;
    const char *name;
    unsigned count = 0;
    ck_assert(file_walk_open(&w, dir));
    while ((name = file_walk_next(&w)) != NULL) {
        if (!crash_is_report(name))
            continue;
        count++;
        snprintf(path, 400, "%s/%s", dir, name);
    }
    file_walk_close(&w);
    return count;
}

static void child(void (*crash)(void), const char *err_path)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    int fd = open(err_path, O_CREAT | O_WRONLY | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(1);
    log_init("crasher");
    crash_begin("crasher");
    crash_folder(dir);
    log_info("the last words");
    crash();
    _exit(0);
}

/* Runs `crash` in a child, which must end by the signal; returns its report, to be freed. */
static char *crashed(void (*crash)(void), int signo, char **said)
{
    char path[400], err_path[100], *text;
    size_t bytes;
    int status;
    snprintf(err_path, sizeof err_path, "%s/err", dir);
    pid_t pid = fork();
    if (pid == 0)
        child(crash, err_path);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WIFSIGNALED(status), "it ended with status %d", WEXITSTATUS(status));
    ck_assert_int_eq(WTERMSIG(status), signo);
    ck_assert_uint_eq(reports(path), 1);
    ck_assert_int_eq(file_read_whole(path, 1u << 20, &text, &bytes), 0);
    ck_assert_int_eq(file_read_whole(err_path, 1u << 20, said, &bytes), 0);
    return text;
}

static void holds(const char *text, const char *part)
{
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in:\n%s", part, text);
}

static void wrong_address(void)
{
    static volatile uintptr_t where = 16;
    *(volatile int *)where = 1;
}

START_TEST(a_wrong_address_is_reported_with_the_log_and_a_backtrace)
{
    char *said, *text = crashed(wrong_address, SIGSEGV, &said);
    holds(text, "crasher has crashed: signal 11 (SIGSEGV, a wrong address), address 0x10\n");
    holds(text, "version: " SHOAL_VERSION "\nbuild id: ");
    ck_assert_ptr_null(strstr(text, "build id: unknown"));
    holds(text, "crasher: the last words\n");
    holds(text, "thread: base_test_crash\n");
    holds(text, "base_test_crash(+0x");
    holds(said, "crasher has crashed: signal 11");
    holds(said, "base_test_crash(+0x");
    holds(said, "report: /tmp/shoal-test-");
    free(said);
    free(text);
}
END_TEST

static void sent(void)
{
    (void)kill(getpid(), SIGBUS);
    (void)pause();
}

START_TEST(a_signal_from_outside_is_reported_with_its_sender)
{
    char *said, *text = crashed(sent, SIGBUS, &said);
    holds(text, "signal 7 (SIGBUS, memory that is not there), sent by process ");
    free(said);
    free(text);
}
END_TEST

START_TEST(an_abort_is_reported)
{
    char *said, *text = crashed(abort, SIGABRT, &said);
    holds(text, "(SIGABRT, a failed assertion or the watchdog)");
    free(said);
    free(text);
}
END_TEST

static volatile int depth = 1 << 30;

static void *deep_thread(void *argument)
{
    volatile char frame[4096];
    if (depth-- == 0)
        return NULL;
    if (argument != NULL) {
        (void)prctl(PR_SET_NAME, "deep");
        crash_thread();
    }
    frame[0] = 1;
    frame[4095] = frame[0];
    return deep_thread(NULL) == NULL ? (void *)(uintptr_t)frame[4095] : NULL;
}

static void deep(void)
{
    pthread_t t;
    (void)pthread_create(&t, NULL, deep_thread, dir);
    (void)pthread_join(t, NULL);
}

START_TEST(an_overflow_of_a_threads_stack_is_reported)
{
    char *said, *text = crashed(deep, SIGSEGV, &said);
    holds(text, "SIGSEGV");
    holds(text, "thread: deep\n");
    free(said);
    free(text);
}
END_TEST

static int open_hanging(const char *path, int flags, mode_t mode)
{
    (void)path;
    (void)flags;
    (void)mode;
    (void)kill(getpid(), SIGKILL); /* what the service manager does after a while */
    return -1;
}

static void on_a_disk_that_hangs(void)
{
    static const struct file_ops ops = {.open = open_hanging};
    file_ops_set(&ops);
    abort();
}

/* The watchdog ends a server whose disk hangs, and its folder is on that disk. */
START_TEST(a_disk_that_hangs_does_not_keep_the_crash_from_the_journal)
{
    char err_path[100], *said;
    size_t bytes;
    int status;
    snprintf(err_path, sizeof err_path, "%s/err", dir);
    pid_t pid = fork();
    if (pid == 0)
        child(on_a_disk_that_hangs, err_path);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    ck_assert_int_eq(file_read_whole(err_path, 1u << 20, &said, &bytes), 0);
    holds(said, "crasher has crashed: signal 6 (SIGABRT, a failed assertion or the watchdog)");
    holds(said, "thread: base_test_crash\n");
    free(said);
}
END_TEST

START_TEST(the_oldest_reports_are_removed)
{
    char path[400];
    for (int i = 0; i < 9; i++) {
        snprintf(path, sizeof path, "%s/crash-179600000%d-shoal-server-1.txt", dir, i);
        FILE *f = fopen(path, "w");
        ck_assert_ptr_nonnull(f);
        fclose(f);
    }
    snprintf(path, sizeof path, "%s/crashed.txt", dir);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fclose(f);
    crash_folder(dir);
    ck_assert_uint_eq(reports(path), CRASH_KEPT - 1);
    for (int i = 5; i < 9; i++) {
        snprintf(path, sizeof path, "%s/crash-179600000%d-shoal-server-1.txt", dir, i);
        ck_assert_int_eq(access(path, F_OK), 0);
    }
    snprintf(path, sizeof path, "%s/crashed.txt", dir);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
    if (CRASH_OFF)
        return 0;
    Suite *s = suite_create("crash");
    TCase *t = tcase_create("crash");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_wrong_address_is_reported_with_the_log_and_a_backtrace);
    tcase_add_test(t, a_signal_from_outside_is_reported_with_its_sender);
    tcase_add_test(t, an_abort_is_reported);
    tcase_add_test(t, an_overflow_of_a_threads_stack_is_reported);
    tcase_add_test(t, a_disk_that_hangs_does_not_keep_the_crash_from_the_journal);
    tcase_add_test(t, the_oldest_reports_are_removed);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
