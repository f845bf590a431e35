/* child.c: fork, exec, and waiting without blocking. */
#include "deploy/cli/child.h"
#include "proto/base/array.h"
#include "proto/base/file.h"
#include "proto/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void child_run(struct child *c, pid_t parent)
{
    char *argv[CHILD_ARGS + 1] = {0};
    int log = file_open(c->log, O_WRONLY | O_CREAT | O_APPEND, 0644);
    sigset_t none;
    /* A child must not outlive the command that started it, however that one ends. */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(69);
    setpgid(0, 0); /* Ctrl-C is for us: we end the job in good order */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (log >= 0) {
        dup2(log, STDOUT_FILENO);
        dup2(log, STDERR_FILENO);
    }
    int null = open("/dev/null", O_RDONLY);
    /* worker-0 keeps standard input: `data.train: -` */
    if (null >= 0 && strcmp(c->name, "worker-0") != 0)
        dup2(null, STDIN_FILENO);
    for (int i = 0; i < c->args; i++)
        argv[i] = c->arg[i];
    execv(argv[0], argv);
    fprintf(stderr, "%s: cannot run it: %s\n", argv[0], strerror(errno));
    _exit(70);
}

int child_start(struct child *c, struct err *e)
{
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot start %s: %s", c->name, strerror(errno));
    if (pid == 0)
        child_run(c, parent);
    c->pid = pid;
    c->started_ns = time_monotonic_ns();
    return 0;
}

bool child_ended(struct child *c)
{
    int status;
    if (c->pid == 0 || waitpid(c->pid, &status, WNOHANG) != c->pid)
        return false;
    c->pid = 0;
    c->exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    /* SIGKILL comes from outside (an operator, a test, the OOM killer): it says nothing of the
     * program. A device that fails (69, 70) takes its time to be made ready first. */
    uint64_t quick_ns = c->exit_status == 69 || c->exit_status == 70 ? 60000000000u : 2000000000u;
    bool by_itself =
        c->exit_status != 128 + SIGKILL && time_monotonic_ns() - c->started_ns < quick_ns;
    c->quick_deaths = by_itself ? c->quick_deaths + 1 : 0;
    return true;
}

void child_signal(struct child *c, int signo)
{
    if (c->pid != 0)
        kill(c->pid, signo);
}

void child_last_words(const struct child *c, char out[256])
{
    char tail[1024];
    FILE *f = fopen(c->log, "rb");
    out[0] = 0;
    if (f == NULL)
        return;
    if (fseek(f, -(long)sizeof tail, SEEK_END) != 0)
        rewind(f);
    size_t n = fread(tail, 1, sizeof tail - 1, f);
    fclose(f);
    while (n > 0 && (tail[n - 1] == '\n' || tail[n - 1] == 0))
        n--;
    tail[n] = 0;
    const char *line = strrchr(tail, '\n');
    line = line == NULL ? tail : line + 1;
    /* Level, time and program are in the log; here the sentence counts. */
    const char *sentence = strncmp(line, "error ", 6) == 0 ? strstr(line, ": ") : NULL;
    (void)snprintf(out, 256, "%.255s", sentence == NULL ? line : sentence + 2);
}

/* ---- a program asked ------------------------------------------------------------------------- */

static _Noreturn void asked_run(const char *path, const char *const argv[], int out, bool quiet)
{
    int null = open("/dev/null", O_RDWR);
    dup2(out, STDOUT_FILENO);
    if (quiet && null >= 0)
        dup2(null, STDERR_FILENO);
    execv(path, (char *const *)(uintptr_t)argv);
    if (!quiet)
        fprintf(stderr, "%s: cannot run it: %s\n", path, strerror(errno));
    _exit(70);
}

static int read_all(int fd, char **out, size_t *bytes)
{
    size_t room = 0;
    *out = NULL;
    *bytes = 0;
    for (;;) {
        if (room - *bytes < 2 && (room >= 64u << 20 || array_room(out, room, &room, 4096) != 0))
            return SHOAL_E_NOMEM;
        ssize_t n = read(fd, *out + *bytes, room - *bytes - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            (*out)[*bytes] = 0;
            return n == 0 ? 0 : SHOAL_E_IO;
        }
        *bytes += (size_t)n;
    }
}

static int code_of_exit(int exit_status)
{
    static const int code[] = {SHOAL_E_USAGE,       SHOAL_E_DATA,       SHOAL_E_NOINPUT,
                               SHOAL_E_UNAVAILABLE, SHOAL_E_CANTCREATE, SHOAL_E_IO,
                               SHOAL_E_DENIED,      SHOAL_E_CONFIG};
    for (size_t i = 0; i < sizeof code / sizeof code[0]; i++)
        if (err_exit_status(code[i]) == exit_status)
            return code[i];
    return SHOAL_E_INTERNAL;
}

int child_output(const char *const argv[], bool quiet, char **out, size_t *bytes, struct err *e)
{
    char path[LIMIT_PATH];
    int ends[2], status = 0;
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    *out = NULL;
    if (n <= 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot find where this program lies");
    path[n] = 0;
    (void)snprintf(strrchr(path, '/') + 1, 64, "%s", argv[0]);
    if (access(path, X_OK) != 0)
        return err_set(e, SHOAL_E_UNAVAILABLE,
                       "%s is not there: install or build all of Shoal's programs into one folder",
                       path);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return err_set(e, SHOAL_E_INTERNAL, "cannot run %s: %s", argv[0], strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        asked_run(path, argv, ends[1], quiet);
    close(ends[1]);
    int failed = pid < 0 ? SHOAL_E_INTERNAL : read_all(ends[0], out, bytes);
    close(ends[0]);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (failed == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    free(*out);
    *out = NULL;
    if (failed != 0)
        return err_set(e, failed, "cannot run %s: %s", argv[0], err_text(failed));
    return err_set(e, code_of_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 70),
                   "%s %s failed: it says why above", argv[0], argv[1]);
}
