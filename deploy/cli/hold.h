/* hold.h: a folder that one shoal command at a time writes: a run's, a sweep's, a bench's. */
#ifndef DEPLOY_CLI_HOLD_H
#define DEPLOY_CLI_HOLD_H

#include "proto/base/err.h"

#include <stdint.h>

enum { HOLD_WAIT_MS = 5000 }; /* of one that may just be ending */

/* Holds the folder, which is there (lockfile.h): until this process ends, or (fd not NULL) *fd is
 * closed. CANTCREATE: another has had it for wait_ms, or it cannot be held. STOPPED. */
int hold_take(const char *dir, uint32_t wait_ms, int *fd, struct err *e);

#endif
