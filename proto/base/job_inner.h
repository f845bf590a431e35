/* job_inner.h: the inside of job.h, for job.c and job_table.c. */
#ifndef PROTO_BASE_JOB_INNER_H
#define PROTO_BASE_JOB_INNER_H

#include "proto/base/config.h"

/* A name of 1 to LIMIT_NAME - 1 bytes. CONFIG. */
int job_name_take(const struct config *c, const char *path, const char *fallback, char out[LIMIT_NAME], struct err *e);
/* The optimizer under `prefix`. fallback: its kind, and its lr and initial where they are not 0, as long as the job
 * names no other kind. */
struct optimizer_spec job_optimizer_take(const struct config *c, const char *prefix,
                                         const struct optimizer_spec *fallback);
/* All of tables[]; after data, since ageing needs a time. CONFIG, NOMEM. */
int job_tables_take(const struct config *c, struct job *j, struct err *e);

#endif
