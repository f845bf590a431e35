/* lockfile.h: exclusive use of a folder by one process: it holds a lock on the file `lock` in it as
 * long as it lives.
 *
 * A process may start before the previous one has ended: that one still writes its data after it
 * was told to end, and the kernel frees its memory before it releases the lock. So taking the lock
 * can wait. */
#ifndef PROTO_BASE_LOCKFILE_H
#define PROTO_BASE_LOCKFILE_H

#include "proto/base/err.h"

#include <stdint.h>

enum { LOCKFILE_WAIT_MS = 20000 }; /* a daemon waits so long for its predecessor */

/* Locks dir/lock, which it creates where it is missing. Returns the descriptor that holds the lock
 * (close() releases it; child programs do not inherit it), or -1 with errno. EWOULDBLOCK: another
 * process holds it, even after wait_ms; the wait is logged once. EINTR: the wait was ended by a
 * signal that this process catches, or by a SIGTERM or SIGINT that it has blocked. */
int lockfile_take(const char *dir, uint32_t wait_ms);
/* The same for a daemon's data_dir. program: the kind of program that may hold it, for the error.
 * STOPPED (EINTR), CANTCREATE. */
int lockfile_take_data(const char *dir, uint32_t wait_ms, const char *program, int *fd,
                       struct err *e);

#endif
