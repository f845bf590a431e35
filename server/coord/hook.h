/* hook.h: the daemon's half of checkpoint.publish: a command as a process of its own, looked
 * after without waiting. It gets the words of the job file and the checkpoint's folder as its last
 * argument, the coordinator's environment and log; a shell runs only where the words say so.
 * Thread: the coordinator's loop. */
#ifndef SERVER_COORD_HOOK_H
#define SERVER_COORD_HOOK_H

#include "proto/base/err.h"
#include "proto/job/config.h"

#include <stdbool.h>
#include <sys/types.h>

struct coord_hook {
    pid_t pid;    /* 0: none runs */
    bool stopped; /* by coord_hook_stop: nothing that it started may outlive it */
};

/* UNAVAILABLE: the program cannot be started. One at a time. */
int coord_hook_start(struct coord_hook *h, const struct string_list *words, const char *folder,
                     struct err *e);
/* Whether it has ended; then *exit_status, 128 + signal for a killed one. */
bool coord_hook_poll(struct coord_hook *h, int *exit_status);
/* TERM to it and all that it has started in its process group; now: KILL. Of one that has been
 * stopped nothing is left once coord_hook_poll has told its end: what it did not wait for is killed
 * then. None runs: nothing happens. */
void coord_hook_stop(struct coord_hook *h, bool now);

#endif
