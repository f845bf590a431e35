/* local_inner.h: a cluster on this machine, shared by local.c, local_setup.c, local_watch.c and
 * local_ended.c, and by other verbs that need one. */
#ifndef DEPLOY_CLI_LOCAL_INNER_H
#define DEPLOY_CLI_LOCAL_INNER_H

#include "deploy/cli/begin.h"
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"

#include <stdbool.h>
#include <stdint.h>

/* The coordinator, and the maximum of each kind of daemon. A verb that scores by a checkpoint has
 * one more worker before the others, which declares the tables. */
enum { LOCAL_CHILDREN = 1 + LIMIT_LOCAL_SERVERS + 1 + LIMIT_LOCAL_WORKERS };

struct local {
    const char *job_path;
    char *again; /* owned: this line, without the run's folder and size */
    /* --set and --server-set: keys of the job file, of each server.yaml */
    struct string_list *set, *server_set;
    struct job job;
    char dir[512], programs[512];
    char scratch[512];  /* a verb's own folder, removed at its end; empty: none */
    const char *worker; /* --worker: the command in place of shoal-worker; NULL: none */
    int io_threads;     /* for each worker */
    int servers, shards, workers;
    char sockets[64];      /* the daemons' sockets, for this user only; empty: none yet */
    char coordinator[128]; /* endpoint */
    struct child child[LOCAL_CHILDREN];
    int children;
    struct ask *ask;
    const char *other;       /* endpoint of a coordinator that another command started, or NULL */
    const char *other_run;   /* its run's folder; NULL: a fleet's coordinator */
    uint64_t other_ns;       /* when it was last asked */
    uint64_t other_said_ns;  /* when it last answered */
    struct begin begin;      /* the start of the job */
    const char *tensorboard; /* folder for event files; NULL: none */
    bool goes_on;            /* continues an interrupted run in its folder .. */
    bool had_failed;         /* .. whose job had failed */
    bool ended;              /* the job is done, but its page is missing */
    bool restart;            /* false with --no-restart: dead daemons stay dead, for tests */
    bool quiet;              /* progress is not shown */
    uint64_t last_line_ns, follow_ns;
    bool done; /* the coordinator reports the job as done, with any status */
    bool line_open;
    bool warned;       /* the input's warning was shown */
    bool input_shown;  /* the input's fields were shown */
    size_t days_shown; /* days of a replay */
    const char *text;  /* borrowed while the job runs: the job as submitted */
    int lying;         /* workers not started again, as the coordinator was told */
    bool named;        /* job.yaml has the tables' names of fields and tensors */
    uint64_t short_ns; /* since when a server refuses pushes for lack of disk; 0: none does */
};
/* local_setup.c. Reads the job file and prepares the children, unless the job has ended. *text: the
 * job as it is submitted; the caller owns it, also after an error. */
int local_prepare(struct local *l, const char *run_dir, char **text, struct err *e);
/* FOLDER/NAME (name NULL: FOLDER; under LIMIT_PATH and 64 bytes) quoted for YAML, for a
 * configuration or after KEY= of --set. Returns out. */
#define LOCAL_QUOTED CONFIG_QUOTED(LIMIT_PATH + 64)
const char *local_quote(const char *folder, const char *name, char out[LOCAL_QUOTED]);
/* Sets a key of the job to such a path. NOMEM. */
int local_set_path(struct string_list *set, const char *key, const char *folder, const char *name,
                   struct err *e);
/* 0: the run of this job.yaml has that job, apart from the names that its coordinator gave.
 * NOINPUT: there is no such file. EXISTS: it has another job. */
int local_run_is(const char *path, const char *text, struct err *e);
/* Records the start of the run, so that a run continued in the folder begins with the same. */
int local_begin_keep(const struct local *l, struct err *e);
/* Writes a file, replacing one that may exist: completely or not at all. NOMEM: text is NULL. */
int local_file_replace(const char *path, const char *text, struct err *e);
/* Finds the folder of Shoal's programs: that of this one. UNAVAILABLE. */
int local_programs_find(struct local *l, struct err *e);
/* Makes PARENT/JOB-DATE-TIME; adds -2, -3 .. when a folder of the same second exists.
 * CANTCREATE. */
int local_folder_new(const char *parent, const char *job, char path[LIMIT_PATH], struct err *e);
int local_sockets_make(struct local *l, struct err *e);
/* Adds a child with its log; the caller adds its arguments. */
struct child *local_child(struct local *l, const char *program, const char *name);
void local_child_arg(struct child *c, const char *option, const char *value); /* value: or NULL */
/* --worker goes with a job whose network is a program's, and such a job goes with --worker. path:
 * that of the job file, for messages. USAGE. */
int local_worker_check(const struct job *job, const char *path, const char *worker, struct err *e);
/* The number of cores that each worker may keep busy. */
int local_cores_each(const struct local *l);

/* local_ended.c */
/* Makes l->scratch, a verb's own folder, and l->dir in it for logs. */
int local_scratch_make(struct local *l, struct err *e);
/* keep_logs: an error names them, so they stay. */
void local_scratch_remove(struct local *l, bool keep_logs);
/* Gives the endpoint of the coordinator of the run in that folder: of the one that runs, or, for an
 * ended run, of one that is started with the servers on the run's folders. Programs and scratch
 * folder exist. NOINPUT: no such run; CONFIG: it left no rows. */
int local_run_open(struct local *l, const char *run, char endpoint[256], struct err *e);

/* local_watch.c. Children that die while these functions wait are restarted. */
/* Starts coordinator and servers. */
int local_start(struct local *l, struct err *e);
/* Submits the job and then starts the workers. A worker that came earlier might meet a former job,
 * ended by this coordinator, and would leave. */
int local_submit(struct local *l, const char *text, struct err *e);
/* Returns when the job is over: 0 with its outcome in *job_status, or an error; STOPPED after a
 * signal. */
int local_follow(struct local *l, int *job_status, struct err *e);
/* Restarts children that died; one that dies again and again is an error. */
int local_children_watch(struct local *l, struct err *e);
/* Returns when the children from `first` on have ended well; other children that die meanwhile are
 * restarted. When one of them fails, its error is returned. UNAVAILABLE: `other`, which is asked
 * all the while, has gone. */
int local_wait(struct local *l, int first, struct err *e);
/* Ends the children: workers leave by themselves when the job is over; then servers end, then the
 * coordinator. A child that does not end is killed. */
void local_stop(struct local *l);
/* After local_stop: prints warnings and errors of the daemons' logs on standard error, each
 * once. */
void local_said(const struct local *l);
/* From now on SIGINT and SIGTERM end the waits of these functions. */
void local_signals_take(void);
/* Prints the days of a replay that were not shown yet, a line each. `before` days precede the first
 * one of `days`. */
void local_days_show(struct local *l, const struct json *days, size_t before);
int local_interrupted(void); /* the signal that came; 0: none */
/* A file in a run's folder: the reason why its job failed. */
#define LOCAL_FAILED_FILE "failed"
/* The job's failure as an error, in the coordinator's words. */
int local_job_failure(struct local *l, int job_status, struct err *e);

#endif
