/* hold.h: a lock on a folder that only one shoal command at a time may write: a run's, a sweep's, a
 * bench's. */
#ifndef DEPLOY_CLI_HOLD_H
#define DEPLOY_CLI_HOLD_H

#include "proto/base/err.h"

#include <stdint.h>

enum { HOLD_WAIT_MS = 5000 }; /* a wait for a command that may just be ending */

/* Locks an existing folder (lockfile.h) until this process ends, or until *fd is closed (fd not
 * NULL). CANTCREATE: another process has held it for wait_ms, or it cannot be locked. STOPPED. */
int hold_take(const char *dir, uint32_t wait_ms, int *fd, struct err *e);

#endif
