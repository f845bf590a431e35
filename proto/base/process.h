/* process.h: the door to other programs: all of them are started, watched and ended here.
 *
 * A start is a vfork: a program that holds hundreds of gigabytes must not copy its page tables to
 * run `gzip`. The C library's spawn would do that too, but can set no death signal. Between vfork
 * and exec only system calls are made, with each signal blocked, so any thread may start a process.
 * A pipe that exec closes tells why there was none (and not the shared memory: the thread sanitizer
 * makes a fork of it).
 *
 * The child has an empty signal mask and no handler. What is ignored stays so (nohup), but for
 * SIGPIPE, which our programs ignore for themselves. It inherits what has no O_CLOEXEC, which is
 * nothing that we open: what our own caller handed down (`data.train: /dev/fd/63`) reaches it. */
#ifndef PROTO_BASE_PROCESS_H
#define PROTO_BASE_PROCESS_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <sys/types.h>

/* A standard stream of the child: a descriptor above 0 (it stays the caller's), or */
enum {
    PROCESS_INHERIT = 0, /* the caller's own */
    PROCESS_NULL = -1,   /* /dev/null */
    PROCESS_PIPE = -2    /* of `out` alone: the caller reads it from process.out */
};

struct process_options {
    const char *program; /* NULL: argv[0]. Without a '/' it is looked for along PATH. */
    int in, out, err;
    bool group; /* one of its own, which the terminal's Ctrl-C does not reach */
    /* sent when the thread that started it ends, however that happens; 0: none */
    int death_signal;
};

struct process {
    pid_t pid; /* 0: not running */
    int out;   /* owned; -1: no pipe */
    bool group, group_stopped;
};

/* How it ended. */
struct process_end {
    int code;   /* of its exit; -1: not known, somebody else has waited for it */
    int signal; /* that killed it; 0: it exited */
};

/* argv ends with NULL; there is no shell but where it names one. An error (UNAVAILABLE, NOMEM) says
 * which program cannot be run and why, errno too; p->pid is then 0 and there is no pipe. */
int process_start(struct process *p, const char *const argv[], const struct process_options *o,
                  struct err *e);

/* True when it has ended, once per end: never blocks. */
bool process_poll(struct process *p, struct process_end *end);
/* To its end. */
struct process_end process_wait(struct process *p);
/* As a shell counts: 128 + the signal. */
int process_exit_status(const struct process_end *end);

/* All of these do nothing to what does not run. */
void process_signal(struct process *p, int signo);
/* To its whole group (options.group), of which SIGKILL ends what is left when it has ended. */
void process_stop_group(struct process *p, int signo);
/* The pipe: the child then writes to nobody. */
void process_close_out(struct process *p);

#endif
