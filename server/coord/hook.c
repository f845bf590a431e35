/* hook.c: starting the publish command, and ending it. */
#include "server/coord/hook.h"
#include "proto/base/assert.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

int coord_hook_start(struct coord_hook *h, const struct string_list *words, const char *folder,
                     struct err *e)
{
    posix_spawnattr_t attributes;

    SHOAL_ASSERT(h->pid == 0 && words->count > 0);
    char **argv = calloc(words->count + 2, sizeof *argv);
    if (argv == NULL || posix_spawnattr_init(&attributes) != 0) {
        free(argv);
        return err_set(e, SHOAL_E_NOMEM, "no memory to start %s", words->item[0]);
    }
    for (size_t i = 0; i < words->count; i++)
        argv[i] = words->item[i];
    argv[words->count] = (char *)(uintptr_t)folder;
    /* A group of its own: what stops the coordinator does not cut a publication in two. */
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    h->stopped = false;
    int failed = posix_spawnp(&h->pid, argv[0], NULL, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    free(argv);
    if (failed == 0)
        return 0;
    h->pid = 0;
    return err_set(e, SHOAL_E_UNAVAILABLE,
                   "the command %s of checkpoint.publish cannot be started: %s", words->item[0],
                   strerror(failed));
}

bool coord_hook_poll(struct coord_hook *h, int *exit_status)
{
    siginfo_t info = {.si_pid = 0};
    int status = 0;

    if (h->pid == 0)
        return true;
    /* It is reaped last: until then its number, which is the group's, is nobody else's. */
    if (waitid(P_PID, (id_t)h->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0)
        return false;
    if (h->stopped && info.si_pid == h->pid)
        (void)kill(-h->pid, SIGKILL);
    pid_t got = waitpid(h->pid, &status, WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    h->pid = 0;
    *exit_status = got < 0               ? -1
                   : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                         : WEXITSTATUS(status);
    return true;
}

void coord_hook_stop(struct coord_hook *h, bool now)
{
    if (h->pid == 0)
        return;
    h->stopped = true;
    (void)kill(-h->pid, now ? SIGKILL : SIGTERM);
}
