/* rights.h: checks the user's rights to the folder of a run, before any work.
 *
 * The rows of an ended run are read by opening its servers' stores. That takes locks and writes
 * what the journal still holds, so it needs folders that can be written: not a mount that is read
 * only, nor the run of another user. A checkpoint is only read. */
#ifndef DEPLOY_CLI_RIGHTS_H
#define DEPLOY_CLI_RIGHTS_H

#include "proto/base/err.h"

/* DENIED: the folder exists and this user may not read it. 0 for a folder that does not exist. */
int rights_read(const char *folder, struct err *e);
/* DENIED: the run, or a folder or lock in it, cannot be written; the error names a remedy.
 * CANTCREATE: the same, and another process uses the run now. */
int rights_write(const char *run, struct err *e);

#endif
