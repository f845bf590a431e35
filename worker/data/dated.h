/* dated.h: event times that stand in names of files and objects (data.partition). Any thread. */
#ifndef WORKER_DATA_DATED_H
#define WORKER_DATA_DATED_H

#include "worker/data/feature.h"
#include "worker/data/source.h"

/* Whether all names (up to a tab, of an object's line) match data.partition; 0 too where the job
 * has none, or its files have times of their own. CONFIG, which names the first that does not. */
int dated_check(const struct job *job, const struct string_list *names, struct err *e);
/* f->span: those of the source's files. Likewise; NOMEM. CONFIG too: event files that have no
 * times, of a job that counts on names. */
int dated_take(const struct job *job, const struct source *s, struct features *f, struct err *e);

#endif
