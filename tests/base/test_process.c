/* test_process.c: the environment of a started program, the report of its end, and which process
 * outlives another. */
#include "proto/base/file.h"
#include "proto/base/process.h"
#include "proto/base/time.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct process_options piped = {.in = PROCESS_NULL, .out = PROCESS_PIPE};

/* Starts /bin/sh -c words. */
static struct process sh(const char *words, const struct process_options *o)
{
    const char *const argv[] = {"/bin/sh", "-c", words, NULL};
    struct process p;
    struct err e = {0};
    ck_assert_msg(process_start(&p, argv, o, &e) == 0, "%s", e.text);
    return p;
}

/* Reads the pipe up to its end, as a string. */
static size_t told(struct process *p, char *out, size_t room)
{
    size_t bytes = 0;
    ssize_t n;
    while ((n = read(p->out, out + bytes, room - 1 - bytes)) > 0)
        bytes += (size_t)n;
    ck_assert_int_eq(n, 0);
    out[bytes] = 0;
    process_close_out(p);
    return bytes;
}

static struct process_end polled(struct process *p)
{
    struct process_end end;
    for (int ms = 0; !process_poll(p, &end); ms++) {
        ck_assert_int_lt(ms, 10000);
        usleep(1000);
    }
    return end;
}

/* The pipe stays open as long as a process can write to it, and ends when the last one is gone. */
static void ends_soon(int fd)
{
    char byte;
    alarm(10);
    ck_assert_int_eq(read(fd, &byte, 1), 0);
    alarm(0);
}

static int open_descriptors(void)
{
    struct file_walk w;
    int count = 0;
    ck_assert(file_walk_open(&w, "/proc/self/fd"));
    while (file_walk_next(&w) != NULL)
        count++;
    file_walk_close(&w);
    return count;
}

START_TEST(what_cannot_run_is_named)
{
    static const char *const missing[] = {"/nowhere/at-all", "no-such-program-of-ours"};
    int before = open_descriptors();
    for (size_t i = 0; i < 2; i++) {
        const char *const argv[] = {missing[i], NULL};
        char want[128];
        struct process p;
        struct err e = {0};
        ck_assert_int_eq(process_start(&p, argv, &piped, &e), SHOAL_E_UNAVAILABLE);
        ck_assert_int_eq(errno, ENOENT);
        snprintf(want, sizeof want, "%s: cannot run it: No such file or directory", missing[i]);
        ck_assert_str_eq(e.text, want);
        ck_assert_int_eq(p.pid, 0);
        ck_assert_int_eq(p.out, -1);
    }
    const char *const folder[] = {"/tmp", NULL};
    struct process p;
    struct err e = {0};
    ck_assert_int_ne(process_start(&p, folder, &piped, &e), 0);
    ck_assert_int_eq(errno, EACCES);
    /* no descriptor and no child is left */
    ck_assert_int_eq(open_descriptors(), before);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
}
END_TEST

START_TEST(it_is_found_along_the_path)
{
    const char *const argv[] = {"true", NULL};
    struct process p;
    struct err e = {0};
    ck_assert_int_eq(process_start(&p, argv, &piped, &e), 0);
    ck_assert_int_eq(process_wait(&p).code, 0);
    process_close_out(&p);
}
END_TEST

START_TEST(an_exit_and_a_signal_are_told_apart)
{
    struct process p = sh("exit 137", &piped);
    struct process_end end = process_wait(&p);
    process_close_out(&p);
    ck_assert_int_eq(end.code, 137);
    ck_assert_int_eq(end.signal, 0);
    p = sh("kill -9 $$", &piped);
    end = polled(&p);
    process_close_out(&p);
    ck_assert_int_eq(end.signal, SIGKILL);
    ck_assert_int_eq(process_exit_status(&end), 137);
    ck_assert(!process_poll(&p, &end)); /* once for each end */
}
END_TEST

START_TEST(the_pipe_is_read_to_its_end)
{
    static char out[300001];
    struct process p = sh("head -c 300000 /dev/zero | tr '\\0' x", &piped);
    ck_assert_uint_eq(told(&p, out, sizeof out), 300000);
    ck_assert_uint_eq(strspn(out, "x"), 300000);
    ck_assert_int_eq(process_wait(&p).code, 0);
}
END_TEST

