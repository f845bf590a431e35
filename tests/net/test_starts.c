/* test_starts.c: failed starts are counted from process to process, and reported. */
#include "proto/base/file.h"
#include "proto/base/time.h"
#include "proto/net/notify.h"
#include "proto/net/starts.h"

#include <check.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/shoal-test-starts-XXXXXX";
static struct starts s;

static void unit_begin(void)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("RUNTIME_DIRECTORY", folder, 1);
    setenv("NOTIFY_SOCKET", "@shoal-test-nobody", 1);
}

static void unit_end(void)
{
    ck_assert_int_eq(file_remove_tree(folder), 0);
}

/* A process starts, and fails with rc; 1: it gets ready and fails then; 2: it ends without a
 * message. */
static int start(int rc, const char *why)
{
    pid_t child = fork();
    int status;
    if (child == 0) {
        struct err e = {0};
        starts_begin();
        if (rc == 2)
            _exit(99);
        if (rc == 1)
            notify_ready("serving");
        if (rc == 3)
            notify_stopping();
        _exit(starts_end(err_set(&e, rc < 0 ? rc : SHOAL_E_IO, "%s", why), &e));
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Writes the count as if the first start had been that long ago. */
static void count_put(uint32_t count, uint64_t ago_ns, bool waited)
{
    char path[128], text[128];
    (void)snprintf(path, sizeof path, "%s/starts", folder);
    int bytes = snprintf(text, sizeof text, "%" PRIu32 " %" PRIu64 " %d 0 no port", count,
                         time_monotonic_ns() - ago_ns, waited);
    int fd = file_open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ck_assert_int_eq(file_write_all(fd, text, (size_t)bytes), 0);
    close(fd);
}

START_TEST(starts_that_fail_are_counted_with_their_cause)
{
    ck_assert(!starts_read(folder, &s));
    ck_assert_int_eq(start(SHOAL_E_UNAVAILABLE, "the port is in use"), 69);
    ck_assert_int_eq(start(SHOAL_E_IO, "two\nlines"), 74);
    ck_assert(starts_read(folder, &s));
    ck_assert_uint_eq(s.count, 2);
    ck_assert_str_eq(s.cause, "two");
    ck_assert_uint_le(s.since_ns, time_monotonic_ns());
    ck_assert_int_eq(start(2, ""), 99);
    ck_assert(starts_read(folder, &s));
    ck_assert_uint_eq(s.count, 3);
    ck_assert_ptr_nonnull(strstr(s.cause, "without a word"));
}
END_TEST

START_TEST(starts_end_with_the_first_that_is_good)
{
    for (int good = 1; good <= 3; good += 2) { /* ready; told to stop */
        ck_assert_int_eq(start(SHOAL_E_IO, "bad"), 74);
        ck_assert_int_eq(start(good, "later"), 74);
        ck_assert(!starts_read(folder, &s));
    }
    ck_assert_int_eq(start(SHOAL_E_IO, "bad"), 74);
    ck_assert_int_eq(start(SHOAL_E_STOPPED, "told to end"), 0);
    ck_assert(!starts_read(folder, &s));
}
END_TEST

/* A start that goes on, such as one that reads a long journal. */
static pid_t start_long(void)
{
    int line[2];
    char letter;
    ck_assert_int_eq(pipe(line), 0);
    pid_t child = fork();
    if (child == 0) {
        starts_begin();
        (void)!write(line[1], "x", 1);
        for (;;)
            pause();
    }
    ck_assert_int_eq(read(line[0], &letter, 1), 1);
    close(line[0]);
    close(line[1]);
    return child;
}

START_TEST(a_start_that_goes_on_has_not_failed)
{
    for (uint32_t failed = 0; failed < 2; failed++) {
        pid_t child = start_long();
        ck_assert_int_eq(starts_read(folder, &s), failed > 0);
        if (failed > 0) {
            ck_assert_uint_eq(s.count, failed);
            ck_assert_str_eq(s.cause, "no port");
        }
        kill(child, SIGKILL);
        ck_assert_int_eq(waitpid(child, NULL, 0), child);
        ck_assert(starts_read(folder, &s));
        ck_assert_uint_eq(s.count, failed + 1);
        ck_assert_ptr_nonnull(strstr(s.cause, "without a word"));
        starts_over();
        count_put(1, 0, false);
    }
}
END_TEST

/* True when a start waits: it lasts for seconds until SIGTERM, as from systemd, ends it. */
static bool waits(int rc)
{
    pid_t child = fork();
    int status;
    if (child == 0) {
        struct err e = {0};
        starts_begin();
        _exit(starts_end(err_set(&e, rc, "no port"), &e));
    }
    for (int i = 0; i < 20; i++, usleep(50000))
        if (waitpid(child, &status, WNOHANG) == child) {
            ck_assert(WIFEXITED(status));
            return false;
        }
    ck_assert_int_eq(kill(child, SIGTERM), 0);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    return true;
}

START_TEST(starts_wait_once_they_have_failed_for_five_minutes)
{
    count_put(200, STARTS_PATIENCE_NS / 2, false);
    ck_assert(!waits(SHOAL_E_UNAVAILABLE));
    count_put(200, 2 * STARTS_PATIENCE_NS, true);
    ck_assert(waits(SHOAL_E_UNAVAILABLE));
    ck_assert(starts_read(folder, &s));
    ck_assert_uint_eq(s.count, 201);
    ck_assert_str_eq(s.cause, "no port");
    count_put(200, 2 * STARTS_PATIENCE_NS, true);
    /* systemd does not restart these: they fail at once */
    ck_assert(!waits(SHOAL_E_CONFIG));
    ck_assert(!waits(SHOAL_E_DENIED));
    /* the process before ended by a signal and could not wait: this one waits before its start */
    count_put(200, 2 * STARTS_PATIENCE_NS, false);
    ck_assert(waits(SHOAL_E_CONFIG));
    ck_assert(starts_read(folder, &s));
    ck_assert_uint_eq(s.count, 200);
}
END_TEST

START_TEST(starts_outside_a_unit_are_not_counted)
{
    unsetenv("NOTIFY_SOCKET");
    ck_assert_int_eq(start(SHOAL_E_IO, "bad"), 74);
    ck_assert(!starts_read(folder, &s));
    count_put(200, 2 * STARTS_PATIENCE_NS, false);
    ck_assert(!waits(SHOAL_E_UNAVAILABLE));
    ck_assert(!starts_read("/nonexistent", &s));
    ck_assert(!starts_read(NULL, &s));
}
END_TEST

START_TEST(starts_file_that_is_no_such_file_counts_nothing)
{
    static const char *const texts[] = {"", "x", "3", "3 4", "0 1 0 no", "3 4 x no", "-"};
    char path[128];
    (void)snprintf(path, sizeof path, "%s/starts", folder);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        FILE *f = file_stream(path, false);
        ck_assert_ptr_nonnull(f);
        ck_assert(fputs(texts[i], f) >= 0 && fclose(f) == 0);
        ck_assert(!starts_read(folder, &s));
    }
    ck_assert_int_eq(truncate(path, 1 << 20), 0);
    ck_assert(!starts_read(folder, &s));
}
END_TEST

START_TEST(notify_pulse_is_as_old_as_the_last_ping)
{
    char path[128];
    struct stat is;
    (void)snprintf(path, sizeof path, "%s/pulse", folder);
    setenv("WATCHDOG_USEC", "30000000", 1);
    unsetenv("WATCHDOG_PID");
    notify_watchdog_ping(); /* not ready yet */
    ck_assert_int_ne(stat(path, &is), 0);
    notify_ready("serving");
    ck_assert_int_eq(stat(path, &is), 0);
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    ck_assert_int_eq(utimensat(AT_FDCWD, path, old, 0), 0);
    notify_watchdog_ping();
    ck_assert_int_eq(stat(path, &is), 0);
    ck_assert_int_gt(is.st_mtim.tv_sec, 1000);
    notify_begin(); /* the next process begins */
    ck_assert_int_ne(stat(path, &is), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("starts");
    TCase *t = tcase_create("starts");
    tcase_add_checked_fixture(t, unit_begin, unit_end);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, a_start_that_goes_on_has_not_failed);
    tcase_add_test(t, starts_that_fail_are_counted_with_their_cause);
    tcase_add_test(t, starts_end_with_the_first_that_is_good);
    tcase_add_test(t, starts_wait_once_they_have_failed_for_five_minutes);
    tcase_add_test(t, starts_outside_a_unit_are_not_counted);
    tcase_add_test(t, starts_file_that_is_no_such_file_counts_nothing);
    tcase_add_test(t, notify_pulse_is_as_old_as_the_last_ping);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
