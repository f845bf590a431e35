/* process.c: vfork and exec, fork, and waiting. */
#include "proto/base/process.h"
#include "proto/base/assert.h"
#include "proto/base/limits.h"
#include "proto/base/text.h"
#include "proto/base/time.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* All that the child needs, prepared before the vfork. */
struct start {
    const char *program;
    char *const *argv;
    const struct process_options *o;
    char **environment;
    int stream[3];
    int report; /* the end where the child writes its errno */
    pid_t parent;
};

/* ---- in the child: only system calls, because the memory is the parent's ---- */

static int streams_set(const struct start *s)
{
    int from[3];
    for (int i = 0; i < 3; i++) {
        from[i] = s->stream[i];
        if (from[i] == PROCESS_NULL)
            from[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (from[i] < 0)
            return -1;
        /* a descriptor of at least 3 is not overwritten when 0, 1 and 2 are set below */
        if (from[i] != PROCESS_INHERIT && (from[i] = fcntl(from[i], F_DUPFD_CLOEXEC, 3)) < 0)
            return -1;
    }
    for (int i = 0; i < 3; i++)
        if (from[i] != PROCESS_INHERIT && dup2(from[i], i) < 0)
            return -1;
    return 0;
}

static void signals_reset(void)
{
    struct sigaction action;
    sigset_t none;
    for (int signo = 1; signo < NSIG; signo++) {
        if (sigaction(signo, NULL, &action) != 0 || action.sa_handler == SIG_DFL ||
            (action.sa_handler == SIG_IGN && signo != SIGPIPE))
            continue;
        action.sa_handler = SIG_DFL;
        action.sa_flags = 0;
        (void)sigaction(signo, &action, NULL);
    }
    sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn __attribute__((noinline)) void child_run(const struct start *s)
{
    int report = fcntl(s->report, F_DUPFD_CLOEXEC, 3);
    if (s->o->death_signal != 0) {
        (void)prctl(PR_SET_PDEATHSIG, s->o->death_signal);
        if (getppid() != s->parent) /* the parent has ended already */
            _exit(err_exit_status(SHOAL_E_UNAVAILABLE));
    }
    if ((!s->o->group || setpgid(0, 0) == 0) && streams_set(s) == 0) {
        signals_reset();
        (void)execve(s->program, s->argv, s->environment);
    }
    int why = errno;
    (void)!write(report, &why, sizeof why);
    _exit(err_exit_status(SHOAL_E_INTERNAL));
}

/* ---- in the parent ---- */

/* Searches PATH as execvp does, but before the vfork. False: errno. */
static bool find(const char *name, char path[LIMIT_PATH])
{
    const char *at = getenv("PATH");
    int why = ENOENT;
    if (strchr(name, '/') != NULL) {
        if ((size_t)snprintf(path, LIMIT_PATH, "%s", name) < LIMIT_PATH)
            return true;
        errno = ENAMETOOLONG;
        return false;
    }
    at = text_or(at, "/bin:/usr/bin");
    while (name[0] != 0) {
        struct stat st;
        int bytes = (int)strcspn(at, ":");
        int n;
        if (bytes == 0)
            n = snprintf(path, LIMIT_PATH, "./%s", name);
        else
            n = snprintf(path, LIMIT_PATH, "%.*s/%s", bytes, at, name);
        bool there = (size_t)n < LIMIT_PATH && stat(path, &st) == 0 && S_ISREG(st.st_mode);
        if (there && access(path, X_OK) == 0)
            return true;
        if (there)
            why = EACCES;
        if (at[bytes] == '\0')
            break;
        at += bytes + 1;
    }
    errno = why;
    return false;
}

/* Our environment without the variables that systemd sets for its service alone: with them a child
 * could report in our name that all is well. The caller frees the list; NULL: ENOMEM. */
static char **environment_make(void)
{
    static const char *const own[] = {"NOTIFY_SOCKET=", "WATCHDOG_USEC=", "WATCHDOG_PID=",
                                      "LISTEN_FDS=",    "LISTEN_PID=",    "LISTEN_FDNAMES="};
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **list = malloc((count + 1) * sizeof *list);
    for (size_t i = 0; list != NULL && i < count; i++) {
        bool taken = false;
        for (size_t k = 0; k < sizeof own / sizeof own[0]; k++)
            taken |= strncmp(environ[i], own[k], strlen(own[k])) == 0;
        if (!taken)
            list[kept++] = environ[i];
    }
    if (list != NULL)
        list[kept] = NULL;
    return list;
}

/* Returns the child's process id, or -1 and errno. */
static pid_t child_make(struct start *s)
{
    int ends[2], why = 0, state = 0;
    sigset_t all, before;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    s->report = ends[1];
    s->parent = getpid();
    sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_t pid = vfork();
    if (pid == 0)
        child_run(s);
    if (pid < 0)
        why = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    ssize_t n = 0;
    while (pid > 0 && (n = read(ends[0], &why, sizeof why)) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    if (pid > 0 && n == (ssize_t)sizeof why)
        while (waitpid(pid, &state, 0) < 0 && errno == EINTR)
            ;
    errno = why;
    if (why == 0)
        return pid;
    return -1;
}

int process_start(struct process *p, const char *const argv[], const struct process_options *o,
                  struct err *e)
{
    char path[LIMIT_PATH];
    int ends[2] = {-1, -1};
    struct start s = {.program = path,
                      .argv = (char *const *)(uintptr_t)argv,
                      .o = o,
                      .environment = environment_make(),
                      .stream = {o->in, o->out, o->err}};
    const char *name = text_or(o->program, argv[0]);
    SHOAL_ASSERT(o->in != PROCESS_PIPE && o->err != PROCESS_PIPE);
    *p = (struct process){.out = -1, .group = o->group};
    bool piped = s.environment != NULL && (o->out != PROCESS_PIPE || pipe2(ends, O_CLOEXEC) == 0);
    if (ends[1] >= 0)
        s.stream[STDOUT_FILENO] = ends[1];
    pid_t pid = -1;
    if (piped && find(name, path))
        pid = child_make(&s);
    int why = errno;
    free(s.environment);
    if (ends[1] >= 0)
        close(ends[1]);
    if (pid < 0) {
        if (ends[0] >= 0)
            close(ends[0]);
        int rc = err_set(e, why == ENOMEM ? SHOAL_E_NOMEM : SHOAL_E_UNAVAILABLE,
                         "%s: cannot run it: %s", name, strerror(why));
        errno = why;
        return rc;
    }
    p->pid = pid;
    p->out = ends[0];
    return 0;
}

int process_branch(struct process *p, void (*work)(void *context), void *context, struct err *e)
{
    pid_t parent = getpid(), pid = fork();
    *p = (struct process){.out = -1};
    if (pid < 0)
        return err_set(e, SHOAL_E_NOMEM, "cannot start a process: %s", strerror(errno));
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
            (void)(null >= 0 ? dup2(null, fd) : close(fd));
        if (getppid() == parent)
            work(context);
        _exit(0);
    }
    p->pid = pid;
    return 0;
}

static bool reap(struct process *p, int flags, struct process_end *end)
{
    int state = 0;
    SHOAL_ASSERT(p->pid > 1); /* -1 is everybody's group */
    pid_t got = waitpid(p->pid, &state, flags);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    SHOAL_ASSERT(got < 0 || got == p->pid);
    p->pid = 0;
    if (got < 0)
        *end = (struct process_end){.code = -1};
    else if (WIFSIGNALED(state))
        *end = (struct process_end){.signal = WTERMSIG(state)};
    else
        *end = (struct process_end){.code = WEXITSTATUS(state)};
    return true;
}

bool process_poll(struct process *p, struct process_end *end)
{
    siginfo_t info = {.si_pid = 0};
    if (p->pid == 0)
        return false;
    if (p->group_stopped) {
        /* The leader is reaped last: until then its id, which is also the group's, cannot be
         * reused. */
        if (waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            info.si_pid == 0)
            return false;
        if (info.si_pid == p->pid)
            (void)kill(-p->pid, SIGKILL);
    }
    return reap(p, WNOHANG, end);
}

struct process_end process_wait(struct process *p)
{
    struct process_end end = {.code = -1};
    while (p->pid != 0 && !reap(p, 0, &end))
        ;
    return end;
}

bool process_wait_until(struct process *p, uint64_t deadline_ns, struct process_end *end)
{
    enum { LOOK_MS = 2 };
    *end = (struct process_end){.code = -1};
    while (p->pid != 0 && !reap(p, WNOHANG, end)) {
        if (time_monotonic_ns() >= deadline_ns)
            return false;
        (void)poll(NULL, 0, LOOK_MS);
    }
    return true;
}

int process_exit_status(const struct process_end *end)
{
    if (end->signal == 0)
        return end->code;
    return 128 + end->signal;
}

void process_signal(struct process *p, int signo)
{
    if (p->pid != 0)
        (void)kill(p->pid, signo);
}

void process_stop_group(struct process *p, int signo)
{
    if (p->pid == 0)
        return;
    SHOAL_ASSERT(p->group && p->pid > 1); /* -1 is everybody's group */
    p->group_stopped = true;
    (void)kill(-p->pid, signo);
}

void process_close_out(struct process *p)
{
    if (p->out >= 0)
        close(p->out);
    p->out = -1;
}
