/* reading.h: a checkpoint that somebody reads stays. Each reader holds a shared lock (flock) on the
 * checkpoint's manifest.json for as long as it reads; the process that removes a checkpoint takes
 * the lock for itself before it takes the name away. The lock ends with the process that holds it,
 * however that dies.
 *
 * The lock is on a file, for NFS locks files for all machines and folders for one machine alone.
 * There, a lock for itself needs a file that is open for writing, as its owner's is. */
#ifndef PROTO_JOB_READING_H
#define PROTO_JOB_READING_H

#include "proto/base/err.h"

#define READING_NONE (-1)

/* *hold is the caller's, for reading_end: READING_NONE where the file system has no locks, which is
 * logged, and after a failure. Waits for a second at most. NOINPUT: there is no checkpoint at
 * `folder`, or it has just been removed; BUSY: it is being removed; IO. */
int reading_begin(const char *folder, int *hold, struct err *e);
/* No reader is there, and none comes before reading_end. BUSY: somebody reads it; IO: there are no
 * locks. It does not wait. */
int reading_shut(const char *folder, int *hold, struct err *e);
void reading_end(int *hold); /* READING_NONE is fine */

#endif
