/* process.h: starts, watches and ends other programs, which no other file does.
 *
 * A start is a vfork: a program that holds hundreds of gigabytes must not copy its page tables to
 * run `gzip`. The C library's spawn functions also avoid that, but cannot set a death signal.
 * Between vfork and exec only system calls are made, with every signal blocked, so any thread may
 * start a process. A pipe that exec closes reports why exec failed. Shared memory would not do: the
 * thread sanitizer turns vfork into fork.
 *
 * The child has an empty signal mask and no handlers. An ignored signal stays ignored (nohup),
 * except SIGPIPE, which our programs ignore for themselves. The child inherits descriptors without
 * O_CLOEXEC. We open none like that, but those from our own caller (`data.train: /dev/fd/63`) reach
 * it. */
#ifndef PROTO_BASE_PROCESS_H
#define PROTO_BASE_PROCESS_H

#include "proto/base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A standard stream of the child: a descriptor above 0 (which the caller keeps), or one of
 * these. */
enum {
    PROCESS_INHERIT = 0, /* the caller's own */
    PROCESS_NULL = -1,   /* /dev/null */
    PROCESS_PIPE = -2    /* only for `out`: the caller reads it from process.out */
};

struct process_options {
    const char *program; /* NULL: argv[0]. Searched in PATH when it has no '/'. */
    int in, out, err;
    bool group; /* a process group of its own, which the terminal's Ctrl-C does not reach */
    /* sent to the child when the thread that started it ends, for any reason; 0: none */
    int death_signal;
};

struct process {
    pid_t pid; /* 0: not running */
    int out;   /* owned; -1: no pipe */
    bool group, group_stopped;
};

/* How a process ended. */
struct process_end {
    int code;   /* exit status; -1: not known, another part of the program has waited for it */
    int signal; /* the signal that killed it; 0: it exited */
};

/* argv ends with NULL. No shell is involved unless argv names one. An error (UNAVAILABLE, NOMEM)
 * says which program cannot be run and why, and sets errno; p->pid is then 0 and there is no
 * pipe. */
int process_start(struct process *p, const char *const argv[], const struct process_options *o,
                  struct err *e);

/* Calls `work` in a copy of this process (fork), which then ends with status 0 and flushes nothing:
 * what it says lies in memory that both share (mmap). Its standard streams are /dev/null: a reader
 * of the caller's output does not wait for a copy that hangs in the kernel. It is killed when the
 * caller's thread ends. For a small program of one thread. NOMEM. */
int process_branch(struct process *p, void (*work)(void *context), void *context, struct err *e);

/* True when the process has ended, once per end; never blocks. */
bool process_poll(struct process *p, struct process_end *end);
/* Waits for the end of the process. */
struct process_end process_wait(struct process *p);
/* The same until deadline_ns (time_monotonic_ns). False: the process still runs. */
bool process_wait_until(struct process *p, uint64_t deadline_ns, struct process_end *end);
/* The exit status as a shell reports it; after a signal, 128 + the signal. */
int process_exit_status(const struct process_end *end);

/* The functions below do nothing when the process does not run. */
void process_signal(struct process *p, int signo);
/* Sends a signal to the whole process group (options.group). When the process has ended, SIGKILL
 * ends the rest of the group. */
void process_stop_group(struct process *p, int signo);
/* Closes the pipe: no process reads the child's output any more. */
void process_close_out(struct process *p);

#endif
