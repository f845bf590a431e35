/* worker_data.h: `shoal-worker data`. */
#ifndef WORKER_WORKER_DATA_H
#define WORKER_WORKER_DATA_H

#include "worker/worker_arguments.h"

/* Looks at the files, prints what they are and the proposed sections, and writes the job. Errors as
 * survey_files and survey_walk; NOT_FOUND: no label; EXISTS: the job's file is there. */
int worker_data(const struct worker_arguments *a, struct err *e);

#endif
