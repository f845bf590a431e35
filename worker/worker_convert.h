/* worker_convert.h: `shoal-worker convert`. */
#ifndef WORKER_WORKER_CONVERT_H
#define WORKER_WORKER_CONVERT_H

#include "proto/base/err.h"
#include "proto/job/job.h"

/* Writes the split to the event file `out`, shows progress if standard error is a terminal, and
 * prints a summary. Errors as convert_split. */
int worker_convert(const struct job *job, uint32_t split, const char *out, bool as_json,
                   struct err *e);
/* Checks an event file and prints a summary. Errors as convert_check. */
int worker_convert_check(const char *path, bool as_json, struct err *e);

#endif
