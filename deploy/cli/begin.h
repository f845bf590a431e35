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
};

/* Options resume and start-from of the line, else the job's keys. WHERE is a checkpoint's folder,
 * on another machine too when it begins with '/', or the folder of a run: of that the newest
 * checkpoint, for start_from the one of its end. USAGE (both at once), NOINPUT, CONFIG; what
 * job_load says. */
int begin_take(const struct option_line *o, const char *job_path, const struct string_list *set,
               struct begin *out, struct err *e);
/* One that is named. */
int begin_find(const char *where, bool start, struct begin *out, struct err *e);

#endif