START_TEST(streams_go_where_they_are_sent)
{
    char path[] = "/tmp/shoal-process-XXXXXX", out[64];
    int fd = file_temporary(path);
    ck_assert_int_gt(fd, 2);
    struct process_options o = {.in = PROCESS_NULL, .out = fd, .err = fd};
    struct process p = sh("cat; echo out; echo err >&2", &o);
    ck_assert_int_eq(process_wait(&p).code, 0);
    ssize_t n = pread(fd, out, sizeof out - 1, 0);
    ck_assert_int_eq(n, 8);
    ck_assert(memcmp(out, "out\nerr\n", 8) == 0);
    close(fd);
    ck_assert_int_eq(file_unlink(path), 0);
}
END_TEST

/* Two starts at once must not give a child the other's pipe, which would keep that from ending. */
START_TEST(no_descriptor_of_ours_is_in_the_child)
{
    char path[] = "/tmp/shoal-process-XXXXXX", out[8192], plain[8192];
    struct process p = sh("ls -l /proc/self/fd | wc -l", &piped);
    told(&p, plain, sizeof plain);
    (void)process_wait(&p);
    int fd = file_temporary(path);
    struct process other = sh("sleep 30", &piped);
    p = sh("ls -l /proc/self/fd | wc -l", &piped);
    told(&p, out, sizeof out);
    (void)process_wait(&p);
    ck_assert_str_eq(out, plain);
    process_signal(&other, SIGKILL);
    (void)process_wait(&other);
    process_close_out(&other);
    close(fd);
    ck_assert_int_eq(file_unlink(path), 0);
}
END_TEST

static void handler(int signo)
{
    (void)signo;
}

/* Returns a mask of /proc/self/status: "SigBlk:\t0000000000000000". */
static unsigned long long mask_of(const char *status, const char *name)
{
    const char *line = strstr(status, name);
    ck_assert_ptr_nonnull(line);
    return strtoull(line + strlen(name), NULL, 16);
}

START_TEST(signals_are_as_in_a_fresh_program)
{
    char out[16384];
    sigset_t some, before, after;
    sigemptyset(&some);
    sigaddset(&some, SIGTERM);
    sigaddset(&some, SIGUSR1);
    ck_assert_int_eq(pthread_sigmask(SIG_BLOCK, &some, &before), 0);
    signal(SIGUSR2, handler);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    const char *const argv[] = {"/bin/cat", "/proc/self/status", NULL};
    struct process p;
    struct err e = {0};
    ck_assert_int_eq(process_start(&p, argv, &piped, &e), 0);
    told(&p, out, sizeof out);
    (void)process_wait(&p);
    ck_assert_uint_eq(mask_of(out, "SigBlk:"), 0);
    ck_assert_uint_eq(mask_of(out, "SigIgn:") & 1ull << (SIGPIPE - 1), 0);
    ck_assert_uint_ne(mask_of(out, "SigIgn:") & 1ull << (SIGHUP - 1), 0); /* nohup */
    /* ours are unchanged */
    ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    ck_assert(sigismember(&after, SIGUSR1) && !sigismember(&after, SIGINT));
    struct sigaction action;
    ck_assert_int_eq(sigaction(SIGUSR2, NULL, &action), 0);
    ck_assert(action.sa_handler == handler);
}
END_TEST

/* A publish command that could reset the coordinator's watchdog would keep a hung one alive. */
START_TEST(what_systemd_tells_us_is_not_handed_on)
{
    char out[65536];
    const char *const argv[] = {"env", NULL};
    struct process p;
    struct err e = {0};
    ck_assert(setenv("NOTIFY_SOCKET", "/run/x", 1) == 0 && setenv("WATCHDOG_USEC", "1", 1) == 0 &&
              setenv("WATCHDOG_PID", "1", 1) == 0 && setenv("NOTIFY_SOCKETS", "mine", 1) == 0);
    ck_assert_int_eq(process_start(&p, argv, &piped, &e), 0);
    told(&p, out, sizeof out);
    (void)process_wait(&p);
    ck_assert_ptr_null(strstr(out, "NOTIFY_SOCKET="));
    ck_assert_ptr_null(strstr(out, "WATCHDOG_"));
    ck_assert_ptr_nonnull(strstr(out, "NOTIFY_SOCKETS=mine"));
    ck_assert_ptr_nonnull(strstr(out, "PATH="));
    ck_assert_str_eq(getenv("NOTIFY_SOCKET"), "/run/x"); /* ours is unchanged */
}
END_TEST

