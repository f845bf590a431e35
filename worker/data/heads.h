/* heads.h: the first lines of all text files of a job, each compared with the job's format. A file
 * of another format is named before a worker reads it, not as thousands of malformed lines.
 *
 * Streams, objects of a store and event files are not looked at, and a file that is not there is
 * source_check's to refuse. Blocks; any thread. */
#ifndef WORKER_DATA_HEADS_H
#define WORKER_DATA_HEADS_H

#include "proto/job/job.h"

/* The files of a split. DATA: names the file, what it looks like, and what to do. NOMEM. */
int heads_check(const struct job *job, uint32_t split, struct err *e);
/* Those of all splits, and data.join.clicks. */
int heads_check_all(const struct job *job, struct err *e);

#endif
