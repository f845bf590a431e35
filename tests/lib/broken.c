/* broken.c: runs a child, reads its output and checks its signal. */
#include "tests/lib/broken.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int run(const struct broken *b, char *said, size_t most)
{
    int ends[2], status;
    size_t at = 0;
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        dup2(ends[1], STDERR_FILENO);
        b->break_it();
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n; at + 1 < most && (n = read(ends[0], said + at, most - at - 1)) > 0;)
        at += (size_t)n;
    said[at] = '\0';
    close(ends[0]);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    return status;
}

void broken_check(const struct broken *list, size_t count)
{
    static char said[65536];
    for (size_t i = 0; i < count; i++) {
        const struct broken *b = &list[i];
        char expected[512];
        int status = run(b, said, sizeof said);
        ck_assert_msg(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
                      "%s, %u: nothing ended it before %s (status %d): %s", b->file, b->number,
                      b->expression, status, said);
        snprintf(expected, sizeof expected, "assertion failed: %s", b->expression);
        const char *named = strstr(said, b->file), *words = strstr(said, expected);
        ck_assert_msg(named != NULL && words != NULL && named < words, "%s, %u: not by %s, but: %s",
                      b->file, b->number, b->expression, said);
    }
}
