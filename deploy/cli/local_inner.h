/* local_inner.h: a cluster on this machine, for local.c, local_setup.c, local_watch.c and
 * local_ended.c, and for verbs that need one. */
#ifndef DEPLOY_CLI_LOCAL_INNER_H
#define DEPLOY_CLI_LOCAL_INNER_H

#include "deploy/cli/begin.h"
#include "deploy/cli/child.h"
#include "deploy/cli/cli.h"

#include <stdbool.h>
#include <stdint.h>

/* The coordinator, and the most of each kind at once; a verb that scores by a checkpoint has one
 * worker more before them, which declares the tables. */
enum { LOCAL_CHILDREN = 1 + LIMIT_LOCAL_SERVERS + 1 + LIMIT_LOCAL_WORKERS };

struct local {
    const char *job_path;
    char *again; /* owned: this line, without what names the run's folder and size */
    struct string_list *set,
        *server_set; /* the line's: keys of the job file, of each server.yaml */
    struct job job;
    char dir[512], programs[512];
    char scratch[512]; /* of a verb's own, removed at its end; empty: there is none */
    int io_threads;    /* of each worker */
    int servers, shards, workers;
    char sockets[64];      /* folder of the daemons' sockets, this user's alone; empty: none yet */
    char coordinator[128]; /* endpoint */
    struct child child[LOCAL_CHILDREN];
    int children;
    struct ask *ask;
    const char *other;       /* endpoint of a coordinator that others have started; NULL: none */
    const char *other_run;   /* its run's folder; NULL: it is a fleet's */
    uint64_t other_ns;       /* when it was asked last */
    uint64_t other_said_ns;  /* when it last answered */
    struct begin begin;      /* with what the job begins */
    const char *tensorboard; /* folder for event files; NULL: none */
    bool goes_on;            /* in the folder of a run that was broken off .. */
    bool had_failed;         /* .. after its job had failed */
    bool ended;              /* its job is done, and has no page yet */
    bool restart;            /* --no-restart: tests of what happens then */
    bool quiet;              /* how it goes is not shown */
    uint64_t last_line_ns, follow_ns;
    bool done; /* so the coordinator says of the job, whatever the status */
    bool line_open;
    bool warned;       /* of the input */
    bool input_shown;  /* its fields */
    size_t days_shown; /* of a replay */
    const char *text;  /* borrowed while it runs: the job, as it was submitted */
    int lying;         /* workers that are not started again, as the coordinator knows */
    bool named;        /* job.yaml has what the tables call fields and tensors */
    uint64_t short_ns; /* since then a server takes no pushes for lack of disk; 0: all do */
};
/* local_setup.c. From the job file to children ready to start, unless the job has ended; *text: the
 * job as it is submitted, owned by the caller, also after an error. */
int local_prepare(struct local *l, const char *run_dir, char **text, struct err *e);
/* FOLDER/NAME (NULL: FOLDER alone; under LIMIT_PATH and 64 bytes), as YAML reads it back: for a
 * configuration, or behind KEY= of --set. Returns out. */
#define LOCAL_QUOTED CONFIG_QUOTED(LIMIT_PATH + 64)
const char *local_quote(const char *folder, const char *name, char out[LOCAL_QUOTED]);
/* A key of *l's job that is such a path. NOMEM. */
int local_set_path(struct string_list *set, const char *key, const char *folder, const char *name,
                   struct err *e);
/* Whether the run of this job.yaml has that job, but for the names that its coordinator gave.
 * NOINPUT: there is none. EXISTS: it has another. */
int local_run_is(const char *path, const char *text, struct err *e);
/* Records with what the run begins, so that a run continued in the folder begins with the same. */
int local_begin_keep(const struct local *l, struct err *e);
/* In the place of one that may be there: whole or not at all. */
int local_file_replace(const char *path, const char *text, struct err *e);
/* Where Shoal's programs lie: beside this one. UNAVAILABLE. */
int local_programs_find(struct local *l, struct err *e);
/* Makes PARENT/JOB-DATE-TIME, or -2, -3 .. where one of that second is. CANTCREATE. */
int local_folder_new(const char *parent, const char *job, char path[LIMIT_PATH], struct err *e);
int local_sockets_make(struct local *l, struct err *e);
/* One more child, with its log; the caller adds its arguments. */
struct child *local_child(struct local *l, const char *program, const char *name);
void local_child_arg(struct child *c, const char *option, const char *value); /* or NULL */
/* Cores that each of the workers may keep busy. */
int local_cores_each(const struct local *l);

/* local_ended.c */
/* l->scratch, and in it l->dir for logs: a verb's own. */
int local_scratch_make(struct local *l, struct err *e);
/* keep_logs: an error names them. */
void local_scratch_remove(struct local *l, bool keep_logs);
/* Programs and scratch folder are there. The coordinator of the run in that folder: the one that
 * runs; of an ended run it and the servers are started on what it left. NOINPUT: no such run;
 * CONFIG: it left nothing. */
int local_run_open(struct local *l, const char *run, char endpoint[256], struct err *e);

/* local_watch.c. Children that die meanwhile are started again. */
/* Coordinator and servers. */
int local_start(struct local *l, struct err *e);
/* The job goes in, then the workers come: one that met a former job, ended by this coordinator,
 * would leave. */
int local_submit(struct local *l, const char *text, struct err *e);
/* Until the job is over: 0 and its outcome in *job_status, or what broke: STOPPED after
 * a signal. */
int local_follow(struct local *l, int *job_status, struct err *e);
/* Starts again what died; one that dies again and again is an error. */
int local_children_watch(struct local *l, struct err *e);
/* Until the children from `first` on have ended well; others that die meanwhile are started again.
 * Of one that fails, its own error. UNAVAILABLE: `other` is asked all the while, and has gone. */
int local_wait(struct local *l, int first, struct err *e);
/* Workers leave by themselves when the job is over; then servers, then the coordinator; what does
 * not go is killed. */
void local_stop(struct local *l);
/* After it: warnings and errors of the daemons' logs, each once, on standard error. */
void local_said(const struct local *l);
/* SIGINT and SIGTERM end what is waited for here. */
void local_signals_take(void);
/* Days of a replay that were not shown yet, a line each; `before` others come first. */
void local_days_show(struct local *l, const struct json *days, size_t before);
int local_interrupted(void); /* by which of them; 0: by none */
/* In a run's folder: why its job failed. */
#define LOCAL_FAILED_FILE "failed"
/* The job's own failure, in the coordinator's words. */
int local_job_failure(struct local *l, int job_status, struct err *e);

#endif
