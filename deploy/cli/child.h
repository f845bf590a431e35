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
    char name[32];                    /* "server-0": also its log file's name */
    char arg[CHILD_ARGS][LIMIT_PATH]; /* arg[0] is the program's path */
    int args;
    const char *const *more; /* borrowed (more_count): arguments behind those */
    size_t more_count;
    char log[LIMIT_PATH];
    char out[LIMIT_PATH]; /* file of its standard output; empty: the log */
    struct process process;
    uint64_t started_ns;
    /* one after the other, within 2 s of the start (60 s with exit status 69 or 70) */
    uint32_t restarts, quick_deaths;
    bool done;       /* exited 0, or not to be started again */
    int exit_status; /* of the last end; 128 + signal when killed */
};

int child_start(struct child *c, struct err *e);
/* Looks whether it has ended (never blocks). True once per end; exit_status is then set. */
bool child_ended(struct child *c);
void child_signal(struct child *c, int signo);
/* The last line that it logged, for messages; empty when there is none. */
void child_last_words(const struct child *c, char out[ERR_TEXT_MAX]);
/* Its end as an error: of the kind that its exit status tells, with its last words. */
int child_error(const struct child *c, struct err *e);

/* Where another of Shoal's programs lies: beside this one. UNAVAILABLE: it is not there. */
int child_program(const char *name, char path[LIMIT_PATH], struct err *e);
/* Runs another of Shoal's programs (argv[0]: its name; ended by NULL) to its end and keeps what it
 * printed (*out: the caller frees; ends with a NUL, not counted). When it fails, the last line that
 * it said on standard error is the error, of the kind that its exit status tells. */
int child_output(const char *const argv[], char **out, size_t *bytes, struct err *e);
/* As child_output, but the program writes to our own streams. *status: its exit status. */
int child_stand_in(const char *const argv[], int *status, struct err *e);

#endif