START_TEST(the_group_goes_with_it)
{
    char ready[8];
    struct process_options o = {.in = PROCESS_NULL, .out = PROCESS_PIPE, .group = true};
    /* the grandchild ignores TERM, and holds the pipe open */
    struct process p = sh("(trap '' TERM; echo; while :; do sleep 1; done) & wait", &o);
    ck_assert_int_eq(getpgid(p.pid), p.pid);
    ck_assert_int_eq(read(p.out, ready, 1), 1);
    process_stop_group(&p, SIGTERM);
    ck_assert_int_eq(polled(&p).signal, SIGTERM);
    ends_soon(p.out);
    process_close_out(&p);
}
END_TEST

/* A parent that is killed cannot end the child itself. */
START_TEST(it_dies_with_its_parent_where_asked)
{
    struct process_options o = {.in = PROCESS_NULL, .death_signal = SIGTERM};
    int ends[2];
    char byte;
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    o.out = ends[1];
    pid_t parent = fork();
    if (parent == 0) {
        (void)sh("echo; exec sleep 30", &o);
        pause();
        _exit(1);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &byte, 1), 1);
    ck_assert_int_eq(kill(parent, SIGKILL), 0);
    ck_assert_int_eq(waitpid(parent, NULL, 0), parent);
    ends_soon(ends[0]);
    close(ends[0]);
}
END_TEST

static void branch_work(void *context)
{
    static int own = 1;
    int *shared = context;
    own++;
    shared[0] += own; /* 2: of this copy alone */
    while (shared[1])
        pause();
}

/* What the copy writes reaches the caller through shared memory alone. */
START_TEST(a_branch_works_in_a_copy_and_is_not_waited_for_too_long)
{
    struct process p;
    struct process_end end;
    struct err e;
    int *shared =
        mmap(NULL, 2 * sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    for (int i = 1; i <= 2; i++) {
        ck_assert_int_eq(process_branch(&p, branch_work, shared, &e), 0);
        ck_assert(process_wait_until(&p, time_monotonic_ns() + UINT64_C(10000000000), &end));
        ck_assert(end.code == 0 && end.signal == 0 && p.pid == 0);
        ck_assert_int_eq(shared[0], 2 * i);
    }
    shared[1] = 1;
    ck_assert_int_eq(process_branch(&p, branch_work, shared, &e), 0);
    uint64_t begun_ns = time_monotonic_ns();
    ck_assert(!process_wait_until(&p, begun_ns + UINT64_C(50000000), &end));
    ck_assert_uint_lt(time_monotonic_ns() - begun_ns, UINT64_C(5000000000));
    process_signal(&p, SIGKILL);
    ck_assert_int_eq(process_wait(&p).signal, SIGKILL);
    munmap(shared, 2 * sizeof *shared);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("process");
    TCase *t = tcase_create("process");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, what_cannot_run_is_named);
    tcase_add_test(t, it_is_found_along_the_path);
    tcase_add_test(t, an_exit_and_a_signal_are_told_apart);
    tcase_add_test(t, the_pipe_is_read_to_its_end);
    tcase_add_test(t, streams_go_where_they_are_sent);
    tcase_add_test(t, no_descriptor_of_ours_is_in_the_child);
    tcase_add_test(t, signals_are_as_in_a_fresh_program);
    tcase_add_test(t, what_systemd_tells_us_is_not_handed_on);
    tcase_add_test(t, the_group_goes_with_it);
    tcase_add_test(t, it_dies_with_its_parent_where_asked);
    tcase_add_test(t, a_branch_works_in_a_copy_and_is_not_waited_for_too_long);
    suite_add_tcase(suite, t);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failures != 0;
}
