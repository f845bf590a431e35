/* begin.h: what a job begins with: nothing, a checkpoint that it goes on from at the very batch
 * (resume), or the tables of one (start_from). As the command line says it, else the job file. */
#ifndef DEPLOY_CLI_BEGIN_H
#define DEPLOY_CLI_BEGIN_H

#include "proto/base/limits.h"
#include "proto/job/option.h"

#include <stdbool.h>

struct begin {
    char path[LIMIT_PATH]; /* absolute folder of a checkpoint; empty: nothing */
    bool start;            /* start_from */
    char word[LIMIT_PATH]; /* as it was given, absolute: it may be gone by now */
};

/* In a run's folder: with what it began, as given and as found then. A run that was broken off goes
 * on with that, whatever has come or gone there since. */
#define BEGIN_FILE "begin"

/* Options resume and start-from of the line, else the job's keys. WHERE is a checkpoint's folder,
 * on another machine too when it begins with '/', or the folder of a run: of that the newest
 * checkpoint, for start_from the one of its end. USAGE (both at once), NOINPUT, CONFIG; what
 * job_load says. run: the folder of a run that may go on, or NULL. */
int begin_take(const struct option_line *o, const char *job_path, const struct string_list *set,
               const char *run, struct begin *out, struct err *e);
/* Reads with what the run in that folder began; false: the folder does not say. */
bool begin_of_run(const char *run, struct begin *out);
/* The file's text; the caller frees. NULL: no memory. */
char *begin_text(const struct begin *b);
/* One that is named. */
int begin_find(const char *where, bool start, struct begin *out, struct err *e);

#endif
