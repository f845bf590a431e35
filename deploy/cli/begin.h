/* begin.h: the start of a job: nothing, a checkpoint from which it goes on at the very batch
 * (resume), or a checkpoint whose tables alone it takes (start_from). The command line decides,
 * else the job file. */
#ifndef DEPLOY_CLI_BEGIN_H
#define DEPLOY_CLI_BEGIN_H

#include "proto/base/limits.h"
#include "proto/job/option.h"

#include <stdbool.h>

struct begin {
    char path[LIMIT_PATH]; /* absolute folder of a checkpoint; empty: nothing */
    bool start;            /* start_from */
    char word[LIMIT_PATH]; /* as the user gave it, made absolute; it may be gone by now */
};

/* A file in a run's folder: the run's start, as given and as found then. A run that is continued
 * after an interruption begins with the same, whatever has changed there since. */
#define BEGIN_FILE "begin"

/* Options resume and start-from of the line, else the job's keys. WHERE is a checkpoint's folder,
 * or the folder of a run: then its newest checkpoint counts, for start_from the one of its end. A
 * WHERE that begins with '/' may be on another machine. USAGE (both at once), NOINPUT, CONFIG; the
 * errors of job_load. run: the folder of a run that may be continued, or NULL. */
int begin_take(const struct option_line *o, const char *job_path, const struct string_list *set,
               const char *run, struct begin *out, struct err *e);
/* Reads the start of the run in that folder; false: the folder has no record of it. */
bool begin_of_run(const char *run, struct begin *out);
/* The file's text; the caller frees. NULL: no memory. */
char *begin_text(const struct begin *b);
/* Finds the checkpoint that `where` names. */
int begin_find(const char *where, bool start, struct begin *out, struct err *e);

#endif
