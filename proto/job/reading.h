/* reading.h: a checkpoint that is being read is not removed. Each reader holds a shared lock
 * (flock) on the checkpoint's manifest.json while it reads; the process that removes a checkpoint
 * takes the exclusive lock before it removes the name. A lock ends with the process that holds it,
 * however the process dies.
 *
 * The lock is on a file, for NFS locks files for all machines but folders for one machine alone. On
 * NFS an exclusive lock needs a file that is open for writing, as its owner's is. */
#ifndef PROTO_JOB_READING_H
#define PROTO_JOB_READING_H

#include "proto/base/err.h"

#define READING_NONE (-1)

/* *hold is for reading_end: READING_NONE after a failure, and where the file system has no locks,
 * which is logged. Waits for a second at most. NOINPUT: there is no checkpoint at `folder`, or it
 * has just been removed; BUSY: it is being removed; IO. */
int reading_begin(const char *folder, int *hold, struct err *e);
/* Takes the exclusive lock: the checkpoint has no reader, and gets none before reading_end. BUSY: a
 * reader holds it; IO: there are no locks. Does not wait. */
int reading_shut(const char *folder, int *hold, struct err *e);
void reading_end(int *hold); /* READING_NONE is fine */

#endif
