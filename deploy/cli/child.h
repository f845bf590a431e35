/* child.h: the processes that `shoal local` starts, watches and starts again. Thread: main only. */
#ifndef DEPLOY_CLI_CHILD_H
#define DEPLOY_CLI_CHILD_H

#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/base/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CHILD_ARGS = 24 };

struct child {
    char name[32];                    /* "server-0"; also the name of its log file */
    char arg[CHILD_ARGS][LIMIT_PATH]; /* arg[0] is the program's path */
    int args;
    bool group;              /* a shell command: signals go to all of its processes */
    bool program;            /* the user's: its start may take long (import torch) */
    const char *const *more; /* borrowed (more_count): further arguments */
    size_t more_count;
    char log[LIMIT_PATH];
    char out[LIMIT_PATH]; /* file for its standard output; empty: the log */
    struct process process;
    uint64_t started_ns;
    /* quick_deaths: deaths in a row within 2 s of the start (60 s with status 69, 70 or 73, and
     * of a program of the user's) */
    uint32_t restarts, quick_deaths;
    bool done;       /* exited with 0, or is not started again */
    int exit_status; /* the last end's; 128 + signal when killed */
};

int child_start(struct child *c, struct err *e);
/* Returns true once for each end of the child and then sets exit_status. Never blocks. */
bool child_ended(struct child *c);
void child_signal(struct child *c, int signo);
/* The last line that it logged, for messages; empty: there is none. */
void child_last_words(const struct child *c, char out[ERR_TEXT_MAX]);
/* Turns its end into an error: the code follows from its exit status, the text is its last line. */
int child_error(const struct child *c, struct err *e);

/* The path of another of Shoal's programs: beside this one. UNAVAILABLE: it is not there. */
int child_program(const char *name, char path[LIMIT_PATH], struct err *e);
/* Runs another of Shoal's programs (argv[0]: its name; the list ends with NULL) to its end and
 * keeps its standard output (*out: the caller frees; ends with a NUL that is not counted). When it
 * fails, its last line on standard error is the error; the code follows from its exit status. */
int child_output(const char *const argv[], char **out, size_t *bytes, struct err *e);
/* As child_output, but the program writes to our own streams. *status: its exit status. */
int child_stand_in(const char *const argv[], int *status, struct err *e);

#endif
