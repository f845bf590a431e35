/* dated.h: event times in names of files and objects (data.partition). Any thread. */
#ifndef WORKER_DATA_DATED_H
#define WORKER_DATA_DATED_H

#include "worker/data/feature.h"
#include "worker/data/source.h"

/* Checks that all names (up to a tab, in an object's line) match data.partition. 0 as well when the
 * job has no data.partition or its files have times of their own. CONFIG, with the first name that
 * does not match. */
int dated_check(const struct job *job, const struct string_list *names, struct err *e);
/* Fills f->span with the partitions of the source's files. Errors as dated_check; NOMEM; CONFIG
 * too: event files without times in a job that relies on names. */
int dated_take(const struct job *job, const struct source *s, struct features *f, struct err *e);

#endif
