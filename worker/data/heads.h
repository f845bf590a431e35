/* heads.h: compares the first lines of all text files of a job with the job's format, so that a
 * file of another format is reported before training rather than as thousands of malformed lines.
 *
 * Streams, objects of a store and event files are skipped. source_check reports missing files.
 * Blocks; any thread. */
#ifndef WORKER_DATA_HEADS_H
#define WORKER_DATA_HEADS_H

#include "proto/job/job.h"

/* Checks the files of a split. DATA, with the file, its probable format and the remedy. NOMEM. */
int heads_check(const struct job *job, uint32_t split, struct err *e);
/* Checks the files of all splits and of data.join.clicks. */
int heads_check_all(const struct job *job, struct err *e);

#endif
