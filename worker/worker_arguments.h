/* worker_arguments.h: the arguments of shoal-worker: its command line, completed by the job file
 * or, for `run`, by the worker's own file. All texts are borrowed from these three. */
#ifndef WORKER_WORKER_ARGUMENTS_H
#define WORKER_WORKER_ARGUMENTS_H

#include "dense/backend.h"
#include "proto/base/err.h"
#include "proto/base/limits.h"
#include "proto/http/board.h"
#include "proto/job/job.h"
#include "proto/job/live.h"
#include "proto/job/option.h"
#include "proto/job/score_format.h"
#include "worker/worker_config.h"

#include <stdbool.h>
#include <stdint.h>

struct worker_arguments {
    const char *verb, *coordinator, *keys, *config, *instance, *name, *field, *value, *made_by;
    const char *listen, *advertise;  /* worker_listen.h; "": not given */
    const char *out, *report;        /* predict */
    const char *check;               /* convert: the file to check */
    bool as_json;                    /* convert, data */
    bool check_only;                 /* the other verbs: reads the files, starts nothing */
    struct string_list *in, *column; /* eval, predict: of the command line */
    uint32_t part, parts;            /* eval, predict; 0 parts: all */
    enum score_format format;        /* predict */
    double share;                    /* count */
    uint64_t rows;                   /* data */
    const char *label, *job;         /* data; NULL: not given */
    const struct string_list *set;   /* from the command line */
    uint32_t lanes, wait_s, split, cores, io_threads;
    const char *devices; /* "0,1"; NULL: not given */
    enum backend_kind backend;
    bool backend_given, insecure, commands;
    bool stay;                           /* run */
    struct live *live;                   /* the file of run */
    const char *metrics, *metrics_token; /* where figures are served; NULL or "": nowhere */
};

/* 0; 1: help or version was printed; or an error. */
int worker_arguments_take(int argc, char **argv, struct option_line *o, struct worker_arguments *a,
                          struct err *e);
/* Takes lanes, cores and backend from the command line, else from the job file, else the defaults.
 * have_job: there is a job file, and the caller frees *job, also after an error. */
int worker_arguments_job(struct worker_arguments *a, struct job *job, bool *have_job,
                         struct err *e);
/* run: takes all settings from the worker's file c, whose path is written to `path`; both must
 * outlive the arguments. */
int worker_arguments_file(struct worker_arguments *a, char path[LIMIT_PATH],
                          struct worker_config *c, struct err *e);

/* True for verbs that only read the input, and for those that train. */
bool worker_arguments_alone(const struct worker_arguments *a);
bool worker_arguments_train(const struct worker_arguments *a);
/* The settings that concern metrics. */
struct board_options worker_arguments_board(const struct worker_arguments *a);

#endif
